/* ACL policies of the registry as they are stored.
 *
 *   s/ns/NS/registry-policy/ID          the policy; ID is a UUID in lower case
 *   s/ns/NS/registry-policy-name/NAME   its id; NAME in lower case, so that no two names differ in
 *                                       case alone
 *
 * 1. A transaction that changes one of the two keys of a policy changes both where both must
 * change.
 * 2. The versions of the record's key are the policy's CreateIndex and ModifyIndex: every write of
 * a policy, even of equal content, is a change.
 * 3. The rules of a stored policy compile. Source: spec 3, A3 and A4. */
#ifndef HOLDFAST_AUTH_REGISTRY_POLICY_H
#define HOLDFAST_AUTH_REGISTRY_POLICY_H

#include "crypto/blake2b.h"
#include "state/state.h"
#include "text/schema.h"

enum {
    REGISTRY_POLICY_NAME_MAX = 128,
    REGISTRY_POLICY_DATACENTERS_MAX = 256,
};

#define REGISTRY_POLICY_MANAGEMENT "00000000-0000-0000-0000-000000000001"
#define REGISTRY_POLICY_READ_ONLY "00000000-0000-0000-0000-000000000002"
/* Ids with this beginning are kept for what the server makes. */
#define REGISTRY_RESERVED_IDS "00000000-0000-0000-0000-0000000000"

/* Strings are never NULL; those of a loaded policy lie in the arena. */
struct registry_policy {
    const char *id; /* UUID in lower case */
    const char *name, *description, *rules;
    struct field_strings datacenters; /* where the policy is valid; none listed: everywhere */
    uint8_t hash[CRYPTO_BLAKE2B256_BYTES];
    uint64_t created, modified; /* versions; 0 for a policy that this transaction staged */
};

/* Whether requests may give a policy this name: 1 to 128 letters, digits, '-' and '_'. */
bool registry_policy_is_name(const char *name);
/* Whether only a builtin policy may have this name: such a name behind "builtin/", 128 characters
 * in all. */
bool registry_policy_is_builtin_name(const char *name);

/* Keys, in the arena. An empty id or name gives the prefix of all. ST_NOMEM. */
NODISCARD enum status registry_policy_key(struct arena *arena, const char *ns, struct bytes id,
                                          struct bytes *ret_key);
NODISCARD enum status registry_policy_name_key(struct arena *arena, const char *ns,
                                               struct bytes name, struct bytes *ret_key);

/* The policy of an id, a UUID in lower case; `id` is borrowed. ST_NOT_FOUND; ST_CORRUPT; else as
 * state_get. */
NODISCARD enum status registry_policy_load(struct state_txn *txn, const char *ns, const char *id,
                                           struct registry_policy *ret_policy);
/* The id of the policy that has the name, in the arena. Statuses as registry_policy_load. */
NODISCARD enum status registry_policy_find(struct state_txn *txn, const char *ns, struct bytes name,
                                           const char **ret_id);
/* Decode a record into all fields but id and versions. Borrows from `record`. ST_CORRUPT,
 * ST_NOMEM. */
NODISCARD enum status registry_policy_read(struct bytes record, struct arena *arena,
                                           struct registry_policy *ret_policy);
/* The policy of an id that is stored as `value`: borrows both. As registry_policy_read. */
NODISCARD enum status registry_policy_of(const struct state_value *value, struct arena *arena,
                                         const char *id, struct registry_policy *ret_policy);

/* Stage a policy and its name, and set policy->hash. `before` is the stored policy of this id;
 * NULL: the policy is new. The caller has checked that no other policy has the name. As state_put.
 */
NODISCARD enum status registry_policy_put(struct state_txn *txn, const char *ns,
                                          struct registry_policy *policy,
                                          const struct registry_policy *before);
/* Stage the deletion of a policy and its name. As state_delete. */
NODISCARD enum status registry_policy_delete(struct state_txn *txn, const char *ns,
                                             const struct registry_policy *policy);

/* A builtin policy as this build makes it. Requests may change its name and description. */
struct registry_builtin {
    const char *id, *name, *description, *rules;
};
/* NULL: no builtin policy has this id. */
const struct registry_builtin *registry_policy_builtin(const char *id);
/* Stage the builtin policies that are not stored, and those whose rules another build made. Stages
 * nothing else. As registry_policy_put. */
NODISCARD enum status registry_policy_put_builtins(struct state_txn *txn, const char *ns);

#endif
