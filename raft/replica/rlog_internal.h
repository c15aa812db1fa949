/* Shared by the files of the replica, and private to them.
 *
 *   rlog.c           start, close, the pump, timers, frames in
 *   rlog_turn.c      enter and leave, send and fail: below all others; rlog_turn_internal.h
 *   rlog_out.c       what the core asks for: disk, network, apply
 *   rlog_propose.c   group commit and its replies
 *   rlog_conflict.c  conflicts seen early (R5)
 *   rlog_ticket.c    tickets (R5)
 *   rlog_read.c      ReadIndex rounds (R15)
 *   rlog_time.c      cluster time (R16); rlog_time_internal.h
 *   rlog_member.c    members, transfer of leadership, fast failover
 *   rlog_snapshot_create.c   creates snapshots of the applied state
 *   rlog_snapshot_send.c     sends a snapshot to a follower
 *   rlog_install.c   a leader's snapshot arriving
 *
 * Every call from outside passes rlog_enter and rlog_leave. What it finished is put on a list; the
 * outermost rlog_leave runs the pump, which starts what can start and then fires completions and
 * events. So no callback runs inside the core, and none from inside the call that started it. */
#ifndef HOLDFAST_RAFT_REPLICA_RLOG_INTERNAL_H
#define HOLDFAST_RAFT_REPLICA_RLOG_INTERNAL_H

#include "base/plant.h"
#include "raft/core/rlog_core.h"
#include "raft/replica/rlog.h"
#include "raft/replica/rlog_snapshot_internal.h"
#include "raft/replica/rlog_time_internal.h"
#include "raft/replica/rlog_turn_internal.h"
#include "raft/replica/rlog_wire.h"

enum {
    RLOG_ROUNDS_MAX = 4,        /* open at once */
    RLOG_REMOTE_READS_MAX = 64, /* standbys' questions in one round */
    RLOG_BATCH_TXNS_MAX = 4096,
    RLOG_UNCOMMITTED_MAX = 64, /* entries behind the commit index before commands wait */
};

/* One entry of ours in flight. */
struct rlog_batch {
    struct list link;
    uint64_t index, term;
    size_t bytes;
    unsigned n;
    struct rlog_propose *items[];
};

/* A set of hashes, each with how often it was added. */
struct rlog_counts {
    uint64_t *hashes; /* 0: free */
    uint32_t *counts;
    size_t cap, used; /* cap is a power of two */
};

struct rlog_conflicts {
    struct rlog_counts writes; /* keys that pending transactions write, and their folders */
    struct rlog_counts sweeps; /* folders that they delete from as a whole */
    uint64_t all;              /* how many replace everything */
};

struct rlog_ticket {
    struct list link;
    uint64_t number, expires_ms, wants, claims[4];
    unsigned n_claims;
    struct rlog_propose *waiting; /* ST_CONFLICT is delivered when `wants` is claimed and quiet */
};

struct rlog_tickets {
    struct list all;    /* by number */
    struct list fenced; /* proposals that write what is claimed */
    unsigned n;
    uint64_t last;
    bool released;
    struct env_timer timer;
};

struct rlog_proposals {
    struct list waiting;  /* not in an entry yet */
    struct list held;     /* a pending write touches what they need */
    size_t waiting_bytes; /* of both, and of those at a fence */
    bool recheck;         /* something was applied or failed: look at `held` again */
    struct list batches;  /* by index */
    size_t batches_bytes;
    uint64_t submitted_ms;
    struct rlog_batch *applying; /* the one whose entry is being applied */
    struct env_timer grace;      /* leadership was lost: wait so long for the outcome */
    struct env_timer gather;     /* until then, waiting proposals may share the next entry */
};

struct rlog_remote_read {
    uint64_t from, number;
};

/* Leader: a round of questions to the voters. Others: one question to the leader. */
struct rlog_round {
    bool open, asks_leader,
        untimed; /* untimed: the request carried no time, the cluster had none */
    uint64_t number, term, index, conf_generation, started_ms, leader;
    uint32_t asked, yes; /* bit per member of the configuration */
    struct list reads;
    struct rlog_remote_read remote[RLOG_REMOTE_READS_MAX];
    unsigned n_remote;
};

struct rlog_reads {
    struct list fresh;    /* in no round */
    struct list awaiting; /* index known, not yet applied; by index */
    struct rlog_remote_read remote[RLOG_REMOTE_READS_MAX]; /* in no round */
    unsigned n_remote;
    struct rlog_round rounds[RLOG_ROUNDS_MAX];
    uint64_t number, started_ns;
    uint64_t all_ms;           /* when all members were asked last */
    uint32_t quick;            /* first to reply in the last round, a majority with the leader */
    uint64_t quick_generation; /* of the configuration whose members these are */
    struct env_timer timer;
};

enum rlog_members_phase {
    MEMBERS_IDLE,
    MEMBERS_ADD_SPARE,
    MEMBERS_CATCH_UP,
    MEMBERS_REMOVE,
    MEMBERS_DEMOTE,
    MEMBERS_ADDRESS,
    MEMBERS_MATCH,
    MEMBERS_MOVE,
    MEMBERS_DONE,
};

