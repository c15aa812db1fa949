/* acl/token and acl/tokens: every text and status, and what the replies show. */
#include "api/registry_world.h"

struct refused {
    enum http_method method;
    const char *path, *body;
    int http;
    const char *text;
};

static void assert_all_refused(const struct refused *cases, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        unsigned before = w.proposals;
        assert_reply(ask(cases[i].method, cases[i].path, cases[i].body), cases[i].http,
                     cases[i].text);
        assert_int_equal(w.proposals, before);
    }
}

static long index_of(const struct test_request *t)
{
    const char *at = strstr(t->told, "X-Consul-Index: ");
    return at != NULL ? strtol(at + strlen("X-Consul-Index: "), NULL, 10) : 0;
}

/* The version of the newest change of a token. */
static long newest(void)
{
    return index_of(ask(METHOD_GET, "acl/tokens", NULL));
}

static void a_token_is_created_as_asked(void **ctx)
{
    (void)ctx;
    char id[64], created[128];
    (void)policy_of("reader", "", id);
    char more[512];
    (void)snprintf(
        more, sizeof more,
        "\"Description\":\"about it\",\"Policies\":[{\"Name\":\"READER\"},{\"ID\":\"%s\"}],"
        "\"ServiceIdentities\":[{\"ServiceName\":\"web\",\"Datacenters\":[\"dc1\","
        "\"dc2\"]},{\"ServiceName\":\"db\"}],\"NodeIdentities\":[{\"NodeName\":\"n1\","
        "\"Datacenter\":\"dc1\"}]",
        id);
    struct test_request *t = create_first(more);
    (void)snprintf(created, sizeof created, "\"Policies\":[{\"ID\":\"%s\",", id);
    assert_has(t, 200, created);
    assert_has(t, 200, "\"Name\":\"reader\"}],"); /* once, though named twice */
    assert_has(t, 200, "\"SecretID\":\"" S1 "\",\"Description\":\"about it\"");
    assert_has(t, 200,
               "\"ServiceIdentities\":[{\"ServiceName\":\"web\",\"Datacenters\":[\"dc1\",\"dc2\"]},"
               "{\"ServiceName\":\"db\"}],\"NodeIdentities\":[{\"NodeName\":\"n1\","
               "\"Datacenter\":\"dc1\"}],\"Local\":false,\"CreateTime\":\"" NOW_TEXT "\"");
    assert_lacks(t, "ExpirationTime");
    assert_lacks(t, "Roles");
    assert_lacks(t, "\"ID\":\"" S1);
    long index = number_of(t, "CreateIndex");
    assert_int_equal(number_of(t, "ModifyIndex"), index);
    char whole[2048];
    (void)snprintf(whole, sizeof whole, "%s", text(t));
    assert_int_equal(newest(), index);
    assert_reply(ask(METHOD_GET, "acl/token/" A1, NULL), 200, whole);
}

static void ids_are_random_unless_chosen(void **ctx)
{
    (void)ctx;
    char accessor[64], secret[64], path[128], room[64];
    struct test_request *t = ask(METHOD_PUT, "acl/token", "{}");
    assert_int_equal(t->http, 200);
    (void)member_of(t, "AccessorID", accessor);
    (void)member_of(t, "SecretID", secret);
    assert_int_equal(strlen(accessor), 36);
    assert_int_equal(strlen(secret), 36);
    assert_string_not_equal(accessor, secret);
    (void)snprintf(path, sizeof path, "acl/token/%s", accessor);
    t = ask(METHOD_GET, path, NULL);
    assert_string_equal(member_of(t, "SecretID", room), secret);
}

static void a_secret_keeps_its_spelling_and_an_accessor_does_not(void **ctx)
{
    (void)ctx;
    static const char capital[] = "AAAAAAAA-1111-4111-8111-111111111111"; /* S1 */
    struct test_request *t =
        ask(METHOD_PUT, "acl/token",
            "{\"AccessorID\":\"DDDDDDDD-1111-4111-8111-111111111111\",\"SecretID\":"
            "\"AAAAAAAA-1111-4111-8111-111111111111\"}");
    assert_has(t, 200, "\"AccessorID\":\"dddddddd-1111-4111-8111-111111111111\"");
    assert_has(ask_as(capital, METHOD_GET, "acl/token/self", NULL), 200, capital);
    assert_reply(ask_as(S1, METHOD_GET, "acl/token/self", NULL), 403, "ACL not found");
    assert_has(ask(METHOD_GET, "acl/token/DddDdddD-1111-4111-8111-111111111111", NULL), 200,
               capital);
    assert_has(ask(METHOD_PUT, "acl/token/DDDDDDDD-1111-4111-8111-111111111111",
                   "{\"AccessorID\":\"dddddddd-1111-4111-8111-111111111111\"}"),
               200, capital);
}

