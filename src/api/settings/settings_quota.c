/* sys/quotas: the settings that router/quota.h and router/quota_lease.h apply. */
#include "api/settings/settings.h"
#include "router/quota.h"
#include "router/quota_lease.h"
#include "router/setting.h"

enum { EXEMPT_MAX = 100 };

static const char *setting_of(struct req *req, const struct quota_kind *kind)
{
    ASSERT(route_is_name(bytes_str(req_param(req, "name"))));
    return arena_format(req->arena, "%s%s", kind->settings, req_param(req, "name"));
}

static enum status list_quotas(struct req *req, const struct quota_kind *kind)
{
    struct bytes prefix;
    TRY(setting_key(req->arena, req->ns, kind->settings, &prefix));
    return req_reply_listing(req, prefix);
}

static enum status load_quota(struct req *req, const struct quota_kind *kind,
                              struct quota *ret_quota)
{
    const char *setting = setting_of(req, kind);
    if (setting == NULL)
        return ST_NOMEM;
    TRY(setting_load(req->txn, req->ns, setting, kind->schema, ret_quota));
    ret_quota->name = req_param(req, "name");
    return ST_OK;
}

/* Refuse a quota above QUOTA_MAX, and a second quota of one path. */
static enum status check_others(struct req *req, const struct quota_kind *kind,
                                const struct quota *in)
{
    struct state_iter *iter = arena_alloc(req->arena, sizeof *iter);
    const char *name = req_param(req, "name");
    struct bytes prefix;
    size_t n = 0;

    if (iter == NULL)
        return ST_NOMEM;
    TRY(setting_key(req->arena, req->ns, kind->settings, &prefix));
    TRY(state_scan(req->txn, prefix, (struct bytes){0}, iter));
    while (state_iter_next(iter)) {
        struct quota other;
        const char *its = arena_str(req->arena, bytes_from(iter->key, prefix.len));
        if (its == NULL)
            return ST_NOMEM;
        if (strcmp(its, name) == 0)
            continue;
        const char *setting = arena_format(req->arena, "%s%s", kind->settings, its);
        if (setting == NULL)
            return ST_NOMEM;
        TRY(setting_load(req->txn, req->ns, setting, kind->schema, &other));
        if (strcmp(other.path, in->path) == 0)
            return req_fail(req, ST_INVALID,
                            "quota rule with similar properties exists under the name \"%s\"", its);
        if (++n == QUOTA_MAX)
            return req_fail(req, ST_INVALID, "more than %d quotas", QUOTA_MAX);
    }
    ASSERT(n < QUOTA_MAX);
    return ST_OK;
}

/* Refuse a path that no mount serves, because its quota would never fit a request. A quota of
 * requests may also have a path of an API without mounts. If the path is the path of a mount or an
 * API, add the missing '/' at its end. */
static enum status check_path(struct req *req, const struct quota_kind *kind, struct quota *in)
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
    if (st == ST_NOT_FOUND && kind == &quota_rates && strstr(in->path, "//") == NULL) {
        st = quota_find_api(&req->router->options.modules, req->arena, &in->path);
        if (st != ST_NOT_FOUND)
            return st;
    }
    if (st == ST_NOT_FOUND || strstr(in->path, "//") != NULL)
        return req_fail(req, ST_INVALID, "invalid mount path \"%.160s\"", in->path);
    TRY(st);
    if (strlen(in->path) + 1 == strlen(mount.path))
        in->path = mount.path;
    return ST_OK;
}

/* Refuse a role: no auth method tells the role of a login. */
static enum status check_role(struct req *req, const struct quota *in)
{
    struct mount mount;
    ASSERT(in->path[0] != '/');
    if (in->role[0] == '\0')
        return ST_OK;
    enum status st = in->path[0] != '\0'
                         ? mount_find(req->txn, req->ns, bytes_str(in->path), &mount)
                         : ST_NOT_FOUND;
    if (st == ST_NOT_FOUND || (st == ST_OK && strncmp(mount.path, "auth/", 5) != 0))
        return req_fail(req, ST_INVALID,
                        "Mount path \"%.160s\" is not a valid auth method and therefore "
                        "unsuitable for use with role-based quotas",
                        in->path);
    TRY(st);
    if (strcmp(mount.path, in->path) != 0)
        return req_fail(req, ST_INVALID,
                        "Quotas cannot contain both a path suffix and a role. If a role is "
                        "provided, path must be a valid auth mount with a concept of roles");
    return req_fail(req, ST_INVALID,
                    "Mount path \"%.160s\" does not support use with role-based quotas", in->path);
}

static enum status save_quota(struct req *req, const struct quota_kind *kind)
{
    struct quota in = *(const struct quota *)req_body(req);
    const char *setting = setting_of(req, kind);
    struct reason why = {{0}};
    uint64_t limit;

    if (setting == NULL)
        return ST_NOMEM;
    if (kind->limit(&in, &limit, &why) != ST_OK)
        return req_fail(req, ST_INVALID, "%s", why.text);
    while (in.path[0] == '/')
        in.path++;
    TRY(check_path(req, kind, &in));
    TRY(check_role(req, &in));
    ASSERT(limit > 0 && in.role[0] == '\0');
    if (!in.has_inheritable)
        in.inheritable = in.path[0] == '\0';
    TRY(check_others(req, kind, &in));
    return setting_save(req->txn, req->ns, setting, kind->schema, &in);
}

static enum status delete_quota(struct req *req, const struct quota_kind *kind)
{
    const char *setting = setting_of(req, kind);
    return setting != NULL ? setting_delete(req->txn, req->ns, setting) : ST_NOMEM;
}

/* Quotas of requests */

