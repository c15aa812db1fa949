/* The cubbyhole: a private tree of objects for each service token; the module. */
#include "api/cubbyhole/cubbyhole.h"
#include "auth/token_store.h"
#include "router/request/req.h"
#include "state/ns_key.h"

/* s/ns/ID/cubby/TOKEN/PATH: ending the token deletes its prefix. */
#define CUBBY_KIND "cubby"

static enum status tree_key(struct req *req, struct bytes *ret_key)
{
    const struct auth_token *token = req->token;
    ASSERT(token != NULL);
    if (strcmp(token->type, "service") != 0)
        return req_fail(req, ST_INVALID,
                        "cubbyhole operations are only supported by \"service\" type tokens");
    ASSERT(token->id[0] != '\0');
    return state_ns_key(req->arena, req->ns, CUBBY_KIND, bytes_str(token->id),
                        req_param(req, "path"), ret_key);
}

static enum status cubby_exists(struct req *req)
{
    struct bytes key;
    TRY(tree_key(req, &key));
    return state_exists(req->txn, key);
}

static enum status cubby_read(struct req *req)
{
    struct bytes key;
    struct state_value stored;
    TRY(tree_key(req, &key));
    TRY(state_get(req->txn, key, &stored));
    req_reply_json(req, stored.value);
    return ST_OK;
}

static enum status cubby_write(struct req *req)
{
    struct bytes key;
    const struct auth_scope scope = req_scope(req);
    TRY(tree_key(req, &key));
    TRY(token_store_keep(&scope, req->token->id));
    return req_put_object(req, key);
}

static enum status cubby_delete(struct req *req)
{
    struct bytes key;
    TRY(tree_key(req, &key));
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
     .path = "+path",
     .handler = cubby_read,
     .shape = "obj", /* the client's own */
     .help = "Read the object at a path of the token's own tree."},
    {.method = METHOD_LIST,
     .path = "*path",
     .handler = cubby_list,
     .flags = ROUTE_SCANS,
     .help =
         "List the names in a folder of the token's own tree; folders end with '/'. Query: "
         "`after`, the name to start after, and `limit`. SCAN lists everything below the folder."},
    {.method = METHOD_POST,
     .path = "+path",
     .handler = cubby_write,
     .exists = cubby_exists,
     .input = INPUT_FREE,
     .help = "Write an object in the token's own tree. The new object replaces the old one."},
    {.method = METHOD_DELETE,
     .path = "+path",
     .handler = cubby_delete,
     .help = "Delete the object at a path of the token's own tree; no object is no error."},
};

static const struct route_api cubbyhole_api = {
    .type = "cubbyhole", .single = true, .routes = cubby_routes, .n = ARRAY_LEN(cubby_routes)};

static const struct route_api *const cubby_apis[] = {&cubbyhole_api};

static const struct module_mount cubby_mounts[] = {
    {.mount = {.path = "cubbyhole/",
               .type = "cubbyhole",
               .description = "per-token private secret storage",
               .local = true}},
};

static const char *const cubby_reserved[] = {"cubbyhole"};

const struct module cubbyhole_module = {.name = "cubbyhole",
                                        .apis = cubby_apis,
                                        .n_apis = ARRAY_LEN(cubby_apis),
                                        .mounts = cubby_mounts,
                                        .n_mounts = ARRAY_LEN(cubby_mounts),
                                        .reserved = cubby_reserved,
                                        .n_reserved = ARRAY_LEN(cubby_reserved)};
