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

/* A pinned version. Embedded; the tree stays whole until store_unpin. Any thread may pin, read and
 * unpin. */
struct store_pin {
    struct store *store;
    const struct store_node *root;  /* NULL when the tree is empty */
    const struct store_node *floor; /* lower bound of newest versions after a swap; else NULL */
    uint64_t newest;                /* newest version of the whole tree */
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
/* The newest version of all changes at or below `prefix` (a byte prefix), deletions included. Where
 * no key begins with `prefix`, the nearest node above decides. 0 in a new tree.
 *
 * The cluster's nodes decide preconditions by this version, so it depends on the changes alone, not
 * on memory layout or restarts. Tree nodes are exactly the keys and the points where two keys part.
 * The topmost tree node at or below `prefix` decides; if there is none, the lowest node above
 * `prefix`, at last the tree itself. Put and delete raise every node on the way from the root. A
 * node that disappears leaves the greater version to its only child. A tree that was loaded from
 * every key (store_load_put) and every node's newest version (store_raise_newest) gives the same
 * versions as the original, also after later changes. */
uint64_t store_newest(const struct store_pin *pin, struct bytes prefix);

/* How many keys begin with `prefix`; all keys when it is empty. Costs the length of the path, not
 * the number of keys. Exact up to 2^32 - 1 keys (store/node.h). Any thread. */
uint64_t store_count(const struct store_pin *pin, struct bytes prefix);

enum { STORE_ITER_FRAMES = 64 };

/* In-order walk over the keys that begin with `prefix`. Embedded; valid while the pin is. */
struct store_iter {
    struct store_item item;
    /* As store_newest of the item's key, but without the lower bound that a swap sets; 0: further
     * keys begin with it, and the walk does not know. */
    uint64_t newest;
    const struct store_node *root;
    size_t prefix_len, key_len;
    /* The path to the current node, outermost first. The path is a ring: when full, it drops its
     * outermost node. The walk finds dropped nodes again from the root when it comes back to
     * them. */
    unsigned n_frames, first_frame;
    struct store_frame {
        const struct store_node *node;
        uint16_t next;  /* 0: visit the own value next; else 1 + number of the next child */
        uint16_t depth; /* key bytes up to the end of the node's prefix */
    } frames[STORE_ITER_FRAMES];
    uint8_t key[STORE_KEY_MAX];
};
/* Position before the first key ≥ `from` (empty: the first of the prefix). Borrows neither. */
void store_iter_init(struct store_iter *iter, const struct store_pin *pin, struct bytes prefix,
                     struct bytes from);
/* false at the end; else iter->item is the next key, valid until the next call. */
bool store_iter_next(struct store_iter *iter);
/* Continue after all keys that begin with `skip`, a prefix of the item just given. Listings use
 * this to show a folder once. */
void store_iter_skip(struct store_iter *iter, struct bytes skip);

/* A place in a pinned version: all keys that begin with some bytes. A walk beside another tree of
 * keys goes down from place to place, at the cost of the bytes between them. Valid while the pin
 * is. */
struct store_place {
    const struct store_node *node; /* topmost node of these keys; NULL: there are none */
    size_t hidden;                 /* bytes of the node's own prefix that belong to the place */
    uint64_t above;                /* newest version of the lowest node above the place */
    /* As store_newest, but without the lower bound that a swap sets: after a swap, a place may be
     * older than the swap. */
    uint64_t newest;
};
struct store_place store_place_top(const struct store_pin *pin); /* all keys */
/* The place of the keys that continue with `more`. */
struct store_place store_place_below(const struct store_place *place, struct bytes more);
/* The version that last changed the key that ends at the place; 0: there is no such key. */
uint64_t store_place_modified(const struct store_place *place);

/* Merkle hash of all keys that begin with `prefix`, over the rest of each key and its value. All
 * zero when there are none. The first use computes the hash and stores it in write-once fields. Any
 * thread, best a worker. */
void store_hash(const struct store_pin *pin, struct bytes prefix,
                uint8_t ret_hash[STORE_HASH_BYTES]);

#endif
