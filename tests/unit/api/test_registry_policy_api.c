/* The paths of ACL policies: each reply that the specification names, and what the state keeps. */
#include "api_world.h"

#include "api/registry/registry.h"
#include "auth/registry/registry_policy.h"
#include "auth/registry/registry_rules.h"
#include "auth/registry/registry_settings.h"
#include "front/registry/registry.h"
#include "front/registry/registry_namespace.h"

#include <stdlib.h>

#define ABSENT "0b0cf8fd-6e1e-4c8d-b0a1-4b7b7c8e9f01"
#define NAME_128                                                       \
    "n234567890123456789012345678901234567890123456789012345678901234" \
    "n234567890123456789012345678901234567890123456789012345678901234"
#define BAD_NAME \
    "Invalid Policy: invalid Name. Only alphanumeric characters, '-' and '_' are allowed"
#define NO_POLICY "Requested policy does not exist: ACL not found"
#define MISMATCH "Policy ID in URL and payload do not match"
#define NOT_A_UUID "Policy ID invalid UUID"
#define MANAGEMENT "acl/policy/" REGISTRY_POLICY_MANAGEMENT
#define READ_ONLY "acl/policy/" REGISTRY_POLICY_READ_ONLY

static void set_strict(bool strict)
{
    registry_settings_set(
        &(struct registry_settings){.acl = true, .strict_rules = strict, .datacenter = "dc1"});
}

static void open_registry(bool raised)
{
    static const struct module *const modules[] = {&token_module, &cubbyhole_module, SYS_MODULES,
                                                   &registry_module, &kv_module};
    set_strict(false);
    world_open(&w, modules, ARRAY_LEN(modules));
    world_init(&w);
    w.node.raft.feature = raised ? RLOG_FEATURE : RLOG_FEATURE_FIRST;
    if (raised)
        world_raise();
}

static int open_raised(void **ctx)
{
    (void)ctx;
    open_registry(true);
    return 0;
}

/* A request of management; `path` is below "/v1/". */
static struct test_request *ask(enum http_method method, const char *path, const char *body)
{
    static struct test_request t;
    static char target[4096];
    (void)snprintf(target, sizeof target, "/v1/%s", path);
    test_request_done(&t);
    test_request_init(&t, method, target, body);
    test_request_header(&t, "x-consul-token", w.token);
    world_handle(&w, &t);
    return &t;
}

static struct test_request *ask_policy(enum http_method method, const char *id, const char *body)
{
    char path[128];
    (void)snprintf(path, sizeof path, "acl/policy/%s", id);
    return ask(method, path, body);
}

static void assert_reply(const struct test_request *t, int http, const char *body)
{
    if (t->http != http || strcmp(text(t), body) != 0)
        fail_msg("%.*s: %d %s, not %d %s", (int)t->request.target.full.len,
                 (const char *)t->request.target.full.data, t->http, text(t), http, body);
}

/* The value of a member, without quotes, cut from the text of a reply; the last 32 stay. */
static const char *member(const struct test_request *t, const char *name)
{
    static char values[32][1024], key[64];
    static unsigned next;
    char *value = values[next++ % ARRAY_LEN(values)];
    (void)snprintf(key, sizeof key, "\"%s\":", name);
    const char *at = strstr(text(t), key);
    if (at == NULL)
        fail_msg("no %s in %s", name, text(t));
    at += strlen(key);
    bool quoted = *at == '"';
    (void)snprintf(value, sizeof values[0], "%.*s",
                   (int)strcspn(at + quoted, quoted ? "\"" : ",}]"), at + quoted);
    return value;
}

static uint64_t index_of(const struct test_request *t)
{
    const char *at = strstr(t->told, "X-Consul-Index: ");
    assert_non_null(at);
    return strtoull(at + strlen("X-Consul-Index: "), NULL, 10);
}

/* Create a policy and give its id, which lives while eight more are created. */
static const char *create(const char *body)
{
    static char ids[8][TEXT_UUID_LEN + 1];
    static unsigned next;
    struct test_request *t = ask(METHOD_PUT, "acl/policy", body);
    char *id = ids[next++ % ARRAY_LEN(ids)];
    if (t->http != 200)
        fail_msg("%s: %d %s", body, t->http, text(t));
    (void)snprintf(id, sizeof ids[0], "%s", member(t, "ID"));
    return id;
}

static void make_builtins(void)
{
    assert_true(round_of(registry_builtins_make));
    assert_false(round_of(registry_builtins_make));
}

