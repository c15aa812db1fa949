/* How a cluster that follows another applies the other cluster's WAL; a part of rlog_machine.c. */
#ifndef HOLDFAST_RAFT_TXN_RLOG_MACHINE_WAL_H
#define HOLDFAST_RAFT_TXN_RLOG_MACHINE_WAL_H

#include "raft/txn/rlog_txn.h"

/* Check a run and advance *version over it. *ret_gap: the run does not continue *version.
 * ST_INVALID, ST_TOO_BIG: the run is malformed. */
NODISCARD enum status rlog_machine_wal_test(struct bytes run, uint64_t *version, bool *ret_gap);
/* Apply the records above the machine's version, which they continue. */
void rlog_machine_wal_apply(struct rlog_machine *m, struct bytes run);
/* Whether RLOG_FOLLOWING exists. */
bool rlog_machine_wal_following(const struct rlog_machine *m);

#endif
