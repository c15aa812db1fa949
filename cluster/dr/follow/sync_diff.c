/* A difference sync: a state that is whole, though it may differ from the primary's, becomes the
 * primary's at the version that the primary pins, at the cost of the difference.
 *
 *   ask_all with the own state at a pin (../diff) ─▶ stage a clone of the own state ─▶ put what was
 *   fetched, delete, raise newest versions ─▶ the root of the staged tree is the primary's ─▶ swap
 *
 * Crash-safe: until the swap, which is one transaction, the state is as it was. A sync that ends
 * before leaves a staged tree that the next one drops, and the next one compares again; what it
 * fetched is fetched again, no more than the difference.
 *
 * Exact: nothing but a swap changes replicated keys while the role is syncing, so the clone has the
 * content of the pin that was compared. dr_diff.h says why versions and newest versions follow. The
 * root is computed from the staged tree itself, before the swap, which names that tree: a
 * difference that was overlooked, or a clone that another active node changed, does not become the
 * state. */
#include "cluster/dr/follow/sync_internal.h"

#include "base/mem.h"
#include "base/trace.h"
#include "state/state_core.h"

#include <inttypes.h>

enum { PIN_MS = 10 * 60 * 1000, NAMED_MAX = 3 };

struct diff {
    struct sync sync;
    struct store_pin pin;
    uint64_t version; /* of this cluster's state */
    uint64_t fork;    /* version from which on the own writes were not the primary's; 0: none */
    struct follow_lost *lost;
    uint64_t n_lost, n_named;
    uint8_t *room; /* for content of a block */
    enum status lost_st;
};

/* A key of the own state goes. One that was written behind the fork is a write that the new primary
 * never got: it is kept before it goes. */
static void on_goes(void *ctx, const struct store_item *item)
{
    struct diff *d = ctx;
    if (d->sync.f->because == FOLLOW_DIFFERS && d->n_named++ < NAMED_MAX)
        trace(TRACE_ERROR, "dr", "damaged or foreign: %.*s", (int)MIN(item->key.len, (size_t)256),
              (const char *)item->key.data);
    if (d->fork == 0 || item->modified <= d->fork)
        return;
    d->n_lost++;
    if (d->lost_st == ST_OK)
        d->lost_st = follow_lost_add(d->lost, item);
}

static enum status take_begin(struct diff *d)
{
    struct sync *y = &d->sync;
    struct dr_frame frame;
    TRY(follow_receive(y->f, &frame));
    if (frame.type != DR_DIFF_BEGIN)
        return frame.type == DR_REFUSE ? ST_DENIED : ST_INVALID;
    y->target = frame.diff_begin.version;
    y->time_ms = frame.diff_begin.time_ms;
    if (y->target == 0 || y->target > RLOG_VERSION_MAX)
        return ST_INVALID;
    y->floor = dr_diff_floor(y->target);
    if (y->f->because == FOLLOW_APART)
        d->fork = frame.diff_begin.fork;
    return ST_OK;
}

static enum status ask_once(struct diff *d, struct bytes question)
{
    struct sync *y = &d->sync;
    struct dr_frame frame;
    /* true: newest versions are not compared, as the floor is the version of the sync */
    TRY(dr_conn_send_list(y->f->conn, DR_DIFF_ASK, question, true,
                          dr_conn_now_ms() + FOLLOW_SEND_MS));
    while (dr_diff_waits(y->diff)) {
        TRY(follow_receive(y->f, &frame));
        if (frame.type != DR_DIFF_NODES)
            return frame.type == DR_REFUSE ? ST_DENIED : ST_INVALID;
        TRY(dr_block_unpack(&frame.diff_list.block, d->room));
        TRY(dr_diff_take(y->diff, bytes_of(d->room, frame.diff_list.block.raw_bytes)));
    }
    return ST_OK;
}

static enum status ask_all(struct diff *d)
{
    CLEANUP(buf_done) struct buf question = {0};
    while (dr_diff_ask(d->sync.diff, &question)) {
        TRY(buf_status(&question));
        TRY(ask_once(d, buf_bytes(&question)));
        buf_clear(&question);
    }
    return d->lost_st;
}

static enum status tell_wants(struct diff *d)
{
    CLEANUP(buf_done) struct buf list = {0};
    struct sync *y = &d->sync;
    struct dr_frame frame;
    for (bool last = false; !last; buf_clear(&list)) {
        TRY(dr_diff_want(y->diff, &list, &last));
        TRY(dr_conn_send_list(y->f->conn, DR_DIFF_WANT, buf_bytes(&list), last,
                              dr_conn_now_ms() + FOLLOW_SEND_MS));
    }
    TRY(follow_receive(y->f, &frame));
    if (frame.type != DR_SYNC_BEGIN || frame.sync_begin.version != y->target)
        return frame.type == DR_REFUSE ? ST_DENIED : ST_INVALID;
    return ST_OK;
}

