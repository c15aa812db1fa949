/* Shared by the files of this folder. */
#ifndef HOLDFAST_AUTH_IDENTITY_IDENTITY_INTERNAL_H
#define HOLDFAST_AUTH_IDENTITY_IDENTITY_INTERNAL_H

#include "auth/identity/identity.h"

/* An entity that is being read: what the result holds lies in `arena`. */
struct identity_reading {
    struct state_txn *txn;
    const char *ns;
    struct arena *arena;
    struct identity *out;
    struct identity_group *groups; /* out->groups, with room for more */
    struct state_stamp *stamps;    /* of the groups */
    size_t room;
};
/* Fill *out by the id of an entity, or of one that was merged. Statuses as identity_read. */
NODISCARD enum status identity_gather(struct identity_reading *reading, const char *id);

#endif
