/* Keys: initialisation, seals, key shares, their ceremonies and rotation. */
#ifndef HOLDFAST_API_SEAL_SEAL_H
#define HOLDFAST_API_SEAL_SEAL_H

#include "router/req_node.h"

extern const struct module seal_module;

extern const struct route_table seal_dr_token_table;
extern const struct route_table seal_generate_root_table;
extern const struct route_table seal_init_table;
extern const struct route_table seal_rekey_backup_table;
extern const struct route_table seal_rekey_table;
extern const struct route_table seal_rotate_table;
extern const struct route_table seal_status_table;

#endif
