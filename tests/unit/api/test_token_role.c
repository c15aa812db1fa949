#include "api/token_world.h"

static void a_role_decides_how_its_tokens_are(void **ctx)
{
    (void)ctx;
    expect(as(root, METHOD_LIST, "auth/token/roles", NULL), 404, NULL);
    expect(post(root, "auth/token/roles/r",
                "{\"allowed_policies\":\"a,b\",\"orphan\":true,"
                "\"period\":\"10m\",\"token_num_uses\":3,"
                "\"path_suffix\":\"s\",\"renewable\":true}"),
           204, NULL);
    expect(as(root, METHOD_LIST, "auth/token/roles", NULL), 200, "{\"keys\":[\"r\"]}");
    expect(as(root, METHOD_LIST, "auth/token/roles?after=r", NULL), 404, NULL);
    expect(as(root, METHOD_LIST, "auth/token/roles?limit=x", NULL), 400, "limit");
    struct test_request *t = as(root, METHOD_GET, "auth/token/roles/r", NULL);
    expect(t, 200, "\"name\":\"r\",\"allowed_policies\":[\"a\",\"b\"],");
    expect(t, 200, "\"token_period\":600,");
    expect(t, 200, "\"period\":600,\"explicit_max_ttl\":0}");
    t = post(root, "auth/token/create/r", NULL);
    expect(t, 200, "\"policies\":[\"a\",\"b\",\"default\"]");
    expect(t, 200, "\"lease_duration\":600,");
    expect(t, 200, "\"orphan\":true,\"mfa_requirement\":null,\"num_uses\":3}");
    expect(post(root, "auth/token/create/r", "{\"policies\":\"c\"}"), 400, "subset of the role");
    expect(post(root, "auth/token/roles/r",
                "{\"disallowed_policies_glob\":\"a*\","
                "\"token_num_uses\":\"0\"}"),
           204, NULL);
    expect(post(root, "auth/token/create/r", "{\"policies\":\"a\"}"), 400, "disallowed");
    struct made m = make_at(root, "auth/token/create/r", "{\"policies\":\"b\"}");
    expect(post(root, "auth/token/lookup", about("token", m.token)), 200,
           "\"path\":\"auth/token/create/r/s\"");
    expect(post(root, "auth/token/roles/r", "{\"token_period\":1200}"), 204, NULL);
    expect(post(root, "auth/token/renew", about("token", m.token)), 200,
           "\"lease_duration\":1200,");
    expect(post(root, "auth/token/roles/r", "{\"token_period\":600}"), 204, NULL);
    expect(post(root, "auth/token/renew", about("token", m.token)), 200, "\"lease_duration\":600,");
    assert_int_equal(as(root, METHOD_DELETE, "auth/token/roles/r", NULL)->http, 204);
    expect(post(root, "auth/token/renew", about("token", m.token)), 400, "original token role");
    expect(as(root, METHOD_GET, "auth/token/roles/r", NULL), 404, NULL);
}

static void a_role_is_checked_when_it_is_written(void **ctx)
{
    (void)ctx;
    static const char *const bodies[] = {
        "{\"token_type\":\"x\"}",
        "{\"token_num_uses\":-1}",
        "{\"token_bound_cidrs\":\"10.0.0.1/8\"}",
        "{\"bound_cidrs\":[\"10.0.0.0/8\",\"here\"]}",
        "{\"token_type\":\"batch\"}",
        "{\"token_type\":\"batch\",\"renewable\":false}",
        "{\"token_type\":\"batch\",\"orphan\":true}",
        "{\"token_type\":\"batch\",\"renewable\":false,\"orphan\":true,\"token_period\":60}",
        "{\"token_type\":\"batch\",\"renewable\":false,\"orphan\":true,\"explicit_max_ttl\":60}",
        "{\"token_type\":\"batch\",\"renewable\":false,\"orphan\":true,\"token_num_uses\":6}",
        "{\"path_suffix\":\"a/b\"}",
        "{\"token_period\":\"soon\"}",
    };
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++)
        assert_int_equal(post(root, "auth/token/roles/r", bodies[i])->http, 400);
    expect(as(root, METHOD_GET, "auth/token/roles/r", NULL), 404, NULL);
    expect(post(root, "auth/token/roles/b",
                "{\"token_type\":\"batch\",\"allowed_policies\":\"a\",\"orphan\":true,"
                "\"renewable\":false}"),
           204, NULL);
    expect(post(root, "auth/token/roles/b", "{\"orphan\":false}"), 400,
           "cannot be 'batch' when role is set to generate non-orphan tokens");
    struct made m = make_at(root, "auth/token/create/b", NULL);
    assert_true(strncmp(m.token, "hvb.", 4) == 0);
}

