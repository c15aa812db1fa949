/* Shared by the files of the replica, and private to them.
 *
 *   rlog.c                  start, close, the pump, timers, incoming frames
 *   rlog_turn.c             enter and leave, send and fail: below all others; rlog_turn_internal.h
 *   rlog_out.c              requests of the core: disk, network, apply
 *   rlog_propose.c          group commit and its replies
 *   rlog_conflict.c         early detection of conflicts (R5)
 *   rlog_ticket.c           tickets (R5)
 *   rlog_read.c             ReadIndex rounds (R15)
 *   rlog_time.c             cluster time (R16); rlog_time_internal.h
 *   rlog_member.c           members, transfer of leadership, fast failover
 *   rlog_snapshot_create.c  creates snapshots of the applied state
 *   rlog_snapshot_send.c    sends a snapshot to a follower
 *   rlog_install.c          receives and installs a leader's snapshot
 *
 * Every call from outside passes rlog_enter and rlog_leave. Finished operations go on a list. The
 * outermost rlog_leave runs the pump, which starts what can start and then fires completions and
 * events. So no callback runs inside the core, or inside the call that started its operation. */
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
    RLOG_ROUNDS_MAX = 4,        /* most open rounds of reads */
    RLOG_REMOTE_READS_MAX = 64, /* most reads of standbys in one round */
    RLOG_BATCH_TXNS_MAX = 4096,
    RLOG_UNCOMMITTED_MAX = 64, /* number of uncommitted entries above which commands wait */
};

/* The proposals of one entry that is not applied yet. */
struct rlog_batch {
    struct list link;
    uint64_t index, term;
    size_t bytes;
    unsigned n;
    struct rlog_propose *items[];
};

/* A multiset of hashes: each hash with its count. */
struct rlog_counts {
    uint64_t *hashes; /* array of hashes; 0: the slot is free */
    uint32_t *counts;
    size_t cap, used; /* size of the table, a power of two; slots in use */
};

struct rlog_conflicts {
    struct rlog_counts writes; /* keys that pending transactions write, and their folders */
    struct rlog_counts sweeps; /* folders that pending transactions delete as a whole */
    uint64_t all;              /* pending transactions that replace the whole state */
};

struct rlog_ticket {
    struct list link;
    uint64_t number, expires_ms, wants, claims[4];
    unsigned n_claims;
    struct rlog_propose *waiting; /* ST_CONFLICT is delivered when `wants` is claimed and quiet */
};

struct rlog_tickets {
    struct list all;    /* tickets in the order of numbers */
    struct list fenced; /* proposals that write a key which a ticket claims */
    unsigned n;
    uint64_t last;
    bool released;
    struct env_timer timer;
};

struct rlog_proposals {
    struct list waiting;  /* proposals that no entry contains yet */
    struct list held;     /* proposals that a pending write may conflict with */
    size_t waiting_bytes; /* bytes of waiting, held and fenced proposals */
    bool recheck;         /* a proposal was applied or failed: check `held` again */
    struct list batches;  /* entries in flight, by index */
    size_t batches_bytes;
    uint64_t submitted_ms;
    struct rlog_batch *applying; /* batch of the entry that is being applied */
    struct env_timer grace;      /* after a lost leadership: end of the wait for outcomes */
    struct env_timer gather;     /* end of gathering proposals for the next entry */
};

struct rlog_remote_read {
    uint64_t from, number;
};

/* On a leader: a round of requests to the voters. On another node: one request to the leader. */
struct rlog_round {
    bool open, asks_leader;
    bool untimed; /* the request had no time, because the cluster had none */
    uint64_t number, term, index, conf_generation, started_ms, leader;
    /* members asked and members that replied: a bit for each member of the configuration */
    uint32_t asked, yes;
    struct list reads;
    struct rlog_remote_read remote[RLOG_REMOTE_READS_MAX];
    unsigned n_remote;
};

struct rlog_reads {
    struct list fresh;    /* reads that belong to no round */
    struct list awaiting; /* reads with an index that is not applied yet; by index */
    /* reads of standbys that belong to no round */
    struct rlog_remote_read remote[RLOG_REMOTE_READS_MAX];
    unsigned n_remote;
    struct rlog_round rounds[RLOG_ROUNDS_MAX];
    uint64_t number, started_ns;
    uint64_t all_ms;           /* monotonic: last request to all members */
    uint32_t quick;            /* first members to reply in the last round, as bits */
    uint64_t quick_generation; /* conf_generation that the bits of `quick` belong to */
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
    uint64_t remove_id;        /* raft id of the member to remove or demote */
    uint64_t held_ms;          /* monotonic: when proposals were first held back */
    uint64_t heard_ms;         /* monotonic: last frame of the server that is being added */
    uint64_t gone_id, gone_ms; /* the leader whose process has ended, or NO_LEADER_YET; when */
    struct env_timer timer;
};

struct rlog {
    struct env *env;
    struct rlog_options options; /* with defaults; its pointers are valid during rlog_start only */
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
    /* Start what can start; then, if `fire` is set, call completions. */
    void (*pump)(struct rlog *r, bool fire);
    struct env_timer timer, close_timer, commit_timer;
    uint64_t commit_due_ms; /* when to tell followers of a commit; 0: they know */
    struct env_task wake;

    struct buf out;   /* the frame that is being sent */
    struct buf entry; /* the entry that is being encoded */
    struct bytes parts[1 + RLOG_INFLIGHT_ENTRIES];

    struct list done_proposals, done_reads, done_admins;
    bool changed;         /* events.changed must be called */
    bool members_changed; /* net.members must be called */
    uint64_t conf_generation;
    uint64_t announced_index; /* index of the last call of events.applied */
    bool led, was_ready;
    bool write_due; /* queued entries are written once the messages have left */

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
/* call after a snapshot was installed */
void rlog_proposals_jumped(struct rlog *r, uint64_t index);
/* call when leadership was won or lost */
void rlog_proposals_leadership(struct rlog *r);
void rlog_proposals_close(struct rlog *r);
void rlog_proposals_fire(struct rlog *r);
/* puts a proposal into an entry, or lets it wait */
void rlog_propose_route(struct rlog *r, struct rlog_propose *p);
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
void rlog_members_first(struct rlog *r); /* no leader was ever known: elect the first one at once */
void rlog_members_pump(struct rlog *r);
bool rlog_members_holding(const struct rlog *r); /* whether nothing may be proposed now */
void rlog_members_heard(struct rlog *r, uint64_t from);
void rlog_members_close(struct rlog *r);
void rlog_members_fire(struct rlog *r);

#endif
