/* Commands about tokens of the registry: bootstrap, create, read, update, clone, delete, list. */
#include "cli/command/acl.h"
#include "cli/command/acl_links.h"
#include "text/duration.h"

static char *token_path(struct cli *cli, const char *accessor, const char *behind)
{
    char *escaped = cli_escape(cli, accessor);
    return escaped != NULL ? arena_format(&cli->arena, "acl/token/%s%s", escaped, behind) : NULL;
}

/* Find the token that -accessor-id or -id means. Returns an exit code. */
static int find_token(struct cli *cli, const char **ret_accessor)
{
    const char *flag = "accessor-id", *given = cli_text(cli, flag), *older = cli_text(cli, "id");
    if (given == NULL || given[0] == '\0') {
        flag = "id";
        given = older;
    }
    if (given == NULL || given[0] == '\0')
        return cli_usage_error(cli, "-accessor-id is missing");
    return acl_find(cli, &acl_tokens, flag, given, ret_accessor);
}

/* Whether the text has the form of a UUID. */
static bool is_uuid(const char *text)
{
    static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    if (strlen(text) != sizeof form - 1)
        return false;
    for (size_t i = 0; form[i] != '\0'; i++)
        if (form[i] == '-' ? text[i] != '-' : text_hex_digit((uint8_t)text[i]) > 15)
            return false;
    return true;
}

/* The secret that the argument of bootstrap means: a UUID stands for itself, other words for a
 * file,
 * "-" for standard input. False with a message. */
static bool read_secret(struct cli *cli, const char *argument, const char **ret_secret)
{
    *ret_secret = argument;
    if (is_uuid(argument))
        return true;
    if (strcmp(argument, "-") != 0)
        return cli_token_read(cli, argument, "argument 1", ret_secret);
    *ret_secret = cli_secret(cli, "Bootstrap secret (will be hidden): ");
    return *ret_secret != NULL;
}

static int cmd_acl_bootstrap(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    const struct text_value *token = NULL;
    const char *secret;
    /* the registry has no token yet, and would refuse a token of the secrets service */
    struct acl_call call = {.method = "PUT",
                            .path = "acl/bootstrap",
                            .purpose = "Failed ACL bootstrapping",
                            .token = ""};
    ASSERT(cli->n_args <= 1);
    if (cli->n_args == 1) {
        if (!read_secret(cli, cli->args[0], &secret))
            return CLI_LOCAL_ERROR;
        text_open_object(&w);
        text_member_str(&w, "BootstrapSecret", secret);
        text_close(&w);
        call.body = &body;
    }
    int code = acl_do(cli, &call, &token);
    return code == CLI_OK ? acl_print_token(cli, token) : code;
}

/* Write the members that only a new token can have. False with a message. */
static bool put_new(struct cli *cli, struct text_writer *w)
{
    CLEANUP(buf_done) struct buf text = {0};
    const char *ttl = cli_text(cli, "expires-ttl"), *secret = cli_text(cli, "secret");
    int64_t ns = 0;
    if (secret != NULL && strcmp(secret, "-") == 0 &&
        (secret = cli_secret(cli, "Secret of the new token (will be hidden): ")) == NULL)
        return false;
    if (ttl != NULL && text_duration_parse(bytes_str(ttl), &ns) != ST_OK) {
        cli_complain("flag -expires-ttl must be a duration, such as 12h");
        return false;
    }
    cli_put_text(cli, w, "accessor-id", "AccessorID");
    if (secret != NULL)
        text_member_str(w, "SecretID", secret);
    if (cli_bool(cli, "local", false))
        text_member_bool(w, "Local", true);
    if (ns > 0) {
        text_duration_put(&text, ns);
        text_key(w, "ExpirationTTL");
        text_put_bytes(w, buf_bytes(&text));
    }
    w->out->failed |= text.failed;
    return true;
}

static int cmd_acl_token_create(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    const struct text_value *token = NULL;
    if (!acl_links_given(cli))
        return cli_usage_error(cli, "give at least one of -policy-name, -policy-id, -role-name, "
                                    "-role-id, -service-identity, -node-identity");
    text_open_object(&w);
    if (!put_new(cli, &w))
        return CLI_LOCAL_ERROR;
    cli_put_text(cli, &w, "description", "Description");
    int code = acl_put_links(cli, &w, NULL);
    if (code != CLI_OK)
        return code;
    text_close(&w);
    const struct acl_call call = {.method = "PUT",
                                  .path = "acl/token",
                                  .body = &body,
                                  .purpose = "Failed to create new token"};
    code = acl_do(cli, &call, &token);
    return code == CLI_OK ? acl_print_token(cli, token) : code;
}

