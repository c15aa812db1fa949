/* A replica: libraft's core inside its filter, with the disk, the network and the state machine.
 *
 * Everything runs on the raft thread (the env's loop thread) unless a function says "any thread".
 * The network carries opaque frames between raft ids; the simulator and cluster/mesh both implement
 * it. PROTOCOL.md has the rules. */
#ifndef HOLDFAST_RAFT_REPLICA_RLOG_H
#define HOLDFAST_RAFT_REPLICA_RLOG_H

#include "raft/core/rlog_members.h"
#include "raft/disk/rlog_disk.h"
#include "raft/txn/rlog_txn.h"
#include "raft/txn/rlog_wal.h"

struct rlog;

/* Functions of the network. Calls never block; a frame may be dropped. */
struct rlog_net_ops {
    /* Send one frame to a peer; the parts are copied or queued before the return. `bulk` frames
     * (entries) never delay other frames. */
    void (*send)(void *ctx, uint64_t to, const struct bytes *parts, unsigned n, bool bulk);
    /* Send the queued frames now, without waiting for more. May be NULL. */
    void (*flush)(void *ctx);
    /* The members changed or became known: connect to these nodes only. */
    void (*members)(void *ctx, const struct rlog_member *members, unsigned n);
    void *ctx;
};

/* Damage that the start found on the disk and repaired. */
struct rlog_met {
    bool torn, vote_file_fell_back, snapshot_fell_back, reset; /* damage as in struct rlog_loaded */
    uint64_t truncations;
};

struct rlog_status {
    uint64_t id, term, leader; /* `leader` is a raft id; 0: unknown */
    bool is_leader, ready; /* ready: leads, has committed every entry from before its election, and
                              the cluster has a time */
    bool transferring;
    uint64_t last_index, commit_index, applied_index, stored_index, snapshot_index;
    uint64_t version, local_version;
    uint64_t stage;           /* number of the open staged tree, which delays snapshots; 0: none */
    uint16_t feature;         /* feature level of the cluster, from applied entries */
    bool following;           /* the cluster follows another one (RLOG_FOLLOWING) */
    int64_t time_ms;          /* cluster time of the last applied entry */
    int64_t snapshot_time_ms; /* cluster time of the newest snapshot; 0: none */
    struct rlog_member members[RLOG_MEMBERS_MAX];
    unsigned n_members;
    bool
        members_committed; /* the listed members are committed; else the older ones may come back */
    /* On a leader: the last entry that each member is known to have, and its term; 0: not known. */
    uint64_t match[RLOG_MEMBERS_MAX], match_term[RLOG_MEMBERS_MAX];
    uint64_t elections, snapshots_created, snapshots_installed, entries_applied, txns_applied,
        conflicts, reads_confirmed, read_rounds;
    /* truncations of the log; rollbacks of a configuration change */
    uint64_t truncations, rollbacks;
    struct rlog_met met;
};

struct rlog_events {
    /* Called when leadership, readiness, term or membership has changed. */
    void (*changed)(void *ctx);
    /* The replica cannot go on: the process must exit non-zero with this message. ST_IO,
     * ST_NO_SPACE: the disk failed a write or sync; ST_UNSUPPORTED: a later build is needed;
     * ST_CORRUPT, ST_NOMEM, ST_INTERNAL. */
    void (*fatal)(void *ctx, enum status why, const struct reason *reason);
    /* Called when a batch has been applied and published. */
    void (*applied)(void *ctx, uint64_t index, uint64_t version);
    void *ctx;
};

