/* Quotas of leases: how many leases may exist, by path.
 *
 * Every handler that creates a lease calls req_lease_quota first. The counter of a quota is the
 * number of leases whose ids begin with the path of the quota, also of leases that a more specific
 * quota limits. Reading the counter costs as much as reading one key.
 *
 * 1. A changed quota holds for the next request.
 * 2. Up to QUOTA_LEASES_NEAR leases below a limit, the leases below the path become a precondition
 *    of the request, so two requests do not both take the last place. Further below, they do not:
 *    requests that create leases need not wait for each other. So a limit is exceeded only by
 *    requests that are still under way after QUOTA_LEASES_NEAR others were served.
 * 3. Requests of root tokens are exempt, so an operator can always repair the cluster. A token
 *    without an end is no lease. A batch token is no lease either, but is refused as a lease is. */
#ifndef HOLDFAST_ROUTER_QUOTA_LEASE_H
#define HOLDFAST_ROUTER_QUOTA_LEASE_H

#include "router/quota_rule.h"

enum { QUOTA_LEASES_NEAR = 256 };

/* Feature level that a cluster needs for quotas of leases: builds before know none. */
enum { QUOTA_LEASES_FEATURE = 2 };

/* The quotas of leases as one worker knows them. */
struct lease_quotas;
NODISCARD enum status lease_quotas_new(struct lease_quotas **ret_quotas);
void lease_quotas_free(struct lease_quotas *quotas); /* NULL is allowed */

/* Check that this request may create a lease below its path, and remember that it does. ST_LIMITED
 * with the request's error; ST_SEALED, ST_CORRUPT, ST_NOMEM, ST_BUSY. */
NODISCARD enum status req_lease_quota(struct req *req);

/* The counter of a quota with this path, as far as `txn` shows. ST_NOMEM. */
NODISCARD enum status quota_lease_counter(struct state_txn *txn, const char *ns, struct bytes path,
                                          uint64_t *ret_n);

#endif
