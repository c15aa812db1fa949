/* Background work of this node: the Merkle root, transactions of its own. */
#include "node/node_internal.h"

#include "base/mem.h"
#include "base/trace.h"

struct node_write {
    struct rlog_propose propose;
    struct node *node;
    uint64_t *mark;
    struct buf txn;
};

static void on_written(struct rlog_propose *p, enum status st)
{
    struct node_write *w = CONTAINER_OF(p, struct node_write, propose);
    if (st != ST_OK && w->mark != NULL)
        *w->mark = 0;
    if (st != ST_OK && st != w->node->write_status)
        trace(TRACE_WARN, "node", "a write of our own failed: %s", status_text(st));
    w->node->write_status = st;
    buf_done(&w->txn);
    mem_free(w);
}

void node_write(struct part_host *host, struct rlog_txn_builder *txn, uint64_t *mark)
{
    struct node_write *w = mem_zalloc(sizeof *w);
    if (w == NULL || rlog_txn_encode(txn, &w->txn) != ST_OK) {
        if (w != NULL)
            buf_done(&w->txn);
        mem_free(w);
        if (mark != NULL)
            *mark = 0;
        return;
    }
    w->node = CONTAINER_OF(host, struct node, host);
    w->mark = mark;
    w->propose =
        (struct rlog_propose){.txn = buf_bytes(&w->txn), .upkeep = true, .done = on_written};
    rlog_propose(host->rlog, &w->propose);
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
    n->hashed_ms = env_mono_ms(n->host.env);
}

/* Apply never hashes: a pinned version is hashed on a worker when the state has come to rest, or
 * every few seconds while it does not. */
static void hash_if_due(struct node *n)
{
    uint64_t now = env_mono_ms(n->host.env), version = n->status.version;
    bool rests = version == n->hash_seen_version;
    n->hash_seen_version = version;
    if (n->hashing || version == n->status.root_version ||
        (!rests && now - n->hashed_ms < NODE_HASH_BUSY_MS))
        return;
    if (store_pin(rlog_store(n->host.rlog), "merkle root", 0, &n->hash_pin) != ST_OK)
        return; /* the next tick tries again */
    n->hashing = true;
    n->hash_work = (struct env_work){.run = hash_run, .done = hash_done, .lane = LANE_BULK};
    env_work(n->host.env, &n->hash_work);
}

void node_upkeep_tick(struct node *n)
{
    hash_if_due(n);
}
