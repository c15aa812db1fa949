/* Wrapped replies: kept until a client shows the wrapping token (auth/wrapping.h). */
#ifndef HOLDFAST_FRONT_SECRETS_WRAP_H
#define HOLDFAST_FRONT_SECRETS_WRAP_H

#include "auth/wrapping.h"
#include "router/request/reply.h"

/* Set req->wrap_ttl_s from the value of the header that asks for wrapping; an empty value or 0
 * means no wrapping. ST_INVALID with the request's error. */
NODISCARD enum status wrap_read(struct req *req, struct bytes header);
/* Refuse a request that asks for wrapping on a route whose reply cannot be wrapped. Call after the
 * route was found. ST_INVALID with the request's error. */
NODISCARD enum status wrap_check(struct req *req);
/* Wrap a successful reply if the request asks for it: stage a token that carries the reply, and put
 * the description of the token in place of the reply. A reply without content and a 404 with data
 * stay as they are. A failure is returned, and makes `reply` an error. */
NODISCARD enum status wrap_reply(struct req *req, struct router_reply *reply);

/* Keep what the client gets, for the audit record of the reply. ST_NOMEM. */
NODISCARD enum status wrap_keep(struct req *req, const struct wrapping *wrapping);
/* Write the reply that describes a wrapping token. ST_NOMEM. */
NODISCARD enum status wrap_put(const struct wrapping *wrapping, struct buf *out);

#endif