static const char *const secrets[] = {S1, S2};
static unsigned readable; /* secrets that stood in transactions */

static void look_and_propose(struct state_log *log, struct rlog_propose *p)
{
    for (size_t i = 0; i < ARRAY_LEN(secrets); i++)
        readable += memmem(p->txn.data, p->txn.len, secrets[i], strlen(secrets[i])) != NULL;
    world_propose(log, p);
}

/* Values are encrypted, but keys and preconditions are not. */
static void no_secret_stands_readable_in_the_log(void **ctx)
{
    (void)ctx;
    readable = 0;
    w.log.propose = look_and_propose;
    (void)create_first("");
    assert_has(ask(METHOD_PUT, "acl/bootstrap", "{\"BootstrapSecret\":\"" S2 "\"}"), 200, S2);
    assert_int_equal(ask(METHOD_PUT, "acl/token/" A1, "{\"SecretID\":\"" S1 "\"}")->http, 200);
    assert_int_equal(ask(METHOD_PUT, "acl/token/" A1 "/clone", "{}")->http, 200);
    assert_reply(ask(METHOD_DELETE, "acl/token/" A1, NULL), 200, "true");
    assert_int_equal(readable, 0);
}

static void the_form_of_a_body_is_checked_first(void **ctx)
{
    (void)ctx;
    static const struct refused cases[] = {
        {METHOD_PUT, "acl/token", "", 400, "Token decoding failed: EOF"},
        {METHOD_PUT, "acl/token", "{\"X\":1}", 400,
         "Token decoding failed: json: unknown field \"X\""},
        {METHOD_PUT, "acl/token", "{\"Policies\":[{\"X\":1}]}", 400,
         "Token decoding failed: json: unknown field \"X\""},
        {METHOD_PUT, "acl/token", "{\"Policies\":\"a\"}", 400,
         "Token decoding failed: json: field Policies: a list of objects is expected"},
        {METHOD_PUT, "acl/token", "{\"Policies\":[\"a\"]}", 400,
         "Token decoding failed: json: field Policies: a list of objects is expected"},
        {METHOD_PUT, "acl/token", "{\"Policies\":[{\"ID\":{}}]}", 400,
         "Token decoding failed: json: field ID: a string is expected, not an object"},
        {METHOD_PUT, "acl/token", "{\"Local\":\"maybe\"}", 400,
         "Token decoding failed: json: field Local: true or false is expected, not this string"},
        {METHOD_PUT, "acl/token", "{\"ExpirationTTL\":\"90\"}", 400,
         "Token decoding failed: json: field ExpirationTTL: a duration such as \"5m\" is expected, "
         "or "
         "nanoseconds"},
        {METHOD_PUT, "acl/token", "{\"ExpirationTTL\":true}", 400,
         "Token decoding failed: json: field ExpirationTTL: a duration such as \"5m\" is expected, "
         "or "
         "nanoseconds"},
        {METHOD_PUT, "acl/token", "{\"ExpirationTime\":\"soon\"}", 400,
         "Token decoding failed: json: field ExpirationTime: a time such as "
         "\"2024-02-29T12:00:00Z\" is "
         "expected"},
        {METHOD_PUT, "acl/token/" A1, "{\"AccessorID\":\"" A2 "\"}", 400,
         "Token Accessor ID in URL and payload do not match"},
        {METHOD_PUT, "acl/token/" A1, "", 400, "Token decoding failed: EOF"},
        {METHOD_PUT, "acl/token/" A1 "/clone", "{\"X\":1}", 400,
         "Token decoding failed: json: unknown field \"X\""},
    };
    assert_all_refused(cases, ARRAY_LEN(cases));
    struct test_request *t = ask(METHOD_PUT, "acl/token", "[]");
    assert_has(t, 400, "Token decoding failed: ");
}

