/* The service that saves snapshots by a schedule, on the active node.
 *
 *   WAITING ──a snapshot is due──▶ record its begin ─▶ save, verify, rename ─▶ record its end
 *      ▲                                                                          │
 *      └──────────────── delete the oldest, or the new one if the end was refused ◀┘
 *
 * Both records are refused after the node stopped being active (node/service.h). A snapshot whose
 * end is refused is deleted again. A node that dies, or that does not learn whether its end was
 * recorded, leaves the file. The next active node finds a begin without an end, makes the snapshot
 * instead, and then deletes the file of that begin if the nodes share the folder. So one snapshot
 * is kept for a slot, whichever nodes were active in it. Only if the next attempt fails too, the
 * file that was left stays, until it is among the oldest. */
#include "api/members/members_autosnap.h"
#include "base/trace.h"
#include "loop/loop_fs.h"
#include "node/service.h"

#include <stdatomic.h>
#include <stdio.h>

enum { POLL_MS = 500, BUSY_MS = 1000 };

static struct {
    _Atomic uint64_t saved, failed, failing;
    _Atomic int64_t good_ms;
} figures;

void members_autosnap_metrics(struct metric_out *out)
{
    metric_one(out, "holdfast_snapshot_auto_saved_total", METRIC_COUNTER,
               "Snapshots by a schedule that this node has saved.", atomic_load(&figures.saved));
    metric_one(out, "holdfast_snapshot_auto_failures_total", METRIC_COUNTER,
               "Snapshots by a schedule that failed on this node.", atomic_load(&figures.failed));
    metric_one(out, "holdfast_snapshot_auto_failing", METRIC_GAUGE,
               "Configurations whose last snapshot failed; 0 on a standby.",
               atomic_load(&figures.failing));
    metric_one(out, "holdfast_snapshot_auto_last_success_timestamp_seconds", METRIC_GAUGE,
               "When this node began its last good snapshot by a schedule; 0: never.",
               (uint64_t)(atomic_load(&figures.good_ms) / 1000));
}

/* One snapshot: a copy of what the transaction found, because its arena ends with it. */
struct task {
    bool found;
    uint64_t failing; /* configurations whose last snapshot failed */
    char name[AUTOSNAP_NAME_MAX + 1];
    char path[AUTOSNAP_PATH_MAX + 1], prefix[SNAPSHOT_PREFIX_MAX + 1];
    uint64_t retain, bytes_max;
    int64_t due_ms, begun_ms;
    int64_t left_ms; /* begin of an earlier snapshot whose end was not recorded; 0: none */
    const char *node;

    enum status st; /* how it ended */
    struct reason why;
    char file[SNAPSHOT_NAME_MAX + 1];
    int64_t end_ms;
};

/* A text that its writer has bounded. */
static void copy(char *room, size_t bytes, const char *from)
{
    int n = snprintf(room, bytes, "%s", from);
    ASSERT(n >= 0 && (size_t)n < bytes);
}

/* Choose this configuration if it is due for longer than the chosen one. */
static enum status consider(struct state_txn *txn, struct task *task, const char *name,
                            int64_t now_ms)
{
    struct members_autosnap_status status;
    struct members_autosnap config;
    enum status st = members_autosnap_load(txn, name, &config);
    if (st == ST_NOT_FOUND)
        return ST_OK;
    TRY(st);
    ASSERT(config.interval > 0);
    TRY(members_autosnap_load_status(txn, name, &status));
    task->failing += status.failures != 0;
    int64_t due_ms = members_autosnap_due_ms(&config, &status);
    if (due_ms > now_ms || (task->found && due_ms >= task->due_ms))
        return ST_OK;
    task->found = true;
    task->due_ms = due_ms;
    task->retain = (uint64_t)config.retain;
    task->bytes_max = config.local_max_space;
    copy(task->name, sizeof task->name, name);
    copy(task->path, sizeof task->path, config.path_prefix);
    copy(task->prefix, sizeof task->prefix, config.file_prefix);
    return ST_OK;
}

static enum status choose(struct state_txn *txn, struct task *task, int64_t now_ms)
{
    struct state_walk *walk = arena_alloc(txn->arena, sizeof *walk);
    unsigned n = 0;
    ASSERT(txn->open);
    if (walk == NULL)
        return ST_NOMEM;
    task->found = false;
    task->failing = 0;
    task->begun_ms = task->left_ms = 0;
    state_walk(txn, BYTES(AUTOSNAP_CONFIGS), walk);
    while (state_walk_next(walk) && n++ < AUTOSNAP_MAX) {
        const char *name = arena_str(txn->arena, bytes_from(walk->key, strlen(AUTOSNAP_CONFIGS)));
        if (name == NULL)
            return ST_NOMEM;
        TRY(consider(txn, task, name, now_ms));
    }
    return ST_OK;
}

/* Stage the begin of the snapshot that has been due for longest, if there is one. */
static enum status stage_begin(struct state_txn *txn, void *ctx, int64_t now_ms)
{
    struct task *task = ctx;
    struct members_autosnap_status status;
    struct members_autosnap config;
    TRY(choose(txn, task, now_ms));
    if (!task->found || now_ms <= 0) /* 0: this node has no cluster time yet */
        return ST_OK;
    TRY(members_autosnap_load(txn, task->name, &config));
    TRY(members_autosnap_load_status(txn, task->name, &status));
    if (status.running) { /* by an active node before this one, or before a failed record */
        const char *error =
            arena_format(txn->arena, "node %s did not finish the snapshot", status.begun_node);
        if (error == NULL)
            return ST_NOMEM;
        task->left_ms = status.begun_ms;
        members_autosnap_fail(&status, &config, error, now_ms);
        status.retry_ms = 0;
    }
    ASSERT(!status.running);
    task->begun_ms = MAX(now_ms, status.begun_ms + 1); /* names of files differ */
    status.running = true;
    status.begun_ms = task->begun_ms;
    status.begun_node = task->node;
    return members_autosnap_save_status(txn, task->name, &status);
}