struct rate_out {
    const char *name, *type, *path, *rate, *role;
    int64_t interval, block_interval;
    bool inheritable;
};
static const struct field rate_out_fields[] = {
    FIELD(struct rate_out, name, STRING),  FIELD(struct rate_out, type, STRING),
    FIELD(struct rate_out, path, STRING),  FIELD(struct rate_out, rate, DIGITS),
    FIELD(struct rate_out, interval, INT), FIELD(struct rate_out, block_interval, INT),
    FIELD(struct rate_out, role, STRING),  FIELD(struct rate_out, inheritable, BOOL),
};
static const struct schema settings_quota_rate_reply = SCHEMA(struct rate_out, rate_out_fields);

static enum status settings_quota_rate_read(struct req *req)
{
    struct quota quota;
    TRY(load_quota(req, &quota_rates, &quota));
    const struct rate_out out = {
        .name = quota.name,
        .type = quota_rates.type,
        .path = quota.path,
        .rate = quota.rate, /* a number, as quota_rate has checked */
        .interval = quota.interval,
        .block_interval = quota.block_interval,
        .role = quota.role,
        .inheritable = quota.inheritable,
    };
    return req_reply(req, &out);
}

static enum status settings_quota_rate_list(struct req *req)
{
    return list_quotas(req, &quota_rates);
}

static enum status settings_quota_rate_write(struct req *req)
{
    return save_quota(req, &quota_rates);
}

static enum status settings_quota_rate_delete(struct req *req)
{
    return delete_quota(req, &quota_rates);
}

/* Quotas of leases */

struct leases_out {
    const char *name, *type, *path, *role;
    int64_t max_leases;
    uint64_t counter;
    bool inheritable;
};
static const struct field leases_out_fields[] = {
    FIELD(struct leases_out, name, STRING),      FIELD(struct leases_out, type, STRING),
    FIELD(struct leases_out, path, STRING),      FIELD(struct leases_out, max_leases, INT),
    FIELD(struct leases_out, counter, UINT),     FIELD(struct leases_out, role, STRING),
    FIELD(struct leases_out, inheritable, BOOL),
};
static const struct schema settings_quota_leases_reply =
    SCHEMA(struct leases_out, leases_out_fields);

static enum status settings_quota_leases_read(struct req *req)
{
    struct quota quota;
    TRY(load_quota(req, &quota_leases, &quota));
    struct leases_out out = {
        .name = quota.name,
        .type = quota_leases.type,
        .path = quota.path,
        .max_leases = quota.max_leases,
        .role = quota.role,
        .inheritable = quota.inheritable,
    };
    TRY(quota_lease_counter(req->txn, req->ns, bytes_str(quota.path), &out.counter));
    return req_reply(req, &out);
}

static enum status settings_quota_leases_list(struct req *req)
{
    return list_quotas(req, &quota_leases);
}

static enum status settings_quota_leases_write(struct req *req)
{
    return save_quota(req, &quota_leases);
}

static enum status settings_quota_leases_delete(struct req *req)
{
    return delete_quota(req, &quota_leases);
}

/* Settings of all quotas */

static enum status settings_quota_config_read(struct req *req)
{
    struct quota_config config = {0};
    enum status st =
        setting_load(req->txn, req->ns, QUOTA_CONFIG_SETTING, &quota_config_schema, &config);
    if (st != ST_NOT_FOUND)
        TRY(st);
    return req_reply(req, &config);
}

static enum status settings_quota_config_write(struct req *req)
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
     .handler = settings_quota_rate_list,
     .help = "The names of the quotas of requests."},
    {.method = METHOD_GET,
     .path = "quotas/rate-limit/:name",
     .handler = settings_quota_rate_read,
     .reply = &settings_quota_rate_reply,
     .help = "A quota of requests."},
    {.method = METHOD_POST,
     .path = "quotas/rate-limit/:name",
     .handler = settings_quota_rate_write,
     .body = &quota_rate_schema,
     .help = "Create or replace a quota: how many requests a client may send in a time. Of the "
             "quotas that fit a request, the one with the longest path counts. Each node counts "
             "by itself."},
    {.method = METHOD_DELETE,
     .path = "quotas/rate-limit/:name",
     .handler = settings_quota_rate_delete,
     .help = "Delete a quota of requests; an unknown quota is no error."},
    {.method = METHOD_LIST,
     .path = "quotas/lease-count",
     .handler = settings_quota_leases_list,
     .help = "The names of the quotas of leases."},
    {.method = METHOD_GET,
     .path = "quotas/lease-count/:name",
     .handler = settings_quota_leases_read,
     .reply = &settings_quota_leases_reply,
     .help = "A quota of leases, and its counter: how many leases there are below its path."},
    {.method = METHOD_POST,
     .path = "quotas/lease-count/:name",
     .handler = settings_quota_leases_write,
     .feature = QUOTA_LEASES_FEATURE,
     .body = &quota_lease_schema,
     .help = "Create or replace a quota: how many leases may exist below a path. Of the quotas "
             "that fit a request, the one with the longest path decides. A request beyond the "
             "limit gets status 429, except a request of a root token."},
    {.method = METHOD_DELETE,
     .path = "quotas/lease-count/:name",
     .handler = settings_quota_leases_delete,
     .help = "Delete a quota of leases; an unknown quota is no error."},
    {.method = METHOD_GET,
     .path = "quotas/config",
     .handler = settings_quota_config_read,
     .reply = &quota_config_schema,
     .help = "The settings of all quotas."},
    {.method = METHOD_POST,
     .path = "quotas/config",
     .handler = settings_quota_config_write,
     .body = &quota_config_schema,
     .help = "Change the settings of all quotas."},
};

const struct route_table settings_quota_table = {quota_routes, ARRAY_LEN(quota_routes)};
