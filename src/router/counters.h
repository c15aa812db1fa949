/* Counters of the router, for metrics. */
#ifndef HOLDFAST_ROUTER_COUNTERS_H
#define HOLDFAST_ROUTER_COUNTERS_H

#include "base/histogram.h"
#include "router/parked.h"

/* Classes of the latency histograms; each request counts in one class. */
enum router_class {
    ROUTER_READ,
    ROUTER_LIST, /* LIST, also recursive */
    ROUTER_WRITE,
    ROUTER_NODE,      /* about this node: health, metrics, seal status */
    ROUTER_FORWARDED, /* requests forwarded to the active node */
    ROUTER_LONG,      /* requests that may take long, as snapshots */
    ROUTER_CLASSES
};
const char *router_class_name(enum router_class class);

struct router_counters {
    /* Time from the request's head to the reply, on this node. */
    struct histogram_sum latency[ROUTER_CLASSES];
    uint64_t requests, forwards, reruns, refused; /* refused: requests above inflight_max */
    uint64_t parsed_bytes; /* bytes of bodies whose senders had some right on the path */
    struct router_parked_counters parked;
};
/* Read the counters. Any thread. */
void router_worker_counters(const struct router_worker *worker,
                            struct router_counters *ret_counters);

#endif
