#include "auth/registry/registry_cache.h"
#include "auth/registry/registry_link.h"
#include "auth/registry/registry_policy.h"
#include "base/mem.h"
#include "base/trace.h"

static const struct registry_kind *kind_of(const struct acl_kind *kind)
{
    return CONTAINER_OF(kind, const struct registry_kind, kind);
}

static enum status kind_key(const struct acl_kind *kind, struct arena *arena, const char *ns,
                            struct bytes name, struct bytes *ret_key)
{
    (void)kind;
    return registry_policy_key(arena, ns, name, ret_key);
}

/* The template of a service identity also lets its proxy register, and discover services and
 * nodes. */
static const char *service_rules(struct arena *arena, const char *name)
{
    return arena_format(arena,
                        "service \"%s\" { policy = \"write\" }\n"
                        "service \"%s-sidecar-proxy\" { policy = \"write\" }\n"
                        "service_prefix \"\" { policy = \"read\" }\n"
                        "node_prefix \"\" { policy = \"read\" }\n",
                        name, name);
}

static const char *node_rules(struct arena *arena, const char *name)
{
    return arena_format(arena,
                        "node \"%s\" { policy = \"write\" }\n"
                        "service_prefix \"\" { policy = \"read\" }\n",
                        name);
}

/* The text of the rules that an identity stands for; empty where they do not count. */
static enum status identity_rules(const struct registry_kind *kind, struct arena *arena,
                                  const struct registry_link *link, struct bytes *ret_rules)
{
    struct bytes rest = link->datacenters, dc;
    bool valid = rest.data == NULL;
    ASSERT(link->kind != REGISTRY_LINK_POLICY);
    while (!valid && registry_link_next_datacenter(&rest, &dc))
        valid = text_is(dc, kind->datacenter);
    *ret_rules = (struct bytes){0};
    if (!valid)
        return ST_OK;
    const char *name = arena_str(arena, link->name), *rules = NULL;
    if (name != NULL)
        rules = link->kind == REGISTRY_LINK_SERVICE ? service_rules(arena, name)
                                                    : node_rules(arena, name);
    if (rules == NULL)
        return ST_NOMEM;
    *ret_rules = bytes_str(rules);
    return ST_OK;
}

static bool is_valid_here(const struct registry_kind *kind, const struct field_strings *dcs)
{
    bool found = dcs->n == 0;
    for (size_t i = 0; i < dcs->n && !found; i++)
        found = strcmp(dcs->items[i], kind->datacenter) == 0;
    return found;
}

/* The text of the rules that a link stands for; empty where they do not count. */
static enum status link_rules(const struct registry_kind *kind, struct state_txn *txn,
                              const char *ns, struct bytes text, struct bytes *ret_rules)
{
    const struct registry_link link = registry_link_read(text);
    struct registry_policy policy;
    if (link.kind != REGISTRY_LINK_POLICY)
        return identity_rules(kind, txn->arena, &link, ret_rules);
    const char *id = arena_str(txn->arena, link.name);
    if (id == NULL)
        return ST_NOMEM;
    TRY(registry_policy_load(txn, ns, id, &policy));
    *ret_rules =
        is_valid_here(kind, &policy.datacenters) ? bytes_str(policy.rules) : (struct bytes){0};
    return ST_OK;
}

static enum status kind_load(const struct acl_kind *kind, struct state_txn *txn, const char *ns,
                             struct bytes name, void **ret_policy, int64_t *ret_expire_ms)
{
    struct registry_rules *rules;
    struct reason why = {{0}};
    struct bytes text;
    TRY(link_rules(kind_of(kind), txn, ns, name, &text));
    enum status st = registry_rules_compile(text, &rules, &why);
    if (st == ST_NOMEM)
        return st;
    if (st != ST_OK) {
        trace(TRACE_ERROR, "auth", "the registry's policy %.*s does not compile: %s", (int)name.len,
              (const char *)name.data, why.text);
        return ST_CORRUPT;
    }
    *ret_policy = rules;
    *ret_expire_ms = 0;
    return ST_OK;
}

static void kind_free(void *policy)
{
    registry_rules_free(policy);
}

static size_t kind_bytes(const void *policy)
{
    return registry_rules_bytes(policy);
}

static enum status kind_merge(const struct acl_kind *kind, const void *const *policies, size_t n,
                              const struct identity *identity, void **ret_acl)
{
    ASSERT(identity == NULL); /* tokens of the registry have no entities */
    struct registry_acl *acl;
    TRY(registry_acl_new((const struct registry_rules *const *)policies, n,
                         kind_of(kind)->otherwise, &acl));
    *ret_acl = acl;
    return ST_OK;
}

static void kind_acl_free(void *acl)
{
    registry_acl_free(acl);
}

static size_t kind_acl_bytes(const void *acl)
{
    return registry_acl_bytes(acl);
}

struct registry_kind registry_kind(const char *datacenter, enum registry_level otherwise)
{
    ASSERT(otherwise == REGISTRY_WRITE || otherwise == REGISTRY_DENY);
    return (struct registry_kind){
        .kind =
            {
                .key = kind_key,
                .load = kind_load,
                .free = kind_free,
                .bytes = kind_bytes,
                .merge = kind_merge,
                .acl_free = kind_acl_free,
                .acl_bytes = kind_acl_bytes,
            },
        .datacenter = datacenter,
        .otherwise = otherwise,
    };
}

enum status registry_rules_allow(const struct registry_scope *scope,
                                 enum registry_resource resource, struct bytes name,
                                 enum registry_level level)
{
    struct acl_ref *ref;
    ASSERT(level >= REGISTRY_READ && level <= REGISTRY_WRITE);
    if (scope->management)
        return ST_OK;
    TRY(acl_cache_get(scope->cache, scope->txn, scope->ns, &scope->links, &ref));
    bool allowed = registry_acl_allows(acl_ref_get(ref), resource, name, level);
    acl_ref_drop(ref);
    return allowed ? ST_OK : ST_DENIED;
}
