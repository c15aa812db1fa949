/* A cluster again out of what is left after a majority was lost for good: the offline commands on
 * the data directory of a survivor.
 *
 * On the survivor with the best log (recovery_run):
 *
 *   1. lock the replica; read it; check what the operator said about every other member
 *   2. write a new replica under a new raft id, in a folder of its own, durable
 *   3. rename `founding.new` to `founding`, which names the new folder: the decision
 *
 * On every other survivor (recovery_join) only step 3: `founding` names the next folder, which the
 * next start makes empty, so the node joins the recovered cluster as a new member.
 *
 *   - interrupted before 3: the node is as it was. The next attempt removes what was written.
 *   - interrupted behind 3: everything is done.
 *   - the former replica stays in its folder, unchanged, until an operator deletes it.
 *
 * A position is one word: the end of a survivor's log, with a sum that covers cluster, name and
 * raft id. It is typed on another survivor, so that the better log is used. */
#ifndef HOLDFAST_CLUSTER_MEMBERSHIP_RECOVERY_RECOVERY_H
#define HOLDFAST_CLUSTER_MEMBERSHIP_RECOVERY_RECOVERY_H

#include "cluster/membership/bootstrap/step_file.h"
#include "raft/replica/rlog_recover.h"

struct recovery;

enum { RECOVERY_WORD_MAX = 160 };

/* Lock and read the replica of a data directory. Nothing is changed. ST_NOT_FOUND: there is no
 * replica. ST_BUSY: the node runs. ST_CORRUPT: damaged. ST_IO, ST_NOMEM. All with a reason. */
NODISCARD enum status recovery_open(struct fs *fs, struct recovery **ret, struct reason *reason);
void recovery_close(struct recovery *r);

/* The facts from the folder; borrowed. */
const struct rlog_survey *recovery_survey(const struct recovery *r);
/* The folder of the replica in the data directory. */
const char *recovery_folder(const struct recovery *r);
/* The position of this survivor. */
void recovery_word(const struct recovery *r, char ret_word[RECOVERY_WORD_MAX]);

/* Note what the operator says: the position of another survivor, or the name of a lost member.
 * ST_INVALID with a reason: no member, said before, or a word that is mistyped or of another disk.
 */
NODISCARD enum status recovery_survivor(struct recovery *r, const char *word,
                                        struct reason *reason);
NODISCARD enum status recovery_lost(struct recovery *r, const char *name, struct reason *reason);

/* Whether recovery_run may run. ST_EXISTS: this node is the only member. ST_DENIED: a member was
 * not mentioned, or a majority is left. ST_CONFLICT, ST_CORRUPT: another survivor's log is better,
 * or differs. With a reason. */
NODISCARD enum status recovery_check(const struct recovery *r, struct reason *reason);
/* Make this survivor the only member of its cluster. `id`: a random number. Statuses of
 * recovery_check and of rlog_survivor_recover. The folder of the former replica stays. */
NODISCARD enum status recovery_run(struct recovery *r, uint64_t id, struct reason *reason);

/* Whether recovery_join may run: one survivor was named, whose log has all that this log has; or
 * this node itself was named as lost. ST_DENIED, ST_CONFLICT, ST_CORRUPT with a reason. */
NODISCARD enum status recovery_join_check(const struct recovery *r, struct reason *reason);
/* Let the next start of this node join as a new member. `id`: a random number. */
NODISCARD enum status recovery_join(struct recovery *r, uint64_t id, struct reason *reason);

#endif
