/* Signatures of version 4 by a key on itself (RFC 9580 5.2). Shared by the files of this folder. */
#ifndef HOLDFAST_CRYPTO_PGP_PGP_SIGNATURE_H
#define HOLDFAST_CRYPTO_PGP_PGP_SIGNATURE_H

#include "crypto/pgp/pgp_public.h"

enum pgp_signature_type {
    PGP_SIG_CERTIFY_FIRST = 0x10, /* of a user id, in four degrees of care */
    PGP_SIG_CERTIFY_LAST = 0x13,
    PGP_SIG_BIND_SUBKEY = 0x18,
    PGP_SIG_DIRECT = 0x1F,
    PGP_SIG_REVOKE_KEY = 0x20,
    PGP_SIG_REVOKE_SUBKEY = 0x28,
    PGP_SIG_REVOKE_USER_ID = 0x30,
};

enum { PGP_FLAG_ENCRYPT = 0x04 | 0x08 }; /* communication, storage */

struct pgp_signature {
    uint8_t type, algorithm, hash;
    struct bytes hashed; /* from the version to the last hashed subpacket; borrowed */
    uint8_t left[2];     /* the digest begins so */
    struct bytes value;  /* the numbers of the signature; borrowed */
    int64_t created_s;   /* -1: not said */
    int64_t lifetime_s;  /* of the signature; 0: without end */
    bool has_key_lifetime, has_flags;
    int64_t key_lifetime_s; /* of the key; 0: without end */
    uint8_t flags;          /* allowed uses of the key */
    bool critical;          /* holds a critical subpacket that is not understood here */
};

/* Read the body of a packet. Only hashed subpackets are read. ST_UNSUPPORTED: of another version.
 * ST_INVALID: malformed. */
NODISCARD enum status pgp_signature_read(struct bytes body, struct pgp_signature *ret_signature);

/* The signed data: the primary key, and a subkey or a user id where they are not NULL. */
struct pgp_signed {
    const struct pgp_public *primary, *subkey;
    const struct bytes *user_id;
};

/* Whether the primary key, imported as `by`, made the signature over `what`. Counts each use of
 * public-key arithmetic in `*spent`. */
bool pgp_signature_holds(const struct pgp_signature *signature, const struct pgp_signed *what,
                         EVP_PKEY *by, unsigned *spent);

#endif
