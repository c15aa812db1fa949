/* Cross-origin requests (Fetch, 3.2): which sites' pages may use the API from a browser.
 *
 * 1. Nothing is checked until an operator writes sys/config/cors. A sealed node cannot read the
 *    setting, so it checks nothing either.
 * 2. Every other request with a header Origin is checked before its path is looked at, against the
 *    setting in this node's state. An allowed origin may read the reply; any other origin gets 403.
 * 3. A preflight gets its reply here.
 * 4. Credentials of a browser are never allowed: tokens travel in a header of their own. */
#ifndef HOLDFAST_FRONT_CORS_H
#define HOLDFAST_FRONT_CORS_H

#include "router/router.h"

#define CORS_SETTING "cors"

struct cors {
    /* origins of pages that may send requests; "*" alone: every origin */
    struct field_strings allowed_origins;
    /* headers allowed besides those that are always allowed */
    struct field_strings allowed_headers;
};
extern const struct schema cors_schema;

/* Set request->verdict. The verdict stays NULL for a request without an origin, and as long as
 * nothing was set; `state` NULL: this node has no state yet, so nothing was set. The verdict's
 * status is ST_OK; ST_DENIED, an origin that is not allowed; ST_UNSUPPORTED, a preflight for a
 * method that no route has; ST_NOMEM, ST_CORRUPT, ST_BUSY. */
void cors_judge(struct state *state, struct router_request *request);

/* List the headers that pages may send: the headers of every request, of the dialect and of the
 * setting. The list lies in `arena`. ST_NOMEM. */
NODISCARD enum status cors_headers(struct arena *arena, const struct dialect *dialect,
                                   const struct cors *cors, struct field_strings *ret_headers);

#endif
