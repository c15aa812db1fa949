/* A short message for one receiver: X25519 with keys that both sides make for this message alone,
 * HKDF with SHA-256 (RFC 5869) over both public keys, AES-256-GCM. Any thread. */
#ifndef HOLDFAST_CRYPTO_BOX_H
#define HOLDFAST_CRYPTO_BOX_H

#include "base/buf.h"
#include "crypto/crypto.h"

enum {
    BOX_PUBLIC_BYTES = 32,
    BOX_OVERHEAD = BOX_PUBLIC_BYTES + 16, /* public key of the sender, tag */
    BOX_PLAIN_MAX = SECRET_BYTES_MAX,
    BOX_SAVED_BYTES = 32,
};

/* The receiver's key. Zero-initialise. */
struct box_key {
    void *key; /* of OpenSSL; NULL: none */
    uint8_t public_key[BOX_PUBLIC_BYTES];
};
/* ST_CRYPTO. */
NODISCARD enum status box_key_new(struct box_key *ret_key);
void box_key_done(struct box_key *key);
/* Write the private key, to be stored encrypted. The caller wipes `ret_saved`. ST_CRYPTO. */
NODISCARD enum status box_key_save(const struct box_key *key, uint8_t ret_saved[BOX_SAVED_BYTES]);
/* Read a key that box_key_save wrote. ST_CORRUPT: another length; ST_CRYPTO. */
NODISCARD enum status box_key_load(struct bytes saved, struct box_key *ret_key);

/* Append the message for the receiver: 1 to BOX_PLAIN_MAX bytes and BOX_OVERHEAD. `context` is
 * authenticated and not sent. ST_INVALID: `receiver` is no usable public key; ST_CRYPTO, ST_NOMEM.
 */
NODISCARD enum status box_seal(const uint8_t receiver[BOX_PUBLIC_BYTES], struct bytes context,
                               struct bytes plain, struct buf *out);
/* ST_CORRUPT: not made by box_seal for this key and context. ST_CRYPTO, ST_NOMEM. */
NODISCARD enum status box_open(const struct box_key *key, struct bytes context, struct bytes sealed,
                               struct secret *ret_plain);

#endif
