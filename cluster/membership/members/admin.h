/* Changes of the cluster that an operator asks for. A part (part.h). */
#ifndef HOLDFAST_CLUSTER_MEMBERSHIP_MEMBERS_ADMIN_H
#define HOLDFAST_CLUSTER_MEMBERSHIP_MEMBERS_ADMIN_H

#include "cluster/membership/members/peers.h"

struct admin {
    struct part_host *host;
    struct peers *peers;
    bool cleaning; /* a dead member is being removed; raft thread */
};

extern const struct part admin_part;

/* The first three block, on any thread but the raft thread, for as long as half a minute. They work
 * on the leader only: ST_NOT_LEADER elsewhere; ST_TIMEOUT: the change may yet happen; ST_BUSY,
 * ST_INVALID, with a reason. ST_NOT_FOUND: no member of that name. */

/* Remove a member, and write that down (MEMBER_REMOVED_KEY). */
NODISCARD enum status admin_remove(struct admin *a, const char *name, struct reason *reason);
/* Give a member its vote, or take it, and write that down (MEMBER_NONVOTER_KEY). */
NODISCARD enum status admin_set_vote(struct admin *a, const char *name, bool votes,
                                     struct reason *reason);
/* Transfer leadership to the member best able to take it. */
NODISCARD enum status admin_step_down(struct admin *a, struct reason *reason);

/* Remove a dead member; a->cleaning until that has ended. Raft thread. */
void admin_remove_dead(struct admin *a, const char *name);

#endif
