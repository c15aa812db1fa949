/* Mounts of secrets engines and auth methods: create, remove, tune. */
#include "api/mounts/mounts.h"
#include "api/mounts/mounts_settings.h"
#include "api/mounts/mounts_show.h"
#include "router/quota_follow.h"
#include "router/req_lease.h"

struct mounts_one {
    const char *path, *type, *description, *plugin_name;
    const struct text_value *config;
    struct field_map options;
    bool local, seal_wrap, external_entropy_access;
};
static const struct field mount_fields[] = {
    FIELD(struct mounts_one, path, STRING, .help = "The path of the new mount."),
    FIELD(struct mounts_one, type, STRING, .required = true,
          .help = "Type of engine or auth method, such as \"kv\". \"kv-v2\" is kv with the option "
                  "version 2. \"generic\" is an old name of kv version 1."),
    FIELD(struct mounts_one, description, STRING, .preset = "", .help = "For people."),
    FIELD(struct mounts_one, config, VALUE, .sub = &mounts_config_schema,
          .help = "Settings, as in the body of a tune."),
    FIELD(struct mounts_one, options, MAP,
          .help = "kv: version, \"1\" (default) or \"2\". Other options are kept and shown."),
    FIELD(struct mounts_one, plugin_name, STRING,
          .help = "Type of engine where the type is \"plugin\"; else not read."),
    FIELD(struct mounts_one, local, BOOL, .preset = "false", .help = "Accepted and shown."),
    FIELD(struct mounts_one, seal_wrap, BOOL, .preset = "false", .help = "Accepted and shown."),
    FIELD(struct mounts_one, external_entropy_access, BOOL, .preset = "false",
          .help = "Accepted and shown."),
};
static const struct schema mounts_schema = SCHEMA(struct mounts_one, mount_fields);

static const struct module_list *modules_of(const struct req *req)
{
    return &req->router->options.modules;
}

/* Whether the mount at `path` cannot be moved, removed or tuned. */
static bool is_fixed(const struct req *req, const char *path)
{
    const struct module_list *list = modules_of(req);
    ASSERT(mounts_is_path(path));
    for (size_t i = 0; i < list->n; i++)
        for (size_t k = 0; k < list->items[i]->n_mounts; k++) {
            const struct module_mount *made = &list->items[i]->mounts[k];
            if (!made->optional && strcmp(path, made->mount.path) == 0)
                return true;
        }
    return false;
}

enum status mounts_check_place(struct req *req, const char *path)
{
    const struct module_list *list = modules_of(req);
    struct bytes first = bytes_of(path, strcspn(path, "/"));
    ASSERT(mounts_is_path(path));
    for (size_t i = 0; i < list->n; i++)
        for (size_t k = 0; k < list->items[i]->n_reserved; k++) {
            const char *word = list->items[i]->reserved[k];
            if (text_is(first, word))
                return req_fail(req, ST_INVALID, "cannot mount at \"%s\": \"%s/\" is reserved",
                                path, word);
        }
    return ST_OK;
}

enum status mounts_check_wildcards(struct req *req, const char *path)
{
    size_t len;
    ASSERT(mounts_is_path(path)); /* every segment ends in '/' */
    for (const char *segment = path; *segment != '\0'; segment += len + 1) {
        len = strcspn(segment, "/");
        if ((len == 1 && segment[0] == '+') || memchr(segment, '*', len) != NULL)
            return req_fail(req, ST_INVALID,
                            "cannot mount at \"%s\": '+' and '*' are wildcards in policies", path);
    }
    return ST_OK;
}

enum status mounts_check_new(struct req *req, const char *path)
{
    TRY(mounts_check_wildcards(req, path));
    return mounts_check_place(req, path);
}

/* The path that a request names; `auth`: with the prefix of auth methods. */
static enum status mount_path_of(struct req *req, bool auth, const char **ret_path)
{
    struct reason why = {0};
    const char *text = req_param(req, "path");
    if (auth)
        text = arena_format(req->arena, SYS_AUTH_PREFIX "%s", text + strspn(text, "/"));
    if (text == NULL)
        return ST_NOMEM;
    enum status st = mount_path(req->arena, text, ret_path, &why);
    if (st == ST_INVALID)
        return req_fail(req, st, "%s", why.text);
    TRY(st);
    ASSERT(mounts_is_path(*ret_path));
    return ST_OK;
}

/* Create */

/* The engine that a type or an alias names; NULL: there is no such engine. *ret_alias is the alias,
 * or NULL if the name is a type. */
static const struct module_engine *find_engine(const struct req *req, const char *type,
                                               const struct module_alias **ret_alias)
{
    const struct module_list *list = modules_of(req);
    *ret_alias = NULL;
    for (size_t i = 0; i < list->n; i++)
        for (size_t k = 0; k < list->items[i]->n_engines; k++) {
            const struct module_engine *engine = &list->items[i]->engines[k];
            if (strcmp(engine->type, type) == 0)
                return engine;
            for (size_t j = 0; j < engine->n_aliases; j++)
                if (strcmp(engine->aliases[j].name, type) == 0) {
                    *ret_alias = &engine->aliases[j];
                    return engine;
                }
        }
    return NULL;
}

