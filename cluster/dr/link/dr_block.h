/* A block of content in a frame: as it is, or compressed by LZ4 if that makes it smaller.
 *
 * 1. A block has 1 to DR_RAW_MAX bytes of content, whatever its sender says.
 * 2. Compressed bytes are fewer than the content, so a block in a frame is never longer than it.
 *
 * Any thread. */
#ifndef HOLDFAST_CLUSTER_DR_LINK_DR_BLOCK_H
#define HOLDFAST_CLUSTER_DR_LINK_DR_BLOCK_H

#include "base/bytes.h"
#include "base/status.h"

enum { DR_RAW_MAX = 1024 * 1024 }; /* most bytes of content in one block */

struct dr_block {
    uint32_t raw_bytes; /* length of the content */
    bool packed;        /* `data` is compressed */
    struct bytes data;
};

/* Make a block of 1 to DR_RAW_MAX bytes of content. `room` has as many bytes as the content. The
 * block borrows from `room`, or from `raw` if compression does not make the content smaller. */
void dr_block_pack(struct bytes raw, uint8_t *room, struct dr_block *ret_block);
/* The same without an attempt to compress. The block borrows from `raw`. */
void dr_block_plain(struct bytes raw, struct dr_block *ret_block);
/* Whether lengths and form agree; says nothing about the compressed bytes themselves. */
bool dr_block_valid(const struct dr_block *block);
/* Write the content to `to`, which has room for raw_bytes. The block is valid. ST_INVALID: the data
 * does not decompress to exactly raw_bytes; bytes of `to` may have changed. */
NODISCARD enum status dr_block_unpack(const struct dr_block *block, uint8_t *to);

#endif
