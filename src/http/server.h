/* Shared by the files of the server: connections and exchanges (a request and its reply).
 *
 * A connection:
 *
 *     HANDSHAKE -> IDLE <-> HEAD -> BODY -> BUSY -> IDLE
 *                              `-------------^
 *     any but CLOSING -> LINGER (our side ended, input discarded) -> CLOSING
 *
 * A connection in IDLE or HEAD has no exchange, or an exchange with only a part of a head. In BODY
 * it reads a body into memory. In BUSY it waits for the reply, or moves a streamed body. An
 * exchange whose connection has gone has conn NULL and waits for its handler. */
#ifndef HOLDFAST_HTTP_SERVER_H
#define HOLDFAST_HTTP_SERVER_H

#include "base/tally.h"
#include "http/budget.h"
#include "http/counters.h"
#include "http/http.h"
#include "http/parse.h"
#include "http/unwritten.h"
#include "http/wire.h"
#include "text/time.h"

enum conn_phase {
    CONN_HANDSHAKE,
    CONN_IDLE,
    CONN_HEAD,
    CONN_BODY,
    CONN_BUSY,
    CONN_LINGER,
    CONN_CLOSING,
};

struct http_conn {
    struct http_wire wire;
    struct http_server *server;
    struct list link; /* link in server->idle or server->active */
    struct http_parser parser;
    struct http_exchange *x; /* the exchange under way; its request or its reply is incomplete */
    struct buf in;           /* bytes of input behind the current request */
    struct env_timer timer;
    uint64_t deadline_ms; /* 0: no deadline; the timer may fire earlier and is then set again */
    uint32_t allowed_ms;  /* the time from setting the deadline to the deadline */
    bool excused;         /* the deadline has passed and was put off */
    uint64_t late_ms;     /* when the reply is due; 0: no reply is due */
    uint64_t
        rest_ms; /* when an idle or parked connection releases its buffers; 0: neither, or done */
    uint64_t window_in, window_out;
    enum conn_phase phase;
    uint8_t n_queued;    /* replies since the output was last written */
    size_t queued_bytes; /* bytes of these replies */
    struct http_owed owed;
    uint64_t counted_out;
    struct ip counted; /* address under which the connection is counted; len 0: not counted */
    bool counted_here; /* the server counts it too, beside all_conns */
    struct ip client;  /* the client's address that a proxy named; len 0: no proxy named one */
    uint16_t client_port;
    char peer[HTTP_PEER_TEXT]; /* the client's address as text; "": not asked for yet */
    bool parsing, settling, window_on;
    bool close_after; /* close the connection behind the present reply */
    bool peer_ended;
};

struct http_exchange {
    struct http_request req; /* the part that handlers see; must come first */
    struct http_server *server;
    struct http_conn *conn; /* NULL: the connection is gone */
    struct list link;       /* link in server->exchanges or server->spare */
    /* references held by the reply, by outputs on their way and by posted tasks */
    unsigned refs;
    struct http_head head;

    struct buf body; /* the body in memory; its capacity counts in the budget */
    size_t budgeted; /* bytes of the budget that are charged to `payer` */
    struct ip payer;
    uint64_t body_max, body_seen;
    bool given;     /* the request was given to the handler */
    bool body_done; /* the whole body was read */
    bool sent_continue;

    uint64_t whole_max;         /* a longer body is streamed */
    bool streaming;             /* the handler takes the body in pieces */
    struct buf stash;           /* pieces that the handler has not asked for yet */
    http_piece_fn *on_piece;    /* the handler asked for a piece */
    http_whole_fn *on_whole;    /* the handler asked for all that is left */
    enum status body_status;    /* not ST_OK: no more of the body will come */
    struct env_task piece_task; /* calls on_piece or on_whole, never from inside a handler's call */
    bool piece_posted, last_told;

    void (*gone)(struct http_request *req);
    struct buf reply, kept;
    struct shared *shared;  /* text of the body; NULL: the body lies elsewhere */
    const char *payer_text; /* address of the client; NULL: that of the connection */
    uint64_t payer_token;
    size_t held;   /* bytes that http_reply_hold counted for `holder` */
    size_t queued; /* bytes counted for `holder` while the request waits for room; else 0 */
    struct http_payer holder;
    struct http_out out, end_out, continue_out;
    struct http_piece piece_out;
    bool replying, replied; /* the reply has begun; the reply is complete */
    bool reply_chunked, reply_close, no_reply_body;
    uint64_t reply_left; /* bytes that a streamed reply with a length still lacks */
    http_sent_fn *on_sent;
    enum status sent_status;
    struct env_task sent_task;
    bool piece_waiting, sent_posted;
};

struct http_tally {
    _Atomic uint64_t accepted, open, evicted, handshakes_failed, timeouts, rejected, requests;
    _Atomic uint64_t replies[6], bytes_in, bytes_out;
};

/* The value of the header Date, valid for a second. */
struct http_date {
    uint64_t until_ms; /* monotonic time until which the text is valid */
    uint8_t text[TEXT_HTTP_DATE_LEN];
};

