#include "api/scheduler/sched_check.h"
#include "api/scheduler/sched_record.h"
#include "api/scheduler/sched_spec.h"
#include "text/window.h"

#include <stdarg.h>
#include <stdio.h>

enum { LINE_MAX_ = 200 };
#define SECOND_NS INT64_C(1000000000)
#define PAUSE_MAX_NS (10 * 365 * 86400 * SECOND_NS) /* of a delay or an interval */

struct faults {
    struct arena *arena;
    const char *lines[SCHED_ERRORS_MAX];
    unsigned n;
};

__attribute__((format(printf, 2, 3))) static void fault(struct faults *f, const char *format, ...)
{
    char line[LINE_MAX_];
    va_list args;
    if (f->n == SCHED_ERRORS_MAX)
        return;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args); /* a longer line is cut */
    va_end(args);
    const char *own = arena_str(f->arena, bytes_str(line));
    if (own != NULL)
        f->lines[f->n++] = own;
}

static bool is_id(const char *id)
{
    size_t len = strnlen(id, SCHED_JOB_ID_MAX + 1);
    bool plain = len >= 1 && len <= SCHED_JOB_ID_MAX && id[0] != '/' && id[len - 1] != '/';
    for (size_t i = 0; i < len; i++)
        plain = plain && (uint8_t)id[i] > ' ' && id[i] != 127;
    return plain && strstr(id, "//") == NULL;
}

static bool is_name(const char *name)
{
    size_t len = strnlen(name, SCHED_JOB_ID_MAX + 1);
    bool plain = len >= 1 && len <= SCHED_JOB_ID_MAX && name[0] != '.';
    for (size_t i = 0; i < len; i++)
        plain = plain && (uint8_t)name[i] > ' ' && name[i] != '/' && name[i] != 127;
    return plain;
}

static void check_range(struct faults *f, const struct text_value *object, const char *name,
                        int64_t least, int64_t most)
{
    int64_t n = spec_int(object, name);
    if (n < least || n > most)
        fault(f, "%s %lld is not in the range %lld to %lld", name, (long long)n, (long long)least,
              (long long)most);
}

static void check_constraints(struct faults *f, const struct text_value *object)
{
    static const char *const known[] = {
        "=", "==", "is", "!=", "not", "is_set", "is_not_set", "distinct_hosts"};
    const struct text_value *list = text_get(object, "Constraints");
    if (list == NULL || list->kind != TEXT_LIST)
        return;
    TEXT_FOR (item, list) {
        size_t i = 0;
        while (i < ARRAY_LEN(known) && strcmp(spec_text(item, "Operand"), known[i]) != 0)
            i++;
        if (i == ARRAY_LEN(known))
            fault(f, "Constraint operand \"%.32s\" is not built in holdfast",
                  spec_text(item, "Operand"));
    }
}

static void check_services(struct faults *f, const struct text_value *object)
{
    const struct text_value *list = text_get(object, "Services");
    if (list == NULL || list->kind != TEXT_LIST)
        return;
    TEXT_FOR (service, list) {
        const struct text_value *checks = text_get(service, "Checks");
        if (!is_name(spec_text(service, "Name")))
            fault(f, "Service name must be set, without blanks");
        if (checks == NULL || checks->kind != TEXT_LIST)
            continue;
        TEXT_FOR (check, checks) {
            const char *type = spec_text(check, "Type");
            if (strcmp(type, "http") != 0 && strcmp(type, "tcp") != 0)
                fault(f, "Check type must be tcp or http, not \"%.32s\"", type);
            check_range(f, check, "Interval", SECOND_NS, 3600 * SECOND_NS);
            check_range(f, check, "Timeout", SECOND_NS, 600 * SECOND_NS);
        }
    }
}

static void check_schedule(struct faults *f, const struct text_value *task)
{
    const struct text_value *cron = text_get(text_get(task, "Schedule"), "Cron");
    struct text_window window;
    struct reason why = {{0}};
    if (cron == NULL || cron->kind != TEXT_OBJECT)
        return;
    if (text_window_parse(bytes_str(spec_text(cron, "Start")), bytes_str(spec_text(cron, "End")),
                          &window, &why) != ST_OK)
        fault(f, "%s", why.text);
    const char *zone = spec_text(cron, "Timezone");
    if (strlen(zone) > 64 || strstr(zone, "..") != NULL || zone[0] == '/' || zone[0] == ':')
        fault(f, "cron.timezone is not the name of a time zone");
}

/* A policy of restarts, of a group or a task: its interval bounds how often a task starts. */
static void check_restarts(struct faults *f, const struct text_value *policy)
{
    if (policy == NULL || policy->kind != TEXT_OBJECT)
        return;
    check_range(f, policy, "Attempts", 0, 1000);
    check_range(f, policy, "Delay", 0, PAUSE_MAX_NS);
    if (spec_int(policy, "Attempts") != 0)
        check_range(f, policy, "Interval", 5 * SECOND_NS, PAUSE_MAX_NS);
}

