/* Changes of stored policies: compared versions, patches, ends. */
#include "api/policy_world.h"

#define RULES "\"policy\":\"path \\\"kv/*\\\" { capabilities = [\\\"read\\\"] }\""

static struct test_request *put_policy(const char *name, const char *fields, int http,
                                       const char *says)
{
    char path[100], body[300];
    (void)snprintf(path, sizeof path, "sys/policies/acl/%s", name);
    (void)snprintf(body, sizeof body, "{" RULES "%s}", fields);
    return expect(as(root, METHOD_POST, path, body), http, says);
}

static void a_policy_that_somebody_else_wrote_is_not_overwritten(void **ctx)
{
    (void)ctx;
    static const char differs[] = "did not match the current version";
    static const char missing[] = "check-and-set parameter required for this call";
    put_policy("a", ",\"cas\":1", 400, differs);
    put_policy("a", ",\"cas_required\":true", 400, missing);
    put_policy("a", ",\"cas\":-1", 204, NULL);
    put_policy("a", ",\"cas\":-1", 400, "set to -1 on existing entry");
    put_policy("a", ",\"cas\":0", 400, differs);
    put_policy("a", ",\"cas\":-2", 400, differs);
    put_policy("a", "", 204, NULL);
    put_policy("a", ",\"cas\":2,\"cas_required\":true", 204, NULL);
    expect(as(root, METHOD_GET, "sys/policies/acl/a", NULL), 200,
           "\"version\":3,\"cas_required\":true,");
    expect(as(root, METHOD_GET, "sys/policy/a", NULL), 200, "\"version\":3,\"cas_required\":true,");
    put_policy("a", "", 400, missing);
    put_policy("a", ",\"cas_required\":false", 400, missing);
    put_policy("a", ",\"cas\":3", 204, NULL);
    put_policy("a", "", 204, NULL);
    expect(as(root, METHOD_DELETE, "sys/policies/acl/a", NULL), 204, NULL);
    put_policy("a", ",\"cas\":-1", 204, NULL);
    apply(&w, "s/ns/root/policy/old", "{\"policy\":\"path 'x' {}\"}"); /* by an older build */
    expect(as(root, METHOD_GET, "sys/policies/acl/old", NULL), 200,
           "\"version\":0,\"cas_required\":false}");
    put_policy("old", ",\"cas\":-1", 400, "existing entry");
    put_policy("old", ",\"cas\":0", 204, NULL);
}

/* At its time, whether or not it was deleted yet; the cached rules of its tokens too. */
static void a_policy_ends_at_its_time_and_not_before(void **ctx)
{
    (void)ctx;
    put_policy("short", ",\"ttl\":\"10s\"", 204, NULL);
    put_policy("long", ",\"expiration\":\"2023-11-14T23:13:40+01:00\"", 204, NULL); /* after 20 s */
    put_policy("stays", "", 204, NULL);
    const char *one = make_token("short"), *two = make_token("short,long"),
               *three = make_token("short,long,stays");
    expect(as(root, METHOD_GET, "sys/policies/acl/short", NULL), 200,
           "\"expiration\":\"2023-11-14T22:13:30Z\"}");
    w.later_ms = 9999;
    expect(as(one, METHOD_GET, "kv/x", NULL), 404, NULL);
    expect(as(two, METHOD_GET, "kv/x", NULL), 404, NULL);
    assert_false(upkeep());
    w.later_ms = 10000;
    expect(as(one, METHOD_GET, "kv/x", NULL), 403, NULL);
    expect(as(two, METHOD_GET, "kv/x", NULL), 404, NULL);
    expect(as(root, METHOD_GET, "sys/policies/acl/short", NULL), 404, NULL);
    put_policy("short", ",\"cas\":1", 400, "did not match"); /* it begins anew */
    w.later_ms = 19999;
    expect(as(two, METHOD_GET, "kv/x", NULL), 404, NULL);
    w.later_ms = 20000;
    expect(as(two, METHOD_GET, "kv/x", NULL), 403, NULL);
    expect(as(three, METHOD_GET, "kv/x", NULL), 404, NULL);
}

