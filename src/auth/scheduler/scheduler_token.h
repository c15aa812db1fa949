/* Tokens of the scheduler as they are stored: the part of a token's record (auth/token_record.h).
 *
 * A management token has every right. A client token has those of its policies. A join token brings
 * nodes into the cluster, a number of times. A node token belongs to one node, and speaks for the
 * allocations of that node alone. */
#ifndef HOLDFAST_AUTH_SCHEDULER_TOKEN_H
#define HOLDFAST_AUTH_SCHEDULER_TOKEN_H

#include "auth/token.h"

/* The numbers are stored. */
enum scheduler_token_type {
    SCHEDULER_MANAGEMENT,
    SCHEDULER_CLIENT,
    SCHEDULER_JOIN,
    SCHEDULER_NODE,
    SCHEDULER_TOKEN_TYPES,
};

struct scheduler_token {
    const char *accessor, *secret;
    const char *name;
    const char *subject; /* of a node token: the node; of a join token: the pool; else "" */
    struct field_strings policies;
    enum scheduler_token_type type;
    uint32_t uses; /* of a join token: nodes that it may still bring */
    int64_t created_ms, expire_ms;
};

/* The token of a record that this transaction loaded. A root token of the secrets service is a
 * management token. ST_CORRUPT. */
NODISCARD enum status scheduler_token_of(const struct auth_token *stored,
                                         struct scheduler_token *ret_token);
/* Stage a new token. Draws the accessor, and the secret unless it is given. ST_EXISTS: a token has
 * this secret. Else as auth_token_add. */
NODISCARD enum status scheduler_token_add(const struct auth_scope *scope, struct env *env,
                                          struct scheduler_token *token);
/* Stage a changed token in place of `stored`, with the same expiry. As token_store_put. */
NODISCARD enum status scheduler_token_put(const struct auth_scope *scope,
                                          const struct auth_token *stored,
                                          const struct scheduler_token *token);

#endif
