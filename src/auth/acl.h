/* An ACL: the rules of several policies together. The ACL decides what a path allows.
 *
 * Exactly one rule decides about a path:
 *
 *   1. the rule whose pattern equals the path; for a listing, also the path without its last '/';
 *   2. else the matching pattern with wildcards whose first wildcard stands latest. On a tie, in
 *      this order: a pattern that does not end in '*', fewer "+", longer, greater in byte order;
 *   3. for a listing, step 2 again with the path without its last '/';
 *   4. else no rule: nothing is allowed.
 *
 * A broader rule adds nothing to a narrower rule. Rules with equal patterns become one rule with
 * all their capabilities; "deny" overrides every other capability. acl_param.c merges parameters.
 * Rules with templates are filled for the entity of the token (auth/identity). A rule that cannot
 * be filled is left out.
 *
 * A decision allocates no memory. The time of a decision grows with the length of the path and the
 * logarithm of the number of rules, and with each level at which both "+" and the segment itself
 * have rules. */
#ifndef HOLDFAST_AUTH_ACL_H
#define HOLDFAST_AUTH_ACL_H

#include "auth/identity/identity.h"
#include "auth/policy.h"

struct acl;

/* Make an ACL from policies, which must outlive the ACL. ST_NOMEM. */
NODISCARD enum status acl_new(const struct policy *const *policies, size_t n, struct acl **ret_acl);
/* The same for a token of an entity, which is needed during the call alone; NULL: no entity. */
NODISCARD enum status acl_new_for(const struct policy *const *policies, size_t n,
                                  const struct identity *identity, struct acl **ret_acl);
void acl_free(struct acl *acl); /* NULL is allowed */
/* The ACL of the root policy alone, which allows everything. Static; acl_free ignores it. */
const struct acl *acl_of_root(void);
size_t acl_bytes(const struct acl *acl); /* bytes of memory that the ACL takes */

struct acl_question {
    struct bytes path; /* path of the request, without "/v1/" */
    /* Where `path` is another spelling of a path that rules name: the canonical path; else empty.
     * The rule for `rule_path` decides. If there is no such rule, a rule whose pattern equals
     * `path` decides. */
    struct bytes rule_path;
    unsigned caps;  /* capabilities that the request needs, all of them; never CAP_DENY */
    bool list;      /* the request lists the folder at `path` */
    int64_t wrap_s; /* TTL for which the reply is wrapped; 0: the reply is not wrapped */
};
/* Whether the ACL allows a request. *ret_rule is the rule that decided, for acl_param_allow and for
 * audit records; NULL for root, and if no rule fits the path. The rule lives as long as the ACL.
 * ST_DENIED. */
NODISCARD enum status acl_check(const struct acl *acl, const struct acl_question *question,
                                const struct policy_rule **ret_rule);

/* The names of the policies that have the rule, in the arena; policies without a name are left out.
 * ST_NOMEM. */
NODISCARD enum status acl_rule_policies(const struct acl *acl, const struct policy_rule *rule,
                                        struct arena *arena, const char *const **ret_names,
                                        size_t *ret_n);

/* All capabilities at a path; 0 where denied. A path that ends in '/' is a folder to be listed. */
unsigned acl_capabilities(const struct acl *acl, struct bytes path);
/* Whether the ACL allows anything at or below a folder. `folder` ends in '/'. */
bool acl_reaches(const struct acl *acl, struct bytes folder);
bool acl_is_root(const struct acl *acl);

/* The merged rules in order, and their number in *ret_n; the root ACL has none. */
const struct policy_rule *const *acl_rules(const struct acl *acl, size_t *ret_n);

/* Whether the parameters that a rule names allow the data of a request, an object (acl_param.c). */
bool acl_param_allow(const struct policy_rule *rule, const struct text_value *data);
/* Add the parameters of `more` to `rule`; new lists lie in the arena. ST_NOMEM. */
NODISCARD enum status acl_param_merge(struct arena *arena, struct policy_rule *rule,
                                      const struct policy_rule *more);

#endif
