/* The end of the log: batches, segments, compaction. Runs under the lock, off the raft thread.
 *
 * A segment comes to life by the rename of a file that is zero and durable as such; its header is
 * part of the same write as its first batch. Memory is changed only after the disk. */
#include "base/mem.h"
#include "raft/disk/rlog_disk_internal.h"

#include <stdarg.h>

void tail_done(struct tail *t)
{
    fs_close(t->file);
    mem_free(t->segments);
    mem_free(t->runs);
    mem_free(t->stage_room);
    *t = (struct tail){0};
}

/* Break the log. The first reason is kept. */
void tail_break(struct tail *t, const char *format, ...)
{
    va_list args;
    if (t->broken)
        return;
    t->broken = true;
    va_start(args, format);
    (void)vsnprintf(t->why_broken.text, sizeof t->why_broken.text, format,
                    args); /* a text that is too long is cut */
    va_end(args);
}

enum status tail_open_run(struct tail *t, uint64_t index, uint64_t term)
{
    if (t->n_runs != 0 && tail_term(t) == term)
        return ST_OK;
    if (t->n_runs == t->runs_cap) {
        size_t cap = t->runs_cap != 0 ? t->runs_cap * 2 : 16;
        struct term_run *runs = mem_realloc(t->runs, cap * sizeof *runs);
        if (runs == NULL)
            return ST_NOMEM;
        t->runs = runs;
        t->runs_cap = cap;
    }
    ASSERT(t->n_runs == 0 || t->runs[t->n_runs - 1].first < index);
    t->runs[t->n_runs++] = (struct term_run){index, term};
    return ST_OK;
}

enum status tail_add_segment(struct tail *t, const struct segment *segment)
{
    if (t->n_segments == t->segments_cap) {
        size_t cap = t->segments_cap != 0 ? t->segments_cap * 2 : 16;
        struct segment *segments = mem_realloc(t->segments, cap * sizeof *segments);
        if (segments == NULL)
            return ST_NOMEM;
        t->segments = segments;
        t->segments_cap = cap;
    }
    ASSERT(t->n_segments == 0 || t->segments[t->n_segments - 1].number + 1 == segment->number);
    t->segments[t->n_segments++] = *segment;
    return ST_OK;
}

static struct segment *active(struct tail *t)
{
    return t->n_segments != 0 ? &t->segments[t->n_segments - 1] : NULL;
}

/* Entries from `from` on are no longer live. The run that covers from-1 stays. */
static void truncate_live(struct tail *t, uint64_t from)
{
    ASSERT(from > 0 && from <= t->last + 1);
    while (t->n_runs > 1 && t->runs[t->n_runs - 1].first >= from)
        t->n_runs--;
    ASSERT(t->runs[0].first < from); /* compacted entries are never replaced */
    for (size_t i = 0; i < t->n_segments; i++)
        t->segments[i].last = MIN(t->segments[i].last, from - 1);
    t->last = from - 1;
}

static uint64_t term_before(const struct tail *t, uint64_t index)
{
    for (size_t i = t->n_runs; i > 0; i--)
        if (t->runs[i - 1].first < index)
            return t->runs[i - 1].term;
    return 0;
}

void tail_count_bytes(struct rlog_disk *disk)
{
    const struct tail *t = &disk->tail;
    uint64_t bytes = t->off;
    for (size_t i = 0; i + 1 < t->n_segments; i++)
        if (t->segments[i].last > t->upto)
            bytes += t->segments[i].size;
    disk->log_bytes = bytes;
}

uint64_t tail_take_spare(struct rlog_disk *disk)
{
    struct tail *t = &disk->tail;
    return t->n_dirty != 0 ? t->dirty[--t->n_dirty] : atomic_fetch_add(&disk->spare_number, 1) + 1;
}

/* Open the file of the next segment: the prepared file if its size fits, else a file that is zeroed
 * here and takes the place of a prepared file. */
