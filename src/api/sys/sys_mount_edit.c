#include "api/sys/sys.h"
#include "api/sys/sys_mounts.h"
#include "text/duration.h"

/* First segments at which no secrets engine may stand: the system's own, and those of the APIs
 * that share the listener. */
static const char *const reserved[] = {
    "acl",        "agent",    "allocation", "allocations", "audit",     "auth",
    "catalog",    "client",   "cubbyhole",  "deployment",  "event",     "deployments",
    "evaluation", "identity", "job",        "jobs",        "namespace", "evaluations",
    "namespaces", "node",     "nodes",      "operator",    "regions",   "search",
    "session",    "status",   "sys",        "system",      "txn",
};

static const char *const fixed[] = {"cubbyhole/", "identity/", "sys/", "auth/token/"};

/* Whether a mount stands there for good: it is neither moved, removed nor tuned. */
static bool is_fixed(const char *path)
{
    for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
        if (strcmp(path, fixed[i]) == 0)
            return true;
    return false;
}

enum status sys_mount_check_place(struct req *req, const char *path)
{
    struct bytes first = bytes_of(path, strcspn(path, "/"));
    for (size_t i = 0; i < ARRAY_LEN(reserved); i++)
        if (text_is(first, reserved[i]))
            return req_fail(req, ST_INVALID, "cannot mount at \"%s\": \"%s/\" is reserved", path,
                            reserved[i]);
    return ST_OK;
}

enum status sys_mount_check_new(struct req *req, const char *path)
{
    size_t len;
    for (const char *segment = path; *segment != '\0'; segment += len + 1) {
        len = strcspn(segment, "/");
        if ((len == 1 && segment[0] == '+') || memchr(segment, '*', len) != NULL)
            return req_fail(req, ST_INVALID,
                            "cannot mount at \"%s\": '+' and '*' stand for others in policies",
                            path);
    }
    return sys_mount_check_place(req, path);
}

static enum status place_of(struct req *req, const char **ret_path)
{
    struct reason why = {0};
    enum status st = mount_path(req->arena, req_param(req, "path"), ret_path, &why);
    return st == ST_INVALID ? req_fail(req, st, "%s", why.text) : st;
}

/* Settings */

/* "", "0" and "system" are the system's. */
static enum status read_ttl(struct req *req, const char *name, const char *text, int64_t *ret_s)
{
    int64_t ns = 0;
    if (text == NULL)
        return ST_OK;
    if (strcmp(text, "system") != 0 && text_duration_parse(bytes_str(text), &ns) != ST_OK)
        return req_fail(req, ST_INVALID, "%s: a duration such as 90 or \"1h30m\" is expected",
                        name);
    *ret_s = ns / 1000000000;
    return ST_OK;
}

static enum status check_ttls(struct req *req, const struct mount *mount)
{
    int64_t most = mount->max_lease_ttl_s != 0 ? mount->max_lease_ttl_s : SYS_TTL_S;
    if (mount->default_lease_ttl_s > most)
        return req_fail(req, ST_INVALID,
                        "default_lease_ttl of %lld s is greater than max_lease_ttl of %lld s",
                        (long long)mount->default_lease_ttl_s, (long long)most);
    return ST_OK;
}

static enum status read_words(struct req *req, const struct sys_mount_tune *in, struct mount *mount)
{
    static const char *const visibility[] = {"", "hidden", "unauth"};
    static const char *const token_type[] = {"",      "default", "default-batch", "default-service",
                                             "batch", "service"};
    bool known = in->listing_visibility == NULL, kind = in->token_type == NULL;
    for (size_t i = 0; i < ARRAY_LEN(visibility) && !known; i++)
        known = strcmp(in->listing_visibility, visibility[i]) == 0;
    for (size_t i = 0; i < ARRAY_LEN(token_type) && !kind; i++)
        kind = strcmp(in->token_type, token_type[i]) == 0;
    if (!known)
        return req_fail(req, ST_INVALID,
                        "listing_visibility: \"unauth\", \"hidden\" or \"\" is "
                        "expected");
    if (!kind)
        return req_fail(req, ST_INVALID,
                        "token_type: \"default-service\", \"default-batch\", "
                        "\"service\" or \"batch\" is expected");
    if (in->listing_visibility != NULL)
        mount->listing_visibility = in->listing_visibility;
    if (in->token_type != NULL)
        mount->token_type = in->token_type;
    return ST_OK;
}

