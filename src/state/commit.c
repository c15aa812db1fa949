#include "state/following.h"
#include "state/state_core.h"
#include "state/state_internal.h"

#include "base/mem.h"
#include "base/plant.h"

/* A commit:
 *
 *   worker               raft thread       worker
 *   changes_encode ────▶ propose ── … ───▶ commit_finish -> done
 *
 * A reply that is kept for repeated requests is encrypted for a key made of ANSWER_KEY and the id
 * of the request. An empty text in its place means that the reply was too long to keep. */

#define ANSWER_KEY RLOG_REQUESTS "i"

enum { ANSWER_KEY_LEN = sizeof ANSWER_KEY - 1 + 16 };

static bool has_id(const struct rlog_request_id *id)
{
    static const uint8_t zero[sizeof id->bytes];
    return memcmp(id->bytes, zero, sizeof zero) != 0;
}

static struct bytes answer_key(uint8_t room[ANSWER_KEY_LEN], const struct rlog_request_id *id)
{
    memcpy(room, ANSWER_KEY, ANSWER_KEY_LEN - 16);
    memcpy(room + ANSWER_KEY_LEN - 16, id->bytes, 16);
    return bytes_of(room, ANSWER_KEY_LEN);
}

static enum status add_put_suffix(struct rlog_txn_builder *b, struct barrier_cipher *cipher,
                                  const struct state_op *op)
{
    size_t head_len = op->value.len + BARRIER_OVERHEAD;
    size_t len = STORE_RETAIN_FRAME + head_len + op->suffix.len;
    ASSERT(op->retain.len == 0 || op->suffix.len == 0);
    uint8_t *room = op->retain.len != 0 ? rlog_txn_put_retain_room(b, op->key, len, op->retain)
                                        : rlog_txn_put_room(b, op->key, len);
    if (room == NULL)
        return ST_OK; /* a failure shows when encoding */
    uint8_t *head = store_retain_frame(room, head_len);
    ASSERT(head + head_len + op->suffix.len == room + len);
    if (op->suffix.len != 0)
        memcpy(head + head_len, op->suffix.data, op->suffix.len);
    return barrier_encrypt(cipher, op->key, op->value, head);
}

static enum status add_put(struct rlog_txn_builder *b, struct barrier_cipher *cipher,
                           const struct state_op *op)
{
    ASSERT(op->kind == STATE_OP_PUT);
    if (op_has_suffix(op))
        return add_put_suffix(b, cipher, op);
    ASSERT(!op->name || op->value.len == 0);
    if (op->raw || op->name) {
        rlog_txn_put(b, op->key, op->value);
        return ST_OK; /* a failure shows when encoding */
    }
    uint8_t *room = rlog_txn_put_room(b, op->key, op->value.len + BARRIER_OVERHEAD);
    return room != NULL ? barrier_encrypt(cipher, op->key, op->value, room) : ST_OK;
}

/* Deleted prefixes come first. A write that was staged below a prefix before the prefix was deleted
 * is no longer in the set of writes. */
static enum status add_writes(const struct state_txn *txn, struct rlog_txn_builder *b)
{
    SET_FOR (item, &txn->drops)
        rlog_txn_delete_prefix(b, item->key);
    SET_FOR (item, &txn->writes) {
        if (item->op->kind == STATE_OP_DELETE)
            rlog_txn_delete(b, item->key);
        else
            TRY(add_put(b, txn->cipher, item->op));
    }
    return ST_OK;
}

bool state_is_exempt(const struct state_txn *txn)
{
    SET_FOR (item, &txn->writes)
        if (item->op->kind == STATE_OP_PUT && !item->op->exempt)
            return false;
    return true;
}

/* Keys come in the order in which they were read. The router reads its own first, so transactions
 * of different handlers begin with the same preconditions at the same places, which an entry
 * encodes and a node checks once for all of them (rlog_txn_entry.c). */
static void add_reads(const struct state_txn *txn, struct rlog_txn_builder *b)
{
    for (const struct state_item *item = txn->first_key; item != NULL; item = item->later) {
        if (planted(PLANT_R1_CAS_OLD_ROOT) && set_find(&txn->writes, item->key) != NULL)
            continue;
        rlog_txn_need_key(b, item->key, item->version);
    }
    SET_FOR (item, &txn->prefixes)
        rlog_txn_need_prefix(b, item->key, item->version);
}