static void the_stricter_of_role_and_request_counts(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *role, *asked, *says;
    } cases[] = {
        {"{\"token_period\":600}", "{\"period\":300}", "\"lease_duration\":300,"},
        {"{\"token_period\":300}", "{\"period\":600}", "\"lease_duration\":300,"},
        {"{\"token_num_uses\":3}", "{\"num_uses\":5}", "\"num_uses\":3}"},
        {"{\"token_num_uses\":5}", "{\"num_uses\":3}", "\"num_uses\":3}"},
        {"{\"token_explicit_max_ttl\":50}", "{\"explicit_max_ttl\":40}", "\"lease_duration\":40,"},
        {"{\"token_explicit_max_ttl\":40}", "{\"explicit_max_ttl\":50}", "\"lease_duration\":40,"},
        {"{\"renewable\":false}", "{\"renewable\":true,\"ttl\":9}",
         "\"lease_duration\":9,\"renewable\":false"},
        {"{\"renewable\":true}", "{\"renewable\":false,\"ttl\":9}",
         "\"lease_duration\":9,\"renewable\":false"},
        {"{\"token_type\":\"batch\",\"orphan\":true,\"renewable\":false}",
         "{\"type\":\"service\",\"policies\":\"a\"}", "\"token_type\":\"batch\""},
        {"{\"token_type\":\"service\"}", "{\"type\":\"batch\"}", "\"token_type\":\"service\""},
        {"{\"token_type\":\"default-batch\"}", "{\"policies\":\"a\"}", "\"token_type\":\"batch\""},
        {"{\"token_type\":\"default-batch\"}", "{\"type\":\"service\"}",
         "\"token_type\":\"service\""},
        {"{\"token_type\":\"default-service\"}", "{\"type\":\"batch\",\"policies\":\"a\"}",
         "\"renewable\":false,\"entity_id\":\"\",\"token_type\":\"batch\""},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        write_role(cases[i].role);
        expect(post(root, "auth/token/create/r", cases[i].asked), 200, cases[i].says);
    }
}

/* A period or an explicit maximum of the role bounds a batch token; its own fields are refused. */
static void a_batch_token_is_bound_by_its_role(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *role, *asked;
        int http;
        const char *says;
    } cases[] = {
        {"{\"token_explicit_max_ttl\":50}", "\"ttl\":40", 200, "\"lease_duration\":40,"},
        {"{\"token_explicit_max_ttl\":50}", "\"ttl\":60", 200, "\"lease_duration\":50,"},
        {"{\"token_explicit_max_ttl\":50}", "\"num_uses\":0", 200, "\"lease_duration\":50,"},
        {"{\"token_period\":50}", "\"ttl\":40", 200, "\"lease_duration\":40,"},
        {"{\"token_period\":50}", "\"ttl\":60", 200, "\"lease_duration\":50,"},
        {"{\"token_period\":50,\"token_explicit_max_ttl\":45}", "\"ttl\":60", 200,
         "\"lease_duration\":45,"},
        {"{}", "\"explicit_max_ttl\":9", 400, "cannot have \\\"explicit_max_ttl\\\" set"},
        {"{}", "\"period\":9", 400, "cannot have \\\"period\\\" set"},
        {"{}", "\"num_uses\":9", 400, "cannot have \\\"num_uses\\\" set"},
        {"{\"token_num_uses\":9}", "\"ttl\":9", 400, "cannot have \\\"num_uses\\\" set"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char body[256];
        write_role(cases[i].role);
        (void)snprintf(body, sizeof body, "{\"type\":\"batch\",\"policies\":\"a\",%s}",
                       cases[i].asked);
        expect(post(root, "auth/token/create/r", body), cases[i].http, cases[i].says);
    }
}

