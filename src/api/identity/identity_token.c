/* The tokens of an entity. */
#include "api/identity/identity.h"
#include "auth/token_tree.h"

enum { REVOKE_MAX = 1000 }; /* tokens that one request ends */

/* Call `each` for the stored tokens of an id, until `n` is `max`. */
static enum status each_token(struct req *req, const char *id, size_t max, size_t *n,
                              enum status (*each)(struct req *req, const struct auth_token *token,
                                                  void *ctx),
                              void *ctx)
{
    const struct auth_scope scope = req_scope(req);
    struct field_strings ids;
    enum status st = identity_marks(req->txn, req->ns, "entity-token", id, SIZE_MAX, &ids);
    TRY(st);
    for (size_t i = 0; i < ids.n && *n < max; i++) {
        struct auth_token token;
        st = auth_token_load_id(&scope, ids.items[i], &token);
        if (st == ST_NOT_FOUND)
            continue;
        TRY(st);
        TRY(each(req, &token, ctx));
        (*n)++;
    }
    return ST_OK;
}

/* The same for the entity and those that were merged into it. */
static enum status entity_tokens_each_of(struct req *req, size_t max,
                                         enum status (*each)(struct req *req,
                                                             const struct auth_token *token,
                                                             void *ctx),
                                         void *ctx, size_t *ret_n)
{
    struct identity_entity entity;
    *ret_n = 0;
    TRY(identity_entity_find(req->txn, req->ns, req_param(req, "id"), &entity));
    TRY(each_token(req, entity.id, max, ret_n, each, ctx));
    for (size_t i = 0; i < entity.merged.n && *ret_n < max; i++)
        TRY(each_token(req, entity.merged.items[i], max, ret_n, each, ctx));
    return ST_OK;
}

struct accessors {
    const char **items;
    size_t n;
};

static enum status note_accessor(struct req *req, const struct auth_token *token, void *ctx)
{
    struct accessors *a = ctx;
    if (a->n % 64 == 0) {
        const char **more = arena_alloc(req->arena, (a->n + 64) * sizeof *more);
        if (more == NULL)
            return ST_NOMEM;
        if (a->n != 0)
            memcpy(more, a->items, a->n * sizeof *more);
        a->items = more;
    }
    a->items[a->n++] = token->accessor;
    return ST_OK;
}

static enum status tokens_list(struct req *req)
{
    struct accessors a = {.n = 0};
    size_t n;
    TRY(entity_tokens_each_of(req, REQ_DETAILS_MAX, note_accessor, &a, &n));
    if (n == REQ_DETAILS_MAX)
        req_warn(req, "%d tokens at most are listed.", REQ_DETAILS_MAX);
    return req_reply_keys(req, a.items, a.n);
}

static enum status end_token(struct req *req, const struct auth_token *token, void *ctx)
{
    const struct auth_scope scope = req_scope(req);
    (void)ctx;
    return token_tree_end(&scope, token, TOKEN_END_TREE);
}

static enum status tokens_revoke(struct req *req)
{
    size_t n;
    TRY(entity_tokens_each_of(req, REVOKE_MAX, end_token, NULL, &n));
    if (n == REVOKE_MAX)
        req_warn(req,
                 "%d tokens were revoked; there may be more: repeat the request, or disable "
                 "the entity.",
                 REVOKE_MAX);
    return ST_OK;
}

static const struct route token_routes[] = {
    {.method = METHOD_LIST,
     .path = "entity/id/:id/tokens",
     .handler = tokens_list,
     .help = "The accessors of the stored tokens of an entity. Batch tokens are not stored."},
    {.method = METHOD_POST,
     .path = "entity/id/:id/tokens/revoke-all",
     .handler = tokens_revoke,
     .help = "End the stored tokens of an entity, with their descendants. Batch tokens end only "
             "when the entity is disabled or deleted."},
};
const struct route_table identity_token_table = {token_routes, ARRAY_LEN(token_routes)};
