/* The retained suffix: a value that ends with bytes of the value it replaces.
 *
 * A key that is written often may carry its earlier values at the end of its value. Its writer
 * gives the new head and names the bytes of the stored value that stay. Those bytes are neither
 * sent, encrypted nor logged again. The page is src/store/RETAIN.md.
 *
 *   value without a suffix:  head
 *   value with a suffix:     u8 0x50, le32 bytes of the head, head, suffix
 *   range in a log entry:    varint from, varint len
 *
 * 1. A value without a suffix never begins with 0x50: the output of barrier_encrypt begins with
 *    another byte.
 * 2. A range counts from the first byte of the stored value, the frame included.
 * 3. A range that reaches over the end of the stored value is cut there, so that applying a log
 *    entry cannot fail.
 *
 * The store does not know what a suffix means: the writer of the head keeps the lengths of its
 * pieces. */
#ifndef HOLDFAST_STORE_RETAIN_H
#define HOLDFAST_STORE_RETAIN_H

#include "base/buf.h"

enum {
    STORE_VALUE_MAX = 2 * 1024 * 1024,    /* a sealed value of 1 MiB with its overhead fits */
    STORE_RETAIN_SUFFIX_MAX = 256 * 1024, /* bytes of a suffix */
    STORE_RETAIN_FRAME = 1 + 4,           /* bytes before the head of a value with a suffix */
};

/* The range of the stored value with which the value that is put ends. len 0: none. */
struct store_retain {
    size_t from, len;
};

/* Whether the range begins within STORE_VALUE_MAX, and `value_len` bytes and the range together are
 * not longer than STORE_VALUE_MAX. */
bool store_retain_valid(const struct store_retain *retain, size_t value_len);
/* The bytes of `stored` that the range names, as far as `stored` has them; borrowed. */
struct bytes store_retain_cut(const struct store_retain *retain, struct bytes stored);
/* Append the range as a log entry has it. A failure shows in buf_status. */
void store_retain_encode(const struct store_retain *retain, struct buf *out);
/* Read a range that store_retain_encode wrote. A failure shows in the reader. The range is not
 * validated. */
struct store_retain store_retain_decode(struct reader *r);

/* A stored value, split into head and suffix. Both are borrowed from the value and adjacent in
 * memory. */
struct store_retain_parts {
    struct bytes head;
    struct bytes suffix; /* empty: none */
};

/* Split a stored value. ST_CORRUPT: its frame names more bytes than there are. */
NODISCARD enum status store_retain_split(struct bytes stored, struct store_retain_parts *ret_parts);
/* Write the frame for a head of `head_len` bytes. `room` has STORE_RETAIN_FRAME bytes and more;
 * returns where the head begins. */
uint8_t *store_retain_frame(uint8_t *room, size_t head_len);

/* A suffix under construction. Zero-initialise; add the pieces in order; end with
 * store_retain_done. As long as the pieces follow each other in the stored value, the suffix is a
 * range of that value; else the suffix is a copy. */
struct store_retain_suffix {
    struct bytes run; /* borrowed from the stored value; not used once there is a copy */
    struct buf copy;
};

/* Add `piece`: at least one byte of the head or suffix that store_retain_split gave. The piece is
 * borrowed. A failure to copy shows in buf_status(&suffix->copy). */
void store_retain_add(struct store_retain_suffix *suffix, struct bytes piece);
/* The range of the bytes `run` within the whole stored value `stored`. `run` points into
 * `stored`. */
struct store_retain store_retain_range(struct bytes run, struct bytes stored);
void store_retain_done(struct store_retain_suffix *suffix);

#endif