/* The new name of a field counts, wherever it stands. */
static void the_new_name_of_a_role_s_field_wins(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *body, *old, *kept;
    } cases[] = {
        {"{\"period\":60,\"token_period\":600}", "'period'", "\"token_period\":600,"},
        {"{\"token_period\":600,\"period\":60}", "'period'", "\"token_period\":600,"},
        {"{\"explicit_max_ttl\":60,\"token_explicit_max_ttl\":600}", "'explicit_max_ttl'",
         "\"token_explicit_max_ttl\":600,"},
        {"{\"bound_cidrs\":\"10.0.0.0/8\",\"token_bound_cidrs\":\"11.0.0.0/8\"}", "'bound_cidrs'",
         "\"token_bound_cidrs\":[\"11.0.0.0/8\"]"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct test_request *t = post(root, "auth/token/roles/n", cases[i].body);
        expect(t, 200, "\"warnings\":[\"Both 'token_");
        expect(t, 200, cases[i].old);
        expect(as(root, METHOD_GET, "auth/token/roles/n", NULL), 200, cases[i].kept);
    }
    expect(post(root, "auth/token/roles/n", "{\"period\":60,\"token_period\":null}"), 204, NULL);
    expect(as(root, METHOD_GET, "auth/token/roles/n", NULL), 200, "\"token_period\":60,");
}

/* With a role, the role alone decides whether a token has a parent. */
static void the_role_alone_decides_about_the_parent(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *role, *asked, *says;
    } cases[] = {
        {"{\"orphan\":true,\"allowed_policies\":\"maker\"}", "{}", "\"orphan\":true"},
        {"{\"orphan\":true,\"allowed_policies\":\"maker\"}", "{\"no_parent\":true}",
         "\"orphan\":true"},
        {"{\"orphan\":true,\"allowed_policies\":\"maker\"}", "{\"no_parent\":false}",
         "\"orphan\":true"},
        {"{\"orphan\":false,\"allowed_policies\":\"maker\"}", "{}", "\"orphan\":false"},
        {"{\"orphan\":false,\"allowed_policies\":\"maker\"}", "{\"no_parent\":true}",
         "\"orphan\":false"},
    };
    write_policy(
        "maker",
        "path \\\"auth/token/create/*\\\" { capabilities = [\\\"update\\\"] }\\n" MAY_CREATE(""));
    struct made maker = make(root, "{\"policies\":\"maker\"}");
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        write_role(cases[i].role);
        expect(post(maker.token, "auth/token/create/r", cases[i].asked), 200, cases[i].says);
        expect(post(root, "auth/token/create/r", cases[i].asked), 200, cases[i].says);
    }
    expect(post(maker.token, "auth/token/create/r", "{\"no_parent\":true}"), 200,
           "\"warnings\":[\"no_parent has no effect");
    expect(post(maker.token, "auth/token/create", "{\"no_parent\":true}"), 400, "sudo");
}

