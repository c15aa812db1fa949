/* Creates snapshots: pins the applied state, writes it to a file on LANE_BULK, then lets the core
 * and the log forget the entries that the file covers. A snapshot is due when enough was applied
 * since the last one, relative to the size of the state; a random part keeps nodes from creating
 * theirs at the same time. */
#include "base/trace.h"
#include "raft/replica/rlog_internal.h"

enum {
    /* least threshold; the log since the last snapshot is in memory */
    LOG_BYTES_MIN = 32 * 1024 * 1024,
    LOG_BYTES_MAX = 512 * 1024 * 1024,
    ENTRY_OVERHEAD = 64,
    TRAILING_ENTRIES = 4096,
    TRAILING_BYTES = 128 * 1024 * 1024,
    SENDING_BYTES = 512 * 1024 * 1024,
    RETRY_MS = 1000,
    FAILED_MS = 30000,
};

void rlog_snapshot_create_init(struct rlog *r)
{
    uint32_t random;
    env_random(r->env, &random, sizeof random);
    r->create.jitter = random % 256;
}

void rlog_snapshot_create_applied(struct rlog *r, const struct rlog_entry *entry)
{
    r->create.bytes += entry->data.len + ENTRY_OVERHEAD;
}

uint64_t rlog_snapshot_create_threshold(uint64_t given, uint64_t state_bytes, uint32_t jitter)
{
    uint64_t due = MIN(MAX(state_bytes / 2, (uint64_t)LOG_BYTES_MIN), (uint64_t)LOG_BYTES_MAX);
    uint64_t bytes = given != 0 ? given : due;
    return bytes + bytes * jitter / 1024;
}

static bool is_due(const struct rlog *r)
{
    struct store_stats stats;
    store_stats(r->machine.store, &stats);
    return r->create.bytes >= rlog_snapshot_create_threshold(r->options.snapshot_log_bytes,
                                                             stats.bytes, r->create.jitter);
}

/* The number of entries before `index` to keep: enough for a follower that is merely slow, and for
 * a follower that is being sent an older snapshot. The kept bytes are bounded. */
static uint64_t trailing_count(const struct rlog *r, uint64_t index)
{
    const struct rlog_core_log *log = &r->core.log;
    uint64_t most =
        r->options.snapshot_trailing != 0 ? r->options.snapshot_trailing : TRAILING_ENTRIES;
    uint64_t sending = rlog_snapshot_sends_oldest(r), n = 0, bytes = 0;
    ASSERT(index > 0);
    while (index > n && rlog_core_log_has(log, index - n)) {
        bool sent = index - n > sending;
        bytes += rlog_core_log_at(log, index - n)->data.len;
        if ((n >= most && !sent) || bytes > (sent ? SENDING_BYTES : TRAILING_BYTES))
            break;
        n++;
    }
    return MAX(n, 1u);
}

static enum status write_piece(void *ctx, struct bytes content)
{
    return rlog_snap_write(ctx, content);
}

static void create_run(struct env_work *work)
{
    struct rlog_snapshot_create *t = CONTAINER_OF(work, struct rlog_snapshot_create, work);
    struct rlog_snap_writer *writer;
    uint64_t bytes;

    ASSERT(t->running);
    ASSERT(t->meta.index > 0);
    t->status = rlog_snap_create(t->disk, &t->meta, &writer);
    if (t->status != ST_OK)
        return;
    t->status = rlog_machine_dump_run(&t->dump, write_piece, writer);
    if (t->status != ST_OK) {
        rlog_snap_abort(writer);
        return;
    }
    t->status = rlog_snap_commit(writer, &bytes);
    if (t->status == ST_OK)
        t->status = rlog_snap_prune(t->disk);
}

static void create_finish(struct rlog *r)
{
    struct rlog_snapshot_create *t = &r->create;
    struct rlog_core_snapshot snap = {.index = t->meta.index, .term = t->meta.term};
    ASSERT(!t->running);
    ASSERT(t->meta.conf_len <= sizeof snap.conf.bytes);
    snap.conf.index = t->meta.conf_index;
    snap.conf.len = t->meta.conf_len;
    memcpy(snap.conf.bytes, t->meta.conf, t->meta.conf_len);
    if (rlog_install_busy(r) || snap.index <= r->core.snap.index)
        return; /* an installed snapshot is newer */
    uint64_t upto = rlog_core_snapshot(&r->core, &snap, trailing_count(r, snap.index), rlog_now(r));
    if (upto != 0)
        rlog_disk_compact(r->disk, upto);
    r->snapshots_created++;
    r->snapshot_time_ms = t->dump.time_ms;
}

static void create_done(struct env_work *work)
{
    struct rlog *r = CONTAINER_OF(work, struct rlog, create.work);
    struct rlog_snapshot_create *t = &r->create;
    ASSERT(t->running);
    rlog_enter(r);
    rlog_machine_dump_end(&t->dump);
    t->running = false;
    if (t->status == ST_OK && !r->failed) {
        create_finish(r);
    } else if (!r->failed) {
        t->not_before_ms = rlog_now(r) + FAILED_MS;
        trace(TRACE_ERROR, "raft", "snapshot at %llu: %s", (unsigned long long)t->meta.index,
              status_text(t->status));
    }
    rlog_leave(r);
}

/* A snapshot covers only entries that are applied, stored and in no snapshot yet. The first entry
 * of an initial member counts as stored before it is: every initial member makes the same one. */
static bool create_possible(struct rlog *r)
{
    const struct rlog_core *c = &r->core;
    return !r->create.running && !rlog_install_busy(r) && c->applied > c->snap.index &&
           c->applied <= c->stored && c->applied <= rlog_disk_durable(r->disk) &&
           c->committed.index != 0;
}

void rlog_snapshot_create_pump(struct rlog *r)
{
    struct rlog_snapshot_create *t = &r->create;
    const struct rlog_core *c = &r->core;
    uint32_t random;

    /* Read the clock last: this function runs for every read. */
    if ((!t->wanted && !is_due(r)) || !create_possible(r) || rlog_now(r) < t->not_before_ms)
        return;
    enum status st = rlog_machine_dump_begin(&r->machine, &t->dump);
    if (st != ST_OK) {
        t->not_before_ms = rlog_now(r) + RETRY_MS; /* a staged tree is open, or no pin is free */
        return;
    }
    env_random(r->env, &random, sizeof random);
    t->jitter = random % 256;
    t->wanted = false;
    t->running = true;
    t->bytes = 0;
    t->disk = r->disk;
    t->meta = (struct rlog_snapshot_meta){.index = c->applied,
                                          .term = rlog_core_term_of(c, c->applied),
                                          .conf_index = c->committed.index,
                                          .conf_len = c->committed.len};
    ASSERT(c->committed.len <= sizeof t->meta.conf);
    memcpy(t->meta.conf, c->committed.bytes, c->committed.len);
    t->work = (struct env_work){.run = create_run, .done = create_done, .lane = LANE_BULK};
    env_work(r->env, &t->work);
}

void rlog_snapshot_now(struct rlog *r)
{
    rlog_enter(r);
    r->create.wanted = true;
    r->create.not_before_ms = 0;
    rlog_leave_start(r);
}
