/* The disk as the raft thread sees it: the queue of appends, and the works.
 *
 *   append -> queue -> group (one batch, one write, one sync) -> written
 *
 * A group is written by LANE_LOG, or, if it is short, without a thread (rlog_disk_short.c).
 * While a write runs, appends queue up; what has queued up becomes the next batch. Compaction and
 * the tick run on LANE_LOG between writes; the next segment is made by rlog_disk_prep.c. */
#include "base/mem.h"
#include "base/trace.h"
#include "raft/disk/rlog_disk_internal.h"

static void write_kick(struct rlog_disk *disk);

bool rlog_disk_idle(const struct rlog_disk *disk)
{
    bool running =
        disk->write.running || disk->compact.running || disk->tend.running || disk->prep.running;
    return !running && list_empty(&disk->queue);
}

static void drop_all(struct rlog_disk *disk, struct list *appends)
{
    for (struct list *link = list_pop(appends); link != NULL; link = list_pop(appends)) {
        struct append *a = CONTAINER_OF(link, struct append, link);
        ASSERT(disk->queued_bytes >= a->bytes);
        disk->queued_bytes -= a->bytes;
        for (unsigned i = 0; i < a->n; i++)
            rlog_block_unref(a->entries[i].block);
        mem_free(a);
    }
}

/* Stop the disk: nothing more is acknowledged (PROTOCOL R12). */
static void fail(struct rlog_disk *disk, enum status why, const struct reason *reason)
{
    if (disk->failed)
        return;
    disk->failed = true;
    drop_all(disk, &disk->queue);
    env_timer_stop(disk->env, &disk->tick);
    disk->ops.fatal(disk->ops.ctx, why, reason);
}

void disk_work_submit(struct disk_work *w)
{
    ASSERT(!w->running && !w->disk->failed);
    w->running = true;
    w->st = ST_OK;
    env_work(w->disk->env, &w->work);
}

static bool compact_wanted(const struct rlog_disk *disk)
{
    return disk->compact_upto > disk->compacting || disk->compact_more;
}

static void compact_kick(struct rlog_disk *disk)
{
    if (disk->failed || disk->compact.running || disk->short_write.running || !compact_wanted(disk))
        return;
    disk->compacting = disk->compact_upto;
    disk_work_submit(&disk->compact);
}

/* The work has ended: look at its outcome before the work may be submitted again. */
void disk_work_take(struct disk_work *w)
{
    struct reason reason;
    w->running = false;
    if (w->st == ST_OK)
        return;
    reason_set(&reason, "%s/%s: %s", w->disk->dir, w->reason.text, status_text(w->st));
    fail(w->disk, w->st, &reason);
}

static void tend_kick(struct rlog_disk *disk)
{
    if (!disk->tend_due || disk->failed || disk->tend.running || disk->short_write.running)
        return;
    disk->tend_due = false;
    disk_work_submit(&disk->tend);
}

/* Begin the work that waits. Calling `idle` is the last touch of the disk. */
void disk_go_on(struct rlog_disk *disk)
{
    write_kick(disk);
    tend_kick(disk);
    compact_kick(disk);
    disk_prep_kick(disk);
    if (disk->idle != NULL && rlog_disk_idle(disk))
        disk->idle(disk->ops.ctx);
}

static void any_done(struct env_work *work)
{
    struct disk_work *w = CONTAINER_OF(work, struct disk_work, work);
    disk_work_take(w);
    disk_go_on(w->disk);
}

void disk_lock(struct rlog_disk *disk)
{
    int err = pthread_mutex_lock(&disk->lock);
    ASSERT(err == 0);
}

void disk_unlock(struct rlog_disk *disk)
{
    int err = pthread_mutex_unlock(&disk->lock);
    ASSERT(err == 0);
}

