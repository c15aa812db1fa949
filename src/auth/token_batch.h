/* Batch tokens. The bearer is "hvb." and the encrypted record in base64url. A batch token is not
 * stored, so it cannot be revoked alone: the token ends when it expires or when its parent ends. A
 * batch token has no accessor; that field of its record holds the accessor of the parent. */
#ifndef HOLDFAST_AUTH_TOKEN_BATCH_H
#define HOLDFAST_AUTH_TOKEN_BATCH_H

#include "auth/token_record.h"
#include "state/state.h"

#define TOKEN_BATCH_PREFIX "hvb."

/* Whether a bearer has the prefix of batch tokens. */
bool token_batch_is(struct bytes bearer);
/* Make the bearer of a token, in the arena. ST_TOO_BIG: the bearer would be longer than
 * AUTH_TOKEN_MAX. ST_SEALED, ST_BUSY, ST_CRYPTO, ST_NOMEM. */
NODISCARD enum status token_batch_seal(struct state_txn *txn, struct barrier_cipher *cipher,
                                       const char *ns, const struct auth_token *token,
                                       const char **ret_bearer);
/* Decrypt and decode a bearer. Whether the token is valid is not checked. ST_DENIED: this cluster
 * did not make the bearer for this namespace. ST_SEALED, ST_NOMEM. */
NODISCARD enum status token_batch_open(struct state_txn *txn, const char *ns, struct bytes bearer,
                                       struct auth_token *ret_token);

#endif
