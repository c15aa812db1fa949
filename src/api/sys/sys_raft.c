/* The members of the cluster, and who leads it. What changes them is done outside of any
 * transaction, on the pool, once. */
#include "api/sys/sys.h"

#include <stdio.h>

static const struct field remove_fields[] = {
    FIELD(struct sys_remove_peer, server_id, STRING, .required = true, .help = "Name of the node."),
};
const struct schema sys_remove_peer_schema = SCHEMA(struct sys_remove_peer, remove_fields);

static void write_member(struct text_writer *w, const struct rlog_member *m, uint64_t leader)
{
    char id[24];
    (void)snprintf(id, sizeof id, "%llu", (unsigned long long)m->id); /* 20 digits */
    text_open_object(w);
    text_member_str(w, "node_id", m->name);
    text_member_str(w, "address", m->address);
    text_member_bool(w, "leader", m->id == leader);
    text_member_str(w, "protocol_version", "1");
    text_member_bool(w, "voter", m->role == RLOG_VOTER);
    text_member_str(w, "raft_id", id);
    text_close(w);
}

enum status sys_raft_configuration(struct req *req)
{
    struct node_status node;
    req->host->status(req->host, &node);
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    text_key(&w, "config");
    text_open_object(&w);
    text_key(&w, "index");
    text_put_uint(&w, node.raft.commit_index);
    text_key(&w, "servers");
    text_open_list(&w);
    for (unsigned i = 0; i < node.raft.n_members; i++)
        write_member(&w, &node.raft.members[i], node.raft.leader);
    text_close(&w);
    text_close(&w);
    text_close(&w);
    return req_reply_end(req);
}

enum status sys_nothing_staged(struct req *req)
{
    (void)req; /* all of it happens outside */
    return ST_OK;
}

/* The member that the body names, and all of them. */
static enum status find_member(struct req *req, struct node_status **ret_node,
                               const struct rlog_member **ret_member)
{
    const struct sys_remove_peer *in = req_body(req);
    struct node_status *node = sys_node(req);
    *ret_member = NULL;
    *ret_node = node;
    if (node == NULL)
        return ST_NOMEM;
    for (unsigned i = 0; i < node->raft.n_members; i++)
        if (strcmp(node->raft.members[i].name, in->server_id) == 0)
            *ret_member = &node->raft.members[i];
    if (*ret_member == NULL)
        return req_fail(req, ST_INVALID, "no node \"%s\" in the cluster", in->server_id);
    return ST_OK;
}

enum status sys_remove_peer(struct req *req)
{
    const struct rlog_member *member;
    struct node_status *node;
    TRY(find_member(req, &node, &member));
    if (node->raft.n_members == 1)
        return req_fail(req, ST_INVALID, "server_id: the last node cannot be removed");
    return ST_OK; /* the rest happens outside */
}

enum status sys_readmit(struct req *req)
{
    const struct sys_remove_peer *in = req_body(req);
    if (!mesh_name_valid(in->server_id))
        return req_fail(req, ST_INVALID, "server_id: the name of a node is expected");
    const char *key = arena_format(req->arena, NODE_REMOVED_KEY "%s", in->server_id);
    if (key == NULL)
        return ST_NOMEM;
    enum status st = state_exists(req->txn, bytes_str(key));
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID, "server_id: no node \"%s\" was removed", in->server_id);
    TRY(st);
    return state_delete(req->txn, bytes_str(key));
}

static enum status not_found_is_invalid(struct req *req, enum status st)
{
    const struct sys_remove_peer *in = req_body(req);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID, "no node \"%s\" in the cluster", in->server_id);
    return st;
}

enum status sys_remove_peer_outside(struct req *req)
{
    const struct sys_remove_peer *in = req_body(req);
    return not_found_is_invalid(req,
                                req->host->remove_member(req->host, in->server_id, &req->error));
}

enum status sys_promote(struct req *req)
{
    const struct rlog_member *member;
    struct node_status *node;
    return find_member(req, &node, &member); /* the rest happens outside */
}

enum status sys_demote(struct req *req)
{
    const struct rlog_member *member;
    struct node_status *node;
    unsigned voters = 0;
    TRY(find_member(req, &node, &member));
    for (unsigned i = 0; i < node->raft.n_members; i++)
        voters += node->raft.members[i].role == RLOG_VOTER;
    if (voters == 1 && member->role == RLOG_VOTER)
        return req_fail(req, ST_INVALID, "server_id: the last voter keeps its vote");
    return ST_OK; /* the rest happens outside */
}

static enum status set_vote(struct req *req, bool votes)
{
    const struct sys_remove_peer *in = req_body(req);
    return not_found_is_invalid(req,
                                req->host->set_vote(req->host, in->server_id, votes, &req->error));
}

enum status sys_promote_outside(struct req *req)
{
    return set_vote(req, true);
}

enum status sys_demote_outside(struct req *req)
{
    return set_vote(req, false);
}

enum status sys_step_down_outside(struct req *req)
{
    struct reason why = {{0}};
    enum status st = req->host->step_down(req->host, &why);
    /* Whoever it was, it does not lead any more. */
    if (st == ST_OK || st == ST_NOT_LEADER)
        return ST_OK;
    return req_fail(req, st, "%s", why.text[0] != '\0' ? why.text : status_text(st));
}

enum status sys_snapshot_save_outside(struct req *req)
{
    struct req_files *files = &req->files;
    files->reply_type = "application/gzip";
    return req->host->snapshot_save(req->host, &files->reply, &files->reply_bytes, &req->error);
}

static enum status restore(struct req *req, bool force)
{
    const struct node_snapshot snapshot = {req->files.upload, req->files.upload_bytes, force};
    return req->host->snapshot_restore(req->host, req->env, &snapshot, &req->error);
}

enum status sys_snapshot_restore_outside(struct req *req)
{
    return restore(req, false);
}

enum status sys_snapshot_force_outside(struct req *req)
{
    return restore(req, true);
}
