/* operator dr disable, revoke-secondary: what ends a part of a replication set. */
#include "cli/command/cmd_dr.h"

int cmd_dr_disable(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body};
    struct dr_view view;
    if (!dr_view_load(cli, cli->address, &view))
        return CLI_REMOTE_ERROR;
    bool secondary = dr_view_is(&view, "secondary", NULL);
    if (!secondary && !dr_view_is(&view, "primary", NULL)) {
        cli_complain("this cluster takes no part in disaster recovery");
        return CLI_REMOTE_ERROR;
    }
    const char *authority = secondary ? dr_token(cli) : NULL;
    if (secondary && authority == NULL)
        return CLI_LOCAL_ERROR;
    text_open_object(&w);
    if (authority != NULL)
        text_member_str(&w, "dr_operation_token", authority);
    text_close(&w);
    int code = dr_post(cli, view.address,
                       secondary ? DR_PATH "secondary/disable" : DR_PATH "primary/disable", &body);
    if (code == CLI_OK)
        dr_say(cli, secondary ? "Success! This cluster follows no primary any more. It keeps the "
                                "data that it had, and takes writes."
                              : "Success! This cluster is no DR primary any more. It keeps its "
                                "data; its secondaries follow it no more.");
    return code;
}

int cmd_dr_revoke(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body};
    ASSERT(cli->n_args == 1);
    text_open_object(&w);
    text_member_str(&w, "id", cli->args[0]);
    text_close(&w);
    int code = dr_post(cli, cli->address, DR_PATH "primary/revoke-secondary", &body);
    if (code == CLI_OK)
        dr_say(cli, "Success! The secondary gets nothing any more: its token and its certificate "
                    "do not count.");
    return code;
}
