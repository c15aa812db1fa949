/* A sync: the whole state of the primary at one version, staged through the log beside the own
 * state and swapped in at that version (PROTOCOL R8a). Until the swap is applied, the own state
 * stays as it was, and serves no client.
 *
 *   aim: the role names the version ─▶ begin a staged tree ─▶ stage keys, and the newest versions
 * of deletions ─▶ compare the root ─▶ swap, with this cluster's keys under the primary's root key,
 * and the new phase
 *
 * The transaction of each step names the staged tree and the record of the role, so an operator who
 * changes the role, or the next active node, ends the sync. */
#include "cluster/dr/follow/sync_internal.h"
#include "cluster/dr/token.h"

#include "base/crc32c.h"
#include "base/trace.h"
#include "raft/txn/rlog_content.h"
#include "state/state_dr.h"

#include <inttypes.h>

enum {
    TXN_BYTES = 1024 * 1024,
    TXN_OPS = 4096,
    STAGED_PIN_MS = 10 * 60 * 1000,
    HASHED_BYTES = 8 * 1024 * 1024 /* content between two computations of hashes */
};

/* Propose the transaction in y->txn, which is empty afterwards. */
static enum status send_txn(struct sync *y)
{
    CLEANUP(buf_done) struct buf txn = {0};
    rlog_txn_need_key(&y->txn, BYTES(DR_ROLE), y->role);
    enum status st = rlog_txn_encode(&y->txn, &txn);
    rlog_txn_done(&y->txn);
    y->txn_bytes = 0;
    TRY(st);
    if (y->f->thread->asked(y->f->thread->ctx))
        return ST_CLOSED;
    /* the swap frees the former state, so a full state does not refuse it */
    return sync_pipe_send(&y->pipe, &txn, y->swapping);
}

enum status sync_commit(struct sync *y)
{
    if (y->txn.n_ops > 0)
        TRY(send_txn(y));
    TRY(sync_pipe_drain(&y->pipe));
    y->stage = y->pipe.stage != 0 ? y->pipe.stage : y->stage;
    return ST_OK;
}

/* Make room for one more operation of about `bytes`. */
bool sync_op(struct sync *y, size_t bytes)
{
    if (y->st == ST_OK && y->txn.n_ops > 0 &&
        (y->txn_bytes + bytes > TXN_BYTES || y->txn.n_ops >= TXN_OPS))
        y->st = send_txn(y);
    if (y->st != ST_OK)
        return false;
    if (y->txn.n_ops == 0)
        rlog_txn_need_stage(&y->txn, y->stage);
    y->txn_bytes += bytes;
    return true;
}

/* The content is of the version that the primary named: so no version in it is above the target. */
static void on_sync_header(void *ctx, const struct rlog_machine *counters)
{
    struct sync *y = ctx;
    if (counters->version != y->target && y->st == ST_OK)
        y->st = ST_INVALID;
}

static void on_sync_key(void *ctx, const struct store_item *item)
{
    struct sync *y = ctx;
    /* The key of the segment itself is staged too: without it, the newest version below the segment
     * would go to another node of the staged tree. */
    bool segment = bytes_eq(item->key, BYTES(RLOG_REPLICATED));
    if (!rlog_txn_stage_valid(item)) {
        y->st = ST_INVALID;
        return;
    }
    if (y->diff != NULL && y->st == ST_OK && !dr_diff_got(y->diff, item))
        y->st = ST_INVALID;
    if (y->diff == NULL && y->st == ST_OK && !segment)
        y->st = state_dr_source_add(&y->source, item->key, item->value);
    if (!sync_op(y, item->key.len + item->value.len))
        return;
    rlog_txn_stage_put(&y->txn, item->key, item->value, item->created, item->modified);
    y->done++;
}

static void on_sync_newest(void *ctx, struct bytes at, uint64_t version)
{
    struct sync *y = ctx;
    if (at.len >= sizeof RLOG_REPLICATED - 1 && version > y->floor && sync_op(y, at.len))
        rlog_txn_stage_newest(&y->txn, at, version);
}

static void tell_progress(struct sync *y)
{
    struct dr_facts *facts = dr_live_begin(&y->f->dr->live);
    facts->sync = (struct dr_progress){.done = y->done, .total = y->total};
    dr_live_end(&y->f->dr->live);
}

/* The keys of a first sync come in order, so nearly all that is staged stays as it is: its hashes
 * are computed while the rest comes. Then the comparison of the roots at the end takes little time.
 */
static void hash_ahead(struct sync *y)
{
    uint8_t root[DR_ROOT_BYTES];
    struct store_pin staged;
    if (y->diff != NULL || y->bytes - y->hashed < HASHED_BYTES)
        return;
    y->hashed = y->bytes;
    if (store_pin_staged(rlog_store(y->f->thread->host->rlog), "dr sync", STAGED_PIN_MS, &staged) !=
        ST_OK)
        return; /* the comparison at the end computes them all, or fails */
    store_hash(&staged, BYTES(RLOG_REPLICATED), root);
    store_unpin(&staged);
}

