/* Metrics of disaster recovery. */
#ifndef HOLDFAST_SERVER_METRICS_DR_H
#define HOLDFAST_SERVER_METRICS_DR_H

struct metric_out;
struct node_status;
struct server;

/* Put the metrics; after the replica runs. On the thread of a scrape. */
void metrics_dr(struct metric_out *out, struct server *s, const struct node_status *status);

#endif
