/* Leases of a request: where it looks for them, and its reply with one. */
#ifndef HOLDFAST_ROUTER_REQ_LEASE_H
#define HOLDFAST_ROUTER_REQ_LEASE_H

#include "lease/lease.h"
#include "router/request/req.h"

/* Where and when this request looks for leases, with the kinds of all modules. ST_NOMEM. */
NODISCARD enum status req_lease_scope(struct req *req, struct lease_scope *ret_scope);

/* lease_create for the client of this request, below the path of the request. ST_BUSY, with an
 * error that says why: the cluster has not the feature level yet. */
NODISCARD enum status req_lease_create(struct req *req, struct lease *lease);

/* The envelope's lease_id, renewable and lease_duration, after the data of the reply or without
 * data. The lease is borrowed until the reply is made. */
void req_reply_lease(struct req *req, const struct lease *lease);

#endif
