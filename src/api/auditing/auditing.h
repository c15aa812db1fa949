/* Audit devices and the headers that they record. */
#ifndef HOLDFAST_API_AUDITING_AUDITING_H
#define HOLDFAST_API_AUDITING_AUDITING_H

#include "router/req_node.h"

extern const struct module auditing_module;

extern const struct route_table auditing_devices_table;
extern const struct route_table auditing_headers_table;

#endif
