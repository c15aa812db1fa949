/* Reactions of this node to each change of its replica: unsealing, the active role, the leader. */
#include "node/removed.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/trace.h"
#include "state/state_core.h"

#include <stdio.h>

enum { LEADER_FORMAT = 1 };

static enum status read_record(const struct store_pin *pin, const char *key, struct bytes *ret)
{
    struct store_item item;
    TRY(store_get(pin, bytes_str(key), &item));
    *ret = item.value;
    return ST_OK;
}

static void set_initialized(struct node *n)
{
    pthread_mutex_lock(&n->lock);
    n->status.initialized = true;
    node_brief_publish(n);
    pthread_mutex_unlock(&n->lock);
}

/* A mark beside the replica: until its log is applied again after a start, the state looks empty,
 * and "not initialised" would be a lie. */
static void note_initialized(struct node *n)
{
    struct fs_file *mark;
    if (n->status.initialized)
        return;
    set_initialized(n);
    enum status st = fs_open(n->host.fs, NODE_MARK_FILE, FS_WRITE | FS_CREATE, &mark);
    if (st == ST_OK) {
        st = fs_sync(mark);
        fs_close(mark);
    }
    if (st == ST_OK)
        st = fs_sync_dir(n->host.fs, "");
    if (st != ST_OK)
        trace(TRACE_WARN, "node", "%s: %s", NODE_MARK_FILE, status_text(st));
}

void node_role_start(struct node *n, bool joins)
{
    struct fs_file *mark;
    bool marked = fs_open(n->host.fs, NODE_MARK_FILE, FS_READ, &mark) == ST_OK;
    if (marked)
        fs_close(mark);
    if (marked || joins)
        set_initialized(n); /* a cluster to join is initialised already */
}

static void unseal_if_initialized(struct node *n)
{
    if (!barrier_is_sealed(n->host.barrier) ||
        state_is_initialized(rlog_store(n->host.rlog)) != ST_OK)
        return;
    note_initialized(n);
    node_seal_look(n);
}

/* The leader writes who it is, so that standbys can name its client address. */
static void announce(struct node *n, uint64_t term)
{
    CLEANUP(rlog_txn_done) struct rlog_txn_builder txn = {0};
    CLEANUP(buf_done) struct buf record = {0};
    buf_add_u8(&record, LEADER_FORMAT);
    buf_add_u64(&record, n->host.id);
    buf_add_u64(&record, term);
    buf_add_block(&record, bytes_str(n->options.api_addr));
    if (buf_status(&record) != ST_OK)
        return; /* the next tick tries again */
    rlog_txn_put(&txn, BYTES(NODE_LEADER_KEY), buf_bytes(&record));
    n->announced_term = term;
    node_write(&n->host, &txn, &n->announced_term);
}

/* The address in the newest leader record, if `leader` of `term` wrote it; else "". */
static void leader_address(const struct store_pin *pin, const struct rlog_status *raft,
                           char ret_address[160])
{
    struct bytes record;
    ret_address[0] = '\0';
    if (read_record(pin, NODE_LEADER_KEY, &record) != ST_OK)
        return;
    struct reader r = reader_of(record);
    uint8_t format = reader_u8(&r);
    uint64_t id = reader_u64(&r), term = reader_u64(&r);
    struct bytes address = reader_block(&r);
    if (reader_end(&r) != ST_OK || format != LEADER_FORMAT || id != raft->leader ||
        term != raft->term || address.len >= 160)
        return;
    memcpy(ret_address, address.data, address.len);
    ret_address[address.len] = '\0';
}

static const struct rlog_member *find_member(const struct rlog_status *raft, uint64_t id)
{
    for (unsigned i = 0; i < raft->n_members; i++)
        if (raft->members[i].id == id)
            return &raft->members[i];
    return NULL;
}

static void copy_text(char *to, size_t room, const char *from)
{
    (void)snprintf(to, room, "%s", from); /* both were bounded when they came in */
}

