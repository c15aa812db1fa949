/* Attempts with PGP keys and the backup of their shares: what is stored, and records that are
 * damaged. tests/integration/test_pgp.py reads the messages with gpg. */
#include "base/mem.h"
#include "router/world.h"

#include "api/seal/seal_keys.h"
#include "crypto/crypto.h"

#define NOW_LATER INT64_C(31536000000) /* in a year, when the keys are valid */
#define REKEY "/v1/sys/rekey-recovery-key/"
#define BACKUP "/v1/sys/rekey/recovery-key-backup"

static const struct module *const modules[] = {&token_module, &cubbyhole_module, SYS_MODULES,
                                               &kv_module};
static struct world w;
static char share[2 * 32 + 1], root[64], holder[2048];

static void pick(const struct test_request *t, const char *before, char *out, size_t room)
{
    const char *at = strstr((const char *)t->body.data, before);
    if (at == NULL)
        fail_msg("no %s in %s", before, (const char *)t->body.data);
    at += strlen(before);
    (void)snprintf(out, room, "%.*s", (int)strcspn(at, "\""), at);
}

/* The armour of data/pgp/curve25519.asc as a string of JSON. */
static void load_holder(void)
{
    char path[512];
    size_t n = 0;
    (void)snprintf(path, sizeof path, "%s/crypto/data/pgp/curve25519.asc", UNIT_DIR);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    for (int c; (c = fgetc(file)) != EOF && n < sizeof holder - 3;) {
        if (c == '\n')
            holder[n++] = '\\';
        holder[n++] = c == '\n' ? 'n' : (char)c;
    }
    holder[n] = '\0';
    (void)fclose(file);
}

static int open_initialised(void **ctx)
{
    (void)ctx;
    assert_status(crypto_init(NULL), ST_OK);
    load_holder();
    world_open(&w, modules, ARRAY_LEN(modules));
    w.later_ms = NOW_LATER;
    struct test_request *t = world_request(&w, METHOD_PUT, "/v1/sys/init",
                                           "{\"recovery_shares\":1,\"recovery_threshold\":1}");
    assert_int_equal(t->http, 200);
    pick(t, "\"recovery_keys\":[\"", share, sizeof share);
    pick(t, "\"root_token\":\"", root, sizeof root);
    assert_status(state_unseal(w.m.store, w.barrier, &w.seal, NULL), ST_OK);
    w.node.initialized = w.node.active = true;
    w.node.sealed = false;
    return 0;
}

static int close_world(void **ctx)
{
    (void)ctx;
    world_close(&w);
    return 0;
}

static struct test_request *request(enum http_method method, const char *path, const char *body)
{
    (void)snprintf(w.token, sizeof w.token, "%s", root);
    return world_request(&w, method, path, body);
}

static void settled(struct state_commit *c, enum status st)
{
    (void)c;
    assert_status(st, ST_OK);
}

/* Read the only record below `prefix` into `ret_record`, or replace it by `replacement`. */
static void record(struct bytes prefix, struct buf *ret_record, struct bytes replacement)
{
    struct arena arena = {0};
    struct state_txn txn;
    struct state_walk walk;
    struct state_value stored;
    struct state_commit commit = {.done = settled};
    assert_status(state_begin(w.state, &arena, NULL, &txn), ST_OK);
    state_walk(&txn, prefix, &walk);
    assert_true(state_walk_next(&walk));
    if (ret_record != NULL) {
        assert_status(state_get(&txn, walk.key, &stored), ST_OK);
        buf_add(ret_record, stored.value);
    } else {
        assert_status(state_put(&txn, walk.key, replacement), ST_OK);
        assert_status(state_commit(&txn, &commit), ST_OK);
    }
    state_end(&txn);
    clock_run(&w.env);
    if (ret_record == NULL)
        state_commit_done(&commit);
    arena_done(&arena);
}

static struct test_request *begin(const char *path, const char *wishes)
{
    char body[4096];
    (void)snprintf(body, sizeof body, wishes, holder);
    struct test_request *t = request(METHOD_PUT, path, body);
    if (t->http != 200)
        fail_msg("%d %s", t->http, (const char *)t->body.data);
    return t;
}

#define FOR_HOLDER \
    "{\"secret_shares\":1,\"secret_threshold\":1,\"pgp_keys\":[\"%s\"],\"backup\":true}"

