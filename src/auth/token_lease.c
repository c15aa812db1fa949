#include "auth/token_lease.h"
#include "auth/token.h"
#include "auth/token_tree.h"

static struct auth_scope scope_of(const struct lease_scope *s)
{
    return (struct auth_scope){
        .txn = s->txn, .cipher = s->txn->cipher, .ns = s->ns, .now_ms = s->now_ms};
}

static const struct auth_token *token_of(const struct lease *lease)
{
    const struct auth_token *token = lease->thing;
    ASSERT(lease->kind == &token_lease_kind);
    ASSERT(token->expire_ms == lease->expire_ms);
    return token;
}

static enum status token_lease_find(const struct lease_scope *s, struct lease *lease)
{
    const struct auth_scope scope = scope_of(s);
    const char *slash = strrchr(lease->id, '/');
    struct auth_token *token = arena_alloc(s->txn->arena, sizeof *token);

    if (token == NULL)
        return ST_NOMEM;
    if (slash == NULL || strlen(slash + 1) != AUTH_TOKEN_ID_LEN)
        return ST_NOT_FOUND;
    TRY(token_store_load(&scope, slash + 1, token));
    const char *its = lease_id(s->txn->arena, token->path, token->id);
    if (its == NULL)
        return ST_NOMEM;
    if (token->kind != TOKEN_SECRETS) /* the index does not name tokens of other kinds */
        return ST_NOT_FOUND;
    if (token->expire_ms == 0 || strcmp(its, lease->id) != 0)
        return ST_NOT_FOUND;
    lease->issued_ms = token->created_ms;
    lease->expire_ms = token->expire_ms;
    lease->renewed_ms = token->renewed_ms;
    lease->renewable = token->renewable;
    lease->thing = token;
    return ST_OK;
}

static enum status token_lease_renew(const struct lease_scope *s, struct lease *lease,
                                     struct lease_ttl *ttl, struct reason *why)
{
    (void)s; /* every kind of lease has this signature */
    (void)lease;
    (void)ttl;
    reason_set(why, "tokens cannot be renewed through this endpoint: use auth/token/renew");
    return ST_INVALID;
}

static enum status token_lease_end(const struct lease_scope *s, const struct lease *lease)
{
    const struct auth_scope scope = scope_of(s);
    return token_tree_end(&scope, token_of(lease), TOKEN_END_TREE);
}

static enum status token_lease_check_token(const struct lease_scope *s, const char *id)
{
    const struct auth_scope scope = scope_of(s);
    struct auth_token token;
    return auth_token_load_id(&scope, id, &token);
}

static enum status token_lease_keep_token(const struct lease_scope *s, const char *id)
{
    const struct auth_scope scope = scope_of(s);
    return token_store_keep(&scope, id);
}

static enum status token_lease_check(const struct lease_scope *s, const struct lease *lease)
{
    return token_lease_check_token(s, token_of(lease)->id);
}

const struct lease_kind token_lease_kind = {
    .name = "token",
    .indexed = true,
    .find = token_lease_find,
    .check = token_lease_check,
    .renew = token_lease_renew,
    .end = token_lease_end,
    .check_token = token_lease_check_token,
    .keep_token = token_lease_keep_token,
};