struct refusal {
    enum http_method method;
    const char *path, *body;
    int http;
    const char *text;
};

static void assert_refused(const struct refusal *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned before = w.proposals;
        assert_reply(ask(rows[i].method, rows[i].path, rows[i].body), rows[i].http, rows[i].text);
        assert_int_equal(w.proposals, before);
    }
}

static void a_bad_body_or_id_is_refused_before_all_else(void **ctx)
{
    (void)ctx;
    static const struct refusal rows[] = {
        {METHOD_PUT, "acl/policy", "", 400, "Policy decoding failed: EOF"},
        {METHOD_PUT, "acl/policy", "{\"Name\":\"a\",\"Other\":1}", 400,
         "Policy decoding failed: json: unknown field \"Other\""},
        {METHOD_PUT, "acl/policy", "{\"ID\":\"" ABSENT "\"}", 400,
         "Cannot specify the ID when creating a new policy"},
        {METHOD_PUT, "acl/policy/" ABSENT, "", 400, "Policy decoding failed: EOF"},
        {METHOD_PUT, "acl/policy/" ABSENT, "{\"ID\":\"" REGISTRY_POLICY_MANAGEMENT "\"}", 400,
         MISMATCH},
        {METHOD_PUT, "acl/policy/x", "{\"ID\":\"y\",\"Name\":\"a\"}", 400, MISMATCH},
        {METHOD_GET, "acl/policy/", NULL, 400, "Missing policy ID"},
        {METHOD_DELETE, "acl/policy/", NULL, 400, "Missing policy ID"},
        {METHOD_GET, "acl/policy/name/", NULL, 400, "Missing policy Name"},
        {METHOD_GET, "acl/policy/name/%252", NULL, 400,
         "the policy Name is not percent-encoded UTF-8"},
        {METHOD_PUT, "acl/policy/name/", "{}", 400, "Missing policy Name"},
        {METHOD_PUT, "acl/policy/name/a", "{\"Name\":\"b\"}", 400,
         "Policy Name in URL and payload do not match"},
        {METHOD_PUT, "acl/policy/name/a", "{\"ID\":\"" ABSENT "\"}", 400,
         "Policy ID in payload is not that of the Name in URL"},
    };
    assert_refused(rows, ARRAY_LEN(rows));
}

static void refusals_from_the_name_on_are_500(void **ctx)
{
    (void)ctx;
    static const struct refusal rows[] = {
        {METHOD_PUT, "acl/policy", "{}", 500, "Invalid Policy: no Name is set"},
        {METHOD_PUT, "acl/policy", "{\"Name\":\"a b\",\"Rules\":\"acl =\"}", 500, BAD_NAME},
        {METHOD_PUT, "acl/policy", "{\"Name\":\"a/b\"}", 500, BAD_NAME},
        {METHOD_PUT, "acl/policy", "{\"Name\":\"/a\"}", 500, BAD_NAME},
        {METHOD_PUT, "acl/policy", "{\"Name\":\"builtin/a\"}", 500, BAD_NAME},
        {METHOD_PUT, "acl/policy", "{\"Name\":\"" NAME_128 "n\"}", 500, BAD_NAME},
        {METHOD_PUT, "acl/policy/x", "{}", 500, "Invalid Policy: no Name is set"},
        {METHOD_PUT, "acl/policy/x", "{\"Name\":\"a\"}", 500, NOT_A_UUID},
        {METHOD_PUT, "acl/policy/" ABSENT, "{\"Name\":\"a/b\"}", 500, BAD_NAME},
        {METHOD_PUT, "acl/policy/" ABSENT, "{\"Name\":\"taken\",\"Rules\":\"acl =\"}", 500,
         "cannot find policy " ABSENT},
        {METHOD_PUT, "acl/policy/" REGISTRY_RESERVED_IDS "07", "{\"Name\":\"a\"}", 500,
         "cannot find policy " REGISTRY_RESERVED_IDS "07"},
        {METHOD_PUT, "acl/policy", "{\"Name\":\"taken\",\"Rules\":\"acl =\"}", 500,
         "Invalid Policy: A Policy with Name \"taken\" already exists"},
        {METHOD_PUT, "acl/policy", "{\"Name\":\"Taken\"}", 500,
         "Invalid Policy: A Policy with Name \"Taken\" already exists"},
        {METHOD_GET, "acl/policy/x", NULL, 500, NOT_A_UUID},
        {METHOD_GET, "acl/policy/" ABSENT "0", NULL, 500, NOT_A_UUID},
        {METHOD_DELETE, "acl/policy/a/b", NULL, 500, NOT_A_UUID},
        {METHOD_GET, "acl/policy/" ABSENT, NULL, 404, NO_POLICY},
        {METHOD_GET, "acl/policy/name/none", NULL, 404, NO_POLICY},
        {METHOD_GET, "acl/policy/name/" NAME_128 "n", NULL, 404, NO_POLICY},
        {METHOD_GET, "acl/policy/name/a%2500", NULL, 404, NO_POLICY},
        {METHOD_DELETE, "acl/policy/" ABSENT, NULL, 200, "false"},
    };
    (void)create("{\"Name\":\"taken\"}");
    assert_refused(rows, ARRAY_LEN(rows));
    const char *id = create("{\"Name\":\"other\"}");
    assert_reply(ask_policy(METHOD_PUT, id, "{\"Name\":\"TAKEN\",\"Rules\":\"acl =\"}"), 500,
                 "Invalid Policy: A policy with name \"TAKEN\" already exists");
    assert_int_equal(ask(METHOD_PUT, "acl/policy", "{\"Name\":\"" NAME_128 "\"}")->http, 200);
}

