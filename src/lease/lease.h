/* Leases: what is lent for a time. A lease is named by the path of the request that created it and
 * an id. A kind (struct lease_kind) says what is lent: tokens are one kind, an engine brings its
 * own.
 *
 *   auth/token/create/ID        a service token that expires, below token.path
 *
 *   s/ns/NS/lease/LEASE               the index: the record of the lease (lease_kind.h), or nothing
 *   s/ns/NS/token-lease/TOKEN/LEASE   the token has the lease
 *   s/expire/TIME/NS/lease/LEASE      the lease ends at TIME (lease/expiry.h)
 *   s/unfinished/NS/lease/PREFIX      work to do: "TIME VERSION KEY": end every lease below PREFIX
 *                                     that existed in VERSION of the state, from KEY of the index
 *                                     on; VERSION 0: the version that wrote the mark. "TIME KEY",
 *                                     of a build of the first feature level: that was issued at
 *                                     TIME, in ms, or before
 *   s/unfinished/NS/lease/PREFIXforce   the same, and leases that cannot be ended are dropped
 *   s/ns/NS/lease-skipped/PREFIX      "TIME VERSION ": at TIME a mark had met every lease below
 *                                     PREFIX that existed in VERSION, and could end none
 *
 * 1. A lease of a kind without `indexed` has a record, a key below token-lease/ if a token has it
 *    and, unless it never expires, an entry of the expiry index. Only the functions of this folder
 *    write, renew and delete them.
 * 2. A lease whose time has come is not found, whether or not its record was already deleted. So is
 *    a lease whose token, or an ancestor of the token, has ended (PROTOCOL R3).
 * 3. For the end of many leases, a transaction only writes a mark of unfinished work. The active
 *    node reads the mark and ends the leases, a few in each transaction. A lease that is issued
 *    later stays.
 * 4. No lease holds up the end of others. A lease whose record or kind cannot be read is skipped
 *    and counted; it cannot be used. */
#ifndef HOLDFAST_LEASE_LEASE_H
#define HOLDFAST_LEASE_LEASE_H

#include "lease/expiry.h"
#include "lease/lease_kind.h"

#ifndef HOLDFAST_LEASE_STEPS /* the simulator sets fewer, because its clients have few leases */
#define HOLDFAST_LEASE_STEPS 500
#endif

enum {
    LEASE_FEATURE = 2, /* feature level of records: builds before read them as names of tokens */
    LEASE_ID_LEN = 24, /* the id after the path: [0-9A-Za-z] */
    /* lease_end_below leaves more leases to the active node */
    LEASE_STEPS_MAX = HOLDFAST_LEASE_STEPS,
};

/* Stage a new lease below `path`. The caller sets kind, token (NULL: none), expire_ms, limit_ms,
 * renewable and data; this function sets the other fields. The transaction has read the token and
 * its ancestors. The cluster must have LEASE_FEATURE, which req_lease_create checks. ST_TOO_BIG:
 * the data is longer than LEASE_DATA_MAX. As state_put. */
NODISCARD enum status lease_create(const struct lease_scope *scope, struct env *env,
                                   const char *path, struct lease *lease);
/* Find a lease. ST_NOT_FOUND: the lease does not exist or has ended, or its token has. The answer
 * is a precondition of the transaction: an engine that honours a lease asks here. ST_CORRUPT: when
 * no module has the kind of the lease. Else as state_get. */
NODISCARD enum status lease_find(const struct lease_scope *scope, const char *id,
                                 struct lease *ret_lease);
/* Whether a lease that lease_find does not find is stored and its time has come. */
bool lease_is_expired(const struct lease_scope *scope, const char *id);
/* Stage the renewal of a lease that lease_find gave. `wanted_s` is the time to live that the
 * request names; 0: none. `limits` are those of the mount that gave the lease. *ret_cut says which
 * limit cut the lease: a renewal never fails because it is too long. ST_INVALID with a reason; as
 * state_put. */
NODISCARD enum status lease_renew(const struct lease_scope *scope, struct lease *lease,
                                  int64_t wanted_s, const struct lease_limits *limits,
                                  struct lease_cut *ret_cut, struct reason *why);
/* Stage the end of a lease that lease_find gave. As state_put. */
NODISCARD enum status lease_end(const struct lease_scope *scope, const struct lease *lease);
/* Stage the deletion of a lease's record without the end of what was lent: for a lease that cannot
 * be ended, because its record or kind cannot be read. As state_put. */
NODISCARD enum status lease_drop(const struct lease_scope *scope, const char *id);

struct lease_ended {
    bool all;         /* no lease is left to look at */
    unsigned skipped; /* leases that cannot be ended: record or kind cannot be read */
};
/* Stage the end of a stored lease, also of one that lease_find does not find because its time has
 * come or its token has ended. A lease that cannot be ended is counted as skipped and stays; with
 * `force` it is dropped. ST_NOT_FOUND; as state_put. */
NODISCARD enum status lease_end_one(const struct lease_scope *scope, const char *id, bool force,
                                    struct lease_ended *ended);
/* Stage the end of every lease below `prefix`, which ends in '/'. Unless `all` is set in the
 * result, there are more than LEASE_STEPS_MAX leases, and they end later. A repeated request
 * sets `all` in the end, also if more than LEASE_STEPS_MAX leases cannot be ended and nothing else
 * changes below `prefix`. Leases that cannot be ended stay; with `force` they are dropped. As
 * state_put. */
NODISCARD enum status lease_end_below(const struct lease_scope *scope, const char *prefix,
                                      bool force, struct lease_ended *ret_ended);
/* Stage the end of the leases that a token has, which has ended: of *steps leases at most, and take
 * their number from *steps. *ret_all: none is left. Leases that cannot be ended stay, without the
 * key of the token. As state_put. */
NODISCARD enum status lease_end_of_token(const struct lease_scope *scope, const char *token,
                                         unsigned *steps, bool *ret_all);
/* How often this process has skipped a lease that cannot be ended. Any thread. */
uint64_t lease_skipped_total(void);

/* The key of the index that all leases with `prefix` begin with. `prefix` ends in '/' or is empty.
 * ST_NOMEM. */
NODISCARD enum status lease_prefix(struct arena *arena, const char *ns, const char *prefix,
                                   struct bytes *ret_key);
/* The prefix of the keys that name the leases of tokens: each goes on with "TOKEN/LEASE".
 * ST_NOMEM. */
NODISCARD enum status lease_tokens_prefix(struct arena *arena, const char *ns,
                                          struct bytes *ret_key);
/* The prefix of the keys that name the leases of a token: each ends with the lease. ST_NOMEM. */
NODISCARD enum status lease_token_prefix(struct arena *arena, const char *ns, const char *token,
                                         struct bytes *ret_key);
/* Stage or delete the name "PATH/ID" in the index, for a kind that is `indexed`. Slashes at the end
 * of `path` do not count. As state_put. */
NODISCARD enum status lease_index_put(struct state_txn *txn, const char *ns, const char *path,
                                      const char *id);
NODISCARD enum status lease_index_drop(struct state_txn *txn, const char *ns, const char *path,
                                       const char *id);
/* "PATH/ID" as the index has it; NULL without memory. */
const char *lease_id(struct arena *arena, const char *path, const char *id);

/* Background work of the active node: the end of an expired lease that is not `indexed`, and the
 * work of a mark. */
extern const struct expiry_kind lease_expiry;

#endif
