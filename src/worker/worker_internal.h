/* Shared by the files of the worker.
 *
 *   main thread      registers, waits for jobs, claims one, carries it out
 *   heartbeat thread says that the worker lives
 *   lease thread     one for the job under way: renews its lease, hears that it is canceled
 *   log thread       one for the job under way: sends its log
 *
 * A job belongs to the main thread. Other threads reach it through its atomics, and its log through
 * the lock of the log. Processes are started by the main thread: they end with it. */
#ifndef HOLDFAST_WORKER_WORKER_INTERNAL_H
#define HOLDFAST_WORKER_WORKER_INTERNAL_H

#include "client/client.h"
#include "worker/worker.h"
#include "worker/worker_vars.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    WORKER_ID_MAX = 64,
    WORKER_TOOLS_MAX = 16,
    WORKER_CLAIM_LEN = 32,
    WORKER_PIECE_BYTES = 64 * 1024, /* of a log, in one request */
    WORKER_SHA256_HEX = 64,
};

struct worker_config {
    struct field_strings servers, tools;
    const char *ca_file, *token_file, *data_dir, *name, *plugin_cache_dir;
    bool unsandboxed;
    uint64_t unpacked_bytes_max;
    int64_t stop_s;
};

/* A program that plans and applies. */
struct tool {
    const char *path, *kind; /* "terraform" or "tofu" */
    const char *version;     /* "1.11.4" */
    char sha256[WORKER_SHA256_HEX + 1];
};

struct worker {
    struct worker_config config;
    struct arena arena;
    struct client client;
    char *header;              /* the agent token, as a header */
    char agent[WORKER_ID_MAX]; /* the id of this worker */
    struct tool tools[WORKER_TOOLS_MAX];
    size_t n_tools;
    int64_t lease_s, renew_s, heartbeat_s, log_bytes_max, file_bytes_max;
    _Atomic bool busy, over, unknown; /* `unknown`: the servers do not know the agent */
};
extern struct worker worker;

#define worker_say(...) client_say("worker", __VA_ARGS__)
/* Start a thread that is joined. False: the system has no room for a thread. */
NODISCARD bool worker_thread(pthread_t *ret_thread, void *(*run)(void *), void *ctx);

/* The servers' wish for the job under way. It only rises. */
enum order { ORDER_GO, ORDER_CANCEL, ORDER_KILL, ORDER_LOST };

/* Why a job was stopped before its end. */
enum stop { STOP_NONE, STOP_CANCEL, STOP_KILL, STOP_TIMEOUT, STOP_END, STOP_LOST };

/* The bytes of a job that no server has yet. */
struct job_log {
    pthread_mutex_t lock;
    pthread_cond_t more;
    struct buf text;
    uint64_t offset; /* of the first byte of `text` in the log */
    bool begun, closing, broken, in_line;
    pthread_t thread;
};

struct job {
    struct arena arena;
    const struct text_value *spec; /* as the servers gave it */
    const char *id, *run, *workspace;
    char claim[WORKER_CLAIM_LEN + 1];
    bool apply;
    const struct tool *tool;
    const char *dir;    /* of the job; below it: */
    const char *config; /* the configuration */
    const char *work;   /* the folder in the configuration in which the tool runs */
    char *const *env;
    uint64_t end_ms; /* the job may not last longer, by client_mono_ms */
    enum stop stop;
    struct reason why; /* for the message of the end */
    struct buf state;  /* the state that the phase began with */
    struct job_log log;

    pthread_t lease;
    bool leased;
    int wake; /* eventfd: `order` has changed */
    _Atomic int order;
    _Atomic bool over;              /* the lease thread ends */
    _Atomic uint64_t lease_from_ms; /* of the last renewal, by client_mono_ms */
    pthread_mutex_t lock;
    pthread_cond_t done; /* with `lock`: `over` was set */
};

/* worker_call.c: requests. */

/* One try with every server. ST_IO: none gave a usable reply. */
NODISCARD enum status worker_ask(struct client_call *call, struct buf *ret_reply);
/* A request of the job to ".../jobs/ID/`what`", tried until a server decides. `body` is JSON unless
 * `type` says otherwise. ST_CLOSED: the job is no longer this worker's, and its order says so.
 * ST_REFUSED: the request is wrong; the reason has the text of the server. */