static int read_token(struct cli *cli, const char *accessor, const char *query,
                      const struct text_value **ret_token)
{
    const struct acl_call call = {.method = "GET",
                                  .path = token_path(cli, accessor, ""),
                                  .query = query,
                                  .purpose = "Error reading token"};
    return acl_do(cli, &call, ret_token);
}

static int cmd_acl_token_read(struct cli *cli)
{
    const struct text_value *token = NULL;
    const char *accessor = "self";
    bool self = cli_bool(cli, "self", false), expanded = cli_bool(cli, "expanded", false);
    ASSERT(cli->n_args == 0);
    if (self && expanded)
        return cli_usage_error(cli, "-expanded needs -accessor-id in place of -self");
    int code = self ? CLI_OK : find_token(cli, &accessor);
    if (code == CLI_OK)
        code = read_token(cli, accessor, expanded ? "expanded=true" : NULL, &token);
    return code == CLI_OK ? acl_print_token(cli, token) : code;
}

/* Write the token as it will be: the current one with what flags give. */
static int put_token(struct cli *cli, struct buf *body, const char *accessor)
{
    CLEANUP(buf_done) struct buf given = {0};
    struct text_writer w = {.out = &given, .plain = true}, merged = {.out = body, .plain = true};
    const struct text_value *token = NULL, *whole = NULL;
    ASSERT(accessor != NULL);
    int code = read_token(cli, accessor, NULL, &token);
    if (code != CLI_OK)
        return code;
    text_open_object(&w);
    cli_put_text(cli, &w, "description", "Description");
    code = acl_put_links(cli, &w, token);
    if (code != CLI_OK)
        return code;
    text_close(&w);
    if (!acl_merge(cli, token, &given, &whole))
        return CLI_LOCAL_ERROR;
    text_put_value(&merged, whole);
    return CLI_OK;
}

static int cmd_acl_token_update(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    const struct text_value *token = NULL;
    const char *accessor = NULL;
    int code = find_token(cli, &accessor);
    if (code == CLI_OK)
        code = put_token(cli, &body, accessor);
    if (code != CLI_OK)
        return code;
    const struct acl_call call = {.method = "PUT",
                                  .path = token_path(cli, accessor, ""),
                                  .body = &body,
                                  .purpose = "Failed to update token"};
    code = acl_do(cli, &call, &token);
    return code == CLI_OK ? acl_print_token(cli, token) : code;
}

static int cmd_acl_token_clone(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    const struct text_value *token = NULL;
    const char *accessor = NULL;
    int code = find_token(cli, &accessor);
    if (code != CLI_OK)
        return code;
    text_open_object(&w);
    cli_put_text(cli, &w, "description", "Description");
    text_close(&w);
    const struct acl_call call = {.method = "PUT",
                                  .path = token_path(cli, accessor, "/clone"),
                                  .body = &body,
                                  .purpose = "Error cloning token"};
    code = acl_do(cli, &call, &token);
    return code == CLI_OK ? acl_print_token(cli, token) : code;
}

static int cmd_acl_token_delete(struct cli *cli)
{
    const struct text_value *reply = NULL;
    const char *accessor = NULL;
    int code = find_token(cli, &accessor);
    if (code != CLI_OK)
        return code;
    const struct acl_call call = {.method = "DELETE",
                                  .path = token_path(cli, accessor, ""),
                                  .purpose = "Error deleting token"};
    code = acl_do(cli, &call, &reply);
    return code == CLI_OK ? acl_print_deleted(cli, "token", accessor, reply) : code;
}

static int cmd_acl_token_list(struct cli *cli)
{
    const struct text_value *tokens = NULL;
    const struct acl_call call = {
        .method = "GET", .path = "acl/tokens", .purpose = "Failed to retrieve the token list"};
    int code = acl_do(cli, &call, &tokens);
    return code == CLI_OK ? acl_print_tokens(cli, tokens) : code;
}

#define ACCESSOR_FLAGS                                                                           \
    {"accessor-id", CLI_TEXT,                                                                    \
     "accessor of the token, its first characters if they are of no other token, or anonymous"}, \
    {                                                                                            \
        "id", CLI_TEXT, "older name of -accessor-id"                                             \
    }
