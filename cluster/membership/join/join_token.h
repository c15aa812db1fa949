/* Join tokens as text. A token lets one machine without a certificate join a cluster.
 *
 *   hfj1-  base64url of:  SHA-256 of the CA's certificate 32 · secret 32 · CRC-32C of these 4
 *
 * The hash tells the machine which cluster to trust before the machine sends the secret. Any
 * thread.
 */
#ifndef HOLDFAST_CLUSTER_MEMBERSHIP_JOIN_JOIN_TOKEN_H
#define HOLDFAST_CLUSTER_MEMBERSHIP_JOIN_JOIN_TOKEN_H

#include "base/bytes.h"
#include "base/status.h"

enum {
    JOIN_HASH_BYTES = 32,
    JOIN_SECRET_BYTES = 32,
    JOIN_TOKEN_TEXT = 97 /* length of the text with its zero */
};

struct join_token {
    uint8_t ca_sha256[JOIN_HASH_BYTES];
    uint8_t secret[JOIN_SECRET_BYTES];
};

/* Write the token as text, with a zero at its end. */
void join_token_put(const struct join_token *token, char ret_text[JOIN_TOKEN_TEXT]);
/* Read a token; white space around the text is allowed. ST_INVALID: malformed or mistyped. */
NODISCARD enum status join_token_parse(struct bytes text, struct join_token *ret_token);

#endif
