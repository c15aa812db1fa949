/* Replicas on virtual time: an env, files in memory and a network for each, one thread. For tests
 * of what a replica does; faults of disk and process are tests/sim's. */
#ifndef HOLDFAST_TESTS_WORLD_H
#define HOLDFAST_TESTS_WORLD_H

#include "base/mem.h"
#include "base/trace.h"
#include "raft/replica/rlog.h"

#include <stdio.h>
#include <stdlib.h>

enum { WORLD_NODES = 8, WORLD_FILES = 256 };

struct world;

struct wfile {
    char path[128];
    uint8_t *data;
    size_t size, cap;
    unsigned refs; /* the name and each handle */
    bool locked;
};

struct whandle {
    struct fs_file base;
    struct wfile *file;
    bool lock;
};

struct wenv {
    struct env env;
    struct fs fs;
    struct world *world;
    struct timer_heap timers;
    struct list tasks, works[LANES];
    uint64_t work_at[LANES];
    struct wfile *files[WORLD_FILES];
    int64_t skew_ms;
};

struct wnode {
    struct wenv e;
    uint64_t id;
    struct rlog *rlog;
    struct rlog_identity identity;
    bool up, failed, closed;
    char fatal[256];
    enum status fatal_why;
    struct rlog_member members[RLOG_MEMBERS_MAX];
    unsigned n_members, applied_calls;
    unsigned flushes, flushes_writing; /* of them, those while the log was written */
};

struct wframe {
    struct list link;
    uint64_t at, from, to;
    size_t len;
    uint8_t data[];
};

struct world {
    uint64_t now_ns, rng;
    struct wnode nodes[WORLD_NODES];
    unsigned n_nodes;
    struct list frames; /* by time */
    bool cut[WORLD_NODES + 1][WORLD_NODES + 1];
    unsigned loss; /* percent */
    uint64_t n_frames, bytes, bulk_delay_ms;
    struct rlog_options options; /* sizes and times for every node */
    struct rlog_member initial_members[WORLD_NODES];
    unsigned n_initial_members;
};

/* Clients that wait. */

struct wclient {
    struct rlog_propose p;
    struct rlog_read r;
    struct rlog_admin a;
    struct buf txn;
    bool done;
    enum status status;
    char response[64], conflict[64];
};

extern const struct fs_ops wfs_ops;
void wfile_unref(struct wfile *f);

uint64_t wrnd(struct world *w);
bool world_step(struct world *w, uint64_t until_ns);
void world_run(struct world *w, uint64_t ms);
struct rlog_member world_member(uint64_t id, enum rlog_role role);
struct wnode *wnode_create(struct world *w, uint64_t id);
struct rlog_options wnode_options(struct wnode *n);
enum status wnode_start(struct wnode *n, struct reason *reason);
void wnode_stop(struct wnode *n);
struct world *world_make(uint64_t seed,
                         unsigned n_initial_members); /* not started: set options first */
void world_start(struct world *w);
struct world *world_new(uint64_t seed, unsigned n_initial_members);
void world_free(struct world *w);
struct wnode *world_leader(struct world *w);
struct wnode *world_await_leader(struct world *w);
struct wnode *world_follower(struct world *w);
void wclient_read(struct rlog_read *r, enum status st);
void wclient_admin(struct rlog_admin *a, enum status st);
enum status wclient_wait(struct world *w, struct wclient *c);
void wclient_propose(struct wnode *n, struct wclient *c, struct rlog_txn_builder *b);
void wclient_put(struct wnode *n, struct wclient *c, const char *key, const char *value);
enum status world_put(struct wnode *n, const char *key, const char *value);
enum status world_read(struct wnode *n);
size_t world_heap_bytes(void); /* of the process, allocated now */
/* "" when absent. */
const char *world_get(struct wnode *n, const char *key);

#endif
