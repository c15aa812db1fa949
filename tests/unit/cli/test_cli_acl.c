/* The acl commands: what they ask of the registry, and what they print. */
#include "cli/with_cli.h"
#include "http/harness.h"

#include "base/mem.h"

#include <stdlib.h>
#include <unistd.h>

#define POLICY_A "b52fc3de-5000-4000-8000-00000000000a"
#define POLICY_B "b52fc3de-6000-4000-8000-00000000000b"
#define TOKEN_A "6a1253d2-1785-24fd-91c2-f8e78c745511"
#define SECRET_A "45a3bd52-07c7-47a4-52fd-0745e0cfe967"

#define POLICY                                                                                     \
    "{\"ID\":\"" POLICY_A "\",\"Name\":\"web\",\"Description\":\"for the web\",\"Rules\":"         \
    "\"key_prefix \\\"\\\" {\\n  policy = \\\"read\\\"\\n}\",\"Datacenters\":[\"east\",\"west\"]," \
    "\"Hash\":\"YWJjZGVmZ2g=\",\"CreateIndex\":13,\"ModifyIndex\":18}"
#define TOKEN                                                                                 \
    "{\"AccessorID\":\"" TOKEN_A "\",\"SecretID\":\"" SECRET_A "\",\"Description\":\"old\","  \
    "\"Policies\":[{\"ID\":\"" POLICY_A "\",\"Name\":\"web\"}],\"ServiceIdentities\":[{"      \
    "\"ServiceName\":\"db\",\"Datacenters\":[\"east\",\"west\"]},{\"ServiceName\":\"web\"}]," \
    "\"NodeIdentities\":[{\"NodeName\":\"n1\",\"Datacenter\":\"east\"}],\"Local\":true,"      \
    "\"CreateTime\":\"2020-05-22T18:52:31.5Z\",\"Hash\":\"YWJjZGVmZ2g=\",\"CreateIndex\":5,"  \
    "\"ModifyIndex\":10}"

/* A registry that keeps what it was asked, a line for each request, and replies by method and path.
 */
static char asked[16384];

static const struct {
    const char *request;
    int status;
    const char *body;
} replies[] = {
    {"PUT /v1/acl/bootstrap", 200,
     "{\"ID\":\"" SECRET_A "\","
     "\"AccessorID\":\"" TOKEN_A "\",\"SecretID\":\"" SECRET_A
     "\",\"Description\":\"Bootstrap Token (Global "
     "Management)\",\"Policies\":[{\"ID\":\"00000000-0000-0000-0000-000000000001\",\"Name\":"
     "\"global-management\"}],\"Local\":false,\"CreateTime\":\"2020-05-22T18:52:31Z\",\"Hash\":"
     "\"YWJjZGVmZ2g=\",\"CreateIndex\":5,\"ModifyIndex\":5}"},
    {"PUT /v1/acl/policy", 200, POLICY},
    {"GET /v1/acl/policies", 200,
     "[{\"ID\":\"" POLICY_A "\",\"Name\":\"web\",\"Description\":\"for the web\",\"Datacenters\":"
     "null,\"Hash\":\"YWJjZGVmZ2g=\",\"CreateIndex\":13,\"ModifyIndex\":18},{\"ID\":\"" POLICY_B
     "\",\"Name\":\"db\",\"Namespace\":\"team\",\"Description\":\"\",\"Datacenters\":[\"east\"],"
     "\"Hash\":null,\"CreateIndex\":14,\"ModifyIndex\":14}]"},
    {"GET /v1/acl/policy/" POLICY_A, 200, POLICY},
    {"PUT /v1/acl/policy/" POLICY_A, 200, POLICY},
    {"PUT /v1/acl/policy/" POLICY_B, 500,
     "Invalid Policy: A policy with name \"web\" already exists\n"},
    {"GET /v1/acl/policy/" POLICY_B, 200, "{\"ID\":\"" POLICY_B "\",\"Name\":\"db\"}"},
    {"DELETE /v1/acl/policy/" POLICY_A, 200, "true"},
    {"DELETE /v1/acl/policy/" POLICY_B, 200, "false"},
    {"GET /v1/acl/policy/name/web", 200, POLICY},
    {"GET /v1/acl/policy/name/builtin%252Fx", 200, POLICY},
    {"GET /v1/acl/token/" TOKEN_A, 200, TOKEN},
    {"GET /v1/acl/token/" TOKEN_A "?expanded=true", 200,
     "{\"AccessorID\":\"" TOKEN_A "\",\"SecretID\":\"<hidden>\",\"Description\":\"\",\"Local\":"
     "false,\"CreateTime\":\"2020-05-22T18:52:31Z\",\"ServiceIdentities\":[{\"ServiceName\":"
     "\"web\"}],\"Policies\":[{\"ID\":\"" POLICY_A
     "\",\"Name\":\"web\"}],\"ExpandedPolicies\":[" POLICY
     "],\"AgentACLDefaultPolicy\":\"deny\",\"ResolvedByAgent\":\"node1\"}"},
    {"GET /v1/acl/token/self", 200, TOKEN},
    {"GET /v1/acl/token/00000000-0000-0000-0000-000000000002", 403,
     "Permission denied: anonymous token lacks permission 'acl:read'"},
    {"PUT /v1/acl/token", 200, TOKEN},
    {"PUT /v1/acl/token/" TOKEN_A, 200, TOKEN},
    {"PUT /v1/acl/token/" TOKEN_A "/clone", 200, TOKEN},
    {"DELETE /v1/acl/token/" TOKEN_A, 200, "true"},
    {"GET /v1/acl/tokens", 200, "[" TOKEN "," TOKEN "]"},
    {"GET /v1/acl/tokens?dc=none", 200, "[]"},
    {"GET /v1/acl/policies?dc=none", 200, "[]"},
    {"GET /v1/acl/roles", 200, "[]"},
};

