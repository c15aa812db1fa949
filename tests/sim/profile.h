/* How hostile a run is. The seed decides; a named profile fixes a part. */
#ifndef HOLDFAST_SIM_PROFILE_H
#define HOLDFAST_SIM_PROFILE_H

#include "core.h"

enum fault {
    FAULT_POWER,     /* one node loses power */
    FAULT_KILL,      /* one process dies */
    FAULT_STOP,      /* one process is stopped properly */
    FAULT_ALL_POWER, /* every node loses power */
    FAULT_PAUSE,     /* one process does nothing for a while */
    FAULT_CUT,       /* links are cut for a while */
    FAULT_NET,       /* loss, delay and repetition for a while */
    FAULT_EIO,       /* a call to the disk fails */
    FAULT_SYNC,      /* a sync fails */
    FAULT_NO_SPACE,  /* a write finds no space */
    FAULT_FULL,      /* a disk is full for a while */
    FAULT_SLOW,      /* a disk is slow for a while */
    FAULT_NTH_CALL,  /* the power goes at a certain call to the disk */
    FAULT_CLOCK,     /* a wall clock jumps */
    FAULT_DAMAGE,    /* bytes on a stopped node's disk change */
    FAULT_STRAY,     /* a write is lost, or put elsewhere, though it was confirmed */
    FAULTS
};

enum admin_act {
    ADMIN_ADD,
    ADMIN_PROMOTE,
    ADMIN_REMOVE,
    ADMIN_REPLACE,
    ADMIN_TRANSFER,
    ADMIN_SNAPSHOT,
    ADMIN_DEMOTE, /* a voter becomes a standby */
    ADMINS
};

/* What the calm after the faults begins with. Each leaves a minority of the voters switched off,
 * and the others must do without them. */
enum ending {
    ENDING_ALL,      /* everything runs */
    ENDING_MINORITY, /* any minority stays off */
    ENDING_USURPER,  /* a new leader dies at once, the one before it had entries of its own */
    ENDING_CHANGE,   /* the leader dies as soon as a new voter is committed */
    ENDING_DEMOTE,   /* the leader takes a vote and dies once one node knows whose */
    ENDING_RIVALS,   /* two leaders, one after the other, each change the members of four */
    ENDING_HANDOVER, /* leadership is moved again and again */
    ENDING_AMNESIA,  /* a voter loses entries that it acknowledged, the leader dies */
    ENDING_RECOVER,  /* a majority is lost for good */
    ENDINGS
};

struct profile {
    char name[24];
    unsigned n_initial_members, members_max;
    unsigned faults_s; /* how long faults go on */
    unsigned election_ms, heartbeat_ms;
    uint64_t snapshot_log_bytes, segment_bytes;
    unsigned snapshot_trailing;

    bool ordered;
    unsigned lose_permille, repeat_permille, late_permille;
    unsigned delay_ms_max, late_ms_max;

    uint64_t sync_ns_max;
    unsigned keep_permille;

    unsigned fault_every_ms, down_ms_max, cut_ms_max;
    unsigned leader_permille; /* how often a fault is aimed at the leader */
    unsigned refuse_permille; /* of cuts that answer in the name of those cut off */
    unsigned fault_weight[FAULTS];
    unsigned admin_every_ms;
    unsigned admin_weight[ADMINS];
    enum ending ending;

    unsigned exchange_every_ms; /* a staged tree is swapped in; 0: never */
    unsigned lie_every_ms;      /* a hostile frame; 0: never */
    uint64_t state_bytes_max;   /* 0: unbounded */
    unsigned older_permille;    /* of nodes that begin with an older build */

    bool pair;          /* two clusters of a replication set */
    unsigned fronts;    /* clients that show tokens; 0: none */
    bool leases;        /* they take leases, too */
    bool registry;      /* they use the registry, too */
    bool wraps;         /* they make batch tokens and wrap replies, too */
    bool watchers;      /* registers are watched on every node */
    unsigned recorders; /* clients whose requests are recorded; 0: none, and no audit devices */
    unsigned clients, think_ms_max, keys;
    unsigned value_bytes_max;
    unsigned lose_reply_permille;
    unsigned drift_ppm_max;
};

/* Everything drawn from `seed`, then changed as `name` says; "" and "any" change nothing. Each name
 * may end in "+audit": the requests of some clients are recorded, too. false: no such profile. */
bool profile_make(struct profile *p, const char *name, uint64_t seed);
/* Names, for help; NULL at the end. */
const char *profile_name(unsigned i);

#endif
