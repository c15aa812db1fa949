#include "api/api_world.h"
#include "base/mem.h"

/* `token` and `ttl` may be NULL: then there is no such header. */
static struct test_request *ask(const char *token, const char *ttl, enum http_method method,
                                const char *target, const char *body)
{
    static struct test_request t;
    test_request_done(&t);
    test_request_init(&t, method, target, body);
    if (token != NULL)
        test_request_header(&t, "x-secrets-token", token);
    if (ttl != NULL)
        test_request_header(&t, "x-vault-wrap-ttl", ttl);
    world_handle(&w, &t);
    return &t;
}

static const char *about(const char *token)
{
    static char body[200];
    (void)snprintf(body, sizeof body, "{\"token\":\"%s\"}", token);
    return body;
}

/* The wrapping token a reply tells of. */
static void take_token(struct test_request *t, char out[64])
{
    const char *at = strstr((const char *)t->body.data, "\"wrap_info\":{\"token\":\"");
    if (t->http != 200 || at == NULL)
        fail_msg("no wrapping token in %d %s", t->http, (const char *)t->body.data);
    else
        (void)snprintf(out, 64, "%.28s", at + strlen("\"wrap_info\":{\"token\":\""));
}

static void wrap_a_secret(char out[64])
{
    assert_int_equal(ask(root, NULL, METHOD_PUT, "/v1/kv/a", "{\"n\":1.10}")->http, 204);
    take_token(ask(root, "60s", METHOD_GET, "/v1/kv/a", NULL), out);
}

static void a_reply_is_kept_for_the_holder_of_the_token(void **ctx)
{
    (void)ctx;
    char token[64];
    struct test_request *t = ask(root, "60s", METHOD_GET, "/v1/kv/none", NULL);
    expect(t, 404, "{\"errors\":[]}"); /* a failure is told as it is */
    wrap_a_secret(token);
    t = ask(token, NULL, METHOD_POST, "/v1/sys/wrapping/unwrap", NULL);
    expect(t, 200, "\"data\":{\"n\":1.10}");
    assert_string_equal(t->type, "application/json");
    expect(ask(token, NULL, METHOD_POST, "/v1/sys/wrapping/unwrap", NULL), 400,
           "wrapping token is not valid or does not exist");
}

static unsigned accessors(void)
{
    unsigned n = 0;
    struct test_request *t = ask(root, NULL, METHOD_LIST, "/v1/auth/token/accessors", NULL);
    for (const char *c = strchr((const char *)t->body.data, '['); *c != ']'; c++)
        n += *c == ',' || *c == '[';
    return n;
}

static void what_is_not_there_is_not_wrapped(void **ctx)
{
    (void)ctx;
    expect(ask(root, NULL, METHOD_PUT, "/v1/sys/mounts/kv2", "{\"type\":\"kv-v2\"}"), 204, NULL);
    expect(ask(root, NULL, METHOD_PUT, "/v1/kv2/data/a", "{\"data\":{\"n\":1}}"), 200, NULL);
    expect(ask(root, NULL, METHOD_DELETE, "/v1/kv2/data/a", NULL), 204, NULL);
    unsigned before = accessors();
    struct test_request *t = ask(root, "60s", METHOD_GET, "/v1/kv2/data/a", NULL);
    expect(t, 404, "\"data\":{\"data\":null,\"metadata\":{");
    expect(t, 404, "\"wrap_info\":null");
    expect(ask(root, "60s", METHOD_POST, "/v1/auth/token/tidy", NULL), 202, "\"warnings\":[\"");
    assert_int_equal(accessors(), before);
}

static void wrap_info_says_what_it_is(void **ctx)
{
    (void)ctx;
    struct test_request *t = ask(root, "5m", METHOD_POST, "/v1/auth/token/create", "{\"ttl\":60}");
    expect(t, 200,
           "{\"request_id\":\"\",\"lease_id\":\"\",\"renewable\":false,"
           "\"lease_duration\":0,\"data\":null,\"wrap_info\":{\"token\":\"hvs.");
    expect(t, 200,
           "\"ttl\":300,\"creation_time\":\"2023-11-14T22:13:20Z\","
           "\"creation_path\":\"auth/token/create\",\"wrapped_accessor\":\"");
    assert_null(strstr((const char *)t->body.data, "client_token"));
}