/* So that neither of the builder's buffers grows by steps: about what follows will take. */
static void changes_reserve(const struct state_txn *txn, struct rlog_txn_builder *b)
{
    enum { NEED = 16, OP = 32 + BARRIER_OVERHEAD };
    size_t needs = sizeof STATE_RESTORED + sizeof STATE_SYNCED + 2 * NEED, ops = 0;
    SET_FOR (item, &txn->keys)
        needs += item->key.len + NEED;
    SET_FOR (item, &txn->prefixes)
        needs += item->key.len + NEED;
    SET_FOR (item, &txn->writes)
        ops += item->key.len + item->op->value.len + item->op->suffix.len + OP;
    rlog_txn_reserve(b, needs, MIN(ops, (size_t)RLOG_TXN_MAX));
}

static enum status add_id(const struct state_txn *txn, struct state_commit *c,
                          struct rlog_txn_builder *b)
{
    uint8_t room[ANSWER_KEY_LEN];

    if (!has_id(&c->id))
        return ST_OK;
    buf_clear(&c->sealed);
    if (c->answer.len + BARRIER_OVERHEAD <= RLOG_RESPONSE_MAX) {
        uint8_t *out = buf_extend(&c->sealed, c->answer.len + BARRIER_OVERHEAD);
        if (out == NULL)
            return ST_NOMEM;
        TRY(barrier_encrypt(txn->cipher, answer_key(room, &c->id), c->answer, out));
    }
    ASSERT(c->sealed.len <= RLOG_RESPONSE_MAX);
    rlog_txn_id(b, &c->id, buf_bytes(&c->sealed));
    return ST_OK;
}

/* Take the keys of a restored state before the commit encrypts values for that state. The keys of a
 * still later restore do no harm: a precondition of the commit fails then. */
static enum status follow_restored(const struct state_txn *txn, uint64_t restored)
{
    struct barrier *barrier = txn->state->barrier;
    if (txn->cipher != txn->state->cipher || barrier_restored(barrier) >= restored)
        return ST_OK;
    enum status st = core_follow(&txn->pin, barrier);
    return st == ST_CORRUPT ? ST_SEALED : st; /* the restored keys do not open here */
}

static enum status changes_encode(struct state_txn *txn, struct state_commit *c)
{
    CLEANUP(rlog_txn_done) struct rlog_txn_builder b = {0};

    ASSERT(txn->open);
    ASSERT(txn->status == ST_OK);
    const struct state_replaced *replaced = txn_replaced(txn);
    TRY(follow_restored(txn, replaced->version));
    changes_reserve(txn, &b);
    rlog_txn_need_key(&b, BYTES(STATE_RESTORED), replaced->restored);
    rlog_txn_need_key(&b, BYTES(STATE_SYNCED), replaced->synced);
    add_reads(txn, &b);
    TRY(add_writes(txn, &b));
    if (txn->more != NULL)
        txn->more->add(txn->more, &b);
    TRY(add_id(txn, c, &b));
    buf_clear(&c->encoded);
    return rlog_txn_encode(&b, &c->encoded);
}

/* Decrypt the reply of the first try. Without that reply, the caller still learns that the change
 * was made. */
static void open_response(struct state_commit *c)
{
    uint8_t room[ANSWER_KEY_LEN];
    struct bytes sealed = buf_bytes(&c->sealed);
    size_t n = 0;

    if (sealed.len < BARRIER_OVERHEAD)
        return;
    buf_clear(&c->encoded);
    uint8_t *out = buf_extend(&c->encoded, sealed.len);
    if (out == NULL || state_decrypt(c->state, c->state->cipher, answer_key(room, &c->id), sealed,
                                     out, &n) != ST_OK)
        return;
    ASSERT(n + BARRIER_OVERHEAD == sealed.len);
    c->response = bytes_of(out, n);
    c->has_response = true;
}

static enum status result(const struct state_commit *c)
{
    static const enum status outcomes[] = {
        [RLOG_APPLIED] = ST_OK,
        [RLOG_CONFLICTED] = ST_CONFLICT,
        [RLOG_REPEATED] = ST_OK,
        [RLOG_OUTCOME_UNKNOWN] = ST_UNKNOWN_OUTCOME,
    };
    if (c->status != ST_OK)
        return c->status;
    ASSERT(c->rlog.applied.outcome < ARRAY_LEN(outcomes));
    return outcomes[c->rlog.applied.outcome];
}

