/* Shared by the files of this folder, and private to it. */
#ifndef HOLDFAST_NODE_NODE_INTERNAL_H
#define HOLDFAST_NODE_NODE_INTERNAL_H

#include "cluster/membership/founding.h"
#include "cluster/membership/frame.h"
#include "node/admin.h"
#include "node/files.h"
#include "node/node.h"
#include "node/quorum.h"
#include "node/service.h"
#include "snapshot/snapshot.h"
#include "text/random.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

#define NODE_RAFT_DIR "raft"
#define NODE_MARK_FILE "initialized"
#define NODE_LEADER_KEY RLOG_LOCAL "core/leader"

enum { NODE_PEERS_MAX = 16 };
static_assert((int)NODE_PEERS_MAX >= (int)RLOG_MEMBERS_MAX &&
                  (int)NODE_PEERS_MAX >= (int)NODE_FOUNDERS_MAX,
              "peers are members or founders");

enum {
    NODE_HASH_BUSY_MS = 5000, /* between two roots while the state keeps changing */
    NODE_STOP_TRANSFER_MS = 2000,
};

/* FRESH: no replica yet, asking the founders. JOINING: the replica runs, the leader is asked to
 * make us a voter. MEMBER: in the configuration as a voter, or without a vote if so wished. */
enum node_phase { NODE_FRESH, NODE_JOINING, NODE_MEMBER };

/* On the stack of another thread while it waits for the raft thread, whose last touch of it is
 * node_wait_end. Zero-initialise. */
struct node_wait {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool finished;
    enum status st;
};

/* The last report of a node about itself, and its time. */
struct node_heard {
    uint64_t id;
    bool unsealed;
    uint64_t ms;
    int64_t wall_ms, steady_ms; /* steady: since when without a gap */
    char api_addr[160], version[32];
};

struct node {
    struct node_options options;
    struct part_host host;
    _Atomic bool running; /* host.rlog is there, for other threads */
    pthread_t thread;
    struct env_task stop_task, reload_task;
    _Atomic bool reload_posted;
    struct env_timer tick;
    uint64_t stop_deadline_ms;

    /* node_join.c */
    enum node_phase phase;
    struct founding founding;
    uint64_t complained_ms, asked_ms;
    bool non_voter; /* told to join without a vote, and not yet a member */
    struct rlog_admin add;
    bool adding;

    struct node_enroll *enroll; /* node_enroll.c; NULL: has a certificate */

    /* node_told.c */
    struct node_told *told; /* the join request that waits for its end; NULL: none */
    struct env_timer told_timer;
    struct env_task told_give_up;
    bool told_closed;
    struct env_task opened_task; /* node_seal.c has the key of the cluster's seal */
    _Atomic bool opened_posted;

    /* node_renew.c */
    struct barrier_seat *seat;
    struct buf new_key, new_public; /* asked for; empty: nothing is */
    int64_t cert_issued_s, cert_until_s;
    uint64_t renew_looked_ms, renew_asked_ms, renew_wait_ms, renew_complained_ms;
    uint64_t rotate_version; /* of the record that was read */
    int64_t rotate_since_s;

    /* node_removed.c */
    char refused_by[NODE_PEERS_MAX][MESH_NAME_MAX]; /* peers that have told us so */
    unsigned n_refused_by;
    uint64_t alone_ms, alone_asked_ms; /* without a leader since; 0: there is one */

    /* node_seal.c */
    pthread_mutex_t seal_lock; /* guards these */
    struct secret *given;      /* shares of it: SHAMIR_SHARES_MAX, the first n_given in use */
    unsigned n_given;
    uint64_t given_for; /* stamp of the stored seal they were given for */
    char attempt[TEXT_UUID_LEN + 1];
    bool held;          /* sealed on request: not unsealed by itself */
    struct buf awaited; /* seal of a cluster to join, while shares are awaited; else empty */
    struct seal opener; /* made of them, until this node is unsealed; type 0: none */

    /* node_role.c */
    uint64_t leader_version;   /* local version of the leader record that was read */
    uint64_t announced_term;   /* the term whose leader record we have proposed */
    enum status write_status;  /* of our own newest write */
    struct reason seal_reason; /* why the last unsealing failed, said once */

    /* node_handover.c */
    struct rlog_admin transfer;
    bool transferring;
    uint64_t transferred_ms; /* 0: never */
    unsigned transfer_wait_ms;
    uint64_t told_leader, told_ms;
    uint8_t told_unsealed;
    struct node_heard heard[RLOG_MEMBERS_MAX]; /* written under the lock */

