/* A node's side of an operation: a handler of the program on `src/state`, and what surrounds it.
 *
 * A read waits for a confirmed index, then is computed. A write is computed on the node's own
 * newest state and committed; others than the active node forward it. After a conflict it is
 * computed again. A write that turns out to change nothing is answered once its reads are
 * confirmed. */
#include "ops.h"
#include "pair.h"

#include "base/mem.h"
#include "sim_mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { RUNS_MAX = 8, READ_DEADLINE_MS = 1500 };

/* One operation under way on a node; it vanishes with the node's memory. */
struct request {
    struct cluster *cluster;
    struct node *node;
    struct op op;
    struct arena arena;
    struct state_txn txn;
    struct state_read read;
    struct state_commit commit;
    struct state_confirm confirm;
    struct state_init init;
    uint8_t answer[8]; /* kept by the program for repeated requests */
    uint64_t acked;    /* when the read began */
    bool found;        /* a cas: there was a value */
    unsigned runs;
    enum status why; /* the last status it met */
};

struct delivery {
    struct event event;
    struct cluster *cluster;
    struct op op;
    unsigned slot;
    bool forwarded;
};

/* Replies. */

static void on_reply(struct event *event)
{
    struct reply *reply = CONTAINER_OF(event, struct reply, event);
    client_replied(reply);
    free(reply);
}

static struct reply *reply_new(struct cluster *c, const struct op *op, unsigned slot,
                               enum answer answer, size_t n)
{
    struct reply *reply = sim_alloc(sizeof *reply + n * sizeof reply->list[0]);
    *reply = (struct reply){
        .event = {.fire = on_reply}, .cluster = c, .op = *op, .answer = answer, .slot = slot};
    reply->n = n;
    return reply;
}

static void reply_send(struct reply *reply)
{
    struct cluster *c = reply->cluster;
    if (!c->calm && rng_chance(&c->rng, c->profile.lose_reply_permille)) {
        free(reply);
        return;
    }
    core_after(c->core, &reply->event, rng_between(&c->rng, 50, 1000) * SIM_US);
}

static void request_free(struct request *r)
{
    state_end(&r->txn);
    state_commit_done(&r->commit);
    state_init_done(&r->init);
    arena_done(&r->arena);
    r->node->requests--;
    mem_free(r);
}

static void request_answer(struct request *r, enum answer answer)
{
    core_say(r->cluster->core, "%s: op %" PRIu64 " ends with %s", r->node->name, r->op.number,
             status_name(r->why));
    reply_send(reply_new(r->cluster, &r->op, r->node->slot, answer, 0));
    request_free(r);
}

/* Values: the number that was written, then padding. The bank is stored without encryption, so that
 * its total can be checked on every node, whether it is sealed or not. */

/* "s/KIND/A" */
static struct bytes key1(char buf[64], const char *kind, uint64_t a)
{
    return bytes_of(buf, (size_t)snprintf(buf, 64, "s/%s/%" PRIu64, kind, a));
}

/* "SEGMENT/KIND/A/BBBBBB" */
static struct bytes key2(char buf[64], const char *kind, uint64_t a, uint64_t b)
{
    return bytes_of(buf, (size_t)snprintf(buf, 64, "%s/%" PRIu64 "/%06" PRIu64, kind, a, b));
}

static struct bytes group_prefix(char buf[64], uint64_t group)
{
    return bytes_of(buf, (size_t)snprintf(buf, 64, "s/group/%" PRIu64 "/", group));
}

static uint64_t number_of(struct bytes value)
{
    return value.len >= 8 ? le64_get(value.data) : 0;
}

uint64_t bank_total(const struct store_pin *pin)
{
    uint64_t total = 0;
    for (uint64_t i = 0; i < ACCOUNTS; i++) {
        struct store_item item;
        char buf[64];
        if (store_get(pin, key1(buf, "bank", i), &item) == ST_OK)
            total += number_of(item.value);
    }
    return total;
}

static enum status put_number(struct state_txn *txn, struct bytes key, uint64_t number,
                              uint64_t pad)
{
    uint8_t *value = arena_alloc(txn->arena, 8 + (size_t)pad);
    if (value == NULL)
        return ST_NOMEM;
    le64_put(value, number);
    for (uint64_t i = 0; i < pad; i++)
        value[8 + i] = (uint8_t)(i * number >> 3);
    return state_put(txn, key, bytes_of(value, 8 + (size_t)pad));
}

