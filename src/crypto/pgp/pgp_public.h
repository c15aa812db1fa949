/* A public key of version 4 and its algorithm (RFC 9580 5.5.2, 5.5.5, 9.1, 9.2). Shared by the
 * files of this folder. */
#ifndef HOLDFAST_CRYPTO_PGP_PGP_PUBLIC_H
#define HOLDFAST_CRYPTO_PGP_PGP_PUBLIC_H

#include "crypto/pgp/pgp.h"

#include <openssl/evp.h>

enum pgp_algorithm {
    PGP_RSA = 1,
    PGP_RSA_ENCRYPT = 2,
    PGP_RSA_SIGN = 3,
    PGP_ECDH = 18,
    PGP_ECDSA = 19,
    PGP_EDDSA = 22, /* with the older encoding of Ed25519 */
    PGP_X25519 = 25,
    PGP_ED25519 = 27,
};

enum {
    PGP_RAW_KEY_BYTES = 32, /* a public key of Curve25519, in Montgomery or Edwards form */
    PGP_RSA_BITS_MIN = 2048,
    PGP_RSA_BITS_MAX = 8192,
    PGP_POINT_MAX = 1 + 2 * 66, /* P-521 */
    PGP_KEY_ID_BYTES = 8,
};

struct pgp_curve {
    struct bytes oid;
    const char *group;     /* name for OpenSSL; NULL: Curve25519 */
    size_t coordinate;     /* bytes of one coordinate */
    uint8_t algorithms[2]; /* algorithms that use the curve; 0: none */
};

struct pgp_public {
    struct bytes body; /* of the packet; borrowed, and all below borrows from there */
    int64_t created_s;
    enum pgp_algorithm algorithm;
    uint8_t fingerprint[PGP_FINGERPRINT_BYTES];
    struct bytes modulus, exponent; /* RSA */
    const struct pgp_curve *curve;  /* ECDH, ECDSA, EdDSA */
    struct bytes point; /* an uncompressed point, or PGP_RAW_KEY_BYTES without any prefix */
    uint8_t kdf_hash, kdf_cipher; /* ECDH */
};

/* Read the body of a packet of a public key or subkey. ST_UNSUPPORTED with a reason: its version,
 * algorithm, curve or size is not supported. ST_INVALID with a reason: malformed. ST_CRYPTO. */
NODISCARD enum status pgp_public_read(struct bytes body, struct pgp_public *ret_key,
                                      struct reason *reason);
bool pgp_public_may_encrypt(const struct pgp_public *key);
bool pgp_public_may_sign(const struct pgp_public *key);
/* OpenSSL's form of the key, owned by the caller. NULL: the numbers are no key. */
EVP_PKEY *pgp_public_import(const struct pgp_public *key);
/* The last bytes of the fingerprint. */
const uint8_t *pgp_public_id(const struct pgp_public *key);
/* The digest of a hash algorithm of RFC 9580 9.5; NULL: not SHA-1 or SHA-2. */
const EVP_MD *pgp_digest(uint8_t hash);
enum { PGP_HASH_SHA1 = 2, PGP_HASH_SHA256 = 8, PGP_HASH_SHA384 = 9, PGP_HASH_SHA512 = 10 };

#endif
