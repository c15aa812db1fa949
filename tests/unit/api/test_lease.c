#include "api/api_world.h"
#include "lease/lease.h"
#include "state/ns_key.h"

/* A call of w.token's; `path` is below "/v1/". */
static struct test_request *ask(enum http_method method, const char *path, const char *body,
                                int http)
{
    return expect(as(w.token, method, path, body), http, NULL);
}

static void make(const char *path, const char *body, char ret_token[64])
{
    struct test_request *t = ask(METHOD_POST, path, body, 200);
    const char *at = strstr((const char *)t->body.data, "\"client_token\":\"");
    assert_non_null(at);
    (void)snprintf(ret_token, 64, "%.*s", (int)strcspn(at + 16, "\""), at + 16);
}

static bool is_good(const char *token)
{
    char body[100];
    (void)snprintf(body, sizeof body, "{\"token\":\"%.63s\"}", token); /* as make() */
    return world_request(&w, METHOD_POST, "/v1/auth/token/lookup", body)->http == 200;
}

/* The only lease below a path. */
static void only_lease(const char *path, char ret_id[200])
{
    char target[200];
    (void)snprintf(target, sizeof target, "sys/leases/lookup/%s", path);
    struct test_request *t = ask(METHOD_LIST, target, NULL, 200);
    const char *at = strstr((const char *)t->body.data, "\"keys\":[\"");
    assert_non_null(at);
    (void)snprintf(ret_id, 200, "%s/%.*s", path, (int)strcspn(at + 9, "\""), at + 9);
    assert_non_null(strstr(at, "\"]}"));
}

static const char *named(const char *id)
{
    static char body[300];
    (void)snprintf(body, sizeof body, "{\"lease_id\":\"%s\"}", id);
    return body;
}

static void a_token_is_a_lease(void **ctx)
{
    (void)ctx;
    char token[64], id[200];
    make("auth/token/create", "{\"ttl\":\"1h\",\"policies\":\"default\"}", token);
    only_lease("auth/token/create", id);
    struct test_request *t = ask(METHOD_POST, "sys/leases/lookup", named(id), 200);
    assert_body_has(t, id);
    assert_body_has(t, "\"issue_time\":\"2023-11-14T22:13:20Z\","
                       "\"expire_time\":\"2023-11-14T23:13:20Z\",\"last_renewal\":null,"
                       "\"renewable\":true,\"ttl\":3600}");
    char body[100];
    (void)snprintf(body, sizeof body, "{\"token\":\"%s\"}", token);
    w.later_ms = 60000;
    (void)ask(METHOD_POST, "auth/token/renew", body, 200);
    w.later_ms = 90000;
    t = ask(METHOD_POST, "sys/leases/lookup", named(id), 200);
    assert_body_has(t, "\"last_renewal\":\"2023-11-14T22:14:20Z\"");
    assert_body_has(t, "\"ttl\":3570}");
    assert_body_has(ask(METHOD_LIST, "sys/leases/lookup", NULL, 200), "[\"auth/\"]");
    assert_body_has(ask(METHOD_POST, "sys/leases/renew", named(id), 400), "tokens cannot be");
    assert_body_has(ask(METHOD_POST, "sys/renew", named("a/b"), 400), "lease not found");
    assert_body_has(ask(METHOD_POST, "sys/leases/lookup", "{}", 400), "lease_id");
}

/* Its index does not name it, but its id may be known. */
static void a_token_without_an_end_is_no_lease_by_name(void **ctx)
{
    (void)ctx;
    struct arena arena = {0};
    struct state_txn txn;
    struct auth_token token;
    char id[100];
    assert_status(state_begin(w.state, &arena, NULL, &txn), ST_OK);
    const struct auth_scope scope = {
        .txn = &txn, .cipher = state_cipher(w.state), .ns = "root", .now_ms = 1700000000000};
    assert_status(auth_token_load(&scope, bytes_str(root), &token), ST_OK);
    (void)snprintf(id, sizeof id, "%s/%s", token.path, token.id);
    state_end(&txn);
    arena_done(&arena);
    assert_body_has(ask(METHOD_POST, "sys/leases/lookup", named(id), 400), "invalid lease");
    (void)ask(METHOD_POST, "sys/leases/revoke", named(id), 204);
    assert_true(is_good(root));
}

