/* TLS contexts that another library makes, on the OpenSSL of this process. */
#ifndef HOLDFAST_CRYPTO_TLS_FOREIGN_H
#define HOLDFAST_CRYPTO_TLS_FOREIGN_H

/* Give a client's `ssl_ctx` (an SSL_CTX) what tls.h gives its own contexts beyond the checks of
 * certificates: read plaintext is wiped, and compression and renegotiation are off. Before the
 * first connection of the context. Any thread. */
void tls_foreign_harden(void *ssl_ctx);

#endif
