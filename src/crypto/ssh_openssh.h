/* The file form of OpenSSH for private keys (PROTOCOL.key): "-----BEGIN OPENSSH PRIVATE KEY-----".
 * Keys are EVP_PKEY of OpenSSL. Any thread. */
#ifndef HOLDFAST_CRYPTO_SSH_OPENSSH_H
#define HOLDFAST_CRYPTO_SSH_OPENSSH_H

#include "base/buf.h"

/* Whether the text begins as a file of this form. */
bool ssh_openssh_is(struct bytes pem);
/* Read a file with one key of RSA, ECDSA or Ed25519. The numbers of RSA and ECDSA are not checked.
 * ST_INVALID with a reason: another form, or a passphrase. ST_CRYPTO, ST_NOMEM. */
NODISCARD enum status ssh_openssh_parse(struct bytes pem, void **ret_key, struct reason *why);
/* Append the file of an Ed25519 key, without a passphrase and without a comment. The caller wipes
 * `out`. ST_CRYPTO, ST_NOMEM. */
NODISCARD enum status ssh_openssh_put(void *key, struct buf *out);

#endif