static void a_prefix_without_its_slash_may_be_one_lease(void **ctx)
{
    (void)ctx;
    char token[64], other[64], id[200], path[260];
    make("auth/token/create", "{\"ttl\":\"1h\"}", token);
    only_lease("auth/token/create", id);
    make("auth/token/create", "{\"ttl\":\"1h\"}", other);
    (void)snprintf(path, sizeof path, "sys/leases/revoke-prefix/%s", id);
    (void)ask(METHOD_PUT, path, NULL, 204);
    assert_true(!is_good(token) && is_good(other));
}

static void only_its_whole_name_names_a_lease(void **ctx)
{
    (void)ctx;
    char token[64], id[200], other[240];
    make("auth/token/create", "{\"ttl\":\"1h\"}", token);
    only_lease("auth/token/create", id);
    const char *last = strrchr(id, '/') + 1;
    const char *const before[] = {"",  "auth/token/",         "auth/token/create-orphan/",
                                  "/", "auth/token/create//", "x/auth/token/create/"};
    for (size_t i = 0; i < ARRAY_LEN(before); i++) {
        (void)snprintf(other, sizeof other, "%s%s", before[i], last);
        assert_body_has(ask(METHOD_POST, "sys/leases/lookup", named(other), 400), "invalid lease");
        (void)ask(METHOD_POST, "sys/leases/revoke", named(other), 204);
    }
    (void)snprintf(other, sizeof other, "auth/token/create/%.31s", last);
    (void)ask(METHOD_POST, "sys/leases/revoke", named(other), 204);
    assert_true(is_good(token));
}

static void revoking_a_lease_ends_the_token_and_its_children(void **ctx)
{
    (void)ctx;
    char token[64], child[64], id[200], path[240];
    make("auth/token/create", "{\"ttl\":\"1h\",\"policies\":\"root\"}", token);
    only_lease("auth/token/create", id);
    memcpy(w.token, token, sizeof token);
    make("auth/token/create", "{\"ttl\":\"1h\"}", child);
    memcpy(w.token, root, sizeof root);
    (void)snprintf(path, sizeof path, "sys/leases/revoke/%s", id);
    (void)ask(METHOD_PUT, path, "{\"sync\":true}", 204);
    assert_false(is_good(token));
    assert_false(is_good(child));
    (void)ask(METHOD_POST, "sys/leases/lookup", named(id), 400);
    (void)ask(METHOD_PUT, path, NULL, 204); /* again */
}

static void what_never_ends_is_no_lease(void **ctx)
{
    (void)ctx;
    char token[64];
    make("auth/token/create", "{}", token); /* root, as its parent */
    (void)ask(METHOD_LIST, "sys/leases/lookup/auth", NULL, 404);
    make("auth/token/create", "{\"type\":\"batch\",\"policies\":\"default\"}", token);
    (void)ask(METHOD_LIST, "sys/leases/lookup/auth", NULL, 404);
}

