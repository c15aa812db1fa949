/* Tokens: who a request speaks for.
 *
 * A service token is stored under its id, a part of its bearer's HMAC: a reader of the state
 * finds no token that can be used. A batch token is stored nowhere: its bearer is its record,
 * encrypted. What was read to accept a token is part of the transaction's preconditions, so a token
 * that is revoked meanwhile authorises nothing (PROTOCOL R3). Expiry is decided by cluster time
 * (R16).
 *
 *   s/ns/NS/token/ID              the record (token_record.h)
 *   s/ns/NS/accessor/ACCESSOR     the id it names
 *   s/ns/NS/child/PARENT/ID       whom a token made
 *   s/ns/NS/expire/TIME/ID        when it ends: ms of cluster time, 12 hex digits
 *   s/ns/NS/lease/PATH/ID         it is a lease (lease.h), unless it never ends
 *   s/ns/NS/revoked/ID            it has ended, and what it leaves is still to be deleted
 *   s/ns/NS/cubby/ID/…            what it keeps for itself
 *
 * 1. A token is good while its own record and those of all its ancestors are there and none has
 *    expired. So the small transaction that ends one token ends all below it at once, on every
 *    node; what is left of them is deleted later (token_tree.h).
 * 2. A token that has ended gets no new children or records: its own record is a precondition of
 *    each. So what lies below it only becomes less.
 * 3. An id that is still to be cleaned up after is not given out again. */
#ifndef HOLDFAST_AUTH_TOKEN_H
#define HOLDFAST_AUTH_TOKEN_H

#include "state/state.h"
#include "text/schema.h"
#include "text/time.h"

struct token_cache;
struct token_ref;

enum {
    AUTH_TOKEN_MAX = 4096, /* of a bearer */
    AUTH_ACCESSOR_LEN = 24,
    AUTH_TOKEN_ID_LEN = 32,
    AUTH_TOKEN_DEPTH_MAX = 64, /* ancestors */
};

#define AUTH_TYPE_SERVICE "service"
#define AUTH_TYPE_BATCH "batch"

/* As stored; strings lie in the arena of the caller that loaded it, and are never NULL. Times are
 * cluster time. */
struct auth_token {
    /* Under which the token is stored, and its cubbyhole below "s/ns/NS/cubby/ID/": hex digits,
     * part of the bearer's HMAC, the same for as long as it lives. "" for a token that is not
     * stored. */
    const char *id;
    const char *parent;   /* id of the parent; "": none */
    const char *accessor; /* "" for a batch token */
    const char *display_name, *path, *type, *role, *entity_id;
    struct field_strings policies;
    struct bytes
        policies_text;      /* the names as the record has them; empty: it came from no record */
    uint64_t policies_hash; /* of that text */
    struct field_map meta;
    struct field_strings bound_cidrs;          /* where it may be used from; none: everywhere */
    int64_t created_ms, expire_ms, renewed_ms; /* 0: never */
    int64_t creation_ttl_s, explicit_max_ttl_s, period_s;
    int64_t num_uses; /* uses left after this one; 0: any number, unless limited */
    unsigned depth;   /* how many ancestors it was made with */
    bool orphan, renewable;
    bool limited; /* has a number of uses */
};

/* Where tokens are looked for, and when. */
struct auth_scope {
    struct state_txn *txn;
    struct barrier_seat *seat;
    struct token_cache *cache; /* NULL: none */
    const char *ns;
    int64_t now_ms;
};

/* Batch tokens are encrypted records, stored nowhere. */
bool auth_token_is_batch(const struct auth_token *token);

/* The time to live that its newest renewal gave, or its creation: what the next renewal gives where
 * the request names none. 0: it never expires. */
int64_t auth_token_granted_s(const struct auth_token *token);

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
/* Stage a changed record of a token that was loaded as `before`. As state_put. */
NODISCARD enum status auth_token_update(const struct auth_scope *scope,
                                        const struct auth_token *before,
                                        const struct auth_token *after);

/* A token of the root policy that never expires, to be created. No request makes one with its
 * path. */
#define AUTH_ROOT_PATH "auth/token/root"
struct auth_token auth_token_root(int64_t now_ms);

/* Parts of the above. A record as the state holds it (see token_record.h), in the arena; 1. does
 * not matter. ST_NOT_FOUND. */
NODISCARD enum status auth_token_record(const struct auth_scope *scope, const char *id,
                                        struct bytes *ret_record);
NODISCARD enum status auth_expire_key(const struct auth_scope *scope, int64_t expire_ms,
                                      const char *id, struct bytes *ret_key);

#endif
