/* Two clusters' state machines, of which one follows the other: by staged trees, and by runs of the
 * WAL that are cut anywhere, repeated, or have a gap before them. Used by test_wal_pair.c, and by
 * the simulator's self-test with planted bugs; so it judges without cmocka. */
#ifndef HOLDFAST_TESTS_UNIT_RAFT_WAL_PAIR_H
#define HOLDFAST_TESTS_UNIT_RAFT_WAL_PAIR_H

#include <stdint.h>

/* What happened in a run. */
struct wal_pair_tally {
    unsigned synced, runs, repeats, gaps, jumps, lost; /* lost: the ring no longer had a version */
};

/* Run `steps` steps drawn from `seed`. NULL: both states were equal whenever their versions were;
 * else what differed, a static text. Adds to *tally. */
const char *wal_pair_run(uint64_t seed, unsigned steps, struct wal_pair_tally *tally);

#endif
