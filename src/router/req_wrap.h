/* Replies that are wrapped because their handler says so (auth/wrapping.h). */
#ifndef HOLDFAST_ROUTER_REQ_WRAP_H
#define HOLDFAST_ROUTER_REQ_WRAP_H

#include "router/request/req.h"

/* The form of the wrapping token that the client gets: the bearer, or a JSON Web Token with it
 * (auth/wrapping_jwt.h). */
enum wrap_form { WRAP_BEARER, WRAP_JWT };

/* Wrap the reply although the client has not asked for that, and keep it for `ttl_s` seconds, or
 * for a shorter time that the client asks for. A client cannot choose another form than WRAP_JWT.
 * The handler makes a reply with data. Its dialect wraps replies, and its route asks for a
 * token. */
void req_wrap(struct req *req, int64_t ttl_s, enum wrap_form form);

#endif
