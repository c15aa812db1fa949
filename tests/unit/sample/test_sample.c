/* The sample module in a server: a login through a mounted method, a lease of an engine. */
#include "api/token_world.h"
#include "sample/sample.h"

static int open_sample(void **ctx)
{
    static const struct module *const modules[] = {&token_module, &cubbyhole_module, SYS_MODULES,
                                                   &kv_module, &sample_module};
    (void)ctx;
    world_open(&w, modules, ARRAY_LEN(modules));
    world_init(&w);
    (void)snprintf(root, sizeof root, "%s", w.token);
    return 0;
}

#define SAMPLE(f) cmocka_unit_test_setup_teardown(f, open_sample, close_world)

/* A call without a token. */
static struct test_request *anonymous(enum http_method method, const char *path, const char *body)
{
    static struct test_request t;
    char target[200];
    (void)snprintf(target, sizeof target, "/v1/%s", path);
    test_request_done(&t);
    test_request_init(&t, method, target, body);
    world_handle(&w, &t);
    return &t;
}

static void enable(const char *path)
{
    char target[100];
    (void)snprintf(target, sizeof target, "sys/auth/%s", path);
    expect(post(root, target, "{\"type\":\"sample\",\"description\":\"words\"}"), 204, NULL);
}

/* A user "ann" with the word "x" and these settings. */
static void write_user(const char *at, const char *settings)
{
    char path[100], body[400];
    (void)snprintf(path, sizeof path, "auth/%s/users/ann", at);
    (void)snprintf(body, sizeof body, "{\"word\":\"x\"%s}", settings);
    expect(post(root, path, body), 204, NULL);
}

static struct test_request *log_in(const char *at)
{
    char path[100];
    (void)snprintf(path, sizeof path, "auth/%s/login/ann", at);
    return anonymous(METHOD_POST, path, "{\"word\":\"x\"}");
}

static struct made logged_in(const char *at)
{
    struct made m;
    struct test_request *t = expect(log_in(at), 200, NULL);
    copy_member(t, "client_token", m.token, sizeof m.token);
    copy_member(t, "accessor", m.accessor, sizeof m.accessor);
    return m;
}

/* Logins */

static void a_login_gives_a_token_as_its_role_says(void **ctx)
{
    (void)ctx;
    enable("words");
    write_user("words", ",\"token_ttl\":\"20m\",\"token_policies\":\"b,a,b\"");
    struct test_request *t = expect(log_in("words"), 200, "\"policies\":[\"a\",\"b\",\"default\"]");
    expect(t, 200,
           "\"metadata\":{\"username\":\"ann\"},\"lease_duration\":1200,\"renewable\":true");
    expect(t, 200, "\"token_type\":\"service\",\"orphan\":true");
    expect(t, 200, "\"mount_type\":\"sample\"");
    struct made m = logged_in("words");
    t = as(m.token, METHOD_GET, "auth/token/lookup-self", NULL);
    expect(t, 200, "\"path\":\"auth/words/login/ann\"");
    expect(t, 200, "\"display_name\":\"words-ann\"");
}

static void a_login_with_a_wrong_word_or_without_its_method_fails(void **ctx)
{
    (void)ctx;
    expect(log_in("words"), 403, "permission denied"); /* no mount: a token is asked for */
    enable("words");
    expect(log_in("words"), 400, "invalid username or word");
    write_user("words", "");
    expect(anonymous(METHOD_POST, "auth/words/login/ann", "{\"word\":\"y\"}"), 400, "invalid");
    expect(anonymous(METHOD_POST, "auth/words/login/ann", "{}"), 400, "word");
    expect(anonymous(METHOD_POST, "auth/words/users/ann", "{\"word\":\"y\"}"), 403, NULL);
    expect(anonymous(METHOD_GET, "auth/words/login/ann", NULL), 405, NULL);
}

static void a_login_gives_no_root_token(void **ctx)
{
    (void)ctx;
    enable("words");
    write_user("words", ",\"token_policies\":\"a,ROOT\"");
    expect(log_in("words"), 400, "auth methods cannot create root tokens");
}

