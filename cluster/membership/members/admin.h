/* Changes of the cluster that an operator requests. A part (part.h). */
#ifndef HOLDFAST_CLUSTER_MEMBERSHIP_MEMBERS_ADMIN_H
#define HOLDFAST_CLUSTER_MEMBERSHIP_MEMBERS_ADMIN_H

#include "cluster/membership/members/peers.h"

struct admin {
    struct part_host *host;
    struct peers *peers;
    bool cleaning; /* a dead member is being removed; used on the raft thread */
};

extern const struct part admin_part;

/* admin_remove, admin_set_vote and admin_step_down block for up to 30 s; call them on any thread
 * but the raft thread. ST_NOT_LEADER: this node does not lead. ST_TIMEOUT: the change may still
 * happen. ST_NOT_FOUND: no member of that name. ST_BUSY, ST_INVALID with a reason. A change that
 * takes a vote is refused (ST_INVALID) if this node does not reach a majority of the voters left. */

/* Remove a member, and store a record of the removal (MEMBER_REMOVED_KEY). */
NODISCARD enum status admin_remove(struct admin *a, const char *name, struct reason *reason);
/* Give or take a member's vote, and store a record of it (MEMBER_NONVOTER_KEY). */
NODISCARD enum status admin_set_vote(struct admin *a, const char *name, bool votes,
                                     struct reason *reason);
/* Transfer leadership to the member best able to take it. */
NODISCARD enum status admin_step_down(struct admin *a, struct reason *reason);

/* Remove a dead member; a->cleaning is true until the removal has ended. Raft thread. */
void admin_remove_dead(struct admin *a, const char *name);

#endif
