/* Settings of the cluster: CORS, headers of web pages, quotas. */
#ifndef HOLDFAST_API_SETTINGS_SETTINGS_H
#define HOLDFAST_API_SETTINGS_SETTINGS_H

#include "router/req_node.h"

extern const struct module settings_module;

extern const struct route_table settings_cors_table;
extern const struct route_table settings_quota_table;
extern const struct route_table settings_ui_table;

#endif
