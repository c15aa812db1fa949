/* Commands of the platform. A row of `ops` says which request a command makes: arguments fill the
 * path first, then the name of the resource, then come attributes as KEY=VALUE. */
#include "cli/command/command.h"
#include "cli/dialect/dialect.h"

#include <unistd.h>

#define ROOT "/api/v2/"

enum { PATH_ARGS_MAX = 2, LOG_BEGINS = 0x02, LOG_ENDS = 0x03, FOLLOW_US = 500000 };

static const struct cli_flag log_flags[] = {
    {"apply", CLI_BOOL, "the log of the apply"},
    {"follow", CLI_BOOL, "go on until the log ends"},
};

struct op {
    const char *name;          /* of the command */
    const char *method, *path; /* each '%' stands for an argument */
    const char *type;          /* of the document to send; NULL: no body */
    const char *named; /* the attribute or relationship that the next argument gives; NULL: none */
    const char *related; /* the type of the relationship `named`; NULL: `named` is an attribute */
    bool list; /* the body is a list of one resource of the type `type`, named by an argument */
};

static const struct op ops[] = {
    {"platform org list", "GET", "organizations", NULL, NULL, NULL, false},
    {"platform org read", "GET", "organizations/%", NULL, NULL, NULL, false},
    {"platform org create", "POST", "organizations", "organizations", "name", NULL, false},
    {"platform org update", "PATCH", "organizations/%", "organizations", NULL, NULL, false},
    {"platform org delete", "DELETE", "organizations/%", NULL, NULL, NULL, false},
    {"platform workspace list", "GET", "organizations/%/workspaces", NULL, NULL, NULL, false},
    {"platform workspace read", "GET", "organizations/%/workspaces/%", NULL, NULL, NULL, false},
    {"platform workspace create", "POST", "organizations/%/workspaces", "workspaces", "name", NULL,
     false},
    {"platform workspace update", "PATCH", "organizations/%/workspaces/%", "workspaces", NULL, NULL,
     false},
    {"platform workspace delete", "DELETE", "organizations/%/workspaces/%", NULL, NULL, NULL,
     false},
    {"platform workspace lock", "POST", "workspaces/%/actions/lock", "workspaces", NULL, NULL,
     false},
    {"platform workspace unlock", "POST", "workspaces/%/actions/unlock", NULL, NULL, NULL, false},
    {"platform workspace force-unlock", "POST", "workspaces/%/actions/force-unlock", NULL, NULL,
     NULL, false},
    {"platform team list", "GET", "organizations/%/teams", NULL, NULL, NULL, false},
    {"platform team create", "POST", "organizations/%/teams", "teams", "name", NULL, false},
    {"platform team delete", "DELETE", "teams/%", NULL, NULL, NULL, false},
    {"platform team add", "POST", "teams/%/relationships/users", "users", NULL, NULL, true},
    {"platform team remove", "DELETE", "teams/%/relationships/users", "users", NULL, NULL, true},
    {"platform user me", "GET", "account/details", NULL, NULL, NULL, false},
    {"platform user list", "GET", "admin/users", NULL, NULL, NULL, false},
    {"platform user create", "POST", "admin/users", "users", "username", NULL, false},
    {"platform user delete", "DELETE", "admin/users/%", NULL, NULL, NULL, false},
    {"platform user suspend", "POST", "admin/users/%/actions/suspend", NULL, NULL, NULL, false},
    {"platform user unsuspend", "POST", "admin/users/%/actions/unsuspend", NULL, NULL, NULL, false},
    {"platform token list", "GET", "users/%/authentication-tokens", NULL, NULL, NULL, false},
    {"platform token create", "POST", "users/%/authentication-tokens", "authentication-tokens",
     NULL, NULL, false},
    {"platform token delete", "DELETE", "authentication-tokens/%", NULL, NULL, NULL, false},
    {"platform state current", "GET", "workspaces/%/current-state-version", NULL, NULL, NULL,
     false},
    {"platform state read", "GET", "state-versions/%", NULL, NULL, NULL, false},
    {"platform output list", "GET", "workspaces/%/current-state-version-outputs", NULL, NULL, NULL,
     false},
    {"platform output read", "GET", "state-version-outputs/%", NULL, NULL, NULL, false},
    {"platform notification list", "GET", "workspaces/%/notification-configurations", NULL, NULL,
     NULL, false},
    {"platform notification create", "POST", "workspaces/%/notification-configurations",
     "notification-configurations", "name", NULL, false},
    {"platform notification update", "PATCH", "notification-configurations/%",
     "notification-configurations", NULL, NULL, false},
    {"platform notification verify", "POST", "notification-configurations/%/actions/verify", NULL,
     NULL, NULL, false},
    {"platform notification delete", "DELETE", "notification-configurations/%", NULL, NULL, NULL,
     false},
    {"platform task list", "GET", "organizations/%/tasks", NULL, NULL, NULL, false},
    {"platform task create", "POST", "organizations/%/tasks", "tasks", "name", NULL, false},
    {"platform task update", "PATCH", "tasks/%", "tasks", NULL, NULL, false},
    {"platform task delete", "DELETE", "tasks/%", NULL, NULL, NULL, false},
    {"platform task attach", "POST", "workspaces/%/tasks", "workspace-tasks", "task", "tasks",
     false},
    {"platform task detach", "DELETE", "workspaces/%/tasks/%", NULL, NULL, NULL, false},
    {"platform agent-pool list", "GET", "organizations/%/agent-pools", NULL, NULL, NULL, false},
    {"platform agent-pool create", "POST", "organizations/%/agent-pools", "agent-pools", "name",
     NULL, false},
    {"platform agent-pool delete", "DELETE", "agent-pools/%", NULL, NULL, NULL, false},
    {"platform agent-pool agents", "GET", "agent-pools/%/agents", NULL, NULL, NULL, false},
    {"platform agent-pool token", "POST", "agent-pools/%/authentication-tokens",
     "authentication-tokens", NULL, NULL, false},
    {"run create", "POST", "runs", "runs", "workspace", "workspaces", false},
    {"run list", "GET", "workspaces/%/runs", NULL, NULL, NULL, false},
    {"run show", "GET", "runs/%", NULL, NULL, NULL, false},
    {"run apply", "POST", "runs/%/actions/apply", NULL, NULL, NULL, false},
    {"run discard", "POST", "runs/%/actions/discard", NULL, NULL, NULL, false},
    {"run cancel", "POST", "runs/%/actions/cancel", NULL, NULL, NULL, false},
    {"run force-cancel", "POST", "runs/%/actions/force-cancel", NULL, NULL, NULL, false},
    {"platform settings read", "GET", "admin/%-settings", NULL, NULL, NULL, false},
    {"platform settings update", "PATCH", "admin/%-settings", "", NULL, NULL, false},
    {"platform settings rotate-key", "POST", "admin/oidc-settings/actions/rotate-key", NULL, NULL,
     NULL, false},
    {"platform settings trim-key", "POST", "admin/oidc-settings/actions/trim-key", NULL, NULL, NULL,
     false},
};

