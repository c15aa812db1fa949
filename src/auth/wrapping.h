/* Response wrapping: a reply that is kept until a client shows a token that works once.
 *
 * The token is an orphan of the policy "response-wrapping" with one use; the answer and word of how
 * it came to be are in its cubbyhole,
 *
 *   s/ns/NS/cubby/ID/response   {"response": the whole body}
 *   s/ns/NS/cubby/ID/wrapinfo   {"creation_path", "creation_time", …}
 *
 * so they end with it. */
#ifndef HOLDFAST_AUTH_WRAPPING_H
#define HOLDFAST_AUTH_WRAPPING_H

#include "auth/token.h"

struct wrapping {
    const char *creation_path;
    const char *wrapped_accessor; /* of the token that is wrapped; "": none is */
    int64_t creation_ttl_s, creation_time_ms;
    struct auth_token token;
    const char *bearer;
};

/* Stage a wrapping token that carries `body`. Of `wrapping` the first two fields and the ttl are
 * given. ST_TOO_BIG; else as auth_token_create. */
NODISCARD enum status wrapping_create(const struct auth_scope *scope, struct env *env,
                                      struct bytes body, struct wrapping *wrapping);
/* Find what a bearer wraps; it lies in the arena. ST_NOT_FOUND: it is no wrapping token, or no
 * longer. Else as auth_token_load. */
NODISCARD enum status wrapping_load(const struct auth_scope *scope, struct bytes bearer,
                                    struct wrapping *ret_wrapping);
/* The wrapped reply. The caller ends the token in the same transaction. */
NODISCARD enum status wrapping_body(const struct auth_scope *scope, const struct wrapping *wrapping,
                                    struct bytes *ret_body);

#endif