/* Take one piece of content; pieces come in order. */
static enum status take_data(struct sync *y, const struct dr_sync_data *data)
{
    CLEANUP(buf_done) struct buf raw = {0};
    if (data->offset != y->bytes)
        return ST_INVALID;
    uint8_t *room = buf_extend(&raw, data->block.raw_bytes);
    if (room == NULL)
        return ST_NOMEM;
    TRY(dr_block_unpack(&data->block, room));
    y->crc = crc32c(y->crc, buf_bytes(&raw));
    y->bytes += raw.len;
    y->used += raw.len;
    TRY(rlog_content_piece(y->content, buf_bytes(&raw)));
    TRY(y->st);
    tell_progress(y);
    hash_ahead(y);
    if (y->used < FOLLOW_CREDIT_BYTES / 4)
        return ST_OK;
    struct dr_frame credit = {.type = DR_CREDIT, .credit = {.bytes = y->used}};
    y->used = 0;
    return dr_conn_send(y->f->conn, &credit, dr_conn_now_ms() + FOLLOW_SEND_MS);
}

static enum status take_end(struct sync *y, const struct dr_sync_end *end)
{
    if (end->bytes != y->bytes || end->crc != y->crc)
        return ST_CORRUPT;
    enum status st = rlog_content_end(y->content);
    y->content = NULL;
    TRY(st);
    memcpy(y->root, end->root, sizeof y->root);
    return sync_commit(y);
}

enum status sync_receive(struct sync *y)
{
    struct dr_frame credit = {.type = DR_CREDIT, .credit = {.bytes = FOLLOW_CREDIT_BYTES}};
    const struct rlog_content_visit visit = {on_sync_header, on_sync_key, on_sync_newest, y};
    struct dr_frame frame;
    TRY(rlog_content_begin(&visit, &y->content));
    TRY(dr_conn_send(y->f->conn, &credit, dr_conn_now_ms() + FOLLOW_SEND_MS));
    for (;;) {
        TRY(follow_receive(y->f, &frame));
        switch (frame.type) {
        case DR_SYNC_DATA: TRY(take_data(y, &frame.sync_data)); continue;
        case DR_SYNC_END: return take_end(y, &frame.sync_end);
        case DR_REFUSE: return ST_DENIED;
        default: return ST_INVALID;
        }
    }
}

struct aim {
    struct sync *y;
};

static enum status stage_aim(struct state_txn *txn, void *arg, int64_t now_ms)
{
    struct aim *a = arg;
    struct dr_role now;
    struct reason why = {{0}};
    (void)now_ms;
    TRY(dr_role_read(txn, &now));
    if (!follow_unchanged(a->y->f, &now))
        return ST_DENIED;
    return dr_role_aim(txn, a->y->target, &why);
}

/* Name the version in the role, and learn the record's version for the steps that follow. */
enum status sync_aim(struct sync *y)
{
    struct aim a = {y};
    struct store_pin pin;
    struct store_item item;
    struct dr_role now;
    const struct dr_thread *thread = y->f->thread;
    TRY(thread->transact(thread->ctx, stage_aim, &a));
    TRY(store_pin(rlog_store(thread->host->rlog), "dr follow", 0, &pin));
    enum status st = dr_role_at(&pin, &now);
    if (st == ST_OK && (!follow_unchanged(y->f, &now) || now.target != y->target))
        st = ST_DENIED;
    if (st == ST_OK)
        st = store_get(&pin, BYTES(DR_ROLE), &item);
    if (st == ST_OK) {
        y->role = item.modified;
        y->f->role = now;
    }
    store_unpin(&pin);
    return st;
}

/* The primary's root key, until the first sync has ended; later, links lead to a new one. */
static enum status read_root(struct sync *y, struct secret *ret_root, bool *ret_has)
{
    CLEANUP(buf_done) struct buf record = {0};
    struct store_pin pin;
    TRY(store_pin(rlog_store(y->f->thread->host->rlog), "dr follow", 0, &pin));
    enum status st = dr_reader_read(&y->f->reader, &pin, BYTES(DR_ROOT_KEY), &record);
    store_unpin(&pin);
    *ret_has = st == ST_OK;
    if (st == ST_NOT_FOUND)
        return ST_OK;
    TRY(st);
    return dr_root_decode(buf_bytes(&record), ret_root);
}

