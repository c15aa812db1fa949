/* The Merkle hash of a set of keys with values. Each key is taken without the prefix that selects
 * the set. The hash depends on the set alone:
 *
 *   nothing                 32 zero bytes
 *   one key                 SHA-256( 0 | u32 length of key | key | value )
 *   more                    SHA-256( 1 | u32 length of c | c | own | for each byte b: b | hash )
 *
 * c is the longest prefix that all keys share; it is first removed from each key. own is 1 and the
 * hash of the value under the empty key, or 0 if the set lacks the empty key. The hash after b is
 * the hash of all keys that go on with b, with b removed. Numbers are little-endian. The nodes of
 * the tree have exactly this shape. */
#include "base/mem.h"
#include "crypto/sha256.h"
#include "store/read.h"

#include <stdio.h>
#include <stdlib.h>

enum { ENTRY_BYTES = 1 + STORE_HASH_BYTES, HEAD_BYTES = 5 };

static_assert((int)STORE_HASH_BYTES == (int)CRYPTO_SHA256_BYTES, "hashes are SHA-256");

/* An inner node being hashed: what is known of its entries. */
struct level {
    struct store_node *node;
    uint8_t *entries; /* own, then byte and hash of each child */
    size_t len;
    unsigned at; /* of store_inner_next */
};

/* From the top down; as many as keys nest. */
struct levels {
    struct level *items;
    size_t n, cap;
};

static void leaf_hash(struct crypto_sha256 *sha, const struct store_leaf *leaf, struct bytes prefix,
                      uint8_t *ret_hash)
{
    uint8_t head[HEAD_BYTES] = {0};
    le32_put(head + 1, (uint32_t)prefix.len);
    struct bytes parts[] = {bytes_of(head, sizeof head), prefix, store_leaf_value(leaf)};
    crypto_sha256(sha, parts, ARRAY_LEN(parts), ret_hash);
}

static void level_hash(struct crypto_sha256 *sha, const struct level *level, struct bytes prefix,
                       uint8_t *ret_hash)
{
    uint8_t head[HEAD_BYTES] = {1};
    le32_put(head + 1, (uint32_t)prefix.len);
    struct bytes parts[] = {bytes_of(head, sizeof head), prefix,
                            bytes_of(level->entries, level->len)};
    crypto_sha256(sha, parts, ARRAY_LEN(parts), ret_hash);
}

static bool hash_known(struct store_node *node, uint8_t *ret_hash)
{
    if (atomic_load_explicit(&node->hash_state, memory_order_acquire) != STORE_HASH_DONE)
        return false;
    memcpy(ret_hash, node->hash, sizeof node->hash);
    return true;
}

/* Write the hash into the node. Only one thread writes it; other threads that computed the same
 * hash go on without writing. */
static void hash_keep(struct store_node *node, const uint8_t *hash)
{
    uint8_t state = STORE_HASH_NONE;
    if (!atomic_compare_exchange_strong_explicit(&node->hash_state, &state, STORE_HASH_BUSY,
                                                 memory_order_relaxed, memory_order_relaxed))
        return;
    memcpy(node->hash, hash, sizeof node->hash);
    atomic_store_explicit(&node->hash_state, STORE_HASH_DONE, memory_order_release);
}

static void level_push(struct levels *levels, struct store_node *node)
{
    const struct store_inner *inner = store_inner_of(node);
    ASSERT(store_node_children(node) + (inner->own != NULL) >= 2);
    if (levels->n == levels->cap) {
        levels->cap = levels->cap != 0 ? levels->cap * 2 : 32;
        levels->items = mem_must_realloc(levels->items, levels->cap * sizeof *levels->items);
    }
    struct level level = {.node = node};
    level.entries = mem_must_alloc((store_node_children(node) + 1) * (size_t)ENTRY_BYTES);
    level.entries[level.len++] = inner->own != NULL;
    levels->items[levels->n++] = level;
}

/* Append the hash of a child or of the own value, if the hash is known or can be computed at
 * once. */
static bool entry_add(struct crypto_sha256 *sha, struct level *level, struct store_node *child)
{
    uint8_t *hash = level->entries + level->len;
    ASSERT(level->len + STORE_HASH_BYTES <=
           (store_node_children(level->node) + 1) * (size_t)ENTRY_BYTES);
    if (!hash_known(child, hash)) {
        if (child->kind != STORE_LEAF)
            return false;
        leaf_hash(sha, store_leaf_of(child), store_node_prefix(child), hash);
        hash_keep(child, hash);
    }
    level->len += STORE_HASH_BYTES;
    return true;
}

