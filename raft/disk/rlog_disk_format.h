/* Bytes of the log and of the small files beside it: pure functions over memory, no I/O.
 *
 * raft/FORMAT.md explains why the sectors look as they do. In short: every 512 bytes of a segment
 * carry their own checksum and a mark in their last two bytes, so a sector that was never written
 * (zero), one cut short by a torn write (no mark), and one that rotted (a mark, but the checksum is
 * wrong) can be distinguished. */
#ifndef HOLDFAST_RAFT_DISK_RLOG_DISK_FORMAT_H
#define HOLDFAST_RAFT_DISK_RLOG_DISK_FORMAT_H

#include "base/fs.h"
#include "raft/disk/rlog_block.h"
#include "raft/disk/rlog_identity.h"

enum {
    SECTOR = 512,
    /* data bytes of a sector; sequence u32, kind u16, CRC-32C u32 and mark u16 follow */
    SECTOR_DATA = 500,
    SECTOR_MARK = 0xA55A,  /* eight bits are set: no single flip makes or clears the mark */
    SECTOR_NOISE_BITS = 4, /* so many set bits may be decay in a sector that was never written */
    BATCH_HEADER = 48,
    ENTRY_HEADER = 16,
    SEGMENT_VERSION = 1,
    SEGMENT_MIN = 4 * SECTOR,
    SEGMENT_DEFAULT = 8 << 20,
    BATCH_MAX = 64 << 20, /* most bytes of the payload of a batch */
    SEGMENT_MAX = 80 << 20,
    SMALL_BLOCK = 4096, /* size of one copy in `slot` (the vote file), `identity`, `install` */
};

enum sector_kind { SECTOR_SEGMENT = 1, SECTOR_FIRST = 2, SECTOR_REST = 3 };
enum sector_state { SECTOR_UNWRITTEN, SECTOR_CUT, SECTOR_DAMAGED, SECTOR_WHOLE };

/* Mixed into every checksum of a segment. Old content of a recycled file, or content of another
 * node's file, then never passes. */
uint32_t segment_salt(uint64_t id, uint64_t number);
/* Extend the hash chain over all sectors of all batches. */
uint64_t chain_next(uint64_t chain, uint32_t crc);

struct sector_info {
    enum sector_state state;
    enum sector_kind kind; /* kind of the sector, if it is whole */
    uint32_t seq;          /* low half of the batch's sequence number, if the sector is whole */
    uint32_t crc;
};
struct sector_info sector_read(const uint8_t *sector, uint32_t salt, uint64_t number);

/* A segment of whole blocks is written in such, past the page cache. */
static inline bool segment_in_blocks(uint64_t size)
{
    return size % FS_BLOCK == 0;
}

enum { SEGMENT_RESET = 1 }; /* flag: earlier segments are void, because a snapshot was installed */

struct segment_header {
    uint64_t id, number; /* raft id of the replica; number of the segment */
    uint64_t size;
    uint64_t start;      /* index of the entry that the segment begins with */
    uint64_t prev_term;  /* term of the entry before `start` */
    uint64_t seq, chain; /* sequence number of the first batch; chain before the segment */
    uint64_t prev_end;   /* where the previous segment ends; bytes behind that offset are void */
    uint32_t flags;
};

enum { BATCH_TRUNCATE = 1, BATCH_MARK = 2, BATCH_CLEAN = 4 };

/* Removes the entries from `first` on, then appends `n`. A mark has no entries: a mark proves that
 * everything before it was durable. */
struct batch_header {
    uint32_t flags;
    uint64_t seq;
    uint64_t first;
    uint64_t prev_term; /* term of entry first-1 */
    uint64_t chain;     /* hash chain before this batch */
    uint32_t n;
    uint32_t bytes; /* bytes of the entries with their headers */
};

/* The number of sectors for a payload of `bytes`. */
static inline uint64_t batch_sectors(uint64_t bytes)
{
    return (BATCH_HEADER + bytes + SECTOR_DATA - 1) / SECTOR_DATA;
}

