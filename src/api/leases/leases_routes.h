/* Shared by the files about leases. */
#ifndef HOLDFAST_API_LEASES_LEASES_ROUTES_H
#define HOLDFAST_API_LEASES_LEASES_ROUTES_H

#include "router/request/req.h"

/* Check the parameter `type` of a listing. *ret_none: the request asks for irrevocable leases,
 * which do not exist. ST_INVALID with the request's error. */
NODISCARD enum status leases_type(struct req *req, const char *type, bool *ret_none);

#endif
