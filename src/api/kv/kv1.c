#include "api/kv/kv.h"
#include "text/duration.h"

#include <string.h>

/* An object is stored as it is read back: compact JSON with every digit. */

static bool mentions(struct bytes text, const char *quoted)
{
    return memmem(text.data, text.len, quoted, strlen(quoted)) != NULL;
}

/* The hint an object gives in its member `ttl` or else `lease`; no hint is no error. */
static enum status lease_hint(struct req *req, struct bytes object, int64_t *ret_s)
{
    const struct text_value *v;
    int64_t ns;
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
    return ST_OK;
}

static enum status kv_read(struct req *req)
{
    struct bytes key;
    struct state_value stored;
    TRY(kv_secret_key(req, &key));
    TRY(state_get(req->txn, key, &stored));
    TRY(lease_hint(req, stored.value, &req->reply.lease_duration_s));
    req_reply_json(req, stored.value);
    return ST_OK;
}

static enum status kv_write(struct req *req)
{
    CLEANUP(buf_done) struct buf object = {0};
    struct text_writer w = {.out = &object, .plain = true};
    struct bytes key;
    TRY(kv_secret_key(req, &key));
    if (req->data->n == 0)
        return req_fail(req, ST_INVALID, "missing data fields");
    text_put_value(&w, req->data);
    TRY(buf_status(&object));
    if (object.len > STATE_VALUE_MAX)
        return req_fail(req, ST_TOO_BIG, "the value is longer than %d bytes", STATE_VALUE_MAX);
    return state_put(req->txn, key, buf_bytes(&object));
}

static enum status kv_delete(struct req *req)
{
    struct bytes key;
    TRY(kv_secret_key(req, &key));
    return state_delete(req->txn, key);
}

static const struct route kv_routes[] = {
    {.method = METHOD_GET,
     .path = "*path",
     .handler = kv_read,
     .shape = "obj",
     .help = "Read the object at a path. lease_duration is its member `ttl` or `lease`, a hint."},
    {.method = METHOD_LIST,
     .path = "*path",
     .handler = kv_list,
     .help = "List the names in a folder; folders end with '/'. The query may say `after`, a name "
             "to start behind, and `limit`."},
    {.method = METHOD_POST,
     .path = "*path",
     .handler = kv_write,
     .exists = kv_exists,
     .flags = ROUTE_FREE_BODY,
     .help = "Write an object, in place of the one that was there."},
    {.method = METHOD_DELETE,
     .path = "*path",
     .handler = kv_delete,
     .help = "Delete the object at a path; none is fine too."},
};

const struct route_api kv_api = {
    .type = "kv", .version = "1", .routes = kv_routes, .n = ARRAY_LEN(kv_routes)};