/* Read type and options of a new mount. An alias is a type with an option; with the type "plugin",
 * plugin_name names the type. */
static enum status read_type(struct req *req, const struct mounts_one *in, struct mount *mount)
{
    bool named = strcmp(in->type, "plugin") == 0 && in->plugin_name != NULL;
    const char *type = named ? in->plugin_name : in->type;
    const struct module_alias *alias;
    const struct module_engine *engine = find_engine(req, type, &alias);
    const char **pairs;
    size_t n = in->options.n;
    TRY(mounts_copy_options(req, &in->options, 1, &pairs));
    if (engine == NULL)
        return req_fail(req, ST_INVALID, "plugin not found in the catalog: %.64s", type);
    if (alias != NULL)
        mounts_put_option(pairs, &n, "version", alias->version);
    ASSERT(n <= in->options.n + 1);
    mount->type = engine->type;
    mount->options = (struct field_map){.pairs = pairs, .n = n, .given = true};
    const char *version = mount_option(mount, "version");
    if (version == NULL)
        return ST_OK;
    if (engine->check_version == NULL)
        return req_fail(req, ST_INVALID,
                        "secrets engine \"%.64s\" does not allow setting a version", mount->type);
    return engine->check_version(req, version);
}

/* Read type and options of a new auth method. */
static enum status read_auth_type(struct req *req, const struct mounts_one *in, struct mount *mount)
{
    bool named = strcmp(in->type, "plugin") == 0 && in->plugin_name != NULL;
    const char *type = named ? in->plugin_name : in->type;
    if (strcmp(type, "token") == 0)
        return req_fail(req, ST_INVALID, "token credential backend cannot be instantiated");
    const struct module_login *method = module_find_login(modules_of(req), type);
    if (method == NULL)
        return req_fail(req, ST_INVALID, "plugin not found in the catalog: %.64s", type);
    mount->type = method->type;
    mount->options = in->options;
    if (mount_option(mount, "version") != NULL)
        return req_fail(req, ST_INVALID, "auth method \"%.64s\" does not allow setting a version",
                        mount->type);
    return ST_OK;
}

static enum status make_mount(struct req *req, bool auth)
{
    const struct mounts_one *in = req_body(req);
    struct mount mount = {.description = in->description,
                          .local = in->local,
                          .seal_wrap = in->seal_wrap,
                          .external_entropy_access = in->external_entropy_access};
    const char *other;

    ASSERT(req_in_txn(req));
    TRY(mount_path_of(req, auth, &mount.path));
    TRY(auth ? mounts_check_wildcards(req, mount.path) : mounts_check_new(req, mount.path));
    ASSERT(auth == module_is_auth(&mount));
    TRY(auth ? read_auth_type(req, in, &mount) : read_type(req, in, &mount));
    TRY(mounts_read_config(req, in->config, auth, &mount));
    enum status st = mount_conflict(req->txn, req->ns, mount.path, &other);
    if (st == ST_OK)
        return req_fail(req, ST_INVALID, "path is already in use at %.160s", other);
    if (st != ST_NOT_FOUND)
        return st;
    return mount_create(req->txn, req->env, req->ns, &mount);
}

static enum status mounts_create(struct req *req)
{
    return make_mount(req, false);
}

static enum status mounts_auth_enable(struct req *req)
{
    return make_mount(req, true);
}

/* Remove */

enum status mounts_end_leases(struct req *req, const char *path)
{
    struct lease_scope scope;
    struct lease_ended ended;
    ASSERT(mounts_is_path(path));
    TRY(req_lease_scope(req, &scope));
    TRY(lease_end_below(&scope, path, false, &ended));
    if (!ended.all)
        req_warn(req, "More than %d leases: the active node is ending them.", LEASE_STEPS_MAX);
    return ST_OK;
}

/* End the leases first: the end of a lease may need what the mount stores. The quotas of the mount
 * end too: another mount at this path has quotas of its own. */
static enum status remove_mount(struct req *req, const char *path)
{
    struct mount mount;
    enum status st = mount_get(req->txn, req->ns, path, &mount);
    if (st == ST_NOT_FOUND)
        return ST_OK;
    TRY(st);
    ASSERT(strcmp(mount.path, path) == 0);
    TRY(mounts_end_leases(req, path));
    TRY(quota_follow(req, path, NULL));
    return mount_remove(req->txn, req->ns, &mount);
}

static enum status mounts_delete(struct req *req)
{
    const char *path;
    TRY(mount_path_of(req, false, &path));
    TRY(mounts_check_place(req, path));
    return remove_mount(req, path);
}

static enum status mounts_auth_disable(struct req *req)
{
    const char *path;
    TRY(mount_path_of(req, true, &path));
    if (is_fixed(req, path))
        return req_fail(req, ST_INVALID, "token credential backend cannot be disabled");
    return remove_mount(req, path);
}

/* Tune */

static bool is_given(const char *ttl)
{
    return ttl != NULL && ttl[0] != '\0';
}

