/* Read mounts of secrets engines and auth methods. */
#include "api/mounts/mounts_show.h"
#include "api/mounts/mounts.h"

struct config_reply {
    int64_t default_lease_ttl, max_lease_ttl;
    bool force_no_cache;
    const char *listing_visibility, *token_type;
    struct field_strings audit_non_hmac_request_keys, audit_non_hmac_response_keys;
    struct field_strings passthrough_request_headers, allowed_response_headers;
};
#define CONFIG_REPLY_FIELDS(type)                                                              \
    FIELD(type, default_lease_ttl, INT, .help = "Seconds; 0: the value of the system."),       \
        FIELD(type, max_lease_ttl, INT, .help = "Seconds; 0: the value of the system."),       \
        FIELD(type, force_no_cache, BOOL, .help = "As given."),                                \
        FIELD(type, listing_visibility, STRING, .omit = true, .help = "As given."),            \
        FIELD(type, token_type, STRING, .omit = true, .help = "Auth methods only."),           \
        FIELD(type, audit_non_hmac_request_keys, STRINGS, .omit = true, .help = "As given."),  \
        FIELD(type, audit_non_hmac_response_keys, STRINGS, .omit = true, .help = "As given."), \
        FIELD(type, passthrough_request_headers, STRINGS, .omit = true, .help = "As given."),  \
        FIELD(type, allowed_response_headers, STRINGS, .omit = true, .help = "As given.")
static const struct field config_reply_fields[] = {CONFIG_REPLY_FIELDS(struct config_reply)};
static const struct schema config_reply_schema = SCHEMA(struct config_reply, config_reply_fields);

struct mount_info {
    const char *path, *type, *description, *accessor, *uuid;
    const void *config;
    struct field_map options;
    bool local, seal_wrap, external_entropy_access;
    const char *plugin_version, *running_plugin_version, *running_sha256, *deprecation_status;
};
static const struct field mount_info_fields[] = {
    FIELD(struct mount_info, path, STRING, .omit = true, .help = "The path of the mount."),
    FIELD(struct mount_info, type, STRING, .help = "Type of engine."),
    FIELD(struct mount_info, description, STRING, .help = "For people."),
    FIELD(struct mount_info, accessor, STRING, .help = "A short name that never changes."),
    FIELD(struct mount_info, uuid, STRING, .help = "Names the data of the mount in the storage."),
    FIELD(struct mount_info, config, OBJECT, .sub = &config_reply_schema, .help = "Settings."),
    FIELD(struct mount_info, options, MAP, .null = true, .help = "Options, or null."),
    FIELD(struct mount_info, local, BOOL, .help = "As given."),
    FIELD(struct mount_info, seal_wrap, BOOL, .help = "As given."),
    FIELD(struct mount_info, external_entropy_access, BOOL, .help = "As given."),
    FIELD(struct mount_info, plugin_version, STRING, .help = "Empty: engines are built in."),
    FIELD(struct mount_info, running_plugin_version, STRING, .help = "Version of the program."),
    FIELD(struct mount_info, running_sha256, STRING, .help = "Empty."),
    FIELD(struct mount_info, deprecation_status, STRING, .help = "\"supported\"."),
};
static const struct schema mounts_info_schema =
    SCHEMA_NAMED(struct mount_info, path, mount_info_fields);

