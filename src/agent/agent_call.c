/* Calls of the servers: signal, restart, pause (B4, B13). */
#include "agent/agent_internal.h"

#include <stdio.h>

static int fail(struct buf *out, int http, const char *text)
{
    buf_add_str(out, text);
    return http;
}

static int no_alloc(struct buf *out, const struct text_value *body)
{
    char text[96];
    (void)snprintf(text, sizeof text, "Unknown allocation \"%.36s\"", member_text(body, "AllocID"));
    return fail(out, 404, text);
}

static void send_signal(struct task *task, const char *name)
{
    task_event(task, &(struct event){.type = "Signaling",
                                     .display = "Task being sent a signal",
                                     .signal_name = name});
    (void)kill(task->pid, agent_signal_of(name)); /* the process may have ended just now */
}

static int call_signal(struct alloc *alloc, const struct text_value *body, struct buf *out)
{
    const char *name = member_text(body, "Task"), *number = member_text(body, "Signal");
    CLEANUP(buf_done) struct buf faults = {0};
    unsigned n = 0;
    if (name[0] != '\0') {
        struct task *task = task_find(alloc, name);
        if (task == NULL)
            return fail(out, 500, "Task not found");
        if (task->pid == 0)
            return fail(out, 500, "Task not running");
        send_signal(task, number);
        return 200;
    }
    for (unsigned i = 0; i < alloc->n_tasks; i++) {
        struct task *task = &alloc->tasks[i];
        if (task->pid != 0) {
            send_signal(task, number);
            continue;
        }
        n++;
        buf_add_format(&faults, "\t* Failed to signal task: %s, err: Task not running\n",
                       task->name);
    }
    if (n == 0)
        return 200;
    buf_add_format(out, "%u error%s occurred:\n%.*s\n", n, n == 1 ? "" : "s", (int)faults.len,
                   (const char *)faults.data);
    return 500;
}

/* Ask one task to restart. Returns whether it must be waited for. */
static bool ask_restart(struct task *task, const char *why)
{
    if (task->state == TASK_DEAD)
        return false;
    task_event(task,
               &(struct event){.type = "Restart Signaled", .display = why, .restart_reason = why});
    task->restart = true;
    task_poke(task);
    return task->pid != 0;
}

/* Wait until the process of an earlier run is gone. */
static void await_gone(struct task *task, pid_t pid, const char *id)
{
    /* the allocation may be freed meanwhile */
    while (alloc_find(bytes_str(id)) != NULL && pid != 0 && task->pid == pid)
        agent_wait(50);
}

static int call_restart(struct alloc *alloc, const struct text_value *body, struct buf *out)
{
    const char *name = member_text(body, "TaskName"), *id = member_text(body, "AllocID");
    bool all = member_bool(body, "AllTasks");
    unsigned n_tasks = alloc->n_tasks;
    pid_t pids[64] = {0};
    if (alloc->stopping)
        return fail(out, 500, "restart of an alloc that should not run");
    if (name[0] != '\0') {
        struct task *task = task_find(alloc, name);
        if (task == NULL)
            return fail(out, 500, "Could not find task runner for task");
        if (task->pid == 0)
            return fail(out, 500, "Task not running");
    }
    const char *why = name[0] != '\0' ? "User requested task to restart"
                      : all           ? "User requested all tasks to restart"
                                      : "User requested running tasks to restart";
    for (unsigned i = 0; i < n_tasks; i++) {
        struct task *task = &alloc->tasks[i];
        if (name[0] != '\0' && strcmp(task->name, name) != 0)
            continue;
        if (all && task->over) {
            (void)agent_task_start(task); /* without memory it stays dead, as reads show */
            alloc_changed(alloc);
        } else if (ask_restart(task, why) && i < ARRAY_LEN(pids)) {
            pids[i] = task->pid;
        }
    }
    for (unsigned i = 0; i < MIN(n_tasks, (unsigned)ARRAY_LEN(pids)); i++)
        if (pids[i] != 0)
            await_gone(&alloc->tasks[i], pids[i], id);
    return 200;
}

static int call_pause(struct alloc *alloc, const struct text_value *body, struct buf *out)
{
    const char *state = member_text(body, "ScheduleState");
    struct task *task = task_find(alloc, member_text(body, "Task"));
    if (task == NULL)
        return fail(out, 400, "unknown task name");
    task->override = strcmp(state, "pause") == 0 ? "pause"
                     : strcmp(state, "run") == 0 ? "run"
                                                 : NULL;
    task_poke(task);
    alloc_changed(alloc);
    return 200;
}

static int call_paused(struct alloc *alloc, const struct text_value *body, struct buf *out)
{
    struct task *task = task_find(alloc, member_text(body, "Task"));
    struct text_writer w = {.out = out, .plain = true};
    bool paused;
    if (task == NULL)
        return fail(out, 400, "unknown task name");
    text_open_object(&w);
    text_member_str(&w, "ScheduleState", task_schedule(task, &paused));
    text_close(&w);
    return 200;
}

int agent_call(const char *name, const struct text_value *body, struct buf *out)
{
    static const struct {
        const char *name;
        int (*run)(struct alloc *alloc, const struct text_value *body, struct buf *out);
    } calls[] = {{"signal", call_signal},
                 {"restart", call_restart},
                 {"pause", call_pause},
                 {"paused", call_paused}};
    const struct text_value *id = text_get(body, "AllocID");
    int http = 400;
    agent_lock();
    struct alloc *alloc = id != NULL ? alloc_find(id->text) : NULL;
    for (size_t i = 0; i < ARRAY_LEN(calls); i++)
        if (strcmp(name, calls[i].name) == 0)
            http = alloc != NULL ? calls[i].run(alloc, body, out) : no_alloc(out, body);
    agent_unlock();
    return http;
}
