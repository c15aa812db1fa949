/* Clients: each has one operation under way, through a random node. While the outcome is unknown,
 * the operation is repeated with the same request id. The replies are the history that is judged.
 * */
#include "ops.h"
#include "pair.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { TIMEOUT_MS = 1200, ATTEMPTS_MAX = 4, LIN_STEPS_MAX = 3000000 };

struct history {
    struct lin_op *ops;
    size_t n, cap;
};

/* What became of the elements of a list or group. */
struct elements {
    uint64_t *sure, *maybe; /* acknowledged; unknown */
    uint64_t *sure_at;      /* versions of the acknowledged ones */
    size_t n_sure, n_maybe;
    uint64_t *longest; /* list: the longest that was read */
    size_t n_longest;
};

struct client {
    struct cluster *cluster;
    unsigned index;
    struct rng rng;
    struct event event; /* the next operation, or the timeout of this one */
    bool waiting, maybe, served, stopped, probes; /* probes: writes when clients_probe asks */
    struct op op;
    uint64_t called_ns, version; /* version: the newest it heard of */
};

struct clients {
    struct client *all; /* n, then the one that probes */
    unsigned n;
    uint64_t numbers;
    bool initialized;             /* the barrier's keys are stored */
    uint64_t last_seen[KEYS_MAX]; /* register values, for cas */
    struct history registers[KEYS_MAX];
    struct elements lists[LISTS], groups[GROUPS];
};

static void number_add(uint64_t **list, size_t *n, uint64_t number)
{
    *list = sim_grow(*list, (*n + 1) * sizeof **list);
    (*list)[(*n)++] = number;
}

/* Histories. */

static void record_register(struct client *cl, enum answer answer, uint64_t value)
{
    struct clients *cs = cl->cluster->clients;
    struct history *h = &cs->registers[cl->op.key];
    struct lin_op op = {.client = cl->index, .call = cl->called_ns};
    op.ret = answer == ANSWER_UNKNOWN ? LIN_NEVER : cl->cluster->core->now_ns;
    op.value = cl->op.number;
    op.expect = cl->op.expect;
    switch (cl->op.kind) {
    case OP_READ:
        op.kind = LIN_READ;
        op.value = value;
        break;
    case OP_CAS: op.kind = answer == ANSWER_DIFFER ? LIN_DIFFER : LIN_CAS; break;
    default:
        op.kind = LIN_WRITE;
        op.value = cl->op.kind == OP_DELETE ? 0 : cl->op.number;
        break;
    }
    if (h->n == h->cap) {
        h->cap = h->cap != 0 ? h->cap * 2 : 64;
        h->ops = sim_grow(h->ops, h->cap * sizeof *h->ops);
    }
    h->ops[h->n++] = op;
    if (answer == ANSWER_OK)
        cs->last_seen[cl->op.key] = op.value;
}

static void record_element(struct client *cl, struct elements *e, enum answer answer,
                           const struct reply *reply)
{
    size_t n = e->n_sure;
    if (answer == ANSWER_OK) {
        number_add(&e->sure_at, &n, reply->version);
        number_add(&e->sure, &e->n_sure, cl->op.number);
    } else {
        number_add(&e->maybe, &e->n_maybe, cl->op.number);
    }
}

/* Every list that is read is the beginning of every longer one. */
static void check_list(struct client *cl, const struct reply *reply)
{
    const struct core *core = cl->cluster->core;
    struct elements *e = &cl->cluster->clients->lists[cl->op.key];
    for (size_t i = 0; i < MIN(reply->n, e->n_longest); i++)
        if (reply->list[i] != e->longest[i])
            core_fail(core, "list %" PRIu64 ": element %zu is %" PRIu64 " and was read as %" PRIu64,
                      cl->op.key, i, reply->list[i], e->longest[i]);
    if (reply->n <= e->n_longest)
        return;
    e->longest = sim_grow(e->longest, reply->n * sizeof e->longest[0]);
    memcpy(e->longest, reply->list, reply->n * sizeof e->longest[0]);
    e->n_longest = reply->n;
}

static void check_total(struct client *cl, uint64_t total)
{
    if (total != 0 && total != ACCOUNTS * BALANCE)
        core_fail(cl->cluster->core, "the bank holds %" PRIu64 ", not %u", total,
                  ACCOUNTS * BALANCE);
}