static const struct op *op_of(const struct cli *cli)
{
    for (size_t i = 0; i < ARRAY_LEN(ops); i++)
        if (strcmp(ops[i].name, cli->command->name) == 0)
            return &ops[i];
    ASSERT(ops[0].name == NULL); /* each command of the table below has a row */
    return NULL;
}

/* The path with its arguments. *ret_used: how many it took. NULL: no memory. */
static const char *make_path(struct cli *cli, const struct op *op, unsigned *ret_used)
{
    const char *path = ROOT, *at = op->path;
    ASSERT(op->path[0] != '/');
    *ret_used = 0;
    while (path != NULL && *at != '\0') {
        const char *mark = strchrnul(at, '%');
        const char *arg = "";
        if (*mark == '%') {
            ASSERT(*ret_used < cli->n_args);
            arg = cli_escape(cli, cli->args[(*ret_used)++]);
        }
        if (arg == NULL)
            return NULL;
        path = arena_format(&cli->arena, "%s%.*s%s", path, (int)(mark - at), at, arg);
        at = mark + (*mark == '%');
    }
    return path;
}

/* A number or a list is not a text to the server: the names of these attributes are known here. */
static void put_typed(struct text_writer *w, const struct text_value *v)
{
    static const char *const numbers[] = {"port",
                                          "api-rate-limit",
                                          "session-timeout",
                                          "session-remember",
                                          "sso-api-token-session-timeout",
                                          "workspace-limit"};
    static const char *const lists[] = {"triggers", "email-addresses", "stages", "target-addrs",
                                        "replace-addrs"};
    int64_t n;
    ASSERT(v->name.len != 0);
    text_key_bytes(w, v->name);
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        if (v->kind == TEXT_STRING && text_is(v->name, numbers[i]) &&
            text_int_parse(v->text, &n) == ST_OK) {
            text_put_int(w, n);
            return;
        }
    for (size_t i = 0; i < ARRAY_LEN(lists); i++)
        if (v->kind == TEXT_STRING && text_is(v->name, lists[i])) {
            text_open_list(w);
            cli_put_split(w, (const char *)v->text.data);
            text_close(w);
            return;
        }
    text_put_value(w, v);
}

