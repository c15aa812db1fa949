/* The replica that a data directory belongs to. */
#ifndef HOLDFAST_RAFT_DISK_RLOG_IDENTITY_H
#define HOLDFAST_RAFT_DISK_RLOG_IDENTITY_H

#include <stdint.h>

struct rlog_identity {
    uint8_t cluster[16];
    char name[64];
    uint64_t id; /* raft id of this incarnation of the disk */
};

#endif
