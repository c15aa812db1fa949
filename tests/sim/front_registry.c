/* Tokens and ACL policies of the registry: a node's side, as src/api/registry uses
 * src/auth/registry. A policy allows or forbids to read the registers; one that was deleted forbids
 * it, too. */
#include "front_parts.h"

#include "auth/registry/registry.h"
#include "auth/registry/registry_cache.h"
#include "auth/registry/registry_policy.h"
#include "auth/registry/registry_token.h"
#include "auth/token_tree.h"
#include "state/feature.h"
#include "state/ns_key.h"

#include <inttypes.h>

static const char *const ids[FRONT_POLICIES] = {"f0000000-0000-4000-8000-000000000000",
                                                "f0000000-0000-4000-8000-000000000001"};

static const char *id_of(uint64_t policy)
{
    ASSERT(policy >= FRONT_POLICIES && policy < 2 * FRONT_POLICIES);
    return ids[policy - FRONT_POLICIES];
}

enum status front_registry_cache(struct env *env, struct acl_cache **ret_cache)
{
    static struct registry_kind kind;
    kind = registry_kind("dc1", REGISTRY_DENY);
    return acl_cache_new(env, &kind.kind, ret_cache);
}

/* As req_need_feature. ST_EXISTS: the level is too low. */
static enum status need_level(struct state_txn *txn)
{
    bool raised;
    TRY(state_has_feature(txn, REGISTRY_FEATURE, &raised));
    return raised ? ST_OK : ST_EXISTS;
}

enum status front_registry_edit(struct state_txn *txn, const struct front_op *op)
{
    const char *id = id_of(op->policy);
    struct registry_policy before,
        policy = {.id = id,
                  .name = id,
                  .description = "",
                  .rules = op->allow ? "key_prefix \"front/\" { policy = \"read\" }"
                                     : "key_prefix \"front/\" { policy = \"deny\" }"};
    TRY(need_level(txn));
    enum status st = registry_policy_load(txn, STATE_NS_ROOT, id, &before);
    bool there = st == ST_OK, drop = !op->allow && op->number % 2 == 0;
    if (st != ST_NOT_FOUND)
        TRY(st);
    if (!drop)
        return registry_policy_put(txn, STATE_NS_ROOT, &policy, there ? &before : NULL);
    return there ? registry_policy_delete(txn, STATE_NS_ROOT, &before) : ST_OK;
}

enum status front_registry_create(const struct auth_scope *s, const struct front_op *op,
                                  const char *bearer, int64_t *ret_expire_ms)
{
    const char *const links[] = {id_of(op->policy)};
    const char *accessor =
        arena_format(s->txn->arena, "f1000000-0000-4000-8000-%012" PRIx64, op->about);
    struct registry_token token = {.accessor = accessor,
                                   .secret = bearer,
                                   .description = "",
                                   .links = {.items = links, .n = 1, .given = true},
                                   .created_ms = s->now_ms,
                                   .expire_ms = s->now_ms + op->ttl_s * 1000};
    const char *const texts[] = {bearer, accessor};
    bool used = false;
    if (accessor == NULL)
        return ST_NOMEM;
    TRY(need_level(s->txn));
    for (size_t i = 0; i < ARRAY_LEN(texts) && !used; i++)
        TRY(auth_token_is_used(s, bytes_str(texts[i]), &used));
    *ret_expire_ms = token.expire_ms;
    return used ? ST_EXISTS : registry_token_add(s, &token);
}

enum status front_registry_check(struct node *n, const struct auth_scope *s,
                                 const struct auth_token *token)
{
    const struct registry_scope scope = {.cache = n->registry_acls,
                                         .txn = s->txn,
                                         .ns = s->ns,
                                         .links = {.list = token->policies,
                                                   .text = token->policies_text,
                                                   .hash = token->policies_hash,
                                                   .now_ms = s->now_ms},
                                         .management = token->kind == TOKEN_SECRETS};
    return registry_rules_allow(&scope, REGISTRY_KEY, BYTES("front/register"), REGISTRY_READ);
}
