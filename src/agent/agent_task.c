/* One task (B12), on a thread of its own:
 *
 *   PENDING ──start──▶ RUNNING ──end, policy allows──▶ PENDING (after a delay)
 *      │ start failed      │ end, policy forbids; killed
 *      └───────▶ DEAD ◀────┘
 *
 * A restart that a user asked for, and a pause by schedule, lead from RUNNING to PENDING and spend
 * no attempt of the policy. */
#include "agent/agent_internal.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOOK_MS = 200, ARGS_MAX = 1024, RESTART_MS_MIN = 100 };

enum ending { END_EXIT, END_KILL, END_RESTART, END_PAUSE };

static void set_state(struct task *task, enum task_state state)
{
    task->state = state;
    alloc_changed(task->alloc);
}

/* Starting */

/* The program and its arguments, from Config. NULL with a reason. */
static char **arguments(struct arena *arena, const struct task *task, char *const *env,
                        const char *dir, struct reason *why)
{
    const struct text_value *config = text_get(task->spec, "Config");
    const struct text_value *args = text_get(config, "args");
    const char *command = task_expand(arena, env, member_text(config, "command"));
    char **argv = arena_zalloc(arena, (ARGS_MAX + 2) * sizeof *argv);
    size_t n = 0;
    if (command == NULL || command[0] == '\0' || argv == NULL) {
        reason_set(why, "missing command in the task's config");
        return NULL;
    }
    const char *path = client_program(arena, env, dir, command);
    if (path == NULL) {
        reason_set(why, "no executable file \"%.128s\" was found", command);
        return NULL;
    }
    argv[n++] = (char *)(uintptr_t)path;
    if (args != NULL && args->kind == TEXT_LIST)
        TEXT_FOR (arg, args) {
            const char *text = arg->kind == TEXT_STRING && n <= ARGS_MAX
                                   ? task_expand(arena, env, (const char *)arg->text.data)
                                   : NULL;
            if (text == NULL) {
                reason_set(why, "args: a list of at most %d strings is expected", ARGS_MAX);
                return NULL;
            }
            argv[n++] = (char *)(uintptr_t)text;
        }
    return argv;
}

/* Start the process with its log. */
static enum status launch(const struct task *task, pid_t *ret_pid, struct reason *why)
{
    CLEANUP(arena_done) struct arena arena = {0};
    char **env = task_env(&arena, task);
    const char *dir = task_dir(&arena, task);
    int out[2] = {-1, -1}, err[2] = {-1, -1}, nothing;
    if (strcmp(member_text(task->spec, "Driver"), "raw_exec") != 0 || !agent.config.raw_exec) {
        reason_set(why, "the driver \"%.32s\" is not enabled", member_text(task->spec, "Driver"));
        return ST_INVALID;
    }
    if (env == NULL || dir == NULL || !task_make_dirs(task)) {
        reason_set(why, "the task's folders could not be made: %s", strerror(errno));
        return ST_IO;
    }
    char **argv = arguments(&arena, task, env, dir, why);
    if (argv == NULL)
        return ST_INVALID;
    nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing < 0 || pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) {
        reason_set(why, "no descriptors: %s", strerror(errno));
        return ST_IO; /* descriptors that were opened end with the agent */
    }
    const struct spawn spawn = {.path = argv[0],
                                .dir = dir,
                                .user = member_text(task->spec, "User"),
                                .argv = argv,
                                .env = env,
                                .in = nothing,
                                .out = out[1],
                                .err = err[1]};
    enum status st = client_spawn(&spawn, ret_pid, why);
    (void)close(nothing); /* the child has its own */
    (void)close(out[1]);
    (void)close(err[1]);
    if (st != ST_OK) {
        (void)close(out[0]); /* nothing was written */
        (void)close(err[0]);
        return st;
    }
    if (!agent_log_start((struct task *)(uintptr_t)task, out[0], err[0]))
        agent_say("task %s: its output is lost: no memory", task->name);
    return ST_OK;
}

/* Ending */

static void drain(int fd)
{
    uint64_t count;
    (void)!read(fd, &count, sizeof count); /* the counter is 0 then */
}

/* Wait until the process ends, or something is wanted of it. The lock is held, but not while
 * waiting. */