static void commit_finish(struct env_task *task)
{
    struct state_commit *c = CONTAINER_OF(task, struct state_commit, task);
    enum status st = result(c);

    c->version = c->rlog.applied.version;
    c->ticket = st == ST_CONFLICT ? c->rlog.ticket : 0;
    c->repeated = st == ST_OK && c->rlog.applied.outcome == RLOG_REPEATED;
    if (c->repeated)
        open_response(c);
    c->done(c, st);
}

static void on_proposed(struct rlog_propose *p, enum status st)
{
    struct state_commit *c = CONTAINER_OF(p, struct state_commit, rlog);

    c->status = st;
    buf_clear(&c->sealed);
    if (st == ST_OK && p->applied.outcome == RLOG_REPEATED)
        buf_add(&c->sealed, p->applied.response); /* borrowed until this function returns */
    c->task.run = commit_finish;
    env_post_round(c->state->env, &c->task);
}

static void propose(struct env_task *task)
{
    struct state_commit *c = CONTAINER_OF(task, struct state_commit, task);
    struct state_log *log = c->state->log;
    log->propose(log, &c->rlog);
}

enum status state_commit(struct state_txn *txn, struct state_commit *c)
{
    ASSERT(txn->open && !txn->read_only);
    ASSERT(c->done != NULL);
    TRY(txn->status);
    c->state = txn->state;
    c->version = 0;
    c->repeated = c->has_response = false;
    c->response = (struct bytes){0};
    TRY(changes_encode(txn, c));
    c->rlog = (struct rlog_propose){.txn = buf_bytes(&c->encoded),
                                    .ticket = c->ticket,
                                    .upkeep = state_is_exempt(txn),
                                    .done = on_proposed};
    c->task.run = propose;
    env_post_round(c->state->log->env, &c->task);
    state_upkeep_start(c->state);
    return ST_OK;
}

/* A ticket on its way back to the raft thread. */
struct returned {
    struct env_task task;
    struct state_log *log;
    uint64_t ticket;
};

static void return_ticket(struct env_task *task)
{
    struct returned *r = CONTAINER_OF(task, struct returned, task);
    r->log->ticket_drop(r->log, r->ticket);
    mem_free(r);
}

void state_commit_done(struct state_commit *c)
{
    if (c->ticket != 0 && !c->state->closing) {
        struct returned *r = mem_alloc(sizeof *r);
        if (r != NULL) { /* else the ticket runs out by itself */
            *r = (struct returned){{.run = return_ticket}, c->state->log, c->ticket};
            env_post(c->state->log->env, &r->task);
        }
    }
    c->ticket = 0;
    buf_done(&c->encoded);
    buf_done(&c->sealed);
    c->response = (struct bytes){0};
    c->has_response = false;
}

/* Confirmation */

static void confirm_finish(struct state_confirm *c, enum status st)
{
    c->status = st;
    c->done(c, st);
}

static void confirm_on_read(struct state_read *read, enum status st)
{
    struct state_confirm *c = CONTAINER_OF(read, struct state_confirm, read);
    struct store_pin pin;

    if (st == ST_OK)
        st = store_pin(c->txn->state->log->store, "confirm", 0, &pin);
    if (st == ST_OK) {
        /* The version that the transaction pinned may be older than the version that a majority
         * confirmed: the node may have lost and regained leadership in between. So check that
         * everything the transaction read is the same in the newer version. */
        st = txn_still_holds(c->txn, &pin) ? ST_OK : ST_CONFLICT;
        store_unpin(&pin);
    }
    confirm_finish(c, st);
}

static void confirm_at_once(struct env_task *task)
{
    struct state_confirm *c = CONTAINER_OF(task, struct state_confirm, task);
    confirm_finish(c, c->txn->status);
}

void state_confirm(struct state_txn *txn, struct state_confirm *c)
{
    ASSERT(txn->open);
    ASSERT(c->done != NULL);
    c->txn = txn;
    if (txn->confirmed || txn->status != ST_OK || planted(PLANT_R2_UNCONFIRMED_ERROR)) {
        c->task.run = confirm_at_once;
        env_post(txn->state->env, &c->task);
        return;
    }
    c->read = (struct state_read){.done = confirm_on_read};
    state_read_begin(txn->state, &c->read);
}
