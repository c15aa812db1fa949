/* HTTP/1.1 requests to other nodes. Connections are kept and shared. The number of connections and
 * the number of waiting requests are bounded. Every failure says whether the other side may have
 * seen the request.
 *
 * A client belongs to one env; all functions are called on its thread.
 *
 * 1. `done` is called exactly once for each request that is not cancelled, never from inside
 *    http_client_send, and is the client's last touch of the request.
 * 2. ST_NO_LEADER and ST_BUSY: not a byte of the request was sent. ST_UNKNOWN_OUTCOME: bytes of the
 *    request may have arrived, but no usable reply came.
 * 3. When the other side closes a kept connection just as a repeatable request is sent, the client
 *    sends the request again, once. A request that is not repeatable gets a new connection from the
 *    start. */
#ifndef HOLDFAST_HTTP_CLIENT_H
#define HOLDFAST_HTTP_CLIENT_H

#include "http/http.h"

struct http_client;

struct http_client_limits {
    size_t connections_max; /* most connections to one target */
    /* most connections being opened at once: handshakes cost the other side time */
    size_t connecting_max;
    size_t waiting_max;       /* most requests that wait for a connection */
    uint32_t connect_ms;      /* time limit for looking up the name, connecting and the handshake */
    uint32_t idle_ms;         /* how long an idle connection is kept; less than servers allow */
    struct http_limits reply; /* of these limits only those of heads are used */
};

extern const struct http_client_limits http_client_limits_default;

/* ST_NOMEM. */
NODISCARD enum status http_client_new(struct env *env, struct http_client **ret_client);
/* Set other limits than the default, before the first request. */
void http_client_limit(struct http_client *client, const struct http_client_limits *limits);
/* End all requests under way: ST_CLOSED, or ST_UNKNOWN_OUTCOME if bytes were sent. `closed` is
 * called once, later; then http_client_free may be called. */
void http_client_close(struct http_client *client, void (*closed)(void *ctx), void *ctx);
void http_client_free(struct http_client *client); /* the client must be closed; NULL is allowed */

/* The server to connect to. Strings are copied; a reference to `tls` is taken. */
struct http_target {
    const char *address; /* "10.0.0.1:8201", "[::1]:8201" or "name:8201" */
    struct tls_ctx *tls; /* NULL: no TLS */
    const char *host;    /* a name in the certificate, as in tls_target; NULL: any */
    const char *uri;     /* a URI in the certificate, as in tls_target; NULL: any */
};

struct http_client_request;
struct http_client_conn;
/* One piece of a reply's body. `last`: the body is complete. The callee may move `piece` away;
 * otherwise the client releases it. */
typedef void http_client_piece_fn(struct http_client_request *request, struct buf *piece,
                                  bool last);
typedef void http_client_sent_fn(struct http_client_request *request);

/* Embedded by its owner, zero-initialised. The owner sets the members down to `user`; memory that
 * they point to stays valid until `done`. */
struct http_client_request {
    enum http_method method;
    struct bytes path; /* path with its query */
    const struct http_header *headers;
    size_t n_headers;     /* without the headers that frame the message; the client adds Host */
    struct bytes body;    /* whole body; empty if `stream_body` is set */
    bool stream_body;     /* http_client_write gives the body; not allowed with `repeatable` */
    uint64_t body_length; /* length of a streamed body, or HTTP_LENGTH_UNKNOWN */
    bool repeatable;      /* sending the request twice does no harm */
    /* if `repeatable` is set: the owner repeats the request, not the client */
    bool once;
    uint32_t timeout_ms;      /* time until `done`; for a stream, time without progress; 0: 60 s */
    uint64_t reply_bytes_max; /* most bytes of a body that is not streamed; 0: 32 MiB */
    /* Called when the head of the reply has arrived; http_client_reply_next then gives the body.
     * NULL: `done` has the whole body. The client sets it to NULL for a reply whose announced
     * length is at most `whole_max`. */
    void (*on_head)(struct http_client_request *request);
    uint64_t whole_max; /* with on_head: replies longer than this are streamed; 0: all replies */
    /* Called before the client collects a whole body of the announced length; may cancel the
     * request. NULL: not called. */
    void (*on_length)(struct http_client_request *request, uint64_t length);
    void (*done)(struct http_client_request *request, enum status st);
    void *user;

    /* HTTP status of the reply: set for on_head, and for `done` with ST_OK. */
    int status;
    struct buf reply;     /* body; from `done` on the owner has to release it */
    struct reason reason; /* set for done: why the request failed */

    /* The members below are for the client alone. */
    struct http_client *client;
    /* link in the target's list while the request waits for a connection */
    struct http_client_target *target;
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
/* Forget a request whose `done` was not called yet: `done` will not be called. */
void http_client_cancel(struct http_client_request *request);

/* The announced length of the reply's body, or HTTP_LENGTH_UNKNOWN. */
uint64_t http_client_reply_length(const struct http_client_request *request);
/* Headers of the reply, as http_header, http_header_count and http_header_at. */
struct bytes http_client_reply_header(const struct http_client_request *request, const char *name);
size_t http_client_reply_header_count(const struct http_client_request *request);
struct http_header http_client_reply_header_at(const struct http_client_request *request, size_t i);

/* Ask for the next piece of a streamed reply. `on_piece` is called once, never from inside this
 * function and not after `done`. `done` follows the last piece. */
void http_client_reply_next(struct http_client_request *request, http_client_piece_fn *on_piece);

/* Write one piece of a streamed body, at any time after http_client_send. `piece` stays valid until
 * `sent`, which is not called from inside this function and not after `done`. */
void http_client_write(struct http_client_request *request, struct bytes piece,
                       http_client_sent_fn *sent);
void http_client_write_end(struct http_client_request *request);

struct http_client_counters {
    /* failed: certainly not sent; unknown: requests that ended with ST_UNKNOWN_OUTCOME */
    uint64_t requests, failed, unknown;
    uint64_t repeated, connects, connects_failed;
};
/* Read the counters. Any thread. */
void http_client_counters(const struct http_client *client,
                          struct http_client_counters *ret_counters);

#endif
