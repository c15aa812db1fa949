/* Nodes of the tree: layout, and the edits that are pure memory operations.
 *
 * A node is one allocation. A leaf holds a value. An inner node holds an optional own value (a leaf
 * with an empty prefix) and children, which differ in one byte of the key. The prefix of a child is
 * the part of its key after that byte. Up to 48 children are stored as a sorted array of bytes
 * beside an array of pointers, in the smallest of a few capacities; more children are stored as 256
 * pointers.
 *
 *   leaf    header | created modified | prefix | value
 *   inner   header | own | child[cap] | byte[cap] (none at 256) | prefix
 *
 * Invariants:
 *  1. Once the batch that created a node is published, only the node's hash changes, and only once.
 *  2. A published inner node has at least two of {own value, children}. So the nodes are exactly
 *     the keys and the points where two keys part.
 *  3. The newest version of a node is not below the newest version of any child.
 *  4. An inner node counts the keys below it, its own value included. */
#ifndef HOLDFAST_STORE_NODE_H
#define HOLDFAST_STORE_NODE_H

#include "store/retain.h"
#include "store/spare.h"
#include "store/version.h"

#include <assert.h>
#include <stdatomic.h>

enum store_kind {
    STORE_LEAF,
    STORE_INNER_2,
    STORE_INNER_4,
    STORE_INNER_8,
    STORE_INNER_16,
    STORE_INNER_32,
    STORE_INNER_48,
    STORE_INNER_256,
    STORE_KINDS
};

/* Of birth_children in struct store_node: the greatest generation, and one child. */
#define STORE_BIRTH_MAX ((UINT64_C(1) << 48) - 1)
#define STORE_CHILD_ONE (UINT64_C(1) << 48)

enum store_hash_state { STORE_HASH_NONE, STORE_HASH_BUSY, STORE_HASH_DONE };

/* A generation has 48 bits, enough for 89 years at 100 000 publications a second. A count of keys
 * has 32 bits, enough until the leaves alone take 340 GB; with more keys, only the counts are
 * wrong, modulo 2^32. With these sizes, the count of keys makes no node larger. Birth and number of
 * children share one word and are not bit-fields: a compiler writes a bit-field of 16 bits alone,
 * and the next read of the word would wait for that write. */
struct store_node {
    uint64_t birth_children; /* low 48 bits: the generation that created the node; high 16 bits, in
                              * an inner node: number of children, 0..256 */
    uint64_t newest;         /* version of the newest change at or below, deletions included */
    union {
        uint32_t value_len; /* leaf: bytes of value */
        uint32_t keys;      /* inner: keys at or below the node; not hashed */
    };
    uint16_t prefix_len;
    uint8_t kind;
    _Atomic uint8_t hash_state; /* NONE -> BUSY -> DONE; the thread that sets BUSY writes `hash` */
    uint8_t hash[STORE_HASH_BYTES];
};

struct store_leaf {
    struct store_node node;
    uint64_t created, modified;
    uint8_t data[];
};

struct store_inner {
    struct store_node node;
    struct store_node *own;
    struct store_node *child[];
};

static_assert(sizeof(struct store_node) == 56, "bytes per key are promised");
static_assert(STORE_KEY_MAX <= UINT16_MAX, "prefix_len holds any prefix");
static_assert(STORE_VALUE_MAX <= UINT32_MAX, "value_len holds any value");

static inline struct store_leaf *store_leaf_of(const struct store_node *node)
{
    ASSERT(node->kind == STORE_LEAF);
    return CONTAINER_OF(node, struct store_leaf, node);
}

static inline struct store_inner *store_inner_of(const struct store_node *node)
{
    ASSERT(node->kind != STORE_LEAF && node->kind < STORE_KINDS);
    return CONTAINER_OF(node, struct store_inner, node);
}

static inline uint64_t store_node_birth(const struct store_node *node)
{
    return node->birth_children & STORE_BIRTH_MAX;
}

static inline unsigned store_node_children(const struct store_node *node)
{
    return (unsigned)(node->birth_children >> 48);
}

/* Keys at or below the node. */
static inline uint32_t store_node_keys(const struct store_node *node)
{
    return node->kind == STORE_LEAF ? 1 : node->keys;
}

/* Where the prefix begins in a node of each kind. */
extern const uint16_t store_prefix_at[STORE_KINDS];

/* Borrowed from the node. Inline: a lookup asks for it at each level. */
static inline struct bytes store_node_prefix(const struct store_node *node)
{
    ASSERT(node->kind < STORE_KINDS);
    return bytes_of((const uint8_t *)node + store_prefix_at[node->kind], node->prefix_len);
}
struct bytes store_leaf_value(const struct store_leaf *leaf);
/* Bytes that the allocator uses for the node. */
size_t store_node_bytes(const struct store_node *node);

/* The index in `child` of the child told apart by `byte`; STORE_NO_CHILD when there is none. Valid
 * until an insert or remove. */
#define STORE_NO_CHILD 256U
unsigned store_inner_index(const struct store_inner *inner, uint8_t byte);
/* store_inner_slot of a child that had this index in `inner`, or in the node that `inner` is a copy
 * of. */
struct store_node **store_inner_slot_at(struct store_inner *inner, uint8_t byte, unsigned index);
/* The child told apart by `byte`; NULL when there is none. */
struct store_node *store_inner_child(const struct store_inner *inner, uint8_t byte);
/* The place that holds the child of `byte`; NULL when there is none. Valid until an insert or
 * remove. */
struct store_node **store_inner_slot(struct store_inner *inner, uint8_t byte);
/* Walk the children in order: start with *at = 0; NULL at the end. */
struct store_node *store_inner_next(const struct store_inner *inner, unsigned *at,
                                    uint8_t *ret_byte);
/* The `at` from which store_inner_next gives the children behind `byte`. */
unsigned store_inner_after(const struct store_inner *inner, uint8_t byte);
bool store_inner_full(const struct store_inner *inner);
void store_inner_insert(struct store_inner *inner, uint8_t byte, struct store_node *child);
void store_inner_remove(struct store_inner *inner, uint8_t byte);

/* Where nodes of the running batch come from. */
struct store_birth {
    struct store_spare *spare;
    uint64_t batch;
};
/* Create a node. Without memory the process aborts. The value of a leaf is `value` followed by
 * `suffix`. */
struct store_leaf *store_leaf_new(struct store_birth birth, struct bytes prefix, struct bytes value,
                                  struct bytes suffix);
struct store_inner *store_inner_new(struct store_birth birth, struct bytes prefix, unsigned room);
/* A copy in a new place of the tree, not hashed; inner nodes get space for `room` more children. */
struct store_node *store_node_clone(const struct store_node *node, struct store_birth birth,
                                    struct bytes prefix, unsigned room);
/* Free a node alone. `spare` may be NULL: its memory is not kept. */
void store_node_free(struct store_spare *spare, struct store_node *node);

#endif
