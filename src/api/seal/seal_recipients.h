/* The people whom a ceremony encrypts key shares or a token for, by their PGP keys. */
#ifndef HOLDFAST_API_SEAL_SEAL_RECIPIENTS_H
#define HOLDFAST_API_SEAL_SEAL_RECIPIENTS_H

#include "api/seal/seal_shares.h"
#include "crypto/pgp/pgp.h"

/* In the order of the request; `items` lies in the arena. Zero-initialise: none. */
struct seal_recipients {
    unsigned n;
    const struct pgp_recipient *items;
};

/* Read the keys of a request's field, as base64 or ASCII armour. ST_INVALID with the request's
 * error: a key is unfit, and which one; ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status seal_recipients_read(struct req *req, const char *field,
                                           const struct field_strings *keys,
                                           struct seal_recipients *ret_recipients);
/* The same for a field that holds one key; NULL or "": none. */
NODISCARD enum status seal_recipient_read(struct req *req, const char *field, const char *key,
                                          struct seal_recipients *ret_recipients);
/* Refuse any number of keys but none, and one a share. ST_INVALID with the request's error. */
NODISCARD enum status seal_recipients_check(struct req *req, const char *field, unsigned keys,
                                            int64_t shares);

/* The stored form: a block a recipient, fingerprint and key. ST_NOMEM; decode: ST_CORRUPT too. */
NODISCARD enum status seal_recipients_encode(struct arena *arena,
                                             const struct seal_recipients *from,
                                             struct bytes *ret_stored);
NODISCARD enum status seal_recipients_decode(struct arena *arena, struct bytes stored,
                                             struct seal_recipients *ret_recipients);

/* The fingerprints of the primary keys in hex. ST_NOMEM. */
NODISCARD enum status seal_recipients_fingerprints(struct req *req,
                                                   const struct seal_recipients *recipients,
                                                   struct field_strings *ret_fingerprints);
/* Encrypt `plain` for one recipient; base64 in the arena. As pgp_encrypt. */
NODISCARD enum status seal_recipient_encrypt(struct req *req, const struct pgp_recipient *to,
                                             struct bytes plain, const char **ret_base64);
/* The shares as text: plain when there are no recipients; else each share in hex, encrypted for
 * its recipient, and that message in hex and base64. As pgp_encrypt. */
NODISCARD enum status seal_recipients_shares(struct req *req, const struct seal_shares *shares,
                                             const struct seal_recipients *recipients,
                                             struct seal_shares_text *ret_text);

#endif
