/* Response wrapping: a reply is stored, and the client gets a token that fetches the reply once.
 *
 * The wrapping token is an orphan with the policy "response-wrapping" and one use. The reply and
 * the description of its origin lie in the token's cubbyhole, so they end with the token:
 *
 *   s/ns/NS/cubby/ID/response   {"response": the whole body}
 *   s/ns/NS/cubby/ID/wrapinfo   {"creation_path", "creation_time", …}
 *
 * A client may get the wrapping token in the form of a JSON Web Token (wrapping_jwt.h). */
#ifndef HOLDFAST_AUTH_WRAPPING_H
#define HOLDFAST_AUTH_WRAPPING_H

#include "auth/token.h"

struct wrapping {
    const char *creation_path;
    const char *wrapped_accessor; /* accessor of a token inside the reply; "": the reply has none */
    int64_t creation_ttl_s, creation_time_ms;
    struct auth_token token;
    const char *bearer; /* as the client gets it, or has sent it */
    /* where to unwrap, as `bearer` says if it is a JSON Web Token; "": not known. NULL: it is none
     */
    const char *addr;
};

/* Stage a wrapping token with `body`, the reply. The caller sets creation_path, wrapped_accessor
 * and creation_ttl_s of `wrapping`; this function sets the rest. ST_TOO_BIG; else as
 * auth_token_create. */
NODISCARD enum status wrapping_create(const struct auth_scope *scope, struct env *env,
                                      struct bytes body, struct wrapping *wrapping);
/* Find the wrapping token of a bearer in either form, and the description of the wrapped reply,
 * which lies in the arena. ST_NOT_FOUND: the bearer belongs to no valid wrapping token, or it is a
 * JSON Web Token that is forged, not yet valid or expired. Else as auth_token_load. */
NODISCARD enum status wrapping_load(const struct auth_scope *scope, struct bytes bearer,
                                    struct wrapping *ret_wrapping);
/* Take the wrapped reply, once: stage the end of the token. ST_NOT_FOUND: the reply cannot be read;
 * else as token_tree_end. */
NODISCARD enum status wrapping_take(const struct auth_scope *scope, const struct wrapping *wrapping,
                                    struct bytes *ret_body);

#endif
