/* monitor: print the log of a node as it is written. */
#include "cli/client.h"
#include "cli/command/command.h"

enum { DAY_MS = 24 * 60 * 60 * 1000 };

static int cmd_monitor(struct cli *cli)
{
    struct cli_reply reply = {0};
    const char *level = cli_text(cli, "log-level"), *format = cli_text(cli, "log-format");
    ASSERT(cli->n_args == 0);
    if (level == NULL)
        level = "info";
    if (format == NULL)
        format = "standard";
    size_t letters = strspn(level, "abcdefghijklmnopqrstuvwxyz");
    if (level[letters] != '\0' || format[strspn(format, "abcdefghijklmnopqrstuvwxyz")] != '\0')
        return cli_usage_error(cli, "-log-level and -log-format are words");
    cli->timeout_ms = DAY_MS; /* a quiet node writes nothing for long */
    if (setvbuf(stdout, NULL, _IONBF, 0) != 0) {
        cli_complain("standard output cannot be used");
        return CLI_LOCAL_ERROR;
    }
    const char *path =
        arena_format(&cli->arena, "/v1/sys/monitor?log_level=%s&log_format=%s", level, format);
    const struct cli_request request = {.method = "GET", .path = path, .download = stdout};
    return cli_do(cli, &request, &reply);
}

static const struct cli_flag monitor_flags[] = {
    {"log-level", CLI_TEXT, "lowest level: trace, debug, info (default), warn or error"},
    {"log-format", CLI_TEXT, "standard (default) or json"},
};

static const struct cli_command monitor_commands[] = {
    {.name = "monitor",
     ARGS("", 0, 0),
     FLAGS(monitor_flags),
     .run = cmd_monitor,
     .help = "Print the log of a node as it is written, until interrupted."},
};

const struct cli_group cli_monitor_commands = {monitor_commands, ARRAY_LEN(monitor_commands)};
