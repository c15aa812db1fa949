/* Requests to any path: read, write, patch, list, scan, delete. */
#include "cli/client.h"
#include "cli/command/command.h"

/* "/v1/" and the path args[0], with the other arguments as a query. NULL: no memory, or wrong
 * arguments with a message. */
static const char *path_with_query(struct cli *cli)
{
    ASSERT(cli->n_args >= 1);
    const char *query = cli_query(cli, 1), *path = cli_path(cli, cli->args[0]);
    return query != NULL && path != NULL ? arena_format(&cli->arena, "%s%s", path, query) : NULL;
}

static int cmd_read(struct cli *cli)
{
    struct cli_reply reply = {0};
    const char *query = cli_query(cli, 1);
    if (query == NULL)
        return CLI_LOCAL_ERROR;
    int code = cli_fetch(cli, cli->args[0], query, &reply);
    return code == CLI_OK ? cli_show(cli, &reply) : code;
}

int cmd_show_keys(struct cli *cli, const char *path, const char *query)
{
    struct cli_reply reply = {0};
    ASSERT(query[0] == '?');
    int code = cli_fetch(cli, path, query, &reply);
    if (code != CLI_OK)
        return code;
    const struct text_value *body = cli_parse_reply(cli, &reply);
    const struct text_value *keys = text_get(text_get(body, "data"), "keys");
    if (keys == NULL || keys->kind != TEXT_LIST) {
        cli_complain("the server's reply contains no list of keys");
        return CLI_REMOTE_ERROR;
    }
    cli_print_keys(cli, keys);
    return CLI_OK;
}

static int cmd_list(struct cli *cli)
{
    ASSERT(cli->n_args == 1);
    return cmd_show_keys(cli, cli->args[0], "?list=true");
}

static int cmd_scan(struct cli *cli)
{
    ASSERT(cli->n_args == 1);
    return cmd_show_keys(cli, cli->args[0], "?scan=true");
}

static int send_data(struct cli *cli, const char *method, const char *type)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    struct cli_reply reply = {0};
    bool force = cli_bool(cli, "force", false);
    ASSERT(cli->n_args >= 1);
    if (cli->n_args == 1 && !force)
        return cli_usage_error(cli, "data is missing: KEY=VALUE, or -force for none");
    const struct text_value *data = cli_data(cli, 1);
    if (data == NULL)
        return CLI_LOCAL_ERROR;
    text_put_value(&w, data);
    struct cli_request request = cli_request_of(cli, method, cli->args[0], &body, type);
    int code = cli_do(cli, &request, &reply);
    if (code != CLI_OK)
        return code;
    if (reply.body.len != 0)
        return cli_show(cli, &reply);
    if (!cli->json && cli->field == NULL)
        printf("Success! Data written to: %s\n", cli->args[0]);
    return CLI_OK;
}

static int cmd_write(struct cli *cli)
{
    return send_data(cli, "PUT", NULL);
}

static int cmd_patch(struct cli *cli)
{
    return send_data(cli, "PATCH", CLI_MERGE_PATCH);
}

static int cmd_delete(struct cli *cli)
{
    struct cli_reply reply = {0};
    struct cli_request request = {.method = "DELETE", .path = path_with_query(cli)};
    if (request.path == NULL)
        return CLI_LOCAL_ERROR;
    int code = cli_do(cli, &request, &reply);
    if (code != CLI_OK)
        return code;
    if (reply.body.len != 0)
        return cli_show(cli, &reply);
    if (!cli->json)
        printf("Success! Data deleted (if it existed) at: %s\n", cli->args[0]);
    return CLI_OK;
}

static const struct cli_flag read_flags[] = {FIELD_FLAG, WRAP_FLAG};
static const struct cli_flag write_flags[] = {
    FIELD_FLAG, WRAP_FLAG, {"force", CLI_BOOL, "send a request without data"}};

static const struct cli_command path_commands[] = {
    {.name = "read",
     ARGS("PATH [KEY=VALUE]…", 1, CLI_ANY),
     FLAGS(read_flags),
     .run = cmd_read,
     .help = "Print the data at a path."},
    {.name = "write",
     ARGS("PATH " CLI_DATA, 1, CLI_ANY),
     FLAGS(write_flags),
     .run = cmd_write,
     .help = "Write data to a path."},
    {.name = "patch",
     ARGS("PATH " CLI_DATA, 1, CLI_ANY),
     FLAGS(write_flags),
     .run = cmd_patch,
     .help = "Change some of the data at a path."},
    {.name = "list", ARGS("PATH", 1, 1), .run = cmd_list, .help = "List the keys below a path."},
    {.name = "scan",
     ARGS("PATH", 1, 1),
     .run = cmd_scan,
     .help = "List the keys below a path and in all folders below the path."},
    {.name = "delete",
     ARGS("PATH [KEY=VALUE]…", 1, CLI_ANY),
     .run = cmd_delete,
     .help = "Delete the data at a path."},
};

const struct cli_group cli_path_commands = {path_commands, ARRAY_LEN(path_commands)};
