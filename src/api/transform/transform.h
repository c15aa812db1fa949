/* The transform engine: format-preserving encryption and masking of values. */
#ifndef HOLDFAST_API_TRANSFORM_TRANSFORM_H
#define HOLDFAST_API_TRANSFORM_TRANSFORM_H

#include "router/table/module.h"

extern const struct module transform_module;
/* Background work: tokens end, keys of transformations are rotated. */
extern const struct expiry_kind transform_rotation, transform_token_end;
extern const struct route_table transform_role_table, transform_alphabet_table,
    transform_template_table, transform_transformation_table, transform_code_table,
    transform_token_call_table, transform_token_key_table, transform_token_snapshot_table,
    transform_import_table, transform_store_table;

#endif