static void bound_addresses_hold_for_login_and_token(void **ctx)
{
    (void)ctx;
    enable("words");
    write_user("words", ",\"token_bound_cidrs\":\"10.0.0.0/8\"");
    expect(log_in("words"), 403, "permission denied");
    write_user("words", ",\"token_bound_cidrs\":\"10.0.0.0/8,192.0.2.0/24\"");
    struct made m = logged_in("words");
    expect(as(m.token, METHOD_GET, "auth/token/lookup-self", NULL), 200,
           "\"bound_cidrs\":[\"10.0.0.0/8\",\"192.0.2.0/24\"]");
}

static void a_role_is_checked_when_it_is_written(void **ctx)
{
    (void)ctx;
    static const char *const bad[][2] = {
        {"\"token_num_uses\":-1", "token_num_uses"},
        {"\"token_ttl\":2,\"token_max_ttl\":1", "token_ttl"},
        {"\"token_bound_cidrs\":\"x\"", "token_bound_cidrs"},
        {"\"token_type\":\"x\"", "token_type"},
        {"\"token_type\":\"batch\",\"token_period\":1", "token_period"},
        {"\"token_type\":\"batch\",\"token_num_uses\":1", "token_num_uses"},
    };
    enable("words");
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        char body[200];
        (void)snprintf(body, sizeof body, "{\"word\":\"x\",%s}", bad[i][0]);
        expect(post(root, "auth/words/users/ann", body), 400, bad[i][1]);
    }
}

static void the_mount_and_the_role_bound_the_life_of_a_token(void **ctx)
{
    (void)ctx;
    enable("words");
    expect(post(root, "sys/auth/words/tune", "{\"default_lease_ttl\":600,\"max_lease_ttl\":1800}"),
           204, NULL);
    write_user("words", "");
    expect(log_in("words"), 200, "\"lease_duration\":600");
    write_user("words", ",\"token_ttl\":\"1h\"");
    expect(log_in("words"), 200, "exceeded the effective max_ttl of \\\"30m\\\"");
    expect(log_in("words"), 200, "\"lease_duration\":1800");
    write_user("words", ",\"token_max_ttl\":\"5m\"");
    expect(log_in("words"), 200, "\"lease_duration\":300");
    write_user("words", ",\"token_period\":\"10m\",\"token_explicit_max_ttl\":\"2h\"");
    expect(log_in("words"), 200, "\"lease_duration\":600");
}

static void the_mount_may_decide_the_type_of_tokens(void **ctx)
{
    (void)ctx;
    static const char *const types[][3] = {
        /* of the mount, of the role, given */
        {"default-service", "", "service"},
        {"default-batch", "", "batch"},
        {"default-batch", "service", "service"},
        {"default-service", "batch", "batch"},
        {"default-batch", "default", "batch"},
        {"service", "batch", "service"},
        {"batch", "service", "batch"},
        {"", "default-batch", "batch"},
        {"default-batch", "default-service", "service"},
    };
    enable("words");
    for (size_t i = 0; i < ARRAY_LEN(types); i++) {
        char body[100], given[64];
        (void)snprintf(body, sizeof body, "{\"token_type\":\"%s\"}", types[i][0]);
        expect(post(root, "sys/auth/words/tune", body), 204, NULL);
        (void)snprintf(body, sizeof body, ",\"token_type\":\"%s\"", types[i][1]);
        write_user("words", body);
        (void)snprintf(given, sizeof given, "\"token_type\":\"%s\"", types[i][2]);
        expect(log_in("words"), 200, given);
    }
    expect(post(root, "sys/auth/words/tune", "{\"token_type\":\"batch\"}"), 204, NULL);
    write_user("words", ",\"token_num_uses\":1");
    expect(log_in("words"), 400, "batch tokens cannot have \\\"num_uses\\\" set");
}

static void a_renewal_asks_the_method(void **ctx)
{
    (void)ctx;
    enable("words");
    write_user("words", ",\"token_ttl\":\"20m\",\"token_max_ttl\":\"1h\"");
    struct made m = logged_in("words");
    w.later_ms = 600000;
    expect(post(m.token, "auth/token/renew-self", NULL), 200, "\"lease_duration\":1200");
    expect(post(m.token, "auth/token/renew-self", "{\"increment\":\"2h\"}"), 200,
           "\"lease_duration\":3000"); /* an hour after the login */
    write_user("words", ",\"token_ttl\":\"10m\"");
    expect(post(m.token, "auth/token/renew-self", NULL), 200, "\"lease_duration\":600");
    write_user("words", ",\"token_period\":\"15m\"");
    expect(post(m.token, "auth/token/renew-self", NULL), 200, "\"lease_duration\":900");
    expect(as(root, METHOD_DELETE, "auth/words/users/ann", NULL), 204, NULL);
    expect(post(m.token, "auth/token/renew-self", NULL), 400, "user does not exist");
    assert_int_equal(status_of(m.token), 200);
    w.later_ms = 600000 + 900000;
    assert_int_equal(status_of(m.token), 403);
}

