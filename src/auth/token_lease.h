/* Tokens as leases. The index holds only the names of these leases; the record of the token says
 * the rest. Other leases cannot name a token: an id of a token has AUTH_TOKEN_ID_LEN digits. */
#ifndef HOLDFAST_AUTH_TOKEN_LEASE_H
#define HOLDFAST_AUTH_TOKEN_LEASE_H

#include "lease/lease.h"

/* `renew` refuses: the right to renew leases is no right to renew the tokens of others. `end` ends
 * the token and all below it. `thing` is a struct auth_token. */
extern const struct lease_kind token_lease_kind;

#endif