static void put_identity(struct text_writer *w, const char *type, const char *id)
{
    text_open_object(w);
    text_member_str(w, "type", type);
    text_member_str(w, "id", id);
    text_close(w);
}

/* Write the document. False with a message. */
static bool put_sent_document(struct cli *cli, const struct op *op, unsigned used,
                              struct text_writer *w)
{
    ASSERT(op->type != NULL && !op->list);
    ASSERT(op->named == NULL || used < cli->n_args);
    const char *name = op->named != NULL ? cli->args[used++] : NULL;
    const struct text_value *data = cli_data(cli, used);
    if (data == NULL)
        return false;
    text_open_object(w);
    text_member_str(w, "type", op->type);
    text_key(w, "attributes");
    text_open_object(w);
    if (name != NULL && op->related == NULL)
        text_member_str(w, op->named, name);
    TEXT_FOR (v, data)
        put_typed(w, v);
    text_close(w);
    if (name != NULL && op->related != NULL) {
        text_key(w, "relationships");
        text_open_object(w);
        text_key(w, op->named);
        text_open_object(w);
        text_key(w, "data");
        put_identity(w, op->related, name);
        text_close(w);
        text_close(w);
    }
    text_close(w);
    return true;
}

static bool put_request_body(struct cli *cli, const struct op *op, unsigned used, struct buf *body)
{
    struct text_writer w = {.out = body, .plain = true};
    bool done = true;
    ASSERT(body->len == 0);
    if (op->type == NULL)
        return true;
    text_open_object(&w);
    text_key(&w, "data");
    if (op->list) {
        text_open_list(&w);
        put_identity(&w, op->type, cli->args[used]);
        text_close(&w);
    } else {
        done = put_sent_document(cli, op, used, &w);
    }
    text_close(&w);
    return done;
}

/* A resource as a table: its id, then its attributes. */
static struct text_value *row_of(struct cli *cli, const struct text_value *resource,
                                 struct text_value *list)
{
    static const char *const columns[] = {"name",  "username", "description", "email",
                                          "value", "status",   "message",     "created-at"};
    const struct text_value *attributes = text_get(resource, "attributes");
    struct text_value *row = cli_object(cli, list);
    ASSERT(resource != NULL);
    if (row == NULL)
        return NULL;
    cli_add(cli, row, "id", text_get(resource, "id"));
    if (list == NULL && attributes != NULL)
        TEXT_FOR (v, attributes)
            cli_add(cli, row, (const char *)arena_str(&cli->arena, v->name), v);
    for (size_t i = 0; list != NULL && i < ARRAY_LEN(columns); i++)
        if (text_get(attributes, columns[i]) != NULL)
            cli_add(cli, row, columns[i], text_get(attributes, columns[i]));
    return row;
}

static int show_document(struct cli *cli, const struct cli_reply *reply)
{
    if (reply->body.len == 0)
        return CLI_OK;
    const struct text_value *document = cli_parse_reply(cli, reply);
    if (document == NULL)
        return CLI_REMOTE_ERROR;
    if (cli->json) {
        cli_print_json(document);
        return CLI_OK;
    }
    const struct text_value *data = text_get(document, "data");
    if (data == NULL)
        return cli_unexpected();
    if (data->kind == TEXT_OBJECT) {
        const struct text_value *row = row_of(cli, data, NULL);
        return row != NULL ? cli_show_value(cli, row) : CLI_LOCAL_ERROR;
    }
    struct text_value *list = text_value_new(&cli->arena, NULL, TEXT_LIST, (struct bytes){0});
    if (list == NULL)
        return CLI_LOCAL_ERROR;
    TEXT_FOR (resource, data)
        if (row_of(cli, resource, list) == NULL)
            return CLI_LOCAL_ERROR;
    cli_print_grid(list);
    return CLI_OK;
}

