/* Commands about the mounts of secrets engines. */
#include "cli/client.h"
#include "cli/command/command.h"

#include <time.h>

enum { MOVE_POLL_MS = 100, MOVE_WAIT_MS = 10 * 60 * 1000 };

static void add_config(struct cli *cli, struct text_value *line, const struct text_value *mount)
{
    const struct text_value *config = text_get(mount, "config");
    static const struct text_value none = {.kind = TEXT_NULL};
    const struct {
        const char *title;
        const struct text_value *value;
    } more[] = {{"UUID", text_get(mount, "uuid")},
                {"Default TTL", text_get(config, "default_lease_ttl")},
                {"Max TTL", text_get(config, "max_lease_ttl")},
                {"Options", text_get(mount, "options")},
                {"Local", text_get(mount, "local")},
                {"Version", text_get(mount, "running_plugin_version")}};
    for (size_t i = 0; i < ARRAY_LEN(more); i++)
        cli_add(cli, line, more[i].title, more[i].value != NULL ? more[i].value : &none);
}

static int cmd_secrets_list(struct cli *cli)
{
    struct cli_reply reply = {0};
    int code = cli_request(cli, "GET", "sys/mounts", NULL, &reply);
    if (code != CLI_OK)
        return code;
    const struct text_value *data = text_get(cli_parse_reply(cli, &reply), "data");
    struct text_value *grid = text_value_new(&cli->arena, NULL, TEXT_LIST, (struct bytes){0});
    static const struct text_value none = {.kind = TEXT_NULL};
    if (data == NULL || data->kind != TEXT_OBJECT || grid == NULL)
        return cli_unexpected();
    if (cli->json) {
        cli_print_json(data);
        return CLI_OK;
    }
    TEXT_FOR (mount, data) {
        struct text_value *line = cli_object(cli, grid);
        const struct text_value path = {.kind = TEXT_STRING, .text = mount->name};
        const struct text_value *type = text_get(mount, "type");
        const struct text_value *accessor = text_get(mount, "accessor");
        const struct text_value *description = text_get(mount, "description");
        cli_add(cli, line, "Path", &path);
        cli_add(cli, line, "Type", type != NULL ? type : &none);
        cli_add(cli, line, "Accessor", accessor != NULL ? accessor : &none);
        if (cli_bool(cli, "detailed", false))
            add_config(cli, line, mount);
        cli_add(cli, line, "Description", description != NULL ? description : &none);
    }
    cli_print_grid(grid);
    return CLI_OK;
}

static void put_mount_options(struct cli *cli, struct text_writer *w)
{
    const char *version = cli_text(cli, "version");
    if (version == NULL && cli_text(cli, "options") == NULL)
        return;
    text_key(w, "options");
    text_open_object(w);
    cli_put_pairs(cli, w, "options");
    if (version != NULL)
        text_member_str(w, "version", version);
    text_close(w);
}

static void put_mount_settings(struct cli *cli, struct text_writer *w)
{
    static const struct {
        const char *flag, *name;
    } texts[] = {{"default-lease-ttl", "default_lease_ttl"},
                 {"max-lease-ttl", "max_lease_ttl"},
                 {"listing-visibility", "listing_visibility"}};
    static const struct {
        const char *flag, *name;
    } lists[] = {{"audit-non-hmac-request-keys", "audit_non_hmac_request_keys"},
                 {"audit-non-hmac-response-keys", "audit_non_hmac_response_keys"}};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        cli_put_text(cli, w, texts[i].flag, texts[i].name);
    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        if (cli_text(cli, lists[i].flag) != NULL) {
            text_key(w, lists[i].name);
            cli_put_list(cli, w, lists[i].flag);
        }
}

static int cmd_secrets_enable(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    struct cli_reply reply = {0};
    ASSERT(cli->n_args == 1);
    const char *type = cli->args[0], *where = cli_text(cli, "path");
    char *mount = cli_trim_path(cli, where != NULL ? where : type);
    char *path = mount != NULL ? arena_format(&cli->arena, "sys/mounts/%s", mount) : NULL;
    if (path == NULL)
        return CLI_LOCAL_ERROR;
    text_open_object(&w);
    text_member_str(&w, "type", type);
    cli_put_text(cli, &w, "description", "description");
    text_key(&w, "config");
    text_open_object(&w);
    put_mount_settings(cli, &w);
    text_close(&w);
    put_mount_options(cli, &w);
    if (cli_bool(cli, "local", false))
        text_member_bool(&w, "local", true);
    if (cli_bool(cli, "seal-wrap", false))
        text_member_bool(&w, "seal_wrap", true);
    text_close(&w);
    int code = cli_request(cli, "PUT", path, &body, &reply);
    if (code == CLI_OK && !cli->json)
        printf("Success! Enabled the %s secrets engine at: %s/\n", type, mount);
    return code;
}

static int cmd_secrets_disable(struct cli *cli)
{
    struct cli_reply reply = {0};
    ASSERT(cli->n_args == 1);
    char *mount = cli_trim_path(cli, cli->args[0]);
    char *path = mount != NULL ? arena_format(&cli->arena, "sys/mounts/%s", mount) : NULL;
    if (path == NULL)
        return CLI_LOCAL_ERROR;
    int code = cli_request(cli, "DELETE", path, NULL, &reply);
    if (code == CLI_OK && !cli->json)
        printf("Success! Disabled the secrets engine (if it existed) at: %s/\n", mount);
    return code;
}

