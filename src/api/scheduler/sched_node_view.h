/* The nodes as one evaluation sees them: what each has left, and whether it fits. */
#ifndef HOLDFAST_API_SCHEDULER_SCHED_NODE_VIEW_H
#define HOLDFAST_API_SCHEDULER_SCHED_NODE_VIEW_H

#include "api/scheduler/sched_record.h"

enum { SCHED_PORT_FIRST = 20000, SCHED_PORT_END = 32001, SCHED_PORTS = 65536 };

struct node_view {
    struct sched_node node;
    const struct text_value *facts;
    uint64_t cpu, memory_mb, disk_mb; /* taken */
    uint64_t ports[SCHED_PORTS / 64]; /* taken, a bit each */
    unsigned of_job;                  /* live allocations of the job */
};

/* The demands of a group on a node. */
struct ask {
    const struct text_value *spec, *group;
    uint64_t cpu, memory_mb, disk_mb;
};

/* Findings about the nodes, for Metrics. */
struct finding {
    unsigned evaluated, filtered, exhausted, in_pool;
    const char *why_filtered; /* the last one */
    const char *why_exhausted;
    double score;
};

/* Sum up the demands of a group. */
void ask_of(const struct text_value *spec, const struct text_value *group, struct ask *ret_ask);
/* Load a node with all that is taken there. As sched_node_load. */
NODISCARD enum status node_view_load(struct state_txn *txn, const char *id, const char *job,
                                     struct node_view *ret_view);
/* Whether the node may take the group, and its score, 0 to 1; < 0: it may not. */
double node_view_score(const struct node_view *view, const struct ask *ask,
                       struct finding *finding);
/* Take the group's part of the node, and choose its ports. *ret_ports: JSON, in the arena. ST_BUSY:
 * a port is taken. ST_NOMEM. */
NODISCARD enum status node_view_take(struct arena *arena, struct node_view *view,
                                     const struct ask *ask, const char **ret_ports);

#endif
