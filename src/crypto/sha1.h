/* SHA-1 (FIPS 180-4), for protocols that name it where nothing rests on its strength: the handshake
 * of WebSocket (RFC 6455 1.3). Any thread. */
#ifndef HOLDFAST_CRYPTO_SHA1_H
#define HOLDFAST_CRYPTO_SHA1_H

#include "base/bytes.h"
#include "base/status.h"

enum { CRYPTO_SHA1_BYTES = 20 };

/* ST_CRYPTO: the provider refuses. */
NODISCARD enum status crypto_sha1(struct bytes message, uint8_t ret_digest[CRYPTO_SHA1_BYTES]);

#endif