/* Fills sectors one after the other. The buffer must be large enough. */
struct sector_writer {
    uint8_t *at;     /* the sector that is being filled */
    size_t fill;     /* data bytes in the sector that is being filled */
    uint64_t number; /* place of the record in the segment */
    uint64_t chain;  /* hash chain after the sectors closed so far, without segment headers */
    uint32_t salt;
    uint32_t seq;
    enum sector_kind kind;
};
void sector_put(struct sector_writer *w, struct bytes data);
/* Close a partly filled sector with zeros. */
void sector_flush(struct sector_writer *w);

/* Write the header with which a segment begins. */
void segment_header_write(struct sector_writer *w, const struct segment_header *h);
/* ST_OK; ST_CORRUPT when the content is not well-formed. `sector` passed sector_read. */
NODISCARD enum status segment_header_read(const uint8_t *sector, struct segment_header *ret);
void batch_header_write(struct sector_writer *w, const struct batch_header *h);

/* A segment in memory. Missing bytes at the end of a short file read as zero. */
struct segment_image {
    const uint8_t *data;
    uint64_t size; /* size of the file, a multiple of SECTOR */
    uint32_t salt;
};

enum batch_state {
    BATCH_OK,
    BATCH_END,     /* no batch was written at this place or later */
    BATCH_TORN,    /* a write that never completed; nothing followed it */
    BATCH_DAMAGED, /* the batch was acknowledged, or it cannot be shown that it was not */
};

struct batch_found {
    enum batch_state state;
    struct batch_header header; /* set for BATCH_OK, or if header_whole is set */
    bool header_whole;
    uint64_t end;         /* offset behind the batch, for BATCH_OK */
    uint64_t chain_after; /* hash chain after the batch, for BATCH_OK */
    uint64_t bad_at;      /* if torn or damaged: offset of the sector that shows it */
    uint64_t resume_at;   /* if damaged: offset of the next whole batch; 0: none */
    const char *why;      /* if torn or damaged: the reason as static text */
};

/* Find the batch `seq`, which must stand at `off` and continue `chain`. `any`: accept every batch
 * at `off`, because damage precedes it. Does not read beyond `end`. */
struct batch_want {
    uint64_t off, end;
    uint64_t seq, chain;
    bool any;
};
struct batch_found batch_find(const struct segment_image *image, const struct batch_want *want);
/* Whether a segment without a header holds nothing that was ever acknowledged: at most a torn first
 * write, of batch `seq`. */
bool segment_unused(const struct segment_image *image, uint64_t seq, bool *ret_torn,
                    uint64_t *ret_bad_at);

/* Copy the payload of a batch that batch_find approved into `out` (header.bytes). */
void batch_payload(const struct segment_image *image, uint64_t off, const struct batch_header *h,
                   uint8_t *out);
/* Next entry of a payload; false at the end or when malformed (then *ret_bad is true). */
bool entry_next(struct bytes *payload, struct rlog_entry *ret_entry, bool *ret_bad);
void entry_header_write(struct sector_writer *w, const struct rlog_entry *entry);

/* The small files: blocks of 4 KiB with a checksum over all of each. */
struct vote_record {
    uint64_t seq, term, vote;
    uint64_t log_seq; /* number of a batch that was durable when the record was written */
};
void vote_file_encode(const struct vote_record *r, uint64_t id, uint8_t block[SMALL_BLOCK]);
/* Decode a copy. False: the block is not whole, or not of replica `id`. */
bool vote_file_decode(const uint8_t block[SMALL_BLOCK], uint64_t id, struct vote_record *ret);
void identity_encode(const struct rlog_identity *identity, uint8_t block[SMALL_BLOCK]);
bool identity_decode(const uint8_t block[SMALL_BLOCK], struct rlog_identity *ret);
/* Record of an install: while it exists, the log may end below the snapshot. */
struct install_record {
    uint64_t index, term;
};
void install_encode(const struct install_record *r, uint64_t id, uint8_t block[SMALL_BLOCK]);
bool install_decode(const uint8_t block[SMALL_BLOCK], uint64_t id, struct install_record *ret);

#endif
