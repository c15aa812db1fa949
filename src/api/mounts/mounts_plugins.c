/* sys/plugins/catalog: the engines and auth methods of this program, in the form of upstream's
 * catalog of plugins. There are no plugins from outside the program, so the catalog is
 * read-only. */
#include "api/mounts/mounts.h"

#include <stdlib.h>

struct plugin {
    const char *name, *type, *version, *command, *sha256, *deprecation_status;
    struct field_strings args;
    bool builtin;
};
static const struct field detail_fields[] = {
    FIELD(struct plugin, type, STRING, .help = "secret or auth."),
    FIELD(struct plugin, name, STRING, .help = "Type of mounts."),
    FIELD(struct plugin, version, STRING, .help = "Version of the program."),
    FIELD(struct plugin, builtin, BOOL, .help = "Always true."),
    FIELD(struct plugin, deprecation_status, STRING, .help = "\"supported\"."),
};
static const struct schema detail_schema = SCHEMA(struct plugin, detail_fields);

static const struct field plugin_fields[] = {
    FIELD(struct plugin, name, STRING, .help = "Type of mounts."),
    FIELD(struct plugin, args, STRINGS, .help = "Empty."),
    FIELD(struct plugin, command, STRING, .help = "Empty."),
    FIELD(struct plugin, sha256, STRING, .help = "Empty."),
    FIELD(struct plugin, builtin, BOOL, .help = "Always true."),
    FIELD(struct plugin, version, STRING, .help = "Version of the program."),
    FIELD(struct plugin, deprecation_status, STRING, .help = "\"supported\"."),
};
static const struct schema mounts_plugin_reply = SCHEMA(struct plugin, plugin_fields);

struct catalog_out {
    struct field_strings auth, database, secret;
    struct field_list detailed;
};
static const struct field catalog_fields[] = {
    FIELD(struct catalog_out, auth, STRINGS, .help = "Auth methods."),
    FIELD(struct catalog_out, database, STRINGS, .help = "Empty: there are no database plugins."),
    FIELD(struct catalog_out, secret, STRINGS, .help = "Secrets engines."),
    FIELD(struct catalog_out, detailed, LIST, .sub = &detail_schema, .help = "All of them."),
};
static const struct schema mounts_plugins_reply = SCHEMA(struct catalog_out, catalog_fields);

struct asked {
    const char *version;
};
static const struct field asked_fields[] = {
    FIELD(struct asked, version, STRING, .preset = "",
          .help = "A version: another one than the program's is not found."),
};
static const struct schema mounts_plugin_asked_schema = SCHEMA(struct asked, asked_fields);

static const struct {
    const char *type;
    bool logins, engines;
} types[] = {
    {.type = "auth", .logins = true}, {.type = "database"}, {.type = "secret", .engines = true}};

/* The plugins of one type, ordered by name. */
struct plugins {
    struct plugin *items;
    const char **names;
    size_t n;
};