/* The operation is over. `reply` may be NULL when the answer is FAILED or UNKNOWN. */
static void record(struct client *cl, enum answer answer, const struct reply *reply)
{
    struct clients *cs = cl->cluster->clients;
    uint64_t value = reply != NULL ? reply->value : 0;
    if (answer == ANSWER_FAILED || (answer == ANSWER_UNKNOWN && op_reads(&cl->op)))
        return; /* nothing happened that anyone could see */
    switch (cl->op.kind) {
    case OP_READ:
    case OP_WRITE:
    case OP_CAS:
    case OP_DELETE: record_register(cl, answer, value); break;
    case OP_LIST: check_list(cl, reply); break;
    case OP_APPEND: record_element(cl, &cs->lists[cl->op.key], answer, reply); break;
    case OP_TOTAL: check_total(cl, value); break;
    case OP_ADD: record_element(cl, &cs->groups[cl->op.key], answer, reply); break;
    case OP_INIT: cs->initialized = cs->initialized || answer != ANSWER_UNKNOWN; break;
    case OP_COUNT:
    case OP_TRANSFER:
    case OP_NOISE:
    case OPS: break;
    }
}

/* One operation after the other. */

static void next_later(struct client *cl)
{
    const struct profile *p = &cl->cluster->profile;
    core_after(cl->cluster->core, &cl->event, rng_between(&cl->rng, 1, p->think_ms_max) * SIM_MS);
}

static void finish(struct client *cl, enum answer answer, const struct reply *reply)
{
    struct tally *t = &cl->cluster->tally;
    record(cl, answer, reply);
    core_note(cl->cluster->core, cl->op.number << 8 | (uint64_t)answer);
    t->ops++;
    t->ops_ok += answer == ANSWER_OK || answer == ANSWER_DIFFER;
    t->ops_unknown += answer == ANSWER_UNKNOWN;
    t->ops_failed += answer == ANSWER_FAILED;
    cl->served = cl->served || (answer == ANSWER_OK && !op_reads(&cl->op));
    cl->waiting = false;
    if (!cl->probes)
        next_later(cl);
}

/* While there are faults: any machine that runs, member or not. Afterwards, and in a run that goes
 * on because too little happened: a standby or voter, as a load balancer chooses. A spare serves no
 * requests, and no administrator may come to promote it. */
static bool may_choose(struct cluster *c, const struct node *n)
{
    struct rlog_status s;
    struct node *leader = c->calm || c->slow ? cluster_leader(c) : NULL;
    if (n->state != NODE_UP || leader == NULL)
        return n->state == NODE_UP;
    rlog_status(leader->rlog, &s);
    for (unsigned i = 0; i < s.n_members; i++)
        if (s.members[i].id == n->id)
            return s.members[i].role != RLOG_SPARE;
    return false;
}

unsigned clients_choose_slot(struct cluster *c, struct rng *r)
{
    for (unsigned tries = 0; tries < 20; tries++) {
        unsigned slot = (unsigned)rng_below(r, SLOTS);
        if (may_choose(c, &c->nodes[slot]))
            return slot;
    }
    return (unsigned)rng_below(r, c->profile.n_initial_members);
}

static void attempt_at(struct client *cl, unsigned slot, uint64_t patience_ms)
{
    struct cluster *c = cl->cluster;
    cl->op.attempt++;
    core_say(c->core, "client %u: op %" PRIu64 " kind %d key %" PRIu64 " attempt %u to %s",
             cl->index, cl->op.number, cl->op.kind, cl->op.key, cl->op.attempt,
             c->nodes[slot].name);
    op_send(c, &cl->op, slot);
    core_after(c->core, &cl->event, patience_ms * SIM_MS);
}

static void attempt(struct client *cl)
{
    unsigned slot = clients_choose_slot(cl->cluster, &cl->rng);
    attempt_at(cl, slot, TIMEOUT_MS + rng_below(&cl->rng, 600));
}

static enum op_kind choose_kind(struct rng *r)
{
    static const unsigned weight[OPS] = {
        [OP_READ] = 24, [OP_WRITE] = 14,  [OP_CAS] = 14,  [OP_DELETE] = 2,
        [OP_LIST] = 6,  [OP_APPEND] = 12, [OP_TOTAL] = 4, [OP_TRANSFER] = 12,
        [OP_COUNT] = 2, [OP_ADD] = 6,     [OP_NOISE] = 10};
    uint64_t at = rng_below(r, 106);
    unsigned i = 0;
    while (at >= weight[i])
        at -= weight[i++];
    return (enum op_kind)i;
}

