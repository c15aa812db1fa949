/* Commands about mounts: of secrets engines ("secrets …") and of auth methods ("auth …"). */
#include "cli/client.h"
#include "cli/command/command.h"

#include <time.h>

enum { MOVE_POLL_MS = 100, MOVE_WAIT_MS = 10 * 60 * 1000 };

/* The differences between the two. */
struct kind {
    const char *at;     /* path of the mounts */
    const char *prefix; /* of a mount's path in a move */
    const char *what;   /* in messages */
};

static const struct kind *kind_of(const struct cli *cli)
{
    static const struct kind engine = {"sys/mounts", "", "secrets engine"};
    static const struct kind method = {"sys/auth", "auth/", "auth method"};
    return strncmp(cli->command->name, "auth ", 5) == 0 ? &method : &engine;
}

/* The path of the mount's settings; `more` is added. *ret_mount: the path of the mount. NULL with a
 * message. */
static char *mount_path(struct cli *cli, const char *where, const char *more, char **ret_mount)
{
    *ret_mount = cli_trim_path(cli, where);
    return *ret_mount != NULL
               ? arena_format(&cli->arena, "%s/%s%s", kind_of(cli)->at, *ret_mount, more)
               : NULL;
}

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

static int cmd_mounts_list(struct cli *cli)
{
    struct cli_reply reply = {0};
    int code = cli_request(cli, "GET", kind_of(cli)->at, NULL, &reply);
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
                 {"token-type", "token_type"},
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

static int cmd_mounts_enable(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    struct cli_reply reply = {0};
    ASSERT(cli->n_args == 1);
    const char *type = cli->args[0], *where = cli_text(cli, "path");
    char *mount, *path = mount_path(cli, where != NULL ? where : type, "", &mount);
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
        printf("Success! Enabled the %s %s at: %s/\n", type, kind_of(cli)->what, mount);
    return code;
}

static int cmd_mounts_disable(struct cli *cli)
{
    struct cli_reply reply = {0};
    ASSERT(cli->n_args == 1);
    char *mount, *path = mount_path(cli, cli->args[0], "", &mount);
    if (path == NULL)
        return CLI_LOCAL_ERROR;
    int code = cli_request(cli, "DELETE", path, NULL, &reply);
    if (code == CLI_OK && !cli->json)
        printf("Success! Disabled the %s (if it existed) at: %s/\n", kind_of(cli)->what, mount);
    return code;
}

static int cmd_mounts_tune(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    struct cli_reply reply = {0};
    ASSERT(cli->n_args == 1);
    char *mount, *path = mount_path(cli, cli->args[0], "/tune", &mount);
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
        printf("Success! Tuned the %s at: %s/\n", kind_of(cli)->what, mount);
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

static int cmd_mounts_move(struct cli *cli)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    struct cli_reply reply = {0};
    ASSERT(cli->n_args == 2);
    const struct kind *kind = kind_of(cli);
    char *from = cli_trim_path(cli, cli->args[0]), *to = cli_trim_path(cli, cli->args[1]);
    char *whole_from = from != NULL ? arena_concat(&cli->arena, kind->prefix, from) : NULL;
    char *whole_to = to != NULL ? arena_concat(&cli->arena, kind->prefix, to) : NULL;
    if (whole_from == NULL || whole_to == NULL)
        return CLI_LOCAL_ERROR;
    text_open_object(&w);
    text_member_str(&w, "from", whole_from);
    text_member_str(&w, "to", whole_to);
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
        printf("Success! Finished moving %s %s/ to %s/, with migration ID %.*s\n", kind->what, from,
               to, (int)id->text.len, (const char *)id->text.data);
    return code;
}

#define MOUNT_FLAGS                                                                            \
    {"description", CLI_TEXT, "text for people"},                                              \
        {"default-lease-ttl", CLI_DURATION, "time to live if a request names none"},           \
        {"max-lease-ttl", CLI_DURATION, "longest time to live"},                               \
        {"listing-visibility", CLI_TEXT, "unauth: clients without a token see it; or hidden"}, \
        {"audit-non-hmac-request-keys", CLI_MANY, "request keys to audit in the clear"},       \
    {                                                                                          \
        "audit-non-hmac-response-keys", CLI_MANY, "reply keys to audit in the clear"           \
    }
#define ENGINE_FLAGS                                                            \
    MOUNT_FLAGS, {"version", CLI_INT, "version of a key/value engine: 1 or 2"}, \
    {                                                                           \
        "options", CLI_PAIRS, "an option of the engine"                         \
    }
#define METHOD_FLAGS                                                                              \
    MOUNT_FLAGS,                                                                                  \
    {                                                                                             \
        "token-type", CLI_TEXT, "service, batch, default-service or default-batch: of its logins" \
    }
#define NEW_FLAGS                                                           \
    {"path", CLI_TEXT, "path of the mount; default: the name of the type"}, \
        {"local", CLI_BOOL, "stored and shown, without effect"},            \
    {                                                                       \
        "seal-wrap", CLI_BOOL, "stored and shown, without effect"           \
    }
static const struct cli_flag list_flags[] = {
    {"detailed", CLI_BOOL, "show settings and options too"}};
static const struct cli_flag secrets_enable_flags[] = {NEW_FLAGS, ENGINE_FLAGS};
static const struct cli_flag secrets_tune_flags[] = {ENGINE_FLAGS};
static const struct cli_flag auth_enable_flags[] = {NEW_FLAGS, METHOD_FLAGS};
static const struct cli_flag auth_tune_flags[] = {METHOD_FLAGS};

static const struct cli_command mounts_commands[] = {
    {.name = "secrets list",
     ARGS("", 0, 0),
     FLAGS(list_flags),
     .run = cmd_mounts_list,
     .help = "List the secrets engines."},
    {.name = "secrets enable",
     ARGS("TYPE", 1, 1),
     FLAGS(secrets_enable_flags),
     .run = cmd_mounts_enable,
     .help = "Mount a secrets engine."},
    {.name = "secrets disable",
     ARGS("PATH", 1, 1),
     .run = cmd_mounts_disable,
     .help = "Unmount a secrets engine and remove its data."},
    {.name = "secrets move",
     ARGS("FROM TO", 2, 2),
     .run = cmd_mounts_move,
     .help = "Move a secrets engine to another path."},
    {.name = "secrets tune",
     ARGS("PATH", 1, 1),
     FLAGS(secrets_tune_flags),
     .run = cmd_mounts_tune,
     .help = "Change the settings of a secrets engine."},
    {.name = "auth list",
     ARGS("", 0, 0),
     FLAGS(list_flags),
     .run = cmd_mounts_list,
     .help = "List the auth methods."},
    {.name = "auth enable",
     ARGS("TYPE", 1, 1),
     FLAGS(auth_enable_flags),
     .run = cmd_mounts_enable,
     .help = "Mount an auth method."},
    {.name = "auth disable",
     ARGS("PATH", 1, 1),
     .run = cmd_mounts_disable,
     .help = "Unmount an auth method; the tokens of its logins end."},
    {.name = "auth move",
     ARGS("FROM TO", 2, 2),
     .run = cmd_mounts_move,
     .help = "Move an auth method to another path."},
    {.name = "auth tune",
     ARGS("PATH", 1, 1),
     FLAGS(auth_tune_flags),
     .run = cmd_mounts_tune,
     .help = "Change the settings of an auth method."},
};

const struct cli_group cli_mounts_commands = {mounts_commands, ARRAY_LEN(mounts_commands)};
