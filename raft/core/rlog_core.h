/* The filter around libraft's I/O-free core.
 *
 * Used directly, raft_step() has faults that show after loss, delay, restart or a change of members
 * (F1 to F12). This module gives libraft only messages that libraft handles correctly, repairs
 * libraft's messages, keeps the log in memory, and asserts invariants around each step. The module
 * does no I/O and reads no clock: output leaves through `struct rlog_core_ops`.
 *
 *   rlog_core.c          life cycle, one step, the order in which an update is handled
 *   rlog_core_log.c      entries in memory
 *   rlog_core_conf.c     configurations, with bounds
 *   rlog_core_receive.c  checks of incoming messages; F1, F5, F7
 *   rlog_core_send.c     filling and splitting of outgoing messages; F4, F6, F12
 *   rlog_core_vote.c     F2, F9, F10, F11
 *   rlog_core_member.c   changes, catch-up, transfer; F3
 *   rlog_core_check.c    invariants
 *
 * Invariants: PROTOCOL.md, "The core". One thread. */
#ifndef HOLDFAST_RAFT_CORE_RLOG_CORE_H
#define HOLDFAST_RAFT_CORE_RLOG_CORE_H

#include "raft/core/rlog_members.h"
#include "raft/disk/rlog_disk.h"

#include <raft.h>

enum {
    RLOG_CONF_MAX = 2048,         /* most bytes of an encoded configuration */
    RLOG_INFLIGHT_ENTRIES = 1024, /* most entries sent to a peer and not acknowledged */
    RLOG_INFLIGHT_BYTES = 16 * 1024 * 1024,
    RLOG_APPEND_BYTES = 1024 * 1024, /* bytes of entries in one frame, unless one alone is larger */
};

struct rlog_conf {
    struct rlog_member members[RLOG_MEMBERS_MAX];
    unsigned n;
};

/* An encoded configuration and the index of its CHANGE entry; index 0: none. */
struct rlog_conf_bytes {
    uint64_t index;
    uint32_t len;
    uint8_t bytes[RLOG_CONF_MAX];
};

/* Decode the form that libraft stores; every length is checked first. ST_INVALID: malformed, no
 * voter, too many members, an invalid name or address. */
NODISCARD enum status rlog_conf_decode(struct bytes encoded, struct rlog_conf *ret_conf);
/* Set len and bytes, not index. ST_INVALID: rlog_conf_decode would refuse them; ST_TOO_BIG. */
NODISCARD enum status rlog_conf_encode(const struct rlog_conf *conf, struct rlog_conf_bytes *ret);
const struct rlog_member *rlog_conf_find(const struct rlog_conf *conf, uint64_t id);
unsigned rlog_conf_voters(const struct rlog_conf *conf);
bool rlog_conf_sole_voter(const struct rlog_conf *conf, uint64_t id);

/* The entries first..first+n-1. `changes` are the indexes of the CHANGE entries among them. */
struct rlog_core_log {
    uint64_t first, n, bytes;
    struct rlog_entry *base; /* allocation of the array */
    size_t skip, cap;        /* entry `first` is base[skip] */
    uint64_t *changes;
    size_t n_changes, cap_changes;
};

static inline uint64_t rlog_core_log_last(const struct rlog_core_log *log)
{
    return log->first + log->n - 1;
}

static inline bool rlog_core_log_has(const struct rlog_core_log *log, uint64_t index)
{
    return index >= log->first && index - log->first < log->n;
}

static inline const struct rlog_entry *rlog_core_log_at(const struct rlog_core_log *log,
                                                        uint64_t index)
{
    ASSERT(rlog_core_log_has(log, index));
    return &log->base[log->skip + (size_t)(index - log->first)];
}

void rlog_core_log_done(struct rlog_core_log *log);                  /* frees the log */
void rlog_core_log_reset(struct rlog_core_log *log, uint64_t first); /* log begins at `first` */
void rlog_core_log_append(struct rlog_core_log *log,
                          const struct rlog_entry *entry);             /* takes references */
void rlog_core_log_truncate(struct rlog_core_log *log, uint64_t from); /* drops `from` and later */
void rlog_core_log_drop_prefix(struct rlog_core_log *log, uint64_t upto);

/* A message between cores. Pointers inside `raft` are not used; `entries` has
 * raft.append_entries.n_entries elements. */
struct rlog_message {
    struct raft_message raft;
    const struct rlog_entry *entries;
};

/* A finished snapshot, own or received, as far as the core must know it. */
struct rlog_core_snapshot {
    uint64_t index, term;
    struct rlog_conf_bytes conf;
};

