/* Policies of the scheduler: a name and rules, which give capabilities in namespaces.
 *
 *   namespace "web-*" { policy = "read" capabilities = ["alloc-exec"] }
 *   node { policy = "read" }
 *
 * Of several rules for one namespace the exact name counts, else the glob that leaves the fewest
 * characters unmatched. Capabilities of several policies are added up; `deny` overrides all. */
#ifndef HOLDFAST_AUTH_SCHEDULER_POLICY_H
#define HOLDFAST_AUTH_SCHEDULER_POLICY_H

#include "state/state.h"
#include "text/schema.h"

enum { SCHEDULER_POLICY_NAME_MAX = 128, SCHEDULER_RULES_MAX = 64 * 1024 };

/* Capabilities. A row of a route table names those of which the sender needs one. */
enum scheduler_cap {
    SCHEDULER_READ_JOB = 1 << 0,
    SCHEDULER_LIST_JOBS = 1 << 1,
    SCHEDULER_SUBMIT_JOB = 1 << 2,
    SCHEDULER_ALLOC_LIFECYCLE = 1 << 3,
    SCHEDULER_ALLOC_EXEC = 1 << 4,
    SCHEDULER_ALLOC_NODE_EXEC = 1 << 5,
    SCHEDULER_PAUSE_ALLOC = 1 << 6,
    SCHEDULER_OTHER_CAP = 1 << 7, /* a capability for which there is no route yet */
    SCHEDULER_NODE_READ = 1 << 8,
    SCHEDULER_NODE_WRITE = 1 << 9,
    SCHEDULER_OPERATOR = 1 << 10, /* management tokens alone */
    SCHEDULER_OF_NODE = 1 << 11,  /* node tokens alone */
    SCHEDULER_OF_JOIN = 1 << 12,  /* join tokens alone */
    SCHEDULER_DENY = 1 << 15,
};
#define SCHEDULER_EVERY_CAP ((unsigned)SCHEDULER_OPERATOR * 2 - 1)

struct scheduler_policy {
    const char *name, *description, *rules;
    uint64_t created, modified;
};

/* Whether a policy may have this name: letters, digits, '-' and '_'. */
bool scheduler_policy_is_name(const char *name);
/* Check rules. ST_INVALID with a reason; ST_NOMEM. */
NODISCARD enum status scheduler_rules_check(struct arena *arena, struct bytes rules,
                                            struct reason *why);
/* The key of a policy; of "" the prefix of all. ST_NOMEM. */
NODISCARD enum status scheduler_policy_key(struct arena *arena, const char *name,
                                           struct bytes *ret_key);
/* Read a policy. ST_NOT_FOUND; ST_CORRUPT; as state_get. */
NODISCARD enum status scheduler_policy_load(struct state_txn *txn, const char *name,
                                            struct scheduler_policy *ret_policy);
NODISCARD enum status scheduler_policy_put(struct state_txn *txn,
                                           const struct scheduler_policy *policy);
/* The capabilities that the named policies give in a namespace. A policy that is gone gives
 * nothing. As state_get. */
NODISCARD enum status scheduler_policy_caps(struct state_txn *txn,
                                            const struct field_strings *policies, struct bytes ns,
                                            unsigned *ret_caps);

#endif