static void rules_that_do_not_parse_are_refused_with_their_line(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *rules, *text;
    } rows[] = {
        {"acl = ", "Failed to parse ACL rules: line 1"},
        {"acl = \\\"read\\\"\\nkey \\\"a\\\" {", "Failed to parse ACL rules: line 2"},
        {"acl = \\\"READ\\\"", "Invalid acl policy: \"READ\""},
        {"key_prefix \\\"a\\\" { policy = \\\"x\\\" }", "Invalid key_prefix policy: "},
        {"service \\\"a\\\" { policy = \\\"read\\\" intentions = \\\"x\\\" }",
         "Invalid service intentions policy: "},
        {"{\\\"operator\\\":\\\"list\\\"}", "Invalid operator policy: \"list\""},
    };
    char body[256];
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        (void)snprintf(body, sizeof body, "{\"Name\":\"a\",\"Rules\":\"%s\"}", rows[i].rules);
        struct test_request *t = expect(ask(METHOD_PUT, "acl/policy", body), 500, rows[i].text);
        assert_ptr_equal(strstr(text(t), rows[i].text), text(t));
    }
    assert_reply(ask(METHOD_GET, "acl/policies", NULL), 200, "[]");
}

static void an_unknown_block_warns_or_is_refused(void **ctx)
{
    (void)ctx;
    struct test_request *t =
        ask(METHOD_PUT, "acl/policy", "{\"Name\":\"a\",\"Rules\":\"kye_prefix \\\"\\\" {}\"}");
    assert_int_equal(t->http, 200);
    assert_non_null(strstr(t->told, "X-Registry-Warning: the rules have \"kye_prefix\", which "
                                    "grants nothing\nX-Consul-Warning: the rules"));
    t = ask(METHOD_PUT, "acl/policy",
            "{\"Name\":\"b\",\"Rules\":\"{\\\"x\\\\r\\\\nSet-Cookie: y\\\":1}\"}");
    assert_int_equal(t->http, 200);
    assert_non_null(strstr(t->told, "the rules have \"x??Set-Cookie: y\""));
    set_strict(true);
    assert_reply(
        ask(METHOD_PUT, "acl/policy", "{\"Name\":\"c\",\"Rules\":\"kye_prefix \\\"\\\" {}\"}"), 500,
        "Failed to parse ACL rules: unknown block or field \"kye_prefix\"");
    t = ask(METHOD_PUT, "acl/policy", "{\"Name\":\"c\",\"Rules\":\"sentinel {}\"}");
    assert_int_equal(t->http, 200);
    assert_null(strstr(t->told, "Warning"));
}

