/* sys/storage/raft/autopilot: the health of the members, and when dead members are removed. */
#include "api/members/members.h"
#include "cluster/membership/local.h"
#include "cluster/membership/members/feature_level.h"
#include "cluster/membership/removal/autopilot.h"
#include "router/req_dr.h"
#include "text/duration.h"

/* Settings, and for each whether the request gives it. */
struct members_autopilot {
    bool cleanup_dead_servers;
    int64_t dead_server_last_contact_threshold, last_contact_threshold, server_stabilization_time;
    int64_t max_trailing_logs, min_quorum;
    bool auto_raise;
    bool has_raise, has_cleanup, has_dead, has_contact, has_trailing, has_quorum, has_stable;
    const char *dr_operation_token;
};

enum { DEAD_MIN_S = 60, QUORUM_MIN = 3 };

static const struct field config_fields[] = {
    FIELD(struct members_autopilot, auto_raise, BOOL,
          .has = offsetof(struct members_autopilot, has_raise),
          .help = "Raise the cluster's feature level when every member understands the next one. "
                  "While this is off, members may go back to an older build."),
    FIELD(struct members_autopilot, cleanup_dead_servers, BOOL,
          .has = offsetof(struct members_autopilot, has_cleanup),
          .help = "Remove members that have been silent for too long."),
    FIELD(struct members_autopilot, dead_server_last_contact_threshold, DURATION,
          .has = offsetof(struct members_autopilot, has_dead),
          .help = "Silence after which a member is dead; a minute at least."),
    FIELD(struct members_autopilot, last_contact_threshold, DURATION,
          .has = offsetof(struct members_autopilot, has_contact),
          .help = "Silence after which a member is not healthy. Members send once a second."),
    FIELD(struct members_autopilot, max_trailing_logs, INT,
          .has = offsetof(struct members_autopilot, has_trailing),
          .help = "How many log entries a healthy member may be behind."),
    FIELD(struct members_autopilot, min_quorum, INT,
          .has = offsetof(struct members_autopilot, has_quorum),
          .help = "No dead member is removed if fewer voters than this would be left. Required by "
                  "cleanup_dead_servers; 3 at least."),
    FIELD(struct members_autopilot, server_stabilization_time, DURATION,
          .has = offsetof(struct members_autopilot, has_stable),
          .help = "How long a new member must be healthy, without interruption, before it gets a "
                  "vote."),
    REQ_DR_TOKEN_FIELD(struct members_autopilot),
};
static const struct schema members_autopilot_schema =
    SCHEMA(struct members_autopilot, config_fields);

static enum status load(struct req *req, struct autopilot *ret)
{
    struct state_value stored;
    enum status st = state_get(req->txn, BYTES(AUTOPILOT_KEY), &stored);
    *ret = autopilot_default;
    if (st == ST_NOT_FOUND)
        return ST_OK;
    TRY(st);
    return autopilot_decode(stored.value, ret);
}

/* Zero-terminated; NULL without memory. */
static const char *duration(struct req *req, int64_t ns)
{
    CLEANUP(buf_done) struct buf text = {0};
    text_duration_put(&text, ns);
    return buf_status(&text) == ST_OK ? arena_str(req->arena, buf_bytes(&text)) : NULL;
}

struct config_out {
    bool auto_raise, cleanup_dead_servers;
    const char *dead_server_last_contact_threshold, *last_contact_threshold;
    const char *server_stabilization_time;
    int64_t max_trailing_logs, min_quorum;
};
static const struct field config_out_fields[] = {
    FIELD(struct config_out, auto_raise, BOOL),
    FIELD(struct config_out, cleanup_dead_servers, BOOL),
    FIELD(struct config_out, dead_server_last_contact_threshold, STRING),
    FIELD(struct config_out, last_contact_threshold, STRING),
    FIELD(struct config_out, max_trailing_logs, INT),
    FIELD(struct config_out, min_quorum, INT),
    FIELD(struct config_out, server_stabilization_time, STRING),
};
static const struct schema members_autopilot_reply = SCHEMA(struct config_out, config_out_fields);

/* ST_OK: an operator holds the feature level. ST_NOT_FOUND: the level rises by itself. */
static enum status load_hold(struct req *req)
{
    return state_exists(req->txn, BYTES(FEATURE_HOLD));
}

