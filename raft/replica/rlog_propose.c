/* Group commit. Commands wait until the entry before is on disk, then all of them become the next
 * entry; a lone command goes at once. Each entry in flight remembers its proposals, and they end
 * when the entry is applied.
 *
 *   (fenced ->) (held ->) waiting -> batch (in an entry) -> done
 *
 * A proposal in an entry ends when an entry is applied at that index. If the terms agree, the
 * proposal was applied; if they differ, the proposal's entry was never committed. If leadership is
 * lost and no entry is applied there for a while, the outcome of the proposal is unknown. */
#include "base/mem.h"
#include "raft/replica/rlog_internal.h"

enum {
    GRACE_MS = 3000, /* wait for the outcome of what a lost leader had proposed */
    /* after this time an entry no longer waits for the majority of the one before */
    GATHER_MS = 2,
    /* after this time an entry no longer waits for the write of the one before */
    SLOW_DISK_MS = 10,
    ENTRY_KEEP = 256 * 1024, /* largest buffer of an entry that is kept for the next entry */
};

static void on_gathered(struct env_timer *timer)
{
    struct rlog *r = CONTAINER_OF(timer, struct rlog, proposals.gather);
    rlog_enter(r);
    rlog_leave(r);
}

void rlog_proposals_init(struct rlog *r)
{
    list_init(&r->proposals.waiting);
    list_init(&r->proposals.held);
    list_init(&r->proposals.batches);
    r->proposals.gather.fire = on_gathered;
}

static void uncount(struct rlog *r, struct rlog_propose *p)
{
    if (p->counted)
        r->proposals.waiting_bytes -= p->txn.len;
    p->counted = false;
}

/* The proposal has an outcome, which the pump delivers. The proposal is in no list. */
void rlog_propose_finish(struct rlog *r, struct rlog_propose *p, enum status st)
{
    ASSERT(r->depth > 0);
    uncount(r, p);
    if (p->marked) {
        rlog_conflicts_unmark(r, p);
        r->proposals.recheck = true;
    }
    if (st != ST_CONFLICT) {
        rlog_tickets_settled(r, p);
        p->ticket = 0;
    }
    p->status = st;
    list_push(&r->done_proposals, &p->link);
}

static void batch_finish(struct rlog *r, struct rlog_batch *b, enum status st)
{
    ASSERT(b->bytes <= r->proposals.batches_bytes);
    list_remove(&b->link);
    r->proposals.batches_bytes -= b->bytes;
    for (unsigned i = 0; i < b->n; i++)
        if (b->items[i] != NULL)
            rlog_propose_finish(r, b->items[i], st);
    mem_free(b);
}

static void list_fail(struct rlog *r, struct list *list, enum status st)
{
    struct list *link;
    while ((link = list_pop(list)) != NULL)
        rlog_propose_finish(r, CONTAINER_OF(link, struct rlog_propose, link), st);
}

/* Fail every proposal that no entry contains. */
static void waiting_fail(struct rlog *r, enum status st)
{
    list_fail(r, &r->proposals.waiting, st);
    list_fail(r, &r->proposals.held, st);
    rlog_tickets_fail(r, st);
    ASSERT(r->proposals.waiting_bytes == 0);
    ASSERT(r->tickets.n == 0);
}

static void batches_fail(struct rlog *r, enum status st)
{
    while (!list_empty(&r->proposals.batches))
        batch_finish(r, CONTAINER_OF(r->proposals.batches.next, struct rlog_batch, link), st);
}

struct put_search {
    bool found;
};

static void put_seen(void *ctx, enum rlog_touch touch, struct bytes key)
{
    struct put_search *search = ctx;
    (void)key;
    if (touch == RLOG_TOUCH_PUT || touch == RLOG_TOUCH_ALL)
        search->found = true;
}

/* Whether the state has reached `state_bytes_max` and the transaction puts a value. Deletes stay
 * possible. */
static bool state_full(struct rlog *r, struct bytes txn)
{
    struct store_stats stats;
    struct put_search search = {0};
    if (r->options.state_bytes_max == 0 || planted(PLANT_STATE_UNBOUNDED))
        return false;
    store_stats(r->machine.store, &stats);
    if (stats.bytes < r->options.state_bytes_max)
        return false;
    rlog_txn_touch_ops(txn, put_seen, &search);
    return search.found;
}

