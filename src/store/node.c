#include "store/node.h"

static const uint16_t capacity[STORE_KINDS] = {0, 2, 4, 8, 16, 32, 48, 256};

static enum store_kind kind_for(unsigned children)
{
    unsigned kind = STORE_INNER_2;
    while (capacity[kind] < children)
        kind++;
    ASSERT(kind < STORE_KINDS);
    return (enum store_kind)kind;
}

static bool dense(const struct store_inner *inner)
{
    return inner->node.kind == STORE_INNER_256;
}

/* The sorted bytes of a node that is not dense. */
static uint8_t *branch_bytes(const struct store_inner *inner)
{
    return (uint8_t *)(uintptr_t)(inner->child + capacity[inner->node.kind]);
}

#define INNER_PREFIX_AT(cap) \
    (sizeof(struct store_inner) + (cap) * sizeof(struct store_node *) + ((cap) == 256 ? 0 : (cap)))

const uint16_t store_prefix_at[STORE_KINDS] = {
    [STORE_LEAF] = sizeof(struct store_leaf), [STORE_INNER_2] = INNER_PREFIX_AT(2),
    [STORE_INNER_4] = INNER_PREFIX_AT(4),     [STORE_INNER_8] = INNER_PREFIX_AT(8),
    [STORE_INNER_16] = INNER_PREFIX_AT(16),   [STORE_INNER_32] = INNER_PREFIX_AT(32),
    [STORE_INNER_48] = INNER_PREFIX_AT(48),   [STORE_INNER_256] = INNER_PREFIX_AT(256),
};

struct bytes store_leaf_value(const struct store_leaf *leaf)
{
    return bytes_of(leaf->data + leaf->node.prefix_len, leaf->node.value_len);
}

size_t store_node_bytes(const struct store_node *node)
{
    size_t value = node->kind == STORE_LEAF ? node->value_len : 0;
    return store_spare_bytes(store_prefix_at[node->kind] + node->prefix_len + value);
}

/* Index of `byte` in the sorted bytes; if it is absent, index of the first greater byte. */
static unsigned lower_bound(const struct store_inner *inner, uint8_t byte)
{
    const uint8_t *bytes = branch_bytes(inner);
    unsigned i = 0;
    while (i < store_node_children(&inner->node) && bytes[i] < byte)
        i++;
    return i;
}

unsigned store_inner_index(const struct store_inner *inner, uint8_t byte)
{
    if (dense(inner))
        return inner->child[byte] != NULL ? byte : STORE_NO_CHILD;
    const uint8_t *bytes = branch_bytes(inner);
    const uint8_t *hit = memchr(bytes, byte, store_node_children(&inner->node));
    return hit != NULL ? (unsigned)(hit - bytes) : STORE_NO_CHILD;
}

struct store_node **store_inner_slot(struct store_inner *inner, uint8_t byte)
{
    unsigned index = store_inner_index(inner, byte);
    return index != STORE_NO_CHILD ? &inner->child[index] : NULL;
}

/* A copy keeps the order of the children. Only between a dense node and one that is not does an
 * index change. */
struct store_node **store_inner_slot_at(struct store_inner *inner, uint8_t byte, unsigned index)
{
    bool same = dense(inner) ? index == byte
                             : index < store_node_children(&inner->node) &&
                                   branch_bytes(inner)[index] == byte;
    struct store_node **slot = same ? &inner->child[index] : store_inner_slot(inner, byte);
    ASSERT(slot != NULL && *slot != NULL);
    return slot;
}

struct store_node *store_inner_child(const struct store_inner *inner, uint8_t byte)
{
    unsigned index = store_inner_index(inner, byte);
    return index != STORE_NO_CHILD ? inner->child[index] : NULL;
}

struct store_node *store_inner_next(const struct store_inner *inner, unsigned *at,
                                    uint8_t *ret_byte)
{
    if (!dense(inner)) {
        if (*at >= store_node_children(&inner->node))
            return NULL;
        *ret_byte = branch_bytes(inner)[*at];
        return inner->child[(*at)++];
    }
    while (*at < 256 && inner->child[*at] == NULL)
        (*at)++;
    if (*at >= 256)
        return NULL;
    *ret_byte = (uint8_t)*at;
    return inner->child[(*at)++];
}

unsigned store_inner_after(const struct store_inner *inner, uint8_t byte)
{
    if (dense(inner))
        return (unsigned)byte + 1;
    unsigned at = lower_bound(inner, byte);
    return at < store_node_children(&inner->node) && branch_bytes(inner)[at] == byte ? at + 1 : at;
}

bool store_inner_full(const struct store_inner *inner)
{
    return store_node_children(&inner->node) == capacity[inner->node.kind];
}

