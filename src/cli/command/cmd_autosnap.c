/* Commands about snapshots by a schedule. */
#include "cli/client.h"
#include "cli/command/command.h"

#define CONFIGS "sys/storage/raft/snapshot-auto/config"
#define STATUSES "sys/storage/raft/snapshot-auto/status"

/* The path of the configuration that args[0] names. NULL without memory. */
static const char *path_of(struct cli *cli, const char *folder)
{
    ASSERT(cli->n_args >= 1);
    return arena_format(&cli->arena, "%s/%s", folder, cli->args[0]);
}

static int show(struct cli *cli, const char *folder)
{
    struct cli_reply reply = {0};
    const char *path = path_of(cli, folder);
    if (path == NULL)
        return CLI_LOCAL_ERROR;
    int code = cli_request(cli, "GET", path, NULL, &reply);
    return code == CLI_OK ? cli_show(cli, &reply) : code;
}

static int cmd_autosnap_list(struct cli *cli)
{
    return cmd_show_keys(cli, CONFIGS, "?list=true");
}

static int cmd_autosnap_read(struct cli *cli)
{
    return show(cli, CONFIGS);
}

static int cmd_autosnap_status(struct cli *cli)
{
    return show(cli, STATUSES);
}

static int cmd_autosnap_write(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    struct cli_reply reply = {0};
    const char *path = path_of(cli, CONFIGS);
    const struct text_value *data = cli_data(cli, 1);
    if (path == NULL || data == NULL)
        return CLI_LOCAL_ERROR;
    text_put_value(&w, data);
    int code = cli_request(cli, "PUT", path, &body, &reply);
    if (code == CLI_OK && !cli->json)
        printf("Success! The schedule was written: %s\n", cli->args[0]);
    return code;
}

static int cmd_autosnap_delete(struct cli *cli)
{
    struct cli_reply reply = {0};
    const char *path = path_of(cli, CONFIGS);
    if (path == NULL)
        return CLI_LOCAL_ERROR;
    int code = cli_request(cli, "DELETE", path, NULL, &reply);
    if (code == CLI_OK && !cli->json)
        printf("Success! The schedule was deleted (if it existed): %s\n", cli->args[0]);
    return code;
}

static const struct cli_flag field_flags[] = {FIELD_FLAG};

static const struct cli_command autosnap_commands[] = {
    {.name = "operator raft snapshot auto list",
     ARGS("", 0, 0),
     .run = cmd_autosnap_list,
     .help = "List the schedules of snapshots."},
    {.name = "operator raft snapshot auto read",
     ARGS("NAME", 1, 1),
     FLAGS(field_flags),
     .run = cmd_autosnap_read,
     .help = "Show a schedule of snapshots."},
    {.name = "operator raft snapshot auto write",
     ARGS("NAME " CLI_DATA, 2, CLI_ANY),
     .run = cmd_autosnap_write,
     .help = "Save snapshots by a schedule: interval, path_prefix, local_max_space, …"},
    {.name = "operator raft snapshot auto delete",
     ARGS("NAME", 1, 1),
     .run = cmd_autosnap_delete,
     .help = "Delete a schedule; its files stay."},
    {.name = "operator raft snapshot auto status",
     ARGS("NAME", 1, 1),
     FLAGS(field_flags),
     .run = cmd_autosnap_status,
     .help = "Show the last snapshot of a schedule and when the next one is due."},
};

const struct cli_group cli_autosnap_commands = {autosnap_commands, ARRAY_LEN(autosnap_commands)};
