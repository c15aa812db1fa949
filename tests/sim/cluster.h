/* One simulated cluster: nodes running the program's replica, clients, an administrator, faults. */
#ifndef HOLDFAST_SIM_CLUSTER_H
#define HOLDFAST_SIM_CLUSTER_H

#include "check.h"
#include "lin.h"
#include "profile.h"
#include "raft/replica/rlog.h"
#include "sim_env.h"
#include "sim_net.h"
#include "state/state_core.h"

enum {
    SIM_SEALS = 3,
    SIM_WATCHED = 2, /* registers that are watched */
};

struct cluster;
struct clients;
struct pair;
struct front;
struct acl_cache;
struct token_cache;
struct trail_devices;
struct trail_service;
struct trails;
struct watch_seen;
struct watch_service;

enum node_state {
    NODE_ABSENT, /* never used, or wiped */
    NODE_DOWN,   /* no process; will be started again */
    NODE_UP,
    NODE_GONE /* removed from the cluster and switched off */
};

struct node {
    struct cluster *cluster;
    unsigned slot;
    char name[16];
    enum node_state state;
    uint64_t id;      /* raft id of this incarnation of the disk */
    uint64_t process; /* number of the running process, 0 when there is none */
    const char *dir;  /* folder of its replica on its disk */
    bool ghost;       /* of a cluster that was recovered without it: no client asks it */
    bool initial;     /* the first incarnation of an initial member */
    bool started;     /* successfully, at least once on this disk */
    bool outdated;    /* stops because of an entry of a later format */
    uint16_t feature; /* feature level that its build understands; 0: not chosen yet */
    bool late;        /* the level rose while it was no member: it may stop and be upgraded */
    bool fatal, looked_at;
    bool stopping;    /* takes no more requests; when those it has are answered … */
    bool closing;     /* … its replica closes */
    uint64_t down_ns; /* after a proper stop */
    struct reason reason;
    uint64_t replaces;        /* id that this incarnation takes the place of, 0 when settled */
    bool damaged;             /* since this incarnation began */
    bool strays;              /* … by a write that goes astray; a node need not notice */
    uint64_t injected_before; /* fs.injected when the process began */
    struct sim_fs fs;
    struct sim_env env;
    struct sim_clock clock;
    struct rlog *rlog;
    struct barrier *barrier;
    struct state_log log;
    void (*propose)(struct state_log *log, struct rlog_propose *p); /* the log's own */
    struct state *service;
    struct token_cache *tokens;          /* cache of one worker; NULL: no client has tokens */
    struct acl_cache *acls;              /* cache of one worker; NULL: no client has tokens */
    struct acl_cache *registry_acls;     /* the same of policies of the registry */
    struct trail_service *trail;         /* NULL: no client's requests are recorded */
    struct trail_devices *trail_devices; /* devices of the machine; NULL: no device */
    struct watch_service *watch;         /* NULL: nothing is watched */
    unsigned requests;                   /* under way */
    unsigned exchanging;                 /* how many; there is one staged tree */
    bool may_unseal;
    struct event restart, switch_off;
    bool removed;                             /* from the cluster: its id is used up */
    uint64_t peers[SLOTS + RLOG_MEMBERS_MAX]; /* ids it may send to */
    unsigned n_peers;
    struct node_seen seen; /* for the checks */
};

/* What a run came to; adds up over runs. */
struct tally {
    uint64_t runs, ops, ops_ok, ops_unknown, ops_failed, faults[FAULTS], admins[ADMINS];
    uint64_t elections, frames, torn_writes, virtual_ms, events, applied;
    uint64_t snapshots_created, lin_too_hard, restarts, rejoins, replaced_ok, repeated, reruns;
    uint64_t token_ops, token_ok, token_refused;
    uint64_t reached[REACHES];
};

void tallies_add(struct tally *sum, const struct tally *one); /* campaign.c */

struct administrator {
    struct event tick;
    struct rlog_admin call;
    bool busy;
    enum status last; /* how the last one ended */
    bool deaf;        /* to answers: what was asked may have happened */
    uint64_t process; /* of the node it was asked of */
    enum admin_act what;
    unsigned slot; /* concerned */
    uint64_t started_ns;
};

struct cluster {
    struct core *core; /* of the run: two clusters share it */
    struct pair *pair; /* NULL: a cluster of its own */
    unsigned site;     /* number in the pair */
    struct profile profile;
    struct rng rng; /* of the scenario */
    struct sim_net net;
    struct node nodes[SLOTS];
    struct check check;
    struct administrator admin;
    struct event nemesis, net_calm, exchange, hostile;
    struct rng lies; /* of the hostile peer */
    struct clients *clients;
    struct front *front;
    struct trails *trails;
    struct watch_seen *watch; /* by every watcher; NULL: nothing yet */
    struct event sweep;       /* of tokens */
    struct event level;       /* the leader looks whether the feature level can rise */
    struct rng levels;        /* of the nodes' builds */
    uint16_t level_proposed;
    uint64_t raising; /* the process whose proposal raises the level; 0: none */
    bool calm;        /* faults are over */
    bool slow;        /* the run goes on because too little happened */
    /* Set: the next one to lead in a newer term, or the next leader to commit a change, dies. */
    bool leader_dies, change_kills;
    struct event death;
    struct node *dying;
    uint64_t processes;
    uint8_t id[16];
    struct seal seals[SIM_SEALS]; /* the same for every node; the cluster begins with the first */
    struct tally tally;
};

