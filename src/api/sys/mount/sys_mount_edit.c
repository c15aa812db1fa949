#include "api/sys/mount/sys_mounts.h"
#include "api/sys/sys.h"
#include "text/duration.h"

struct sys_mount {
    const char *path, *type, *description, *plugin_name;
    const struct text_value *config;
    struct field_map options;
    bool local, seal_wrap, external_entropy_access;
};
/* Fields of `config`, and of a tune, where they stand at the top. */
struct sys_mount_tune {
    const char *path, *description, *default_lease_ttl, *max_lease_ttl;
    const char *listing_visibility, *token_type;
    bool force_no_cache, has_force_no_cache;
    struct field_strings audit_non_hmac_request_keys, audit_non_hmac_response_keys;
    struct field_strings passthrough_request_headers, allowed_response_headers;
    struct field_map options;
};

/* Settings of a mount, in `config` when it is made and at the top when it is tuned. */
#define SETTING_FIELDS                                                                             \
    FIELD(struct sys_mount_tune, default_lease_ttl, STRING,                                        \
          .help = "Time to live where a request names none; \"system\" or 0: the system's."),      \
        FIELD(struct sys_mount_tune, max_lease_ttl, STRING,                                        \
              .help = "Longest time to live; \"system\" or 0: the system's."),                     \
        FIELD(struct sys_mount_tune, force_no_cache, BOOL,                                         \
              .has = offsetof(struct sys_mount_tune, has_force_no_cache),                          \
              .help = "Accepted and shown; nothing is cached."),                                   \
        FIELD(struct sys_mount_tune, listing_visibility, STRING,                                   \
              .help = "\"unauth\": listed to clients without a token; \"hidden\" or empty: not."), \
        FIELD(struct sys_mount_tune, token_type, STRING,                                           \
              .help = "Auth methods other than token: default-service, default-batch, service or " \
                      "batch."),                                                                   \
        FIELD(struct sys_mount_tune, audit_non_hmac_request_keys, STRINGS,                         \
              .help = "Names of request data that audit devices record in the clear."),            \
        FIELD(struct sys_mount_tune, audit_non_hmac_response_keys, STRINGS,                        \
              .help = "Names of response data that audit devices record in the clear."),           \
        FIELD(struct sys_mount_tune, passthrough_request_headers, STRINGS,                         \
              .help = "Accepted and shown."),                                                      \
        FIELD(struct sys_mount_tune, allowed_response_headers, STRINGS,                            \
              .help = "Accepted and shown.")
static const struct field config_fields[] = {SETTING_FIELDS};
static const struct schema sys_mount_config_schema = SCHEMA(struct sys_mount_tune, config_fields);

static const struct field mount_fields[] = {
    FIELD(struct sys_mount, path, STRING, .help = "Where the engine is to stand."),
    FIELD(struct sys_mount, type, STRING, .required = true,
          .help = "Type of engine, such as \"kv\"; \"kv-v2\" is kv with the option version 2, "
                  "\"generic\" an old name of kv version 1."),
    FIELD(struct sys_mount, description, STRING, .preset = "", .help = "For people."),
    FIELD(struct sys_mount, config, VALUE, .sub = &sys_mount_config_schema,
          .help = "Settings, as those of a tune."),
    FIELD(struct sys_mount, options, MAP,
          .help = "kv: version, \"1\" (default) or \"2\". Others are kept and shown."),
    FIELD(struct sys_mount, plugin_name, STRING,
          .help = "Type of engine where the type is \"plugin\"; else not read."),
    FIELD(struct sys_mount, local, BOOL, .preset = "false", .help = "Accepted and shown."),
    FIELD(struct sys_mount, seal_wrap, BOOL, .preset = "false", .help = "Accepted and shown."),
    FIELD(struct sys_mount, external_entropy_access, BOOL, .preset = "false",
          .help = "Accepted and shown."),
};
static const struct schema sys_mount_schema = SCHEMA(struct sys_mount, mount_fields);