static void what_a_new_token_cannot_have_is_named(void **ctx)
{
    (void)ctx;
    static const struct refused cases[] = {
        {METHOD_PUT, "acl/token", "{\"AccessorID\":\"x\"}", 500,
         "Invalid Token: AccessorID - not a valid UUID"},
        {METHOD_PUT, "acl/token", "{\"SecretID\":\"x\"}", 500,
         "Invalid Token: SecretID - not a valid UUID"},
        {METHOD_PUT, "acl/token", "{\"AccessorID\":\"" MANAGEMENT_ID "\"}", 500,
         "Invalid Token: AccessorID - UUIDs with the prefix "
         "\"00000000-0000-0000-0000-0000000000\" are reserved"},
        {METHOD_PUT, "acl/token", "{\"AccessorID\":\"" A1 "\"}", 500,
         "Invalid Token: AccessorID is already in use"},
        {METHOD_PUT, "acl/token", "{\"AccessorID\":\"" S1 "\"}", 500,
         "Invalid Token: AccessorID is already in use"},
        {METHOD_PUT, "acl/token", "{\"SecretID\":\"" S1 "\"}", 500,
         "Invalid Token: SecretID is already in use"},
        {METHOD_PUT, "acl/token", "{\"SecretID\":\"" A1 "\"}", 500,
         "Invalid Token: SecretID is already in use"},
        {METHOD_PUT, "acl/token", "{\"SecretID\":\"" S2 "\",\"AccessorID\":\"" S2 "\"}", 500,
         "Invalid Token: SecretID is already in use"},
        {METHOD_PUT, "acl/token", "{\"Policies\":[{\"Name\":\"none\"}]}", 500,
         "No such ACL policy with name \"none\""},
        {METHOD_PUT, "acl/token", "{\"Policies\":[{\"ID\":\"" A1 "\"}]}", 500,
         "No such ACL policy with ID \"" A1 "\""},
        {METHOD_PUT, "acl/token", "{\"Policies\":[{\"ID\":\"x\"}]}", 500,
         "No such ACL policy with ID \"x\""},
        {METHOD_PUT, "acl/token", "{\"Policies\":[{}]}", 500, "No such ACL policy with name \"\""},
        {METHOD_PUT, "acl/token", "{\"Roles\":[{\"Name\":\"r\"}]}", 500,
         "No such ACL role with name \"r\""},
        {METHOD_PUT, "acl/token", "{\"AuthMethod\":\"m\"}", 500,
         "AuthMethod field is disallowed outside of login"},
        {METHOD_PUT, "acl/token", "{\"Rules\":\"acl = \\\"read\\\"\"}", 500,
         "Rules cannot be specified for this token"},
        {METHOD_PUT, "acl/token", "{\"Type\":\"client\"}", 500,
         "Type cannot be specified for this token"},
        {METHOD_PUT, "acl/token", "{\"TemplatedPolicies\":[{}]}", 500,
         "TemplatedPolicies cannot be specified for this token"},
        {METHOD_PUT, "acl/token", "{\"Namespace\":\"b\"}", 500, "Namespace \"b\" does not exist"},
        {METHOD_PUT, "acl/token", "{\"ServiceIdentities\":[{}]}", 500,
         "Service identity is missing the service name field on this token"},
        {METHOD_PUT, "acl/token", "{\"ServiceIdentities\":[{\"ServiceName\":\"Web\"}]}", 500,
         "Service identity \"Web\" has an invalid name. Only lowercase alphanumeric characters, "
         "'-' "
         "and '_' are allowed"},
        {METHOD_PUT, "acl/token",
         "{\"ServiceIdentities\":[{\"ServiceName\":\"web\",\"Datacenters\":[\"a@b\"]}]}", 500,
         "Service identity \"web\" has an invalid datacenter"},
        {METHOD_PUT, "acl/token",
         "{\"Local\":true,\"ServiceIdentities\":[{\"ServiceName\":\"web\",\"Datacenters\":[\"dc1\"]"
         "}]}",
         500, "Service identity \"web\" cannot specify a list of datacenters on a local token"},
        {METHOD_PUT, "acl/token", "{\"NodeIdentities\":[{\"Datacenter\":\"dc1\"}]}", 500,
         "Node identity is missing the node name field on this token"},
        {METHOD_PUT, "acl/token", "{\"NodeIdentities\":[{\"NodeName\":\"n1\"}]}", 500,
         "Node identity is missing the datacenter field on this token"},
        {METHOD_PUT, "acl/token",
         "{\"NodeIdentities\":[{\"NodeName\":\"N\",\"Datacenter\":\"dc1\"}]}", 500,
         "Node identity \"N\" has an invalid name. Only lowercase alphanumeric characters, '-' and "
         "'_' are allowed"},
        {METHOD_PUT, "acl/token",
         "{\"NodeIdentities\":[{\"NodeName\":\"n\",\"Datacenter\":\"a,b\"}]}", 500,
         "Node identity \"n\" has an invalid datacenter"},
    };
    (void)create_first("");
    assert_all_refused(cases, ARRAY_LEN(cases));
}