static int by_name(const void *a, const void *b)
{
    const struct plugin *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static void add_plugin(const struct req *req, struct plugins *list, const char *type,
                       const char *name)
{
    list->items[list->n++] = (struct plugin){.name = name,
                                             .type = type,
                                             .version = req->host->version,
                                             .command = "",
                                             .sha256 = "",
                                             .deprecation_status = "supported",
                                             .args = {.given = true},
                                             .builtin = true};
}

/* List the plugins of types[t]. */
static enum status plugins_of(struct req *req, size_t t, struct plugins *ret_list)
{
    const struct module_list *modules = &req->router->options.modules;
    struct plugins list = {0};
    size_t room = 1; /* the arena gives no memory of 0 bytes */
    ASSERT(t < ARRAY_LEN(types));
    for (size_t i = 0; i < modules->n; i++)
        room += modules->items[i]->n_engines + modules->items[i]->n_logins;
    list.items = arena_alloc(req->arena, room * sizeof *list.items);
    list.names = arena_alloc(req->arena, room * sizeof *list.names);
    if (list.items == NULL || list.names == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < modules->n; i++) {
        const struct module *module = modules->items[i];
        for (size_t k = 0; types[t].engines && k < module->n_engines; k++)
            add_plugin(req, &list, types[t].type, module->engines[k].type);
        for (size_t k = 0; types[t].logins && k < module->n_logins; k++)
            add_plugin(req, &list, types[t].type, module->logins[k].type);
    }
    ASSERT(list.n < room);
    qsort(list.items, list.n, sizeof *list.items, by_name);
    for (size_t i = 0; i < list.n; i++)
        list.names[i] = list.items[i].name;
    *ret_list = list;
    return ST_OK;
}

static enum status find_type(struct req *req, size_t *ret_type)
{
    const char *type = req_param(req, "type");
    for (size_t t = 0; t < ARRAY_LEN(types); t++) {
        if (strcmp(types[t].type, type) != 0)
            continue;
        *ret_type = t;
        return ST_OK;
    }
    return req_fail(
        req, ST_INVALID,
        "\"%.40s\" is not a supported plugin type: auth, database or secret is expected", type);
}

static struct field_strings names_of(const struct plugins *list)
{
    return (struct field_strings){.items = list->names, .n = list->n, .given = true};
}

static enum status mounts_plugins_read(struct req *req)
{
    struct plugins lists[ARRAY_LEN(types)], all = {0};
    for (size_t t = 0; t < ARRAY_LEN(types); t++) {
        TRY(plugins_of(req, t, &lists[t]));
        all.n += lists[t].n;
    }
    all.items = arena_alloc(req->arena, (all.n + 1) * sizeof *all.items);
    if (all.items == NULL)
        return ST_NOMEM;
    all.n = 0;
    for (size_t t = 0; t < ARRAY_LEN(types); t++)
        for (size_t i = 0; i < lists[t].n; i++)
            all.items[all.n++] = lists[t].items[i];
    static_assert(ARRAY_LEN(types) == 3, "a list for each type");
    return req_reply(req, &(struct catalog_out){.auth = names_of(&lists[0]),
                                                .database = names_of(&lists[1]),
                                                .secret = names_of(&lists[2]),
                                                .detailed = {.items = all.items, .n = all.n}});
}

static enum status mounts_plugins_list(struct req *req)
{
    struct plugins list;
    size_t t;
    ASSERT(req_in_txn(req));
    TRY(find_type(req, &t));
    TRY(plugins_of(req, t, &list));
    return req_reply_keys(req, list.names, list.n);
}

/* Reply with the plugin of types[t] that has the name. ST_NOT_FOUND. */
static enum status reply_one(struct req *req, size_t t, const char *name)
{
    const struct asked *in = req_body(req);
    struct plugins list;
    TRY(plugins_of(req, t, &list));
    for (size_t i = 0; i < list.n; i++)
        if (strcmp(list.items[i].name, name) == 0 &&
            (in->version[0] == '\0' || strcmp(in->version, list.items[i].version) == 0))
            return req_reply(req, &list.items[i]);
    return ST_NOT_FOUND;
}

static enum status mounts_plugin_read(struct req *req)
{
    size_t t;
    ASSERT(req_in_txn(req));
    TRY(find_type(req, &t));
    return reply_one(req, t, req_param(req, "name"));
}

/* Upstream's older path, without a type: what the pattern calls the type is the name. */
static enum status mounts_plugin_read_untyped(struct req *req)
{
    enum status st = ST_NOT_FOUND;
    for (size_t t = 0; t < ARRAY_LEN(types) && st == ST_NOT_FOUND; t++)
        st = reply_one(req, t, req_param(req, "type"));
    return st;
}

#define CATALOG "plugins/catalog"

static const struct route plugin_routes[] = {
    {.method = METHOD_GET,
     .path = CATALOG,
     .handler = mounts_plugins_read,
     .reply = &mounts_plugins_reply,
     .help =
         "The secrets engines and auth methods that can be mounted. All of them are part of the "
         "program."},
    {.method = METHOD_LIST,
     .path = CATALOG "/:type",
     .handler = mounts_plugins_list,
     .flags = ROUTE_SUDO,
     .help = "The names of the engines (secret) or auth methods (auth) that can be mounted."},
    {.method = METHOD_GET,
     .path = CATALOG "/:type",
     .handler = mounts_plugin_read_untyped,
     .flags = ROUTE_SUDO,
     .body = &mounts_plugin_asked_schema,
     .reply = &mounts_plugin_reply,
     .help = "An engine or auth method that can be mounted, by its name alone."},
    {.method = METHOD_GET,
     .path = CATALOG "/:type/:name",
     .handler = mounts_plugin_read,
     .flags = ROUTE_SUDO,
     .body = &mounts_plugin_asked_schema,
     .reply = &mounts_plugin_reply,
     .help = "An engine or auth method that can be mounted."},
};

const struct route_table mounts_plugins_table = {plugin_routes, ARRAY_LEN(plugin_routes)};