static void a_prefix_ends_what_is_below_it_alone(void **ctx)
{
    (void)ctx;
    char a[64], b[64], c[64];
    (void)ask(METHOD_POST, "auth/token/roles/r", "{}", 204);
    make("auth/token/create", "{\"ttl\":\"1h\"}", a);
    make("auth/token/create/r", "{\"ttl\":\"1h\",\"policies\":\"default\"}", b);
    make("auth/token/create-orphan", "{\"ttl\":\"1h\"}", c);
    assert_body_has(
        ask(METHOD_GET, "sys/leases/count", NULL, 200),
        "\"counts\":{\"auth/token/\":3},\"lease_count\":3,\"namespaces\":{\"root\":3}}");
    assert_body_has(ask(METHOD_GET, "sys/leases/count?type=irrevocable", NULL, 200),
                    "\"counts\":{},\"lease_count\":0,\"namespaces\":{\"root\":0}}");
    (void)ask(METHOD_GET, "sys/leases/count?type=odd", NULL, 400);
    (void)ask(METHOD_POST, "sys/leases/revoke-prefix/auth/token/create/r", NULL, 204);
    assert_true(is_good(a) && !is_good(b) && is_good(c));
    (void)ask(METHOD_POST, "sys/leases/revoke-prefix/auth/token/crea", NULL, 204);
    assert_true(is_good(a) && is_good(c));
    (void)ask(METHOD_PUT, "sys/revoke-force/auth/token/create", NULL, 204);
    assert_true(!is_good(a) && is_good(c));
    (void)ask(METHOD_PUT, "sys/revoke-prefix/auth", NULL, 204);
    assert_false(is_good(c));
    (void)ask(METHOD_LIST, "sys/leases/lookup", NULL, 404);
    (void)ask(METHOD_PUT, "sys/leases/revoke-prefix/", NULL, 400);
}

static void very_many_are_ended_by_the_active_node_but_none_that_came_later(void **ctx)
{
    (void)ctx;
    enum { MANY = LEASE_STEPS_MAX + 150, LATER = 40 }; /* some of them among the rest */
    char token[64], last[64], later[LATER][64];
    for (int i = 0; i < MANY; i++)
        make("auth/token/create", "{\"ttl\":\"1h\"}", i + 1 < MANY ? token : last);
    struct test_request *t = ask(METHOD_PUT, "sys/leases/revoke-prefix/auth/token", NULL, 202);
    assert_body_has(t, "the active node is ending them");
    w.later_ms = 1;
    for (int i = 0; i < LATER; i++)
        make("auth/token/create", "{\"ttl\":\"1h\"}", later[i]);
    w.later_ms = 2;
    unsigned rounds = 0;
    while (upkeep())
        assert_true(++rounds < 20); /* the sweep of each token is a step too */
    assert_true(rounds >= 2);
    assert_true(!is_good(last) && !is_good(token));
    for (int i = 0; i < LATER; i++)
        assert_true(is_good(later[i]));
    assert_body_has(ask(METHOD_GET, "sys/leases/count", NULL, 200), "\"lease_count\":40,");
}

static void revoking_many_needs_sudo(void **ctx)
{
    (void)ctx;
    static const struct {
        enum http_method method;
        const char *path;
    } calls[] = {{METHOD_PUT, "sys/leases/revoke-prefix/auth"},
                 {METHOD_PUT, "sys/leases/revoke-force/auth"},
                 {METHOD_PUT, "sys/revoke-prefix/auth"},
                 {METHOD_PUT, "sys/revoke-force/auth"},
                 {METHOD_LIST, "sys/leases/lookup/auth"},
                 {METHOD_LIST, "sys/leases"},
                 {METHOD_GET, "sys/leases"},
                 {METHOD_POST, "sys/leases/tidy"},
                 {METHOD_GET, "sys/leases/count"}};
    char token[64];
    (void)ask(METHOD_POST, "sys/policies/acl/most",
              "{\"policy\":\"path \\\"sys/*\\\" { capabilities = [\\\"create\\\", "
              "\\\"update\\\", \\\"read\\\", \\\"list\\\"] }\"}",
              204);
    make("auth/token/create", "{\"policies\":\"most\"}", token);
    memcpy(w.token, token, sizeof token);
    for (size_t i = 0; i < ARRAY_LEN(calls); i++)
        (void)ask(calls[i].method, calls[i].path, NULL, 403);
    memcpy(w.token, root, sizeof root);
    (void)ask(METHOD_POST, "sys/leases/tidy", NULL, 202);
}

