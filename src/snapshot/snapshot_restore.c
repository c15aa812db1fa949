/* Restoring: check the whole archive, then stage and swap the state through the log. */
#include "snapshot/snapshot_internal.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/trace.h"
#include "raft/snapshot/rlog_archive.h"
#include "state/state_core.h"

#include <inttypes.h>
#include <stdatomic.h>

enum {
    TXN_BYTES = 1024 * 1024, /* bytes at which a transaction ends; a single value may be longer */
    TXN_KEYS = 4096,
    /* Encrypted values do not compress: a file that unpacks to far more than its size is a bomb. */
    GROWTH_MAX = 32,
    GROWTH_FREE_BYTES = 64 * 1024 * 1024,
};

/* A call on the raft thread; the caller waits for the result. */
struct errand {
    struct env_task task;
    struct wait wait;
    struct snapshot *snapshot;
    struct seal_info *seal; /* output: the stored seal */
    struct rlog_propose propose;
    uint64_t stage; /* output of a proposal: the staged tree */
};

static enum status errand_run(struct errand *e)
{
    return wait_for(&e->wait, e->snapshot->host->env, &e->task);
}

enum core { CORE_SEAL, CORE_KEYRING, CORE_SALT, CORES };

struct restoring {
    struct snapshot *snapshot;
    struct env *env; /* `env` of the caller */
    struct fs_file *file;
    uint64_t bytes, at;
    bool force;
    struct reason *reason;
    struct rlog_archive_found found;
    struct buf core[CORES];    /* core records of the snapshot */
    struct buf ring;           /* this cluster's local ring, encrypted by its root key */
    bool same_root;            /* the snapshot has the root key of this cluster */
    const struct seal *opener; /* opens the snapshot's root key, if that is another; NULL: none */
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
    uint64_t configured = r->snapshot->state_bytes_max;
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
    /* the format is not supported, but the operation is */
    return st == ST_UNSUPPORTED ? ST_INVALID : st;
}

static void seal_on_raft(struct env_task *task)
{
    struct errand *e = CONTAINER_OF(task, struct errand, task);
    ASSERT(part_on_thread(e->snapshot->host));
    if (snapshot_closed(e->snapshot))
        wait_end(&e->wait, ST_CLOSED);
    else
        wait_end(&e->wait, state_seal_info(rlog_store(e->snapshot->host->rlog), e->seal));
}

static enum status refuse(struct restoring *r, const char *because)
{
    reason_set(r->reason, "the snapshot is refused: %s", because);
    return ST_INVALID;
}

/* Check that the snapshot's keys open in `b`, which has the root key that the snapshot's seal
 * names. */
static enum status check_opens(struct restoring *r, struct barrier *b)
{
    struct barrier_records records = records_of(r);
    struct reason why = {{0}};
    enum status st = barrier_check(b, &records, &why);
    return st == ST_INVALID ? refuse(r, why.text) : st;
}

/* How this cluster is sealed now. */
static enum status read_own_seal(struct restoring *r, struct seal_info *ret_seal)
{
    struct errand e = {.task = {.run = seal_on_raft}, .snapshot = r->snapshot, .seal = ret_seal};
    return errand_run(&e);
}

/* A snapshot from before the cluster moved to another seal brings the former seal back. The key of
 * that seal may be gone, and then no node could start any more. */
static enum status check_seal(struct restoring *r)
{
    struct seal_info theirs, ours;
    struct reason why = {{0}};
    ASSERT(r->same_root);
    if (r->force)
        return ST_OK;
    TRY(read_own_seal(r, &ours));
    TRY(seal_info_read(buf_bytes(&r->core[CORE_SEAL]), &theirs));
    if (theirs.type == ours.type && strcmp(theirs.id, ours.id) == 0)
        return ST_OK;
    /* the previous key: the active node wraps the root key by the present one again */
    if (r->snapshot->seal != NULL &&
        seal_check(r->snapshot->seal, buf_bytes(&r->core[CORE_SEAL]), NULL) == ST_OK)
        return ST_OK;
    reason_set(&why,
               "it was saved under another seal, '%s'; nodes that start after the restore need "
               "that seal; snapshot-force takes it all the same",
               theirs.id);
    return refuse(r, why.text);
}

/* Find the configured seal that opens the snapshot's root key. The snapshot may be from before a
 * move to another seal, so the disabled seal counts too. ST_INVALID: neither does. */
static enum status find_opener(struct restoring *r, struct bytes seal_record)
{
    const struct seal *const seals[] = {r->snapshot->seal, r->snapshot->former_seal};
    enum status st = ST_INVALID;
    ASSERT(r->opener == NULL);
    for (size_t i = 0; i < ARRAY_LEN(seals) && st == ST_INVALID; i++) {
        if (seals[i] == NULL)
            continue;
        st = seal_check(seals[i], seal_record, NULL);
        r->opener = st == ST_OK ? seals[i] : NULL;
    }
    return st;
}

/* The archive was changed since it was saved, or is of another root key. Accept it only if its key
 * records open under our root key or a seal configured here, or at least have the right form:
 * otherwise no node could unseal after the restore. */
static enum status check_forced(struct restoring *r)
{
    struct barrier_records records = records_of(r);
    struct seal_info theirs, ours;
    ASSERT(r->force);
    ASSERT(!r->same_root);

    TRY(read_own_seal(r, &ours));
    TRY(seal_info_read(records.seal, &theirs));
    if (theirs.stamp == ours.stamp) {
        r->same_root = true;
        return check_opens(r, r->snapshot->host->barrier);
    }
    enum status st = barrier_check(r->snapshot->host->barrier, &records, NULL);
    bool own_ring = st == ST_OK;
    if (st != ST_OK && st != ST_INVALID)
        return st;
    st = find_opener(r, records.seal);
    if (st == ST_INVALID && own_ring)
        return refuse(r, "its key ring is of this cluster's root key, its stored seal is not");
    return st == ST_INVALID ? ST_OK : st;
}

