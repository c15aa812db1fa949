#include "node/role.h"

#include "base/trace.h"
#include "cluster/dr/site.h"
#include "state/state_record.h"

#include <stdio.h>

#define LEADER_KEY RLOG_LOCAL "core/leader"

struct leader {
    uint64_t id, term;
    struct bytes address;
};
static const struct record_field leader_fields[] = {
    RECORD_FIELD(struct leader, id, U64, .help = "raft id of the leader"),
    RECORD_FIELD(struct leader, term, U64),
    RECORD_FIELD(struct leader, address, BLOCK, .help = "its address for clients"),
};
static const struct record leader_record = {RECORD(struct leader, leader_fields),
                                            .name = "node/leader", .key = LEADER_KEY, .newest = 1,
                                            .raw = true};
RECORD_LISTED(leader_record);

/* The leader stores its id and client address, so that standbys can name the address. */
static void announce_leader(struct role *r, uint64_t term)
{
    CLEANUP(rlog_txn_done) struct rlog_txn_builder txn = {0};
    CLEANUP(buf_done) struct buf record = {0};
    const struct leader self = {r->host->id, term, bytes_str(r->host->options->api_addr)};
    ASSERT(term != 0 && term != r->announced_term);
    if (record_encode(&leader_record, &self, &record) != ST_OK)
        return; /* out of memory: the next tick tries again */
    rlog_txn_put(&txn, BYTES(LEADER_KEY), buf_bytes(&record));
    r->announced_term = term;
    r->host->calls->write(r->host, &txn, &r->announced_term);
}

/* The address in the newest leader record, if `leader` of `term` wrote it; else "". */
static void leader_address(const struct store_pin *pin, const struct rlog_status *raft,
                           char ret_address[160])
{
    struct leader leader = {0};
    ret_address[0] = '\0';
    if (state_record_at(pin, BYTES(LEADER_KEY), &leader_record, &leader) != ST_OK ||
        leader.id != raft->leader || leader.term != raft->term || leader.address.len >= 160)
        return;
    *bytes_put((uint8_t *)ret_address, leader.address) = '\0';
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
    /* cannot be cut: both texts were bounded when they were received */
    (void)snprintf(to, room, "%s", from);
}

/* Returns whether this node is active. Another thread may seal the node meanwhile (unseal_publish):
 * so read the seal under the lock, and use the returned value instead of the status. */
static bool publish_role(struct role *r, const struct rlog_status *raft,
                         const struct store_pin *pin)
{
    char address[160];
    ASSERT(part_on_thread(r->host));
    const struct rlog_member *leader = find_member(raft, raft->leader);
    leader_address(pin, raft, address);

    struct node_status *s = board_begin(r->board);
    bool sealed = barrier_is_sealed(r->host->barrier);
    bool active =
        raft->is_leader && raft->ready && !sealed && !r->host->stopping && !r->host->removed;
    if (raft->is_leader) /* a leader that does not serve, because it is sealed, names no address */
        copy_text(address, sizeof address, active ? r->host->options->api_addr : "");
    bool was_active = s->active;
    s->raft = *raft;
    s->sealed = sealed;
    s->active = active;
    s->removed = r->host->removed;
    s->dr = r->dr->role;
    s->dr_sync = r->dr->sync;
    s->has_leader = leader != NULL;
    s->perf_standby =
        !s->active && !sealed && s->has_leader && r->performance_standby && !r->host->mute;
    s->term = raft->term;
    s->committed_index = raft->commit_index;
    s->applied_index = raft->applied_index;
    s->version = raft->version;
    s->cluster_time_ms = raft->time_ms;
    copy_text(s->leader_name, sizeof s->leader_name, leader != NULL ? leader->name : "");
    bool known = leader != NULL && (active || !raft->is_leader);
    copy_text(s->leader_cluster, sizeof s->leader_cluster, known ? leader->address : "");
    copy_text(s->leader_address, sizeof s->leader_address, address);
    r->board->clock_ms = rlog_time_ms(r->host->rlog);
    r->board->clock_mono_ms = (int64_t)env_mono_ms(r->host->env);
    if (s->active != was_active)
        s->active_since_ms = s->active ? env_wall_ms(r->host->env) : 0;
    board_end(r->board);

    if (active != was_active)
        trace(TRACE_INFO, "node", "%s in term %llu", active ? "active" : "no longer active",
              (unsigned long long)raft->term);
    return active;
}

static void role_changed(void *self, const struct rlog_status *raft)
{
    struct role *r = self;
    struct part_host *host = r->host;
    struct store_pin pin;
    if (store_pin(rlog_store(host->rlog), "node", 0, &pin) != ST_OK) {
        if (!raft->is_leader || raft->term != host->active_term)
            host->active_term = 0; /* the term has ended: let no part work in it */
        return;                    /* every pin is in use: the next tick tries again */
    }
    bool active = publish_role(r, raft, &pin);
    store_unpin(&pin);
    ASSERT(!active || !host->stopping);
    if (active && r->announced_term != raft->term)
        announce_leader(r, raft->term);
    host->active_term = active ? raft->term : 0;
}

bool role_applied(struct role *r, uint64_t index, uint64_t version)
{
    struct store_pin pin;
    ASSERT(r->host->rlog != NULL);
    if (store_pin(rlog_store(r->host->rlog), "node", 0, &pin) != ST_OK)
        return false; /* every pin is in use: the next tick tries again */
    uint64_t core = store_newest(&pin, BYTES("s/core/")) + store_newest(&pin, BYTES("l/core/")) +
                    dr_role_version(&pin) + dr_settings_version(&pin);
    store_unpin(&pin);
    board_applied(r->board, index, version);
    bool changed = core != r->core_version;
    r->core_version = core;
    return changed;
}

static enum status role_start(void *self, struct part_host *host)
{
    struct role *r = self;
    ASSERT(r->host == NULL && r->announced_term == 0);
    r->host = host;
    return ST_OK;
}

const struct part role_part = {.name = "role", .start = role_start, .changed = role_changed};