static void what_clients_send_back_is_ignored(void **ctx)
{
    (void)ctx;
    (void)create_first("");
    struct test_request *t = ask(
        METHOD_PUT, "acl/token/" A1,
        "{\"accessorid\":\"" A1 "\",\"SecretID\":\"" S1
        "\",\"Description\":\"d\",\"Policies\":null,"
        "\"Roles\":[],\"ServiceIdentities\":null,\"NodeIdentities\":[],\"TemplatedPolicies\":null,"
        "\"Local\":false,\"CreateTime\":\"" NOW_TEXT "\",\"Hash\":\"x\",\"CreateIndex\":1,"
        "\"ModifyIndex\":2,\"Rules\":\"\",\"Type\":\"\",\"Legacy\":false,\"AuthMethod\":\"\","
        "\"ExpirationTime\":\"0001-01-01T00:00:00Z\",\"ExpirationTTL\":0,\"Namespace\":"
        "\"default\"}");
    assert_has(t, 200, "\"Description\":\"d\"");
}

static void a_change_replaces_description_and_links(void **ctx)
{
    (void)ctx;
    char id[64], hash[64], other[64], body[256];
    (void)policy_of("reader", "", id);
    struct test_request *t =
        create_first("\"Description\":\"a\",\"Policies\":[{\"Name\":\"reader\"}]");
    long created = number_of(t, "CreateIndex");
    (void)member_of(t, "Hash", hash);
    t = ask(METHOD_PUT, "acl/token/" A1, "{\"Description\":\"b\"}");
    assert_has(t, 200, "\"Description\":\"b\",\"Local\":false");
    assert_int_equal(number_of(t, "CreateIndex"), created);
    assert_true(number_of(t, "ModifyIndex") > created);
    assert_string_not_equal(member_of(t, "Hash", other), hash);
    (void)snprintf(body, sizeof body, "{\"Description\":\"a\",\"Policies\":[{\"ID\":\"%s\"}]}", id);
    t = ask(METHOD_PUT, "acl/token/11111111-1111-4111-8111-111111111111", body);
    assert_string_equal(member_of(t, "Hash", other), hash);
    long modified = number_of(t, "ModifyIndex");
    t = ask(METHOD_PUT, "acl/token/" A1, body); /* equal content is a change too */
    assert_true(number_of(t, "ModifyIndex") > modified);
    assert_has(ask(METHOD_GET, "acl/token/" A1, NULL), 200, "\"Name\":\"reader\"");
}

static void what_a_change_may_not_change_is_named(void **ctx)
{
    (void)ctx;
    static const struct refused cases[] = {
        {METHOD_PUT, "acl/token/" A1, "{\"SecretID\":\"" S2 "\"}", 500,
         "Changing a token's SecretID is not permitted"},
        {METHOD_PUT, "acl/token/" A1, "{\"Local\":true}", 500, "Cannot toggle local mode of " A1},
        {METHOD_PUT, "acl/token/" A1, "{\"AuthMethod\":\"m\"}", 500,
         "Cannot change AuthMethod of " A1},
        {METHOD_PUT, "acl/token/" A1, "{\"ExpirationTTL\":\"5m\"}", 500,
         "Cannot change expiration time of " A1},
        {METHOD_PUT, "acl/token/" A1, "{\"ExpirationTime\":\"2023-11-14T23:13:20Z\"}", 500,
         "Cannot change expiration time of " A1},
        {METHOD_PUT, "acl/token/" A1, "{\"Policies\":[{\"Name\":\"none\"}]}", 500,
         "No such ACL policy with name \"none\""},
        {METHOD_PUT, "acl/token/" A2, "{}", 500, "Cannot find token \"" A2 "\""},
        {METHOD_PUT, "acl/token/x", "{}", 500, "AccessorID is not a valid UUID"},
        {METHOD_PUT, "acl/token/" A1, "{\"Rules\":\"x\"}", 500,
         "Rules cannot be specified for this token"},
        {METHOD_PUT, "acl/token/" A1, "{\"Namespace\":\"b\"}", 500,
         "Namespace \"b\" does not exist"},
    };
    (void)create_first("");
    assert_all_refused(cases, ARRAY_LEN(cases));
    assert_has(ask(METHOD_GET, "acl/token/" A1, NULL), 200, "\"SecretID\":\"" S1 "\"");
}

