/* Shared by the files of this folder: disaster recovery between two clusters. */
#ifndef HOLDFAST_API_SYS_REPLICATION_SYS_DR_H
#define HOLDFAST_API_SYS_REPLICATION_SYS_DR_H

#include "api/sys/sys.h"
#include "cluster/dr/link/dr_frame.h"
#include "cluster/dr/role.h"
#include "router/req_dr.h"

/* Feature level of the cluster that disaster recovery needs. */
enum { SYS_DR_FEATURE = RLOG_FEATURE_DR };

/* The member of a body that authorises on a DR secondary. */
#define SYS_DR_TOKEN_FIELD(type)                                          \
    FIELD(type, dr_operation_token, STRING, .preset = "", .hidden = true, \
          .help = "The DR operation token, or a batch token of the primary that may do this.")

/* The body of a request that carries nothing but its authority. */
struct sys_dr_authority {
    const char *dr_operation_token;
};
extern const struct schema sys_dr_authority_schema;

/* Refuse a request of a namespace: the paths exist in the root namespace alone. ST_NOT_FOUND. */
NODISCARD enum status sys_dr_in_root(struct req *req);

/* Read a cluster address, "host:port", also behind "https://"; ret is that without the latter.
 * Empty stays empty. ST_INVALID: another form. */
NODISCARD enum status sys_dr_address(const char *text, char ret[DR_ROLE_ADDRESS_MAX]);

/* The same for primary_cluster_addr. ST_INVALID with the request's error. */
NODISCARD enum status sys_dr_own_address(struct req *req, const char *text,
                                         char ret[DR_ROLE_ADDRESS_MAX]);

/* Reply of a change of the role: no data, and a warning that says what `is` done. */
NODISCARD enum status sys_dr_warn(struct req *req, const char *is);

/* Finish a change of the role: `st` is the result of a function of role.h, `why` its reason. */
NODISCARD enum status sys_dr_result(struct req *req, enum status st, const struct reason *why);

/* sys_dr_primary.c: whether this cluster is a primary, also a superseded one. ST_INVALID with the
 * request's error; ST_NOT_FOUND in a namespace. */
NODISCARD enum status sys_dr_need_primary(struct req *req, struct dr_role *ret_role);

/* sys_dr_secondary.c: whether this cluster is a secondary: only then did the body's token count.
 * ST_INVALID with the request's error. */
NODISCARD enum status sys_dr_need_secondary(struct req *req, struct dr_role *ret_role);

/* sys_dr_secondaries.c, on a primary: the name of a secondary in this cluster and its set.
 * ST_NOMEM.
 */
NODISCARD enum status sys_dr_name(struct req *req, const struct dr_role *role, const char *id,
                                  struct dr_name *ret_name);
/* The cluster ports of the primary: the configured one, the active node's, those of the others.
 * ST_BUSY with the request's error: none is known. ST_NOMEM. */
NODISCARD enum status sys_dr_addresses(struct req *req, const struct dr_role *role,
                                       struct dr_addresses *ret);

/* The link to the other cluster, as health tells it: of a primary, its secondary that lags most.
 * Zeros without disaster recovery. */
struct sys_dr_health {
    bool takes_part;
    uint64_t last_wal;
    int64_t canary_age_ms, clock_skew_ms, echo_duration_ms;
};
struct sys_dr_health sys_dr_health(struct req *req, const struct node_status *node);

#endif