static void a_login_may_be_wrapped(void **ctx)
{
    (void)ctx;
    struct test_request t;
    char wrapping[200], accessor[64];
    enable("words");
    write_user("words", "");
    test_request_init(&t, METHOD_POST, "/v1/auth/words/login/ann", "{\"word\":\"x\"}");
    test_request_header(&t, "x-secrets-wrap-ttl", "60");
    world_handle(&w, &t);
    expect(&t, 200, "\"auth\":null");
    copy_member(&t, "token", wrapping, sizeof wrapping);
    copy_member(&t, "wrapped_accessor", accessor, sizeof accessor);
    test_request_done(&t);
    expect(post(wrapping, "sys/wrapping/unwrap", NULL), 200, accessor);
    expect(post(root, "auth/token/lookup-accessor", about("accessor", accessor)), 200, "words-ann");
}

static void uses_of_a_login_token_are_counted(void **ctx)
{
    (void)ctx;
    enable("words");
    write_user("words", ",\"token_num_uses\":2");
    struct made m = logged_in("words");
    assert_int_equal(status_of(m.token), 200);
    assert_int_equal(status_of(m.token), 200);
    assert_int_equal(status_of(m.token), 403);
}

/* Enabling and disabling */

static void disabling_a_method_ends_its_tokens_and_deletes_what_it_holds(void **ctx)
{
    (void)ctx;
    unsigned before = count_keys();
    enable("words");
    enable("more/words");
    write_policy("children", MAY_CREATE());
    write_user("words", ",\"token_policies\":\"children\"");
    write_user("more/words", "");
    struct made m = logged_in("words"), other = logged_in("more/words");
    struct made child = make(m.token, "{}");
    expect(as(root, METHOD_DELETE, "sys/auth/words", NULL), 204, NULL);
    assert_int_equal(status_of(m.token), 403);
    assert_int_equal(status_of(child.token), 403);
    assert_int_equal(status_of(other.token), 200);
    expect(as(other.token, METHOD_GET, "auth/token/lookup-self", NULL), 200,
           "\"display_name\":\"more-words-ann\"");
    expect(log_in("words"), 403, NULL);
    enable("words");
    expect(log_in("words"), 400, "invalid username or word"); /* the user is gone */
    expect(as(root, METHOD_DELETE, "sys/auth/words", NULL), 204, NULL);
    expect(as(root, METHOD_DELETE, "sys/auth/more/words", NULL), 204, NULL);
    (void)clean_up();
    assert_int_equal(count_keys(), before + 1); /* the policy */
}

static void a_disabled_method_of_many_tokens_ends_the_rest_later(void **ctx)
{
    (void)ctx;
    enable("words");
    write_user("words", "");
    for (unsigned i = 0; i < LEASE_STEPS_MAX; i++)
        (void)logged_in("words");
    struct made m[4];
    for (unsigned i = 0; i < ARRAY_LEN(m); i++)
        m[i] = logged_in("words");
    expect(as(root, METHOD_DELETE, "sys/auth/words", NULL), 200, "the active node is ending");
    while (upkeep())
        ;
    for (unsigned i = 0; i < ARRAY_LEN(m); i++)
        assert_int_equal(status_of(m[i].token), 403);
}

static void a_token_whose_method_is_gone_is_not_renewed(void **ctx)
{
    (void)ctx;
    enable("words");
    write_user("words", "");
    static char tokens[LEASE_STEPS_MAX + 2][64];
    for (unsigned i = 0; i < ARRAY_LEN(tokens); i++) {
        struct made m = logged_in("words");
        (void)snprintf(tokens[i], sizeof tokens[i], "%.63s", m.token);
    }
    expect(as(root, METHOD_DELETE, "sys/auth/words", NULL), 200, NULL);
    unsigned living = 0;
    for (unsigned i = 0; i < ARRAY_LEN(tokens); i++) {
        if (status_of(tokens[i]) != 200)
            continue;
        living++;
        expect(post(tokens[i], "auth/token/renew-self", NULL), 400, "no longer enabled");
    }
    assert_int_equal(living, 2);
}

