#include "auth/registry/registry_policy.h"
#include "base/plant.h"
#include "state/ns_key.h"
#include "state/state_record.h"
#include "text/utf8.h"

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

bool registry_policy_is_name(const char *name)
{
    size_t len = strnlen(name, REGISTRY_POLICY_NAME_MAX + 1);
    for (size_t i = 0; i < len; i++)
        if (!is_plain(name[i]))
            return false;
    return len >= 1 && len <= REGISTRY_POLICY_NAME_MAX;
}

bool registry_policy_is_builtin_name(const char *name)
{
    static const char before[] = "builtin/";
    size_t len = sizeof before - 1;
    return strnlen(name, REGISTRY_POLICY_NAME_MAX + 1) <= REGISTRY_POLICY_NAME_MAX &&
           strncmp(name, before, len) == 0 && registry_policy_is_name(name + len);
}

enum status registry_policy_key(struct arena *arena, const char *ns, struct bytes id,
                                struct bytes *ret_key)
{
    return state_ns_key(arena, ns, "registry-policy", id, NULL, ret_key);
}

enum status registry_policy_name_key(struct arena *arena, const char *ns, struct bytes name,
                                     struct bytes *ret_key)
{
    uint8_t lower[REGISTRY_POLICY_NAME_MAX];
    if (name.len > sizeof lower)
        return ST_INVALID;
    for (size_t i = 0; i < name.len; i++) {
        uint8_t c = name.data[i];
        lower[i] = c >= 'A' && c <= 'Z' ? (uint8_t)(c | 0x20) : c;
    }
    return state_ns_key(arena, ns, "registry-policy-name", bytes_of(lower, name.len), NULL,
                        ret_key);
}

static const struct record_field datacenter_fields[] = {
    RECORD_ITSELF("datacenter", const char *, TEXT0)};
static const struct record datacenter_record = {RECORD(const char *, datacenter_fields),
                                                .name = "registry/datacenter"};
static const struct record_field policy_fields[] = {
    RECORD_FIELD(struct registry_policy, name, TEXT0),
    RECORD_FIELD(struct registry_policy, description, TEXT0),
    RECORD_FIELD(struct registry_policy, rules, TEXT0),
    RECORD_ITEMS("datacenters", struct registry_policy, datacenters.items, datacenters.n, LIST,
                 &datacenter_record, .max = REGISTRY_POLICY_DATACENTERS_MAX,
                 .help = "where the policy is valid; empty: everywhere"),
    RECORD_FIELD(struct registry_policy, hash, FIXED),
};
static const struct record policy_record = {RECORD(struct registry_policy, policy_fields),
                                            .name = "registry/policy",
                                            .key = "s/ns/*/registry-policy/", .newest = 1};
RECORD_LISTED(policy_record);

enum status registry_policy_read(struct bytes record, struct arena *arena,
                                 struct registry_policy *ret_policy)
{
    struct registry_policy p = {.id = ""};
    TRY(record_decode(&policy_record, record, arena, &p));
    p.datacenters.given = p.datacenters.n != 0;
    *ret_policy = p;
    return ST_OK;
}

enum status registry_policy_of(const struct state_value *value, struct arena *arena, const char *id,
                               struct registry_policy *ret_policy)
{
    ASSERT(id[0] != '\0');
    TRY(registry_policy_read(value->value, arena, ret_policy));
    ret_policy->id = id;
    ret_policy->created = value->created;
    ret_policy->modified = value->modified;
    return ST_OK;
}

enum status registry_policy_load(struct state_txn *txn, const char *ns, const char *id,
                                 struct registry_policy *ret_policy)
{
    struct state_value value;
    struct bytes key;
    ASSERT(id[0] != '\0');
    TRY(registry_policy_key(txn->arena, ns, bytes_str(id), &key));
    TRY(state_get(txn, key, &value));
    return registry_policy_of(&value, txn->arena, id, ret_policy);
}

enum status registry_policy_find(struct state_txn *txn, const char *ns, struct bytes name,
                                 const char **ret_id)
{
    struct state_value value;
    struct bytes key;
    if (name.len == 0 || name.len > REGISTRY_POLICY_NAME_MAX || memchr(name.data, 0, name.len))
        return ST_NOT_FOUND;
    TRY(registry_policy_name_key(txn->arena, ns, name, &key));
    TRY(state_get(txn, key, &value));
    *ret_id = arena_str(txn->arena, value.value);
    return *ret_id != NULL ? ST_OK : ST_NOMEM;
}

/* Name, description, rules and datacenters, without anything between them (A4). */
static enum status hash_policy(struct arena *arena, struct registry_policy *policy)
{
    const struct field_strings *dcs = &policy->datacenters;
    struct bytes *parts = arena_alloc(arena, (3 + dcs->n) * sizeof *parts);
    ASSERT(policy->name != NULL && policy->description != NULL && policy->rules != NULL);
    if (parts == NULL)
        return ST_NOMEM;
    parts[0] = bytes_str(policy->name);
    parts[1] = bytes_str(policy->description);
    parts[2] = bytes_str(policy->rules);
    for (size_t i = 0; i < dcs->n; i++)
        parts[3 + i] = bytes_str(dcs->items[i]);
    crypto_blake2b256(parts, 3 + dcs->n, policy->hash);
    return ST_OK;
}