/* Fill the clone. The order matters: see dr_diff.h. */
static enum status stage_all(struct diff *d)
{
    struct sync *y = &d->sync;
    struct bytes key;
    uint64_t version;
    y->total = dr_diff_counts(y->diff)->wanted;
    rlog_txn_stage_clone(&y->txn);
    TRY(sync_commit(y));
    TRY(tell_wants(d));
    TRY(sync_receive(y));
    TRY(dr_diff_end(y->diff));
    TRY(d->lost_st);
    while (dr_diff_deleted(y->diff, &key) && sync_op(y, key.len))
        rlog_txn_stage_delete(&y->txn, key);
    TRY(y->st);
    while (dr_diff_newest(y->diff, &key, &version) && sync_op(y, key.len))
        if (!bytes_eq(key, BYTES("")))
            rlog_txn_stage_newest(&y->txn, key, version);
    TRY(y->st);
    return sync_commit(y);
}

static enum status read_source(const struct store_pin *pin, struct state_dr_source *source)
{
    struct store_iter *iter = mem_alloc(sizeof *iter);
    enum status st = iter != NULL ? ST_OK : ST_NOMEM;
    if (iter != NULL)
        store_iter_init(iter, pin, BYTES(STATE_SHARED "core/"), BYTES(""));
    while (st == ST_OK && store_iter_next(iter))
        st = state_dr_source_add(source, iter->item.key, iter->item.value);
    mem_free(iter);
    return st;
}

/* The staged tree is the primary's state, or it is not swapped in. The keys of the barrier are read
 * from it, as they may be among what did not travel. */
static enum status check_staged(struct diff *d)
{
    struct sync *y = &d->sync;
    struct state_dr_source own = {0};
    struct store_pin staged;
    TRY(sync_check(y, &staged));
    enum status st = read_source(&staged, &y->source);
    if (st == ST_OK)
        st = read_source(&d->pin, &own);
    /* A repair at a version that this cluster has synced to already leaves the keys alone. */
    y->same_keys = st == ST_OK && y->target == d->version && state_dr_source_eq(&own, &y->source);
    state_dr_source_done(&own);
    store_unpin(&staged);
    return st;
}

static void tell_result(struct diff *d)
{
    struct sync *y = &d->sync;
    const struct dr_diff_counts *n = dr_diff_counts(y->diff);
    struct dr_conn_stats stats;
    dr_conn_stats(y->f->conn, &stats);
    struct dr_facts *facts = dr_live_begin(&y->f->dr->live);
    facts->diff.syncs++;
    facts->diff.bytes = stats.wire_received + stats.wire_sent - y->f->wire_before;
    facts->diff.fetched = n->fetched;
    facts->diff.repairs += y->f->because == FOLLOW_DIFFERS;
    facts->differs = false;
    dr_count(&y->f->dr->counts.syncs_different, 1);
    dr_count(&y->f->dr->counts.repairs, y->f->because == FOLLOW_DIFFERS);
    uint64_t bytes = facts->diff.bytes;
    dr_live_end(&y->f->dr->live);
    trace(TRACE_INFO, "dr",
          "synced by difference: the state is the primary's at version %" PRIu64 "; %" PRIu64
          " nodes compared, %" PRIu64 " keys fetched, %" PRIu64 " replaced, %" PRIu64
          " deleted, %" PRIu64 " bytes",
          y->target, n->opened, n->fetched, n->replaced, n->deleted, bytes);
}

static enum status diff_run(struct diff *d)
{
    struct sync *y = &d->sync;
    struct dr_conn_stats stats;
    dr_conn_stats(y->f->conn, &stats);
    y->f->wire_before = stats.wire_received + stats.wire_sent;
    TRY(follow_greet(y->f, DR_DIFF, d->version));
    TRY(take_begin(d));
    if (sync_leads_back(y, d->version))
        return ST_DENIED;
    const struct dr_diff_input in = {&d->pin, y->target, y->floor, on_goes, d};
    TRY(dr_diff_new(&in, &y->diff));
    TRY(sync_aim(y));
    follow_tell(y->f, DR_LINK_READY, NULL);
    trace(TRACE_INFO, "dr", "comparing with %s at version %" PRIu64, dr_conn_address(y->f->conn),
          y->target);
    TRY(ask_all(d));
    TRY(stage_all(d));
    TRY(check_staged(d));
    TRY(follow_lost_end(d->lost, d->n_lost));
    TRY(sync_swap(y));
    tell_result(d);
    return ST_OK;
}

enum status follow_diff(struct dr_follow *f, uint64_t version)
{
    struct diff d = {.sync = {.f = f}, .version = version};
    TRY(sync_pipe_init(&d.sync.pipe, f->thread->host));
    d.room = mem_alloc(DR_RAW_MAX);
    enum status st = d.room != NULL ? follow_lost_new(f, &d.lost) : ST_NOMEM;
    if (st == ST_OK)
        st = store_pin(rlog_store(f->thread->host->rlog), "dr diff", PIN_MS, &d.pin);
    if (st == ST_OK) {
        d.version = d.pin.version;
        st = diff_run(&d);
    }
    if (st != ST_OK && st != ST_CLOSED && st != ST_DENIED)
        trace(TRACE_WARN, "dr", "the difference sync failed: %s%s%s", status_text(st),
              dr_conn_error(f->conn)[0] != '\0' ? ": " : "", dr_conn_error(f->conn));
    dr_diff_free(d.sync.diff);
    if (d.pin.store != NULL)
        store_unpin(&d.pin);
    sync_done(&d.sync, st);
    follow_lost_free(d.lost);
    mem_free(d.room);
    return st;
}
