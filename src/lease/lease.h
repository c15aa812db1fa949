/* Leases: what is lent for a time, each under the path of the request that took it and an id. A
 * kind (struct lease_kind) says what is lent: tokens are one kind, an engine brings its own.
 *
 *   auth/token/create/ID        a service token that expires, below token.path
 *
 *   s/ns/NS/lease/LEASE         the index: the record of the lease, or nothing (see `indexed`)
 *   s/ns/NS/leaseend/TIME/LEASE the lease ends at this time: ms of cluster time, 12 hex digits
 *   s/ns/NS/unlease/PREFIX      "TIME KEY": work to do: end every lease below PREFIX that was
 *                               issued before TIME, in ms, from KEY of the index on
 *
 * The record: u8 format = 1; u8 flags: 1 renewable; varints issued, expire, renewed, in ms; block
 * name of the kind; the rest belongs to the kind.
 *
 * 1. A lease of a kind without `indexed` has a record and, unless it never expires, a key below
 *    leaseend/. This folder alone writes, renews and deletes both.
 * 2. A lease whose time has come is not found, whether or not its record was already deleted.
 * 3. Ending many leases begins with one transaction. The active node ends the rest from the mark
 *    below unlease/, a few in a transaction. A lease that is issued later stays. */
#ifndef HOLDFAST_LEASE_LEASE_H
#define HOLDFAST_LEASE_LEASE_H

#include "state/state.h"

enum {
    LEASE_ID_LEN = 24,     /* the id behind the path: [0-9A-Za-z] */
    LEASE_KINDS_MAX = 32,  /* of a server */
    LEASE_STEPS_MAX = 500, /* leases that the first transaction of lease_end_below looks at */
    LEASE_UPKEEP_STEPS = 100,
};

struct lease_kind;

/* The kinds of a server. */
struct lease_kinds {
    const struct lease_kind *items[LEASE_KINDS_MAX];
    size_t n;
};
/* Add a kind. No other kind has its name. */
void lease_kinds_add(struct lease_kinds *kinds, const struct lease_kind *kind);

/* Where leases are looked for, and when. */
struct lease_scope {
    struct state_txn *txn;
    const char *ns;
    const struct lease_kinds *kinds;
    int64_t now_ms; /* cluster time */
};

/* Strings and bytes lie in the transaction's arena. Times are ms of cluster time; 0: never. */
struct lease {
    const char *id; /* "PATH/ID" */
    const struct lease_kind *kind;
    int64_t issued_ms, expire_ms, renewed_ms;
    bool renewable;
    struct bytes data; /* the kind's part of the record; empty if `indexed` */
    const void *thing; /* set by `find` of the kind; else NULL */
};

/* A kind works within a transaction. Each function returns also what state_get and state_put
 * return. */
struct lease_kind {
    const char *name; /* 1 to 31 bytes; stored in records */
    /* The index holds only the names of these leases. The kind keeps the rest, puts and deletes the
     * keys of the index (lease_index_put, lease_index_drop) and ends expired leases by itself.
     * One kind of a server at most. */
    bool indexed;
    /* With `indexed`, else NULL: set times, `renewable` and `thing` of the lease with this id, as
     * stored, whether or not the lease is still good. ST_NOT_FOUND: there is none. */
    enum status (*find)(const struct lease_scope *scope, struct lease *lease);
    /* Whether a lease whose time has not come is good. ST_NOT_FOUND. NULL: always. */
    enum status (*check)(const struct lease_scope *scope, const struct lease *lease);
    /* Set `expire_ms` (and `data`) of a renewable lease that is good. `wanted_s`: the time to live
     * that was asked for; 0: none was. ST_INVALID with a reason. NULL: refused. */
    enum status (*renew)(const struct lease_scope *scope, struct lease *lease, int64_t wanted_s,
                         struct reason *why);
    /* Stage the end of what was lent, which may have expired. NULL: nothing to do. */
    enum status (*end)(const struct lease_scope *scope, const struct lease *lease);
};

/* Stage a new lease below `path`. Given are kind, expire_ms, renewable and data; sets the rest.
 * As state_put. */
NODISCARD enum status lease_create(const struct lease_scope *scope, struct env *env,
                                   const char *path, struct lease *lease);
/* ST_NOT_FOUND: there is none, or it has ended. ST_CORRUPT: also, no module has its kind. As
 * state_get. */
NODISCARD enum status lease_find(const struct lease_scope *scope, const char *id,
                                 struct lease *ret_lease);
/* Stage the renewal of a lease that lease_find gave. ST_INVALID with a reason; as state_put. */
NODISCARD enum status lease_renew(const struct lease_scope *scope, struct lease *lease,
                                  int64_t wanted_s, struct reason *why);
/* Stage the end of a lease that lease_find gave. As state_put. */
NODISCARD enum status lease_end(const struct lease_scope *scope, const struct lease *lease);
/* Stage the end of every lease below `prefix`, which ends in '/'. *ret_all: false: there are more
 * than LEASE_STEPS_MAX, and the rest ends later. As state_put. */
NODISCARD enum status lease_end_below(const struct lease_scope *scope, const char *prefix,
                                      bool *ret_all);

/* The key of the index below which the leases with `prefix` stand; `prefix` ends in '/' or is
 * empty. ST_NOMEM. */
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

/* Background work, for the active node: stage the end of some expired leases, else some work of
 * marks. `kinds` is a struct lease_kinds. Nothing staged: nothing is left to do. ST_SEALED,
 * ST_CORRUPT, ST_NOMEM. */
NODISCARD enum status lease_upkeep(const void *kinds, struct state_txn *txn, int64_t now_ms);

#endif
