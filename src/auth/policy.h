/* Policies: what a token may do where.
 *
 * The root policy allows everything, alone in a token's list. No other policy can be stored yet, so
 * a token with any other list may do nothing. */
#ifndef HOLDFAST_AUTH_POLICY_H
#define HOLDFAST_AUTH_POLICY_H

#include "auth/token.h"

#define AUTH_POLICY_ROOT "root"

enum cap {
    CAP_CREATE = 1 << 0,
    CAP_READ = 1 << 1,
    CAP_UPDATE = 1 << 2,
    CAP_DELETE = 1 << 3,
    CAP_LIST = 1 << 4,
    CAP_PATCH = 1 << 5,
    CAP_SUDO = 1 << 6,
};

/* Whether the token has all of `caps` on `path` (without "/v1/"). ST_DENIED. */
NODISCARD enum status auth_authorize(const struct auth_token *token, struct bytes path,
                                     unsigned caps);
/* Everything it may do there; for preflights and `sys/capabilities`. */
unsigned auth_capabilities(const struct auth_token *token, struct bytes path);

#endif
