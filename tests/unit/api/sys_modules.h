/* The modules that serve sys/, in the order of src/server/modules.c. */
#ifndef HOLDFAST_TESTS_API_SYS_MODULES_H
#define HOLDFAST_TESTS_API_SYS_MODULES_H

#include "api/absent/absent.h"
#include "api/auditing/auditing.h"
#include "api/describe/describe.h"
#include "api/leases/leases.h"
#include "api/members/members.h"
#include "api/mounts/mounts.h"
#include "api/nodes/nodes.h"
#include "api/policies/policies.h"
#include "api/replication/replication.h"
#include "api/seal/seal.h"
#include "api/settings/settings.h"
#include "api/tools/tools.h"

#define SYS_MODULES                                                                            \
    &mounts_module, &seal_module, &members_module, &policies_module, &leases_module,           \
        &auditing_module, &replication_module, &nodes_module, &settings_module, &tools_module, \
        &describe_module, &absent_module

#endif
