/* Cross-origin requests (Fetch, 3.2): which other sites' pages may use the API from a browser.
 *
 * Off until it is set (sys/config/cors). Then every request with an Origin, of whatever path, is
 * judged before anything else by what this node's state says now: an allowed origin may read the
 * answer, another one is refused with 403, preflights are answered here. A node that is sealed
 * knows no settings: there it is off. Credentials of a browser are never allowed; tokens travel in
 * a header of their own. */
#ifndef HOLDFAST_ROUTER_CORS_H
#define HOLDFAST_ROUTER_CORS_H

#include "router/router.h"

#define CORS_SETTING "cors"

struct cors {
    struct field_strings allowed_origins; /* or "*" alone */
    struct field_strings allowed_headers; /* besides our own */
};
extern const struct schema cors_schema;

/* CORS headers of the reply. */
struct cors_verdict {
    struct bytes origin; /* may read it; empty: nothing is said */
    bool varies;         /* whether it may depends on the origin */
    bool preflight;      /* the request is answered by `headers` alone */
    const char *headers; /* allowed in a request, ready to print */
};

/* `state` NULL: there is none yet, so nothing was set. ST_DENIED with a reason: another origin.
 * ST_UNSUPPORTED: a preflight for a method that we have no use for. Both set *ret_verdict.
 * ST_NOMEM, ST_CORRUPT, ST_BUSY. */
NODISCARD enum status cors_judge(struct state *state, const struct router_call *call,
                                 struct cors_verdict *ret_verdict, struct reason *why);
/* Add what the verdict says. */
void cors_tell(const struct cors_verdict *verdict, struct arena *arena,
               struct router_answer *answer);

/* Our own names of headers, and those that are set besides. ST_NOMEM. */
NODISCARD enum status cors_headers(struct arena *arena, const struct cors *cors,
                                   struct field_strings *ret_headers);

#endif
