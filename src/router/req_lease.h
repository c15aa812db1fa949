/* Leases of a request: where the request looks for leases, and the reply with a lease. */
#ifndef HOLDFAST_ROUTER_REQ_LEASE_H
#define HOLDFAST_ROUTER_REQ_LEASE_H

#include "lease/lease.h"
#include "router/request/req.h"

/* Set where and at what time this request looks for leases, with the lease kinds of all modules.
 * ST_NOMEM. */
NODISCARD enum status req_lease_scope(struct req *req, struct lease_scope *ret_scope);

/* Create a lease for the client of this request, below the path of the request, by lease_create.
 * ST_BUSY, with an error that says why: the cluster does not have the feature level yet. */
NODISCARD enum status req_lease_create(struct req *req, struct lease *lease);

/* Add the envelope's lease_id, renewable and lease_duration to the reply, which may have data or
 * none. The lease is borrowed until the reply is made. */
void req_reply_lease(struct req *req, const struct lease *lease);

#endif