struct rlog_options {
    struct env *env;
    const char *dir;
    struct rlog_identity identity; /* expected identity; id 0: use the id in the directory */
    struct rlog_net_ops net;
    struct rlog_events events;
    /* Bootstrap of an initial member: the same list on every initial member. Any other start:
     * n_initial_members is 0. */
    const struct rlog_member *initial_members;
    unsigned n_initial_members;
    unsigned election_ms;     /* election timeout; 0: 1000 */
    unsigned heartbeat_ms;    /* time between heartbeats; 0: 100 */
    unsigned batch_bytes_max; /* most bytes of commands in one entry; 0: 1 MiB */
    /* bytes proposed and not yet applied, above which ST_BUSY; 0: 64 MiB */
    unsigned inflight_bytes_max;
    uint64_t snapshot_log_bytes; /* 0: a snapshot per log of half the state's size, 32 to 512 MiB */
    unsigned snapshot_trailing;  /* entries kept before a snapshot; 0: 4096, at most 128 MiB */
    uint64_t state_bytes_max;    /* 0: unbounded; above, only deletes and `upkeep` are accepted */
    uint64_t segment_bytes;
    uint64_t reserve_bytes;
    uint64_t wal_bytes_max; /* bound of the ring of the WAL; 0: there is no ring */
    uint16_t feature_max;   /* feature level that this node understands; 0: RLOG_FEATURE. Tests set
                               less, to act as an older build */
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
/* Close: what is pending ends with ST_CLOSED. `closed` is the last call: *rlog is freed. */
void rlog_close(struct rlog *rlog, void (*closed)(void *ctx), void *ctx);

/* The published state, for store_pin. Any thread. */
struct store *rlog_store(struct rlog *rlog);
/* The ring of the WAL, on from the start; NULL: there is none. It lives as long as the replica. Any
 * thread; rlog_wal_switch on the raft thread. */
struct rlog_wal *rlog_wal(struct rlog *rlog);
void rlog_status(struct rlog *rlog, struct rlog_status *ret_status);
/* The monotonic time when a leader was last heard; 0: never. Any thread. */
uint64_t rlog_heard_ms(const struct rlog *rlog);
/* The term of an entry; 0: the log does not have the entry. */
uint64_t rlog_entry_term(struct rlog *rlog, uint64_t index);

/* Take in a frame from an authenticated peer. `from_name`: the name in the peer's certificate. */
void rlog_receive(struct rlog *rlog, uint64_t from, const char *from_name, struct bytes frame);
/* The transport reports that a peer refused or reset its connection: its process has ended. */
void rlog_peer_gone(struct rlog *rlog, uint64_t id);

/* Proposals */

/* Embedded in its owner until `done`. `txn` is encoded by rlog_txn_encode and stays valid. */
enum { RLOG_MARKS_MAX = 40 }; /* enough for what most requests write */
struct rlog_propose {
    struct bytes txn;
    uint64_t ticket; /* 0, or the ticket that an earlier conflict set here; 0 again when used */
    bool upkeep;     /* small, and needed to run the cluster: not refused as ST_STATE_FULL */
    uint64_t term;   /* 0, or refuse with ST_NOT_LEADER unless this node leads in this term */
    /* 0, or the feature level, at most feature_max, to which this proposal raises the cluster.
     * Every member must understand that level. */
    uint16_t feature;
    /* ST_OK: `outcome`, `version`, `response` are set (response borrowed during the call).
     * ST_CONFLICT is not a failure: rerun on a version ≥ `version`, passing `ticket`.
     * ST_NOT_LEADER, ST_BUSY, ST_NO_SPACE, ST_STATE_FULL, ST_TOO_BIG: nothing was proposed.
     * ST_UNKNOWN_OUTCOME: proposed, but the leadership was lost or the replica closes. */
    void (*done)(struct rlog_propose *p, enum status st);
    struct rlog_applied applied;
    uint64_t index; /* index of the entry that has the proposal */
    /* The members below are used by rlog until `done`. */
    struct list link;
    enum status status;
    void *copy;
    bool counted, marked;
    unsigned n_marks;
    uint64_t marks[RLOG_MARKS_MAX]; /* hashes of what it writes, while they are pending */
};
void rlog_propose(struct rlog *rlog, struct rlog_propose *p);
/* Give a ticket back that the request will not use. */
void rlog_ticket_drop(struct rlog *rlog, uint64_t ticket);

/* Linearizable reads (R15) */

/* Embedded in its owner until `done`. ST_OK: state pinned from now on includes every write that was
 * acknowledged before the call of rlog_read; `time_ms` is cluster time. A leader needs one round of
 * requests to the voters. Another node asks the leader for an index and waits until the index is
 * applied. ST_NO_LEADER, ST_TIMEOUT, ST_CLOSED. */
struct rlog_read {
    void (*done)(struct rlog_read *r, enum status st);
    uint64_t index;
    int64_t time_ms;
    uint64_t deadline_ms; /* monotonic deadline; 0: 10 s from now */
    /* The members below are used by rlog until `done`. */
    struct list link;
    enum status status;
};
void rlog_read(struct rlog *rlog, struct rlog_read *r);

/* As rlog_machine_dump_begin, for the newest applied state. Also ST_CLOSED. */
NODISCARD enum status rlog_dump_begin(struct rlog *rlog, struct rlog_machine_dump *ret_dump);

/* Cluster time now. A leader has the exact time (R16); another node estimates it from the last
 * reply. */
int64_t rlog_time_ms(struct rlog *rlog);

/* Changes of membership and leadership. Only a leader makes them, one at a time. */

struct rlog_admin {
    /* ST_OK when committed. ST_BUSY: another change runs. ST_NOT_LEADER, ST_TIMEOUT, ST_INVALID. */
    void (*done)(struct rlog_admin *a, enum status st);
    struct reason reason;
    struct rlog_member member;
    uint64_t replaces;    /* raft id to remove once `member` has its role; 0: none */
    uint64_t deadline_ms; /* monotonic deadline; 0: 60 s from now */
    /* The members below are used by rlog until `done`. */
    struct list link;
    enum status status;
};
/* Add `member`: as a spare until it has the log, then in its role. */
void rlog_member_add(struct rlog *rlog, struct rlog_admin *a);
/* Remove the member with the raft id member.id. */
void rlog_member_remove(struct rlog *rlog, struct rlog_admin *a);
/* Take the vote of member.id, which follows as a standby; rlog_member_add gives the vote back. */
void rlog_member_demote(struct rlog *rlog, struct rlog_admin *a);
/* Set the address of member.id to member.address; name and role stay. ST_INVALID: also for an
 * address that a configuration cannot hold. */
void rlog_member_address(struct rlog *rlog, struct rlog_admin *a);
/* Transfer leadership to member.id; 0: to the voter with most of the log. */
void rlog_transfer(struct rlog *rlog, struct rlog_admin *a);
/* A new raft id, not in the current configuration: 63 random bits. */
uint64_t rlog_member_new_id(struct rlog *rlog);
/* Create a snapshot as soon as possible. */
void rlog_snapshot_now(struct rlog *rlog);

#endif