static enum status proposal_refused(struct rlog *r, const struct rlog_propose *p)
{
    const struct rlog_proposals *ps = &r->proposals;
    if (r->failed || r->closing)
        return ST_CLOSED;
    if (p->txn.len == 0)
        return ST_INVALID;
    if (p->txn.len > RLOG_TXN_MAX + RLOG_TXN_WAL_MORE)
        return ST_TOO_BIG;
    if (!rlog_core_leads(&r->core) || (p->term != 0 && p->term != r->core.term))
        return ST_NOT_LEADER;
    if (ps->waiting_bytes + ps->batches_bytes + p->txn.len > r->options.inflight_bytes_max)
        return ST_BUSY;
    if (rlog_disk_full(r->disk))
        return ST_NO_SPACE;
    return !p->upkeep && state_full(r, p->txn) ? ST_STATE_FULL : ST_OK;
}

void rlog_propose(struct rlog *r, struct rlog_propose *p)
{
    ASSERT(p->done != NULL);
    ASSERT(p->feature <= r->options.feature_max);
    rlog_enter(r);
    list_init(&p->link);
    p->copy = NULL;
    p->counted = p->marked = false;
    p->applied = (struct rlog_applied){0};
    enum status st = proposal_refused(r, p);
    if (st != ST_OK) {
        rlog_propose_finish(r, p, st);
    } else {
        p->counted = true;
        r->proposals.waiting_bytes += p->txn.len;
        rlog_tickets_hold(r, p);
        bool late = r->tickets.n > 0 || r->machine.following;
        (late ? rlog_propose_late : rlog_propose_route)(r, p);
    }
    rlog_leave_soon(r);
}

/* Admit a proposal: its writes are pending from now on. */
static void admit(struct rlog *r, struct rlog_propose *p)
{
    rlog_conflicts_mark(r, p);
    list_push(&r->proposals.waiting, &p->link);
}

static struct bytes keep_bytes(struct rlog_propose *p, struct bytes bytes);

void rlog_propose_route(struct rlog *r, struct rlog_propose *p)
{
    if (rlog_tickets_fenced(r, p))
        list_push(&r->tickets.fenced, &p->link);
    else if (rlog_conflicts_doomed(r, p->txn))
        list_push(&r->proposals.held, &p->link);
    else
        admit(r, p);
}

/* Check a proposal's preconditions before it is replicated. For a proposal that waited, or that
 * comes while many transactions write what others read: it may have failed already. While the
 * cluster follows another one, every change of replicated keys but that one's WAL has failed. */
void rlog_propose_late(struct rlog *r, struct rlog_propose *p)
{
    struct bytes conflict;
    if (!rlog_machine_conflicts(&r->machine, p->txn, &conflict)) {
        rlog_propose_route(r, p);
        return;
    }
    ASSERT(!p->marked);
    uncount(r, p);
    p->applied.conflict = keep_bytes(p, conflict);
    rlog_tickets_conflict(r, p);
}

/* Look at held proposals again: each is certain to fail by now, or free to go, or still held. */
static void held_recheck(struct rlog *r)
{
    struct list held, *link;
    if (!r->proposals.recheck)
        return;
    r->proposals.recheck = false;
    list_init(&held);
    list_splice(&held, &r->proposals.held);
    while ((link = list_pop(&held)) != NULL)
        rlog_propose_late(r, CONTAINER_OF(link, struct rlog_propose, link));
}

/* Make one entry at a time, unless the disk or the majority is slow: proposals that come meanwhile
 * share the next entry. An entry costs all nodes a dozen wake-ups, one more write in an entry costs
 * next to nothing. Do not run too far ahead of the majority. */
static bool may_submit(struct rlog *r, uint64_t now)
{
    const struct rlog_core *c = &r->core;
    if (!rlog_ready(r) || rlog_core_transferring(c) || rlog_members_holding(r))
        return false;
    if (rlog_core_last(c) - c->commit >= RLOG_UNCOMMITTED_MAX ||
        rlog_core_last(c) - c->stored >= RLOG_UNCOMMITTED_MAX)
        return false;
    uint64_t last = rlog_core_last(c), age_ms = now - r->proposals.submitted_ms;
    ASSERT(r->proposals.submitted_ms <= now);
    return age_ms >= SLOW_DISK_MS ||
           (c->stored == last && (c->commit == last || age_ms >= GATHER_MS));
}