struct tuned {
    struct config_reply config;
    const char *description;
    struct field_map options;
};
static const struct field tuned_fields[] = {
    FIELD_NAMED("default_lease_ttl", struct tuned, config.default_lease_ttl, INT,
                .help = "Seconds; the value of the system where none was set."),
    FIELD_NAMED("max_lease_ttl", struct tuned, config.max_lease_ttl, INT,
                .help = "Seconds; the value of the system where none was set."),
    FIELD_NAMED("force_no_cache", struct tuned, config.force_no_cache, BOOL, .help = "As given."),
    FIELD_NAMED("listing_visibility", struct tuned, config.listing_visibility, STRING, .omit = true,
                .help = "As given."),
    FIELD_NAMED("token_type", struct tuned, config.token_type, STRING, .omit = true,
                .help = "Auth methods only."),
    FIELD_NAMED("audit_non_hmac_request_keys", struct tuned, config.audit_non_hmac_request_keys,
                STRINGS, .omit = true, .help = "As given."),
    FIELD_NAMED("audit_non_hmac_response_keys", struct tuned, config.audit_non_hmac_response_keys,
                STRINGS, .omit = true, .help = "As given."),
    FIELD_NAMED("passthrough_request_headers", struct tuned, config.passthrough_request_headers,
                STRINGS, .omit = true, .help = "As given."),
    FIELD_NAMED("allowed_response_headers", struct tuned, config.allowed_response_headers, STRINGS,
                .omit = true, .help = "As given."),
    FIELD(struct tuned, description, STRING, .help = "For people."),
    FIELD(struct tuned, options, MAP, .null = true, .help = "Options, or null."),
};
static const struct schema mounts_tuned_schema = SCHEMA(struct tuned, tuned_fields);

static struct config_reply config_of(const struct mount *mount)
{
    return (struct config_reply){
        .default_lease_ttl = mount->default_lease_ttl_s,
        .max_lease_ttl = mount->max_lease_ttl_s,
        .force_no_cache = mount->force_no_cache,
        .listing_visibility = mount->listing_visibility,
        .token_type = mount->token_type,
        .audit_non_hmac_request_keys = mount->audit_non_hmac_request_keys,
        .audit_non_hmac_response_keys = mount->audit_non_hmac_response_keys,
        .passthrough_request_headers = mount->passthrough_request_headers,
        .allowed_response_headers = mount->allowed_response_headers,
    };
}

/* `path`: NULL where the reply does not repeat the path. */
static void put_mount(struct req *req, struct text_writer *w, const struct mount *mount,
                      const char *path)
{
    struct config_reply config = config_of(mount);
    const struct mount_info info = {
        .path = path,
        .type = mount->type,
        .description = mount->description,
        .accessor = mount->accessor,
        .uuid = mount->uuid,
        .config = &config,
        .options = mount->options,
        .local = mount->local,
        .seal_wrap = mount->seal_wrap,
        .external_entropy_access = mount->external_entropy_access,
        .plugin_version = "",
        .running_plugin_version = req->host->version,
        .running_sha256 = "",
        .deprecation_status = "supported",
    };
    schema_encode(&mounts_info_schema, &info, w);
}

/* The path of a mount as the API shows it: without "auth/" for auth methods. */
static const char *shown_path(const struct mount *mount)
{
    return module_is_auth(mount) ? mount->path + strlen(SYS_AUTH_PREFIX) : mount->path;
}

struct listing {
    struct req *req;
    struct text_writer w;
    bool auth; /* auth methods, else secrets engines */
};

/* Whether the request sees the mount. A request without a token sees only mounts with
 * listing_visibility "unauth". A request with a token sees the mounts that the token can use. */
static bool is_visible(const struct req *req, const struct mount *mount)
{
    if (req->token != NULL)
        return acl_reaches(req->acl, bytes_str(mount->path));
    return mount->listing_visibility != NULL && strcmp(mount->listing_visibility, "unauth") == 0;
}

struct brief {
    const char *type, *description;
    struct field_map options;
};
static const struct field brief_fields[] = {
    FIELD(struct brief, type, STRING),
    FIELD(struct brief, description, STRING),
    FIELD(struct brief, options, MAP, .null = true),
};
static const struct schema brief_schema = SCHEMA(struct brief, brief_fields);

static void put_brief(struct text_writer *w, const struct mount *mount)
{
    const struct brief brief = {mount->type, mount->description, mount->options};
    schema_encode(&brief_schema, &brief, w);
}

static enum status put_visible(void *ctx, const struct mount *mount)
{
    struct listing *listing = ctx;
    struct req *req = listing->req;
    if (module_is_auth(mount) != listing->auth || !is_visible(req, mount))
        return ST_OK;
    text_key(&listing->w, shown_path(mount));
    if (req->token == NULL)
        put_brief(&listing->w, mount);
    else
        put_mount(req, &listing->w, mount, NULL);
    return ST_OK;
}

