/* ES512: ECDSA on the curve P-521 with SHA-512 (RFC 7518 3.4). Any thread; one key may sign and
 * verify on several threads at once.
 *
 * A signature has one of two forms. The raw form is r and s, 66 bytes each, big-endian: JSON Web
 * Signatures use it. The DER form is an ASN.1 sequence of both numbers, as older signers of JSON
 * Web Tokens wrote it. */
#ifndef HOLDFAST_CRYPTO_ES512_H
#define HOLDFAST_CRYPTO_ES512_H

#include "base/buf.h"

enum {
    ES512_NUMBER_BYTES = 66,
    ES512_SIGNATURE_BYTES = 2 * ES512_NUMBER_BYTES,
    ES512_DER_MAX = 139, /* longest signature in the DER form */
    ES512_SAVED_MAX = 512,
};

/* A private key. Zero-initialise. */
struct es512_key {
    void *key; /* of OpenSSL; NULL: none */
};
/* Make a new key. ST_CRYPTO. */
NODISCARD enum status es512_key_new(struct es512_key *ret_key);
void es512_key_done(struct es512_key *key);
/* Append the key in the DER form of PKCS #8 (RFC 5208), at most ES512_SAVED_MAX bytes. The caller
 * wipes `out`. ST_CRYPTO, ST_NOMEM. */
NODISCARD enum status es512_key_save(const struct es512_key *key, struct buf *out);
/* Read a key that es512_key_save wrote. ST_CORRUPT: not a private key of this curve, or there are
 * bytes behind it. */
NODISCARD enum status es512_key_load(struct bytes saved, struct es512_key *ret_key);

/* Sign `message` in the raw form. ST_CRYPTO. */
NODISCARD enum status es512_sign(const struct es512_key *key, struct bytes message,
                                 uint8_t ret_signature[ES512_SIGNATURE_BYTES]);
/* Check a signature in the raw form, or in the only DER form of its numbers. ST_INVALID: the key
 * did not make it for `message`, or it has neither form. */
NODISCARD enum status es512_verify(const struct es512_key *key, struct bytes message,
                                   struct bytes signature);

#endif