static void methods_are_enabled_where_nothing_is(void **ctx)
{
    (void)ctx;
    expect(post(root, "sys/auth/words", "{\"type\":\"userpass\"}"), 400,
           "plugin not found in the catalog: userpass");
    expect(post(root, "sys/auth/words", "{\"type\":\"kv\"}"), 400, "plugin not found");
    expect(post(root, "sys/auth/words", "{\"type\":\"token\"}"), 400,
           "token credential backend cannot be instantiated");
    expect(post(root, "sys/auth/words", "{}"), 400, "type");
    expect(post(root, "sys/auth/words", "{\"type\":\"sample\",\"options\":{\"version\":\"1\"}}"),
           400, "does not allow setting a version");
    expect(post(root, "sys/auth/a+*", "{\"type\":\"sample\"}"), 400, "'+' and '*'");
    expect(post(root, "sys/auth/token", "{\"type\":\"sample\"}"), 400, "already in use");
    expect(post(root, "sys/mounts/words", "{\"type\":\"sample\"}"), 400, "plugin not found");
    enable("words");
    expect(post(root, "sys/auth/words", "{\"type\":\"sample\"}"), 400, "already in use");
    expect(post(root, "sys/auth/words/below", "{\"type\":\"sample\"}"), 400, "already in use");
    expect(post(root, "sys/auth/named",
                "{\"type\":\"plugin\",\"plugin_name\":\"sample\",\"config\":{"
                "\"default_lease_ttl\":\"10m\",\"token_type\":\"batch\"}}"),
           204, NULL);
    expect(as(root, METHOD_GET, "sys/auth/named", NULL), 200, "\"token_type\":\"batch\"");
    expect(as(root, METHOD_GET, "sys/auth/named", NULL), 200, "\"default_lease_ttl\":600");
    expect(as(root, METHOD_GET, "sys/auth", NULL), 200, "\"words/\":{\"type\":\"sample\"");
    expect(as(root, METHOD_DELETE, "sys/auth/token", NULL), 400, "cannot be disabled");
    expect(as(root, METHOD_DELETE, "sys/auth/none", NULL), 204, NULL);
}

static void an_engine_of_the_same_type_is_no_method(void **ctx)
{
    (void)ctx;
    expect(post(root, "sys/auth/lamps", "{\"type\":\"lamp\"}"), 400, "plugin not found");
    expect(post(root, "sys/mounts/lamps", "{\"type\":\"lamp\"}"), 204, NULL);
    expect(post(root, "lamps/login/ann", "{\"word\":\"x\"}"), 404, "unsupported path");
}

static void enabling_needs_sudo(void **ctx)
{
    (void)ctx;
    write_policy("mounts", "path \\\"sys/auth/*\\\" { capabilities = [\\\"create\\\", "
                           "\\\"update\\\", \\\"delete\\\"] }");
    struct made m = make(root, "{\"policies\":\"mounts\"}");
    expect(post(m.token, "sys/auth/words", "{\"type\":\"sample\"}"), 403, NULL);
    expect(as(m.token, METHOD_DELETE, "sys/auth/words", NULL), 403, NULL);
}

/* Leases */

static void take_lamp(char ret_id[200])
{
    struct test_request *t = expect(post(root, "lamps/take/a", "{\"ttl\":\"10m\"}"), 200,
                                    "\"renewable\":true,\"lease_duration\":600,\"data\":{\"name\"");
    copy_member(t, "lease_id", ret_id, 200);
    assert_int_equal(strncmp(ret_id, "lamps/take/a/", 13), 0);
}

static int burns(void)
{
    return as(root, METHOD_GET, "lamps/take/a", NULL)->http;
}

static const char *about_lease(const char *id, const char *more)
{
    static char body[300];
    (void)snprintf(body, sizeof body, "{\"lease_id\":\"%s\"%s}", id, more);
    return body;
}

