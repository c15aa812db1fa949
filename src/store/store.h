/* The state: an immutable, path-compressed radix tree with Merkle hashes.
 *
 * One writer thread changes it in batches and publishes each batch with one atomic store. Readers
 * on any thread pin a published root and read it without locks. Keys and values are opaque bytes;
 * keys sort as unsigned bytes and hash as a logical trie, independent of node layout, so equal
 * content means an equal hash on every cluster (PROTOCOL R7, R8).
 *
 * "Version" is a number the caller gives with every change. The store keeps, per key, the versions
 * that created and last changed it, and per node the newest version of anything that happened at
 * or below it, deletions included. First segments ("s/", "l/") may have counters of their own: the
 * key that names a segment keeps what happens in it out of the others' newest versions. */
#ifndef HOLDFAST_STORE_STORE_H
#define HOLDFAST_STORE_STORE_H

#include "base/bytes.h"
#include "base/env.h"
#include "base/status.h"
#include "store/retain.h"

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

struct store_stats {
    /* Live in the newest version, staged ones included; bytes include overhead. What a delete of a
     * prefix or a swap dropped still counts until background release has seen it. */
    uint64_t keys, nodes, bytes;
    uint64_t retained_bytes; /* dead, kept for a pin or not yet released */
    uint64_t pins, oldest_pin_age_ms;
    uint64_t generation;
};

/* `env` is the writer's: background release runs on its LANE_BULK. NULL: a tool without a loop,
 * everything is released at publish. ST_NOMEM. */
NODISCARD enum status store_new(struct env *env, struct store **ret_store);
/* No pin may be held, and store_idle. Writer thread. */
void store_free(struct store *store);
/* Whether no background release is running. Writer thread. */
bool store_idle(const struct store *store);

/* Pin the newest published version. `owner` is a static string for reports; a pin older than
 * `deadline_ms` (0: 60 s) is reported once in the log. ST_BUSY when STORE_PINS_MAX are held. */
NODISCARD enum status store_pin(struct store *store, const char *owner, uint32_t deadline_ms,
                                struct store_pin *ret_pin);
void store_unpin(struct store_pin *pin);

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

/* Writer thread only. */

/* Changes are visible to the writer at once and to readers after store_publish. Allocation cannot
 * fail (it aborts): applying a committed entry may not fail. A `version` may be 0: the keys that
 * mark the segments are older than every transaction. */
void store_put(struct store *store, struct bytes key, struct bytes value, uint64_t version);
/* Put `value` followed by the range of the present value that `retain` names (store/retain.h). With
 * it the value is no longer than STORE_VALUE_MAX. */
void store_put_retain(struct store *store, struct bytes key, struct bytes value,
                      struct store_retain retain, uint64_t version);
/* Whether it was there; if not, nothing happened. */
bool store_delete(struct store *store, struct bytes key, uint64_t version);
/* Drops all keys that begin with `prefix` in time independent of their number. */
void store_delete_prefix(struct store *store, struct bytes prefix, uint64_t version);
/* Reads of the unpublished tree. The value is borrowed until store_publish, whatever is put or
 * deleted before. */
NODISCARD enum status store_writer_get(struct store *store, struct bytes key,
                                       struct store_item *ret_item);
uint64_t store_writer_newest(struct store *store, struct bytes prefix);
/* Make everything since the last publish visible to readers at once. */
void store_publish(struct store *store, uint64_t version);

/* The staged tree: built beside the state, then swapped in with one publish. */
void store_stage_begin(struct store *store); /* drops an earlier one */
bool store_staging(const struct store *store);
/* While staging only, as is the swap. */
void store_stage_put(struct store *store, struct bytes key, struct bytes value, uint64_t created,
                     uint64_t modified);
/* Replace everything by the staged tree, but keep the present keys below `keep` (the same at every
 * swap; empty keeps none; staged keys there are dropped). Newest versions of what is replaced
 * become `version`. */
void store_stage_swap(struct store *store, struct bytes keep, uint64_t version);
void store_stage_drop(struct store *store); /* if there is one */

/* Load into an empty store before its first publish (restart from a snapshot): like store_put with
 * both versions given. Keys in ascending order are fastest. */
void store_load_put(struct store *store, struct bytes key, struct bytes value, uint64_t created,
                    uint64_t modified);
/* Drop everything at once, the staged tree too (a snapshot is being installed) and publish the
 * empty tree's successor later; pinned readers keep what they have. */
void store_load_reset(struct store *store);
/* After a load: raise the node that answers store_newest(prefix), and every node above it, to at
 * least `version`; nodes below it keep theirs. */
void store_raise_newest(struct store *store, struct bytes prefix, uint64_t version);

void store_stats(struct store *store, struct store_stats *ret_stats); /* any thread */

#endif
