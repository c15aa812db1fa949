#include "cluster/dr/link/dr_block.h"

#include <lz4.h>

void dr_block_pack(struct bytes raw, uint8_t *room, struct dr_block *ret_block)
{
    ASSERT(raw.len > 0 && raw.len <= DR_RAW_MAX);
    /* Give LZ4 one byte less than the content: it fails where it saves nothing. */
    int packed =
        LZ4_compress_default((const char *)raw.data, (char *)room, (int)raw.len, (int)raw.len - 1);
    ret_block->raw_bytes = (uint32_t)raw.len;
    ret_block->packed = packed > 0;
    ret_block->data = packed > 0 ? bytes_of(room, (size_t)packed) : raw;
    ASSERT(dr_block_valid(ret_block));
}

void dr_block_plain(struct bytes raw, struct dr_block *ret_block)
{
    ASSERT(raw.len > 0 && raw.len <= DR_RAW_MAX);
    *ret_block = (struct dr_block){.raw_bytes = (uint32_t)raw.len, .data = raw};
}

bool dr_block_valid(const struct dr_block *block)
{
    if (block->raw_bytes == 0 || block->raw_bytes > DR_RAW_MAX || block->data.len == 0)
        return false;
    return block->packed ? block->data.len < block->raw_bytes : block->data.len == block->raw_bytes;
}

enum status dr_block_unpack(const struct dr_block *block, uint8_t *to)
{
    ASSERT(dr_block_valid(block));
    if (!block->packed) {
        memcpy(to, block->data.data, block->data.len);
        return ST_OK;
    }
    int n = LZ4_decompress_safe((const char *)block->data.data, (char *)to, (int)block->data.len,
                                (int)block->raw_bytes);
    return n == (int)block->raw_bytes ? ST_OK : ST_INVALID;
}
