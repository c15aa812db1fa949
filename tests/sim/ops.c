/* A node's side of an operation: what a handler of the program would do.
 *
 * A read waits for a confirmed index. A write is computed on the node's own newest state with
 * everything it read as preconditions, proposed by the leader (others forward it), and computed
 * again after a conflict. An answer that writes nothing is a read. */
#include "ops.h"

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
    struct rlog_read read;
    struct rlog_propose propose;
    struct buf txn;
    uint64_t acked; /* when the read began */
    unsigned runs;
    bool confirmed; /* a read was done for this run */
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
    core_after(&c->core, &reply->event, rng_between(&c->rng, 50, 1000) * SIM_US);
}

static void request_free(struct request *r)
{
    buf_done(&r->txn);
    mem_free(r);
}

static void request_answer(struct request *r, enum answer answer)
{
    if (r->propose.ticket != 0)
        rlog_ticket_drop(r->node->rlog, r->propose.ticket);
    reply_send(reply_new(r->cluster, &r->op, r->node->slot, answer, 0));
    request_free(r);
}

/* Values: the number that was written, then padding. */

static uint64_t item_number(const struct store_item *item)
{
    return item->value.len >= 8 ? le64_get(item->value.data) : 0;
}

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

static bool look_up(const struct store_pin *pin, struct bytes key, struct store_item *item)
{
    *item = (struct store_item){0};
    return store_get(pin, key, item) == ST_OK;
}

static void put_number(struct rlog_txn_builder *b, struct bytes key, uint64_t number, uint64_t pad)
{
    struct buf value = {0};
    buf_add_u64(&value, number);
    for (uint64_t i = 0; i < pad; i++)
        buf_add_u8(&value, (uint8_t)(i * number >> 3));
    rlog_txn_put(b, key, buf_bytes(&value));
    buf_done(&value);
}

uint64_t bank_total(const struct store_pin *pin)
{
    uint64_t total = 0;
    for (uint64_t i = 0; i < ACCOUNTS; i++) {
        struct store_item item;
        char buf[64];
        if (look_up(pin, key1(buf, "bank", i), &item))
            total += item_number(&item);
    }
    return total;
}

/* The accounts are opened by the first transfer. */
static bool build_transfer(struct request *r, const struct store_pin *pin,
                           struct rlog_txn_builder *b)
{
    uint64_t from = r->op.key % ACCOUNTS, to = (r->op.key / ACCOUNTS) % ACCOUNTS;
    uint64_t amount = 1 + r->op.expect % 40, have[ACCOUNTS];
    bool open = bank_total(pin) != 0;
    for (uint64_t i = 0; i < ACCOUNTS; i++) {
        struct store_item item;
        char buf[64];
        struct bytes key = key1(buf, "bank", i);
        bool there = look_up(pin, key, &item);
        have[i] = open ? item_number(&item) : BALANCE;
        if (!open || i == from || i == to)
            rlog_txn_need_key(b, key, there ? item.modified : 0);
    }
    if (from == to || have[from] < amount)
        return false;
    have[from] -= amount;
    have[to] += amount;
    for (uint64_t i = 0; i < ACCOUNTS; i++) {
        char buf[64];
        if (!open || i == from || i == to)
            put_number(b, key1(buf, "bank", i), have[i], 0);
    }
    return true;
}

uint64_t *group_read(const struct store_pin *pin, uint64_t group, size_t *ret_n)
{
    struct store_iter *iter = sim_alloc(sizeof *iter);
    uint64_t *have = NULL;
    char buf[64];
    size_t n = 0;
    store_iter_init(iter, pin, group_prefix(buf, group), (struct bytes){0});
    while (store_iter_next(iter)) {
        have = sim_grow(have, (n + 1) * sizeof *have);
        have[n++] = item_number(&iter->item);
    }
    free(iter);
    *ret_n = n;
    return have;
}

static uint64_t group_count(const struct store_pin *pin, uint64_t group)
{
    size_t n;
    free(group_read(pin, group, &n));
    return n;
}

uint64_t *list_read(const struct store_pin *pin, uint64_t list, size_t *ret_n)
{
    char buf[64];
    struct store_item item;
    (void)look_up(pin, key1(buf, "list", list), &item); /* absent: empty */
    uint64_t *have = sim_alloc(item.value.len);
    *ret_n = item.value.len / 8;
    for (size_t i = 0; i < *ret_n; i++)
        have[i] = le64_get(item.value.data + 8 * i);
    return have;
}

static void build_add(struct request *r, const struct store_pin *pin, struct rlog_txn_builder *b)
{
    char buf[64];
    struct bytes prefix = group_prefix(buf, r->op.key);
    rlog_txn_need_prefix(b, prefix, store_newest(pin, prefix));
    put_number(b, key2(buf, "s/group", r->op.key, group_count(pin, r->op.key)), r->op.number,
               r->op.pad);
}