/* The number of waiting proposals that fit into one entry; at least one. */
static unsigned batch_count(const struct rlog *r, size_t *ret_bytes)
{
    unsigned n = 0;
    size_t bytes = 0;
    LIST_FOR (link, &r->proposals.waiting) {
        const struct rlog_propose *p = CONTAINER_OF(link, struct rlog_propose, link);
        if (n > 0 && (n == RLOG_BATCH_TXNS_MAX || bytes + p->txn.len > r->options.batch_bytes_max))
            break;
        bytes += p->txn.len;
        n++;
    }
    ASSERT(n <= RLOG_BATCH_TXNS_MAX);
    *ret_bytes = bytes;
    return n;
}

static struct rlog_batch *batch_take(struct rlog *r, unsigned n, size_t bytes)
{
    ASSERT(n > 0);
    struct rlog_batch *b = mem_alloc(sizeof *b + n * sizeof *b->items);
    if (b == NULL)
        return NULL;
    *b = (struct rlog_batch){.n = n, .bytes = bytes};
    list_init(&b->link);
    for (unsigned i = 0; i < n; i++) {
        b->items[i] = CONTAINER_OF(list_pop(&r->proposals.waiting), struct rlog_propose, link);
        uncount(r, b->items[i]);
    }
    return b;
}

/* The feature level of the cluster, as this node has applied it. */
static uint16_t feature_now(const struct rlog *r)
{
    return MAX(r->machine.feature, (uint16_t)RLOG_FEATURE_FIRST);
}

/* The feature level of the next entry: the cluster's, or that to which a proposal raises it. */
static uint16_t feature_of(const struct rlog *r, const struct rlog_batch *b)
{
    uint16_t feature = feature_now(r);
    for (unsigned i = 0; i < b->n; i++)
        feature = MAX(feature, b->items[i]->feature);
    ASSERT(feature <= r->options.feature_max);
    return feature;
}

static enum status entry_of(struct rlog *r, uint16_t feature, const struct bytes *txns, unsigned n,
                            struct rlog_entry *ret_entry)
{
    struct buf *buf = &r->entry;
    buf_clear(buf);
    TRY(rlog_entry_encode(feature, rlog_clock_entry_ms(r), txns, n, buf));
    struct rlog_block *block = rlog_block_new(buf->len);
    if (block == NULL)
        return ST_NOMEM;
    memcpy(rlog_block_data(block), buf->data, buf->len);
    *ret_entry =
        (struct rlog_entry){.data = bytes_of(rlog_block_data(block), buf->len), .block = block};
    if (buf->cap > ENTRY_KEEP)
        buf_drop(buf);
    return ST_OK;
}

static enum status entry_encode(struct rlog *r, const struct rlog_batch *b,
                                struct rlog_entry *ret_entry)
{
    struct bytes *txns = mem_alloc(b->n * sizeof *txns);
    if (txns == NULL)
        return ST_NOMEM;
    for (unsigned i = 0; i < b->n; i++)
        txns[i] = b->items[i]->txn;
    enum status st = entry_of(r, feature_of(r, b), txns, b->n, ret_entry);
    mem_free(txns);
    return st;
}

static void batch_fail(struct rlog *r, struct rlog_batch *b, enum status st)
{
    for (unsigned i = 0; i < b->n; i++)
        rlog_propose_finish(r, b->items[i], st);
    mem_free(b);
}

static void acknowledge_early(struct rlog *r, struct rlog_batch *b)
{
    for (unsigned i = 0; i < b->n; i++) {
        b->items[i]->applied.version = r->machine.version + i + 1;
        rlog_propose_finish(r, b->items[i], ST_OK);
        b->items[i] = NULL;
    }
}

/* Insert a batch in the order of indexes. A batch of an earlier term may have the same index or a
 * higher one. */
static void batch_insert(struct rlog *r, struct rlog_batch *b)
{
    struct list *at = &r->proposals.batches;
    while (at->prev != &r->proposals.batches &&
           CONTAINER_OF(at->prev, struct rlog_batch, link)->index > b->index)
        at = at->prev;
    list_insert_before(at, &b->link);
}

