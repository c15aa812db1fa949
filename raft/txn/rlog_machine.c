#include "raft/txn/rlog_machine_wal.h"
#include "raft/txn/rlog_txn_read.h"
#include "raft/txn/rlog_wal.h"

#include "base/plant.h"
#include "base/trace.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

/* Records of applied request ids, so that a repeated one gets the stored reply and is not applied
 * again (R14):
 *
 *   l/req/i<id>            version u64, response: what the first apply came to
 *   l/req/v<version be64>  id: the same records in the order they expire
 *
 * An id takes a version of its own, so the second key is unique. A record is forgotten when its
 * version falls below `id_floor`, which only rises; an id issued below the floor may have been
 * applied and forgotten. An id issued at or above the floor can only have been applied later. So
 * either its record exists, or the id was never applied. */
#define REQUEST_BY_ID RLOG_REQUESTS "i"
#define REQUEST_BY_VERSION RLOG_REQUESTS "v"

enum {
    ID_KEY = sizeof REQUEST_BY_ID - 1 + 16,
    VERSION_KEY = sizeof REQUEST_BY_VERSION - 1 + 8,
    OPS_KEPT = 8, /* more than most transactions have */
};

/* A committed entry this program cannot apply: going on would be a silent divergence. */
static __attribute__((noreturn, cold)) void stop(uint64_t index, enum status st)
{
    const char *why = st == ST_UNSUPPORTED ? "it needs a later version of this program"
                                           : "its content is malformed";
    trace_end(TRACE_ERROR, "raft",
              "entry %" PRIu64 " cannot be applied: %s; this node stops so that its state does not "
              "diverge",
              index, why);
    abort();
}

static struct bytes id_key(uint8_t room[ID_KEY], const uint8_t id[16])
{
    memcpy(room, REQUEST_BY_ID, ID_KEY - 16);
    memcpy(room + ID_KEY - 16, id, 16);
    return bytes_of(room, ID_KEY);
}

static struct bytes version_key(uint8_t room[VERSION_KEY], uint64_t version)
{
    memcpy(room, REQUEST_BY_VERSION, VERSION_KEY - 8);
    be64_put(room + VERSION_KEY - 8, version);
    return bytes_of(room, VERSION_KEY);
}

/* Whether the id of a request counts. While this cluster follows another, it does not: an id takes
 * a version of its own, and the versions are the other cluster's. A repeated request runs again
 * then.
 */
static bool has_own_id(const struct rlog_machine *m, const struct rlog_txn_view *view)
{
    return view->has_id && !m->following;
}

/* Whether the id decides the outcome by itself. */
static bool id_decides(const struct rlog_machine *m, const struct rlog_txn_view *view,
                       struct rlog_applied *applied)
{
    uint8_t room[ID_KEY];
    struct store_item item;

    if (!has_own_id(m, view) || planted(PLANT_R14_NO_DEDUP))
        return false;
    if (store_writer_get(m->store, id_key(room, view->id.bytes), &item) == ST_OK) {
        ASSERT(item.value.len >= 8);
        applied->outcome = RLOG_REPEATED;
        applied->version = le64_get(item.value.data);
        applied->response = bytes_from(item.value, 8);
        return true;
    }
    /* No honest issuer knows a version that has not been applied. */
    if (view->id.issued < m->id_floor || view->id.issued > m->version) {
        applied->outcome = RLOG_OUTCOME_UNKNOWN;
        return true;
    }
    return false;
}

static void id_record(struct rlog_machine *m, const struct rlog_txn_view *view)
{
    uint8_t room[ID_KEY], order[VERSION_KEY], value[8 + RLOG_RESPONSE_MAX];
    size_t n = view->response.len;

    ASSERT(n <= RLOG_RESPONSE_MAX);
    le64_put(value, m->version);
    if (n != 0)
        memcpy(value + 8, view->response.data, n);
    store_put(m->store, id_key(room, view->id.bytes), bytes_of(value, 8 + n), m->local_version);
    store_put(m->store, version_key(order, m->version),
              bytes_of(view->id.bytes, sizeof view->id.bytes), m->local_version);
    m->id_bytes += n;
}

