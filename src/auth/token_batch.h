/* Batch tokens: "hvb." and the encrypted record in base64url. They lie nowhere, so they cannot be
 * revoked one by one; they end with their time or with their parent. They have no accessor: in the
 * field of the record stands that of the parent. */
#ifndef HOLDFAST_AUTH_TOKEN_BATCH_H
#define HOLDFAST_AUTH_TOKEN_BATCH_H

#include "auth/token_record.h"
#include "state/state.h"

#define TOKEN_BATCH_PREFIX "hvb."

/* Whether a bearer has the prefix of batch tokens. */
bool token_batch_is(struct bytes bearer);
/* *ret_bearer lies in the arena. ST_TOO_BIG: longer than AUTH_TOKEN_MAX. ST_SEALED, ST_BUSY,
 * ST_CRYPTO, ST_NOMEM. */
NODISCARD enum status token_batch_seal(struct state_txn *txn, struct barrier_cipher *cipher,
                                       const char *ns, const struct auth_token *token,
                                       const char **ret_bearer);
/* ST_DENIED: not one that we made for this namespace. ST_SEALED, ST_NOMEM. */
NODISCARD enum status token_batch_open(struct state_txn *txn, const char *ns, struct bytes bearer,
                                       struct auth_token *ret_token);

#endif