/* Each replacement of a failed allocation is kept: the delay bounds how many there are. */
static void check_reschedules(struct faults *f, const struct text_value *policy)
{
    if (policy == NULL || policy->kind != TEXT_OBJECT ||
        (!spec_bool(policy, "Unlimited") && spec_int(policy, "Attempts") == 0))
        return;
    check_range(f, policy, "Attempts", 0, 1000);
    check_range(f, policy, "Delay", 5 * SECOND_NS, PAUSE_MAX_NS);
    if (strcmp(spec_text(policy, "DelayFunction"), "constant") != 0)
        check_range(f, policy, "MaxDelay", spec_int(policy, "Delay"), PAUSE_MAX_NS);
}

static void check_task(struct faults *f, const struct text_value *task)
{
    const struct text_value *resources = text_get(task, "Resources");
    const struct text_value *logs = text_get(task, "LogConfig");
    if (!is_name(spec_text(task, "Name")))
        fault(f, "Missing task name, or a name with blanks or slashes");
    if (spec_text(task, "Driver")[0] == '\0')
        fault(f, "Missing task driver");
    check_range(f, resources, "CPU", 1, 1 << 24);
    check_range(f, resources, "MemoryMB", 10, 1 << 24);
    check_range(f, logs, "MaxFiles", 1, 1000);
    check_range(f, logs, "MaxFileSizeMB", 1, 10000);
    check_range(f, task, "KillTimeout", 0, 86400 * SECOND_NS);
    check_range(f, task, "ShutdownDelay", 0, 86400 * SECOND_NS);
    check_restarts(f, text_get(task, "RestartPolicy"));
    check_constraints(f, task);
    check_services(f, task);
    check_schedule(f, task);
}

static void check_group(struct faults *f, const struct text_value *group)
{
    const char *name = spec_text(group, "Name");
    const struct text_value *tasks = text_get(group, "Tasks");
    if (!is_name(name))
        fault(f, "Missing task group name, or a name with blanks or slashes");
    check_range(f, group, "Count", 0, SCHED_COUNT_MAX);
    check_range(f, group, "ShutdownDelay", 0, 86400 * SECOND_NS);
    check_range(f, text_get(group, "EphemeralDisk"), "SizeMB", 0, 1 << 24);
    check_restarts(f, text_get(group, "RestartPolicy"));
    check_reschedules(f, text_get(group, "ReschedulePolicy"));
    check_constraints(f, group);
    check_services(f, group);
    if (tasks == NULL || tasks->kind != TEXT_LIST || tasks->first == NULL) {
        fault(f, "Task group %.64s validation failed: Missing tasks for task group", name);
        return;
    }
    TEXT_FOR (task, tasks) {
        check_task(f, task);
        if (spec_item(group, "Tasks", spec_text(task, "Name")) != task)
            fault(f, "Task %.64s is defined twice in group %.64s", spec_text(task, "Name"), name);
    }
}

static enum status sched_check_report(struct req *req, const struct faults *f)
{
    CLEANUP(buf_done) struct buf text = {0};
    if (f->n == 0)
        return ST_OK;
    buf_add_format(&text, "%u error%s occurred:\n", f->n, f->n == 1 ? "" : "s");
    for (unsigned i = 0; i < f->n; i++)
        buf_add_format(&text, "\t* %s\n", f->lines[i]);
    buf_add(&text, BYTES("\n"));
    TRY(buf_status(&text));
    return req_fail(req, ST_REFUSED, "%.*s", (int)text.len, (const char *)text.data);
}

enum status sched_spec_check(struct req *req, const struct text_value *spec)
{
    static const char *const types[] = {"service", "batch", "system", "sysbatch"};
    struct faults f = {.arena = req->arena};
    const struct text_value *groups = text_get(spec, "TaskGroups");
    const char *type = spec_text(spec, "Type");
    size_t t = 0;
    if (strchr(spec_text(spec, "ID"), ' ') != NULL)
        fault(&f, "Job ID contains a space");
    else if (!is_id(spec_text(spec, "ID")))
        fault(&f,
              "Job ID is longer than %d characters, or has a slash at an end or a control "
              "character",
              SCHED_JOB_ID_MAX);
    while (t < ARRAY_LEN(types) && strcmp(type, types[t]) != 0)
        t++;
    if (t == ARRAY_LEN(types))
        fault(&f, "Invalid job type: \"%.32s\"", type);
    else if (t >= 2)
        fault(&f, "Job type \"%s\" is not built in holdfast", type);
    check_range(&f, spec, "Priority", 1, 100);
    check_constraints(&f, spec);
    if (strcmp(spec_text(spec, "Region"), "global") != 0)
        fault(&f, "Region \"%.32s\" does not exist", spec_text(spec, "Region"));
    if (strcmp(spec_text(spec, "Namespace"), "default") != 0)
        fault(&f, "Namespace \"%.32s\" does not exist", spec_text(spec, "Namespace"));
    if (groups == NULL || groups->kind != TEXT_LIST || groups->first == NULL) {
        fault(&f, "Missing job task groups");
        return sched_check_report(req, &f);
    }
    TEXT_FOR (group, groups) {
        check_group(&f, group);
        if (spec_group(spec, spec_text(group, "Name")) != group)
            fault(&f, "Task group %.64s is defined twice", spec_text(group, "Name"));
    }
    return sched_check_report(req, &f);
}
