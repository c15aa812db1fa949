/* A replica: libraft's core inside its filter, our disk, our network, our state machine.
 *
 * Everything runs on the raft thread (the env's loop thread) unless a function says "any thread".
 * The network carries opaque frames between raft ids; the simulator and cluster/mesh both implement
 * it. PROTOCOL.md has the rules. */
#ifndef HOLDFAST_RAFT_REPLICA_RLOG_H
#define HOLDFAST_RAFT_REPLICA_RLOG_H

#include "raft/core/rlog_members.h"
#include "raft/disk/rlog_disk.h"
#include "raft/txn/rlog_txn.h"

struct rlog;

/* How frames leave. Calls never block; a frame may be dropped. */
struct rlog_net_ops {
    /* One frame for a peer; the parts are copied or queued before return. `bulk` frames (entries)
     * never delay others. */
    void (*send)(void *ctx, uint64_t to, const struct bytes *parts, unsigned n, bool bulk);
    /* Send queued frames now, without waiting for more to go with them. May be NULL. */
    void (*flush)(void *ctx);
    /* Members changed or were learnt: connect to these, forget others. */
    void (*members)(void *ctx, const struct rlog_member *members, unsigned n);
    void *ctx;
};

/* Damage that the start found on the disk and repaired. */
struct rlog_met {
    bool torn, vote_file_fell_back, snapshot_fell_back, reset; /* as in struct rlog_loaded */
    uint64_t truncations;
};

struct rlog_status {
    uint64_t id, term, leader; /* leader 0: unknown */
    bool is_leader, ready; /* ready: leader whose commit reached its election's last index, and of
                              a cluster that has a time */
    bool transferring;
    uint64_t last_index, commit_index, applied_index, stored_index, snapshot_index;
    uint64_t version, local_version;
    uint64_t
        stage; /* number of the staged tree that is open; 0: none. No snapshot is created then */
    int64_t time_ms;          /* cluster time, last applied */
    int64_t snapshot_time_ms; /* cluster time of the newest snapshot; 0: none */
    struct rlog_member members[RLOG_MEMBERS_MAX];
    unsigned n_members;
    bool members_committed; /* the listed members are; otherwise older ones may come back */
    /* Of a leader: the last entry that each is known to have, and its term where that is known. */
    uint64_t match[RLOG_MEMBERS_MAX], match_term[RLOG_MEMBERS_MAX];
    uint64_t elections, snapshots_created, snapshots_installed, entries_applied, txns_applied,
        conflicts, reads_confirmed, read_rounds;
    uint64_t truncations, rollbacks; /* of the log, and of a configuration in it */
    struct rlog_met met;
};

struct rlog_events {
    /* Leadership, readiness, term or membership changed. */
    void (*changed)(void *ctx);
    /* The replica cannot go on: the process must exit non-zero with this message. ST_IO,
     * ST_NO_SPACE: the disk failed a write or sync; ST_UNSUPPORTED: a later build is needed;
     * ST_CORRUPT, ST_NOMEM, ST_INTERNAL. */
    void (*fatal)(void *ctx, enum status why, const struct reason *reason);
    /* A batch was applied and published. */
    void (*applied)(void *ctx, uint64_t index, uint64_t version);
    void *ctx;
};

struct rlog_options {
    struct env *env;
    const char *dir;
    struct rlog_identity identity; /* expected; id 0: take what the directory says */
    struct rlog_net_ops net;
    struct rlog_events events;
    /* Bootstrap of an initial member: the same list on every initial member. Any other start:
     * n_initial_members is 0. */
    const struct rlog_member *initial_members;
    unsigned n_initial_members;
    unsigned election_ms;        /* 0: 1000 */
    unsigned heartbeat_ms;       /* 0: 100 */
    unsigned batch_bytes_max;    /* 0: 1 MiB of commands in one entry */
    unsigned inflight_bytes_max; /* 0: 64 MiB proposed and not yet applied, then ST_BUSY */
    uint64_t snapshot_log_bytes; /* 0: a snapshot per log of half the state's size, 32 to 512 MiB */
    unsigned snapshot_trailing;  /* entries kept before a snapshot; 0: 4096, at most 128 MiB */
    uint64_t state_bytes_max;    /* 0: unbounded; ST_STATE_FULL above but for deletes, `upkeep` */
    uint64_t segment_bytes;
    uint64_t reserve_bytes;
};

/* Open or create the directory, load, restore, START the core. Blocks (start-up only).
 * ST_INVALID, ST_BUSY with a reason; ST_CORRUPT: the data is damaged and must rejoin (R13). */
NODISCARD enum status rlog_start(const struct rlog_options *options, struct rlog **ret_rlog,
                                 struct reason *reason);
/* After ST_CORRUPT from rlog_start (R13): remove the damaged data and make the directory that of a
 * new, blank replica of the same name (options->identity) under a fresh raft id. Start it without
 * initial members; it follows, gives no vote, and becomes a voter when a leader adds it with
 * `replaces` = ret_old->id (0 when that could not be read). ST_BUSY, ST_INVALID: not ours. */
