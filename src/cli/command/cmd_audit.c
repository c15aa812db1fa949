/* Commands about audit devices: list, enable, disable. */
#include "cli/client.h"
#include "cli/command/command.h"

static const struct text_value none = {.kind = TEXT_NULL};

static const struct text_value *or_none(const struct text_value *v)
{
    return v != NULL ? v : &none;
}

/* The options of a device as one text, "file_path=/a mode=0600". NULL when out of memory. */
static const struct text_value *options_text(struct cli *cli, const struct text_value *device)
{
    const struct text_value *options = text_get(device, "options");
    const char *text = "";
    if (options == NULL || options->kind != TEXT_OBJECT)
        return &none;
    TEXT_FOR (option, options) {
        if (option->kind != TEXT_STRING)
            continue;
        text = arena_format(&cli->arena, "%s%s%.*s=%.*s", text, text[0] != '\0' ? " " : "",
                            (int)option->name.len, (const char *)option->name.data,
                            (int)option->text.len, (const char *)option->text.data);
        if (text == NULL)
            return NULL;
    }
    struct text_value *v = text_value_new(&cli->arena, NULL, TEXT_STRING, (struct bytes){0});
    if (v != NULL)
        v->text = bytes_str(text);
    return v;
}

static bool add_details(struct cli *cli, struct text_value *line, const struct text_value *device)
{
    static const struct text_value replicated = {.kind = TEXT_STRING, .text = BYTES("replicated")};
    static const struct text_value local = {.kind = TEXT_STRING, .text = BYTES("local")};
    const struct text_value *here = text_get(device, "local");
    const struct text_value *options = options_text(cli, device);
    if (options == NULL)
        return false;
    bool is_local = here != NULL && here->kind == TEXT_BOOL && here->truth;
    cli_add(cli, line, "Replication", is_local ? &local : &replicated);
    cli_add(cli, line, "Options", options);
    cli_add(cli, line, "Status", or_none(text_get(device, "status")));
    cli_add(cli, line, "Error", or_none(text_get(device, "error")));
    return true;
}

static int cmd_audit_list(struct cli *cli)
{
    struct cli_reply reply = {0};
    int code = cli_request(cli, "GET", "sys/audit", NULL, &reply);
    bool detailed = cli_bool(cli, "detailed", false);
    if (code != CLI_OK)
        return code;
    const struct text_value *data = text_get(cli_parse_reply(cli, &reply), "data");
    struct text_value *grid = text_value_new(&cli->arena, NULL, TEXT_LIST, (struct bytes){0});
    if (data == NULL || data->kind != TEXT_OBJECT || grid == NULL)
        return cli_unexpected();
    if (cli->json) {
        cli_print_json(data);
        return CLI_OK;
    }
    if (data->n == 0) {
        cli_say("No audit devices are enabled.\n");
        return CLI_REMOTE_ERROR;
    }
    TEXT_FOR (device, data) {
        struct text_value *line = cli_object(cli, grid);
        const struct text_value path = {.kind = TEXT_STRING, .text = device->name};
        cli_add(cli, line, "Path", &path);
        cli_add(cli, line, "Type", or_none(text_get(device, "type")));
        cli_add(cli, line, "Description", or_none(text_get(device, "description")));
        if (detailed && !add_details(cli, line, device))
            return CLI_LOCAL_ERROR;
    }
    cli_print_grid(grid);
    return CLI_OK;
}

static int cmd_audit_enable(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    struct cli_reply reply = {0};
    ASSERT(cli->n_args >= 1);
    const char *type = cli->args[0], *where = cli_text(cli, "path");
    char *device = cli_trim_path(cli, where != NULL ? where : type);
    char *path = device != NULL ? arena_format(&cli->arena, "sys/audit/%s", device) : NULL;
    const struct text_value *options = cli_data(cli, 1);
    if (path == NULL || options == NULL)
        return CLI_LOCAL_ERROR;
    text_open_object(&w);
    text_member_str(&w, "type", type);
    cli_put_text(cli, &w, "description", "description");
    text_key(&w, "options");
    text_put_value(&w, options);
    if (cli_bool(cli, "local", false))
        text_member_bool(&w, "local", true);
    text_close(&w);
    int code = cli_request(cli, "PUT", path, &body, &reply);
    if (code == CLI_OK && !cli->json)
        printf("Success! Enabled the %s audit device at: %s/\n", type, device);
    return code;
}

static int cmd_audit_disable(struct cli *cli)
{
    struct cli_reply reply = {0};
    ASSERT(cli->n_args == 1);
    char *device = cli_trim_path(cli, cli->args[0]);
    char *path = device != NULL ? arena_format(&cli->arena, "sys/audit/%s", device) : NULL;
    if (path == NULL)
        return CLI_LOCAL_ERROR;
    int code = cli_request(cli, "DELETE", path, NULL, &reply);
    if (code == CLI_OK && !cli->json)
        printf("Success! Disabled audit device (if it was enabled) at: %s/\n", device);
    return code;
}

static const struct cli_flag audit_list_flags[] = {
    {"detailed", CLI_BOOL, "show options too, and the status on the node that is asked"}};
static const struct cli_flag audit_enable_flags[] = {
    {"path", CLI_TEXT, "path of the device; default: the name of the type"},
    {"description", CLI_TEXT, "text for people"},
    {"local", CLI_BOOL, "keep the device out of replication to other clusters"}};

static const struct cli_command audit_commands[] = {
    {.name = "audit list",
     ARGS("", 0, 0),
     FLAGS(audit_list_flags),
     .run = cmd_audit_list,
     .help = "List the audit devices."},
    {.name = "audit enable",
     ARGS("TYPE [OPTION=VALUE]…", 1, CLI_ANY),
     FLAGS(audit_enable_flags),
     .run = cmd_audit_enable,
     .help = "Enable an audit device: file, socket or syslog."},
    {.name = "audit disable",
     ARGS("PATH", 1, 1),
     .run = cmd_audit_disable,
     .help = "Disable an audit device."},
};

const struct cli_group cli_audit_commands = {audit_commands, ARRAY_LEN(audit_commands)};