/* Forget the id that was recorded at a version, if there is one. */
static void id_forget(struct rlog_machine *m, uint64_t version)
{
    uint8_t room[ID_KEY], order[VERSION_KEY], id[16];
    struct bytes order_key = version_key(order, version);
    struct store_item item;

    if (store_writer_get(m->store, order_key, &item) != ST_OK)
        return;
    ASSERT(item.value.len == sizeof id);
    memcpy(id, item.value.data, sizeof id);
    (void)store_delete(m->store, order_key, m->local_version); /* the key was found above */
    struct bytes key = id_key(room, id);
    if (store_writer_get(m->store, key, &item) == ST_OK) {
        ASSERT(item.value.len >= 8);
        m->id_bytes -= MIN(m->id_bytes, item.value.len - 8);
        (void)store_delete(m->store, key, m->local_version); /* the key was found above */
    }
}

/* Raise the floor to the window, and further while responses take too much room. `before` is the
 * version before this transaction: a swap may have jumped far ahead, past versions without one. */
static void ids_prune(struct rlog_machine *m, uint64_t before)
{
    uint64_t floor = m->version > RLOG_ID_WINDOW ? m->version - RLOG_ID_WINDOW : 0;

    while (m->id_floor <= before && (m->id_floor < floor || m->id_bytes > RLOG_ID_BYTES_MAX))
        id_forget(m, m->id_floor++);
    m->id_floor = MAX(m->id_floor, floor);
    ASSERT(m->id_floor <= m->version);
}

static bool need_holds(const struct rlog_machine *m, const struct rlog_need *need)
{
    struct store_item item;

    if (need->kind == RLOG_NEED_STAGE)
        return need->version == m->stage || (m->staging && planted(PLANT_STAGE_SHARED));
    if (planted(PLANT_R1_NO_PRECONDITION))
        return true;
    if (need->kind == RLOG_NEED_PREFIX)
        return store_writer_newest(m->store, need->key) <= need->version;
    if (store_writer_get(m->store, need->key, &item) != ST_OK)
        return need->version == 0;
    return need->version != 0 && item.modified == need->version;
}

/* Preconditions of the previous transaction, by place: the next transaction mostly has the same
 * ones. A precondition that holds goes on holding until a key is written that decides it. */
struct known {
    struct rlog_prior prior;
    uint32_t holds; /* a bit for each place: the precondition there holds */
};
static_assert(RLOG_PLACES_MAX <= 32, "a bit for each place");

/* The places of a run as bits of `holds`; 0: the run lies outside of `holds`. */
static uint32_t places_of(const struct rlog_need_run *run)
{
    if (run->place >= RLOG_PLACES_MAX)
        return 0;
    return (uint32_t)((UINT64_C(1) << run->n) - 1) << run->place;
}

/* Whether a precondition that holds goes on holding until an operation of this entry changes it.
 * Not so for keys that apply itself writes, without an operation. */
static bool lasts(const struct rlog_need *need)
{
    return (need->kind == RLOG_NEED_KEY && !bytes_has_prefix(need->key, BYTES(RLOG_REQUESTS))) ||
           (need->kind == RLOG_NEED_PREFIX && !rlog_key_is_local(need->key));
}

/* Check a run whose preconditions are not known to hold. */
static bool run_holds(const struct rlog_machine *m, struct known *known,
                      const struct rlog_need_run *run, struct bytes *ret_conflict)
{
    ASSERT(!run->same || run->place + run->n <= known->prior.n);
    for (unsigned i = 0; i < run->n; i++) {
        unsigned place = run->place + i;
        const struct rlog_need *need = run->same ? &known->prior.needs[place] : &run->need;
        uint32_t bit = place < RLOG_PLACES_MAX ? UINT32_C(1) << place : 0;
        if ((known->holds & bit) != 0)
            continue;
        if (!need_holds(m, need)) {
            *ret_conflict = need->key;
            return false;
        }
        if (lasts(need))
            known->holds |= bit;
    }
    return true;
}

