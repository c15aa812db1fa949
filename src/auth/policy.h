/* Policies: texts that say what a token may do where, compiled into rules.
 *
 *   path "kv/data/team*" {
 *     capabilities        = ["create", "update", "read"]
 *     denied_parameters   = { "ttl" = [] }
 *   }
 *
 * A pattern may end in '*' (any rest, across '/'); a segment that is "+" stands for one segment;
 * elsewhere both mean themselves. Which rule decides about a path, and how several policies come
 * together: acl.h.
 *
 * Stored at s/ns/NS/policy/NAME. A policy may have a time (cluster time) at which it expires: from
 * then on it grants nothing and cannot be read, whether or not it was deleted yet. The index
 * s/ns/NS/policyend/TIME/NAME says when to delete it. "root" and "response-wrapping" are never
 * stored. "default" is stored when the cluster is initialised; where it is not stored (an older
 * cluster), policy_builtin gives its text. */
#ifndef HOLDFAST_AUTH_POLICY_H
#define HOLDFAST_AUTH_POLICY_H

#include "state/state.h"
#include "text/value.h"

#define AUTH_POLICY_ROOT "root"
#define POLICY_DEFAULT "default"
#define POLICY_WRAPPING "response-wrapping"

enum {
    POLICY_TEXT_MAX = 512 * 1024,
    POLICY_NAME_MAX = 512,
    POLICY_PATTERN_MAX = 3000, /* as long as a path may be */
    POLICY_SEGMENTS_MAX = 128, /* of a pattern */
};

enum cap {
    CAP_CREATE = 1 << 0,
    CAP_READ = 1 << 1,
    CAP_UPDATE = 1 << 2,
    CAP_DELETE = 1 << 3,
    CAP_LIST = 1 << 4,
    CAP_PATCH = 1 << 5,
    CAP_SUDO = 1 << 6,
    CAP_DENY = 1 << 7, /* only ever alone */
    /* Known, and asked for by nothing here. */
    CAP_SCAN = 1 << 8,
    CAP_SUBSCRIBE = 1 << 9,
    CAP_RECOVER = 1 << 10,
};
enum { CAP_EVERYTHING = (1 << 11) - 1 - CAP_DENY, CAP_KINDS = 11 };

/* The word of capability number i < CAP_KINDS, in the order of the alphabet, and its bit. */
const char *cap_word(unsigned i, unsigned *ret_cap);

/* One parameter and the values a rule names for it; none: any value. */
struct policy_param {
    struct bytes name; /* lower case, or "*" */
    const struct text_value *const *values;
    size_t n_values;
};
/* Ordered by name. */
struct policy_params {
    const struct policy_param *items;
    size_t n;
};

struct policy_rule {
    struct bytes stem; /* the pattern without a '/' in front and without a '*' at the end */
    bool star;         /* the path ends in '*' */
    bool templated;    /* holds {{…}} */
    uint32_t n_plus;   /* segments that are "+" */
    unsigned caps;
    struct policy_params allowed, denied;
    const struct bytes *required; /* names, lower case */
    size_t n_required;
    int64_t min_wrap_s, max_wrap_s; /* 0: none */
};

/* A compiled policy; immutable. */
struct policy {
    struct arena arena; /* everything below */
    const struct policy_rule *rules;
    size_t n;
};

/* HCL or JSON. ST_INVALID with a reason that names the line and what is wrong; ST_TOO_BIG;
 * ST_NOMEM.
 */
NODISCARD enum status policy_compile(struct bytes text, struct policy **ret_policy,
                                     struct reason *why);
void policy_free(struct policy *policy); /* NULL is allowed */

/* A name as it is stored: spaces around it cut, lower case, in the arena. ST_INVALID: empty,
 * longer than POLICY_NAME_MAX, or with unprintable characters. ST_NOMEM. */
NODISCARD enum status policy_name(struct arena *arena, struct bytes text, const char **ret_name);

/* The text of a policy that is there without being stored; NULL. */
const char *policy_builtin(struct bytes name);

/* The key of a policy, in the arena; of the prefix of all with an empty name. ST_NOMEM. */
NODISCARD enum status policy_key(struct arena *arena, const char *ns, struct bytes name,
                                 struct bytes *ret_key);

/* A policy as it is stored. */
struct policy_record {
    struct bytes text;
    int64_t version; /* how often it was written; 0: by a build that did not count, or built in */
    int64_t modified_ms; /* 0: not known */
    int64_t expire_ms;   /* 0: never */
    bool cas_required;   /* every write must name the version it follows */
};
bool policy_has_expired(const struct policy_record *record, int64_t now_ms);

/* The stored policy, expired or not, its text zero-terminated; else the built-in one.
 * ST_NOT_FOUND; ST_CORRUPT; else as state_get. */
NODISCARD enum status policy_load(struct state_txn *txn, const char *ns, struct bytes name,
                                  struct policy_record *ret_record);
/* Stage a policy whose text was compiled. `before_expire_ms`: the expire_ms of the stored policy
 * that it replaces; 0 where that one does not expire, or there is none. ST_TOO_BIG; else as
 * state_put. */
NODISCARD enum status policy_save(struct state_txn *txn, const char *ns, struct bytes name,
                                  const struct policy_record *record, int64_t before_expire_ms);
/* Stage its deletion, also of a record that cannot be read; none is fine. As state_delete. */
NODISCARD enum status policy_delete(struct state_txn *txn, const char *ns, struct bytes name);
/* Background work, for the active node: stage the deletion of policies that have expired, some at a
 * time. Nothing staged: there is nothing to do now. ST_SEALED, ST_CORRUPT, ST_NOMEM. */
NODISCARD enum status policy_upkeep(struct state_txn *txn, int64_t now_ms);
/* Store the policies of a new cluster. As policy_save. */
NODISCARD enum status policy_found(struct state_txn *txn, const char *ns, int64_t now_ms);

#endif