void store_inner_insert(struct store_inner *inner, uint8_t byte, struct store_node *child)
{
    ASSERT(child != NULL);
    ASSERT(!store_inner_full(inner));
    if (dense(inner)) {
        ASSERT(inner->child[byte] == NULL);
        inner->child[byte] = child;
    } else {
        uint8_t *bytes = branch_bytes(inner);
        unsigned at = lower_bound(inner, byte), behind = store_node_children(&inner->node) - at;
        ASSERT(behind == 0 || bytes[at] != byte);
        memmove(bytes + at + 1, bytes + at, behind);
        memmove(inner->child + at + 1, inner->child + at, behind * sizeof *inner->child);
        bytes[at] = byte;
        inner->child[at] = child;
    }
    inner->node.birth_children += STORE_CHILD_ONE;
}

void store_inner_remove(struct store_inner *inner, uint8_t byte)
{
    ASSERT(store_node_children(&inner->node) > 0);
    if (dense(inner)) {
        ASSERT(inner->child[byte] != NULL);
        inner->child[byte] = NULL;
    } else {
        uint8_t *bytes = branch_bytes(inner);
        unsigned at = lower_bound(inner, byte), behind = store_node_children(&inner->node) - at - 1;
        ASSERT(at < store_node_children(&inner->node) && bytes[at] == byte);
        memmove(bytes + at, bytes + at + 1, behind);
        memmove(inner->child + at, inner->child + at + 1, behind * sizeof *inner->child);
    }
    inner->node.birth_children -= STORE_CHILD_ONE;
}

static void node_init(struct store_node *node, uint64_t birth, size_t prefix_len,
                      enum store_kind kind)
{
    ASSERT(prefix_len <= STORE_KEY_MAX);
    node->birth_children = birth; /* no children */
    node->newest = 0;
    node->keys = 0;
    node->prefix_len = (uint16_t)prefix_len;
    node->kind = (uint8_t)kind;
    atomic_init(&node->hash_state, STORE_HASH_NONE);
}

struct store_leaf *store_leaf_new(struct store_birth birth, struct bytes prefix, struct bytes value,
                                  struct bytes suffix)
{
    ASSERT(value.len <= STORE_VALUE_MAX && suffix.len <= STORE_VALUE_MAX - value.len);
    struct store_leaf *leaf =
        store_spare_take(birth.spare, sizeof *leaf + prefix.len + value.len + suffix.len);
    node_init(&leaf->node, birth.batch, prefix.len, STORE_LEAF);
    leaf->node.value_len = (uint32_t)(value.len + suffix.len);
    leaf->created = leaf->modified = 0;
    bytes_put(bytes_put(bytes_put(leaf->data, prefix), value), suffix);
    return leaf;
}

struct store_inner *store_inner_new(struct store_birth birth, struct bytes prefix, unsigned room)
{
    enum store_kind kind = kind_for(room);
    struct store_inner *inner = store_spare_take(birth.spare, store_prefix_at[kind] + prefix.len);
    node_init(&inner->node, birth.batch, prefix.len, kind);
    inner->own = NULL;
    if (dense(inner))
        memset(inner->child, 0, 256 * sizeof *inner->child);
    bytes_put((uint8_t *)inner + store_prefix_at[kind], prefix);
    return inner;
}

static struct store_node *leaf_clone(const struct store_leaf *leaf, struct store_birth birth,
                                     struct bytes prefix)
{
    struct store_leaf *copy =
        store_leaf_new(birth, prefix, store_leaf_value(leaf), (struct bytes){0});
    copy->node.newest = leaf->node.newest;
    copy->created = leaf->created;
    copy->modified = leaf->modified;
    return &copy->node;
}

struct store_node *store_node_clone(const struct store_node *node, struct store_birth birth,
                                    struct bytes prefix, unsigned room)
{
    if (node->kind == STORE_LEAF)
        return leaf_clone(store_leaf_of(node), birth, prefix);
    const struct store_inner *inner = store_inner_of(node);
    unsigned children = store_node_children(node);
    struct store_inner *copy = store_inner_new(birth, prefix, children + room);
    copy->node.newest = node->newest;
    copy->node.keys = node->keys;
    copy->own = inner->own;
    if (copy->node.kind == node->kind && dense(inner)) {
        memcpy(copy->child, inner->child, 256 * sizeof *inner->child);
        copy->node.birth_children = birth.batch | (uint64_t)children * STORE_CHILD_ONE;
        return &copy->node;
    }
    if (!dense(inner) && !dense(copy)) {
        memcpy(copy->child, inner->child, children * sizeof *inner->child);
        memcpy(branch_bytes(copy), branch_bytes(inner), children);
        copy->node.birth_children = birth.batch | (uint64_t)children * STORE_CHILD_ONE;
        return &copy->node;
    }
    unsigned at = 0;
    uint8_t byte;
    for (struct store_node *child; (child = store_inner_next(inner, &at, &byte)) != NULL;)
        store_inner_insert(copy, byte, child);
    ASSERT(store_node_children(&copy->node) == children);
    return &copy->node;
}

void store_node_free(struct store_spare *spare, struct store_node *node)
{
    store_spare_give(spare, node, store_node_bytes(node));
}
