/* The checks before a promotion. */
#ifndef HOLDFAST_API_SYS_REPLICATION_SYS_DR_PREFLIGHT_H
#define HOLDFAST_API_SYS_REPLICATION_SYS_DR_PREFLIGHT_H

#include "api/sys/replication/sys_dr.h"

/* result: "ok"; "warning": worth to know; "forceable": a promotion is refused without `force`;
 * "blocked": a promotion is refused, or would make a primary that refuses every request. */
struct sys_dr_check {
    const char *check, *result, *details;
};
extern const struct schema sys_dr_check_schema;

struct sys_dr_preflight {
    bool ready; /* no check is forceable or blocked */
    struct sys_dr_check *items;
    unsigned n;
};

/* Check a secondary; `bearer` is the authority of the request, which was judged. ST_NOMEM; else as
 * audit_table.get and token_batch_open. */
NODISCARD enum status sys_dr_preflight(struct req *req, const struct dr_role *role,
                                       struct bytes bearer, struct sys_dr_preflight *ret);
/* Whether a secondary may be promoted without force: every write that was heard of is here, the
 * roots did not differ, and the primary is silent. Two primaries lose writes. ST_BUSY with the
 * request's error; ST_NOMEM. */
NODISCARD enum status sys_dr_caught_up(struct req *req);
/* Whether a promotion is only to be checked: `body` says so, or the query "preflight". ST_INVALID:
 * the query has it several times. */
NODISCARD enum status sys_dr_preflight_asked(struct req *req, bool body, bool *ret_asked);

#endif