/* Functions that the core calls while it handles a step, in the order of PROTOCOL.md "The core".
 * No function here may call the core, not even `apply`. */
struct rlog_core_ops {
    /* Store term and vote durably before returning; a failure stops the core. */
    enum status (*persist)(void *ctx, uint64_t term, uint64_t vote);
    /* Truncate from `index` on, if the log reaches that far, and write. The number grows. */
    uint64_t (*append)(void *ctx, uint64_t index, const struct rlog_entry *entries, unsigned n);
    void (*send)(void *ctx, uint64_t to, const struct rlog_message *message);
    /* The peer `to` needs entries that the log no longer has. Repeated as long as that is so. */
    void (*offer)(void *ctx, uint64_t to);
    /* The core accepts the offered snapshot: the log in memory now starts behind the snapshot. */
    void (*install)(void *ctx);
    /* Called when leadership, leader or term has changed. */
    void (*state)(void *ctx);
    /* Called when the configuration in force has changed. */
    void (*configured)(void *ctx);
    /* Apply the next committed entry. Called in order, once for each entry. */
    void (*apply)(void *ctx, uint64_t index, const struct rlog_entry *entry);
    /* The core has stopped: no later call has an effect. Called once. */
    void (*fatal)(void *ctx, enum status why, const struct reason *reason);
    void *ctx;
};

struct rlog_core_options {
    struct rlog_core_ops ops;
    uint64_t id;
    unsigned election_ms, heartbeat_ms, seed;
    unsigned trailing; /* entries kept before a snapshot, if fewer than usual; 0: as usual */
};

/* Writes the disk has not finished, oldest first. `ack` is the highest index that may be reported
 * when `seq` is done; a truncation lowers it (R10). */
struct rlog_core_write {
    uint64_t seq, ack;
    uint64_t last, term; /* index and term of the last entry */
};

struct rlog_core_peer {
    uint64_t id;
    uint64_t match;   /* highest index known to be in the peer's log; only grows within a term */
    uint64_t sent_ms; /* when entries were last sent */
};

struct rlog_core {
    struct raft raft;
    struct rlog_core_ops ops;
    uint64_t id, now_ms;
    unsigned election_ms, heartbeat_ms, inflight_max;
    bool started, dead, stepping, applying;
    struct rlog_core_log log;
    struct rlog_core_snapshot snap; /* the newest snapshot that libraft knows */
    uint64_t term, vote;            /* term and vote as they are durable */
    uint64_t stored;                /* highest index reported as persisted */
    uint64_t written_term;          /* term at the end of the reported write; 0: none */
    uint64_t commit, applied;       /* commit index, which never falls (F8), and applied index */
    uint64_t notified_commit, notified_term; /* follower: commit index of the leader, its term */
    uint64_t sent_commit;                    /* on a leader: commit index last sent to followers */
    struct rlog_core_write *writes;
    size_t writes_at, n_writes, cap_writes;
    struct rlog_conf conf;              /* configuration in force, of the newest CHANGE */
    struct rlog_conf_bytes committed;   /* newest configuration that is committed and applied */
    struct rlog_core_snapshot incoming; /* snapshot that is offered or installed; index 0: none */
    uint64_t timeout_ms;
    uint64_t not_before_ms; /* time before which the election timer does not fire (F11) */
    unsigned random;
    uint64_t sole_term;        /* term this node entered by voting for itself (F2) */
    _Atomic uint64_t heard_ms; /* when a leader of our term was last heard (F10) */
    uint64_t ready_index;      /* on a leader: reads are served once this index is committed */
    uint64_t led_term; /* last term that this node led: at most one election is won in a term */
    uint64_t elections, truncations, rollbacks, commit_back, alarms;
    struct rlog_core_peer peers[RLOG_MEMBERS_MAX];
    /* The members below describe the event that libraft is handling. */
    const struct raft_entry *feed_array;
    const struct rlog_entry *feed;
    unsigned feed_n;
    bool feed_taken;    /* libraft left the batch to us */
    bool stale_request; /* reply to a request of an older term, if set (F4) */
    uint64_t seen_leader, seen_term;
    int seen_state;
};

/* ST_UNSUPPORTED when libraft is not 0.22.1. libraft's allocations abort the process from now on:
 * it cannot answer a failed one. */
NODISCARD enum status rlog_core_init(struct rlog_core *c, const struct rlog_core_options *options);
void rlog_core_done(struct rlog_core *c);

/* The loaded state after it was reconciled and F2's term was persisted (`sole_term`, or 0). Takes
 * references of the entries. Calls back. ST_CORRUPT: a CHANGE does not decode, the log does not
 * begin where it must. */
