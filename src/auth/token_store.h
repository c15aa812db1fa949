/* A stored token: its record, and the keys that are written and deleted with the record.
 *
 *   s/ns/NS/token/ID              the record (token_record.h)
 *   s/ns/NS/accessor/ACCESSOR     the id, unless the accessor is derived from it (token_accessor.h)
 *   s/ns/NS/child/PARENT/ID       a child of PARENT
 *   s/ns/NS/entity-token/ENTITY/ID  the token has an entity
 *   s/ns/NS/lease/PATH/ID         the token is a lease (lease/lease.h), unless it never ends
 *   s/expire/TIME/NS/token/ID     the time when it ends (lease/expiry.h)
 *   s/ns/NS/token-kind/KIND/ID    the token is of another kind than TOKEN_SECRETS; written with
 * each change of the record
 *
 * Child, entity, lease and time have no value: state_put_name stages them.
 *
 * A token of another kind has the first two keys, the last one and, if it expires, an entry of the
 * expiry index. Its accessor is in the index and has another length than AUTH_ACCESSOR_LEN.
 *
 * token.h decides whether a token is valid. */
#ifndef HOLDFAST_AUTH_TOKEN_STORE_H
#define HOLDFAST_AUTH_TOKEN_STORE_H

#include "auth/token_record.h"
#include "state/state.h"

struct token_cache;
struct token_ref;

/* The transaction, namespace and time that functions of tokens work with. */
struct auth_scope {
    struct state_txn *txn;
    struct barrier_cipher *cipher;
    struct token_cache *cache; /* cache of tokens; NULL: none */
    const char *ns;
    int64_t now_ms;       /* cluster time of the transaction */
    enum token_kind kind; /* tokens that the API of the request takes */
    /* A token that this transaction has found valid and does not end: its record, and those of its
     * ancestors, need not be read again. NULL: none. */
    const struct auth_token *caller;
};

/* The decoded record of an id, with a reference that the caller drops (token_cache.h). The
 * transaction reads the stamp of the record (PROTOCOL R3), even if the record comes from the cache.
 * ST_NOT_FOUND; else as state_get. */
NODISCARD enum status token_store_hold(const struct auth_scope *scope, const char *id,
                                       struct token_ref **ret_ref);
/* As token_store_hold, with a copy of the token in the arena; `id` is borrowed. The record is not
 * added to the cache: a token whose bearer is not sent is rarely read twice. */
NODISCARD enum status token_store_load(const struct auth_scope *scope, const char *id,
                                       struct auth_token *ret_token);
/* Whether a token of this id is stored. ST_OK, ST_NOT_FOUND; else as state_exists. */
NODISCARD enum status token_store_exists(const struct auth_scope *scope, const char *id);

/* The key that leads from an accessor in the index to the id; of an empty accessor the prefix of
 * all such keys. ST_NOMEM. */
NODISCARD enum status token_store_accessor_key(struct arena *arena, const char *ns,
                                               struct bytes accessor, struct bytes *ret_key);
/* The prefix of the keys that name the tokens of a kind: each goes on with the id. The newest
 * change below it is the newest change of a token of the kind. ST_NOMEM. */
NODISCARD enum status token_store_kind_prefix(struct arena *arena, const char *ns,
                                              enum token_kind kind, struct bytes *ret_prefix);

/* Stage a new token and its keys. As state_put. */
NODISCARD enum status token_store_add(const struct auth_scope *scope,
                                      const struct auth_token *token);
/* Stage a changed record whose expiry is unchanged. As token_store_update. A record of another kind
 * than TOKEN_SECRETS may grow: it is not exempt from the state limit. */
NODISCARD enum status token_store_put(const struct auth_scope *scope,
                                      const struct auth_token *token);
/* Stage a changed record of a token, and its entry of the expiry index. `before` is the token as it
 * was loaded. Exempt from the state limit. As state_put. */
NODISCARD enum status token_store_update(const struct auth_scope *scope,
                                         const struct auth_token *before,
                                         const struct auth_token *after);
/* Stage the note in the record of a stored token that the token has keys below it: a child, a lease
 * or an item of its cubbyhole. Does nothing if the record has the note, if an earlier step of this
 * transaction ended the token, or below TOKEN_KEEPS_FEATURE. The transaction that adds such a key
 * calls this function. As token_store_load and state_put. */
NODISCARD enum status token_store_keep(const struct auth_scope *scope, const char *id);
/* Stage the deletion of a token and its keys. As state_delete. */
NODISCARD enum status token_store_delete(const struct auth_scope *scope,
                                         const struct auth_token *token);

#endif
