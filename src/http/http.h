/* HTTP/1.1 server for one worker thread. Framing is strict and every resource is bounded.
 *
 * A server belongs to one env. All functions but http_server_counters run on that env's thread. A
 * connection handles one request at a time: a pipelined request is read only after the reply to the
 * request before it, so replies and effects keep the order of the requests.
 *
 * 1. A handler gives every request exactly one reply, with one of the functions http_respond…, at
 *    once or any time later; also when the peer has gone meanwhile.
 * 2. The request, its strings, its body and its arena live until that reply has been sent; they
 *    are wiped when released.
 * 3. Every reply carries Cache-Control: no-store.
 * 4. A malformed request gets an error, and its connection is closed: bytes behind the request have
 *    no meaning. */
#ifndef HOLDFAST_HTTP_HTTP_H
#define HOLDFAST_HTTP_HTTP_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/env.h"

struct cidr;
struct http_budget;
struct http_proxy;
struct http_unwritten;
struct ip;
struct sockaddr;
struct sockaddr_storage;
struct tls_conn;
struct tls_ctx;
struct tls_peer;

enum http_method {
    METHOD_GET,
    METHOD_HEAD,
    METHOD_POST,
    METHOD_PUT,
    METHOD_PATCH,
    METHOD_DELETE,
    METHOD_LIST,
    METHOD_SCAN,
    METHOD_OPTIONS,
    METHODS
};

const char *http_method_name(enum http_method method); /* METHOD_GET: "GET" */
const char *http_status_reason(int status); /* 404: "Not Found"; "" for a status that has no name */

struct http_header {
    struct bytes name, value;
};

#define HTTP_LENGTH_UNKNOWN UINT64_MAX /* length of a body that announced none */

/* Requests */

struct http_request {
    enum http_method method;
    struct bytes path;  /* path as the client sent it, not canonical; without the query; or "*" */
    struct bytes query; /* query as the client sent it, behind the '?'; data NULL: no query */
    struct bytes body;  /* the whole body; empty if the body is streamed */
    struct arena arena;
    void *user; /* data of the handler; NULL at first */
};

/* The value of the first header with that name, upper or lower case, without surrounding blanks;
 * data NULL: absent. */
struct bytes http_header(const struct http_request *req, const char *name);
/* A bit for each length below 63: set if no header's name has that length. */
uint64_t http_header_lens_absent(const struct http_request *req);
/* The next header with that name: *at starts as 0. False: there is no further one. */
bool http_header_next(const struct http_request *req, const char *name, size_t *at,
                      struct bytes *ret_value);
/* The headers by position; names are in lower case. */
size_t http_header_count(const struct http_request *req);
struct http_header http_header_at(const struct http_request *req, size_t i);

enum { HTTP_PEER_TEXT = 64, HTTP_ERROR_BYTES_MAX = 4096 };
/* The address of the client, "127.0.0.1:4711" or "[::1]:4711": as a trusted proxy names it, or else
 * of the connection; "" when unknown. */
void http_peer_text(const struct http_request *req, char ret_text[static HTTP_PEER_TEXT]);
/* The client's certificate (crypto/tls.h). ST_NOT_FOUND: the client showed none, or has gone. */
NODISCARD enum status http_peer_cert(const struct http_request *req, struct tls_peer *ret_peer);
bool http_is_tls(const struct http_request *req);

/* Call `gone` once if the connection breaks, or the peer ends its side, before the reply is
 * complete. The request still needs its reply. `gone` NULL: cancel an earlier `gone`. */
void http_on_gone(struct http_request *req, void (*gone)(struct http_request *req));
/* Whether that has happened already: `gone` is not called then. */
bool http_is_gone(const struct http_request *req);

/* Set how long the reply may take from now on, instead of the listener's request_ms; 0: for ever.
 */
void http_reply_within(struct http_request *req, uint32_t ms);

/* Bodies. Call http_limit_body and http_stream_body from the handler's `head`. */

/* Refuse a body above `bytes_max` with 413, instead of the listener's limit. */
void http_limit_body(struct http_request *req, uint64_t bytes_max);
/* Stream a body of more than `whole_max` bytes: `request` is called without the body, at once or,
 * where the length is not announced, when more than `whole_max` bytes have arrived. 0: stream any
 * body, even an empty one. */
