/* Snapshots for operators: the whole replicated state as a file, and back (raft/snapshot/rlog_archive.h).
 *
 *   save     pin ─▶ write an archive to a file without a name
 *   restore  read all of it, changing nothing ─▶ begin a staged tree ─▶ put what is read once more,
 *            a bounded transaction at a time ─▶ swap
 *
 * 1. Both run on the caller's thread; one of them at a time on a node. The raft thread only pins,
 *    and proposes.
 * 2. Until the swap is applied the old state is whole, on every node. The restore that begins a
 *    staged tree owns it (PROTOCOL R8a); the next active node drops a tree whose owner has gone.
 * 3. The swap also writes STATE_RESTORED, so that nothing which was decided or encrypted before it
 *    takes effect after it, and decides about the local key ring. Under the same root key the ring
 *    stays. Where the seal configured here opens the other root key, the ring is wrapped anew.
 *    Otherwise no node can wrap it: the ring is deleted, and the first active node that was
 *    unsealed makes another. The remembered replies to repeated requests are lost with the ring;
 *    they were made in the old state, and a client that repeats such a request is told that its
 *    outcome is unknown. */
#include "node/node_internal.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/trace.h"
#include "raft/snapshot/rlog_archive.h"
#include "state/state_core.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

#define PROOF_LABEL "snapshot 1\n"

enum {
    PROOF_VERSION = 1,
    PROOF_BYTES = 1 + BARRIER_MAC_BYTES,
    TXN_BYTES = 1024 * 1024, /* aimed at; one value may be longer */
    TXN_KEYS = 4096,
    ROOM_EVERY_BYTES = 8 * 1024 * 1024,
    RESERVE_BYTES = 128 * 1024 * 1024,
    /* Values are encrypted and do not shrink: what unpacks to far more is a bomb. */
    GROWTH_MAX = 32,
    GROWTH_FREE_BYTES = 64 * 1024 * 1024,
};

/* A call that is made on the raft thread and waited for. */
struct errand {
    struct env_task task;
    struct node *node;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool finished;
    enum status st;
    /* of a pin */
    struct rlog_machine_dump *dump;
    struct rlog_archive_facts *facts;
    /* of what is stored */
    struct seal_info *seal;
    /* of a proposal */
    struct rlog_propose propose;
    uint64_t stage; /* result */
};

static void finish(struct errand *e, enum status st)
{
    pthread_mutex_lock(&e->lock);
    e->st = st;
    e->finished = true;
    pthread_cond_signal(&e->changed);
    pthread_mutex_unlock(&e->lock);
}

static enum status run(struct errand *e)
{
    if (pthread_mutex_init(&e->lock, NULL) != 0)
        return ST_NOMEM;
    if (pthread_cond_init(&e->changed, NULL) != 0) {
        (void)pthread_mutex_destroy(&e->lock); /* no thread holds it */
        return ST_NOMEM;
    }
    env_post(e->node->env, &e->task);
    pthread_mutex_lock(&e->lock);
    while (!e->finished)
        pthread_cond_wait(&e->changed, &e->lock);
    pthread_mutex_unlock(&e->lock);
    (void)pthread_cond_destroy(&e->changed); /* no thread waits */
    (void)pthread_mutex_destroy(&e->lock);   /* no thread holds it */
    return e->st;
}

static enum status begin(struct node *n, struct reason *reason)
{
    if (!atomic_exchange(&n->snapshot_busy, true))
        return ST_OK;
    reason_set(reason, "another snapshot is being saved or restored");
    return ST_BUSY;
}

enum status node_snapshot_file(struct node *n, struct fs_file **ret_file)
{
    char name[40];
    unsigned long long number = atomic_fetch_add(&n->snapshot_files, 1U);
    struct fs_file *file = NULL;
    (void)snprintf(name, sizeof name, NODE_SNAPSHOT_FILE "%llu", number); /* 20 digits */
    enum status st = fs_unlink(n->fs, name); /* of a process that ended between the two calls */
    if (st == ST_OK || st == ST_NOT_FOUND)
        st = fs_open(n->fs, name, FS_READ | FS_WRITE | FS_CREATE | FS_EXCL, &file);
    if (st == ST_OK)
        st = fs_unlink(n->fs, name); /* the file goes with its last user */
    if (st != ST_OK) {
        fs_close(file);
        return st;
    }
    *ret_file = file;
    return ST_OK;
}

