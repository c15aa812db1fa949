/* The reply to the client: status, a few headers, a body. */
#ifndef HOLDFAST_ROUTER_ANSWER_H
#define HOLDFAST_ROUTER_ANSWER_H

#include "router/req.h"

enum {
    ANSWER_HEADERS_MAX = 32,
    ANSWER_HEADERS_OWN = 24, /* of these; the others are for headers of a forwarded answer */
};

/* A body that lies in a file; the sender closes the file. */
struct fs_file;
struct answer_file {
    struct fs_file *file; /* NULL: none */
    uint64_t bytes;
    struct env *env; /* of the thread that sends it */
};

struct router_answer {
    /* For a forwarded call only, instead of an answer: ST_NOT_LEADER, nothing was done;
     * ST_UNKNOWN_OUTCOME, it may have been. Otherwise ST_OK. */
    enum status retry;
    int http;
    const char *content_type; /* NULL: no body */
    struct buf body;
    struct answer_stream *stream; /* instead of `body` */
    struct answer_file file;      /* instead of `body` */
    size_t n_headers;
    struct http_header *headers; /* in the request's arena, with what they say, or that is static */
};
void answer_done(struct router_answer *answer);
/* False: no memory or no room, the answer lacks the header. */
bool answer_add_header(struct router_answer *answer, struct arena *arena, struct bytes name,
                       struct bytes value);

/* A long body on its way from another node. One of the two is called, once. */
struct answer_stream {
    uint64_t length; /* or HTTP_LENGTH_UNKNOWN */
    /* The transport has begun the answer: send the body, then end it. */
    void (*send)(struct answer_stream *stream);
    void (*drop)(struct answer_stream *stream); /* the stream is not wanted */
};

/* The answer of a handler that ended with `st`; makes the body. Returns `st`, or ST_NOMEM when a
 * success could not be written, and the answer says that. Of ST_UNSUPPORTED it says which other
 * methods there are. */
enum status answer_make(struct req *req, enum status st, struct router_answer *ret);

/* An error in a dialect's form; `reason` may be empty or NULL. Cannot fail: without memory the body
 * stays empty. */
void answer_error(struct router_answer *ret, const struct dialect *dialect, enum status st,
                  const struct reason *reason);
/* Text of answer_error; "": no text. */
const char *answer_error_text(const struct dialect *dialect, enum status st,
                              const struct reason *reason);

/* Stored with an applied request id (PROTOCOL R14): format u8 = 1, http u16, content type (block),
 * body (block). Headers are not kept. ST_NOMEM; ST_CORRUPT. */
NODISCARD enum status answer_encode(const struct router_answer *answer, struct buf *out);
NODISCARD enum status answer_decode(struct bytes stored, struct arena *arena,
                                    struct router_answer *ret);

#endif
