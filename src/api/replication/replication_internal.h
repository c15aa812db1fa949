/* Shared by the files of this folder: disaster recovery between two clusters. */
#ifndef HOLDFAST_API_REPLICATION_REPLICATION_INTERNAL_H
#define HOLDFAST_API_REPLICATION_REPLICATION_INTERNAL_H

#include "api/replication/replication.h"
#include "cluster/dr/link/dr_frame.h"
#include "cluster/dr/role.h"
#include "router/req_dr.h"

/* Feature level of the cluster that disaster recovery needs. */
enum { SYS_DR_FEATURE = RLOG_FEATURE_DR };

/* Refuse a request of a namespace: the paths exist in the root namespace alone. ST_NOT_FOUND. */
NODISCARD enum status replication_in_root(struct req *req);

/* Read a cluster address, "host:port", also behind "https://"; ret is that without the latter.
 * Empty stays empty. ST_INVALID: another form. */
NODISCARD enum status replication_address(const char *text, char ret[DR_ROLE_ADDRESS_MAX]);

/* The same for primary_cluster_addr. ST_INVALID with the request's error. */
NODISCARD enum status replication_own_address(struct req *req, const char *text,
                                              char ret[DR_ROLE_ADDRESS_MAX]);

/* Reply of a change of the role: no data, and a warning that says what `is` done. */
NODISCARD enum status replication_warn(struct req *req, const char *is);

/* Finish a change of the role: `st` is the result of a function of role.h, `why` its reason. */
NODISCARD enum status replication_result(struct req *req, enum status st, const struct reason *why);

/* replication_primary.c: whether this cluster is a primary, also a superseded one. ST_INVALID with
 * the request's error; ST_NOT_FOUND in a namespace. */
NODISCARD enum status replication_need_primary(struct req *req, struct dr_role *ret_role);

/* replication_secondary.c: whether this cluster is a secondary: only then did the body's token
 * count. ST_INVALID with the request's error. */
NODISCARD enum status replication_need_secondary(struct req *req, struct dr_role *ret_role);

/* replication_secondaries.c, on a primary: the name of a secondary in this cluster and its set.
 * ST_NOMEM.
 */
NODISCARD enum status replication_name(struct req *req, const struct dr_role *role, const char *id,
                                       struct dr_name *ret_name);
/* The cluster ports of the primary: the configured one, the active node's, those of the others.
 * ST_BUSY with the request's error: none is known. ST_NOMEM. */
NODISCARD enum status replication_addresses(struct req *req, const struct dr_role *role,
                                            struct dr_addresses *ret);

#endif
