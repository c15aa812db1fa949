/* The services of disaster recovery (node/service.h). */
#ifndef HOLDFAST_API_REPLICATION_REPLICATION_FOLLOW_H
#define HOLDFAST_API_REPLICATION_REPLICATION_FOLLOW_H

struct service;

/* Follow the primary, on the active node of a secondary. */
void replication_follow(struct service *service);
/* Keep a primary, and a cluster that was one: store a higher epoch of another cluster of its set,
 * which ends a primary. */
void replication_keep(struct service *service);
/* Tell a former primary of the new epoch, on a cluster that was promoted. */
void replication_herald(struct service *service);

#endif
