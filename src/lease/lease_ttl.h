/* The end of a lease at its issue and at its renewal: arithmetic alone. */
#ifndef HOLDFAST_LEASE_LEASE_TTL_H
#define HOLDFAST_LEASE_LEASE_TTL_H

#include "base/status.h"

/* The limits of a mount for its leases, in seconds, both above 0. */
struct lease_limits {
    int64_t default_s, max_s;
    bool of_mount; /* max_s is the mount's own; else the system's */
};

/* The limit that cut a lease. */
enum lease_limit {
    LEASE_LIMIT_NONE,   /* the lease was not cut */
    LEASE_LIMIT_SYSTEM, /* longest life in the system */
    LEASE_LIMIT_MOUNT,  /* longest life below the mount */
    LEASE_LIMIT_KIND,   /* longest life that the engine gives, as for a role */
    LEASE_LIMIT_TOKEN,  /* the batch token that took the lease ends */
};

/* Durations in seconds; 0: not given. The first of wanted_s, own_s and the default of the limits
 * that is given is the TTL. */
struct lease_ttl {
    int64_t wanted_s;           /* TTL that the request asks for */
    int64_t own_s, own_max_s;   /* TTL and longest life of the kind of lease */
    struct lease_limits limits; /* lives count from the issue */
    int64_t issued_ms, now_ms;  /* if now_ms is before issued_ms, issued_ms counts as now */
    int64_t limit_ms;           /* the lease ends at this time at the latest; 0: no such limit */
};

struct lease_cut {
    enum lease_limit by;
    int64_t ttl_s, max_s; /* the TTL before it was cut; the longest life that cut it */
    int64_t granted_s;    /* the TTL after it was cut */
};

/* The end of the lease, at which it may have ended already: its longest life may have been made
 * shorter since its issue. */
int64_t lease_ttl_end_ms(const struct lease_ttl *ttl, struct lease_cut *ret_cut);
/* The warning for a client whose lease was cut, which names the limit. */
void lease_cut_say(const struct lease_cut *cut, struct reason *ret_warning);

#endif