static void on_request(void *ctx, struct http_request *req)
{
    static const char *const names[] = {"x-registry-token", "x-registry-namespace",
                                        "x-secrets-token", "x-secrets-request"};
    struct http_reply reply = {.status = 404, .body = BYTES("none")};
    char request[512];
    size_t at = strlen(asked);
    (void)ctx;
    (void)snprintf(request, sizeof request, "%s %.*s%s%.*s", http_method_name(req->method),
                   (int)req->path.len, (const char *)req->path.data, req->query.len != 0 ? "?" : "",
                   (int)req->query.len, (const char *)req->query.data);
    at += (size_t)snprintf(asked + at, sizeof asked - at, "%s [", request);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct bytes v = http_header(req, names[i]);
        at += (size_t)snprintf(asked + at, sizeof asked - at, "%s%.*s", i == 0 ? "" : "|",
                               (int)v.len, (const char *)v.data);
    }
    (void)snprintf(asked + at, sizeof asked - at, "] %.*s\n", (int)req->body.len,
                   (const char *)req->body.data);
    for (size_t i = 0; i < ARRAY_LEN(replies); i++)
        if (strcmp(request, replies[i].request) == 0) {
            reply.status = replies[i].status;
            reply.body = bytes_str(replies[i].body);
        }
    http_respond(req, &reply);
}

static const struct http_handler handler = {.request = on_request};
static struct harness server;
static char address[64], host_port[32];

static const char *const variables[] = {
    "CONSUL_HTTP_ADDR",   "CONSUL_HTTP_SSL",   "CONSUL_HTTP_SSL_VERIFY",
    "CONSUL_CACERT",      "CONSUL_HTTP_TOKEN", "CONSUL_HTTP_TOKEN_FILE",
    "CONSUL_NAMESPACE",   "HOLDFAST_ADDR",     "HOLDFAST_TOKEN",
    "HOLDFAST_NAMESPACE", "VAULT_ADDR",        "VAULT_TOKEN"};

static int open_server(void **ctx)
{
    (void)ctx;
    harness_up(&server, &handler, NULL, NULL);
    asked[0] = '\0';
    (void)snprintf(host_port, sizeof host_port, "127.0.0.1:%u", http_server_port(server.server));
    (void)snprintf(address, sizeof address, "http://%s", host_port);
    for (size_t i = 0; i < ARRAY_LEN(variables); i++)
        (void)unsetenv(variables[i]);
    (void)setenv("CONSUL_HTTP_ADDR", host_port, 1);
    (void)setenv("CONSUL_HTTP_TOKEN", "t", 1);
    return 0;
}

static int close_server(void **ctx)
{
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(variables); i++)
        (void)unsetenv(variables[i]);
    harness_down(&server);
    return 0;
}

/* Check what was asked since the last check. */
static void assert_asked(const char *wanted)
{
    assert_string_equal(asked, wanted);
    asked[0] = '\0';
}