struct rlog_members {
    enum rlog_members_phase phase;
    struct rlog_admin *admin;
    uint64_t term, change_index, target;
    uint64_t remove_id;        /* member to remove, or to take the vote from */
    uint64_t held_ms;          /* nothing was proposed since */
    uint64_t heard_ms;         /* the server that is being added spoke */
    uint64_t gone_id, gone_ms; /* the leader whose process is gone */
    struct env_timer timer;
};

struct rlog {
    struct env *env;
    struct rlog_options options; /* defaults filled in; pointers not kept */
    struct rlog_identity identity;
    struct rlog_disk *disk;
    struct rlog_core core;
    struct rlog_machine machine;
    struct rlog_met met;
    bool core_live, failed, closing;
    void (*closed)(void *ctx);
    void *closed_ctx;

    unsigned depth;
    bool again, woken;
    void (*pump)(struct rlog *r,
                 bool fire); /* start what can start; then, if `fire`, completions */
    struct env_timer timer, close_timer, commit_timer;
    uint64_t commit_due_ms; /* when followers are notified of a commit; 0: they know */
    struct env_task wake;

    struct buf out;   /* the frame being sent */
    struct buf entry; /* the one being made */
    struct bytes parts[1 + RLOG_INFLIGHT_ENTRIES];

    struct list done_proposals, done_reads, done_admins;
    bool changed;         /* fire events.changed */
    bool members_changed; /* tell the network */
    uint64_t conf_generation;
    uint64_t announced_index; /* events.applied was fired for it */
    bool led, was_ready;
    bool write_due; /* entries wait in the disk's queue for the messages to leave */

    struct rlog_proposals proposals;
    struct rlog_conflicts conflicts_pending;
    struct rlog_tickets tickets;
    struct rlog_reads reads;
    struct rlog_clock clock;
    struct rlog_members members;
    struct rlog_snapshot_create create;
    struct rlog_snapshot_send sends[RLOG_SNAPSHOT_SENDS_MAX];
    struct rlog_install install;
    uint64_t entries_applied, txns_applied, conflicts, reads_confirmed, read_rounds,
        snapshots_created, snapshots_installed;
    int64_t snapshot_time_ms; /* cluster time of the newest snapshot; 0: none */
};

static inline uint64_t rlog_now(struct rlog *r)
{
    return env_mono_ms(r->env);
}

/* rlog_out.c */
struct rlog_core_ops rlog_core_ops_of(struct rlog *r);
void rlog_write_due(struct rlog *r);
void rlog_commit_tell(struct rlog *r);
void rlog_commit_on_timer(struct env_timer *timer);

/* rlog_propose.c */
void rlog_proposals_init(struct rlog *r);
void rlog_proposals_pump(struct rlog *r);
void rlog_proposals_apply(struct rlog *r, uint64_t index, const struct rlog_entry *entry);
void rlog_proposals_jumped(struct rlog *r, uint64_t index); /* a snapshot was installed */
void rlog_proposals_leadership(struct rlog *r);             /* won or lost */
void rlog_proposals_close(struct rlog *r);
void rlog_proposals_fire(struct rlog *r);
void rlog_propose_route(struct rlog *r, struct rlog_propose *p); /* to an entry, or to wait */
void rlog_propose_late(struct rlog *r, struct rlog_propose *p);
void rlog_propose_finish(struct rlog *r, struct rlog_propose *p, enum status st);

/* rlog_conflict.c */
uint64_t rlog_key_hash(struct bytes key);
struct bytes rlog_key_folder(struct bytes key);
bool rlog_key_hashes(struct bytes key, bool (*each)(void *ctx, uint64_t hash), void *ctx);
bool rlog_counts_has(const struct rlog_counts *c, uint64_t hash);
void rlog_conflicts_mark(struct rlog *r, struct rlog_propose *p);
void rlog_conflicts_unmark(struct rlog *r, struct rlog_propose *p);
bool rlog_conflicts_doomed(const struct rlog *r, struct bytes txn);
bool rlog_conflicts_pending_key(const struct rlog *r, uint64_t hash);
void rlog_conflicts_done(struct rlog *r);

/* rlog_ticket.c */
void rlog_tickets_init(struct rlog *r);
void rlog_tickets_conflict(struct rlog *r, struct rlog_propose *p);
void rlog_tickets_hold(struct rlog *r, const struct rlog_propose *p);
void rlog_tickets_settled(struct rlog *r, const struct rlog_propose *p);
bool rlog_tickets_fenced(struct rlog *r, const struct rlog_propose *p);
void rlog_tickets_pump(struct rlog *r);
void rlog_tickets_fail(struct rlog *r, enum status st);

/* rlog_read.c */
void rlog_reads_init(struct rlog *r);
void rlog_reads_pump(struct rlog *r);
void rlog_reads_receive(struct rlog *r, uint64_t from, const struct rlog_frame *frame);
void rlog_reads_leadership(struct rlog *r);
void rlog_reads_close(struct rlog *r);
void rlog_reads_fire(struct rlog *r);

/* rlog_member.c */
void rlog_members_init(struct rlog *r);
void rlog_members_pump(struct rlog *r);
bool rlog_members_holding(const struct rlog *r); /* propose nothing now */
void rlog_members_heard(struct rlog *r, uint64_t from);
void rlog_members_close(struct rlog *r);
void rlog_members_fire(struct rlog *r);

#endif
