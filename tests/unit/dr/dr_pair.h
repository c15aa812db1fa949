/* A primary and a secondary joined over loopback: the primary's end by hand or as a dr_conn. */
#ifndef HOLDFAST_TESTS_UNIT_DR_PAIR_H
#define HOLDFAST_TESTS_UNIT_DR_PAIR_H

#include "dr/dr_certs.h"

#include "cluster/dr/link/dr_conn.h"
#include "cluster/mesh/mesh.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PATIENCE_MS = 60000, SHORT_MS = 200 };

/* The primary's port. One thread accepts one connection and shakes hands. */
struct dr_port {
    int listener;
    char address[64];
    struct tls_options options;
    unsigned send_bytes; /* buffer of the accepted socket; 0: the system's */
    pthread_t thread;
    struct mesh_http got; /* the accepted connection */
    struct reason error;  /* why the handshake failed; "": it did not */
};

static inline int64_t soon(void)
{
    return dr_conn_now_ms() + PATIENCE_MS;
}

static inline int64_t shortly(void)
{
    return dr_conn_now_ms() + SHORT_MS;
}

/* What the primary's port demands, as the mesh does. */
static inline struct tls_options port_options(const struct dr_certs *c)
{
    static char start[DR_URI_MAX];
    dr_name_authority_uri(&east, start);
    memcpy(start + strlen(start), "/", 2);
    return (struct tls_options){.server = true,
                                .tls13_only = true,
                                .no_tickets = true,
                                .client_cert = TLS_CLIENT_CERT_REQUIRED,
                                .cert.text = buf_bytes(&c->node.cert),
                                .key.text = buf_bytes(&c->node.key),
                                .ca.text = buf_bytes(&c->ca.cert),
                                .alpn = DR_ALPN,
                                .alpn_required = true,
                                .peer_uri_start = start};
}

static inline void port_open(struct dr_port *port, struct tls_options options)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof at;
    *port = (struct dr_port){.options = options, .got.fd = -1};
    port->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(port->listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(port->listener, 4), 0);
    assert_int_equal(getsockname(port->listener, (struct sockaddr *)&at, &len), 0);
    (void)snprintf(port->address, sizeof port->address, "127.0.0.1:%u",
                   (unsigned)ntohs(at.sin_port));
}

static inline void port_close(struct dr_port *port)
{
    mesh_http_drop(&port->got);
    (void)close(port->listener);
}

/* Send what TLS has to say, waiting for the socket. */
static inline bool by_hand_flush(struct mesh_http *http)
{
    CLEANUP(buf_done) struct buf out = {0};
    tls_take_out(http->tls, &out);
    for (size_t at = 0; at < out.len;) {
        ssize_t n = send(http->fd, out.data + at, out.len - at, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        at += (size_t)n;
    }
    return true;
}

/* The buffer for sending may shrink at any time, the one for receiving only before the connection
 * is made: TCP would lose what it announced room for. */
static inline void small_buffer(int fd, int name, unsigned bytes)
{
    int value = (int)bytes;
    if (bytes != 0)
        (void)setsockopt(fd, SOL_SOCKET, name, &value, sizeof value); /* a test of size notices */
}

/* Runs on a thread of its own: no check of cmocka here. */
static inline void *port_accept(void *ctx)
{
    struct dr_port *port = ctx;
    struct mesh_http *http = &port->got;
    struct tls_ctx *tls = NULL;
    uint8_t plain[4096], cipher[4096];
    size_t n = 0;
    enum status st = tls_ctx_new(&port->options, &tls, &port->error);
    http->fd = accept(port->listener, NULL, NULL);
    small_buffer(http->fd, SO_SNDBUF, port->send_bytes);
    (void)snprintf(http->peer_address, sizeof http->peer_address, "the secondary");
    if (st == ST_OK)
        st = tls_conn_new(tls, NULL, &http->tls);
    while (st == ST_OK && tls_conn_phase(http->tls) == TLS_HANDSHAKE) {
        ssize_t len = recv(http->fd, cipher, sizeof cipher, 0);
        if (len > 0)
            st = tls_feed(http->tls, bytes_of(cipher, (size_t)len));
        else
            tls_feed_end(http->tls);
        if (st == ST_OK)
            st = tls_read(http->tls, plain, sizeof plain, &n);
        buf_add(&http->early, bytes_of(plain, st == ST_OK ? n : 0));
        (void)by_hand_flush(http); /* the next read shows a failure */
    }
    if (st != ST_OK) {
        if (http->tls != NULL && port->error.text[0] == '\0')
            reason_set(&port->error, "%s", tls_error(http->tls));
        mesh_http_drop(http);
    }
    tls_ctx_unref(tls);
    return NULL;
}

/* The secondary's context. */
static inline struct tls_ctx *context_of(const struct dr_certs *c, const struct cert_pair *pair)
{
    struct tls_ctx *tls = NULL;
    struct reason reason = {""};
    struct dr_cert_own own = own_of(c, pair);
    assert_status(dr_cert_tls(&own, &tls, &reason), ST_OK);
    return tls;
}

/* Dial the port while its thread accepts; the status of dr_conn_dial. Takes over `tls`. */
static inline enum status dial(struct dr_port *port, struct dr_conn *conn, struct tls_ctx *tls)
{
    assert_int_equal(pthread_create(&port->thread, NULL, port_accept, port), 0);
    enum status st = dr_conn_dial(conn, port->address, tls, soon());
    if (st != ST_OK)
        dr_conn_close(conn);
    assert_int_equal(pthread_join(port->thread, NULL), 0);
    tls_ctx_unref(tls);
    return st;
}

struct dr_pair {
    struct dr_port port;
    struct dr_conn *secondary;
    struct dr_conn *primary; /* NULL: the port's connection is used by hand */
};

/* An open pair whose primary's end is used by hand. */
static inline void pair_by_hand(struct dr_pair *p, const struct dr_certs *c, unsigned frame_ms)
{
    *p = (struct dr_pair){0};
    port_open(&p->port, port_options(c));
    assert_status(dr_conn_new(DR_SECONDARY, frame_ms, &p->secondary), ST_OK);
    enum status st = dial(&p->port, p->secondary, context_of(c, &c->secondary));
    assert_string_equal(p->port.error.text, "");
    assert_string_equal(dr_conn_error(p->secondary), "");
    assert_status(st, ST_OK);
}

static inline void pair_open(struct dr_pair *p, const struct dr_certs *c)
{
    pair_by_hand(p, c, 0);
    assert_status(dr_conn_new(DR_PRIMARY, 0, &p->primary), ST_OK);
    dr_conn_adopt(p->primary, &p->port.got);
}

static inline void pair_done(struct dr_pair *p)
{
    dr_conn_free(p->secondary);
    dr_conn_free(p->primary);
    port_close(&p->port);
}

/* Send plaintext from the primary's end by hand. */
static inline void by_hand(struct dr_pair *p, struct bytes plain)
{
    assert_status(tls_write(p->port.got.tls, &plain, 1), ST_OK);
    assert_true(by_hand_flush(&p->port.got));
}

#endif