static void a_policy_is_shown_as_it_was_written(void **ctx)
{
    (void)ctx;
    char wanted[512], item[512];
    struct test_request *t = ask(METHOD_PUT, "acl/policy",
                                 "{\"Name\":\"Web-1_a\",\"Description\":\"d\",\"Rules\":\"operator "
                                 "= \\\"read\\\"\",\"Datacenters\":[\"dc1\",\"dc2\"]}");
    const char *id = member(t, "ID"), *version = member(t, "CreateIndex");
    assert_int_equal(strlen(id), TEXT_UUID_LEN);
    assert_true(strtoull(version, NULL, 10) > 1);
    (void)snprintf(
        wanted, sizeof wanted,
        "{\"ID\":\"%s\",\"Name\":\"Web-1_a\",\"Description\":\"d\",\"Rules\":\"operator = "
        "\\\"read\\\"\",\"Datacenters\":[\"dc1\",\"dc2\"],\"Hash\":"
        "\"qJwJVJYwKYiQfdJPP4T+I+1zmcftWn29jWVzKAYp11E=\",\"CreateIndex\":%s,"
        "\"ModifyIndex\":%s}",
        id, version, version);
    assert_reply(t, 200, wanted);
    assert_reply(ask_policy(METHOD_GET, id, NULL), 200, wanted);
    assert_reply(ask(METHOD_GET, "acl/policy/name/wEB-1_A", NULL), 200, wanted);
    (void)snprintf(item, sizeof item,
                   "[{\"ID\":\"%s\",\"Name\":\"Web-1_a\",\"Description\":\"d\",\"Datacenters\":"
                   "[\"dc1\",\"dc2\"],\"Hash\":\"qJwJVJYwKYiQfdJPP4T+I+1zmcftWn29jWVzKAYp11E=\","
                   "\"CreateIndex\":%s,\"ModifyIndex\":%s}]",
                   id, version, version);
    assert_reply(ask(METHOD_GET, "acl/policies?filter=nothing", NULL), 200, item);
}

static void datacenters_are_absent_from_a_read_and_null_in_a_list(void **ctx)
{
    (void)ctx;
    const char *id = create("{\"name\":\"a\",\"DATACENTERS\":[]}");
    struct test_request *t = ask_policy(METHOD_GET, id, NULL);
    assert_null(strstr(text(t), "Datacenters"));
    assert_non_null(strstr(text(t), "\"Description\":\"\",\"Rules\":\"\",\"Hash\":"));
    t = ask(METHOD_GET, "acl/policies", NULL);
    assert_non_null(strstr(text(t), "\"Description\":\"\",\"Datacenters\":null,\"Hash\":"));
    assert_null(strstr(text(t), "Rules"));
}

static void an_update_replaces_all_and_takes_back_what_was_read(void **ctx)
{
    (void)ctx;
    char body[512], upper[TEXT_UUID_LEN + 1];
    struct test_request *t = ask(METHOD_PUT, "acl/policy",
                                 "{\"Name\":\"a\",\"Description\":\"d\",\"Datacenters\":[\"x\"]}");
    const char *id = member(t, "ID"), *created = member(t, "CreateIndex");
    (void)snprintf(
        body, sizeof body,
        "{\"ID\":\"%s\",\"Name\":\"a\",\"Hash\":\"x\",\"CreateIndex\":1,\"ModifyIndex\":2,"
        "\"Datacenters\":null,\"Namespace\":\"\"}",
        id);
    t = ask_policy(METHOD_PUT, id, body);
    assert_int_equal(t->http, 200);
    assert_string_equal(member(t, "CreateIndex"), created);
    assert_string_equal(member(t, "Description"), "");
    assert_null(strstr(text(t), "Datacenters"));
    uint64_t first = strtoull(member(t, "ModifyIndex"), NULL, 10);
    assert_true(first > strtoull(created, NULL, 10));
    for (size_t i = 0; i <= TEXT_UUID_LEN; i++)
        upper[i] = id[i] >= 'a' && id[i] <= 'f' ? (char)(id[i] - 32) : id[i];
    t = ask_policy(METHOD_PUT, upper, body); /* the same again is a change */
    assert_int_equal(t->http, 200);
    assert_string_equal(member(t, "ID"), id);
    assert_true(strtoull(member(t, "ModifyIndex"), NULL, 10) > first);
    t = ask_policy(METHOD_GET, upper, NULL);
    assert_true(strtoull(member(t, "ModifyIndex"), NULL, 10) > first);
    assert_string_equal(member(t, "CreateIndex"), created);
    t = ask_policy(METHOD_PUT, id, "{\"Name\":\"A\"}"); /* another spelling of its own name */
    assert_string_equal(member(t, "Name"), "A");
}

static void a_name_in_the_path_is_unescaped_twice(void **ctx)
{
    (void)ctx;
    make_builtins();
    static const char *const spellings[] = {
        "builtin/global-read-only", "builtin%2Fglobal-read-only", "builtin%252Fglobal%2Dread-only"};
    char path[128];
    for (size_t i = 0; i < ARRAY_LEN(spellings); i++) {
        (void)snprintf(path, sizeof path, "acl/policy/name/%s", spellings[i]);
        struct test_request *t = expect(ask(METHOD_GET, path, NULL), 200, NULL);
        assert_string_equal(member(t, "ID"), REGISTRY_POLICY_READ_ONLY);
    }
    assert_reply(ask(METHOD_GET, "acl/policy/name/builtin+global-read-only", NULL), 404, NO_POLICY);
}

