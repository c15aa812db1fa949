/* Automatic rotation of keys, a new root key, and the paths of ceremonies that need a token. */
#include "api/api_world.h"

#include "api/seal/seal_keys.h"
#include "router/setting.h"

#define CONFIG "/v1/sys/rotate/config"
#define SAME "/v1/sys/rotate/keyring/config"
#define DAY_MS (INT64_C(24) * 60 * 60 * 1000)

static void the_settings_of_rotation_are_kept(void **ctx)
{
    (void)ctx;
    assert_body_has(request(METHOD_GET, CONFIG, NULL, 200),
                    "{\"max_operations\":2147483648,\"enabled\":true,\"interval\":0}");
    (void)request(METHOD_PUT, SAME, "{\"interval\":\"48h\"}", 204);
    assert_body_has(request(METHOD_GET, CONFIG, NULL, 200),
                    "{\"max_operations\":2147483648,\"enabled\":true,\"interval\":\"48h0m0s\"}");
    (void)request(METHOD_PUT, CONFIG, "{\"enabled\":false,\"max_operations\":1000000}", 204);
    assert_body_has(request(METHOD_GET, SAME, NULL, 200),
                    "{\"max_operations\":1000000,\"enabled\":false,\"interval\":\"48h0m0s\"}");
}

static void settings_of_rotation_out_of_range_are_refused(void **ctx)
{
    (void)ctx;
    static const char *const bad[] = {
        "{\"interval\":\"23h59m59s\"}",    "{\"interval\":1}",
        "{\"interval\":9000000000}",       "{\"max_operations\":999999}",
        "{\"max_operations\":2147483649}", "{\"max_operations\":-1}",
        "{\"enabled\":\"perhaps\"}",
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        (void)request(METHOD_PUT, CONFIG, bad[i], 400);
    assert_body_has(request(METHOD_GET, CONFIG, NULL, 200), "\"interval\":0}");
}

static void settled(struct state_commit *c, enum status st)
{
    (void)c;
    assert_status(st, ST_OK);
}

/* The term of the key ring after the duty has run, `later_ms` from the start. */
static uint32_t term_after(int64_t later_ms)
{
    struct arena arena = {0};
    struct state_txn txn;
    struct barrier_ring_info ring;
    struct state_commit commit = {.done = settled};
    assert_status(state_begin(w.state, &arena, NULL, &txn), ST_OK);
    assert_status(seal_rotate_upkeep(&txn, 1700000000000 + later_ms), ST_OK);
    if (state_staged(&txn))
        assert_status(state_commit(&txn, &commit), ST_OK);
    state_end(&txn);
    clock_run(&w.env);
    state_commit_done(&commit);
    assert_status(state_begin(w.state, &arena, NULL, &txn), ST_OK);
    assert_status(state_ring_info(&txn, &ring), ST_OK);
    state_end(&txn);
    arena_done(&arena);
    return ring.term;
}

static void a_key_is_changed_when_it_is_old_enough(void **ctx)
{
    (void)ctx;
    uint32_t first = term_after(1000 * DAY_MS); /* nothing is set */
    (void)request(METHOD_PUT, CONFIG, "{\"interval\":\"48h\"}", 204);
    assert_int_equal(term_after(2 * DAY_MS - 60 * 1000), first);
    assert_int_equal(term_after(2 * DAY_MS + 60 * 1000), first + 1);
    assert_int_equal(term_after(4 * DAY_MS), first + 1);
    (void)request(METHOD_PUT, CONFIG, "{\"enabled\":false}", 204);
    assert_int_equal(term_after(9 * DAY_MS), first + 1);
}

/* Fewer than a request may set, so that a test reaches them. */
static void a_key_is_changed_when_it_was_used_often_enough(void **ctx)
{
    (void)ctx;
    const struct seal_rotate_config rarely = {.enabled = true, .max_operations = 1000000};
    const struct seal_rotate_config often = {.enabled = true, .max_operations = 5};
    const struct seal_rotate_config *each[] = {&rarely, &often};
    uint32_t terms[2];
    for (int i = 0; i < 10; i++)
        (void)request(METHOD_PUT, "/v1/kv/a", "{\"x\":1}", 204);
    for (size_t i = 0; i < 2; i++) {
        struct arena arena = {0};
        struct state_txn txn;
        struct state_commit commit = {.done = settled};
        assert_status(state_begin(w.state, &arena, NULL, &txn), ST_OK);
        assert_status(setting_save(&txn, "root", "rotate", &seal_rotate_config_schema, each[i]),
                      ST_OK);
        assert_status(state_commit(&txn, &commit), ST_OK);
        state_end(&txn);
        clock_run(&w.env);
        state_commit_done(&commit);
        arena_done(&arena);
        terms[i] = term_after(0);
    }
    assert_int_equal(terms[1], terms[0] + 1);
}

/* Half of the ring stays for requests and for the bound of every key. */
static void the_settings_do_not_fill_the_ring(void **ctx)
{
    (void)ctx;
    uint32_t term = 0, last = 1;
    (void)request(METHOD_PUT, CONFIG, "{\"interval\":\"24h\"}", 204);
    for (int64_t days = 2; term != last; days += 2) {
        last = term;
        term = term_after(days * DAY_MS);
    }
    assert_int_equal(term, BARRIER_TERMS_MAX / 2);
    (void)request(METHOD_PUT, "/v1/sys/rotate", NULL, 204);
}

static void a_new_root_key_opens_with_the_same_seal(void **ctx)
{
    (void)ctx;
    (void)request(METHOD_PUT, "/v1/kv/a", "{\"x\":1}", 204);
    (void)request(METHOD_PUT, "/v1/sys/rotate/root", NULL, 204);
    (void)request(METHOD_PUT, "/v1/kv/b", "{\"x\":2}", 204);
    barrier_seal(w.barrier);
    assert_status(state_unseal(w.m.store, w.barrier, &w.seal, NULL), ST_OK);
    assert_body_has(request(METHOD_GET, "/v1/kv/a", NULL, 200), "{\"x\":1}");
    assert_body_has(request(METHOD_GET, "/v1/kv/b", NULL, 200), "{\"x\":2}");
    expect(as("", METHOD_PUT, "sys/rotate/root", NULL), 403, "permission denied");
}

static void the_paths_for_a_token_ask_for_one(void **ctx)
{
    (void)ctx;
    static const struct {
        enum http_method method;
        const char *path;
    } asked[] = {
        {METHOD_GET, "sys/generate-root-token/attempt"}, {METHOD_GET, "sys/rotate/root/init"},
        {METHOD_GET, "sys/rotate/recovery/init"},        {METHOD_DELETE, "sys/rotate/root/init"},
        {METHOD_GET, "sys/rotate/recovery/verify"},      {METHOD_GET, "sys/rotate/root/backup"},
    };
    for (size_t i = 0; i < ARRAY_LEN(asked); i++)
        expect(as("", asked[i].method, asked[i].path, NULL), 403, "permission denied");
    (void)expect(as(root, METHOD_GET, "sys/rotate/root/init", NULL), 400, "no key shares");
    (void)expect(as(root, METHOD_GET, "sys/rotate/root/backup", NULL), 400, "no backed-up keys");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_settings_of_rotation_are_kept),
        TEST(settings_of_rotation_out_of_range_are_refused),
        TEST(a_key_is_changed_when_it_is_old_enough),
        TEST(a_key_is_changed_when_it_was_used_often_enough),
        TEST(the_settings_do_not_fill_the_ring),
        TEST(a_new_root_key_opens_with_the_same_seal),
        TEST(the_paths_for_a_token_ask_for_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
