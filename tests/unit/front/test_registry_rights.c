/* What tokens of the registry may do by their policies, and clients without a token. */
#include "api/registry/registry.h"
#include "auth/registry/registry_anonymous.h"
#include "auth/registry/registry_policy.h"
#include "auth/registry/registry_settings.h"
#include "front/registry/registry.h"
#include "front/registry/registry_rights.h"
#include "router/world.h"

static struct world w;

#define POLICY "0b0cf8fd-6e1e-4c8d-b0a1-4b7b7c8e9f01"
#define ACCESSOR "11111111-2222-3333-4444-555555555555"
#define SECRET "66666666-7777-8888-9999-aaaaaaaaaaaa"
#define READ_ACL "acl = \"read\""
#define WRITE_ACL "acl = \"write\""

static const struct registry_row may_read = {
    .permission = "acl:read", .resource = REGISTRY_ACL, .level = REGISTRY_READ};
static const struct registry_row may_write = {
    .permission = "acl:write", .resource = REGISTRY_ACL, .level = REGISTRY_WRITE};

static const char *rules_now; /* rules of POLICY from the next plant on; NULL: POLICY is deleted */
static const char *datacenters[1];
static const char *bearer_now, *accessor_now; /* of a token to make; NULL: none */
static unsigned writes;

static enum status plant_policy(struct req *req)
{
    struct registry_policy before, policy = {.id = POLICY, .name = "p", .description = ""};
    enum status st = registry_policy_load(req->txn, req->ns, POLICY, &before);
    if (st != ST_OK && st != ST_NOT_FOUND)
        return st;
    bool stored = st == ST_OK;
    if (rules_now == NULL)
        return stored ? registry_policy_delete(req->txn, req->ns, &before) : ST_OK;
    policy.rules = rules_now;
    if (datacenters[0] != NULL)
        policy.datacenters = (struct field_strings){datacenters, 1, true};
    return registry_policy_put(req->txn, req->ns, &policy, stored ? &before : NULL);
}

/* Bring policy and token to what the test set; any client may. */
static enum status plant(struct req *req)
{
    static const char *const links[] = {POLICY};
    struct auth_token token = auth_token_of_kind(TOKEN_REGISTRY);
    const struct auth_scope scope = req_scope(req);
    TRY(plant_policy(req));
    if (bearer_now == NULL)
        return ST_OK;
    token.accessor = accessor_now;
    token.policies = (struct field_strings){links, 1, true};
    token.created_ms = req->now_ms;
    return auth_token_add(&scope, bytes_str(bearer_now), &token);
}

static enum status thing_read(struct req *req)
{
    struct text_writer out = req_reply_begin(req);
    text_put_bool(&out, registry_allow(req, REGISTRY_KEY, BYTES("app/1"), REGISTRY_WRITE) == ST_OK);
    return req_reply_end(req);
}

static enum status thing_write(struct req *req)
{
    writes++;
    return state_put(req->txn, BYTES("s/thing"), BYTES("x"));
}

static const struct route routes[] = {
    {.method = METHOD_GET, .path = "read", .handler = thing_read, .of_dialect = &may_read},
    {.method = METHOD_PUT, .path = "write", .handler = thing_write, .of_dialect = &may_write},
    {.method = METHOD_PUT, .path = "plant", .handler = plant},
};
static const struct route_api api = {.dialect = &registry_dialect,
                                     .prefix = "acl/thing/",
                                     .type = "registry",
                                     .routes = routes,
                                     .n = ARRAY_LEN(routes)};
static const struct route_api *const apis[] = {&api};
static const struct module thing_module = {.name = "thing", .apis = apis, .n_apis = 1};
static const struct module *const modules[] = {&thing_module, &token_module,    &cubbyhole_module,
                                               SYS_MODULES,   &registry_module, &kv_module};

static void open_with(bool default_allow)
{
    registry_settings_set(&(struct registry_settings){
        .acl = true, .default_allow = default_allow, .datacenter = "dc1"});
    rules_now = bearer_now = accessor_now = datacenters[0] = NULL;
    writes = 0;
    world_open(&w, modules, ARRAY_LEN(modules));
    world_init(&w);
}

static int open_world(void **ctx)
{
    (void)ctx;
    open_with(false);
    return 0;
}

static int close_world(void **ctx)
{
    (void)ctx;
    world_close(&w);
    return 0;
}

static struct test_request *ask(enum http_method method, const char *path, const char *token)
{
    static struct test_request t;
    static char target[64];
    (void)snprintf(target, sizeof target, "/v1/%s", path);
    test_request_done(&t);
    test_request_init(&t, method, target, method == METHOD_PUT ? "{}" : NULL);
    if (token != NULL)
        test_request_header(&t, "x-consul-token", token);
    world_handle(&w, &t);
    return &t;
}

static void assert_reply(const struct test_request *t, int http, const char *body)
{
    if (t->http != http || strcmp((const char *)t->body.data, body) != 0)
        fail_msg("%d %s, not %d %s", t->http, (const char *)t->body.data, http, body);
}

static void set_rules(const char *rules)
{
    rules_now = rules;
    assert_int_equal(ask(METHOD_PUT, "acl/thing/plant", w.token)->http, 200);
    bearer_now = NULL;
}

static void set_token(const char *rules, const char *bearer, const char *accessor)
{
    bearer_now = bearer;
    accessor_now = accessor;
    set_rules(rules);
}