/* A new file with this content; the test removes it. */
static void new_file(char path[64], const char *content)
{
    (void)snprintf(path, 64, "/tmp/holdfast-acl-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, content, strlen(content)), strlen(content));
    assert_int_equal(close(fd), 0);
}

/* Run `acl policy list` and check the headers of its request. */
#define LIST_SENDS(wanted, ...)                                   \
    do {                                                          \
        asked[0] = '\0';                                          \
        assert_int_equal(RUN("acl policy list", __VA_ARGS__), 0); \
        assert_asked("GET /v1/acl/policies [" wanted "] \n");     \
    } while (0)

static void a_request_has_the_headers_of_the_registry_alone(void **ctx)
{
    (void)ctx;
    LIST_SENDS("t|||", "-meta");
    LIST_SENDS("t|team||", "-namespace=team");
    LIST_SENDS("t|team||", "-ns", "team");
    (void)setenv("CONSUL_NAMESPACE", "other", 1);
    LIST_SENDS("t|other||", "-meta");
    LIST_SENDS("t|team||", "-ns", "team");
}

static void a_flag_wins_over_the_environment_and_a_file_over_a_value(void **ctx)
{
    (void)ctx;
    char path[64], flag[96];
    new_file(path, " \n from-file\n\n");
    (void)snprintf(flag, sizeof flag, "-token-file=%s", path);
    LIST_SENDS("from-flag|||", "-token=from-flag");
    LIST_SENDS("from-file|||", flag);
    LIST_SENDS("from-file|||", flag, "-token=from-flag");
    (void)setenv("CONSUL_HTTP_TOKEN_FILE", path, 1);
    LIST_SENDS("from-file|||", "-meta");
    LIST_SENDS("from-flag|||", "-token=from-flag");
    LIST_SENDS("|||", "-token=");
    (void)unsetenv("CONSUL_HTTP_TOKEN_FILE");
    (void)unsetenv("CONSUL_HTTP_TOKEN");
    (void)setenv("VAULT_TOKEN", "of-another-server", 1);
    LIST_SENDS("|||", "-meta");
    (void)setenv("HOLDFAST_TOKEN", "ours", 1);
    LIST_SENDS("ours|||", "-meta");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(RUN("acl policy list", flag), 1);
    assert_null(strstr(err, path));
    new_file(path, " \n");
    (void)snprintf(flag, sizeof flag, "-token-file=%s", path);
    assert_int_equal(RUN("acl policy list", flag), 1);
    assert_string_equal(err, "Error: flag -token-file: the file does not hold a token\n");
    assert_int_equal(unlink(path), 0);
    assert_asked("");
}

static void the_token_that_login_kept_stays_with_the_secrets_service(void **ctx)
{
    (void)ctx;
    char home[] = "/tmp/holdfast-acl-XXXXXX", path[64];
    assert_non_null(mkdtemp(home));
    (void)snprintf(path, sizeof path, "%s/.holdfast-token", home);
    FILE *file = fopen(path, "we");
    assert_true(file != NULL && fputs("kept\n", file) >= 0 && fclose(file) == 0);
    (void)setenv("HOME", home, 1);
    (void)unsetenv("CONSUL_HTTP_TOKEN");
    LIST_SENDS("|||", "-meta");
    (void)setenv("HOLDFAST_ADDR", address, 1);
    assert_int_equal(RUN("read", "x"), 2);
    assert_asked("GET /v1/x [||kept|true] \n");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(home), 0);
}

static void an_address_is_a_host_and_port_or_a_url(void **ctx)
{
    (void)ctx;
    char ours[96];
    LIST_SENDS("t|||", "-http-addr", host_port);
    LIST_SENDS("t|||", "-address", address);
    (void)setenv("CONSUL_HTTP_ADDR", address, 1);
    LIST_SENDS("t|||", "-meta");
    (void)unsetenv("CONSUL_HTTP_ADDR");
    (void)snprintf(ours, sizeof ours, "%s/", address);
    (void)setenv("HOLDFAST_ADDR", ours, 1);
    LIST_SENDS("t|||", "-meta");
}

