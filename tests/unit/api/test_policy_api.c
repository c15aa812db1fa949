/* Policies over the API, and what tokens with these policies may do. */
#include "api/policy_world.h"
#include "base/mem.h"
#include "router/pipeline/worker.h"

static void policies_are_written_read_listed_and_deleted(void **ctx)
{
    (void)ctx;
    set_policy("My-Team", "path 'kv/*' { capabilities = ['read'] }");
    expect(as(root, METHOD_GET, "sys/policies/acl/my-team", NULL), 200,
           "\"data\":{\"name\":\"my-team\",\"policy\":\"path \\\"kv/*\\\" { capabilities = "
           "[\\\"read\\\"] }\",\"version\":1,\"cas_required\":false,"
           "\"modified\":\"2023-11-14T22:13:20Z\"}");
    expect(as(root, METHOD_GET, "sys/policy/MY-TEAM", NULL), 200, "\"rules\":\"path ");
    expect(as(root, METHOD_LIST, "sys/policies/acl", NULL), 200,
           "\"data\":{\"keys\":[\"default\",\"my-team\",\"root\"]}");
    expect(as(root, METHOD_GET, "sys/policy", NULL), 200,
           "\"policies\":[\"default\",\"my-team\",\"root\"]");
    expect(as(root, METHOD_DELETE, "sys/policies/acl/my-team", NULL), 204, NULL);
    expect(as(root, METHOD_DELETE, "sys/policy/my-team", NULL), 204, NULL);
    expect(as(root, METHOD_GET, "sys/policies/acl/my-team", NULL), 404, "{\"errors\":[]}");
    expect(as(root, METHOD_GET, "sys/policies/acl", NULL), 405, NULL);
}

static void reserved_policies_stay(void **ctx)
{
    (void)ctx;
    static const char *const names[] = {"root", "ROOT", "response-wrapping"};
    char path[100];
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        (void)snprintf(path, sizeof path, "sys/policies/acl/%s", names[i]);
        expect(as(root, METHOD_POST, path, "{\"policy\":\"path \\\"a\\\" {}\"}"), 400,
               "cannot update");
        expect(as(root, METHOD_DELETE, path, NULL), 400, "cannot delete");
        expect(as(root, METHOD_GET, path, NULL), 200, NULL);
    }
    expect(as(root, METHOD_DELETE, "sys/policy/default", NULL), 400, "cannot delete");
    expect(as(root, METHOD_GET, "sys/policies/acl/default", NULL), 200, "cubbyhole/*");
    set_policy("default", "path 'kv/x' { capabilities = ['read'] }");
    expect(as(root, METHOD_GET, "sys/policies/acl/default", NULL), 200, "kv/x");
}