static void give_all(struct test_request *begun)
{
    char nonce[40], body[256];
    pick(begun, "\"nonce\":\"", nonce, sizeof nonce);
    (void)snprintf(body, sizeof body, "{\"key\":\"%s\",\"nonce\":\"%s\"}", share, nonce);
    struct test_request *t = request(METHOD_PUT, REKEY "update", body);
    assert_body_has(t, "\"complete\":true");
    assert_body_has(t, "\"backup\":true");
}

/* An older build reads attempts without PGP keys, and takes one with PGP keys for none. */
static void only_an_attempt_with_keys_has_the_newer_format(void **ctx)
{
    CLEANUP(buf_done) struct buf plain = {0}, with_key = {0};
    (void)ctx;
    (void)begin(REKEY "init", "{\"secret_shares\":1,\"secret_threshold\":1}");
    record(BYTES("l/ceremony/"), &plain, BYTES(""));
    assert_int_equal(plain.data[0], 1);
    assert_int_equal(request(METHOD_DELETE, REKEY "init", NULL)->http, 204);
    (void)begin(REKEY "init", FOR_HOLDER);
    record(BYTES("l/ceremony/"), &with_key, BYTES(""));
    assert_int_equal(with_key.data[0], 2);
}

static void a_record_cut_anywhere_is_no_attempt(void **ctx)
{
    CLEANUP(buf_done) struct buf whole = {0};
    (void)ctx;
    (void)begin(REKEY "init", FOR_HOLDER);
    record(BYTES("l/ceremony/"), &whole, BYTES(""));
    assert_body_has(request(METHOD_GET, REKEY "init", NULL), "\"started\":true");
    for (size_t len = 1; len < whole.len; len++) {
        record(BYTES("l/ceremony/"), NULL, bytes_of(whole.data, len));
        assert_body_has(request(METHOD_GET, REKEY "init", NULL), "\"started\":false");
    }
    record(BYTES("l/ceremony/"), NULL, buf_bytes(&whole));
    give_all(request(METHOD_GET, REKEY "init", NULL));
}

static void an_attempt_with_a_key_ends_like_any_other(void **ctx)
{
    struct arena arena = {0};
    struct state_txn txn;
    (void)ctx;
    w.token[0] = '\0';
    char body[4096];
    (void)snprintf(body, sizeof body, FOR_HOLDER, holder);
    assert_int_equal(world_request(&w, METHOD_PUT, REKEY "init", body)->http, 200);
    assert_status(state_begin(w.state, &arena, NULL, &txn), ST_OK);
    assert_status(seal_ceremony_upkeep(&txn, 1700000000000 + NOW_LATER + 1000), ST_OK);
    assert_false(state_staged(&txn));
    assert_status(seal_ceremony_upkeep(&txn, 1700000000000 + NOW_LATER + 11 * 60000), ST_OK);
    assert_true(state_staged(&txn));
    state_end(&txn);
    arena_done(&arena);
}

static void a_damaged_backup_is_told_and_can_be_deleted(void **ctx)
{
    CLEANUP(buf_done) struct buf whole = {0};
    (void)ctx;
    give_all(begin(REKEY "init", FOR_HOLDER));
    assert_body_has(request(METHOD_GET, BACKUP, NULL),
                    "\"9f23f9fb168e0c617ea9d8d70f39ecd4ba55d0d5\":[\"");
    record(BYTES("l/rekey-backup/"), &whole, BYTES(""));
    assert_null(memmem(whole.data, whole.len, share, 64));
    for (size_t len = 39; len < whole.len; len++) { /* 38: a backup of no share */
        record(BYTES("l/rekey-backup/"), NULL, bytes_of(whole.data, len));
        struct test_request *t = request(METHOD_GET, BACKUP, NULL);
        assert_int_equal(t->http, 400);
        assert_body_has(t, "cannot be read");
    }
    assert_int_equal(request(METHOD_DELETE, BACKUP, NULL)->http, 204);
    assert_body_has(request(METHOD_GET, BACKUP, NULL), "no backed-up keys found");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_initialised, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(only_an_attempt_with_keys_has_the_newer_format),
        TEST(a_record_cut_anywhere_is_no_attempt),
        TEST(an_attempt_with_a_key_ends_like_any_other),
        TEST(a_damaged_backup_is_told_and_can_be_deleted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
