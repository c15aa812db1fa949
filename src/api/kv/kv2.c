/* The route table of version 2. It consists of the tables of the version's resources, and of rows
 * for clients that use the paths of version 1. */
#include "api/kv/kv2.h"

static bool is_ours(struct bytes segment)
{
    static const char *const ours[] = {"config",  "data",    "delete",   "undelete",
                                       "destroy", "subkeys", "metadata", "detailed-metadata"};
    for (size_t i = 0; i < ARRAY_LEN(ours); i++)
        if (text_is(segment, ours[i]))
            return true;
    return false;
}

/* Clients of version 1 use the path of the secret itself: name the path that version 2 has. */
static enum status wrong_prefix(struct req *req)
{
    bool list = req->method == METHOD_LIST || req->method == METHOD_SCAN;
    const char *mount = req->mount->path, *path = req_param(req, "path");
    ASSERT(req->route->kind == ROW_ASTRAY);
    ASSERT(mount[strlen(mount) - 1] == '/');
    if (is_ours(bytes_of(path, strcspn(path, "/"))))
        return ST_UNSUPPORTED; /* another method serves the path */
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

static const struct route astray_routes[] = {
    {.method = METHOD_GET,
     .path = "*path",
     .handler = wrong_prefix,
     .kind = ROW_ASTRAY,
     .help = WRONG_PREFIX_HELP},
    {.method = METHOD_LIST,
     .path = "*path",
     .handler = wrong_prefix,
     .kind = ROW_ASTRAY,
     .flags = ROUTE_SCANS,
     .help = WRONG_PREFIX_HELP},
    {.method = METHOD_POST,
     .path = "*path",
     .handler = wrong_prefix,
     .input = INPUT_FREE,
     .kind = ROW_ASTRAY,
     .help = WRONG_PREFIX_HELP},
    {.method = METHOD_PATCH,
     .path = "*path",
     .handler = wrong_prefix,
     .kind = ROW_ASTRAY,
     .help = WRONG_PREFIX_HELP},
    {.method = METHOD_DELETE,
     .path = "*path",
     .handler = wrong_prefix,
     .kind = ROW_ASTRAY,
     .help = WRONG_PREFIX_HELP},
};

static const struct route_table astray_table = {astray_routes, ARRAY_LEN(astray_routes)};

static const struct route_table *const kv2_tables[] = {
    &kv2_config_table,   &kv2_data_table, &kv2_versions_table,
    &kv2_metadata_table, &astray_table, /* last */
};

const struct route_api kv2_api = {
    .type = "kv", .version = "2", .more = kv2_tables, .n_more = ARRAY_LEN(kv2_tables)};
