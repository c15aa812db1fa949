#include "auth/registry/registry_cache.h"
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

/* Take what precedes the first `mark` from the front of *rest. False: there is no mark, and *rest
 * becomes empty. */
static bool cut(struct bytes *rest, char mark, struct bytes *ret_part)
{
    const uint8_t *at = rest->len != 0 ? memchr(rest->data, mark, rest->len) : NULL;
    size_t len = at != NULL ? (size_t)(at - rest->data) : rest->len;
    *ret_part = bytes_of(rest->data, len);
    *rest = bytes_from(*rest, at != NULL ? len + 1 : len);
    return at != NULL;
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

/* The rules of the identity that a link names; *ret_valid says whether they count in this
 * datacenter. ST_NOT_FOUND: the link names no identity. */
static enum status identity_rules(const struct registry_kind *kind, struct arena *arena,
                                  struct bytes link, struct bytes *ret_rules, bool *ret_valid)
{
    struct bytes sort, name, dcs = link;
    ASSERT(link.len != 0);
    if (!cut(&dcs, '/', &sort))
        return ST_NOT_FOUND;
    *ret_valid = !cut(&dcs, '@', &name); /* an identity without datacenters is valid everywhere */
    for (struct bytes dc; !*ret_valid && dcs.len != 0;) {
        (void)cut(&dcs, ',', &dc); /* the last datacenter has no mark behind */
        *ret_valid = text_is(dc, kind->datacenter);
    }
    const char *text = arena_str(arena, name), *rules = NULL;
    if (text == NULL)
        return ST_NOMEM;
    if (text_is(sort, "service"))
        rules = service_rules(arena, text);
    else if (text_is(sort, "node"))
        rules = node_rules(arena, text);
    else
        return ST_NOT_FOUND;
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
                              const char *ns, struct bytes link, struct bytes *ret_rules)
{
    struct registry_policy policy;
    bool valid;
    enum status st = identity_rules(kind, txn->arena, link, ret_rules, &valid);
    if (st == ST_NOT_FOUND) {
        const char *id = arena_str(txn->arena, link);
        if (id == NULL)
            return ST_NOMEM;
        TRY(registry_policy_load(txn, ns, id, &policy));
        *ret_rules = bytes_str(policy.rules);
        valid = is_valid_here(kind, &policy.datacenters);
    } else
        TRY(st);
    if (!valid)
        *ret_rules = (struct bytes){0};
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
                              void **ret_acl)
{
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
