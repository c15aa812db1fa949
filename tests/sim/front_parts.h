/* A node's side of what tokens of clients are used for: leases, wrapped replies, the registry, and
 * what an operator changes. */
#ifndef HOLDFAST_SIM_FRONT_PARTS_H
#define HOLDFAST_SIM_FRONT_PARTS_H

#include "auth/token.h"
#include "front.h"
#include "lease/lease.h"

/* front_lease.c */
extern const struct lease_kinds front_leases;
/* Take lease `op->about` for a token. ST_EXISTS: it was taken before. */
NODISCARD enum status front_lease_take(const struct auth_scope *scope, struct env *env,
                                       const struct auth_token *token, const struct front_op *op,
                                       int64_t *ret_expire_ms);
/* ST_NOT_FOUND: it is not good. */
NODISCARD enum status front_lease_find(const struct auth_scope *scope, uint64_t number,
                                       struct lease *ret_lease);
NODISCARD enum status front_lease_renew(const struct auth_scope *scope, struct lease *lease,
                                        int64_t ttl_s);
NODISCARD enum status front_lease_end(const struct auth_scope *scope, const struct lease *lease);
/* End the leases of a folder. *ret_all false: a mark is left. */
NODISCARD enum status front_lease_end_below(const struct auth_scope *scope, uint64_t folder,
                                            bool force, bool *ret_all);
struct front_lease_counts {
    uint64_t leases;    /* that lamps name */
    uint64_t records;   /* in the index */
    uint64_t of_tokens; /* keys below tokens */
    uint64_t free;      /* leases of batch tokens without a parent: no token has them */
    uint64_t orphans;   /* leases whose token is gone */
};
/* Count at the end of a run, and fail unless records and keys fit. */
NODISCARD enum status front_lease_look(struct node *n, struct state_txn *txn,
                                       struct front_lease_counts *ret_counts);
/* Fail if a lease is left whose folder was ended. No mark is left. */
void front_lease_check(struct node *n, const struct front_log *log);

/* front_wrap.c */
struct front_wrapped {
    const char *bearer; /* of the wrapping token that was made, in the arena */
    int64_t expire_ms;
    uint64_t value; /* that is wrapped */
};
NODISCARD enum status front_wrap(const struct auth_scope *scope, struct env *env, uint64_t value,
                                 int64_t ttl_s, struct front_wrapped *ret);
/* Look up, take, or take and wrap again what a wrapping token keeps. ST_NOT_FOUND: it is not
 * good. */
NODISCARD enum status front_peek(const struct auth_scope *scope, const char *bearer,
                                 struct front_wrapped *ret);
NODISCARD enum status front_unwrap(const struct auth_scope *scope, const char *bearer,
                                   struct front_wrapped *ret);
NODISCARD enum status front_rewrap(const struct auth_scope *scope, struct env *env,
                                   const char *bearer, struct front_wrapped *ret);
/* Count what wrapping tokens keep of which the token is gone. */
NODISCARD enum status front_wrap_look(struct state_txn *txn, uint64_t *ret_orphans);

/* front_registry.c */
NODISCARD enum status front_registry_cache(struct env *env, struct acl_cache **ret_cache);
/* ST_EXISTS: the feature level is too low, or the token exists. */
NODISCARD enum status front_registry_edit(struct state_txn *txn, const struct front_op *op);
NODISCARD enum status front_registry_create(const struct auth_scope *scope,
                                            const struct front_op *op, const char *bearer,
                                            int64_t *ret_expire_ms);
/* Whether the token may look. ST_DENIED. */
NODISCARD enum status front_registry_check(struct node *n, const struct auth_scope *scope,
                                           const struct auth_token *token);

/* front_operator.c */
const char *front_policy_name(uint64_t policy);
NODISCARD enum status front_policy_edit(struct state_txn *txn, uint64_t policy, bool allow);
/* Whether the token may look and write. ST_DENIED. */
NODISCARD enum status front_policy_check(struct node *n, struct state_txn *txn,
                                         const struct auth_token *token, int64_t now_ms);
NODISCARD enum status front_rekey(struct node *n, struct state_txn *txn, const struct front_op *op,
                                  int64_t now_ms);

#endif
