/* The members of the cluster, the leader, snapshots. A change of members runs once, on the pool,
 * outside of the transaction. */
#include "api/members/members.h"
#include "router/req_dr.h"

struct members_remove_peer {
    const char *server_id, *dr_operation_token;
};

static const struct field remove_fields[] = {
    FIELD(struct members_remove_peer, server_id, STRING, .required = true,
          .help = "Name of the node."),
    REQ_DR_TOKEN_FIELD(struct members_remove_peer),
};
static const struct schema members_remove_peer_schema =
    SCHEMA(struct members_remove_peer, remove_fields);

struct member_out {
    const char *node_id, *address, *protocol_version, *raft_id;
    bool leader, voter;
};
static const struct field member_fields[] = {
    FIELD(struct member_out, node_id, STRING), FIELD(struct member_out, address, STRING),
    FIELD(struct member_out, leader, BOOL),    FIELD(struct member_out, protocol_version, STRING),
    FIELD(struct member_out, voter, BOOL),     FIELD(struct member_out, raft_id, STRING),
};
static const struct schema member_schema = SCHEMA(struct member_out, member_fields);
struct members_out {
    uint64_t index;
    struct field_list servers;
};
static const struct field members_fields[] = {
    FIELD(struct members_out, index, UINT),
    FIELD(struct members_out, servers, LIST, .sub = &member_schema),
};
static const struct schema members_schema = SCHEMA(struct members_out, members_fields);
struct configuration_out {
    const void *config;
};
static const struct field configuration_fields[] = {
    FIELD(struct configuration_out, config, OBJECT, .sub = &members_schema),
};
static const struct schema members_configuration_reply =
    SCHEMA(struct configuration_out, configuration_fields);

static unsigned count_voters(const struct node_status *node)
{
    unsigned voters = 0;
    ASSERT(node->raft.n_members <= RLOG_MEMBERS_MAX);
    for (unsigned i = 0; i < node->raft.n_members; i++)
        voters += node->raft.members[i].role == RLOG_VOTER;
    return voters;
}

static enum status members_configuration(struct req *req)
{
    struct node_status *node = req_node(req);
    struct member_out out[RLOG_MEMBERS_MAX];
    if (node == NULL)
        return ST_NOMEM;
    ASSERT(node->raft.n_members <= RLOG_MEMBERS_MAX);
    for (unsigned i = 0; i < node->raft.n_members; i++) {
        const struct rlog_member *m = &node->raft.members[i];
        const char *id = arena_format(req->arena, "%llu", (unsigned long long)m->id);
        if (id == NULL)
            return ST_NOMEM;
        out[i] = (struct member_out){.node_id = m->name,
                                     .address = m->address,
                                     .leader = m->id == node->raft.leader,
                                     .protocol_version = "1",
                                     .voter = m->role == RLOG_VOTER,
                                     .raft_id = id};
    }
    req_warn_no_quorum(req);
    const struct members_out all = {node->raft.commit_index, {out, node->raft.n_members}};
    return req_reply(req, &(struct configuration_out){.config = &all});
}

/* The node's status, and the member that the body names; NULL: there is no such member. */
static enum status find_member(struct req *req, struct node_status **ret_node,
                               const struct rlog_member **ret_member)
{
    const struct members_remove_peer *in = req_body(req);
    struct node_status *node = req_node(req);
    *ret_member = NULL;
    *ret_node = node;
    if (!mesh_name_valid(in->server_id))
        return req_fail(req, ST_INVALID, "server_id: \"%.64s\" cannot be the name of a node",
                        in->server_id);
    if (node == NULL)
        return ST_NOMEM;
    ASSERT(node->raft.n_members <= RLOG_MEMBERS_MAX);
    for (unsigned i = 0; i < node->raft.n_members; i++)
        if (strcmp(node->raft.members[i].name, in->server_id) == 0)
            *ret_member = &node->raft.members[i];
    return ST_OK;
}

static enum status no_such_node(struct req *req)
{
    return req_fail(req, ST_INVALID, "server_id: no node of this name is in the cluster");
}

static enum status members_remove_peer(struct req *req)
{
    const struct rlog_member *member;
    struct node_status *node;
    TRY(find_member(req, &node, &member));
    if (member != NULL && node->raft.n_members == 1)
        return req_fail(req, ST_INVALID, "server_id: the last node cannot be removed");
    return ST_OK; /* members_remove_peer_outside removes the node */
}