static enum ending task_watch(struct task *task, int pidfd)
{
    for (;;) {
        bool paused;
        (void)task_schedule(task, &paused);
        if (task->kill)
            return END_KILL;
        if (task->restart)
            return END_RESTART;
        if (paused)
            return END_PAUSE;
        struct pollfd fds[2] = {{.fd = pidfd, .events = POLLIN},
                                {.fd = task->wake, .events = POLLIN}};
        agent_unlock();
        int n = poll(fds, 2, LOOK_MS);
        agent_lock();
        if (n > 0 && fds[1].revents != 0)
            drain(task->wake);
        if (n > 0 && fds[0].revents != 0)
            return END_EXIT;
    }
}

static int signal_number(const char *name)
{
    static const struct {
        const char *name;
        int number;
    } signals[] = {{"SIGHUP", SIGHUP},   {"SIGINT", SIGINT},   {"SIGQUIT", SIGQUIT},
                   {"SIGKILL", SIGKILL}, {"SIGUSR1", SIGUSR1}, {"SIGUSR2", SIGUSR2},
                   {"SIGPIPE", SIGPIPE}, {"SIGALRM", SIGALRM}, {"SIGTERM", SIGTERM},
                   {"SIGCONT", SIGCONT}, {"SIGSTOP", SIGSTOP}, {"SIGTSTP", SIGTSTP},
                   {"SIGABRT", SIGABRT}, {"SIGTRAP", SIGTRAP}, {"SIGWINCH", SIGWINCH},
                   {"SIGIO", SIGIO},     {"SIGURG", SIGURG},   {"SIGCHLD", SIGCHLD}};
    for (size_t i = 0; i < ARRAY_LEN(signals); i++)
        if (strcmp(name, signals[i].name) == 0)
            return signals[i].number;
    return SIGINT;
}

int agent_signal_of(const char *name)
{
    return signal_number(name);
}

/* Wait until the process has ended, `ms` at most. The lock is held, but not while waiting. */
static bool ends_within(int pidfd, int64_t ms)
{
    struct pollfd fd = {.fd = pidfd, .events = POLLIN};
    agent_unlock();
    int n = poll(&fd, 1, (int)ms);
    agent_lock();
    return n > 0;
}

/* Wait for the shutdown delay, unless the process ends or the delay is called off. */
static bool delay(struct task *task, int pidfd)
{
    int64_t left_ms = (member_int(task->spec, "ShutdownDelay") +
                       member_int(task->alloc->group, "ShutdownDelay")) /
                      1000000;
    if (left_ms == 0 || task->alloc->no_delay)
        return false;
    task_event(task, &(struct event){.type = "Waiting for shutdown delay",
                                     .display = "Waiting for shutdown_delay to elapse"});
    uint64_t until_ms = client_mono_ms() + (uint64_t)left_ms;
    while (client_mono_ms() < until_ms && !task->alloc->no_delay)
        if (ends_within(pidfd, MIN((int64_t)(until_ms - client_mono_ms()), INT64_C(100))))
            return true;
    return false;
}

/* Ask the process to end, then end it. */
static void stop(struct task *task, int pidfd, bool for_good)
{
    int64_t timeout_ms =
        MIN(member_int(task->spec, "KillTimeout") / 1000000, (int64_t)AGENT_KILL_MS_MAX);
    int number = signal_number(member_text(task->spec, "KillSignal"));
    char text[96];
    if (for_good && delay(task, pidfd))
        return;
    (void)snprintf(text, sizeof text, "Sent interrupt. Waiting %llds before force killing",
                   (long long)(timeout_ms / 1000));
    task_event(task, &(struct event){.type = "Killing",
                                     .display = text,
                                     .kill_timeout_ns = timeout_ms * 1000000});
    (void)kill(task->pid, number); /* the process may have ended already */
    if (ends_within(pidfd, timeout_ms))
        return;
    (void)kill(-task->pid, SIGKILL);             /* the group may be empty */
    (void)ends_within(pidfd, AGENT_KILL_MS_MAX); /* the kernel ends it */
}

