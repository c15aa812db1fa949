/* Logins of a request: auth/login.h with the mount, the transaction and the reply of the request.
 */
#ifndef HOLDFAST_ROUTER_REQ_LOGIN_H
#define HOLDFAST_ROUTER_REQ_LOGIN_H

#include "auth/login.h"
#include "router/request/req.h"

/* End of the handler of a login: stage the token and reply with `auth`. The route needs no token
 * (WHO_ANYONE) and runs on the active node. ST_INVALID with the request's error; ST_DENIED: the
 * login is not allowed from this address. Else as state_put. */
NODISCARD enum status req_login(struct req *req, const struct login *login);

/* How long the tokens of a mount live. */
struct login_limits req_limits_of(const struct mount *mount);

/* Whether a login gave the token: then the path of the token lies below the mount of an auth method
 * other than the token store. */
bool req_is_login_token(const struct auth_token *token);
/* When a token that a login gave ends after a renewal now, by its mount and its auth method.
 * `wanted_s`: the wanted time; 0: none. ST_INVALID with the request's error: the method is gone, or
 * refuses. Else as state_get. */
NODISCARD enum status req_login_renew(struct req *req, const struct auth_token *token,
                                      int64_t wanted_s, int64_t *ret_end_ms);

/* Reply with `auth`; `bearer` is "" where only the accessor is known. ST_NOMEM. */
NODISCARD enum status req_reply_auth(struct req *req, const char *bearer,
                                     const struct auth_token *token);

#endif
