/* Tokens as a kind of lease. The lease index holds only the names of these leases; the token's
 * record holds the rest. No lease of another kind has the name of a token: the id of a token has
 * AUTH_TOKEN_ID_LEN digits. */
#ifndef HOLDFAST_AUTH_TOKEN_LEASE_H
#define HOLDFAST_AUTH_TOKEN_LEASE_H

#include "lease/lease.h"

/* `renew` refuses: the capability to renew leases must not renew the tokens of others. `end` ends
 * the token and all its descendants. `thing` is a struct auth_token. */
extern const struct lease_kind token_lease_kind;

#endif