static bool batch_submit(struct rlog *r)
{
    size_t bytes;
    struct rlog_entry entry;
    unsigned n = batch_count(r, &bytes);
    struct rlog_batch *b = batch_take(r, n, bytes);
    if (b == NULL)
        return false; /* out of memory: the proposals wait */
    enum status st = entry_encode(r, b, &entry);
    if (st != ST_OK) {
        batch_fail(r, b, st);
        return true;
    }
    b->term = r->core.term;
    b->index = rlog_core_last(&r->core) + 1;
    batch_insert(r, b);
    r->proposals.batches_bytes += bytes;
    r->proposals.submitted_ms = rlog_now(r);
    uint64_t index;
    st = rlog_core_submit(&r->core, RLOG_COMMAND, &entry, r->proposals.submitted_ms, &index);
    rlog_block_unref(entry.block);
    if (st != ST_OK) {
        list_remove(&b->link);
        r->proposals.batches_bytes -= bytes;
        batch_fail(r, b, st);
        return true;
    }
    ASSERT(index == b->index);
    rlog_clock_submitted(r, index);
    for (unsigned i = 0; i < b->n; i++)
        b->items[i]->index = index;
    if (planted(PLANT_ACK_BEFORE_COMMIT))
        acknowledge_early(r, b);
    return true;
}

/* Submit an entry that changes nothing but the time, when no other entry carries the step of the
 * clock. Without memory, or on a full disk, the clock asks again. */
static void step_submit(struct rlog *r)
{
    CLEANUP(rlog_txn_done) struct rlog_txn_builder nothing = {0};
    CLEANUP(buf_done) struct buf txn = {0};
    struct rlog_entry entry;
    uint64_t index;
    ASSERT(rlog_core_leads(&r->core));
    ASSERT(r->clock.step_ms != 0);
    if (rlog_txn_encode(&nothing, &txn) != ST_OK)
        return;
    struct bytes bytes = buf_bytes(&txn);
    if (entry_of(r, feature_now(r), &bytes, 1, &entry) != ST_OK)
        return;
    if (rlog_core_submit(&r->core, RLOG_COMMAND, &entry, rlog_now(r), &index) == ST_OK)
        rlog_clock_submitted(r, index);
    rlog_block_unref(entry.block);
}

/* Set a timer for the end of the wait: no other event may come before it. */
static void gather_arm(struct rlog *r, uint64_t now)
{
    struct rlog_proposals *ps = &r->proposals;
    bool stored = r->core.stored == rlog_core_last(&r->core);
    uint64_t until = ps->submitted_ms + (stored ? GATHER_MS : SLOW_DISK_MS);
    if (list_empty(&ps->waiting) || r->failed || until <= now)
        env_timer_stop(r->env, &ps->gather);
    else if (ps->gather.slot == 0 || ps->gather.at_ms != until)
        env_timer_set(r->env, &ps->gather, until);
}

void rlog_proposals_pump(struct rlog *r)
{
    if (!rlog_core_leads(&r->core)) {
        waiting_fail(r, ST_NOT_LEADER);
        return;
    }
    held_recheck(r);
    rlog_tickets_pump(r);
    while (!list_empty(&r->proposals.waiting) && !r->failed && may_submit(r, rlog_now(r)))
        if (!batch_submit(r))
            return;
    gather_arm(r, rlog_now(r));
    if (r->clock.step_ms != 0 && !r->failed && !rlog_disk_full(r->disk) &&
        may_submit(r, rlog_now(r)))
        step_submit(r);
}

/* Copy the bytes of a result: the borrowed ones are valid only during apply. */
static struct bytes keep_bytes(struct rlog_propose *p, struct bytes bytes)
{
    if (bytes.len == 0)
        return bytes;
    ASSERT(p->copy == NULL);
    p->copy = mem_must_alloc(bytes.len);
    memcpy(p->copy, bytes.data, bytes.len);
    return bytes_of(p->copy, bytes.len);
}

static enum status applied_status(enum rlog_outcome outcome)
{
    switch (outcome) {
    case RLOG_APPLIED:
    case RLOG_REPEATED: return ST_OK;
    case RLOG_CONFLICTED: return ST_CONFLICT;
    case RLOG_OUTCOME_UNKNOWN: return ST_UNKNOWN_OUTCOME;
    }
    return ST_INTERNAL;
}

