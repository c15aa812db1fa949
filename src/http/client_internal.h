/* Shared by the two files of the HTTP client.
 *
 * A connection:
 *
 *     RESOLVING -> CONNECTING -> SECURING -> IDLE <-> BUSY
 *     any -> CLOSING   the connection failed, is not kept, or its request was abandoned
 *
 * A request waits at its target, moves to a connection, and ends. Outside of the loop's callbacks
 * an event of a request is not reported at once: the event bits of the request are set, and the
 * client's task reports them later. */
#ifndef HOLDFAST_HTTP_CLIENT_INTERNAL_H
#define HOLDFAST_HTTP_CLIENT_INTERNAL_H

#include "base/tally.h"
#include "http/client.h"
#include "http/parse.h"
#include "http/wire.h"

enum client_phase {
    CLIENT_RESOLVING,
    CLIENT_CONNECTING,
    CLIENT_SECURING,
    CLIENT_IDLE,
    CLIENT_BUSY,
    CLIENT_CLOSING,
};

enum request_event {
    REQUEST_FAIL = 1 << 0,  /* `failure` is set; other events of the request no longer count */
    REQUEST_SENT = 1 << 1,  /* the present piece of the body has been written */
    REQUEST_PIECE = 1 << 2, /* on_piece may have to be called */
    REQUEST_DONE = 1 << 3,  /* the reply is complete, and the owner was notified */
};

struct http_client_target {
    struct list link;
    struct http_client *client;
    struct tls_ctx *tls;
    char *address, *host, *uri; /* host and uri may be NULL */
    struct list idle;           /* idle connections, the longest idle one first */
    struct list active, waiting;
    size_t n_conns, n_connecting, n_waiting;
    bool serving, serve_again;
};

struct http_client_conn {
    struct http_wire wire;
    struct http_client *client;
    struct http_client_target *target;
    struct list link; /* link in the target's `idle` or `active` */
    struct http_client_request *request;
    struct http_parser parser;
    struct http_head *head;
    struct buf text; /* the head of the request */
    struct http_out out, end_out;
    struct http_piece piece_out;
    struct env_timer timer;
    uv_connect_t connect;
    uv_getaddrinfo_t resolve;
    enum client_phase phase;
    uint64_t before_wrote, before_out; /* the wire's byte counts when the request came */
    uint8_t n_interim;
    bool used, resolving, wire_closed;
    bool excused; /* a late timer was excused once: the loop was late too */
    /* a piece of the body is being written; the last piece was written */
    bool piece_busy, all_written;
    size_t behind; /* bytes of input behind the bytes that are being parsed */
};

struct http_client_tally {
    _Atomic uint64_t requests, failed, unknown, repeated, connects, connects_failed;
};

struct http_client {
    struct env *env;
    struct http_client_limits limits;
    struct http_scratch scratch;
    struct list targets;
    struct list events; /* requests that have event bits set */
    struct env_task task;
    size_t n_conns;
    bool task_posted, closing, closed;
    void (*on_closed)(void *ctx);
    void *closed_ctx;
    struct http_client_tally tally;
};

static inline bool request_streams(const struct http_client_request *request)
{
    return request->stream_body || request->on_head != NULL;
}

/* client.c */

/* Report events to the request later, from the loop. */
void http_client_post(struct http_client_request *request, unsigned events);
/* End the request with a failure and remove it from the queue. No connection serves it any more. */
void http_client_fail(struct http_client_request *request, enum status st, const char *why);
/* The reply is complete: end the request. Called from a callback of the loop; last touch. */
void http_client_complete(struct http_client_request *request);
/* The request has lost its connection: put it at the front of the queue. */
void http_client_again(struct http_client_request *request, struct http_client_target *target);
/* The connection is ready, or free again: give it a request, or keep it. */
void http_target_free(struct http_client_conn *c);
/* Give waiting requests connections, or start some. */
void http_target_serve(struct http_client_target *target);
/* An attempt to connect failed: the requests that waited for it fail. */
void http_target_failed(struct http_client_target *target, const char *why);
/* A connection is closed: count one less. */
void http_client_less(struct http_client *client, struct http_client_target *target);

/* client_conn.c */

/* Begin to connect. ST_NOMEM, or the status of a system error. */
NODISCARD enum status http_client_connect(struct http_client_target *target);
/* Send a request over an idle connection. */
void http_client_conn_take(struct http_client_conn *c, struct http_client_request *request);
void http_client_conn_close(struct http_client_conn *c);
/* The owner of the request gives it up. */
void http_client_conn_abandon(struct http_client_conn *c);
/* Read on if the request wants more of the reply. */
void http_client_conn_read(struct http_client_conn *c);
/* The connection's request has a piece to send, or has ended its body. */
void http_client_conn_write(struct http_client_conn *c);
/* Whether the other side may know of the request. */
bool http_client_conn_sent(const struct http_client_conn *c);

#endif