bool node_snapshot_room(struct node *n)
{
    uint64_t have = 0;
    uint64_t keep = n->options.reserve_bytes != 0 ? n->options.reserve_bytes : RESERVE_BYTES;
    return fs_free_bytes(n->fs, &have) == ST_OK && have > keep + ROOM_EVERY_BYTES;
}

/* Saving */

static void pin_on_raft(struct env_task *task)
{
    struct errand *e = CONTAINER_OF(task, struct errand, task);
    struct node *n = e->node;
    struct rlog_status raft;
    if (n->stopping || n->rlog_closed) {
        finish(e, ST_CLOSED);
        return;
    }
    rlog_status(n->rlog, &raft);
    e->facts->index = raft.applied_index;
    e->facts->term = raft.term;
    finish(e, rlog_dump_begin(n->rlog, e->dump));
}

struct saving {
    struct node *node;
    struct fs_file *file;
    uint64_t at, looked;
};

static enum status save_piece(void *ctx, struct bytes piece)
{
    struct saving *s = ctx;
    if (s->at >= s->looked) {
        if (!node_snapshot_room(s->node))
            return ST_NO_SPACE;
        s->looked = s->at + ROOM_EVERY_BYTES;
    }
    TRY(fs_write_at(s->file, &piece, 1, s->at));
    s->at += piece.len;
    return ST_OK;
}

static enum status prove(struct node *n, struct bytes sums, uint8_t ret_proof[PROOF_BYTES])
{
    CLEANUP(buf_done) struct buf message = {0};
    buf_add(&message, BYTES(PROOF_LABEL));
    buf_add(&message, sums);
    TRY(buf_status(&message));
    ret_proof[0] = PROOF_VERSION;
    return barrier_prove(n->barrier, buf_bytes(&message), ret_proof + 1);
}

static enum status save_seal(void *ctx, struct bytes sums, struct buf *out)
{
    struct saving *s = ctx;
    uint8_t proof[PROOF_BYTES];
    TRY(prove(s->node, sums, proof));
    buf_add(out, bytes_of(proof, sizeof proof));
    return ST_OK;
}

static enum status save(struct node *n, struct saving *s)
{
    struct rlog_archive_facts facts = {0};
    struct rlog_machine_dump dump;
    struct errand e = {.task = {.run = pin_on_raft}, .node = n, .dump = &dump, .facts = &facts};
    const struct rlog_archive_out out = {save_piece, save_seal, s};

    static_assert(sizeof facts.cluster >= sizeof n->status.cluster_id, "a UUID fits");
    memcpy(facts.cluster, n->status.cluster_id, sizeof n->status.cluster_id); /* never changes */
    TRY(run(&e));
    dump.replicated_only = true;
    enum status st = rlog_archive_write(&dump, &facts, &out);
    rlog_machine_dump_end(&dump);
    return st;
}

enum status node_snapshot_save(struct node *n, struct fs_file **ret_file, uint64_t *ret_bytes,
                               struct reason *reason)
{
    struct saving s = {.node = n};
    TRY(begin(n, reason));
    enum status st = node_snapshot_file(n, &s.file);
    if (st == ST_OK)
        st = save(n, &s);
    atomic_store(&n->snapshot_busy, false);
    if (st != ST_OK) {
        fs_close(s.file);
        if (st == ST_BUSY)
            reason_set(reason, "a snapshot is being restored");
        return st;
    }
    *ret_file = s.file;
    *ret_bytes = s.at;
    return ST_OK;
}

/* Restoring */

enum core { CORE_SEAL, CORE_KEYRING, CORE_SALT, CORES };

