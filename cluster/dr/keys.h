/* Where the local state keeps what belongs to disaster recovery (role.h, records.h). */
#ifndef HOLDFAST_CLUSTER_DR_KEYS_H
#define HOLDFAST_CLUSTER_DR_KEYS_H

#include "state/state_txn.h"

#define DR_PREFIX STATE_LOCAL "dr/"
#define DR_ROLE DR_PREFIX "role"
#define DR_SETTINGS DR_PREFIX "settings"
#define DR_FOLLOWING RLOG_FOLLOWING
/* Of a promoted cluster: the version of its state at the promotion, decimal. Writes of the former
 * primary above this version never reached this cluster. */
#define DR_PROMOTED DR_PREFIX "promoted"

#endif
