/* Staged trees swapped in through the log: the state is copied key by key into a staged tree, which
 * replaces the state if nothing changed meanwhile. The content stays the same, so every other check
 * goes on; versions, hashes and snapshots must cope with the swap. */
#include "ops.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    TXNS_MAX = 8,
    RUNS_MAX = 6,
    WRITERS_MAX = 2, /* at once on a node: each takes the tree from the other */
};

/* One exchange under way on a node; it vanishes with the node's memory. */
struct exchange {
    struct rlog_propose propose;
    struct node *node;
    struct rlog_txn_builder txns[TXNS_MAX];
    struct buf encoded; /* the one at hand */
    unsigned n, at, runs;
    uint64_t ticket, stage; /* number of the tree that was begun */
};

static void exchange_free(struct exchange *x)
{
    struct node *n = x->node;
    if (x->ticket != 0)
        rlog_ticket_drop(n->rlog, x->ticket);
    for (unsigned i = 0; i < TXNS_MAX; i++)
        rlog_txn_done(&x->txns[i]);
    buf_done(&x->encoded);
    n->requests--;
    n->exchanging--;
    mem_free(x);
}

static bool txn_end(struct exchange *x, struct rlog_txn_builder *b)
{
    bool well = rlog_txn_encode(b, &x->encoded) == ST_OK; /* it fits */
    buf_clear(&x->encoded);
    rlog_txn_done(&x->txns[x->n]);
    x->txns[x->n++] = *b;
    *b = (struct rlog_txn_builder){0};
    return well;
}

/* Transactions of about as many keys each; all in one when `most` is 1. */
static bool copy_keys(struct exchange *x, const struct store_pin *pin, struct rlog_txn_builder *b,
                      unsigned most)
{
    struct store_stats stats;
    struct store_iter *iter = sim_alloc(sizeof *iter);
    uint64_t in_txn = 0, each;
    bool well = true;
    store_stats(pin->store, &stats);
    each = stats.keys / most + 1;
    store_iter_init(iter, pin, BYTES(RLOG_REPLICATED), (struct bytes){0});
    while (well && store_iter_next(iter)) {
        if (!rlog_txn_key_valid(iter->item.key))
            continue; /* the segment's own */
        if (in_txn++ == each && x->n + 2 < most) {
            well = txn_end(x, b);
            in_txn = 1;
        }
        rlog_txn_stage_put(b, iter->item.key, iter->item.value, iter->item.created,
                           iter->item.modified);
    }
    free(iter);
    return well;
}

/* Encode it all from the newest version. */
static bool exchange_make(struct exchange *x)
{
    struct rng *r = &x->node->cluster->rng;
    struct rlog_txn_builder b = {0};
    struct store_pin pin;
    unsigned most = x->runs < 2 && rng_chance(r, 500) ? TXNS_MAX : 1;
    if (store_pin(rlog_store(x->node->rlog), "exchange", 0, &pin) != ST_OK)
        return false;
    x->n = x->at = 0;
    rlog_txn_stage_begin(&b);
    bool well = copy_keys(x, &pin, &b, most);
    if (well && most > 1)
        well = txn_end(x, &b);
    rlog_txn_need_prefix(&b, BYTES(RLOG_REPLICATED), store_newest(&pin, BYTES(RLOG_REPLICATED)));
    if (rng_chance(r, 150))
        rlog_txn_stage_drop(&b);
    else
        rlog_txn_stage_swap(&b);
    if (x->node->cluster->profile.watchers) /* as a restore does */
        rlog_txn_put(&b, BYTES(STATE_RESTORED), BYTES("mark"));
    well = well && txn_end(x, &b);
    rlog_txn_done(&b);
    store_unpin(&pin);
    return well;
}

static void exchange_run(struct exchange *x);

static void on_proposed(struct rlog_propose *p, enum status st)
{
    struct exchange *x = CONTAINER_OF(p, struct exchange, propose);
    struct cluster *c = x->node->cluster;
    bool conflict = st == ST_OK && p->applied.outcome == RLOG_CONFLICTED;
    conflict = conflict || st == ST_CONFLICT;
    x->ticket = x->at + 1 == x->n ? p->ticket : x->ticket;
    if (st == ST_OK && !conflict && x->at == 0)
        x->stage = p->applied.stage;
    if (st == ST_OK && !conflict && ++x->at < x->n) {
        exchange_run(x);
        return;
    }
    if (conflict && ++x->runs < RUNS_MAX && exchange_make(x)) {
        exchange_run(x);
        return;
    }
    c->tally.reached[REACH_EXCHANGE] += st == ST_OK && !conflict;
    core_say(c->core, "%s: exchange of trees: %s%s", x->node->name, status_name(st),
             conflict ? ", conflict" : "");
    exchange_free(x);
}

static void exchange_run(struct exchange *x)
{
    bool last = x->at + 1 == x->n;
    if (x->at > 0)
        rlog_txn_need_stage(&x->txns[x->at], x->stage);
    buf_clear(&x->encoded);
    if (rlog_txn_encode(&x->txns[x->at], &x->encoded) != ST_OK)
        abort(); /* it did, but for a few bytes */
    x->propose = (struct rlog_propose){
        .txn = buf_bytes(&x->encoded), .ticket = last ? x->ticket : 0, .done = on_proposed};
    rlog_propose(x->node->rlog, &x->propose);
}

static void exchange_start(struct node *n)
{
    struct exchange *x = mem_must_alloc(sizeof *x);
    memset(x, 0, sizeof *x);
    x->node = n;
    n->requests++;
    n->exchanging++;
    if (exchange_make(x))
        exchange_run(x);
    else
        exchange_free(x); /* too much for one transaction */
}

static void on_tick(struct event *event)
{
    struct cluster *c = CONTAINER_OF(event, struct cluster, exchange);
    struct node *n = cluster_leader(c);
    struct rlog_status status;
    if (c->calm)
        return;
    core_after(c->core, event, rng_between(&c->rng, 20, 2 * c->profile.exchange_every_ms) * SIM_MS);
    if (n == NULL || n->stopping || n->exchanging >= WRITERS_MAX ||
        n->env.stalled_until_ns > c->core->now_ns)
        return;
    rlog_status(n->rlog, &status);
    if (!status.ready)
        return;
    sim_env_enter(&n->env);
    exchange_start(n);
    (void)sim_env_leave(&n->env); /* nothing is touched after it */
}

void exchange_begin(struct cluster *c)
{
    c->exchange.fire = on_tick;
    if (c->profile.exchange_every_ms != 0)
        core_after(c->core, &c->exchange, 900 * SIM_MS);
}
