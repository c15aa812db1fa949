/* The allocations of this node: what the servers want becomes tasks, and what becomes of the tasks
 * is reported in batches. */
#include "agent/agent_internal.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { REPORT_MS = 200, REPORT_ALLOCS_MAX = 100 };

struct alloc *alloc_find(struct bytes id)
{
    LIST_FOR (item, &agent.allocs) {
        struct alloc *alloc = CONTAINER_OF(item, struct alloc, link);
        if (text_is(id, alloc->id))
            return alloc;
    }
    return NULL;
}

struct task *task_find(struct alloc *alloc, const char *name)
{
    for (unsigned i = 0; i < alloc->n_tasks; i++)
        if (strcmp(alloc->tasks[i].name, name) == 0)
            return &alloc->tasks[i];
    return NULL;
}

void alloc_changed(struct alloc *alloc)
{
    alloc->dirty = true;
    (void)pthread_cond_broadcast(&agent.changed); /* the lock is held */
}

void task_poke(struct task *task)
{
    uint64_t one = 1;
    (void)!write(task->wake, &one, sizeof one);   /* a full counter wakes as well */
    (void)pthread_cond_broadcast(&agent.changed); /* the lock is held */
}

bool alloc_ended(const struct alloc *alloc)
{
    for (unsigned i = 0; i < alloc->n_tasks; i++)
        if (!alloc->tasks[i].over)
            return false;
    return true;
}

const char *alloc_status(const struct alloc *alloc, const char **ret_text)
{
    bool failed = false, running = false, pending = false, dead = false;
    for (unsigned i = 0; i < alloc->n_tasks; i++) {
        const struct task *t = &alloc->tasks[i];
        failed = failed || (t->state == TASK_DEAD && t->failed);
        running = running || t->state == TASK_RUNNING || (t->state == TASK_PENDING && t->runs != 0);
        pending = pending || t->state == TASK_PENDING;
        dead = dead || t->state == TASK_DEAD;
    }
    bool ended = alloc_ended(alloc);
    *ret_text = failed && ended ? "Failed tasks"
                : running       ? "Tasks are running"
                : pending       ? (dead ? "Tasks are running" : "No tasks have started")
                : failed        ? "Failed tasks"
                                : "All tasks have completed";
    if (!ended && (running || (pending && dead)))
        return "running";
    if (pending)
        return "pending";
    if (!ended)
        return "running";
    return failed ? "failed" : "complete";
}

/* Making and freeing */

static void free_alloc(struct alloc *alloc)
{
    for (unsigned i = 0; i < alloc->n_tasks; i++) {
        struct task *task = &alloc->tasks[i];
        if (task->threaded)
            (void)pthread_join(task->thread, NULL); /* the thread has ended */
        for (unsigned k = 0; k < task->n_events; k++)
            mem_free(task->events[k]);
        if (task->wake >= 0)
            (void)close(task->wake); /* nothing waits for it */
    }
    list_remove(&alloc->link);
    mem_free(alloc->tasks);
    mem_free(alloc->dir);
    mem_free(alloc->checks);
    arena_done(&alloc->arena);
    mem_free(alloc);
}

bool agent_task_start(struct task *task)
{
    if (task->threaded)
        (void)pthread_join(task->thread, NULL); /* the earlier thread has ended */
    task->over = false;
    task->kill = task->failed = false;
    task->state = TASK_PENDING;
    task->threaded = pthread_create(&task->thread, NULL, agent_task_run, task) == 0;
    task->over = !task->threaded;
    return task->threaded;
}

static bool make_tasks(struct alloc *alloc)
{
    const struct text_value *list = text_get(alloc->group, "Tasks");
    if (list == NULL || list->kind != TEXT_LIST || list->n == 0)
        return false;
    alloc->tasks = mem_zalloc(list->n * sizeof *alloc->tasks);
    if (alloc->tasks == NULL)
        return false;
    TEXT_FOR (spec, list) {
        struct task *task = &alloc->tasks[alloc->n_tasks++];
        *task = (struct task){.alloc = alloc, .spec = spec, .name = member_text(spec, "Name")};
        task->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        task_event(task, &(struct event){.type = "Received", .display = "Task received by client"});
    }
    return true;
}

