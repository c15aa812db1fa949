/* Counters of the link of disaster recovery on this node since the process began, for the metrics.
 * Any thread counts. */
#ifndef HOLDFAST_CLUSTER_DR_COUNTS_H
#define HOLDFAST_CLUSTER_DR_COUNTS_H

#include <stdatomic.h>
#include <stdint.h>

enum { DR_COUNTS_PURPOSES = 6, DR_COUNTS_REFUSALS = 13 };

struct dr_counts {
    /* On a primary. The purposes are those of dr_frame.h; a refusal of a later build counts as 0.
     */
    _Atomic uint64_t served[DR_COUNTS_PURPOSES];  /* connections that were welcomed */
    _Atomic uint64_t refused[DR_COUNTS_REFUSALS]; /* connections that were refused, by reason */
    _Atomic uint64_t found, missing;              /* streams whose records the ring had, or not */
    _Atomic uint64_t stream_bytes, sync_bytes;    /* on the wire */
    _Atomic uint64_t equal, different;            /* comparisons of roots */
    _Atomic uint64_t conflicts;                   /* conflicts that began */

    /* On a secondary. */
    _Atomic uint64_t streams, stream_failures;     /* begun; attempts that failed */
    _Atomic uint64_t syncs_whole, syncs_different; /* syncs that ended well */
    _Atomic uint64_t syncs_failed;
    _Atomic uint64_t received_bytes; /* of syncs, on the wire */
    _Atomic uint64_t repairs;        /* difference syncs because roots differed */

    /* On a promoted cluster. */
    _Atomic uint64_t heralded, unheard; /* announcements that were answered, or not */
};

static inline void dr_count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

#endif