void http_stream_body(struct http_request *req, uint64_t whole_max);
/* The announced length of the body; 0: there is none; or HTTP_LENGTH_UNKNOWN. */
uint64_t http_body_length(const struct http_request *req);
/* Whether the body is streamed. Call from the handler's `request` on. */
bool http_body_streams(const struct http_request *req);

/* A piece of a streamed body. ST_OK: `piece` is borrowed for the callback and may be empty; `last`
 * says that the body is complete. Another status: the body will never be complete. ST_CLOSED: the
 * peer has gone; ST_TIMEOUT: the peer is too slow; ST_TOO_BIG: the body is above the limit;
 * ST_INVALID: the body is malformed. */
typedef void http_piece_fn(struct http_request *req, enum status st, struct bytes piece, bool last);

/* Ask for the next piece of a streamed body. `on_piece` is called once, never from inside this
 * function. Nothing is read from the peer until the handler asks for the next piece. */
void http_body_next(struct http_request *req, http_piece_fn *on_piece);

/* Use instead of http_body_next: read the whole body into memory. The bytes count in the server's
 * budget as held by `client` (NULL: the connection's address). `on_whole` is called once, never
 * from inside this function. ST_OK: req->body is complete and no longer streams. ST_BUSY: the
 * budget is used up. Other statuses as for a piece. */
typedef void http_whole_fn(struct http_request *req, enum status st);
void http_body_collect(struct http_request *req, const struct ip *client, http_whole_fn *on_whole);

/* Keep the memory of `buf` until the request is released, then wipe the memory; `buf` is empty
 * afterwards. For replies whose body was built in `buf`. At most once for a request. */
void http_keep(struct http_request *req, struct buf *buf);

/* Replies */

struct http_reply {
    int status;               /* 200..599 */
    const char *content_type; /* NULL: the reply has no Content-Type */
    const struct http_header *headers;
    size_t n_headers;  /* headers are copied; headers that frame the message are not allowed */
    struct bytes body; /* in the request's arena, kept with http_keep, or static */
    bool close;        /* close the connection after the reply */
};

/* Send the reply. */
void http_respond(struct http_request *req, const struct http_reply *reply);
/* Reply with an error in the handler's form. `message` is UTF-8 and is copied; NULL: no text. */
void http_respond_error(struct http_request *req, int status, const char *message);
/* Reply with the HTTP status of `st`. `message` NULL: the text of `st`. */
void http_respond_status(struct http_request *req, enum status st, const char *message);

/* Begin a reply in pieces; http_respond_piece and http_respond_end follow. reply->body is the first
 * piece and may be empty. `length` is the total, or HTTP_LENGTH_UNKNOWN. */
void http_respond_begin(struct http_request *req, const struct http_reply *reply, uint64_t length);
/* Send one piece of a reply. `piece` stays valid until `sent` is called, once and later. ST_CLOSED:
 * the peer has gone; still call http_respond_end. Send the next piece after `sent`. */
typedef void http_sent_fn(struct http_request *req, enum status st);
void http_respond_piece(struct http_request *req, struct bytes piece, http_sent_fn *sent);
/* End a reply in pieces. `complete` false: the connection is cut, so that the peer notices that a
 * part is missing. */
void http_respond_end(struct http_request *req, bool complete);

/* Servers */

struct http_limits {
    size_t uri_bytes_max;    /* longest request target; above: 414 */
    size_t header_bytes_max; /* most bytes of request line and headers; above: 431 */
    size_t headers_max;      /* most headers; above: 431 */
    uint64_t body_bytes_max; /* longest body; above: 413 */
    /* connections of this server; above, the longest idle connection is closed */
    size_t connections_max;
    /* Connections of one client address; above, the connection of that address that was idle
     * longest is closed. Trusted proxies are exempt. 0: half of connections_max. */
    size_t connections_share;
    uint32_t handshake_ms;   /* time limit of the TLS handshake */
    uint32_t header_ms;      /* time limit from first byte to end of headers: 408 */
    uint32_t idle_ms;        /* time limit between two requests of a connection */
    uint32_t request_ms;     /* time limit from the end of the headers to a reply; 0: none */
    uint32_t rate_window_ms; /* window over which body_rate_min and write_rate_min are measured */
    uint32_t body_rate_min;  /* least bytes a second of an arriving body: 408 */
    uint32_t write_rate_min; /* least bytes a second that a peer reads of a reply */
    uint32_t linger_ms;      /* how long unread input is discarded after a refusal */
};