/* Copy what the servers say of an allocation into memory of its own. */
static bool read_alloc(struct alloc *alloc, const struct text_value *said)
{
    CLEANUP(buf_done) struct buf text = {0};
    struct text_writer w = {.out = &text, .plain = true};
    text_put_value(&w, said);
    uint8_t *own = buf_status(&text) == ST_OK ? arena_dup(&alloc->arena, buf_bytes(&text)) : NULL;
    if (own == NULL ||
        text_json_parse(&alloc->arena, bytes_of(own, text.len), &alloc->spec, NULL) != ST_OK)
        return false;
    alloc->id = member_text(alloc->spec, "ID");
    alloc->name = member_text(alloc->spec, "Name");
    alloc->previous = member_text(alloc->spec, "PreviousAllocation");
    const struct text_value *groups = text_get(text_get(alloc->spec, "Job"), "TaskGroups");
    if (groups == NULL || groups->kind != TEXT_LIST)
        return false;
    TEXT_FOR (group, groups)
        if (strcmp(member_text(group, "Name"), member_text(alloc->spec, "TaskGroup")) == 0)
            alloc->group = group;
    return alloc->group != NULL && strlen(alloc->id) == AGENT_UUID_LEN;
}

static void add_alloc(const struct text_value *said)
{
    struct alloc *alloc = mem_zalloc(sizeof *alloc);
    char path[4096];
    if (alloc == NULL)
        return;
    list_push(&agent.allocs, &alloc->link);
    alloc->wanted = true;
    if (!read_alloc(alloc, said) || !make_tasks(alloc)) {
        agent_say("an allocation that the servers want cannot be read");
        for (unsigned i = 0; i < alloc->n_tasks; i++)
            alloc->tasks[i].over = true;
        free_alloc(alloc);
        return;
    }
    (void)snprintf(path, sizeof path, "%s/allocs", agent.config.data_dir);
    (void)mkdir(path, 0711); /* the next step reports a failure */
    (void)snprintf(path, sizeof path, "%s/allocs/%s", agent.config.data_dir, alloc->id);
    alloc->dir = mem_strdup(path);
    for (unsigned i = 0; i < alloc->n_tasks; i++)
        if (alloc->dir == NULL || !agent_task_start(&alloc->tasks[i])) {
            alloc->tasks[i].state = TASK_DEAD;
            alloc->tasks[i].failed = alloc->tasks[i].over = true;
        }
    alloc->checker = client_thread(agent_checks_run, alloc);
    alloc_changed(alloc);
}

static void stop_alloc(struct alloc *alloc, bool no_delay)
{
    if (alloc->stopping && (!no_delay || alloc->no_delay))
        return;
    alloc->stopping = true;
    alloc->no_delay = alloc->no_delay || no_delay;
    alloc_changed(alloc);
    for (unsigned i = 0; i < alloc->n_tasks; i++) {
        alloc->tasks[i].kill = true;
        task_poke(&alloc->tasks[i]);
    }
}

void agent_reconcile(const struct text_value *list)
{
    if (list->kind != TEXT_LIST)
        return;
    agent_lock();
    LIST_FOR (item, &agent.allocs)
        CONTAINER_OF(item, struct alloc, link)->wanted = false;
    TEXT_FOR (said, list) {
        const struct text_value *id = text_get(said, "ID");
        const struct text_value *transition = text_get(said, "DesiredTransition");
        struct alloc *alloc = id != NULL ? alloc_find(id->text) : NULL;
        bool run = strcmp(member_text(said, "DesiredStatus"), "run") == 0;
        if (alloc == NULL && id != NULL)
            add_alloc(said); /* one that shall stop is reported as ended */
        alloc = alloc != NULL || id == NULL ? alloc : alloc_find(id->text);
        if (alloc == NULL)
            continue;
        alloc->wanted = true;
        if (!run)
            stop_alloc(alloc, member_bool(transition, "NoShutdownDelay"));
    }
    LIST_FOR (item, &agent.allocs) {
        struct alloc *alloc = CONTAINER_OF(item, struct alloc, link);
        if (!alloc->wanted)
            stop_alloc(alloc, false);
    }
    agent_unlock();
}

