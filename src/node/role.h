/* The role of this node: active, or a standby of a leader that it names. A part
 * (cluster/membership/part.h). Raft thread. */
#ifndef HOLDFAST_NODE_ROLE_H
#define HOLDFAST_NODE_ROLE_H

#include "node/board.h"

struct role {
    struct part_host *host;
    struct board *board;
    const struct dr *dr;      /* the role of the cluster in disaster recovery */
    bool performance_standby; /* whether this node serves reads as a standby */
    uint64_t core_version;    /* local version at which the core records were read */
    uint64_t announced_term;  /* term of the last proposed leader record; 0: none */
};

/* Writes host->active_term: parts that read the role come after it in the table. */
extern const struct part role_part;

/* An entry was applied. True: keys, members' records or the leader's record may have changed. */
NODISCARD bool role_applied(struct role *role, uint64_t index, uint64_t version);

#endif
