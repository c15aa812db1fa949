/* The services of disaster recovery (node/service.h). */
#ifndef HOLDFAST_API_SYS_REPLICATION_SYS_DR_FOLLOW_H
#define HOLDFAST_API_SYS_REPLICATION_SYS_DR_FOLLOW_H

struct service;

/* Follow the primary, on the active node of a secondary. */
void sys_dr_follow(struct service *service);
/* Keep a primary, and a cluster that was one: store a higher epoch of another cluster of its set,
 * which ends a primary. */
void sys_dr_keep(struct service *service);
/* Tell a former primary of the new epoch, on a cluster that was promoted. */
void sys_dr_herald(struct service *service);

#endif