static const struct field tune_fields[] = {
    FIELD(struct sys_mount_tune, path, STRING, .help = "Path of the mount."),
    FIELD(struct sys_mount_tune, description, STRING, .help = "For people."),
    SETTING_FIELDS,
    FIELD(struct sys_mount_tune, options, MAP,
          .help = "kv: version, which may be raised from \"1\" to \"2\". Others are kept and "
                  "shown; an empty one is removed."),
};
static const struct schema sys_mount_tune_schema = SCHEMA(struct sys_mount_tune, tune_fields);

enum { OPTIONS_MAX = 256 };

static const struct module_list *modules_of(const struct req *req)
{
    return &req->router->options.modules;
}

/* Whether a mount stands there for good: it is neither moved, removed nor tuned. */
static bool is_fixed(const struct req *req, const char *path)
{
    const struct module_list *list = modules_of(req);
    for (size_t i = 0; i < list->n; i++)
        for (size_t k = 0; k < list->items[i]->n_mounts; k++) {
            const struct module_mount *made = &list->items[i]->mounts[k];
            if (!made->optional && strcmp(path, made->mount.path) == 0)
                return true;
        }
    return false;
}

enum status sys_mount_check_place(struct req *req, const char *path)
{
    const struct module_list *list = modules_of(req);
    struct bytes first = bytes_of(path, strcspn(path, "/"));
    for (size_t i = 0; i < list->n; i++)
        for (size_t k = 0; k < list->items[i]->n_reserved; k++) {
            const char *word = list->items[i]->reserved[k];
            if (text_is(first, word))
                return req_fail(req, ST_INVALID, "cannot mount at \"%s\": \"%s/\" is reserved",
                                path, word);
        }
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

/* The engine of a type or of an alias, which *ret_alias is then; NULL: there is none. */
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

/* Options that have no meaning here are kept and shown as they were given. */

/* A copy with room for `more` options. */
static enum status copy_options(struct req *req, const struct field_map *from, size_t more,
                                const char ***ret_pairs)
{
    if (from->n + more > OPTIONS_MAX)
        return req_fail(req, ST_INVALID, "options: more than %d", OPTIONS_MAX);
    const char **pairs = arena_alloc(req->arena, 2 * (from->n + more + 1) * sizeof *pairs);
    if (pairs == NULL)
        return ST_NOMEM;
    if (from->n != 0)
        memcpy(pairs, from->pairs, 2 * from->n * sizeof *pairs);
    *ret_pairs = pairs;
    return ST_OK;
}

/* Set an option among `*n`; an empty value removes it. */
static void put_option(const char **pairs, size_t *n, const char *name, const char *value)
{
    size_t i = 0;
    while (i < *n && strcmp(pairs[2 * i], name) != 0)
        i++;
    if (value[0] != '\0') {
        pairs[2 * i] = name;
        pairs[2 * i + 1] = value;
        *n = MAX(*n, i + 1);
    } else if (i < *n) {
        --*n;
        memmove(pairs + 2 * i, pairs + 2 * (i + 1), 2 * (*n - i) * sizeof *pairs);
    }
}

/* An alias stands for a type with an option, "plugin" for the type that plugin_name names. */
static enum status read_type(struct req *req, const struct sys_mount *in, struct mount *mount)
{
    bool named = strcmp(in->type, "plugin") == 0 && in->plugin_name != NULL;
    const char *type = named ? in->plugin_name : in->type;
    const struct module_alias *alias;
    const struct module_engine *engine = find_engine(req, type, &alias);
    const char **pairs;
    size_t n = in->options.n;
    TRY(copy_options(req, &in->options, 1, &pairs));
    if (engine == NULL)
        return req_fail(req, ST_INVALID, "plugin not found in the catalog: %.64s", type);
    if (alias != NULL)
        put_option(pairs, &n, "version", alias->version);
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
    if (settings.token_type != NULL)
        req_warn(req, "config: token_type was ignored: only auth methods have one");
    settings.token_type = NULL;
    return apply_settings(req, &settings, mount);
}

static enum status sys_mount_create(struct req *req)
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

static enum status sys_mount_delete(struct req *req)
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
    const struct module_alias *alias;
    const struct module_engine *engine = find_engine(req, mount->type, &alias);
    if (engine == NULL || engine->tune_version == NULL)
        return req_fail(req, ST_INVALID, "options: version: this mount cannot have it");
    return engine->tune_version(req, to, mount);
}

