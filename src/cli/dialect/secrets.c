/* The dialect of the secrets service: JSON errors, the headers X-Secrets-…, the environment
 * HOLDFAST_… and VAULT_…. */
#include "cli/dialect/dialect.h"

static const struct cli_flag flags[] = {
    {"address", CLI_TEXT, "URL of a node (HOLDFAST_ADDR, https://127.0.0.1:8200)"},
    {"ca-cert", CLI_FILE, "PEM file of the authorities to trust (HOLDFAST_CACERT)"},
    {"tls-skip-verify", CLI_BOOL, "do not verify the server's certificate (HOLDFAST_SKIP_VERIFY)"},
    {"namespace", CLI_TEXT, "namespace of the request (HOLDFAST_NAMESPACE)"},
    {"header", CLI_PAIRS, "an additional header of the request"},
    {"format", CLI_TEXT, "form of the output: table or json (HOLDFAST_FORMAT)"},
};

static const struct cli_variable environment[] = {
    {"HOLDFAST_ADDR", "URL of a node, https://127.0.0.1:8200 by default."},
    {"HOLDFAST_NODES",
     "URLs of all nodes, with commas: the next is asked when one refuses connections."},
    {"HOLDFAST_TOKEN", "The token; by default the token that login kept."},
    {"HOLDFAST_CACERT", "PEM file of the authorities to trust."},
    {"HOLDFAST_NAMESPACE", "The namespace of a request."},
    {"HOLDFAST_SKIP_VERIFY", "true: do not verify the server's certificate."},
    {"HOLDFAST_CLIENT_TIMEOUT", "The longest wait for the server, 60s by default."},
    {"HOLDFAST_DR_NODES", "URLs of the other cluster's nodes, for \\fBoperator dr\\fR."},
    {"HOLDFAST_DR_TOKEN", "DR operation token, for \\fBoperator dr\\fR; else it is typed."},
    {"HOLDFAST_FORMAT", "The form of the output: table or json."},
};

static bool secrets_configure(struct cli *cli)
{
    const struct {
        const char *variable, *flag;
        const char **to;
    } texts[] = {{"ADDR", "address", &cli->address},
                 {"CACERT", "ca-cert", &cli->ca_file},
                 {"NAMESPACE", "namespace", &cli->name_space}};
    cli->token = cli_env(cli, "TOKEN");
    cli->token_from_env = cli->token != NULL;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        const char *flag = cli_text(cli, texts[i].flag);
        *texts[i].to = flag != NULL ? flag : cli_env(cli, texts[i].variable);
    }
    if (!cli_truth(cli_env(cli, "SKIP_VERIFY"), "HOLDFAST_SKIP_VERIFY", &cli->insecure))
        return false;
    cli->insecure = cli_bool(cli, "tls-skip-verify", cli->insecure);
    return true;
}

static enum status secrets_headers(struct cli *cli, const struct cli_request *request,
                                   struct buf *to, struct reason *reason)
{
    buf_add_str(to, "X-Secrets-Request: true\r\n");
    TRY(cli_add_header(to, "X-Secrets-Token", request->token != NULL ? request->token : cli->token,
                       reason));
    TRY(cli_add_header(to, "X-Secrets-Namespace", cli->name_space, reason));
    if (request->aside)
        return ST_OK;
    return cli_add_header(to, "X-Secrets-Wrap-TTL", cli_text(cli, "wrap-ttl"), reason);
}

static void print_error_list(const struct text_value *errors)
{
    if (errors == NULL || errors->kind != TEXT_LIST)
        return;
    TEXT_FOR (item, errors)
        if (item->kind == TEXT_STRING) {
            cli_say("* ");
            cli_put(stderr, item->text);
            cli_say("\n");
        }
}

static void secrets_refused(struct cli *cli, const struct cli_request *request,
                            const struct cli_reply *reply)
{
    const struct text_value *body = NULL;
    cli_say("Error making API request.\n\nURL: %s %s%.*s\nCode: %d. Errors:\n\n", request->method,
            cli->address, (int)strcspn(request->path, "?"), request->path, reply->status);
    if (text_json_parse(&cli->arena, reply->body, &body, NULL) == ST_OK) {
        print_error_list(text_get(body, "errors"));
        cli_print_warnings(body);
    }
    if (reply->request_id[0] != '\0') {
        cli_say("\nRequest ID: ");
        cli_put(stderr, bytes_str(reply->request_id));
        cli_say("\n");
    }
    if (reply->status == 403 && request->token == NULL && cli->token == NULL)
        cli_say("\nNo token was sent: log in with \"holdfast login\", or set HOLDFAST_TOKEN.\n");
}

const struct cli_dialect cli_secrets_dialect = {
    .commands = "command",
    .flags = flags,
    .n_flags = ARRAY_LEN(flags),
    .environment = environment,
    .n_environment = ARRAY_LEN(environment),
    .environment_note = "Each variable may also begin with VAULT_ in place of HOLDFAST_.",
    .nodes = "HOLDFAST_NODES",
    .table = "table",
    .kept_token = true,
    .configure = secrets_configure,
    .headers = secrets_headers,
    .refused = secrets_refused,
};
