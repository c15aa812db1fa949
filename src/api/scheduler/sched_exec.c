/* A command inside a running task, over WebSocket (B5): the server judges the request, then passes
 * bytes between the client and the node of the allocation. */
#include "api/scheduler/sched_spec.h"
#include "api/scheduler/scheduler.h"
#include "front/hub/hub.h"
#include "front/scheduler/scheduler.h"
#include "front/scheduler/scheduler_rights.h"
#include "router/request/reply.h"

enum { COMMAND_WORDS_MAX = 1024 };

struct session {
    struct reply_upgrade upgrade;
    const char *node, *id;
    struct bytes body;
};

static void take_client(struct reply_upgrade *upgrade, struct http_taken *taken,
                        struct bytes accept)
{
    const struct session *s = CONTAINER_OF(upgrade, struct session, upgrade);
    hub_open(taken, accept, s->node, s->id, s->body);
}

struct exec_in {
    const char *command, *task, *tty, *ws_handshake;
};
static const struct field exec_fields[] = {
    FIELD(struct exec_in, command, STRING, .preset = "", .help = "A JSON list of strings."),
    FIELD(struct exec_in, task, STRING, .preset = "", .help = "The task."),
    FIELD(struct exec_in, tty, STRING, .preset = "", .help = "True: with a terminal."),
    FIELD(struct exec_in, ws_handshake, STRING, .preset = "",
          .help = "Not read: the listener takes it. True: the first frame has the token."),
};
static const struct schema exec_schema = SCHEMA(struct exec_in, exec_fields);

static enum status read_command(struct req *req, const char *text,
                                const struct text_value **ret_list)
{
    struct reason why = {{0}};
    if (text[0] == '\0')
        return req_fail(req, ST_INVALID, "command is not present");
    enum status st = text_json_parse(req->arena, bytes_str(text), ret_list, &why);
    const struct text_value *list = *ret_list;
    bool words = st == ST_OK && list->kind == TEXT_LIST && list->n <= COMMAND_WORDS_MAX;
    for (const struct text_value *v = words ? list->first : NULL; v != NULL; v = v->next)
        words = words && v->kind == TEXT_STRING && memchr(v->text.data, 0, v->text.len) == NULL;
    if (!words)
        return req_fail(req, ST_REFUSED, "failed to marshal command into json: %s",
                        why.text[0] != '\0' ? why.text : "a list of strings is expected");
    if (list->first == NULL)
        return req_fail(req, ST_INVALID, "command is not present");
    return ST_OK;
}

/* Whether the task runs now, as its node reported. */
static enum status sched_exec_check_running(struct req *req, const struct sched_alloc *alloc,
                                            const char *task)
{
    const struct text_value *states = NULL, *state;
    if (sched_client_ended(alloc->report.status))
        return req_fail(req, ST_INVALID, "exec not possible, client status of allocation %s is %s",
                        alloc->id, sched_client_name(alloc->report.status));
    if (alloc->report.states[0] != '\0')
        TRY(text_json_parse(req->arena, bytes_str(alloc->report.states), &states, NULL));
    state = text_get(states, task);
    if (state == NULL || strcmp(spec_text(state, "State"), "pending") == 0)
        return req_fail(req, ST_NOT_FOUND, "task \"%s\" not started yet.", task);
    if (strcmp(spec_text(state, "State"), "running") != 0)
        return req_fail(req, ST_NOT_FOUND, "task \"%s\" is not running.", task);
    return ST_OK;
}

/* A driver without isolation of files asks for one more right. */
static enum status check_rights(struct req *req, const struct text_value *task)
{
    unsigned caps;
    TRY(scheduler_caps(req, &caps));
    bool isolated = strcmp(spec_text(task, "Driver"), "raw_exec") != 0;
    return isolated || (caps & SCHEDULER_ALLOC_NODE_EXEC) != 0
               ? ST_OK
               : req_fail(req, ST_DENIED, "Permission denied");
}

static enum status open_session(struct req *req, const struct sched_alloc *alloc,
                                const struct exec_in *in, const struct text_value *command,
                                bool tty)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    struct session *s = arena_zalloc(req->arena, sizeof *s);
    text_open_object(&w);
    text_member_str(&w, "AllocID", alloc->id);
    text_member_str(&w, "Task", in->task);
    text_key(&w, "Command");
    text_put_value(&w, command);
    text_member_bool(&w, "TTY", tty);
    text_member_str(&w, "Accessor", req->token != NULL ? req->token->accessor : "");
    text_close(&w);
    TRY(buf_status(&body));
    uint8_t *text = arena_dup(req->arena, buf_bytes(&body));
    if (s == NULL || text == NULL)
        return ST_NOMEM;
    *s = (struct session){
        .upgrade = {take_client}, .node = alloc->plan.node, .body = bytes_of(text, body.len)};
    TRY(sched_uuid(req->txn, &s->id));
    req->files.upgrade = &s->upgrade;
    return ST_OK;
}

static enum status alloc_exec(struct req *req)
{
    const struct exec_in *in = req_body(req);
    const struct text_value *spec, *task, *command = NULL;
    struct sched_alloc alloc;
    bool tty = false;
    TRY(sched_alloc_find(req, "Unknown allocation \"%s\"", &alloc));
    TRY(sched_alloc_spec(req->txn, &alloc, &spec));
    if (in->task[0] == '\0')
        return req_fail(req, ST_INVALID, "must provide task name");
    TRY(read_command(req, in->command, &command));
    if (in->tty[0] != '\0' && text_bool_parse(bytes_str(in->tty), &tty) != ST_OK)
        return req_fail(req, ST_REFUSED, "tty value is not a boolean: \"%.32s\"", in->tty);
    task = spec_item(spec_group(spec, alloc.plan.group), "Tasks", in->task);
    if (task == NULL)
        return req_fail(req, ST_INVALID, "unknown task name \"%.64s\"", in->task);
    TRY(check_rights(req, task));
    TRY(sched_exec_check_running(req, &alloc, in->task));
    if (!hub_has(alloc.plan.node))
        return req_fail(req, ST_NOT_FOUND, "No path to node");
    return open_session(req, &alloc, in, command, tty);
}

static const struct scheduler_row exec_row = {
    .permission = "namespace:alloc-exec", .caps = SCHEDULER_ALLOC_EXEC, .upgrades = true};

static const struct route exec_routes[] = {
    {.method = METHOD_GET,
     .path = "allocation/:id/exec",
     .handler = alloc_exec,
     .of_dialect = &exec_row,
     .place = PLACE_STAYS,
     .feature = SCHEDULER_FEATURE,
     .body = &exec_schema,
     .help = "Run a command inside a task, over WebSocket."},
};
const struct route_table sched_exec_table = {exec_routes, ARRAY_LEN(exec_routes)};