static enum status segment_activate(struct rlog_disk *disk, const struct segment *next,
                                    struct fs_file **ret_file)
{
    struct tail *t = &disk->tail;
    char from[DISK_PATH_MAX], to[DISK_PATH_MAX];
    bool ready = t->prepared == next->number && next->size == disk->segment_bytes;
    ASSERT(next->number > 0);
    ASSERT(t->n_segments == 0 || active(t)->number + 1 == next->number);
    segment_path(disk, next->number, to);
    t->prepared = 0;
    disk->want_next = true;
    if (!ready) {
        spare_path(disk, tail_take_spare(disk), from);
        TRY(disk_zero(disk->fs, from, next->size));
        TRY(fs_rename(disk->fs, from, to));
        TRY(disk_sync_dir(disk, "log"));
    }
    return fs_open(disk->fs, to, segment_flags(next->size) | FS_DSYNC, ret_file);
}

/* Give a zeroed spare file the name of the segment after the active one. */
enum status tail_prepare(struct rlog_disk *disk, uint64_t spare)
{
    struct tail *t = &disk->tail;
    char from[DISK_PATH_MAX], to[DISK_PATH_MAX];
    ASSERT(t->prepared == 0 && t->n_segments != 0);
    uint64_t number = active(t)->number + 1;
    spare_path(disk, spare, from);
    segment_path(disk, number, to);
    TRY(fs_rename(disk->fs, from, to));
    TRY(disk_sync_dir(disk, "log"));
    t->prepared = number;
    return ST_OK;
}

static void stage_free(struct tail *t)
{
    mem_free(t->stage_room);
    t->stage_room = t->stage = NULL;
    t->stage_size = 0;
}

static size_t blocks_up(size_t n)
{
    return (n + FS_BLOCK - 1) / FS_BLOCK * FS_BLOCK;
}

/* Make room for `size` bytes, rounded up to whole blocks. A stage that grows loses its content. */
static enum status stage_reserve(struct tail *t, size_t size)
{
    size = blocks_up(size);
    if (size <= t->stage_size)
        return ST_OK;
    stage_free(t);
    t->stage_room = mem_alloc(size + FS_BLOCK);
    if (t->stage_room == NULL)
        return ST_NOMEM;
    t->stage = (uint8_t *)t->stage_room + FS_BLOCK - (uintptr_t)t->stage_room % FS_BLOCK;
    t->stage_size = size;
    return ST_OK;
}

/* The log now ends with `n` bytes of the stage: keep the bytes of the last, partial block. */
static void partial_keep(struct tail *t, size_t n)
{
    size_t last = n % FS_BLOCK;
    ASSERT(n <= t->stage_size);
    memcpy(t->partial, t->stage + n - last, last);
}

/* Encode the batch into `out`, behind the header of a fresh segment if there is one. Returns the
 * number of bytes. */
static size_t encode(struct rlog_disk *disk, const struct batch_plan *plan,
                     const struct segment *fresh, uint8_t *out, uint64_t *ret_chain)
{
    struct tail *t = &disk->tail;
    const struct segment *seg = fresh != NULL ? fresh : active(t);
    struct sector_writer w = {.at = out,
                              .number = fresh != NULL ? 0 : t->off / SECTOR,
                              .chain = t->chain,
                              .salt = segment_salt(disk->identity.id, seg->number)};
    uint64_t prev = plan->reset ? plan->reset_term : term_before(t, plan->first);
    bool truncate = !plan->reset && plan->first <= t->last;
    if (fresh != NULL)
        segment_header_write(
            &w, &(struct segment_header){.id = disk->identity.id,
                                         .number = fresh->number,
                                         .size = fresh->size,
                                         .start = plan->reset ? plan->first : t->last + 1,
                                         .prev_term = plan->reset ? prev : tail_term(t),
                                         .seq = t->seq + 1,
                                         .chain = t->chain,
                                         .prev_end = t->n_segments != 0 ? t->off : 0,
                                         .flags = plan->reset ? SEGMENT_RESET : 0});
    batch_header_write(
        &w, &(struct batch_header){.flags = plan->flags | (truncate ? (uint32_t)BATCH_TRUNCATE : 0),
                                   .seq = t->seq + 1,
                                   .first = plan->first,
                                   .prev_term = prev,
                                   .chain = t->chain,
                                   .n = plan->n,
                                   .bytes = (uint32_t)plan->bytes});
    for (unsigned i = 0; i < plan->n; i++) {
        entry_header_write(&w, plan->entries[i]);
        sector_put(&w, plan->entries[i]->data);
    }
    sector_flush(&w);
    ASSERT(w.at <= t->stage + t->stage_size);
    *ret_chain = w.chain;
    return (size_t)(w.at - out);
}

