/* The reply to the client: status, a few headers, a body. */
#ifndef HOLDFAST_ROUTER_REQUEST_REPLY_H
#define HOLDFAST_ROUTER_REQUEST_REPLY_H

#include "router/request/req.h"

enum {
    REPLY_HEADERS_MAX = 32,
    REPLY_HEADERS_OWN = 24, /* of these; the others are for headers of a forwarded reply */
};

/* A body that lies in a file; the sender closes the file. */
struct fs_file;
struct reply_file {
    struct fs_file *file; /* NULL: none */
    uint64_t bytes;
    struct env *env; /* of the thread that sends it */
};

struct router_reply {
    /* For a forwarded request only, instead of a reply: ST_NOT_LEADER, nothing was done;
     * ST_UNKNOWN_OUTCOME, it may have been. Otherwise ST_OK. */
    enum status retry;
    int http;
    const char *content_type; /* NULL: no body */
    struct buf body;
    struct reply_stream *stream; /* instead of `body` */
    struct reply_file file;      /* instead of `body` */
    size_t n_headers;
    struct http_header *headers; /* in the request's arena, with what they say, or that is static */
};
void reply_done(struct router_reply *reply);
/* False: no memory or no room, the reply lacks the header. */
bool reply_add_header(struct router_reply *reply, struct arena *arena, struct bytes name,
                      struct bytes value);

/* A long body on its way from another node. One of the two is called, once. */
struct reply_stream {
    uint64_t length; /* or HTTP_LENGTH_UNKNOWN */
    /* The transport has begun the reply: send the body, then end it. */
    void (*send)(struct reply_stream *stream);
    void (*drop)(struct reply_stream *stream); /* the stream is not wanted */
};

/* The reply of a handler that ended with `st`; makes the body. Returns `st`, or ST_NOMEM when a
 * success could not be written, and the reply says that. Of ST_UNSUPPORTED it says which other
 * methods there are. */
enum status reply_make(struct req *req, enum status st, struct router_reply *ret);

/* An error in a dialect's form; `reason` may be empty or NULL. Cannot fail: without memory the body
 * stays empty. */
void reply_error(struct router_reply *ret, const struct dialect *dialect, enum status st,
                 const struct reason *reason);
/* Text of reply_error; "": no text. */
const char *reply_error_text(const struct dialect *dialect, enum status st,
                             const struct reason *reason);

/* Stored with an applied request id (PROTOCOL R14): format u8 = 1, http u16, content type (block),
 * body (block). Headers are not kept. ST_NOMEM; ST_CORRUPT. */
NODISCARD enum status reply_encode(const struct router_reply *reply, struct buf *out);
NODISCARD enum status reply_decode(struct bytes stored, struct arena *arena,
                                   struct router_reply *ret);

#endif