struct restoring {
    struct node *node;
    struct env *env; /* the caller's */
    struct fs_file *file;
    uint64_t bytes, at;
    bool force;
    struct reason *reason;
    struct rlog_archive_found found;
    struct buf core[CORES]; /* records of the snapshot */
    struct buf ring;        /* our local ring under its root key */
    bool same_root;         /* as ours */
    bool opens;             /* another, which the seal configured here opens */
    uint64_t stage;
    struct rlog_txn_builder txn;
    size_t txn_bytes;
};

static void restoring_free(struct restoring **r)
{
    if (*r == NULL)
        return;
    for (int i = 0; i < CORES; i++)
        buf_done(&(*r)->core[i]);
    buf_done(&(*r)->ring);
    rlog_txn_done(&(*r)->txn);
    mem_free(*r);
}

static enum status read_file(void *ctx, void *room, size_t n, size_t *ret_n)
{
    struct restoring *r = ctx;
    TRY(fs_read_at(r->file, room, n, r->at, ret_n));
    r->at += *ret_n;
    return ST_OK;
}

static enum status check_key(void *ctx, const struct store_item *item)
{
    static const char *const names[CORES] = {BARRIER_SEAL, BARRIER_KEYRING, BARRIER_SALT};
    struct restoring *r = ctx;
    for (int i = 0; i < CORES; i++)
        if (bytes_eq(item->key, bytes_str(names[i])))
            buf_add(&r->core[i], item->value);
    return ST_OK;
}

static uint64_t state_bytes_max(const struct restoring *r)
{
    uint64_t grown = GROWTH_FREE_BYTES + r->bytes * GROWTH_MAX;
    uint64_t configured = r->node->options.state_bytes_max;
    return configured != 0 ? MIN(configured, grown) : grown;
}

static struct barrier_records records_of(const struct restoring *r)
{
    return (struct barrier_records){.seal = buf_bytes(&r->core[CORE_SEAL]),
                                    .keyring = buf_bytes(&r->core[CORE_KEYRING]),
                                    .salt = buf_bytes(&r->core[CORE_SALT])};
}

static enum status read_archive(struct restoring *r,
                                enum status (*key)(void *ctx, const struct store_item *item))
{
    const struct rlog_archive_in in = {read_file, key, r, state_bytes_max(r)};
    r->at = 0;
    enum status st = rlog_archive_read(&in, &r->found, r->reason);
    return st == ST_UNSUPPORTED ? ST_INVALID : st; /* a format, not an operation */
}

static void seal_on_raft(struct env_task *task)
{
    struct errand *e = CONTAINER_OF(task, struct errand, task);
    struct node *n = e->node;
    if (n->stopping || n->rlog_closed)
        finish(e, ST_CLOSED);
    else
        finish(e, state_seal_info(rlog_store(n->rlog), e->seal));
}

static enum status refuse(struct restoring *r, const char *because)
{
    reason_set(r->reason, "the snapshot is refused: %s", because);
    return ST_INVALID;
}

/* Whether its keys open in `b`, which has the root key that its seal tells of. */
static enum status check_opens(struct restoring *r, struct barrier *b)
{
    struct barrier_records records = records_of(r);
    struct reason why = {{0}};
    enum status st = barrier_check(b, &records, &why);
    return st == ST_INVALID ? refuse(r, why.text) : st;
}

/* The archive was changed since it was saved, or is of another root key. Accept it only if its key
 * records open under our root key or the seal configured here, or at least have the right form:
 * otherwise no node could unseal after the restore. */
static enum status check_forced(struct restoring *r)
{
    struct barrier_records records = records_of(r);
    struct seal_info theirs, ours;
    struct errand e = {.task = {.run = seal_on_raft}, .node = r->node, .seal = &ours};

    TRY(run(&e));
    TRY(seal_info_read(records.seal, &theirs));
    if (theirs.stamp == ours.stamp) {
        r->same_root = true;
        return check_opens(r, r->node->barrier);
    }
    enum status st = barrier_check(r->node->barrier, &records, NULL);
    bool own_ring = st == ST_OK;
    if (st != ST_OK && st != ST_INVALID)
        return st;
    st = r->node->options.seal == NULL ? ST_INVALID
                                       : seal_check(r->node->options.seal, records.seal, NULL);
    r->opens = st == ST_OK;
    if (st == ST_INVALID && own_ring)
        return refuse(r, "its key ring is of this cluster's root key, its stored seal is not");
    return st == ST_INVALID ? ST_OK : st;
}