static void wrong_policies_are_refused_with_a_reason(void **ctx)
{
    (void)ctx;
    static const char *const rows[][2] = {
        {"{}", "not supplied"},
        {"{\"policy\":\"\"}", "not supplied"},
        {"{\"policy\":\"path \\\"a\\\" {\\n capabilities = [\\\"all\\\"]\\n}\"}",
         "failed to parse policy: line 2: path \\\"a\\\": invalid capability \\\"all\\\""},
        {"{\"policy\":\"cGF0aCB7\"}", "failed to parse policy: line 1"},
        {"{\"policy\":[1]}", "Field validation failed"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        expect(as(root, METHOD_POST, "sys/policies/acl/x", rows[i][0]), 400, rows[i][1]);
    expect(as(root, METHOD_GET, "sys/policies/acl/x", NULL), 404, NULL);
    /* base64, and the older name of the field */
    expect(as(root, METHOD_POST, "sys/policy/x", "{\"rules\":\"cGF0aCAiYSIge30=\"}"), 204, NULL);
    expect(as(root, METHOD_GET, "sys/policies/acl/x", NULL), 200, "\"path \\\"a\\\" {}\"");
}

static void edits_count_at_once(void **ctx)
{
    (void)ctx;
    const char *token = make_token("edited");
    expect(as(token, METHOD_PUT, "kv/a", "{\"a\":1}"), 403, "* permission denied");
    set_policy("edited", "path 'kv/*' { capabilities = ['create', 'read'] }");
    expect(as(token, METHOD_PUT, "kv/a", "{\"a\":1}"), 204, NULL);
    expect(as(token, METHOD_PUT, "kv/a", "{\"a\":1}"), 403, NULL); /* it is there now */
    expect(as(token, METHOD_GET, "kv/a", NULL), 200, NULL);
    set_policy("edited", "path 'kv/*' { capabilities = ['update', 'deny'] }");
    expect(as(token, METHOD_GET, "kv/a", NULL), 403, NULL);
    set_policy("edited", "path 'kv/*' { capabilities = ['update'] }");
    expect(as(token, METHOD_PUT, "kv/a", "{\"a\":1}"), 204, NULL);
    expect(as(token, METHOD_PUT, "kv/new", "{\"a\":1}"), 403, NULL);
    expect(as(root, METHOD_DELETE, "sys/policies/acl/edited", NULL), 204, NULL);
    expect(as(token, METHOD_PUT, "kv/a", "{\"a\":1}"), 403, NULL);
}

static void deny_meanwhile(struct world *world)
{
    apply(world, "s/ns/root/policy/writer",
          "{\"policy\":\"path \\\"kv/*\\\" { capabilities = [\\\"deny\\\"] }\"}");
}

static void appear_meanwhile(struct world *world)
{
    apply(world, "s/ns/root/policy/absent",
          "{\"policy\":\"path \\\"kv/*\\\" { capabilities = [\\\"deny\\\"] }\"}");
}

static void always_meanwhile(struct world *world)
{
    deny_meanwhile(world);
    apply(world, "s/ns/root/policy/writer",
          "{\"policy\":\"path \\\"kv/*\\\" { capabilities = [\\\"create\\\", \\\"update\\\", "
          "\\\"read\\\"] }\"}");
    world->before_propose = always_meanwhile;
}

static void other_meanwhile(struct world *world)
{
    apply(world, "s/ns/root/policy/unrelated", "{\"policy\":\"path \\\"x\\\" {}\"}");
}

/* A write whose policies were compiled before, by a read: nothing but the precondition tells. */
static struct test_request *write_warm(const char *token, void (*meanwhile)(struct world *world),
                                       const char *body)
{
    expect(as(token, METHOD_GET, "kv/a", NULL), 200, NULL);
    w.before_propose = meanwhile;
    return as(token, METHOD_PUT, "kv/a", body);
}

static void a_write_is_judged_by_the_policies_of_its_commit(void **ctx)
{
    (void)ctx;
    set_policy("writer", "path 'kv/*' { capabilities = ['create', 'update', 'read'] }");
    const char *token = make_token("absent,writer");
    expect(as(root, METHOD_PUT, "kv/a", "{\"a\":0}"), 204, NULL);
    expect(write_warm(token, other_meanwhile, "{\"a\":1}"), 204, NULL);
    assert_int_equal(w.worker->reruns, 1);
    expect(write_warm(token, appear_meanwhile, "{\"a\":2}"), 403, NULL);
    expect(as(root, METHOD_DELETE, "sys/policies/acl/absent", NULL), 204, NULL);
    expect(write_warm(token, deny_meanwhile, "{\"a\":3}"), 403, NULL);
    expect(as(root, METHOD_GET, "kv/a", NULL), 200, "\"data\":{\"a\":1}");
}

/* Not for ever. */
static void a_write_that_is_overtaken_always_is_given_up(void **ctx)
{
    (void)ctx;
    set_policy("writer", "path 'kv/*' { capabilities = ['create', 'update', 'read'] }");
    const char *token = make_token("writer");
    expect(as(root, METHOD_PUT, "kv/a", "{\"a\":0}"), 204, NULL);
    expect(write_warm(token, always_meanwhile, "{\"a\":1}"), 503, "again and again");
    w.before_propose = NULL;
    expect(as(token, METHOD_GET, "kv/a", NULL), 200, "\"data\":{\"a\":0}");
}

static void another_spelling_of_a_path_escapes_no_rule(void **ctx)
{
    (void)ctx;
    set_policy("spelt", "path 'kv/*' { capabilities = ['read', 'create', 'update'] } "
                        "path 'kv/a' { capabilities = ['deny'] } "
                        "path 'sys/policies/acl/*' { capabilities = ['read', 'update'] } "
                        "path 'sys/policies/acl/spelt' { capabilities = ['deny'] }");
    const char *token = make_token("spelt");
    expect(as(token, METHOD_GET, "kv/b/", NULL), 404, NULL);
    expect(as(token, METHOD_GET, "kv/a/", NULL), 403, NULL);
    expect(as(token, METHOD_GET, "sys/policies/acl/other", NULL), 404, NULL);
    expect(as(token, METHOD_GET, "sys/policies/acl/Spelt", NULL), 403, NULL);
    expect(as(token, METHOD_GET, "sys/policies/acl/SPELT/", NULL), 403, NULL);
    expect(as(token, METHOD_PUT, "sys/policies/acl/%20spelt", "{\"policy\":\"path \\\"a\\\" {}\"}"),
           403, NULL);
}

/* What is wrong with the path itself is not told to who may not write there. */
static void who_may_not_write_learns_nothing_of_the_path(void **ctx)
{
    (void)ctx;
    static char batch[2][1000];
    set_policy("writes", "path 'cubbyhole/*' { capabilities = ['create'] }");
    static const char *const policies[] = {"writes", "absent"};
    for (size_t i = 0; i < 2; i++) {
        char body[200];
        (void)snprintf(body, sizeof body,
                       "{\"type\":\"batch\",\"no_default_policy\":true,\"policies\":\"%s\"}",
                       policies[i]);
        struct test_request *t = as(root, METHOD_POST, "auth/token/create", body);
        const char *at = strstr(text(t), "\"client_token\":\"");
        assert_non_null(at);
        (void)snprintf(batch[i], sizeof batch[i], "%.*s", (int)strcspn(at + 16, "\""), at + 16);
    }
    expect(as(batch[0], METHOD_PUT, "cubbyhole/a", "{\"a\":1}"), 400, "only supported by");
    expect(as(batch[1], METHOD_PUT, "cubbyhole/a", "{\"a\":1}"), 403, NULL);
}

static void paths_are_asked_about_up_to_a_thousand(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf body = {0};
    for (size_t over = 0; over < 2; over++) {
        buf_clear(&body);
        buf_add_str(&body, "{\"paths\":[\"p\"");
        for (size_t i = 1; i < 1000 + over; i++)
            buf_add_format(&body, ",\"p%zu\"", i);
        buf_add(&body, bytes_of("]}", 3));
        expect(as(root, METHOD_POST, "sys/capabilities-self", (const char *)body.data),
               over ? 400 : 200, over ? "1 to 1000" : NULL);
    }
    buf_clear(&body);
    buf_add_str(&body, "{\"paths\":[\"");
    for (size_t i = 0; i < 5000; i++)
        buf_add_u8(&body, 'p');
    buf_add(&body, bytes_of("\"]}", 4));
    expect(as(root, METHOD_POST, "sys/capabilities-self", (const char *)body.data), 400,
           "longer than");
}

static void merged_rules_show_parameters_and_wrapping(void **ctx)
{
    (void)ctx;
    set_policy("one", "path 'kv/a' { capabilities = ['update'] min_wrapping_ttl = '1m' "
                      "max_wrapping_ttl = 3600 allowed_parameters = { 'n' = [1, 'x'] '*' = [] } }");
    set_policy("two", "path 'kv/a' { capabilities = ['update'] denied_parameters = { 'no' = [] } "
                      "required_parameters = ['n', 'm'] }");
    expect(as(make_token("one,two"), METHOD_GET, "sys/internal/ui/resultant-acl", NULL), 200,
           "\"kv/a\":{\"capabilities\":[\"update\"],\"min_wrapping_ttl\":60,"
           "\"max_wrapping_ttl\":3600,\"allowed_parameters\":{\"*\":[],\"n\":[1,\"x\"]},"
           "\"denied_parameters\":{\"no\":[]},\"required_parameters\":[\"n\",\"m\"]}");
}

static void rules_are_told_apart_as_exact_and_as_patterns(void **ctx)
{
    (void)ctx;
    set_policy("zz", "path 'a' { capabilities = ['read'] } path 'b*' { capabilities = ['list'] } "
                     "path 'c/+' { capabilities = ['read'] } "
                     "path 'c/+/*' { capabilities = ['sudo'] } path 'd/+/' { }");
    set_policy("aa", "path 'a' {}");
    const char *token = make_token("zz");
    struct test_request *t = as(token, METHOD_GET, "sys/internal/ui/resultant-acl", NULL);
    expect(t, 200,
           "\"exact_paths\":{\"a\":{\"capabilities\":[\"read\"]},\"auth/token/lookup-self\":");
    expect(t, 200, "\"c/+\":{\"capabilities\":[\"read\"]},\"c/+/\":{\"capabilities\":[\"sudo\"]}");
    expect(t, 200, "\"d/+/\":{\"capabilities\":[\"deny\"]}");
    assert_null(strstr(strstr(text(t), "\"glob_paths\""), "\"a\":"));
    expect(as(root, METHOD_LIST, "sys/policies/acl", NULL), 200,
           "{\"keys\":[\"aa\",\"default\",\"root\",\"zz\"]}");
}

static void what_is_missing_is_told_to_those_who_might_do_it(void **ctx)
{
    (void)ctx;
    set_policy("few", "path 'none/*' { capabilities = ['read'] }\\n"
                      "path 'sys/step-down' { capabilities = ['update'] }\\n"
                      "path 'sys/key-status' { capabilities = ['delete', 'read'] }\\n"
                      "path 'kv/*' { capabilities = ['list'] }");
    const char *token = make_token("few");
    expect(as(token, METHOD_GET, "none/x", NULL), 404, "no handler");
    expect(as(token, METHOD_PUT, "none/x", "{\"a\":1}"), 403, NULL);
    expect(as(token, METHOD_GET, "other/x", NULL), 403, NULL);
    expect(as(token, METHOD_DELETE, "sys/key-status", NULL), 405, NULL);
    expect(as(token, METHOD_PATCH, "sys/key-status", "{}"), 403, NULL);
    expect(as(token, METHOD_POST, "sys/step-down", NULL), 403, NULL); /* sudo */
    expect(as(token, METHOD_LIST, "kv", NULL), 404, "{\"errors\":[]}");
    expect(as(token, METHOD_GET, "kv/x", NULL), 403, NULL);
    expect(as(root, METHOD_GET, "other/x", NULL), 404, NULL);
}

static void a_scan_needs_a_capability_of_its_own(void **ctx)
{
    (void)ctx;
    expect(as(root, METHOD_PUT, "kv/a/b/c", "{\"x\":1}"), 204, NULL);
    set_policy("lists", "path 'kv/*' { capabilities = ['list', 'read', 'sudo'] }");
    set_policy("scans", "path 'kv/a' { capabilities = ['scan'] }");
    const char *lists = make_token("lists"), *scans = make_token("scans");
    expect(as(lists, METHOD_SCAN, "kv/a", NULL), 403, NULL);
    expect(as(lists, METHOD_GET, "kv/a?scan=true", NULL), 403, NULL);
    expect(as(lists, METHOD_LIST, "kv/a", NULL), 200, "[\"b/\"]");
    expect(as(scans, METHOD_SCAN, "kv/a", NULL), 200, "[\"b/c\"]");
    expect(as(scans, METHOD_LIST, "kv/a", NULL), 403, NULL);
    expect(as(scans, METHOD_SCAN, "kv", NULL), 403, NULL);
    expect(as(scans, METHOD_SCAN, "kv/a/b", NULL), 403, NULL);
}

static void parameters_are_looked_at(void **ctx)
{
    (void)ctx;
    set_policy("params", "path 'kv/*' { capabilities = ['create', 'update', 'read', 'delete']\\n"
                         "allowed_parameters = { 'kind' = ['x*'], 'n' = [] }\\n"
                         "required_parameters = ['kind'] }");
    const char *token = make_token("params");
    expect(as(token, METHOD_PUT, "kv/a", "{\"kind\":\"xy\",\"n\":1}"), 204, NULL);
    expect(as(token, METHOD_PUT, "kv/a", "{\"kind\":\"y\"}"), 403, NULL);
    expect(as(token, METHOD_PUT, "kv/a", "{\"n\":1}"), 403, NULL);
    expect(as(token, METHOD_PUT, "kv/a", "{\"KIND\":\"x2\",\"other\":1}"), 403, NULL);
    expect(as(token, METHOD_GET, "kv/a", NULL), 403, NULL);
    expect(as(token, METHOD_GET, "kv/a?kind=xs", NULL), 200, NULL);
    expect(as(token, METHOD_DELETE, "kv/a", NULL), 204, NULL);
}

static void capabilities_have_two_shapes(void **ctx)
{
    (void)ctx;
    set_policy("caps", "path 'kv/*' { capabilities = ['update', 'read'] }\\n"
                       "path 'kv/no' { capabilities = ['deny'] }");
    const char *token = make_token("caps");
    char body[200];
    expect(as(token, METHOD_POST, "sys/capabilities-self", "{\"path\":\"kv/a\"}"), 200,
           "\"data\":{\"kv/a\":[\"read\",\"update\"],\"capabilities\":[\"read\",\"update\"]}");
    struct test_request *t = as(token, METHOD_POST, "sys/capabilities-self",
                                "{\"paths\":[\"kv/a\",\"/kv/b\",\"kv/no\",\"kv/a\",\"x\"]}");
    expect(t, 200,
           "\"data\":{\"kv/a\":[\"read\",\"update\"],\"/kv/b\":[\"read\",\"update\"],"
           "\"kv/no\":[\"deny\"],\"x\":[\"deny\"]}");
    expect(t, 200, "},\"wrap_info\"");
    (void)snprintf(body, sizeof body, "{\"paths\":\"kv/a\",\"token\":\"%s\"}", token);
    expect(as(root, METHOD_POST, "sys/capabilities", body), 200, "\"kv/a\":[\"read\",\"update\"]");
    expect(as(token, METHOD_POST, "sys/capabilities", body), 403, NULL);
    expect(as(root, METHOD_POST, "sys/capabilities-self", "{\"path\":\"kv/a\"}"), 200,
           "\"kv/a\":[\"root\"]");
    expect(as(root, METHOD_POST, "sys/capabilities", "{\"path\":\"a\",\"token\":\"hvs.no\"}"), 400,
           "invalid token");
    expect(as(root, METHOD_POST, "sys/capabilities", "{\"path\":\"a\"}"), 400, "token");
    expect(as(root, METHOD_POST, "sys/capabilities-accessor", "{\"path\":\"a\"}"), 400, "accessor");
    expect(as(root, METHOD_POST, "sys/capabilities-accessor",
              "{\"path\":\"a\",\"accessor\":\"none\"}"),
           400, "invalid accessor");
    expect(as(root, METHOD_POST, "sys/capabilities-self", "{}"), 400, "paths");
    t = as(token, METHOD_GET, "auth/token/lookup-self", NULL);
    const char *at = strstr((const char *)t->body.data, "\"accessor\":\"");
    assert_non_null(at);
    (void)snprintf(body, sizeof body, "{\"paths\":\"kv/no\",\"accessor\":\"%.24s\"}", at + 12);
    expect(as(root, METHOD_POST, "sys/capabilities-accessor", body), 200, "\"kv/no\":[\"deny\"]");
}

static void the_default_policy_is_what_a_token_needs_for_itself(void **ctx)
{
    (void)ctx;
    const char *token = make_token("default");
    expect(as(token, METHOD_GET, "auth/token/lookup-self", NULL), 200, NULL);
    struct test_request *t = as(token, METHOD_GET, "sys/internal/ui/resultant-acl", NULL);
    expect(t, 200, "\"root\":false,\"exact_paths\":{");
    expect(t, 200, "\"glob_paths\":{\"cubbyhole/\":{\"capabilities\":[\"create\",\"delete\",");
    expect(t, 200, "\"identity/oidc/provider/+/authorize\":{");
    assert_null(strstr((const char *)t->body.data, "{{"));
    expect(as(root, METHOD_GET, "sys/internal/ui/resultant-acl", NULL), 200, "\"root\":true");
    expect(as(token, METHOD_POST, "auth/token/revoke-self", NULL), 204, NULL);
}

/* A cluster older than policies has none stored. */
static void without_a_stored_default_policy_there_is_the_built_in_one(void **ctx)
{
    (void)ctx;
    struct rlog_txn_builder b = {0};
    CLEANUP(buf_done) struct buf encoded = {0};
    CLEANUP(buf_done) struct buf entry = {0};
    rlog_txn_delete(&b, BYTES("s/ns/root/policy/default"));
    assert_status(rlog_txn_encode(&b, &encoded), ST_OK);
    struct bytes one = buf_bytes(&encoded);
    assert_status(rlog_entry_encode(RLOG_FEATURE_FIRST, 1000, &one, 1, &entry), ST_OK);
    rlog_machine_apply(&w.m, ++w.index, buf_bytes(&entry), NULL, NULL);
    rlog_txn_done(&b);
    expect(as(root, METHOD_LIST, "sys/policies/acl", NULL), 200, "[\"default\",\"root\"]");
    the_default_policy_is_what_a_token_needs_for_itself(ctx);
    set_policy("default", "path 'kv/x' { capabilities = ['create'] }");
    expect(as(make_token("default"), METHOD_PUT, "kv/x", "{\"a\":1}"), 204, NULL);
}

static void what_was_compiled_is_used_again(void **ctx)
{
    (void)ctx;
    struct acl_cache_counters before, after;
    set_policy("cached", "path 'kv/*' { capabilities = ['read'] }");
    const char *one = make_token("cached"), *two = make_token("cached"),
               *three = make_token("cached,other");
    expect(as(one, METHOD_GET, "kv/x", NULL), 404, NULL);
    acl_cache_counters(w.worker->acls[TOKEN_SECRETS], &before);
    expect(as(two, METHOD_GET, "kv/x", NULL), 404, NULL);
    acl_cache_counters(w.worker->acls[TOKEN_SECRETS], &after);
    assert_int_equal(after.built, before.built);
    assert_int_equal(after.hits, before.hits + 1);
    expect(as(three, METHOD_GET, "kv/x", NULL), 404, NULL);
    set_policy("unrelated", "path 'x' {}");
    expect(as(one, METHOD_GET, "kv/x", NULL), 404, NULL);
    acl_cache_counters(w.worker->acls[TOKEN_SECRETS], &after);
    assert_int_equal(after.built, before.built + 1);   /* the other list */
    assert_int_equal(after.compiled, before.compiled); /* of the same policies */
    set_policy("cached", "path 'kv/*' { capabilities = ['read'] }");
    expect(as(one, METHOD_GET, "kv/x", NULL), 404, NULL);
    acl_cache_counters(w.worker->acls[TOKEN_SECRETS], &after);
    assert_int_equal(after.built, before.built + 2);
    assert_int_equal(after.compiled, before.compiled + 1);
    assert_int_equal(after.acls, before.acls + 1);
    assert_int_equal(after.policies, before.policies + 1); /* the old one, for the other list */
}

static void who_may_edit_policies_may_edit_the_one_that_says_so(void **ctx)
{
    (void)ctx;
    set_policy("admin", "path 'sys/policies/acl/*' { capabilities = ['update', 'delete'] }");
    const char *token = make_token("admin");
    expect(as(token, METHOD_POST, "sys/policies/acl/new", "{\"policy\":\"path \\\"a\\\" {}\"}"),
           204, NULL);
    assert_int_equal(w.worker->reruns, 0);
    expect(as(token, METHOD_DELETE, "sys/policies/acl/admin", NULL), 204, NULL);
    expect(as(token, METHOD_DELETE, "sys/policies/acl/new", NULL), 403, NULL);
}

static void a_sealed_node_forgets_what_it_compiled(void **ctx)
{
    (void)ctx;
    struct acl_cache_counters c;
    expect(as(make_token("default"), METHOD_GET, "auth/token/lookup-self", NULL), 200, NULL);
    acl_cache_counters(w.worker->acls[TOKEN_SECRETS], &c);
    assert_true(c.acls == 1 && c.policies == 1 && c.bytes != 0);
    w.node.sealed = true;
    expect(as(root, METHOD_GET, "auth/token/lookup-self", NULL), 503, NULL);
    acl_cache_counters(w.worker->acls[TOKEN_SECRETS], &c);
    assert_true(c.acls == 0 && c.policies == 0 && c.bytes == 0);
}

static void a_cache_that_lacks_memory_says_so_and_keeps_nothing(void **ctx)
{
    (void)ctx;
    static const char *const items[] = {"default", "nomem", "absent"};
    const struct acl_names names = {.list = {.items = items, .n = ARRAY_LEN(items)},
                                    .text = BYTES("default nomem absent"),
                                    .hash = 1};
    set_policy("nomem", "path 'kv/*' { capabilities = ['read'] }");
    for (uint64_t n = 1;; n++) {
        struct arena arena = {0};
        struct state_txn txn;
        struct acl_cache *cache;
        struct acl_ref *ref = NULL;
        assert_status(acl_cache_new(&w.env.env, &acl_secrets, &cache), ST_OK);
        assert_status(state_begin(w.state, &arena, NULL, &txn), ST_OK);
        mem_fail_nth(n);
        enum status st = acl_cache_get(cache, &txn, "root", &names, &ref);
        bool done = !mem_fail_nth(0);
        state_end(&txn);
        arena_done(&arena);
        assert_status(st, done ? ST_OK : ST_NOMEM);
        acl_ref_drop(ref);
        acl_cache_free(cache);
        if (done)
            return;
    }
}

static void an_acl_is_kept_under_its_names_and_under_their_text(void **ctx)
{
    (void)ctx;
    static const char *const items[] = {"default", "absent"};
    const struct bytes texts[] = {BYTES("a"), BYTES("b"), {0}, BYTES("a"), BYTES("b"), {0}};
    struct acl_cache_counters counters;
    struct acl_cache *cache;
    struct arena arena = {0};
    struct state_txn txn;
    assert_status(acl_cache_new(&w.env.env, &acl_secrets, &cache), ST_OK);
    assert_status(state_begin(w.state, &arena, NULL, &txn), ST_OK);
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        const struct acl_names names = {.list = {.items = items, .n = ARRAY_LEN(items)},
                                        .text = texts[i],
                                        .hash = texts[i].len}; /* of two texts the same */
        struct acl_ref *ref;
        assert_status(acl_cache_get(cache, &txn, "root", &names, &ref), ST_OK);
        acl_ref_drop(ref);
        acl_cache_counters(cache, &counters);
        assert_int_equal(counters.built, MIN(i + 1, 3));
        assert_int_equal(counters.hits, i < 3 ? 0 : i - 2);
    }
    state_end(&txn);
    arena_done(&arena);
    acl_cache_free(cache);
}

/* What was not used for the longest time goes first. */
static void a_full_cache_forgets_what_nobody_uses(void **ctx)
{
    (void)ctx;
    enum { ACLS_MAX = 4096 };
    struct acl_cache_counters counters;
    struct acl_cache *cache;
    struct arena arena = {0};
    struct state_txn txn;
    assert_status(acl_cache_new(&w.env.env, &acl_secrets, &cache), ST_OK);
    assert_status(state_begin(w.state, &arena, NULL, &txn), ST_OK);
    for (unsigned i = 0; i < ACLS_MAX + 3; i++) {
        /* All of them, then the first again, another new one, and the first two again. */
        unsigned which = i < ACLS_MAX ? i : i == ACLS_MAX + 1 ? ACLS_MAX : i - ACLS_MAX;
        if (i == ACLS_MAX + 2)
            which = 1;
        const char *name = arena_format(&arena, "p%u", which);
        const struct acl_names names = {.list = {.items = &name, .n = 1}};
        struct acl_ref *ref;
        assert_status(acl_cache_get(cache, &txn, "root", &names, &ref), ST_OK);
        acl_ref_drop(ref);
        acl_cache_counters(cache, &counters);
        assert_true(counters.acls <= ACLS_MAX);
        assert_int_equal(counters.hits, i < ACLS_MAX ? 0 : 1);
    }
    const char *name = "p0";
    const struct acl_names names = {.list = {.items = &name, .n = 1}};
    struct acl_ref *ref;
    assert_status(acl_cache_get(cache, &txn, "root", &names, &ref), ST_OK);
    acl_ref_drop(ref);
    acl_cache_counters(cache, &counters);
    assert_int_equal(counters.hits, 2);
    state_end(&txn);
    arena_done(&arena);
    acl_cache_free(cache);
}

/* Another tree may hold other content at the same version. */
static void a_policy_of_another_tree_is_not_taken_for_the_same(void **ctx)
{
    (void)ctx;
    struct arena arena = {0};
    struct state_txn txn;
    struct state_stamp first, again, other;
    static const char key[] = "s/ns/root/policy/stamped";
    apply(&w, key, "{\"policy\":\"path \\\"a\\\" {}\"}");
    for (int i = 0; i < 3; i++) {
        if (i == 2)
            apply(&w, key, "{\"policy\":\"path \\\"a\\\" {}\"}");
        assert_status(state_begin(w.state, &arena, NULL, &txn), ST_OK);
        assert_status(state_stamp(&txn, bytes_str(key),
                                  i == 0   ? &first
                                  : i == 1 ? &again
                                           : &other),
                      ST_OK);
        state_end(&txn);
    }
    assert_memory_equal(&first, &again, sizeof first);
    assert_true(first.seal != other.seal && first.modified != other.modified);
    arena_done(&arena);
}

static uint64_t parsed_bytes(void)
{
    struct router_counters counters;
    router_worker_counters(w.worker, &counters);
    return counters.parsed_bytes;
}

static void nobody_has_a_body_parsed_where_he_has_no_right(void **ctx)
{
    (void)ctx;
    enum { LONG = 8 * 1024 * 1024 };
    char *body = mem_alloc(LONG + 1);
    assert_non_null(body);
    memset(body, '[', LONG); /* malformed besides */
    memcpy(body, "{\"a\":", 5);
    body[LONG] = '\0';
    set_policy("mine", "path 'kv/mine' { capabilities = ['create', 'update']\\n"
                       "denied_parameters = { 'b' = [] } }");
    char token[64];
    (void)snprintf(token, sizeof token, "%s", make_token("mine"));
    uint64_t before = parsed_bytes();
    static const char *const paths[] = {"kv/other", "sys/rotate", "sys/none", "none/a"};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        expect(as(token, METHOD_PUT, paths[i], body), 403, "permission denied");
        expect(as(token, METHOD_PUT, paths[i], "{"), 403, "permission denied");
        expect(as("hvs.none", METHOD_PUT, paths[i], body), 403, "permission denied");
        expect(as("", METHOD_PUT, paths[i], body), 403, "permission denied");
    }
    expect(as(token, METHOD_PATCH, "kv/mine", body), 403, "permission denied");
    assert_int_equal(parsed_bytes(), before);
    expect(as(token, METHOD_PUT, "kv/mine", body), 400, "failed to parse JSON input");
    assert_int_equal(parsed_bytes(), before + LONG);
    expect(as(token, METHOD_PUT, "kv/mine", "{"), 400, "failed to parse JSON input");
    expect(as(token, METHOD_PUT, "kv/mine", "{\"b\":1}"), 403, "permission denied");
    expect(as(token, METHOD_PUT, "kv/mine", "{\"a\":1}"), 204, NULL);
    mem_free(body);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(policies_are_written_read_listed_and_deleted),
        TEST(reserved_policies_stay),
        TEST(wrong_policies_are_refused_with_a_reason),
        TEST(edits_count_at_once),
        TEST(merged_rules_show_parameters_and_wrapping),
        TEST(a_write_is_judged_by_the_policies_of_its_commit),
        TEST(a_write_that_is_overtaken_always_is_given_up),
        TEST(another_spelling_of_a_path_escapes_no_rule),
        TEST(who_may_not_write_learns_nothing_of_the_path),
        TEST(paths_are_asked_about_up_to_a_thousand),
        TEST(rules_are_told_apart_as_exact_and_as_patterns),
        TEST(what_is_missing_is_told_to_those_who_might_do_it),
        TEST(a_scan_needs_a_capability_of_its_own),
        TEST(parameters_are_looked_at),
        TEST(nobody_has_a_body_parsed_where_he_has_no_right),
        TEST(capabilities_have_two_shapes),
        TEST(the_default_policy_is_what_a_token_needs_for_itself),
        TEST(without_a_stored_default_policy_there_is_the_built_in_one),
        TEST(what_was_compiled_is_used_again),
        TEST(who_may_edit_policies_may_edit_the_one_that_says_so),
        TEST(a_sealed_node_forgets_what_it_compiled),
        TEST(a_cache_that_lacks_memory_says_so_and_keeps_nothing),
        TEST(an_acl_is_kept_under_its_names_and_under_their_text),
        TEST(a_full_cache_forgets_what_nobody_uses),
        TEST(a_policy_of_another_tree_is_not_taken_for_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
