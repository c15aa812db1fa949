/* The tables of the configuration's fields, one for each block. The reader of the file and the
 * comparison of two configurations use them; docs/configuration.md is generated from them. */
#ifndef HOLDFAST_CONFIG_CONFIG_FIELDS_H
#define HOLDFAST_CONFIG_CONFIG_FIELDS_H

#include "config/config.h"

struct config_compat {
    const char *reported_version;
};

extern const struct schema config_root_schema;        /* struct config, without its blocks */
extern const struct schema config_cluster_schema;     /* struct config_cluster, without members */
extern const struct schema config_member_schema;      /* struct config_member, without its name */
extern const struct schema config_listener_schema;    /* struct config_listener */
extern const struct schema config_seal_schema;        /* struct config_seal of a static seal */
extern const struct schema config_shamir_schema;      /* struct config_seal of key shares */
extern const struct schema config_audit_rules_schema; /* struct config_audit_rules */
extern const struct schema config_audit_schema;       /* struct config_audit, without its labels */
extern const struct schema config_compat_schema;      /* struct config_compat */

#endif