static int cmd_platform(struct cli *cli)
{
    const struct op *op = op_of(cli);
    CLEANUP(buf_done) struct buf body = {0};
    struct cli_reply reply = {0};
    unsigned used;
    struct cli_request request = {.method = op->method, .path = make_path(cli, op, &used)};
    if (!put_request_body(cli, op, used, &body))
        return CLI_LOCAL_ERROR;
    request.body = buf_bytes(&body);
    request.content_type = "application/vnd.api+json";
    int code = cli_do(cli, &request, &reply);
    return code == CLI_OK ? show_document(cli, &reply) : code;
}

/* Print the current state of a workspace, byte for byte. */
static int cmd_platform_state_pull(struct cli *cli)
{
    struct cli_reply reply = {0}, state = {0};
    ASSERT(cli->n_args == 1);
    char *id = cli_escape(cli, cli->args[0]);
    struct cli_request request = {.method = "GET"};
    if (id != NULL)
        request.path = arena_format(&cli->arena, ROOT "workspaces/%s/current-state-version", id);
    int code = cli_do(cli, &request, &reply);
    if (code != CLI_OK)
        return code;
    const struct text_value *document = cli_parse_reply(cli, &reply);
    const struct text_value *url =
        text_get(text_get(text_get(document, "data"), "attributes"), "hosted-state-download-url");
    const char *path =
        url != NULL && url->kind == TEXT_STRING ? strstr((const char *)url->text.data, ROOT) : NULL;
    if (path == NULL)
        return cli_unexpected();
    struct cli_request download = {.method = "GET", .path = path, .token = "", .download = stdout};
    return cli_do(cli, &download, &state);
}

/* Print a log from where it was read last. *done: it has ended. */
static int print_log_part(struct cli *cli, const char *path, size_t *offset, bool *done)
{
    struct cli_reply reply = {0};
    struct cli_request request = {.method = "GET", .token = ""};
    size_t before = *offset;
    request.path = arena_format(&cli->arena, "%s?limit=65536&offset=%zu", path, *offset);
    if (request.path == NULL)
        return CLI_LOCAL_ERROR;
    int code = cli_do(cli, &request, &reply);
    if (code != CLI_OK)
        return code;
    struct bytes text = reply.body;
    *offset += text.len;
    if (before == 0 && text.len != 0 && text.data[0] == LOG_BEGINS)
        text = bytes_from(text, 1);
    *done = text.len != 0 && text.data[text.len - 1] == LOG_ENDS;
    text.len -= *done;
    cli_put(stdout, text);
    return fflush(stdout) == 0 ? CLI_OK : CLI_LOCAL_ERROR;
}

/* The path of the log of a phase. NULL with a message. */
static const char *log_path(struct cli *cli, const char *phase, int *ret_code)
{
    struct cli_reply reply = {0};
    char *id = cli_escape(cli, cli->args[0]);
    struct cli_request request = {.method = "GET"};
    if (id != NULL)
        request.path = arena_format(&cli->arena, ROOT "runs/%s/%s", id, phase);
    *ret_code = request.path != NULL ? cli_do(cli, &request, &reply) : CLI_LOCAL_ERROR;
    if (*ret_code != CLI_OK)
        return NULL;
    const struct text_value *document = cli_parse_reply(cli, &reply);
    const struct text_value *url =
        text_get(text_get(text_get(document, "data"), "attributes"), "log-read-url");
    const char *path =
        url != NULL && url->kind == TEXT_STRING ? strstr((const char *)url->text.data, ROOT) : NULL;
    if (path == NULL)
        *ret_code = cli_unexpected();
    return path;
}

