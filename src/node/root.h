/* The Merkle root of the replicated keys, computed on a worker thread. A part
 * (cluster/membership/part.h). Raft thread. */
#ifndef HOLDFAST_NODE_ROOT_H
#define HOLDFAST_NODE_ROOT_H

#include "node/board.h"

struct root {
    struct part_host *host;
    struct board *board;
    struct env_work work;
    struct store_pin pin; /* keeps the state readable while `hashing` */
    uint8_t hash[STORE_HASH_BYTES];
    uint64_t hashed_ms, seen_version;
    uint64_t hashed_index; /* entry that was applied last when the hash was begun */
    bool hashing;
};

extern const struct part root_part;

#endif
