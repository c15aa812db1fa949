/* The state: an immutable, path-compressed radix tree with Merkle hashes.
 *
 * One writer thread changes it in batches and publishes each batch with one atomic store. Readers
 * on any thread pin a published root and read it without locks. Keys and values are opaque bytes;
 * keys sort as unsigned bytes and hash as a logical trie, independent of node layout, so equal
 * content means an equal hash on every cluster (PROTOCOL R7, R8).
 *
 * A "version" is a number that the caller gives with every change. The store keeps, per key, the
 * versions that created and last changed it, and per node the newest version of anything that
 * happened at or below it, deletions included. A first segment ("s/", "l/") may have newest
 * versions of its own: where a key names the segment, changes in the segment do not count for the
 * newest versions of other segments.
 *
 * The reads of a pinned version are in version.h. */
#ifndef HOLDFAST_STORE_STORE_H
#define HOLDFAST_STORE_STORE_H

#include "base/env.h"
#include "store/retain.h"
#include "store/version.h"

struct store_stats {
    /* Counts of the newest version, staged changes included; bytes include overhead. Keys that
     * were dropped by a deleted prefix or a swap still count until background release has visited
     * them. */
    uint64_t keys, nodes, bytes;
    uint64_t retained_bytes; /* dead, kept for a pin or not yet released */
    uint64_t pins, oldest_pin_age_ms;
    uint64_t generation;
};

/* `env` belongs to the writer; background release runs on its LANE_BULK. A tool without a loop
 * gives NULL, and everything is released at publish. ST_NOMEM. */
NODISCARD enum status store_new(struct env *env, struct store **ret_store);
/* No pin may be held, and store_idle. Writer thread. */
void store_free(struct store *store);
/* Whether no background release is running. Writer thread. */
bool store_idle(const struct store *store);

/* Pin the newest published version. `owner` is a static string for reports; a pin older than
 * `deadline_ms` (0: 60 s) is reported once in the log. ST_BUSY when STORE_PINS_MAX are held. */
NODISCARD enum status store_pin(struct store *store, const char *owner, uint32_t deadline_ms,
                                struct store_pin *ret_pin);
/* As store_pin, but the pinned tree is the staged one, as it was at the newest publication. Its
 * newest versions lack the lower bound that a swap sets. ST_NOT_FOUND: no tree was staged then. */
NODISCARD enum status store_pin_staged(struct store *store, const char *owner, uint32_t deadline_ms,
                                       struct store_pin *ret_pin);
void store_unpin(struct store_pin *pin);

/* Writer thread only. */

/* Changes are visible to the writer at once and to readers after store_publish. Allocation cannot
 * fail (it aborts): applying a committed entry may not fail. A `version` may be 0: the keys that
 * mark the segments are older than every transaction. */
void store_put(struct store *store, struct bytes key, struct bytes value, uint64_t version);
/* Put `value` followed by the range of the present value that `retain` names (store/retain.h). Both
 * together are no longer than STORE_VALUE_MAX. */
void store_put_retain(struct store *store, struct bytes key, struct bytes value,
                      struct store_retain retain, uint64_t version);
/* Whether the key was there. If not, nothing happened. */
bool store_delete(struct store *store, struct bytes key, uint64_t version);
/* Drops all keys that begin with `prefix` in time independent of their number. */
void store_delete_prefix(struct store *store, struct bytes prefix, uint64_t version);
/* Read the unpublished tree. The value is borrowed until store_publish, even if a later put or
 * delete replaces it before. */
NODISCARD enum status store_writer_get(struct store *store, struct bytes key,
                                       struct store_item *ret_item);
uint64_t store_writer_newest(struct store *store, struct bytes prefix);
/* Make everything since the last publish visible to readers at once. */
void store_publish(struct store *store, uint64_t version);

/* The staged tree: built beside the state, then swapped in with one publish. */
void store_stage_begin(struct store *store); /* drops an earlier staged tree */
/* Begin a staged tree that is a clone of the present keys below `part`: it shares their nodes, so
 * that it costs nothing and a change of it costs what a change of the tree does. Until the clone is
 * swapped in or dropped, no present key below `part` may change. `part` is not empty. */
void store_stage_clone(struct store *store, struct bytes part);
bool store_staging(const struct store *store);
/* Delete a key of the staged tree, without effect on newest versions. Whether the key was there. */
bool store_stage_delete(struct store *store, struct bytes key);
/* Put a clone in the place of the keys that it was made of: all but those below `keep`, which stay.
 * The newest versions are those of the clone, and outside of `keep` at least `floor`; 0: no bound. */
void store_stage_swap_clone(struct store *store, struct bytes keep, uint64_t floor);
/* Set the lower bound of newest versions outside of `keep`, unless it is as high. */
void store_floor_raise(struct store *store, struct bytes keep, uint64_t floor);
/* store_stage_put and store_stage_swap are allowed only while a tree is staged. */
void store_stage_put(struct store *store, struct bytes key, struct bytes value, uint64_t created,
                     uint64_t modified);
/* Replace all keys by the staged tree, except the present keys below `keep`, which stay. Staged
 * keys below `keep` are dropped. `keep` is the same at every swap; if it is empty, no present key
 * stays. The newest versions of the replaced parts become `version`. */
void store_stage_swap(struct store *store, struct bytes keep, uint64_t version);
/* As store_stage_swap, but the newest versions of the replaced parts are those of the staged tree,
 * as if every change had been made to this store. They may be below what readers saw before. */
void store_stage_swap_as_is(struct store *store, struct bytes keep);
/* As store_raise_newest, for the staged tree. */
void store_stage_newest(struct store *store, struct bytes prefix, uint64_t version);
void store_stage_drop(struct store *store); /* drop the staged tree, if there is one */

/* Load into an empty store before its first publish (restart from a snapshot): like store_put with
 * both versions given. Keys in ascending order are fastest. */
void store_load_put(struct store *store, struct bytes key, struct bytes value, uint64_t created,
                    uint64_t modified);
/* Drop all keys at once, also the staged tree, because a snapshot is being installed. A later
 * publication shows the new tree; readers keep the versions that they pinned. */
void store_load_reset(struct store *store);
/* After a load: raise the newest version of the node that decides store_newest(prefix), and of
 * every node above that node, to at least `version`. Nodes below that node keep their newest
 * versions. */
void store_raise_newest(struct store *store, struct bytes prefix, uint64_t version);

void store_stats(struct store *store, struct store_stats *ret_stats); /* any thread */

#endif
