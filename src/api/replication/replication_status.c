/* The status of disaster recovery, for monitors: it needs no token, and every node replies. */
#include "api/replication/replication_internal.h"
#include "text/encode.h"
#include "text/random.h"

#include <inttypes.h>
#include <stdio.h>

enum { TEXT_INT_MAX = 24 };

struct secondary_out {
    const char *node_id, *api_address, *cluster_address, *connection_status;
    int64_t last_heartbeat, last_seen;
    const char *clock_skew_ms, *last_heartbeat_duration_ms, *replication_primary_canary_age_ms;
    uint64_t last_remote_wal, last_verified_index, lag_entries, lag_bytes;
    int64_t lag_ms;
    bool named, lag_known; /* lag_known: a secondary that told its version */
};
static const struct field secondary_out_fields[] = {
    FIELD(struct secondary_out, node_id, STRING, .omit = true,
          .has = offsetof(struct secondary_out, named)),
    FIELD(struct secondary_out, api_address, STRING),
    FIELD(struct secondary_out, cluster_address, STRING),
    FIELD(struct secondary_out, connection_status, STRING),
    FIELD(struct secondary_out, last_heartbeat, TIME, .blank = true),
    FIELD(struct secondary_out, last_seen, TIME, .blank = true),
    FIELD(struct secondary_out, clock_skew_ms, STRING),
    FIELD(struct secondary_out, last_heartbeat_duration_ms, STRING),
    FIELD(struct secondary_out, replication_primary_canary_age_ms, STRING),
    FIELD(struct secondary_out, last_remote_wal, UINT),
    FIELD(struct secondary_out, last_verified_index, UINT),
    FIELD(struct secondary_out, lag_entries, UINT, .omit = true,
          .has = offsetof(struct secondary_out, lag_known)),
    FIELD(struct secondary_out, lag_bytes, UINT, .omit = true,
          .has = offsetof(struct secondary_out, lag_known)),
    FIELD(struct secondary_out, lag_ms, INT, .omit = true,
          .has = offsetof(struct secondary_out, lag_known),
          .help = "Age of what the secondary has, while it lacks writes; -1: not known."),
};
static const struct schema secondary_schema = SCHEMA(struct secondary_out, secondary_out_fields);

struct progress_out {
    uint64_t sync_progress, sync_total_keys;
};
static const struct field progress_fields[] = {
    FIELD(struct progress_out, sync_progress, UINT),
    FIELD(struct progress_out, sync_total_keys, UINT),
};
static const struct schema progress_schema = SCHEMA(struct progress_out, progress_fields);

struct dr_status_out {
    const char *mode, *state, *reason, *cluster_id, *merkle_root, *sync_mode, *sync_reason;
    bool sync_enabled, sync_fell;
    int64_t sync_fell_at;
    const char *secondary_id, *primary_cluster_addr, *connection_state;
    bool corrupted_merkle_tree, takes_part, primary, secondary, syncs;
    bool follows;   /* this node has the link to the primary, or would have it */
    bool lag_known; /* and the primary told its version */
    const char *last_corruption_check_epoch, *last_reindex_epoch;
    uint64_t ssct_generation_counter; /* of tokens that a standby serves after the state that has
                                         them: always 0 */
    uint64_t epoch, last_wal, last_dr_wal, last_remote_wal, version, root_version;
    uint64_t last_verified_index, lag_entries, lag_bytes;
    int64_t lag_ms, certificate_expires, last_start, last_heard_ms;
    struct field_strings known_secondaries, known_primary_cluster_addrs;
    struct field_list secondaries, primaries;
    const void *merkle_sync_progress;
    const char *lost_writes_file, *reindex_stage;
    bool reindexes;
    uint64_t reindex_building_progress, reindex_building_total;
    char check_room[2][TEXT_INT_MAX];
    uint64_t difference_syncs, difference_bytes, difference_keys, repaired_differences, lost_writes;
};

#define PART(member, kind)                                  \
    FIELD(struct dr_status_out, member, kind, .omit = true, \
          .has = offsetof(struct dr_status_out, takes_part))
#define OF(role, member, kind, ...)                         \
    FIELD(struct dr_status_out, member, kind, .omit = true, \
          .has = offsetof(struct dr_status_out, role), __VA_ARGS__)
