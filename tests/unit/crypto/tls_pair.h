/* Two ends of a TLS connection joined in memory, and test certificates. */
#ifndef HOLDFAST_TESTS_TLS_PAIR_H
#define HOLDFAST_TESTS_TLS_PAIR_H

#include "crypto/cert.h"
#include "crypto/crypto.h"
#include "crypto/tls.h"

#include "support.h"

#include <time.h>

/* A CA; a server for localhost, 127.0.0.1 and ::1; two nodes; another CA with a node of its own. */
struct pki {
    struct cert_pair ca, server, node, expired, other_ca, other_node;
};

static const struct cert_san server_sans[] = {
    {CERT_SAN_DNS, "localhost"}, {CERT_SAN_IP, "127.0.0.1"}, {CERT_SAN_IP, "::1"}};
static const struct cert_san node_sans[] = {{CERT_SAN_URI, "holdfast://aa/node/n1"}};

static inline void make(struct cert_request request, const struct cert_pair *issuer,
                        struct cert_pair *pair)
{
    struct reason reason = {""};
    request.not_before_s = request.not_after_s == 0 ? time(NULL) - 60 : 1;
    if (request.not_after_s == 0)
        request.not_after_s = time(NULL) + 3600;
    assert_status(cert_make(&request, issuer, pair, &reason), ST_OK);
}

static inline void pki_init(struct pki *pki)
{
    struct cert_request node = {
        .common_name = "n1", .sans = node_sans, .n_sans = 1, .server = true, .client = true};
    struct cert_request expired = node;
    expired.not_after_s = 1000;
    *pki = (struct pki){0};
    assert_status(crypto_init(NULL), ST_OK);
    make((struct cert_request){.common_name = "ca", .ca = true}, NULL, &pki->ca);
    make((struct cert_request){.common_name = "ca", .ca = true}, NULL, &pki->other_ca);
    make(
        (struct cert_request){
            .common_name = "server", .sans = server_sans, .n_sans = 3, .server = true},
        &pki->ca, &pki->server);
    make(node, &pki->ca, &pki->node);
    make(expired, &pki->ca, &pki->expired);
    make(node, &pki->other_ca, &pki->other_node);
}

static inline void pki_done(struct pki *pki)
{
    cert_pair_done(&pki->ca);
    cert_pair_done(&pki->server);
    cert_pair_done(&pki->node);
    cert_pair_done(&pki->expired);
    cert_pair_done(&pki->other_ca);
    cert_pair_done(&pki->other_node);
}

static inline struct tls_pem pem_of(const struct buf *b)
{
    return (struct tls_pem){.text = buf_bytes(b)};
}

static inline struct tls_options own(const struct cert_pair *pair, const struct cert_pair *ca)
{
    struct tls_options options = {0};
    if (pair != NULL) {
        options.cert = pem_of(&pair->cert);
        options.key = pem_of(&pair->key);
    }
    if (ca != NULL)
        options.ca = pem_of(&ca->cert);
    return options;
}

struct ends {
    struct tls_ctx *server_ctx, *client_ctx;
    struct tls_conn *server, *client;
};

static inline struct tls_ctx *ctx_of(struct tls_options options)
{
    struct tls_ctx *ctx = NULL;
    struct reason reason = {""};
    enum status st = tls_ctx_new(&options, &ctx, &reason);
    assert_string_equal(reason.text, "");
    assert_status(st, ST_OK);
    return ctx;
}

static inline void ends_init(struct ends *e, struct tls_options server, struct tls_options client,
                             const struct tls_target *target)
{
    server.server = true;
    *e = (struct ends){.server_ctx = ctx_of(server), .client_ctx = ctx_of(client)};
    assert_status(tls_conn_new(e->server_ctx, NULL, &e->server), ST_OK);
    assert_status(tls_conn_new(e->client_ctx, target, &e->client), ST_OK);
}

static inline void ends_done(struct ends *e)
{
    tls_conn_free(e->server);
    tls_conn_free(e->client);
    tls_ctx_unref(e->server_ctx);
    tls_ctx_unref(e->client_ctx);
}

/* Read all there is behind `got`; the last status. */
static inline enum status drain(struct tls_conn *conn, struct buf *got)
{
    uint8_t plain[1000];
    size_t n = 0;
    enum status st = ST_OK;
    do {
        n = 0;
        st = tls_read(conn, plain, sizeof plain, &n);
        buf_add(got, bytes_of(plain, n));
    } while (st == ST_OK && n != 0);
    return st;
}

/* Carry what `from` has to say to `to`, `step` bytes at a time; the last status of reading. */
static inline enum status carry(struct tls_conn *from, struct tls_conn *to, size_t step,
                                struct buf *got)
{
    CLEANUP(buf_done) struct buf out = {0};
    enum status st = ST_OK;
    tls_take_out(from, &out);
    for (size_t at = 0; at < out.len && st == ST_OK; at += step) {
        assert_status(tls_feed(to, bytes_of(out.data + at, MIN(step, out.len - at))), ST_OK);
        st = drain(to, got);
    }
    return st;
}

/* Run the handshake until neither has anything to say. */
static inline void shake(struct ends *e, size_t step)
{
    struct buf none = {0};
    for (int round = 0; round < 6; round++) {
        (void)carry(e->client, e->server, step, &none); /* judged by the phases afterwards */
        (void)carry(e->server, e->client, step, &none);
    }
    assert_int_equal(none.len, 0);
    buf_done(&none);
}

#endif