static void tls_that_is_asked_for_is_used_and_never_given_up(void **ctx)
{
    (void)ctx;
    (void)setenv("CONSUL_HTTP_SSL", "true", 1);
    assert_int_equal(RUN("acl policy list", "-meta"), 2);
    assert_non_null(strstr(err, "GET https://127.0.0.1:"));
    assert_int_equal(RUN("acl policy list", "-http-addr", address), 2);
    assert_non_null(strstr(err, "GET https://127.0.0.1:"));
    (void)setenv("CONSUL_HTTP_SSL", "perhaps", 1);
    assert_int_equal(RUN("acl policy list", "-meta"), 1);
    assert_string_equal(err, "Error: CONSUL_HTTP_SSL must be true or false\n");
    (void)setenv("CONSUL_HTTP_SSL", "false", 1);
    LIST_SENDS("t|||", "-meta");
}

static void datacenter_and_stale_go_into_the_query(void **ctx)
{
    (void)ctx;
    assert_int_equal(RUN("acl token list", "-dc=none", "-meta"), 0);
    assert_string_equal(shown, "");
    assert_int_equal(RUN("acl policy list", "-datacenter", "none"), 0);
    assert_string_equal(shown, "");
    assert_int_equal(RUN("acl policy list", "-datacenter=none", "-format=json"), 0);
    assert_string_equal(shown, "[]\n");
    asked[0] = '\0';
    assert_int_equal(RUN("acl policy list", "-dc=a&b", "-stale"), 2);
    assert_int_equal(RUN("acl policy list", "-stale"), 2);
    assert_int_equal(RUN("acl token read", "-id=" TOKEN_A, "-stale", "-dc=x", "-expanded"), 2);
    assert_int_equal(RUN("acl policy create", "-name=x", "-stale", "-dc=x"), 2);
    assert_asked("GET /v1/acl/policies?dc=a%26b&stale [t|||] \n"
                 "GET /v1/acl/policies?stale [t|||] \n"
                 "GET /v1/acl/token/" TOKEN_A "?dc=x&stale&expanded=true [t|||] \n"
                 "PUT /v1/acl/policy?dc=x [t|||] {\"Name\":\"x\"}\n");
}

static void a_refusal_is_printed_as_upstream_prints_it(void **ctx)
{
    (void)ctx;
    assert_int_equal(RUN("acl policy update", "-id=" POLICY_B, "-name=web"), 2);
    assert_string_equal(err,
                        "Error updating policy: Unexpected response code: 500 (Invalid Policy: "
                        "A policy with name \"web\" already exists)\n");
    assert_string_equal(shown, "");
    (void)unsetenv("CONSUL_HTTP_TOKEN");
    assert_int_equal(RUN("acl token read", "-accessor-id=anonymous"), 2);
    assert_string_equal(err,
                        "Error reading token: Unexpected "
                        "response code: 403 (Permission denied: anonymous token lacks permission "
                        "'acl:read')\nNo token was sent: set CONSUL_HTTP_TOKEN, or give "
                        "-token-file.\n");
}

static void the_first_characters_of_an_id_are_enough(void **ctx)
{
    (void)ctx;
    assert_int_equal(RUN("acl policy read", "-id", "b52fc3de-5"), 0);
    assert_asked("GET /v1/acl/policies [t|||] \nGET /v1/acl/policy/" POLICY_A " [t|||] \n");
    assert_int_equal(RUN("acl policy read", "-id=b52fc3de"), 2);
    assert_string_equal(err, "Error: -id: more than one policy has an ID that begins so\n");
    assert_int_equal(RUN("acl policy delete", "-id=c"), 2);
    assert_string_equal(err, "Error: -id: no policy has an ID that begins so\n");
    assert_int_equal(RUN("acl token delete", "-accessor-id=6a1253d2-1"), 2);
    assert_string_equal(err, "Error: -accessor-id: more than one token has an ID that begins so\n");
    asked[0] = '\0';
    assert_int_equal(RUN("acl policy read", "-id=global-management"), 2);
    assert_asked("GET /v1/acl/policy/00000000-0000-0000-0000-000000000001 [t|||] \n");
    assert_int_equal(RUN("acl policy read", "-id="), 1);
    assert_int_equal(RUN("acl token read", "-meta"), 1);
    assert_asked("");
}