static const struct field dr_status_fields[] = {
    FIELD(struct dr_status_out, mode, STRING),
    PART(state, STRING),
    FIELD(struct dr_status_out, reason, STRING, .omit = true),
    PART(cluster_id, STRING),
    PART(epoch, UINT),
    PART(merkle_root, STRING),
    PART(root_version, UINT),
    PART(version, UINT),
    OF(primary, known_secondaries, STRINGS),
    OF(primary, secondaries, LIST, .sub = &secondary_schema),
    OF(primary, last_wal, UINT),
    OF(primary, last_dr_wal, UINT),
    OF(secondary, secondary_id, STRING),
    OF(follows, primaries, LIST, .sub = &secondary_schema),
    OF(secondary, last_remote_wal, UINT),
    OF(follows, known_primary_cluster_addrs, STRINGS),
    OF(secondary, connection_state, STRING,
       .help = "As gRPC names it; \"unknown\" on a node that is not active: `reason` says which "
               "node knows."),
    OF(follows, last_start, TIME, .blank = true),
    OF(lag_known, lag_entries, UINT),
    OF(lag_known, lag_bytes, UINT),
    OF(lag_known, lag_ms, INT),
    OF(follows, certificate_expires, TIME, .blank = true),
    OF(secondary, last_heard_ms, INT, .help = "-1: this node has not heard the primary."),
    OF(follows, last_verified_index, UINT),
    OF(follows, difference_syncs, UINT),
    OF(follows, difference_bytes, UINT),
    OF(follows, difference_keys, UINT),
    OF(follows, repaired_differences, UINT),
    OF(follows, lost_writes, UINT),
    FIELD(struct dr_status_out, lost_writes_file, STRING, .omit = true),
    OF(syncs, merkle_sync_progress, OBJECT, .sub = &progress_schema),
    PART(primary_cluster_addr, STRING),
    PART(sync_mode, STRING),
    OF(primary, sync_enabled, BOOL),
    FIELD(struct dr_status_out, sync_reason, STRING, .omit = true),
    FIELD_NAMED("sync_fallen_back_since", struct dr_status_out, sync_fell_at, TIME, .omit = true,
                .has = offsetof(struct dr_status_out, sync_fell)),
    PART(corrupted_merkle_tree, BOOL),
    FIELD_NAMED("reindex_in_progress", struct dr_status_out, reindexes, BOOL, .omit = true),
    OF(reindexes, reindex_stage, STRING),
    OF(reindexes, reindex_building_progress, UINT),
    OF(reindexes, reindex_building_total, UINT),
    PART(last_corruption_check_epoch, STRING),
    PART(last_reindex_epoch, STRING),
    PART(ssct_generation_counter, UINT),
};
static const struct schema replication_status_reply =
    SCHEMA(struct dr_status_out, dr_status_fields);

/* The moment that upstream's clients read as "never". */
#define NEVER "-62135596800"

/* Memory for the texts and lists of a status. */
struct status_room {
    struct node_status node;
    struct dr_facts facts;
    char set[TEXT_UUID_LEN + 1], root[TEXT_HEX_LEN(32) + 1];
    const char *ids[DR_PEERS_MAX];
    char urls[DR_ADDRESSES_MAX][DR_ADDRESS_MAX + sizeof "https://"];
    const char *addresses[DR_ADDRESSES_MAX];
    struct secondary_out peers[DR_PEERS_MAX];
    char peer_urls[DR_PEERS_MAX][DR_ADDRESS_MAX + sizeof "https://"];
    char numbers[DR_PEERS_MAX][3][TEXT_INT_MAX];
    char conflict[512], fallen[128], not_here[256];
    char address[DR_ROLE_ADDRESS_MAX + sizeof "https://"];
    struct progress_out progress;
};

static const char *number(char room[TEXT_INT_MAX], int64_t n)
{
    int len = snprintf(room, TEXT_INT_MAX, "%" PRId64, n);
    ASSERT(len > 0 && len < TEXT_INT_MAX);
    return room;
}

