/* Peer unseal, the side of the active node: it hands the root key to a node that was started and is
 * sealed by key shares, if an operator approved that node for this one start.
 *
 *   l/core/peer-unseal/enabled     present: an operator turned peer unseal on
 *   l/core/peer-unseal/node/NAME   an approval: raft id of the node, and when the approval ends
 *
 * 1. Off by default; turning it off drops every approval.
 * 2. The key goes to a member that asks for itself over the cluster port, under the name of its
 *    certificate. A client cannot make such a request, not even through a node (front/relay.h).
 * 3. An approval is for one raft id, ends by cluster time, and is deleted by the transaction whose
 *    commit lets the reply go: it serves once, on whatever node.
 * 4. The key is sealed for a key pair of this one request (crypto/box.h) before it is in a reply,
 *    so neither audit devices nor buffers of connections hold it.
 *
 * A node cannot prove to another one that its own key is wrapped, so there is no hand-over without
 * an approval. */
#include "api/members/members.h"
#include "base/trace.h"
#include "cluster/membership/join/peer_unseal.h"
#include "state/state_record.h"
#include "text/encode.h"

#include <stdatomic.h>

#define ENABLED STATE_LOCAL "core/peer-unseal/enabled"
#define APPROVALS STATE_LOCAL "core/peer-unseal/node/"

enum { FEATURE = 2, TTL_MAX_S = 600 };

static _Atomic uint64_t given; /* keys that this process handed over */

struct approval {
    uint64_t raft_id;
    int64_t until_ms; /* cluster time */
};

static const struct record_field approval_record_fields[] = {
    RECORD_FIELD(struct approval, raft_id, U64, .min = 1),
    RECORD_FIELD(struct approval, until_ms, U64, .help = "cluster time"),
};
static const struct record approval_record = {RECORD(struct approval, approval_record_fields),
                                              .name = "members/peer-unseal", .key = APPROVALS,
                                              .newest = 1};
RECORD_LISTED(approval_record);

/* The raft id of a member; 0: no member has the name. */
static uint64_t id_of(const struct node_status *node, const char *name)
{
    ASSERT(node->raft.n_members <= RLOG_MEMBERS_MAX);
    for (unsigned i = 0; i < node->raft.n_members; i++)
        if (strcmp(node->raft.members[i].name, name) == 0)
            return node->raft.members[i].id;
    return 0;
}

static enum status must_be_on(struct req *req)
{
    enum status st = state_exists(req->txn, BYTES(ENABLED));
    return st == ST_NOT_FOUND ? req_fail(req, ST_DENIED, "peer unseal is off") : st;
}

/* Delete the approvals that have ended; `all`: every approval. */
static enum status sweep_approvals(struct req *req, bool all)
{
    struct state_iter iter;
    ASSERT(req_in_txn(req));
    TRY(state_scan(req->txn, BYTES(APPROVALS), (struct bytes){0}, &iter));
    while (state_iter_next(&iter)) {
        struct approval a;
        struct bytes stored;
        TRY(state_iter_value(&iter, &stored));
        if (all || record_decode(&approval_record, stored, NULL, &a) != ST_OK ||
            a.until_ms <= req->now_ms)
            TRY(state_delete(req->txn, iter.key));
    }
    return ST_OK;
}

struct approval_out {
    const char *node_id;
    int64_t expire_time;
};
static const struct field approval_fields[] = {
    FIELD(struct approval_out, node_id, STRING),
    FIELD(struct approval_out, expire_time, TIME),
};
static const struct schema members_approval_reply = SCHEMA(struct approval_out, approval_fields);

struct peer_unseal_out {
    bool enabled;
    struct field_list approvals;
};
static const struct field peer_unseal_out_fields[] = {
    FIELD(struct peer_unseal_out, enabled, BOOL),
    FIELD(struct peer_unseal_out, approvals, LIST, .sub = &members_approval_reply),
};
static const struct schema members_peer_unseal_reply =
    SCHEMA(struct peer_unseal_out, peer_unseal_out_fields);

static enum status members_peer_unseal_read(struct req *req)
{
    struct approval_out *all = arena_alloc(req->arena, RLOG_MEMBERS_MAX * sizeof *all);
    struct state_iter iter;
    size_t n = 0;
    if (all == NULL)
        return ST_NOMEM;
    enum status on = state_exists(req->txn, BYTES(ENABLED));
    if (on != ST_OK && on != ST_NOT_FOUND)
        return on;
    TRY(state_scan(req->txn, BYTES(APPROVALS), (struct bytes){0}, &iter));
    while (n < RLOG_MEMBERS_MAX && state_iter_next(&iter)) {
        struct approval a;
        struct bytes stored;
        TRY(state_iter_value(&iter, &stored));
        const char *name = arena_str(req->arena, bytes_from(iter.key, sizeof APPROVALS - 1));
        if (name == NULL)
            return ST_NOMEM;
        if (record_decode(&approval_record, stored, NULL, &a) == ST_OK && a.until_ms > req->now_ms)
            all[n++] = (struct approval_out){name, a.until_ms};
    }
    return req_reply(req, &(struct peer_unseal_out){on == ST_OK, {all, n}});
}