static void a_policy_is_found_by_its_name(void **ctx)
{
    (void)ctx;
    assert_int_equal(RUN("acl policy read", "-name=builtin/x"), 0);
    assert_asked("GET /v1/acl/policy/name/builtin%252Fx [t|||] \n");
    assert_int_equal(RUN("acl policy read", "-name=none"), 2);
    assert_string_equal(err, "Error: -name: no policy has this name\n");
    asked[0] = '\0';
    assert_int_equal(RUN("acl policy delete", "-name=web"), 0);
    assert_string_equal(shown, "Policy \"" POLICY_A "\" deleted successfully\n");
    assert_asked("GET /v1/acl/policy/name/web [t|||] \nDELETE /v1/acl/policy/" POLICY_A
                 " [t|||] \n");
}

static void a_policy_is_created_from_flags_and_files(void **ctx)
{
    (void)ctx;
    char path[64], flag[96];
    new_file(path, "acl = \"read\"\n");
    (void)snprintf(flag, sizeof flag, "-rules=@%s", path);
    assert_int_equal(RUN("acl policy create", "-name=a", "-description=d", flag,
                         "-valid-datacenter=x", "-valid-datacenter", "y"),
                     0);
    assert_asked(
        "PUT /v1/acl/policy [t|||] {\"Name\":\"a\",\"Description\":\"d\",\"Rules\":\"acl = "
        "\\\"read\\\"\\n\",\"Datacenters\":[\"x\",\"y\"]}\n");
    assert_int_equal(RUN("acl policy create", "-name=a", "-rules", "<&>"), 0);
    assert_asked("PUT /v1/acl/policy [t|||] {\"Name\":\"a\",\"Rules\":\"<&>\"}\n");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(RUN("acl policy create", "-name=a", flag), 1);
    assert_null(strstr(err, path));
    assert_int_equal(RUN("acl policy create", "-rules=x"), 1);
    assert_asked("");
}

static void an_update_keeps_what_is_not_given(void **ctx)
{
    (void)ctx;
    assert_int_equal(RUN("acl policy update", "-name=web", "-description="), 0);
    assert_asked(
        "GET /v1/acl/policy/name/web [t|||] \nPUT /v1/acl/policy/" POLICY_A
        " [t|||] {\"ID\":\"" POLICY_A "\",\"Name\":\"web\",\"Description\":\"\",\"Rules\":"
        "\"key_prefix \\\"\\\" {\\n  policy = \\\"read\\\"\\n}\",\"Datacenters\":[\"east\","
        "\"west\"],\"Hash\":\"YWJjZGVmZ2g=\",\"CreateIndex\":13,\"ModifyIndex\":18}\n");
    assert_int_equal(RUN("acl policy update", "-id=" POLICY_A, "-name=new", "-no-merge"), 0);
    assert_asked("PUT /v1/acl/policy/" POLICY_A " [t|||] {\"ID\":\"" POLICY_A
                 "\",\"Name\":\"new\"}\n");
}

static void a_policy_is_printed_in_upstreams_form(void **ctx)
{
    (void)ctx;
    assert_int_equal(RUN("acl policy read", "-name=web"), 0);
    assert_string_equal(shown,
                        "ID:           " POLICY_A "\nName:         web\nDescription:  for the "
                        "web\nDatacenters:  east, west\nRules:\nkey_prefix \"\" {\n  policy = "
                        "\"read\"\n}\n");
    assert_int_equal(RUN("acl policy read", "-name=web", "-meta", "-format=pretty"), 0);
    assert_string_equal(shown,
                        "ID:           " POLICY_A "\nName:         web\nDescription:  for the "
                        "web\nDatacenters:  east, west\nHash:         6162636465666768\n"
                        "Create Index: 13\nModify Index: 18\nRules:\nkey_prefix \"\" {\n  "
                        "policy = \"read\"\n}\n");
    assert_int_equal(RUN("acl policy list", "-meta"), 0);
    assert_string_equal(
        shown,
        "web:\n   ID:           " POLICY_A "\n   Description:  for the web\n   Datacenters:  \n"
        "   Hash:         6162636465666768\n   Create Index: 13\n   Modify Index: 18\n"
        "db:\n   ID:           " POLICY_B "\n   Namespace:    team\n   Description:  \n"
        "   Datacenters:  east\n   Hash:         \n   Create Index: 14\n   Modify Index: 14\n"
        "\n");
    assert_int_equal(RUN("acl policy read", "-name=web", "-format=json"), 0);
    assert_non_null(strstr(shown, "  \"Hash\": \"YWJjZGVmZ2g=\",\n  \"CreateIndex\": 13,\n"));
    assert_int_equal(RUN("acl policy list", "-format=xml"), 1);
    assert_string_equal(err, "Error: the output format must be pretty or json\n");
}

