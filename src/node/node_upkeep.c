/* Background work of this node: the Merkle root, transactions of its own. */
#include "node/node_internal.h"

#include "base/mem.h"
#include "base/trace.h"

struct node_write {
    struct rlog_propose propose;
    struct node *node;
    struct node_write *next;
    void (*stored)(struct node *node);
    struct buf txn;
};

static void on_written(struct rlog_propose *p, enum status st)
{
    struct node_write *w = CONTAINER_OF(p, struct node_write, propose);
    struct node_write **at = &w->node->writes;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    if (st == ST_OK && p->applied.outcome == RLOG_APPLIED && w->stored != NULL)
        w->stored(w->node);
    if (st != ST_OK) /* the next tick tries again */
        w->node->announced_term = w->node->dropped_stage = 0;
    if (st != ST_OK && st != w->node->write_status)
        trace(TRACE_WARN, "node", "a write of our own failed: %s", status_text(st));
    w->node->write_status = st;
    buf_done(&w->txn);
    mem_free(w);
}

void node_write(struct node *n, struct rlog_txn_builder *builder, void (*stored)(struct node *node))
{
    struct node_write *w = mem_zalloc(sizeof *w);
    if (w == NULL || rlog_txn_encode(builder, &w->txn) != ST_OK) {
        if (w != NULL)
            buf_done(&w->txn);
        mem_free(w);
        n->dropped_stage = 0;
        return; /* the next tick tries again */
    }
    w->node = n;
    w->stored = stored;
    w->next = n->writes;
    n->writes = w;
    w->propose =
        (struct rlog_propose){.txn = buf_bytes(&w->txn), .upkeep = true, .done = on_written};
    rlog_propose(n->rlog, &w->propose);
}

static void hash_run(struct env_work *work)
{
    struct node *n = CONTAINER_OF(work, struct node, hash_work);
    store_hash(&n->hash_pin, BYTES(RLOG_REPLICATED), n->hash_root);
}

static void hash_done(struct env_work *work)
{
    struct node *n = CONTAINER_OF(work, struct node, hash_work);
    pthread_mutex_lock(&n->lock);
    n->status.root_version = n->hash_pin.version;
    memcpy(n->status.root, n->hash_root, sizeof n->status.root);
    pthread_mutex_unlock(&n->lock);
    store_unpin(&n->hash_pin);
    n->hashing = false;
    n->hashed_ms = env_mono_ms(n->env);
}

/* Apply never hashes: a pinned version is hashed on a worker when the state has come to rest, or
 * every few seconds while it does not. */
static void hash_if_due(struct node *n)
{
    uint64_t now = env_mono_ms(n->env), version = n->status.version;
    bool rests = version == n->hash_seen_version;
    n->hash_seen_version = version;
    if (n->hashing || version == n->status.root_version ||
        (!rests && now - n->hashed_ms < NODE_HASH_BUSY_MS))
        return;
    if (store_pin(rlog_store(n->rlog), "merkle root", 0, &n->hash_pin) != ST_OK)
        return; /* the next tick tries again */
    n->hashing = true;
    n->hash_work = (struct env_work){.run = hash_run, .done = hash_done, .lane = LANE_BULK};
    env_work(n->env, &n->hash_work);
}

void node_upkeep_tick(struct node *n)
{
    hash_if_due(n);
}