NODISCARD enum status rlog_core_start(struct rlog_core *c, const struct rlog_loaded *loaded,
                                      uint64_t sole_term, uint64_t now_ms);
/* Newest configuration of a loaded state; index 0: none. ST_CORRUPT. */
NODISCARD enum status rlog_core_loaded_conf(const struct rlog_loaded *loaded,
                                            struct rlog_conf_bytes *ret_conf);

/* Whether a message is one that a correct peer may send now: no earlier term's entries, nothing
 * that contradicts itself or this node. */
bool rlog_core_credible(const struct rlog_core *c, uint64_t from, const struct rlog_message *m);
/* `from` was authenticated by the transport. Anything may be dropped. */
void rlog_core_receive(struct rlog_core *c, uint64_t from, const struct rlog_message *m,
                       uint64_t now_ms);
void rlog_core_written(struct rlog_core *c, uint64_t seq, uint64_t now_ms);
/* The leader `from` has committed everything up to `commit`. Without this message libraft learns a
 * commit index only from the next entries or heartbeat. */
void rlog_core_notified(struct rlog_core *c, uint64_t from, uint64_t term, uint64_t commit,
                        uint64_t now_ms);
/* Handle a timeout. Call at or after c->timeout_ms; every function here may change that time. */
void rlog_core_timeout(struct rlog_core *c, uint64_t now_ms);

/* Leader: append an entry. ST_NOT_LEADER: nothing appended. *ret_index: index of the entry. */
NODISCARD enum status rlog_core_submit(struct rlog_core *c, enum rlog_entry_type type,
                                       const struct rlog_entry *entry, uint64_t now_ms,
                                       uint64_t *ret_index);
/* Leader: propose the complete next configuration, with one member added, removed or changed.
 * ST_NOT_LEADER; ST_BUSY: one is pending, a catch-up runs, or nothing of this term is committed yet
 * (F3: the core submits a barrier; try again); ST_INVALID: of two voters the leader would lose its
 * vote, or more than one member differs. */
NODISCARD enum status rlog_core_change(struct rlog_core *c, const struct rlog_conf *next,
                                       uint64_t now_ms, uint64_t *ret_index);
enum rlog_core_progress { RLOG_CORE_BEHIND, RLOG_CORE_RUNNING, RLOG_CORE_CAUGHT_UP };
/* Leader: how far a non-voter is. CAUGHT_UP only if it has the committed configuration (F10). */
enum rlog_core_progress rlog_core_progress(struct rlog_core *c, uint64_t id);
/* Leader: begin to send entries to a SPARE. ST_NOT_LEADER, ST_BUSY, ST_INVALID. */
NODISCARD enum status rlog_core_catch_up(struct rlog_core *c, uint64_t id, uint64_t now_ms);
/* Leader: transfer leadership to `id`, which must have every entry (rlog_core_match == last).
 * ST_NOT_LEADER, ST_INVALID, ST_BUSY. */
NODISCARD enum status rlog_core_transfer(struct rlog_core *c, uint64_t id, uint64_t now_ms);

/* A snapshot at `snap` (at or below applied, above the last one) is durable; keep `trailing`
 * entries before it. Returns the index up to which entries were forgotten, 0 none. */
uint64_t rlog_core_snapshot(struct rlog_core *c, const struct rlog_core_snapshot *snap,
                            uint64_t trailing, uint64_t now_ms);
/* A snapshot of a leader was received and verified. If the core wants it, the core calls
 * ops.install before it returns true. False: delete the snapshot. */
bool rlog_core_offer(struct rlog_core *c, uint64_t from, uint64_t term,
                     const struct rlog_core_snapshot *snap, uint64_t now_ms);
/* The wanted snapshot is durable, the log on disk begins behind it, the machine is restored. */
void rlog_core_installed(struct rlog_core *c, uint64_t now_ms);

bool rlog_core_leads(const struct rlog_core *c); /* whether this node leads in the present term */
bool rlog_core_ready(const struct rlog_core *c); /* leads, commit ≥ ready_index */
uint64_t rlog_core_leader(struct rlog_core *c);  /* id of the leader; 0: unknown */
bool rlog_core_installing(const struct rlog_core *c);
bool rlog_core_transferring(const struct rlog_core *c);
uint64_t rlog_core_term_of(const struct rlog_core *c, uint64_t index); /* 0: not known */
uint64_t rlog_core_last(const struct rlog_core *c);
uint64_t rlog_core_match(const struct rlog_core *c, uint64_t id); /* of a peer; 0: no member */
/* Change the election timeout, for a while (fast failover). Redraws the timer. */
void rlog_core_set_election(struct rlog_core *c, unsigned election_ms, uint64_t now_ms);

#endif
