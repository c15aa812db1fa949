/* The parts of the table of sys/. Inside src/api/sys. */
#ifndef HOLDFAST_API_SYS_SYS_TABLES_H
#define HOLDFAST_API_SYS_SYS_TABLES_H

#include "api/sys/sys.h"

extern const struct route_table sys_seal_table, sys_raft_table, sys_mount_table, sys_policy_table,
    sys_lease_table;

#endif