static void what_was_not_there_is_not_deleted(void **ctx)
{
    (void)ctx;
    assert_int_equal(RUN("acl policy delete", "-id=" POLICY_B), 2);
    assert_string_equal(err, "Error: there is no policy with this ID\n");
    assert_int_equal(RUN("acl token delete", "-accessor-id=" TOKEN_A), 0);
    assert_string_equal(shown, "Token \"" TOKEN_A "\" deleted successfully\n");
}

static void a_bootstrap_sends_no_token_and_hides_its_secret(void **ctx)
{
    (void)ctx;
    char path[64];
    assert_int_equal(run("acl bootstrap", 0, NULL), 0);
    assert_asked("PUT /v1/acl/bootstrap [|||] \n");
    assert_string_equal(shown,
                        "AccessorID:       " TOKEN_A "\nSecretID:         " SECRET_A
                        "\nDescription:      Bootstrap Token (Global Management)\nLocal:      "
                        "      false\nCreate Time:      2020-05-22 18:52:31 +0000 UTC\n"
                        "Policies:\n   00000000-0000-0000-0000-000000000001 - "
                        "global-management\n\n");
    new_file(path, SECRET_A "\n");
    assert_int_equal(RUN("acl bootstrap", path), 0);
    assert_asked("PUT /v1/acl/bootstrap [|||] {\"BootstrapSecret\":\"" SECRET_A "\"}\n");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(RUN("acl bootstrap", SECRET_A), 0);
    assert_asked("PUT /v1/acl/bootstrap [|||] {\"BootstrapSecret\":\"" SECRET_A "\"}\n");
    assert_int_equal(RUN("acl bootstrap", "no-uuid-and-no-file"), 1);
    assert_null(strstr(err, "no-uuid"));
    assert_asked("");
}

static void a_token_is_created_with_its_links(void **ctx)
{
    (void)ctx;
    assert_int_equal(RUN("acl token create", "-description=d", "-policy-name=web",
                         "-policy-id=b52fc3de-6", "-policy-id", POLICY_A, "-service-identity=web",
                         "-service-identity=db:east,west", "-node-identity=n1:east", "-local",
                         "-expires-ttl=90m", "-accessor=" TOKEN_A, "-secret=" SECRET_A,
                         "-role-name=r"),
                     0);
    assert_asked("GET /v1/acl/policies [t|||] \nPUT /v1/acl/token [t|||] {\"AccessorID\":\"" TOKEN_A
                 "\",\"SecretID\":\"" SECRET_A "\",\"Local\":true,\"ExpirationTTL\":\"1h30m0s\","
                 "\"Description\":\"d\",\"Policies\":[{\"Name\":\"web\"},{\"ID\":\"" POLICY_B
                 "\"},{\"ID\":\"" POLICY_A "\"}],\"Roles\":[{\"Name\":\"r\"}],"
                 "\"ServiceIdentities\":[{\"ServiceName\":\"web\"},{\"ServiceName\":\"db\","
                 "\"Datacenters\":[\"east\",\"west\"]}],\"NodeIdentities\":[{\"NodeName\":\"n1\","
                 "\"Datacenter\":\"east\"}]}\n");
    assert_int_equal(RUN("acl token create", "-role-id=c630d4ef-6"), 2);
    assert_string_equal(err, "Error: -role-id: no role has an ID that begins so\n");
}

static void what_is_no_token_is_refused_before_it_is_asked_for(void **ctx)
{
    (void)ctx;
    static const char *const wrong[] = {"-service-identity=a:b:c", "-service-identity=:b",
                                        "-service-identity=a:",    "-node-identity=a",
                                        "-node-identity=a:b:c",    "-node-identity=a:"};
    assert_int_equal(RUN("acl token create", "-description=d"), 1);
    assert_int_equal(RUN("acl token create", "-policy-id="), 1);
    assert_string_equal(err, "Error: -policy-id is empty\n");
    assert_int_equal(RUN("acl token create", "-policy-name=a", "-expires-ttl=soon"), 1);
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        assert_int_equal(RUN("acl token create", wrong[i]), 1);
        assert_non_null(strstr(err, "must be "));
    }
    assert_int_equal(RUN("acl token read", "-self", "-expanded"), 1);
    assert_asked("");
}

