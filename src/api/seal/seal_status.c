/* Sealing, unsealing and the key ring. */
#include "api/seal/seal.h"
#include "api/seal/seal_shares.h"
#include "base/mem.h"
#include "router/req_dr.h"
#include "state/state_core.h"

/* The share itself is good: it may be given again. */
#define NOT_LEARNED "this node has not learned the cluster's state yet; give the share again"

struct seal_unseal {
    const char *key;
    bool reset, migrate;
};

static const struct field unseal_fields[] = {
    FIELD(struct seal_unseal, key, STRING, .hidden = true,
          .help = "One key share, in hex or base64."),
    FIELD(struct seal_unseal, reset, BOOL, .help = "Forget the shares that were given so far."),
    FIELD(struct seal_unseal, migrate, BOOL,
          .help = "Move the cluster to the seal that this node is configured for. Then the "
                  "shares are of the seal to move away from."),
};
static const struct schema seal_unseal_schema = {.fields = unseal_fields,
                                                 .n = ARRAY_LEN(unseal_fields),
                                                 .size = sizeof(struct seal_unseal),
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
static const struct schema seal_reply = SCHEMA(struct seal_out, seal_out_fields);

static enum status seal_status_read(struct req *req)
{
    struct node_seal_status seal;
    struct node_status *node = req_node(req);
    ASSERT(!req_in_txn(req)); /* a sealed node replies too */
    if (node == NULL)
        return ST_NOMEM;
    req->host->node_ops->seal_status(req->host->node, &seal);
    if (req_node_starts(req, node) || (node->initialized && !seal.known))
        req_await(req);
    bool open = node->initialized && !node->sealed;
    struct reason lost = {{0}};
    const char *warnings[2];
    size_t n = 0;
    if (seal.why.text[0] != '\0')
        warnings[n++] = seal.why.text;
    if (req->host->node_ops->no_quorum(req->host->node, &lost))
        warnings[n++] = lost.text;
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
        .warnings = {.items = warnings, .n = n},
    };
    return req_reply(req, &out);
}

static enum status give_share(struct req *req, const char *text, bool migrate)
{
    uint8_t share[SYS_SHARE_BYTES_MAX];
    size_t n = 0;
    ASSERT(!req_in_txn(req));
    TRY(seal_share_read(req, text, share, &n));
    enum status st = req->host->node_ops->unseal_share(
        req->host->node, req->env, bytes_of(share, n), migrate, req_reason(req));
    mem_wipe(share, sizeof share);
    return st;
}

static enum status reset_shares(struct req *req)
{
    struct node_seal_status seal;
    const struct ip client = ip_port_ip(req->peer != NULL ? req->peer : "");
    ASSERT(!req_in_txn(req));
    req->host->node_ops->seal_status(req->host->node, &seal);
    if (seal.progress != 0 &&
        !throttle_may_forget(&req->host->ceremonies, &client, env_mono_ms(req->env)))
        return req_fail(
            req, ST_DENIED,
            "reset: another address gave the first share. It may reset; any address may "
            "when no share has come for %d minutes. Wrong shares are forgotten once "
            "enough were given",
            THROTTLE_SHARES_MS / 60000);
    TRY(req->host->node_ops->unseal_reset(req->host->node, req_reason(req)));
    return seal_status_read(req);
}

static enum status seal_unseal(struct req *req)
{
    const struct seal_unseal *in = req_body(req);
    struct node_status *node = req_node(req);
    ASSERT(!req_in_txn(req));
    if (node == NULL)
        return ST_NOMEM;
    if (req_node_starts(req, node)) {
        req_await(req);
        return req_fail(req, ST_BUSY, NOT_LEARNED);
    }
    if (!node->initialized)
        return req_fail(req, ST_INVALID, "the cluster is not initialised");
    if (in->reset && req->closed_ceremonies)
        return req_fail(
            req, ST_DENIED,
            "reset: this listener has authenticated_ceremonies, and a sealed node knows "
            "no tokens: wrong key shares are forgotten once enough were given");
    if (in->reset)
        return reset_shares(req);
    if (in->key == NULL || in->key[0] == '\0')
        return req_fail(req, ST_INVALID,
                        "'key' must be specified in request body as JSON, or "
                        "'reset' set to true");
    struct node_seal_status before;
    req->host->node_ops->seal_status(req->host->node, &before);
    enum status st = give_share(req, in->key, in->migrate);
    if (st == ST_NOT_FOUND) {
        req_await(req);
        return req_fail(req, ST_BUSY, NOT_LEARNED);
    }
    TRY(st);
    const struct ip client = ip_port_ip(req->peer != NULL ? req->peer : "");
    throttle_keep_shares(&req->host->ceremonies, &client, before.progress == 0,
                         env_mono_ms(req->env));
    return seal_status_read(req);
}