static void a_policy_is_set_by_its_name(void **ctx)
{
    (void)ctx;
    struct test_request *t = ask(METHOD_PUT, "acl/policy/name/a", "{\"Description\":\"1\"}");
    const char *id = member(t, "ID");
    assert_string_equal(member(t, "Name"), "a");
    t = ask(METHOD_PUT, "acl/policy/name/a", "{\"Name\":\"A\",\"Description\":\"2\"}");
    assert_string_equal(member(t, "ID"), id);
    t = ask_policy(METHOD_GET, id, NULL);
    assert_string_equal(member(t, "Name"), "A");
    assert_string_equal(member(t, "Description"), "2");
    assert_reply(ask(METHOD_PUT, "acl/policy/name/a%20b", "{}"), 500, BAD_NAME);
    make_builtins();
    assert_reply(ask(METHOD_PUT, "acl/policy/name/global-management", "{}"), 500,
                 "Changing the Rules for the builtin global-management policy is not permitted");
}

static void a_deleted_policy_is_gone_and_its_name_free(void **ctx)
{
    (void)ctx;
    const char *id = create("{\"Name\":\"a\"}");
    assert_reply(ask_policy(METHOD_DELETE, id, NULL), 200, "true");
    assert_reply(ask_policy(METHOD_DELETE, id, NULL), 200, "false");
    assert_reply(ask_policy(METHOD_GET, id, NULL), 404, NO_POLICY);
    assert_reply(ask(METHOD_GET, "acl/policy/name/a", NULL), 404, NO_POLICY);
    assert_string_not_equal(create("{\"Name\":\"a\"}"), id);
}

static void builtin_policies_are_made_once(void **ctx)
{
    (void)ctx;
    assert_reply(ask(METHOD_GET, "acl/policies", NULL), 200, "[]");
    make_builtins();
    struct test_request *t = ask(METHOD_GET, MANAGEMENT, NULL);
    assert_string_equal(member(t, "Name"), "global-management");
    assert_string_equal(member(t, "Description"), "Builtin Policy that grants unlimited access");
    t = ask(METHOD_GET, READ_ONLY, NULL);
    assert_string_equal(member(t, "Name"), "builtin/global-read-only");
    (void)create("{\"Name\":\"a\"}");
    const char *list = text(ask(METHOD_GET, "acl/policies", NULL));
    const char *one = strstr(list, REGISTRY_POLICY_MANAGEMENT),
               *two = strstr(list, REGISTRY_POLICY_READ_ONLY),
               *own = strstr(list, "\"Name\":\"a\"");
    assert_true(one != NULL && one < two && two < own);
}

static void builtin_policies_wait_for_the_feature_level(void **ctx)
{
    (void)ctx;
    world_close(&w);
    open_registry(false);
    assert_false(round_of(registry_builtins_make));
    expect(ask(METHOD_PUT, "acl/policy", "{\"Name\":\"a\"}"), 503, NULL);
    expect(ask(METHOD_DELETE, "acl/policy/" ABSENT, NULL), 503, NULL);
    assert_reply(ask(METHOD_GET, "acl/policies", NULL), 200, "[]");
    world_raise();
    make_builtins();
}

/* As if a state from before the registry had been restored. */
static void drop_key(const char *key)
{
    CLEANUP(rlog_txn_done) struct rlog_txn_builder txn = {0};
    CLEANUP(buf_done) struct buf encoded = {0};
    CLEANUP(buf_done) struct buf entry = {0};
    rlog_txn_delete(&txn, bytes_str(key));
    assert_status(rlog_txn_encode(&txn, &encoded), ST_OK);
    const struct bytes one = buf_bytes(&encoded);
    assert_status(rlog_entry_encode(RLOG_FEATURE_FIRST, 1000, &one, 1, &entry), ST_OK);
    rlog_machine_apply(&w.m, ++w.index, buf_bytes(&entry), NULL, NULL);
}

static void a_builtin_policy_that_is_missing_is_made_again(void **ctx)
{
    (void)ctx;
    make_builtins();
    drop_key("s/ns/root/registry-policy/" REGISTRY_POLICY_MANAGEMENT);
    drop_key("s/ns/root/registry-policy-name/global-management");
    assert_reply(ask(METHOD_GET, MANAGEMENT, NULL), 404, NO_POLICY);
    make_builtins();
    assert_string_equal(member(ask(METHOD_GET, MANAGEMENT, NULL), "Name"), "global-management");
}

