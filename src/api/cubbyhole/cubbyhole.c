#include "api/cubbyhole/cubbyhole.h"
#include "auth/namespace.h"
#include "router/req.h"

/* s/ns/ID/cubby/TOKEN/PATH: whoever ends the token deletes that prefix. An object is stored as it
 * is read back: compact JSON with every digit. */
#define CUBBY_KIND "cubby"

static enum status tree_key(struct req *req, struct bytes *ret_key)
{
    const struct auth_token *token = req->token;
    ASSERT(token != NULL);
    if (strcmp(token->type, "service") != 0)
        return req_fail(req, ST_INVALID,
                        "cubbyhole operations are only supported by \"service\" type tokens");
    ASSERT(token->id[0] != '\0');
    return auth_key(req->arena, req->ns, CUBBY_KIND, bytes_str(token->id), req_param(req, "path"),
                    ret_key);
}

static enum status object_key(struct req *req, struct bytes *ret_key)
{
    if (req_param(req, "path")[0] == '\0')
        return req_fail(req, ST_UNSUPPORTED, "1 error occurred:\n\t* unsupported operation\n\n");
    return tree_key(req, ret_key);
}

static enum status cubby_exists(struct req *req)
{
    struct bytes key;
    TRY(object_key(req, &key));
    return state_exists(req->txn, key);
}

static enum status cubby_read(struct req *req)
{
    struct bytes key;
    struct state_value stored;
    TRY(object_key(req, &key));
    TRY(state_get(req->txn, key, &stored));
    req_reply_json(req, stored.value);
    return ST_OK;
}

static enum status cubby_write(struct req *req)
{
    CLEANUP(buf_done) struct buf object = {0};
    struct text_writer w = {.out = &object, .plain = true};
    struct bytes key;
    TRY(object_key(req, &key));
    if (req->data->n == 0)
        return req_fail(req, ST_INVALID, "missing data fields");
    text_put_value(&w, req->data);
    TRY(buf_status(&object));
    if (object.len > STATE_VALUE_MAX)
        return req_fail(req, ST_TOO_BIG, "the value is longer than %d bytes", STATE_VALUE_MAX);
    return state_put(req->txn, key, buf_bytes(&object));
}

static enum status cubby_delete(struct req *req)
{
    struct bytes key;
    TRY(object_key(req, &key));
    return state_delete(req->txn, key);
}

static enum status cubby_list(struct req *req)
{
    struct bytes prefix;
    TRY(tree_key(req, &prefix));
    return req_reply_listing(req, prefix);
}

static const struct route cubby_routes[] = {
    {.method = METHOD_GET,
     .path = "*path",
     .handler = cubby_read,
     .shape = "obj",
     .help = "Read the object at a path of the token's own tree."},
    {.method = METHOD_LIST,
     .path = "*path",
     .handler = cubby_list,
     .help = "List the names in a folder of the token's own tree; folders end with '/'. The query "
             "may say `after`, a name to start behind, and `limit`."},
    {.method = METHOD_POST,
     .path = "*path",
     .handler = cubby_write,
     .exists = cubby_exists,
     .flags = ROUTE_FREE_BODY,
     .help = "Write an object in the token's own tree, in place of the one that was there."},
    {.method = METHOD_DELETE,
     .path = "*path",
     .handler = cubby_delete,
     .help = "Delete the object at a path of the token's own tree; none is fine too."},
};

const struct route_api cubbyhole_api = {
    .type = "cubbyhole", .single = true, .routes = cubby_routes, .n = ARRAY_LEN(cubby_routes)};
