/* DR operation tokens: they authorise what an operator does on a DR secondary, where no token of
 * clients counts. Holders of key shares make one (generate-operation-token).
 *
 * A token is stored under its HMAC, below DR_PREFIX of the local state, so the end of the role ends
 * every token. It has no expiry: delete it after its use. It is no client token: no API takes it
 * anywhere but in the body of a request of disaster recovery. */
#ifndef HOLDFAST_CLUSTER_DR_TOKEN_H
#define HOLDFAST_CLUSTER_DR_TOKEN_H

#include "barrier/token.h"
#include "cluster/dr/role.h"
#include "state/state_txn.h"

#define DR_TOKEN_PREFIX DR_PREFIX "token/"

enum { DR_TOKENS_MAX = 32 }; /* most tokens at a time: the oldest ones must be deleted first */

/* Make a token and stage its record. ST_LIMITED: DR_TOKENS_MAX exist. Else as state_put. The caller
 * wipes the bearer. */
NODISCARD enum status dr_token_create(struct state_txn *txn, struct env *env, int64_t now_ms,
                                      char ret_bearer[TOKEN_SERVICE_LEN + 1]);
/* Whether a bearer is a DR operation token; its record becomes a precondition. ST_DENIED: it is
 * none. Else as state_get. */
NODISCARD enum status dr_token_check(struct state_txn *txn, struct bytes bearer);
/* Stage the end of a token. ST_DENIED: the bearer is none. */
NODISCARD enum status dr_token_delete(struct state_txn *txn, struct bytes bearer);

#endif
