/* Kinds of leases, and the record of a lease: its last field belongs to the kind. */
#ifndef HOLDFAST_LEASE_LEASE_KIND_H
#define HOLDFAST_LEASE_LEASE_KIND_H

#include "lease/lease_ttl.h"
#include "state/state.h"

enum {
    LEASE_KINDS_MAX = 32,     /* kinds of a server */
    LEASE_DATA_MAX = 1024,    /* most bytes of a kind in one record */
    LEASE_TOKEN_LEN_MAX = 64, /* longest id of a token */
};

struct lease_kind;

/* The kinds of a server. */
struct lease_kinds {
    const struct lease_kind *items[LEASE_KINDS_MAX];
    size_t n;
    const struct lease_kind *tokens; /* the kind with `check_token`; NULL: there is none */
};
/* Add a kind. The name of a kind is unique. */
void lease_kinds_add(struct lease_kinds *kinds, const struct lease_kind *kind);

/* The scope of functions that work on leases: transaction, namespace, kinds and time. */
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
    /* Id of the token that has the lease: the lease is good only while this token is valid, and
     * ends with it. "": no token has the lease. */
    const char *token;
    int64_t issued_ms, expire_ms, renewed_ms;
    int64_t limit_ms; /* no renewal moves the end beyond this time; 0: no such limit */
    bool renewable;
    struct bytes data; /* the kind's part of the record; empty if `indexed` */
    const void *thing; /* set by `find` of the kind; else NULL */
};

/* A kind of leases. Each function works within a transaction and may also return the statuses of
 * state_get and state_put. */
struct lease_kind {
    const char *name; /* 1 to 31 bytes; stored in records */
    /* The index holds only the names of leases of this kind. The kind stores everything else, puts
     * and deletes the keys of the index (lease_index_put, lease_index_drop) and ends expired leases
     * by itself. At most one kind of a server is `indexed`. */
    bool indexed;
    /* Set times, `renewable` and `thing` of the stored lease with the id of `lease`, even if the
     * lease is no longer good. ST_NOT_FOUND: it does not exist. NULL unless `indexed`. */
    enum status (*find)(const struct lease_scope *scope, struct lease *lease);
    /* Whether a lease that has not expired is good. ST_NOT_FOUND: it is not. NULL: always good. */
    enum status (*check)(const struct lease_scope *scope, const struct lease *lease);
    /* Agree to the renewal of a good, renewable lease. The kind may change `data` and set own_s and
     * own_max_s of `ttl`: TTL and longest life where it has its own. The other fields are set, and
     * lease_renew makes the end of them. ST_INVALID with a reason. NULL: leases of this kind cannot
     * be renewed. */
    enum status (*renew)(const struct lease_scope *scope, struct lease *lease,
                         struct lease_ttl *ttl, struct reason *why);
    /* Stage the end of what was lent, which may have expired, with nothing but deletions and exempt
     * puts: leases end also in a full state. NULL: nothing to do. */
    enum status (*end)(const struct lease_scope *scope, const struct lease *lease);
    /* Only of the kind of tokens: whether the token of this id and all its ancestors are valid.
     * ST_NOT_FOUND: they are not. */
    enum status (*check_token)(const struct lease_scope *scope, const char *token);
    /* Given with check_token: stage the note that the token of this id has a lease. */
    enum status (*keep_token)(const struct lease_scope *scope, const char *token);
};

/* The kind with this name; with an empty name the `indexed` kind. NULL: there is none. */
const struct lease_kind *lease_kind_of(const struct lease_kinds *kinds, struct bytes name);

/* Append the record of a lease whose kind is not `indexed` and whose data fits. A failed allocation
 * shows in the status of `out`. */
void lease_record_put(const struct lease *lease, struct buf *out);
/* Read a record into all fields except id and thing; token and data are borrowed from the record.
 * If no kind of `kinds` has the name, `kind` is NULL. ST_CORRUPT: `record` is not a record;
 * *ret_lease is unchanged. */
NODISCARD enum status lease_record_read(struct bytes record, const struct lease_kinds *kinds,
                                        struct lease *ret_lease);

#endif