static void policies_decide_what_a_token_may_do(void **ctx)
{
    (void)ctx;
    static const char lacks[] =
        "Permission denied: token with AccessorID '" ACCESSOR "' lacks permission 'acl:write'";
    set_token(READ_ACL, SECRET, ACCESSOR);
    assert_reply(ask(METHOD_GET, "acl/thing/read", SECRET), 200, "false");
    assert_reply(ask(METHOD_PUT, "acl/thing/write", SECRET), 403, lacks);
    set_rules(WRITE_ACL "\nkey_prefix \"app/\" { policy = \"write\" }");
    assert_reply(ask(METHOD_GET, "acl/thing/read", SECRET), 200, "true");
    assert_int_equal(ask(METHOD_PUT, "acl/thing/write", SECRET)->http, 200);
    set_rules(NULL); /* a deleted policy grants nothing */
    assert_int_equal(ask(METHOD_GET, "acl/thing/read", SECRET)->http, 403);
    assert_reply(ask(METHOD_GET, "acl/thing/read", w.token), 200, "true");
}

static void a_policy_counts_in_its_datacenters_alone(void **ctx)
{
    (void)ctx;
    datacenters[0] = "dc2";
    set_token(READ_ACL, SECRET, ACCESSOR);
    assert_int_equal(ask(METHOD_GET, "acl/thing/read", SECRET)->http, 403);
    datacenters[0] = "dc1";
    set_rules(READ_ACL);
    assert_int_equal(ask(METHOD_GET, "acl/thing/read", SECRET)->http, 200);
}

static void a_client_without_a_token_has_the_rights_of_the_anonymous_one(void **ctx)
{
    (void)ctx;
    assert_int_equal(ask(METHOD_GET, "acl/thing/read", NULL)->http, 403);
    set_token(READ_ACL, "anonymous", REGISTRY_ANONYMOUS);
    assert_reply(ask(METHOD_GET, "acl/thing/read", NULL), 200, "false");
    assert_reply(ask(METHOD_PUT, "acl/thing/write", NULL), 403,
                 "Permission denied: anonymous token lacks permission 'acl:write'. The anonymous "
                 "token is used implicitly when a request does not specify a token.");
    set_rules(NULL);
    assert_int_equal(ask(METHOD_GET, "acl/thing/read", NULL)->http, 403);
}

static void the_default_decides_where_no_rule_does(void **ctx)
{
    (void)ctx;
    world_close(&w);
    open_with(true);
    set_token("acl = \"read\"\nkey_prefix \"app/\" { policy = \"read\" }", SECRET, ACCESSOR);
    assert_reply(ask(METHOD_GET, "acl/thing/read", SECRET), 200, "false");
    set_rules("acl = \"read\"");
    assert_reply(ask(METHOD_GET, "acl/thing/read", SECRET), 200, "true");
    /* rights on ACLs come from rules alone */
    assert_int_equal(ask(METHOD_PUT, "acl/thing/write", SECRET)->http, 403);
    assert_int_equal(ask(METHOD_GET, "acl/thing/read", NULL)->http, 403);
}

static void an_agent_is_named_as_its_node(void **ctx)
{
    (void)ctx;
    set_token("agent \"node2\" { policy = \"read\" }", SECRET, ACCESSOR);
    assert_int_equal(ask(METHOD_GET, "agent/self", SECRET)->http, 403);
    set_rules("agent \"node1\" { policy = \"read\" }");
    assert_int_equal(ask(METHOD_GET, "agent/self", SECRET)->http, 200);
}

/* Delete the policy between the run of a handler and its commit. */
static void delete_policy(struct world *world)
{
    CLEANUP(rlog_txn_done) struct rlog_txn_builder txn = {0};
    CLEANUP(buf_done) struct buf encoded = {0};
    CLEANUP(buf_done) struct buf entry = {0};
    rlog_txn_delete(&txn, BYTES("s/ns/root/registry-policy/" POLICY));
    assert_status(rlog_txn_encode(&txn, &encoded), ST_OK);
    const struct bytes one = buf_bytes(&encoded);
    assert_status(rlog_entry_encode(RLOG_FEATURE_FIRST, 1000, &one, 1, &entry), ST_OK);
    rlog_machine_apply(&world->m, ++world->index, buf_bytes(&entry), NULL, NULL);
}

static void a_policy_that_goes_before_the_commit_allows_nothing(void **ctx)
{
    (void)ctx;
    set_token(WRITE_ACL, SECRET, ACCESSOR);
    w.before_propose = delete_policy;
    assert_int_equal(ask(METHOD_PUT, "acl/thing/write", SECRET)->http, 403);
    assert_int_equal(writes, 1);
}

static void an_anonymous_token_that_goes_before_the_commit_allows_nothing(void **ctx)
{
    (void)ctx;
    set_token(WRITE_ACL, "anonymous", REGISTRY_ANONYMOUS);
    w.before_propose = delete_policy;
    assert_int_equal(ask(METHOD_PUT, "acl/thing/write", NULL)->http, 403);
    assert_int_equal(writes, 1);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, open_world, close_world)
    const struct CMUnitTest tests[] = {
        TEST(policies_decide_what_a_token_may_do),
        TEST(a_policy_counts_in_its_datacenters_alone),
        TEST(a_client_without_a_token_has_the_rights_of_the_anonymous_one),
        TEST(the_default_decides_where_no_rule_does),
        TEST(an_agent_is_named_as_its_node),
        TEST(a_policy_that_goes_before_the_commit_allows_nothing),
        TEST(an_anonymous_token_that_goes_before_the_commit_allows_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