/* 0 when the key is absent. */
static enum status get_number(struct state_txn *txn, struct bytes key, uint64_t *ret_number)
{
    struct state_value value;
    enum status st = state_get(txn, key, &value);
    *ret_number = st == ST_OK ? number_of(value.value) : 0;
    return st == ST_NOT_FOUND ? ST_OK : st;
}

static enum status bank_read(struct state_txn *txn, uint64_t account, uint64_t *ret_balance)
{
    char buf[64];
    struct state_value value;
    enum status st = state_get_raw(txn, key1(buf, "bank", account), &value);
    *ret_balance = st == ST_OK ? number_of(value.value) : 0;
    return st == ST_NOT_FOUND ? ST_OK : st;
}

static enum status bank_write(struct state_txn *txn, uint64_t account, uint64_t balance)
{
    char buf[64];
    uint8_t value[8];
    le64_put(value, balance);
    return state_put_raw(txn, key1(buf, "bank", account), bytes_of(value, sizeof value));
}

static enum status bank_sum(struct state_txn *txn, uint64_t *ret_total)
{
    uint64_t total = 0, balance;
    for (uint64_t i = 0; i < ACCOUNTS; i++) {
        TRY(bank_read(txn, i, &balance));
        total += balance;
    }
    *ret_total = total;
    return ST_OK;
}

/* The accounts are opened by the first transfer. */
static enum status do_transfer(struct request *r)
{
    struct state_txn *txn = &r->txn;
    uint64_t from = r->op.key % ACCOUNTS, to = (r->op.key / ACCOUNTS) % ACCOUNTS;
    uint64_t amount = 1 + r->op.expect % 40, have_from, have_to;
    TRY(bank_read(txn, from, &have_from));
    TRY(bank_read(txn, to, &have_to));
    if (have_from + have_to == 0) {
        uint64_t total;
        TRY(bank_sum(txn, &total));
        for (uint64_t i = 0; i < ACCOUNTS && total == 0; i++)
            TRY(bank_write(txn, i, BALANCE));
        return ST_OK;
    }
    if (from == to || have_from < amount)
        return ST_OK;
    TRY(bank_write(txn, from, have_from - amount));
    return bank_write(txn, to, have_to + amount);
}

static enum status group_read(struct state_txn *txn, uint64_t group, bool values,
                              struct numbers *ret)
{
    char buf[64];
    struct state_iter *iter = arena_alloc(txn->arena, sizeof *iter);
    if (iter == NULL)
        return ST_NOMEM;
    TRY(state_scan(txn, group_prefix(buf, group), (struct bytes){0}, iter));
    while (state_iter_next(iter)) {
        struct bytes value = {0};
        if (values)
            TRY(state_iter_value(iter, &value));
        ret->all = sim_grow(ret->all, (ret->n + 1) * sizeof *ret->all);
        ret->all[ret->n++] = number_of(value);
    }
    return txn->status;
}

static enum status do_add(struct request *r)
{
    struct numbers have = {0};
    char buf[64];
    enum status st = group_read(&r->txn, r->op.key, false, &have);
    free(have.all);
    TRY(st);
    return put_number(&r->txn, key2(buf, "s/group", r->op.key, have.n), r->op.number, r->op.pad);
}

/* A list is a value of its newest elements, at most PART of them. Its retained suffix has the
 * others, PART in a piece. */
enum { PART = 5, PART_STORED = 8 * PART + BARRIER_OVERHEAD };

static void list_take(struct numbers *ret, size_t at, struct bytes part)
{
    for (size_t i = 0; i < part.len / 8; i++)
        ret->all[at + i] = le64_get(part.data + 8 * i);
}

static enum status list_read(struct state_txn *txn, uint64_t list, struct numbers *ret)
{
    char buf[64];
    struct state_value value;
    struct bytes key = key1(buf, "list", list), part;
    enum status st = state_get(txn, key, &value);
    if (st != ST_OK)
        return st == ST_NOT_FOUND ? ST_OK : st;
    struct bytes suffix = value.stored.suffix;
    size_t pieces = suffix.len / PART_STORED;
    if (pieces * PART_STORED != suffix.len)
        return ST_CORRUPT;
    ret->n = pieces * PART + value.value.len / 8;
    ret->all = sim_alloc(8 * ret->n);
    list_take(ret, pieces * PART, value.value);
    for (size_t i = 0; i < pieces; i++) {
        TRY(state_open(txn, key, bytes_of(suffix.data + i * PART_STORED, PART_STORED), &part));
        list_take(ret, (pieces - 1 - i) * PART, part);
    }
    return ST_OK;
}

