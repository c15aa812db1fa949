/* Headers that have two names: ours, and the name that clients of the upstream product use. */
#ifndef HOLDFAST_ROUTER_HEADER_H
#define HOLDFAST_ROUTER_HEADER_H

#include "router/router.h"

/* The value of a request's header under the first of two names (lower case) that the request has;
 * data NULL: the request has neither header. Inline, so that the compiler knows the lengths of the
 * names. */
static inline struct bytes header_either(const struct router_request *request, const char *ours,
                                         const char *theirs)
{
    struct bytes value = router_header(request, ours);
    return value.data != NULL ? value : router_header(request, theirs);
}

/* The token in the header Authorization, behind "Bearer "; empty: none. */
struct bytes header_bearer(const struct router_request *request);
/* Add a header under both names; without memory the reply lacks it. Inline, as header_either. */
static inline void header_tell(struct router_reply *reply, struct arena *arena, const char *ours,
                               const char *theirs, struct bytes value)
{
    if (reply_add_header(reply, arena, bytes_str(ours), value))
        /* without memory the reply lacks the header */
        (void)reply_add_header(reply, arena, bytes_str(theirs), value);
}

#endif
