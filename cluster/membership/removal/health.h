/* The health of the members, as the leader sees it: since when each has been healthy, or not. Only
 * a leader judges, in its memory: a new leader begins again. A part (part.h). Raft thread, but for
 * health_get. */
#ifndef HOLDFAST_CLUSTER_MEMBERSHIP_REMOVAL_HEALTH_H
#define HOLDFAST_CLUSTER_MEMBERSHIP_REMOVAL_HEALTH_H

#include "cluster/membership/local.h"
#include "cluster/membership/members/peers.h"
#include "cluster/membership/removal/autopilot.h"

struct member_health {
    uint64_t id; /* raft id */
    bool healthy;
    bool silent;           /* no report for last_contact_threshold */
    uint64_t since_ms;     /* monotonic: when `healthy` last changed */
    int64_t since_wall_ms; /* the same by this node's wall clock */
};

struct health {
    struct part_host *host;
    struct local *local;
    struct peers *peers;
    struct autopilot settings; /* the stored ones, else the defaults; at most a second old */
    uint64_t read_ms;          /* monotonic: when the settings were read; 0: never */
    enum status read_status;   /* result of that */
    uint64_t term;             /* term in which this node leads; 0: it does not lead */
    uint64_t led_ms;           /* monotonic: when it first judged in that term */
    pthread_mutex_t lock;
    struct member_health members[RLOG_MEMBERS_MAX]; /* written under the lock by the raft thread */
    unsigned n;
};

extern const struct part health_part;
/* Release what `start` made. No other thread may use `h` any more. */
void health_done(struct health *h);

/* The settings of autopilot. A sealed node cannot read them: then the defaults. */
const struct autopilot *health_settings(const struct health *h);
/* Whether a member has been healthy for server_stabilization_time without interruption. False for
 * a node that is no member, and on a node that does not lead. */
bool health_stable(const struct health *h, uint64_t id);
/* The health of a member. False: this node does not lead, or has not judged the member yet. Any
 * thread. */
bool health_get(struct health *h, uint64_t id, struct member_health *ret_health);

#endif
