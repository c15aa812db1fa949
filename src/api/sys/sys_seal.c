/* Sealing, unsealing and the key ring. */
#include "api/sys/sys.h"
#include "api/sys/sys_shares.h"
#include "base/mem.h"
#include "state/state_core.h"

static const struct field unseal_fields[] = {
    FIELD(struct sys_unseal, key, STRING, .hidden = true,
          .help = "One key share, in hex or base64."),
    FIELD(struct sys_unseal, reset, BOOL, .help = "Forget the shares given so far."),
    FIELD(struct sys_unseal, migrate, BOOL, .help = "Moving to another seal; not available."),
};
const struct schema sys_unseal_schema = {.fields = unseal_fields,
                                         .n = ARRAY_LEN(unseal_fields),
                                         .size = sizeof(struct sys_unseal),
                                         .fold_case = true};

static const char *seal_name(enum seal_type type)
{
    return type == SEAL_STATIC ? "static" : "shamir";
}

enum status sys_seal_status(struct req *req)
{
    struct node_seal_status seal;
    struct node_status *node = sys_node(req);
    if (node == NULL)
        return ST_NOMEM;
    req->host->seal_status(req->host, &seal);
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
    enum status st = req->host->unseal_share(req->host, req->env, bytes_of(share, n), &req->error);
    mem_wipe(share, sizeof share);
    return st;
}

enum status sys_unseal(struct req *req)
{
    const struct sys_unseal *in = req_body(req);
    struct node_status *node = sys_node(req);
    if (node == NULL)
        return ST_NOMEM;
    if (!node->initialized)
        return req_fail(req, ST_INVALID, "the cluster is not initialised");
    if (in->migrate)
        return req_fail(req, ST_INVALID, "migrate: seals cannot be exchanged");
    if (in->reset) {
        TRY(req->host->unseal_reset(req->host, &req->error));
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
enum status sys_seal_outside(struct req *req)
{
    req->host->seal_node(req->host);
    return ST_OK;
}

enum status sys_rotate(struct req *req)
{
    enum status st = state_rotate(req->txn, req->now_ms);
    if (st == ST_NO_SPACE)
        return req_fail(req, st, "the key ring holds as many keys as it can (%d)",
                        BARRIER_TERMS_MAX);
    return st;
}

enum status sys_key_status(struct req *req)
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