/* The file as clients know it. NULL without memory. */
static const char *url_of(struct arena *arena, const struct task *task)
{
    size_t len = strlen(task->path);
    return arena_format(arena, "file://%s%s%s", task->path, task->path[len - 1] == '/' ? "" : "/",
                        task->file);
}

static enum status stage_end(struct state_txn *txn, void *ctx, int64_t now_ms)
{
    struct task *task = ctx;
    struct members_autosnap_status status;
    struct members_autosnap config;
    ASSERT(task->found && task->begun_ms != 0);
    enum status st = members_autosnap_load(txn, task->name, &config);
    if (st == ST_NOT_FOUND) /* deleted meanwhile */
        return ST_OK;
    TRY(st);
    TRY(members_autosnap_load_status(txn, task->name, &status));
    if (!status.running || status.begun_ms != task->begun_ms) /* deleted and made again */
        return ST_OK;
    int64_t end_ms = MAX(now_ms, task->begun_ms);
    const char *url = url_of(txn->arena, task);
    if (url == NULL)
        return ST_NOMEM;
    if (task->st == ST_OK) {
        members_autosnap_succeed(&status, &config, url, end_ms);
    } else if (task->st == ST_BUSY) { /* no failure: a save or a restore by request runs */
        status.running = false;
        status.retry_ms = end_ms + BUSY_MS;
    } else {
        members_autosnap_fail(&status, &config, task->why.text, end_ms);
    }
    return members_autosnap_save_status(txn, task->name, &status);
}

static bool asked(void *ctx)
{
    return service_asked(ctx);
}

/* Delete the file of an earlier snapshot whose end was not recorded: this snapshot has replaced it.
 */
static void drop_left(const struct snapshot_folder *folder, const struct task *task)
{
    ASSERT(task->left_ms < task->begun_ms);
    enum status st = task->left_ms != 0 ? snapshot_folder_drop(folder, task->left_ms) : ST_OK;
    if (st != ST_OK && st != ST_NOT_FOUND)
        trace(TRACE_WARN, "sys", "a replaced snapshot of the schedule %s stays: %s", task->name,
              status_text(st));
}

/* Record the end, and delete what is too much afterwards. */
static void finish(struct service *service, struct task *task, const struct snapshot_folder *folder)
{
    enum status st = service_transact(service, stage_end, task);
    bool refused = st != ST_OK && st != ST_UNKNOWN_OUTCOME;
    if (task->st != ST_OK) {
        if (task->st != ST_BUSY && task->st != ST_CLOSED) {
            atomic_fetch_add(&figures.failed, 1U);
            trace(TRACE_WARN, "sys", "the snapshot by the schedule %s failed: %s", task->name,
                  task->why.text);
        }
        return;
    }
    ASSERT(folder != NULL);
    if (refused) {
        st = snapshot_folder_drop(folder, task->begun_ms);
        trace(st == ST_OK ? TRACE_INFO : TRACE_WARN, "sys",
              "the snapshot %s is left to the next active node", task->file);
        return;
    }
    atomic_fetch_add(&figures.saved, 1U);
    atomic_store(&figures.good_ms, task->begun_ms);
    drop_left(folder, task);
    st = snapshot_folder_prune(folder);
    if (st != ST_OK) /* the next snapshot begins with the same deletion, and fails with its error */
        trace(TRACE_WARN, "sys", "the oldest snapshots of the schedule %s stay: %s", task->name,
              status_text(st));
}

static void make_one(struct service *service, struct task *task)
{
    const struct member_options *options = service_options(service);
    struct snapshot_folder folder = {.prefix = task->prefix,
                                     .retain = task->retain,
                                     .bytes_max = task->bytes_max,
                                     .stop = asked,
                                     .ctx = service};
    ASSERT(task->found && task->begun_ms > 0);
    ASSERT(task->retain != 0);
    task->why.text[0] = '\0';
    task->st = members_autosnap_open(task->path, options->data_dir, &folder.fs, &folder.same_disk,
                                     &task->why);
    if (task->st == ST_OK)
        task->st = snapshot_folder_save(service_snapshot(service), &folder, task->begun_ms,
                                        task->file, &task->why);
    ASSERT(task->st == ST_OK || task->why.text[0] != '\0');
    finish(service, task, &folder);
    loop_fs_free(folder.fs);
}

void members_autosnap_run(struct service *service)
{
    struct task task = {.node = service_options(service)->name};
    for (uint64_t wait_ms = 0; service_wait(service, wait_ms); wait_ms = POLL_MS) {
        if (atomic_load(&service_snapshot(service)->busy))
            continue;
        enum status st = service_transact(service, stage_begin, &task);
        atomic_store(&figures.failing, st == ST_OK ? task.failing : 0);
        if (st == ST_OK && task.found && task.begun_ms != 0)
            make_one(service, &task);
    }
    atomic_store(&figures.failing, 0);
}