static enum status members_readmit(struct req *req)
{
    const struct members_remove_peer *in = req_body(req);
    ASSERT(req_in_txn(req));
    if (!mesh_name_valid(in->server_id))
        return req_fail(req, ST_INVALID, "server_id: the name of a node is expected");
    const char *key = arena_format(req->arena, MEMBER_REMOVED_KEY "%s", in->server_id);
    if (key == NULL)
        return ST_NOMEM;
    enum status st = state_exists(req->txn, bytes_str(key));
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID, "server_id: no node of this name was removed");
    TRY(st);
    return state_delete(req->txn, bytes_str(key));
}

/* A node that is no member, or has no vote, needs no change: the request may be a repeated one. */
static enum status not_found_is_done(enum status st)
{
    return st == ST_NOT_FOUND ? ST_OK : st;
}

static enum status members_remove_peer_outside(struct req *req)
{
    const struct members_remove_peer *in = req_body(req);
    ASSERT(!req_in_txn(req));
    return not_found_is_done(
        req->host->node_ops->remove_member(req->host->node, in->server_id, req_reason(req)));
}

static enum status members_promote(struct req *req)
{
    const struct rlog_member *member;
    struct node_status *node;
    TRY(find_member(req, &node, &member));
    return member != NULL ? ST_OK : no_such_node(req); /* members_promote_outside gives the vote */
}

static enum status members_demote(struct req *req)
{
    const struct rlog_member *member;
    struct node_status *node;
    TRY(find_member(req, &node, &member));
    if (count_voters(node) == 1 && member != NULL && member->role == RLOG_VOTER)
        return req_fail(req, ST_INVALID, "server_id: the last voter keeps its vote");
    return ST_OK; /* members_demote_outside takes the vote */
}

static enum status set_vote(struct req *req, bool votes)
{
    const struct members_remove_peer *in = req_body(req);
    ASSERT(!req_in_txn(req));
    enum status st =
        req->host->node_ops->set_vote(req->host->node, in->server_id, votes, req_reason(req));
    if (st == ST_NOT_FOUND && votes)
        return no_such_node(req);
    return not_found_is_done(st);
}

static enum status members_promote_outside(struct req *req)
{
    return set_vote(req, true);
}

static enum status members_demote_outside(struct req *req)
{
    return set_vote(req, false);
}

/* Whether this active node is the only voter: after a step-down it would be elected again at once.
 */
static bool is_only_voter(struct req *req)
{
    struct node_status node;
    req->host->node_ops->status(req->host->node, &node);
    return count_voters(&node) == 1 && node.active;
}

static enum status members_step_down_outside(struct req *req)
{
    struct reason why = {{0}};
    ASSERT(!req_in_txn(req));
    if (is_only_voter(req))
        return ST_OK;
    enum status st = req->host->node_ops->step_down(req->host->node, &why);
    /* ST_NOT_LEADER: this node does not lead any more. */
    if (st == ST_OK || st == ST_NOT_LEADER)
        return ST_OK;
    return req_fail(req, st, "%s", why.text[0] != '\0' ? why.text : status_text(st));
}

static enum status members_snapshot_save_outside(struct req *req)
{
    struct req_files *files = &req->files;
    ASSERT(!req_in_txn(req));
    files->reply_type = "application/gzip";
    return req->host->node_ops->snapshot_save(req->host->node, &files->reply, &files->reply_bytes,
                                              req_reason(req));
}

static enum status restore(struct req *req, bool force)
{
    const struct snapshot_source source = {req->files.upload, req->files.upload_bytes, force};
    ASSERT(!req_in_txn(req));
    ASSERT(req->route->input == INPUT_UPLOAD);
    return req->host->node_ops->snapshot_restore(req->host->node, req->env, &source,
                                                 req_reason(req));
}

static enum status members_snapshot_restore_outside(struct req *req)
{
    return restore(req, false);
}

static enum status members_snapshot_force_outside(struct req *req)
{
    return restore(req, true);
}