/* Whether it was saved under our root key: its proof says so, and its keys open. */
static enum status check_root(struct restoring *r)
{
    uint8_t proof[PROOF_BYTES];

    TRY(prove(r->node, bytes_of(r->found.sums, r->found.sums_len), proof));
    r->same_root = bytes_eq_secret(bytes_of(r->found.sealed, r->found.sealed_len),
                                   bytes_of(proof, sizeof proof));
    if (r->same_root)
        return check_opens(r, r->node->barrier);
    if (r->force)
        return check_forced(r);
    return refuse(r, "it is not of this cluster's root key, or its SHA256SUMS.sealed was changed; "
                     "snapshot-force takes it all the same");
}

/* Our local ring under the root key of the snapshot, if the configured seal opens that. */
static enum status rewrap(struct restoring *r)
{
    struct node *n = r->node;
    struct barrier *apart = NULL;
    struct barrier_records records = records_of(r);
    struct reason why = {{0}};

    if (!r->opens)
        return ST_OK;
    TRY(barrier_new(&apart));
    enum status st = barrier_unseal(apart, n->options.seal, &records, &why);
    if (st == ST_CORRUPT)
        st = refuse(r, why.text);
    else if (st == ST_OK)
        st = barrier_rewrap(n->barrier, apart, r->env, &r->ring);
    barrier_free(apart);
    return st == ST_NOT_FOUND ? ST_OK : st; /* there is none */
}

static enum status check(struct restoring *r)
{
    struct reason why = {{0}};
    TRY(read_archive(r, check_key));
    for (int i = 0; i < CORES; i++)
        TRY(buf_status(&r->core[i]));
    struct barrier_records records = records_of(r);
    if (records.seal.len == 0 || records.keyring.len == 0 || records.salt.len == 0)
        return refuse(r, "it is not of an initialised cluster");
    if (barrier_check_form(&records, &why) != ST_OK)
        return refuse(r, why.text);
    TRY(check_root(r));
    return rewrap(r);
}

static void on_proposed(struct rlog_propose *p, enum status st)
{
    struct errand *e = CONTAINER_OF(p, struct errand, propose);
    if (st == ST_OK && p->applied.outcome != RLOG_APPLIED)
        st = ST_CONFLICT;
    e->stage = p->applied.stage;
    finish(e, st);
}

static void propose_on_raft(struct env_task *task)
{
    struct errand *e = CONTAINER_OF(task, struct errand, task);
    struct node *n = e->node;
    if (n->stopping || n->rlog_closed)
        finish(e, ST_CLOSED);
    else
        rlog_propose(n->rlog, &e->propose);
}

/* Commit what r->txn holds, which is then empty. Given up where this node leads no more, or another
 * has taken the staged tree. */
static enum status commit(struct restoring *r)
{
    CLEANUP(buf_done) struct buf txn = {0};
    struct errand e = {.task = {.run = propose_on_raft}, .node = r->node};
    enum status st = rlog_txn_encode(&r->txn, &txn);
    rlog_txn_done(&r->txn);
    r->txn_bytes = 0;
    TRY(st);
    e.propose = (struct rlog_propose){.txn = buf_bytes(&txn), .upkeep = true, .done = on_proposed};
    st = run(&e);
    r->stage = st == ST_OK ? e.stage : r->stage;
    return st;
}

static enum status stage_key(void *ctx, const struct store_item *item)
{
    struct restoring *r = ctx;
    if (r->txn.n_ops > 0 &&
        (r->txn_bytes + item->key.len + item->value.len > TXN_BYTES || r->txn.n_ops >= TXN_KEYS))
        TRY(commit(r));
    if (r->txn.n_ops == 0)
        rlog_txn_need_stage(&r->txn, r->stage);
    rlog_txn_stage_put(&r->txn, item->key, item->value, item->created, item->modified);
    r->txn_bytes += item->key.len + item->value.len;
    return ST_OK;
}

