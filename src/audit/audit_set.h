/* The audit devices that count for a request on this node, as one immutable set.
 *
 * A request takes a reference when its transaction has begun, and keeps it until every device has
 * answered for every record. A device stays open as long as a set that has the device is
 * referenced, so each record of a request can be offered to the devices of its set. */
#ifndef HOLDFAST_AUDIT_AUDIT_SET_H
#define HOLDFAST_AUDIT_AUDIT_SET_H

#include "state/state_txn.h"
#include "text/schema.h"

#include <stdatomic.h>

struct audit_device;

enum { AUDIT_SET_MAX = 16 }; /* devices of a node: of the state and of the configuration file */

/* One enabled device. */
struct audit_use {
    struct audit_device
        *device; /* NULL: this node could not make the device: no record goes to it */
    const char *path, *type, *description; /* `path` ends in '/' */
    struct field_map options;
    bool local;
    bool declared;   /* of the configuration file; false: of the state */
    const char *why; /* why `device` is NULL */
};

/* A request header that records show. */
struct audit_header {
    const char *name; /* in lower case */
    bool hmac;        /* the values are shown as HMACs */
};

struct audit_set {
    _Atomic unsigned refs;
    void (*release)(struct audit_set *set); /* called with the last reference */
    /* Every enabled device. If there is one, at least one device must accept each record. */
    const struct audit_use *uses[AUDIT_SET_MAX];
    unsigned n_uses;
    struct audit_device *devices[AUDIT_SET_MAX]; /* devices of `uses` that are not NULL */
    unsigned n;
    const struct audit_header *headers;
    unsigned n_headers;
};

struct audit_places;

/* Where requests find the present set. A test may bring a table of its own. */
struct audit_table {
    const struct audit_places *places; /* where devices may write files (places.h); NULL: nowhere */
    /* Add a reference to the set that has at least the devices that the version of `txn` names. A
     * set may be newer than the transaction. `txn` NULL: the newest set that this node knows, which
     * on a sealed node has the devices of the configuration file only. Never waits for a device.
     * ST_CORRUPT, ST_NOMEM, ST_BUSY: the devices cannot be read, so the request must fail. Any
     * thread. */
    enum status (*get)(struct audit_table *table, struct state_txn *txn,
                       struct audit_set **ret_set);
};

static inline struct audit_set *audit_set_ref(struct audit_set *set)
{
    unsigned before = atomic_fetch_add_explicit(&set->refs, 1, memory_order_relaxed);
    ASSERT(before > 0);
    return set;
}

/* NULL is allowed. Any thread. */
static inline void audit_set_unref(struct audit_set *set)
{
    if (set == NULL)
        return;
    unsigned before = atomic_fetch_sub_explicit(&set->refs, 1, memory_order_acq_rel);
    ASSERT(before > 0);
    if (before == 1)
        set->release(set);
}

#endif
