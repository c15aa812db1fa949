/* Tokens: who a request speaks for.
 *
 * A token is stored under its HMAC; whoever reads the state cannot use what he finds. What was read
 * to accept a token is part of the transaction's preconditions, so a token that is revoked
 * meanwhile authorises nothing (PROTOCOL R3). Expiry is decided by cluster time (PROTOCOL R16). */
#ifndef HOLDFAST_AUTH_TOKEN_H
#define HOLDFAST_AUTH_TOKEN_H

#include "state/state.h"
#include "text/schema.h"

enum { AUTH_TOKEN_MAX = 4096, AUTH_ACCESSOR_LEN = 24, AUTH_TOKEN_ID_LEN = 32 };

/* As stored; strings lie in the arena of whoever loaded it. Times are seconds of cluster time. */
struct auth_token {
    /* Under which the token is stored, and its cubbyhole below "s/ns/NS/cubby/ID/": hex digits,
     * part of the bearer's HMAC, the same for as long as it lives. "" for a token that is not
     * stored. */
    const char *id;
    const char *accessor, *display_name, *path, *type, *entity_id;
    struct field_strings policies;
    struct field_map meta;
    int64_t creation_time_s, creation_ttl_s, explicit_max_ttl_s;
    int64_t expire_time_s; /* 0: never */
    int64_t num_uses;      /* 0: any number */
    bool orphan, renewable;
};
extern const struct schema auth_token_schema;

/* Find the token that `bearer` is. ST_DENIED: there is none, or it has expired. ST_SEALED,
 * ST_CORRUPT, ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status auth_token_load(struct state_txn *txn, struct barrier_seat *seat,
                                      const char *ns, struct bytes bearer, int64_t now_s,
                                      struct auth_token *ret_token);
/* Stage the token and its accessor. As state_put. */
NODISCARD enum status auth_token_save(struct state_txn *txn, struct barrier_seat *seat,
                                      const char *ns, struct bytes bearer,
                                      const struct auth_token *token);

/* A token of the root policy that never expires. Everything lies in `arena`. ST_NOMEM. */
NODISCARD enum status auth_token_make_root(struct env *env, struct arena *arena, int64_t now_s,
                                           struct auth_token *ret_token, const char **ret_bearer);

/* `n` random characters of [0-9A-Za-z], terminated. */
void auth_random_text(struct env *env, char *out, size_t n);
/* A random UUID (RFC 9562, version 4), terminated. */
enum { AUTH_UUID_LEN = 36 };
void auth_uuid(struct env *env, char ret_uuid[AUTH_UUID_LEN + 1]);

#endif