static void an_expired_policy_is_deleted_and_nothing_else(void **ctx)
{
    (void)ctx;
    unsigned keys = count_keys();
    put_policy("gone/a", ",\"ttl\":10", 204, NULL);
    put_policy("gone/a", ",\"ttl\":20", 204, NULL); /* in place of the earlier time */
    assert_int_equal(count_keys(), keys + 2);
    put_policy("gone/a", "", 204, NULL);
    assert_int_equal(count_keys(), keys + 1);
    put_policy("gone/a", ",\"ttl\":20", 204, NULL);
    expect(as(root, METHOD_DELETE, "sys/policies/acl/gone/a", NULL), 204, NULL);
    assert_int_equal(count_keys(), keys);
    put_policy("anew", ",\"ttl\":20", 204, NULL);
    put_policy("gone/b", ",\"ttl\":20", 204, NULL);
    put_policy("later", ",\"ttl\":21", 204, NULL);
    w.later_ms = 20000;
    put_policy("anew", ",\"cas\":-1", 204, NULL); /* before the old one is deleted */
    assert_true(upkeep());
    assert_false(upkeep());
    assert_int_equal(count_keys(), keys + 3);
    expect(as(root, METHOD_LIST, "sys/policies/acl", NULL), 200,
           "[\"anew\",\"default\",\"later\",\"root\"]");
    for (int i = 0; i < 101; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "many%d", i);
        put_policy(name, ",\"ttl\":1", 204, NULL);
    }
    w.later_ms = 22000;
    assert_true(upkeep());
    assert_true(upkeep());
    assert_false(upkeep());
    assert_int_equal(count_keys(), keys + 1);
}

/* As a damaged disk or a snapshot made by hand would leave them. */
static void a_policy_that_cannot_be_read_is_deleted_on_request(void **ctx)
{
    (void)ctx;
    unsigned keys = count_keys();
    apply(&w, "s/ns/root/policy/broken", "no object");
    expect(as(root, METHOD_GET, "sys/policies/acl/broken", NULL), 500, NULL);
    expect(as(root, METHOD_DELETE, "sys/policies/acl/broken", NULL), 204, NULL);
    expect(as(root, METHOD_GET, "sys/policies/acl/broken", NULL), 404, NULL);
    assert_int_equal(count_keys(), keys);
}

static void what_cannot_be_read_does_not_hold_up_the_end_of_policies(void **ctx)
{
    (void)ctx;
    unsigned keys = count_keys();
    put_policy("broken", ",\"ttl\":1", 204, NULL);
    put_policy("gone", ",\"ttl\":2", 204, NULL);
    apply(&w, "s/ns/root/policy/broken", "no object");
    apply(&w, "s/ns/root/policyend/0", "");
    apply(&w, "s/ns/root/policyend/000000000001", "");
    apply(&w, "s/expire/0", "");
    apply(&w, "s/expire/000000000001", "");
    apply(&w, "s/expire/000000000001/root/policy/", "");
    w.later_ms = 3000;
    assert_true(upkeep());
    assert_false(upkeep());
    assert_int_equal(count_keys(), keys + 1);
}

static struct test_request *patch_policy(const char *token, const char *name, const char *body)
{
    static struct test_request t;
    static char target[100];
    (void)snprintf(target, sizeof target, "/v1/sys/policies/acl/%s", name);
    test_request_done(&t);
    test_request_init(&t, METHOD_PATCH, target, body);
    test_request_header(&t, "x-secrets-token", token);
    test_request_header(&t, "content-type", "application/merge-patch+json");
    world_handle(&w, &t);
    return &t;
}

