/* Quotas whose path lies at or below a mount: they move and end with the mount. */
#ifndef HOLDFAST_ROUTER_QUOTA_FOLLOW_H
#define HOLDFAST_ROUTER_QUOTA_FOLLOW_H

#include "router/request/req.h"

/* Stage what the move of a mount from `from` to `to` does to quotas of both kinds; `to` NULL: what
 * its removal does. Both paths end in '/'. A pattern that also fits other mounts ("k*") stays, and
 * so does the quota of an API that has the same path. ST_INVALID with the request's error: a quota
 * of the new path exists, or the new path of a quota is too long. Else as state_put. */
NODISCARD enum status quota_follow(struct req *req, const char *from, const char *to);

#endif
