/* Sealing, unsealing and the key ring. */
#include "api/sys/sys.h"
#include "base/mem.h"
#include "state/state_core.h"
#include "text/encode.h"
#include "text/time.h"

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

/* A share is 32 or 33 bytes: hex is tried first, as upstream does. */
static enum status give_share(struct req *req, const char *text)
{
    enum { TEXT_MAX = TEXT_HEX_LEN(33) };
    uint8_t share[TEXT_BASE64_BYTES(TEXT_MAX)];
    struct bytes given = bytes_str(text);
    size_t n = 0;

    bool read = given.len != 0 && given.len <= TEXT_MAX;
    if (read && text_hex_parse(given, share) == ST_OK)
        n = given.len / 2;
    else
        read = read && text_base64_parse(given, share, &n) == ST_OK;
    enum status st = ST_INVALID;
    if (read && (n == 32 || n == 33))
        st = req->host->unseal_share(req->host, req->env, bytes_of(share, n), &req->error);
    else
        reason_set(&req->error, "key: 32 or 33 bytes in hex or base64 are expected");
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
    CLEANUP(buf_done) struct buf since = {0};
    struct barrier_ring_info ring;
    TRY(state_ring_info(req->txn, &ring));
    text_time_put(&since, ring.installed_ms);
    TRY(buf_status(&since));
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    text_member_int(&w, "term", ring.term);
    text_key(&w, "install_time");
    text_put_bytes(&w, buf_bytes(&since));
    text_key(&w, "encryptions");
    text_put_uint(&w, ring.uses);
    text_close(&w);
    return req_reply_end(req);
}
