/* Sealing, unsealing and the key ring. */
#include "api/sys/seal/sys_shares.h"
#include "api/sys/replication/sys_dr.h"
#include "api/sys/sys.h"
#include "base/mem.h"
#include "state/state_core.h"

struct sys_unseal {
    const char *key;
    bool reset, migrate;
};

static const struct field unseal_fields[] = {
    FIELD(struct sys_unseal, key, STRING, .hidden = true,
          .help = "One key share, in hex or base64."),
    FIELD(struct sys_unseal, reset, BOOL, .help = "Forget the shares that were given so far."),
    FIELD(struct sys_unseal, migrate, BOOL,
          .help = "Move the cluster to the seal that this node is configured for. Then the "
                  "shares are of the seal to move away from."),
};
static const struct schema sys_unseal_schema = {.fields = unseal_fields,
                                                .n = ARRAY_LEN(unseal_fields),
                                                .size = sizeof(struct sys_unseal),
                                                .fold_case = true};

static const char *seal_name(enum seal_type type)
{
    return type == SEAL_STATIC ? "static" : "shamir";
}

struct seal_out {
    const char *type, *nonce, *version, *build_date, *storage_type, *cluster_name, *cluster_id;
    bool initialized, sealed, migration, recovery_seal, removed_from_cluster, open;
    int64_t t, n, progress;
    struct field_strings warnings;
};
static const struct field seal_out_fields[] = {
    FIELD(struct seal_out, type, STRING),
    FIELD(struct seal_out, initialized, BOOL),
    FIELD(struct seal_out, sealed, BOOL),
    FIELD(struct seal_out, t, INT),
    FIELD(struct seal_out, n, INT),
    FIELD(struct seal_out, progress, INT),
    FIELD(struct seal_out, nonce, STRING),
    FIELD(struct seal_out, version, STRING),
    FIELD(struct seal_out, build_date, STRING),
    FIELD(struct seal_out, migration, BOOL),
    FIELD(struct seal_out, recovery_seal, BOOL),
    FIELD(struct seal_out, removed_from_cluster, BOOL, .omit = true),
    FIELD(struct seal_out, storage_type, STRING),
    FIELD(struct seal_out, warnings, STRINGS, .omit = true),
    FIELD(struct seal_out, cluster_name, STRING, .omit = true,
          .has = offsetof(struct seal_out, open)),
    FIELD(struct seal_out, cluster_id, STRING, .omit = true,
          .has = offsetof(struct seal_out, open)),
};
static const struct schema sys_seal_reply = SCHEMA(struct seal_out, seal_out_fields);

static enum status sys_seal_status(struct req *req)
{
    struct node_seal_status seal;
    struct node_status *node = sys_node(req);
    ASSERT(!req_in_txn(req)); /* a sealed node replies too */
    if (node == NULL)
        return ST_NOMEM;
    req->host->node_ops->seal_status(req->host->node, &seal);
    bool open = node->initialized && !node->sealed;
    const char *why = seal.why.text;
    const struct seal_out out = {
        .type = seal_name(seal.type),
        .initialized = node->initialized,
        .sealed = !open,
        .t = seal.threshold,
        .n = seal.shares,
        .progress = seal.progress,
        .nonce = seal.nonce,
        .version = req->host->version,
        .build_date = "",
        .migration = seal.migration,
        .recovery_seal = seal.type == SEAL_STATIC,
        .removed_from_cluster = node->removed,
        .storage_type = "raft",
        .open = open,
        .cluster_name = node->cluster_name,
        .cluster_id = node->cluster_id,
        .warnings = {.items = &why, .n = why[0] != '\0'},
    };
    return req_reply(req, &out);
}

static enum status give_share(struct req *req, const char *text, bool migrate)
{
    uint8_t share[SYS_SHARE_BYTES_MAX];
    size_t n = 0;
    ASSERT(!req_in_txn(req));
    TRY(sys_share_read(req, text, share, &n));
    enum status st = req->host->node_ops->unseal_share(
        req->host->node, req->env, bytes_of(share, n), migrate, req_reason(req));
    mem_wipe(share, sizeof share);
    return st;
}

