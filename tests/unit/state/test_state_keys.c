/* Refusals that rest on the keys of this node: they hold only while no other node has newer keys,
 * and only in the state whose keys the node has. */
#include "state/state_world.h"

static struct state_world w;

static int setup(void **ctx)
{
    (void)ctx;
    sw_open(&w);
    sw_init(&w);
    return 0;
}

static int teardown(void **ctx)
{
    (void)ctx;
    sw_close(&w);
    return 0;
}

struct confirm_result {
    struct state_confirm confirm;
    enum status st;
};

static void on_confirm(struct state_confirm *confirm, enum status st)
{
    CONTAINER_OF(confirm, struct confirm_result, confirm)->st = st;
}

static enum status confirm(struct state_txn *txn)
{
    struct confirm_result r = {.confirm.done = on_confirm, .st = ST_INTERNAL};
    state_confirm(txn, &r.confirm);
    sw_run(&w);
    state_end(txn);
    return r.st;
}

static struct bytes raw(const char *key)
{
    struct state_txn txn;
    struct state_value value;
    sw_begin(&w, &txn);
    assert_status(state_get_raw(&txn, bytes_str(key), &value), ST_OK);
    state_end(&txn);
    return value.value;
}

static void put_raw(const char *key, struct bytes value)
{
    struct state_txn txn;
    sw_begin(&w, &txn);
    assert_status(state_put_raw(&txn, bytes_str(key), value), ST_OK);
    assert_status(sw_commit(&w, &txn), ST_OK);
}

#define SEALED_FOR "s/ns/root/batch/token"

/* A ciphertext under the term that `record` begins, which this node has not applied yet. */
static void seal_elsewhere(struct bytes record, uint8_t *out, struct bytes plain)
{
    struct barrier *other = NULL;
    struct barrier_cipher *cipher = NULL;
    const struct barrier_records records = {.seal = raw(BARRIER_SEAL),
                                            .keyring = record,
                                            .local_keyring = raw(BARRIER_LOCAL_KEYRING),
                                            .salt = raw(BARRIER_SALT)};
    assert_status(barrier_new(&other), ST_OK);
    assert_status(barrier_unseal(other, &w.seal, &records, NULL), ST_OK);
    assert_status(barrier_cipher_new(other, &w.worker.env, &cipher), ST_OK);
    assert_status(barrier_encrypt(cipher, BYTES(SEALED_FOR), plain, out), ST_OK);
    barrier_cipher_free(cipher);
    barrier_free(other);
}

/* A node that was active, and was paused while another one rotated the key. */
static void a_value_of_a_term_that_came_meanwhile_conflicts(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf record = {0};
    uint8_t sealed[5 + BARRIER_OVERHEAD];
    struct state_txn txn;
    struct bytes plain;
    assert_status(barrier_upkeep(w.barrier, &w.worker.env, BARRIER_SHARED, 0, 1, &record), ST_OK);
    seal_elsewhere(buf_bytes(&record), sealed, BYTES("token"));

    sw_begin(&w, &txn);
    assert_status(state_open(&txn, BYTES(SEALED_FOR), bytes_of(sealed, sizeof sealed), &plain),
                  ST_CORRUPT);
    put_raw(BARRIER_KEYRING, buf_bytes(&record));
    assert_status(confirm(&txn), ST_CONFLICT);

    assert_status(state_follow(w.m.store, w.barrier), ST_OK);
    for (int i = 0; i < 2; i++)
        sw_put(&w, "s/other", "x"); /* the ring is renewed beside the first uses of its new term */
    sw_begin(&w, &txn);
    assert_status(state_open(&txn, BYTES(SEALED_FOR), bytes_of(sealed, sizeof sealed), &plain),
                  ST_OK);
    assert_bytes(plain, BYTES("token"));
    sealed[sizeof sealed - 1] ^= 1;
    assert_status(state_open(&txn, BYTES(SEALED_FOR), bytes_of(sealed, sizeof sealed), &plain),
                  ST_CORRUPT);
    sw_put(&w, "s/other", "y");
    assert_status(confirm(&txn), ST_OK);
}

/* The versions of a restored state may be those of the state before. */
static void a_reply_of_the_state_before_a_restore_conflicts(void **ctx)
{
    (void)ctx;
    struct state_txn txn;
    sw_begin(&w, &txn);
    assert_gets_none(&txn, "s/a");
    put_raw(STATE_RESTORED, BYTES("mark"));
    assert_status(confirm(&txn), ST_CONFLICT);
}

/* The state of `other`, under the root key of this cluster, replaces this one. Term 1 of both local
 * rings has another key. */
static void restore_local(struct state_world *other)
{
    CLEANUP(buf_done) struct buf ring = {0};
    struct state_txn theirs, txn;
    struct state_value value;
    assert_status(barrier_rewrap(other->barrier, w.barrier, &w.worker.env, &ring), ST_OK);
    sw_begin(other, &theirs);
    assert_status(state_get_raw(&theirs, BYTES("l/a"), &value), ST_OK);
    state_end(&theirs);
    sw_begin(&w, &txn);
    assert_status(state_put_raw(&txn, BYTES("l/a"), value.value), ST_OK);
    assert_status(state_put_raw(&txn, BYTES(BARRIER_LOCAL_KEYRING), buf_bytes(&ring)), ST_OK);
    assert_status(state_put_raw(&txn, BYTES(STATE_RESTORED), BYTES("mark")), ST_OK);
    assert_status(sw_commit(&w, &txn), ST_OK);
}

static void a_restored_state_is_read_with_its_own_keys(void **ctx)
{
    (void)ctx;
    static struct state_world other;
    struct state_txn before, after;
    struct state_value value;
    sw_open(&other);
    fake_env_init(&other.worker, 3); /* draws other keys */
    sw_init(&other);
    sw_put(&other, "l/a", "restored");
    sw_put(&w, "l/a", "former");

    sw_begin(&w, &before);
    restore_local(&other);
    sw_begin(&w, &after); /* no one called state_follow */
    assert_gets(&after, "l/a", "restored");
    assert_status(state_need_keys(&after), ST_OK);
    state_end(&after);

    /* not corrupt: a handler may delete what is damaged */
    assert_status(state_get(&before, BYTES("l/a"), &value), ST_BUSY);
    assert_status(state_need_keys(&before), ST_BUSY);
    state_end(&before);
    sw_close(&other);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_value_of_a_term_that_came_meanwhile_conflicts),
        T(a_reply_of_the_state_before_a_restore_conflicts),
        T(a_restored_state_is_read_with_its_own_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
