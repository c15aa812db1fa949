/* Requests of a secondary to its primary, which block. For `prepare` and `outside`
 * steps. Results lie in the arena of the request. */
#ifndef HOLDFAST_API_REPLICATION_REPLICATION_FETCH_H
#define HOLDFAST_API_REPLICATION_REPLICATION_FETCH_H

#include "api/replication/replication_internal.h"
#include "cluster/dr/activation.h"
#include "cluster/dr/records.h"

/* A wrapping token, and where to unwrap it. */
struct replication_wrapped {
    struct bytes token; /* JSON Web Token */
    const char *primary_api_addr, *ca_file, *ca_path;
};
/* Unwrap the bundle at the API of the primary. ST_INVALID, ST_INTERNAL with the request's error.
 * The caller calls dr_bundle_done, also after a failure. */
NODISCARD enum status replication_unwrap(struct req *req, const struct replication_wrapped *from,
                                         struct dr_bundle *ret_bundle);

/* Ask the cluster ports of the primary for the activation, one after the other, until one answers
 * or SYS_DR_PATIENCE_MS are over. ST_INVALID: the primary refuses; ST_BAD_GATEWAY: none answers;
 * both with the request's error. */
enum { SYS_DR_PATIENCE_MS = 25000 };
NODISCARD enum status replication_ask(struct req *req, const struct dr_pending *pending,
                                      struct bytes body, struct bytes *ret_answer,
                                      const char **ret_address);

/* Find the first address that is a cluster port under the authority `ca` (PEM). ST_BAD_GATEWAY with
 * the request's error: none is. */
NODISCARD enum status replication_find(struct req *req, struct bytes ca,
                                       const struct dr_addresses *addresses, unsigned *ret_at);

#endif