static void all_leases_are_listed_and_counted(void **ctx)
{
    (void)ctx;
    char token[64], id[200];
    make("auth/token/create", "{\"ttl\":\"1h\"}", token);
    only_lease("auth/token/create", id);
    assert_body_has(ask(METHOD_LIST, "sys/leases", NULL, 200), id);
    make("auth/token/create", "{\"ttl\":\"1h\"}", token);
    assert_body_has(ask(METHOD_LIST, "sys/leases", NULL, 200), "\"lease_count\":2");
    struct test_request *t = ask(METHOD_GET, "sys/leases?list=true&limit=1", NULL, 200);
    assert_body_has(t, "\"leases\":[{\"lease_id\":\"auth/token/create/");
    assert_null(strstr(text(t), "\"},{"));
    assert_body_has(t, "\"lease_count\":2");
    assert_body_has(ask(METHOD_LIST, "sys/leases?type=irrevocable", NULL, 200),
                    "{\"leases\":[],\"lease_count\":0}");
    static const char *const wrong[] = {"type=odd", "limit=0", "limit=-1", "limit=some", "limit="};
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        char path[64];
        (void)snprintf(path, sizeof path, "sys/leases?%s", wrong[i]);
        (void)ask(METHOD_LIST, path, NULL, 400);
        (void)ask(METHOD_GET, path, NULL, 400);
    }
}

static void all_leases_are_read_as_well_as_listed(void **ctx)
{
    (void)ctx;
    char token[64];
    make("auth/token/create", "{\"ttl\":\"1h\"}", token);
    make("auth/token/create", "{\"ttl\":\"1h\"}", token);
    struct test_request *t = ask(METHOD_GET, "sys/leases?limit=none", NULL, 200);
    assert_body_has(t, "\"},{\"lease_id\":\"auth/token/create/");
    assert_body_has(t, "\"lease_count\":2");
    assert_body_has(ask(METHOD_GET, "sys/leases?type=irrevocable", NULL, 200),
                    "{\"leases\":[],\"lease_count\":0}");
}

/* Leases of a mount and of paths that no mount serves. */
static enum status index_leases(struct state_txn *txn, int64_t now_ms)
{
    static const char *const paths[] = {"lost/a", "lost/a/x", "lost/b", "lost/c"};
    (void)now_ms;
    for (size_t i = 0; i < ARRAY_LEN(paths); i++)
        TRY(lease_index_put(txn, STATE_NS_ROOT, paths[i], "id"));
    return ST_OK;
}

static void leases_without_a_mount_are_counted_beside_mounts(void **ctx)
{
    (void)ctx;
    char token[64];
    make("auth/token/create", "{\"ttl\":\"1h\"}", token);
    (void)ask(METHOD_POST, "sys/mounts/lost/a", "{\"type\":\"kv\"}", 204);
    assert_true(round_of(index_leases));
    assert_body_has(ask(METHOD_GET, "sys/leases/count", NULL, 200),
                    "\"counts\":{\"auth/token/\":1,\"lost/a/\":2,\"lost/b/\":1,\"lost/c/\":1}");
    struct test_request *t = ask(METHOD_GET, "sys/leases?limit=1", NULL, 200);
    assert_body_has(t, "{\"leases\":[{\"lease_id\":\"auth/token/create/");
    assert_body_has(t, "\"}],\"lease_count\":5");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_token_is_a_lease),
        TEST(a_token_without_an_end_is_no_lease_by_name),
        TEST(a_prefix_without_its_slash_may_be_one_lease),
        TEST(only_its_whole_name_names_a_lease),
        TEST(revoking_a_lease_ends_the_token_and_its_children),
        TEST(what_never_ends_is_no_lease),
        TEST(a_prefix_ends_what_is_below_it_alone),
        TEST(very_many_are_ended_by_the_active_node_but_none_that_came_later),
        TEST(revoking_many_needs_sudo),
        TEST(all_leases_are_listed_and_counted),
        TEST(all_leases_are_read_as_well_as_listed),
        TEST(leases_without_a_mount_are_counted_beside_mounts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