static void a_role_gives_and_withholds_policies(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *role, *asked;
        int http;
        const char *says;
    } cases[] = {
        {"{\"disallowed_policies\":\"a\"}", "a", 400, "\\\"a\\\" is disallowed"},
        {"{\"disallowed_policies\":\"a\"}", "b", 200, "\"policies\":[\"b\",\"default\"]"},
        {"{\"disallowed_policies\":\"default\"}", "b", 200, "\"policies\":[\"b\"]"},
        {"{\"disallowed_policies\":\"default\"}", "default", 400, "disallowed"},
        {"{\"disallowed_policies_glob\":\"def*\"}", "b", 200, "\"policies\":[\"b\"]"},
        {"{\"allowed_policies_glob\":\"x*z\"}", "xyyz", 200, "\"policies\":[\"default\",\"xyyz\"]"},
        {"{\"allowed_policies_glob\":\"x*z\"}", "xz", 200, NULL},
        {"{\"allowed_policies_glob\":\"x*z\"}", "xyzy", 400, "subset"},
        {"{\"allowed_policies_glob\":\"x*z\"}", "axz", 400, "subset"},
        {"{\"allowed_policies_glob\":\"*ab\"}", "aab", 200, NULL},
        {"{\"allowed_policies_glob\":\"*abc\"}", "ababc", 200, NULL},
        {"{\"allowed_policies_glob\":\"a*b*c\"}", "aXbXbc", 200, NULL},
        {"{\"allowed_policies_glob\":\"a*b*c\"}", "aXcXb", 400, "subset"},
        {"{\"allowed_policies_glob\":\"x*\"}", "", 200, "\"policies\":[\"default\"]"},
        {"{\"token_no_default_policy\":true}", "b", 200, "\"policies\":[\"b\"]"},
        {"{\"allowed_policies\":\"b\",\"token_no_default_policy\":true}", "", 200,
         "\"policies\":[\"b\"]"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        write_role(cases[i].role);
        expect(post(root, "auth/token/create/r", about("policies", cases[i].asked)), cases[i].http,
               cases[i].says);
    }
}

static void a_role_keeps_what_is_not_given_anew(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf body = {0};
    expect(post(root, "auth/token/roles/r", "{\"token_period\":600,\"path_suffix\":\"s\"}"), 204,
           NULL);
    expect(post(root, "auth/token/roles/r", "{\"token_period\":null,\"path_suffix\":\"t\"}"), 204,
           NULL);
    struct test_request *t = as(root, METHOD_GET, "auth/token/roles/r", NULL);
    expect(t, 200, "\"token_period\":600,");
    expect(t, 200, "\"path_suffix\":\"t\"");
    for (size_t n = 64; n < 66; n++) {
        buf_clear(&body);
        buf_add_str(&body, "{\"token_bound_cidrs\":[\"10.0.0.0/8\"");
        for (size_t i = 1; i < n; i++)
            buf_add_format(&body, ",\"10.0.0.%zu\"", i);
        buf_add(&body, bytes_of("]}", 3));
        expect(post(root, "auth/token/roles/r", (const char *)body.data), n > 64 ? 400 : 204,
               n > 64 ? "token_bound_cidrs: more than 64" : NULL);
    }
}

static void a_renewal_follows_the_role_as_it_is_now(void **ctx)
{
    (void)ctx;
    write_role("{\"token_period\":600,\"allowed_policies\":\"a\"}");
    struct made m = make_at(root, "auth/token/create/r", NULL);
    expect(post(root, "auth/token/roles/r", "{\"token_period\":900}"), 204, NULL);
    expect(post(root, "auth/token/renew", about("token", m.token)), 200, "\"lease_duration\":900,");
    expect(post(root, "auth/token/roles/r", "{\"token_period\":0}"), 204, NULL);
    char body[AUTH_TOKEN_MAX + 64];
    (void)snprintf(body, sizeof body, "{\"token\":\"%s\",\"increment\":60}", m.token);
    expect(post(root, "auth/token/renew", body), 200, "\"lease_duration\":60,");
    expect(post(root, "auth/token/roles/r", "{\"token_explicit_max_ttl\":40}"), 204, NULL);
    w.later_ms += 10000;
    expect(post(root, "auth/token/renew", body), 200, "\"lease_duration\":30,");
    w.later_ms += 30000;
    assert_int_equal(status_of(m.token), 403);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_role_decides_how_its_tokens_are),
        TEST(a_role_is_checked_when_it_is_written),
        TEST(the_stricter_of_role_and_request_counts),
        TEST(a_batch_token_is_bound_by_its_role),
        TEST(the_new_name_of_a_role_s_field_wins),
        TEST(the_role_alone_decides_about_the_parent),
        TEST(a_role_gives_and_withholds_policies),
        TEST(a_role_keeps_what_is_not_given_anew),
        TEST(a_renewal_follows_the_role_as_it_is_now),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
