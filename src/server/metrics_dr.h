/* Metrics of disaster recovery. */
#ifndef HOLDFAST_SERVER_METRICS_DR_H
#define HOLDFAST_SERVER_METRICS_DR_H

#include <stdbool.h>

struct dr_counts;
struct dr_facts;
struct metric_out;
struct node_status;
struct rlog_wal_stats;
struct server;

/* Put the metrics; after the replica runs. On the thread of a scrape. */
void metrics_dr(struct metric_out *out, struct server *s, const struct node_status *status);
/* The parts of it in metrics_dr_counts.c: counters, and upstream's names. */
void metrics_dr_counts(struct metric_out *out, const struct dr_counts *counts, bool secondary);
void metrics_dr_aliases(struct metric_out *out, const struct node_status *status,
                        const struct dr_facts *facts, const struct rlog_wal_stats *ring,
                        const struct dr_counts *counts);

#endif
