/* The module: the engine, and its block of the configuration. */
#include "api/transform/transform.h"
#include "api/transform/transform_config.h"
#include "text/config_block.h"

static const struct field config_fields[] = {
    FIELD(struct transform_config, fpe_algorithm, STRING, .preset = TRANSFORM_FF31,
          .help = "Algorithm of new transformations that name none: \"ff3-1\" or \"ff1\"."),
    FIELD(struct transform_config, forbid_ff3_1, BOOL,
          .help = "Refuse new transformations with ff3-1; those that exist keep working."),
};
static const struct schema key_config_schema = SCHEMA(struct transform_config, config_fields);

static const char *check_config(const void *fields)
{
    const struct transform_config *config = fields;
    bool is_ff31 = strcmp(config->fpe_algorithm, TRANSFORM_FF31) == 0;
    if (!is_ff31 && strcmp(config->fpe_algorithm, TRANSFORM_FF1) != 0)
        return "fpe_algorithm: \"ff3-1\" or \"ff1\" is expected";
    if (is_ff31 && config->forbid_ff3_1)
        return "forbid_ff3_1: set fpe_algorithm to \"ff1\" too";
    return NULL;
}

static const struct config_block config_block = {
    .name = "transform", .schema = &key_config_schema, .check = check_config};

static const struct transform_config presets = {.fpe_algorithm = TRANSFORM_FF31};
static const struct transform_config *configured = &presets; /* set before threads start */

static void configure(const void *fields)
{
    ASSERT(fields != NULL);
    configured = fields;
}

const struct transform_config *transform_config(void)
{
    return configured;
}

static const struct route_table *const more[] = {
    &transform_alphabet_table,  &transform_template_table,       &transform_transformation_table,
    &transform_code_table,      &transform_role_table,           &transform_token_call_table,
    &transform_token_key_table, &transform_token_snapshot_table, &transform_import_table,
    &transform_store_table};

static const struct route_api transform_api = {
    .type = "transform", .more = more, .n_more = ARRAY_LEN(more)};

static const struct route_api *const apis[] = {&transform_api};
static const struct expiry_kind *const expires[] = {&transform_token_end, &transform_rotation};
static const struct module_engine engines[] = {{.type = "transform"}};

const struct module transform_module = {.name = "transform",
                                        .apis = apis,
                                        .n_apis = ARRAY_LEN(apis),
                                        .engines = engines,
                                        .n_engines = ARRAY_LEN(engines),
                                        .expires = expires,
                                        .n_expires = ARRAY_LEN(expires),
                                        .config = &config_block,
                                        .configure = configure};
