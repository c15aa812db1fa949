/* Disaster recovery on this node, as the threads of the link share it: the role and the addresses
 * of this cluster, and the facts about the other one. The part (dr.h) owns it. */
#ifndef HOLDFAST_CLUSTER_DR_SITE_H
#define HOLDFAST_CLUSTER_DR_SITE_H

#include "base/list.h"
#include "cluster/dr/counts.h"
#include "cluster/dr/epoch.h"
#include "cluster/dr/hold.h"
#include "cluster/dr/live.h"
#include "cluster/dr/renewal.h"
#include "cluster/dr/role.h"
#include "cluster/dr/settings.h"
#include "cluster/membership/part.h"

struct dr {
    struct part_host *host;
    struct dr_role role; /* the role at `seen` */
    uint64_t seen;       /* newest local version of the record when it was read; 0: never */
    uint64_t trusted;    /* version of the authority that the cluster port trusts; 0: none */
    struct mesh *mesh;   /* the cluster port that was told of it */
    uint64_t set_seen;   /* newest local version of the settings when they were read */
    bool sync;           /* this cluster is a primary in sync mode, perhaps a superseded one */
    uint64_t listed;     /* newest version of the secondaries' records when they were listed */
    struct dr_live live;
    struct dr_epochs epochs;
    struct dr_renewal renewal;
    struct dr_holds holds;
    struct dr_counts counts;
    _Atomic uint64_t bandwidth; /* bytes a second to one secondary; 0: no bound */
    struct list sessions;
    unsigned n_sessions;
    atomic_bool drills;     /* a drill runs (drill/drill.h) */
    _Atomic uint64_t files; /* number of files made, for their names */

    pthread_mutex_t lock;
    bool open;
    struct dr_addresses addresses; /* cluster ports of the members; guarded by the lock */
    atomic_bool kept;              /* this node is active, and its service answers renewals */
};

/* The newest local version at which the role changed. */
uint64_t dr_role_version(const struct store_pin *pin);
/* The same for the settings. */
uint64_t dr_settings_version(const struct store_pin *pin);
/* As dr_live_conflict, and count a conflict that begins. Any thread. */
void dr_note_conflict(struct dr *dr, uint64_t epoch, const char *source);
/* Copy the addresses of the members. Any thread. */
void dr_addresses_of(struct dr *dr, struct dr_addresses *ret);
/* Set the addresses. Raft thread. */
void dr_addresses_note(struct dr *dr, const struct dr_addresses *addresses);

#endif
