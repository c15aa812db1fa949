/* Sealing, unsealing and the key ring. */
#include "api/sys/seal/sys_shares.h"
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
    FIELD(struct sys_unseal, reset, BOOL, .help = "Forget the shares given so far."),
    FIELD(struct sys_unseal, migrate, BOOL, .help = "Moving to another seal; not available."),
};
static const struct schema sys_unseal_schema = {.fields = unseal_fields,
                                                .n = ARRAY_LEN(unseal_fields),
                                                .size = sizeof(struct sys_unseal),
                                                .fold_case = true};

static const char *seal_name(enum seal_type type)
{
    return type == SEAL_STATIC ? "static" : "shamir";
}

static enum status sys_seal_status(struct req *req)
{
    struct node_seal_status seal;
    struct node_status *node = sys_node(req);
    if (node == NULL)
        return ST_NOMEM;
    req->host->node_ops->seal_status(req->host->node, &seal);
    struct text_writer w = req_reply_begin(req);
    bool open = node->initialized && !node->sealed;
    text_open_object(&w);
    text_member_str(&w, "type", seal_name(seal.type));
    text_member_bool(&w, "initialized", node->initialized);
    text_member_bool(&w, "sealed", !open);
    text_member_int(&w, "t", seal.threshold);
    text_member_int(&w, "n", seal.shares);
    text_member_int(&w, "progress", seal.progress);
    text_member_str(&w, "nonce", seal.nonce);
    text_member_str(&w, "version", req->host->version);
    text_member_str(&w, "build_date", "");
    text_member_bool(&w, "migration", false);
    text_member_bool(&w, "recovery_seal", seal.type == SEAL_STATIC);
    if (node->removed)
        text_member_bool(&w, "removed_from_cluster", true);
    text_member_str(&w, "storage_type", "raft");
    if (open) {
        text_member_str(&w, "cluster_name", node->cluster_name);
        text_member_str(&w, "cluster_id", node->cluster_id);
    }
    text_close(&w);
    return req_reply_end(req);
}

static enum status give_share(struct req *req, const char *text)
{
    uint8_t share[SYS_SHARE_BYTES_MAX];
    size_t n = 0;
    TRY(sys_share_read(req, text, share, &n));
    enum status st = req->host->node_ops->unseal_share(req->host->node, req->env,
                                                       bytes_of(share, n), &req->error);
    mem_wipe(share, sizeof share);
    return st;
}

static enum status sys_unseal(struct req *req)
{
    const struct sys_unseal *in = req_body(req);
    struct node_status *node = sys_node(req);
    if (node == NULL)
        return ST_NOMEM;
    if (!node->initialized)
        return req_fail(req, ST_INVALID, "the cluster is not initialised");
    if (in->migrate)
        return req_fail(req, ST_INVALID, "migrate: seals cannot be exchanged");
    if (in->reset && req->closed_ceremonies)
        return req_fail(
            req, ST_DENIED,
            "reset: this listener has authenticated_ceremonies, and a sealed node knows "
            "no tokens: wrong key shares are forgotten once enough were given");
    if (in->reset) {
        TRY(req->host->node_ops->unseal_reset(req->host->node, &req->error));
        return sys_seal_status(req);
    }
    if (in->key == NULL || in->key[0] == '\0')
        return req_fail(req, ST_INVALID,
                        "'key' must be specified in request body as JSON, or "
                        "'reset' set to true");
    enum status st = give_share(req, in->key);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_BUSY, "this node has not learned the cluster's state yet");
    TRY(st);
    return sys_seal_status(req);
}

/* Of this node alone: the others go on. */
static enum status sys_seal_outside(struct req *req)
{
    req->host->node_ops->seal(req->host->node);
    return ST_OK;
}

static enum status sys_key_status(struct req *req)
{
    struct barrier_ring_info ring;
    TRY(state_ring_info(req->txn, &ring));
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    text_member_int(&w, "term", ring.term);
    text_member_time(&w, "install_time", ring.installed_ms);
    text_key(&w, "encryptions");
    text_put_uint(&w, (uint64_t)MAX((int64_t)ring.uses - ring.unused, INT64_C(0)));
    text_close(&w);
    return req_reply_end(req);
}

#define SEAL_SHAPE                                                                           \
    "{type:str initialized:bool sealed:bool t:int n:int progress:int nonce:str version:str " \
    "build_date:str migration:bool recovery_seal:bool removed_from_cluster?:bool "           \
    "storage_type:str cluster_name?:str "                                                    \
    "cluster_id?:str}"

static const struct route seal_routes[] = {
    {.method = METHOD_GET,
     .path = "seal-status",
     .handler = sys_seal_status,
     .auth = AUTH_NONE,
     .flags = ROUTE_NODE | ROUTE_BARE,
     .shape = SEAL_SHAPE,
     .help = "Whether this node is sealed, and how it unseals."},
    {.method = METHOD_POST,
     .path = "unseal",
     .handler = sys_unseal,
     .auth = AUTH_NONE,
     .flags = ROUTE_NODE | ROUTE_BARE,
     .body = &sys_unseal_schema,
     .shape = SEAL_SHAPE,
     .help = "Give this node one key share, or forget those given. Enough of them unseal it. With "
             "a seal that opens by itself the shares are those of the recovery key, and unseal a "
             "node that was sealed on request."},
    {.method = METHOD_POST,
     .path = "seal",
     .handler = sys_nothing_staged,
     .outside = sys_seal_outside,
     .flags = ROUTE_NODE | ROUTE_SUDO,
     .help = "Seal this node: it forgets every key and serves nothing until it is unsealed. Other "
             "nodes go on."},
    {.method = METHOD_GET,
     .path = "key-status",
     .handler = sys_key_status,
     .flags = ROUTE_TOP_LEVEL | ROUTE_OPERATOR | ROUTE_ACTIVE,
     .shape = "{term:int install_time:str encryptions:int}",
     .help = "The key that values are encrypted with: its term, since when, and how often it was "
             "used; what a node had been granted and not used when it ended counts as used."},
};

const struct route_table sys_seal_table = {seal_routes, ARRAY_LEN(seal_routes)};
