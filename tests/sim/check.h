/* What must hold at every step, judged from outside the program.
 *
 *   1. one leader a term;
 *   2. equal version, time and content on every node at an equal index, and equal content below
 *      RLOG_REPLICATED at an equal version;
 *   3. version, commit index, applied index, term and cluster time never fall in a process, and no
 *      node starts below what it had made durable;
 *   4. a new leader becomes ready with every acknowledged write; a confirmed read sees every write
 * that was acknowledged before it began;
 *   5. cluster time stays near the median of the members' clocks, from its beginning;
 *   6. a term has a candidate;
 *   7. invariants of the stored data (the bank's total). */
#ifndef HOLDFAST_SIM_CHECK_H
#define HOLDFAST_SIM_CHECK_H

#include "core.h"
#include "raft/replica/rlog.h"

struct cluster;
struct node;

enum { CHECK_REGISTERS = 8 };

/* Branches of recovery that a campaign must have taken. */
enum reach {
    REACH_TORN_TAIL,
    REACH_TRUNCATION_REPLAY,
    REACH_VOTE_FILE_FALLBACK,
    REACH_SNAPSHOT_INSTALL,
    REACH_SNAPSHOT_FALLBACK,
    REACH_INSTALL_COMPLETED,
    REACH_CORRUPTION_REFUSED,
    REACH_STRAY,
    REACH_MEMBERSHIP_ROLLBACK,
    REACH_EXCHANGE,
    REACH_STATE_FULL,
    REACH_LIE,
    REACH_FUTURE,
    REACH_TOKEN_REFUSED,
    REACH_TOKEN_SPENT,
    REACH_TREE_REVOKED,
    REACH_BATCH_USED,
    REACH_BATCH_REFUSED,
    REACH_REGISTRY_READ,
    REACH_REGISTRY_FORBIDS,
    REACH_UNWRAPPED,
    REACH_REWRAPPED,
    REACH_UNWRAP_REFUSED,
    REACH_TOKENS_SWEPT,
    REACH_LEASE_USED,
    REACH_LEASE_ENDED,
    REACH_PREFIX_ENDED,
    REACH_PREFIX_LEFT,
    REACH_POLICY_FORBIDS,
    REACH_REKEYED,
    REACH_MIGRATED,
    REACH_CAS_DIFFERS,
    REACH_LEVEL_RAISED,
    REACH_RECORDED,
    REACH_RELAYED,
    REACH_UNRECORDED,
    REACH_AUDIT_LATE,
    REACH_ASKED_ONLY,
    REACH_MUTE_HANDOVER,
    REACH_WATCH_TOLD,
    REACH_RECOVERED,
    REACH_PAIR_FIRST_SYNC,
    REACH_PAIR_DIFFERENCE,
    REACH_PAIR_STREAMED,
    REACH_PAIR_REPEATED,
    REACH_PAIR_GAP,
    REACH_PAIR_OVERRUN,
    REACH_PAIR_SWITCHED,
    REACH_PAIR_FAILED_OVER,
    REACH_PAIR_FAILED_BACK,
    REACH_PAIR_SUPERSEDED,
    REACH_PAIR_LOST,
    REACH_PAIR_REFUSED,
    REACH_PAIR_KEYS_RENEWED,
    REACHES,
    REACH_PAIR_FIRST = REACH_PAIR_FIRST_SYNC, /* from here on, of two clusters */
};
const char *reach_name(enum reach r);

/* What was last seen of a process. */
struct node_seen {
    uint64_t term, commit, applied, version;
    int64_t time_ms, advertised_ms; /* cluster time: applied; given out as the leader */
    uint64_t elections, snapshots_created, installed, rollbacks;
    bool ready;
    uint64_t epoch, role_at, role_version; /* of a site of a pair: pair_check.c */
    uint64_t stored, stored_term;          /* said to be durable when the process before ended */
};

struct seen_version {
    uint8_t root[32];
    unsigned slot;
    bool known;
};

struct seen_index {
    uint8_t root[32]; /* of everything, local keys too */
    uint64_t version;
    int64_t time_ms;
    unsigned slot;
    bool known;
};

struct check {
    struct seen_version *versions;
    size_t versions_n;
    struct seen_index *indexes;
    size_t indexes_n;
    uint64_t *leader_of; /* by term */
    size_t leader_of_n;
    uint8_t *asked_for; /* by term: somebody asked for votes in it, or needs nobody's */
    size_t asked_for_n;
    uint64_t newest_term;                     /* that had a leader */
    uint64_t acked_version, acked_index;      /* highest acknowledged to a client */
    uint64_t acked_register[CHECK_REGISTERS]; /* the same of writes to one register */
    uint64_t hashed;                          /* batches seen, to thin out hashing */
    struct node *clock_moved;                 /* the one whose wall clock jumps, NULL none yet */
    bool clock_rules;                         /* it may have decided cluster time */
    uint64_t clocks_led_by;                   /* process that leads while every voter runs … */
    uint64_t clocks_since_ns;                 /* … since */
};

void check_init(struct cluster *c);
/* The process is about to end: what it vouched for must be there when the next one starts. */
void check_ending(struct node *n);
void check_started(struct node *n); /* what the start met on the disk */
/* A frame is about to leave. */
void check_sent(struct node *n, struct bytes frame);
void check_done(struct cluster *c);
/* After any call into the node's program that changed something. */
void check_node(struct node *n);
/* A batch was applied and published. */
void check_applied(struct node *n, uint64_t index, uint64_t version);
/* A write was acknowledged by this node. */
void check_acked(struct node *n, uint64_t index, uint64_t version);
/* A confirmed read that began when `acked` was the highest acknowledged version sees `version`. */
void check_read(struct node *n, uint64_t acked, uint64_t version);
/* Of the keys below a prefix: their versions, and the newest version below each prefix of them. */
uint64_t check_versions_hash(const struct store_pin *pin, struct bytes below);
/* All members equal, at the end. false: not yet. */
bool check_converged(struct cluster *c, const char **ret_why);

#endif