/* Run `acl token update` and check the body of its request. */
#define UPDATE_SENDS(wanted, ...)                                                           \
    do {                                                                                    \
        asked[0] = '\0';                                                                    \
        assert_int_equal(RUN("acl token update", "-accessor-id=" TOKEN_A, __VA_ARGS__), 0); \
        const char *body = strstr(asked, "PUT /v1/acl/token/" TOKEN_A " [t|||] ");          \
        assert_non_null(body);                                                              \
        assert_non_null(strstr(body, wanted));                                              \
    } while (0)

#define OLD_POLICIES "\"Policies\":[{\"ID\":\"" POLICY_A "\",\"Name\":\"web\"}"
#define OLD_SERVICES                                                                        \
    "\"ServiceIdentities\":[{\"ServiceName\":\"db\",\"Datacenters\":[\"east\",\"west\"]},{" \
    "\"ServiceName\":\"web\"}"
#define OLD_NODES "\"NodeIdentities\":[{\"NodeName\":\"n1\",\"Datacenter\":\"east\"}"

static void an_update_replaces_appends_or_leaves_the_links_of_a_token(void **ctx)
{
    (void)ctx;
    UPDATE_SENDS("\"SecretID\":\"" SECRET_A "\",\"Description\":\"new\"," OLD_POLICIES
                 "]," OLD_SERVICES "]," OLD_NODES "],\"Local\":true,",
                 "-description=new");
    UPDATE_SENDS("\"Description\":\"old\",\"Policies\":[{\"Name\":\"b\"}]," OLD_SERVICES "],",
                 "-policy-name=b");
    UPDATE_SENDS(OLD_POLICIES ",{\"Name\":\"b\"}],", "-append-policy-name=b",
                 "-append-policy-name=web", "-append-policy-id=" POLICY_A);
    UPDATE_SENDS(OLD_POLICIES ",{\"ID\":\"" POLICY_B "\"}],", "-merge-policies",
                 "-policy-id=b52fc3de-6");
    UPDATE_SENDS("\"Roles\":[{\"Name\":\"r\"}]", "-append-role-name=r");
    UPDATE_SENDS("\"ServiceIdentities\":[{\"ServiceName\":\"x\"}]", "-service-identity=x");
    UPDATE_SENDS("\"ServiceIdentities\":[{\"ServiceName\":\"web\"},{\"ServiceName\":\"db\"}]",
                 "-append-service-identity=db");
    UPDATE_SENDS(OLD_SERVICES ",{\"ServiceName\":\"x\"}]", "-merge-service-identities",
                 "-service-identity=x");
    UPDATE_SENDS(OLD_NODES ",{\"NodeName\":\"n1\",\"Datacenter\":\"west\"}]",
                 "-append-node-identity=n1:west");
    UPDATE_SENDS(OLD_NODES "]", "-append-node-identity=n1:east");
    UPDATE_SENDS("\"NodeIdentities\":[{\"NodeName\":\"n2\",\"Datacenter\":\"east\"}]",
                 "-node-identity=n2:east");
    static const char *const pairs[][2] = {
        {"-policy-name=a", "-append-policy-id=b"},
        {"-role-id=a", "-append-role-name=b"},
        {"-service-identity=a", "-append-service-identity=b"},
        {"-node-identity=a:b", "-append-node-identity=c:d"},
    };
    for (size_t i = 0; i < ARRAY_LEN(pairs); i++) {
        assert_int_equal(RUN("acl token update", "-accessor-id=" TOKEN_A, pairs[i][0], pairs[i][1]),
                         1);
        assert_non_null(strstr(err, "exclude -append-"));
    }
}

static void a_clone_may_have_a_description_of_its_own(void **ctx)
{
    (void)ctx;
    assert_int_equal(RUN("acl token clone", "-id=" TOKEN_A), 0);
    assert_int_equal(RUN("acl token clone", "-accessor-id=" TOKEN_A, "-description=d"), 0);
    assert_asked("PUT /v1/acl/token/" TOKEN_A "/clone [t|||] {}\nPUT /v1/acl/token/" TOKEN_A
                 "/clone [t|||] {\"Description\":\"d\"}\n");
}

#define TOKEN_TEXT                                                                              \
    "AccessorID:       " TOKEN_A "\nSecretID:         " SECRET_A                                \
    "\nDescription:      old\nLocal:            true\nCreate Time:      2020-05-22 18:52:31.5 " \
    "+0000 UTC\n"