/* Returns whether this node is active. Another thread may seal the node meanwhile (publish_sealed):
 * so the seal is looked at under the lock, and callers do not read the status again. */
static bool publish(struct node *n, const struct rlog_status *raft, const struct store_pin *pin)
{
    char address[160];
    const struct rlog_member *leader = find_member(raft, raft->leader);
    leader_address(pin, raft, address);

    pthread_mutex_lock(&n->lock);
    bool sealed = barrier_is_sealed(n->host.barrier);
    bool active =
        raft->is_leader && raft->ready && !sealed && !n->host.stopping && !n->host.removed;
    if (raft->is_leader) /* a leader that does not serve, because it is sealed, names no address */
        copy_text(address, sizeof address, active ? n->options.api_addr : "");
    struct node_status *s = &n->status;
    bool was_active = s->active;
    s->raft = *raft;
    s->sealed = sealed;
    s->active = active;
    s->removed = n->host.removed;
    s->has_leader = leader != NULL;
    s->perf_standby = !s->active && !sealed && s->has_leader && n->options.performance_standby;
    s->term = raft->term;
    s->committed_index = raft->commit_index;
    s->applied_index = raft->applied_index;
    s->version = raft->version;
    s->cluster_time_ms = raft->time_ms;
    copy_text(s->leader_name, sizeof s->leader_name, leader != NULL ? leader->name : "");
    bool known = leader != NULL && (active || !raft->is_leader);
    copy_text(s->leader_cluster, sizeof s->leader_cluster, known ? leader->address : "");
    copy_text(s->leader_address, sizeof s->leader_address, address);
    n->clock_ms = rlog_time_ms(n->host.rlog);
    n->clock_mono_ms = (int64_t)env_mono_ms(n->host.env);
    if (s->active != was_active)
        s->active_since_ms = s->active ? env_wall_ms(n->host.env) : 0;
    node_brief_publish(n);
    pthread_mutex_unlock(&n->lock);

    if (active != was_active)
        trace(TRACE_INFO, "node", "%s in term %llu", active ? "active" : "no longer active",
              (unsigned long long)raft->term);
    return active;
}

void node_role_changed(struct node *n)
{
    struct rlog_status raft;
    struct store_pin pin;
    if (n->host.rlog == NULL || n->host.replica_closed)
        return;
    rlog_status(n->host.rlog, &raft);
    unseal_if_initialized(n);
    node_quorum_look(n, &raft);
    if (store_pin(rlog_store(n->host.rlog), "node", 0, &pin) != ST_OK)
        return; /* every pin is taken: the next tick tries again */
    bool active = publish(n, &raft, &pin);
    store_unpin(&pin);
    if (active && n->announced_term != raft.term)
        announce(n, raft.term);
    n->host.active_term = active ? raft.term : 0;
    if (!n->host.stopping)
        node_parts_changed(n, &raft);
    node_cleanup_look(n, &raft, active);
    node_handover_look(n, &raft);
    node_address_look(n, &raft);
    node_removed_look(n, &raft);
}

void node_role_applied(struct node *n, uint64_t index, uint64_t version)
{
    struct store_pin pin;
    if (store_pin(rlog_store(n->host.rlog), "node", 0, &pin) != ST_OK)
        return; /* every pin is taken: the next tick tries again */
    uint64_t core = store_newest(&pin, BYTES("s/core/")) + store_newest(&pin, BYTES("l/core/"));
    store_unpin(&pin);
    pthread_mutex_lock(&n->lock);
    n->status.applied_index = index;
    n->status.committed_index = MAX(n->status.committed_index, index);
    n->status.version = version;
    pthread_mutex_unlock(&n->lock);
    if (core != n->leader_version) {
        n->leader_version = core;
        node_seal_follow(n);
        node_mesh_link(n); /* somebody may have been removed */
        node_role_changed(n);
    }
}