/* Record in memory that the write is durable. */
static enum status remember(struct rlog_disk *disk, const struct batch_plan *plan)
{
    struct tail *t = &disk->tail;
    if (plan->reset) {
        for (size_t i = 0; i < t->n_segments; i++)
            t->segments[i].last = 0;
        t->last = plan->first - 1;
        t->n_runs = 0;
        TRY(tail_open_run(t, t->last, plan->reset_term));
    } else if (plan->first <= t->last) {
        truncate_live(t, plan->first);
    }
    ASSERT(t->last + 1 == plan->first);
    for (unsigned i = 0; i < plan->n; i++) {
        TRY(tail_open_run(t, t->last + 1, plan->entries[i]->term));
        t->last++;
    }
    if (plan->n != 0)
        active(t)->last = t->last;
    t->seq++;
    t->marked = (plan->flags & BATCH_MARK) != 0;
    disk->durable_seq = t->seq;
    disk->durable_last = t->last;
    return ST_OK;
}

/* Stage a batch behind the bytes of the last block that are on disk already: the block is written
 * again as a whole. Zeros fill the new last block, because the segment has zeros there too. */
static void stage_batch(struct rlog_disk *disk, const struct batch_plan *plan, struct staged *s)
{
    struct tail *t = &disk->tail;
    bool in_blocks = segment_in_blocks(s->fresh != NULL ? s->fresh->size : active(t)->size);
    if (s->fresh == NULL && in_blocks)
        s->before = (size_t)(t->off % FS_BLOCK);
    memcpy(t->stage, t->partial, s->before);
    s->n = s->before + encode(disk, plan, s->fresh, t->stage + s->before, &s->chain);
    s->all = in_blocks ? blocks_up(s->n) : s->n;
    ASSERT(s->before < FS_BLOCK);
    ASSERT(s->all <= t->stage_size);
    memset(t->stage + s->n, 0, s->all - s->n);
    s->off = s->fresh != NULL ? 0 : t->off - s->before;
}

/* Finish a staged write that ended with `st`. Takes over the file of a fresh segment. */
static enum status staged_done(struct rlog_disk *disk, const struct batch_plan *plan,
                               const struct staged *staged, enum status st)
{
    struct tail *t = &disk->tail;
    bool fresh = staged->fresh != NULL;
    ASSERT(staged->before <= staged->n);
    ASSERT(staged->n <= staged->all);
    if (st == ST_OK && fresh)
        st = tail_add_segment(t, staged->fresh);
    if (st != ST_OK) {
        if (fresh)
            fs_close(staged->file);
        return st;
    }
    if (fresh)
        fs_close(t->file);
    t->file = staged->file;
    partial_keep(t, staged->n);
    disk->active_bytes = t->off = staged->off + staged->n;
    t->chain = staged->chain;
    TRY(remember(disk, plan));
    if (fresh)
        tail_count_bytes(disk);
    else
        disk->log_bytes += staged->n - staged->before;
    return ST_OK;
}

static enum status segment_fails(struct reason *reason, uint64_t number, const char *how,
                                 enum status st)
{
    reason_set(reason, "log segment %016llx: %s", (unsigned long long)number, how);
    return st;
}

static enum status write_fails(struct reason *reason, uint64_t number, const struct staged *staged,
                               enum status st)
{
    reason_set(reason, "log segment %016llx: write of %zu bytes at offset %llu failed",
               (unsigned long long)number, staged->n, (unsigned long long)staged->off);
    return st;
}