static enum status sys_unseal(struct req *req)
{
    const struct sys_unseal *in = req_body(req);
    struct node_status *node = sys_node(req);
    ASSERT(!req_in_txn(req));
    if (node == NULL)
        return ST_NOMEM;
    if (!node->initialized)
        return req_fail(req, ST_INVALID, "the cluster is not initialised");
    if (in->reset && req->closed_ceremonies)
        return req_fail(
            req, ST_DENIED,
            "reset: this listener has authenticated_ceremonies, and a sealed node knows "
            "no tokens: wrong key shares are forgotten once enough were given");
    if (in->reset) {
        TRY(req->host->node_ops->unseal_reset(req->host->node, req_reason(req)));
        return sys_seal_status(req);
    }
    if (in->key == NULL || in->key[0] == '\0')
        return req_fail(req, ST_INVALID,
                        "'key' must be specified in request body as JSON, or "
                        "'reset' set to true");
    enum status st = give_share(req, in->key, in->migrate);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_BUSY, "this node has not learned the cluster's state yet");
    TRY(st);
    return sys_seal_status(req);
}

/* Seal this node alone: the other nodes go on. */
static enum status sys_seal_outside(struct req *req)
{
    ASSERT(!req_in_txn(req));
    req->host->node_ops->seal(req->host->node);
    return ST_OK;
}

struct key_out {
    int64_t term, install_time, encryptions;
};
static const struct field key_fields[] = {
    FIELD(struct key_out, term, INT),
    FIELD(struct key_out, install_time, TIME),
    FIELD(struct key_out, encryptions, INT),
};
static const struct schema sys_key_reply = SCHEMA(struct key_out, key_fields);

static enum status sys_key_status(struct req *req)
{
    struct barrier_ring_info ring;
    TRY(state_ring_info(req->txn, &ring));
    int64_t used = MAX((int64_t)ring.uses - ring.unused, INT64_C(0));
    return req_reply(req, &(struct key_out){ring.term, ring.installed_ms, used});
}

static const struct route seal_routes[] = {
    {.method = METHOD_GET,
     .path = "seal-status",
     .handler = sys_seal_status,
     .auth = AUTH_NONE,
     .flags = ROUTE_NODE | ROUTE_UNRECORDED | ROUTE_BARE,
     .reply = &sys_seal_reply,
     .help = "Whether this node is sealed, and how it unseals."},
    {.method = METHOD_POST,
     .path = "unseal",
     .handler = sys_unseal,
     .auth = AUTH_NONE,
     .flags = ROUTE_NODE | ROUTE_BARE,
     .body = &sys_unseal_schema,
     .reply = &sys_seal_reply,
     .help =
         "Give this node one key share, or forget the given shares. Enough shares unseal the "
         "node. With a seal that opens by itself, shares of the recovery key unseal a node "
         "that was sealed on request. With `migrate`, the cluster also moves to the seal that this "
         "node is configured for, once this node is active."},
    {.method = METHOD_POST,
     .path = "seal",
     .handler = sys_nothing_staged,
     .outside = sys_seal_outside,
     .flags = ROUTE_NODE | ROUTE_SUDO | ROUTE_DR_TOKEN,
     .body = &sys_dr_authority_schema,
     .help = "Seal this node: the node forgets every key and serves nothing until it is unsealed. "
             "Other nodes go on."},
    {.method = METHOD_GET,
     .path = "key-status",
     .handler = sys_key_status,
     .flags = ROUTE_TOP_LEVEL | ROUTE_OPERATOR | ROUTE_ACTIVE,
     .reply = &sys_key_reply,
     .help = "The key that encrypts values: its term, when it was installed, and how often it was "
             "used. Uses that a node was granted and did not spend before it ended count."},
};

const struct route_table sys_seal_table = {seal_routes, ARRAY_LEN(seal_routes)};
