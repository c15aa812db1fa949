/* Quotas of leases, with tokens, logins and the leases of an engine. */
#include "api/token_world.h"
#include "router/quota_lease.h"
#include "sample/sample.h"
#include "state/ns_key.h"

#define FULL "lease count quota exceeded"

static struct made user; /* a token of a client that is not root */

static int open_quotas(void **ctx)
{
    static const struct module *const modules[] = {&token_module, &cubbyhole_module, SYS_MODULES,
                                                   &kv_module, &sample_module};
    (void)ctx;
    world_open(&w, modules, ARRAY_LEN(modules));
    world_init(&w);
    (void)snprintf(root, sizeof root, "%s", w.token);
    expect(post(root, "sys/mounts/lamps", "{\"type\":\"lamp\"}"), 204, NULL);
    write_policy("user", "path \\\"*\\\" { capabilities = [\\\"create\\\", \\\"read\\\", "
                         "\\\"update\\\", \\\"delete\\\", \\\"list\\\"] }");
    user = make(root, "{\"policies\":\"user\",\"period\":\"1h\"}");
    return 0;
}

static void set(const char *name, const char *path, unsigned max)
{
    char target[100], body[200];
    (void)snprintf(target, sizeof target, "sys/quotas/lease-count/%s", name);
    (void)snprintf(body, sizeof body, "{\"path\":\"%s\",\"max_leases\":%u}", path, max);
    expect(post(root, target, body), 204, NULL);
}

static struct test_request *take_lamp(const char *by, const char *name)
{
    char path[100];
    (void)snprintf(path, sizeof path, "lamps/take/%s", name);
    return post(by, path, "{\"ttl\":\"10m\"}");
}

static void assert_counter(const char *name, unsigned n)
{
    char target[100], want[40];
    (void)snprintf(target, sizeof target, "sys/quotas/lease-count/%s", name);
    (void)snprintf(want, sizeof want, "\"counter\":%u,", n);
    expect(as(root, METHOD_GET, target, NULL), 200, want);
}

static void a_quota_is_written_read_listed_and_deleted(void **ctx)
{
    (void)ctx;
    expect(as(root, METHOD_LIST, "sys/quotas/lease-count", NULL), 404, NULL);
    set("one", "lamps", 7);
    expect(take_lamp(user.token, "a"), 200, NULL);
    expect(as(root, METHOD_GET, "sys/quotas/lease-count/one", NULL), 200,
           "\"data\":{\"name\":\"one\",\"type\":\"lease-count\",\"path\":\"lamps/\","
           "\"max_leases\":7,\"counter\":1,\"role\":\"\",\"inheritable\":false}");
    expect(as(root, METHOD_LIST, "sys/quotas/lease-count", NULL), 200, "[\"one\"]");
    expect(post(root, "sys/quotas/lease-count/two", "{\"path\":\"lamps/\",\"max_leases\":8}"), 400,
           "similar properties exists under the name \\\"one\\\"");
    /* a quota of requests for the same path is another thing */
    expect(post(root, "sys/quotas/rate-limit/one", "{\"path\":\"lamps/\",\"rate\":1000}"), 204,
           NULL);
    expect(as(root, METHOD_PUT, "sys/quotas/lease-count/one", "{\"max_leases\":\"9\"}"), 204, NULL);
    expect(as(root, METHOD_GET, "sys/quotas/lease-count/one", NULL), 200, "\"inheritable\":true");
    expect(as(root, METHOD_DELETE, "sys/quotas/lease-count/one", NULL), 204, NULL);
    expect(as(root, METHOD_DELETE, "sys/quotas/lease-count/one", NULL), 204, NULL);
    expect(as(root, METHOD_GET, "sys/quotas/lease-count/one", NULL), 404, NULL);
    expect(as(root, METHOD_GET, "sys/quotas/rate-limit/one", NULL), 200, NULL);
}