static void on_each(void *ctx, unsigned i, const struct rlog_applied *applied)
{
    struct rlog *r = ctx;
    struct rlog_batch *b = r->proposals.applying;
    r->txns_applied++;
    if (b == NULL)
        return;
    ASSERT(i < b->n);
    struct rlog_propose *p = b->items[i];
    if (p == NULL)
        return;
    p->applied = *applied;
    p->applied.response = p->applied.conflict = (struct bytes){0};
    if (applied->outcome == RLOG_REPEATED)
        p->applied.response = keep_bytes(p, applied->response);
    if (applied->outcome == RLOG_CONFLICTED)
        p->applied.conflict = keep_bytes(p, applied->conflict);
    p->status = applied_status(applied->outcome);
}

/* Our batch that is the entry at `index`; NULL: none. Our other batches at this index were never
 * committed, because an index has only one committed entry. */
static struct rlog_batch *batch_at(struct rlog *r, uint64_t index, uint64_t term)
{
    struct rlog_batch *ours = NULL;
    LIST_FOR_SAFE (link, after, &r->proposals.batches) {
        struct rlog_batch *b = CONTAINER_OF(link, struct rlog_batch, link);
        ASSERT(b->index >= index);
        if (b->index > index)
            break;
        if (b->term == term)
            ours = b;
        else
            batch_finish(r, b, ST_NOT_LEADER);
    }
    return ours;
}

void rlog_proposals_apply(struct rlog *r, uint64_t index, const struct rlog_entry *entry)
{
    struct rlog_proposals *ps = &r->proposals;
    struct rlog_batch *b = batch_at(r, index, entry->term);
    if (entry->type != RLOG_COMMAND) {
        ASSERT(b == NULL);
        return;
    }
    ps->applying = b;
    rlog_machine_apply(&r->machine, index, entry->data, on_each, r);
    ps->applying = NULL;
    if (b == NULL)
        return;
    ASSERT(b->bytes <= ps->batches_bytes);
    list_remove(&b->link);
    ps->batches_bytes -= b->bytes;
    for (unsigned i = 0; i < b->n; i++) {
        struct rlog_propose *p = b->items[i];
        if (p == NULL)
            continue;
        if (p->status != ST_CONFLICT) {
            rlog_propose_finish(r, p, p->status);
            continue;
        }
        rlog_conflicts_unmark(r, p);
        r->proposals.recheck = true;
        rlog_tickets_conflict(r, p);
    }
    mem_free(b);
}

/* The state jumped to `index` without applying what lies before. */
void rlog_proposals_jumped(struct rlog *r, uint64_t index)
{
    LIST_FOR_SAFE (link, after, &r->proposals.batches) {
        struct rlog_batch *b = CONTAINER_OF(link, struct rlog_batch, link);
        if (b->index <= index)
            batch_finish(r, b, ST_UNKNOWN_OUTCOME);
    }
}

static void on_grace(struct env_timer *timer)
{
    struct rlog *r = CONTAINER_OF(timer, struct rlog, proposals.grace);
    bool leads = rlog_core_leads(&r->core);
    rlog_enter(r);
    LIST_FOR_SAFE (link, after, &r->proposals.batches) {
        struct rlog_batch *b = CONTAINER_OF(link, struct rlog_batch, link);
        if (!leads || b->term != r->core.term)
            batch_finish(r, b, ST_UNKNOWN_OUTCOME);
    }
    rlog_leave(r);
}

void rlog_proposals_leadership(struct rlog *r)
{
    r->proposals.grace.fire = on_grace;
    if (!rlog_core_leads(&r->core) && !list_empty(&r->proposals.batches))
        env_timer_set(r->env, &r->proposals.grace, rlog_now(r) + GRACE_MS);
}

/* Empty the lists only: the replica closes the rest later. */
void rlog_proposals_close(struct rlog *r)
{
    waiting_fail(r, ST_CLOSED);
    batches_fail(r, ST_UNKNOWN_OUTCOME);
    env_timer_stop(r->env, &r->proposals.grace);
    env_timer_stop(r->env, &r->proposals.gather);
}

void rlog_proposals_fire(struct rlog *r)
{
    struct list *link;
    while ((link = list_pop(&r->done_proposals)) != NULL) {
        struct rlog_propose *p = CONTAINER_OF(link, struct rlog_propose, link);
        void *copy = p->copy;
        p->done(p, p->status); /* the last touch of *p */
        mem_free(copy);
    }
}
