#include "store/shape.h"
#include "base/mem.h"
#include "crypto/sha256.h"
#include "store/read.h"

#include <stdio.h>
#include <stdlib.h>

enum { CHECK_EVERY = 4096 };

static struct crypto_sha256 *sha_new(void)
{
    struct crypto_sha256 *sha = NULL;
    if (crypto_sha256_new(&sha) != ST_OK) {
        (void)fprintf(stderr, "out of memory: a hash has no other answer\n"); /* then abort */
        abort();
    }
    return sha;
}

/* The lower bound that a swap set for `key`. */
static uint64_t floor_of(const struct store_pin *pin, struct bytes key)
{
    if (pin->floor == NULL)
        return 0;
    struct bytes keep = store_node_prefix(pin->floor);
    return keep.len != 0 && bytes_has_prefix(key, keep) ? 0 : pin->floor->newest;
}

static void entry_fill(struct crypto_sha256 *sha, struct store_node *node, size_t hidden,
                       uint64_t floor, struct store_shape_entry *e)
{
    e->leaf = node->kind == STORE_LEAF;
    e->newest = MAX(node->newest, floor);
    store_hash_top(sha, node, hidden, e->hash);
}

/* Readers may write the hash of a node, and no other field. */
static struct store_node *top_of(const struct store_pin *pin, struct bytes prefix, size_t *hidden)
{
    return (struct store_node *)(uintptr_t)store_read_top(pin->root, prefix, hidden);
}

bool store_shape_get(const struct store_pin *pin, struct bytes prefix,
                     struct store_shape *ret_shape)
{
    size_t hidden = 0;
    struct store_node *top = top_of(pin, prefix, &hidden), *child;
    uint64_t floor = floor_of(pin, prefix);
    if (top == NULL)
        return false;
    ret_shape->edge = bytes_from(store_node_prefix(top), hidden);
    ret_shape->leaf = top->kind == STORE_LEAF;
    ret_shape->newest = MAX(top->newest, floor);
    ret_shape->has_own = false;
    ret_shape->n = 0;
    if (ret_shape->leaf)
        return true;
    struct crypto_sha256 *sha = sha_new();
    const struct store_inner *inner = store_inner_of(top);
    unsigned at = 0;
    uint8_t byte;
    ret_shape->has_own = inner->own != NULL;
    if (inner->own != NULL)
        entry_fill(sha, inner->own, 0, floor, &ret_shape->own);
    while ((child = store_inner_next(inner, &at, &byte)) != NULL) {
        ASSERT(ret_shape->n < ARRAY_LEN(ret_shape->children));
        struct store_shape_entry *e = &ret_shape->children[ret_shape->n++];
        entry_fill(sha, child, 0, floor, e);
        e->byte = byte;
    }
    crypto_sha256_free(sha);
    return true;
}

bool store_shape_place(const struct store_pin *pin, struct bytes prefix,
                       struct store_shape_entry *ret_entry)
{
    size_t hidden = 0;
    struct store_node *top = top_of(pin, prefix, &hidden);
    if (top == NULL)
        return false;
    struct crypto_sha256 *sha = sha_new();
    entry_fill(sha, top, hidden, floor_of(pin, prefix), ret_entry);
    crypto_sha256_free(sha);
    return true;
}

bool store_shape_key(const struct store_pin *pin, struct bytes key,
                     struct store_shape_entry *ret_entry)
{
    const struct store_leaf *leaf = store_read_leaf(pin->root, key);
    if (leaf == NULL)
        return false;
    struct store_node *node = (struct store_node *)(uintptr_t)&leaf->node;
    struct crypto_sha256 *sha = sha_new();
    entry_fill(sha, node, node->prefix_len, floor_of(pin, key), ret_entry);
    crypto_sha256_free(sha);
    return true;
}

/* A walk of the check: the nodes that are still to check_step, each with its key in `keys`. */
struct step {
    struct store_node *node;
    size_t depth; /* bytes of the key before the node's own prefix */
    uint8_t byte; /* the last of these, which tells the node apart */
    bool after;   /* everything below was visited */
};

struct check {
    const struct store_check *check;
    struct crypto_sha256 *sha;
    struct step *steps;
    size_t n, cap;
    uint64_t keys;
    uint8_t key[STORE_KEY_MAX];
};

static void step_push(struct check *c, struct step step)
{
    if (c->n == c->cap) {
        c->cap = c->cap != 0 ? c->cap * 2 : 512;
        c->steps = mem_must_realloc(c->steps, c->cap * sizeof *c->steps);
    }
    c->steps[c->n++] = step;
}

/* Compare a node with its stored hash. The hash of an inner node is computed from the stored hashes
 * of its children, which were checked before. */
static void shape_judge(struct check *c, struct store_node *node, size_t depth)
{
    uint8_t have[STORE_HASH_BYTES], want[STORE_HASH_BYTES];
    store_hash_top(c->sha, node, 0, have);
    store_hash_again(c->sha, node, want);
    if (memcmp(have, want, sizeof have) == 0)
        return;
    if (c->check->bad != NULL)
        c->check->bad(c->check->ctx, bytes_of(c->key, depth));
    if (c->check->mend)
        store_hash_mend(node, want);
}

static void shape_step(struct check *c, struct step step)
{
    struct bytes prefix = store_node_prefix(step.node);
    unsigned at = 0;
    uint8_t byte;
    size_t depth = step.depth + prefix.len;
    ASSERT(depth <= sizeof c->key);
    if (step.depth > 0)
        c->key[step.depth - 1] = step.byte;
    if (prefix.len != 0)
        memcpy(c->key + step.depth, prefix.data, prefix.len);
    if (step.node->kind == STORE_LEAF || step.after) {
        shape_judge(c, step.node, depth);
        c->keys += step.node->kind == STORE_LEAF;
        return;
    }
    const struct store_inner *inner = store_inner_of(step.node);
    step.after = true;
    step_push(c, step);
    if (inner->own != NULL)
        step_push(c, (struct step){inner->own, depth, depth > 0 ? c->key[depth - 1] : 0, false});
    for (struct store_node *child; (child = store_inner_next(inner, &at, &byte)) != NULL;)
        step_push(c, (struct step){child, depth + 1, byte, false});
}

enum status store_check_run(const struct store_pin *pin, struct bytes prefix,
                            const struct store_check *check)
{
    struct check *c = mem_zalloc(sizeof *c);
    enum status st = ST_OK;
    size_t hidden = 0;
    if (c == NULL)
        return ST_NOMEM;
    struct store_node *top = top_of(pin, prefix, &hidden);
    c->check = check;
    c->sha = sha_new();
    if (top != NULL) {
        ASSERT(prefix.len >= hidden);
        if (prefix.len > 0)
            memcpy(c->key, prefix.data, prefix.len);
        size_t depth = prefix.len - hidden;
        step_push(c, (struct step){top, depth, depth > 0 ? prefix.data[depth - 1] : 0, false});
    }
    for (uint64_t i = 1; st == ST_OK && c->n > 0; i++) {
        shape_step(c, c->steps[--c->n]);
        if (i % CHECK_EVERY == 0 && check->goes_on != NULL && !check->goes_on(check->ctx, c->keys))
            st = ST_CLOSED;
    }
    crypto_sha256_free(c->sha);
    mem_free(c->steps);
    mem_free(c);
    return st;
}
