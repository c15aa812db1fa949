/* The OpenAPI document. */
#ifndef HOLDFAST_API_DESCRIBE_DESCRIBE_H
#define HOLDFAST_API_DESCRIBE_DESCRIBE_H

#include "router/req_node.h"

extern const struct module describe_module;

extern const struct route_table describe_openapi_table;

#endif