static uint64_t choose_key(struct client *cl, enum op_kind kind)
{
    struct rng *r = &cl->rng;
    switch (kind) {
    case OP_LIST:
    case OP_APPEND: return rng_below(r, LISTS);
    case OP_COUNT:
    case OP_ADD: return rng_below(r, GROUPS);
    case OP_TRANSFER: return rng_below(r, ACCOUNTS * ACCOUNTS);
    default: return rng_below(r, cl->cluster->profile.keys);
    }
}

static void compose(struct client *cl, enum op_kind kind)
{
    struct cluster *c = cl->cluster;
    struct clients *cs = c->clients;
    struct op *op = &cl->op;
    *op = (struct op){.client = cl->index, .number = ++cs->numbers, .kind = kind};
    op->key = choose_key(cl, op->kind);
    op->pad = rng_below(&cl->rng, c->profile.value_bytes_max + 1);
    if (rng_chance(&cl->rng, 900))
        op->pad /= 16;
    op->expect = op->kind == OP_CAS ? cs->last_seen[op->key] : rng_u64(&cl->rng);
    op->has_id = !op_reads(op) && rng_chance(&cl->rng, 900);
    le64_put(op->id.bytes, rng_u64(&cl->rng) | 1);
    le64_put(op->id.bytes + 8, op->number);
    op->id.issued = cl->version;
    cl->called_ns = c->core->now_ns;
    cl->waiting = true;
    cl->maybe = false;
}

static void begin(struct client *cl)
{
    bool initialized = cl->cluster->clients->initialized;
    enum op_kind kind = initialized ? choose_kind(&cl->rng) : OP_INIT;
    if (initialized && cl->cluster->profile.state_bytes_max != 0 && rng_chance(&cl->rng, 100))
        kind = OP_DELETE; /* goes through when nothing else does */
    compose(cl, kind);
    attempt(cl);
}

/* The attempt did not succeed: again, if that cannot do harm. */
static void again_or_finish(struct client *cl)
{
    bool safe = op_reads(&cl->op) || cl->op.has_id || !cl->maybe;
    if (safe && !cl->probes && cl->op.attempt < ATTEMPTS_MAX && rng_chance(&cl->rng, 850))
        attempt(cl);
    else
        finish(cl, cl->maybe ? ANSWER_UNKNOWN : ANSWER_FAILED, NULL);
}

static void on_client(struct event *event)
{
    struct client *cl = CONTAINER_OF(event, struct client, event);
    if (cl->waiting) {
        cl->maybe = true; /* no answer: the request or its answer is lost, or late */
        again_or_finish(cl);
    } else if (!cl->stopped && !cl->probes) {
        begin(cl);
    }
}

void client_replied(const struct reply *reply)
{
    struct client *cl = &reply->cluster->clients->all[reply->op.client];
    if (!cl->waiting || reply->op.number != cl->op.number)
        return;
    core_say(cl->cluster->core, "client %u: op %" PRIu64 " answer %d value %" PRIu64 " from %s",
             cl->index, reply->op.number, reply->answer, reply->value,
             cl->cluster->nodes[reply->slot].name);
    cl->version = MAX(cl->version, reply->version);
    bool current = reply->op.attempt == cl->op.attempt;
    switch (reply->answer) {
    case ANSWER_OK: finish(cl, ANSWER_OK, reply); return;
    case ANSWER_DIFFER: /* after an attempt that may have succeeded it proves nothing */
        if (!cl->maybe && current)
            finish(cl, ANSWER_DIFFER, reply);
        else if (current)
            finish(cl, ANSWER_UNKNOWN, NULL);
        return;
    case ANSWER_UNKNOWN: cl->maybe = true; break;
    case ANSWER_FAILED: break;
    }
    if (current)
        again_or_finish(cl);
}

void clients_start(struct cluster *c)
{
    struct clients *cs = sim_alloc(sizeof *cs);
    c->clients = cs;
    cs->n = c->profile.clients;
    cs->all = sim_alloc((cs->n + 1) * sizeof *cs->all);
    for (unsigned i = 0; i <= cs->n; i++) {
        struct client *cl = &cs->all[i];
        *cl = (struct client){.cluster = c,
                              .index = i,
                              .rng = rng_make(c->core->seed, cluster_stream(c, 0xC11E + i)),
                              .event = {.fire = on_client},
                              .probes = i == cs->n};
        if (!cl->probes)
            core_after(c->core, &cl->event, 300 * SIM_MS + i * SIM_MS);
    }
}