static void a_missing_token_has_its_texts(void **ctx)
{
    (void)ctx;
    static const struct refused cases[] = {
        {METHOD_GET, "acl/token/" A2, NULL, 403, MISSING},
        {METHOD_GET, "acl/token/x", NULL, 403, MISSING},
        {METHOD_GET, "acl/token/" A2 "?index=5&wait=1s", NULL, 403, MISSING},
        {METHOD_PUT, "acl/token/" A2 "/clone", "{}", 403, MISSING},
        {METHOD_DELETE, "acl/token/" A2, NULL, 404, "Cannot find token to delete"},
        {METHOD_DELETE, "acl/token/x", NULL, 500, "Accessor ID is missing or an invalid UUID"},
        {METHOD_DELETE, "acl/token/00000000-0000-0000-0000-000000000002", NULL, 500,
         "Delete operation not permitted on the anonymous token"},
        {METHOD_POST, "acl/token", "{}", 405, "method POST not allowed"},
    };
    assert_all_refused(cases, ARRAY_LEN(cases));
}

static void a_clone_has_the_links_and_ids_of_its_own(void **ctx)
{
    (void)ctx;
    char id[64], accessor[64], secret[64];
    (void)policy_of("reader", "", id);
    (void)create_first("\"Description\":\"a\",\"Local\":true,\"Policies\":[{\"Name\":\"reader\"}],"
                       "\"ServiceIdentities\":[{\"ServiceName\":\"web\"}]");
    struct test_request *t = ask(METHOD_PUT, "acl/token/" A1 "/clone", "{\"Description\":\"b\"}");
    assert_has(t, 200, "\"Description\":\"b\",\"Policies\":[{\"ID\":");
    assert_has(t, 200, "\"ServiceIdentities\":[{\"ServiceName\":\"web\"}],\"Local\":true");
    assert_string_not_equal(member_of(t, "AccessorID", accessor), A1);
    assert_string_not_equal(member_of(t, "SecretID", secret), S1);
    assert_has(ask(METHOD_PUT, "acl/token/" A1 "/clone", "{}"), 200, "\"Description\":\"a\"");
    assert_has(ask_as(secret, METHOD_GET, "acl/token/self", NULL), 200, accessor);
}

static void a_deleted_token_is_refused_at_once(void **ctx)
{
    (void)ctx;
    (void)create_first("\"Policies\":[{\"ID\":\"" MANAGEMENT_ID "\"}]");
    assert_has(ask_as(S1, METHOD_GET, "acl/tokens", NULL), 200, A1);
    assert_reply(ask_as(S1, METHOD_DELETE, "acl/token/" A1, NULL), 500,
                 "Deletion of the request's authorization token is not permitted");
    assert_reply(ask(METHOD_DELETE, "acl/token/" A1, NULL), 200, "true");
    assert_reply(ask_as(S1, METHOD_GET, "acl/tokens", NULL), 403, "ACL not found");
    assert_reply(ask(METHOD_GET, "acl/token/" A1, NULL), 403, MISSING);
    (void)create_first(""); /* both ids are free again */
}

/* Expiry */

