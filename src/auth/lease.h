/* Leases: what was given out for a time, each under the path it was asked at and an id.
 *
 *   auth/token/create/ID        a service token that expires, below token.path
 *
 *   s/ns/NS/lease/LEASE         there is such a lease; an empty value: a token, whose record tells
 *                               the rest
 *   s/ns/NS/unlease/PREFIX      "TIME KEY": all that was issued below before that time, in ms, is
 * to be ended, from that entry of the index on
 *
 * The index is for those who list and end many; one lease is found by its id. An engine that gives
 * leases puts a record of its own as the value, and its kind into lease_find and lease_end.
 *
 * Ending many begins with one transaction; what it does not reach, the active node ends from the
 * mark it leaves, a few in a transaction. */
#ifndef HOLDFAST_AUTH_LEASE_H
#define HOLDFAST_AUTH_LEASE_H

#include "auth/token.h"

enum {
    LEASE_STEPS_MAX = 500, /* looked at by the first transaction */
    LEASE_UPKEEP_STEPS = 100,
};

struct lease {
    const char *id;
    int64_t issued_ms, expire_ms, renewed_ms; /* 0: never */
    bool renewable;
    struct auth_token token; /* the leased token */
};

/* Stage the index entry of a token that is made, or ended; nothing for one that never expires. As
 * state_put. */
NODISCARD enum status lease_put_token(const struct auth_scope *scope,
                                      const struct auth_token *token);
NODISCARD enum status lease_drop_token(const struct auth_scope *scope,
                                       const struct auth_token *token);

/* ST_NOT_FOUND: there is none, or it has ended. Else as auth_token_load_id. */
NODISCARD enum status lease_find(const struct auth_scope *scope, const char *id,
                                 struct lease *ret_lease);
/* Stage its end. As state_put. */
NODISCARD enum status lease_end(const struct auth_scope *scope, const struct lease *lease);

/* The key of the leases below `prefix`, which ends in '/' or is empty. ST_NOMEM. */
NODISCARD enum status lease_prefix(const struct auth_scope *scope, const char *prefix,
                                   struct bytes *ret_key);
/* Stage the end of all below `prefix`, which ends in '/'. *ret_all: false: of more than
 * LEASE_STEPS_MAX, the rest later. As state_put. */
NODISCARD enum status lease_end_below(const struct auth_scope *scope, const char *prefix,
                                      bool *ret_all);

/* Background work, for the active node: stage some of what marks ask for. Nothing staged: nothing
 * is left to do. ST_SEALED, ST_CORRUPT, ST_NOMEM. */
NODISCARD enum status lease_upkeep(struct state_txn *txn, int64_t now_ms);

#endif