/* A stream of randomness. Those of the first cluster are those of a cluster of its own. */
static inline uint64_t cluster_stream(const struct cluster *c, uint64_t stream)
{
    return c->site == 0 ? stream : hash_mix(stream, c->site);
}

/* seals.c: the seals between which an operator moves the cluster. The shares of each combine to the
 * same key. */
extern const uint8_t sim_shares_key[SEAL_KEY_BYTES];
void seals_init(struct cluster *c);
/* The seal of a stored one. */
const struct seal *seals_of(const struct cluster *c, const struct seal_info *info);
/* Stage the move to the seal of number `to`, or to the next one when that is the present one. */
NODISCARD enum status seals_migrate(struct cluster *c, struct state_txn *txn, uint64_t to);
/* Unseal by the seal that the state names, and fail unless it is the only one that opens, and the
 * recovery key exists exactly while it is static. */
void seals_unseal(struct node *n);
/* Fail unless the stored seal and the recovery key belong together, at the end. */
void seals_check(struct node *n, struct state_txn *txn);

/* node.c */
void node_init(struct cluster *c, unsigned slot);
void node_boot(struct node *n);
void node_power_off(struct node *n, uint64_t down_ns); /* unsynced writes are lost */
void node_kill(struct node *n, uint64_t down_ns);      /* unsynced writes stay */
void node_halt(struct node *n, uint64_t down_ns);      /* a proper stop; it may take a moment */
void node_blank(struct node *n); /* a new machine with an empty disk and an id never used */
/* n's connection to `by` is reset, and a new one refused. */
void node_refused(struct node *n, const struct node *by);
bool node_may_be_damaged(struct node *n);
struct node *node_by_id(struct cluster *c, uint64_t id);
struct node *cluster_leader(struct cluster *c); /* newest term; NULL when there is none */
uint64_t cluster_fresh_id(struct cluster *c);

/* admin.c */
void admin_start(struct cluster *c);
/* Ask for anything that must happen before the cluster is whole; false when nothing is left. */
bool admin_repair(struct cluster *c);
void admin_add_voter(struct cluster *c);
/* Ask that node, whatever it is; admin.busy until it is done. */
void admin_ask_add(struct cluster *c, struct node *asked, struct node *member, enum rlog_role role);
void admin_ask_transfer(struct cluster *c, struct node *asked); /* to the best voter */
void admin_ask_remove(struct cluster *c, struct node *asked, struct node *member);
void admin_ask_demote(struct cluster *c, struct node *asked, struct node *member);
struct node *admin_newcomer(struct cluster *c); /* runs and is no member; NULL: none could start */
void admin_forget(struct cluster *c, uint64_t process); /* that process is gone */

/* nemesis.c */
void nemesis_kill_soon(struct cluster *c, struct node *n); /* it stays off */
void nemesis_start(struct cluster *c);
void nemesis_stop(struct cluster *c);
void nemesis_isolate(struct cluster *c, const struct node *n);

/* client.c */
void clients_start(struct cluster *c);
/* Every client has had a write acknowledged since clients_mark. */
void clients_mark(struct cluster *c);
bool clients_served(const struct cluster *c);
/* Write through the leader, unless that is under way; true when one was acknowledged since
 * clients_mark. */
bool clients_probe(struct cluster *c, const struct node *leader);
void clients_stop(struct cluster *c);
bool clients_idle(const struct cluster *c);
bool clients_initialized(const struct cluster *c); /* values can be stored */
/* A node to ask; draws from `r`. */
unsigned clients_choose_slot(struct cluster *c, struct rng *r);
void clients_check(struct cluster *c); /* histories, at the end */

/* front.c: clients with tokens. */
void front_start(struct cluster *c);
void front_stop(struct cluster *c);
bool front_idle(const struct cluster *c);
void front_check(struct cluster *c); /* judges the replies that they got, at the end */

/* ending.c: arrange what the profile says. */
void ending_run(struct cluster *c);

/* recover.c: of five voters, three are lost for good. */
void recover_majority(struct cluster *c, struct node *const *voters);
/* stage.c */
void exchange_begin(struct cluster *c);
/* level.c */
void level_start(struct cluster *c);
void level_choose(struct node *n); /* the build of the process that starts */
void level_check(struct node *n);
/* hostile.c */
void hostile_start(struct cluster *c);

/* run.c */
void cluster_run_for(struct cluster *c, uint64_t ns);
void cluster_start_all(struct cluster *c);
/* Until there is a leader and every client was served; the run fails when it takes too long. */
void cluster_await_service(struct cluster *c, const char *when);
struct outcome {
    struct tally tally;
    uint64_t hash;
};
/* Of a cluster with its core and profile: start nodes, clients, faults. */
void cluster_begin(struct cluster *c);
/* Repair what is broken; then no client asks any more. */
void cluster_stop(struct cluster *c);
void cluster_await_converged(struct cluster *c);
void cluster_result(struct cluster *c, struct outcome *ret_outcome);
uint64_t cluster_faults(const struct cluster *c); /* so far */
/* The trace of a run that fails ends with the state of each node. */
void cluster_say_nodes(struct cluster *c);
/* Run to the end; leaves the process by core_fail when something is wrong. */
void cluster_run(uint64_t seed, const char *profile, bool verbose, struct outcome *ret_outcome);

#endif