static const struct route raft_routes[] = {
    {.method = METHOD_POST,
     .path = "step-down",
     .handler = req_nothing_staged,
     .outside = members_step_down_outside,
     .place = PLACE_ACTIVE,
     .who = WHO_DR_TOKEN,
     .when = WHEN_MAINTENANCE,
     .flags = ROUTE_SUDO,
     .body = &req_dr_authority_schema,
     .help = "Transfer leadership to another node. An only voter keeps leadership."},
    {.method = METHOD_GET,
     .path = "storage/raft/configuration",
     .handler = members_configuration,
     .place = PLACE_ACTIVE_OR_LOCAL,
     .who = WHO_DR_TOKEN,
     .when = WHEN_MAINTENANCE,
     .reply = &members_configuration_reply,
     .help = "The members of the cluster. Without a quorum: as this node knows them."},
    {.method = METHOD_POST,
     .path = "storage/raft/configuration",
     .handler = members_configuration,
     .place = PLACE_ACTIVE_OR_LOCAL,
     .who = WHO_DR_TOKEN,
     .when = WHEN_MAINTENANCE,
     .flags = ROUTE_READS,
     .body = &req_dr_authority_schema,
     .reply = &members_configuration_reply,
     .help = "The same; on a DR secondary with the DR operation token in the body."},
    {.method = METHOD_POST,
     .path = "storage/raft/remove-peer",
     .handler = members_remove_peer,
     .outside = members_remove_peer_outside,
     .place = PLACE_ACTIVE,
     .who = WHO_DR_TOKEN,
     .when = WHEN_MAINTENANCE,
     .body = &members_remove_peer_schema,
     .help = "Remove a node from the cluster; an unknown node is no error. The cluster refuses the "
             "node until readmit or a join token admits it again."},
    {.method = METHOD_POST,
     .path = "storage/raft/readmit",
     .handler = members_readmit,
     .when = WHEN_MAINTENANCE,
     .flags = ROUTE_SUDO,
     .body = &members_remove_peer_schema,
     .help = "Let a node that was removed join again under its certificate, with an empty data "
             "directory."},
    {.method = METHOD_POST,
     .path = "storage/raft/promote",
     .handler = members_promote,
     .outside = members_promote_outside,
     .place = PLACE_ACTIVE,
     .when = WHEN_MAINTENANCE,
     .body = &members_remove_peer_schema,
     .help = "Give a node a vote, as soon as the node has the whole log."},
    {.method = METHOD_POST,
     .path = "storage/raft/demote",
     .handler = members_demote,
     .outside = members_demote_outside,
     .place = PLACE_ACTIVE,
     .when = WHEN_MAINTENANCE,
     .body = &members_remove_peer_schema,
     .help = "Take a node's vote; an unknown node is no error. The node still follows and serves, "
             "and returns without a vote even after it lost its disk. An active node transfers "
             "leadership first."},
    {.method = METHOD_GET,
     .path = "storage/raft/snapshot",
     .handler = req_nothing_staged,
     .outside = members_snapshot_save_outside,
     .place = PLACE_ACTIVE,
     .when = WHEN_MAINTENANCE,
     .flags = ROUTE_LONG,
     .shape = "gzip", /* the reply is not JSON */
     .help =
         "The whole state as one gzip tar. Its values stay encrypted: to use the snapshot, keep "
         "the present seal key or key shares."},
    {.method = METHOD_POST,
     .path = "storage/raft/snapshot",
     .handler = req_nothing_staged,
     .outside = members_snapshot_restore_outside,
     .place = PLACE_ACTIVE,
     .when = WHEN_MAINTENANCE,
     .input = INPUT_UPLOAD,
     .help =
         "Replace the whole state by the snapshot in the body, on every node, at once or not at "
         "all. The snapshot must be encrypted under this cluster's root key."},
    {.method = METHOD_POST,
     .path = "storage/raft/snapshot-force",
     .handler = req_nothing_staged,
     .outside = members_snapshot_force_outside,
     .place = PLACE_ACTIVE,
     .when = WHEN_MAINTENANCE,
     .input = INPUT_UPLOAD,
     .help =
         "Restore a snapshot even if it was made under another root key; then nothing can check "
         "its origin. The nodes unseal with the keys of the cluster that made the snapshot."},
};

const struct route_table members_raft_table = {raft_routes, ARRAY_LEN(raft_routes)};