/* End what the process left in its session, and take its exit status. */
static void task_reap(struct task *task, int *ret_code, int *ret_signal)
{
    int status = 0;
    (void)kill(-task->pid, SIGKILL); /* the group may be empty */
    pid_t pid = task->pid;
    agent_unlock();
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    agent_lock();
    task->pid = 0;
    *ret_signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    *ret_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* Restart policy */

static void go_duration(int64_t ns, char *text, size_t room)
{
    int64_t s = ns / 1000000000;
    if (s >= 3600)
        (void)snprintf(text, room, "%lldh%lldm%llds", (long long)(s / 3600),
                       (long long)(s / 60 % 60), (long long)(s % 60));
    else if (s >= 60)
        (void)snprintf(text, room, "%lldm%llds", (long long)(s / 60), (long long)(s % 60));
    else
        (void)snprintf(text, room, "%gs", (double)ns / 1e9);
}

static const struct text_value *policy_of(const struct task *task)
{
    const struct text_value *own = text_get(task->spec, "RestartPolicy");
    return own != NULL && own->kind == TEXT_OBJECT ? own
                                                   : text_get(task->alloc->group, "RestartPolicy");
}

static void give_up(struct task *task, const char *why)
{
    task->failed = true;
    task_event(task,
               &(struct event){
                   .type = "Not Restarting", .display = why, .restart_reason = why, .fails = true});
}

/* Wait before the next start, unless the task is killed or restarted. */
static void wait_restart(struct task *task, int64_t ms, const char *why)
{
    char wait[32], text[96];
    go_duration(ms * 1000000, wait, sizeof wait);
    (void)snprintf(text, sizeof text, "Task restarting in %s", wait);
    task->restarts++;
    task->last_restart_ms = client_now_ms();
    set_state(task, TASK_PENDING);
    task_event(task, &(struct event){.type = "Restarting",
                                     .display = text,
                                     .start_delay_ns = ms * 1000000,
                                     .restart_reason = why});
    uint64_t until_ms = client_mono_ms() + (uint64_t)ms;
    while (!task->kill && !task->restart && client_mono_ms() < until_ms)
        agent_wait((unsigned)MIN(until_ms - client_mono_ms(), (uint64_t)LOOK_MS));
    task->restart = false;
}

/* The process ended by itself. False: the task is over. */
static bool restart_by_policy(struct task *task, int code)
{
    const struct text_value *policy = policy_of(task), *job = text_get(task->alloc->spec, "Job");
    int64_t attempts = member_int(policy, "Attempts"), interval = member_int(policy, "Interval");
    int64_t now_ms = client_now_ms(), wait_ms = member_int(policy, "Delay") / 1000000;
    char why[160], text[64];
    if (code == 0 && strcmp(member_text(job, "Type"), "batch") == 0)
        return false;
    if (attempts == 0) {
        give_up(task, "Policy allows no restarts");
        return false;
    }
    if (task->tries_since_ms == 0 || now_ms - task->tries_since_ms > interval / 1000000) {
        task->tries_since_ms = now_ms;
        task->tries = 0;
    }
    if (++task->tries > attempts) {
        bool fails = strcmp(member_text(policy, "Mode"), "delay") != 0;
        go_duration(interval, text, sizeof text);
        (void)snprintf(why, sizeof why,
                       "Exceeded allowed attempts %lld in interval %s and mode is \"fail\"",
                       (long long)attempts, text);
        if (fails) {
            give_up(task, why);
            return false;
        }
        wait_restart(task, MAX(task->tries_since_ms + interval / 1000000 - now_ms, INT64_C(0)),
                     "Exceeded allowed attempts, applying a delay");
        return true;
    }
    wait_ms += (int64_t)(drand48() * 0.25 * (double)wait_ms);
    wait_restart(task, MAX(wait_ms, (int64_t)RESTART_MS_MIN), "Restart within policy");
    return true;
}

/* The run of a task */

/* Keep the task from running while its schedule or an override says so. */
static void wait_window(struct task *task)
{
    bool paused;
    const char *why = task_schedule(task, &paused);
    if (!paused)
        return;
    task->paused = true;
    task_event(task, &(struct event){.type = "Pausing",
                                     .display = strcmp(why, "force_pause") == 0
                                                    ? "Pausing due to override"
                                                    : "Pausing due to schedule"});
    while (paused && !task->kill) {
        agent_wait(LOOK_MS);
        why = task_schedule(task, &paused);
    }
    task->paused = false;
    task->restart = false;
    if (!task->kill)
        task_event(task, &(struct event){.type = "Running",
                                         .display = strcmp(why, "force_run") == 0
                                                        ? "Running due to override"
                                                        : "Running due to schedule"});
}

static void report_end(struct task *task, int code, int number)
{
    char text[64];
    if (number != 0)
        (void)snprintf(text, sizeof text, "Exit Code: %d, Signal: %d", code, number);
    else
        (void)snprintf(text, sizeof text, "Exit Code: %d", code);
    task_event(task, &(struct event){.type = "Terminated",
                                     .display = text,
                                     .exit_code = code,
                                     .signal = number,
                                     .exits = true});
}

/* Start the process. False: it failed, and the task is over. */
static bool task_begin(struct task *task)
{
    struct reason why = {{0}};
    pid_t pid = 0;
    agent_unlock();
    enum status st = launch(task, &pid, &why);
    agent_lock();
    if (st != ST_OK) {
        task->failed = true;
        task_event(task, &(struct event){.type = "Driver Failure",
                                         .display = why.text,
                                         .driver_error = why.text});
        give_up(task, "Error was unrecoverable");
        return false;
    }
    task->pid = pid;
    task->runs++;
    task->started_ms = client_now_ms();
    set_state(task, TASK_RUNNING);
    task_event(task, &(struct event){.type = "Started", .display = "Task started by client"});
    return true;
}

/* One run of the process. False: the task is over. */
static bool run_once(struct task *task)
{
    int code = 0, number = 0;
    task->restart = false;
    if (!task_begin(task))
        return false;
    int pidfd = (int)syscall(SYS_pidfd_open, task->pid, 0);
    enum ending end = pidfd >= 0 ? task_watch(task, pidfd) : END_KILL;
    if (end != END_EXIT)
        stop(task, pidfd, end == END_KILL);
    task_reap(task, &code, &number);
    if (pidfd >= 0)
        (void)close(pidfd); /* the process has ended */
    report_end(task, code, number);
    switch (end) {
    case END_KILL:
        task_event(task, &(struct event){.type = "Killed", .display = "Task successfully killed"});
        return false;
    case END_RESTART: wait_restart(task, 0, ""); return true;
    case END_PAUSE: set_state(task, TASK_PENDING); return true;
    default: return restart_by_policy(task, code);
    }
}

/* The allocation that this one replaces still runs here. */
static bool must_wait(const struct task *task)
{
    const struct alloc *before = alloc_find(bytes_str(task->alloc->previous));
    return before != NULL && !alloc_ended(before);
}

/* End the other tasks of an allocation that has lost one. */
static void end_siblings(struct task *task)
{
    struct alloc *alloc = task->alloc;
    bool leader = member_bool(task->spec, "Leader");
    char text[160];
    if (!task->failed && !leader)
        return;
    (void)snprintf(text, sizeof text, "Task's sibling \"%.64s\" failed", task->name);
    for (unsigned i = 0; i < alloc->n_tasks; i++) {
        struct task *other = &alloc->tasks[i];
        if (other == task || other->state == TASK_DEAD)
            continue;
        task_event(other, task->failed ? &(struct event){.type = "Sibling Task Failed",
                                                         .display = text,
                                                         .failed_sibling = task->name}
                                       : &(struct event){.type = "Leader Task Dead",
                                                         .display = "Leader Task in Group dead"});
        other->kill = true;
        task_poke(other);
    }
}

void *agent_task_run(void *ctx)
{
    struct task *task = ctx;
    agent_lock();
    while (!task->kill && must_wait(task))
        agent_wait(LOOK_MS);
    task_event(task, &(struct event){.type = "Task Setup",
                                     .display = "Building Task Directory",
                                     .message = "Building Task Directory"});
    for (bool more = true; more && !task->kill;) {
        wait_window(task);
        more = !task->kill && run_once(task);
    }
    task->finished_ms = client_now_ms();
    set_state(task, TASK_DEAD);
    end_siblings(task);
    task->over = true;
    (void)pthread_cond_broadcast(&agent.changed); /* the lock is held */
    agent_unlock();
    return NULL;
}