static void known_forget(struct known *known, const struct rlog_op *op)
{
    if (op->kind != RLOG_OP_PUT && op->kind != RLOG_OP_PUT_RETAIN && op->kind != RLOG_OP_DELETE) {
        known->holds = 0;
        return;
    }
    ASSERT(known->prior.n <= RLOG_PLACES_MAX);
    for (unsigned i = 0; i < known->prior.n; i++) {
        const struct rlog_need *need = &known->prior.needs[i];
        if (need->kind == RLOG_NEED_PREFIX ? bytes_has_prefix(op->key, need->key)
                                           : bytes_eq(op->key, need->key))
            known->holds &= ~(UINT32_C(1) << i);
    }
}

/* Effects of a transaction's operations on the machine's counters. */
struct effects {
    bool replicated, local;
    bool stage_missing; /* an operation on the staged tree finds no such tree, or another one */
    bool cloned;        /* the staged tree is a clone, after the operations */
    bool malformed;
    bool swaps;            /* a staged tree is swapped in at a version of this cluster's own */
    bool raises;           /* the version is raised */
    bool follows;          /* there are operations of a cluster that follows another */
    bool gap;              /* one of them does not fit the version */
    uint64_t version;      /* after the operations that lead to a version of their own */
    uint64_t stage_newest; /* as the member of the machine, after the operations */
    size_t bytes_max;      /* of the operations on replicated keys, encoded */
};

/* The operations of a transaction. They are read before the first one is applied; the first few are
 * kept, so that they need not be decoded twice. */
struct ops {
    unsigned n;
    struct rlog_op first[OPS_KEPT];
    struct bytes rest; /* the operations behind the first ones */
};

/* An operation on the staged tree. */
static void effects_stage(struct effects *fx, const struct rlog_op *op, bool *staging)
{
    if (op->kind == RLOG_OP_STAGE_BEGIN || op->kind == RLOG_OP_STAGE_CLONE) {
        *staging = true;
        fx->cloned = op->kind == RLOG_OP_STAGE_CLONE;
        fx->stage_newest = fx->cloned ? fx->version : 0;
    }
    fx->stage_missing |= !*staging;
    switch (op->kind) {
    case RLOG_OP_STAGE_CLONE: fx->follows = true; /* fall through */
    case RLOG_OP_STAGE_BEGIN:
    case RLOG_OP_STAGE_DELETE: fx->local = true; return;
    case RLOG_OP_STAGE_PUT:
    case RLOG_OP_STAGE_NEWEST:
        fx->local = true;
        fx->stage_newest = MAX(fx->stage_newest, op->modified);
        return;
    case RLOG_OP_STAGE_SWAP:
        fx->replicated = fx->swaps = true;
        fx->stage_missing |= fx->cloned; /* a clone has its versions from another cluster */
        *staging = false;
        return;
    case RLOG_OP_STAGE_SWAP_AT:
        fx->follows = true;
        fx->gap |= op->modified < fx->version || op->modified < fx->stage_newest;
        fx->version = MAX(fx->version, op->modified);
        *staging = false;
        return;
    default:
        ASSERT(op->kind == RLOG_OP_STAGE_DROP);
        fx->local = true;
        *staging = false;
    }
}

/* Whether the operation changes replicated keys, other than by a swap. */
static bool op_is_replicated(const struct rlog_op *op)
{
    switch (op->kind) {
    case RLOG_OP_PUT:
    case RLOG_OP_PUT_RETAIN:
    case RLOG_OP_DELETE:
    case RLOG_OP_DELETE_PREFIX: return !rlog_key_is_local(op->key);
    default: return op->kind == RLOG_OP_WAL;
    }
}

