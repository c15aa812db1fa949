/* How many processors this process may use, which in a container is less than the machine has. */
#ifndef HOLDFAST_BASE_CPUS_H
#define HOLDFAST_BASE_CPUS_H

/* By its affinity and the quota of its control group, whichever is less; at least 1. */
unsigned cpus_usable(void);

/* By the processor quotas of control groups, versions 1 and 2, rounded up: the least of the group
 * and those above it. 0: there is none, or it cannot be read.
 *
 * own   names the groups of the process, as /proc/self/cgroup
 * root  where the groups are mounted, as /sys/fs/cgroup */
unsigned cpus_quota(const char *own, const char *root);

#endif