static int cmd_secrets_tune(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    struct cli_reply reply = {0};
    ASSERT(cli->n_args == 1);
    char *mount = cli_trim_path(cli, cli->args[0]);
    char *path = mount != NULL ? arena_format(&cli->arena, "sys/mounts/%s/tune", mount) : NULL;
    if (path == NULL)
        return CLI_LOCAL_ERROR;
    text_open_object(&w);
    cli_put_text(cli, &w, "description", "description");
    put_mount_settings(cli, &w);
    put_mount_options(cli, &w);
    text_close(&w);
    int code = cli_request(cli, "PUT", path, &body, &reply);
    if (code == CLI_OK && reply.body.len != 0)
        cli_print_warnings(cli_parse_reply(cli, &reply));
    if (code == CLI_OK && !cli->json)
        printf("Success! Tuned the secrets engine at: %s/\n", mount);
    return code;
}

/* Ask for the status of the move until the move is over. A server that has forgotten the move
 * replies 404: CLI_REMOTE_ERROR. */
static int await_move(struct cli *cli, const char *id)
{
    const struct timespec pause = {.tv_nsec = MOVE_POLL_MS * 1000000L};
    char *path = arena_format(&cli->arena, "sys/remount/status/%s", id);
    for (unsigned i = 0; path != NULL && i < MOVE_WAIT_MS / MOVE_POLL_MS; i++) {
        struct cli_reply reply = {0};
        int code = cli_request(cli, "GET", path, NULL, &reply);
        if (code != CLI_OK)
            return code;
        const struct text_value *data = text_get(cli_parse_reply(cli, &reply), "data");
        const struct text_value *status = text_get(text_get(data, "migration_info"), "status");
        if (status == NULL)
            return cli_unexpected();
        if (text_is(status->text, "success"))
            return CLI_OK;
        if (!text_is(status->text, "in-progress")) {
            cli_complain("the server says that the move has failed");
            return CLI_REMOTE_ERROR;
        }
        (void)nanosleep(&pause,
                        NULL); /* a signal shortens the pause: the next question comes earlier */
    }
    cli_complain("after ten minutes the move is still in progress");
    return CLI_REMOTE_ERROR;
}

static int cmd_secrets_move(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    struct cli_reply reply = {0};
    ASSERT(cli->n_args == 2);
    char *from = cli_trim_path(cli, cli->args[0]), *to = cli_trim_path(cli, cli->args[1]);
    if (from == NULL || to == NULL)
        return CLI_LOCAL_ERROR;
    text_open_object(&w);
    text_member_str(&w, "from", from);
    text_member_str(&w, "to", to);
    text_close(&w);
    int code = cli_request(cli, "PUT", "sys/remount", &body, &reply);
    if (code != CLI_OK)
        return code;
    const struct text_value *answer = cli_parse_reply(cli, &reply);
    const struct text_value *id = text_get(text_get(answer, "data"), "migration_id");
    if (id == NULL || id->kind != TEXT_STRING)
        return cli_unexpected();
    code = await_move(cli, (const char *)id->text.data);
    if (code == CLI_OK && !cli->json)
        printf("Success! Finished moving secrets engine %s/ to %s/, with migration ID %.*s\n", from,
               to, (int)id->text.len, (const char *)id->text.data);
    return code;
}

#define ENGINE_FLAGS                                                                           \
    {"description", CLI_TEXT, "text for people"},                                              \
        {"default-lease-ttl", CLI_DURATION, "time to live if a request names none"},           \
        {"max-lease-ttl", CLI_DURATION, "longest time to live"},                               \
        {"listing-visibility", CLI_TEXT, "unauth: clients without a token see it; or hidden"}, \
        {"audit-non-hmac-request-keys", CLI_MANY, "request keys to audit in the clear"},       \
        {"audit-non-hmac-response-keys", CLI_MANY, "reply keys to audit in the clear"},        \
        {"version", CLI_INT, "version of a key/value engine: 1 or 2"},                         \
    {                                                                                          \
        "options", CLI_PAIRS, "an option of the engine"                                        \
    }
static const struct cli_flag secrets_list_flags[] = {
    {"detailed", CLI_BOOL, "show settings and options too"}};
static const struct cli_flag secrets_enable_flags[] = {
    {"path", CLI_TEXT, "path of the mount; default: the name of the type"},
    ENGINE_FLAGS,
    {"local", CLI_BOOL, "stored and shown, without effect"},
    {"seal-wrap", CLI_BOOL, "stored and shown, without effect"}};
static const struct cli_flag secrets_tune_flags[] = {ENGINE_FLAGS};

static const struct cli_command secrets_commands[] = {
    {.name = "secrets list",
     ARGS("", 0, 0),
     FLAGS(secrets_list_flags),
     .run = cmd_secrets_list,
     .help = "List the secrets engines."},
    {.name = "secrets enable",
     ARGS("TYPE", 1, 1),
     FLAGS(secrets_enable_flags),
     .run = cmd_secrets_enable,
     .help = "Mount a secrets engine."},
    {.name = "secrets disable",
     ARGS("PATH", 1, 1),
     .run = cmd_secrets_disable,
     .help = "Unmount a secrets engine and remove its data."},
    {.name = "secrets move",
     ARGS("FROM TO", 2, 2),
     .run = cmd_secrets_move,
     .help = "Move a secrets engine to another path."},
    {.name = "secrets tune",
     ARGS("PATH", 1, 1),
     FLAGS(secrets_tune_flags),
     .run = cmd_secrets_tune,
     .help = "Change the settings of a secrets engine."},
};

const struct cli_group cli_secrets_commands = {secrets_commands, ARRAY_LEN(secrets_commands)};