static void a_lease_is_taken_renewed_and_ended(void **ctx)
{
    (void)ctx;
    char id[200];
    expect(post(root, "sys/mounts/lamps", "{\"type\":\"lamp\"}"), 204, NULL);
    take_lamp(id);
    assert_int_equal(burns(), 200);
    expect(post(root, "sys/leases/lookup", about_lease(id, "")), 200, "\"ttl\":600");
    w.later_ms = 60000;
    struct test_request *t =
        expect(post(root, "sys/leases/renew", about_lease(id, ",\"increment\":1200")), 200, id);
    expect(t, 200, "\"renewable\":true,\"lease_duration\":1200,\"data\":null");
    expect(post(root, "sys/leases/lookup", about_lease(id, "")), 200,
           "\"last_renewal\":\"2023-11-14T22:14:20Z\",\"renewable\":true,\"ttl\":1200");
    expect(as(root, METHOD_GET, "sys/leases/count", NULL), 200, "\"lamps/\":1");
    expect(post(root, "sys/leases/revoke", about_lease(id, "")), 204, NULL);
    assert_int_equal(burns(), 404);
    expect(post(root, "sys/leases/lookup", about_lease(id, "")), 400, "invalid lease");
    expect(post(root, "sys/leases/revoke", about_lease(id, "")), 204, NULL);
}

/* Each limit counts from the issue of the lease, and the warning names it. */
static void a_renewal_is_cut_to_the_limit_of_mount_or_system(void **ctx)
{
    (void)ctx;
    char id[200];
    expect(post(root, "sys/mounts/lamps", "{\"type\":\"lamp\"}"), 204, NULL);
    take_lamp(id);
    w.later_ms = 60000;
    struct test_request *t =
        expect(post(root, "sys/leases/renew", about_lease(id, ",\"increment\":\"9000h\"")), 200,
               "\"lease_duration\":2764740");
    expect(t, 200, "max_ttl of the system is \\\"768h\\\", counted from the issue");
    expect(post(root, "sys/mounts/lamps/tune", "{\"max_lease_ttl\":1000}"), 204, NULL);
    t = expect(post(root, "sys/leases/renew", about_lease(id, ",\"increment\":1200")), 200,
               "\"lease_duration\":940");
    expect(t, 200, "TTL of \\\"20m\\\" exceeded the effective max_ttl of \\\"15m40s\\\"");
    expect(t, 200, "max_ttl of the mount is \\\"16m40s\\\"");
    t = expect(post(root, "sys/leases/renew", about_lease(id, ",\"increment\":900")), 200,
               "\"lease_duration\":900");
    expect(t, 200, "\"warnings\":null");
    expect(post(root, "sys/mounts/lamps/tune", "{\"max_lease_ttl\":10}"), 204, NULL);
    expect(post(root, "sys/leases/renew", about_lease(id, "")), 200, "\"lease_duration\":900");
    expect(post(root, "lamps/take/b", "{\"ttl\":\"1h\"}"), 200, "\"lease_duration\":10");
    expect(post(root, "lamps/take/b", "{\"ttl\":\"1h\"}"), 200, "max_ttl of the mount");
    expect(as(root, METHOD_DELETE, "sys/mounts/lamps", NULL), 204, NULL);
    expect(post(root, "sys/leases/renew", about_lease(id, "")), 400, "lease not found");
}

/* A build of the first feature level would read the record of the lease as the name of a token. */
static void a_lease_waits_for_the_feature_level_of_its_record(void **ctx)
{
    (void)ctx;
    char id[200];
    expect(post(root, "sys/mounts/lamps", "{\"type\":\"lamp\"}"), 204, NULL);
    w.node.raft.feature = RLOG_FEATURE_FIRST;
    expect(post(root, "lamps/take/a", "{\"ttl\":\"10m\"}"), 503, "this needs feature level 2");
    assert_int_equal(burns(), 404);
    w.node.raft.feature = LEASE_FEATURE;
    take_lamp(id);
    assert_int_equal(burns(), 200);
}

static void a_lease_ends_with_its_time_or_its_mount(void **ctx)
{
    (void)ctx;
    char id[200];
    unsigned before = count_keys();
    expect(post(root, "sys/mounts/lamps", "{\"type\":\"lamp\"}"), 204, NULL);
    take_lamp(id);
    w.later_ms = 600000;
    expect(post(root, "sys/leases/lookup", about_lease(id, "")), 400, "invalid lease");
    assert_true(upkeep());
    assert_false(upkeep());
    assert_int_equal(burns(), 404);
    take_lamp(id);
    expect(post(root, "sys/remount", "{\"from\":\"lamps\",\"to\":\"other\"}"), 200, NULL);
    expect(as(root, METHOD_GET, "other/take/a", NULL), 404, NULL);
    expect(as(root, METHOD_LIST, "sys/leases/lookup/lamps", NULL), 404, NULL);
    expect(post(root, "other/take/a", "{}"), 200, NULL);
    expect(as(root, METHOD_DELETE, "sys/mounts/other", NULL), 204, NULL);
    assert_int_equal(count_keys(), before + 1); /* the record of the move */
}

