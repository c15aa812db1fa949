/* The rules of several policies as one, and what they say about a path.
 *
 * One rule decides about a path:
 *
 *   1. the one whose pattern is the path; for a listing also without the '/' at its end;
 *   2. else, of the patterns with wildcards that fit, the one whose first wildcard stands latest;
 *      among those one that does not end in '*', with fewer "+", longer, last in order of bytes;
 *   3. for a listing, 2 again without the '/' at its end;
 *   4. else none: nothing is allowed.
 *
 * A broader rule adds nothing to a narrower one. Rules with one pattern become one: all their
 * capabilities, but "deny" beats all; parameters as in acl_param.c. Rules that hold templates are
 * left out until there is an entity to fill them in.
 *
 * Deciding takes time by the length of the path and the logarithm of the number of rules, as long
 * as "+" does not branch, and allocates nothing. */
#ifndef HOLDFAST_AUTH_ACL_H
#define HOLDFAST_AUTH_ACL_H

#include "auth/policy.h"

struct acl;

/* The policies outlive it. ST_NOMEM. */
NODISCARD enum status acl_new(const struct policy *const *policies, size_t n, struct acl **ret_acl);
void acl_free(struct acl *acl); /* NULL is allowed */
/* The ACL of the root policy alone: allows everything. Static; acl_free ignores it. */
const struct acl *acl_of_root(void);
size_t acl_bytes(const struct acl *acl); /* memory */

struct acl_question {
    struct bytes path; /* without "/v1/" */
    /* The path that rules know, if `path` is another spelling of it; empty: it is not. What a rule
     * says about it counts; only where none does, one whose pattern is `path` itself. */
    struct bytes rule_path;
    unsigned caps;  /* all of these are needed */
    bool list;      /* the path is a folder that is to be listed */
    int64_t wrap_s; /* the answer is to be wrapped for that long; 0: not wrapped */
};
/* Whether the ACL allows this path. *ret_rule: the rule that does, for acl_param_allow, as long as
 * the ACL lives; NULL for root. ST_DENIED. */
NODISCARD enum status acl_check(const struct acl *acl, const struct acl_question *question,
                                const struct policy_rule **ret_rule);

/* Every capability at a path, taken as a folder where it ends in '/'; 0 where denied. */
unsigned acl_capabilities(const struct acl *acl, struct bytes path);
/* Whether anything may be done at or below a folder, which ends in '/'. */
bool acl_reaches(const struct acl *acl, struct bytes folder);
bool acl_is_root(const struct acl *acl);

/* The rules in order, merged; n is how many. None for root. */
const struct policy_rule *const *acl_rules(const struct acl *acl, size_t *ret_n);

/* acl_param.c: whether the parameters a rule names allow `data`, an object. */
bool acl_param_allow(const struct policy_rule *rule, const struct text_value *data);
/* Add what `more` says about parameters to `rule`, in the arena. ST_NOMEM. */
NODISCARD enum status acl_param_merge(struct arena *arena, struct policy_rule *rule,
                                      const struct policy_rule *more);

#endif
