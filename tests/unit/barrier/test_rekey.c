/* Rekey: which nodes follow to the new root key, which keys no longer open anything, and what an
 * attacker learns from a superseded record. */
#include "state/fake_env.h"
#include "support.h"

#include "barrier/barrier.h"
#include "barrier/ring.h"
#include "base/mem.h"

struct stored {
    struct buf seal, keyring, local_keyring, salt, superseded;
};

struct world {
    struct fake_env env;
    struct seal seal; /* that the cluster was created with */
    struct stored now;
    struct barrier *active, *standby;
};

static void keep(struct buf *to, const struct buf *from)
{
    if (from->len == 0)
        return;
    buf_clear(to);
    buf_add(to, buf_bytes(from));
}

static struct barrier_records records_of(const struct stored *s)
{
    return (struct barrier_records){.seal = buf_bytes(&s->seal),
                                    .keyring = buf_bytes(&s->keyring),
                                    .local_keyring = buf_bytes(&s->local_keyring),
                                    .salt = buf_bytes(&s->salt),
                                    .superseded = buf_bytes(&s->superseded)};
}

static void make_seal(uint8_t first, struct seal *ret_seal)
{
    const uint8_t key[SEAL_KEY_BYTES] = {first};
    assert_status(seal_shamir(bytes_of(key, sizeof key), 3, 2, ret_seal), ST_OK);
}

static int setup(void **state)
{
    static struct world w;
    struct barrier_created created;
    w = (struct world){0};
    fake_env_init(&w.env, 1);
    assert_status(crypto_init(NULL), ST_OK);
    make_seal(1, &w.seal);
    assert_status(barrier_create(&w.env.env, &w.seal, 1000, &created), ST_OK);
    keep(&w.now.seal, &created.seal);
    keep(&w.now.keyring, &created.keyring);
    keep(&w.now.local_keyring, &created.local_keyring);
    keep(&w.now.salt, &created.salt);
    barrier_created_done(&created);
    struct barrier_records records = records_of(&w.now);
    assert_status(barrier_new(&w.active), ST_OK);
    assert_status(barrier_new(&w.standby), ST_OK);
    assert_status(barrier_unseal(w.active, &w.seal, &records, NULL), ST_OK);
    assert_status(barrier_unseal(w.standby, &w.seal, &records, NULL), ST_OK);
    *state = &w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;
    struct buf *bufs[] = {&w->now.seal, &w->now.keyring, &w->now.local_keyring, &w->now.salt,
                          &w->now.superseded};
    for (size_t i = 0; i < ARRAY_LEN(bufs); i++)
        buf_done(bufs[i]);
    barrier_free(w->active);
    barrier_free(w->standby);
    seal_done(&w->seal);
    return 0;
}

/* The active node makes a new root key, which is stored. */
static void rekey(struct world *w, uint8_t first)
{
    struct barrier_rekeyed made = {0};
    struct seal seal = {0};
    make_seal(first, &seal);
    assert_status(barrier_rekey(w->active, &w->env.env, &seal, 5000, &made), ST_OK);
    keep(&w->now.seal, &made.seal);
    keep(&w->now.keyring, &made.keyring);
    keep(&w->now.local_keyring, &made.local_keyring);
    keep(&w->now.superseded, &made.superseded);
    barrier_rekeyed_done(&made);
    seal_done(&seal);
    struct barrier_records records = records_of(&w->now);
    assert_status(barrier_follow(w->active, &records), ST_OK);
}

static enum status follow(struct world *w, struct barrier *b)
{
    struct barrier_records records = records_of(&w->now);
    return barrier_follow(b, &records);
}

static enum status unseal(struct world *w, uint8_t first)
{
    struct barrier_records records = records_of(&w->now);
    struct barrier *b = NULL;
    struct seal seal = {0};
    make_seal(first, &seal);
    assert_status(barrier_new(&b), ST_OK);
    enum status st = barrier_unseal(b, &seal, &records, NULL);
    barrier_free(b);
    seal_done(&seal);
    return st;
}

/* What `by` encrypts, `for_` decrypts. */
static void assert_shares(struct world *w, struct barrier *by, struct barrier *for_,
                          struct bytes key)
{
    struct barrier_cipher *one = NULL, *other = NULL;
    uint8_t stored[5 + BARRIER_OVERHEAD], plain[5 + BARRIER_OVERHEAD];
    size_t n = 0;
    assert_status(barrier_cipher_new(by, &w->env.env, &one), ST_OK);
    assert_status(barrier_cipher_new(for_, &w->env.env, &other), ST_OK);
    assert_status(barrier_encrypt(one, key, BYTES("value"), stored), ST_OK);
    assert_status(barrier_decrypt(other, key, bytes_of(stored, sizeof stored), plain, &n), ST_OK);
    assert_bytes(bytes_of(plain, n), BYTES("value"));
    barrier_cipher_free(one);
    barrier_cipher_free(other);
}

