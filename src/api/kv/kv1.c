/* Version 1: one JSON object at each path, and its route table. */
#include "api/kv/kv.h"
#include "text/duration.h"

#include <string.h>

static bool mentions(struct bytes text, const char *quoted)
{
    return memmem(text.data, text.len, quoted, strlen(quoted)) != NULL;
}

/* The lease duration of a read: the object's member `ttl`, else its member `lease`, else the
 * default of the mount. A member that is not a duration is ignored. */
static enum status lease_hint(struct req *req, struct bytes object, int64_t *ret_s)
{
    const struct text_value *v;
    int64_t ns = 0;
    *ret_s = req->mount->default_lease_ttl_s != 0 ? req->mount->default_lease_ttl_s : KV_LEASE_S;
    if (!mentions(object, "\"ttl\"") && !mentions(object, "\"lease\""))
        return ST_OK;
    enum status st = text_json_parse(req->arena, object, &v, NULL);
    if (st != ST_OK)
        return st == ST_NOMEM ? st : ST_CORRUPT;
    const struct text_value *ttl = text_get(v, "ttl");
    if (ttl == NULL)
        ttl = text_get(v, "lease");
    bool text = ttl != NULL && (ttl->kind == TEXT_STRING || ttl->kind == TEXT_NUMBER);
    if (text && text_duration_parse(ttl->text, &ns) == ST_OK)
        *ret_s = ns / 1000000000;
    ASSERT(ns >= 0);
    return ST_OK;
}

static enum status kv_read(struct req *req)
{
    struct bytes key;
    struct state_value stored;
    TRY(kv_key(req, &key));
    TRY(state_get(req->txn, key, &stored));
    TRY(lease_hint(req, stored.value, &req->reply.lease_duration_s));
    req_reply_json(req, stored.value);
    return ST_OK;
}

static enum status kv_write(struct req *req)
{
    struct bytes key;
    TRY(kv_key(req, &key));
    return req_put_object(req, key);
}

static enum status kv_delete(struct req *req)
{
    struct bytes key;
    TRY(kv_key(req, &key));
    return state_delete(req->txn, key);
}

static const struct route kv_routes[] = {
    {.method = METHOD_GET,
     .path = "+path",
     .handler = kv_read,
     .shape = "obj", /* the client's own */
     .help = "Read the object at a path. lease_duration is a hint from the object's member `ttl` "
             "or `lease`."},
    {.method = METHOD_LIST,
     .path = "*path",
     .handler = kv_list,
     .flags = ROUTE_SCANS,
     .help = "List the names in a folder; folders end with '/'. Query: `after`, the name to start "
             "after, and `limit`. SCAN lists everything below the folder."},
    {.method = METHOD_POST,
     .path = "+path",
     .handler = kv_write,
     .exists = kv_exists,
     .input = INPUT_FREE,
     .help = "Write an object at a path. The new object replaces the old one."},
    {.method = METHOD_DELETE,
     .path = "+path",
     .handler = kv_delete,
     .help = "Delete the object at a path; no object is no error."},
};

const struct route_api kv_api = {
    .type = "kv", .version = "1", .routes = kv_routes, .n = ARRAY_LEN(kv_routes)};

/* Version 1 under its old name: mounts show the type that the client gave. */
const struct route_api kv_generic_api = {
    .type = "generic", .routes = kv_routes, .n = ARRAY_LEN(kv_routes)};
