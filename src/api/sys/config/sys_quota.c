/* sys/quotas: the settings that router/quota.h applies. */
#include "api/sys/sys.h"
#include "router/quota.h"
#include "router/setting.h"

enum { EXEMPT_MAX = 100 };

static const char *setting_of(struct req *req)
{
    ASSERT(route_is_name(bytes_str(req_param(req, "name"))));
    return arena_format(req->arena, QUOTA_SETTINGS "%s", req_param(req, "name"));
}

static enum status sys_quota_list(struct req *req)
{
    struct bytes prefix;
    TRY(setting_key(req->arena, req->ns, QUOTA_SETTINGS, &prefix));
    return req_reply_listing(req, prefix);
}

struct quota_out {
    const char *name, *type, *path, *rate, *role;
    int64_t interval, block_interval;
    bool inheritable;
};
static const struct field quota_out_fields[] = {
    FIELD(struct quota_out, name, STRING),  FIELD(struct quota_out, type, STRING),
    FIELD(struct quota_out, path, STRING),  FIELD(struct quota_out, rate, DIGITS),
    FIELD(struct quota_out, interval, INT), FIELD(struct quota_out, block_interval, INT),
    FIELD(struct quota_out, role, STRING),  FIELD(struct quota_out, inheritable, BOOL),
};
static const struct schema sys_quota_reply = SCHEMA(struct quota_out, quota_out_fields);

static enum status sys_quota_read(struct req *req)
{
    const char *setting = setting_of(req);
    struct quota quota;
    if (setting == NULL)
        return ST_NOMEM;
    TRY(setting_load(req->txn, req->ns, setting, &quota_schema, &quota));
    const struct quota_out out = {
        .name = req_param(req, "name"),
        .type = "rate-limit",
        .path = quota.path,
        .rate = quota.rate, /* a number, as quota_rate has checked */
        .interval = quota.interval,
        .block_interval = quota.block_interval,
        .role = quota.role,
        .inheritable = quota.inheritable,
    };
    return req_reply(req, &out);
}

/* Refuse a quota above QUOTA_MAX, and a second quota of one path. */
static enum status check_others(struct req *req, const struct quota *in)
{
    struct state_iter *iter = arena_alloc(req->arena, sizeof *iter);
    const char *name = req_param(req, "name");
    struct bytes prefix;
    size_t n = 0;

    if (iter == NULL)
        return ST_NOMEM;
    TRY(setting_key(req->arena, req->ns, QUOTA_SETTINGS, &prefix));
    TRY(state_scan(req->txn, prefix, (struct bytes){0}, iter));
    while (state_iter_next(iter)) {
        struct quota other;
        const char *its = arena_str(req->arena, bytes_from(iter->key, prefix.len));
        if (its == NULL)
            return ST_NOMEM;
        if (strcmp(its, name) == 0)
            continue;
        const char *setting = arena_format(req->arena, QUOTA_SETTINGS "%s", its);
        if (setting == NULL)
            return ST_NOMEM;
        TRY(setting_load(req->txn, req->ns, setting, &quota_schema, &other));
        if (strcmp(other.path, in->path) == 0)
            return req_fail(req, ST_INVALID,
                            "quota rule with similar properties exists under the name \"%s\"", its);
        if (++n == QUOTA_MAX)
            return req_fail(req, ST_INVALID, "more than %d quotas", QUOTA_MAX);
    }
    ASSERT(n < QUOTA_MAX);
    return ST_OK;
}

/* Refuse a path that no mount serves, because its quota would never count a request. If the path is
 * the path of a mount, add the missing '/' at its end. */
static enum status check_path(struct req *req, struct quota *in)
{
    struct bytes path = bytes_str(in->path);
    struct mount mount;
    ASSERT(in->path[0] != '/');
    if (path.len == 0)
        return ST_OK;
    if (path.len > QUOTA_PATH_MAX)
        return req_fail(req, ST_INVALID, "path: longer than %d bytes", QUOTA_PATH_MAX);
    if (path.data[path.len - 1] == '*')
        path.len--;
    enum status st = mount_find(req->txn, req->ns, path, &mount);
    if (st == ST_NOT_FOUND || strstr(in->path, "//") != NULL)
        return req_fail(req, ST_INVALID, "invalid mount path \"%.160s\"", in->path);
    TRY(st);
    if (strlen(in->path) + 1 == strlen(mount.path))
        in->path = mount.path;
    return ST_OK;
}