static void effects_add(struct effects *fx, const struct rlog_op *op, bool *staging)
{
    bool gap = false;
    if (fx->cloned && op_is_replicated(op))
        *staging = fx->cloned = false; /* as clone_forget */
    switch (op->kind) {
    case RLOG_OP_PUT:
    case RLOG_OP_PUT_RETAIN:
    case RLOG_OP_DELETE:
    case RLOG_OP_DELETE_PREFIX:
        if (rlog_key_is_local(op->key)) {
            fx->local = true;
            return;
        }
        fx->replicated = true;
        fx->bytes_max += rlog_op_bytes_max(op);
        return;
    case RLOG_OP_WAL:
        fx->follows = true;
        if (rlog_machine_wal_test(op->value, &fx->version, &gap) != ST_OK)
            fx->malformed = true;
        fx->gap |= gap;
        return;
    case RLOG_OP_RAISE:
        fx->raises = true;
        fx->version = MAX(fx->version, op->modified);
        return;
    default: effects_stage(fx, op, staging);
    }
}

static struct effects effects_of(const struct rlog_machine *m, const struct rlog_prior *prior,
                                 const struct rlog_txn_view *view, bool staging,
                                 struct ops *ret_ops)
{
    bool has_id = has_own_id(m, view);
    struct effects fx = {.replicated = has_id,
                         .local = has_id,
                         .cloned = m->cloned,
                         .version = m->version,
                         .stage_newest = m->stage_newest};
    struct bytes ops = view->ops;
    struct rlog_op op;
    enum status st = ST_OK;

    ret_ops->n = 0;
    while (ret_ops->n < OPS_KEPT &&
           (st = rlog_entry_op_next(prior, &ops, &ret_ops->first[ret_ops->n])) == ST_OK)
        effects_add(&fx, &ret_ops->first[ret_ops->n++], &staging);
    ret_ops->rest = ops;
    while (st == ST_OK && (st = rlog_entry_op_next(prior, &ops, &op)) == ST_OK)
        effects_add(&fx, &op, &staging);
    fx.malformed |= st != ST_NOT_FOUND;
    ASSERT(fx.malformed || ops.len == 0);
    return fx;
}

/* The result of a transaction's preconditions. */
struct needs {
    bool hold;
    bool name_stage;       /* the preconditions name a staged tree */
    struct bytes conflict; /* the key of the precondition that does not hold */
};

static bool run_names_stage(const struct known *known, const struct rlog_need_run *run)
{
    for (unsigned i = 0; run->same && i < run->n; i++)
        if (known->prior.needs[run->place + i].kind == RLOG_NEED_STAGE)
            return true;
    return !run->same && run->need.kind == RLOG_NEED_STAGE;
}

/* Whether nothing the transaction read has changed. */
static struct needs needs_read(const struct rlog_machine *m, struct bytes seq, uint64_t index,
                               struct known *known)
{
    struct needs needs = {.hold = true};
    struct rlog_need_run run;
    unsigned place = 0;
    enum status st;

    while ((st = rlog_entry_need_next(&known->prior, &seq, &place, &run)) == ST_OK) {
        uint32_t places = places_of(&run);
        if (!run.same)
            known->holds &= ~places;
        if (m->staging)
            needs.name_stage |= run_names_stage(known, &run);
        if (needs.hold && (places == 0 || (known->holds & places) != places))
            needs.hold = run_holds(m, known, &run, &needs.conflict);
    }
    if (st != ST_NOT_FOUND)
        stop(index, st);
    return needs;
}

static void stage_end(struct rlog_machine *m)
{
    m->staging = m->cloned = false;
    m->stage = 0;
    m->stage_newest = 0;
}