/* Seal this node alone: the other nodes go on. */
static enum status seal_outside(struct req *req)
{
    ASSERT(!req_in_txn(req));
    req->host->node_ops->seal(req->host->node);
    return ST_OK;
}

struct rewrap_out {
    const char *key_id, *previous_key_id;
};
static const struct field rewrap_fields[] = {
    FIELD(struct rewrap_out, key_id, STRING),
    FIELD(struct rewrap_out, previous_key_id, STRING),
};
static const struct schema seal_rewrap_reply = SCHEMA(struct rewrap_out, rewrap_fields);

/* Change the cluster to the seal key of this node, from its previous key. The node makes this
 * request itself when every member is configured for the key (server/reseal.c). */
static enum status seal_rewrap(struct req *req)
{
    const struct seal *own = req->host->seal;
    const struct node_status *node = req_node(req);
    struct seal_info info;
    ASSERT(req_in_txn(req));
    if (node == NULL)
        return ST_NOMEM;
    if (req->member == NULL || strcmp(req->member, node->name) != 0)
        return req_fail(req, ST_DENIED,
                        "the active node makes this request itself, when every member is "
                        "configured for the new key (previous_key_file)");
    TRY(state_seal_read(req->txn, &info));
    if (own == NULL || own->previous == NULL || info.type != SEAL_STATIC ||
        strcmp(info.id, own->previous->id) != 0)
        return req_fail(req, ST_INVALID, "the cluster is not under the previous key of this node");
    TRY(state_rewrap(req->txn, own));
    req->told = arena_format(
        req->arena, "the seal key '%s' wraps the root key now, in place of '%s'", own->id, info.id);
    return req_reply(req, &(struct rewrap_out){own->id, own->previous->id});
}

struct key_out {
    int64_t term, install_time, encryptions;
};
static const struct field key_fields[] = {
    FIELD(struct key_out, term, INT),
    FIELD(struct key_out, install_time, TIME),
    FIELD(struct key_out, encryptions, INT),
};
static const struct schema seal_key_reply = SCHEMA(struct key_out, key_fields);

static enum status seal_key_status(struct req *req)
{
    struct barrier_ring_info ring;
    TRY(state_ring_info(req->txn, &ring));
    int64_t used = MAX((int64_t)ring.uses - ring.unused, INT64_C(0));
    return req_reply(req, &(struct key_out){ring.term, ring.installed_ms, used});
}

static const struct route seal_routes[] = {
    {.method = METHOD_GET,
     .path = "seal-status",
     .handler = seal_status_read,
     .who = WHO_ANYONE,
     .place = PLACE_NODE,
     .when = WHEN_UNINITIALIZED,
     .form = FORM_BARE,
     .flags = ROUTE_UNRECORDED,
     .reply = &seal_reply,
     .help = "Whether this node is sealed, and how it unseals."},
    {.method = METHOD_POST,
     .path = "unseal",
     .handler = seal_unseal,
     .who = WHO_ANYONE,
     .place = PLACE_NODE,
     .form = FORM_BARE,
     .body = &seal_unseal_schema,
     .reply = &seal_reply,
     .help =
         "Give this node one key share, or forget the given shares. Enough shares unseal the "
         "node. With a seal that opens by itself, shares of the recovery key unseal a node "
         "that was sealed on request. With `migrate`, the cluster also moves to the seal that this "
         "node is configured for, once this node is active."},
    {.method = METHOD_POST,
     .path = "seal",
     .handler = req_nothing_staged,
     .outside = seal_outside,
     .place = PLACE_NODE,
     .who = WHO_DR_TOKEN,
     .flags = ROUTE_SUDO,
     .body = &req_dr_authority_schema,
     .help = "Seal this node: the node forgets every key and serves nothing until it is unsealed. "
             "Other nodes go on."},
    {.method = METHOD_POST,
     .path = "seal/rewrap",
     .handler = seal_rewrap,
     .who = WHO_ANYONE,
     .when = WHEN_MAINTENANCE | WHEN_SECONDARY,
     .reply = &seal_rewrap_reply,
     .help =
         "For the active node itself: wrap the root key by the seal key of its configuration, in "
         "place of the previous key. The node does so when every member is configured for that "
         "key."},
    {.method = METHOD_GET,
     .path = "key-status",
     .handler = seal_key_status,
     .place = PLACE_ACTIVE,
     .when = WHEN_MAINTENANCE,
     .form = FORM_TOP_LEVEL,
     .reply = &seal_key_reply,
     .help = "The key that encrypts values: its term, when it was installed, and how often it was "
             "used. Uses that a node was granted and did not spend before it ended count."},
};

const struct route_table seal_status_table = {seal_routes, ARRAY_LEN(seal_routes)};
