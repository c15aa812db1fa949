/* Release of dead nodes. A dead node is freed as soon as no pin lies between its birth and its
 * death; older and newer pins do not matter.
 *
 * A dead node that a pin needs waits in the retire list of the lowest such pin. When that pin goes,
 * the nodes of its list become loose and are judged again. At each publication the writer judges
 * the nodes that died in the batch, and twice as many loose nodes. So memory stays bounded even
 * when the background work is late. LANE_BULK works off dropped subtrees, whose nodes must still be
 * visited, and large heaps of loose nodes. */
#ifndef HOLDFAST_STORE_RECLAIM_H
#define HOLDFAST_STORE_RECLAIM_H

#include "base/env.h"
#include "store/node.h"
#include "store/pins.h"

struct store_dead {
    struct store_node *node;
    uint64_t death; /* first generation without it */
};

struct store_dead_chunk;

/* Unordered. Zero-initialise. */
struct store_dead_list {
    struct store_dead_chunk *first;
    struct store_dead_chunk *last;
    size_t n;
};

struct store_retire_list {
    uint64_t generation;
    struct store_dead_list dead;
};

/* Ascending generations. Zero-initialise. */
struct store_retire_lists {
    struct store_retire_list *items;
    size_t n, cap;
};

/* Weight of nodes. */
struct store_weight {
    uint64_t keys, nodes, bytes;
};

/* Work for LANE_BULK. While `busy`, all of it belongs to that lane. */
struct store_job {
    struct env_work work;
    bool busy;
    struct store_dead_list drops, loose;
    struct store_retire_lists retired; /* nodes that must still be kept */
    struct store_weight walked;        /* nodes found in dropped subtrees */
    uint64_t kept_bytes, freed_bytes;  /* bytes of `walked` that are kept; bytes of loose nodes that
                                        * were freed */
};

struct store_reclaim {
    struct env *env;
    struct store_pins *pins;
    /* Nodes that the running batch took out of the tree. Readers can still pin them. */
    struct store_dead_list fresh;       /* nodes that died in the batch */
    struct store_dead_list fresh_drops; /* tops of subtrees that died in the batch */
    struct store_dead_list spent;       /* leaves that the batch created and replaced */
    bool lent;                          /* `spent` waits for publish: the writer has read values */
    /* Of published batches. */
    struct store_dead_list drops; /* tops of subtrees to visit */
    struct store_dead_list loose; /* nodes whose pin is gone */
    struct store_retire_lists retired;
    struct store_weight live;
    struct store_spare spare; /* memory of freed nodes, for the writer's next ones */
    uint64_t retained_bytes;
    struct store_job job;
    struct { /* the figures for any thread */
        _Atomic uint64_t keys, nodes, bytes, retained_bytes;
    } shown;
};

/* Count one node. */
void store_weight_add(struct store_weight *weight, const struct store_node *node);

/* Free everything that waits. No pin may be held and no job may run. */
void store_reclaim_done(struct store_reclaim *r);
/* `node` left the tree in `batch`. A node that was created in the same batch is freed at once,
 * except a leaf whose value may be lent until publish. */
void store_reclaim_retire(struct store_reclaim *r, struct store_node *node, uint64_t batch);
/* As store_reclaim_retire, for every node at or below `root` that is younger than `shared`, and whose
 * nodes above are so too. NULL: nothing. Costs the number of these nodes. */
void store_reclaim_drop_younger(struct store_reclaim *r, struct store_node *root, uint64_t shared,
                                uint64_t batch);
/* Remember a node without judging it, and take one back. False: there is none left. */
void store_dead_note(struct store_dead_list *list, struct store_node *node);
bool store_dead_next(struct store_dead_list *list, struct store_node **ret_node);
/* `root` and everything below left the tree in `batch`. NULL: nothing. */
void store_reclaim_drop(struct store_reclaim *r, struct store_node *root, uint64_t batch);
/* The running batch was published. Returns whether something waits. */
bool store_reclaim_published(struct store_reclaim *r);
/* From time to time: what earlier batches left. Returns whether something waits. */
bool store_reclaim_run(struct store_reclaim *r);
/* Free `root` and everything below at once. */
void store_reclaim_free_tree(struct store_node *root);

#endif
