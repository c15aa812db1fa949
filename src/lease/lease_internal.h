/* Shared by the files of src/lease. */
#ifndef HOLDFAST_LEASE_LEASE_INTERNAL_H
#define HOLDFAST_LEASE_LEASE_INTERNAL_H

#include "lease/lease.h"

/* Kinds of keys (state/ns_key.h). */
#define LEASE_INDEX "lease"
#define LEASE_TOKENS "token-lease"
#define LEASE_SKIPPED "lease-skipped"

enum { LEASE_NOTE_MS = 60 * 1000 }; /* life of a note below lease-skipped/ */

/* Whether a failure is one of the transaction, not of the lease: the transaction fails, and a later
 * one may succeed. */
static inline bool lease_is_passing(enum status st)
{
    return st == ST_NOMEM || st == ST_SEALED || st == ST_BUSY || st == ST_CRYPTO;
}

/* The lease as stored, whether or not it is still good. ST_NOT_FOUND; else as lease_find. */
NODISCARD enum status lease_load(const struct lease_scope *scope, const char *id,
                                 struct lease *ret_lease);

#endif
