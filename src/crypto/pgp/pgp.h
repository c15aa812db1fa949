/* OpenPGP (RFC 4880, RFC 6637, RFC 9580): judge a public key, and encrypt a short message for its
 * owner. Version 4 keys only.
 *
 * A key is believed as far as it vouches for itself: expiry and purpose count only where a
 * signature by the primary key says so. A revocation counts also when it is signed with SHA-1. Any
 * thread. */
#ifndef HOLDFAST_CRYPTO_PGP_PGP_H
#define HOLDFAST_CRYPTO_PGP_PGP_H

#include "base/buf.h"
#include "base/status.h"

enum {
    PGP_BINARY_MAX = 256 * 1024, /* bytes of a key without its encoding */
    PGP_TEXT_MAX = 512 * 1024,   /* bytes of a key in any form */
    PGP_FINGERPRINT_BYTES = 20,
    PGP_KEY_BODY_MAX = 1100, /* bytes of the packet of one public key: RSA of 8192 bits */
    PGP_PLAIN_MAX = 4096,    /* bytes of a message before encryption */
};

/* All that encryption needs of a key. It may be copied and stored: it holds no pointer. */
struct pgp_recipient {
    uint8_t fingerprint[PGP_FINGERPRINT_BYTES]; /* of the primary key */
    size_t body_len;
    uint8_t body[PGP_KEY_BODY_MAX]; /* packet of the key that messages are encrypted to */
};

/* Read a transferable public key: binary, ASCII armour, or base64 of either. Choose the newest of
 * its valid keys that may encrypt, the primary key last, and try it once.
 *
 * now_ms  milliseconds since 1970: the key must be valid then.
 * reason  set with ST_INVALID: a sentence that begins with "the key".
 *
 * ST_INVALID: not exactly one public key, or a key that is malformed, not supported, expired,
 * revoked, or not made for encryption. ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status pgp_key_parse(struct bytes text, int64_t now_ms,
                                    struct pgp_recipient *ret_recipient, struct reason *reason);

/* Append to `message` a binary OpenPGP message that the owner of the key can read: AES-256 with a
 * modification detection code, not signed.
 *
 * plain  0..PGP_PLAIN_MAX bytes.
 *
 * ST_TOO_BIG; ST_CORRUPT: `to` was not made by pgp_key_parse; ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status pgp_encrypt(const struct pgp_recipient *to, struct bytes plain,
                                  struct buf *message);

#endif