#define TOKEN_LINKS                                                                     \
    "Policies:\n   " POLICY_A " - web\nService Identities:\n   db (Datacenters: east, " \
    "west)\n   web (Datacenters: all)\nNode Identities:\n   n1 (Datacenter: east)\n"

static void a_token_is_printed_in_upstreams_form(void **ctx)
{
    (void)ctx;
    assert_int_equal(RUN("acl token read", "-self"), 0);
    assert_asked("GET /v1/acl/token/self [t|||] \n");
    assert_string_equal(shown, TOKEN_TEXT TOKEN_LINKS "\n");
    assert_int_equal(RUN("acl token read", "-id=" TOKEN_A, "-meta"), 0);
    assert_string_equal(shown,
                        TOKEN_TEXT "Hash:             6162636465666768\nCreate Index:     5\n"
                                   "Modify Index:     10\n" TOKEN_LINKS "\n");
    assert_int_equal(run("acl token list", 0, NULL), 0);
    assert_string_equal(shown, TOKEN_TEXT TOKEN_LINKS "\n" TOKEN_TEXT TOKEN_LINKS "\n");
    assert_int_equal(RUN("acl token read", "-id=" TOKEN_A, "-expanded"), 0);
    assert_string_equal(
        shown, "AccessorID:       " TOKEN_A "\nSecretID:         <hidden>\n"
               "Description:      \nLocal:            false\nCreate Time:      "
               "2020-05-22 18:52:31 +0000 UTC\nPolicies:\n\tPolicy Name: web\n\t\tID: " POLICY_A
               "\n\t\tDescription: for the web\n\t\tRules:\n\t\t\tkey_prefix "
               "\"\" {\n\t\t\t  policy = \"read\"\n\t\t\t}\n\nService Identities:\n"
               "\tName: web (Datacenters: all)\n=== End of Authorizer Layer 0: Token "
               "===\nResolved By Agent: node1\nDefault Policy: deny\n\n");
}

static void running_out_of_memory_sends_no_half_token(void **ctx)
{
    (void)ctx;
    unsigned failed = 0, done = 0;
    for (uint64_t n = 1; n < 4000 && done == 0; n++) {
        asked[0] = '\0';
        (void)mem_fail_nth(n);
        int code = RUN("acl token update", "-accessor-id=" TOKEN_A, "-append-policy-id=b52fc3de-6",
                       "-append-service-identity=x:east", "-description=d");
        bool used = mem_fail_nth(0);
        const char *body = strstr(asked, "PUT ");
        assert_true(code >= 0 && code <= 2);
        assert_true(body == NULL ||
                    (strstr(body, ",{\"ID\":\"" POLICY_B "\"}]") != NULL &&
                     strstr(body, "{\"ServiceName\":\"x\",\"Datacenters\":[\"east\"]}]") != NULL &&
                     strstr(body, "\"Description\":\"d\"") != NULL));
        done += used ? 0 : 1;
        failed += code != 0 ? 1 : 0;
    }
    assert_int_equal(done, 1);
    assert_in_range(failed, 5, 1000);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_server, close_server)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_request_has_the_headers_of_the_registry_alone),
        TEST(a_flag_wins_over_the_environment_and_a_file_over_a_value),
        TEST(the_token_that_login_kept_stays_with_the_secrets_service),
        TEST(an_address_is_a_host_and_port_or_a_url),
        TEST(tls_that_is_asked_for_is_used_and_never_given_up),
        TEST(datacenter_and_stale_go_into_the_query),
        TEST(a_refusal_is_printed_as_upstream_prints_it),
        TEST(the_first_characters_of_an_id_are_enough),
        TEST(a_policy_is_found_by_its_name),
        TEST(a_policy_is_created_from_flags_and_files),
        TEST(an_update_keeps_what_is_not_given),
        TEST(a_policy_is_printed_in_upstreams_form),
        TEST(what_was_not_there_is_not_deleted),
        TEST(a_bootstrap_sends_no_token_and_hides_its_secret),
        TEST(a_token_is_created_with_its_links),
        TEST(what_is_no_token_is_refused_before_it_is_asked_for),
        TEST(an_update_replaces_appends_or_leaves_the_links_of_a_token),
        TEST(a_clone_may_have_a_description_of_its_own),
        TEST(a_token_is_printed_in_upstreams_form),
        TEST(running_out_of_memory_sends_no_half_token),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