static void a_builtin_policy_keeps_rules_and_datacenters(void **ctx)
{
    (void)ctx;
    static const struct refusal rows[] = {
        {METHOD_PUT, MANAGEMENT, "{\"Name\":\"global-management\",\"Rules\":\"acl =\"}", 500,
         "Changing the Rules for the builtin global-management policy is not permitted"},
        {METHOD_PUT, READ_ONLY, "{\"Name\":\"builtin/global-read-only\"}", 500,
         "Changing the Rules for the builtin builtin/global-read-only policy is not permitted"},
        {METHOD_DELETE, MANAGEMENT, NULL, 500,
         "Delete operation not permitted on the builtin global-management policy"},
        {METHOD_DELETE, READ_ONLY, NULL, 500,
         "Delete operation not permitted on the builtin builtin/global-read-only policy"},
    };
    make_builtins();
    assert_refused(rows, ARRAY_LEN(rows));
}

/* The rules of a builtin policy as JSON has them, and more members. */
static const char *with_rules(const char *id, const char *members)
{
    static struct buf body;
    struct text_writer rules = {.out = &body};
    buf_clear(&body);
    buf_add_format(&body, "{%s,\"Rules\":", members);
    text_put_str(&rules, registry_policy_builtin(id)->rules);
    buf_add_str(&body, "}");
    buf_add_u8(&body, 0);
    assert_status(buf_status(&body), ST_OK);
    return (const char *)body.data;
}

static void a_builtin_policy_may_have_another_name(void **ctx)
{
    (void)ctx;
    const char *id = REGISTRY_POLICY_READ_ONLY;
    make_builtins();
    struct test_request *t =
        ask(METHOD_PUT, READ_ONLY, with_rules(id, "\"Name\":\"ro\",\"Description\":\"mine\""));
    assert_string_equal(member(t, "Name"), "ro");
    assert_string_equal(member(t, "Description"), "mine");
    assert_false(round_of(registry_builtins_make));
    assert_reply(ask(METHOD_GET, "acl/policy/name/builtin%2Fglobal-read-only", NULL), 404,
                 NO_POLICY);
    t = ask(METHOD_PUT, READ_ONLY, with_rules(id, "\"Name\":\"builtin/global-read-only\""));
    assert_int_equal(t->http, 200);
    t = ask(METHOD_PUT, READ_ONLY, with_rules(id, "\"Name\":\"ro\",\"Datacenters\":[\"dc1\"]"));
    assert_reply(t, 500,
                 "Changing the Datacenters of the builtin builtin/global-read-only policy is not "
                 "permitted");
    t = ask(METHOD_PUT, READ_ONLY, with_rules(id, "\"Name\":\"builtin/a/b\""));
    assert_reply(t, 500, BAD_NAME);
}

static void an_index_is_that_of_what_was_read(void **ctx)
{
    (void)ctx;
    char by_id[64];
    (void)snprintf(by_id, sizeof by_id, "acl/policy/%s", create("{\"Name\":\"a\"}"));
    struct test_request *t = ask(METHOD_GET, by_id, NULL);
    uint64_t own = index_of(t);
    assert_true(own == strtoull(member(t, "ModifyIndex"), NULL, 10));
    const char *other = create("{\"Name\":\"b\"}");
    assert_true(index_of(ask(METHOD_GET, by_id, NULL)) == own);
    assert_true(index_of(ask(METHOD_GET, "acl/policy/name/a", NULL)) == own);
    uint64_t of_list = index_of(ask(METHOD_GET, "acl/policies", NULL));
    uint64_t of_absent = index_of(ask(METHOD_GET, "acl/policy/name/c", NULL));
    assert_true(of_list > own && of_absent >= 1);
    assert_int_equal(ask_policy(METHOD_DELETE, other, NULL)->http, 200);
    assert_true(index_of(ask(METHOD_GET, "acl/policies", NULL)) > of_list);
    assert_true(index_of(ask(METHOD_GET, "acl/policy/name/b", NULL)) > of_list);
    assert_true(index_of(ask(METHOD_GET, by_id, NULL)) == own);
    assert_true(index_of(ask(METHOD_GET, "acl/policy/name/" NAME_128 "n", NULL)) > own);
}

