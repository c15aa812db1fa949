/* An operator beside the clients with tokens: policies that allow and forbid, and new keys. The
 * program's own code carries out these changes. */
#include "front_parts.h"
#include "state/ns_key.h"

#include "auth/acl_cache.h"

static const char *const names[FRONT_POLICIES] = {"front-0", "front-1"};

const char *front_policy_name(uint64_t policy)
{
    ASSERT(policy < FRONT_POLICIES);
    return names[policy];
}

enum status front_policy_edit(struct state_txn *txn, uint64_t policy, bool allow)
{
    struct bytes text = allow ? BYTES("path \"front/*\" { capabilities = [\"read\"] }")
                              : BYTES("path \"front/*\" { capabilities = [\"deny\"] }");
    const struct policy_record record = {.text = text};
    return policy_save(txn, STATE_NS_ROOT, bytes_str(front_policy_name(policy)), &record, 0);
}

enum status front_policy_check(struct node *n, struct state_txn *txn,
                               const struct auth_token *token, int64_t now_ms)
{
    const struct acl_names list = {token->policies, token->policies_text, token->policies_hash,
                                   now_ms, NULL};
    const struct acl_question question = {.path = BYTES("front/register"), .caps = CAP_READ};
    struct acl_ref *ref;
    TRY(acl_cache_get(n->acls, txn, STATE_NS_ROOT, &list, &ref));
    const struct policy_rule *rule;
    enum status st = acl_check(acl_ref_get(ref), &question, &rule);
    acl_ref_drop(ref);
    return st;
}

enum status front_rekey(struct node *n, struct state_txn *txn, const struct front_op *op,
                        int64_t now_ms)
{
    struct seal_info info;
    enum status st = ST_OK;
    if (!op->root) {
        st = state_rotate(txn, now_ms);
    } else if (op->migrate) {
        st = seals_migrate(n->cluster, txn, op->policy);
    } else {
        TRY(state_seal_read(txn, &info));
        st = state_rekey(txn, seals_of(n->cluster, &info), now_ms);
        if (st == ST_NO_SPACE)
            return ST_OK; /* too many new root keys within an hour: the operator gets a refusal */
    }
    return st == ST_CORRUPT ? ST_CONFLICT : st; /* the barrier is further than this state */
}
