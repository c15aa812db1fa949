/* Shared by expiry.c and expiry_upkeep.c. */
#ifndef HOLDFAST_LEASE_EXPIRY_INTERNAL_H
#define HOLDFAST_LEASE_EXPIRY_INTERNAL_H

#include "lease/expiry.h"

#define EXPIRY_INDEX "s/expire/"
#define EXPIRY_UNFINISHED "s/unfinished/"

/* The parts of a key after its prefix. `time` is empty in the key of a mark. */
struct expiry_name {
    const char *time, *ns, *kind, *id;
};
/* The key "PREFIX[TIME/]NS/KIND/ID", zero-terminated, in the arena. ST_NOMEM. */
NODISCARD enum status expiry_join(struct arena *arena, const char *prefix,
                                  const struct expiry_name *name, struct bytes *ret_key);

#endif
