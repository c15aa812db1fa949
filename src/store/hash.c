/* The Merkle hash of a set of keys with values, each key without the bytes above the set. It is a
 * function of the set alone:
 *
 *   nothing                 32 zero bytes
 *   one key                 SHA-256( 0 | u32 length of key | key | value )
 *   more                    SHA-256( 1 | u32 length of c | c | own | for each byte b: b | hash )
 *
 * where c is what all keys begin with, taken off before the rest; own is 1 and the hash of the
 * value under the empty key, or 0 if that key is not in the set; and the hash for b is of the keys
 * that go on with b, b taken off. Numbers are little-endian. The tree has just this shape. */
#include "base/mem.h"
#include "crypto/sha256.h"
#include "store/read.h"

#include <stdio.h>
#include <stdlib.h>

enum { ENTRY_BYTES = 1 + STORE_HASH_BYTES, HEAD_BYTES = 5 };

static_assert((int)STORE_HASH_BYTES == (int)CRYPTO_SHA256_BYTES, "hashes are SHA-256");

static void node_hash(struct crypto_sha256 *sha, struct store_node *node, uint8_t *ret_hash);

static void leaf_hash(struct crypto_sha256 *sha, const struct store_leaf *leaf, struct bytes prefix,
                      uint8_t *ret_hash)
{
    uint8_t head[HEAD_BYTES] = {0};
    le32_put(head + 1, (uint32_t)prefix.len);
    struct bytes parts[] = {bytes_of(head, sizeof head), prefix, store_leaf_value(leaf)};
    crypto_sha256(sha, parts, ARRAY_LEN(parts), ret_hash);
}

static void inner_hash(struct crypto_sha256 *sha, const struct store_inner *inner,
                       struct bytes prefix, uint8_t *ret_hash)
{
    uint8_t head[HEAD_BYTES] = {1};
    le32_put(head + 1, (uint32_t)prefix.len);
    uint8_t *entries = mem_must_alloc((inner->node.len + 1) * (size_t)ENTRY_BYTES);
    size_t len = 0;
    unsigned at = 0;
    uint8_t byte;
    ASSERT(inner->node.len + (inner->own != NULL) >= 2);
    entries[len++] = inner->own != NULL;
    if (inner->own != NULL) {
        node_hash(sha, inner->own, entries + len);
        len += STORE_HASH_BYTES;
    }
    for (struct store_node *child; (child = store_inner_next(inner, &at, &byte)) != NULL;) {
        entries[len] = byte;
        node_hash(sha, child, entries + len + 1);
        len += ENTRY_BYTES;
    }
    struct bytes parts[] = {bytes_of(head, sizeof head), prefix, bytes_of(entries, len)};
    crypto_sha256(sha, parts, ARRAY_LEN(parts), ret_hash);
    mem_free(entries);
}

/* With only a part of the node's prefix: the hash of another set, not kept. */
static void part_hash(struct crypto_sha256 *sha, const struct store_node *node, struct bytes prefix,
                      uint8_t *ret_hash)
{
    if (node->kind == STORE_LEAF)
        leaf_hash(sha, store_leaf_of(node), prefix, ret_hash);
    else
        inner_hash(sha, store_inner_of(node), prefix, ret_hash);
}

/* Calls itself as deep as keys can nest, which STORE_KEY_MAX bounds. */
static void node_hash(struct crypto_sha256 *sha, struct store_node *node, uint8_t *ret_hash)
{
    uint8_t state = atomic_load_explicit(&node->hash_state, memory_order_acquire);
    if (state == STORE_HASH_DONE) {
        memcpy(ret_hash, node->hash, sizeof node->hash);
        return;
    }
    part_hash(sha, node, store_node_prefix(node), ret_hash);
    state = STORE_HASH_NONE;
    if (!atomic_compare_exchange_strong_explicit(&node->hash_state, &state, STORE_HASH_BUSY,
                                                 memory_order_relaxed, memory_order_relaxed))
        return; /* another thread writes the same */
    memcpy(node->hash, ret_hash, sizeof node->hash);
    atomic_store_explicit(&node->hash_state, STORE_HASH_DONE, memory_order_release);
}

void store_hash(const struct store_pin *pin, struct bytes prefix,
                uint8_t ret_hash[STORE_HASH_BYTES])
{
    struct crypto_sha256 *sha = NULL;
    size_t hidden = 0;
    /* The hash fields are the one thing a reader may write. */
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
    if (hidden == 0)
        node_hash(sha, top, ret_hash);
    else
        part_hash(sha, top, bytes_from(store_node_prefix(top), hidden), ret_hash);
    crypto_sha256_free(sha);
}
