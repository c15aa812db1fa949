/* Headers of tar (POSIX ustar), as far as an archive of ours needs them. */
#ifndef HOLDFAST_RAFT_SNAPSHOT_RLOG_ARCHIVE_TAR_H
#define HOLDFAST_RAFT_SNAPSHOT_RLOG_ARCHIVE_TAR_H

#include "base/bytes.h"
#include "base/status.h"

enum { TAR_BLOCK = 512, TAR_NAME_MAX = 100 };

struct tar_entry {
    char name[TAR_NAME_MAX + 1];
    uint64_t size;
};

/* Make the header of a regular file of mode 0600. `mtime_s` ≥ 0. */
void tar_header_make(const struct tar_entry *entry, int64_t mtime_s, uint8_t ret_block[TAR_BLOCK]);
/* ST_NOT_FOUND: a block of zeros, the end. ST_INVALID: no header, or not of a regular file. */
NODISCARD enum status tar_header_read(const uint8_t block[TAR_BLOCK], struct tar_entry *ret_entry);

/* The number of zeros that follow the content of an entry. */
static inline size_t tar_padding(uint64_t size)
{
    return (size_t)((TAR_BLOCK - size % TAR_BLOCK) % TAR_BLOCK);
}

#endif
