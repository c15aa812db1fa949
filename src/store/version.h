/* A pinned version of the state, and what can be read of it: values, keys in order, newest
 * versions, hashes. Any thread reads without locks while the pin is held (store.h). */
#ifndef HOLDFAST_STORE_VERSION_H
#define HOLDFAST_STORE_VERSION_H

#include "base/bytes.h"
#include "base/status.h"

enum {
    STORE_KEY_MAX = 4096,
    STORE_HASH_BYTES = 32,
    STORE_PINS_MAX = 1024, /* pins held at once, all threads together */
};

struct store;
struct store_node;

/* A pinned version. Embedded; the root stays whole until store_unpin. Readable from any thread,
 * pinned and unpinned from any thread. */
struct store_pin {
    struct store *store;
    const struct store_node *root;  /* NULL when the tree is empty */
    const struct store_node *floor; /* of newest versions since a swap; NULL without */
    uint64_t newest;                /* the tree's own */
    uint64_t generation;            /* counts published batches */
    uint64_t version;               /* as the writer gave it to store_publish */
    unsigned slot;
};

struct store_item {
    struct bytes key;   /* as asked for, or the iterator's */
    struct bytes value; /* borrowed from the pinned tree */
    uint64_t created, modified;
};

/* ST_NOT_FOUND. Any thread. */
NODISCARD enum status store_get(const struct store_pin *pin, struct bytes key,
                                struct store_item *ret_item);
/* Newest version of anything that happened at or below `prefix` (a byte prefix), deletions
 * included; an empty prefix range answers with its nearest ancestor's. 0 in a new tree.
 *
 * It decides preconditions on every node, so it follows from the changes alone, not from node
 * layout or restarts. Nodes are exactly the keys and the points where two keys part. The topmost
 * node at or below `prefix` answers; if there is none, the lowest node above it, at last the tree
 * itself. Put and delete raise every node on the way from the root; a node that disappears leaves
 * the maximum to its only child. A tree loaded from every key (store_load_put) and every node's
 * newest (store_raise_newest) answers, and goes on to answer, as the original would. */
uint64_t store_newest(const struct store_pin *pin, struct bytes prefix);

/* How many keys begin with `prefix`; all keys when it is empty. Costs the length of the path, not
 * the number of keys. Exact up to 2^32 - 1 keys (store/node.h). Any thread. */
uint64_t store_count(const struct store_pin *pin, struct bytes prefix);

enum { STORE_ITER_FRAMES = 64 };

/* In-order walk over the keys that begin with `prefix`. Embedded; valid while the pin is. */
struct store_iter {
    struct store_item item;
    const struct store_node *root;
    size_t prefix_len, key_len;
    /* The path to the current node, outermost first: a ring that forgets its outer end, which is
     * found again from the root when the walk comes back to it. */
    unsigned n_frames, first_frame;
    struct store_frame {
        const struct store_node *node;
        uint16_t next;  /* 0: the own value; else 1 + the child to visit */
        uint16_t depth; /* key bytes up to the end of the node's prefix */
    } frames[STORE_ITER_FRAMES];
    uint8_t key[STORE_KEY_MAX];
};
/* Position before the first key ≥ `from` (empty: the first of the prefix). Borrows neither. */
void store_iter_init(struct store_iter *iter, const struct store_pin *pin, struct bytes prefix,
                     struct bytes from);
/* false at the end; else iter->item is the next key, valid until the next call. */
bool store_iter_next(struct store_iter *iter);
/* Continue after every key that begins with `skip`, a prefix of the item just given (for listings
 * that fold sub-folders). */
void store_iter_skip(struct store_iter *iter, struct bytes skip);

/* Merkle hash of all keys that begin with `prefix`, over the key remainder and value. Computed on
 * first use into write-once fields; any thread, best on a worker. All zero when there are none. */
void store_hash(const struct store_pin *pin, struct bytes prefix,
                uint8_t ret_hash[STORE_HASH_BYTES]);

#endif
