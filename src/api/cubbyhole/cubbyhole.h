/* The cubbyhole: a private tree of JSON objects for each service token, which nobody else can see
 * and which ends with its token. */
#ifndef HOLDFAST_API_CUBBYHOLE_CUBBYHOLE_H
#define HOLDFAST_API_CUBBYHOLE_CUBBYHOLE_H

#include "router/route.h"

extern const struct route_api cubbyhole_api;

#endif
