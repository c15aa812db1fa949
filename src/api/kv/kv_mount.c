/* How the key/value engine is mounted and tuned, and the module. */
#include "api/kv/kv.h"

static enum status kv_check_version(struct req *req, const char *version)
{
    if (strcmp(version, "1") != 0 && strcmp(version, "2") != 0)
        return req_fail(req, ST_INVALID, "options: version: \"1\" or \"2\" is expected");
    return ST_OK;
}

static enum status kv_tune_version(struct req *req, const char *version, struct mount *mount)
{
    const char *from = mount_option(mount, "version");
    bool one = strcmp(version, "1") == 0, two = strcmp(version, "2") == 0;
    bool is_two = from != NULL && strcmp(from, "2") == 0;

    ASSERT(strcmp(mount->type, "kv") == 0);
    if (!one && !two)
        return req_fail(req, ST_INVALID, "options: version: this mount cannot have it");
    if (one && is_two)
        return req_fail(req, ST_INVALID, "cannot downgrade mount from version 2");
    if (one || is_two)
        return ST_OK;
    mount->upgraded_ms = req->now_ms;
    req_warn(req, "Upgraded mount from version 1 to version 2: what it held is version 1 of each "
                  "secret.");
    return ST_OK;
}

static const struct route_api *const kv_apis[] = {&kv_api, &kv_generic_api, &kv2_api};

static const struct module_alias kv_aliases[] = {{.name = "kv-v1", .version = "1"},
                                                 {.name = "kv-v2", .version = "2"}};

static const struct module_engine kv_engines[] = {
    {.type = "kv",
     .aliases = kv_aliases,
     .n_aliases = ARRAY_LEN(kv_aliases),
     .check_version = kv_check_version,
     .tune_version = kv_tune_version},
    {.type = "generic"},
};

static const char *const second_version[] = {"version", "2"};

static const struct module_mount kv_mounts[] = {
    {.mount = {.path = "secret/",
               .type = "kv",
               .description = "key/value secret storage",
               .options = {.pairs = second_version, .n = 1, .given = true}},
     .optional = true},
};

const struct module kv_module = {.name = "kv",
                                 .apis = kv_apis,
                                 .n_apis = ARRAY_LEN(kv_apis),
                                 .engines = kv_engines,
                                 .n_engines = ARRAY_LEN(kv_engines),
                                 .mounts = kv_mounts,
                                 .n_mounts = ARRAY_LEN(kv_mounts)};