static enum status stage_all(struct restoring *r)
{
    rlog_txn_stage_begin(&r->txn);
    TRY(commit(r));
    TRY(read_archive(r, stage_key));
    return r->txn.n_ops > 0 ? commit(r) : ST_OK;
}

static enum status swap(struct restoring *r)
{
    uint8_t mark[16];
    env_random(r->env, mark, sizeof mark);
    rlog_txn_need_stage(&r->txn, r->stage);
    rlog_txn_stage_swap(&r->txn);
    rlog_txn_put(&r->txn, BYTES(STATE_RESTORED), bytes_of(mark, sizeof mark));
    rlog_txn_delete(&r->txn, BYTES(BARRIER_HANDOVER)); /* of the state that goes */
    if (r->ring.len != 0)
        rlog_txn_put(&r->txn, BYTES(BARRIER_LOCAL_KEYRING), buf_bytes(&r->ring));
    else if (!r->same_root)
        rlog_txn_delete(&r->txn, BYTES(BARRIER_LOCAL_KEYRING));
    return commit(r);
}

/* Explain a failure after the check to the client. */
static enum status explain(struct restoring *r, enum status st, bool swapping)
{
    if (swapping && st == ST_UNKNOWN_OUTCOME)
        return st;
    if (r->reason->text[0] == '\0')
        reason_set(r->reason, "the snapshot was not restored, nothing was changed: %s",
                   st == ST_CONFLICT ? "another restore took its place" : status_text(st));
    return st == ST_CONFLICT || st == ST_UNKNOWN_OUTCOME || st == ST_NOT_LEADER ? ST_BUSY : st;
}

static enum status restore(struct restoring *r)
{
    TRY(check(r));
    trace(TRACE_INFO, "node",
          "restoring a snapshot of cluster %s: version %" PRIu64 ", %" PRIu64 " keys, %" PRIu64
          " bytes%s",
          r->found.facts.cluster, r->found.facts.version, r->found.n_keys, r->found.state_bytes,
          r->same_root ? "" : ", of another root key");
    enum status st = stage_all(r);
    if (st != ST_OK)
        return explain(r, st, false);
    st = swap(r);
    if (st != ST_OK)
        return explain(r, st, true);
    trace(TRACE_WARN, "node", "the state was replaced by a snapshot%s",
          r->same_root || r->ring.len != 0
              ? ""
              : "; the local key ring and what was encrypted under it are dropped");
    return ST_OK;
}

enum status node_snapshot_restore(struct node *n, struct env *env,
                                  const struct node_snapshot *snapshot, struct reason *reason)
{
    CLEANUP(restoring_free) struct restoring *r = mem_zalloc(sizeof *r);
    if (r == NULL)
        return ST_NOMEM;
    *r = (struct restoring){.node = n,
                            .env = env,
                            .file = snapshot->file,
                            .bytes = snapshot->bytes,
                            .force = snapshot->force,
                            .reason = reason};
    TRY(begin(n, reason));
    enum status st = restore(r);
    atomic_store(&n->snapshot_busy, false);
    return st;
}

/* Drop a staged tree that no restore fills any more: it keeps the log from being cut. The tree is
 * named, so that one that began meanwhile stays. */
void node_snapshot_look(struct node *n, const struct rlog_status *raft)
{
    CLEANUP(rlog_txn_done) struct rlog_txn_builder txn = {0};
    if (raft->stage == 0 || raft->stage == n->dropped_stage || !raft->ready ||
        atomic_load(&n->snapshot_busy))
        return;
    trace(TRACE_INFO, "node", "dropping the staged tree %" PRIu64 ": its owner has gone",
          raft->stage);
    rlog_txn_need_stage(&txn, raft->stage);
    rlog_txn_stage_drop(&txn);
    n->dropped_stage = raft->stage;
    node_write(n, &txn, NULL);
}