/* Plan a batch for the queued appends; each replaces the entries that it overlaps. */
enum status disk_group_plan(struct rlog_disk *disk, struct batch_plan *plan, bool *ret_changes)
{
    uint64_t generation = disk->generation;
    size_t total = 0;
    LIST_FOR (link, &disk->group)
        total += CONTAINER_OF(link, struct append, link)->n;
    plan->entries = mem_alloc(total * sizeof *plan->entries);
    if (plan->entries == NULL)
        return ST_NOMEM;
    LIST_FOR (link, &disk->group) {
        const struct append *a = CONTAINER_OF(link, struct append, link);
        if (a->generation != generation)
            continue; /* the append is void: the log was reset after it was queued */
        if (plan->first == 0 || a->index < plan->first)
            plan->first = a->index;
        ASSERT(a->index <= plan->first + plan->n);
        plan->n = (unsigned)(a->index - plan->first);
        for (unsigned i = 0; i < a->n; i++)
            plan->entries[plan->n++] = &a->entries[i];
    }
    for (unsigned i = 0; i < plan->n; i++)
        plan->bytes += ENTRY_HEADER + plan->entries[i]->data.len;
    *ret_changes = plan->n != 0 || (plan->first != 0 && plan->first <= disk->tail.last);
    return ST_OK;
}

static void write_run(struct env_work *work)
{
    struct disk_work *w = CONTAINER_OF(work, struct disk_work, work);
    struct rlog_disk *disk = w->disk;
    struct batch_plan plan = {0};
    bool changes = false;
    disk_lock(disk);
    if (disk->short_write.running) { /* the raft thread lacked the lock */
        w->st = disk_short_end(disk, &w->reason);
        disk_unlock(disk);
        return;
    }
    w->st = disk_group_plan(disk, &plan, &changes);
    if (w->st != ST_OK)
        reason_set(&w->reason, "log: a batch cannot be put together");
    if (w->st == ST_OK && changes)
        w->st = tail_write(disk, &plan, &w->reason);
    disk_unlock(disk);
    mem_free(plan.entries);
}

void disk_write_over(struct rlog_disk *disk)
{
    uint64_t seq = disk->group_seq;
    ASSERT(seq <= disk->write_seq);
    disk->short_write.running = false;
    disk_work_take(&disk->write);
    drop_all(disk, &disk->group);
    if (!disk->failed) {
        write_kick(disk); /* the next write runs while the owner handles this result */
        disk->ops.written(disk->ops.ctx, seq);
    }
    disk_go_on(disk);
}

static void write_done(struct env_work *work)
{
    disk_write_over(CONTAINER_OF(work, struct rlog_disk, write.work));
}

static void write_kick(struct rlog_disk *disk)
{
    uint64_t bytes = 0;
    if (disk->held || disk->failed || disk->write.running || list_empty(&disk->queue))
        return;
    ASSERT(list_empty(&disk->group));
    do {
        struct append *a = CONTAINER_OF(disk->queue.next, struct append, link);
        if (bytes != 0 && bytes + a->bytes > disk->group_bytes)
            break;
        bytes += a->bytes;
        disk->group_seq = a->seq;
        list_remove(&a->link);
        list_push(&disk->group, &a->link);
    } while (!list_empty(&disk->queue));
    /* Let work that LANE_LOG does or is about to do come first. */
    bool lane_busy = disk->compact.running || disk->tend.running || disk->tend_due;
    if (lane_busy || compact_wanted(disk) || !disk_short_begin(disk, bytes))
        disk_work_submit(&disk->write);
    disk_prep_kick(disk);
}

uint64_t rlog_disk_append(struct rlog_disk *disk, uint64_t index, const struct rlog_entry *entries,
                          unsigned n)
{
    uint64_t seq = ++disk->write_seq;
    ASSERT(index > 0);
    if (disk->failed)
        return seq;
    struct append *a = mem_must_alloc(sizeof *a + n * sizeof *entries);
    *a = (struct append){
        .seq = seq, .generation = disk->generation, .index = index, .bytes = sizeof *a, .n = n};
    for (unsigned i = 0; i < n; i++) {
        const struct rlog_entry *e = &entries[i];
        ASSERT(e->block != NULL || e->data.len == 0);
        ASSERT(e->term > 0 && (i == 0 || e->term >= entries[i - 1].term));
        ASSERT(e->type >= RLOG_COMMAND && e->type <= RLOG_CHANGE);
        a->entries[i] = *e;
        a->bytes += ENTRY_HEADER + e->data.len;
        rlog_block_ref(e->block);
    }
    ASSERT(a->bytes <= BATCH_MAX);
    list_push(&disk->queue, &a->link);
    disk->queued_bytes += a->bytes;
    return seq;
}

void rlog_disk_write(struct rlog_disk *disk)
{
    write_kick(disk);
}

void rlog_disk_release(struct rlog_disk *disk)
{
    disk->held = false;
    write_kick(disk);
}

