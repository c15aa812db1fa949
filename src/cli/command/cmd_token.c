/* Commands about tokens. A token argument of "-" is read from the terminal or standard input. */
#include "cli/client.h"
#include "cli/command/command.h"

static void put_token_options(struct cli *cli, struct text_writer *w)
{
    static const struct {
        const char *flag, *name;
    } texts[] = {{"id", "id"},
                 {"display-name", "display_name"},
                 {"ttl", "ttl"},
                 {"explicit-max-ttl", "explicit_max_ttl"},
                 {"period", "period"},
                 {"type", "type"},
                 {"entity-alias", "entity_alias"}};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        cli_put_text(cli, w, texts[i].flag, texts[i].name);
    if (cli_text(cli, "renewable") != NULL)
        text_member_bool(w, "renewable", cli_bool(cli, "renewable", true));
    if (cli_bool(cli, "orphan", false))
        text_member_bool(w, "no_parent", true);
    if (cli_bool(cli, "no-default-policy", false))
        text_member_bool(w, "no_default_policy", true);
    if (cli_text(cli, "use-limit") != NULL)
        text_member_int(w, "num_uses", cli_int(cli, "use-limit", 0));
    if (cli_text(cli, "policy") != NULL) {
        text_key(w, "policies");
        cli_put_list(cli, w, "policy");
    }
    if (cli_text(cli, "metadata") != NULL) {
        text_key(w, "meta");
        text_open_object(w);
        cli_put_pairs(cli, w, "metadata");
        text_close(w);
    }
}

static int cmd_token_create(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    struct cli_reply reply = {0};
    const char *role = cli_text(cli, "role");
    const char *path = role != NULL ? arena_format(&cli->arena, "auth/token/create/%s", role)
                                    : "auth/token/create";
    if (path == NULL)
        return CLI_LOCAL_ERROR;
    text_open_object(&w);
    put_token_options(cli, &w);
    text_close(&w);
    int code = cli_request(cli, "PUT", path, &body, &reply);
    return code == CLI_OK ? cli_show(cli, &reply) : code;
}

/* The token of args[0]; for "-" a typed one (cli_secret). NULL with a message. */
static const char *named_token(struct cli *cli)
{
    ASSERT(cli->n_args >= 1);
    if (strcmp(cli->args[0], "-") == 0)
        return cli_secret(cli, "Token (will be hidden): ");
    return cli->args[0];
}

/* Open the body and write the member token or accessor of args[0]; no argument: no member. Returns
 * an exit code. */
static int open_body(struct cli *cli, struct text_writer *w, bool accessor)
{
    text_open_object(w);
    if (cli->n_args == 0)
        return accessor ? cli_usage_error(cli, "-accessor needs an accessor as argument") : CLI_OK;
    const char *named = accessor ? cli->args[0] : named_token(cli);
    if (named == NULL)
        return CLI_LOCAL_ERROR;
    text_member_str(w, accessor ? "accessor" : "token", named);
    return CLI_OK;
}

static int cmd_token_lookup(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    struct cli_reply reply = {0};
    bool accessor = cli_bool(cli, "accessor", false);
    int code = open_body(cli, &w, accessor);
    text_close(&w);
    if (code != CLI_OK)
        return code;
    if (cli->n_args == 0)
        code = cli_request(cli, "GET", "auth/token/lookup-self", NULL, &reply);
    else
        code =
            cli_request(cli, "PUT", accessor ? "auth/token/lookup-accessor" : "auth/token/lookup",
                        &body, &reply);
    return code == CLI_OK ? cli_show(cli, &reply) : code;
}

static int cmd_token_renew(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    struct cli_reply reply = {0};
    bool accessor = cli_bool(cli, "accessor", false);
    int code = open_body(cli, &w, accessor);
    if (code != CLI_OK)
        return code;
    cli_put_text(cli, &w, "increment", "increment");
    text_close(&w);
    code = cli_request(cli, "PUT",
                       cli->n_args == 0 ? "auth/token/renew-self"
                       : accessor       ? "auth/token/renew-accessor"
                                        : "auth/token/renew",
                       &body, &reply);
    return code == CLI_OK ? cli_show(cli, &reply) : code;
}

static const char *revoke_path(struct cli *cli, bool accessor, const char *mode)
{
    if (cli_bool(cli, "self", false))
        return "auth/token/revoke-self";
    if (accessor)
        return "auth/token/revoke-accessor";
    ASSERT(cli->n_args == 1);
    if (mode != NULL && strcmp(mode, "path") == 0)
        return arena_format(&cli->arena, "sys/revoke-prefix/%s", cli->args[0]);
    return mode != NULL ? "auth/token/revoke-orphan" : "auth/token/revoke";
}

static int cmd_token_revoke(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    struct cli_reply reply = {0};
    bool self = cli_bool(cli, "self", false), accessor = cli_bool(cli, "accessor", false);
    const char *mode = cli_text(cli, "mode");
    bool by_path = mode != NULL && strcmp(mode, "path") == 0;
    if (self == (cli->n_args != 0))
        return cli_usage_error(cli, "give either a token or -self");
    if ((self && (accessor || mode != NULL)) || (accessor && mode != NULL))
        return cli_usage_error(cli, "-self, -accessor and -mode exclude each other");
    if (mode != NULL && !by_path && strcmp(mode, "orphan") != 0)
        return cli_usage_error(cli, "-mode must be orphan or path");
    int code = CLI_OK;
    if (by_path)
        text_open_object(&w);
    else
        code = open_body(cli, &w, accessor);
    text_close(&w);
    const char *path = revoke_path(cli, accessor, mode);
    if (code != CLI_OK || path == NULL)
        return CLI_LOCAL_ERROR;
    code = cli_request(cli, "PUT", path, &body, &reply);
    if (code == CLI_OK && !cli->json)
        printf("Success! Revoked token (if it existed)\n");
    return code;
}

