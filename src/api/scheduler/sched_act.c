/* Actions on allocations: stop, which the scheduler carries out; signal, restart and pause, which
 * the node of the allocation does while the client waits (B4, B11, B13). */
#include "api/scheduler/sched_spec.h"
#include "api/scheduler/scheduler.h"
#include "front/hub/hub.h"
#include "front/scheduler/scheduler.h"
#include "front/scheduler/scheduler_rights.h"
#include "router/request/reply.h"

enum { CALL_WAIT_MS = 120 * 1000, SIGNAL_NAME_MAX = 32 };

/* Stop */

static enum status alloc_stop(struct req *req)
{
    struct sched_alloc alloc;
    struct sched_job job;
    const char *eval;
    bool no_delay, reschedule;
    TRY(scheduler_flag(req, "no_shutdown_delay", false, &no_delay));
    TRY(scheduler_flag(req, "reschedule", false, &reschedule));
    TRY(sched_alloc_find(req, "allocation not found", &alloc));
    enum status st = sched_job_load(req->txn, alloc.plan.job, &job);
    if (st == ST_NOT_FOUND) { /* purged: the evaluation ends what is left */
        job = (struct sched_job){.id = alloc.plan.job};
        st = ST_OK;
    }
    TRY(st);
    alloc.plan.transition |= SCHED_MIGRATE | (no_delay ? (unsigned)SCHED_NO_SHUTDOWN_DELAY : 0) |
                             (reschedule ? (unsigned)SCHED_RESCHEDULE : 0);
    alloc.plan.modified_ms = req->now_ms;
    TRY(sched_plan_put(req->txn, &alloc));
    const struct sched_cause cause = {.trigger = "alloc-stop"};
    TRY(sched_evaluate(req->txn, req->now_ms, &job, &cause, &eval));
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    text_member_str(&w, "EvalID", eval);
    text_key(&w, "Index");
    text_put_raw(&w, BYTES(REPLY_VERSION));
    text_close(&w);
    return req_reply_end(req);
}

/* Calls of a node */

/* The request of a handler to the node of an allocation, after its transaction. */
struct call {
    const char *node, *name;
    struct bytes body;
    uint64_t index;
    bool gives; /* the node's reply is the client's */
};

static enum status make_call(struct req *req, const struct sched_alloc *alloc, const char *name,
                             struct buf *body)
{
    struct call *call = arena_zalloc(req->arena, sizeof *call);
    TRY(buf_status(body));
    uint8_t *text = arena_dup(req->arena, buf_bytes(body));
    if (call == NULL || text == NULL)
        return ST_NOMEM;
    *call = (struct call){.node = alloc->plan.node,
                          .name = name,
                          .body = bytes_of(text, body->len),
                          .index = state_version(req->txn)};
    req->prepared = call;
    req->index = call->index;
    return ST_OK;
}

static enum status status_of(int http)
{
    return http == 400   ? ST_INVALID
           : http == 403 ? ST_DENIED
           : http == 404 ? ST_NOT_FOUND
                         : ST_REFUSED;
}

/* Call the node. The reply is the node's body where it gives one, else the index. */
static enum status call_node(struct req *req)
{
    const struct call *call = req->prepared;
    CLEANUP(buf_done) struct buf body = {0};
    int http = 0;
    enum status st = hub_call(call->node, call->name, call->body, CALL_WAIT_MS, &http, &body);
    if (st == ST_NOT_FOUND || st == ST_CLOSED)
        return req_fail(req, ST_NOT_FOUND, "No path to node");
    if (st == ST_TIMEOUT)
        return req_fail(req, ST_REFUSED, "the node did not reply in time");
    TRY(st);
    if (http != 200)
        return req_fail(req, status_of(http), "%.*s", (int)body.len, (const char *)body.data);
    const struct text_value *given = NULL;
    if (call->gives && text_json_parse(req->arena, buf_bytes(&body), &given, NULL) != ST_OK)
        return req_fail(req, ST_REFUSED, "the reply of the node is malformed");
    struct text_writer w = req_reply_begin(req);
    if (call->gives) {
        text_put_value(&w, given);
    } else {
        text_open_object(&w);
        text_key(&w, "Index");
        text_put_uint(&w, call->index);
        text_close(&w);
    }
    return req_reply_end(req);
}

/* The allocation and its task group. */
static enum status find_group(struct req *req, struct sched_alloc *ret_alloc,
                              const struct text_value **ret_group)
{
    const struct text_value *spec;
    TRY(sched_alloc_find(req, "Unknown allocation \"%s\"", ret_alloc));
    TRY(sched_alloc_spec(req->txn, ret_alloc, &spec));
    *ret_group = spec_group(spec, ret_alloc->plan.group);
    return ST_OK;
}