void disk_drop_held(struct rlog_disk *disk)
{
    if (disk->held)
        drop_all(disk, &disk->queue);
}

enum status rlog_disk_set_term(struct rlog_disk *disk, uint64_t term, uint64_t vote)
{
    struct vote_record next = {
        .seq = disk->vote_record.seq + 1, .term = term, .vote = vote, .log_seq = disk->durable_seq};
    if (disk->corrupt)
        return ST_CORRUPT;
    if (disk->failed)
        return ST_IO;
    ASSERT(term > disk->vote_record.term ||
           (term == disk->vote_record.term &&
            (disk->vote_record.vote == 0 || vote == disk->vote_record.vote)));
    enum status st = vote_file_write(disk, &next);
    if (st == ST_OK)
        return ST_OK;
    disk->failed = true; /* the status tells the caller; writes under way are not acknowledged */
    drop_all(disk, &disk->queue);
    env_timer_stop(disk->env, &disk->tick);
    return st;
}

enum status rlog_disk_reset(struct rlog_disk *disk, uint64_t first, uint64_t prev_term)
{
    struct reason reason;
    ASSERT(first > 0);
    ASSERT(rlog_disk_idle(disk));
    ASSERT(disk->write_seq == 0);
    if (disk->failed)
        return disk->corrupt ? ST_CORRUPT : ST_IO;
    disk_lock(disk);
    enum status st = tail_reset(disk, first - 1, prev_term, &reason);
    disk_unlock(disk);
    if (st != ST_OK)
        trace(TRACE_ERROR, "raft", "%s/%s: %s", disk->dir, reason.text, status_text(st));
    return st;
}

static void compact_run(struct env_work *work)
{
    struct disk_work *w = CONTAINER_OF(work, struct disk_work, work);
    disk_lock(w->disk);
    w->st = tail_compact(w->disk, w->disk->compacting, &w->disk->compact_more, &w->reason);
    disk_unlock(w->disk);
}

void rlog_disk_compact(struct rlog_disk *disk, uint64_t upto)
{
    disk->compact_upto = MAX(disk->compact_upto, upto);
    compact_kick(disk);
}

/* Look at the free space; confirm the newest batch by a mark when nothing has followed it. */
static void tend_run(struct env_work *work)
{
    struct disk_work *w = CONTAINER_OF(work, struct disk_work, work);
    struct rlog_disk *disk = w->disk;
    struct tail *t = &disk->tail;
    disk_free_check(disk);
    disk_lock(disk);
    if (t->broken) { /* another work broke the log, and its failure is not reported yet */
        reason_set(&w->reason, "%s", t->why_broken.text);
        w->st = ST_IO;
    }
    bool room = t->n_segments != 0 && t->off + SECTOR <= t->segments[t->n_segments - 1].size;
    if (!t->marked && !t->broken && room && t->seq == disk->tick_seq)
        w->st = tail_mark(disk, 0, &w->reason);
    disk->tick_seq = t->seq;
    disk->want_next = t->prepared == 0;
    disk_unlock(disk);
}

static void tick_fire(struct env_timer *timer)
{
    struct rlog_disk *disk = CONTAINER_OF(timer, struct rlog_disk, tick);
    disk->tend_due = true;
    tend_kick(disk);
    env_timer_set(disk->env, timer, env_mono_ms(disk->env) + DISK_TICK_MS);
}

void disk_works_init(struct rlog_disk *disk)
{
    disk->write.work = (struct env_work){.run = write_run, .done = write_done, .lane = LANE_LOG};
    disk->compact.work = (struct env_work){.run = compact_run, .done = any_done, .lane = LANE_LOG};
    disk->tend.work = (struct env_work){.run = tend_run, .done = any_done, .lane = LANE_LOG};
    disk->write.disk = disk->compact.disk = disk->tend.disk = disk;
    disk->tick.fire = tick_fire;
    disk_prep_init(disk);
    disk_short_init(disk);
    list_init(&disk->queue);
    list_init(&disk->group);
}

uint64_t rlog_disk_durable(const struct rlog_disk *disk)
{
    return disk->durable_last;
}

uint64_t rlog_disk_queued_bytes(const struct rlog_disk *disk)
{
    return disk->queued_bytes;
}

bool rlog_disk_full(const struct rlog_disk *disk)
{
    return disk->full;
}

uint64_t rlog_disk_log_bytes(const struct rlog_disk *disk)
{
    return disk->log_bytes;
}