static enum status members_autopilot_read(struct req *req)
{
    struct autopilot a;
    TRY(load(req, &a));
    enum status hold = load_hold(req);
    if (hold != ST_OK && hold != ST_NOT_FOUND)
        return hold;
    const struct config_out out = {
        .auto_raise = hold == ST_NOT_FOUND,
        .cleanup_dead_servers = a.cleanup_dead_servers,
        .dead_server_last_contact_threshold =
            duration(req, a.dead_server_last_contact_threshold * 1000000000),
        .last_contact_threshold = duration(req, a.last_contact_threshold * 1000000000),
        .max_trailing_logs = a.max_trailing_logs,
        .min_quorum = a.min_quorum,
        .server_stabilization_time = duration(req, a.server_stabilization_time * 1000000000),
    };
    if (out.dead_server_last_contact_threshold == NULL || out.last_contact_threshold == NULL ||
        out.server_stabilization_time == NULL)
        return ST_NOMEM;
    return req_reply(req, &out);
}

static enum status check(struct req *req, const struct autopilot *a)
{
    if (a->dead_server_last_contact_threshold < DEAD_MIN_S)
        return req_fail(req, ST_INVALID,
                        "dead_server_last_contact_threshold should not be less than 1m");
    if (a->last_contact_threshold == 0)
        return req_fail(req, ST_INVALID, "last_contact_threshold: a time above 0 is expected");
    if (a->max_trailing_logs < 0)
        return req_fail(req, ST_INVALID, "max_trailing_logs: 0 or more is expected");
    if (a->min_quorum < 0)
        return req_fail(req, ST_INVALID, "min_quorum: 0 or more is expected");
    if (a->cleanup_dead_servers && a->min_quorum < QUORUM_MIN)
        return req_fail(req, ST_INVALID,
                        "min_quorum must be set when cleanup_dead_servers is set and it should at "
                        "least be %d",
                        QUORUM_MIN);
    return ST_OK;
}

static bool asks_nothing(const struct members_autopilot *in)
{
    return !in->has_raise && !in->has_cleanup && !in->has_dead && !in->has_contact &&
           !in->has_trailing && !in->has_quorum && !in->has_stable;
}

static enum status members_autopilot_write(struct req *req)
{
    const struct members_autopilot *in = req_body(req);
    CLEANUP(buf_done) struct buf record = {0};
    struct autopilot a;
    if (asks_nothing(in) && in->dr_operation_token[0] != '\0')
        return members_autopilot_read(req); /* a DR secondary is asked so: a GET carries no token */
    TRY(load(req, &a));
    if (in->has_cleanup)
        a.cleanup_dead_servers = in->cleanup_dead_servers;
    if (in->has_dead)
        a.dead_server_last_contact_threshold = in->dead_server_last_contact_threshold;
    if (in->has_contact)
        a.last_contact_threshold = in->last_contact_threshold;
    if (in->has_trailing)
        a.max_trailing_logs = in->max_trailing_logs;
    if (in->has_quorum)
        a.min_quorum = in->min_quorum;
    if (in->has_stable)
        a.server_stabilization_time = in->server_stabilization_time;
    TRY(check(req, &a));
    ASSERT(a.last_contact_threshold > 0 && a.server_stabilization_time >= 0);
    if (in->has_raise)
        TRY(in->auto_raise ? state_delete(req->txn, BYTES(FEATURE_HOLD))
                           : state_put(req->txn, BYTES(FEATURE_HOLD), BYTES("noted")));
    TRY(autopilot_encode(&a, &record));
    ASSERT(record.len > 0);
    return state_put(req->txn, BYTES(AUTOPILOT_KEY), buf_bytes(&record));
}

struct server {
    const struct node_peer *peer;
    const struct rlog_member *member;
    bool leads;
    bool wanted;        /* the member votes, or will once it has been healthy for long enough */
    int64_t contact_ms; /* time since the last contact */
    int64_t stable_ms;  /* since when the member is healthy, or is not */
};

struct watched {
    const struct rlog_status *raft;
    struct server servers[RLOG_MEMBERS_MAX];
    unsigned voters, healthy_voters;
    bool healthy;
};