/* Leases of tokens */

#define LAMPS_ONLY \
    "path \\\"lamps/*\\\" { capabilities = [\\\"create\\\", \\\"read\\\", \\\"update\\\"] }"

static void mount_lamps(void)
{
    expect(post(root, "sys/mounts/lamps", "{\"type\":\"lamp\"}"), 204, NULL);
    write_policy("lamps", LAMPS_ONLY " " MAY_CREATE());
}

static struct made holder(const char *by, const char *settings)
{
    char body[200];
    (void)snprintf(body, sizeof body, "{\"policies\":\"lamps\"%s}", settings);
    return make(by, body);
}

static unsigned keys_of(const char *kind)
{
    char prefix[64];
    (void)snprintf(prefix, sizeof prefix, "s/ns/root/%s/", kind);
    struct store_pin pin;
    assert_status(store_pin(w.m.store, "test", 0, &pin), ST_OK);
    unsigned n = (unsigned)store_count(&pin, bytes_str(prefix));
    store_unpin(&pin);
    return n;
}

static void all_rounds(void)
{
    while (upkeep())
        ;
}

static void a_lease_ends_with_its_token_or_an_ancestor(void **ctx)
{
    (void)ctx;
    mount_lamps();
    unsigned before = count_keys();
    struct made parent = holder(root, ""), child = holder(parent.token, "");
    char id[200];
    struct test_request *t = expect(post(child.token, "lamps/take/a", "{}"), 200, NULL);
    copy_member(t, "lease_id", id, sizeof id);
    expect(post(child.token, "lamps/take/many", "{\"count\":250}"), 200, "many");
    expect(post(parent.token, "lamps/take/b", "{\"payload\":900}"), 200, NULL);
    expect(post(root, "lamps/take/c", "{}"), 200, NULL);
    assert_int_equal(burns(), 200);
    assert_int_equal(keys_of("token-lease"), 253);
    expect(post(root, "auth/token/revoke", about("token", parent.token)), 204, NULL);
    /* no lease was swept, but none is good */
    assert_int_equal(keys_of("token-lease"), 253);
    assert_int_equal(burns(), 404);
    assert_int_equal(as(root, METHOD_GET, "lamps/take/b", NULL)->http, 404);
    assert_int_equal(as(root, METHOD_GET, "lamps/take/c", NULL)->http, 200);
    expect(post(root, "sys/leases/lookup", about_lease(id, "")), 400, "invalid lease");
    expect(post(root, "sys/leases/renew", about_lease(id, "")), 400, "lease not found");
    expect(post(root, "sys/leases/revoke", about_lease(id, "")), 204, NULL);
    while (upkeep())
        ;
    assert_int_equal(keys_of("token-lease"), 1);
    assert_int_equal(count_keys(), before + 4); /* of the lease of root */
}

static void a_lease_ends_with_the_expiry_or_the_last_use_of_its_token(void **ctx)
{
    (void)ctx;
    mount_lamps();
    struct made m = holder(root, ",\"ttl\":\"5m\"");
    expect(post(m.token, "lamps/take/a", "{\"ttl\":\"1h\"}"), 200, "\"lease_duration\":3600");
    w.later_ms = 299000;
    assert_int_equal(burns(), 200);
    w.later_ms = 300000;
    assert_int_equal(burns(), 404);
    m = holder(root, ",\"num_uses\":3");
    expect(post(m.token, "lamps/take/a", "{}"), 200, NULL);
    assert_int_equal(as(m.token, METHOD_GET, "lamps/take/a", NULL)->http, 200);
    expect(post(m.token, "lamps/take/b", "{}"), 400, "last use of a token");
    assert_int_equal(burns(), 404);
    all_rounds();
    assert_int_equal(keys_of("token-lease"), 0);
}