static void the_token_in_the_body_is_taken_too(void **ctx)
{
    (void)ctx;
    char token[64];
    wrap_a_secret(token);
    expect(ask(root, NULL, METHOD_POST, "/v1/sys/wrapping/unwrap", about(token)), 200,
           "\"n\":1.10");
    wrap_a_secret(token);
    expect(ask(root, NULL, METHOD_POST, "/v1/sys/wrapping/unwrap", about(token)), 200,
           "\"n\":1.10");
}

/* A token of the caller with these rules. */
static const char *caller(const char *rules)
{
    static char token[64], body[400];
    (void)snprintf(body, sizeof body, "{\"policy\":\"%s\"}", rules);
    assert_int_equal(ask(root, NULL, METHOD_PUT, "/v1/sys/policies/acl/caller", body)->http, 204);
    struct test_request *t = ask(root, NULL, METHOD_POST, "/v1/auth/token/create",
                                 "{\"policies\":[\"caller\"],\"no_default_policy\":true}");
    const char *at = strstr((const char *)t->body.data, "\"client_token\":\"");
    assert_non_null(at);
    (void)snprintf(token, sizeof token, "%.28s", at + strlen("\"client_token\":\""));
    return token;
}

#define RULE(verb, cap) "path \\\"sys/wrapping/" verb "\\\" { capabilities = [\\\"" cap "\\\"] } "

/* Beside a wrapping token in the body the caller's own token decides; a refusal does not use the
 * wrapping token up. */
static void the_callers_policy_decides_about_a_token_in_the_body(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *rules; /* of the caller's token; NULL: no token. "": an unknown one */
        int unwrap, rewrap;
    } rows[] = {
        {NULL, 403, 403},
        {"", 403, 403},
        {RULE("unwrap", "deny") RULE("rewrap", "deny"), 403, 403},
        {RULE("lookup", "update"), 403, 403},
        {RULE("unwrap", "read") RULE("rewrap", "create"), 403, 403},
        {RULE("unwrap", "update"), 200, 403},
        {RULE("rewrap", "update"), 403, 200},
    };
    char token[64];
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *rules = rows[i].rules;
        const char *by = rules == NULL ? NULL : rules[0] == '\0' ? "hvs.bogus" : caller(rules);
        for (int rewrap = 0; rewrap < 2; rewrap++) {
            int want = rewrap ? rows[i].rewrap : rows[i].unwrap;
            wrap_a_secret(token);
            expect(ask(by, NULL, METHOD_POST,
                       rewrap ? "/v1/sys/wrapping/rewrap" : "/v1/sys/wrapping/unwrap",
                       about(token)),
                   want, want == 403 ? "permission denied" : NULL);
            expect(ask(NULL, NULL, METHOD_POST, "/v1/sys/wrapping/lookup", about(token)),
                   want == 403 ? 200 : 400, NULL);
        }
    }
}

/* The policy of wrapping tokens lets them unwrap, and nothing else of this kind. */
static void in_the_header_it_unwraps_and_does_not_rewrap(void **ctx)
{
    (void)ctx;
    char token[64];
    wrap_a_secret(token);
    expect(ask(token, NULL, METHOD_POST, "/v1/sys/wrapping/rewrap", NULL), 403,
           "permission denied");
    expect(ask(token, NULL, METHOD_POST, "/v1/sys/wrapping/rewrap", about(token)), 403, NULL);
    expect(ask(token, NULL, METHOD_POST, "/v1/sys/wrapping/unwrap", about(token)), 200, "1.10");
}

static void looking_it_up_does_not_use_it(void **ctx)
{
    (void)ctx;
    char token[64];
    wrap_a_secret(token);
    for (int i = 0; i < 3; i++)
        expect(ask(NULL, NULL, METHOD_POST, "/v1/sys/wrapping/lookup", about(token)), 200,
               "\"data\":{\"creation_path\":\"kv/a\",\"creation_time\":\"2023-11-14T22:13:20Z\","
               "\"creation_ttl\":60}");
    expect(ask(token, NULL, METHOD_GET, "/v1/sys/wrapping/lookup", NULL), 200, "kv/a");
    expect(ask(token, NULL, METHOD_POST, "/v1/sys/wrapping/unwrap", NULL), 200, NULL);
}