/* A figure that this node does not know is -1 or missing: a 0 would look healthy. */
static void fill_peer(struct req *req, struct status_room *r, unsigned i, bool primary)
{
    const struct dr_peer *p = &r->facts.peers[i];
    int64_t age_ms = primary ? p->lag_ms : dr_live_age_ms(&r->facts, env_mono_ms(req->env));
    const char *at = !primary ? p->address : p->cluster[0] != '\0' ? p->cluster : p->connected_from;
    int64_t trip_ms = p->heard_wall_ms != 0 ? (int64_t)(p->round_trip_us / 1000) : -1;
    ASSERT(req != NULL);
    (void)snprintf(r->peer_urls[i], sizeof r->peer_urls[i], "https://%s", at); /* fits */
    r->peers[i] = (struct secondary_out){
        .node_id = p->id,
        .named = primary,
        .api_address = p->api,
        .cluster_address = r->peer_urls[i],
        .connection_status = p->connected ? "connected" : "disconnected",
        .last_heartbeat = p->heard_wall_ms,
        .last_seen = p->heard_wall_ms,
        .clock_skew_ms = number(r->numbers[i][0], p->skew_ms),
        .last_heartbeat_duration_ms = number(r->numbers[i][1], trip_ms),
        .replication_primary_canary_age_ms = number(r->numbers[i][2], age_ms),
        .last_remote_wal = p->position,
        .last_verified_index = primary ? p->verified : 0,
        .lag_bytes = primary ? p->behind_bytes : 0,
        .lag_known = primary && p->position != 0,
        .lag_entries = r->node.version > p->position ? r->node.version - p->position : 0,
        .lag_ms = r->node.version > p->position ? age_ms : 0,
    };
}

/* Forget the peers that were revoked. */
static void keep_known(struct dr_facts *facts)
{
    unsigned n = 0;
    ASSERT(facts->n_known <= DR_PEERS_MAX);
    for (unsigned i = 0; i < facts->n_peers; i++) {
        bool known = false;
        for (unsigned k = 0; k < facts->n_known && !known; k++)
            known = strcmp(facts->peers[i].id, facts->known_ids[k]) == 0;
        if (known && n != i)
            facts->peers[n] = facts->peers[i];
        n += known;
    }
    facts->n_peers = n;
}

/* Two primaries of one set: both go on, and say so. */
static void fill_conflict(struct req *req, struct status_room *r, struct dr_status_out *out)
{
    const struct dr_conflict *c = dr_live_conflict_of(&r->facts, env_mono_ms(req->env));
    if (c == NULL || out->reason[0] != '\0')
        return;
    int len = snprintf(r->conflict, sizeof r->conflict,
                       "conflict: %s tells that another cluster of this set is a primary of "
                       "epoch %" PRIu64 "; demote one of the two, and make it follow the other",
                       c->source, c->epoch);
    ASSERT(len > 0 && (size_t)len < sizeof r->conflict); /* the name is bounded */
    out->reason = r->conflict;
}

/* Only the active node knows whether its replies are confirmed in time. */
static void fill_sync(struct req *req, struct status_room *r, struct dr_status_out *out)
{
    struct dr_hold_facts holds;
    out->sync_enabled = r->node.dr_sync;
    if (!r->node.dr_sync)
        return;
    out->sync_mode = "unknown";
    out->sync_reason = "the active node knows";
    if (!r->node.active)
        return;
    req->host->node_ops->dr_hold_facts(req->host->node, &holds);
    bool fell = holds.phase != DR_HOLDS_CONFIRMING;
    out->sync_mode = fell ? "async" : "sync";
    out->sync_reason = "";
    out->sync_fell = fell && holds.fallen_wall_ms != 0;
    out->sync_fell_at = holds.fallen_wall_ms;
    if (!out->sync_fell)
        return;
    int len = snprintf(r->fallen, sizeof r->fallen,
                       "no secondary confirmed a write within %" PRIu64
                       " ms; writes wait again once a secondary has caught up",
                       holds.timeout_ms);
    ASSERT(len > 0 && (size_t)len < sizeof r->fallen);
    out->sync_reason = r->fallen;
}

static void fill_primary(struct req *req, struct status_room *r, struct dr_status_out *out)
{
    fill_conflict(req, r, out);
    fill_sync(req, r, out);
    ASSERT(req != NULL);
    for (unsigned i = 0; i < r->facts.n_known; i++)
        r->ids[i] = r->facts.known_ids[i];
    keep_known(&r->facts);
    for (unsigned i = 0; i < r->facts.n_peers; i++) {
        fill_peer(req, r, i, true);
        out->corrupted_merkle_tree |= r->facts.peers[i].differs;
    }
    out->known_secondaries = (struct field_strings){r->ids, r->facts.n_known, true};
    out->secondaries = (struct field_list){r->peers, r->facts.n_peers};
    out->last_wal = out->last_dr_wal = r->node.version;
}

/* The nodes of the primary: none before a primary is followed. A former secondary that still
 * fetches from a demoted cluster is none. */