static void a_patch_changes_the_fields_that_it_names(void **ctx)
{
    (void)ctx;
    static const char kept[] = "\"policy\":\"path \\\"kv/*\\\" { capabilities = [\\\"read\\\"] }\","
                               "\"version\":2,\"cas_required\":true,"
                               "\"modified\":\"2023-11-14T22:13:20Z\","
                               "\"expiration\":\"2023-11-14T22:13:40Z\"}";
    put_policy("a", ",\"ttl\":20", 204, NULL);
    const char *token = make_token("a");
    expect(patch_policy(root, "A", "{\"cas_required\":true,\"ttl\":null}"), 204, NULL);
    expect(as(root, METHOD_GET, "sys/policies/acl/a", NULL), 200, kept);
    expect(patch_policy(root, "a", "{\"policy\":\"path \\\"x\\\" {}\"}"), 204, NULL);
    expect(as(token, METHOD_GET, "kv/x", NULL), 403, NULL);
    expect(patch_policy(root, "a", "{\"expiration\":1700000030,\"cas\":3}"), 204, NULL);
    w.later_ms = 20000;
    expect(as(root, METHOD_GET, "sys/policies/acl/a", NULL), 200,
           "\"version\":4,\"cas_required\":true,\"modified\":\"2023-11-14T22:13:20Z\","
           "\"expiration\":\"2023-11-14T22:13:50Z\"}");
    w.later_ms = 30000;
    expect(patch_policy(root, "a", "{\"ttl\":5}"), 404, "policy not found");
    assert_true(upkeep());
    assert_false(upkeep()); /* the earlier times of the end are gone */
}

static void a_wrong_patch_of_a_policy_is_refused(void **ctx)
{
    (void)ctx;
    static const char *const rows[][2] = {
        {"{\"policy\":\"\"}", "not supplied or empty"},
        {"{\"policy\":\"path {\"}", "failed to parse policy: line 1"},
        {"{\"cas\":-1}", "existing entry"},
        {"{\"cas\":2,\"cas_required\":false}", "did not match"},
        {"{\"ttl\":5,\"expiration\":1700000005}", "cannot supply both"},
        {"{\"ttl\":0}", "already elapsed"},
    };
    expect(patch_policy(root, "a", "{}"), 404, "policy not found");
    put_policy("a", "", 204, NULL);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        expect(patch_policy(root, "a", rows[i][0]), 400, rows[i][1]);
    expect(as(root, METHOD_GET, "sys/policies/acl/a", NULL), 200, "\"version\":1,");
    expect(patch_policy(root, "root", "{}"), 400, "cannot update");
    expect(patch_policy(root, "default", "{\"ttl\":5}"), 400, "does not end");
    set_policy("posts", "path 'sys/policies/acl/*' { capabilities = ['create', 'update'] }");
    set_policy("patches", "path 'sys/policies/acl/*' { capabilities = ['patch'] }");
    expect(patch_policy(make_token("posts"), "a", "{}"), 403, NULL);
    expect(patch_policy(make_token("patches"), "a", "{}"), 204, NULL);
}

static void an_end_of_a_policy_is_checked(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *fields, *says;
    } cases[] = {
        {",\"ttl\":0", "already elapsed"},
        {",\"ttl\":-1", "ttl: "},
        {",\"ttl\":\"soon\"", "ttl: "},
        {",\"expiration\":\"2023-11-14T22:13:20Z\"", "already elapsed"},
        {",\"expiration\":1700000000", "already elapsed"},
        {",\"expiration\":\"tomorrow\"", "expiration: "},
        {",\"expiration\":-5", "expiration: "},
        {",\"expiration\":9223372036854775807", "expiration: "},
        {",\"expiration\":\"9999-12-31T23:59:59-01:00\"", "expiration: "},
        {",\"ttl\":5,\"expiration\":1700000005", "cannot supply both"},
        {",\"cas\":\"x\"", "cas: "},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        put_policy("bad", cases[i].fields, 400, cases[i].says);
    expect(as(root, METHOD_GET, "sys/policies/acl/bad", NULL), 404, NULL);
    put_policy("default", ",\"ttl\":5", 400, "does not end");
    put_policy("good", ",\"expiration\":\"1700000005\"", 204, NULL);
    expect(as(root, METHOD_GET, "sys/policy/good", NULL), 200,
           "\"expiration\":\"2023-11-14T22:13:25Z\"");
    put_policy("good", ",\"expiration\":\"\"", 204, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_policy_that_somebody_else_wrote_is_not_overwritten),
        TEST(a_policy_ends_at_its_time_and_not_before),
        TEST(a_patch_changes_the_fields_that_it_names),
        TEST(a_wrong_patch_of_a_policy_is_refused),
        TEST(an_expired_policy_is_deleted_and_nothing_else),
        TEST(a_policy_that_cannot_be_read_is_deleted_on_request),
        TEST(what_cannot_be_read_does_not_hold_up_the_end_of_policies),
        TEST(an_end_of_a_policy_is_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
