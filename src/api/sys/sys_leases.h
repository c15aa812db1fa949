/* Leases; part of sys.h. */
#ifndef HOLDFAST_API_SYS_SYS_LEASES_H
#define HOLDFAST_API_SYS_SYS_LEASES_H

#include "router/router.h"

struct sys_lease {
    const char *lease_id;
    int64_t increment;
    bool sync;
};
struct sys_leases_below {
    const char *prefix;
    bool sync;
};
struct sys_leases_count {
    const char *type;
};
struct sys_leases_all {
    const char *type;
    int64_t limit;
};
extern const struct schema sys_lease_schema, sys_leases_below_schema, sys_leases_count_schema,
    sys_leases_all_schema;
NODISCARD enum status sys_leases_all(struct req *req);
NODISCARD enum status sys_lease_lookup(struct req *req);
NODISCARD enum status sys_lease_list(struct req *req);
NODISCARD enum status sys_lease_renew(struct req *req);
NODISCARD enum status sys_lease_revoke(struct req *req);
NODISCARD enum status sys_leases_revoke_below(struct req *req);
NODISCARD enum status sys_leases_tidy(struct req *req);
NODISCARD enum status sys_leases_count(struct req *req);

#endif
