/* zlib through our own memory, and the one form of stream an archive has. */
#ifndef HOLDFAST_RAFT_SNAPSHOT_RLOG_ARCHIVE_ZLIB_H
#define HOLDFAST_RAFT_SNAPSHOT_RLOG_ARCHIVE_ZLIB_H

#include "base/mem.h"

#define ZLIB_CONST
#include <zlib.h>

enum { ZLIB_GZIP_BITS = 15 + 16 }; /* the largest window, in the format of gzip */

static inline void *zlib_take(void *ctx, unsigned n, unsigned size)
{
    size_t bytes = 0;
    (void)ctx;
    return __builtin_mul_overflow((size_t)n, (size_t)size, &bytes) ? NULL : mem_zalloc(bytes);
}

static inline void zlib_give(void *ctx, void *pointer)
{
    (void)ctx;
    mem_free(pointer);
}

static inline void zlib_use_mem(z_stream *z)
{
    z->zalloc = zlib_take;
    z->zfree = zlib_give;
}

#endif
