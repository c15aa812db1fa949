/* A new replica, of one voter, out of the data of a member whose cluster has lost its majority for
 * good. Offline: reads the folder of one replica and writes the folder of another one.
 *
 *   rlog_survivor_open      lock and read the old folder; change nothing
 *   rlog_survivor_recover   write the new folder, whole and durable
 *   the caller              make the new folder the node's replica: one rename decides
 *
 * 1. The old folder is never written to.
 * 2. The new replica has every entry of the old log, committed or not, because the log does not say
 *    which entries a majority had.
 * 3. The new replica has a raft id of its own, in every configuration of its log and snapshot. So
 *    no frame of the former cluster is meant for the new replica (PROTOCOL R21).
 * 4. The new log ends with entries of a term above the terms that the survivor has seen.
 * 5. A log that another survivor's log outdates is refused.
 *
 * It does not decide which members must be named, and does not note which folder a node uses
 * (cluster/membership/recovery). */
#ifndef HOLDFAST_RAFT_REPLICA_RLOG_RECOVER_H
#define HOLDFAST_RAFT_REPLICA_RLOG_RECOVER_H

#include "base/fs.h"
#include "raft/core/rlog_members.h"
#include "raft/disk/rlog_identity.h"

#include "base/bytes.h"
#include "base/status.h"

/* Where a log ends. The longer log of two is the one with the later term in its last entry; with
 * equal terms, the one with the higher index. */
struct rlog_position {
    uint64_t term, index; /* of the last entry */
    uint32_t check; /* CRC-32C of the last entry; 0: unknown, because a snapshot covers the entry */
};

enum { RLOG_SURVIVOR_MEMBERS_MAX = 2 * RLOG_MEMBERS_MAX };

/* Facts from the folder of a survivor. */
struct rlog_survey {
    struct rlog_identity identity;
    struct rlog_position last;
    uint64_t term;           /* newest term that the survivor has seen */
    uint64_t snapshot_index; /* entries up to here are known to be committed; 0: none is */
    uint64_t conf_index;     /* entry of the newest configuration */
    /* The members of the newest configuration, then members that only the configuration before it
     * has: they count unless the newest one is known to be committed. */
    struct rlog_member members[RLOG_SURVIVOR_MEMBERS_MAX];
    unsigned n_members, n_newest;
    bool torn; /* the log ends with a write that was interrupted and never acknowledged */
};

struct rlog_survivor;
/* Lock and read the replica in `dir`. ST_NOT_FOUND: no replica. ST_BUSY: a process uses the folder.
 * ST_CORRUPT: damaged; the reason says what. ST_IO, ST_NOMEM, ST_INVALID. All with a reason. */
NODISCARD enum status rlog_survivor_open(struct fs *fs, const char *dir,
                                         struct rlog_survivor **ret_survivor,
                                         struct rlog_survey *ret_survey, struct reason *reason);
void rlog_survivor_close(struct rlog_survivor *survivor);

/* Compare the ends of two logs. ST_OK: `mine` has everything that `other` has. ST_CONFLICT: `other`
 * outdates `mine`. ST_CORRUPT: both end with the same entry, but its content differs. */
NODISCARD enum status rlog_position_judge(const struct rlog_position *mine,
                                          const struct rlog_position *other);

struct rlog_recover_plan {
    const char *dir; /* folder of the new replica; what an interrupted attempt left is removed */
    uint64_t id;     /* raft id of the new replica, never used before */
    const struct rlog_position *others; /* of the other survivors */
    unsigned n_others;
    struct bytes txn; /* encoded transaction to apply behind the old log */
};
/* Write the new replica. When it returns ST_OK, everything is durable and was read back. It may be
 * called again after a failure or an interruption. ST_CONFLICT, ST_CORRUPT: another survivor's log
 * is the better one, or differs. ST_IO, ST_NO_SPACE, ST_NOMEM, ST_INVALID. All with a reason. */
NODISCARD enum status rlog_survivor_recover(struct rlog_survivor *survivor,
                                            const struct rlog_recover_plan *plan,
                                            struct rlog_position *ret_last, struct reason *reason);

#endif