static void fill_primaries(struct req *req, struct status_room *r, struct dr_status_out *out)
{
    struct dr_facts *facts = &r->facts;
    unsigned n = 0;
    ASSERT(facts->n_peers <= DR_PEERS_MAX && facts->known.n <= DR_ADDRESSES_MAX);
    if (r->node.dr.phase == DR_PHASE_IDLE)
        facts->n_peers = facts->known.n = 0;
    for (unsigned i = 0; i < facts->n_peers; i++)
        if (facts->peers[i].address[0] != '\0')
            facts->peers[n++] = facts->peers[i];
    facts->n_peers = n;
    for (unsigned i = 0; i < n; i++) {
        fill_peer(req, r, i, false);
        r->addresses[i] = r->peer_urls[i];
    }
    out->primaries = (struct field_list){r->peers, n};
    for (unsigned i = 0; i < facts->known.n; i++) {
        (void)snprintf(r->urls[i], sizeof r->urls[i], "https://%s", facts->known.at[i]);
        r->addresses[i] = r->urls[i];
    }
    /* before the primary has told its nodes, those that are tried */
    n = facts->known.n != 0 ? facts->known.n : n;
    out->known_primary_cluster_addrs = (struct field_strings){r->addresses, n, true};
}

/* Only the active node has the link to the primary. The others say so and tell nothing of it. */
static void say_not_here(struct status_room *r, struct dr_status_out *out)
{
    const char *active = r->node.leader_address;
    out->connection_state = "unknown";
    out->last_heard_ms = -1;
    if (out->reason[0] != '\0')
        return;
    int len = snprintf(r->not_here, sizeof r->not_here,
                       active[0] != '\0'
                           ? "not known here: the active node has the link to the primary, ask %s"
                           : "not known here: no active node of this cluster is known, and only "
                             "an active node follows the primary%s",
                       active);
    ASSERT(len > 0 && (size_t)len < sizeof r->not_here); /* addresses are bounded */
    out->reason = r->not_here;
}

static void fill_secondary(struct req *req, struct status_room *r, struct dr_status_out *out)
{
    const struct dr_facts *facts = &r->facts;
    struct dr_lag lag = dr_live_lag(facts, r->node.version, env_mono_ms(req->env));
    ASSERT(req != NULL);
    out->secondary_id = r->node.dr.id;
    out->last_remote_wal = r->node.dr.phase == DR_PHASE_SYNCING ? 0 : r->node.version;
    out->follows = r->node.active;
    if (!out->follows) {
        say_not_here(r, out);
        return;
    }
    fill_primaries(req, r, out);
    out->connection_state = dr_connection_text(facts->connection);
    out->last_start = facts->started_wall_ms;
    out->lag_known = lag.heard_ms >= 0;
    out->lag_entries = lag.entries;
    out->lag_bytes = lag.bytes;
    out->lag_ms = lag.ms;
    out->certificate_expires = facts->cert_ends_s * 1000;
    out->last_heard_ms = lag.heard_ms;
    out->last_verified_index = facts->verified;
    out->corrupted_merkle_tree |= facts->differs;
    out->difference_syncs = facts->diff.syncs;
    out->difference_bytes = facts->diff.bytes;
    out->difference_keys = facts->diff.fetched;
    out->repaired_differences = facts->diff.repairs;
    out->lost_writes = facts->diff.lost;
    out->lost_writes_file = facts->diff.lost_file;
    if (out->reason[0] == '\0')
        out->reason = facts->why;
    if (facts->halted && r->node.dr.phase != DR_PHASE_IDLE)
        out->state = "idle"; /* the primary refuses this secondary or its state: people must act */
    out->syncs = r->node.dr.phase == DR_PHASE_SYNCING;
    r->progress = (struct progress_out){facts->sync.done, facts->sync.total};
    out->merkle_sync_progress = &r->progress;
}

/* Results of checks of the hashes, and the progress of a reindex. */
static void fill_check(const struct status_room *r, struct dr_status_out *out)
{
    const struct dr_check_facts *check = &r->facts.check;
    out->corrupted_merkle_tree |= check->corrupted;
    out->reindexes = check->reindexes;
    out->reindex_stage = "building"; /* of upstream's stages the one that there is (check.h) */
    out->reindex_building_progress = check->done;
    out->reindex_building_total = check->total;
    if (check->checked_ms != 0)
        out->last_corruption_check_epoch = number(out->check_room[0], check->checked_ms / 1000);
    if (check->reindexed_ms != 0)
        out->last_reindex_epoch = number(out->check_room[1], check->reindexed_ms / 1000);
}