static void a_root_key_that_is_handed_over_unseals_its_cluster_alone(void **state)
{
    struct world *w = *state;
    struct barrier_records records = records_of(&w->now);
    struct box_key receiver = {0};
    CLEANUP(buf_done) struct buf boxed = {0};
    CLEANUP(secret_done) struct secret root = {0}, wrong = {0}, part = {0};
    struct reason why = {{0}};
    struct barrier *third;
    assert_status(box_key_new(&receiver), ST_OK);
    assert_status(barrier_hand_over(w->active, receiver.public_key, BYTES("c"), &boxed), ST_OK);
    assert_status(box_open(&receiver, BYTES("c"), buf_bytes(&boxed), &root), ST_OK);
    box_key_done(&receiver);
    assert_status(barrier_new(&third), ST_OK);
    assert_status(secret_dup(secret_bytes(&root), &wrong), ST_OK);
    wrong.data[0] ^= 1;
    assert_status(barrier_unseal_root(third, &wrong, &records, &why), ST_INVALID);
    assert_status(secret_dup(bytes_of(root.data, root.len - 1), &part), ST_OK);
    assert_status(barrier_unseal_root(third, &part, &records, &why), ST_INVALID);
    const struct barrier_records none = {.restored = 0};
    assert_status(barrier_unseal_root(third, &root, &none, &why), ST_NOT_FOUND);
    assert_true(barrier_is_sealed(third));
    uint8_t refused[BOX_PUBLIC_BYTES] = {0};
    assert_status(barrier_hand_over(third, receiver.public_key, BYTES("c"), &boxed), ST_SEALED);
    assert_status(barrier_unseal_root(third, &root, &records, &why), ST_OK);
    assert_status(barrier_unseal_root(third, &root, &records, &why), ST_EXISTS);
    assert_shares(w, w->active, third, BYTES("s/x"));
    assert_shares(w, third, w->active, BYTES("l/x"));
    assert_status(barrier_hand_over(third, refused, BYTES("c"), &boxed), ST_INVALID);
    barrier_free(third);
}

static void the_old_seal_opens_nothing_and_unsealed_nodes_follow(void **state)
{
    struct world *w = *state;
    uint8_t before[BARRIER_MAC_BYTES], after[BARRIER_MAC_BYTES];
    assert_status(barrier_prove(w->active, BYTES("m"), before), ST_OK);
    rekey(w, 2);
    assert_status(barrier_prove(w->active, BYTES("m"), after), ST_OK);
    assert_memory_not_equal(before, after, sizeof before);
    assert_status(unseal(w, 1), ST_INVALID);
    assert_status(unseal(w, 2), ST_OK);
    assert_status(follow(w, w->standby), ST_OK);
    assert_status(barrier_prove(w->standby, BYTES("m"), before), ST_OK);
    assert_memory_equal(before, after, sizeof before);
    assert_shares(w, w->active, w->standby, BYTES("s/x"));
    assert_shares(w, w->standby, w->active, BYTES("l/x"));
    assert_status(follow(w, w->standby), ST_OK); /* again */
}

static void rings_change_after_it_as_before(void **state)
{
    struct world *w = *state;
    struct barrier_ring_info info;
    rekey(w, 2);
    assert_status(follow(w, w->standby), ST_OK);
    struct buf record = {0};
    assert_status(barrier_upkeep(w->active, &w->env.env, BARRIER_SHARED, 0, 6000, &record), ST_OK);
    keep(&w->now.keyring, &record);
    buf_done(&record);
    assert_status(follow(w, w->active), ST_OK); /* beside the superseded record of before */
    assert_status(follow(w, w->standby), ST_OK);
    assert_status(barrier_ring_info(w->standby, BARRIER_SHARED, &info), ST_OK);
    assert_int_equal(info.term, 2);
    assert_shares(w, w->active, w->standby, BYTES("s/x"));
}

static void uses_are_counted_on(void **state)
{
    struct world *w = *state;
    struct barrier_ring_info before, after;
    struct buf record = {0};
    assert_status(barrier_upkeep(w->active, &w->env.env, BARRIER_SHARED, 4096, 6000, &record),
                  ST_OK);
    keep(&w->now.keyring, &record);
    buf_done(&record);
    assert_status(follow(w, w->active), ST_OK);
    barrier_upkeep_done(w->active, BARRIER_SHARED, 4096);
    assert_shares(w, w->active, w->active, BYTES("s/x"));
    assert_status(barrier_ring_info(w->active, BARRIER_SHARED, &before), ST_OK);
    rekey(w, 2);
    assert_status(barrier_ring_info(w->active, BARRIER_SHARED, &after), ST_OK);
    assert_int_equal(after.uses, before.uses);
    assert_int_equal(after.unused, before.unused);
    assert_int_equal(after.unused, 4095);
}

