/* Tokens of each kind at each API, and in the look-ups of the secrets service. */
#include "api/registry_world.h"

static char service[128]; /* bearer of a token of the secrets service, without a right */

/* A token of each kind: root, `service`, and S1 with every right in the registry. */
static void make_tokens(void)
{
    struct test_request *t =
        as(root, METHOD_POST, "auth/token/create", "{\"policies\":[\"default\"]}");
    const char *at = strstr(text(t), "\"client_token\":\"");
    assert_non_null(at);
    at += strlen("\"client_token\":\"");
    (void)snprintf(service, sizeof service, "%.*s", (int)strcspn(at, "\""), at);
    (void)create_first("\"Policies\":[{\"ID\":\"" MANAGEMENT_ID "\"}]");
}

static void each_kind_acts_in_its_own_api(void **ctx)
{
    (void)ctx;
    make_tokens();
    const struct {
        const char *token;
        int secrets, registry;
    } rows[] = {{root, 200, 200}, {service, 200, 403}, {S1, 403, 200}, {S2, 403, 403}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        (void)expect(as(rows[i].token, METHOD_GET, "auth/token/lookup-self", NULL), rows[i].secrets,
                     rows[i].secrets == 403 ? "permission denied" : NULL);
        struct test_request *t = ask_as(rows[i].token, METHOD_GET, "acl/tokens", NULL);
        if (rows[i].registry == 403)
            assert_reply(t, 403, "ACL not found");
        else
            assert_int_equal(t->http, 200);
    }
    /* a token of one API in the header of the other counts as none */
    struct test_request t;
    test_request_init(&t, METHOD_GET, "/v1/acl/tokens", NULL);
    test_request_header(&t, "x-secrets-token", root);
    world_handle(&w, &t);
    assert_has(&t, 403, "anonymous token lacks permission 'acl:read'");
    test_request_done(&t);
}

static void the_secrets_service_finds_every_kind_by_accessor(void **ctx)
{
    (void)ctx;
    make_tokens();
    struct test_request *t =
        as(root, METHOD_POST, "auth/token/lookup-accessor", "{\"accessor\":\"" A1 "\"}");
    (void)expect(t, 200, "\"type\":\"registry\"");
    (void)expect(t, 200, "\"id\":\"\"");
    assert_lacks(t, S1);
    t = as(root, METHOD_POST, "auth/token/lookup", "{\"token\":\"" S1 "\"}");
    (void)expect(t, 403, "bad token");
    t = as(root, METHOD_POST, "auth/token/renew-accessor", "{\"accessor\":\"" A1 "\"}");
    (void)expect(t, 400, "invalid accessor");
    t = as(root, METHOD_POST, "auth/token/revoke-accessor", "{\"accessor\":\"" A1 "\"}");
    (void)expect(t, 204, NULL);
    assert_reply(ask_as(S1, METHOD_GET, "acl/tokens", NULL), 403, "ACL not found");
    t = as(root, METHOD_POST, "auth/token/lookup-accessor", "{\"accessor\":\"" A1 "\"}");
    (void)expect(t, 400, "invalid accessor");
}

static void a_list_shows_its_own_kind(void **ctx)
{
    (void)ctx;
    char accessor[64];
    make_tokens();
    struct test_request *t = as(service, METHOD_GET, "auth/token/lookup-self", NULL);
    (void)member_of(t, "accessor", accessor);
    t = as(root, METHOD_LIST, "auth/token/accessors", NULL);
    (void)expect(t, 200, accessor);
    assert_lacks(t, A1);
    t = ask(METHOD_GET, "acl/tokens", NULL);
    (void)expect(t, 200, A1);
    assert_lacks(t, accessor);
    char path[128];
    (void)snprintf(path, sizeof path, "acl/token/%s", accessor);
    assert_reply(ask(METHOD_GET, path, NULL), 403, MISSING);
}

static void a_registry_token_ends_with_the_common_expiry(void **ctx)
{
    (void)ctx;
    unsigned before = count_keys();
    (void)create_first("\"ExpirationTTL\":\"1m\"");
    w.later_ms = 60 * 1000 - 1;
    assert_false(upkeep());
    w.later_ms++;
    assert_true(upkeep());
    assert_int_equal(count_keys(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        REGISTRY_TEST(each_kind_acts_in_its_own_api),
        REGISTRY_TEST(the_secrets_service_finds_every_kind_by_accessor),
        REGISTRY_TEST(a_list_shows_its_own_kind),
        REGISTRY_TEST(a_registry_token_ends_with_the_common_expiry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