static enum status do_append(struct request *r)
{
    char buf[64];
    uint8_t part[8 * PART];
    struct state_value old = {0};
    struct bytes key = key1(buf, "list", r->op.key);
    enum status st = state_get(&r->txn, key, &old);
    if (st != ST_NOT_FOUND)
        TRY(st);
    bool full = old.value.len == sizeof part;
    size_t n = full ? 0 : old.value.len;
    struct store_retain_suffix suffix = {0};
    if (full)
        store_retain_add(&suffix, old.stored.head);
    if (old.stored.suffix.len != 0)
        store_retain_add(&suffix, old.stored.suffix);
    if (n != 0)
        memcpy(part, old.value.data, n);
    le64_put(part + n, r->op.number);
    return state_put_retain(&r->txn, key, bytes_of(part, n + 8), &suffix, false);
}

static enum status do_noise(struct request *r)
{
    struct rng rng = rng_make(r->op.number, 0x4015E);
    struct state_txn *txn = &r->txn;
    uint64_t steps = rng_between(&rng, 1, 6);
    for (uint64_t i = 0; i < steps; i++) {
        char buf[64];
        bool local = rng_chance(&rng, 250);
        struct bytes key =
            key2(buf, local ? "l/x" : "s/x", rng_below(&rng, 4), rng_below(&rng, 40));
        struct state_mark mark = state_mark(txn);
        if (rng_chance(&rng, 60))
            TRY(state_delete_prefix(txn, bytes_of(key.data, 6))); /* "s/x/A/" */
        else if (rng_chance(&rng, 250))
            TRY(state_delete(txn, key));
        else
            TRY(put_number(txn, key, r->op.number, rng_below(&rng, 1 + r->op.pad)));
        if (rng_chance(&rng, 100))
            TRY(state_rollback(txn, mark));
    }
    return ST_OK;
}

static enum status do_cas(struct request *r)
{
    char buf[64];
    uint64_t have;
    struct bytes key = key1(buf, "reg", r->op.key);
    TRY(get_number(&r->txn, key, &have));
    r->found = have != 0;
    if (have != r->op.expect)
        return ST_OK;
    return put_number(&r->txn, key, r->op.number, r->op.pad);
}

/* The first operation of a cluster: the barrier's keys. */
static enum status do_init(struct request *r)
{
    enum status st =
        state_init_begin(&r->txn, &r->cluster->seals[0], rlog_time_ms(r->node->rlog), &r->init);
    if (st == ST_OK)
        st = state_put(&r->txn, BYTES(STATE_RECOVERY_KEY),
                       bytes_of(sim_shares_key, sizeof sim_shares_key));
    return st == ST_EXISTS ? ST_OK : st;
}

/* Stages the change of the operation, or nothing when it does not apply. */
static enum status compute(struct request *r)
{
    char buf[64];
    struct bytes key = key1(buf, "reg", r->op.key);
    switch (r->op.kind) {
    case OP_INIT: return do_init(r);
    case OP_WRITE: return put_number(&r->txn, key, r->op.number, r->op.pad);
    case OP_DELETE: return state_delete(&r->txn, key);
    case OP_CAS: return do_cas(r);
    case OP_APPEND: return do_append(r);
    case OP_TRANSFER: return do_transfer(r);
    case OP_ADD: return do_add(r);
    case OP_NOISE: return do_noise(r);
    default: return ST_OK;
    }
}

/* What a handler may fail with here: anything else is a fault of the program. */
static void refuse(struct request *r, enum status st)
{
    r->why = st;
    if (st != ST_SEALED && st != ST_CLOSED && st != ST_BUSY)
        core_fail(r->cluster->core, "%s: an operation ends with %s", r->node->name,
                  status_name(st));
    request_answer(r, ANSWER_FAILED);
}

/* Reads. */

