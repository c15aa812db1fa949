/* The fields of a job and their defaults (B7). Fields that no table has are dropped, as upstream
 * does. Fields of things that are not built are refused by name. */
#include "api/scheduler/sched_spec.h"
#include "api/scheduler/sched_check.h"
#include "api/scheduler/sched_record.h"

#include <strings.h>

enum kind {
    TEXT_,    /* string */
    BOOL_,    /* true or false */
    INT_,     /* integer; durations too, in nanoseconds */
    STRINGS_, /* list of strings */
    MAP_,     /* object of strings */
    ANY_,     /* taken as it is */
    OBJECT_,  /* object of `sub`, or null */
    FILLED_,  /* object of `sub`; absent: with all its defaults */
    LIST_,    /* list of objects of `sub` */
    REFUSED_, /* not built: null, false or empty */
};

struct row {
    const char *name;
    enum kind kind;
    const char *preset; /* JSON; NULL: null */
    const struct row *sub;
};

static const struct row constraint_rows[] = {
    {"LTarget", TEXT_, "\"\"", NULL},
    {"RTarget", TEXT_, "\"\"", NULL},
    {"Operand", TEXT_, "\"=\"", NULL},
    {0},
};
static const struct row port_rows[] = {
    {"Label", TEXT_, "\"\"", NULL},
    {"Value", INT_, "0", NULL},
    {"To", INT_, "0", NULL},
    {"HostNetwork", TEXT_, "\"default\"", NULL},
    {0},
};
static const struct row network_rows[] = {
    {"Mode", TEXT_, "\"host\"", NULL},
    {"DynamicPorts", LIST_, NULL, port_rows},
    {"ReservedPorts", LIST_, NULL, port_rows},
    {0},
};
static const struct row check_rows[] = {
    {"Name", TEXT_, "\"\"", NULL},
    {"Type", TEXT_, "\"\"", NULL},
    {"Path", TEXT_, "\"/\"", NULL},
    {"Method", TEXT_, "\"GET\"", NULL},
    {"PortLabel", TEXT_, "\"\"", NULL},
    {"Interval", INT_, "10000000000", NULL},
    {"Timeout", INT_, "2000000000", NULL},
    {"Protocol", TEXT_, "\"http\"", NULL},
    {"Body", TEXT_, "\"\"", NULL},
    {"OnUpdate", TEXT_, "\"require_healthy\"", NULL},
    {0},
};
static const struct row service_rows[] = {
    {"Name", TEXT_, "\"\"", NULL},       {"Provider", TEXT_, "\"consul\"", NULL},
    {"PortLabel", TEXT_, "\"\"", NULL},  {"AddressMode", TEXT_, "\"auto\"", NULL},
    {"Tags", STRINGS_, "[]", NULL},      {"TaskName", TEXT_, "\"\"", NULL},
    {"Checks", LIST_, NULL, check_rows}, {0},
};
static const struct row restart_service_rows[] = {
    {"Attempts", INT_, "2", NULL},
    {"Interval", INT_, "1800000000000", NULL},
    {"Delay", INT_, "15000000000", NULL},
    {"Mode", TEXT_, "\"fail\"", NULL},
    {0},
};
static const struct row restart_batch_rows[] = {
    {"Attempts", INT_, "3", NULL},
    {"Interval", INT_, "86400000000000", NULL},
    {"Delay", INT_, "15000000000", NULL},
    {"Mode", TEXT_, "\"fail\"", NULL},
    {0},
};
static const struct row reschedule_service_rows[] = {
    {"Attempts", INT_, "0", NULL},
    {"Interval", INT_, "0", NULL},
    {"Delay", INT_, "30000000000", NULL},
    {"DelayFunction", TEXT_, "\"exponential\"", NULL},
    {"MaxDelay", INT_, "3600000000000", NULL},
    {"Unlimited", BOOL_, "true", NULL},
    {0},
};
static const struct row reschedule_batch_rows[] = {
    {"Attempts", INT_, "1", NULL},
    {"Interval", INT_, "86400000000000", NULL},
    {"Delay", INT_, "5000000000", NULL},
    {"DelayFunction", TEXT_, "\"constant\"", NULL},
    {"MaxDelay", INT_, "0", NULL},
    {"Unlimited", BOOL_, "false", NULL},
    {0},
};
static const struct row disk_rows[] = {
    {"Sticky", BOOL_, "false", NULL},
    {"SizeMB", INT_, "300", NULL},
    {"Migrate", BOOL_, "false", NULL},
    {0},
};
static const struct row resource_rows[] = {
    {"CPU", INT_, "100", NULL},        {"Cores", REFUSED_, "0", NULL},
    {"MemoryMB", INT_, "300", NULL},   {"MemoryMaxMB", INT_, "0", NULL},
    {"DiskMB", INT_, "0", NULL},       {"Networks", REFUSED_, NULL, NULL},
    {"Devices", REFUSED_, NULL, NULL}, {0},
};
static const struct row log_rows[] = {
    {"MaxFiles", INT_, "10", NULL},
    {"MaxFileSizeMB", INT_, "10", NULL},
    {"Disabled", BOOL_, "false", NULL},
    {0},
};
static const struct row cron_rows[] = {
    {"Start", TEXT_, "\"\"", NULL},
    {"End", TEXT_, "\"\"", NULL},
    {"Timezone", TEXT_, "\"\"", NULL},
    {0},
};
static const struct row schedule_rows[] = {{"Cron", FILLED_, NULL, cron_rows}, {0}};

