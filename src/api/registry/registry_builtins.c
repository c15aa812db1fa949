/* The duty of the builtin policies. */
#include "api/registry/registry.h"
#include "auth/registry/registry.h"
#include "auth/registry/registry_policy.h"
#include "state/feature.h"
#include "state/ns_key.h"

enum status registry_builtins_make(struct state_txn *txn, int64_t now_ms)
{
    bool has;
    (void)now_ms; /* builtin policies are always due */
    TRY(state_has_feature(txn, REGISTRY_FEATURE, &has));
    return has ? registry_policy_put_builtins(txn, STATE_NS_ROOT) : ST_OK;
}