static void build_append(struct request *r, const struct store_pin *pin, struct rlog_txn_builder *b)
{
    char buf[64];
    struct store_item item;
    struct buf list = {0};
    struct bytes key = key1(buf, "list", r->op.key);
    bool there = look_up(pin, key, &item);
    rlog_txn_need_key(b, key, there ? item.modified : 0);
    buf_add(&list, item.value);
    buf_add_u64(&list, r->op.number);
    rlog_txn_put(b, key, buf_bytes(&list));
    buf_done(&list);
}

static void build_noise(struct request *r, struct rlog_txn_builder *b)
{
    struct rng rng = rng_make(r->op.number, 0x4015E);
    uint64_t steps = rng_between(&rng, 1, 6);
    for (uint64_t i = 0; i < steps; i++) {
        char buf[64];
        bool local = rng_chance(&rng, 250);
        struct bytes key =
            key2(buf, local ? "l/x" : "s/x", rng_below(&rng, 4), rng_below(&rng, 40));
        if (rng_chance(&rng, 60))
            rlog_txn_delete_prefix(b, bytes_of(key.data, 6)); /* "s/x/A/" */
        else if (rng_chance(&rng, 250))
            rlog_txn_delete(b, key);
        else
            put_number(b, key, r->op.number, rng_below(&rng, 1 + r->op.pad));
    }
}

static bool build_cas(struct request *r, const struct store_pin *pin, struct rlog_txn_builder *b)
{
    char buf[64];
    struct store_item item;
    struct bytes key = key1(buf, "reg", r->op.key);
    bool there = look_up(pin, key, &item);
    if (item_number(&item) != r->op.expect)
        return false;
    rlog_txn_need_key(b, key, there ? item.modified : 0);
    put_number(b, key, r->op.number, r->op.pad);
    return true;
}

/* false: the operation does not apply to this state, nothing is written. */
static bool build(struct request *r, const struct store_pin *pin, struct rlog_txn_builder *b)
{
    char buf[64];
    struct bytes key = key1(buf, "reg", r->op.key);
    switch (r->op.kind) {
    case OP_WRITE: put_number(b, key, r->op.number, r->op.pad); return true;
    case OP_DELETE: rlog_txn_delete(b, key); return true;
    case OP_CAS: return build_cas(r, pin, b);
    case OP_APPEND: build_append(r, pin, b); return true;
    case OP_TRANSFER: return build_transfer(r, pin, b);
    case OP_ADD: build_add(r, pin, b); return true;
    case OP_NOISE: build_noise(r, b); return true;
    default: return false;
    }
}

/* Reads. */

static struct reply *read_reply(struct request *r, const struct store_pin *pin)
{
    char buf[64];
    struct store_item item = {0};
    struct reply *reply;
    if (r->op.kind == OP_LIST) {
        size_t n;
        uint64_t *have = list_read(pin, r->op.key, &n);
        reply = reply_new(r->cluster, &r->op, r->node->slot, ANSWER_OK, n);
        memcpy(reply->list, have, n * sizeof *have);
        free(have);
        return reply;
    }
    reply = reply_new(r->cluster, &r->op, r->node->slot, ANSWER_OK, 0);
    if (r->op.kind == OP_TOTAL)
        reply->value = bank_total(pin);
    else if (r->op.kind == OP_COUNT)
        reply->value = group_count(pin, r->op.key);
    else if (look_up(pin, key1(buf, "reg", r->op.key), &item))
        reply->value = item_number(&item);
    return reply;
}

static void request_run(struct request *r);

static void on_read(struct rlog_read *read, enum status st)
{
    struct request *r = CONTAINER_OF(read, struct request, read);
    struct store_pin pin;
    if (st != ST_OK) {
        request_answer(r, ANSWER_FAILED);
        return;
    }
    if (store_pin(rlog_store(r->node->rlog), "sim", 0, &pin) != ST_OK)
        core_fail(&r->cluster->core, "%s: no pin is free", r->node->name);
    check_read(r->node, r->acked, pin.version);
    bool reads = r->op.kind == OP_READ || r->op.kind == OP_LIST || r->op.kind == OP_TOTAL ||
                 r->op.kind == OP_COUNT;
    if (reads) {
        struct reply *reply = read_reply(r, &pin);
        reply->version = pin.version;
        reply_send(reply);
        request_free(r);
    } else {
        r->confirmed = true;
        request_run(r);
    }
    store_unpin(&pin);
}

static void read_begin(struct request *r)
{
    r->acked = r->cluster->check.acked_version;
    r->read = (struct rlog_read){.done = on_read};
    r->read.deadline_ms = env_mono_ms(&r->node->env.env) + READ_DEADLINE_MS;
    rlog_read(r->node->rlog, &r->read);
}