static enum status sys_quota_write(struct req *req)
{
    struct quota in = *(const struct quota *)req_body(req);
    const char *setting = setting_of(req);
    uint64_t limit;

    if (setting == NULL)
        return ST_NOMEM;
    if (quota_rate(in.rate, &limit) != ST_OK)
        return req_fail(req, ST_INVALID, "'rate' is invalid: a number above 0 is expected");
    if (in.interval == 0)
        return req_fail(req, ST_INVALID, "'interval' is invalid: a time above 0 is expected");
    ASSERT(limit > 0 && in.interval > 0 && in.block_interval >= 0);
    if (in.role[0] != '\0')
        return req_fail(req, ST_INVALID, "role: not available");
    while (in.path[0] == '/')
        in.path++;
    TRY(check_path(req, &in));
    if (!in.has_inheritable)
        in.inheritable = in.path[0] == '\0';
    TRY(check_others(req, &in));
    return setting_save(req->txn, req->ns, setting, &quota_schema, &in);
}

static enum status sys_quota_delete(struct req *req)
{
    const char *setting = setting_of(req);
    return setting != NULL ? setting_delete(req->txn, req->ns, setting) : ST_NOMEM;
}

static enum status sys_quota_config_read(struct req *req)
{
    struct quota_config config = {0};
    enum status st =
        setting_load(req->txn, req->ns, QUOTA_CONFIG_SETTING, &quota_config_schema, &config);
    if (st != ST_NOT_FOUND)
        TRY(st);
    return req_reply(req, &config);
}

static enum status sys_quota_config_write(struct req *req)
{
    const struct quota_config *in = req_body(req);
    ASSERT(req_in_txn(req));
    if (in->rate_limit_exempt_paths.n > EXEMPT_MAX)
        return req_fail(req, ST_INVALID, "rate_limit_exempt_paths: more than %d", EXEMPT_MAX);
    for (size_t i = 0; i < in->rate_limit_exempt_paths.n; i++)
        if (strlen(in->rate_limit_exempt_paths.items[i]) > QUOTA_PATH_MAX)
            return req_fail(req, ST_INVALID, "rate_limit_exempt_paths: longer than %d bytes",
                            QUOTA_PATH_MAX);
    return setting_save(req->txn, req->ns, QUOTA_CONFIG_SETTING, &quota_config_schema, in);
}

static const struct route quota_routes[] = {
    {.method = METHOD_LIST,
     .path = "quotas/rate-limit",
     .handler = sys_quota_list,
     .help = "The names of the quotas."},
    {.method = METHOD_GET,
     .path = "quotas/rate-limit/:name",
     .handler = sys_quota_read,
     .reply = &sys_quota_reply,
     .help = "A quota."},
    {.method = METHOD_POST,
     .path = "quotas/rate-limit/:name",
     .handler = sys_quota_write,
     .body = &quota_schema,
     .help = "Create or replace a quota: how many requests a client may send in a time. Of the "
             "quotas that fit a request, the one with the longest path counts. Each node counts "
             "by itself."},
    {.method = METHOD_DELETE,
     .path = "quotas/rate-limit/:name",
     .handler = sys_quota_delete,
     .help = "Delete a quota; an unknown quota is no error."},
    {.method = METHOD_GET,
     .path = "quotas/config",
     .handler = sys_quota_config_read,
     .reply = &quota_config_schema,
     .help = "The settings of all quotas."},
    {.method = METHOD_POST,
     .path = "quotas/config",
     .handler = sys_quota_config_write,
     .body = &quota_config_schema,
     .help = "Change the settings of all quotas."},
};

const struct route_table sys_quota_table = {quota_routes, ARRAY_LEN(quota_routes)};
