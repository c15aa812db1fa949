/* Disaster recovery in the reply of sys/health, on every node and without a token. */
#ifndef HOLDFAST_ROUTER_REQ_DR_HEALTH_H
#define HOLDFAST_ROUTER_REQ_DR_HEALTH_H

#include "router/router.h"

/* The link to the other cluster, for the health of a node: of a primary, its secondary that lags
 * most. Zeros without disaster recovery. */
struct req_dr_health {
    bool takes_part;
    uint64_t last_wal;
    int64_t canary_age_ms, clock_skew_ms, echo_duration_ms;
};
struct req_dr_health req_dr_health(struct req *req, const struct node_status *node);

#endif
