#include "crypto/tls_foreign.h"
#include "base/macros.h"

#include <openssl/ssl.h>

void tls_foreign_harden(void *ssl_ctx)
{
    SSL_CTX *ctx = ssl_ctx;
    ASSERT(ctx != NULL);
    SSL_CTX_set_options(ctx,
                        SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION | SSL_OP_CLEANSE_PLAINTEXT);
}
