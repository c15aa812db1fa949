/* Bearers: random values, stored under their HMAC, never in clear. */
#ifndef HOLDFAST_BARRIER_TOKEN_H
#define HOLDFAST_BARRIER_TOKEN_H

#include "barrier/barrier.h"

enum { TOKEN_RANDOM = 24, TOKEN_SERVICE_LEN = 4 + TOKEN_RANDOM };

/* Make a bearer: "hvs." and 24 random characters of [0-9A-Za-z] (143 bits), zero-terminated. The
 * caller wipes it. */
void token_make(struct env *env, char ret_token[TOKEN_SERVICE_LEN + 1]);
/* The 64 hex digits under which a bearer is stored, zero-terminated. ST_SEALED, ST_CRYPTO. */
NODISCARD enum status token_name(struct barrier_cipher *cipher, struct bytes token,
                                 char ret_name[2 * BARRIER_MAC_BYTES + 1]);

#endif
