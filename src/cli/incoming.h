/* Parser of an HTTP/1.1 reply, fed as the reply arrives (RFC 9112 sections 4 to 7). The bytes are
 * not trusted: the parser reads no byte beyond them and keeps no more than `body_max`. */
#ifndef HOLDFAST_CLI_INCOMING_H
#define HOLDFAST_CLI_INCOMING_H

#include "base/buf.h"

#include <stdio.h>

enum { INCOMING_REQUEST_ID_MAX = 63 };

enum incoming_phase {
    INCOMING_HEAD,
    INCOMING_CHUNK_SIZE,
    INCOMING_DATA,      /* `left` more bytes of a chunk or of the whole body follow */
    INCOMING_CHUNK_END, /* the line end behind a chunk follows */
    INCOMING_TRAILER,
    INCOMING_UNTIL_END, /* no length and no chunks: the body ends when the connection ends */
    INCOMING_OVER,
};

struct incoming {
    enum incoming_phase phase;
    int status;
    char location[1024];                          /* "": no such header, or the value is too long */
    char request_id[INCOMING_REQUEST_ID_MAX + 1]; /* "": no such header, or the value is too long */
    bool chunked;
    uint64_t left;
    struct buf body; /* the body, unless the body goes to `download` */
    size_t body_max;
    FILE *download; /* takes the body of a 2xx reply, of any length; NULL: `body` takes it */
};

/* download  see the struct; the caller closes the file
 * body_max  bound of a body in memory, bytes */
void incoming_init(struct incoming *in, FILE *download, size_t body_max);
void incoming_done(struct incoming *in);
/* Parse bytes at the front of `raw` and remove them; an incomplete line stays. ST_INVALID: not
 * HTTP. ST_TOO_BIG: a head or a body beyond its bound. ST_IO: the file cannot be written. ST_NOMEM.
 */
NODISCARD enum status incoming_feed(struct incoming *in, struct buf *raw);
/* Tell the parser that the connection ended. ST_INVALID: the reply is not complete. */
NODISCARD enum status incoming_end(struct incoming *in);

static inline bool incoming_over(const struct incoming *in)
{
    return in->phase == INCOMING_OVER;
}

#endif