NODISCARD enum status rlog_rejoin_prepare(const struct rlog_options *options,
                                          struct rlog_identity *ret_old,
                                          struct rlog_identity *ret_new, struct reason *reason);
/* Fails everything pending with ST_CLOSED; `closed` is the last call, then *rlog is gone. */
void rlog_close(struct rlog *rlog, void (*closed)(void *ctx), void *ctx);

/* Published state, for store_pin. Any thread. */
struct store *rlog_store(struct rlog *rlog);
void rlog_status(struct rlog *rlog, struct rlog_status *ret_status);
/* Term of an entry, 0 when the log has it no more or not yet. */
uint64_t rlog_entry_term(struct rlog *rlog, uint64_t index);

/* A frame from an authenticated peer. `from_name` is what its certificate says. */
void rlog_receive(struct rlog *rlog, uint64_t from, const char *from_name, struct bytes frame);
/* The transport's view: the connection to a peer was refused or reset (its process is gone). */
void rlog_peer_gone(struct rlog *rlog, uint64_t id);

/* Proposals. */

/* Embedded in its owner until `done`. `txn` is encoded by rlog_txn_encode and stays valid. */
struct rlog_propose {
    struct bytes txn;
    uint64_t ticket; /* 0, or what rlog left here with an earlier conflict; 0 again when spent */
    bool upkeep;     /* small, and needed to run the cluster: not refused as ST_STATE_FULL */
    uint64_t term;   /* 0, or refuse with ST_NOT_LEADER unless this node leads in this term */
    /* ST_OK: `outcome`, `version`, `response` are set (response borrowed during the call).
     * ST_CONFLICT is not a failure: rerun on a version ≥ `version`, passing `ticket`.
     * ST_NOT_LEADER, ST_BUSY, ST_NO_SPACE, ST_STATE_FULL, ST_TOO_BIG: nothing was proposed.
     * ST_UNKNOWN_OUTCOME: proposed, leadership lost or closing. */
    void (*done)(struct rlog_propose *p, enum status st);
    struct rlog_applied applied;
    uint64_t index; /* the entry it went into */
    /* rlog's until `done`. */
    struct list link;
    enum status status;
    void *copy;
    bool counted, marked;
};
void rlog_propose(struct rlog *rlog, struct rlog_propose *p);
/* Give a ticket back unused (the request gave up). */
void rlog_ticket_drop(struct rlog *rlog, uint64_t ticket);

/* Linearizable reads (R15) */

/* Embedded until `done`. ST_OK: state pinned from now on includes every write acknowledged before
 * rlog_read was called; `time_ms` is cluster time. On a leader this is immediate after one round;
 * on others the leader is asked, then its index awaited. ST_NO_LEADER, ST_TIMEOUT, ST_CLOSED. */
struct rlog_read {
    void (*done)(struct rlog_read *r, enum status st);
    uint64_t index;
    int64_t time_ms;
    uint64_t deadline_ms; /* monotonic; 0: 10 s from now */
    /* rlog's until `done`. */
    struct list link;
    enum status status;
};
void rlog_read(struct rlog *rlog, struct rlog_read *r);

/* rlog_machine_dump_begin of the newest applied state. As that; ST_CLOSED. */
NODISCARD enum status rlog_dump_begin(struct rlog *rlog, struct rlog_machine_dump *ret_dump);

/* Cluster time now: leader only (R16); others estimate from the last reply. */
int64_t rlog_time_ms(struct rlog *rlog);

/* Membership and leadership: leader only, one at a time. */

struct rlog_admin {
    /* ST_OK when committed. ST_BUSY: another change runs. ST_NOT_LEADER, ST_TIMEOUT, ST_INVALID. */
    void (*done)(struct rlog_admin *a, enum status st);
    struct reason reason;
    struct rlog_member member;
    uint64_t replaces;    /* id to remove once `member` is a voter, 0 none */
    uint64_t deadline_ms; /* monotonic; 0: 60 s from now */
    /* rlog's until `done`. */
    struct list link;
    enum status status;
};
void rlog_member_add(struct rlog *rlog, struct rlog_admin *a);    /* spare → caught up → role */
void rlog_member_remove(struct rlog *rlog, struct rlog_admin *a); /* member.id */
/* member.id loses its vote and follows as a standby; rlog_member_add gives the vote back. */
void rlog_member_demote(struct rlog *rlog, struct rlog_admin *a);
/* member.id is at member.address now; name and role stay. ST_INVALID also for an address that a
 * configuration cannot hold. */
void rlog_member_address(struct rlog *rlog, struct rlog_admin *a);
void rlog_transfer(struct rlog *rlog, struct rlog_admin *a); /* member.id; 0: the best one */
/* A raft id never used before in this cluster's configuration; random 63 bits. */
uint64_t rlog_member_new_id(struct rlog *rlog);
/* Ask for a snapshot now (tests, operators). */
void rlog_snapshot_now(struct rlog *rlog);

#endif
