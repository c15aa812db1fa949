/* The end of HTTP on a connection: the client asked for WebSocket (RFC 6455 4.2), and the
 * connection goes on under another owner. */
#ifndef HOLDFAST_HTTP_UPGRADE_H
#define HOLDFAST_HTTP_UPGRADE_H

#include "http/http.h"
#include "text/cidr.h"

/* A connection without a server. `early` has what the peer sent behind the request. */
struct http_taken {
    int fd;               /* non-blocking; the owner closes it */
    struct tls_conn *tls; /* NULL: plain text; the owner frees it */
    struct buf early;
    struct ip client; /* the client's address that a proxy named; len 0: no proxy named one */
    uint16_t client_port;
};

/* Whether the request asks for WebSocket. *ret_key: the key, data NULL where it is malformed. */
bool http_upgrade_asked(const struct http_request *req, struct bytes *ret_key);
/* Append the head of the reply that takes the upgrade. buf_status(out); ST_CRYPTO. */
NODISCARD enum status http_upgrade_accept(struct bytes key, struct buf *out);
/* Take the connection from its server, later, in place of a reply. `done` is called once, never
 * from inside this function. ST_OK: it takes over `taken`; else there is no connection. ST_CLOSED:
 * the peer has gone, or an earlier reply was not written yet; ST_IO; ST_NOMEM. */
typedef void http_upgrade_fn(struct http_request *req, enum status st, struct http_taken *taken);
void http_upgrade(struct http_request *req, http_upgrade_fn *done);

/* The same for a connection that comes back. The request keeps its server until http_return. */
void http_lend(struct http_request *req, http_upgrade_fn *done);
/* Serve a lent connection again, with `early` as the first of its input; `taken` NULL: it has gone.
 * The memory of `back` is the caller's, until `back->freed`. Any thread. */
struct http_back {
    struct env_task task; /* private */
    struct http_request *req;
    struct http_taken taken;
    bool gone;
    void (*freed)(struct http_back *back);
};
void http_return(struct http_back *back);
void http_taken_done(struct http_taken *taken);

#endif
