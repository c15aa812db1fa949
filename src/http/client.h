/* HTTP/1.1 requests to other nodes: connections are kept and shared, their number and the queue for
 * them are bounded, and every failure says whether the other side may have seen the request.
 *
 * A client belongs to one env; all functions are called on its thread.
 *
 * 1. `done` is called exactly once for each request that is not cancelled, never from inside
 *    http_client_send, and is the client's last touch of the request.
 * 2. ST_NO_LEADER and ST_BUSY: not a byte of the request was sent. ST_UNKNOWN_OUTCOME: some may
 *    have arrived, and no usable reply did.
 * 3. A request that may be repeated is sent again, once, when it met a kept connection that the
 *    other side was just closing. One that may not gets a connection of its own from the start. */
#ifndef HOLDFAST_HTTP_CLIENT_H
#define HOLDFAST_HTTP_CLIENT_H

#include "http/http.h"

struct http_client;

struct http_client_limits {
    size_t connections_max;   /* to one target */
    size_t connecting_max;    /* of these at once: handshakes cost the other side time */
    size_t waiting_max;       /* requests waiting for one of them */
    uint32_t connect_ms;      /* for name, connection and handshake */
    uint32_t idle_ms;         /* a kept connection; less than servers allow */
    struct http_limits reply; /* only those of heads count */
};

extern const struct http_client_limits http_client_limits_default;

/* ST_NOMEM. */
NODISCARD enum status http_client_new(struct env *env, struct http_client **ret_client);
/* Instead of the default; before the first request. */
void http_client_limit(struct http_client *client, const struct http_client_limits *limits);
/* Requests under way end: ST_CLOSED or, where they were sent, ST_UNKNOWN_OUTCOME. `closed` is
 * called once, later; then http_client_free may be called. */
void http_client_close(struct http_client *client, void (*closed)(void *ctx), void *ctx);
void http_client_free(struct http_client *client); /* closed; NULL is allowed */

/* The server to connect to. Copied, but for `tls`, of which a reference is taken. */
struct http_target {
    const char *address; /* "10.0.0.1:8201", "[::1]:8201" or "name:8201" */
    struct tls_ctx *tls; /* NULL: in clear */
    const char *host;    /* a name in the certificate, as in tls_target; NULL: any */
    const char *uri;     /* a URI in the certificate, as in tls_target; NULL: any */
};

struct http_client_request;
struct http_client_conn;
/* `piece` may be moved away; what is left of it is released. */
typedef void http_client_piece_fn(struct http_client_request *request, struct buf *piece,
                                  bool last);
typedef void http_client_sent_fn(struct http_client_request *request);

/* Embedded by its owner, zero-initialised. What the upper part points to stays until `done`. */
struct http_client_request {
    enum http_method method;
    struct bytes path; /* and query */
    const struct http_header *headers;
    size_t n_headers;         /* without those that frame the message; Host is added */
    struct bytes body;        /* unless streamed */
    bool stream_body;         /* comes through http_client_write; not with `repeatable` */
    uint64_t body_length;     /* of a streamed body, or HTTP_LENGTH_UNKNOWN */
    bool repeatable;          /* sending it twice does no harm */
    bool once;                /* … but it is the caller who does so; with `repeatable` */
    uint32_t timeout_ms;      /* 0: 60 s. Until `done`; with streams: without progress */
    uint64_t reply_bytes_max; /* of the body, unless streamed; 0: 32 MiB */
    /* Called when the head of the reply is there; its body then comes through
     * http_client_reply_next. NULL: `done` gets it whole. Set to NULL for a reply known to be no
     * longer than `whole_max`. */
    void (*on_head)(struct http_client_request *request);
    uint64_t whole_max; /* with on_head; 0: every reply comes through it */
    void (*done)(struct http_client_request *request, enum status st);
    void *user;

    /* Set for on_head, and for done when it is ST_OK. */
    int status;
    struct buf reply;     /* from done on the owner's, who releases it */
    struct reason reason; /* for done: why it failed */

    /* The client's. */
    struct http_client *client;
    struct http_client_target *target; /* while it waits for a connection */
    struct http_client_conn *conn;
    struct http_head *head;
    struct list link, event_link;
    struct env_timer timer;
    uint64_t progress_ms, looked_ms;
    unsigned events;
    enum status failure;
    bool fresh, replied, complete, write_ended;
    struct bytes piece;
    http_client_sent_fn *on_sent;
    http_client_piece_fn *on_piece;
};

/* Start a request. Failures come through `done`. */
void http_client_send(struct http_client *client, const struct http_target *target,
                      struct http_client_request *request);
/* Forget it: `done` will not be called. Only before it was. */
void http_client_cancel(struct http_client_request *request);

/* Of the reply's body, as announced, or HTTP_LENGTH_UNKNOWN. */
uint64_t http_client_reply_length(const struct http_client_request *request);
/* Headers of the reply, as for requests. */
struct bytes http_client_reply_header(const struct http_client_request *request, const char *name);
size_t http_client_reply_header_count(const struct http_client_request *request);
struct http_header http_client_reply_header_at(const struct http_client_request *request, size_t i);

/* A streamed reply: ask for the next piece. `on_piece` is called once, never from inside this
 * call and not after `done`. After the last piece comes `done`. */
void http_client_reply_next(struct http_client_request *request, http_client_piece_fn *on_piece);

/* A streamed body, one piece at a time, beginning at any time after http_client_send. `piece` stays
 * valid until `sent`, which is not called from inside this call and not after `done`. */
void http_client_write(struct http_client_request *request, struct bytes piece,
                       http_client_sent_fn *sent);
void http_client_write_end(struct http_client_request *request);

struct http_client_counters {
    uint64_t requests, failed, unknown; /* failed: certainly not sent */
    uint64_t repeated, connects, connects_failed;
};
/* Any thread. */
void http_client_counters(const struct http_client *client,
                          struct http_client_counters *ret_counters);

#endif
