/* Several cores in one thread over a lossy network and a disk that forgets what was not synced.
 * Everything follows from the seed. Frames go through the wire format. Checked on the way: every
 * index applies the same entry everywhere, a term has one leader. */
#ifndef HOLDFAST_TESTS_CORE_CLUSTER_H
#define HOLDFAST_TESTS_CORE_CLUSTER_H

#include "base/mem.h"
#include "base/plant.h"
#include "raft/replica/rlog_wire.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    NODES_MAX = 12,
    HISTORY_MAX = 100000,
    TERMS_MAX = 20000,
    TRAILING = 2000,
    ELECTION = 150,
    HEARTBEAT = 30,
};

struct cluster;

struct write {
    struct list link;
    uint64_t seq, index;
    unsigned n;
    struct rlog_entry *entries;
};

struct snap {
    struct rlog_core_snapshot core;
    uint64_t state;
};

struct cnode {
    struct cluster *cluster;
    struct rlog_core core;
    uint64_t id;
    bool exists, up, removed;
    unsigned life;
    uint64_t term, vote, first; /* on disk */
    struct rlog_entry *log;
    size_t n, cap;
    struct snap snap;
    struct list writes;
    uint64_t seq, disk_free_ms, sole_term;
    uint64_t state; /* hash of everything applied */
    struct snap incoming;
    bool installing;
};

enum event_kind { EV_FRAME, EV_DISK, EV_SNAP, EV_INSTALLED, EV_RESTART, EV_NOTIFIED };

struct event {
    uint64_t at, seq;
    enum event_kind kind;
    uint64_t from, to, term, commit;
    unsigned life;
    struct buf frame;
    struct snap snap;
};

struct cluster {
    uint64_t rng, now, event_seq;
    struct event **events;
    size_t n_events, cap_events;
    struct cnode nodes[NODES_MAX];
    unsigned n_nodes;
    unsigned loss, duplicates, slow_ms; /* percent, percent, longest delay */
    bool cut[NODES_MAX][NODES_MAX];
    uint64_t history[HISTORY_MAX], leader_of[TERMS_MAX], committed;
    uint64_t installs, crashes, truncations, elections, changes, rollbacks, transfers, torn;
};

uint64_t rnd(struct cluster *c, uint64_t below);
void event_push(struct cluster *c, struct event *e, uint64_t at);
struct event *event_new(enum event_kind kind, const struct cnode *to);
struct cnode *node_of(struct cluster *c, uint64_t id);
/* Life. */
struct cnode *node_create(struct cluster *c);
void node_start(struct cnode *n);
/* The write in flight may be durable in part. */
void node_crash(struct cnode *n);
void snapshot_create(struct cnode *n);
void cluster_run(struct cluster *c, uint64_t until);
/* The leader tells a node what is committed; it may arrive late. */
void cluster_tell(struct cnode *leader, struct cnode *to);
struct cnode *cluster_leader(struct cluster *c);
struct rlog_member member_make(uint64_t id, enum rlog_role role);
struct rlog_entry entry_make(enum rlog_entry_type type, struct bytes data);
struct cluster *cluster_new(uint64_t seed, unsigned n_initial_members);
void cluster_free(struct cluster *c);
enum status cluster_submit(struct cnode *n, uint64_t value);

#endif