/* Writes. */

static void applied(struct request *r)
{
    const struct rlog_applied *a = &r->propose.applied;
    enum answer answer = ANSWER_OK;
    uint64_t version = a->version;
    r->propose.ticket = 0;
    if (a->outcome == RLOG_OUTCOME_UNKNOWN) {
        answer = ANSWER_UNKNOWN;
    } else if (a->outcome == RLOG_REPEATED) {
        r->cluster->tally.repeated++;
        if (a->response.len != 8 || le64_get(a->response.data) != r->op.number)
            core_fail(&r->cluster->core, "%s: a repeated request got the answer of another",
                      r->node->name);
    } else if (a->outcome != RLOG_APPLIED) {
        core_fail(&r->cluster->core, "%s: done with outcome %d", r->node->name, a->outcome);
    }
    if (answer == ANSWER_OK)
        check_acked(r->node, r->propose.index, version);
    struct reply *reply = reply_new(r->cluster, &r->op, r->node->slot, answer, 0);
    reply->version = version;
    reply_send(reply);
    request_free(r);
}

static void on_proposed(struct rlog_propose *p, enum status st)
{
    struct request *r = CONTAINER_OF(p, struct request, propose);
    switch (st) {
    case ST_OK: applied(r); return;
    case ST_CONFLICT:
        r->cluster->tally.reruns++;
        r->confirmed = false;
        if (++r->runs < RUNS_MAX)
            request_run(r);
        else
            request_answer(r, ANSWER_FAILED);
        return;
    case ST_UNKNOWN_OUTCOME:
        r->propose.ticket = 0;
        request_answer(r, ANSWER_UNKNOWN);
        return;
    case ST_NOT_LEADER:
    case ST_BUSY:
    case ST_NO_SPACE:
    case ST_CLOSED:
        r->propose.ticket = 0;
        request_answer(r, ANSWER_FAILED);
        return;
    default:
        core_fail(&r->cluster->core, "%s: a proposal ends with %s", r->node->name, status_name(st));
    }
}

static void propose(struct request *r, struct rlog_txn_builder *b)
{
    uint8_t response[8];
    uint64_t ticket = r->propose.ticket;
    le64_put(response, r->op.number);
    if (r->op.has_id)
        rlog_txn_id(b, &r->op.id, bytes_of(response, sizeof response));
    buf_clear(&r->txn);
    if (rlog_txn_encode(b, &r->txn) != ST_OK)
        core_fail(&r->cluster->core, "%s: a transaction cannot be encoded", r->node->name);
    r->propose =
        (struct rlog_propose){.txn = buf_bytes(&r->txn), .ticket = ticket, .done = on_proposed};
    rlog_propose(r->node->rlog, &r->propose);
}

static void request_run(struct request *r)
{
    CLEANUP(rlog_txn_done) struct rlog_txn_builder b = {0};
    struct store_pin pin;
    if (store_pin(rlog_store(r->node->rlog), "sim", 0, &pin) != ST_OK)
        core_fail(&r->cluster->core, "%s: no pin is free", r->node->name);
    bool writes = build(r, &pin, &b);
    store_unpin(&pin);
    if (writes)
        propose(r, &b);
    else if (r->confirmed)
        request_answer(r, ANSWER_DIFFER);
    else
        read_begin(r);
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

static void execute(struct node *n, struct op *op, bool forwarded)
{
    struct rlog_status status;
    bool reads =
        op->kind == OP_READ || op->kind == OP_LIST || op->kind == OP_TOTAL || op->kind == OP_COUNT;
    sim_env_enter(&n->env);
    rlog_status(n->rlog, &status);
    if (!reads && !status.is_leader && !forwarded && forward(n, op)) {
        (void)sim_env_leave(&n->env); /* nothing is touched after it */
        return;
    }
    struct request *r = mem_must_alloc(sizeof *r);
    *r = (struct request){.cluster = n->cluster, .node = n, .op = *op};
    if (reads)
        read_begin(r);
    else
        request_run(r);
    (void)sim_env_leave(&n->env); /* nothing is touched after it */
}

static void on_delivery(struct event *event)
{
    struct delivery *d = CONTAINER_OF(event, struct delivery, event);
    struct cluster *c = d->cluster;
    struct node *n = &c->nodes[d->slot];
    if (n->process != 0 && !sim_env_awake(&n->env, event))
        return;
    if (n->process == 0 || n->stopping)
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
    core_after(&c->core, &d->event, delay_ns);
}

void op_send(struct cluster *c, const struct op *op, unsigned slot)
{
    deliver_later(c, op, slot, false, rng_between(&c->rng, 50, 1000) * SIM_US);
}
