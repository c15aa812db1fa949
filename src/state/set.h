/* An ordered set of keys in an arena: a skip list. Private to transactions. */
#ifndef HOLDFAST_STATE_SET_H
#define HOLDFAST_STATE_SET_H

#include "base/arena.h"

struct state_op;

struct state_item {
    struct bytes key;
    uint64_t version; /* in a set of reads: the version that was read */
    union {
        struct state_op *op;      /* in a set of writes: the staged write */
        struct state_item *later; /* in the set of read keys: the key that was read next */
    };
    unsigned levels;
    struct state_item *next[]; /* next item of each level */
};

struct state_set {
    struct state_item *head; /* NULL until something is added */
    unsigned n, levels;      /* number of items; greatest height of an item so far */
};

/* The item at `key` or NULL. */
struct state_item *set_find(const struct state_set *set, struct bytes key);
/* The first item after `key`; with `from`, the first item at or after `key`. NULL: there is
 * none. */
struct state_item *set_after(const struct state_set *set, struct bytes key, bool from);
/* Find the item at `key`. If there is none, add an item with a copy of the key; `random` decides
 * its height. ST_NOMEM, set unchanged. */
NODISCARD enum status set_add(struct state_set *set, struct arena *arena, uint64_t random,
                              struct bytes key, struct state_item **ret_item);
/* Remove every item whose key begins with `prefix`. */
void set_remove_prefix(struct state_set *set, struct bytes prefix);

/* Sets of prefixes: a prefix below another prefix of the set is not kept. */

/* The item whose key is a prefix of `key`, or NULL. */
struct state_item *set_covering(const struct state_set *set, struct bytes key);
/* Add `prefix` unless an item of the set is a prefix of it, and remove the items that begin with
 * `prefix`. *ret_item is the item that covers `prefix` now. ST_NOMEM, set unchanged. */
NODISCARD enum status set_add_prefix(struct state_set *set, struct arena *arena, uint64_t random,
                                     struct bytes prefix, struct state_item **ret_item);

/* In order. */
#define SET_FOR(item, set)                                                            \
    for (struct state_item *item = (set)->head != NULL ? (set)->head->next[0] : NULL; \
         item != NULL; item = item->next[0])

#endif