#define LINK_FLAGS                                                                       \
    {"policy-name", CLI_MANY, "a policy of the token, by name"},                         \
        {"policy-id", CLI_MANY, "a policy of the token, by ID or its first characters"}, \
        {"role-name", CLI_MANY, "a role of the token, by name"},                         \
        {"role-id", CLI_MANY, "a role of the token, by ID or its first characters"},     \
        {"service-identity", CLI_MANY,                                                   \
         "SERVICE or SERVICE:DATACENTER,…: what that service may do"},                   \
    {                                                                                    \
        "node-identity", CLI_MANY, "NODE:DATACENTER: what that node may do"              \
    }

static const struct cli_flag create_flags[] = {
    {"description", CLI_TEXT, "description of the token"},
    LINK_FLAGS,
    {"local", CLI_BOOL, "a token of this datacenter alone"},
    {"expires-ttl", CLI_DURATION, "time to live, 1 minute to 24 hours; default: no end"},
    {"accessor-id", CLI_TEXT, "accessor of the token, a UUID; default: a random one"},
    {"secret", CLI_TEXT, "the token itself, a UUID, or - to type it; default: a random one"},
    META_FLAG};
static const struct cli_flag read_flags[] = {
    ACCESSOR_FLAGS,
    {"self", CLI_BOOL, "the token of this request"},
    {"expanded", CLI_BOOL, "print the rules of the token's policies too"},
    META_FLAG};
static const struct cli_flag update_flags[] = {
    ACCESSOR_FLAGS,
    {"description", CLI_TEXT, "the new description"},
    LINK_FLAGS,
    {"append-policy-name", CLI_MANY, "one more policy, by name"},
    {"append-policy-id", CLI_MANY, "one more policy, by ID or its first characters"},
    {"append-role-name", CLI_MANY, "one more role, by name"},
    {"append-role-id", CLI_MANY, "one more role, by ID or its first characters"},
    {"append-service-identity", CLI_MANY, "one more service, as for -service-identity"},
    {"append-node-identity", CLI_MANY, "one more node, as for -node-identity"},
    {"merge-policies", CLI_BOOL, "let -policy-name and -policy-id add, not replace"},
    {"merge-roles", CLI_BOOL, "let -role-name and -role-id add, not replace"},
    {"merge-service-identities", CLI_BOOL, "let -service-identity add, not replace"},
    {"merge-node-identities", CLI_BOOL, "let -node-identity add, not replace"},
    META_FLAG};
static const struct cli_flag clone_flags[] = {
    ACCESSOR_FLAGS,
    {"description", CLI_TEXT, "description of the new token; default: that of the old one"}};
static const struct cli_flag delete_flags[] = {ACCESSOR_FLAGS};
static const struct cli_flag list_flags[] = {META_FLAG};

static const struct cli_command acl_token_commands[] = {
    {.name = "acl bootstrap",
     ARGS("[SECRET | FILE | -]", 0, 1),
     .dialect = &cli_registry_dialect,
     .run = cmd_acl_bootstrap,
     .help = "Registry: create the first token, which may do everything. Works once."},
    {.name = "acl token create",
     ARGS("", 0, 0),
     FLAGS(create_flags),
     .dialect = &cli_registry_dialect,
     .run = cmd_acl_token_create,
     .help = "Registry: create a token."},
    {.name = "acl token read",
     ARGS("", 0, 0),
     FLAGS(read_flags),
     .dialect = &cli_registry_dialect,
     .run = cmd_acl_token_read,
     .help = "Registry: print a token."},
    {.name = "acl token update",
     ARGS("", 0, 0),
     FLAGS(update_flags),
     .dialect = &cli_registry_dialect,
     .run = cmd_acl_token_update,
     .help = "Registry: change a token. Fields without a flag stay."},
    {.name = "acl token clone",
     ARGS("", 0, 0),
     FLAGS(clone_flags),
     .dialect = &cli_registry_dialect,
     .run = cmd_acl_token_clone,
     .help = "Registry: create a token with the policies of another."},
    {.name = "acl token delete",
     ARGS("", 0, 0),
     FLAGS(delete_flags),
     .dialect = &cli_registry_dialect,
     .run = cmd_acl_token_delete,
     .help = "Registry: end a token."},
    {.name = "acl token list",
     ARGS("", 0, 0),
     FLAGS(list_flags),
     .dialect = &cli_registry_dialect,
     .run = cmd_acl_token_list,
     .help = "Registry: list the tokens."},
};

const struct cli_group cli_acl_token_commands = {acl_token_commands, ARRAY_LEN(acl_token_commands)};
