/* The node that is asked, as clients of the upstream product look for it. */
#include "api/registry/registry.h"
#include "auth/registry/registry_settings.h"
#include "front/registry/registry_rights.h"
#include "router/router.h"

#include <stdlib.h>

struct self_config {
    const char *datacenter, *primary, *name, *id, *version, *revision, *built;
    bool server;
};
static const struct field self_config_fields[] = {
    FIELD_NAMED("Datacenter", struct self_config, datacenter, STRING),
    FIELD_NAMED("PrimaryDatacenter", struct self_config, primary, STRING),
    FIELD_NAMED("NodeName", struct self_config, name, STRING),
    FIELD_NAMED("NodeID", struct self_config, id, STRING),
    FIELD_NAMED("Revision", struct self_config, revision, STRING),
    FIELD_NAMED("Server", struct self_config, server, BOOL),
    FIELD_NAMED("Version", struct self_config, version, STRING),
    FIELD_NAMED("BuildDate", struct self_config, built, STRING),
};
static const struct schema self_config_schema = SCHEMA(struct self_config, self_config_fields);

struct self_member {
    const char *name, *address;
    int64_t port, status;
    struct field_map tags;
};
static const struct field self_member_fields[] = {
    FIELD_NAMED("Name", struct self_member, name, STRING),
    FIELD_NAMED("Addr", struct self_member, address, STRING),
    FIELD_NAMED("Port", struct self_member, port, INT),
    FIELD_NAMED("Tags", struct self_member, tags, MAP),
    FIELD_NAMED("Status", struct self_member, status, INT, .help = "1: alive."),
};
static const struct schema self_member_schema = SCHEMA(struct self_member, self_member_fields);

struct self_out {
    const void *config, *member;
    struct field_map stats, meta;
};
static const struct field self_fields[] = {
    FIELD_NAMED("Config", struct self_out, config, OBJECT, .sub = &self_config_schema),
    FIELD_NAMED("Member", struct self_out, member, OBJECT, .sub = &self_member_schema),
    FIELD_NAMED("Stats", struct self_out, stats, MAP),
    FIELD_NAMED("Meta", struct self_out, meta, MAP),
};
static const struct schema self_reply = SCHEMA(struct self_out, self_fields);

/* Find the cluster port of this node, "host:port", and split it. */
static enum status find_address(struct req *req, const char *name, struct self_member *ret)
{
    struct node_peer *peers = arena_alloc(req->arena, RLOG_MEMBERS_MAX * sizeof *peers);
    if (peers == NULL)
        return ST_NOMEM;
    unsigned n = req->host->node_ops->peers(req->host->node, peers);
    ret->address = "";
    for (unsigned i = 0; i < n; i++) {
        const char *colon = strrchr(peers[i].cluster_address, ':');
        if (strcmp(peers[i].name, name) != 0 || colon == NULL)
            continue;
        struct bytes host =
            bytes_of(peers[i].cluster_address, (size_t)(colon - peers[i].cluster_address));
        ret->address = arena_str(req->arena, host);
        ret->port = strtol(colon + 1, NULL, 10);
    }
    return ret->address != NULL ? ST_OK : ST_NOMEM;
}

static enum status agent_self(struct req *req)
{
    const struct registry_settings *settings = registry_settings();
    struct node_status node;
    req->host->node_ops->status(req->host->node, &node);
    const char *pairs[] = {"dc", settings->datacenter, "vsn", req->host->version};
    struct self_member member = {.name = node.name, .status = 1, .tags = {pairs, 2, true}};
    TRY(find_address(req, node.name, &member));
    const struct self_config config = {
        .datacenter = settings->datacenter,
        .primary = settings->datacenter,
        .name = node.name,
        .id = arena_format(req->arena, "00000000-0000-0000-0000-%012llx",
                           (unsigned long long)node.raft.id & 0xffffffffffffULL),
        .version = req->host->version,
        .revision = "",
        .built = "0001-01-01T00:00:00Z",
        .server = true,
    };
    if (config.id == NULL)
        return ST_NOMEM;
    return req_reply(req, &(struct self_out){.config = &config, .member = &member});
}

static const struct registry_row agent_read = {
    .permission = "agent:read", .resource = REGISTRY_AGENT, .level = REGISTRY_READ};

static const struct route agent_routes[] = {
    {.method = METHOD_GET,
     .path = "self",
     .handler = agent_self,
     .of_dialect = &agent_read,
     .place = PLACE_STAYS,
     .reply = &self_reply,
     .help = "The node that serves the request."},
};

const struct route_table registry_agent_table = {agent_routes, ARRAY_LEN(agent_routes)};