static enum status put_visible_mounts(struct listing *listing, const char *name, bool auth)
{
    listing->auth = auth;
    text_key(&listing->w, name);
    text_open_object(&listing->w);
    TRY(mount_each(listing->req->txn, listing->req->ns, put_visible, listing));
    text_close(&listing->w);
    return ST_OK;
}

static enum status mounts_ui_mounts(struct req *req)
{
    struct listing listing = {.req = req, .w = req_reply_begin(req)};
    text_open_object(&listing.w);
    TRY(put_visible_mounts(&listing, "secret", false));
    TRY(put_visible_mounts(&listing, "auth", true));
    text_close(&listing.w);
    ASSERT(listing.w.depth == 0);
    return req_reply_end(req);
}

/* A missing mount and a mount without access give the same error. */
static enum status refuse(struct req *req, const char *path)
{
    return req_fail(req, ST_DENIED,
                    "preflight capability check returned 403, please ensure client's policies "
                    "grant access to path \"%.100s/\"",
                    path);
}

static enum status mounts_ui_mount(struct req *req)
{
    const char *path = req_param(req, "path");
    struct mount mount;

    enum status st = mount_find(req->txn, req->ns, bytes_str(path), &mount);
    if (st == ST_NOT_FOUND)
        return refuse(req, path);
    TRY(st);
    if (!acl_reaches(req->acl, bytes_str(mount.path)))
        return refuse(req, path);
    struct text_writer w = req_reply_begin(req);
    put_mount(req, &w, &mount, shown_path(&mount));
    ASSERT(w.depth == 0);
    return req_reply_end(req);
}

struct mounts_out {
    struct field_list mounts;
};
static const struct field mounts_fields[] = {
    FIELD_NAMED("", struct mounts_out, mounts, OTHERS, .sub = &mounts_info_schema),
};
static const struct schema mounts_list_reply = SCHEMA(struct mounts_out, mounts_fields);

static enum status put_one(void *ctx, const struct mount *mount)
{
    struct listing *listing = ctx;
    if (module_is_auth(mount) != listing->auth)
        return ST_OK;
    text_key(&listing->w, shown_path(mount));
    put_mount(listing->req, &listing->w, mount, NULL);
    return ST_OK;
}

static enum status list(struct req *req, bool auth)
{
    struct listing listing = {.req = req, .w = req_reply_begin(req), .auth = auth};
    text_open_object(&listing.w);
    TRY(mount_each(req->txn, req->ns, put_one, &listing));
    text_close(&listing.w);
    ASSERT(listing.w.depth == 0);
    return req_reply_end(req);
}

static enum status mounts_list(struct req *req)
{
    return list(req, false);
}

static enum status mounts_auth_list(struct req *req)
{
    return list(req, true);
}

/* The mount at `prefix` and the path that the request names. */
static enum status mount_at(struct req *req, const char *prefix, struct mount *ret_mount)
{
    const char *path = req_param(req, "path");
    struct reason why = {0};
    enum status st = mount_path(req->arena, path, &path, &why);
    if (st == ST_INVALID)
        return req_fail(req, st, "%s", why.text);
    TRY(st);
    ASSERT(mounts_is_path(path));
    const char *whole = arena_format(req->arena, "%s%s", prefix, path);
    if (whole == NULL)
        return ST_NOMEM;
    st = mount_get(req->txn, req->ns, whole, ret_mount);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID, "No %s engine mount at %s", *prefix ? "auth" : "secret",
                        path);
    return st;
}

enum status mounts_named(struct req *req, bool auth, struct mount *ret_mount)
{
    struct mount mount;
    TRY(mount_at(req, auth ? SYS_AUTH_PREFIX : "", &mount));
    if (!auth && module_is_auth(&mount))
        return req_fail(req, ST_INVALID, "No secret engine mount at %s", mount.path);
    *ret_mount = mount;
    return ST_OK;
}

