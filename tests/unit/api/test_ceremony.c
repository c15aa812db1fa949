/* Attempts with key shares: shares given, deadlines, attempts that supersede others, and what is
 * stored on disk. */
#include "base/mem.h"
#include "router/world.h"

#include "api/seal/seal_keys.h"
#include "router/throttle.h"
#include "text/encode.h"

static const struct module *const modules[] = {&token_module, &cubbyhole_module, SYS_MODULES,
                                               &kv_module};
static struct world w;
static char keys[3][2 * 33 + 1]; /* of the recovery key; two of them suffice */
static char root[64];

/* The i-th string of a list in a reply. */
static void pick(const struct test_request *t, const char *before, unsigned i, char *out,
                 size_t room)
{
    const char *at = strstr((const char *)t->body.data, before);
    if (at == NULL)
        fail_msg("no %s in %s", before, (const char *)t->body.data);
    for (at += strlen(before); i > 0; i--)
        at = strchr(at, ',') + 2;
    (void)snprintf(out, room, "%.*s", (int)strcspn(at, "\""), at);
}

static int open_initialised(void **ctx)
{
    (void)ctx;
    world_open(&w, modules, ARRAY_LEN(modules));
    struct test_request *t = world_request(&w, METHOD_PUT, "/v1/sys/init",
                                           "{\"recovery_shares\":3,\"recovery_threshold\":2}");
    assert_int_equal(t->http, 200);
    for (unsigned i = 0; i < 3; i++)
        pick(t, "\"recovery_keys\":[\"", i, keys[i], sizeof keys[i]);
    pick(t, "\"root_token\":\"", 0, root, sizeof root);
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

/* Without a token; or with root's. */
static struct test_request *request(enum http_method method, const char *path, const char *body,
                                    bool known)
{
    (void)snprintf(w.token, sizeof w.token, "%s", known ? root : "");
    return world_request(&w, method, path, body);
}

#define ATTEMPT "/v1/sys/generate-root/attempt"

static void begin(char nonce[40], bool known)
{
    struct test_request *t = request(METHOD_PUT, ATTEMPT, "{}", known);
    if (t->http != 200)
        fail_msg("%d %s", t->http, (const char *)t->body.data);
    pick(t, "\"nonce\":\"", 0, nonce, 40);
}

static struct test_request *give(const char *nonce, const char *key, bool known)
{
    char body[256];
    (void)snprintf(body, sizeof body, "{\"key\":\"%s\",\"nonce\":\"%s\"}", key, nonce);
    return request(METHOD_PUT, "/v1/sys/generate-root/update", body, known);
}

static bool is_under_way(bool known)
{
    struct test_request *t = request(METHOD_GET, ATTEMPT, NULL, known);
    assert_int_equal(t->http, 200);
    return strstr((const char *)t->body.data, "\"started\":true") != NULL;
}

static void a_nobodys_attempt_ends_ten_minutes_after_its_last_share(void **ctx)
{
    (void)ctx;
    char nonce[40];
    begin(nonce, false);
    w.later_ms += 10 * 60 * 1000 - 1;
    assert_int_equal(give(nonce, keys[0], false)->http, 200);
    w.later_ms += 10 * 60 * 1000 - 1;
    assert_true(is_under_way(false));
    w.later_ms += 1;
    assert_false(is_under_way(false));
    assert_int_equal(give(nonce, keys[1], false)->http, 400);
    begin(nonce, false); /* its place is free */
    assert_body_has(give(nonce, keys[0], false), "\"progress\":1,");
}

static void one_with_a_token_waits(void **ctx)
{
    (void)ctx;
    char nonce[40];
    begin(nonce, true);
    w.later_ms += INT64_C(365) * 24 * 3600 * 1000;
    assert_true(is_under_way(true));
    assert_false(is_under_way(false));
}

static void settled(struct state_commit *c, enum status st)
{
    (void)c;
    assert_status(st, ST_OK);
}

static void run_upkeep(unsigned *ret_left)
{
    struct arena arena = {0};
    struct state_txn txn;
    struct state_walk walk;
    struct state_commit commit = {.done = settled};
    assert_status(state_begin(w.state, &arena, NULL, &txn), ST_OK);
    assert_status(seal_ceremony_upkeep(&txn, 1700000000000 + w.later_ms), ST_OK);
    if (state_staged(&txn))
        assert_status(state_commit(&txn, &commit), ST_OK);
    state_end(&txn);
    clock_run(&w.env);
    state_commit_done(&commit);
    *ret_left = 0;
    assert_status(state_begin(w.state, &arena, NULL, &txn), ST_OK);
    state_walk(&txn, BYTES("l/ceremony/"), &walk);
    while (state_walk_next(&walk))
        ++*ret_left;
    state_end(&txn);
    arena_done(&arena);
}

static void what_is_over_is_deleted_and_nothing_else(void **ctx)
{
    (void)ctx;
    char nonce[40];
    unsigned left;
    begin(nonce, false);
    begin(nonce, true);
    run_upkeep(&left);
    assert_int_equal(left, 2);
    w.later_ms += 10 * 60 * 1000;
    run_upkeep(&left);
    assert_int_equal(left, 1);
    assert_true(is_under_way(true));
}

/* A token may take part in an attempt that began without a token, and in its own beside that. */
static void a_nonce_says_which_attempt_is_meant(void **ctx)
{
    (void)ctx;
    char open[40], own[40];
    begin(open, false);
    assert_body_has(give(open, keys[0], true), "\"progress\":1,");
    begin(own, true);
    assert_body_has(give(own, keys[1], true), "\"progress\":1,");
    assert_body_has(request(METHOD_GET, ATTEMPT, NULL, true), own);
    assert_body_has(request(METHOD_GET, ATTEMPT, NULL, false), open);
    assert_int_equal(give(own, keys[1], false)->http, 400);
    assert_body_has(give(open, keys[2], true), "\"complete\":true");
    assert_body_has(give(own, keys[2], true), "\"complete\":true");
}

#define REKEY "/v1/sys/rekey-recovery-key/"

static struct test_request *rekey(const char *wishes, char nonce[40], bool known)
{
    struct test_request *t = request(METHOD_PUT, REKEY "init", wishes, known);
    char body[300];
    assert_int_equal(t->http, 200);
    pick(t, "\"nonce\":\"", 0, nonce, 40);
    for (unsigned i = 0; i < 2; i++) {
        (void)snprintf(body, sizeof body, "{\"key\":\"%s\",\"nonce\":\"%s\"}", keys[i], nonce);
        t = request(METHOD_PUT, REKEY "update", body, known);
    }
    assert_body_has(t, "\"complete\":true,\"keys\":[\"");
    return t;
}

static void so_does_the_nonce_of_a_verification(void **ctx)
{
    (void)ctx;
    char nonce[40], verify[40], fresh[2][67], body[300];
    struct test_request *t = rekey("{\"secret_shares\":2,\"secret_threshold\":2,"
                                   "\"require_verification\":true}",
                                   nonce, true);
    pick(t, "\"verification_nonce\":\"", 0, verify, sizeof verify);
    for (unsigned i = 0; i < 2; i++)
        pick(t, "\"keys\":[\"", i, fresh[i], sizeof fresh[i]);
    static const char wishes[] = "{\"secret_shares\":1,\"secret_threshold\":1}";
    assert_int_equal(request(METHOD_PUT, REKEY "init", wishes, false)->http,
                     200); /* began without a token */
    for (unsigned i = 0; i < 2; i++) {
        (void)snprintf(body, sizeof body, "{\"key\":\"%s\",\"nonce\":\"%s\"}", fresh[i], verify);
        t = request(METHOD_PUT, REKEY "verify", body, true);
        assert_body_has(t, i == 0 ? "\"progress\":1" : "\"complete\":true");
    }
}

/* Shares as many and as long as those before are others all the same. */
static void an_attempt_ends_with_the_shares_it_was_begun_under(void **ctx)
{
    (void)ctx;
    char nonce[40], other[40];
    unsigned left;
    begin(nonce, true);
    assert_body_has(give(nonce, keys[0], true), "\"progress\":1,");
    (void)rekey("{\"secret_shares\":3,\"secret_threshold\":2}", other, true);
    assert_false(is_under_way(true));
    assert_int_equal(give(nonce, keys[1], true)->http, 400);
    run_upkeep(&left);
    assert_int_equal(left, 1); /* the new shares, to be told again … */
    w.later_ms += 10 * 60 * 1000;
    run_upkeep(&left);
    assert_int_equal(left, 0); /* … for ten minutes, also to who has a token */
}

static void new_shares_supersede_what_was_given_of_the_old(void **ctx)
{
    (void)ctx;
    char nonce[40], other[40], body[300];
    unsigned left;
    begin(nonce, true);
    assert_int_equal(give(nonce, keys[0], true)->http, 200);
    struct test_request *t = request(METHOD_PUT, "/v1/sys/rekey-recovery-key/init",
                                     "{\"secret_shares\":1,\"secret_threshold\":1}", false);
    assert_int_equal(t->http, 200);
    pick(t, "\"nonce\":\"", 0, other, sizeof other);
    for (unsigned i = 0; i < 2; i++) {
        (void)snprintf(body, sizeof body, "{\"key\":\"%s\",\"nonce\":\"%s\"}", keys[i], other);
        t = request(METHOD_PUT, "/v1/sys/rekey-recovery-key/update", body, false);
        assert_int_equal(t->http, 200);
    }
    assert_body_has(t, "\"complete\":true,\"keys\":[\"");
    assert_false(is_under_way(true));
    assert_int_equal(give(nonce, keys[1], true)->http, 400);
    run_upkeep(&left);
    assert_int_equal(left, 1); /* the new shares, to be told again */
    w.later_ms += 10 * 60 * 1000;
    run_upkeep(&left);
    assert_int_equal(left, 0);
}

/* What was given is not kept once it has served, but for the last one: it asks for the reply. */
static void shares_that_have_served_are_not_kept(void **ctx)
{
    (void)ctx;
    char nonce[40], body[300];
    uint8_t share[33];
    struct arena arena = {0};
    struct state_txn txn;
    struct state_walk walk;
    struct state_value stored;
    unsigned n = 0;
    struct test_request *t = request(METHOD_PUT, "/v1/sys/rekey-recovery-key/init",
                                     "{\"secret_shares\":1,\"secret_threshold\":1}", false);
    pick(t, "\"nonce\":\"", 0, nonce, sizeof nonce);
    for (unsigned i = 0; i < 2; i++) {
        (void)snprintf(body, sizeof body, "{\"key\":\"%s\",\"nonce\":\"%s\"}", keys[i], nonce);
        t = request(METHOD_PUT, "/v1/sys/rekey-recovery-key/update", body, false);
    }
    assert_body_has(t, "\"complete\":true");
    assert_status(text_hex_parse(bytes_str(keys[0]), share), ST_OK);
    assert_status(state_begin(w.state, &arena, NULL, &txn), ST_OK);
    state_walk(&txn, BYTES("l/ceremony/"), &walk);
    for (; state_walk_next(&walk); n++) {
        assert_status(state_get(&txn, walk.key, &stored), ST_OK);
        assert_null(memmem(stored.value.data, stored.value.len, share, sizeof share));
    }
    assert_int_equal(n, 1);
    state_end(&txn);
    arena_done(&arena);
}

static void a_root_token_is_made_once(void **ctx)
{
    (void)ctx;
    char nonce[40];
    for (int known = 0; known < 2; known++) {
        begin(nonce, known != 0);
        assert_body_has(give(nonce, keys[0], known != 0), "\"progress\":1,");
        assert_body_has(give(nonce, keys[1], known != 0), "\"complete\":true");
        assert_false(is_under_way(known != 0));
        assert_body_has(give(nonce, keys[1], known != 0), "no root generation");
    }
}

static void what_is_no_share_of_this_attempt_is_refused(void **ctx)
{
    (void)ctx;
    char nonce[40], cut[67];
    begin(nonce, false);
    assert_body_has(give("00000000-0000-4000-8000-000000000000", keys[0], false), "nonce");
    assert_body_has(give(nonce, keys[0], false), "\"progress\":1,");
    assert_body_has(give(nonce, keys[0], false), "was given before");
    (void)snprintf(cut, sizeof cut, "%.64s", keys[1]);
    assert_body_has(give(nonce, cut, false), "a share of 33 bytes is expected, not one of 32");
    (void)snprintf(cut, sizeof cut, "%.62s", keys[1]);
    assert_body_has(give(nonce, cut, false), "32 or 33 bytes");
    assert_body_has(give(nonce, "", false), "must be specified");
    assert_body_has(give(nonce, keys[1], false), "\"complete\":true");
}

/* One-time passwords are as long as a token, which the server says. */
static void a_pad_is_as_long_as_a_token(void **ctx)
{
    (void)ctx;
    char body[100];
    static const int lengths[] = {27, 29, 28};
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
        int len = lengths[i];
        (void)snprintf(body, sizeof body, "{\"otp\":\"%0*d\"}", len, 0);
        struct test_request *t = request(METHOD_PUT, ATTEMPT, body, false);
        assert_int_equal(t->http, len == 28 ? 200 : 400);
        assert_body_has(t, len == 28 ? "\"otp\":\"\",\"otp_length\":28" : "wrong length");
    }
}