static void who_missed_one_of_two_cannot_follow(void **state)
{
    struct world *w = *state;
    rekey(w, 2);
    rekey(w, 3);
    assert_status(follow(w, w->active), ST_OK);
    assert_status(follow(w, w->standby), ST_CORRUPT);
    assert_shares(w, w->standby, w->standby, BYTES("s/x")); /* nothing changed */
    assert_status(unseal(w, 2), ST_INVALID);
    assert_status(unseal(w, 3), ST_OK);
}

static void without_the_superseded_record_no_node_follows(void **state)
{
    struct world *w = *state;
    rekey(w, 2);
    struct buf superseded = w->now.superseded;
    w->now.superseded = (struct buf){0};
    assert_status(follow(w, w->standby), ST_CORRUPT);
    assert_status(unseal(w, 2), ST_OK); /* it is for those who are unsealed */
    w->now.superseded = superseded;
    assert_status(follow(w, w->standby), ST_OK);
}

static void a_damaged_superseded_record_is_none(void **state)
{
    struct world *w = *state;
    struct buf *h = &w->now.superseded;
    rekey(w, 2);
    for (size_t bit = 0; bit < h->len * 8; bit++) {
        h->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_status(follow(w, w->standby), ST_CORRUPT);
        h->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    size_t len = h->len;
    for (h->len = 0; h->len < len; h->len++)
        assert_status(follow(w, w->standby), ST_CORRUPT);
    assert_status(follow(w, w->standby), ST_OK);
}

static void rings_that_lost_a_key_are_not_followed(void **state)
{
    struct world *w = *state;
    struct buf record = {0};
    assert_status(barrier_upkeep(w->active, &w->env.env, BARRIER_SHARED, 0, 6000, &record), ST_OK);
    struct stored fork = w->now;
    struct barrier_records records = records_of(&fork);
    records.keyring = buf_bytes(&record);
    assert_status(barrier_follow(w->standby, &records), ST_OK); /* it knows a term more */
    buf_done(&record);
    rekey(w, 2);
    assert_status(follow(w, w->standby), ST_CORRUPT);
}

static void a_superseded_record_tells_its_time(void **state)
{
    struct world *w = *state;
    int64_t time_ms = 0;
    rekey(w, 2);
    assert_status(barrier_superseded_time(buf_bytes(&w->now.superseded), &time_ms), ST_OK);
    assert_int_equal(time_ms, 5000);
    assert_status(barrier_superseded_time(BYTES("short"), &time_ms), ST_CORRUPT);
}

static void the_same_root_key_may_be_wrapped_anew(void **state)
{
    struct world *w = *state;
    struct seal seal = {0};
    struct buf record = {0};
    make_seal(9, &seal);
    assert_status(barrier_reseal(w->active, &w->env.env, &seal, &record), ST_OK);
    keep(&w->now.seal, &record);
    buf_done(&record);
    seal_done(&seal);
    assert_status(follow(w, w->standby), ST_OK);
    assert_status(unseal(w, 1), ST_INVALID);
    assert_status(unseal(w, 9), ST_OK);
}

static void a_sealed_node_makes_none(void **state)
{
    struct world *w = *state;
    struct barrier_rekeyed made = {0};
    struct buf record = {0};
    barrier_seal(w->active);
    assert_status(barrier_rekey(w->active, &w->env.env, &w->seal, 1, &made), ST_SEALED);
    assert_status(barrier_reseal(w->active, &w->env.env, &w->seal, &record), ST_SEALED);
    buf_done(&record);
}

static void running_out_of_memory_is_told_and_harmless(void **state)
{
    struct world *w = *state;
    bool failed = true;
    for (unsigned n = 1; failed; n++) {
        struct barrier_rekeyed made = {0};
        (void)mem_fail_nth(n);
        enum status st = barrier_rekey(w->active, &w->env.env, &w->seal, 1, &made);
        failed = mem_fail_nth(0);
        assert_status(st, failed ? ST_NOMEM : ST_OK);
        barrier_rekeyed_done(&made);
        assert_true(n < 100);
    }
    rekey(w, 2);
    failed = true;
    for (unsigned n = 1; failed; n++) {
        (void)mem_fail_nth(n);
        enum status st = follow(w, w->standby);
        failed = mem_fail_nth(0);
        assert_status(st, failed ? ST_NOMEM : ST_OK);
        assert_true(n < 100);
    }
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(a_root_key_that_is_handed_over_unseals_its_cluster_alone),
        T(the_old_seal_opens_nothing_and_unsealed_nodes_follow),
        T(rings_change_after_it_as_before),
        T(uses_are_counted_on),
        T(who_missed_one_of_two_cannot_follow),
        T(without_the_superseded_record_no_node_follows),
        T(a_damaged_superseded_record_is_none),
        T(rings_that_lost_a_key_are_not_followed),
        T(a_superseded_record_tells_its_time),
        T(the_same_root_key_may_be_wrapped_anew),
        T(a_sealed_node_makes_none),
        T(running_out_of_memory_is_told_and_harmless),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
