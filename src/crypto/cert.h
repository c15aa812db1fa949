/* Making keys and X.509 certificates. ECDSA P-256, SHA-256, 20 random bytes of serial number. Any
 * thread. */
#ifndef HOLDFAST_CRYPTO_CERT_H
#define HOLDFAST_CRYPTO_CERT_H

#include "base/record.h"

enum cert_san_kind { CERT_SAN_DNS, CERT_SAN_IP, CERT_SAN_URI };
struct cert_san {
    enum cert_san_kind kind;
    const char *value; /* value of the name: "localhost", "127.0.0.1", "holdfast://..." */
};

struct cert_request {
    const char *common_name;     /* common name of 1..64 bytes */
    const struct cert_san *sans; /* alternative names, at most CERT_SANS_MAX */
    unsigned n_sans;
    int64_t not_before_s, not_after_s; /* period of validity in seconds since 1970 */
    bool ca;                           /* the certificate may sign others, but no further CA */
    bool server, client;               /* whether the key may be used for a server, for a client */
};
enum { CERT_SANS_MAX = 32 };

/* A certificate and its key as PEM text. Zero-initialise; cert_pair_done wipes the key. */
struct cert_pair {
    struct buf cert, key;
};
void cert_pair_done(struct cert_pair *pair);
/* The fields of a record that holds a pair. */
extern const struct record_field cert_pair_fields[2];

/* Make a new key and its certificate, signed by `issuer`; `issuer` NULL: self-signed. ST_INVALID
 * with a reason: a field does not fit, or the issuer cannot sign. ST_CRYPTO, ST_NOMEM. */
NODISCARD enum status cert_make(const struct cert_request *request, const struct cert_pair *issuer,
                                struct cert_pair *ret_pair, struct reason *reason);

/* Make a key, and its public half (PEM, "PUBLIC KEY"), of the kind that cert_make makes. Both
 * buffers are empty before; the caller wipes `ret_key`. ST_CRYPTO, ST_NOMEM. */
NODISCARD enum status cert_key_make(struct buf *ret_key, struct buf *ret_public);
/* The public half of a key. ST_INVALID: not a private key in PEM form; ST_NOMEM. */
NODISCARD enum status cert_key_public(struct bytes key_pem, struct buf *ret_public);
/* SHA-256 over the DER form (SubjectPublicKeyInfo) of a public key in PEM form. ST_INVALID: not a
 * public key. */
NODISCARD enum status cert_public_fingerprint(struct bytes public_pem, uint8_t ret_sha256[32]);

/* Make a certificate for a key of which only the public half is known. `ret_cert` is empty before.
 * Statuses as cert_make; ST_INVALID also for a key of another kind. */
NODISCARD enum status cert_sign(const struct cert_request *request, const struct cert_pair *issuer,
                                struct bytes public_pem, struct buf *ret_cert,
                                struct reason *reason);
/* Whether the pair is the certificate of an authority and the key of that certificate. ST_INVALID
 * with a reason. */
NODISCARD enum status cert_check_ca(const struct cert_pair *pair, struct reason *reason);

/* Whether `cert_pem` was signed by `ca_pem` for the key whose public half is `public_pem`. Does not
 * check names and times. ST_INVALID: the certificate was not signed so; ST_NOMEM. */
NODISCARD enum status cert_matches(struct bytes cert_pem, struct bytes ca_pem,
                                   struct bytes public_pem);

/* SHA-256 over the DER form of the first certificate in `pem`. ST_INVALID. */
NODISCARD enum status cert_fingerprint(struct bytes pem, uint8_t ret_sha256[32]);

/* The only URI name of the first certificate in `pem`. ST_INVALID: none, several, or no
 * certificate.
 */
enum { CERT_URI_MAX = 256 };
NODISCARD enum status cert_uri(struct bytes pem, char ret_uri[CERT_URI_MAX]);

/* End and beginning of the validity of the first certificate, in seconds since 1970. ST_INVALID. */
NODISCARD enum status cert_not_after(struct bytes pem, int64_t *ret_s);
NODISCARD enum status cert_not_before(struct bytes pem, int64_t *ret_s);

#endif