static void take_strings(struct field_strings *to, const struct field_strings *from)
{
    if (from->given)
        *to = *from;
}

static enum status apply_settings(struct req *req, const struct sys_mount_tune *in,
                                  struct mount *mount)
{
    TRY(read_ttl(req, "default_lease_ttl", in->default_lease_ttl, &mount->default_lease_ttl_s));
    TRY(read_ttl(req, "max_lease_ttl", in->max_lease_ttl, &mount->max_lease_ttl_s));
    TRY(check_ttls(req, mount));
    TRY(read_words(req, in, mount));
    if (in->has_force_no_cache)
        mount->force_no_cache = in->force_no_cache;
    take_strings(&mount->audit_non_hmac_request_keys, &in->audit_non_hmac_request_keys);
    take_strings(&mount->audit_non_hmac_response_keys, &in->audit_non_hmac_response_keys);
    take_strings(&mount->passthrough_request_headers, &in->passthrough_request_headers);
    take_strings(&mount->allowed_response_headers, &in->allowed_response_headers);
    return ST_OK;
}

/* Making */

static bool has_engine(const struct req *req, const char *type)
{
    const struct router_options *o = &req->router->options;
    for (size_t i = 0; i < o->n_apis; i++)
        if (o->apis[i]->prefix == NULL && !o->apis[i]->single &&
            strcmp(o->apis[i]->type, type) == 0)
            return true;
    return false;
}

/* "kv-v2" is short for kv with an option. */
static enum status read_type(struct req *req, const struct sys_mount *in, struct mount *mount)
{
    static const char *const versions[][2] = {{"version", "1"}, {"version", "2"}};
    mount->type = in->type;
    mount->options = in->options;
    if (strcmp(in->type, "kv-v1") == 0 || strcmp(in->type, "kv-v2") == 0) {
        mount->type = "kv";
        mount->options =
            (struct field_map){.pairs = versions[in->type[4] - '1'], .n = 1, .given = true};
    }
    if (!has_engine(req, mount->type))
        return req_fail(req, ST_INVALID, "plugin not found in the catalog: %.64s", in->type);
    const char *version = mount_option(mount, "version");
    if (strcmp(mount->type, "kv") == 0 && version != NULL && strcmp(version, "1") != 0 &&
        strcmp(version, "2") != 0)
        return req_fail(req, ST_INVALID, "options: version: \"1\" or \"2\" is expected");
    return ST_OK;
}

static enum status read_config(struct req *req, const struct sys_mount *in, struct mount *mount)
{
    struct sys_mount_tune settings;
    struct schema_fault fault = {0};
    if (in->config == NULL || in->config->kind == TEXT_NULL)
        return ST_OK;
    if (in->config->kind != TEXT_OBJECT)
        return req_fail(req, ST_INVALID, "config: an object is expected, not %s",
                        text_kind_name(in->config->kind));
    enum status st =
        schema_decode(&sys_mount_config_schema, in->config, req->arena, &settings, &fault);
    if (st == ST_INVALID)
        return req_fail(req, st, "config: %s: %s", fault.field, fault.why.text);
    TRY(st);
    return apply_settings(req, &settings, mount);
}

enum status sys_mount_create(struct req *req)
{
    const struct sys_mount *in = req_body(req);
    struct mount mount = {.description = in->description,
                          .local = in->local,
                          .seal_wrap = in->seal_wrap,
                          .external_entropy_access = in->external_entropy_access};
    const char *other;

    TRY(place_of(req, &mount.path));
    TRY(sys_mount_check_new(req, mount.path));
    TRY(read_type(req, in, &mount));
    TRY(read_config(req, in, &mount));
    enum status st = mount_conflict(req->txn, req->ns, mount.path, &other);
    if (st == ST_OK)
        return req_fail(req, ST_INVALID, "path is already in use at %.160s", other);
    if (st != ST_NOT_FOUND)
        return st;
    return mount_create(req->txn, req->env, req->ns, &mount);
}

