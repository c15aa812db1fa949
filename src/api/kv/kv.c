/* Shared by both versions: the key of a secret, whether a secret exists, listings. */
#include "api/kv/kv.h"

enum status kv_key(const struct req *req, struct bytes *ret_key)
{
    const char *name = arena_concat(req->arena, "k/", req_param(req, "path"));
    return name != NULL ? req_key(req, name, ret_key) : ST_NOMEM;
}

enum status kv_exists(struct req *req)
{
    struct bytes key;
    TRY(kv_key(req, &key));
    return state_exists(req->txn, key);
}

enum status kv_list(struct req *req)
{
    struct bytes prefix;
    TRY(kv_key(req, &prefix));
    return req_reply_listing(req, prefix);
}
