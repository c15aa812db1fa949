/* Policies: texts that say which paths a token may use and how, compiled into rules.
 *
 *   path "kv/data/team*" {
 *     capabilities        = ["create", "update", "read"]
 *     denied_parameters   = { "ttl" = [] }
 *   }
 *
 * A '*' at the end of a pattern stands for any rest, across '/'. A segment "+" stands for any one
 * segment. Elsewhere both characters are literal. acl.h says which rule decides about a path and
 * how several policies are merged.
 *
 * A policy is stored at s/ns/NS/policy/NAME. It may have an expiry in cluster time: from then on
 * the policy grants nothing and cannot be read, whether or not its record was already deleted. An
 * entry of the expiry index says when to delete the record. "root" and "response-wrapping"
 * are never stored. "default" is stored when the cluster is initialised; where it is not stored (an
 * older cluster), policy_builtin gives its text. */
#ifndef HOLDFAST_AUTH_POLICY_H
#define HOLDFAST_AUTH_POLICY_H

#include "lease/expiry.h"
#include "text/value.h"

#define AUTH_POLICY_ROOT "root"
#define POLICY_DEFAULT "default"
#define POLICY_WRAPPING "response-wrapping"

enum {
    POLICY_TEXT_MAX = 512 * 1024,
    POLICY_NAME_MAX = 512,
    POLICY_PATTERN_MAX = 3000, /* longest pattern, as long as the longest path of a request */
    POLICY_SEGMENTS_MAX = 128, /* most segments of a pattern */
};

enum cap {
    CAP_CREATE = 1 << 0,
    CAP_READ = 1 << 1,
    CAP_UPDATE = 1 << 2,
    CAP_DELETE = 1 << 3,
    CAP_LIST = 1 << 4,
    CAP_PATCH = 1 << 5,
    CAP_SUDO = 1 << 6,
    CAP_DENY = 1 << 7, /* stands in a rule without other capabilities */
    /* Capabilities that policies may name and no route needs. */
    CAP_SCAN = 1 << 8,
    CAP_SUBSCRIBE = 1 << 9,
    CAP_RECOVER = 1 << 10,
};
enum { CAP_EVERYTHING = (1 << 11) - 1 - CAP_DENY, CAP_KINDS = 11 };

/* The word and the bit of capability i < CAP_KINDS, in alphabetical order. */
const char *cap_word(unsigned i, unsigned *ret_cap);

/* One parameter and the values that a rule names for the parameter; none: any value. */
struct policy_param {
    struct bytes name; /* name of the parameter in lower case, or "*" */
    const struct text_value *const *values;
    size_t n_values;
};
/* Parameters of a rule, ordered by name. */
struct policy_params {
    const struct policy_param *items;
    size_t n;
};

struct policy_rule {
    struct bytes stem; /* the pattern without a '/' in front and without a '*' at the end */
    bool star;         /* the pattern ends in '*' */
    bool templated;    /* the pattern, or a value of `allowed`, has a template {{…}} */
    uint32_t n_plus;   /* number of segments that are "+" */
    unsigned caps;
    struct policy_params allowed, denied;
    const struct bytes *required; /* names of required parameters, in lower case */
    size_t n_required;
    int64_t min_wrap_s, max_wrap_s; /* bounds of the wrapping TTL; 0: none */
    /* The rules that an ACL merged into this rule; NULL: the rule is of one policy. */
    const struct policy_rule *const *merged;
    size_t n_merged;
    /* The rule of a policy whose templates were filled for an ACL; NULL: this rule is of a policy.
     */
    const struct policy_rule *source;
};

/* A compiled policy, which never changes. */
struct policy {
    struct arena arena; /* memory of the rules */
    const char *name;   /* set by the owner; NULL: the policy has no name */
    const struct policy_rule *rules;
    size_t n;
};

/* Compile HCL or JSON. ST_INVALID or ST_TOO_BIG with a reason that says what is wrong and, if
 * known, in which line; ST_NOMEM. */
NODISCARD enum status policy_compile(struct bytes text, struct policy **ret_policy,
                                     struct reason *why);
void policy_free(struct policy *policy); /* NULL is allowed */

/* The stored form of a name, in the arena: lower case, without spaces at the ends. ST_INVALID: the
 * name is empty, longer than POLICY_NAME_MAX, or has unprintable characters. ST_NOMEM. */
NODISCARD enum status policy_name(struct arena *arena, struct bytes text, const char **ret_name);

/* The text of a policy that exists without being stored; NULL: there is none of this name. */
const char *policy_builtin(struct bytes name);

/* The key of a policy, in the arena. With an empty name: the prefix of all policies. ST_NOMEM. */
NODISCARD enum status policy_key(struct arena *arena, const char *ns, struct bytes name,
                                 struct bytes *ret_key);

/* A policy as it is stored. */
struct policy_record {
    struct bytes text;
    int64_t version; /* number of writes; 0: built in, or stored by a build that did not count */
    int64_t modified_ms; /* time of the last change; 0: not known */
    int64_t expire_ms;   /* time of expiry; 0: never */
    bool cas_required;   /* every write must name the version that it replaces */
};
/* Decode a stored record, decrypted. The text lies in the arena. ST_CORRUPT, ST_NOMEM. */
NODISCARD enum status policy_decode(struct arena *arena, struct bytes value,
                                    struct policy_record *ret_record);
bool policy_has_expired(const struct policy_record *record, int64_t now_ms);

/* The stored policy, even if it has expired; if none is stored, the built-in policy of this name.
 * The text is zero-terminated. ST_NOT_FOUND; ST_CORRUPT; else as state_get. */
NODISCARD enum status policy_load(struct state_txn *txn, const char *ns, struct bytes name,
                                  struct policy_record *ret_record);
/* Stage a policy whose text compiles. `before_expire_ms` is the expire_ms of the stored policy that
 * this one replaces. It is 0 when no policy is stored or the stored policy does not expire.
 * ST_TOO_BIG; else as state_put. */
NODISCARD enum status policy_save(struct state_txn *txn, const char *ns, struct bytes name,
                                  const struct policy_record *record, int64_t before_expire_ms);
/* Stage the deletion of a policy, even if its record cannot be read. ST_OK also when no policy is
 * stored. As state_delete. */
NODISCARD enum status policy_delete(struct state_txn *txn, const char *ns, struct bytes name);
/* Background work of the active node: the deletion of an expired policy. */
extern const struct expiry_kind policy_expiry;
/* Store the built-in policies of a new cluster. As policy_save. */
NODISCARD enum status policy_found(struct state_txn *txn, const char *ns, int64_t now_ms);

#endif
