/* Shared by the files of this folder, and private to it. */
#ifndef HOLDFAST_CLUSTER_DR_DIFF_DR_DIFF_INTERNAL_H
#define HOLDFAST_CLUSTER_DR_DIFF_DR_DIFF_INTERNAL_H

#include "cluster/dr/diff/dr_diff.h"
#include "store/shape.h"

struct crypto_sha256;

/* Keys at a place of the primary. */
enum dr_diff_kind { DR_DIFF_NONE, DR_DIFF_LEAF, DR_DIFF_INNER };

/* First bytes of SHA-256( hash | u64 newest version, at least `floor` ). */
void dr_diff_digest(struct crypto_sha256 *sha, const struct store_shape_entry *entry,
                    uint64_t floor, uint8_t ret_digest[DR_DIFF_DIGEST_BYTES]);

/* Keys in a list: each is told by what it shares with the one before. */
struct dr_diff_last {
    uint8_t key[STORE_KEY_MAX];
    size_t len;
};
/* The varint has room for a flag. */
void dr_diff_key_put(struct dr_diff_last *last, struct bytes key, bool flag, struct buf *out);
/* The key is in `last` then, and begins with RLOG_REPLICATED. False: malformed. */
NODISCARD bool dr_diff_key_take(struct dr_diff_last *last, struct reader *r, bool *ret_flag);

#endif
