/* The dialect of the platform: errors of JSON:API, the header Authorization, the environment TFE_…
 * of upstream's clients with HOLDFAST_… behind it. */
#include "cli/dialect/dialect.h"

#include <stdlib.h>

static const struct cli_flag flags[] = {
    {"address", CLI_TEXT, "URL of a node (TFE_ADDRESS, HOLDFAST_ADDR)"},
    {"ca-cert", CLI_FILE, "PEM file of the authorities to trust (HOLDFAST_CACERT)"},
    {"tls-skip-verify", CLI_BOOL, "do not verify the server's certificate (HOLDFAST_SKIP_VERIFY)"},
    {"format", CLI_TEXT, "form of the output: table or json (HOLDFAST_FORMAT)"},
};

static const struct cli_variable environment[] = {
    {"TFE_ADDRESS", "URL of a node; else HOLDFAST_ADDR."},
    {"HOLDFAST_NODES",
     "URLs of all nodes, with commas: the next is asked when one refuses connections."},
    {"TFE_TOKEN", "The token; else HOLDFAST_TOKEN, else the token that login kept."},
    {"HOLDFAST_CACERT", "PEM file of the authorities to trust."},
    {"HOLDFAST_SKIP_VERIFY", "true: do not verify the server's certificate."},
};

static const char *variable_of(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static bool platform_configure(struct cli *cli)
{
    const char *address = cli_text(cli, "address"), *ca = cli_text(cli, "ca-cert");
    if (address == NULL)
        address = variable_of("TFE_ADDRESS");
    if (address == NULL)
        address = cli_env(cli, "ADDR");
    cli->address = address;
    cli->ca_file = ca != NULL ? ca : cli_env(cli, "CACERT");
    cli->token = variable_of("TFE_TOKEN");
    if (cli->token == NULL)
        cli->token = cli_env(cli, "TOKEN");
    cli->token_from_env = cli->token != NULL;
    if (!cli_truth(cli_env(cli, "SKIP_VERIFY"), "HOLDFAST_SKIP_VERIFY", &cli->insecure))
        return false;
    cli->insecure = cli_bool(cli, "tls-skip-verify", cli->insecure);
    return true;
}

static enum status platform_headers(struct cli *cli, const struct cli_request *request,
                                    struct buf *to, struct reason *reason)
{
    const char *token = request->token != NULL ? request->token : cli->token;
    if (token == NULL || token[0] == '\0')
        return ST_OK;
    const char *value = arena_concat(&cli->arena, "Bearer ", token);
    return value != NULL ? cli_add_header(to, "Authorization", value, reason) : ST_NOMEM;
}

static void print_error(const struct text_value *error)
{
    static const char *const names[] = {"title", "detail"};
    const struct text_value *pointer = text_get(text_get(error, "source"), "pointer");
    cli_say("*");
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        const struct text_value *v = text_get(error, names[i]);
        if (v == NULL || v->kind != TEXT_STRING)
            continue;
        cli_say(" ");
        cli_put(stderr, v->text);
        if (i == 0 && text_get(error, "detail") != NULL)
            cli_say(":");
    }
    if (pointer != NULL && pointer->kind == TEXT_STRING) {
        cli_say(" (");
        cli_put(stderr, pointer->text);
        cli_say(")");
    }
    cli_say("\n");
}

static void platform_refused(struct cli *cli, const struct cli_request *request,
                             const struct cli_reply *reply)
{
    const struct text_value *body = NULL, *errors = NULL;
    cli_say("Error making API request.\n\nURL: %s %s%.*s\nCode: %d. Errors:\n\n", request->method,
            cli->address, (int)strcspn(request->path, "?"), request->path, reply->status);
    if (text_json_parse(&cli->arena, reply->body, &body, NULL) == ST_OK)
        errors = text_get(body, "errors");
    if (errors != NULL && errors->kind == TEXT_LIST)
        TEXT_FOR (error, errors)
            print_error(error);
}

const struct cli_dialect cli_platform_dialect = {
    .commands = "platform command",
    .flags = flags,
    .n_flags = ARRAY_LEN(flags),
    .environment = environment,
    .n_environment = ARRAY_LEN(environment),
    .environment_note = "Commands of the platform read these variables, and "
                        "HOLDFAST_CLIENT_TIMEOUT and HOLDFAST_FORMAT:",
    .nodes = "HOLDFAST_NODES",
    .table = "table",
    .kept_token = true,
    .configure = platform_configure,
    .headers = platform_headers,
    .refused = platform_refused,
};
