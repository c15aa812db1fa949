/* The number of processors that this process may use, and the priority of its threads. In a
 * container there are fewer processors than the machine has. */
#ifndef HOLDFAST_BASE_CPUS_H
#define HOLDFAST_BASE_CPUS_H

/* The smaller one of the process's affinity and its control group's quota; at least 1. */
unsigned cpus_usable(void);

/* Lower the priority of the calling thread, for long work beside the threads of clients. Where the
 * system refuses, all threads are equal. */
void cpus_background(void);

/* The smallest processor quota of the process's control group and the groups above it, rounded up
 * to whole processors. Control groups of versions 1 and 2. 0: no quota, or no quota can be read.
 *
 * own   names the groups of the process, as /proc/self/cgroup
 * root  where the groups are mounted, as /sys/fs/cgroup */
unsigned cpus_quota(const char *own, const char *root);

#endif
