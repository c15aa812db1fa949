/* The links of the chain of root keys (barrier/chain.c) in the state. Private to src/state.
 *
 *   s/core/superseded/NUMBER   a rekey: read by nodes that slept through it, and by DR secondaries
 *   l/core/superseded/NUMBER   a DR secondary's own: for its standbys, when it takes over its
 *                              primary's state, or wraps its own keys by a new root key
 *   l/core/handover            the only link below feature level RLOG_FEATURE_DR
 *
 * NUMBER is 20 decimal digits and ascends. The records are not encrypted by a ring. */
#ifndef HOLDFAST_STATE_SUPERSEDED_H
#define HOLDFAST_STATE_SUPERSEDED_H

#include "state/state_internal.h"

enum {
    SUPERSEDED_DIGITS = 20,
    SUPERSEDED_NAME_MAX = sizeof BARRIER_LINKS + SUPERSEDED_DIGITS,
    SUPERSEDED_LOCAL_MAX = 7, /* most local links */
    /* most links of rekeys: with the local ones and the former form as many as a barrier reads */
    SUPERSEDED_MAX = BARRIER_LINKS_MAX - SUPERSEDED_LOCAL_MAX - 1,
    SUPERSEDED_MS = 60 * 60 * 1000, /* how long a link stays at least */
};

/* The names of collected links. */
struct superseded_names {
    char text[BARRIER_LINKS_MAX][SUPERSEDED_NAME_MAX];
};
/* Add the links of a pinned version to `records`. The names lie in `names`, which lives as long as
 * the records. Of too many links, the last ones are taken. */
void superseded_collect(const struct store_pin *pin, struct barrier_records *records,
                        struct superseded_names *names);

/* The barrier's records at a pinned version; in core.c. They are valid while the version is pinned,
 * and point into the struct. */
struct core_records {
    struct barrier_records records;
    struct superseded_names names;
};
void core_read(const struct store_pin *pin, struct core_records *ret);

/* The name of a new link below `prefix`, written to `room`: after the names of the pinned version.
 */
struct bytes superseded_name(const struct store_pin *pin, struct bytes prefix,
                             char room[SUPERSEDED_NAME_MAX]);

/* Stage the deletion of each link below `prefix` that is an hour old, and that was stored at
 * `version` or before. As state_delete. */
NODISCARD enum status superseded_expire(struct state_txn *txn, struct bytes prefix, int64_t now_ms,
                                        uint64_t version);

#endif