/* Whether a tune changes more than a fixed mount allows. A fixed mount allows only changes of the
 * keys that audit devices do not hash. */
static bool touches_fixed(const struct mounts_tune *in)
{
    return in->description != NULL || is_given(in->default_lease_ttl) ||
           is_given(in->max_lease_ttl) || in->listing_visibility != NULL ||
           in->token_type != NULL || in->has_force_no_cache ||
           in->passthrough_request_headers.given || in->allowed_response_headers.given ||
           in->options.given;
}

static enum status tune_version(struct req *req, const char *to, struct mount *mount)
{
    const struct module_alias *alias;
    const struct module_engine *engine = find_engine(req, mount->type, &alias);
    if (engine == NULL || engine->tune_version == NULL)
        return req_fail(req, ST_INVALID, "options: version: this mount cannot have it");
    return engine->tune_version(req, to, mount);
}

/* Set the given options of the mount; an empty value removes an option. */
static enum status tune_options(struct req *req, const struct field_map *given, struct mount *mount)
{
    const char **pairs;
    size_t n = mount->options.n;
    TRY(mounts_copy_options(req, &mount->options, given->n, &pairs));
    for (size_t i = 0; i < given->n; i++) {
        const char *name = given->pairs[2 * i], *value = given->pairs[2 * i + 1];
        if (strcmp(name, "version") == 0)
            TRY(tune_version(req, value, mount));
        mounts_put_option(pairs, &n, name, value);
    }
    ASSERT(n <= mount->options.n + given->n);
    mount->options = (struct field_map){.pairs = pairs, .n = n, .given = true};
    return ST_OK;
}

static enum status tune(struct req *req, bool auth)
{
    const struct mounts_tune *in = req_body(req);
    struct mount mount;

    ASSERT(req_in_txn(req));
    TRY(mounts_tuned(req, auth, &mount, &auth));
    if (!auth && is_fixed(req, mount.path) && touches_fixed(in))
        return req_fail(req, ST_INVALID, "cannot tune \"%s\"", mount.path);
    if (!auth && in->token_type != NULL)
        return req_fail(req, ST_INVALID, "'token_type' can only be modified on auth mounts");
    if (in->token_type != NULL && strcmp(mount.type, "token") == 0)
        return req_fail(req, ST_INVALID,
                        "'token_type' cannot be set for 'token' or 'ns_token' auth mounts");
    if (in->description != NULL)
        mount.description = in->description;
    TRY(mounts_apply(req, in, &mount));
    TRY(tune_options(req, &in->options, &mount));
    return mount_update(req->txn, req->ns, &mount);
}

static enum status mounts_tune(struct req *req)
{
    return tune(req, false);
}

static enum status mounts_auth_tune(struct req *req)
{
    return tune(req, true);
}

enum status mounts_defaults(struct req *req)
{
    const struct module_list *list = modules_of(req);
    for (size_t i = 0; i < list->n; i++)
        for (size_t k = 0; k < list->items[i]->n_mounts; k++) {
            const struct module_mount *made = &list->items[i]->mounts[k];
            struct mount mount = made->mount; /* mount_create sets UUID and accessor */
            ASSERT(mounts_is_path(mount.path));
            if (!made->optional || req->host->optional_mounts)
                TRY(mount_create(req->txn, req->env, req->ns, &mount));
        }
    return ST_OK;
}

static const struct route mount_edit_routes[] = {
    {.method = METHOD_POST,
     .path = "mounts/*path/tune",
     .handler = mounts_tune,
     .body = &mounts_tune_schema,
     .help = "Change settings of a mount. Fields that the request does not give keep their values. "
             "A key/value mount of version 1 becomes one of version 2 at once: each object is "
             "then version 1 of its secret."},
    {.method = METHOD_POST,
     .path = "mounts/+path",
     .handler = mounts_create,
     .body = &mounts_schema,
     .help = "Mount a secrets engine. Mounts do not nest, and some first segments are reserved."},
    {.method = METHOD_DELETE,
     .path = "mounts/+path",
     .handler = mounts_delete,
     .help = "Unmount a secrets engine, end its leases and delete its data. An unknown path is no "
             "error."},
    {.method = METHOD_POST,
     .path = "auth/*path/tune",
     .handler = mounts_auth_tune,
     .flags = ROUTE_SUDO,
     .body = &mounts_tune_schema,
     .help = "Change settings of an auth method. Fields that the request does not give keep their "
             "values."},
    {.method = METHOD_POST,
     .path = "auth/+path",
     .handler = mounts_auth_enable,
     .flags = ROUTE_SUDO,
     .body = &mounts_schema,
     .help = "Enable an auth method at auth/ and this path. Methods do not nest."},
    {.method = METHOD_DELETE,
     .path = "auth/+path",
     .handler = mounts_auth_disable,
     .flags = ROUTE_SUDO,
     .help =
         "Disable an auth method, end the tokens that it gave and delete its data. Batch tokens "
         "stay valid until they expire. An unknown path is no error."},
};

const struct route_table mounts_edit_table = {mount_edit_routes, ARRAY_LEN(mount_edit_routes)};
