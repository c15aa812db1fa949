/* operator dr settings: sync mode and bandwidth of a primary. */
#include "cli/command/cmd_dr.h"

#include <inttypes.h>

#define SETTINGS_PATH DR_PATH "primary/settings"

/* Write the settings that were given. False: none was. */
static bool put_settings(struct cli *cli, struct buf *body)
{
    struct text_writer w = {.out = body};
    bool sync = cli_text(cli, "sync") != NULL, timeout = cli_text(cli, "sync-timeout-ms") != NULL;
    bool bandwidth = cli_text(cli, "bandwidth") != NULL;
    text_open_object(&w);
    if (sync)
        text_member_bool(&w, "sync", cli_bool(cli, "sync", false));
    if (timeout)
        text_member_int(&w, "sync_timeout_ms", cli_int(cli, "sync-timeout-ms", 0));
    if (bandwidth)
        text_member_int(&w, "bandwidth_bytes_per_second", cli_int(cli, "bandwidth", 0));
    text_close(&w);
    return sync || timeout || bandwidth;
}

static int show_settings(struct cli *cli, const struct text_value *data)
{
    const struct text_value *sync = text_get(data, "sync");
    const struct dr_view view = {.data = data};
    if (sync == NULL || text_get(data, "sync_timeout_ms") == NULL ||
        text_get(data, "bandwidth_bytes_per_second") == NULL)
        return cli_unexpected();
    if (cli->json) {
        cli_print_json(data);
        return CLI_OK;
    }
    int64_t bandwidth = dr_view_number(&view, "bandwidth_bytes_per_second");
    struct text_value *table = cli_object(cli, NULL);
    if (table == NULL)
        return CLI_LOCAL_ERROR;
    cli_add_text(cli, table, "Sync mode",
                 sync->truth ? "on: the reply to a write waits for a secondary" : "off");
    cli_add_text(
        cli, table, "Sync timeout",
        arena_format(&cli->arena, "%" PRId64 " ms", dr_view_number(&view, "sync_timeout_ms")));
    cli_add_text(
        cli, table, "Bandwidth",
        bandwidth == 0
            ? "no bound"
            : arena_format(&cli->arena, "%" PRId64 " bytes a second to one secondary", bandwidth));
    cli_print_table(table);
    return CLI_OK;
}

int cmd_dr_settings(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct cli_reply reply = {0};
    int code = put_settings(cli, &body) ? dr_post(cli, cli->address, SETTINGS_PATH, &body) : CLI_OK;
    if (code == CLI_OK)
        code = dr_send(cli, cli->address, cli_request_of(cli, "GET", SETTINGS_PATH, NULL, NULL), 0,
                       &reply);
    return code == CLI_OK ? show_settings(cli, text_get(cli_parse_reply(cli, &reply), "data"))
                          : code;
}
