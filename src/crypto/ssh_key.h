/* Public keys of SSH: lines of `authorized_keys` (RFC 4253 6.6, RFC 5656 3.1, RFC 8709 4,
 * PROTOCOL.u2f of OpenSSH), and private keys of authorities. Any thread. */
#ifndef HOLDFAST_CRYPTO_SSH_KEY_H
#define HOLDFAST_CRYPTO_SSH_KEY_H

#include "base/arena.h"
#include "base/buf.h"

enum ssh_kind {
    SSH_RSA,
    SSH_ECDSA_256,
    SSH_ECDSA_384,
    SSH_ECDSA_521,
    SSH_ED25519,
    SSH_SK_ECDSA, /* a key in a security token: public halves alone */
    SSH_SK_ED25519,
};

enum {
    SSH_LINE_MAX = 16 * 1024, /* longest line with a public key */
    SSH_PRIVATE_MAX = 16 * 1024,
    SSH_RSA_BITS_MIN = 1024,
    SSH_RSA_BITS_MAX = 8192,
    SSH_RSA_CA_BITS_MIN = 2048,
};

/* The name on the wire, "ssh-rsa". */
const char *ssh_kind_name(enum ssh_kind kind);
/* The name of the kind's certificates, "ssh-rsa-cert-v01@openssh.com". */
const char *ssh_kind_cert_name(enum ssh_kind kind);
/* Whether the keys of a kind are RSA keys, keys on a curve of NIST. */
static inline bool ssh_kind_is_ecdsa(enum ssh_kind kind)
{
    return kind >= SSH_ECDSA_256 && kind <= SSH_ECDSA_521;
}

struct ssh_public {
    enum ssh_kind kind;
    unsigned bits;
    struct bytes blob;   /* the key as it is on the wire */
    struct bytes fields; /* the part of `blob` behind the name */
};

/* Read one line "TYPE BASE64 COMMENT", at whose end a newline may stand; the comment is not kept.
 * The key lies in the arena. ST_INVALID with a reason: another form, options in front of the key,
 * several lines, a private key or certificate, a key whose numbers are not those of a sound key.
 * ST_NOMEM. */
NODISCARD enum status ssh_public_parse(struct arena *arena, struct bytes line,
                                       struct ssh_public *ret_key, struct reason *why);
/* Read the form of the wire; `blob` is borrowed. As ssh_public_parse. */
NODISCARD enum status ssh_public_read(struct bytes blob, struct ssh_public *ret_key,
                                      struct reason *why);
/* Append "TYPE BASE64", without a newline. As buf_status. */
NODISCARD enum status ssh_public_line(struct bytes blob, struct buf *out);

/* A private key. Zero-initialise. */
struct ssh_private {
    void *key; /* of OpenSSL; NULL: none */
    enum ssh_kind kind;
    unsigned bits;
};
void ssh_private_done(struct ssh_private *key);
/* Make a key. `bits` is that of RSA, at least SSH_RSA_CA_BITS_MIN; else it counts for nothing.
 * ST_CRYPTO. */
NODISCARD enum status ssh_private_make(enum ssh_kind kind, unsigned bits,
                                       struct ssh_private *ret_key);
/* Read a key in PEM form: OpenSSH's, PKCS #1, PKCS #8 or SEC 1. ST_INVALID with a reason: another
 * form, a passphrase, a kind that signs no certificates, RSA below SSH_RSA_CA_BITS_MIN. */
NODISCARD enum status ssh_private_parse(struct bytes pem, struct ssh_private *ret_key,
                                        struct reason *why);
/* Append the public half as it is on the wire. ST_CRYPTO, ST_NOMEM. */
NODISCARD enum status ssh_private_public(const struct ssh_private *key, struct buf *out);

/* Append the key as PKCS #8 in the DER form, for a stored record. The caller wipes `out`.
 * ST_CRYPTO, ST_NOMEM. */
NODISCARD enum status ssh_private_save(const struct ssh_private *key, struct buf *out);
/* Read what ssh_private_save wrote. ST_CORRUPT. */
NODISCARD enum status ssh_private_load(struct bytes saved, struct ssh_private *ret_key);
/* Append the key for its user: PKCS #1 (RSA) or SEC 1 (ECDSA) in PEM form, or OpenSSH's form
 * (Ed25519), with a newline at the end. The caller wipes `out`. ST_CRYPTO, ST_NOMEM. */
NODISCARD enum status ssh_private_export(const struct ssh_private *key, struct buf *out);

/* Digests of RSA signatures; other kinds have one each. */
enum ssh_digest { SSH_SHA2_256, SSH_SHA2_512, SSH_SHA1 };
/* Append the signature of a message as it is on the wire: the name of the algorithm, then the
 * signature. ST_CRYPTO, ST_NOMEM. */
NODISCARD enum status ssh_sign(const struct ssh_private *key, enum ssh_digest digest,
                               struct bytes message, struct buf *out);

#endif
