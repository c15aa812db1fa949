/* The writer's changes of one tree. Nodes that were created in the running batch are edited in
 * place; other nodes on the way down are copied. Every node on the way takes over the version of
 * the change. */
#ifndef HOLDFAST_STORE_TREE_H
#define HOLDFAST_STORE_TREE_H

#include "store/reclaim.h"
#include "store/retain.h"

/* Shared by the trees of a store. */
struct store_writer {
    uint64_t batch; /* generation that the next publication gets */
    /* While a clone is changed: nodes up to this birth belong to the tree that it was made of too;
     * else 0. Such a node that leaves the clone lives on there, and is noted in `parted`. */
    uint64_t shared;
    struct store_dead_list parted;
    struct store_reclaim reclaim;
    uint8_t scratch[STORE_KEY_MAX]; /* a key being joined */
    /* The inner nodes above the place of a put. Each takes at least one byte of the key. */
    struct store_inner *above[STORE_KEY_MAX + 1];
    uint8_t way[STORE_KEY_MAX + 1]; /* index of the child in each inner node above a deleted key */
};

/* For a node of the running batch. */
static inline struct store_birth store_birth_of(struct store_writer *w)
{
    return (struct store_birth){.spare = &w->reclaim.spare, .batch = w->batch};
}

/* Zero-initialise. */
struct store_tree {
    struct store_node *root; /* NULL: empty */
    uint64_t newest;         /* version of the newest change ever */
};

struct store_change {
    struct bytes key, value;
    struct store_retain retain; /* of the value that `key` has now */
    uint64_t modified;
    uint64_t created; /* only if `restored`; else the key keeps its creation, or gets `modified` */
    bool restored;
};

/* Put one key, in place of its earlier value. */
void store_tree_put(struct store_writer *w, struct store_tree *tree,
                    const struct store_change *change);
/* Whether the key was there. */
bool store_tree_delete(struct store_writer *w, struct store_tree *tree, struct bytes key,
                       uint64_t version);
/* Unlink all keys that begin with `prefix` and return their topmost node, which the caller then
 * owns; NULL when there are none. *ret_hidden: as store_read_top. */
struct store_node *store_tree_cut(struct store_writer *w, struct store_tree *tree,
                                  struct bytes prefix, uint64_t version, size_t *ret_hidden);
/* Insert `top`, which was cut from another tree at `prefix`, at `prefix` of this tree. This tree
 * holds no key that begins with `prefix`. */
void store_tree_graft(struct store_writer *w, struct store_tree *tree, struct bytes prefix,
                      struct store_node *top, size_t hidden);
/* As store_raise_newest. */
void store_tree_raise(struct store_writer *w, struct store_tree *tree, struct bytes prefix,
                      uint64_t version);

#endif
