/* The feature level of the cluster from which on the scheduler's records are stored. */
#ifndef HOLDFAST_AUTH_SCHEDULER_SCHEDULER_H
#define HOLDFAST_AUTH_SCHEDULER_SCHEDULER_H

enum { SCHEDULER_FEATURE = 5 };

#endif