/* The rows of a group and a task, with the restart policies of the job's type. */
#define TASK_ROWS(restart)                                                                         \
    {"Name", TEXT_, "\"\"", NULL}, {"Driver", TEXT_, "\"\"", NULL}, {"User", TEXT_, "\"\"", NULL}, \
        {"Config", ANY_, "{}", NULL}, {"Env", MAP_, "{}", NULL}, {"Meta", MAP_, "{}", NULL},       \
        {"Services", LIST_, NULL, service_rows}, {"Constraints", LIST_, NULL, constraint_rows},    \
        {"Affinities", REFUSED_, NULL, NULL}, {"Resources", FILLED_, NULL, resource_rows},         \
        {"RestartPolicy", OBJECT_, NULL, restart}, {"LogConfig", FILLED_, NULL, log_rows},         \
        {"KillTimeout", INT_, "5000000000", NULL}, {"KillSignal", TEXT_, "\"SIGINT\"", NULL},      \
        {"ShutdownDelay", INT_, "0", NULL}, {"Leader", BOOL_, "false", NULL},                      \
        {"Lifecycle", REFUSED_, NULL, NULL}, {"Artifacts", REFUSED_, NULL, NULL},                  \
        {"Templates", REFUSED_, NULL, NULL}, {"Schedule", OBJECT_, NULL, schedule_rows},           \
    {                                                                                              \
        0                                                                                          \
    }
static const struct row task_service_rows[] = {TASK_ROWS(restart_service_rows)};
static const struct row task_batch_rows[] = {TASK_ROWS(restart_batch_rows)};

#define GROUP_ROWS(task, restart, reschedule)                                                 \
    {"Name", TEXT_, "\"\"", NULL}, {"Count", INT_, "1", NULL},                                \
        {"Constraints", LIST_, NULL, constraint_rows}, {"Affinities", REFUSED_, NULL, NULL},  \
        {"Spreads", REFUSED_, NULL, NULL}, {"Tasks", LIST_, NULL, task},                      \
        {"RestartPolicy", FILLED_, NULL, restart},                                            \
        {"ReschedulePolicy", FILLED_, NULL, reschedule},                                      \
        {"EphemeralDisk", FILLED_, NULL, disk_rows}, {"Networks", LIST_, NULL, network_rows}, \
        {"Services", LIST_, NULL, service_rows}, {"Volumes", REFUSED_, NULL, NULL},           \
        {"Update", ANY_, NULL, NULL}, {"Migrate", ANY_, NULL, NULL},                          \
        {"ShutdownDelay", INT_, "0", NULL}, {"Scaling", REFUSED_, NULL, NULL},                \
        {"Meta", MAP_, "{}", NULL},                                                           \
    {                                                                                         \
        0                                                                                     \
    }
static const struct row group_service_rows[] = {
    GROUP_ROWS(task_service_rows, restart_service_rows, reschedule_service_rows)};
static const struct row group_batch_rows[] = {
    GROUP_ROWS(task_batch_rows, restart_batch_rows, reschedule_batch_rows)};

