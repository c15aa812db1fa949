/* Tokens: they authenticate requests.
 *
 * A bearer is the secret that a client sends. A service token is stored under its id, a part of the
 * HMAC of its bearer: a reader of the state cannot act as a token. A batch token is not stored: its
 * bearer is its encrypted record. The records that were read to accept a token are preconditions of
 * the transaction, so a token that is revoked meanwhile authorises nothing (PROTOCOL R3). Cluster
 * time decides expiry (R16).
 *
 * token_store.h lists the keys of a stored token. Three more keys may outlive the record:
 *
 *   s/unfinished/NS/token/ID      the token has ended; its children, leases and cubbyhole may still
 *                                 exist
 *   s/ns/NS/cubby/ID/…            the cubbyhole of the token
 *   s/ns/NS/token-lease/ID/LEASE  a lease that the token has (lease/lease.h)
 *
 * 1. A token is valid while its own record and those of all its ancestors exist and none has
 *    expired. So the small transaction that ends one token ends all its descendants at once, on
 *    every node. Their records are deleted later (token_tree.h).
 * 2. A token that has ended gets no new children, leases or records, because its own record is a
 *    precondition of each. So the keys below the token can only become fewer.
 * 3. The id of an ended token is not used again until its children, leases and cubbyhole are
 *    deleted.
 * 4. The transaction that adds the first child, lease or item of a cubbyhole also notes in the
 *    record of the token that the token has keys below it (token_store_keep). The record is a
 *    precondition of the end of the token. So if the record has no such note, the end leaves
 *    nothing behind, and needs no mark. */
#ifndef HOLDFAST_AUTH_TOKEN_H
#define HOLDFAST_AUTH_TOKEN_H

#include "auth/token_store.h"

/* Find the valid token of a bearer. ST_DENIED: there is none, it has expired, one of its ancestors
 * has ended, or it is of another kind than scope->kind. But every API takes a root token of the
 * secrets service. ST_SEALED, ST_CORRUPT, ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status auth_token_load(const struct auth_scope *scope, struct bytes bearer,
                                      struct auth_token *ret_token);
/* auth_token_load without a copy, for a caller that needs the token of every request. The token
 * lives until token_ref_drop of *ret_ref; if *ret_ref is NULL, the token lies in the arena. */
NODISCARD enum status auth_token_hold(const struct auth_scope *scope, struct bytes bearer,
                                      const struct auth_token **ret_token,
                                      struct token_ref **ret_ref);
/* auth_token_load by id, of every kind; ST_NOT_FOUND in place of ST_DENIED. */
NODISCARD enum status auth_token_load_id(const struct auth_scope *scope, const char *id,
                                         struct auth_token *ret_token);
/* auth_token_load by accessor, of the kind scope->kind alone, and of every kind; ST_NOT_FOUND in
 * place of ST_DENIED. */
NODISCARD enum status auth_token_find(const struct auth_scope *scope, const char *accessor,
                                      struct auth_token *ret_token);
NODISCARD enum status auth_token_find_any(const struct auth_scope *scope, const char *accessor,
                                          struct auth_token *ret_token);

/* Whether the token may be used from `peer`, an address with or without a port. A token bound to
 * addresses may not be used from an unknown address. ST_DENIED. */
NODISCARD enum status auth_token_from(const struct auth_token *token, const char *peer);

/* Stage one use of a token that this transaction loaded. If the token has no limit of uses, nothing
 * is staged. The last use ends the token, but the present request may go on. As state_put. */
NODISCARD enum status auth_token_use(const struct auth_scope *scope, struct auth_token *token);

/* Stage a new token. The caller sets all fields except id, accessor, orphan and limited; this
 * function sets these four. *bearer is the bearer to use; if it is NULL, this function makes a
 * random bearer and stores it in *bearer. New texts lie in the transaction's arena. ST_EXISTS: the
 * bearer is in use. ST_BUSY: a token of this bearer has ended, and its children or cubbyhole still
 * exist. ST_TOO_BIG: a batch token would be longer than AUTH_TOKEN_MAX. Else as state_put. */
NODISCARD enum status auth_token_create(const struct auth_scope *scope, struct env *env,
                                        struct auth_token *token, const char **bearer);
/* Whether `text` is the bearer or the accessor of a stored token, of whatever kind; the beginning
 * of an accessor counts as one. Expired tokens count until their records are deleted. The writes
 * that this transaction staged do not count. As state_exists. */
NODISCARD enum status auth_token_is_used(const struct auth_scope *scope, struct bytes text,
                                         bool *ret_used);
/* Stage a new token of another kind than TOKEN_SECRETS. The caller sets kind, accessor, part and
 * times; this function sets the id. auth_token_is_used has found neither bearer nor accessor in
 * use, in this transaction. As state_put. */
NODISCARD enum status auth_token_add(const struct auth_scope *scope, struct bytes bearer,
                                     struct auth_token *token);
/* The id of a bearer, in the arena. ST_SEALED, ST_CRYPTO, ST_NOMEM. */
NODISCARD enum status auth_token_id(const struct auth_scope *scope, struct bytes bearer,
                                    const char **ret_id);

/* A token with the root policy that never expires, for auth_token_create. Its path is
 * AUTH_ROOT_PATH; tokens that requests create never have this path. */
#define AUTH_ROOT_PATH "auth/token/root"
struct auth_token auth_token_root(int64_t now_ms);

#endif
