/* The command "lamp take". */
#include "cli/command/command.h"

static int cmd_lamp_take(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body};
    struct cli_reply reply = {0};
    const char *ttl = cli_text(cli, "ttl");
    const char *path = arena_format(&cli->arena, "lamp/take/%s", cli->args[0]);
    text_open_object(&w);
    if (ttl != NULL)
        text_member_str(&w, "ttl", ttl);
    text_close(&w);
    if (path == NULL || buf_status(&body) != ST_OK) {
        cli_complain("there is no memory left");
        return CLI_LOCAL_ERROR;
    }
    int code = cli_request(cli, "POST", path, &body, &reply);
    return code == CLI_OK ? cli_show(cli, &reply) : code;
}

static const struct cli_flag take_flags[] = {FIELD_FLAG,
                                             {"ttl", CLI_TEXT, "how long the lamp burns"}};

static const struct cli_command commands[] = {
    {.name = "lamp take",
     ARGS("NAME", 1, 1),
     FLAGS(take_flags),
     .run = cmd_lamp_take,
     .help = "Borrow a lamp of the engine at lamp/."},
};

const struct cli_group sample_commands = {commands, ARRAY_LEN(commands)};