/* The keys of the segments themselves: see rlog_txn.h. */
static void segments_mark(struct store *store)
{
    struct store_item item;

    if (store_writer_get(store, BYTES(RLOG_REPLICATED), &item) != ST_OK)
        store_put(store, BYTES(RLOG_REPLICATED), BYTES(""), 0);
    if (store_writer_get(store, BYTES(RLOG_LOCAL), &item) != ST_OK)
        store_put(store, BYTES(RLOG_LOCAL), BYTES(""), 0);
}

/* Add an operation to the begun record of the WAL. */
static void record_op(struct rlog_wal *wal, const struct rlog_op *op)
{
    bool keyed = op->kind == RLOG_OP_PUT || op->kind == RLOG_OP_PUT_RETAIN ||
                 op->kind == RLOG_OP_DELETE || op->kind == RLOG_OP_DELETE_PREFIX;
    if (keyed && !rlog_key_is_local(op->key))
        rlog_wal_op(wal, op);
}

/* Staged keys come from another state: their versions may lie ahead of ours. Then raise our version
 * above theirs. */
static void stage_swap(struct rlog_machine *m)
{
    m->version = MAX(m->version, m->stage_newest + 1);
    store_stage_swap(m->store, BYTES(RLOG_LOCAL), m->version);
    store_put(m->store, BYTES(RLOG_REPLICATED), BYTES(""), m->version);
    if (m->wal != NULL)
        rlog_wal_reset(m->wal, m->version);
    stage_end(m);
}

/* The staged tree is the state of the cluster that this one follows, with that cluster's versions.
 */
static void stage_swap_at(struct rlog_machine *m, const struct rlog_op *op)
{
    ASSERT(op->modified >= m->version);
    ASSERT(op->modified >= m->stage_newest);
    m->version = op->modified;
    m->time_ms = MAX(m->time_ms, (int64_t)op->created);
    if (m->cloned) {
        store_stage_swap_clone(m->store, BYTES(RLOG_LOCAL), op->floor);
    } else {
        store_stage_swap_as_is(m->store, BYTES(RLOG_LOCAL));
        store_floor_raise(m->store, BYTES(RLOG_LOCAL), op->floor);
    }
    segments_mark(m->store);
    if (m->wal != NULL)
        rlog_wal_reset(m->wal, m->version);
    stage_end(m);
}

static void stage_newest(struct rlog_machine *m, const struct rlog_op *op)
{
    ASSERT(m->staging);
    if (!planted(PLANT_DR_NEWEST))
        store_stage_newest(m->store, op->key, op->modified);
    m->stage_newest = MAX(m->stage_newest, op->modified);
}

/* Begin a staged tree, empty or as a clone. No version in a clone is above the state's. */
static void stage_open(struct rlog_machine *m, bool clone)
{
    if (clone)
        store_stage_clone(m->store, BYTES(RLOG_REPLICATED));
    else
        store_stage_begin(m->store);
    m->staging = true;
    m->cloned = clone;
    m->stage = m->local_version; /* the version grows: no two trees share it */
    m->stage_newest = clone ? m->version : 0;
}

/* A clone shares nodes with the keys that are about to change. It would lack the change, too. */
static void clone_forget(struct rlog_machine *m, const struct rlog_op *op)
{
    if (!m->cloned || !op_is_replicated(op))
        return;
    store_stage_drop(m->store);
    stage_end(m);
}