static void rules_may_have_a_million_bytes(void **ctx)
{
    (void)ctx;
    static char body[REGISTRY_RULES_TEXT_MAX + 100];
    static const size_t lengths[] = {1000000, REGISTRY_RULES_TEXT_MAX, REGISTRY_RULES_TEXT_MAX + 1};
    static const char *const errors[] = {NULL,
                                         "Invalid Policy: it is longer than 1048576 bytes in all",
                                         "rules are longer than 1048576 bytes"};
    for (size_t i = 0; i < ARRAY_LEN(lengths); i++) {
        size_t at = (size_t)snprintf(body, sizeof body, "{\"Name\":\"a%zu\",\"Rules\":\"#", i);
        memset(body + at, 'x', lengths[i] - 1);
        memcpy(body + at + lengths[i] - 1, "\"}", 3);
        struct test_request *t = ask(METHOD_PUT, "acl/policy", body);
        if (errors[i] != NULL)
            assert_reply(t, 413, errors[i]);
        else
            assert_int_equal(t->http, 200);
    }
    assert_true(ask(METHOD_GET, "acl/policies", NULL)->body.len < 1000);
}

static void datacenters_are_few(void **ctx)
{
    (void)ctx;
    char body[4096] = "{\"Name\":\"a\",\"Datacenters\":[\"0\"", *to = body + strlen(body);
    for (int i = 0; i < REGISTRY_POLICY_DATACENTERS_MAX; i++)
        to += sprintf(to, ",\"%d\"", i);
    memcpy(to, "]}", 3);
    assert_reply(ask(METHOD_PUT, "acl/policy", body), 500,
                 "Invalid Policy: more than 256 Datacenters");
}

