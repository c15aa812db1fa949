#include "front/registry/registry_rights.h"

#include "auth/registry/registry_anonymous.h"
#include "auth/registry/registry_cache.h"
#include "auth/registry/registry_settings.h"

enum status registry_allow(struct req *req, enum registry_resource resource, struct bytes name,
                           enum registry_level level)
{
    const struct auth_token *token = req->token;
    struct registry_scope scope = {.cache = req->acls, .txn = req->txn, .ns = req->ns};
    ASSERT(req_in_txn(req) && req->token_kind == TOKEN_REGISTRY);
    scope.management = !registry_settings()->acl || (token != NULL && token->kind == TOKEN_SECRETS);
    if (token == NULL && !scope.management) {
        const struct auth_scope of = req_scope(req);
        TRY(registry_anonymous_links(&of, &scope.links));
    } else if (!scope.management) {
        scope.links = (struct acl_names){token->policies, token->policies_text,
                                         token->policies_hash, req->now_ms, NULL};
    }
    return registry_rules_allow(&scope, resource, name, level);
}
