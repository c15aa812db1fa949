/* The dialect of the scheduler: plain-text errors, the header X-Scheduler-Token, the environment
 * NOMAD_… of upstream's tool with HOLDFAST_… behind it. The token that login kept is not sent: it
 * may belong to another server. */
#include "cli/dialect/dialect.h"

#include <stdlib.h>

enum { ERROR_BYTES_MAX = 64 * 1024 };

static const struct cli_flag flags[] = {
    {"address", CLI_TEXT, "URL of a node (NOMAD_ADDR, HOLDFAST_ADDR)"},
    {"token", CLI_TEXT, "the token (NOMAD_TOKEN, HOLDFAST_TOKEN)"},
    {"ca-cert", CLI_FILE, "PEM file of the authorities to trust (NOMAD_CACERT)"},
    {"format", CLI_TEXT, "form of the output: table or json"},
};

static const struct cli_variable environment[] = {
    {"NOMAD_ADDR", "URL of a node; else HOLDFAST_ADDR."},
    {"HOLDFAST_SCHEDULER_NODES",
     "URLs of all nodes, with commas: the next is asked when one refuses connections."},
    {"NOMAD_CACERT", "PEM file of the authorities to trust; else HOLDFAST_CACERT."},
    {"NOMAD_TOKEN", "The token; else HOLDFAST_TOKEN."},
};

/* The value of a flag, else of upstream's variable, else of ours; NULL: none is set. */
static const char *first_of(struct cli *cli, const char *flag, const char *upstream,
                            const char *ours)
{
    const char *const names[] = {upstream, ours};
    const char *value = cli_text(cli, flag);
    for (size_t i = 0; i < ARRAY_LEN(names) && (value == NULL || value[0] == '\0'); i++)
        value = getenv(names[i]);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static bool scheduler_configure(struct cli *cli)
{
    cli->address = first_of(cli, "address", "NOMAD_ADDR", "HOLDFAST_ADDR");
    cli->ca_file = first_of(cli, "ca-cert", "NOMAD_CACERT", "HOLDFAST_CACERT");
    cli->token = first_of(cli, "token", "NOMAD_TOKEN", "HOLDFAST_TOKEN");
    return cli_truth(getenv("HOLDFAST_SKIP_VERIFY"), "HOLDFAST_SKIP_VERIFY", &cli->insecure);
}

static enum status scheduler_headers(struct cli *cli, const struct cli_request *request,
                                     struct buf *to, struct reason *reason)
{
    return cli_add_header(to, "X-Scheduler-Token",
                          request->token != NULL ? request->token : cli->token, reason);
}

static void scheduler_refused(struct cli *cli, const struct cli_request *request,
                              const struct cli_reply *reply)
{
    struct bytes text = bytes_of(reply->body.data, MIN(reply->body.len, (size_t)ERROR_BYTES_MAX));
    while (text.len > 0 && text.data[text.len - 1] == '\n')
        text.len--;
    cli_say("%s: Unexpected response code: %d (", request->method, reply->status);
    cli_put(stderr, text);
    cli_say(")\n");
    if (reply->status == 403 && cli->token == NULL)
        cli_say("No token was sent: set NOMAD_TOKEN.\n");
}

const struct cli_dialect cli_scheduler_dialect = {
    .commands = "command of the scheduler",
    .flags = flags,
    .n_flags = ARRAY_LEN(flags),
    .environment = environment,
    .n_environment = ARRAY_LEN(environment),
    .environment_note = "Commands of the scheduler read these variables, and "
                        "HOLDFAST_CLIENT_TIMEOUT and HOLDFAST_FORMAT:",
    .nodes = "HOLDFAST_SCHEDULER_NODES",
    .table = "table",
    .configure = scheduler_configure,
    .headers = scheduler_headers,
    .refused = scheduler_refused,
};