struct peer_unseal_in {
    bool enabled;
};
static const struct field peer_unseal_in_fields[] = {
    FIELD(struct peer_unseal_in, enabled, BOOL, .required = true,
          .help = "Whether the active node hands the root key to nodes that were approved."),
};
static const struct schema members_peer_unseal_schema =
    SCHEMA(struct peer_unseal_in, peer_unseal_in_fields);

static enum status members_peer_unseal_write(struct req *req)
{
    const struct peer_unseal_in *in = req_body(req);
    if (in->enabled) {
        TRY(req_need_feature(req, FEATURE));
        return state_put(req->txn, BYTES(ENABLED), BYTES("on"));
    }
    TRY(sweep_approvals(req, true));
    return state_delete(req->txn, BYTES(ENABLED));
}

struct approve_in {
    const char *server_id;
    int64_t ttl;
};
static const struct field approve_fields[] = {
    FIELD(struct approve_in, server_id, STRING, .required = true, .help = "Name of the node."),
    FIELD(struct approve_in, ttl, DURATION, .preset = "10m",
          .help = "How long the approval lasts if the node does not use it; 10 minutes at most."),
};
static const struct schema members_approve_schema = SCHEMA(struct approve_in, approve_fields);

static enum status approval_key(struct req *req, const char *name, const char **ret_key)
{
    if (!mesh_name_valid(name))
        return req_fail(req, ST_INVALID, "server_id: \"%.64s\" cannot be the name of a node", name);
    *ret_key = arena_format(req->arena, APPROVALS "%s", name);
    return *ret_key != NULL ? ST_OK : ST_NOMEM;
}

static enum status members_approve(struct req *req)
{
    const struct approve_in *in = req_body(req);
    struct node_status *node = req_node(req);
    const char *key = NULL;
    if (node == NULL)
        return ST_NOMEM;
    TRY(approval_key(req, in->server_id, &key));
    if (in->ttl < 1 || in->ttl > TTL_MAX_S)
        return req_fail(req, ST_INVALID, "ttl: 1 second to 10 minutes is expected");
    enum status st = state_exists(req->txn, BYTES(ENABLED));
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID, "peer unseal is off: turn it on first");
    TRY(st);
    const struct approval a = {id_of(node, in->server_id), req->now_ms + in->ttl * 1000};
    if (a.raft_id == 0)
        return req_fail(req, ST_INVALID, "server_id: no node of this name is in the cluster");
    TRY(sweep_approvals(req, false));
    TRY(state_put_record(req->txn, bytes_str(key), &approval_record, &a));
    return req_reply(req, &(struct approval_out){in->server_id, a.until_ms});
}

struct revoke_in {
    const char *server_id;
};
static const struct field revoke_fields[] = {
    FIELD(struct revoke_in, server_id, STRING, .required = true, .help = "Name of the node."),
};
static const struct schema members_revoke_schema = SCHEMA(struct revoke_in, revoke_fields);

static enum status members_revoke(struct req *req)
{
    const struct revoke_in *in = req_body(req);
    const char *key = NULL;
    ASSERT(req_in_txn(req));
    TRY(approval_key(req, in->server_id, &key));
    return state_delete(req->txn, bytes_str(key));
}

struct ask_in {
    const char *node_id, *public_key;
};
static const struct field ask_fields[] = {
    FIELD(struct ask_in, node_id, STRING, .required = true, .help = "Name of the node that asks."),
    FIELD(struct ask_in, public_key, STRING, .required = true,
          .help = "X25519 public key of this one request, in base64."),
};
static const struct schema members_ask_schema = SCHEMA(struct ask_in, ask_fields);

struct asked_out {
    const char *sealed_key;
};
static const struct field asked_fields[] = {FIELD(struct asked_out, sealed_key, STRING)};
static const struct schema members_asked_reply = SCHEMA(struct asked_out, asked_fields);

/* Stage the use of the approval of the node that asks. ST_DENIED with an error. */
static enum status use_approval(struct req *req, const char *name)
{
    struct node_status *node = req_node(req);
    struct state_value stored;
    struct approval a;
    const char *key = NULL;
    if (node == NULL)
        return ST_NOMEM;
    TRY(must_be_on(req));
    TRY(approval_key(req, name, &key));
    enum status st = state_get(req->txn, bytes_str(key), &stored);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_DENIED, "node \"%s\" has no approval", name);
    TRY(st);
    TRY(record_decode(&approval_record, stored.value, NULL, &a));
    if (a.until_ms <= req->now_ms)
        return req_fail(req, ST_DENIED, "the approval of node \"%s\" has ended", name);
    if (a.raft_id != id_of(node, name))
        return req_fail(req, ST_DENIED, "the approval of node \"%s\" was for its earlier disk",
                        name);
    return state_delete(req->txn, bytes_str(key));
}

