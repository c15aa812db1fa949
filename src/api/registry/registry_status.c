/* The leader and the members of the cluster, as this node knows them. */
#include "api/registry/registry.h"
#include "router/req_node.h"
#include "router/router.h"

struct leader_out {
    const char *address;
};
static const struct field leader_fields[] = {FIELD_ITSELF(struct leader_out, address, STRING)};
static const struct schema leader_reply = SCHEMA_ITSELF(struct leader_out, leader_fields);

/* A sealed node refuses these as it refuses the rest of the registry. */
static enum status read_node(struct req *req, struct node_status **ret_node)
{
    struct node_status *node = req_node(req);
    ASSERT(!req_in_txn(req));
    if (node == NULL)
        return ST_NOMEM;
    *ret_node = node;
    return node->initialized && !node->sealed ? ST_OK : ST_SEALED;
}

static enum status status_leader(struct req *req)
{
    struct node_status *node;
    TRY(read_node(req, &node));
    return req_reply(req, &(struct leader_out){node->leader_cluster});
}

struct member_list {
    struct field_strings addresses;
};
static const struct field peers_fields[] = {FIELD_ITSELF(struct member_list, addresses, STRINGS)};
static const struct schema peers_reply = SCHEMA_ITSELF(struct member_list, peers_fields);

static enum status status_peers(struct req *req)
{
    struct node_status *node;
    TRY(read_node(req, &node));
    struct node_peer *peers = arena_alloc(req->arena, RLOG_MEMBERS_MAX * sizeof *peers);
    const char **addresses = arena_alloc(req->arena, RLOG_MEMBERS_MAX * sizeof *addresses);
    if (peers == NULL || addresses == NULL)
        return ST_NOMEM;
    unsigned n = req->host->node_ops->peers(req->host->node, peers);
    ASSERT(n <= RLOG_MEMBERS_MAX);
    for (unsigned i = 0; i < n; i++)
        addresses[i] = peers[i].cluster_address;
    return req_reply(req, &(struct member_list){.addresses = {addresses, n, true}});
}

static const struct route status_routes[] = {
    {.method = METHOD_GET,
     .path = "leader",
     .handler = status_leader,
     .who = WHO_ANYONE,
     .place = PLACE_NODE,
     .reply = &leader_reply,
     .help = "The cluster port of the leader; empty: this node knows none. Sealed: 503."},
    {.method = METHOD_GET,
     .path = "peers",
     .handler = status_peers,
     .who = WHO_ANYONE,
     .place = PLACE_NODE,
     .reply = &peers_reply,
     .help = "The cluster ports of all members. Sealed: 503."},
};

const struct route_table registry_status_table = {status_routes, ARRAY_LEN(status_routes)};
