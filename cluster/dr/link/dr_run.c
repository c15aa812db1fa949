#include "cluster/dr/link/dr_run.h"

enum { KEPT_MAX = 2 * DR_RAW_MAX }; /* most bytes of memory kept between two runs */

void dr_run_done(struct dr_run *run)
{
    buf_done(&run->raw);
    *run = (struct dr_run){0};
}

void dr_run_cut(struct bytes records, size_t at, uint8_t *room, struct dr_wal *ret_wal)
{
    ASSERT(at < records.len && records.len <= DR_RUN_MAX);
    ASSERT(ret_wal->first <= ret_wal->last);
    ret_wal->run_bytes = (uint32_t)records.len;
    ret_wal->offset = (uint32_t)at;
    dr_block_pack(bytes_of(records.data + at, MIN(records.len - at, (size_t)DR_RAW_MAX)), room,
                  &ret_wal->block);
}

static enum status run_begin(struct dr_run *run, const struct dr_wal *wal)
{
    if (run->raw.cap > KEPT_MAX)
        buf_done(&run->raw);
    buf_clear(&run->raw);
    run->first = wal->first;
    run->last = wal->last;
    run->bytes = wal->run_bytes;
    ASSERT(run->bytes <= DR_RUN_MAX);
    return buf_reserve(&run->raw, run->bytes);
}

enum status dr_run_add(struct dr_run *run, const struct dr_wal *wal, struct bytes *ret_records)
{
    const struct dr_block *block = &wal->block;
    if (wal->offset != run->got)
        return ST_INVALID;
    if (run->got != 0 &&
        (wal->first != run->first || wal->last != run->last || wal->run_bytes != run->bytes))
        return ST_INVALID;
    if (run->got == 0 && !block->packed && block->raw_bytes == wal->run_bytes) {
        *ret_records = block->data; /* whole, and as it is: no copy */
        return ST_OK;
    }
    if (run->got == 0)
        TRY(run_begin(run, wal));
    ASSERT(run->got + block->raw_bytes <= run->bytes); /* dr_frame_decode checked the lengths */
    uint8_t *at = buf_extend(&run->raw, block->raw_bytes);
    if (at == NULL)
        return ST_NOMEM;
    TRY(dr_block_unpack(block, at));
    run->got += block->raw_bytes;
    if (run->got != run->bytes)
        return ST_NOT_FOUND;
    *ret_records = buf_bytes(&run->raw);
    run->got = 0;
    return ST_OK;
}
