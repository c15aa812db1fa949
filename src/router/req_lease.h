/* Leases of a request: where the request looks for leases, and the reply with a lease. */
#ifndef HOLDFAST_ROUTER_REQ_LEASE_H
#define HOLDFAST_ROUTER_REQ_LEASE_H

#include "lease/lease.h"
#include "router/request/req.h"

/* Set where and at what time this request looks for leases, with the lease kinds of all modules.
 * ST_NOMEM. */
NODISCARD enum status req_lease_scope(struct req *req, struct lease_scope *ret_scope);

/* The limits of the mount for leases. */
struct lease_limits req_lease_limits(const struct mount *mount);

/* The end of a new lease of this request's mount, in ms: for `expire_ms`. `wanted_s` is the TTL
 * that the request names, own_s and own_max_s those of the kind; 0: none. If the TTL is cut, the
 * reply warns of it. */
int64_t req_lease_end_ms(struct req *req, int64_t wanted_s, int64_t own_s, int64_t own_max_s);

/* Warn the client that a limit cut the lease, if one did. */
void req_lease_warn(struct req *req, const struct lease_cut *cut);

/* Create a lease for the client of this request, below the path of the request, by lease_create.
 * The caller sets kind, expire_ms, renewable and data; the token of the request has the lease. A
 * lease of a batch token is cut to the life of that token, with a warning. With an error that says
 * why: ST_BUSY: the cluster does not have the feature level yet. ST_INVALID: the request is the
 * last use of its token. ST_TOO_BIG: the data is longer than LEASE_DATA_MAX. ST_LIMITED: a quota of
 * leases is exceeded. */
NODISCARD enum status req_lease_create(struct req *req, struct lease *lease);

/* Add the envelope's lease_id, renewable and lease_duration to the reply, which may have data or
 * none. The lease is borrowed until the reply is made. */
void req_reply_lease(struct req *req, const struct lease *lease);

#endif