/* Whether two names have the same key. */
static bool same_name(const char *a, const char *b)
{
    return strcasecmp(a, b) == 0;
}

static enum status move_name(struct state_txn *txn, const char *ns,
                             const struct registry_policy *policy,
                             const struct registry_policy *before)
{
    struct bytes key;
    ASSERT(policy->name[0] != '\0' && strlen(policy->name) <= REGISTRY_POLICY_NAME_MAX);
    if (before != NULL && same_name(before->name, policy->name))
        return ST_OK;
    if (before != NULL) {
        TRY(registry_policy_name_key(txn->arena, ns, bytes_str(before->name), &key));
        TRY(state_delete(txn, key));
    }
    TRY(registry_policy_name_key(txn->arena, ns, bytes_str(policy->name), &key));
    return state_put(txn, key, bytes_str(policy->id));
}

enum status registry_policy_put(struct state_txn *txn, const char *ns,
                                struct registry_policy *policy,
                                const struct registry_policy *before)
{
    struct bytes key;
    ASSERT(policy->datacenters.n <= REGISTRY_POLICY_DATACENTERS_MAX);
    ASSERT(before == NULL || strcmp(before->id, policy->id) == 0);
    TRY(hash_policy(txn->arena, policy));
    TRY(move_name(txn, ns, policy, before));
    TRY(registry_policy_key(txn->arena, ns, bytes_str(policy->id), &key));
    return state_put_record(txn, key, &policy_record, policy);
}

enum status registry_policy_delete(struct state_txn *txn, const char *ns,
                                   const struct registry_policy *policy)
{
    struct bytes key;
    ASSERT(registry_policy_builtin(policy->id) == NULL);
    TRY(registry_policy_name_key(txn->arena, ns, bytes_str(policy->name), &key));
    TRY(state_delete(txn, key));
    if (planted(PLANT_REGISTRY_KEPT))
        return ST_OK;
    TRY(registry_policy_key(txn->arena, ns, bytes_str(policy->id), &key));
    return state_delete(txn, key);
}

#define EVERYTHING(level)                                \
    "acl = \"" level "\"\n"                              \
    "agent_prefix \"\" {\n\tpolicy = \"" level "\"\n}\n" \
    "event_prefix \"\" {\n\tpolicy = \"" level "\"\n}\n" \
    "key_prefix \"\" {\n\tpolicy = \"" level "\"\n}\n"   \
    "keyring = \"" level "\"\n"                          \
    "node_prefix \"\" {\n\tpolicy = \"" level "\"\n}\n"  \
    "operator = \"" level "\"\n"                         \
    "mesh = \"" level "\"\n"                             \
    "peering = \"" level "\"\n"                          \
    "query_prefix \"\" {\n\tpolicy = \"" level "\"\n}\n" \
    "service_prefix \"\" {\n\tpolicy = \"" level "\"\n"  \
    "\tintentions = \"" level "\"\n}\n"                  \
    "session_prefix \"\" {\n\tpolicy = \"" level "\"\n}\n"

static const struct registry_builtin builtins[] = {
    {REGISTRY_POLICY_MANAGEMENT, "global-management", "Builtin Policy that grants unlimited access",
     EVERYTHING("write")},
    {REGISTRY_POLICY_READ_ONLY, "builtin/global-read-only",
     "Builtin Policy that grants unlimited read-only access to all components", EVERYTHING("read")},
};

const struct registry_builtin *registry_policy_builtin(const char *id)
{
    for (size_t i = 0; i < ARRAY_LEN(builtins); i++)
        if (strcmp(id, builtins[i].id) == 0)
            return &builtins[i];
    return NULL;
}

/* A name for a builtin policy that no other policy has: a client may have taken the usual one
 * before the policy was made. */
static enum status free_name(struct state_txn *txn, const char *ns, const char *name,
                             const char **ret_name)
{
    const char *other = name;
    for (unsigned i = 2;; i++) {
        const char *id;
        enum status st = registry_policy_find(txn, ns, bytes_str(other), &id);
        if (st == ST_NOT_FOUND)
            break;
        TRY(st);
        other = arena_format(txn->arena, "%s-%u", name, i);
        if (other == NULL)
            return ST_NOMEM;
    }
    *ret_name = other;
    return ST_OK;
}

enum status registry_policy_put_builtins(struct state_txn *txn, const char *ns)
{
    for (size_t i = 0; i < ARRAY_LEN(builtins); i++) {
        struct registry_policy before, policy;
        enum status st = registry_policy_load(txn, ns, builtins[i].id, &before);
        if (st == ST_OK && strcmp(before.rules, builtins[i].rules) == 0)
            continue;
        if (st != ST_OK && st != ST_NOT_FOUND)
            return st;
        policy = st == ST_OK ? before
                             : (struct registry_policy){.id = builtins[i].id,
                                                        .description = builtins[i].description};
        policy.rules = builtins[i].rules;
        if (st == ST_NOT_FOUND)
            TRY(free_name(txn, ns, builtins[i].name, &policy.name));
        TRY(registry_policy_put(txn, ns, &policy, st == ST_OK ? &before : NULL));
    }
    return ST_OK;
}
