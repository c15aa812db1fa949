/* Shared by the parts of acl/token. Inside src/api/registry. */
#ifndef HOLDFAST_API_REGISTRY_REGISTRY_TOKEN_H
#define HOLDFAST_API_REGISTRY_REGISTRY_TOKEN_H

#include "auth/registry/registry_token.h"
#include "router/request/req.h"

/* A body of acl/token. */
struct registry_token_in {
    const char *accessor, *secret, *description, *ns, *auth_method, *rules, *type;
    const struct text_value *policies, *roles, *services, *nodes, *templates, *ttl;
    int64_t ttl_ns;
    const char *expires;
    bool local;
    /* clients send back what they have read */
    const struct text_value *created_ms, *hash, *created, *modified, *legacy;
};

/* Find the token of an accessor of any spelling, whose record is *ret_stored. ST_NOT_FOUND: there
 * is none, or it has expired; else as auth_token_find. */
NODISCARD enum status registry_token_find(struct req *req, const char *accessor,
                                          struct auth_token *ret_stored,
                                          struct registry_token *ret_token);
/* ST_DENIED with the text that clients look for. */
NODISCARD enum status registry_token_missing(struct req *req);

/* registry_token_show.c: replies. */
enum registry_show {
    REGISTRY_SHOW_SECRET = 1 << 0,   /* else SecretID is "<hidden>" */
    REGISTRY_SHOW_EXPANDED = 1 << 1, /* with the policies whole */
    REGISTRY_SHOW_ID = 1 << 2,       /* with ID, which repeats the SecretID */
};
extern const struct schema registry_token_reply, registry_tokens_reply;
/* Reply with one token; `flags` of enum registry_show. Versions that this transaction makes are
 * those of its commit. ST_CORRUPT, ST_SEALED, ST_NOMEM. */
NODISCARD enum status registry_token_show(struct req *req, const struct registry_token *token,
                                          unsigned flags);
/* Reply with `n` tokens in their order. As registry_token_show. */
NODISCARD enum status registry_token_show_all(struct req *req, const struct registry_token *tokens,
                                              size_t n, unsigned flags);

/* registry_token_body.c: the wishes of a body. */
/* The links of the body, in the arena. Every policy exists. A status with the request's error: the
 * body is malformed, or names what does not exist. */
NODISCARD enum status registry_token_links(struct req *req, const struct registry_token_in *in,
                                           struct field_strings *ret_links);
/* The expiry that the body asks for, counted from `now_ms`; 0: none. A status with the request's
 * error: it is malformed, given twice or out of range. */
NODISCARD enum status registry_token_expiry(struct req *req, const struct registry_token_in *in,
                                            int64_t *ret_expire_ms);
/* Whether a new token may end at this time. ST_REFUSED with the request's error. */
NODISCARD enum status registry_token_check_expiry(struct req *req, int64_t expire_ms);

/* A random UUID in the arena. ST_NOMEM. */
NODISCARD enum status registry_token_uuid(struct arena *arena, struct env *env,
                                          const char **ret_uuid);

/* registry_bootstrap.c, for the duties: make the first token if its secret is configured, and the
 * anonymous token. */
NODISCARD enum status registry_bootstrap_upkeep(struct state_txn *txn, int64_t now_ms);

#endif