static int cmd_token_capabilities(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    struct cli_reply reply = {0};
    bool named = cli->n_args == 2, accessor = cli_bool(cli, "accessor", false);
    ASSERT(cli->n_args >= 1);
    const char *path = cli->args[cli->n_args - 1], *token = NULL;
    if (accessor && !named)
        return cli_usage_error(cli, "-accessor needs an accessor and a path");
    if (named && (token = accessor ? cli->args[0] : named_token(cli)) == NULL)
        return CLI_LOCAL_ERROR;
    text_open_object(&w);
    if (named)
        text_member_str(&w, accessor ? "accessor" : "token", token);
    text_key(&w, "paths");
    text_open_list(&w);
    text_put_str(&w, path);
    text_close(&w);
    text_close(&w);
    int code = cli_request(cli, "PUT",
                           !named     ? "sys/capabilities-self"
                           : accessor ? "sys/capabilities-accessor"
                                      : "sys/capabilities",
                           &body, &reply);
    if (code != CLI_OK)
        return code;
    const struct text_value *answer = cli_parse_reply(cli, &reply);
    const struct text_value *list = text_get(text_get(answer, "data"), "capabilities");
    if (list == NULL)
        list = text_get(answer, "capabilities");
    if (list == NULL || list->kind != TEXT_LIST)
        return cli_unexpected();
    if (cli->json) {
        cli_print_json(list);
        return CLI_OK;
    }
    TEXT_FOR (item, list)
        printf("%.*s%s", (int)item->text.len, (const char *)item->text.data,
               item->next != NULL ? ", " : "\n");
    return CLI_OK;
}

/* Unwrap the wrapping token of the argument; without an argument the token in use. */
static int cmd_unwrap(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    struct cli_reply reply = {0};
    int code = open_body(cli, &w, false);
    text_close(&w);
    if (code == CLI_OK)
        code = cli_request(cli, "PUT", "sys/wrapping/unwrap", &body, &reply);
    if (code != CLI_OK)
        return code;
    if (reply.body.len != 0)
        return cli_show(cli, &reply);
    return CLI_OK;
}

static const struct cli_flag token_create_flags[] = {
    FIELD_FLAG,
    WRAP_FLAG,
    {"policy", CLI_MANY, "a policy of the token; default: the policies of the parent token"},
    {"ttl", CLI_DURATION, "time to live unless the token is renewed"},
    {"explicit-max-ttl", CLI_DURATION, "longest time to live, renewals included"},
    {"period", CLI_DURATION, "time to live after each renewal; the token has no longest time"},
    {"renewable", CLI_BOOL, "whether the token can be renewed"},
    {"use-limit", CLI_INT, "how many requests the token may make; 0: any number"},
    {"orphan", CLI_BOOL, "a token without a parent: it does not end with the parent"},
    {"no-default-policy", CLI_BOOL, "do not add the policy \"default\""},
    {"type", CLI_TEXT, "service or batch"},
    {"role", CLI_TEXT, "create the token with the settings of this role"},
    {"display-name", CLI_TEXT, "name shown in lookups and audit records"},
    {"metadata", CLI_PAIRS, "a name and value to store with the token"},
    {"id", CLI_TEXT, "text of the token; default: a random token"},
    {"entity-alias", CLI_TEXT, "with -role: alias of the token's entity"}};
static const struct cli_flag token_named_flags[] = {
    FIELD_FLAG, {"accessor", CLI_BOOL, "the argument is an accessor"}};
static const struct cli_flag token_renew_flags[] = {
    FIELD_FLAG,
    {"accessor", CLI_BOOL, "the argument is an accessor"},
    {"increment", CLI_DURATION, "time to live from now on"}};
static const struct cli_flag token_revoke_flags[] = {
    {"self", CLI_BOOL, "end the token of this request"},
    {"accessor", CLI_BOOL, "the argument is an accessor"},
    {"mode", CLI_TEXT, "orphan: the token's children stay; path: end all leases below the path"}};
static const struct cli_flag capabilities_flags[] = {
    {"accessor", CLI_BOOL, "the first argument is an accessor"}};
static const struct cli_flag field_flags[] = {FIELD_FLAG};

static const struct cli_command token_commands[] = {
    {.name = "token create",
     ARGS("", 0, 0),
     FLAGS(token_create_flags),
     .run = cmd_token_create,
     .help = "Create a token."},
    {.name = "token lookup",
     ARGS("[TOKEN | - | ACCESSOR]", 0, 1),
     FLAGS(token_named_flags),
     .run = cmd_token_lookup,
     .help = "Print the properties of a token."},
    {.name = "token renew",
     ARGS("[TOKEN | - | ACCESSOR]", 0, 1),
     FLAGS(token_renew_flags),
     .run = cmd_token_renew,
     .help = "Extend the life of a token."},
    {.name = "token revoke",
     ARGS("[TOKEN | - | ACCESSOR]", 0, 1),
     FLAGS(token_revoke_flags),
     .run = cmd_token_revoke,
     .help = "End a token and its children."},
    {.name = "token capabilities",
     ARGS("[TOKEN | - | ACCESSOR] PATH", 1, 2),
     FLAGS(capabilities_flags),
     .run = cmd_token_capabilities,
     .help = "Print the capabilities of a token at a path."},
    {.name = "unwrap",
     ARGS("[TOKEN | -]", 0, 1),
     FLAGS(field_flags),
     .run = cmd_unwrap,
     .help = "Print the reply behind a wrapping token. The token works once."},
};

const struct cli_group cli_token_commands = {token_commands, ARRAY_LEN(token_commands)};