static enum status read_server(struct req *req, const struct node_status *node,
                               const struct node_peer *peer, const struct rlog_member *member,
                               struct server *ret)
{
    int64_t since = node->active_since_ms, heard = MAX(peer->heard_ms, since);
    const char *key = arena_format(req->arena, MEMBER_NONVOTER_KEY "%s", member->name);
    if (key == NULL)
        return ST_NOMEM;
    enum status plain = state_exists(req->txn, bytes_str(key));
    if (plain != ST_OK && plain != ST_NOT_FOUND)
        return plain;
    *ret = (struct server){
        .peer = peer,
        .member = member,
        .leads = member->id == node->raft.id,
        .wanted = member->role == RLOG_VOTER || plain == ST_NOT_FOUND,
        .stable_ms = peer->stable_ms != 0 ? peer->stable_ms : since,
    };
    if (!ret->leads)
        ret->contact_ms = MAX(env_wall_ms(req->env) - heard, INT64_C(0));
    return ST_OK;
}

/* A sealed node follows the log and votes, but cannot take over from the active node. */
static bool is_healthy(const struct node_peer *peer)
{
    return peer->healthy && peer->serves;
}

static enum status watch(struct req *req, const struct node_status *node, struct watched *ret)
{
    struct node_peer *peers = arena_alloc(req->arena, RLOG_MEMBERS_MAX * sizeof *peers);
    if (peers == NULL)
        return ST_NOMEM;
    unsigned n = req->host->node_ops->peers(req->host->node, peers);
    ASSERT(n <= RLOG_MEMBERS_MAX && node->raft.n_members <= RLOG_MEMBERS_MAX);
    *ret = (struct watched){.raft = &node->raft, .healthy = true};
    for (unsigned i = 0; i < node->raft.n_members; i++) {
        static const struct node_peer unknown;
        const struct rlog_member *m = &node->raft.members[i];
        const struct node_peer *peer = &unknown;
        for (unsigned j = 0; j < n; j++)
            if (strcmp(peers[j].name, m->name) == 0)
                peer = &peers[j];
        TRY(read_server(req, node, peer, m, &ret->servers[i]));
        bool healthy = is_healthy(peer);
        ret->healthy = ret->healthy && healthy;
        ret->voters += m->role == RLOG_VOTER;
        ret->healthy_voters += m->role == RLOG_VOTER && healthy;
    }
    ASSERT(ret->healthy_voters <= ret->voters);
    return ST_OK;
}

struct server_out {
    const char *id, *name, *address, *node_status, *node_type, *status, *last_contact, *version;
    uint64_t last_term, last_index, feature_level;
    bool healthy, serving;
    int64_t stable_since;
};
static const struct field server_fields[] = {
    FIELD(struct server_out, id, STRING),
    FIELD(struct server_out, name, STRING),
    FIELD(struct server_out, address, STRING),
    FIELD(struct server_out, node_status, STRING),
    FIELD(struct server_out, node_type, STRING),
    FIELD(struct server_out, status, STRING),
    FIELD(struct server_out, last_contact, STRING),
    FIELD(struct server_out, last_term, UINT),
    FIELD(struct server_out, last_index, UINT),
    FIELD(struct server_out, healthy, BOOL),
    FIELD(struct server_out, stable_since, TIME),
    FIELD(struct server_out, version, STRING),
    FIELD(struct server_out, feature_level, UINT),
    FIELD(struct server_out, serving, BOOL,
          .help = "Whether the node is unsealed and, where audit devices are enabled, one of them "
                  "takes its records."),
};
static const struct schema server_schema = SCHEMA_NAMED(struct server_out, id, server_fields);

struct state_out {
    bool healthy;
    int64_t failure_tolerance;
    uint64_t feature_level; /* of the cluster */
    const char *leader;
    struct field_strings voters, non_voters;
    struct field_list servers;
};
static const struct field state_fields[] = {
    FIELD(struct state_out, healthy, BOOL),
    FIELD(struct state_out, failure_tolerance, INT),
    FIELD(struct state_out, feature_level, UINT),
    FIELD(struct state_out, leader, STRING),
    FIELD(struct state_out, voters, STRINGS),
    FIELD(struct state_out, non_voters, STRINGS, .omit = true),
    FIELD(struct state_out, servers, TABLE, .sub = &server_schema),
};
static const struct schema members_autopilot_state_reply = SCHEMA(struct state_out, state_fields);

