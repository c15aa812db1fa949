/* Shared by the files about leases. */
#ifndef HOLDFAST_API_SYS_LEASE_SYS_LEASES_H
#define HOLDFAST_API_SYS_LEASE_SYS_LEASES_H

#include "router/request/req.h"

/* Check the parameter `type` of a listing. *ret_none: the request asks for irrevocable leases,
 * which do not exist. ST_INVALID with the request's error. */
NODISCARD enum status sys_lease_type(struct req *req, const char *type, bool *ret_none);

#endif
