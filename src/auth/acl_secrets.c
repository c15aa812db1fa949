/* The policies of the secrets service, as the cache reads and compiles them. */
#include "auth/acl_cache.h"
#include "base/trace.h"

static enum status secrets_key(const struct acl_kind *kind, struct arena *arena, const char *ns,
                               struct bytes name, struct bytes *ret_key)
{
    (void)kind;
    return policy_key(arena, ns, name, ret_key);
}

static enum status secrets_load(const struct acl_kind *kind, struct state_txn *txn, const char *ns,
                                struct bytes name, void **ret_policy, int64_t *ret_expire_ms)
{
    struct policy_record record;
    struct policy *policy;
    struct reason why = {{0}};
    (void)kind;
    TRY(policy_load(txn, ns, name, &record));
    enum status st = policy_compile(record.text, &policy, &why);
    if (st == ST_NOMEM)
        return st;
    if (st != ST_OK) {
        trace(TRACE_ERROR, "auth", "the policy %.*s of the namespace %s does not compile: %s",
              (int)name.len, (const char *)name.data, ns, why.text);
        return ST_CORRUPT;
    }
    /* without memory audit records lack the name */
    policy->name = arena_str(&policy->arena, name);
    *ret_policy = policy;
    *ret_expire_ms = record.expire_ms;
    return ST_OK;
}

static void secrets_free(void *policy)
{
    policy_free(policy);
}

static size_t secrets_bytes(const void *policy)
{
    return ((const struct policy *)policy)->arena.bytes;
}

static enum status secrets_merge(const struct acl_kind *kind, const void *const *policies, size_t n,
                                 const struct identity *identity, void **ret_acl)
{
    struct acl *acl;
    (void)kind;
    TRY(acl_new_for((const struct policy *const *)policies, n, identity, &acl));
    *ret_acl = acl;
    return ST_OK;
}

static void secrets_acl_free(void *acl)
{
    acl_free(acl);
}

static size_t secrets_acl_bytes(const void *acl)
{
    return acl_bytes(acl);
}

const struct acl_kind acl_secrets = {
    .key = secrets_key,
    .load = secrets_load,
    .free = secrets_free,
    .bytes = secrets_bytes,
    .merge = secrets_merge,
    .acl_free = secrets_acl_free,
    .acl_bytes = secrets_acl_bytes,
    .has_root = true,
};
