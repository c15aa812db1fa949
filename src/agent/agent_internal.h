/* Shared by the files of the agent.
 *
 *   main thread    join, register; then the work: what the servers want is what runs
 *   beat thread    says that the node lives
 *   report thread  sends changed allocations, in batches
 *   link threads   one for each server: calls, and requests for sessions
 *   task threads   one for each task: starts the process, waits for its end, restarts it
 *   log threads    one for each run of a process: copies its output into files
 *
 * `agent.lock` guards every allocation and task. A thread never holds it while it waits. */
#ifndef HOLDFAST_AGENT_AGENT_INTERNAL_H
#define HOLDFAST_AGENT_AGENT_INTERNAL_H

#include "agent/agent.h"
#include "base/list.h"
#include "client/client.h"

#include <pthread.h>
#include <signal.h>

enum {
    AGENT_EVENTS_MAX = 10,
    AGENT_UUID_LEN = 36,
    AGENT_KILL_MS_MAX = 30000,
    AGENT_SESSIONS_MAX = 64,
};

struct agent_config {
    struct field_strings servers;
    const char *ca_file, *join_token_file, *data_dir, *name, *datacenter, *node_class, *address;
    struct field_map meta;
    bool raw_exec;
    int64_t cpu, memory_mb, disk_mb;
};

enum task_state { TASK_PENDING, TASK_RUNNING, TASK_DEAD };

struct alloc;

struct task {
    struct alloc *alloc;
    const char *name;
    const struct text_value *spec;
    enum task_state state;
    bool failed, kill, restart, rerun; /* `kill`: for good */
    bool paused;                       /* the schedule or an override keeps it from running */
    const char *override;              /* "pause", "run" or NULL */
    int64_t started_ms, finished_ms, last_restart_ms;
    unsigned restarts, runs;
    char *events[AGENT_EVENTS_MAX];
    unsigned n_events;
    pid_t pid;      /* 0: no process */
    int wake;       /* eventfd: `kill` or `restart` was set */
    unsigned tries; /* of the restart policy, since `tries_since_ms` */
    int64_t tries_since_ms;
    pthread_t thread;
    bool threaded, over; /* the thread was started; it has ended */
};

struct alloc {
    struct list link;
    struct arena arena;
    const struct text_value *spec; /* as the servers gave it */
    const struct text_value *group;
    const char *id, *name, *previous;
    char *dir;
    struct task *tasks;
    unsigned n_tasks;
    uint64_t index; /* AllocModifyIndex */
    bool stopping, no_delay;
    bool dirty, wanted; /* to be reported; in the newest list of the servers */
    char *checks;       /* JSON: results */
    bool checker;       /* the thread of checks runs */
};

struct agent {
    struct agent_config config;
    struct arena arena;
    char node[AGENT_UUID_LEN + 1], secret[AGENT_UUID_LEN + 1];
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a task or an allocation changed */
    struct list allocs;
    unsigned sessions;
    struct client client;
};
extern struct agent agent;

void agent_lock(void);
void agent_unlock(void);
/* Wait for a change of any task, `ms` at most. The lock is held. */
void agent_wait(unsigned ms);
#define agent_say(...) client_say("agent", __VA_ARGS__)

/* agent_http.c: one request to any server that answers. ST_IO: none does. */
/* The index of the last list of work. */
uint64_t agent_last_index(void);
NODISCARD enum status agent_request(const char *method, const char *path, struct bytes body,
                                    int *ret_http, struct buf *ret_body);

/* agent_stream.c: connections that become WebSockets. */
struct stream;
NODISCARD enum status stream_open(const char *server, const char *path, struct stream **ret_stream);
void stream_close(struct stream *stream);
int stream_fd(const struct stream *stream);
/* Read what there is. ST_OK with *ret_n 0: nothing yet; ST_CLOSED. */
NODISCARD enum status stream_read(struct stream *stream, void *to, size_t room, size_t *ret_n);
/* Write what the socket takes, and consume it. ST_CLOSED. */
NODISCARD enum status stream_write(struct stream *stream, struct buf *from);

/* agent_link.c */
void *agent_link_run(void *server);
/* agent_exec.c: carry out a session; `body` is freed. */
struct session {
    const char *server;
    char id[AGENT_UUID_LEN + 1];
    struct buf body;
};
void *agent_exec_run(void *session);

/* agent_alloc.c. The lock is held. */
struct alloc *alloc_find(struct bytes id);
struct task *task_find(struct alloc *alloc, const char *name);
void alloc_changed(struct alloc *alloc);
bool alloc_ended(const struct alloc *alloc);
const char *alloc_status(const struct alloc *alloc, const char **ret_text);
void task_poke(struct task *task);
/* Start the thread of a task, or start it anew after its end. False: no memory. */
bool agent_task_start(struct task *task);
/* Take what the servers want. The lock is not held. */
void agent_reconcile(const struct text_value *list);
void *agent_report_run(void *unused);

/* agent_event.c: add an event to a task; the lock is held. Details repeat the typed fields. */
struct event {
    const char *type, *display, *message;
    int exit_code, signal;
    int64_t start_delay_ns, kill_timeout_ns;
    const char *restart_reason, *driver_error, *setup_error, *kill_error, *failed_sibling;
    const char *task_signal, *signal_name;
    bool exits, fails;
};
void task_event(struct task *task, const struct event *event);

/* agent_task.c: the task of a thread; the number of a signal, SIGINT for an unknown name. */
int agent_signal_of(const char *name);
void *agent_task_run(void *task);
/* agent_env.c: the environment and the texts of a task, in `arena`. */
char **task_env(struct arena *arena, const struct task *task);
const char *task_expand(struct arena *arena, char *const *env, const char *text);
const char *task_dir(struct arena *arena, const struct task *task);
bool task_make_dirs(const struct task *task);
/* The port with a label; 0: none. */
int64_t alloc_port(const struct alloc *alloc, const char *label, const char **ret_address);
/* agent_log.c: copy a run's output; takes over the descriptors. */
bool agent_log_start(struct task *task, int out, int err);
/* agent_check.c */
void *agent_checks_run(void *alloc);
void alloc_put_services(const struct alloc *alloc, struct text_writer *w);
/* agent_pause.c: whether a task may not run now, and its ScheduleState. The lock is held. */
const char *task_schedule(const struct task *task, bool *ret_paused);
/* agent_call.c: carry out a call; writes the body, returns the HTTP status. */
int agent_call(const char *name, const struct text_value *body, struct buf *out);

#endif