static void an_expiry_lies_between_a_minute_and_a_day(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *field, *text;
    } bad[] = {
        {"\"ExpirationTTL\":\"59s\"",
         "ExpirationTime cannot be less than 1m0s in the future (was 59s)"},
        {"\"ExpirationTTL\":1", "ExpirationTime cannot be less than 1m0s in the future (was 0s)"},
        {"\"ExpirationTTL\":\"24h1s\"",
         "ExpirationTime cannot be more than 24h0m0s in the future (was 24h0m1s)"},
        {"\"ExpirationTTL\":9223372036854775807",
         "ExpirationTime cannot be more than 24h0m0s in the future (was 2562047h47m16.854s)"},
        {"\"ExpirationTime\":\"9999-12-31T23:59:59Z\"",
         "ExpirationTime cannot be more than 24h0m0s in the future (was 2562047h47m16.854s)"},
        {"\"ExpirationTime\":\"2023-11-14T22:13:21Z\"",
         "ExpirationTime cannot be less than 1m0s in the future (was 1s)"},
        {"\"ExpirationTime\":\"2023-11-14T22:13:19Z\"",
         "ExpirationTime cannot be before CreateTime"},
        {"\"ExpirationTime\":\"1970-01-01T00:00:00Z\"",
         "ExpirationTime cannot be before CreateTime"},
        {"\"ExpirationTTL\":\"-5m\"", "Token Expiration TTL '-5m0s' should be > 0"},
        {"\"ExpirationTTL\":-60000000000", "Token Expiration TTL '-1m0s' should be > 0"},
        {"\"ExpirationTTL\":\"5m\",\"ExpirationTime\":\"2023-11-14T23:13:20Z\"",
         "Token Expiration TTL and Expiration Time cannot both be set"},
    };
    static const struct {
        const char *field, *time;
    } good[] = {
        {"\"ExpirationTTL\":\"1m\"", "2023-11-14T22:14:20Z"},
        {"\"ExpirationTTL\":\"24h\"", "2023-11-15T22:13:20Z"},
        {"\"ExpirationTTL\":300000000000", "2023-11-14T22:18:20Z"},
        {"\"ExpirationTime\":\"2023-11-15T00:13:20+01:00\"", "2023-11-14T23:13:20Z"},
    };
    char body[256], room[64];
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        (void)snprintf(body, sizeof body, "{%s}", bad[i].field);
        assert_reply(ask(METHOD_PUT, "acl/token", body), 500, bad[i].text);
    }
    for (size_t i = 0; i < ARRAY_LEN(good); i++) {
        (void)snprintf(body, sizeof body, "{%s}", good[i].field);
        struct test_request *t = ask(METHOD_PUT, "acl/token", body);
        assert_string_equal(member_of(t, "ExpirationTime", room), good[i].time);
    }
}

static void an_expired_token_is_gone_at_once(void **ctx)
{
    (void)ctx;
    (void)create_first("\"ExpirationTTL\":\"5m\",\"Policies\":[{\"ID\":\"" MANAGEMENT_ID "\"}]");
    assert_has(ask(METHOD_PUT, "acl/token/" A1, "{\"ExpirationTime\":\"2023-11-14T22:18:20Z\"}"),
               200, "\"ExpirationTime\":\"2023-11-14T22:18:20Z\"");
    assert_has(ask(METHOD_PUT, "acl/token/" A1 "/clone", "{}"), 200, "\"ExpirationTime\":");
    w.later_ms = 5 * 60 * 1000 - 1;
    assert_int_equal(ask_as(S1, METHOD_GET, "acl/token/self", NULL)->http, 200);
    assert_has(ask(METHOD_GET, "acl/tokens", NULL), 200, A1);
    assert_has(ask(METHOD_PUT, "acl/token/" A1 "/clone", "{}"), 500,
               "ExpirationTime cannot be less than 1m0s in the future (was 1ms)");
    w.later_ms++;
    assert_reply(ask_as(S1, METHOD_GET, "acl/token/self", NULL), 403, "ACL not found");
    assert_reply(ask(METHOD_GET, "acl/token/" A1, NULL), 403, MISSING);
    assert_reply(ask(METHOD_PUT, "acl/token/" A1, "{}"), 500, "Cannot find token \"" A1 "\"");
    assert_reply(ask(METHOD_DELETE, "acl/token/" A1, NULL), 404, "Cannot find token to delete");
    assert_lacks(ask(METHOD_GET, "acl/tokens", NULL), A1);
}

/* Reading */