NODISCARD enum status job_ask(struct job *job, const char *method, const char *what,
                              const char *type, struct bytes body, struct buf *ret_reply,
                              struct reason *why);
/* A request to a whole URL or path, with `header` (NULL: none), tried in the same way. */
NODISCARD enum status job_ask_url(struct job *job, struct client_call *call, struct buf *ret_reply,
                                  struct reason *why);
/* Begin a JSON object that has the claim. */
void job_body_begin(const struct job *job, struct text_writer *w);

/* worker_lease.c */

NODISCARD bool job_lease_start(struct job *job);
void job_lease_end(struct job *job);
/* Raise the order of a job. Any thread. */
void job_order(struct job *job, enum order order);
/* The job is to be given up: the lease ended, or ends within `before_ms`. */
bool job_is_lost(const struct job *job, uint64_t before_ms);

/* worker_log.c */

NODISCARD bool job_log_start(struct job *job);
/* Append. Bytes that end a log for clients (0x02, 0x03) are replaced. Main thread. */
void job_log_add(struct job *job, struct bytes text);
/* Append one line of the worker's own. */
void job_log_line(struct job *job, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* End the last line, and wait until a server has all, or the job is lost. */
void job_log_end(struct job *job);

/* worker_process.c */

/* Run the program argv[0] in job->work to its end. Both outputs go to the log; with `capture` the
 * standard output goes there instead, at most `max` bytes. Cancellation, the end of the time, of
 * the lease and of the worker interrupt the process, then kill it; job->stop says so. Whatever the
 * process started ends with it.
 *
 * ST_OK with the exit code, 128 + N for signal N. ST_CLOSED: job->stop was set before the start.
 * ST_TOO_BIG: more output than `max`. ST_IO, ST_NOMEM with a reason. */
NODISCARD enum status worker_process(struct job *job, const char *const *argv, struct buf *capture,
                                     size_t max, int *ret_code, struct reason *why);
/* Whether the job is to be stopped now; sets job->stop. */
bool job_must_stop(struct job *job);

/* worker_folder.c */

/* Make the folders and files that the tool needs. ST_CLOSED: stopped. Else a reason. */
NODISCARD enum status job_prepare(struct job *job);
/* Remove a folder and all that is in it, following no link. False: something stays. */
bool worker_wipe(const char *path);
/* A path below the folder of the job, in its arena; NULL: no memory. */
char *job_path(struct job *job, const char *name);
/* Write a new file that this user alone reads. */
NODISCARD enum status job_write(const char *path, struct bytes text, struct reason *why);

/* worker_state.c */

/* After an apply, whatever became of it: hand in the state if the tool changed it. It is kept on
 * disk first, and removed when a server has it. ST_OK; else a reason that says where it is. */
NODISCARD enum status job_hand_in_state(struct job *job, struct reason *why);
/* At the start: keep the states of jobs that an earlier process left behind, and wipe their
 * folders.
 */
void worker_collect_left_behind(void);

/* worker_plan.c: the JSON form of a plan. */

struct plan_facts {
    int64_t additions, changes, destructions, imports;
};
/* ST_INVALID, ST_TOO_BIG: not as the tool writes it. */
NODISCARD enum status worker_plan_count(struct bytes json, struct plan_facts *ret_facts);
/* Append what the command line renders: `plan` without sensitive values, and `schemas`, the output
 * of `providers schema -json`. ST_INVALID, ST_TOO_BIG, ST_NOMEM. */
NODISCARD enum status worker_plan_redact(struct bytes plan, struct bytes schemas, struct buf *out);

/* worker_phase.c: a phase from its first to its last step. Sets job->why on failure. */

struct phase_end {
    struct plan_facts facts;
    bool has_changes, generated;
};
NODISCARD enum status job_phase(struct job *job, struct phase_end *ret_end);

/* worker_job.c: carry out a claimed job; `spec` is the reply to the claim. */
void worker_job(const char *id, const char *claim, uint64_t claimed_ms, struct bytes spec);

/* worker_tool.c */

/* Find the programs of the configuration and their versions. ST_NOT_FOUND: there is none. */
NODISCARD enum status worker_find_tools(struct reason *why);
/* The tool of a job. NULL with a reason. */
const struct tool *worker_tool(const char *kind, const char *version, struct reason *why);

#endif
