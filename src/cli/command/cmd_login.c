/* login: get a token and keep it for later commands. */
#include "cli/client.h"
#include "cli/command/command.h"

static bool is_method(const char *method, const char *name)
{
    return strcmp(method, name) == 0;
}

/* Print the properties of the new token, without the token itself. */
static int show_login(struct cli *cli, const struct text_value *of, bool looked_up, bool stored)
{
    struct text_value *table = cli_object(cli, NULL);
    if (table == NULL)
        return CLI_LOCAL_ERROR;
    cli_add(cli, table, "token_accessor", text_get(of, "accessor"));
    cli_add(cli, table, "token_duration", text_get(of, looked_up ? "ttl" : "lease_duration"));
    cli_add(cli, table, "token_renewable", text_get(of, "renewable"));
    cli_add(cli, table, "policies", text_get(of, "policies"));
    if (cli->json) {
        cli_print_json(table);
        return CLI_OK;
    }
    printf("Success! You are now authenticated.%s\n\n",
           stored ? " Later commands use this token." : "");
    cli_print_table(table);
    return CLI_OK;
}

static int login_finish(struct cli *cli, const char *token, const struct text_value *of,
                        bool looked_up)
{
    bool only = cli_bool(cli, "token-only", false),
         store = !only && !cli_bool(cli, "no-store", false);
    if (store && !cli_token_store(cli, token))
        return CLI_LOCAL_ERROR;
    if (store && cli->token_from_env)
        (void)fprintf(stderr,
                      "WARNING! Later commands use the token of the environment (HOLDFAST_TOKEN or "
                      "VAULT_TOKEN),\nnot this one.\n"); /* standard error is all there is */
    if (only || cli->field != NULL) {
        const struct text_value v = {.kind = TEXT_STRING, .text = bytes_str(token)};
        if (only || strcmp(cli->field, "token") == 0) {
            cli_print_raw(cli, &v);
            return CLI_OK;
        }
        return cli_show_value(cli, of);
    }
    return cli_bool(cli, "no-print", false) ? CLI_OK : show_login(cli, of, looked_up, store);
}

/* Log in with an existing token. The token is valid if it may look itself up. */
static int login_with_token(struct cli *cli)
{
    struct cli_reply reply = {0};
    const char *token = cli->n_args != 0 ? cli->args[0] : "-";
    if (cli->n_args > 1)
        return cli_usage_error(cli, "too many arguments");
    if (strncmp(token, "token=", 6) == 0)
        token += 6;
    if (strcmp(token, "-") == 0)
        token = cli_secret(cli, "Token (will be hidden): ");
    if (token == NULL)
        return CLI_LOCAL_ERROR;
    struct cli_request request = {
        .method = "GET", .path = "/v1/auth/token/lookup-self", .token = token};
    int code = cli_do(cli, &request, &reply);
    if (code != CLI_OK)
        return code;
    const struct text_value *data = text_get(cli_parse_reply(cli, &reply), "data");
    return data != NULL ? login_finish(cli, token, data, true) : cli_unexpected();
}

/* The credentials given as arguments; a user's password is read from the terminal. */
static const struct text_value *credentials(struct cli *cli, const char *method)
{
    const struct text_value *given = cli_data(cli, 0);
    if (given == NULL || !is_method(method, "userpass") || text_get(given, "password") != NULL)
        return given;
    struct text_value *all = cli_object(cli, NULL);
    char *password = all != NULL ? cli_secret(cli, "Password (will be hidden): ") : NULL;
    if (password == NULL)
        return NULL;
    *all = *given;
    cli_add_text(cli, all, "password", password);
    return all;
}

static const char *login_path(struct cli *cli, const char *method, const struct text_value *given)
{
    const char *mount = cli_text(cli, "path");
    char *at = cli_trim_path(cli, mount != NULL ? mount : method);
    const struct text_value *user = text_get(given, "username");
    if (at == NULL)
        return NULL;
    if (!is_method(method, "userpass"))
        return arena_format(&cli->arena, "auth/%s/login", at);
    if (user == NULL || user->kind != TEXT_STRING || user->text.len == 0) {
        (void)cli_usage_error(cli, "userpass needs username=NAME"); /* returns NULL */
        return NULL;
    }
    return arena_format(&cli->arena, "auth/%s/login/%.*s", at, (int)user->text.len,
                        (const char *)user->text.data);
}

static int login_with_method(struct cli *cli, const char *method)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    struct cli_reply reply = {0};
    const struct text_value *given = credentials(cli, method);
    const char *path = given != NULL ? login_path(cli, method, given) : NULL;
    if (path == NULL)
        return CLI_LOCAL_ERROR;
    text_put_value(&w, given);
    struct cli_request request = cli_request_of(cli, "PUT", path, &body, NULL);
    request.token = "";
    int code = cli_do(cli, &request, &reply);
    if (code != CLI_OK)
        return code;
    const struct text_value *auth = text_get(cli_parse_reply(cli, &reply), "auth");
    const struct text_value *token = text_get(auth, "client_token");
    if (token == NULL || token->kind != TEXT_STRING) {
        cli_complain("the server's reply contains no token");
        return CLI_REMOTE_ERROR;
    }
    return login_finish(cli, (const char *)token->text.data, auth, false);
}

static int cmd_login(struct cli *cli)
{
    const char *method = cli_text(cli, "method");
    if (method == NULL || is_method(method, "token"))
        return login_with_token(cli);
    return login_with_method(cli, method);
}

static const struct cli_flag login_flags[] = {
    FIELD_FLAG,
    {"method", CLI_TEXT, "token (default), userpass, approle, cert, …"},
    {"path", CLI_TEXT, "path of the method's mount; default: the method's name"},
    {"no-store", CLI_BOOL, "do not keep the token"},
    {"no-print", CLI_BOOL, "print nothing"},
    {"token-only", CLI_BOOL, "print the token and do not keep it"}};

static const struct cli_command login_commands[] = {
    {.name = "login",
     ARGS("[TOKEN | - | KEY=VALUE…]", 0, CLI_ANY),
     FLAGS(login_flags),
     .run = cmd_login,
     .help = "Get a token and keep it in ~/.holdfast-token."},
};

const struct cli_group cli_login_commands = {login_commands, ARRAY_LEN(login_commands)};