    /* node_address.c */
    struct rlog_admin address;
    bool storing_address;
    uint64_t address_said_ms;

    struct node_quorum quorum; /* node_quorum.c */
    struct duties duties;
    struct services services;
    struct snapshot snapshot;

    /* node_cleanup.c */
    uint64_t cleanup_term, cleanup_since_ms, cleanup_looked_ms; /* term 0: not active */
    bool cleaning;                                              /* a dead member is being removed */

    /* node_upkeep.c */
    struct env_work hash_work;
    struct store_pin hash_pin;
    uint8_t hash_root[STORE_HASH_BYTES];
    uint64_t hashed_ms, hash_seen_version;
    bool hashing;

    pthread_mutex_t lock; /* status */
    struct node_status status;
    _Atomic unsigned brief;          /* of `status`; see node_brief_publish */
    int64_t clock_ms, clock_mono_ms; /* cluster time at a moment of the monotonic clock */
};

/* node.c */
void node_brief_publish(struct node *n); /* `status` has changed, its lock is held */
/* Nothing was started. */
void node_refuse(struct node *n, const struct reason *reason);
/* The node ran until now. */
void node_fail(struct node *n, enum status why, const struct reason *reason);
void node_send(struct node *n, uint64_t to, enum frame_kind kind, struct bytes content);
/* Open the cluster port under n->id; an earlier one must be closed. */
NODISCARD enum status node_mesh_open(struct node *n, struct reason *reason);
/* Link to the members, or to the founders while none are known. */
void node_mesh_link(struct node *n);

/* part_calls.write */
void node_write(struct part_host *host, struct rlog_txn_builder *txn, uint64_t *mark);

/* node_admin.c: run `task` on the raft thread until node_wait_end. ST_NOMEM: it does not run. */
NODISCARD enum status node_wait_for(struct node *n, struct env_task *task, struct node_wait *w);
void node_wait_end(struct node_wait *w, enum status st);

/* Everything behind the certificate: the name, the port, the replica. */
NODISCARD enum status node_open(struct node *n, struct reason *reason);

/* node_renew.c; the rest is in files.h */
void node_renew_hear(struct node *n, uint64_t from, const char *from_name, enum frame_kind kind,
                     struct bytes content);

/* node_join.c */
NODISCARD enum status node_join_start(struct node *n, struct reason *reason);
void node_join_tick(struct node *n);
void node_join_hear(struct node *n, uint64_t from, const char *from_name, enum frame_kind kind,
                    struct bytes content);

/* Note beside the replica that this node was removed, if it was a member. */
NODISCARD enum status node_join_keep_removed(struct node *n);

/* node_role.c */
void node_role_start(struct node *n, bool joins); /* before the replica runs */
void node_role_changed(struct node *n);           /* leadership, readiness, members, or a tick */
void node_role_applied(struct node *n, uint64_t index, uint64_t version);

/* node_handover.c */
/* A voter that said it is unsealed; 0: none is known. */
uint64_t node_handover_target(struct node *n);
void node_handover_look(struct node *n, const struct rlog_status *raft);
void node_handover_hear(struct node *n, uint64_t from, const char *from_name, struct bytes content);

/* node_address.c */
void node_address_look(struct node *n, const struct rlog_status *raft);
void node_address_hear(struct node *n, uint64_t from, const char *from_name, struct bytes content);

/* node_seal.c */
NODISCARD enum status node_seal_init(struct node *n);
void node_seal_done(struct node *n); /* also after a node_seal_init that failed */
/* Unseal with the configured key, if there is one and it may. */
void node_seal_look(struct node *n);
/* The key rings may have changed. */
void node_seal_follow(struct node *n);

/* node_cleanup.c */
void node_cleanup_look(struct node *n, const struct rlog_status *raft, bool active);
/* node_admin.c: on the raft thread; n->cleaning until it has ended. */
void node_remove_dead(struct node *n, const char *name);

/* parts.c: call each part in the order of the table. */
NODISCARD enum status node_parts_start(struct node *n);
void node_parts_changed(struct node *n, const struct rlog_status *raft);
/* True: every part rests. */
bool node_parts_stop(struct node *n);

void node_upkeep_tick(struct node *n); /* node_upkeep.c */

#endif