#define JOB_ROWS(group)                                                                          \
    {"ID", TEXT_, "\"\"", NULL}, {"Name", TEXT_, "\"\"", NULL},                                  \
        {"Region", TEXT_, "\"global\"", NULL}, {"Namespace", TEXT_, "\"default\"", NULL},        \
        {"Type", TEXT_, "\"service\"", NULL}, {"Priority", INT_, "50", NULL},                    \
        {"AllAtOnce", REFUSED_, "false", NULL}, {"Datacenters", STRINGS_, "[\"*\"]", NULL},      \
        {"NodePool", TEXT_, "\"default\"", NULL}, {"Constraints", LIST_, NULL, constraint_rows}, \
        {"Affinities", REFUSED_, NULL, NULL}, {"Spreads", REFUSED_, NULL, NULL},                 \
        {"TaskGroups", LIST_, NULL, group}, {"Update", ANY_, NULL, NULL},                        \
        {"Periodic", REFUSED_, NULL, NULL}, {"ParameterizedJob", REFUSED_, NULL, NULL},          \
        {"Multiregion", REFUSED_, NULL, NULL}, {"Meta", MAP_, "{}", NULL},                       \
    {                                                                                            \
        0                                                                                        \
    }
static const struct row job_service_rows[] = {JOB_ROWS(group_service_rows)};
static const struct row job_batch_rows[] = {JOB_ROWS(group_batch_rows)};

/* Members */

static const struct text_value *member(const struct text_value *object, const char *name)
{
    size_t len = strlen(name);
    if (object == NULL || object->kind != TEXT_OBJECT)
        return NULL;
    TEXT_FOR (v, object)
        if (v->name.len == len && strncasecmp((const char *)v->name.data, name, len) == 0)
            return v->kind != TEXT_NULL ? v : NULL;
    return NULL;
}

const char *spec_text(const struct text_value *object, const char *name)
{
    const struct text_value *v = text_get(object, name);
    return v != NULL && v->kind == TEXT_STRING ? (const char *)v->text.data : "";
}

int64_t spec_int(const struct text_value *object, const char *name)
{
    int64_t n = 0;
    const struct text_value *v = text_get(object, name);
    return v != NULL && text_to_int(v, &n) == ST_OK ? n : 0;
}

bool spec_bool(const struct text_value *object, const char *name)
{
    const struct text_value *v = text_get(object, name);
    return v != NULL && v->kind == TEXT_BOOL && v->truth;
}

const struct text_value *spec_item(const struct text_value *object, const char *list,
                                   const char *name)
{
    const struct text_value *items = text_get(object, list);
    if (items == NULL || items->kind != TEXT_LIST)
        return NULL;
    TEXT_FOR (item, items)
        if (strcmp(spec_text(item, "Name"), name) == 0)
            return item;
    return NULL;
}

const struct text_value *spec_group(const struct text_value *spec, const char *name)
{
    return spec_item(spec, "TaskGroups", name);
}

/* Filling */

static enum status wrong(struct req *req, const char *name, const char *want)
{
    return req_fail(req, ST_INVALID, "Failed to decode body: json: field %s: %s is expected", name,
                    want);
}

static bool is_text(const struct text_value *v)
{
    return v->kind == TEXT_STRING && memchr(v->text.data, 0, v->text.len) == NULL;
}

/* Check lists and maps of strings. */
static enum status check_texts(struct req *req, const struct text_value *v, const struct row *row)
{
    bool map = row->kind == MAP_;
    if (v->kind != (map ? TEXT_OBJECT : TEXT_LIST))
        return wrong(req, row->name, map ? "an object of strings" : "a list of strings");
    TEXT_FOR (item, v)
        if (!is_text(item))
            return wrong(req, row->name, map ? "an object of strings" : "a list of strings");
    return ST_OK;
}

static bool is_empty(const struct text_value *v)
{
    int64_t n;
    return v->kind == TEXT_NULL || (v->kind == TEXT_BOOL && !v->truth) ||
           (v->kind == TEXT_NUMBER && text_to_int(v, &n) == ST_OK && n == 0) ||
           ((v->kind == TEXT_LIST || v->kind == TEXT_OBJECT) && v->first == NULL) ||
           (v->kind == TEXT_STRING && v->text.len == 0);
}

static enum status fill_object(struct req *req, const struct text_value *object,
                               const struct row *rows, struct text_writer *w);

static enum status fill_list(struct req *req, const struct text_value *list, const struct row *row,
                             struct text_writer *w)
{
    if (list->kind != TEXT_LIST)
        return wrong(req, row->name, "a list");
    text_open_list(w);
    TEXT_FOR (item, list) {
        if (item->kind != TEXT_OBJECT)
            return wrong(req, row->name, "a list of objects");
        TRY(fill_object(req, item, row->sub, w));
    }
    text_close(w);
    return ST_OK;
}