static void every_path_needs_its_right(void **ctx)
{
    (void)ctx;
    static const struct {
        enum http_method method;
        const char *path;
    } rows[] = {
        {METHOD_PUT, "/v1/acl/policy"},         {METHOD_GET, "/v1/acl/policies"},
        {METHOD_GET, "/v1/acl/policy/" ABSENT}, {METHOD_PUT, "/v1/acl/policy/" ABSENT},
        {METHOD_GET, "/v1/acl/policy/name/a"},  {METHOD_DELETE, "/v1/acl/policy/" ABSENT},
        {METHOD_PUT, "/v1/acl/policy/name/a"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const char *right = rows[i].method == METHOD_GET ? "'acl:read'" : "'acl:write'";
        const char *body = rows[i].method == METHOD_PUT ? "{\"Name\":\"a\"}" : NULL;
        expect(world_request(&w, rows[i].method, rows[i].path, body), 403, right);
    }
    assert_reply(ask(METHOD_GET, "acl/policies", NULL), 200, "[]");
}

static enum status serve_second(struct req *req)
{
    if (!text_is(req->ns_unknown, "second"))
        return registry_namespace_serve(req);
    req->ns = "second";
    req->ns_unknown = (struct bytes){0};
    return ST_OK;
}

static enum status allow_all(struct req *req)
{
    (void)req; /* tokens of the root namespace are not found in the second */
    return ST_OK;
}

static struct bytes no_token(const struct req *req, const struct router_request *request)
{
    (void)req;
    (void)request;
    return (struct bytes){0};
}

/* A world in which the registry has a second namespace. */
static void open_second(void)
{
    static struct dialect dialect;
    static struct route_api apis[8];
    static const struct route_api *all[ARRAY_LEN(apis)];
    static struct module module;
    static const struct module *const modules[] = {&module, &token_module, &cubbyhole_module,
                                                   SYS_MODULES, &kv_module};
    dialect = registry_dialect;
    dialect.serve_no_namespace = serve_second;
    dialect.authorise = allow_all;
    dialect.read_token = no_token;
    assert_true(registry_module.n_apis <= ARRAY_LEN(apis));
    for (size_t i = 0; i < registry_module.n_apis; i++) {
        apis[i] = *registry_module.apis[i];
        apis[i].dialect = &dialect;
        all[i] = &apis[i];
    }
    module = registry_module;
    module.apis = all;
    world_open(&w, modules, ARRAY_LEN(modules));
    world_init(&w);
    world_raise();
}

static void namespaces_are_apart(void **ctx)
{
    (void)ctx;
    world_close(&w);
    open_second();
    const char *first = create("{\"Name\":\"a\",\"Description\":\"first\"}");
    struct test_request *t = ask(METHOD_PUT, "acl/policy?ns=second", "{\"Name\":\"A\"}");
    assert_int_equal(t->http, 200); /* the name is free there */
    assert_string_equal(member(t, "Namespace"), "second");
    const char *second = member(t, "ID");
    char path[128];
    (void)snprintf(path, sizeof path, "acl/policy/%s?ns=second", first);
    assert_reply(ask(METHOD_GET, path, NULL), 404, NO_POLICY);
    assert_reply(ask(METHOD_DELETE, path, NULL), 200, "false");
    assert_reply(ask_policy(METHOD_GET, second, NULL), 404, NO_POLICY);
    t = ask(METHOD_GET, "acl/policy/name/a", NULL);
    assert_string_equal(member(t, "Description"), "first");
    assert_null(strstr(text(t), "Namespace"));
    t = ask(METHOD_GET, "acl/policies?ns=second", NULL);
    assert_non_null(strstr(text(t), second));
    assert_null(strstr(text(t), first));
    assert_null(strstr(text(ask(METHOD_GET, "acl/policies", NULL)), second));
    /* the body goes before the parameter */
    t = ask(METHOD_PUT, "acl/policy?ns=second", "{\"Name\":\"b\",\"Namespace\":\"default\"}");
    assert_int_equal(t->http, 200);
    assert_int_equal(ask(METHOD_GET, "acl/policy/name/b", NULL)->http, 200);
    assert_int_equal(ask(METHOD_GET, "acl/policy/name/b?ns=second", NULL)->http, 404);
}

static void an_unknown_namespace_has_no_policies(void **ctx)
{
    (void)ctx;
    static const struct refusal rows[] = {
        {METHOD_GET, "acl/policies?ns=no", NULL, 200, "[]"},
        {METHOD_GET, "acl/policy/name/a?ns=no", NULL, 404, "Namespace not found: \"no\""},
        {METHOD_PUT, "acl/policy?ns=no", "{\"Name\":\"b\"}", 500,
         "Namespace \"no\" does not exist"},
        {METHOD_DELETE, "acl/policy/" ABSENT "?ns=no", NULL, 500,
         "Namespace \"no\" does not exist"},
        {METHOD_PUT, "acl/policy", "{\"Name\":\"b\",\"Namespace\":\"no\"}", 500,
         "Namespace \"no\" does not exist"},
        {METHOD_PUT, "acl/policy?ns=other", "{\"Name\":\"b\",\"Namespace\":\"no\"}", 500,
         "Namespace \"no\" does not exist"},
        {METHOD_PUT, "acl/policy?ns=*", "{\"Name\":\"b\"}", 500, "Namespace \"*\" does not exist"},
    };
    (void)create("{\"Name\":\"a\",\"Namespace\":\"default\"}");
    assert_refused(rows, ARRAY_LEN(rows));
    assert_non_null(strstr(text(ask(METHOD_GET, "acl/policies?ns=*", NULL)), "\"Name\":\"a\""));
    struct test_request *t =
        ask(METHOD_PUT, "acl/policy?ns=no", "{\"Name\":\"b\",\"namespace\":\"default\"}");
    assert_int_equal(t->http, 200);
    assert_string_equal(member(t, "Name"), "b");
    assert_int_equal(ask(METHOD_GET, "acl/policy/name/b", NULL)->http, 200);
}

#undef TEST
#define TEST(f) cmocka_unit_test_setup_teardown(f, open_raised, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_bad_body_or_id_is_refused_before_all_else),
        TEST(refusals_from_the_name_on_are_500),
        TEST(rules_that_do_not_parse_are_refused_with_their_line),
        TEST(an_unknown_block_warns_or_is_refused),
        TEST(a_policy_is_shown_as_it_was_written),
        TEST(datacenters_are_absent_from_a_read_and_null_in_a_list),
        TEST(an_update_replaces_all_and_takes_back_what_was_read),
        TEST(a_name_in_the_path_is_unescaped_twice),
        TEST(a_policy_is_set_by_its_name),
        TEST(a_deleted_policy_is_gone_and_its_name_free),
        TEST(builtin_policies_are_made_once),
        TEST(builtin_policies_wait_for_the_feature_level),
        TEST(a_builtin_policy_that_is_missing_is_made_again),
        TEST(a_builtin_policy_keeps_rules_and_datacenters),
        TEST(a_builtin_policy_may_have_another_name),
        TEST(an_index_is_that_of_what_was_read),
        TEST(rules_may_have_a_million_bytes),
        TEST(datacenters_are_few),
        TEST(every_path_needs_its_right),
        TEST(namespaces_are_apart),
        TEST(an_unknown_namespace_has_no_policies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
