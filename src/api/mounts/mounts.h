/* Mounts: engines and auth methods by path. */
#ifndef HOLDFAST_API_MOUNTS_MOUNTS_H
#define HOLDFAST_API_MOUNTS_MOUNTS_H

#include "router/req_node.h"

extern const struct module mounts_module;

extern const struct route_table mounts_edit_table;
extern const struct route_table mounts_plugins_table;
extern const struct route_table mounts_remount_table;
extern const struct route_table mounts_show_table;

/* mounts_edit.c: stage the mounts that initialisation makes, of all modules. */
NODISCARD enum status mounts_defaults(struct req *req);

#endif