enum status sys_mount_delete(struct req *req)
{
    struct mount mount;
    const char *path;
    TRY(place_of(req, &path));
    TRY(sys_mount_check_place(req, path));
    enum status st = mount_get(req->txn, req->ns, path, &mount);
    if (st == ST_NOT_FOUND)
        return ST_OK;
    TRY(st);
    return mount_remove(req->txn, req->ns, &mount);
}

/* Tuning */

/* Of the mounts that are always there only what audit devices show of them can be changed. */
static bool touches_fixed(const struct sys_mount_tune *in)
{
    return in->description != NULL || in->default_lease_ttl != NULL || in->max_lease_ttl != NULL ||
           in->listing_visibility != NULL || in->token_type != NULL || in->has_force_no_cache ||
           in->passthrough_request_headers.given || in->allowed_response_headers.given ||
           in->options.given;
}

static enum status tune_version(struct req *req, const char *to, struct mount *mount)
{
    static const char *const second[] = {"version", "2"};
    const char *from = mount_option(mount, "version");
    bool one = strcmp(to, "1") == 0, two = strcmp(to, "2") == 0;
    bool is_two = from != NULL && strcmp(from, "2") == 0;

    if (strcmp(mount->type, "kv") != 0 || (!one && !two))
        return req_fail(req, ST_INVALID, "options: version: not one that this mount can have");
    if (one && is_two)
        return req_fail(req, ST_INVALID, "cannot downgrade mount from version 2");
    if (one || is_two)
        return ST_OK;
    mount->options = (struct field_map){.pairs = second, .n = 1, .given = true};
    mount->upgraded_ms = req->now_ms;
    req_warn(req, "Upgraded mount from version 1 to version 2: what it held is version 1 of each "
                  "secret.");
    return ST_OK;
}

static enum status tune_options(struct req *req, const struct field_map *options,
                                struct mount *mount)
{
    for (size_t i = 0; i < options->n; i++) {
        if (strcmp(options->pairs[2 * i], "version") != 0)
            return req_fail(req, ST_INVALID, "options: \"%.64s\" is not known",
                            options->pairs[2 * i]);
        TRY(tune_version(req, options->pairs[2 * i + 1], mount));
    }
    return ST_OK;
}

static enum status tune(struct req *req, bool auth)
{
    const struct sys_mount_tune *in = req_body(req);
    struct mount mount;

    TRY(sys_mount_tuned(req, auth, &mount, &auth));
    if (!auth && is_fixed(mount.path) && touches_fixed(in))
        return req_fail(req, ST_INVALID, "cannot tune \"%s\"", mount.path);
    if (!auth && in->token_type != NULL)
        return req_fail(req, ST_INVALID, "token_type: only auth methods have one");
    if (in->description != NULL)
        mount.description = in->description;
    TRY(apply_settings(req, in, &mount));
    TRY(tune_options(req, &in->options, &mount));
    return mount_update(req->txn, req->ns, &mount);
}

enum status sys_mount_tune(struct req *req)
{
    return tune(req, false);
}

enum status sys_auth_tune(struct req *req)
{
    return tune(req, true);
}

enum status sys_mount_defaults(struct req *req)
{
    static const char *const second[] = {"version", "2"};
    struct mount mounts[] = {
        {.path = "auth/token/", .type = "token", .description = "token based credentials"},
        {.path = "cubbyhole/",
         .type = "cubbyhole",
         .description = "per-token private secret storage",
         .local = true},
        {.path = "identity/", .type = "identity", .description = "identity store"},
        {.path = "sys/",
         .type = "system",
         .description = "system endpoints used for control, policy and debugging"},
        {.path = "secret/",
         .type = "kv",
         .description = "key/value secret storage",
         .options = {.pairs = second, .n = 1, .given = true}},
    };
    size_t n = ARRAY_LEN(mounts) - !req->host->default_kv;
    for (size_t i = 0; i < n; i++)
        TRY(mount_create(req->txn, req->env, req->ns, &mounts[i]));
    return ST_OK;
}