bool clients_probe(struct cluster *c, const struct node *leader)
{
    struct client *cl = &c->clients->all[c->clients->n];
    if (cl->waiting || cl->served)
        return cl->served;
    enum op_kind kind = c->profile.state_bytes_max != 0 ? OP_DELETE : OP_WRITE;
    compose(cl, c->clients->initialized ? kind : OP_INIT);
    attempt_at(cl, leader->slot, c->profile.election_ms);
    return false;
}

void clients_mark(struct cluster *c)
{
    for (unsigned i = 0; i <= c->clients->n; i++)
        c->clients->all[i].served = false;
}

bool clients_served(const struct cluster *c)
{
    for (unsigned i = 0; i < c->clients->n; i++)
        if (!c->clients->all[i].served)
            return false;
    return true;
}

void clients_stop(struct cluster *c)
{
    for (unsigned i = 0; i < c->clients->n; i++)
        c->clients->all[i].stopped = true;
}

bool clients_idle(const struct cluster *c)
{
    for (unsigned i = 0; i <= c->clients->n; i++)
        if (c->clients->all[i].waiting)
            return false;
    return true;
}

bool clients_initialized(const struct cluster *c)
{
    return c->clients->initialized;
}

/* The end. */

static void check_register(struct cluster *c, unsigned key)
{
    struct history *h = &c->clients->registers[key];
    size_t stuck = 0;
    enum lin_verdict verdict = lin_check(h->ops, h->n, LIN_STEPS_MAX, &stuck);
    c->tally.lin_too_hard += verdict == LIN_TOO_HARD;
    if (verdict != LIN_BAD)
        return;
    const struct lin_op *op = &h->ops[stuck];
    core_fail(c->core,
              "register %u is not linearizable: client %u, operation %d from %.6f to %.6f s, "
              "value %" PRIu64 ", expected %" PRIu64,
              key, op->client, op->kind, (double)op->call / 1e9, (double)op->ret / 1e9, op->value,
              op->expect);
}

static unsigned count_in(const uint64_t *list, size_t n, uint64_t number)
{
    unsigned found = 0;
    for (size_t i = 0; i < n; i++)
        found += list[i] == number;
    return found;
}

/* Whether the acknowledged element is in the state at the end. A promotion beside the first primary
 * loses what the promoted site had not got. */
static bool is_kept(const struct cluster *c, const struct elements *e, size_t i)
{
    return c->pair == NULL || pair_keeps(c->pair, DR_EPOCH_FIRST, e->sure_at[i]);
}

/* Acknowledged: exactly once. Unknown: at most once. Anything else: never. */
static void check_elements(struct cluster *c, const char *what, const struct elements *e,
                           const uint64_t *have, size_t n)
{
    size_t expected = 0;
    for (size_t i = 0; i < e->n_sure; i++) {
        unsigned found = count_in(have, n, e->sure[i]);
        bool kept = is_kept(c, e, i);
        if (found != kept)
            core_fail(c->core, "%s: acknowledged element %" PRIu64 " is there %u times", what,
                      e->sure[i], found);
        expected += kept;
    }
    for (size_t i = 0; i < e->n_maybe; i++) {
        unsigned found = count_in(have, n, e->maybe[i]);
        if (found > 1)
            core_fail(c->core, "%s: element %" PRIu64 " is there %u times", what, e->maybe[i],
                      found);
        expected += found;
    }
    if (expected != n)
        core_fail(c->core, "%s: %zu elements of which only %zu were written", what, n, expected);
}

static void check_stored(struct cluster *c, struct node *leader, bool group, uint64_t i)
{
    char what[32];
    struct numbers *have = elements_read(leader, group, i);
    snprintf(what, sizeof what, "%s %" PRIu64, group ? "group" : "list", i);
    check_elements(c, what, group ? &c->clients->groups[i] : &c->clients->lists[i], have->all,
                   have->n);
    free(have->all);
    free(have);
}

void clients_check(struct cluster *c)
{
    struct node *leader = cluster_leader(c->pair != NULL ? &c->pair->sites[c->pair->newest] : c);
    ASSERT(leader != NULL);
    for (uint64_t i = 0; i < LISTS; i++)
        check_stored(c, leader, false, i);
    for (uint64_t i = 0; i < GROUPS; i++)
        check_stored(c, leader, true, i);
    for (unsigned i = 0; i < KEYS_MAX; i++)
        check_register(c, i);
}
