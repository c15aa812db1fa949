/* HTTP requests to servers outside of the cluster.
 *
 * out_request blocks, and its caller is straight-line code. Two kinds of code make such requests,
 * and each has a thread that may block: a route's `outside` step on the thread pool
 * (router/table/route.h), and a service (node/service.h). An asynchronous client would need a loop
 * in both, and a state machine in each caller. The caller bounds the time by a deadline, and may
 * end the request earlier by a function that out_request polls: so no other thread needs a pointer
 * into a request, which could end at any moment.
 *
 * 1. A reply comes from the URL's own host, or with https from a server whose certificate is
 *    trusted and valid for the name, or is any of a private authority: no redirects, no proxies, no
 * other protocols.
 * 2. The rules judge each address before the socket exists (out_rules.h).
 * 3. Time, headers and body of a reply are bounded. Nothing is decompressed.
 * 4. Copies of the request and of the reply are wiped, libcurl's own too. The reason of a failure
 *    names host and port, never a header, a body, or the path and query of the URL.
 * 5. One request, one connection: nothing is kept or shared between requests. */
#ifndef HOLDFAST_OUT_OUT_H
#define HOLDFAST_OUT_OUT_H

#include "base/buf.h"
#include "out/out_rules.h"

enum {
    OUT_URL_BYTES_MAX = 8192,
    OUT_HEADERS_MAX = 32,             /* most headers of a request */
    OUT_HEADER_BYTES_MAX = 64 * 1024, /* most bytes of the headers of a request, of a reply */
    OUT_WANTED_MAX = 8,               /* most headers of a reply that are kept */
    OUT_REPLY_BYTES_DEFAULT = 1024 * 1024,
    OUT_CONNECT_MS_DEFAULT = 10 * 1000,
    OUT_TOTAL_MS_DEFAULT = 30 * 1000,
    OUT_TOTAL_MS_MAX = 600 * 1000,
    OUT_POLL_MS = 50, /* how often `is_cancelled` is asked */
};

/* A header of a request. The value may be secret. */
struct out_header {
    const char *name;
    struct bytes value;
};

/* How to trust the server, and how to be trusted. Without an authority: the system's authorities.
 */
struct out_tls {
    const char *ca_file; /* file of PEM certificates of authorities; NULL or "": none */
    const char *ca_path; /* folder of such files, whatever their names; NULL or "": none */
    struct bytes ca_pem; /* certificates of authorities; not together with ca_file */
    /* Any name will do in a certificate that these authorities signed: they are private, and name
     * no hosts. Only with ca_pem. */
    bool any_name;
    struct bytes cert_pem, key_pem; /* client certificate, and its key; both or neither */
};

/* All is borrowed for the call. */
struct out_request {
    const char *method;               /* "POST"; capital letters; not CONNECT or TRACE */
    const char *url;                  /* http or https, without user and password */
    const struct out_header *headers; /* without headers that frame a message or name the host */
    size_t n_headers;
    struct bytes body;         /* none with GET and HEAD */
    const char *const *wanted; /* names of the headers of the reply to keep, upper or lower case */
    size_t n_wanted;
    uint32_t connect_ms; /* time for lookup, connection and handshake; 0: the default */
    uint32_t total_ms;   /* until the whole reply is here, at most OUT_TOTAL_MS_MAX; 0: default */
    size_t reply_bytes_max; /* longest body of a reply; 0: the default */
    bool cuts; /* end with the first reply_bytes_max bytes of a longer body, as if it were whole */
    /* Called for each header of the reply, on the caller's thread; both are borrowed for the call.
     * NULL: not called. */
    void (*on_field)(void *ctx, struct bytes name, struct bytes value);
    void *field_ctx;
    struct out_tls tls;
    const struct out_rules *rules; /* NULL: the rules that are all zero */
    /* Whether to end the request, asked every OUT_POLL_MS on the caller's thread. NULL: never. */
    bool (*is_cancelled)(void *ctx);
    void *cancel_ctx;
};

/* Zero-initialise; release with out_reply_done, which wipes the reply. */
struct out_reply {
    int status;      /* 200..599; a redirect is a reply like any other */
    struct buf body; /* the body as sent, not terminated */
    struct buf head; /* values of wanted headers */
    struct {
        size_t at, len;
        bool found;
    } wanted[OUT_WANTED_MAX]; /* places of the values in `head`, in the order of the request's
                                 `wanted` */
};
void out_reply_done(struct out_reply *reply);

/* The value of wanted header `i`, without surrounding blanks; of repeated headers the first. Data
 * NULL: absent. Borrows from the reply. */
struct bytes out_reply_header(const struct out_reply *reply, size_t i);

/* Send a request and wait for the reply. Blocks: never call this function on a loop. Any thread,
 * also many at once; crypto_init comes before the first. `ret_reply` is written on ST_OK only.
 *
 * ST_OK: the server replied, with any status. Else a reason, and
 *   ST_INVALID      the request is malformed, or its certificates cannot be read
 *   ST_REFUSED      the rules refuse every address of the host
 *   ST_NOT_FOUND    the name of the host has no address, or the resolver fails
 *   ST_CRYPTO       the certificate is not trusted or of another host, or the handshake failed
 *   ST_TIMEOUT      a deadline has passed
 *   ST_TOO_BIG      the head or the body of the reply is too long
 *   ST_CLOSED       is_cancelled said so
 *   ST_NOMEM        without a reason
 *   ST_BAD_GATEWAY  no connection, or the reply is malformed or incomplete
 *
 * *ret_sent: whether the server may have got the request, also after a failure. NULL: not asked. */
NODISCARD enum status out_request(const struct out_request *request, struct out_reply *ret_reply,
                                  bool *ret_sent, struct reason *reason);

#endif
