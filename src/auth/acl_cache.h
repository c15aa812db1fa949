/* Compiled policies and ACLs, kept between requests. Each worker has its own cache.
 *
 * 1. An ACL that acl_cache_get gives out agrees with the policies of the transaction's pinned
 *    state: the ACL was made from these policies, or no policy has changed since.
 * 2. The policies that an ACL was made from are a precondition of the transaction. The absence of
 *    named policies that do not exist is a precondition too (PROTOCOL R3). One precondition covers
 *    any number of policies: the newest change below their prefix.
 * 3. Memory is bounded: the least recently used ACL is evicted first. An ACL in use stays. */
#ifndef HOLDFAST_AUTH_ACL_CACHE_H
#define HOLDFAST_AUTH_ACL_CACHE_H

#include "auth/acl.h"
#include "text/schema.h"

struct acl_cache;
struct acl_ref; /* A reference to an ACL that is in use. */

/* How the policies of one kind are stored and compiled. A compiled policy and an ACL are opaque to
 * the cache. The functions get the kind, which may be part of a struct with settings. */
struct acl_kind {
    /* The key of a named policy, in the arena; of an empty name the prefix of all policies.
     * ST_NOMEM. */
    enum status (*key)(const struct acl_kind *kind, struct arena *arena, const char *ns,
                       struct bytes name, struct bytes *ret_key);
    /* Load and compile a policy. *ret_expire_ms is the cluster time at which it expires; 0: never.
     * ST_NOT_FOUND: there is none; ST_CORRUPT: it does not compile; ST_SEALED, ST_NOMEM. */
    enum status (*load)(const struct acl_kind *kind, struct state_txn *txn, const char *ns,
                        struct bytes name, void **ret_policy, int64_t *ret_expire_ms);
    void (*free)(void *policy);
    size_t (*bytes)(const void *policy); /* bytes of memory that the policy takes */
    /* Make an ACL of `n` policies, which outlive it, for a token of an entity or NULL. ST_NOMEM. */
    enum status (*merge)(const struct acl_kind *kind, const void *const *policies, size_t n,
                         const struct identity *identity, void **ret_acl);
    void (*acl_free)(void *acl); /* NULL is allowed */
    size_t (*acl_bytes)(const void *acl);
    bool has_root; /* a list that has only "root" gives acl_of_root() */
};
/* Policies of the secrets service; its ACLs are struct acl. */
extern const struct acl_kind acl_secrets;

/* Make an empty cache of policies of one kind, which outlives the cache. ST_NOMEM. */
NODISCARD enum status acl_cache_new(struct env *env, const struct acl_kind *kind,
                                    struct acl_cache **ret_cache);
/* Drop every entry; an ACL in use lives until its last reference is dropped. NULL is allowed. */
void acl_cache_clear(struct acl_cache *cache);
/* Free the cache; no ACL may be in use. NULL is allowed. */
void acl_cache_free(struct acl_cache *cache);

/* Names of policies, in the form that the kind stores: for acl_secrets the form that policy_name
 * gives. */
struct acl_names {
    struct field_strings list;
    /* The names of `list` as one text, which is cheaper to compare. Empty: the text is not known.
     * Equal texts mean equal lists, even when the lists belong to different tokens. */
    struct bytes text;
    uint64_t hash;  /* hash of `text`, computed once when a token is read; 0 without a text */
    int64_t now_ms; /* cluster time: policies that expire at or before it grant nothing */
    /* Fills the templates. NULL: the token has no entity. Else `text` names the entity too. */
    const struct identity *identity;
};

/* The ACL of all named policies together. Policies that do not exist allow nothing. "root" is the
 * root policy only when it is alone in the list, and only where the kind has one. The ACL lives
 * until acl_ref_drop. The transaction must not have staged policies. ST_CORRUPT: a stored policy
 * does not compile; ST_SEALED, ST_NOMEM. */
NODISCARD enum status acl_cache_get(struct acl_cache *cache, struct state_txn *txn, const char *ns,
                                    const struct acl_names *names, struct acl_ref **ret_ref);
/* The ACL, of the type that the cache's kind makes. */
const void *acl_ref_get(const struct acl_ref *ref);
void acl_ref_drop(struct acl_ref *ref); /* NULL is allowed */

struct acl_cache_counters {
    uint64_t hits, built,
        compiled; /* counts since the cache was made: hits, ACLs built, policies compiled */
    uint64_t bytes, acls, policies; /* present size of the cache */
};
void acl_cache_counters(const struct acl_cache *cache, struct acl_cache_counters *ret_counters);

#endif