/* Check that the snapshot was saved under our root key: by its proof, and because its keys open. */
static enum status check_root(struct restoring *r)
{
    uint8_t proof[SNAPSHOT_PROOF_BYTES];

    TRY(snapshot_prove(r->snapshot, bytes_of(r->found.sums, r->found.sums_len), proof));
    r->same_root = bytes_eq_secret(bytes_of(r->found.sealed, r->found.sealed_len),
                                   bytes_of(proof, sizeof proof));
    if (r->same_root) {
        TRY(check_seal(r));
        return check_opens(r, r->snapshot->host->barrier);
    }
    if (r->force)
        return check_forced(r);
    return refuse(r, "it is not of this cluster's root key, or its SHA256SUMS.sealed was changed; "
                     "snapshot-force takes it all the same");
}

/* Wrap our local key ring under the snapshot's root key, if a configured seal opens that key. */
static enum status rewrap(struct restoring *r)
{
    struct snapshot *s = r->snapshot;
    struct barrier *apart = NULL;
    struct barrier_records records = records_of(r);
    struct reason why = {{0}};
    ASSERT(r->opener == NULL || !r->same_root);
    ASSERT(r->ring.len == 0);

    if (r->opener == NULL)
        return ST_OK;
    TRY(barrier_new(&apart));
    enum status st = barrier_unseal(apart, r->opener, &records, &why);
    if (st == ST_CORRUPT)
        st = refuse(r, why.text);
    else if (st == ST_OK)
        st = barrier_rewrap(s->host->barrier, apart, r->env, &r->ring);
    barrier_free(apart);
    return st == ST_NOT_FOUND ? ST_OK : st; /* an absent record is fine */
}

/* Refuse records of a later feature level: members of an older build could not read them. */
static enum status check_feature(struct restoring *r)
{
    uint16_t level = atomic_load_explicit(&r->snapshot->host->feature, memory_order_acquire);
    level = MAX(level, (uint16_t)RLOG_FEATURE_FIRST);
    ASSERT(level <= RLOG_FEATURE);
    ASSERT(r->found.feature <= RLOG_FEATURE); /* read_archive refuses later feature levels */
    if (r->found.feature <= level)
        return ST_OK;
    reason_set(r->reason,
               "the snapshot is refused: it is of feature level %u, this cluster is at level %u; "
               "upgrade every member first",
               r->found.feature, level);
    return ST_INVALID;
}

static enum status check(struct restoring *r)
{
    struct reason why = {{0}};
    ASSERT(r->stage == 0);
    TRY(read_archive(r, check_key));
    TRY(check_feature(r));
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
    wait_end(&e->wait, st);
}

static void propose_on_raft(struct env_task *task)
{
    struct errand *e = CONTAINER_OF(task, struct errand, task);
    ASSERT(part_on_thread(e->snapshot->host));
    if (snapshot_closed(e->snapshot))
        wait_end(&e->wait, ST_CLOSED);
    else
        rlog_propose(e->snapshot->host->rlog, &e->propose);
}

/* Commit the transaction in r->txn, which is empty afterwards. Fails if this node no longer leads,
 * or if another restore owns the staged tree. */
static enum status commit(struct restoring *r)
{
    CLEANUP(buf_done) struct buf txn = {0};
    struct errand e = {.task = {.run = propose_on_raft}, .snapshot = r->snapshot};
    ASSERT(r->txn.n_ops > 0);
    ASSERT(r->snapshot->busy);
    enum status st = rlog_txn_encode(&r->txn, &txn);
    rlog_txn_done(&r->txn);
    r->txn_bytes = 0;
    TRY(st);
    e.propose = (struct rlog_propose){.txn = buf_bytes(&txn), .upkeep = true, .done = on_proposed};
    st = errand_run(&e);
    r->stage = st == ST_OK ? e.stage : r->stage;
    return st;
}

static enum status stage_key(void *ctx, const struct store_item *item)
{
    struct restoring *r = ctx;
    ASSERT(r->stage != 0);
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

static enum status swap_stage(struct restoring *r)
{
    uint8_t mark[16];
    ASSERT(r->stage != 0);
    ASSERT(r->txn.n_ops == 0);
    env_random(r->env, mark, sizeof mark);
    rlog_txn_need_stage(&r->txn, r->stage);
    rlog_txn_stage_swap(&r->txn);
    rlog_txn_put(&r->txn, BYTES(STATE_RESTORED), bytes_of(mark, sizeof mark));
    rlog_txn_delete(&r->txn, BYTES(BARRIER_SUPERSEDED)); /* a record of the replaced state */
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
    st = swap_stage(r);
    if (st != ST_OK)
        return explain(r, st, true);
    trace(TRACE_WARN, "node", "the state was replaced by a snapshot%s",
          r->same_root || r->ring.len != 0
              ? ""
              : "; the local key ring and what was encrypted under it are dropped");
    return ST_OK;
}

enum status snapshot_restore(struct snapshot *s, struct env *env,
                             const struct snapshot_source *source, struct reason *reason)
{
    CLEANUP(restoring_free) struct restoring *r = mem_zalloc(sizeof *r);
    ASSERT(part_off_thread(s->host));
    if (r == NULL)
        return ST_NOMEM;
    *r = (struct restoring){.snapshot = s,
                            .env = env,
                            .file = source->file,
                            .bytes = source->bytes,
                            .force = source->force,
                            .reason = reason};
    TRY(snapshot_begin(s, reason));
    enum status st = restore(r);
    snapshot_end(s);
    return st;
}