/* The options that are given replace or join those of the mount; an empty one is removed. */
static enum status tune_options(struct req *req, const struct field_map *given, struct mount *mount)
{
    const char **pairs;
    size_t n = mount->options.n;
    TRY(copy_options(req, &mount->options, given->n, &pairs));
    for (size_t i = 0; i < given->n; i++) {
        const char *name = given->pairs[2 * i], *value = given->pairs[2 * i + 1];
        if (strcmp(name, "version") == 0)
            TRY(tune_version(req, value, mount));
        put_option(pairs, &n, name, value);
    }
    mount->options = (struct field_map){.pairs = pairs, .n = n, .given = true};
    return ST_OK;
}

static enum status tune(struct req *req, bool auth)
{
    const struct sys_mount_tune *in = req_body(req);
    struct mount mount;

    TRY(sys_mount_tuned(req, auth, &mount, &auth));
    if (!auth && is_fixed(req, mount.path) && touches_fixed(in))
        return req_fail(req, ST_INVALID, "cannot tune \"%s\"", mount.path);
    if (!auth && in->token_type != NULL)
        return req_fail(req, ST_INVALID, "'token_type' can only be modified on auth mounts");
    if (in->token_type != NULL && strcmp(mount.type, "token") == 0)
        return req_fail(req, ST_INVALID,
                        "'token_type' cannot be set for 'token' or 'ns_token' auth mounts");
    if (in->description != NULL)
        mount.description = in->description;
    TRY(apply_settings(req, in, &mount));
    TRY(tune_options(req, &in->options, &mount));
    return mount_update(req->txn, req->ns, &mount);
}

static enum status sys_mount_tune(struct req *req)
{
    return tune(req, false);
}

static enum status sys_auth_tune(struct req *req)
{
    return tune(req, true);
}

enum status sys_mount_defaults(struct req *req)
{
    const struct module_list *list = modules_of(req);
    for (size_t i = 0; i < list->n; i++)
        for (size_t k = 0; k < list->items[i]->n_mounts; k++) {
            const struct module_mount *made = &list->items[i]->mounts[k];
            struct mount mount = made->mount; /* gets its UUID and accessor */
            if (!made->optional || req->host->optional_mounts)
                TRY(mount_create(req->txn, req->env, req->ns, &mount));
        }
    return ST_OK;
}

static const struct route mount_edit_routes[] = {
    {.method = METHOD_POST,
     .path = "mounts/*path/tune",
     .handler = sys_mount_tune,
     .body = &sys_mount_tune_schema,
     .help = "Change settings of a mount; what is not named stays. A key/value mount of version 1 "
             "becomes one of version 2 at once, and every secret its own version 1."},
    {.method = METHOD_POST,
     .path = "mounts/*path",
     .handler = sys_mount_create,
     .flags = ROUTE_SOME,
     .body = &sys_mount_schema,
     .help = "Mount a secrets engine. Mounts do not nest, and some first segments are reserved."},
    {.method = METHOD_DELETE,
     .path = "mounts/*path",
     .handler = sys_mount_delete,
     .flags = ROUTE_SOME,
     .help = "Unmount a secrets engine and delete all it holds; none is fine too."},
    {.method = METHOD_POST,
     .path = "auth/*path/tune",
     .handler = sys_auth_tune,
     .flags = ROUTE_SUDO,
     .body = &sys_mount_tune_schema,
     .help = "Change settings of an auth method; what is not named stays."},
};

const struct route_table sys_mount_edit_table = {mount_edit_routes, ARRAY_LEN(mount_edit_routes)};
