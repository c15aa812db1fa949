/* The KV engine, version 1: any JSON object at any path. */
#ifndef HOLDFAST_API_KV_KV_H
#define HOLDFAST_API_KV_KV_H

#include "router/route.h"

extern const struct route_api kv_api;

/* lease_duration of a read where the object does not say: 768 hours. */
enum { KV_LEASE_S = 2764800 };

#endif