static void a_secret_is_shown_to_writers_alone(void **ctx)
{
    (void)ctx;
    static const char hidden[] = "\"SecretID\":\"\\u003chidden\\u003e\"";
    char id[64], secret[64];
    (void)policy_of("reader", "acl = \\\"read\\\"", id);
    (void)create_first("");
    struct test_request *t = ask(METHOD_PUT, "acl/token", "{\"Policies\":[{\"Name\":\"reader\"}]}");
    (void)member_of(t, "SecretID", secret);
    assert_has(ask_as(secret, METHOD_GET, "acl/token/" A1, NULL), 200, hidden);
    t = ask_as(secret, METHOD_GET, "acl/tokens", NULL);
    assert_has(t, 200, hidden);
    assert_lacks(t, S1);
    assert_lacks(t, secret);
    assert_has(ask_as(secret, METHOD_GET, "acl/token/self", NULL), 200, secret);
    assert_has(ask(METHOD_GET, "acl/tokens", NULL), 200, S1);
    assert_has(ask_as(secret, METHOD_PUT, "acl/token", "{}"), 403, "lacks permission 'acl:write'");
    assert_has(ask_as(secret, METHOD_DELETE, "acl/token/" A1, NULL), 403,
               "lacks permission 'acl:write'");
    assert_has(ask_as(S1, METHOD_GET, "acl/tokens", NULL), 403,
               "Permission denied: token with AccessorID '" A1 "' lacks permission 'acl:read'");
    assert_has(ask_as(NULL, METHOD_GET, "acl/tokens", NULL), 403,
               "Permission denied: anonymous token lacks permission 'acl:read'.");
}

static void a_token_reads_itself_without_a_right(void **ctx)
{
    (void)ctx;
    (void)create_first("");
    struct test_request *t = ask_as(S1, METHOD_GET, "acl/token/self", NULL);
    assert_has(t, 200, "\"AccessorID\":\"" A1 "\",\"SecretID\":\"" S1 "\"");
    assert_reply(ask_as(NULL, METHOD_GET, "acl/token/self", NULL), 403, MISSING);
    assert_reply(ask_as(S2, METHOD_GET, "acl/token/self", NULL), 403, "ACL not found");
    char room[64];
    t = ask(METHOD_GET, "acl/token/self", NULL); /* a root token of the secrets service */
    assert_has(t, 200,
               "\"Policies\":[{\"ID\":\"" MANAGEMENT_ID "\",\"Name\":\"global-management\"}]");
    assert_string_equal(member_of(t, "SecretID", room), root);
}

static void a_list_is_ordered_and_filtered(void **ctx)
{
    (void)ctx;
    char id[64], path[128];
    (void)policy_of("reader", "", id);
    assert_int_equal(ask(METHOD_PUT, "acl/token",
                         "{\"AccessorID\":\"" A2 "\",\"Policies\":[{\"Name\":\"reader\"}]}")
                         ->http,
                     200);
    (void)create_first("\"ServiceIdentities\":[{\"ServiceName\":\"web\"}]");
    struct test_request *t = ask(METHOD_GET, "acl/tokens", NULL);
    assert_int_equal(t->http, 200);
    assert_true(text(t)[0] == '[' && strstr(text(t), A1) < strstr(text(t), A2));
    (void)snprintf(path, sizeof path, "acl/tokens?policy=%s", id);
    t = ask(METHOD_GET, path, NULL);
    assert_has(t, 200, A2);
    assert_lacks(t, A1);
    t = ask(METHOD_GET, "acl/tokens?servicename=web", NULL);
    assert_has(t, 200, A1);
    assert_lacks(t, A2);
    assert_reply(ask(METHOD_GET, "acl/tokens?servicename=we", NULL), 200, "[]");
    assert_reply(ask(METHOD_GET, "acl/tokens?role=r", NULL), 200, "[]");
    assert_reply(ask(METHOD_GET, "acl/tokens?authmethod=m", NULL), 200, "[]");
    assert_reply(ask(METHOD_GET, "acl/tokens?ns=b", NULL), 200, "[]");
    assert_has(ask(METHOD_GET, "acl/tokens?policy=&role=", NULL), 200, A1);
    assert_has(ask(METHOD_GET, "acl/tokens?policy=a&policy=b", NULL), 400, "policy");
}

