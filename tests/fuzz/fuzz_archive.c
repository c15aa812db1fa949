/* Any bytes as a snapshot archive that somebody uploads. When the first byte is odd they are what
 * is in the gzip stream, so that the fuzzer need not make its sums right. */
#include "raft/snapshot/rlog_archive.h"
#include "raft/snapshot/rlog_archive_zlib.h"
#include "raft/snapshot/rlog_inspect.h"

#include <string.h>

enum { SIZE_MAX_BYTES = 256 * 1024, STATE_BYTES_MAX = 16 * 1024 * 1024 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct source {
    struct bytes bytes;
    uint64_t n_keys;
};

static enum status read_some(void *ctx, void *room, size_t n, size_t *ret_n)
{
    struct source *s = ctx;
    *ret_n = MIN(n, s->bytes.len);
    if (*ret_n != 0)
        memcpy(room, s->bytes.data, *ret_n);
    s->bytes = bytes_from(s->bytes, *ret_n);
    return ST_OK;
}

/* What is read must be fit to be staged: this asserts it. */
static enum status stage(void *ctx, const struct store_item *item)
{
    struct source *s = ctx;
    struct rlog_txn_builder b = {0};
    rlog_txn_stage_put(&b, item->key, item->value, item->created, item->modified);
    rlog_txn_done(&b);
    s->n_keys++;
    return ST_OK;
}

static size_t pack(const uint8_t *data, size_t size, uint8_t *room, size_t room_bytes)
{
    z_stream z = {0};
    if (deflateInit2(&z, 1, Z_DEFLATED, ZLIB_GZIP_BITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return 0;
    z.next_in = data;
    z.avail_in = (unsigned)size;
    z.next_out = room;
    z.avail_out = (unsigned)room_bytes;
    int result = deflate(&z, Z_FINISH);
    ASSERT(result == Z_STREAM_END);
    size_t n = room_bytes - z.avail_out;
    (void)deflateEnd(&z); /* finished */
    return n;
}

/* Counting its keys judges the archive the same, and counts each key once. */
static void inspect(struct bytes bytes, unsigned depth, enum status wanted, uint64_t n_keys)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct source s = {.bytes = bytes};
    const struct rlog_archive_in in = {read_some, NULL, &s, STATE_BYTES_MAX};
    const struct rlog_inspect_options options = {true, depth, {0}};
    struct rlog_inspect got;
    struct reason reason = {{0}};
    enum status st = rlog_inspect(&in, &options, &arena, &got, &reason);
    ASSERT(st == wanted);
    uint64_t counted = st == ST_OK ? got.others.keys : 0;
    for (size_t i = 0; st == ST_OK && i < got.n_groups; i++)
        counted += got.groups[i].count.keys;
    ASSERT(st != ST_OK || (counted == n_keys && got.total.keys == n_keys));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t room[2 * SIZE_MAX_BYTES];
    static struct rlog_archive_found found;
    struct reason reason = {{0}};

    if (size < 1 || size > SIZE_MAX_BYTES)
        return 0;
    struct source s = {.bytes = bytes_of(data + 1, size - 1)};
    if ((data[0] & 1) != 0)
        s.bytes = bytes_of(room, pack(data + 1, size - 1, room, sizeof room));
    struct bytes all = s.bytes;
    const struct rlog_archive_in in = {read_some, stage, &s, STATE_BYTES_MAX};
    enum status st = rlog_archive_read(&in, &found, &reason);
    ASSERT(st == ST_OK || st == ST_NOMEM || reason.text[0] != '\0');
    ASSERT(st != ST_OK || s.n_keys == found.n_keys);
    if (st != ST_NOMEM)
        inspect(all, (data[0] >> 1) % 4, st, found.n_keys);
    return 0;
}
