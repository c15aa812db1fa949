#include "auth/registry/registry_anonymous.h"

enum status registry_anonymous_links(const struct auth_scope *scope, struct acl_names *ret_links)
{
    struct auth_token token;
    enum status st = auth_token_find_any(scope, REGISTRY_ANONYMOUS, &token);
    *ret_links = (struct acl_names){.now_ms = scope->now_ms};
    if (st == ST_NOT_FOUND)
        return ST_OK;
    TRY(st);
    ASSERT(token.kind == TOKEN_REGISTRY); /* accessors of other kinds have another length */
    ret_links->list = token.policies;
    ret_links->text = token.policies_text;
    ret_links->hash = token.policies_hash;
    return ST_OK;
}