static enum status write_batch(struct rlog_disk *disk, const struct batch_plan *plan,
                               struct reason *reason)
{
    struct tail *t = &disk->tail;
    uint64_t need = batch_sectors(plan->bytes) * SECTOR, number = 1;
    bool fresh = plan->roll || plan->reset || t->file == NULL || t->off + need > active(t)->size;
    struct segment next = {0};
    struct staged staged = {.fresh = fresh ? &next : NULL, .file = t->file};

    if (t->n_segments != 0)
        number = active(t)->number + (fresh ? 1 : 0);
    enum status st = stage_reserve(t, FS_BLOCK + (size_t)need);
    if (st != ST_OK)
        return segment_fails(reason, number, "out of memory", st);
    if (fresh) {
        next.number = number;
        next.size = need + SECTOR <= disk->segment_bytes ? disk->segment_bytes
                                                         : blocks_up((size_t)need + SECTOR);
        ASSERT(need <= next.size);
        st = segment_activate(disk, &next, &staged.file);
        if (st != ST_OK)
            return segment_fails(reason, number, "cannot be made", st);
    }
    stage_batch(disk, plan, &staged);
    st = disk_write(staged.file, bytes_of(t->stage, staged.all), staged.off);
    st = staged_done(disk, plan, &staged, st);
    return st == ST_OK ? ST_OK : write_fails(reason, number, &staged, st);
}

enum status tail_write(struct rlog_disk *disk, const struct batch_plan *plan, struct reason *reason)
{
    struct tail *t = &disk->tail;
    ASSERT(plan->bytes <= BATCH_MAX);
    ASSERT(plan->reset || plan->first <= t->last + 1);
    if (t->broken) {
        reason_set(reason, "%s", t->why_broken.text);
        return ST_IO;
    }
    struct reason why;
    enum status st = write_batch(disk, plan, &why);
    if (st != ST_OK) {
        tail_break(t, "%s", why.text);
        reason_set(reason, "%s", why.text);
    }
    if (t->stage_size > (size_t)disk->group_bytes + 2 * FS_BLOCK)
        stage_free(t); /* do not keep the memory of one huge batch for ever */
    return st;
}

bool tail_stage(struct rlog_disk *disk, const struct batch_plan *plan, struct staged *ret)
{
    struct tail *t = &disk->tail;
    uint64_t need = batch_sectors(plan->bytes) * SECTOR;
    ASSERT(!plan->roll && !plan->reset);
    ASSERT(plan->first <= t->last + 1);
    if (t->broken || t->file == NULL || t->off + need > active(t)->size ||
        stage_reserve(t, FS_BLOCK + (size_t)need) != ST_OK)
        return false;
    *ret = (struct staged){.file = t->file};
    stage_batch(disk, plan, ret);
    return true;
}

enum status tail_staged(struct rlog_disk *disk, const struct batch_plan *plan,
                        const struct staged *staged, enum status st, struct reason *reason)
{
    struct tail *t = &disk->tail;
    ASSERT(t->file == staged->file);
    ASSERT(t->off == staged->off + staged->before);
    st = staged_done(disk, plan, staged, st);
    if (st == ST_OK)
        return ST_OK;
    tail_break(t, "log segment %016llx: a write failed", (unsigned long long)active(t)->number);
    return write_fails(reason, active(t)->number, staged, st);
}

enum status tail_rewrite(struct rlog_disk *disk, struct bytes image, uint64_t from)
{
    struct tail *t = &disk->tail;
    const struct segment *seg = active(t);
    char path[DISK_PATH_MAX];
    if (segment_in_blocks(seg->size))
        from -= from % FS_BLOCK;
    ASSERT(from <= t->off);
    struct bytes rest = bytes_from(image, (size_t)from);
    size_t n = (size_t)(t->off - from);
    TRY(stage_reserve(t, n));
    memset(t->stage, 0, t->stage_size); /* a file may be shorter than its header says */
    memcpy(t->stage, rest.data, MIN(rest.len, t->stage_size));
    segment_path(disk, seg->number, path);
    TRY(fs_open(disk->fs, path, segment_flags(seg->size) | FS_DSYNC, &t->file));
    size_t all = segment_in_blocks(seg->size) ? blocks_up(n) : n;
    partial_keep(t, n);
    return disk_write(t->file, bytes_of(t->stage, all), from);
}