static void a_wrapped_reply_is_wrapped_again(void **ctx)
{
    (void)ctx;
    char first[64], second[64];
    wrap_a_secret(first);
    w.later_ms = 59000;
    struct test_request *t = ask(root, NULL, METHOD_POST, "/v1/sys/wrapping/rewrap", about(first));
    expect(t, 200,
           "\"ttl\":60,\"creation_time\":\"2023-11-14T22:14:19Z\","
           "\"creation_path\":\"kv/a\"}");
    take_token(t, second);
    expect(ask(root, NULL, METHOD_POST, "/v1/sys/wrapping/unwrap", about(first)), 400, NULL);
    expect(ask(root, NULL, METHOD_POST, "/v1/sys/wrapping/unwrap", about(second)), 200, "1.10");
}

static void it_ends_with_its_time_and_leaves_nothing(void **ctx)
{
    (void)ctx;
    char token[64];
    struct store_pin pin;
    struct store_iter *iter = mem_alloc(sizeof *iter);
    wrap_a_secret(token);
    w.later_ms = 60000;
    expect(ask(token, NULL, METHOD_POST, "/v1/sys/wrapping/unwrap", NULL), 400, NULL);
    for (int i = 0; upkeep(); i++)
        assert_true(i < 10);
    assert_status(store_pin(w.m.store, "test", 0, &pin), ST_OK);
    store_iter_init(iter, &pin, BYTES("s/ns/root/cubby/"), BYTES(""));
    assert_false(store_iter_next(iter));
    store_unpin(&pin);
    mem_free(iter);
}

static void what_is_said_may_be_wrapped(void **ctx)
{
    (void)ctx;
    char token[64];
    expect(ask(root, NULL, METHOD_POST, "/v1/sys/wrapping/wrap", "{\"a\":[1]}"), 400,
           "endpoint requires response wrapping to be used");
    take_token(ask(root, "60", METHOD_POST, "/v1/sys/wrapping/wrap", "{\"a\":[1]}"), token);
    expect(ask(token, NULL, METHOD_POST, "/v1/sys/wrapping/unwrap", NULL), 200,
           "\"data\":{\"a\":[1]}");
}

static void what_is_no_wrapping_token_is_refused(void **ctx)
{
    (void)ctx;
    static const char *const targets[] = {"/v1/sys/wrapping/unwrap", "/v1/sys/wrapping/lookup",
                                          "/v1/sys/wrapping/rewrap"};
    for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
        expect(ask(root, NULL, METHOD_POST, targets[i], NULL), 400, "not valid");
        expect(ask(root, NULL, METHOD_POST, targets[i], about("hvs.none")), 400, "not valid");
    }
    expect(ask(NULL, NULL, METHOD_POST, targets[1], NULL), 400, "missing");
    assert_int_equal(ask(root, NULL, METHOD_GET, "/v1/auth/token/lookup-self", NULL)->http, 200);
}

/* It is a token like others besides, of one use, that nobody can prolong. */
static void a_wrapping_token_is_good_for_one_use_of_any_kind(void **ctx)
{
    (void)ctx;
    char token[64];
    wrap_a_secret(token);
    struct test_request *t = ask(root, NULL, METHOD_POST, "/v1/auth/token/lookup", about(token));
    expect(t, 200, "\"num_uses\":1,");
    expect(t, 200, "\"explicit_max_ttl\":60");
    expect(ask(root, NULL, METHOD_POST, "/v1/auth/token/renew", about(token)), 400, "renewable");
    expect(ask(token, NULL, METHOD_GET, "/v1/cubbyhole/response", NULL), 200, "1.10");
    expect(ask(token, NULL, METHOD_GET, "/v1/cubbyhole/response", NULL), 403, NULL);
    expect(ask(root, NULL, METHOD_POST, "/v1/sys/wrapping/unwrap", about(token)), 400, "not valid");
}

