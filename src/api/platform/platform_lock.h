/* Locks of workspaces: at most one holder, a user, a team or a run. */
#ifndef HOLDFAST_API_PLATFORM_PLATFORM_LOCK_H
#define HOLDFAST_API_PLATFORM_PLATFORM_LOCK_H

#include "api/platform/platform_who.h"

/* Whether somebody holds the lock. */
bool platform_is_locked(const struct platform_object *ws);
/* Whether the sender holds the lock. */
bool platform_holds_lock(const struct platform_who *who, const struct platform_object *ws);

#endif
