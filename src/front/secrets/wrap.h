/* Wrapped replies: kept until a client shows the wrapping token (auth/wrapping.h). */
#ifndef HOLDFAST_FRONT_SECRETS_WRAP_H
#define HOLDFAST_FRONT_SECRETS_WRAP_H

#include "auth/wrapping.h"
#include "router/req_wrap.h"
#include "router/request/reply.h"

/* Set req->wrap_ttl_s from the value of the header that asks for wrapping; an empty value or 0
 * means no wrapping. ST_INVALID with the request's error. */
NODISCARD enum status wrap_read(struct req *req, struct bytes header);
/* Set req->wrap_jwt from the value of the header that asks for a form of the wrapping token: "jwt"
 * or empty. ST_INVALID with the request's error. */
NODISCARD enum status wrap_read_form(struct req *req, struct bytes header);
/* Refuse a request that asks for wrapping on a route whose reply cannot be wrapped. Call after the
 * route was found. ST_INVALID with the request's error. */
NODISCARD enum status wrap_check(struct req *req);
/* Wrap a successful reply if the request or the handler (req_wrap) asks for it: stage a token that
 * carries the reply, and put the description of the token in place of the reply. A reply without
 * content and a 404 with data stay as they are. A failure is returned, and makes `reply` an error.
 */
NODISCARD enum status wrap_reply(struct req *req, struct router_reply *reply);

/* Wrap `body`: stage a token that carries it, keep what the client gets for the audit record, and
 * write the reply that describes the token to `out`. The caller sets creation_path,
 * wrapped_accessor and creation_ttl_s of `wrapping`. ST_BUSY with the request's error: the cluster
 * has no feature level for JSON Web Tokens. Else as wrapping_create and wrapping_jwt_make. */
NODISCARD enum status wrap_make(struct req *req, struct bytes body, enum wrap_form form,
                                struct wrapping *wrapping, struct buf *out);

#endif