static enum status compute_read(struct request *r, struct numbers *list, uint64_t *ret_value)
{
    char buf[64];
    enum status st;
    switch (r->op.kind) {
    case OP_LIST: return list_read(&r->txn, r->op.key, list);
    case OP_TOTAL: return bank_sum(&r->txn, ret_value);
    case OP_COUNT:
        st = group_read(&r->txn, r->op.key, true, list);
        *ret_value = list->n;
        return st;
    default: return get_number(&r->txn, key1(buf, "reg", r->op.key), ret_value);
    }
}

static void on_read(struct state_read *read, enum status st)
{
    struct request *r = CONTAINER_OF(read, struct request, read);
    struct numbers list = {0};
    uint64_t value = 0;
    r->why = st == ST_OK && !pair_serves(r->node) ? ST_DENIED : st;
    if (r->why != ST_OK) {
        request_answer(r, ANSWER_FAILED);
        return;
    }
    st = state_begin(r->node->service, &r->arena, read, &r->txn);
    if (st == ST_OK) {
        check_read(r->node, r->acked, state_version(&r->txn));
        st = compute_read(r, &list, &value);
    }
    if (st != ST_OK) {
        free(list.all);
        refuse(r, st);
        return;
    }
    struct reply *reply = reply_new(r->cluster, &r->op, r->node->slot, ANSWER_OK, list.n);
    reply->value = value;
    reply->version = state_version(&r->txn);
    if (list.n != 0)
        memcpy(reply->list, list.all, list.n * sizeof *list.all);
    free(list.all);
    reply_send(reply);
    request_free(r);
}

/* Writes. */

static void request_run(struct request *r);

static void again(struct request *r)
{
    r->cluster->tally.reruns++;
    state_end(&r->txn);
    state_init_done(&r->init);
    r->init = (struct state_init){0};
    arena_done(&r->arena);
    if (++r->runs < RUNS_MAX)
        request_run(r);
    else
        request_answer(r, ANSWER_FAILED);
}

static void applied(struct request *r)
{
    struct cluster *c = r->cluster;
    struct state_commit *commit = &r->commit;
    c->tally.repeated += commit->repeated;
    bool mine = commit->response.len == 8 && le64_get(commit->response.data) == r->op.number;
    if (commit->repeated && commit->has_response && !mine)
        core_fail(c->core, "%s: a repeated request got the answer of another", r->node->name);
    check_acked(r->node, commit->rlog.index, commit->version);
    if (op_is_register(&r->op)) {
        uint64_t *acked = &c->check.acked_register[r->op.key];
        *acked = MAX(*acked, commit->version);
    }
    struct reply *reply = reply_new(c, &r->op, r->node->slot, ANSWER_OK, 0);
    reply->version = commit->version;
    reply_send(reply);
    request_free(r);
}

static void on_committed(struct state_commit *commit, enum status st)
{
    struct request *r = CONTAINER_OF(commit, struct request, commit);
    r->why = st;
    switch (st) {
    case ST_OK: applied(r); return;
    case ST_CONFLICT: again(r); return;
    case ST_UNKNOWN_OUTCOME: request_answer(r, ANSWER_UNKNOWN); return;
    case ST_NOT_LEADER:
    case ST_BUSY:
    case ST_NO_SPACE:
    case ST_STATE_FULL:
    case ST_CLOSED: request_answer(r, ANSWER_FAILED); return;
    default:
        core_fail(r->cluster->core, "%s: a commit ends with %s", r->node->name, status_name(st));
    }
}

static void on_confirmed(struct state_confirm *confirm, enum status st)
{
    struct request *r = CONTAINER_OF(confirm, struct request, confirm);
    r->why = st;
    if (st == ST_CONFLICT) {
        again(r);
        return;
    }
    /* Its answer is a read of that register. One that was absent may be so again, after a write and
     * a deletion: then what was read at an older version holds at the confirmed one. */
    if (st == ST_OK && r->op.kind == OP_CAS && r->found)
        check_read(r->node, r->acked, state_version(&r->txn));
    request_answer(r, st == ST_OK ? ANSWER_DIFFER : ANSWER_FAILED);
}

