/* The dialect of the registry: plain-text errors, the headers X-Registry-…, the environment
 * CONSUL_… of upstream's tool with HOLDFAST_… behind it.
 *
 * VAULT_TOKEN and the token that login kept are not sent: they may belong to another server, and
 * the registry refuses a token that it does not know. */
#include "cli/dialect/dialect.h"

#include <stdlib.h>

enum { ERROR_BYTES_MAX = 64 * 1024 };

static const struct cli_flag flags[] = {
    {"http-addr", CLI_TEXT, "host:port or URL of a node (CONSUL_HTTP_ADDR, HOLDFAST_ADDR)"},
    {"token", CLI_TEXT, "the token; -token-file keeps it off the list of processes"},
    {"token-file", CLI_FILE, "file with the token (CONSUL_HTTP_TOKEN_FILE)"},
    {"ca-file", CLI_FILE, "PEM file of the authorities to trust (CONSUL_CACERT)"},
    {"datacenter", CLI_TEXT, "datacenter that is asked; default: that of the node"},
    {"namespace", CLI_TEXT, "namespace of the request (CONSUL_NAMESPACE)"},
    {"stale", CLI_BOOL, "let any node reply to a read, perhaps with old data"},
    {"format", CLI_TEXT, "form of the output: pretty or json"},
};

static const struct cli_variable environment[] = {
    {"CONSUL_HTTP_ADDR", "host:port or URL of a node; else HOLDFAST_ADDR."},
    {"HOLDFAST_REGISTRY_NODES",
     "URLs of all nodes, with commas: the next is asked when one refuses connections."},
    {"CONSUL_HTTP_SSL", "true: an address without https:// is one of TLS."},
    {"CONSUL_HTTP_SSL_VERIFY", "false: do not verify the server's certificate."},
    {"CONSUL_CACERT", "PEM file of the authorities to trust; else HOLDFAST_CACERT."},
    {"CONSUL_HTTP_TOKEN_FILE", "File with the token."},
    {"CONSUL_HTTP_TOKEN", "The token, without CONSUL_HTTP_TOKEN_FILE; else HOLDFAST_TOKEN."},
    {"CONSUL_NAMESPACE", "The namespace of a request; else HOLDFAST_NAMESPACE."},
};

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

/* The value of a flag, else of upstream's variable, else of ours; NULL: none is set. */
static const char *setting(struct cli *cli, const char *flag, const char *upstream,
                           const char *ours)
{
    const char *value = cli_text(cli, flag);
    if (value == NULL)
        value = variable(upstream);
    return value != NULL ? value : variable(ours);
}

/* The address as a URL. An address without a scheme is one of plain HTTP, as upstream has it. A
 * wish for TLS is never weakened. NULL when out of memory. */
static const char *whole_address(struct cli *cli, const char *address, bool tls)
{
    if (strstr(address, "://") == NULL)
        return arena_concat(&cli->arena, tls ? "https://" : "http://", address);
    if (tls && strncmp(address, "http://", 7) == 0)
        return arena_concat(&cli->arena, "https://", address + 7);
    return address;
}

/* Of flags and of the environment, a file wins over a value. False with a message. */
static bool choose_token(struct cli *cli)
{
    const char *file = cli_text(cli, "token-file"), *token = cli_text(cli, "token");
    if (file != NULL)
        return cli_token_read(cli, file, "flag -token-file", &cli->token);
    if (token == NULL && variable("CONSUL_HTTP_TOKEN_FILE") != NULL)
        return cli_token_read(cli, variable("CONSUL_HTTP_TOKEN_FILE"), "CONSUL_HTTP_TOKEN_FILE",
                              &cli->token);
    if (token == NULL)
        token = variable("CONSUL_HTTP_TOKEN");
    cli->token = token != NULL ? token : variable("HOLDFAST_TOKEN");
    return true;
}

static bool registry_configure(struct cli *cli)
{
    bool tls = false, verify = true;
    const char *address = setting(cli, "http-addr", "CONSUL_HTTP_ADDR", "HOLDFAST_ADDR");
    if (!cli_truth(variable("HOLDFAST_SKIP_VERIFY"), "HOLDFAST_SKIP_VERIFY", &cli->insecure) ||
        !cli_truth(variable("CONSUL_HTTP_SSL"), "CONSUL_HTTP_SSL", &tls) ||
        !cli_truth(variable("CONSUL_HTTP_SSL_VERIFY"), "CONSUL_HTTP_SSL_VERIFY", &verify))
        return false;
    if (variable("CONSUL_HTTP_SSL_VERIFY") != NULL)
        cli->insecure = !verify;
    cli->address = address != NULL ? whole_address(cli, address, tls) : NULL;
    cli->ca_file = setting(cli, "ca-file", "CONSUL_CACERT", "HOLDFAST_CACERT");
    cli->name_space = setting(cli, "namespace", "CONSUL_NAMESPACE", "HOLDFAST_NAMESPACE");
    if (address != NULL && cli->address == NULL) {
        cli_complain("%s", status_text(ST_NOMEM));
        return false;
    }
    return choose_token(cli);
}

static enum status registry_headers(struct cli *cli, const struct cli_request *request,
                                    struct buf *to, struct reason *reason)
{
    TRY(cli_add_header(to, "X-Registry-Token", request->token != NULL ? request->token : cli->token,
                       reason));
    return cli_add_header(to, "X-Registry-Namespace", cli->name_space, reason);
}

/* Print the error as upstream's client does: what failed, the status, the text. */
static void registry_refused(struct cli *cli, const struct cli_request *request,
                             const struct cli_reply *reply)
{
    struct bytes text = bytes_of(reply->body.data, MIN(reply->body.len, (size_t)ERROR_BYTES_MAX));
    while (text.len > 0 && text.data[text.len - 1] == '\n')
        text.len--;
    cli_say("%s: Unexpected response code: %d (",
            request->purpose != NULL ? request->purpose : request->method, reply->status);
    cli_put(stderr, text);
    cli_say(")\n");
    if (reply->status == 403 && request->token == NULL && cli->token == NULL)
        cli_say("No token was sent: set CONSUL_HTTP_TOKEN, or give -token-file.\n");
}

const struct cli_dialect cli_registry_dialect = {
    .commands = "acl command",
    .flags = flags,
    .n_flags = ARRAY_LEN(flags),
    .environment = environment,
    .n_environment = ARRAY_LEN(environment),
    .environment_note =
        "Commands of the registry read these variables, and HOLDFAST_CLIENT_TIMEOUT "
        "and HOLDFAST_FORMAT:",
    .nodes = "HOLDFAST_REGISTRY_NODES",
    .table = "pretty",
    .configure = registry_configure,
    .headers = registry_headers,
    .refused = registry_refused,
};
