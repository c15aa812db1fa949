/* The answer to a request, taken apart while it arrives (RFC 9112 sections 4 to 7). The bytes are a
 * another party's: whatever they are, nothing is read beyond them and nothing is kept beyond the
 * bound.
 */
#ifndef HOLDFAST_CLI_INCOMING_H
#define HOLDFAST_CLI_INCOMING_H

#include "base/buf.h"

#include <stdio.h>

enum { INCOMING_REQUEST_ID_MAX = 63 };

enum incoming_phase {
    INCOMING_HEAD,
    INCOMING_CHUNK_SIZE,
    INCOMING_DATA,      /* `left` bytes, of a chunk or of the whole body */
    INCOMING_CHUNK_END, /* the line end behind a chunk */
    INCOMING_TRAILER,
    INCOMING_UNTIL_END, /* neither length nor chunks: the connection's end is the body's */
    INCOMING_OVER,
};

struct incoming {
    enum incoming_phase phase;
    int status;
    char location[1024];                          /* "" without one, or when it is longer */
    char request_id[INCOMING_REQUEST_ID_MAX + 1]; /* "" without one, or when it is longer */
    bool chunked;
    uint64_t left;
    struct buf body; /* a body that does not go to the file */
    size_t body_max;
    FILE *download; /* NULL, or where the body of a 2xx goes, however long it is */
};

/* `download` as in the struct, and stays the caller's; `body_max` bounds a body in memory. */
void incoming_init(struct incoming *in, FILE *download, size_t body_max);
void incoming_done(struct incoming *in);
/* Takes what it can off the front of `raw`. ST_INVALID: not HTTP. ST_TOO_BIG: a head or a body
 * beyond the bound. ST_IO: the file cannot be written. ST_NOMEM. */
NODISCARD enum status incoming_feed(struct incoming *in, struct buf *raw);
/* The connection ended. ST_INVALID: too early. */
NODISCARD enum status incoming_end(struct incoming *in);

static inline bool incoming_over(const struct incoming *in)
{
    return in->phase == INCOMING_OVER;
}

#endif
