/* Cross-origin requests (Fetch, 3.2): which other sites' pages may use the API from a browser.
 *
 * Off until it is set (sys/config/cors). Then every request with an Origin, of whatever path, is
 * judged before anything else by what this node's state says now: an allowed origin may read the
 * reply, another one is refused with 403, preflights are answered here. A node that is sealed
 * knows no settings: there it is off. Credentials of a browser are never allowed; tokens travel in
 * a header of their own. */
#ifndef HOLDFAST_FRONT_CORS_H
#define HOLDFAST_FRONT_CORS_H

#include "router/router.h"

#define CORS_SETTING "cors"

struct cors {
    struct field_strings allowed_origins; /* or "*" alone */
    struct field_strings allowed_headers; /* besides our own */
};
extern const struct schema cors_schema;

/* Set request->verdict, unless the request names no origin or nothing was set: another origin is
 * refused with ST_DENIED, a preflight for a method that no route has with ST_UNSUPPORTED. `state`
 * NULL: there is none yet, so nothing was set. A failure is a verdict, too: ST_NOMEM, ST_CORRUPT,
 * ST_BUSY.
 */
void cors_judge(struct state *state, struct router_request *request);

/* The headers that pages may send: of every request, of a dialect, and those that are set.
 * ST_NOMEM.
 */
NODISCARD enum status cors_headers(struct arena *arena, const struct dialect *dialect,
                                   const struct cors *cors, struct field_strings *ret_headers);

#endif