/* Write one member that is given. */
static enum status fill_given(struct req *req, const struct text_value *v, const struct row *row,
                              struct text_writer *w)
{
    int64_t n;
    switch (row->kind) {
    case TEXT_:
        if (!is_text(v))
            return wrong(req, row->name, "a string");
        break;
    case BOOL_:
        if (v->kind != TEXT_BOOL)
            return wrong(req, row->name, "true or false");
        break;
    case INT_:
        if (v->kind != TEXT_NUMBER || text_to_int(v, &n) != ST_OK)
            return wrong(req, row->name, "an integer");
        break;
    case STRINGS_:
    case MAP_: TRY(check_texts(req, v, row)); break;
    case OBJECT_:
    case FILLED_:
        if (v->kind != TEXT_OBJECT)
            return wrong(req, row->name, "an object");
        return fill_object(req, v, row->sub, w);
    case LIST_: return fill_list(req, v, row, w);
    case REFUSED_:
        if (!is_empty(v))
            return req_fail(req, ST_REFUSED,
                            "1 error occurred:\n\t* %s is not built in holdfast\n\n", row->name);
        break;
    default: break;
    }
    text_put_value(w, v);
    return ST_OK;
}

static enum status too_long(struct req *req)
{
    return req_fail(req, ST_TOO_BIG, "the job is longer than %d bytes", SCHED_SPEC_MAX);
}

/* A short object becomes long with its defaults: a list of many is refused on the way, before it
 * takes the memory. */
static enum status fill_object(struct req *req, const struct text_value *object,
                               const struct row *rows, struct text_writer *w)
{
    if (w->out->len > SCHED_SPEC_MAX)
        return too_long(req);
    text_open_object(w);
    for (const struct row *row = rows; row->name != NULL; row++) {
        const struct text_value *v = member(object, row->name);
        if (v != NULL && row->kind == TEXT_ && v->kind == TEXT_STRING && v->text.len == 0)
            v = NULL; /* clients in Go send "" for a field that is not given */
        text_key(w, row->name);
        if (v != NULL)
            TRY(fill_given(req, v, row, w));
        else if (row->kind == FILLED_)
            TRY(fill_object(req, NULL, row->sub, w));
        else
            text_put_raw(w, row->preset != NULL ? bytes_str(row->preset) : BYTES("null"));
    }
    text_close(w);
    return ST_OK;
}

/* A node reads the job with each of its allocations: their number times the job's length is bounded.
 */
static enum status check_work(struct req *req, const struct text_value *spec, size_t len)
{
    const struct text_value *groups = text_get(spec, "TaskGroups");
    uint64_t n = 0;
    TEXT_FOR (group, groups)
        n += (uint64_t)spec_int(group, "Count"); /* checked: 0 to SCHED_COUNT_MAX */
    if (n * len <= SCHED_WORK_MAX)
        return ST_OK;
    return req_fail(req, ST_TOO_BIG,
                    "%llu allocations of a job of %zu bytes are more than %d bytes for the nodes: "
                    "shorten the job, or lower its counts",
                    (unsigned long long)n, len, SCHED_WORK_MAX);
}

enum status sched_spec_fill(struct req *req, const struct text_value *job,
                            const struct text_value **ret_spec)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct text_writer w = {.out = &text, .plain = true};
    const struct text_value *type = member(job, "Type");
    struct text_value *spec;
    bool batch = type != NULL && (text_is(type->text, "batch") || text_is(type->text, "sysbatch"));
    TRY(fill_object(req, job, batch ? job_batch_rows : job_service_rows, &w));
    TRY(buf_status(&text));
    if (text.len > SCHED_SPEC_MAX)
        return too_long(req);
    uint8_t *own = arena_dup(req->arena, buf_bytes(&text));
    if (own == NULL)
        return ST_NOMEM;
    TRY(text_json_parse(req->arena, bytes_of(own, text.len), ret_spec, NULL));
    spec = (struct text_value *)(uintptr_t)text_get(*ret_spec, "Name");
    if (spec->text.len == 0)
        spec->text = text_get(*ret_spec, "ID")->text;
    TRY(sched_spec_check(req, *ret_spec));
    return check_work(req, *ret_spec, text.len);
}
