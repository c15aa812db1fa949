/* The checks before a promotion. */
#ifndef HOLDFAST_API_REPLICATION_REPLICATION_PREFLIGHT_H
#define HOLDFAST_API_REPLICATION_REPLICATION_PREFLIGHT_H

#include "api/replication/replication_internal.h"

/* result: "ok"; "warning": worth to know; "forceable": a promotion is refused without `force`;
 * "blocked": a promotion is refused, or would make a primary that refuses every request. */
struct replication_check {
    const char *check, *result, *details;
};
extern const struct schema replication_check_schema;

struct replication_preflight {
    bool ready; /* no check is forceable or blocked */
    struct replication_check *items;
    unsigned n;
};

/* Check a secondary; `bearer` is the authority of the request, which was judged. ST_NOMEM; else as
 * audit_table.get and token_batch_open. */
NODISCARD enum status replication_preflight(struct req *req, const struct dr_role *role,
                                            struct bytes bearer, struct replication_preflight *ret);
/* Whether a secondary may be promoted without force: all received writes are applied, the
 * roots did not differ, and the primary is silent. Two primaries lose writes. ST_BUSY with the
 * request's error; ST_NOMEM. */
NODISCARD enum status replication_caught_up(struct req *req);
/* Whether a promotion is only to be checked: `body` says so, or the query "preflight". ST_INVALID:
 * the query has it several times. */
NODISCARD enum status replication_preflight_asked(struct req *req, bool body, bool *ret_asked);

#endif
