/* Random bytes, hashes, wrapped replies. */
#ifndef HOLDFAST_API_TOOLS_TOOLS_H
#define HOLDFAST_API_TOOLS_TOOLS_H

#include "router/req_node.h"

extern const struct module tools_module;

extern const struct route_table tools_random_table;
extern const struct route_table tools_wrapping_table;

#endif