static void a_share_is_nowhere_in_clear(void **ctx)
{
    (void)ctx;
    char nonce[40];
    uint8_t share[33];
    struct store_pin pin;
    unsigned n = 0;
    begin(nonce, false);
    assert_int_equal(give(nonce, keys[0], false)->http, 200);
    assert_status(text_hex_parse(bytes_str(keys[0]), share), ST_OK);
    struct store_iter *iter = mem_alloc(sizeof *iter);
    assert_status(store_pin(w.m.store, "test", 0, &pin), ST_OK);
    store_iter_init(iter, &pin, (struct bytes){0}, (struct bytes){0});
    for (; store_iter_next(iter); n++)
        assert_null(memmem(iter->item.value.data, iter->item.value.len, share, 8));
    assert_true(n > 5);
    store_unpin(&pin);
    mem_free(iter);
}

static unsigned n_told;

static void what_the_log_tells_names_no_secret(enum trace_level level, const char *module,
                                               const char *text)
{
    (void)module;
    static const char *const steps[] = {"begun", "share was given", "was made"};
    if (level == TRACE_WARN && n_told < ARRAY_LEN(steps))
        assert_non_null(strstr(text, steps[n_told++]));
    for (unsigned i = 0; i < 3; i++)
        assert_null(strstr(text, keys[i]));
}