/* Print the log of the plan of a run, or of its apply. */
static int cmd_run_logs(struct cli *cli)
{
    const char *phase = cli_bool(cli, "apply", false) ? "apply" : "plan";
    bool follow = cli_bool(cli, "follow", false), done = false;
    size_t offset = 0, before = 1;
    int code;
    const char *path = log_path(cli, phase, &code);
    while (path != NULL && code == CLI_OK && !done && (follow || offset != before)) {
        before = offset;
        code = print_log_part(cli, path, &offset, &done);
        if (follow && !done && offset == before)
            (void)usleep(FOLLOW_US); /* a signal ends the program */
    }
    return code;
}

#define RUN_COMMAND(name_, args_, min, max, help_)                        \
    {                                                                     \
        .name = "run " name_, ARGS(args_, min, max), .run = cmd_platform, \
        .dialect = &cli_platform_dialect, .help = (help_)                 \
    }
#define COMMAND(name_, args_, min, max, help_)                                 \
    {                                                                          \
        .name = "platform " name_, ARGS(args_, min, max), .run = cmd_platform, \
        .dialect = &cli_platform_dialect, .help = (help_)                      \
    }
#define PAIRS " [KEY=VALUE]…"

static const struct cli_command platform_commands[] = {
    COMMAND("org list", "", 0, 0, "List the organizations that you see."),
    COMMAND("org read", "ORG", 1, 1, "Show an organization."),
    COMMAND("org create", "ORG" PAIRS, 1, CLI_ANY, "Create an organization: email=ADDRESS."),
    COMMAND("org update", "ORG" PAIRS, 1, CLI_ANY, "Change an organization."),
    COMMAND("org delete", "ORG", 1, 1, "Delete an organization and all that it has."),
    COMMAND("workspace list", "ORG", 1, 1, "List the workspaces of an organization."),
    COMMAND("workspace read", "ORG NAME", 2, 2, "Show a workspace."),
    COMMAND("workspace create", "ORG NAME" PAIRS, 2, CLI_ANY, "Create a workspace."),
    COMMAND("workspace update", "ORG NAME" PAIRS, 2, CLI_ANY, "Change a workspace."),
    COMMAND("workspace delete", "ORG NAME", 2, 2, "Delete a workspace and its states."),
    COMMAND("workspace lock", "WORKSPACE_ID" PAIRS, 1, CLI_ANY, "Lock a workspace: reason=TEXT."),
    COMMAND("workspace unlock", "WORKSPACE_ID", 1, 1, "Unlock a workspace that you locked."),
    COMMAND("workspace force-unlock", "WORKSPACE_ID", 1, 1, "Unlock a workspace of any holder."),
    COMMAND("team list", "ORG", 1, 1, "List the teams of an organization."),
    COMMAND("team create", "ORG NAME" PAIRS, 2, CLI_ANY, "Create a team."),
    COMMAND("team delete", "TEAM_ID", 1, 1, "Delete a team."),
    COMMAND("team add", "TEAM_ID USER", 2, 2, "Add a user, by name or id, to a team."),
    COMMAND("team remove", "TEAM_ID USER", 2, 2, "Remove a user from a team."),
    COMMAND("user me", "", 0, 0, "Show the owner of the token."),
    COMMAND("user list", "", 0, 0, "List all users (site administrators)."),
    COMMAND("user create", "NAME" PAIRS, 1, CLI_ANY,
            "Create a user (site administrators): email=ADDRESS, is-site-admin=true."),
    COMMAND("user delete", "USER_ID", 1, 1, "Delete a user (site administrators)."),
    COMMAND("user suspend", "USER_ID", 1, 1, "Refuse the tokens of a user from now on."),
    COMMAND("user unsuspend", "USER_ID", 1, 1, "Take the tokens of a user again."),
    COMMAND("token list", "USER_ID", 1, 1, "List your tokens."),
    COMMAND("token create", "USER_ID" PAIRS, 1, CLI_ANY,
            "Create a token, shown once: description=TEXT, expired-at=TIME."),
    COMMAND("token delete", "TOKEN_ID", 1, 1, "Delete a token."),
    COMMAND("state current", "WORKSPACE_ID", 1, 1, "Show the current version of a state."),
    COMMAND("state read", "STATE_ID", 1, 1, "Show a version of a state."),
    {.name = "platform state pull",
     ARGS("WORKSPACE_ID", 1, 1),
     .run = cmd_platform_state_pull,
     .dialect = &cli_platform_dialect,
     .help = "Print the current state, byte for byte."},
    COMMAND("output list", "WORKSPACE_ID", 1, 1, "List outputs; sensitive values are hidden."),
    COMMAND("output read", "OUTPUT_ID", 1, 1, "Show an output, also a sensitive one."),
    COMMAND("notification list", "WORKSPACE_ID", 1, 1, "List notification configurations."),
    COMMAND("notification create", "WORKSPACE_ID NAME" PAIRS, 2, CLI_ANY,
            "Create one: destination-type=generic url=URL token=KEY triggers=run:created "
            "enabled=true."),
    COMMAND("notification update", "NOTIFICATION_ID" PAIRS, 1, CLI_ANY, "Change one."),
    COMMAND("notification verify", "NOTIFICATION_ID", 1, 1, "Send a verification."),
    COMMAND("notification delete", "NOTIFICATION_ID", 1, 1, "Delete one."),
    COMMAND("task list", "ORG", 1, 1, "List the run tasks of an organization."),
    COMMAND("task create", "ORG NAME" PAIRS, 2, CLI_ANY,
            "Create a run task: url=URL category=task hmac-key=KEY."),
    COMMAND("task update", "TASK_ID" PAIRS, 1, CLI_ANY, "Change a run task."),
    COMMAND("task delete", "TASK_ID", 1, 1, "Delete a run task without associations."),
    COMMAND("task attach", "WORKSPACE_ID TASK_ID" PAIRS, 2, CLI_ANY,
            "Let a workspace run a task: enforcement-level=advisory stages=pre_plan."),
    COMMAND("task detach", "WORKSPACE_ID WORKSPACE_TASK_ID", 2, 2,
            "End that a workspace runs a task."),
    COMMAND("agent-pool list", "ORG", 1, 1, "List the agent pools of an organization."),
    COMMAND("agent-pool create", "ORG NAME" PAIRS, 2, CLI_ANY, "Create an agent pool."),
    COMMAND("agent-pool delete", "POOL_ID", 1, 1, "Delete an agent pool."),
    COMMAND("agent-pool agents", "POOL_ID", 1, 1,
            "List the workers of a pool; the site-wide one is apool-default."),
    COMMAND("agent-pool token", "POOL_ID" PAIRS, 1, CLI_ANY,
            "Create a token for workers, shown once: description=TEXT."),
    RUN_COMMAND("create", "WORKSPACE_ID" PAIRS, 1, CLI_ANY,
                "Create a run: message=TEXT is-destroy=true plan-only=true auto-apply=true."),
    RUN_COMMAND("list", "WORKSPACE_ID", 1, 1, "List the runs of a workspace."),
    RUN_COMMAND("show", "RUN_ID", 1, 1, "Show a run."),
    {.name = "run logs",
     ARGS("RUN_ID", 1, 1),
     .run = cmd_run_logs,
     .flags = log_flags,
     .n_flags = ARRAY_LEN(log_flags),
     .dialect = &cli_platform_dialect,
     .help = "Print the log of the plan of a run, or of its apply."},
    RUN_COMMAND("apply", "RUN_ID", 1, 1, "Confirm a plan: it is applied."),
    RUN_COMMAND("discard", "RUN_ID", 1, 1, "Discard a run that waits."),
    RUN_COMMAND("cancel", "RUN_ID", 1, 1, "Interrupt a run."),
    RUN_COMMAND("force-cancel", "RUN_ID", 1, 1, "End a run that does not heed an interrupt."),
    COMMAND("settings read", "NAME", 1, 1,
            "Show settings: general, cost-estimation, saml, smtp, sms, customization."),
    COMMAND("settings update", "NAME" PAIRS, 1, CLI_ANY, "Change settings."),
    COMMAND("settings rotate-key", "", 0, 0, "Make a new key that signs tokens of runs."),
    COMMAND("settings trim-key", "", 0, 0, "Delete all signing keys but the newest."),
};

const struct cli_group cli_platform_commands = {platform_commands, ARRAY_LEN(platform_commands)};
