/* Wrapping tokens in the form of a JSON Web Token (RFC 7519), signed with ES512.
 *
 * The claim `jti` is the bearer of the wrapping token, so a JWT is as secret as the bearer and
 * works as often: once. The claims also say where to unwrap, which a DR secondary reads before it
 * asks.
 *
 *   accessor  accessor of the token inside the reply; "": the reply has none
 *   addr      URL of the API of the active node; "": not known
 *   exp, iat  end and creation of the wrapping token, in seconds of cluster time
 *   nbf       iat - WRAPPING_JWT_EARLY_S
 *   type      "wrapping"
 *
 * The key signs for the whole cluster and lies encrypted at WRAPPING_JWT_KEY. The transaction that
 * needs the key first makes it. Its absence is then a precondition, so two makers conflict and the
 * second finds the key of the first. */
#ifndef HOLDFAST_AUTH_WRAPPING_JWT_H
#define HOLDFAST_AUTH_WRAPPING_JWT_H

#include "auth/wrapping.h"
#include "text/jwt.h"

enum { WRAPPING_JWT_EARLY_S = 5 };
enum { WRAPPING_JWT_FEATURE = 4 }; /* feature level: earlier builds take no JWT */
#define WRAPPING_JWT_KEY STATE_SHARED "core/wrapping/jwtkey"

/* The claims of a JWT, in the arena. Absent texts are "", an absent time is 0. */
struct wrapping_jwt {
    struct jwt form;
    const char *accessor, *addr, *jti;
    int64_t exp_s, iat_s, nbf_s;
};

/* Read a JWT without a check of its signature and times, as a client may that has not the key.
 * ST_INVALID: malformed, signed with another algorithm, no `exp` or `jti`, or another type;
 * ST_NOMEM. */
NODISCARD enum status wrapping_jwt_read(struct arena *arena, struct bytes token,
                                        struct wrapping_jwt *ret_jwt);
/* Whether cluster time lies between `nbf` and `exp`. */
bool wrapping_jwt_is_current(const struct wrapping_jwt *jwt, int64_t now_ms);
/* Check the signature. ST_NOT_FOUND: the key of this cluster did not make it, or there is no key
 * yet; else as state_get. */
NODISCARD enum status wrapping_jwt_verify(const struct auth_scope *scope,
                                          const struct wrapping_jwt *jwt);

/* Put a JWT in place of the bearer that wrapping_create has made. The caller has set w->addr, the
 * claim. Stages the key if there is none. ST_TOO_BIG: longer than JWT_BYTES_MAX; ST_CRYPTO; else as
 * state_put. */
NODISCARD enum status wrapping_jwt_make(const struct auth_scope *scope, struct wrapping *w);

#endif