static void request_run(struct request *r)
{
    if (!pair_serves(r->node)) {
        r->why = ST_DENIED;
        request_answer(r, ANSWER_FAILED);
        return;
    }
    enum status st = state_begin(r->node->service, &r->arena, NULL, &r->txn);
    if (st == ST_OK)
        st = compute(r);
    if (st == ST_OK && !state_staged(&r->txn)) {
        r->confirm.done = on_confirmed;
        state_confirm(&r->txn, &r->confirm);
        return;
    }
    if (st == ST_OK) {
        le64_put(r->answer, r->op.number);
        r->commit.done = on_committed;
        r->commit.id = r->op.id;
        r->commit.answer = bytes_of(r->answer, sizeof r->answer);
        st = state_commit(&r->txn, &r->commit);
        state_end(&r->txn);
    }
    if (st != ST_OK)
        refuse(r, st);
}

/* Arrival. */

static void deliver_later(struct cluster *c, const struct op *op, unsigned slot, bool forwarded,
                          uint64_t delay_ns);

static bool forward(struct node *n, const struct op *op)
{
    struct cluster *c = n->cluster;
    struct rlog_status status;
    rlog_status(n->rlog, &status);
    struct node *leader = status.leader != 0 ? node_by_id(c, status.leader) : NULL;
    if (leader == NULL || leader == n)
        return false;
    uint64_t delay_ns = sim_net_delay(&c->net, n->slot, leader->slot);
    if (delay_ns != 0) /* else it is lost on the way, and the client waits in vain */
        deliver_later(c, op, leader->slot, true, delay_ns);
    return true;
}

static void request_start(struct node *n, const struct op *op, const struct rlog_status *status)
{
    struct request *r = mem_must_alloc(sizeof *r);
    memset(r, 0, sizeof *r);
    r->cluster = n->cluster;
    r->node = n;
    r->op = *op;
    n->requests++;
    if (op_reads(op)) {
        r->acked = n->cluster->check.acked_version;
        r->read.done = on_read;
        r->read.deadline_ms = env_mono_ms(&n->env.env) + READ_DEADLINE_MS;
        state_read_begin(n->service, &r->read);
    } else if (!status->ready) { /* only the active node runs handlers that write */
        r->why = ST_NOT_LEADER;
        request_answer(r, ANSWER_FAILED);
    } else {
        r->acked = op_is_register(op) ? n->cluster->check.acked_register[op->key] : 0;
        request_run(r);
    }
}

static void execute(struct node *n, const struct op *op, bool forwarded)
{
    struct rlog_status status;
    sim_env_enter(&n->env);
    rlog_status(n->rlog, &status);
    if (op_reads(op) || status.is_leader || forwarded || !forward(n, op))
        request_start(n, op, &status);
    (void)sim_env_leave(&n->env); /* nothing is touched after it */
}

static void on_delivery(struct event *event)
{
    struct delivery *d = CONTAINER_OF(event, struct delivery, event);
    struct cluster *c = d->cluster;
    struct node *n = &c->nodes[d->slot];
    if (n->process != 0 && !sim_env_awake(&n->env, event))
        return;
    if (n->process == 0 || n->stopping || n->ghost)
        reply_send(reply_new(c, &d->op, d->slot, ANSWER_FAILED, 0));
    else
        execute(n, &d->op, d->forwarded);
    free(d);
}

static void deliver_later(struct cluster *c, const struct op *op, unsigned slot, bool forwarded,
                          uint64_t delay_ns)
{
    struct delivery *d = sim_alloc(sizeof *d);
    *d = (struct delivery){.event = {.fire = on_delivery},
                           .cluster = c,
                           .op = *op,
                           .slot = slot,
                           .forwarded = forwarded};
    core_after(c->core, &d->event, delay_ns);
}

void op_send(struct cluster *c, const struct op *op, unsigned slot)
{
    deliver_later(c, op, slot, false, rng_between(&c->rng, 50, 1000) * SIM_US);
}

/* The end: what the leader holds. */

struct numbers *elements_read(struct node *n, bool group, uint64_t key)
{
    struct numbers *have = sim_alloc(sizeof *have);
    struct arena arena = {0};
    struct state_txn txn;
    sim_env_enter(&n->env);
    enum status st = state_begin(n->service, &arena, NULL, &txn);
    if (st == ST_OK)
        st = group ? group_read(&txn, key, true, have) : list_read(&txn, key, have);
    if (st != ST_OK)
        core_fail(n->cluster->core, "%s: reading at the end: %s", n->name, status_name(st));
    state_end(&txn);
    arena_done(&arena);
    (void)sim_env_leave(&n->env); /* it did nothing that ends a process */
    return have;
}
