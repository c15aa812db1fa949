/* The reply to the client: status, a few headers, a body. */
#ifndef HOLDFAST_ROUTER_REQUEST_REPLY_H
#define HOLDFAST_ROUTER_REQUEST_REPLY_H

#include "base/shared.h"
#include "router/request/req.h"

enum {
    REPLY_HEADERS_MAX = 48,
    REPLY_HEADERS_FIRST = 16,           /* there is room for these at first */
    REPLY_HEADERS_OWN = 24,             /* headers of this node and headers of a forwarded reply */
    REPLY_LATE_HTTP = 504,              /* too late for a reply: a change may have been made */
    REPLY_ANSWER_MAX = HTTP_SMALL_BODY, /* bytes of a struct reply_answer */
};

/* A body that lies in a file. The sender closes the file. */
struct fs_file;
struct reply_file {
    struct fs_file *file; /* file with the body; NULL: none */
    uint64_t bytes;
    struct env *env; /* `env` of the thread that sends the file */
};

/* A body of log lines, which ends when the client goes or the process stops. The sender closes the
 * follower. */
struct tail;
struct reply_log {
    struct tail *tail; /* the follower; NULL: none */
    struct env *env;   /* `env` of the thread that sends the lines */
    const _Atomic bool *leaving;
};

/* The owner of a connection after HTTP (http/upgrade.h), in the arena of the request. */
struct http_taken;
struct reply_upgrade {
    /* The connection is this owner's, which sends `accept` first, the reply to the handshake.
     * Called at most once, on the worker's thread; not if the client has gone. */
    void (*take)(struct reply_upgrade *upgrade, struct http_taken *taken, struct bytes accept);
};

struct router_reply {
    /* ST_OK: this is a reply. Other values only for a forwarded request. ST_NOT_LEADER: the request
     * was not executed. ST_UNKNOWN_OUTCOME: the request may have been executed. */
    enum status retry;
    int http;                 /* HTTP status code */
    const char *content_type; /* NULL: no body */
    struct buf body;
    struct shared *shared;         /* if set: has the body instead of `body` */
    struct reply_stream *stream;   /* if set: gives the body instead of `body` */
    struct reply_file file;        /* if set: holds the body instead of `body` */
    struct reply_log log;          /* if set: the lines are the body instead of `body` */
    struct reply_upgrade *upgrade; /* if set: takes the connection; there is no body */
    size_t n_headers;
    struct http_header
        *headers; /* in the request's arena; names and values lie there or are static */
};
/* The body that lies in memory. */
static inline struct bytes reply_bytes(const struct router_reply *reply)
{
    return reply->shared != NULL ? shared_bytes(reply->shared) : buf_bytes(&reply->body);
}
/* Release the body, the file and the stream of a reply, and empty the reply. */
void reply_done(struct router_reply *reply);
/* Make room for more headers: for the first, and then for all. The arena is wiped after each
 * request, so that room which few replies use costs all. False: no memory, or no room is left. */
bool reply_header_room(struct router_reply *reply, struct arena *arena);
/* Add a header; name and value are not copied. False: no memory or no room, the header is missing.
 */
static inline bool reply_add_header(struct router_reply *reply, struct arena *arena,
                                    struct bytes name, struct bytes value)
{
    size_t n = reply->n_headers;
    bool full = n == REPLY_HEADERS_FIRST || n == REPLY_HEADERS_MAX;
    if ((reply->headers == NULL || full) && !reply_header_room(reply, arena))
        return false;
    reply->headers[reply->n_headers++] = (struct http_header){name, value};
    return true;
}

/* The reply of a handler that ran on another node: the node that the client asked, which gave the
 * request to this node to record it (PROTOCOL R20). */
struct reply_answer {
    enum reply_kind kind; /* not REPLY_NONE */
    const char *type;     /* with REPLY_RAW: content type */
    struct bytes data;    /* reply of the handler, without an envelope */
};

/* A long body on its way from another node. Either `send` or `drop` is called, once. */
struct reply_stream {
    uint64_t length; /* length of the body in bytes, or HTTP_LENGTH_UNKNOWN */
    /* The transport has begun the reply: send the body, then end it. */
    void (*send)(struct reply_stream *stream);
    void (*drop)(struct reply_stream *stream); /* discard the body */
};

/* Make the reply of a handler that ended with `st`. Returns `st`; returns ST_NOMEM if a success
 * could not be written: then the reply is an error. For ST_UNSUPPORTED the reply lists the methods
 * of the path. */
enum status reply_make(struct req *req, enum status st, struct router_reply *ret);

/* Make a reply with an error in the dialect's form; `reason` may be empty or NULL. Cannot fail:
 * without memory the body stays empty. */
void reply_error(struct router_reply *ret, const struct dialect *dialect, enum status st,
                 const struct reason *reason);
/* The text that reply_error writes; "": no text. */
const char *reply_error_text(const struct dialect *dialect, enum status st,
                             const struct reason *reason);

/* A number in the JSON of a reply: the version of the state that the request's commit makes, which
 * is known after the commit. The route has INDEX_VERSION. JSON escapes this byte in every text, so
 * it stands for nothing else. */
#define REPLY_VERSION "\001"
/* Write `version` in place of each REPLY_VERSION of a body. ST_NOMEM: the body is unchanged. */
NODISCARD enum status reply_put_version(struct buf *body, uint64_t version);

/* Encode and decode a reply that is stored with an applied request id (PROTOCOL R14): format u8 =
 * 1, http u16, content type (block), body (block). Headers are not stored. ST_NOMEM; ST_CORRUPT. */
NODISCARD enum status reply_encode(const struct router_reply *reply, struct buf *out);
NODISCARD enum status reply_decode(struct bytes stored, struct arena *arena,
                                   struct router_reply *ret);

#endif