/* Reports */

static void put_time(struct text_writer *w, const char *name, int64_t ms)
{
    if (ms != 0)
        text_member_time(w, name, ms);
    else
        text_member_str(w, name, "0001-01-01T00:00:00Z");
}

static void put_task(const struct task *task, struct text_writer *w)
{
    static const char *const states[] = {"pending", "running", "dead"};
    bool paused;
    text_key(w, task->name);
    text_open_object(w);
    text_member_str(w, "State", states[task->state]);
    text_member_bool(w, "Failed", task->failed);
    text_member_int(w, "Restarts", task->restarts);
    put_time(w, "LastRestart", task->last_restart_ms);
    put_time(w, "StartedAt", task->started_ms);
    put_time(w, "FinishedAt", task->finished_ms);
    text_member_str(w, "Paused", task_schedule(task, &paused));
    text_member_null(w, "TaskHandle");
    text_key(w, "Events");
    text_open_list(w);
    for (unsigned i = 0; i < task->n_events; i++)
        text_put_raw(w, bytes_str(task->events[i]));
    text_close(w);
    text_close(w);
}

static void alloc_put_alloc(const struct alloc *alloc, struct text_writer *w)
{
    const char *text;
    text_open_object(w);
    text_member_str(w, "ID", alloc->id);
    text_member_str(w, "ClientStatus", alloc_status(alloc, &text));
    text_member_str(w, "ClientDescription", text);
    text_key(w, "TaskStates");
    text_open_object(w);
    for (unsigned i = 0; i < alloc->n_tasks; i++)
        put_task(&alloc->tasks[i], w);
    text_close(w);
    text_key(w, "Services");
    text_open_list(w);
    if (!alloc->stopping && !alloc_ended(alloc))
        alloc_put_services(alloc, w);
    text_close(w);
    text_key(w, "Checks");
    text_put_raw(w, bytes_str(alloc->checks != NULL ? alloc->checks : "{}"));
    text_close(w);
}

/* Forget allocations that have ended, are reported, and are wanted no more. */
static void forget(void)
{
    LIST_FOR_SAFE (item, after, &agent.allocs) {
        struct alloc *alloc = CONTAINER_OF(item, struct alloc, link);
        if (!alloc->wanted && !alloc->dirty && !alloc->checker && alloc_ended(alloc))
            free_alloc(alloc);
    }
}

/* Write the changed allocations. False: there are none. The lock is held. */
static bool write_report(struct buf *body)
{
    struct text_writer w = {.out = body, .plain = true};
    unsigned n = 0;
    text_open_object(&w);
    text_key(&w, "Allocs");
    text_open_list(&w);
    LIST_FOR (item, &agent.allocs) {
        struct alloc *alloc = CONTAINER_OF(item, struct alloc, link);
        if (!alloc->dirty || n == REPORT_ALLOCS_MAX)
            continue;
        alloc->dirty = false;
        alloc_put_alloc(alloc, &w);
        n++;
    }
    text_close(&w);
    text_close(&w);
    return n != 0;
}

/* The report did not arrive: everything is reported again. */
static void mark_all(void)
{
    LIST_FOR (item, &agent.allocs)
        CONTAINER_OF(item, struct alloc, link)->dirty = true;
}

void *agent_report_run(void *unused)
{
    const struct timespec pause = {0, REPORT_MS * 1000000L};
    (void)unused;
    for (;;) {
        struct buf body = {0}, reply = {0};
        int http = 0;
        agent_lock();
        forget();
        bool changed = write_report(&body);
        agent_unlock();
        if (changed && (agent_request("POST", "client/node/status", buf_bytes(&body), &http,
                                      &reply) != ST_OK ||
                        (http != 200 && http != 404))) {
            agent_say("a report was not taken: %d %.*s", http, (int)MIN(reply.len, (size_t)200),
                      (const char *)reply.data);
            agent_lock();
            mark_all();
            agent_unlock();
        }
        buf_done(&body);
        buf_done(&reply);
        (void)nanosleep(&pause, NULL); /* a shorter pause does no harm */
    }
    return NULL;
}
