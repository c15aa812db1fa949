/* Lookups in one tree, published or not. */
#ifndef HOLDFAST_STORE_READ_H
#define HOLDFAST_STORE_READ_H

#include "store/node.h"

/* A tree as lookups of newest versions need it. */
struct store_view {
    const struct store_node *root;  /* NULL: empty */
    const struct store_node *floor; /* NULL, or a leaf: prefixes outside of the leaf's prefix have
                                     * at least the leaf's newest version */
    uint64_t newest;                /* newest version of the whole tree */
};

/* NULL when the key is not there. */
const struct store_leaf *store_read_leaf(const struct store_node *root, struct bytes key);
/* The topmost node of all keys that begin with `prefix`; NULL when there are none. *ret_hidden: how
 * many bytes of that node's own prefix belong to `prefix`. */
const struct store_node *store_read_top(const struct store_node *root, struct bytes prefix,
                                        size_t *ret_hidden);
/* As store_newest. */
uint64_t store_read_newest(const struct store_view *view, struct bytes prefix);
/* Hash of the keys below `top`, without the first `hidden` bytes of its prefix; a node keeps its own.
 */
struct crypto_sha256;
void store_hash_top(struct crypto_sha256 *sha, struct store_node *top, size_t hidden,
                    uint8_t *ret_hash);
/* The hash of a node whose children have hashes, computed again from them and from its own bytes. */
void store_hash_again(struct crypto_sha256 *sha, struct store_node *node, uint8_t *ret_hash);
/* Replace a wrong hash. */
void store_hash_mend(struct store_node *node, const uint8_t *hash);
void store_read_item(const struct store_leaf *leaf, struct bytes key, struct store_item *ret_item);

#endif
