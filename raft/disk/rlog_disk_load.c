/* Opening a replica: what the vote file, the snapshots and the log say together, and the repairs
 * that are safe. Nothing is changed in a directory that turns out to be corrupt.
 *
 * The log must reach what other files prove to have been in it: the batch that the vote file
 * names, the index of every snapshot that this node created. Below the base of the log everything
 * must be in a verified snapshot. */
#include "base/mem.h"
#include "base/plant.h"
#include "base/trace.h"
#include "raft/disk/rlog_disk_found.h"

#include <stdarg.h>

struct loading {
    struct rlog_disk *disk;
    struct rlog_loaded *loaded;
    struct vote_file_found vote_file;
    struct install_record install;
    struct snapshots_found snapshots;
    struct log_found log;
    bool reset; /* the log ends before an installed snapshot: begin a new log */
};

static void corrupt(struct loading *l, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void corrupt(struct loading *l, const char *format, ...)
{
    va_list args;
    if (l->loaded->corrupt)
        return;
    l->loaded->corrupt = true;
    va_start(args, format);
    (void)vsnprintf(l->loaded->reason.text, sizeof l->loaded->reason.text, format,
                    args); /* a text that is too long is cut */
    va_end(args);
}

static uint64_t log_last(const struct log_found *f)
{
    return f->base + f->n - 1;
}

/* An installed snapshot replaces a log that does not contain its last entry. */
static void judge_install(struct loading *l)
{
    const struct rlog_snapshot_meta *snap = &l->snapshots.newest;
    const struct log_found *f = &l->log;
    if (l->install.index == 0 || snap->index != l->install.index || snap->term != l->install.term)
        return;
    bool inside = f->base <= snap->index && snap->index <= log_last(f);
    l->reset = log_last(f) < snap->index ||
               (inside && f->entries[snap->index - f->base].term != snap->term);
}

/* The damaged file is the snapshot whose install was interrupted: the state before is complete. */
static bool bad_install(const struct loading *l)
{
    return l->snapshots.bad_index != 0 && l->snapshots.bad_index == l->install.index &&
           l->snapshots.bad_term == l->install.term;
}

static void judge_damage(struct loading *l)
{
    const struct log_found *f = &l->log;
    uint64_t covered = l->snapshots.newest.index;
    if (f->damaged && (f->lost_end || f->base > covered + 1))
        corrupt(l, "%s", f->reason.text);
    if (f->seq < l->vote_file.record.log_seq && !planted(PLANT_R13_AMNESIA))
        corrupt(l, "log: it ends with batch %llu at entry %llu, but batch %llu was durable",
                (unsigned long long)f->seq, (unsigned long long)log_last(f),
                (unsigned long long)l->vote_file.record.log_seq);
}

/* Check that the log and the snapshot meet. */
static void judge_log(struct loading *l)
{
    const struct log_found *f = &l->log;
    const struct rlog_snapshot_meta *snap = &l->snapshots.newest;
    unsigned long long index = snap->index, base = f->base, last = log_last(f);
    if (f->base > snap->index + 1) {
        corrupt(l, "log: it begins at entry %llu, but the newest good snapshot ends at %llu%s%s",
                base, index, l->snapshots.bad_index != 0 ? "; " : "", l->snapshots.reason.text);
        return;
    }
    if (last < snap->index) {
        corrupt(l, "log: it ends at entry %llu, below the snapshot created at %llu", last, index);
        return;
    }
    uint64_t term =
        f->base == snap->index + 1 ? f->prev_term : f->entries[snap->index - f->base].term;
    if (snap->index != 0 && term != snap->term)
        corrupt(l, "log: entry %llu has term %llu, the snapshot says %llu", index,
                (unsigned long long)term, (unsigned long long)snap->term);
    uint64_t newest = f->n != 0 ? f->entries[f->n - 1].term : f->prev_term;
    if (newest > l->vote_file.record.term)
        corrupt(l, "slot: its term %llu is older than entry %llu of term %llu",
                (unsigned long long)l->vote_file.record.term, last, (unsigned long long)newest);
    if (l->snapshots.bad_index > log_last(f) && !bad_install(l))
        corrupt(l, "%s, and the log ends below it at %llu", l->snapshots.reason.text, last);
}

static void judge(struct loading *l)
{
    if (l->vote_file.corrupt)
        corrupt(l, "%s", l->vote_file.why);
    judge_install(l);
    if (l->reset)
        return;
    judge_damage(l);
    judge_log(l);
}

/* Give the log to `tail`, which appends where the log ends. */
static enum status tail_take(struct loading *l)
{
    struct tail *t = &l->disk->tail;
    const struct log_found *f = &l->log;
    TRY(tail_open_run(t, f->base - 1, f->prev_term));
    for (size_t i = 0; i < f->n; i++)
        TRY(tail_open_run(t, f->base + i, f->entries[i].term));
    for (size_t i = 0; i < f->n_segments; i++)
        TRY(tail_add_segment(t, &f->segments[i]));
    t->last = log_last(f);
    t->seq = f->seq;
    t->chain = f->chain;
    t->off = f->n_segments != 0 ? f->end : 0;
    t->marked = f->last_marked;
    l->disk->durable_seq = t->seq;
    l->disk->durable_last = t->last;
    l->disk->active_bytes = t->off;
    return ST_OK;
}

/* Write the newest batch again: it may be in the page cache only, even after a failed sync. No
 * reply may depend on data that is not durable. */
static enum status rewrite_last(struct loading *l)
{
    struct tail *t = &l->disk->tail;
    const struct log_found *f = &l->log;
    if (t->n_segments == 0 || l->reset)
        return ST_OK;
    uint64_t from = f->last_batch > SECTOR ? f->last_batch : 0;
    ASSERT(from < f->end && f->end <= f->image_size);
    return tail_rewrite(l->disk, bytes_of(f->image, f->image_size), from);
}

static enum status unlink_name(void *ctx, const char *name)
{
    struct rlog_disk *disk = ctx;
    char path[DISK_PATH_MAX];
    if (strncmp(name, "spare-", 6) != 0)
        return ST_OK;
    disk_path(disk, path, "log/%s", name);
    return fs_unlink(disk->fs, path);
}

/* Files that hold nothing: spares whose zeroing may not have ended, segments never written. */
static enum status remove_unused(struct loading *l)
{
    struct rlog_disk *disk = l->disk;
    char path[DISK_PATH_MAX];
    for (size_t i = l->log.n_unused; i > 0; i--) { /* newest first: a crash leaves no gap */
        segment_path(disk, l->log.unused[i - 1], path);
        TRY(fs_unlink(disk->fs, path));
        TRY(disk_sync_dir(disk, "log"));
    }
    disk_path(disk, path, "log");
    TRY(fs_list(disk->fs, path, unlink_name, disk));
    return disk_sync_dir(disk, "log");
}

/* Make durable what was read, cut a torn tail by beginning a new segment, and mark the end. */
static enum status settle(struct loading *l, struct reason *reason)
{
    struct rlog_disk *disk = l->disk;
    struct tail *t = &disk->tail;
    struct batch_plan mark = {.first = t->last + 1, .flags = BATCH_MARK, .roll = l->log.torn};
    reason_set(reason, "log: it cannot be made ready");
    TRY(disk_sync_dir(disk, "")); /* the names may only be in the cache */
    TRY(remove_unused(l));
    TRY(snapshots_tidy(disk));
    TRY(disk_sync_dir(disk, "snap")); /* the names may not be durable yet */
    TRY(disk_sync_dir(disk, ""));
    TRY(rewrite_last(l));
    if (l->reset)
        TRY(tail_reset(disk, l->snapshots.newest.index, l->snapshots.newest.term, reason));
    else
        TRY(tail_write(disk, &mark, reason));
    reason_set(reason, "slot: it cannot be written");
    struct vote_record record = l->vote_file.record;
    record.log_seq = t->seq;
    /* Make both copies equal before a new record is written. */
    TRY(vote_file_write(disk, &l->vote_file.record));
    record.seq++;
    TRY(vote_file_write(disk, &record));
    reason_set(reason, "install: it cannot be removed");
    if (bad_install(l))
        TRY(snapshot_remove(disk, l->install.index, l->install.term));
    if (l->install.index != 0)
        TRY(install_end(disk));
    tail_count_bytes(disk);
    return ST_OK;
}

static enum status find_all(struct loading *l, const struct log_watch *watch, struct reason *reason)
{
    struct rlog_disk *disk = l->disk;
    reason_set(reason, "slot: it cannot be read");
    TRY(vote_file_load(disk, &l->vote_file));
    reason_set(reason, "install: it cannot be read");
    TRY(install_load(disk, &l->install));
    reason_set(reason, "snap: the snapshots cannot be read");
    TRY(snapshots_find(disk, &l->snapshots));
    reason_set(reason, "log: the segments cannot be read");
    TRY(log_find(disk->fs, disk->dir, disk->identity.id, watch, &l->log));
    if (l->log.base == 0) { /* the directory has no segment */
        l->log.base = l->snapshots.newest.index + 1;
        l->log.prev_term = l->snapshots.newest.term;
    }
    return ST_OK;
}

static void report(struct loading *l)
{
    struct rlog_loaded *out = l->loaded;
    out->term = l->vote_file.record.term;
    out->vote = l->vote_file.record.vote;
    out->vote_file_fell_back = l->vote_file.fell_back && !l->vote_file.corrupt;
    out->snapshot = l->snapshots.newest;
    out->snapshot_fell_back = l->snapshots.bad_index != 0;
    out->torn = l->log.torn || l->log.torn_unused;
    out->reset = l->reset;
    out->truncations = l->log.truncations;
    if (out->corrupt || l->reset) {
        out->first = out->snapshot.index + 1;
        out->prev_term = out->snapshot.term;
        return;
    }
    out->first = l->log.base;
    out->prev_term = l->log.prev_term;
    out->n = l->log.n;
    out->entries = l->log.entries;
    l->log.entries = NULL;
    l->log.n = 0;
}

/* Warn operators about damage to a replica that can still be used. */
static void warn(const struct loading *l)
{
    const char *dir = l->disk->dir;
    unsigned long long snapshot = l->snapshots.newest.index;
    if (l->vote_file.fell_back)
        trace(TRACE_WARN, "raft", "%s/%s: fell back", dir, l->vote_file.why);
    if (l->log.damaged && !l->reset)
        trace(TRACE_WARN, "raft", "%s/%s: damaged, but the snapshot at %llu covers it", dir,
              l->log.reason.text, snapshot);
    if (l->log.torn || l->log.torn_unused)
        trace(TRACE_WARN, "raft", "%s/log: a torn write behind entry %llu was cut", dir,
              (unsigned long long)log_last(&l->log));
    if (l->snapshots.bad_index != 0)
        trace(TRACE_WARN, "raft", "%s/%s: damaged, fell back to the one at %llu", dir,
              l->snapshots.reason.text, snapshot);
    if (l->reset)
        trace(TRACE_WARN, "raft", "%s/log: begun anew behind the snapshot installed at %llu", dir,
              snapshot);
}

/* The planted bug of R13: whatever is missing is taken for never written. */
static void forget(struct loading *l)
{
    const struct rlog_snapshot_meta *snap = &l->snapshots.newest;
    l->loaded->corrupt = false;
    if (l->vote_file.corrupt)
        l->vote_file.record = (struct vote_record){.seq = 1};
    bool inside = l->log.base <= snap->index + 1 && snap->index <= log_last(&l->log);
    l->reset = l->reset || !inside || l->log.base == snap->index + 1;
}

static enum status load(struct loading *l, struct reason *reason)
{
    TRY(find_all(l, NULL, reason));
    judge(l);
    if (l->loaded->corrupt && planted(PLANT_R13_AMNESIA))
        forget(l);
    if (l->loaded->corrupt) {
        tail_break(&l->disk->tail, "corrupt");
        trace(TRACE_ERROR, "raft", "%s is corrupt: %s", l->disk->dir, l->loaded->reason.text);
    } else {
        reason_set(reason, "out of memory");
        TRY(tail_take(l));
        TRY(settle(l, reason));
        warn(l);
    }
    report(l);
    return ST_OK;
}

enum status disk_load(struct rlog_disk *disk, struct rlog_loaded *ret, struct reason *reason)
{
    struct loading l = {.disk = disk, .loaded = ret};
    *ret = (struct rlog_loaded){0};
    enum status st = load(&l, reason);
    log_found_done(&l.log);
    return st;
}

enum status disk_examine(struct rlog_disk *disk, const struct log_watch *watch,
                         struct rlog_loaded *ret)
{
    struct loading l = {.disk = disk, .loaded = ret};
    *ret = (struct rlog_loaded){0};
    enum status st = find_all(&l, watch, NULL);
    if (st == ST_OK) {
        judge(&l);
        report(&l);
    }
    log_found_done(&l.log);
    return st;
}

void rlog_loaded_done(struct rlog_loaded *loaded)
{
    for (uint64_t i = 0; loaded->entries != NULL && i < loaded->n; i++)
        rlog_block_unref(loaded->entries[i].block);
    mem_free(loaded->entries);
    *loaded = (struct rlog_loaded){0};
}