static void each_step_is_told(void **ctx)
{
    (void)ctx;
    char nonce[40];
    trace_set_sink(what_the_log_tells_names_no_secret);
    begin(nonce, false);
    assert_int_equal(give(nonce, keys[0], false)->http, 200);
    assert_body_has(give(nonce, keys[2], false), "\"complete\":true");
    trace_set_sink(NULL);
    assert_int_equal(n_told, 3);
}

static struct ip address(unsigned n)
{
    const uint8_t bytes[4] = {10, 0, (uint8_t)(n >> 8), (uint8_t)n};
    return ip_of(bytes, sizeof bytes);
}

static void throttling_fills_with_time(void **ctx)
{
    (void)ctx;
    struct throttle t = {.burst = 6, .every_ms = 100};
    const struct ip a = address(1), b = address(2), c = address(3);
    for (int i = 0; i < 3; i++)
        assert_true(throttle_take(&t, &a, 1000));
    assert_false(throttle_take(&t, &a, 1000)); /* its half is used up, but not that of others */
    for (int i = 0; i < 3; i++)
        assert_true(throttle_take(&t, &b, 1000));
    assert_false(throttle_take(&t, &c, 1000));
    assert_false(throttle_take(&t, &c, 1099));
    assert_true(throttle_take(&t, &c, 1100));
    assert_false(throttle_take(&t, &c, 1100));
    assert_false(throttle_take(&t, &a, 1199));
    assert_true(throttle_take(&t, &a, 1200));
    for (int i = 0; i < 3; i++)
        assert_true(throttle_take(&t, &a, 99999));
    assert_false(throttle_take(&t, &a, 99999));
    struct throttle none = {0};
    for (int i = 0; i < 1000; i++)
        assert_true(throttle_take(&none, &a, 0));
}

