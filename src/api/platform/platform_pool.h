/* Agent pools and their agents: upstream's names for groups of workers, and for a worker.
 *
 * A pool belongs to an organization, and runs the workspaces that name it. The site-wide pool
 * belongs to the site; it runs workspaces with execution mode "remote", and exists always. */
#ifndef HOLDFAST_API_PLATFORM_PLATFORM_POOL_H
#define HOLDFAST_API_PLATFORM_PLATFORM_POOL_H

#include "api/platform/platform_run.h"

enum {
    PLATFORM_AGENT_ALIVE_MS = 60 * 1000,           /* after its last word */
    PLATFORM_AGENT_KNOWN_MS = 24 * 60 * 60 * 1000, /* so long it counts as there */
    PLATFORM_AGENTS_MAX = 1000,                    /* of a pool */
    PLATFORM_POOLS_MAX = 200,                      /* of an organization */
};

/* Find a pool in whose organization the sender has one of the rights; the site-wide pool is for
 * site administrators. ST_NOT_FOUND. */
NODISCARD enum status platform_pool_find(struct req *req, struct platform_who *who, const char *id,
                                         unsigned rights, struct platform_object *ret_pool);
/* Stage the site-wide pool, unless it is stored; other pools are. */
NODISCARD enum status platform_pool_keep(struct req *req, const struct platform_object *pool);
/* Whether a worker serves the organization: one of its pools, or the site-wide one, had an agent in
 * the last 24 hours. So a worker that restarts makes no client run on its own machine. */
NODISCARD enum status platform_pool_works(struct state_txn *txn, const struct platform_object *org,
                                          int64_t now_ms, bool *ret_works);

/* The status of an agent: "idle", "busy", "unknown", "exited". */
const char *platform_agent_status(const struct platform_object *agent, int64_t now_ms);
extern const struct platform_kind platform_agent_kind;

#endif
