#include "api/kv/kv2.h"

static bool is_ours(struct bytes segment)
{
    static const char *const ours[] = {"config",  "data",    "delete",  "undelete",
                                       "destroy", "subkeys", "metadata"};
    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        if (text_is(segment, ours[i]))
            return true;
    return false;
}

/* People who know version 1 write and read at the path itself. */
static enum status wrong_prefix(struct req *req)
{
    bool list = req->method == METHOD_LIST || req->method == METHOD_SCAN;
    const char *mount = req->mount->path, *path = req_param(req, "path");
    if (is_ours(bytes_of(path, strcspn(path, "/"))))
        return ST_UNSUPPORTED; /* but not with this method */
    req->reply.http = 404;
    req_warn(req,
             "Invalid path for a versioned K/V secrets engine: use \"%s%s/%.200s\" instead of "
             "\"%s%.200s\". With a command line client, use its kv commands.",
             mount, list ? "metadata" : "data", path, mount, path);
    return ST_OK;
}

#define WRONG_PREFIX_HELP                                                                      \
    "404 with a warning that names the right path: secrets of version 2 are read and written " \
    "below data/, listed below metadata/."

static const struct route kv2_routes[] = {
    {.method = METHOD_GET,
     .path = "config",
     .handler = kv2_config_read,
     .reply = &kv2_config_reply,
     .help = "The settings of the mount."},
    {.method = METHOD_POST,
     .path = "config",
     .handler = kv2_config_write,
     .body = &kv2_config_schema,
     .help = "Change settings of the mount; what is not named stays."},
    {.method = METHOD_GET,
     .path = "data/*path",
     .handler = kv2_data_read,
     .flags = ROUTE_SOME,
     .body = &kv2_read_schema,
     .reply = &kv2_read_reply,
     .help = "Read a version of a secret. One that was deleted or destroyed is 404 with its "
             "metadata."},
    {.method = METHOD_POST,
     .path = "data/*path",
     .handler = kv2_data_write,
     .flags = ROUTE_SOME,
     .exists = kv_exists,
     .body = &kv2_write_schema,
     .reply = &kv2_version_reply,
     .help = "Write a new version of a secret. The oldest ones are dropped when there are more "
             "than max_versions."},
    {.method = METHOD_PATCH,
     .path = "data/*path",
     .handler = kv2_data_patch,
     .flags = ROUTE_SOME,
     .body = &kv2_write_schema,
     .reply = &kv2_version_reply,
     .help = "Write a new version that is the newest one changed by a JSON merge patch. The newest "
             "one must not be deleted."},
    {.method = METHOD_DELETE,
     .path = "data/*path",
     .handler = kv2_data_delete,
     .flags = ROUTE_SOME,
     .help = "Delete the newest version of a secret; undelete takes it back."},
    {.method = METHOD_POST,
     .path = "delete/*path",
     .handler = kv2_delete,
     .flags = ROUTE_SOME,
     .body = &kv2_versions_schema,
     .help = "Delete versions of a secret; undelete takes it back."},
    {.method = METHOD_POST,
     .path = "undelete/*path",
     .handler = kv2_undelete,
     .flags = ROUTE_SOME,
     .body = &kv2_versions_schema,
     .help = "Take back the deletion of versions that were not destroyed. They then stay for good, "
             "whatever their age."},
    {.method = METHOD_POST,
     .path = "destroy/*path",
     .handler = kv2_destroy,
     .flags = ROUTE_SOME,
     .body = &kv2_versions_schema,
     .help = "Remove the data of versions for good."},
    {.method = METHOD_GET,
     .path = "subkeys/*path",
     .handler = kv2_subkeys_read,
     .flags = ROUTE_SOME,
     .body = &kv2_subkeys_schema,
     .reply = &kv2_subkeys_reply,
     .help = "Read the names within a secret, without their values."},
    {.method = METHOD_LIST,
     .path = "metadata/*path",
     .handler = kv_list,
     .flags = ROUTE_SCANS,
     .help = "List the names in a folder; folders end with '/'. The query may say `after`, a name "
             "to start behind, and `limit`. SCAN gives all that is below it."},
    {.method = METHOD_GET,
     .path = "metadata/*path",
     .handler = kv2_metadata_read,
     .flags = ROUTE_SOME,
     .reply = &kv2_metadata_reply,
     .help = "Read the settings of a secret and what is known of its versions."},
    {.method = METHOD_POST,
     .path = "metadata/*path",
     .handler = kv2_metadata_write,
     .flags = ROUTE_SOME,
     .exists = kv_exists,
     .body = &kv2_metadata_schema,
     .help = "Change settings of a secret, or make one that has no version yet; what is not named "
             "stays."},
    {.method = METHOD_PATCH,
     .path = "metadata/*path",
     .handler = kv2_metadata_patch,
     .flags = ROUTE_SOME,
     .body = &kv2_metadata_schema,
     .help = "Change settings of a secret that exists; null takes a setting back."},
    {.method = METHOD_DELETE,
     .path = "metadata/*path",
     .handler = kv2_metadata_delete,
     .flags = ROUTE_SOME,
     .help = "Remove a secret with all versions and metadata for good."},
    {.method = METHOD_GET,
     .path = "*path",
     .handler = wrong_prefix,
     .flags = ROUTE_ASTRAY,
     .help = WRONG_PREFIX_HELP},
    {.method = METHOD_LIST,
     .path = "*path",
     .handler = wrong_prefix,
     .flags = ROUTE_ASTRAY | ROUTE_SCANS,
     .help = WRONG_PREFIX_HELP},
    {.method = METHOD_POST,
     .path = "*path",
     .handler = wrong_prefix,
     .flags = ROUTE_FREE_BODY | ROUTE_ASTRAY,
     .help = WRONG_PREFIX_HELP},
    {.method = METHOD_PATCH,
     .path = "*path",
     .handler = wrong_prefix,
     .flags = ROUTE_ASTRAY,
     .help = WRONG_PREFIX_HELP},
    {.method = METHOD_DELETE,
     .path = "*path",
     .handler = wrong_prefix,
     .flags = ROUTE_ASTRAY,
     .help = WRONG_PREFIX_HELP},
};

const struct route_api kv2_api = {
    .type = "kv", .version = "2", .routes = kv2_routes, .n = ARRAY_LEN(kv2_routes)};
