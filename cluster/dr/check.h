/* Checks of the hashes that a node keeps in its tree: each is computed again from what it stands
 * for, at a pinned version, without locks. A thread that may block calls.
 *
 * A value that was damaged in memory after its hash was stored is found by this alone: the root
 * goes on being that of the whole value. Mending stores the hash of what is there, so that the next
 * comparison of the roots of a pair finds the damage, and the secondary repairs itself.
 *
 * Both are one walk over a pinned version. Upstream's reindex has stages, because it scans the
 * storage, builds an index beside the old one, replays what was written meanwhile and swaps the
 * two. Here the hashes are a part of the tree, and versions that are committed meanwhile share or
 * compute theirs: a reindex has upstream's stage "building" alone, and takes no lock. */
#ifndef HOLDFAST_CLUSTER_DR_CHECK_H
#define HOLDFAST_CLUSTER_DR_CHECK_H

#include "cluster/dr/site.h"

enum { DR_CHECK_NAMED = 8 };

/* Damage is told by the places of a table of 256 pages with 256 subpages each: the first two bytes
 * of the key behind its segment; 0 for a byte that is not there. */
struct dr_check_tree {
    bool corrupted; /* the root of the segment, or anything below */
    uint8_t root[DR_ROOT_BYTES];
    uint64_t n;                /* nodes with a wrong hash */
    uint8_t subpages[256][32]; /* a bit for each */
};

struct dr_check {
    struct dr_check_tree replicated, local;
    uint64_t keys;
    int64_t ended_ms; /* wall clock */
};

/* The same on a state that is not this node's replica; for tests. */
NODISCARD enum status dr_check_store(struct dr *dr, struct store *store, bool mend,
                                     struct dr_check *ret_check);
/* Check every key; `mend`: replace wrong hashes. ST_BUSY: another check runs, or no pin is free.
 * ST_CLOSED: there is no state, or the node stops. ST_NOMEM. */
NODISCARD enum status dr_check_run(struct dr *dr, bool mend, struct dr_check *ret_check);

#endif