struct http_server {
    struct env *env;
    struct tls_ctx *tls;
    const struct http_handler *handler;
    void *ctx;
    struct http_limits limits;
    struct http_budget *budget;       /* memory of large bodies; NULL: unbounded */
    struct http_budget conns;         /* connections of each client address */
    struct http_budget *all_conns;    /* the same of all servers; NULL: unbounded */
    struct http_unwritten *unwritten; /* NULL: unbounded */
    const struct http_proxy *proxy;   /* NULL: the PROXY protocol is off */
    const struct cidr *forwarders;
    size_t n_forwarders;
    struct http_scratch scratch;
    uv_tcp_t listener;
    uint16_t port;
    bool listening; /* the handle is open */
    bool accept_waits, draining, drained;
    size_t n_conns, n_spare;
    struct list idle; /* connections that wait for a request, longest first */
    struct list active, exchanges, spare;
    struct http_tally tally;
    struct http_date date;
    struct env_timer drain_timer, accept_timer;
    struct env_task drain_task;
    void (*on_drained)(void *done_ctx);
    void *done_ctx;
};

static inline struct http_exchange *exchange_of(const struct http_request *req)
{
    return (struct http_exchange *)(uintptr_t)req;
}

/* exchange.c */

/* Make an exchange with one reference, which the reply releases. NULL: no memory. */
struct http_exchange *http_exchange_new(struct http_server *server);
void http_exchange_unref(struct http_exchange *x);
void http_exchange_free(struct http_exchange *x); /* free an exchange that is in `spare` */
/* Keep no more exchanges for reuse than there are connections. */
void http_exchange_shrink(struct http_server *server);
/* Show the handler method, path and query of the head. */
void http_exchange_show(struct http_exchange *x);
/* Make room for `more` bytes of body. ST_BUSY: the budget is used up; ST_NOMEM. */
NODISCARD enum status http_exchange_grow(struct http_exchange *x, size_t more);
/* No more of the body will come: tell a streaming handler. `st` says whether the body is
 * complete. */
void http_exchange_body_end(struct http_exchange *x, enum status st);
/* Make the bytes of the body that came so far the first piece of a stream. */
void http_exchange_stream(struct http_exchange *x);
/* Add bytes to a streamed body. ST_NOMEM. */
NODISCARD enum status http_exchange_body_add(struct http_exchange *x, struct bytes run);
/* The exchange has lost its connection: only its handler keeps it. */
void http_exchange_orphan(struct http_exchange *x);

/* reply.c */

/* The client that pays for the reply. */
struct http_payer http_exchange_payer(const struct http_exchange *x);
/* Count no more what http_reply_hold counted. */
void http_exchange_unhold(struct http_exchange *x);
/* Count the request no more as one that waits for room. */
void http_exchange_unqueue(struct http_exchange *x);
/* Memory that the exchange keeps until its reply is out, without text that is shared. */
size_t http_exchange_bytes(const struct http_exchange *x);

/* Send an error of the server itself, and close the connection. */
void http_reply_refusal(struct http_exchange *x, int status, const char *why);

/* Serve a connection again that was lent (upgrade.h), for the client that it had. Takes over its fd
 * and tls, also on failure; `early` is copied. As http_server_adopt. */
struct http_taken;
NODISCARD enum status http_server_take_back(struct http_server *server,
                                            const struct http_taken *taken);

/* peer.c */

/* The address of the connection itself. */
bool http_peer_direct(struct http_conn *c, struct ip *ret_ip);
/* Whether connections from `ip` carry the requests of many clients. */
bool http_peer_is_proxy(const struct http_server *server, const struct ip *ip);
/* The address of the client: as a proxy named it, else of the connection; len 0: unknown. */
struct ip http_peer_client(struct http_conn *c);
/* Take over the client's address from a proxy, by the server's rules. false: close. */
bool http_peer_preamble(struct http_conn *c, const struct proxy *said, enum proxy_result result);

/* conn.c */

/* Make a connection and count it in the server. */
NODISCARD enum status http_conn_new(struct http_server *server, struct http_conn **ret_conn);
/* Start to read. The connection takes over `tls`. */
void http_conn_open(struct http_conn *c, struct tls_conn *tls, bool secured);
/* The reply of the exchange is queued completely; `cut`: it cannot be completed. */
void http_conn_replied(struct http_conn *c, bool cut);
/* Something changed outside of parsing: go on as far as possible. */
void http_conn_go_on(struct http_conn *c);
/* The reply to the connection's request is due within `ms`; 0: no limit. */
void http_conn_within(struct http_conn *c, uint32_t ms);
/* The reply comes much later: release buffers, and limit the time of the reply no more. */
void http_conn_park(struct http_conn *c);
void http_conn_send(struct http_conn *c, struct http_out *out);
void http_conn_close(struct http_conn *c);

/* server.c */

/* A connection or an exchange was released: check whether the server is drained. */
void http_server_less(struct http_server *server);
/* Stop counting the connection for its client. */
void http_server_uncount(struct http_server *server, struct http_conn *c);
/* The connection has become idle or active: move it to the right list. */
void http_server_move(struct http_server *server, struct http_conn *c, bool idle);

#endif
