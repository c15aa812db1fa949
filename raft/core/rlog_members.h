/* The members of a cluster, as its configuration names them. */
#ifndef HOLDFAST_RAFT_CORE_RLOG_MEMBERS_H
#define HOLDFAST_RAFT_CORE_RLOG_MEMBERS_H

#include <stdint.h>

/* kinds of membership, not of leadership */
enum rlog_role { RLOG_SPARE, RLOG_STANDBY, RLOG_VOTER };

struct rlog_member {
    uint64_t id;
    char name[64];
    char address[128]; /* host:port of the cluster port */
    enum rlog_role role;
};

enum { RLOG_MEMBERS_MAX = 16, RLOG_FRAME_MAX = 9 * 1024 * 1024 };

#endif
