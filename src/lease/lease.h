/* Leases: what is lent for a time. A lease is named by the path of the request that created it and
 * an id. A kind (struct lease_kind) says what is lent: tokens are one kind, an engine brings its
 * own.
 *
 *   auth/token/create/ID        a service token that expires, below token.path
 *
 *   s/ns/NS/lease/LEASE         the index: the record of the lease (lease_kind.h), or nothing
 *   s/ns/NS/leaseend/TIME/LEASE the lease ends at this time: ms of cluster time, 12 hex digits
 *   s/ns/NS/unlease/PREFIX      "TIME KEY": work to do: end every lease below PREFIX that was
 *                               issued before TIME, in ms, from KEY of the index on
 *
 * 1. A lease of a kind without `indexed` has a record and, unless it never expires, a key below
 *    leaseend/. Only the functions of this folder write, renew and delete the record and the key.
 * 2. A lease whose time has come is not found, whether or not its record was already deleted.
 * 3. One transaction begins the end of many leases and writes a mark below unlease/. The active
 *    node reads the mark and ends the other leases, a few in each transaction. A lease that is
 *    issued later stays. */
#ifndef HOLDFAST_LEASE_LEASE_H
#define HOLDFAST_LEASE_LEASE_H

#include "lease/lease_kind.h"

enum {
    LEASE_FEATURE = 2, /* feature level of records: builds before read them as names of tokens */
    LEASE_ID_LEN = 24, /* the id after the path: [0-9A-Za-z] */
    LEASE_STEPS_MAX = 500, /* leases that the first transaction of lease_end_below looks at */
    LEASE_UPKEEP_STEPS = 100,
};

/* Stage a new lease below `path`. The caller sets kind, expire_ms, renewable and data; this
 * function sets the other fields. The cluster must have LEASE_FEATURE, which req_lease_create
 * checks. As state_put. */
NODISCARD enum status lease_create(const struct lease_scope *scope, struct env *env,
                                   const char *path, struct lease *lease);
/* Find a lease. ST_NOT_FOUND: the lease does not exist or has ended. ST_CORRUPT: also when no
 * module has the kind of the lease. Else as state_get. */
NODISCARD enum status lease_find(const struct lease_scope *scope, const char *id,
                                 struct lease *ret_lease);
/* Stage the renewal of a lease that lease_find gave. ST_INVALID with a reason; as state_put. */
NODISCARD enum status lease_renew(const struct lease_scope *scope, struct lease *lease,
                                  int64_t wanted_s, struct reason *why);
/* Stage the end of a lease that lease_find gave. As state_put. */
NODISCARD enum status lease_end(const struct lease_scope *scope, const struct lease *lease);
/* Stage the end of every lease below `prefix`, which ends in '/'. If *ret_all is false, there are
 * more than LEASE_STEPS_MAX leases, and the others end later. As state_put. */
NODISCARD enum status lease_end_below(const struct lease_scope *scope, const char *prefix,
                                      bool *ret_all);

/* The key of the index that all leases with `prefix` begin with. `prefix` ends in '/' or is empty.
 * ST_NOMEM. */
NODISCARD enum status lease_prefix(struct arena *arena, const char *ns, const char *prefix,
                                   struct bytes *ret_key);
/* Stage or delete the name "PATH/ID" in the index, for a kind that is `indexed`. Slashes at the end
 * of `path` do not count. As state_put. */
NODISCARD enum status lease_index_put(struct state_txn *txn, const char *ns, const char *path,
                                      const char *id);
NODISCARD enum status lease_index_drop(struct state_txn *txn, const char *ns, const char *path,
                                       const char *id);
/* "PATH/ID" as the index has it; NULL without memory. */
const char *lease_id(struct arena *arena, const char *path, const char *id);

/* Background work for the active node: stage the end of some expired leases; if none has expired,
 * work of some marks. `kinds` is a struct lease_kinds. If nothing is staged, nothing is left to do.
 * ST_SEALED, ST_CORRUPT, ST_NOMEM. */
NODISCARD enum status lease_upkeep(const void *kinds, struct state_txn *txn, int64_t now_ms);

#endif