static void an_orphan_keeps_its_leases(void **ctx)
{
    (void)ctx;
    mount_lamps();
    struct made parent = holder(root, ""), child = holder(parent.token, "");
    expect(post(parent.token, "lamps/take/b", "{}"), 200, NULL);
    expect(post(child.token, "lamps/take/a", "{}"), 200, NULL);
    expect(post(root, "auth/token/revoke-orphan", about("token", parent.token)), 204, NULL);
    assert_int_equal(burns(), 200);
    assert_int_equal(as(root, METHOD_GET, "lamps/take/b", NULL)->http, 404);
    all_rounds();
    assert_int_equal(burns(), 200);
    assert_int_equal(keys_of("token-lease"), 1);
    expect(post(root, "auth/token/revoke", about("token", child.token)), 204, NULL);
    assert_int_equal(burns(), 404);
    all_rounds();
    assert_int_equal(keys_of("token-lease"), 0);
}

/* The lease belongs to the parent, and does not outlive the batch token. */
static void a_lease_of_a_batch_token_ends_with_it_or_its_parent(void **ctx)
{
    (void)ctx;
    char id[200];
    mount_lamps();
    struct made parent = holder(root, "");
    struct made batch = holder(parent.token, ",\"type\":\"batch\",\"ttl\":\"10m\"");
    struct test_request *t =
        expect(post(batch.token, "lamps/take/a", "{}"), 200, "\"lease_duration\":600");
    expect(t, 200, "ends with its batch token");
    copy_member(t, "lease_id", id, sizeof id);
    w.later_ms = 60000;
    expect(post(root, "sys/leases/renew", about_lease(id, ",\"increment\":1200")), 200,
           "\"lease_duration\":540");
    expect(post(root, "sys/leases/renew", about_lease(id, ",\"increment\":1200")), 200,
           "ends with the batch token");
    assert_int_equal(burns(), 200);
    w.later_ms = 600000;
    assert_int_equal(burns(), 404);
    all_rounds();
    batch = holder(parent.token, ",\"type\":\"batch\",\"ttl\":\"10m\"");
    expect(post(batch.token, "lamps/take/a", "{\"ttl\":60}"), 200, "\"lease_duration\":60");
    assert_int_equal(burns(), 200);
    expect(post(root, "auth/token/revoke", about("token", parent.token)), 204, NULL);
    assert_int_equal(burns(), 404);
    all_rounds();
    assert_int_equal(keys_of("token-lease"), 0);
}

static void the_payload_of_a_lease_is_bounded(void **ctx)
{
    (void)ctx;
    mount_lamps();
    expect(post(root, "lamps/take/a", "{\"payload\":1100}"), 413, "longer than 1024 bytes");
    assert_int_equal(burns(), 404);
}

/* Replies that the handler wraps */

static void a_reply_is_wrapped_because_its_handler_says_so(void **ctx)
{
    (void)ctx;
    char token[AUTH_TOKEN_MAX + 1];
    expect(post(root, "sys/mounts/lamps", "{\"type\":\"lamp\"}"), 204, NULL);
    struct test_request *t = expect(post(root, "lamps/give/a", "{}"), 200,
                                    "\"data\":null,\"wrap_info\":{\"token\":\"ey");
    expect(t, 200, "\"ttl\":1800,");
    expect(t, 200, "\"creation_path\":\"lamps/give/a\",\"wrapped_accessor\":\"\"}");
    assert_null(strstr(text(t), "\"name\""));
    copy_member(t, "token", token, sizeof token);
    expect(post(root, "sys/wrapping/unwrap", about("token", token)), 200,
           "\"data\":{\"name\":\"a\"}");
    expect(post(root, "sys/wrapping/unwrap", about("token", token)), 400, "not valid");
}

/* A client may shorten the time, but neither prolong it nor choose another form. */
static void headers_only_shorten_what_a_handler_wraps(void **ctx)
{
    (void)ctx;
    static const char *const asked[][2] = {
        {"0", "\"ttl\":1800,"}, {"60", "\"ttl\":60,"}, {"2h", "\"ttl\":1800,"}};
    expect(post(root, "sys/mounts/lamps", "{\"type\":\"lamp\"}"), 204, NULL);
    for (size_t i = 0; i < ARRAY_LEN(asked); i++) {
        struct test_request t;
        test_request_init(&t, METHOD_POST, "/v1/lamps/give/a", "{}");
        test_request_header(&t, "x-secrets-token", root);
        test_request_header(&t, "x-secrets-wrap-ttl", asked[i][0]);
        test_request_header(&t, "x-secrets-wrap-format", "");
        world_handle(&w, &t);
        expect(&t, 200, "\"wrap_info\":{\"token\":\"ey");
        expect(&t, 200, asked[i][1]);
        test_request_done(&t);
    }
}

