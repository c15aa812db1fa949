/* Two clusters ("sites") of one replication set on one virtual time, and the link between them.
 *
 * The program's own code runs on the nodes of both: roles (cluster/dr/role.h), the WAL and its
 * application (raft/txn), staged trees, the keys of a secondary (state/state_dr.h), duties. The
 * simulator plays the operator who changes roles, and the link: what serve/ and follow/ do over TLS
 * is done here by events, with the same transactions.
 *
 *   operator (pair_operator.c)  one change of a role after the other, whatever crashes meanwhile
 *   stream (pair_stream.c)      runs of the WAL, some of them twice or too early
 *   sync (pair_sync.c)          the whole state, staged and swapped in
 *   load (pair_load.c)          writes of the primary; duties of both sites
 *   check (pair_check.c)        what must hold in every published state, and at the end
 *
 * Clients of the first site (client.h) are served while it is the first primary. */
#ifndef HOLDFAST_SIM_PAIR_H
#define HOLDFAST_SIM_PAIR_H

#include "cluster.h"
#include "cluster/dr/role.h"

enum { SITES = 2, PAIR_WAL_BYTES = 12 * 1024, PAIR_EPOCHS_MAX = 128 };

/* Written by the first primary, and never again. */
#define PAIR_GENESIS "s/pair/genesis"

struct pair_link;
struct pair_load;
struct pair_operator;
struct pair_sync;

struct pair {
    struct core *core;
    struct cluster sites[SITES];
    struct rng rng;
    struct list calls; /* under way */
    struct pair_operator *operator;
    struct pair_link *link;
    struct pair_sync *sync;
    struct pair_load *load;
    unsigned newest;                      /* site of the newest primary */
    uint64_t epoch;                       /* of the newest primary; 0: there was none */
    unsigned primary_of[PAIR_EPOCHS_MAX]; /* by epoch: number of the site and 1 */
    uint64_t began_at[PAIR_EPOCHS_MAX];   /* by epoch: version at the promotion */
    uint64_t confirmed[SITES];            /* newest version that the site has told to have stored */
    uint64_t genesis;
    bool blurred; /* versions of keys may differ: the last sync was of a difference */
    bool calm;    /* faults are over: the operator only mends */
};

/* What an operator sees at the ready leader of a site. */
struct pair_view {
    struct node *leader;
    uint64_t version, role_at; /* role_at: version of the role's record */
    struct dr_role role;
};
/* False: no leader is ready, or it answers nothing now. */
bool pair_look(struct cluster *site, struct pair_view *ret_view);
/* The role in the newest state of a node. False: it cannot be read now. */
bool pair_role(struct node *n, struct dr_role *ret_role, uint64_t *ret_version);
/* A node of the site that runs, by chance; NULL: none. */
struct node *pair_any_node(struct cluster *site);

/* One transaction on a node, in the simulator's memory. */
struct pair_call {
    struct list link; /* private */
    struct node *node;
    uint64_t process; /* 0: not under way */
    /* Stage the transaction; ST_INVALID and others end the call. Again after a conflict. */
    enum status (*stage)(struct pair_call *call, struct state_txn *txn, int64_t now_ms);
    /* In place of `stage`: operations that no handler stages. */
    enum status (*build)(struct pair_call *call, struct rlog_txn_builder *b);
    /* ST_OK: applied. ST_CONFLICT: refused at apply. ST_UNKNOWN_OUTCOME: or the process ended. It
     * begins no other call. */
    void (*done)(struct pair_call *call, enum status st);
    uint64_t version; /* after ST_OK: of the state */
    uint64_t tree;    /* after ST_OK of `build`: number of the staged tree */
};
/* Not while it is under way. */
void pair_call_begin(struct pair *p, struct pair_call *call, struct node *n);
/* A process of the site has ended. */
void pair_forget(struct cluster *site, uint64_t process);

static inline struct cluster *pair_other(const struct cluster *site)
{
    return &site->pair->sites[1 - site->site];
}

/* Whether clients of the site are served by this node: it is of the first primary. */
bool pair_serves(struct node *n);

void pair_operator_start(struct pair *p);
bool pair_operator_rests(const struct pair *p); /* no change is under way */
void pair_link_start(struct pair *p);
/* Nothing passes for a while. */
void pair_link_away(struct pair *p, uint64_t ns);
/* The root key of the primary, as an activation brings it, for the next sync. False: the primary is
 * sealed. */
bool pair_sync_root(struct pair *p, struct node *primary);
void pair_sync_start(struct pair *p);
/* Go on with the sync of a secondary that is syncing. */
void pair_sync_step(struct pair_sync *s, const struct pair_view *secondary);
void pair_load_start(struct pair *p);
void pair_load_stop(struct pair *p);
bool pair_load_rests(const struct pair *p);
/* Every acknowledged write is there, unless it came after the promotion of the other site. */
void pair_load_check(struct pair *p);

/* After a batch was published. */
void pair_check(struct node *n, const struct store_pin *pin);
/* Whether a write of the first primary at this version is in the state at the end. */
bool pair_keeps(const struct pair *p, uint64_t epoch, uint64_t version);
/* Both sites have the same state. False: not yet. */
bool pair_equal(struct pair *p, const char **ret_why);

/* pair.c: a run of two clusters. */
void pair_run(struct core *core, const struct profile *profile, struct outcome *ret_outcome);

#endif
