/* Paths of the upstream product that this server does not implement. */
#ifndef HOLDFAST_API_ABSENT_ABSENT_H
#define HOLDFAST_API_ABSENT_ABSENT_H

#include "router/req_node.h"

extern const struct module absent_module;

extern const struct route_table absent_paths_table;

#endif