static void a_policy_is_named_as_it_is_now(void **ctx)
{
    (void)ctx;
    char id[64], path[128];
    (void)policy_of("reader", "acl = \\\"read\\\"", id);
    (void)create_first("\"Policies\":[{\"Name\":\"reader\"}]");
    (void)snprintf(path, sizeof path, "acl/policy/%s", id);
    assert_int_equal(
        ask(METHOD_PUT, path, "{\"Name\":\"renamed\",\"Rules\":\"acl = \\\"read\\\"\"}")->http,
        200);
    assert_has(ask(METHOD_GET, "acl/token/" A1, NULL), 200, "\"Name\":\"renamed\"");
    struct test_request *t = ask(METHOD_GET, "acl/token/" A1 "?expanded=true", NULL);
    assert_has(t, 200, "\"ExpandedPolicies\":[{\"ID\":");
    assert_has(t, 200, "\"Rules\":\"acl = \\\"read\\\"\"");
    assert_has(t, 200, "\"AgentACLDefaultPolicy\":\"deny\"");
    assert_int_equal(ask_as(S1, METHOD_GET, "acl/tokens", NULL)->http, 200);
    assert_reply(ask(METHOD_DELETE, path, NULL), 200, "true");
    assert_lacks(ask(METHOD_GET, "acl/token/" A1, NULL), "Policies");
    assert_int_equal(ask_as(S1, METHOD_GET, "acl/tokens", NULL)->http, 403);
}

static void the_index_of_a_token_is_its_own(void **ctx)
{
    (void)ctx;
    (void)create_first("");
    long created = index_of(ask(METHOD_GET, "acl/token/" A1, NULL));
    assert_int_equal(created, newest());
    assert_int_equal(index_of(ask_as(S1, METHOD_GET, "acl/token/self", NULL)), created);
    assert_int_equal(ask(METHOD_PUT, "acl/token", "{\"AccessorID\":\"" A2 "\"}")->http, 200);
    assert_int_equal(index_of(ask(METHOD_GET, "acl/token/" A1, NULL)), created);
    long second = newest();
    assert_true(second > created);
    assert_int_equal(ask(METHOD_PUT, "acl/token/" A1, "{}")->http, 200);
    long changed = index_of(ask(METHOD_GET, "acl/token/" A1, NULL));
    assert_true(changed > second && changed == newest());
    assert_int_equal(ask(METHOD_DELETE, "acl/token/" A2, NULL)->http, 200);
    assert_true(newest() > changed);
}

static void it_needs_the_feature_level(void **ctx)
{
    (void)ctx;
    w.node.raft.feature = RLOG_FEATURE_FIRST;
    assert_int_equal(ask(METHOD_PUT, "acl/token", "{}")->http, 503);
    assert_int_equal(ask(METHOD_PUT, "acl/bootstrap", "")->http, 503);
}

static void every_lack_of_memory_is_told(void **ctx)
{
    (void)ctx;
    (void)create_first("\"Policies\":[{\"ID\":\"" MANAGEMENT_ID "\"}],\"ServiceIdentities\":"
                       "[{\"ServiceName\":\"web\",\"Datacenters\":[\"dc1\"]}]");
    ask_without_memory("/v1/acl/token/" A1 "?expanded");
    ask_without_memory("/v1/acl/tokens");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        REGISTRY_TEST(a_token_is_created_as_asked),
        REGISTRY_TEST(ids_are_random_unless_chosen),
        REGISTRY_TEST(a_secret_keeps_its_spelling_and_an_accessor_does_not),
        REGISTRY_TEST(no_secret_stands_readable_in_the_log),
        REGISTRY_TEST(the_form_of_a_body_is_checked_first),
        REGISTRY_TEST(what_a_new_token_cannot_have_is_named),
        REGISTRY_TEST(what_clients_send_back_is_ignored),
        REGISTRY_TEST(a_change_replaces_description_and_links),
        REGISTRY_TEST(what_a_change_may_not_change_is_named),
        REGISTRY_TEST(a_missing_token_has_its_texts),
        REGISTRY_TEST(a_clone_has_the_links_and_ids_of_its_own),
        REGISTRY_TEST(a_deleted_token_is_refused_at_once),
        REGISTRY_TEST(an_expiry_lies_between_a_minute_and_a_day),
        REGISTRY_TEST(an_expired_token_is_gone_at_once),
        REGISTRY_TEST(a_secret_is_shown_to_writers_alone),
        REGISTRY_TEST(a_token_reads_itself_without_a_right),
        REGISTRY_TEST(a_list_is_ordered_and_filtered),
        REGISTRY_TEST(a_policy_is_named_as_it_is_now),
        REGISTRY_TEST(the_index_of_a_token_is_its_own),
        REGISTRY_TEST(it_needs_the_feature_level),
        REGISTRY_TEST(every_lack_of_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
