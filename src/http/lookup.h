/* The addresses of a name, in the order in which the system's resolver gives them. */
#ifndef HOLDFAST_HTTP_LOOKUP_H
#define HOLDFAST_HTTP_LOOKUP_H

#include "http/http.h"

enum { HTTP_LOOKUP_MAX = 16 }; /* most addresses of one name; more are left out */

struct http_lookup;
struct http_addresses {
    char text[HTTP_LOOKUP_MAX][HTTP_PEER_TEXT]; /* "10.0.0.1:8201" or "[::1]:8201" */
    unsigned n;
};

/* Called once, later, on the env's thread. ST_OK: at least one address. ST_NOT_FOUND: the name has
 * no address, or the resolver does not answer; `reason` says which. Everything is borrowed during
 * the call. */
typedef void http_lookup_fn(void *ctx, struct http_lookup *lookup, enum status st,
                            const struct http_addresses *addresses, const struct reason *reason);

/* Ask the resolver for the addresses of "name:port". Nothing is kept from an earlier lookup. A
 * numeric address is its own only address. `ctx` must live until `done`; the env may not end before
 * that. ST_NOMEM; ST_INVALID: not "name:port". */
NODISCARD enum status http_lookup_start(struct env *env, const char *address, http_lookup_fn *done,
                                        void *ctx, struct http_lookup **ret_lookup);
/* The result is no longer needed: call `done` soon. */
void http_lookup_hurry(struct http_lookup *lookup);

#endif