static void nobody_makes_a_wrapping_token_of_his_own(void **ctx)
{
    (void)ctx;
    expect(ask(root, NULL, METHOD_PUT, "/v1/cubbyhole/wrapinfo",
               "{\"creation_path\":\"kv/a\",\"creation_time\":1,\"creation_ttl\":60}"),
           204, NULL);
    expect(ask(root, NULL, METHOD_PUT, "/v1/cubbyhole/response", "{\"response\":\"{}\"}"), 204,
           NULL);
    expect(ask(NULL, NULL, METHOD_POST, "/v1/sys/wrapping/lookup", about(root)), 400, "not valid");
    expect(ask(root, NULL, METHOD_POST, "/v1/sys/wrapping/unwrap", about(root)), 400, "not valid");
    expect(ask(root, NULL, METHOD_GET, "/v1/kv/none", NULL), 404, NULL);
}

static void what_cannot_be_wrapped_is_not_given_bare(void **ctx)
{
    (void)ctx;
    static const char *const ttls[] = {"soon", "-1", "1ms", "1000h", "-5m"};
    char token[64];
    for (size_t i = 0; i < ARRAY_LEN(ttls); i++)
        expect(ask(root, ttls[i], METHOD_GET, "/v1/kv/a", NULL), 400, "X-Secrets-Wrap-TTL");
    expect(ask(root, "60", METHOD_GET, "/v1/sys/health", NULL), 400, "cannot be wrapped");
    expect(ask(root, "60", METHOD_GET, "/v1/sys/metrics", NULL), 400, "cannot be wrapped");
    wrap_a_secret(token);
    expect(ask(NULL, "60", METHOD_POST, "/v1/sys/wrapping/lookup", about(token)), 400,
           "cannot be wrapped");
    expect(ask(root, "60", METHOD_POST, "/v1/sys/wrapping/unwrap", about(token)), 400,
           "cannot be wrapped");
    expect(ask(root, NULL, METHOD_POST, "/v1/sys/wrapping/unwrap", about(token)), 200, "1.10");
    expect(ask(root, "60", METHOD_PUT, "/v1/kv/b", "{\"a\":1}"), 204, NULL);
    expect(ask(root, "0", METHOD_GET, "/v1/kv/b", NULL), 200, "\"data\":{\"a\":1}");
    expect(ask(root, "768h", METHOD_GET, "/v1/kv/b", NULL), 200, "\"ttl\":2764800,");
    expect(ask(root, "2764801", METHOD_GET, "/v1/kv/b", NULL), 400, "X-Secrets-Wrap-TTL");
}

static void a_standby_forwards_what_is_to_be_wrapped(void **ctx)
{
    (void)ctx;
    char token[64];
    wrap_a_secret(token);
    world_standby(&w, true);
    expect(ask(root, "60", METHOD_GET, "/v1/kv/a", NULL), 299, NULL);
    expect(ask(token, NULL, METHOD_POST, "/v1/sys/wrapping/unwrap", NULL), 299, NULL);
    expect(ask(token, NULL, METHOD_POST, "/v1/sys/wrapping/lookup", NULL), 200, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_reply_is_kept_for_the_holder_of_the_token),
        TEST(what_is_not_there_is_not_wrapped),
        TEST(wrap_info_says_what_it_is),
        TEST(the_token_in_the_body_is_taken_too),
        TEST(the_callers_policy_decides_about_a_token_in_the_body),
        TEST(in_the_header_it_unwraps_and_does_not_rewrap),
        TEST(looking_it_up_does_not_use_it),
        TEST(a_wrapped_reply_is_wrapped_again),
        TEST(it_ends_with_its_time_and_leaves_nothing),
        TEST(what_is_said_may_be_wrapped),
        TEST(what_is_no_wrapping_token_is_refused),
        TEST(a_wrapping_token_is_good_for_one_use_of_any_kind),
        TEST(nobody_makes_a_wrapping_token_of_his_own),
        TEST(what_cannot_be_wrapped_is_not_given_bare),
        TEST(a_standby_forwards_what_is_to_be_wrapped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
