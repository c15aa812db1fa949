/* Compiled policies, and what lists of them allow, kept between requests. One for each worker.
 *
 * 1. An ACL that is given out agrees with the policies of the transaction's pinned state: it was
 *    made from them, or nothing below their prefix has changed since.
 * 2. The policies as they were read are a precondition of the transaction, also that the named ones
 *    that do not exist are not created (PROTOCOL R3). It is one precondition for any number of
 *    policies.
 * 3. Memory is bounded: the ACL that was unused for longest is evicted first. An ACL that is given
 *    out stays. */
#ifndef HOLDFAST_AUTH_ACL_CACHE_H
#define HOLDFAST_AUTH_ACL_CACHE_H

#include "auth/acl.h"
#include "text/schema.h"

struct acl_cache;
struct acl_ref; /* a reference to an ACL that is in use */

/* ST_NOMEM. */
NODISCARD enum status acl_cache_new(struct env *env, struct acl_cache **ret_cache);
/* Forgets, and wipes, all that is not in use. NULL is allowed. */
void acl_cache_clear(struct acl_cache *cache);
/* Nothing may be in use. NULL is allowed. */
void acl_cache_free(struct acl_cache *cache);

/* Names of policies, as policy_name gives them. */
struct acl_names {
    struct field_strings list;
    /* The names in this order as one text, which is cheaper to compare; empty: not known. Equal
     * texts stand for equal lists, whatever token they come from. */
    struct bytes text;
    uint64_t hash;  /* of `text`, computed once when a token is read */
    int64_t now_ms; /* cluster time: policies that have expired by then grant nothing */
};

/* The ACL of the named policies together. Policies that do not exist allow nothing, and "root"
 * counts only alone. The ACL lives until acl_ref_drop. The transaction must not have staged
 * policies. ST_CORRUPT: one that is stored does not compile; ST_SEALED, ST_NOMEM. */
NODISCARD enum status acl_cache_get(struct acl_cache *cache, struct state_txn *txn, const char *ns,
                                    const struct acl_names *names, struct acl_ref **ret_ref);
const struct acl *acl_ref_get(const struct acl_ref *ref);
void acl_ref_drop(struct acl_ref *ref); /* NULL is allowed */

/* Of everything the cache was asked since it was made. */
struct acl_cache_counters {
    uint64_t hits, built, compiled;
    uint64_t bytes, acls, policies; /* now */
};
void acl_cache_counters(const struct acl_cache *cache, struct acl_cache_counters *ret_counters);

#endif