static enum status fill(struct req *req, struct dr_status_out *ret)
{
    struct status_room *r = arena_zalloc(req->arena, sizeof *r);
    ASSERT(req != NULL);
    if (r == NULL)
        return ST_NOMEM;
    req->host->node_ops->status(req->host->node, &r->node);
    const struct dr_role *role = &r->node.dr;
    /* a node that starts does not know the role before it has read the log */
    bool known = r->node.applied_index != 0;
    *ret = (struct dr_status_out){.mode = known ? dr_mode_text(role->mode) : "unknown"};
    if (role->mode == DR_MODE_DISABLED)
        return ST_OK;
    req->host->node_ops->dr_facts(req->host->node, &r->facts);
    text_uuid_of(role->set, r->set);
    text_hex_put(bytes_of(r->node.root, sizeof r->node.root), r->root);
    static_assert(sizeof r->node.root == 32, "the hash of the Merkle tree");
    if (role->address[0] != '\0')
        (void)snprintf(r->address, sizeof r->address, "https://%s", role->address); /* fits */
    *ret = (struct dr_status_out){
        .mode = dr_mode_text(role->mode),
        .takes_part = true,
        .primary = role->mode == DR_MODE_PRIMARY,
        .secondary = role->mode == DR_MODE_SECONDARY,
        .state = dr_state_text(role),
        .reason = role->reason,
        .cluster_id = r->set,
        .epoch = role->epoch,
        .merkle_root = r->root,
        .root_version = r->node.root_version,
        .version = r->node.version,
        .primary_cluster_addr = r->address,
        .sync_mode = "async",
        .sync_reason = "",
        .last_corruption_check_epoch = NEVER,
        .last_reindex_epoch = "0",
    };
    fill_check(r, ret);
    if (ret->primary)
        fill_primary(req, r, ret);
    else
        fill_secondary(req, r, ret);
    return ST_OK;
}

static enum status replication_status(struct req *req)
{
    struct dr_status_out out;
    TRY(fill(req, &out));
    return req_reply(req, &out);
}

struct performance_out {
    const char *mode;
};
static const struct field performance_fields[] = {FIELD(struct performance_out, mode, STRING)};
static const struct schema replication_performance_reply =
    SCHEMA(struct performance_out, performance_fields);
static const struct performance_out no_performance = {.mode = "disabled"};

static enum status replication_performance_status(struct req *req)
{
    return req_reply(req, &no_performance);
}

struct replication_out {
    const char *mode; /* "disabled" where the cluster takes no part in either; else "" */
    const void *dr, *performance;
};
static const struct field replication_fields[] = {
    FIELD(struct replication_out, mode, STRING, .omit = true),
    FIELD(struct replication_out, dr, OBJECT, .sub = &replication_status_reply),
    FIELD(struct replication_out, performance, OBJECT, .sub = &replication_performance_reply),
};
static const struct schema replication_reply = SCHEMA(struct replication_out, replication_fields);

static enum status replication_all_status(struct req *req)
{
    struct dr_status_out out;
    TRY(fill(req, &out));
    const struct replication_out both = {
        .mode = out.takes_part ? "" : out.mode, .dr = &out, .performance = &no_performance};
    return req_reply(req, &both);
}

static const struct route status_routes[] = {
    {.method = METHOD_GET,
     .path = "replication/status",
     .handler = replication_all_status,
     .who = WHO_ANYONE,
     .place = PLACE_NODE,
     .when = WHEN_UNINITIALIZED,
     .flags = ROUTE_UNRECORDED,
     .reply = &replication_reply,
     .help = "The part that this cluster takes in replication, for disaster recovery and for "
             "performance. Replication for performance is not built."},
    {.method = METHOD_GET,
     .path = "replication/dr/status",
     .handler = replication_status,
     .who = WHO_ANYONE,
     .place = PLACE_NODE,
     .when = WHEN_UNINITIALIZED,
     .flags = ROUTE_UNRECORDED,
     .reply = &replication_status_reply,
     .help = "The part that this cluster takes in replication for disaster recovery. Version and "
             "Merkle root are the last computed pair."},
    {.method = METHOD_GET,
     .path = "replication/performance/status",
     .handler = replication_performance_status,
     .who = WHO_ANYONE,
     .place = PLACE_NODE,
     .when = WHEN_UNINITIALIZED,
     .flags = ROUTE_UNRECORDED,
     .reply = &replication_performance_reply,
     .help = "Says that this cluster takes part in no performance replication."},
};

const struct route_table replication_status_table = {status_routes, ARRAY_LEN(status_routes)};
