/* The largest folders below a prefix. A folder is everything below the prefix up to the next '/' of
 * a key; its size is its number of keys. */
#ifndef HOLDFAST_STATE_LARGEST_H
#define HOLDFAST_STATE_LARGEST_H

#include "state/state_txn.h"

struct state_folder {
    struct bytes name; /* below the prefix, without '/'; in the arena of the transaction */
    uint64_t keys;
};

/* Find the `max` largest folders below `prefix` in the pinned state, the largest first.
 *
 * looks      how many parts of the tree the search may look at. The cost does not depend on the
 *            number of keys. A few large folders are found with few looks; folders of equal size
 *            take one look each.
 * ret_items  an array of `max`; *ret_n of them are set
 * ret_exact  false: there were too few looks, and a folder that is not in the result may be larger
 *
 * The result is no precondition of the transaction. ST_NOMEM. */
NODISCARD enum status state_largest(const struct state_txn *txn, struct bytes prefix, size_t max,
                                    unsigned looks, struct state_folder *ret_items, size_t *ret_n,
                                    bool *ret_exact);

#endif
