/* JSON Web Tokens in compact form (RFC 7515 7.1, RFC 7519): HEADER.CLAIMS.SIGNATURE, each part in
 * base64url. The form alone: the caller judges the claims and checks the signature.
 *
 * The header is exactly {"alg":ALG,"typ":"JWT"} with the algorithm that the caller names. So no
 * token chooses how it is checked: "none", another algorithm, keys and critical extensions are
 * refused. Each part has one spelling only. Any thread. */
#ifndef HOLDFAST_TEXT_JWT_H
#define HOLDFAST_TEXT_JWT_H

#include "base/arena.h"
#include "base/buf.h"

enum { JWT_BYTES_MAX = 4096 };

struct jwt {
    struct bytes input;             /* signed part: HEADER.CLAIMS, borrowed from the token */
    struct bytes claims, signature; /* decoded, in the arena */
};

/* Whether a bearer is meant as a JSON Web Token: it has two dots, and begins as the base64url of an
 * object does. Bearers that the server draws have at most one dot. */
bool jwt_is(struct bytes token);
/* Take a token apart. ST_INVALID: too long, malformed, or another header; ST_NOMEM. */
NODISCARD enum status jwt_split(struct arena *arena, struct bytes token, const char *alg,
                                struct jwt *ret_jwt);

/* Append HEADER.CLAIMS, which the caller signs; `out` is empty. Then append .SIGNATURE.
 * buf_status(out) tells a failed allocation. */
void jwt_put_input(struct buf *out, const char *alg, struct bytes claims);
void jwt_put_signature(struct buf *out, struct bytes signature);

#endif