static void op_apply(struct rlog_machine *m, const struct rlog_op *op)
{
    bool local = rlog_key_is_local(op->key);
    uint64_t version = local ? m->local_version : m->version;

    clone_forget(m, op);
    switch (op->kind) {
    case RLOG_OP_PUT: store_put(m->store, op->key, op->value, version); break;
    case RLOG_OP_PUT_RETAIN:
        store_put_retain(m->store, op->key, op->value, op->retain, version);
        break;
    case RLOG_OP_DELETE:
        (void)store_delete(m->store, op->key, version); /* an absent key is fine */
        break;
    case RLOG_OP_DELETE_PREFIX: store_delete_prefix(m->store, op->key, version); break;
    case RLOG_OP_STAGE_BEGIN: stage_open(m, false); break;
    case RLOG_OP_STAGE_CLONE: stage_open(m, true); break;
    case RLOG_OP_STAGE_DELETE:
        (void)store_stage_delete(m->store, op->key); /* an absent key is fine */
        break;
    case RLOG_OP_STAGE_PUT:
        ASSERT(m->staging);
        store_stage_put(m->store, op->key, op->value, op->created, op->modified);
        m->stage_newest = MAX(m->stage_newest, op->modified);
        break;
    case RLOG_OP_STAGE_NEWEST: stage_newest(m, op); break;
    case RLOG_OP_STAGE_SWAP: stage_swap(m); break;
    case RLOG_OP_STAGE_SWAP_AT: stage_swap_at(m, op); break;
    case RLOG_OP_STAGE_DROP:
        store_stage_drop(m->store);
        stage_end(m);
        break;
    case RLOG_OP_WAL: rlog_machine_wal_apply(m, op->value); break;
    case RLOG_OP_RAISE: break; /* raised before the operations */
    }
    if (local && bytes_has_prefix(BYTES(RLOG_FOLLOWING), op->key)) /* the key, or a folder of it */
        m->following = rlog_machine_wal_following(m);
}

/* `wal`: NULL, or the ring with a begun record that takes the operations on replicated keys. */
static void ops_apply(struct rlog_machine *m, struct ops *ops, struct known *known,
                      struct rlog_wal *wal)
{
    struct rlog_op op;
    ASSERT(ops->n <= OPS_KEPT);
    ASSERT(ops->n == OPS_KEPT || ops->rest.len == 0);
    for (unsigned i = 0; i < ops->n; i++) {
        op_apply(m, &ops->first[i]);
        known_forget(known, &ops->first[i]);
        if (wal != NULL)
            record_op(wal, &ops->first[i]);
    }
    while (rlog_entry_op_next(&known->prior, &ops->rest, &op) == ST_OK) {
        op_apply(m, &op);
        known_forget(known, &op);
        if (wal != NULL)
            record_op(wal, &op);
    }
}

/* Whether the cluster follows another one, and so takes no write of its own to replicated keys. */
static bool is_bound(const struct rlog_machine *m)
{
    return m->following && !planted(PLANT_DR_DUTY_RUNS);
}

/* Whether the operations may not be applied to this state. */
static bool ops_refused(const struct rlog_machine *m, const struct effects *fx,
                        struct rlog_applied *applied)
{
    bool own = fx->replicated || fx->raises;
    if ((is_bound(m) && own) || (!m->following && fx->follows)) {
        applied->conflict = BYTES(RLOG_FOLLOWING);
        return true;
    }
    return fx->stage_missing || fx->gap;
}

/* Apply the operations of a transaction that changes the state. */
static void changes_apply(struct rlog_machine *m, const struct effects *fx, struct ops *ops,
                          struct known *known)
{
    struct rlog_wal *wal = m->wal != NULL && rlog_wal_on(m->wal) ? m->wal : NULL;

    if (fx->raises && fx->version > m->version) {
        m->version = fx->version;
        if (wal != NULL)
            rlog_wal_jump(wal, m->version, m->time_ms);
    }
    m->version += fx->replicated;
    m->local_version += fx->local;
    bool record = wal != NULL && fx->replicated && !fx->swaps;
    if (record)
        rlog_wal_begin(wal, fx->bytes_max, m->version, m->time_ms);
    ops_apply(m, ops, known, record ? wal : NULL);
    if (record)
        rlog_wal_end(wal);
}

static void txn_apply(struct rlog_machine *m, uint64_t index, const struct rlog_txn_view *view,
                      struct known *known, struct rlog_applied *applied)
{
    struct ops ops;
    uint64_t before = m->version;
    bool has_id = has_own_id(m, view); /* decided before the operations: they may end following */
    struct needs needs = needs_read(m, view->needs, index, known); /* the next may refer to these */