static void the_holder_of_an_attempt_has_a_share_of_its_own(void **ctx)
{
    (void)ctx;
    struct throttle t = {.burst = 6, .every_ms = 100};
    const struct ip holder = address(1);
    throttle_hold(&t, &holder);
    for (unsigned i = 0; i < 1000; i++) { /* more clients than are remembered */
        const struct ip unauthenticated = address(2 + i);
        assert_int_equal(throttle_take(&t, &unauthenticated, 1000), i < 6);
    }
    for (int i = 0; i < 3; i++)
        assert_true(throttle_take(&t, &holder, 1000));
    assert_false(throttle_take(&t, &holder, 1000));
    assert_true(throttle_take(&t, &holder, 1200));
}

static void nobody_is_refused_where_he_comes_too_often(void **ctx)
{
    (void)ctx;
    char nonce[40];
    w.host.ceremonies.burst = 2;
    w.host.ceremonies.every_ms = 1000000;
    begin(nonce, false);
    assert_int_equal(request(METHOD_DELETE, ATTEMPT, NULL, false)->http, 204);
    assert_int_equal(request(METHOD_DELETE, ATTEMPT, NULL, false)->http, 429);
    assert_int_equal(request(METHOD_PUT, ATTEMPT, "{}", false)->http, 429);
    assert_false(is_under_way(false));
    begin(nonce, true);
    assert_int_equal(request(METHOD_DELETE, ATTEMPT, NULL, true)->http, 204);
}

