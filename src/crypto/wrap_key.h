/* Keys that clients bring: wrapped by AES-KWP (RFC 5649) with a key of their own, which RSA-OAEP
 * (RFC 8017 7.1) encrypts for the receiver. Any thread; slow, so off the loops. */
#ifndef HOLDFAST_CRYPTO_WRAP_KEY_H
#define HOLDFAST_CRYPTO_WRAP_KEY_H

#include "base/buf.h"
#include "crypto/crypto.h"

enum {
    WRAP_KEY_BITS = 4096,
    WRAP_KEY_SAVED_MAX = 4096,
    WRAP_KEY_PEM_MAX = 2048,
    WRAP_KEY_BYTES = 32,                                       /* of a key that is brought */
    WRAP_KEY_MESSAGE = WRAP_KEY_BITS / 8 + 8 + WRAP_KEY_BYTES, /* RSA, then KWP */
};

/* Make the receiver's key: append the private key in the DER form of PKCS #8, which the caller
 * stores encrypted, and the public key in PEM form. It takes seconds. ST_CRYPTO, ST_NOMEM. */
NODISCARD enum status wrap_key_make(struct buf *saved, struct buf *pem);
/* Whether OAEP knows the hash: SHA1, SHA224, SHA256, SHA384 or SHA512. */
bool wrap_key_knows(const char *hash);
/* Open a message of WRAP_KEY_MESSAGE bytes. `hash` is known. The caller wipes `ret_key`.
 * ST_INVALID: it was not made for this key, by this hash, or holds no 32 bytes. ST_CORRUPT:
 * `saved` is no key. ST_CRYPTO, ST_NOMEM. */
NODISCARD enum status wrap_key_open(struct bytes saved, const char *hash, struct bytes message,
                                    uint8_t ret_key[WRAP_KEY_BYTES]);

#endif
