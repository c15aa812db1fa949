/* Shared by tls.c and tls_ctx.c only. */
#ifndef HOLDFAST_CRYPTO_TLS_CTX_H
#define HOLDFAST_CRYPTO_TLS_CTX_H

#include "crypto/tls.h"

#include <openssl/ssl.h>

enum { TLS_ALPN_WIRE_MAX = 256 };

/* One set of options, immutable once made. */
struct tls_setup {
    SSL_CTX *ssl;
    bool server, insecure, has_ca, alpn_required;
    uint8_t alpn[TLS_ALPN_WIRE_MAX]; /* ALPN names, each with its length in front */
    unsigned alpn_len;
    char peer_uri_start[TLS_NAME_MAX];
    bool pinned;
    uint8_t ca_sha256[TLS_FINGERPRINT_BYTES]; /* set if `pinned` is */
    unsigned refs;
};

/* The current set-up with a reference; given back with tls_setup_unref. */
struct tls_setup *tls_ctx_setup(struct tls_ctx *ctx);
void tls_setup_unref(struct tls_setup *setup);
/* The current set-up of the context given by tls_ctx_branch, with a reference; NULL: none. */
struct tls_setup *tls_ctx_branch_setup(struct tls_ctx *ctx);

/* "a,b" as length-prefixed names. ST_INVALID: empty, too long or malformed. */
NODISCARD enum status tls_alpn_encode(const char *names, uint8_t wire[TLS_ALPN_WIRE_MAX],
                                      unsigned *ret_len);

/* Verify callback of a set-up: judge the peer's own certificate after its chain was verified. The
 * connection implements this; a refusal stores its text in the connection. */
bool tls_conn_accepts(SSL *ssl, X509 *cert);
/* Called for the client's first message, and again for its second if the server asks for one. The
 * connection implements this. False: out of memory. */
bool tls_conn_hello(SSL *ssl);

#endif