/* The last step: the state, the keys and the phase change at once. */
enum status sync_swap(struct sync *y)
{
    CLEANUP(buf_done) struct buf record = {0};
    CLEANUP(secret_done) struct secret root = {0};
    const struct dr_thread *thread = y->f->thread;
    struct reason why = {{0}};
    bool has_root = false;
    struct dr_role done = y->f->role;
    y->swapping = true;
    TRY(read_root(y, &root, &has_root));
    rlog_txn_need_stage(&y->txn, y->stage);
    rlog_txn_stage_swap_floor(&y->txn, y->target, y->time_ms, y->floor);
    const struct state_dr_adopt adopt = {
        .store = rlog_store(thread->host->rlog),
        .barrier = thread->host->barrier,
        .env = thread->env,
        .source = &y->source,
        .root = has_root ? &root : NULL,
        .own = thread->seal,
        .version = y->target,
        .now_ms = thread->host->calls->time_ms(thread->host),
    };
    enum status st = y->same_keys ? ST_OK : state_dr_adopt(&adopt, &y->txn, &why);
    if (st != ST_OK) {
        follow_tell(y->f, DR_LINK_FAILED, why.text);
        trace(TRACE_ERROR, "dr", "the primary's state cannot be taken over: %s",
              why.text[0] != '\0' ? why.text : status_text(st));
        return st;
    }
    done.phase = DR_PHASE_STREAMING;
    done.target = 0;
    done.whole = false;
    TRY(dr_role_encode(&done, &record));
    rlog_txn_put(&y->txn, BYTES(DR_ROLE), buf_bytes(&record));
    rlog_txn_delete(&y->txn, BYTES(DR_ROOT_KEY));
    if (!y->f->role.whole) /* operation tokens are named under the salt of the former state */
        rlog_txn_delete_prefix(&y->txn, BYTES(DR_TOKEN_PREFIX));
    return sync_commit(y);
}

enum status sync_check(struct sync *y, struct store_pin *ret_staged)
{
    uint8_t root[DR_ROOT_BYTES];
    struct store *store = rlog_store(y->f->thread->host->rlog);
    TRY(store_pin_staged(store, "dr sync", STAGED_PIN_MS, ret_staged));
    store_hash(ret_staged, BYTES(RLOG_REPLICATED), root);
    if (memcmp(root, y->root, sizeof root) == 0)
        return ST_OK;
    store_unpin(ret_staged);
    trace(TRACE_ERROR, "dr",
          "the sync to version %" PRIu64 " leads to another root than the primary's", y->target);
    follow_tell(y->f, DR_LINK_FAILED,
                "the synced state has another root than the primary's: check the primary's hashes");
    return ST_CORRUPT;
}

/* A first sync needs nothing of the staged tree but its root. */
static enum status check_whole(struct sync *y)
{
    struct store_pin staged;
    TRY(sync_check(y, &staged));
    store_unpin(&staged);
    return ST_OK;
}

void sync_done(struct sync *y, enum status st)
{
    if (y->content != NULL && rlog_content_end(y->content) == ST_OK)
        ASSERT(st != ST_OK); /* the content was cut short, whatever it says itself */
    rlog_txn_done(&y->txn);
    sync_pipe_done(&y->pipe);
    state_dr_source_done(&y->source);
}

bool sync_leads_back(struct sync *y, uint64_t version)
{
    if (y->target >= version)
        return false;
    follow_tell(y->f, DR_LINK_FAILED,
                "the primary's state is older than this one: it was "
                "restored, or is not the primary of this set");
    return true;
}

static enum status sync_run(struct sync *y, uint64_t version)
{
    struct dr_frame frame;
    TRY(follow_greet(y->f, DR_SYNC, version));
    TRY(follow_receive(y->f, &frame));
    if (frame.type != DR_SYNC_BEGIN)
        return frame.type == DR_REFUSE ? ST_DENIED : ST_INVALID;
    y->target = frame.sync_begin.version;
    y->total = frame.sync_begin.keys;
    y->time_ms = frame.sync_begin.time_ms;
    if (y->target == 0 || y->target > RLOG_VERSION_MAX)
        return ST_INVALID;
    if (sync_leads_back(y, version))
        return ST_DENIED;
    TRY(sync_aim(y));
    follow_tell(y->f, DR_LINK_READY, NULL);
    trace(TRACE_INFO, "dr", "syncing with %s to version %" PRIu64 ": %" PRIu64 " keys",
          dr_conn_address(y->f->conn), y->target, y->total);
    rlog_txn_stage_begin(&y->txn);
    TRY(sync_commit(y));
    TRY(sync_receive(y));
    TRY(check_whole(y));
    TRY(sync_swap(y));
    trace(TRACE_INFO, "dr", "synced: the state is the primary's at version %" PRIu64, y->target);
    return ST_OK;
}

enum status follow_sync(struct dr_follow *f, uint64_t version)
{
    struct sync y = {.f = f};
    TRY(sync_pipe_init(&y.pipe, f->thread->host));
    enum status st = sync_run(&y, version);
    if (st != ST_OK && st != ST_CLOSED && st != ST_DENIED)
        trace(TRACE_WARN, "dr", "the sync failed: %s%s%s", status_text(st),
              dr_conn_error(f->conn)[0] != '\0' ? ": " : "", dr_conn_error(f->conn));
    sync_done(&y, st);
    return st;
}