extern const struct http_limits http_limits_default;

/* A body up to this length is bounded by the number of connections alone and counts in no budget,
 * so that large bodies cannot keep small ones out. */
enum { HTTP_SMALL_BODY = 64 * 1024 };

struct http_handler {
    /* The head is complete: limit or stream the body, or reply at once. Do not keep the request:
     * `request` is called with it later, or never. May be NULL. */
    void (*head)(void *ctx, struct http_request *req);
    /* The request is complete, or its body is to be streamed. */
    void (*request)(void *ctx, struct http_request *req);
    /* Called when limits.request_ms have passed without a reply. Returns the text of the error,
     * UTF-8, which is sent with *ret_status (503 unless the function sets it). The connection
     * closes; for the handler the peer has gone. The function may be NULL. */
    const char *(*late)(void *ctx, struct http_request *req, int *ret_status);
    /* Write an error's body to `out`; returns its static content type. `message` is UTF-8 of
     * HTTP_ERROR_BYTES_MAX bytes at most, data NULL where the status says all. NULL: plain text. */
    const char *(*error)(void *ctx, const struct http_request *req, int status,
                         struct bytes message, struct buf *out);
};

struct http_server_options {
    const struct sockaddr *address; /* address to listen at; NULL: adopted connections only */
    bool exclusive;                 /* fail if another socket listens at the address already */
    struct tls_ctx *tls;            /* NULL: plain text; the server takes a reference */
    const struct http_handler *handler;
    void *ctx;
    const struct http_limits *limits; /* the server copies the limits; NULL: the default limits */
    /* Bounds the bytes of bodies in memory that are longer than HTTP_SMALL_BODY: 503 above. NULL:
     * unbounded. Outlives the server. */
    struct http_budget *budget;
    struct http_budget *all_conns; /* connections of each client to all servers; NULL: unbounded */
    struct http_unwritten *unwritten; /* replies that wait for their reader; NULL: unbounded */
    const struct http_proxy *proxy;   /* PROXY protocol; NULL: off; outlives the server */
    /* Other proxies, whose connections carry many clients' requests. Outlive the server. */
    const struct cidr *forwarders;
    size_t n_forwarders;
};

struct http_server;

/* Listen with SO_REUSEPORT, so that each worker has its own socket at one address.
 * ST_EXISTS: the address is in use; ST_INVALID, ST_DENIED, ST_IO with a reason; ST_NOMEM. */
NODISCARD enum status http_server_start(struct env *env, const struct http_server_options *options,
                                        struct http_server **ret_server, struct reason *reason);
/* The port that the server listens on; 0 without a listener. */
uint16_t http_server_port(const struct http_server *server);

/* Serve a connection that was accepted elsewhere. `fd` and `tls` (after its handshake; NULL: plain
 * text) become the server's, also on failure; `early` is plaintext already read and is copied. */
NODISCARD enum status http_server_adopt(struct http_server *server, int fd, struct tls_conn *tls,
                                        struct bytes early);

/* Stop accepting, close idle connections, let running requests end with Connection: close, cut
 * what is left after `patience_ms`. `done` is called once, later, when no connection and no
 * request without a reply is left; then http_server_free may be called. */
void http_server_drain(struct http_server *server, uint32_t patience_ms,
                       void (*done)(void *done_ctx), void *done_ctx);
void http_server_free(struct http_server *server); /* the server must be drained; NULL is allowed */

struct http_counters; /* http/counters.h */
/* Read the counters. Any thread. */
void http_server_counters(const struct http_server *server, struct http_counters *ret_counters);

/* Parse "127.0.0.1:8200" or "[::1]:8200"; names are not resolved. ST_INVALID with a reason. */
NODISCARD enum status http_address_parse(const char *text, struct sockaddr_storage *ret_address,
                                         struct reason *reason);

#endif