    if (id_decides(m, view, applied))
        return;
    struct effects fx = effects_of(m, &known->prior, view, m->staging && needs.name_stage, &ops);
    if (fx.malformed)
        stop(index, ST_INVALID);
    applied->conflict = needs.conflict;
    if (!needs.hold || ops_refused(m, &fx, applied)) {
        applied->outcome = RLOG_CONFLICTED;
        return;
    }
    /* following, replicated keys change by the WAL and a swap alone */
    ASSERT(!is_bound(m) || !fx.replicated);
    changes_apply(m, &fx, &ops, known);
    if (has_id)
        id_record(m, view);
    ids_prune(m, before);
    ASSERT(m->version >= before);
    applied->outcome = RLOG_APPLIED;
    applied->version = m->version;
}

/* Whether following will refuse the transaction, as ops_refused. Versions are not looked at: what
 * is pending may still lead to them. */
static bool following_refuses(const struct rlog_machine *m, const struct rlog_txn_view *view)
{
    struct bytes ops = view->ops;
    struct rlog_op op;

    if (!is_bound(m))
        return false;
    while (rlog_op_next(&ops, &op) == ST_OK) {
        bool put = op.kind == RLOG_OP_PUT || op.kind == RLOG_OP_PUT_RETAIN ||
                   op.kind == RLOG_OP_DELETE || op.kind == RLOG_OP_DELETE_PREFIX;
        if ((put && !rlog_key_is_local(op.key)) || op.kind == RLOG_OP_STAGE_SWAP ||
            op.kind == RLOG_OP_RAISE)
            return true;
    }
    return false;
}

bool rlog_machine_conflicts(const struct rlog_machine *m, struct bytes txn,
                            struct bytes *ret_conflict)
{
    struct rlog_applied applied = {0};
    struct rlog_txn_view view;
    struct rlog_need need;

    if (rlog_txn_open(txn, &view) != ST_OK)
        return false;
    if (following_refuses(m, &view)) {
        *ret_conflict = BYTES(RLOG_FOLLOWING);
        return true;
    }
    if (id_decides(m, &view, &applied))
        return false;
    while (rlog_need_next(&view.needs, &need) == ST_OK)
        if (!need_holds(m, &need)) {
            *ret_conflict = need.key;
            return true;
        }
    return false;
}

void rlog_machine_apply(struct rlog_machine *m, uint64_t index, struct bytes entry,
                        void (*each)(void *ctx, unsigned i, const struct rlog_applied *applied),
                        void *ctx)
{
    struct rlog_entry_view entry_view;
    struct rlog_txn_view view;
    struct known known;
    struct bytes txn;
    unsigned i = 0;
    enum status st = rlog_entry_open(entry, &entry_view);

    known.prior.n = 0;
    known.holds = 0;
    ASSERT(m->store != NULL);
    if (st != ST_OK)
        stop(index, st);
    m->time_ms = MAX(m->time_ms, entry_view.header.time_ms);
    m->feature = MAX(m->feature, entry_view.header.feature);
    segments_mark(m->store);
    for (; (st = rlog_entry_next(&entry_view.txns, &txn)) == ST_OK; i++) {
        struct rlog_applied applied = {.version = m->version};
        st = rlog_txn_open(txn, &view);
        if (st != ST_OK)
            stop(index, st);
        txn_apply(m, index, &view, &known, &applied);
        applied.stage = m->stage;
        if (each != NULL)
            each(ctx, i, &applied);
    }
    if (st != ST_NOT_FOUND || i != entry_view.header.n_txns)
        stop(index, ST_INVALID);
    store_publish(m->store, m->version);
    if (m->wal != NULL)
        rlog_wal_publish(m->wal, m->version);
}
