/* Kinds of leases, and the record of a lease.
 *
 * The record: u8 format = 1; u8 flags: 1 renewable; varints issued, expire, renewed, in ms; block
 * name of the kind; the rest belongs to the kind. */
#ifndef HOLDFAST_LEASE_LEASE_KIND_H
#define HOLDFAST_LEASE_LEASE_KIND_H

#include "state/state.h"

enum { LEASE_KINDS_MAX = 32 /* of a server */ };

struct lease_kind;

/* The kinds of a server. */
struct lease_kinds {
    const struct lease_kind *items[LEASE_KINDS_MAX];
    size_t n;
};
/* Add a kind. No other kind has its name. */
void lease_kinds_add(struct lease_kinds *kinds, const struct lease_kind *kind);

/* The scope of calls about leases: transaction, namespace, kinds and time. */
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

/* The kind with this name; with an empty name the `indexed` kind. NULL: there is none. */
const struct lease_kind *lease_kind_of(const struct lease_kinds *kinds, struct bytes name);

/* Append the record of a lease whose kind is not `indexed`. A failed allocation shows in the status
 * of `out`. */
void lease_record_put(const struct lease *lease, struct buf *out);
/* Set everything but id and thing; the data is borrowed from the record. ST_CORRUPT: no record, or
 * of no kind in `kinds`; *ret_lease is unchanged. */
NODISCARD enum status lease_record_read(struct bytes record, const struct lease_kinds *kinds,
                                        struct lease *ret_lease);

#endif