enum status mounts_tuned(struct req *req, bool auth, struct mount *ret_mount, bool *ret_auth)
{
    TRY(mount_at(req, auth ? SYS_AUTH_PREFIX : "", ret_mount));
    *ret_auth = module_is_auth(ret_mount);
    return ST_OK;
}

static enum status read_one(struct req *req, bool auth)
{
    struct mount mount;
    TRY(mounts_named(req, auth, &mount));
    struct text_writer w = req_reply_begin(req);
    put_mount(req, &w, &mount, NULL);
    return req_reply_end(req);
}

static enum status mounts_read(struct req *req)
{
    return read_one(req, false);
}

static enum status mounts_auth_read(struct req *req)
{
    return read_one(req, true);
}

static enum status read_tune(struct req *req, bool auth)
{
    struct mount mount;
    TRY(mounts_tuned(req, auth, &mount, &auth));
    struct tuned out = {
        .config = config_of(&mount), .description = mount.description, .options = mount.options};
    if (out.config.default_lease_ttl == 0)
        out.config.default_lease_ttl = SYS_TTL_S;
    if (out.config.max_lease_ttl == 0)
        out.config.max_lease_ttl = SYS_TTL_S;
    return req_reply(req, &out);
}

static enum status mounts_tune_read(struct req *req)
{
    return read_tune(req, false);
}

static enum status mounts_auth_tune_read(struct req *req)
{
    return read_tune(req, true);
}

/* The full reply, for a request with a valid token. */
#define VISIBLE_MOUNT "({@}|{type:str description:str options:map~})"

static const struct route mounts_routes[] = {
    {.method = METHOD_GET,
     .path = "internal/ui/mounts",
     .handler = mounts_ui_mounts,
     .who = WHO_OPTIONAL,
     .reply = &mounts_info_schema,
     /* A request with a token gets whole mounts, a request without gets a part of each mount. */
     .shape = "{secret:{*:" VISIBLE_MOUNT "} auth:{*:" VISIBLE_MOUNT "}}",
     .help = "Mounts that the token can use; without a token, mounts with listing_visibility "
             "\"unauth\"."},
    {.method = METHOD_GET,
     .path = "internal/ui/mounts/+path",
     .handler = mounts_ui_mount,
     .who = WHO_ANY_TOKEN,
     .reply = &mounts_info_schema,
     .help = "The mount that serves a path which the token can use. Without mount or without "
             "access: 403."},
    {.method = METHOD_GET,
     .path = "mounts",
     .handler = mounts_list,
     .form = FORM_TOP_LEVEL,
     .reply = &mounts_list_reply,
     .help = "All secrets engines: an object with a member for each path."},
    {.method = METHOD_GET,
     .path = "mounts/*path/tune",
     .handler = mounts_tune_read,
     .form = FORM_TOP_LEVEL,
     .reply = &mounts_tuned_schema,
     .help = "The settings of a mount as they take effect."},
    {.method = METHOD_GET,
     .path = "mounts/+path",
     .handler = mounts_read,
     .form = FORM_TOP_LEVEL,
     .reply = &mounts_info_schema,
     .help = "The mount at a path."},
    {.method = METHOD_GET,
     .path = "auth",
     .handler = mounts_auth_list,
     .form = FORM_TOP_LEVEL,
     .reply = &mounts_list_reply,
     .help = "All auth methods: an object with a member for each path."},
    {.method = METHOD_GET,
     .path = "auth/*path/tune",
     .handler = mounts_auth_tune_read,
     .form = FORM_TOP_LEVEL,
     .flags = ROUTE_SUDO,
     .reply = &mounts_tuned_schema,
     .help = "The settings of an auth method as they take effect."},
    {.method = METHOD_GET,
     .path = "auth/+path",
     .handler = mounts_auth_read,
     .form = FORM_TOP_LEVEL,
     .flags = ROUTE_SUDO,
     .reply = &mounts_info_schema,
     .help = "The auth method at a path."},
};

const struct route_table mounts_show_table = {mounts_routes, ARRAY_LEN(mounts_routes)};
