/* Requests to any path: read, write, patch, list, scan, delete. */
#include "cli/client.h"
#include "cli/commands.h"

/* "/v1/" PATH with the arguments behind it as a query. */
static const char *path_with_query(struct cli *cli)
{
    const char *query = cli_query(cli, 1), *path = cli_path(cli, cli->args[0]);
    return query != NULL && path != NULL ? arena_format(&cli->arena, "%s%s", path, query) : NULL;
}

int cmd_read(struct cli *cli)
{
    struct cli_reply reply = {0};
    const char *query = cli_query(cli, 1);
    if (query == NULL)
        return CLI_LOCAL_ERROR;
    int code = cli_fetch(cli, cli->args[0], query, &reply);
    return code == CLI_OK ? cli_show(cli, &reply) : code;
}

static int show_keys(struct cli *cli, const char *query)
{
    struct cli_reply reply = {0};
    int code = cli_fetch(cli, cli->args[0], query, &reply);
    if (code != CLI_OK)
        return code;
    const struct text_value *body = cli_parse_reply(cli, &reply);
    const struct text_value *keys = text_get(text_get(body, "data"), "keys");
    if (keys == NULL || keys->kind != TEXT_LIST) {
        cli_complain("the answer holds no list");
        return CLI_REMOTE_ERROR;
    }
    cli_print_keys(cli, keys);
    return CLI_OK;
}

int cmd_list(struct cli *cli)
{
    return show_keys(cli, "?list=true");
}

int cmd_scan(struct cli *cli)
{
    return show_keys(cli, "?scan=true");
}

static int send_data(struct cli *cli, const char *method, const char *type)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    struct cli_reply reply = {0};
    bool force = cli_bool(cli, "force", false);
    if (cli->n_args == 1 && !force)
        return cli_usage_error(cli, "there is no data; -force sends none");
    const struct text_value *data = cli_data(cli, 1);
    if (data == NULL)
        return CLI_LOCAL_ERROR;
    text_put_value(&w, data);
    struct cli_call call = {.method = method,
                            .path = cli_path(cli, cli->args[0]),
                            .body = buf_bytes(&body),
                            .content_type = type};
    if (buf_status(&body) != ST_OK)
        call.path = NULL;
    int code = cli_do(cli, &call, &reply);
    if (code != CLI_OK)
        return code;
    if (reply.body.len != 0)
        return cli_show(cli, &reply);
    if (!cli->json && cli->field == NULL)
        printf("Success! Data written to: %s\n", cli->args[0]);
    return CLI_OK;
}

int cmd_write(struct cli *cli)
{
    return send_data(cli, "PUT", NULL);
}

int cmd_patch(struct cli *cli)
{
    return send_data(cli, "PATCH", "application/merge-patch+json");
}

int cmd_delete(struct cli *cli)
{
    struct cli_reply reply = {0};
    struct cli_call call = {.method = "DELETE", .path = path_with_query(cli)};
    if (call.path == NULL)
        return CLI_LOCAL_ERROR;
    int code = cli_do(cli, &call, &reply);
    if (code != CLI_OK)
        return code;
    if (reply.body.len != 0)
        return cli_show(cli, &reply);
    if (!cli->json)
        printf("Success! Data deleted (if it existed) at: %s\n", cli->args[0]);
    return CLI_OK;
}