struct signal_in {
    const char *signal, *task;
};
static const struct field signal_fields[] = {
    FIELD_NAMED("Signal", struct signal_in, signal, STRING, .preset = "",
                .help = "SIGHUP, SIGUSR1 …; another name means SIGINT."),
    FIELD_NAMED("Task", struct signal_in, task, STRING, .preset = "",
                .help = "Absent: every task of the allocation."),
};
static const struct schema signal_schema = {.fields = signal_fields,
                                            .n = ARRAY_LEN(signal_fields),
                                            .size = sizeof(struct signal_in),
                                            .fold_case = true,
                                            .typed = true};

static enum status alloc_signal(struct req *req)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    const struct signal_in *in = req_body(req);
    const struct text_value *group;
    struct sched_alloc alloc;
    TRY(find_group(req, &alloc, &group));
    if (strlen(in->signal) > SIGNAL_NAME_MAX) /* the agent ends a link with a message too long */
        return req_fail(req, ST_INVALID, "Signal: at most %d characters are expected",
                        SIGNAL_NAME_MAX);
    if (in->task[0] != '\0' && spec_item(group, "Tasks", in->task) == NULL)
        return req_fail(req, ST_REFUSED, "Task not found");
    text_open_object(&w);
    text_member_str(&w, "AllocID", alloc.id);
    text_member_str(&w, "Signal", in->signal);
    text_member_str(&w, "Task", in->task);
    text_close(&w);
    return make_call(req, &alloc, "signal", &body);
}

struct restart_in {
    const char *task;
    bool all;
};
static const struct field restart_fields[] = {
    FIELD_NAMED("TaskName", struct restart_in, task, STRING, .preset = "",
                .help = "Absent: the running tasks of the allocation."),
    FIELD_NAMED("AllTasks", struct restart_in, all, BOOL,
                .help = "Also tasks that have ended; not together with TaskName."),
};
static const struct schema restart_schema = {.fields = restart_fields,
                                             .n = ARRAY_LEN(restart_fields),
                                             .size = sizeof(struct restart_in),
                                             .fold_case = true,
                                             .typed = true};

static enum status alloc_restart(struct req *req)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    const struct restart_in *in = req_body(req);
    const struct text_value *group;
    struct sched_alloc alloc;
    TRY(find_group(req, &alloc, &group));
    if (in->all && in->task[0] != '\0')
        return req_fail(req, ST_REFUSED, "task name cannot be set when restarting all tasks");
    if (in->task[0] != '\0' && spec_item(group, "Tasks", in->task) == NULL)
        return req_fail(req, ST_REFUSED, "Could not find task runner for task: %.64s", in->task);
    if (alloc.plan.desired != SCHED_RUN)
        return req_fail(req, ST_REFUSED, "restart of an alloc that should not run");
    text_open_object(&w);
    text_member_str(&w, "AllocID", alloc.id);
    text_member_str(&w, "TaskName", in->task);
    text_member_bool(&w, "AllTasks", in->all);
    text_close(&w);
    return make_call(req, &alloc, "restart", &body);
}

/* Pause */

struct pause_in {
    const char *task, *state;
};
static const struct field pause_fields[] = {
    FIELD_NAMED("Task", struct pause_in, task, STRING, .preset = ""),
    FIELD_NAMED("ScheduleState", struct pause_in, state, STRING, .preset = "",
                .help = "pause, run or scheduled."),
};
static const struct schema pause_schema = {.fields = pause_fields,
                                           .n = ARRAY_LEN(pause_fields),
                                           .size = sizeof(struct pause_in),
                                           .fold_case = true,
                                           .typed = true};

/* Find the task that a pause is about. */
static enum status find_task(struct req *req, const char *name, struct sched_alloc *ret_alloc,
                             const struct text_value **ret_task)
{
    const struct text_value *group;
    TRY(find_group(req, ret_alloc, &group));
    if (name[0] == '\0')
        return req_fail(req, ST_INVALID, "must provide task name");
    *ret_task = spec_item(group, "Tasks", name);
    if (*ret_task == NULL)
        return req_fail(req, ST_INVALID, "unknown task name \"%.64s\"", name);
    return ST_OK;
}

static bool has_schedule(const struct text_value *task)
{
    const struct text_value *schedule = text_get(task, "Schedule");
    return schedule != NULL && schedule->kind == TEXT_OBJECT;
}