static enum status seal_key(struct req *req, const char *name,
                            const uint8_t receiver[BOX_PUBLIC_BYTES], struct buf *out)
{
    CLEANUP(buf_done) struct buf context = {0};
    struct node_status *node = req_node(req);
    if (node == NULL)
        return ST_NOMEM;
    TRY(peer_unseal_context(node->cluster_id, name, &context));
    enum status st = barrier_hand_over(barrier_of(req->cipher), receiver, buf_bytes(&context), out);
    return st == ST_INVALID ? req_fail(req, st, "public_key: no usable X25519 key") : st;
}

static enum status members_peer_unseal_key(struct req *req)
{
    const struct ask_in *in = req_body(req);
    CLEANUP(buf_done) struct buf sealed = {0};
    uint8_t receiver[TEXT_BASE64_BYTES(TEXT_BASE64_LEN(BOX_PUBLIC_BYTES))];
    struct bytes text = bytes_str(in->public_key);
    size_t n = 0;
    ASSERT(req_in_txn(req));
    if (req->member == NULL || strcmp(req->member, in->node_id) != 0)
        return req_fail(req, ST_DENIED, "a member asks for itself, at the cluster port");
    if (text.len > TEXT_BASE64_LEN(BOX_PUBLIC_BYTES) ||
        text_base64_parse(text, receiver, &n) != ST_OK || n != BOX_PUBLIC_BYTES)
        return req_fail(req, ST_INVALID, "public_key: 32 bytes in base64 are expected");
    TRY(use_approval(req, req->member));
    TRY(seal_key(req, req->member, receiver, &sealed));
    char *out = arena_alloc(req->arena, TEXT_BASE64_LEN(sealed.len) + 1);
    if (out == NULL)
        return ST_NOMEM;
    (void)text_base64_put(buf_bytes(&sealed), TEXT_BASE64, out); /* the room suffices */
    return req_reply(req, &(struct asked_out){out});
}

/* After the commit: the reply goes out next. */
static enum status members_peer_unseal_key_outside(struct req *req)
{
    ASSERT(req->member != NULL);
    atomic_fetch_add(&given, 1);
    trace(TRACE_WARN, "node", "hands the root key to %s (peer unseal)", req->member);
    return ST_OK;
}

void members_peer_unseal_metrics(struct metric_out *out)
{
    metric_one(out, "holdfast_peer_unseals_total", METRIC_COUNTER,
               "Root keys that this node handed to approved nodes.", atomic_load(&given));
}

static const struct route peer_unseal_routes[] = {
    {.method = METHOD_GET,
     .path = "storage/raft/peer-unseal",
     .handler = members_peer_unseal_read,
     .flags = ROUTE_SUDO,
     .reply = &members_peer_unseal_reply,
     .help = "Whether peer unseal is on, and which nodes are approved."},
    {.method = METHOD_POST,
     .path = "storage/raft/peer-unseal",
     .handler = members_peer_unseal_write,
     .flags = ROUTE_SUDO,
     .body = &members_peer_unseal_schema,
     .help = "Turn peer unseal on or off. Off, which is the default, drops every approval."},
    {.method = METHOD_POST,
     .path = "storage/raft/peer-unseal/approve",
     .handler = members_approve,
     .flags = ROUTE_SUDO,
     .body = &members_approve_schema,
     .reply = &members_approval_reply,
     .help = "Let the active node hand the root key to this node, once, after a start of the node "
             "with peer_unseal in its configuration. Approve no node whose disk may be stolen."},
    {.method = METHOD_POST,
     .path = "storage/raft/peer-unseal/revoke",
     .handler = members_revoke,
     .flags = ROUTE_SUDO,
     .body = &members_revoke_schema,
     .help = "Take back the approval of a node; a node without one is no error."},
    {.method = METHOD_POST,
     .path = PEER_UNSEAL_PATH_BELOW_SYS,
     .handler = members_peer_unseal_key,
     .outside = members_peer_unseal_key_outside,
     .who = WHO_ANYONE,
     .body = &members_ask_schema,
     .reply = &members_asked_reply,
     .help = "For a sealed member that was approved: the root key, sealed for public_key. Served "
             "at the cluster port, to the member itself."},
};

const struct route_table members_peer_unseal_table = {peer_unseal_routes,
                                                      ARRAY_LEN(peer_unseal_routes)};