static void a_quota_is_checked_when_it_is_written(void **ctx)
{
    (void)ctx;
    static const char *const bad[][2] = {
        {"{}", "max_leases"},
        {"{\"max_leases\":0}", "'max_leases' is invalid"},
        {"{\"max_leases\":-1}", "'max_leases' is invalid"},
        {"{\"max_leases\":1000000001}", "'max_leases' is invalid"},
        {"{\"max_leases\":1.5}", "max_leases"},
        {"{\"max_leases\":1,\"path\":\"none/\"}", "invalid mount path \\\"none/\\\""},
        {"{\"max_leases\":1,\"path\":\"lamps//a\"}", "invalid mount path"},
        {"{\"max_leases\":1,\"path\":\"*\"}", "invalid mount path"},
        {"{\"max_leases\":1,\"role\":\"r\"}", "is not a valid auth method"},
        {"{\"max_leases\":1,\"role\":\"r\",\"path\":\"lamps/\"}", "is not a valid auth method"},
        {"{\"max_leases\":1,\"role\":\"r\",\"path\":\"auth/token/create\"}", "both a path suffix"},
        {"{\"max_leases\":1,\"role\":\"r\",\"path\":\"auth/token\"}",
         "does not support use with role-based quotas"},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        expect(post(root, "sys/quotas/lease-count/bad", bad[i][0]), 400, bad[i][1]);
    w.node.raft.feature = RLOG_FEATURE_FIRST;
    expect(post(root, "sys/quotas/lease-count/q", "{\"max_leases\":1}"), 503,
           "this needs feature level 2");
    w.node.raft.feature = QUOTA_LEASES_FEATURE;
    set("q", "", 1);
}

static void a_lease_too_many_is_refused(void **ctx)
{
    (void)ctx;
    char id[200], body[300];
    set("lamps", "lamps/", 2);
    expect(take_lamp(user.token, "a"), 200, NULL);
    copy_member(take_lamp(user.token, "b"), "lease_id", id, sizeof id);
    expect(take_lamp(user.token, "c"), 429,
           "{\"errors\":[\"request path \\\"lamps/take/c\\\": " FULL "\"]}");
    expect(as(user.token, METHOD_GET, "lamps/take/c", NULL), 404, NULL);
    assert_counter("lamps", 2);
    (void)make(user.token, "{}"); /* at another path */
    (void)snprintf(body, sizeof body, "{\"lease_id\":\"%s\"}", id);
    expect(post(user.token, "sys/leases/renew", body), 200, NULL);
    expect(post(user.token, "sys/leases/revoke", body), 204, NULL);
    expect(take_lamp(user.token, "c"), 200, NULL);
    expect(take_lamp(user.token, "b"), 429, FULL);
    set("lamps", "lamps/", 3); /* holds at once */
    expect(take_lamp(user.token, "b"), 200, NULL);
    expect(take_lamp(user.token, "d"), 429, FULL);
    expect(as(root, METHOD_DELETE, "sys/quotas/lease-count/lamps", NULL), 204, NULL);
    expect(take_lamp(user.token, "d"), 200, NULL);
}

static void root_is_exempt(void **ctx)
{
    (void)ctx;
    set("all", "", 1); /* the user's token is one */
    expect(post(user.token, "auth/token/create", "{}"), 429, FULL);
    expect(take_lamp(root, "a"), 200, NULL);
    (void)make(root, "{\"ttl\":\"1h\"}");
    assert_counter("all", 3);
    set("all", "", 2); /* below the number of leases: nothing ends */
    assert_counter("all", 3);
    expect(take_lamp(user.token, "b"), 429, FULL);
    expect(take_lamp(root, "b"), 200, NULL);
}

static void every_request_that_creates_a_token_counts(void **ctx)
{
    (void)ctx;
    static const char *const creates[][2] = {
        {"auth/token/create", "{}"},
        {"auth/token/create", "{\"type\":\"batch\"}"},
        {"auth/token/create/r", "{}"},
        {"auth/words/login/ann", "{\"word\":\"x\"}"},
    };
    expect(post(root, "sys/auth/words", "{\"type\":\"sample\"}"), 204, NULL);
    expect(post(root, "auth/words/users/ann", "{\"word\":\"x\"}"), 204, NULL);
    write_role("{}");
    set("all", "", 1);
    for (size_t i = 0; i < ARRAY_LEN(creates); i++)
        expect(post(user.token, creates[i][0], creates[i][1]), 429, FULL);
    expect(post(user.token, "auth/token/renew-self", NULL), 200, NULL);
    expect(as(user.token, METHOD_GET, "auth/token/lookup-self", NULL), 200, NULL);
    expect(post(user.token, "kv/a", "{\"x\":\"1\"}"), 204, NULL); /* no lease */
    set("all", "", 100);
    for (size_t i = 0; i < ARRAY_LEN(creates); i++)
        expect(post(user.token, creates[i][0], creates[i][1]), 200, NULL);
    assert_counter("all", 4); /* the batch token is none */
}

static struct test_request *wrapped(const char *token, const char *path, const char *body)
{
    static struct test_request t;
    char target[200];
    (void)snprintf(target, sizeof target, "/v1/%s", path);
    test_request_done(&t);
    test_request_init(&t, METHOD_POST, target, body);
    test_request_header(&t, "x-secrets-wrap-ttl", "60");
    test_request_header(&t, "x-secrets-token", token);
    world_handle(&w, &t);
    return &t;
}

static void a_wrapped_reply_is_a_lease_too(void **ctx)
{
    (void)ctx;
    set("lamps", "lamps/", 1);
    unsigned before = count_keys();
    expect(wrapped(user.token, "lamps/take/a", "{}"), 429, FULL); /* the lamp and its wrapping */
    assert_int_equal(count_keys(), before);
    set("lamps", "lamps/", 2);
    expect(wrapped(user.token, "lamps/take/a", "{}"), 200, "wrap_info");
    assert_counter("lamps", 2);
    set("all", "", 3);
    expect(wrapped(user.token, "sys/wrapping/wrap", "{\"x\":\"1\"}"), 429, FULL);
}

/* Stage a lease as if another request had created it. */
static enum status other_lease(struct state_txn *txn, int64_t now_ms)
{
    (void)now_ms;
    return lease_index_put(txn, STATE_NS_ROOT, "lamps/take/other", "0123");
}

static void while_proposed(struct world *world)
{
    (void)world;
    assert_true(round_of(other_lease));
}

/* The quota is looked up for the first of them, and decides about each. */
static void many_leases_of_one_request_all_count(void **ctx)
{
    (void)ctx;
    set("lamps", "lamps/", 300);
    expect(take_lamp(user.token, "a"), 200, NULL);
    unsigned before = count_keys();
    expect(post(user.token, "lamps/take/many", "{\"count\":300}"), 429, FULL);
    assert_int_equal(count_keys(), before);
    expect(post(user.token, "lamps/take/many", "{\"count\":299}"), 200, NULL);
    assert_counter("lamps", 300);
    expect(post(user.token, "lamps/take/more", "{\"count\":2}"), 429, FULL);
    set("lamps", "lamps/", 301);
    w.before_propose = while_proposed; /* the last place is a precondition of the whole request */
    expect(take_lamp(user.token, "b"), 429, FULL);
    assert_counter("lamps", 301);
}

static void the_longest_path_decides(void **ctx)
{
    (void)ctx;
    set("all", "", 1);
    set("lamps", "lamps", 4);
    set("some", "/lamps/take/a*", 3);
    set("one", "lamps/take/abc", 1);
    expect(post(user.token, "auth/token/create", "{}"), 429, FULL);
    expect(take_lamp(user.token, "abc"), 200, NULL);
    expect(take_lamp(user.token, "abc"), 429, FULL);
    expect(take_lamp(user.token, "ab"), 200, NULL);
    expect(take_lamp(user.token, "a"), 200, NULL);
    expect(take_lamp(user.token, "a"), 429, FULL);
    expect(take_lamp(user.token, "x"), 200, NULL);
    expect(take_lamp(user.token, "x"), 429, FULL);
    assert_counter("all", 5);
    assert_counter("lamps", 4);
    assert_counter("some", 3);
    assert_counter("one", 1);
}

static void two_requests_do_not_both_take_the_last_place(void **ctx)
{
    (void)ctx;
    set("lamps", "lamps/", 1);
    w.before_propose = while_proposed;
    expect(take_lamp(user.token, "a"), 429, FULL);
    assert_counter("lamps", 1);
}

/* Far below the limit, requests that create leases do not wait for each other. */
static void far_below_the_limit_nobody_conflicts(void **ctx)
{
    (void)ctx;
    set("lamps", "lamps/", QUOTA_LEASES_NEAR + 1);
    unsigned before = w.proposals;
    w.before_propose = while_proposed;
    expect(take_lamp(user.token, "a"), 200, NULL);
    assert_int_equal(w.proposals - before, 2); /* the other lease, and this one at its first try */
    assert_counter("lamps", 2);
    before = w.proposals;
    w.before_propose = while_proposed;
    expect(take_lamp(user.token, "b"), 200, NULL);
    assert_int_equal(w.proposals - before, 3);
}

#define QUOTA(f) cmocka_unit_test_setup_teardown(f, open_quotas, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        QUOTA(a_quota_is_written_read_listed_and_deleted),
        QUOTA(a_quota_is_checked_when_it_is_written),
        QUOTA(a_lease_too_many_is_refused),
        QUOTA(root_is_exempt),
        QUOTA(every_request_that_creates_a_token_counts),
        QUOTA(a_wrapped_reply_is_a_lease_too),
        QUOTA(many_leases_of_one_request_all_count),
        QUOTA(the_longest_path_decides),
        QUOTA(two_requests_do_not_both_take_the_last_place),
        QUOTA(far_below_the_limit_nobody_conflicts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