static enum status pause_set(struct req *req)
{
    static const char *const states[] = {"pause", "run", "scheduled"};
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    const struct pause_in *in = req_body(req);
    const struct text_value *task;
    struct sched_alloc alloc;
    size_t i = 0;
    TRY(find_task(req, in->task, &alloc, &task));
    while (i < ARRAY_LEN(states) && strcmp(in->state, states[i]) != 0)
        i++;
    if (i == ARRAY_LEN(states))
        return req_fail(req, ST_INVALID, "Not a valid task schedule state");
    if (!has_schedule(task))
        return req_fail(req, ST_INVALID, "task \"%.64s\" has no schedule", in->task);
    text_open_object(&w);
    text_member_str(&w, "AllocID", alloc.id);
    text_member_str(&w, "Task", in->task);
    text_member_str(&w, "ScheduleState", in->state);
    text_close(&w);
    return make_call(req, &alloc, "pause", &body);
}

struct paused_in {
    const char *task;
};
static const struct field paused_in_fields[] = {
    FIELD(struct paused_in, task, STRING, .preset = "", .help = "The task."),
};
static const struct schema paused_in_schema = SCHEMA(struct paused_in, paused_in_fields);

struct paused_out {
    const char *state;
};
static const struct field paused_out_fields[] = {
    FIELD_NAMED("ScheduleState", struct paused_out, state, STRING),
};
static const struct schema paused_reply = SCHEMA(struct paused_out, paused_out_fields);

static enum status pause_read(struct req *req)
{
    CLEANUP(buf_done) struct buf body = {0};
    struct text_writer w = {.out = &body, .plain = true};
    const struct paused_in *in = req_body(req);
    const struct text_value *task;
    struct sched_alloc alloc;
    TRY(find_task(req, in->task, &alloc, &task));
    if (!has_schedule(task)) {
        req_skip_outside(req);
        return req_reply(req, &(struct paused_out){""});
    }
    text_open_object(&w);
    text_member_str(&w, "AllocID", alloc.id);
    text_member_str(&w, "Task", in->task);
    text_close(&w);
    TRY(make_call(req, &alloc, "paused", &body));
    ((struct call *)req->prepared)->gives = true;
    return ST_OK;
}

/* Rows */

struct index_out {
    uint64_t index;
};
static const struct field index_fields[] = {FIELD_NAMED("Index", struct index_out, index, UINT)};
static const struct schema index_reply = SCHEMA(struct index_out, index_fields);

static const struct scheduler_row lifecycle_row = {.permission = "namespace:alloc-lifecycle",
                                                   .caps = SCHEDULER_ALLOC_LIFECYCLE};
static const struct scheduler_row pause_row = {
    .permission = "namespace:submit-job", .caps = SCHEDULER_SUBMIT_JOB | SCHEDULER_PAUSE_ALLOC};
static const struct scheduler_row paused_row = {.permission = "namespace:read-job",
                                                .caps = SCHEDULER_READ_JOB};

static const struct route act_routes[] = {
    {.method = METHOD_POST,
     .path = ":id/stop",
     .handler = alloc_stop,
     .of_dialect = &lifecycle_row,
     .index = INDEX_VERSION,
     .feature = SCHEDULER_FEATURE,
     .shape = "{EvalID:str Index:int}", /* the index is known after the commit */
     .help = "Stop an allocation; the scheduler places another one. ?no_shutdown_delay=true skips "
             "the delays before the kill."},
};
const struct route_table sched_act_table = {act_routes, ARRAY_LEN(act_routes)};

#define CALL_ROW(path_, handler_, row_, body_, noun_, help_)                                   \
    {                                                                                          \
        .method = METHOD_POST, .path = (path_), .handler = (handler_), .outside = call_node,   \
        .of_dialect = (row_), .flags = ROUTE_LONG, .place = PLACE_ACTIVE,                      \
        .feature = SCHEDULER_FEATURE, .body = (body_), .noun = (noun_), .reply = &index_reply, \
        .help = (help_)                                                                        \
    }
static const struct route client_routes[] = {
    CALL_ROW("allocation/:id/signal", alloc_signal, &lifecycle_row, &signal_schema, "Signal",
             "Send a signal to a task, or to all of an allocation."),
    CALL_ROW("allocation/:id/restart", alloc_restart, &lifecycle_row, &restart_schema, NULL,
             "Restart tasks in place; the reply comes after the old processes are gone."),
    CALL_ROW("allocation/:id/pause", pause_set, &pause_row, &pause_schema, "Pause",
             "Override the schedule of a task, or remove the override."),
    {.method = METHOD_GET,
     .path = "allocation/:id/pause",
     .handler = pause_read,
     .outside = call_node,
     .of_dialect = &paused_row,
     .place = PLACE_ACTIVE,
     .feature = SCHEDULER_FEATURE,
     .body = &paused_in_schema,
     .reply = &paused_reply,
     .help = "Whether the schedule of a task, or an override, pauses it."},
};
const struct route_table sched_client_act_table = {client_routes, ARRAY_LEN(client_routes)};