/* Go on until a child must be hashed first, which is returned, or NULL: complete. */
static struct store_node *level_fill(struct crypto_sha256 *sha, struct level *level)
{
    const struct store_inner *inner = store_inner_of(level->node);
    struct store_node *child;
    if (level->len == 1 && inner->own != NULL) {
        bool added = entry_add(sha, level, inner->own);
        ASSERT(added); /* own values are leaves */
    }
    while ((child = store_inner_next(inner, &level->at, &level->entries[level->len])) != NULL) {
        level->len++;
        if (!entry_add(sha, level, child))
            return child;
    }
    return NULL;
}

/* The hash of an inner node, with `prefix` in place of the node's own prefix. */
static void inner_hash(struct crypto_sha256 *sha, struct store_node *top, struct bytes prefix,
                       uint8_t *ret_hash)
{
    struct levels levels = {0};
    level_push(&levels, top);
    for (;;) {
        struct level *level = &levels.items[levels.n - 1];
        struct store_node *child = level_fill(sha, level);
        if (child != NULL) {
            level_push(&levels, child);
            continue;
        }
        struct store_node *node = level->node;
        ASSERT(levels.n > 0);
        levels.n--;
        level_hash(sha, level, levels.n == 0 ? prefix : store_node_prefix(node), ret_hash);
        mem_free(level->entries);
        if (levels.n == 0)
            break;
        hash_keep(node, ret_hash);
        level = &levels.items[levels.n - 1];
        memcpy(level->entries + level->len, ret_hash, STORE_HASH_BYTES);
        level->len += STORE_HASH_BYTES;
    }
    mem_free(levels.items);
}

/* Hash the keys below `top`, without the first `hidden` bytes of its prefix. With `hidden` > 0,
 * this is not the hash of the node itself, so the node does not keep it. */
void store_hash_top(struct crypto_sha256 *sha, struct store_node *top, size_t hidden,
                    uint8_t *ret_hash)
{
    struct bytes prefix = bytes_from(store_node_prefix(top), hidden);
    if (hidden == 0 && hash_known(top, ret_hash))
        return;
    if (top->kind == STORE_LEAF)
        leaf_hash(sha, store_leaf_of(top), prefix, ret_hash);
    else
        inner_hash(sha, top, prefix, ret_hash);
    if (hidden == 0)
        hash_keep(top, ret_hash);
}

void store_hash_mend(struct store_node *node, const uint8_t *hash)
{
    uint8_t state = STORE_HASH_DONE;
    if (!atomic_compare_exchange_strong_explicit(&node->hash_state, &state, STORE_HASH_BUSY,
                                                 memory_order_relaxed, memory_order_relaxed))
        return;
    memcpy(node->hash, hash, sizeof node->hash);
    atomic_store_explicit(&node->hash_state, STORE_HASH_DONE, memory_order_release);
}

void store_hash_again(struct crypto_sha256 *sha, struct store_node *node, uint8_t *ret_hash)
{
    if (node->kind == STORE_LEAF)
        leaf_hash(sha, store_leaf_of(node), store_node_prefix(node), ret_hash);
    else /* the hashes below are known: the node has one */
        inner_hash(sha, node, store_node_prefix(node), ret_hash);
}

void store_hash(const struct store_pin *pin, struct bytes prefix,
                uint8_t ret_hash[STORE_HASH_BYTES])
{
    struct crypto_sha256 *sha = NULL;
    size_t hidden = 0;
    /* The cast removes const: a reader may write the hash fields of a node, and no other field. */
    struct store_node *top =
        (struct store_node *)(uintptr_t)store_read_top(pin->root, prefix, &hidden);
    if (top == NULL) {
        memset(ret_hash, 0, STORE_HASH_BYTES);
        return;
    }
    if (crypto_sha256_new(&sha) != ST_OK) {
        (void)fprintf(stderr, "out of memory: a hash has no other answer\n"); /* then abort */
        abort();
    }
    store_hash_top(sha, top, hidden, ret_hash);
    crypto_sha256_free(sha);
}
