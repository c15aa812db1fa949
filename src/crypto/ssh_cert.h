/* Certificates of OpenSSH (PROTOCOL.certkeys). Any thread. */
#ifndef HOLDFAST_CRYPTO_SSH_CERT_H
#define HOLDFAST_CRYPTO_SSH_CERT_H

#include "crypto/ssh_key.h"

enum ssh_cert_type { SSH_CERT_USER = 1, SSH_CERT_HOST = 2 };

enum {
    SSH_PRINCIPALS_MAX = 256, /* OpenSSH refuses a certificate with more */
    SSH_NONCE_BYTES = 32,
};
/* The greatest time that every reader of certificates understands: the end of the year 9999. */
#define SSH_TIME_MAX INT64_C(253402300799)

/* Names, each followed by its value: `n` pairs, sorted by the bytes of the names, no name twice. */
struct ssh_options {
    const char *const *pairs;
    size_t n;
};

struct ssh_cert {
    const struct ssh_public *key; /* the key that is certified */
    uint8_t nonce[SSH_NONCE_BYTES];
    uint64_t serial;
    enum ssh_cert_type type;
    const char *key_id;
    const char *const *principals;
    size_t n_principals;
    int64_t valid_after_s, valid_before_s; /* 0 to SSH_TIME_MAX */
    struct ssh_options critical, extensions;
};

/* Append everything that the authority signs: the certificate without its signature. `authority` is
 * the public key of the authority as it is on the wire. As buf_status. */
NODISCARD enum status ssh_cert_body(const struct ssh_cert *cert, struct bytes authority,
                                    struct buf *out);
/* Sign a body and append the line of the certificate, "TYPE BASE64", without a newline. ST_CRYPTO,
 * ST_NOMEM. */
NODISCARD enum status ssh_cert_sign(struct bytes body, const struct ssh_private *authority,
                                    enum ssh_digest digest, struct buf *out);

#endif
