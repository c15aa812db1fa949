/* The drill of a secondary: a copy of a pinned version is opened and read as a promotion would, and
 * then dropped. Any thread that may block.
 *
 *   1. Pin the newest version.
 *   2. Open a barrier beside the node's with the records of that version: by this cluster's own
 * seal where the seal is static, else by the root key that this node holds.
 *   3. Compute the hash of every node of the replicated tree anew.
 *   4. Decrypt every value; decode the records of mounts, policies and tokens.
 *   5. Compute the root of the version; wipe the keys; drop the pin.
 *
 * 1. Nothing is written: not to the state, not to the disk.
 * 2. One value at a time is in memory. The pin keeps what the secondary replaces meanwhile, for
 *    `limit_ms` at most.
 * 3. At most one drill runs on a node.
 *
 * Pieces that a module keeps behind its value (store/retain.h) are checked by their hash alone. */
#ifndef HOLDFAST_CLUSTER_DR_DRILL_DRILL_H
#define HOLDFAST_CLUSTER_DR_DRILL_DRILL_H

#include "cluster/dr/site.h"

enum { DR_DRILL_NAMED = 16, DR_DRILL_KEY_MAX = 512 };

struct dr_drill_ask {
    const struct seal *seal;    /* the configured seal; NULL: key shares */
    struct env *env;            /* the drill reads its clock */
    uint64_t limit_ms;          /* how long the drill may take */
    bool (*goes_on)(void *ctx); /* false ends the drill */
    void *ctx;
};

/* A key whose value is damaged. Bytes that do not print are written as \xNN; a long key is cut. */
struct dr_drill_damage {
    char key[DR_DRILL_KEY_MAX];
    const char *problem;
};

struct dr_drill {
    uint64_t version; /* of the copy */
    uint8_t root[DR_ROOT_BYTES];
    struct dr_role role; /* the role at this version */
    struct dr_lag lag;   /* when the version was pinned */
    bool own_seal;       /* this cluster's own seal opened the keys; false: a seal of key shares */
    bool complete;       /* every key was read; false: the time was over before */
    uint64_t total, keys, decrypted, bytes; /* keys of the copy; of those read; values; plaintext */
    uint64_t mounts, policies, tokens;
    uint64_t wrong_hashes, unreadable;             /* keys whose hash, or whose value, is wrong */
    struct dr_drill_damage damage[DR_DRILL_NAMED]; /* the first ones */
    unsigned n_damage;
    uint64_t took_ms;
};

/* The same on a state that is not this node's replica; for tests. */
NODISCARD enum status dr_drill_store(struct dr *dr, struct store *store,
                                     const struct dr_drill_ask *ask, struct dr_drill *ret_drill,
                                     struct reason *reason);
/* Run a drill. ST_INVALID with a reason: this cluster is no secondary, or syncs, or its keys do not
 * open. ST_BUSY: another drill runs, or no pin is free. ST_CLOSED: there is no state, or goes_on
 * ended the drill, or the node stops. ST_SEALED, ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status dr_drill_run(struct dr *dr, const struct dr_drill_ask *ask,
                                   struct dr_drill *ret_drill, struct reason *reason);

#endif
