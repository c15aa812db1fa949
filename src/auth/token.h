/* Tokens: who a request speaks for.
 *
 * A service token is stored under its id, a part of its bearer's HMAC: a reader of the state
 * finds no token that can be used. A batch token is stored nowhere: its bearer is its record,
 * encrypted. What was read to accept a token is part of the transaction's preconditions, so a token
 * that is revoked meanwhile authorises nothing (PROTOCOL R3). Expiry is decided by cluster time
 * (R16).
 *
 * token_store.h has the keys of a stored token, and others hold what a token leaves:
 *
 *   s/ns/NS/revoked/ID            the token has ended; what it leaves is still to be deleted
 *   s/ns/NS/cubby/ID/…            what the token keeps for itself
 *
 * 1. A token is good while its own record and those of all its ancestors are there and none has
 *    expired. So the small transaction that ends one token ends all below it at once, on every
 *    node; what is left of them is deleted later (token_tree.h).
 * 2. A token that has ended gets no new children or records: its own record is a precondition of
 *    each. So what lies below it only becomes less.
 * 3. An id that is still to be cleaned up after is not given out again. */
#ifndef HOLDFAST_AUTH_TOKEN_H
#define HOLDFAST_AUTH_TOKEN_H

#include "auth/token_store.h"

/* Find the token that `bearer` is. ST_DENIED: there is none, it has expired, or one of its
 * ancestors has ended. ST_SEALED, ST_CORRUPT, ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status auth_token_load(const struct auth_scope *scope, struct bytes bearer,
                                      struct auth_token *ret_token);
/* The same without a copy, for callers that read a token with each request: it lies in *ret_ref
 * until token_ref_drop, or in the arena. */
NODISCARD enum status auth_token_hold(const struct auth_scope *scope, struct bytes bearer,
                                      const struct auth_token **ret_token,
                                      struct token_ref **ret_ref);
/* The same as auth_token_load by id or accessor; ST_NOT_FOUND instead of ST_DENIED. */
NODISCARD enum status auth_token_load_id(const struct auth_scope *scope, const char *id,
                                         struct auth_token *ret_token);
NODISCARD enum status auth_token_find(const struct auth_scope *scope, const char *accessor,
                                      struct auth_token *ret_token);

/* Whether it may be used from `peer`, an address with or without a port. A token that is bound may
 * not be used from an address that is not known. ST_DENIED. */
NODISCARD enum status auth_token_from(const struct auth_token *token, const char *peer);

/* Stage one use of a token that was just loaded, if it has a limited number: the last one ends it,
 * though this request may go on. As state_put. */
NODISCARD enum status auth_token_use(const struct auth_scope *scope, struct auth_token *token);

/* Stage a new token. Given are all fields but id, accessor, orphan and limited, which are set;
 * `*bearer` too if one was asked for, else NULL: a random one is made. Everything lies in the
 * transaction's arena. ST_EXISTS: the bearer is in use. ST_BUSY: it was in use and is still being
 * cleaned up after. ST_TOO_BIG: a batch token longer than AUTH_TOKEN_MAX. Else as state_put. */
NODISCARD enum status auth_token_create(const struct auth_scope *scope, struct env *env,
                                        struct auth_token *token, const char **bearer);
/* A token of the root policy that never expires, to be created. No request makes one with its
 * path. */
#define AUTH_ROOT_PATH "auth/token/root"
struct auth_token auth_token_root(int64_t now_ms);

#endif