enum status tail_mark(struct rlog_disk *disk, uint32_t flags, struct reason *reason)
{
    struct batch_plan plan = {.first = disk->tail.last + 1, .flags = BATCH_MARK | flags};
    return tail_write(disk, &plan, reason);
}

/* Drop the oldest segment. Its file becomes a spare to be zeroed, unless enough spares wait for
 * that. */
static enum status drop_oldest(struct rlog_disk *disk)
{
    struct tail *t = &disk->tail;
    char path[DISK_PATH_MAX], to[DISK_PATH_MAX];
    ASSERT(t->n_segments > 1);
    segment_path(disk, t->segments[0].number, path);
    if (t->n_dirty < DISK_DIRTY_MAX && t->segments[0].size == disk->segment_bytes) {
        uint64_t dirty = atomic_fetch_add(&disk->spare_number, 1) + 1;
        spare_path(disk, dirty, to);
        TRY(fs_rename(disk->fs, path, to));
        t->dirty[t->n_dirty++] = dirty;
    } else {
        TRY(fs_unlink(disk->fs, path));
    }
    /* Sync after each segment: a crash must not leave a gap between older and newer segments. */
    TRY(disk_sync_dir(disk, "log"));
    t->n_segments--;
    memmove(t->segments, t->segments + 1, t->n_segments * sizeof *t->segments);
    return ST_OK;
}

static bool droppable(const struct tail *t, uint64_t upto)
{
    return t->n_segments > 1 && t->segments[0].last <= upto;
}

/* Drop at most `n` segments. */
static enum status drop_upto(struct rlog_disk *disk, uint64_t upto, size_t n, struct reason *reason)
{
    struct tail *t = &disk->tail;
    for (; n > 0 && droppable(t, upto); n--) {
        uint64_t number = t->segments[0].number;
        enum status st = drop_oldest(disk);
        if (st != ST_OK) {
            reason_set(reason, "log segment %016llx: cannot be removed: %s",
                       (unsigned long long)number, status_text(st));
            tail_break(t, "log segment %016llx: cannot be removed", (unsigned long long)number);
            return st;
        }
    }
    size_t gone = 0;
    while (gone + 1 < t->n_runs && t->runs[gone + 1].first <= upto)
        gone++;
    t->n_runs -= gone;
    memmove(t->runs, t->runs + gone, t->n_runs * sizeof *t->runs);
    return ST_OK;
}

enum status tail_compact(struct rlog_disk *disk, uint64_t upto, bool *ret_more,
                         struct reason *reason)
{
    struct tail *t = &disk->tail;
    *ret_more = false;
    if (t->broken)
        return ST_OK; /* the failure was reported where the log broke */
    t->upto = MAX(t->upto, upto);
    uint64_t floor = MIN(t->upto, snapshot_floor(disk));
    TRY(drop_upto(disk, floor, 1, reason));
    *ret_more = droppable(t, floor);
    tail_count_bytes(disk);
    return ST_OK;
}

enum status tail_reset(struct rlog_disk *disk, uint64_t index, uint64_t term, struct reason *reason)
{
    struct batch_plan plan = {
        .first = index + 1, .flags = BATCH_MARK, .reset = true, .reset_term = term};
    TRY(tail_write(disk, &plan, reason));
    ASSERT(disk->tail.last == index);
    disk->generation++;
    disk->tail.upto = index;
    TRY(drop_upto(disk, index, SIZE_MAX, reason));
    tail_count_bytes(disk);
    return ST_OK;
}