static int request_from(const char *peer)
{
    struct test_request t;
    test_request_init(&t, METHOD_DELETE, ATTEMPT, NULL);
    t.request.peer = peer;
    world_handle(&w, &t);
    test_request_done(&t);
    return t.http;
}

static void a_stranger_does_not_keep_the_operator_out(void **ctx)
{
    (void)ctx;
    char nonce[40];
    w.host.ceremonies.burst = 8;
    w.host.ceremonies.every_ms = 1000000;
    for (int i = 0; i < 20; i++)
        assert_int_equal(request_from("198.51.100.7:1"), i < 4 ? 204 : 429);
    begin(nonce, false);
    assert_int_equal(request_from("198.51.100.8:1"), 204);
    assert_int_equal(request_from("198.51.100.8:1"), 204);
    assert_int_equal(request_from("198.51.100.8:1"), 204);
    assert_int_equal(request_from("198.51.100.9:1"), 429); /* nothing is left for all … */
    assert_int_equal(request(METHOD_DELETE, ATTEMPT, NULL, false)->http, 204); /* … but for it */
}

static enum status fake_reset(struct node *node, struct reason *why)
{
    (void)node;
    (void)why;
    return ST_OK;
}

static void a_reset_needs_an_open_listener(void **ctx)
{
    (void)ctx;
    w.node_ops.unseal_reset = fake_reset;
    for (int closed = 0; closed < 2; closed++) {
        struct test_request t;
        test_request_init(&t, METHOD_PUT, "/v1/sys/unseal", "{\"reset\":true}");
        t.request.closed_ceremonies = closed != 0;
        world_handle(&w, &t);
        assert_int_equal(t.http, closed != 0 ? 403 : 200);
        test_request_done(&t);
    }
}

static void a_request_that_is_run_again_is_counted_once(void **ctx)
{
    (void)ctx;
    char nonce[40];
    begin(nonce, true); /* the first commit of all renews the key rings too */
    w.host.ceremonies.burst = 1;
    w.host.ceremonies.every_ms = 1000000;
    w.proposals = 0;
    w.n_propose = 1;
    w.propose_status[0] = ST_CONFLICT;
    begin(nonce, false);
    assert_int_equal(w.proposals, 2);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_initialised, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_holder_of_an_attempt_has_a_share_of_its_own),
        TEST(a_stranger_does_not_keep_the_operator_out),
        TEST(a_reset_needs_an_open_listener),
        TEST(a_nobodys_attempt_ends_ten_minutes_after_its_last_share),
        TEST(one_with_a_token_waits),
        TEST(what_is_over_is_deleted_and_nothing_else),
        TEST(a_nonce_says_which_attempt_is_meant),
        TEST(so_does_the_nonce_of_a_verification),
        TEST(an_attempt_ends_with_the_shares_it_was_begun_under),
        TEST(new_shares_supersede_what_was_given_of_the_old),
        TEST(shares_that_have_served_are_not_kept),
        TEST(a_root_token_is_made_once),
        TEST(what_is_no_share_of_this_attempt_is_refused),
        TEST(a_pad_is_as_long_as_a_token),
        TEST(a_share_is_nowhere_in_clear),
        TEST(each_step_is_told),
        TEST(throttling_fills_with_time),
        TEST(nobody_is_refused_where_he_comes_too_often),
        TEST(a_request_that_is_run_again_is_counted_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
