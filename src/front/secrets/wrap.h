/* Wrapped replies: kept until a client shows the wrapping token (auth/wrapping.h). */
#ifndef HOLDFAST_FRONT_SECRETS_WRAP_H
#define HOLDFAST_FRONT_SECRETS_WRAP_H

#include "auth/wrapping.h"
#include "router/request/reply.h"

/* Read the TTL from the header that asks for wrapping; absent or 0: no wrapping. ST_INVALID with
 * a text. */
NODISCARD enum status wrap_read(struct req *req, struct bytes header);
/* Of a request that asks for it and whose path is known: whether its reply can be wrapped.
 * ST_INVALID with a text. */
NODISCARD enum status wrap_check(struct req *req);
/* Where wrapping is asked for: stage the token that carries a successful reply, and tell of it
 * instead. A reply without
 * content, or one of what is not there (404 with data), stays as it is. Failures make `reply` an
 * error, and are returned. */
NODISCARD enum status wrap_reply(struct req *req, struct router_reply *reply);

/* The whole reply that tells of a wrapping token. */
NODISCARD enum status wrap_put(const struct wrapping *wrapping, struct buf *out);

#endif