/* The absence of the key is a precondition: no second key replaces it. */
static void put_another_key(struct world *world)
{
    (void)world;
    world_put("s/core/wrapping/jwtkey", "");
}

static void a_standby_answers_an_engines_post_that_reads(void **ctx)
{
    (void)ctx;
    mount_lamps();
    world_standby(&w, true);
    w.proposals = w.reads = 0;
    struct test_request *t = post(root, "lamps/describe/red", "{}");
    expect(t, 200, "\"name\":\"red\"");
    assert_int_equal(w.forwards, 0);
    assert_int_equal(w.reads, 1); /* confirmed, as every read */
    expect(post(root, "lamps/take/red", "{}"), 299, NULL);
    assert_int_equal(w.forwards, 1);
    expect(post(root, "lamps/count/red", "{}"), 299, NULL); /* what stages is forwarded */
    assert_int_equal(w.forwards, 2);
    assert_int_equal(w.proposals, 0);
    expect(post("hvs.unknown", "lamps/describe/red", "{}"), 403, "permission denied");
    expect(post(root, "nothing/describe/red", "{}"), 299, NULL); /* the active node refuses it */
    world_standby(&w, false);
    expect(post(root, "lamps/describe/red", "{}"), 299, NULL);
}

static void another_maker_of_the_key_makes_the_handler_run_again(void **ctx)
{
    (void)ctx;
    expect(post(root, "sys/mounts/lamps", "{\"type\":\"lamp\"}"), 204, NULL);
    unsigned before = w.proposals;
    w.before_propose = put_another_key;
    /* the key that came meanwhile is no key, which the second run finds */
    expect(post(root, "lamps/give/a", "{}"), 500, "corrupt");
    assert_int_equal(w.proposals, before + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SAMPLE(a_login_gives_a_token_as_its_role_says),
        SAMPLE(a_login_with_a_wrong_word_or_without_its_method_fails),
        SAMPLE(a_login_gives_no_root_token),
        SAMPLE(bound_addresses_hold_for_login_and_token),
        SAMPLE(a_role_is_checked_when_it_is_written),
        SAMPLE(the_mount_and_the_role_bound_the_life_of_a_token),
        SAMPLE(the_mount_may_decide_the_type_of_tokens),
        SAMPLE(a_renewal_asks_the_method),
        SAMPLE(a_login_may_be_wrapped),
        SAMPLE(uses_of_a_login_token_are_counted),
        SAMPLE(disabling_a_method_ends_its_tokens_and_deletes_what_it_holds),
        SAMPLE(a_disabled_method_of_many_tokens_ends_the_rest_later),
        SAMPLE(a_token_whose_method_is_gone_is_not_renewed),
        SAMPLE(methods_are_enabled_where_nothing_is),
        SAMPLE(an_engine_of_the_same_type_is_no_method),
        SAMPLE(enabling_needs_sudo),
        SAMPLE(a_lease_is_taken_renewed_and_ended),
        SAMPLE(a_renewal_is_cut_to_the_limit_of_mount_or_system),
        SAMPLE(a_lease_waits_for_the_feature_level_of_its_record),
        SAMPLE(a_lease_ends_with_its_time_or_its_mount),
        SAMPLE(a_lease_ends_with_its_token_or_an_ancestor),
        SAMPLE(a_lease_ends_with_the_expiry_or_the_last_use_of_its_token),
        SAMPLE(an_orphan_keeps_its_leases),
        SAMPLE(a_lease_of_a_batch_token_ends_with_it_or_its_parent),
        SAMPLE(the_payload_of_a_lease_is_bounded),
        SAMPLE(a_reply_is_wrapped_because_its_handler_says_so),
        SAMPLE(headers_only_shorten_what_a_handler_wraps),
        SAMPLE(another_maker_of_the_key_makes_the_handler_run_again),
        SAMPLE(a_standby_answers_an_engines_post_that_reads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