static struct server_out server_of(struct req *req, const struct server *s)
{
    bool votes = s->member->role == RLOG_VOTER;
    return (struct server_out){
        .id = s->member->name,
        .name = s->member->name,
        .address = s->member->address,
        .node_status = s->peer->silent ? "failed" : "alive",
        .node_type = s->wanted ? "voter" : "non-voter",
        .status = s->leads ? "leader"
                  : votes  ? "voter"
                           : "non-voter",
        .last_contact = duration(req, s->contact_ms * 1000000),
        .last_term = s->peer->last_term,
        .last_index = s->peer->last_index,
        .healthy = is_healthy(s->peer),
        .serving = s->peer->serves,
        .stable_since = s->stable_ms,
        .version = s->peer->version,
        .feature_level = s->peer->feature,
    };
}

static struct field_strings names_of(const struct watched *all, bool vote,
                                     const char *room[RLOG_MEMBERS_MAX])
{
    size_t n = 0;
    for (unsigned i = 0; i < all->raft->n_members; i++)
        if ((all->servers[i].member->role == RLOG_VOTER) == vote)
            room[n++] = all->servers[i].member->name;
    ASSERT(n <= RLOG_MEMBERS_MAX);
    return (struct field_strings){.items = room, .n = n};
}

static enum status members_autopilot_state(struct req *req)
{
    struct watched *all = arena_alloc(req->arena, sizeof *all);
    struct node_status *node = req_node(req);
    const char *voters[RLOG_MEMBERS_MAX], *others[RLOG_MEMBERS_MAX];
    struct server_out servers[RLOG_MEMBERS_MAX];
    if (all == NULL || node == NULL)
        return ST_NOMEM;
    TRY(watch(req, node, all));
    for (unsigned i = 0; i < node->raft.n_members; i++) {
        servers[i] = server_of(req, &all->servers[i]);
        if (servers[i].last_contact == NULL)
            return ST_NOMEM;
    }
    ASSERT(all->voters <= node->raft.n_members && all->raft == &node->raft);
    unsigned quorum = all->voters / 2 + 1;
    const struct state_out out = {
        .healthy = all->healthy,
        .failure_tolerance = all->healthy_voters > quorum ? all->healthy_voters - quorum : 0,
        .feature_level = node->raft.feature,
        .leader = node->leader_name,
        .voters = names_of(all, true, voters),
        .non_voters = names_of(all, false, others),
        .servers = {servers, node->raft.n_members},
    };
    return req_reply(req, &out);
}

static const struct route autopilot_routes[] = {
    {.method = METHOD_GET,
     .path = "storage/raft/autopilot/configuration",
     .handler = members_autopilot_read,
     .who = WHO_DR_TOKEN,
     .when = WHEN_MAINTENANCE,
     .reply = &members_autopilot_reply,
     .help = "The settings by which the active node watches the members. On a DR secondary the "
             "token of the request is the DR operation token."},
    {.method = METHOD_POST,
     .path = "storage/raft/autopilot/configuration",
     .handler = members_autopilot_write,
     .who = WHO_DR_TOKEN,
     .when = WHEN_MAINTENANCE,
     .body = &members_autopilot_schema,
     .reply = &members_autopilot_reply,
     .help = "Change how the members are watched, and whether dead members are removed. Fields "
             "that the request does not give keep their values. On a DR secondary the body has the "
             "DR operation token; without any other field, the reply is the settings."},
    {.method = METHOD_GET,
     .path = "storage/raft/autopilot/state",
     .handler = members_autopilot_state,
     .place = PLACE_ACTIVE,
     .who = WHO_DR_TOKEN,
     .when = WHEN_MAINTENANCE,
     .reply = &members_autopilot_state_reply,
     .help = "The health of the members, as the active node knows it, and how many voters may "
             "fail. On a DR secondary the token of the request is the DR operation token."},
    {.method = METHOD_POST,
     .path = "storage/raft/autopilot/state",
     .handler = members_autopilot_state,
     .place = PLACE_ACTIVE,
     .who = WHO_DR_TOKEN,
     .when = WHEN_MAINTENANCE,
     .flags = ROUTE_READS,
     .body = &req_dr_authority_schema,
     .reply = &members_autopilot_state_reply,
     .help = "The same; on a DR secondary with the DR operation token in the body."},
};

const struct route_table members_autopilot_table = {autopilot_routes, ARRAY_LEN(autopilot_routes)};
