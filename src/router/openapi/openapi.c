#include "router/openapi/openapi.h"
#include "router/openapi/openapi_cache.h"
#include "router/openapi/openapi_internal.h"
#include "router/request/dialect.h"
#include "router/router.h"

#include <stdlib.h>

/* Write "mounts/:name" at the end of `out` as the document writes a template. */
static void add_template(struct buf *out, const char *pattern)
{
    while (*pattern != '\0') {
        size_t n = strcspn(pattern, "/");
        bool param = *pattern == ':' || route_is_rest(pattern);
        buf_add_u8(out, '/');
        if (param)
            buf_add_u8(out, '{');
        bool wide = *pattern == ':' && pattern[n - 1] == '@';
        buf_add(out, bytes_of(pattern + param, n - param - wide));
        if (param)
            buf_add_u8(out, '}');
        pattern += n + (pattern[n] == '/');
    }
}

/* Add a literal part of a path, with an escape for each character that has a meaning in a URL or a
 * template. */
static void add_literal(struct buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        bool plain = (*text >= 'a' && *text <= 'z') || (*text >= 'A' && *text <= 'Z') ||
                     (*text >= '0' && *text <= '9') || strchr("/-_.~", *text) != NULL;
        if (plain)
            buf_add_u8(out, (uint8_t)*text);
        else
            buf_add_format(out, "%%%02X", (unsigned)(uint8_t)*text);
    }
}

static enum status add_op(struct docs *d, const struct route_api *api, size_t row, const char *path,
                          const char *tail)
{
    if (d->n == OPENAPI_OPERATIONS_MAX) {
        d->cut = true;
        return ST_OK;
    }
    if (d->n == d->room) {
        size_t room = d->room != 0 ? d->room * 2 : 128;
        struct docs_op *ops = arena_alloc(d->arena, room * sizeof *ops);
        if (ops == NULL)
            return ST_NOMEM;
        if (d->n != 0)
            memcpy(ops, d->ops, d->n * sizeof *ops);
        d->ops = ops;
        d->room = room;
    }
    ASSERT(d->n < d->room);
    d->ops[d->n++] = (struct docs_op){.path = path,
                                      .tail = tail,
                                      .id = d->id,
                                      .route = route_at(api, row),
                                      .api = api,
                                      .order = row};
    return ST_OK;
}

/* Add one row at `base` (which has no slash at its end), with `pattern` behind `base`. */
static enum status add_row(struct docs *d, const struct route_api *api, size_t row,
                           const char *pattern)
{
    CLEANUP(buf_done) struct buf path = {0};
    size_t base_len = strlen(d->base);
    ASSERT(base_len == 0 || d->base[base_len - 1] != '/');
    buf_add_str(&path, d->base);
    add_template(&path, pattern);
    if (path.len == 0 || route_at(api, row)->method == METHOD_LIST)
        if (path.len == 0 || path.data[path.len - 1] != '/')
            buf_add_u8(&path, '/');
    TRY(buf_status(&path));
    const char *copy = arena_str(d->arena, buf_bytes(&path));
    return copy != NULL ? add_op(d, api, row, copy, pattern) : ST_NOMEM;
}

/* Add the rows of an API, but for paths that are not built. `astray`: also the rows that only name the right path (ROW_ASTRAY). In
 * a document where mounts have no names such rows would hide the rows of other engines. */
static enum status add_api(struct docs *d, const struct route_api *api, bool astray)
{
    const struct route *route;
    for (size_t i = 0; (route = route_at(api, i)) != NULL; i++)
        if (route->kind != ROW_ABSENT && (astray || route->kind != ROW_ASTRAY))
            TRY(add_row(d, api, i, route->path));
    return ST_OK;
}

static enum status set_base(struct docs *d, const char *path, const char *id)
{
    CLEANUP(buf_done) struct buf base = {0};
    buf_add_u8(&base, '/');
    add_literal(&base, path);
    TRY(buf_status(&base));
    ASSERT(base.data[0] == '/');
    base.len -= base.data[base.len - 1] == '/';
    d->base = arena_str(d->arena, buf_bytes(&base));
    d->id = id;
    return d->base != NULL && id != NULL ? ST_OK : ST_NOMEM;
}

static enum status add_fixed(struct docs *d, const struct router *router)
{
    struct module_walk walk = {0};
    const struct route_api *api;
    while ((api = module_next_api(&router->options.modules, &walk)) != NULL) {
        if (api->prefix == NULL || api->dialect != d->dialect)
            continue;
        TRY(set_base(d, api->prefix, api->type));
        TRY(add_api(d, api, true));
    }
    return ST_OK;
}

static enum status add_generic(struct docs *d, const struct router *router)
{
    struct module_walk walk = {0};
    const struct route_api *api;
    while ((api = module_next_api(&router->options.modules, &walk)) != NULL) {
        const char *version = api->version != NULL ? api->version : "";
        if (api->prefix != NULL)
            continue;
        d->id = arena_format(d->arena, "%s%s", api->type, version);
        d->base = api->single
                      ? arena_format(d->arena, "/%s", api->type)
                      : arena_format(d->arena, "/%s{%s%s%s_mount_path}", api->login ? "auth/" : "",
                                     api->type, version[0] != '\0' ? "_v" : "", version);
        if (d->id == NULL || d->base == NULL)
            return ST_NOMEM;
        TRY(add_api(d, api, false));
    }
    return ST_OK;
}

static enum status add_mount(void *ctx, const struct mount *mount)
{
    struct docs *d = ctx;
    const struct req *req = d->req;
    const char *shown = mount->listing_visibility;
    bool visible = req->token != NULL ? acl_reaches(req->acl, bytes_str(mount->path))
                                      : shown != NULL && strcmp(shown, "unauth") == 0;
    const struct route_api *api = route_engine(req->router->index, mount);
    if (!visible || api == NULL || d->cut)
        return ST_OK;
    const char *path = arena_str(d->arena, bytes_str(mount->path));
    const char *id = arena_str(d->arena, bytes_str(mount->accessor));
    if (path == NULL)
        return ST_NOMEM;
    TRY(set_base(d, path, id));
    return add_api(d, api, true);
}

static int by_path(const void *one, const void *other)
{
    const struct docs_op *a = one, *b = other;
    int order = strcmp(a->path, b->path);
    if (order != 0)
        return order;
    return a->order < b->order ? -1 : a->order > b->order;
}

/* Sort the rows, and keep the first of the rows with the same path and method. */
static void settle(struct docs *d)
{
    size_t n = 0, begin = 0;
    if (d->n == 0)
        return;
    qsort(d->ops, d->n, sizeof *d->ops, by_path);
    for (size_t i = 0; i < d->n; i++) {
        struct docs_op op = d->ops[i];
        bool known = false;
        op.shadowed = false;
        if (n == 0 || strcmp(op.path, d->ops[n - 1].path) != 0)
            begin = n;
        for (size_t k = begin; k < n; k++) {
            known = known || d->ops[k].route->method == op.route->method;
            op.shadowed =
                op.shadowed || strcmp(openapi_verb(d->ops[k].route), openapi_verb(op.route)) == 0;
        }
        if (!known)
            d->ops[n++] = op;
    }
    ASSERT(n > 0);
    ASSERT(n <= d->n);
    d->n = n;
}

static enum status render(struct req *req, const struct dialect *dialect, bool generic)
{
    struct bytes root = path_trimmed(bytes_str(dialect->root));
    struct docs d = {.req = req, .dialect = dialect, .arena = req->arena};
    d.server = arena_str(req->arena, root);
    TRY(d.server != NULL ? ST_OK : ST_NOMEM);
    TRY(add_fixed(&d, req->router));
    if (generic && dialect->mounts)
        TRY(add_generic(&d, req->router));
    else if (dialect->mounts)
        TRY(mount_each(req->txn, req->ns, add_mount, &d));
    settle(&d);
    struct text_writer w = req_reply_begin(req);
    openapi_write(&d, &w);
    return req_reply_end(req);
}

static enum status reply_page(struct req *req, const struct openapi_page *page)
{
    bool gzip = openapi_takes_gzip(req->accept_encoding);
    TRY(req_reply_raw(req, "application/json", (struct bytes){0}));
    req->reply.shared = gzip ? page->gzip : page->text;
    req->reply.encoding = gzip ? "gzip" : NULL;
    return ST_OK;
}

/* Refuse the request with the names of the dialects that have a document. */
static enum status refuse_api(struct req *req, const struct dialect_map *map)
{
    const char *names = "";
    for (unsigned i = 0; i < map->n; i++) {
        if (map->dialects[i]->docs == NULL)
            continue;
        names = arena_format(req->arena, "%s%s%s", names, names[0] != '\0' ? ", " : "",
                             map->dialects[i]->name);
        if (names == NULL)
            return ST_NOMEM;
    }
    return req_fail(req, ST_INVALID, "'api' is invalid: one of %s is expected", names);
}

/* The dialect with this name, and the page of its document. */
static enum status choose_api(struct req *req, const char *api, bool generic,
                              const struct dialect **ret_dialect, struct openapi_page **ret_page)
{
    struct dialect_map map;
    dialect_map_init(&map, &req->router->options.modules);
    ASSERT(map.n <= DIALECTS_MAX);
    for (unsigned i = 0; i < map.n; i++) {
        const struct dialect *dialect = map.dialects[i];
        if (strcmp(dialect->name, api) != 0 || dialect->docs == NULL)
            continue;
        *ret_dialect = dialect;
        *ret_page = !dialect->mounts ? &req->docs->others[i]
                    : generic        ? &req->docs->generic
                                     : &req->docs->named;
        return ST_OK;
    }
    return refuse_api(req, &map);
}

enum status openapi_reply(struct req *req, const char *api, bool generic)
{
    const struct dialect *dialect;
    struct openapi_page *page;
    uint64_t version = 0;
    TRY(choose_api(req, api, generic, &dialect, &page));
    if (dialect->mounts && req->token != NULL) /* the document lists the mounts that it reaches */
        return render(req, dialect, generic);
    if (dialect->mounts && !generic)
        TRY(mount_newest(req->txn, req->ns, &version));
    if (openapi_page_is(page, req->ns, version))
        return reply_page(req, page);
    TRY(render(req, dialect, generic));
    ASSERT(req->reply.kind != REPLY_NONE);
    if (openapi_page_put(page, req->ns, version, buf_bytes(&req->reply.data)) != ST_OK)
        return ST_OK; /* send the document although it was not cached */
    buf_done(&req->reply.data);
    req->reply = (struct req_reply){0};
    return reply_page(req, page);
}

/* Help */

static struct bytes segment(const char *text)
{
    return bytes_of(text, strcspn(text, "/"));
}

static const char *behind(const char *text)
{
    size_t n = strcspn(text, "/");
    return text + n + (text[n] == '/');
}

static bool ends_in(const char *text, const char *tail)
{
    size_t n = strlen(text), tail_n = strlen(tail);
    return n > tail_n && strcmp(text + n - tail_n, tail) == 0;
}

/* Match a pattern that begins with "*name" or "+name" against a path that is not empty. Returns the
 * rest of the pattern. */
static enum status add_rest_below(struct docs *d, const struct route_api *api, size_t row,
                                  const char *pattern, const char *path)
{
    const char *tail = strchr(pattern, '/');
    ASSERT(route_is_rest(pattern));
    ASSERT(path[0] != '\0');
    if (tail == NULL) /* the queried path itself, and all paths below it */
        TRY(add_row(d, api, row, ""));
    else if (ends_in(path, tail))
        TRY(add_row(d, api, row, ""));
    else
        TRY(add_row(d, api, row, tail + 1));
    return add_row(d, api, row, pattern);
}

/* A row as it looks from `path`, if it serves that path or one below it. */
static enum status add_below(struct docs *d, const struct route_api *api, size_t row,
                             const char *path)
{
    const char *pattern = route_at(api, row)->path;
    while (*path != '\0' && *pattern != '\0' && !route_is_rest(pattern)) {
        struct bytes want = segment(pattern), have = segment(path);
        if (*pattern == ':' ? !route_takes_name(want, have) : !bytes_eq(want, have))
            return ST_OK;
        pattern = behind(pattern);
        path = behind(path);
    }
    if (*path == '\0')
        return add_row(d, api, row, pattern);
    return route_is_rest(pattern) ? add_rest_below(d, api, row, pattern, path) : ST_OK;
}

static enum status make_server(struct arena *arena, const char *root, const char *path,
                               const char **ret_server)
{
    CLEANUP(buf_done) struct buf server = {0};
    buf_add_str(&server, root);
    add_literal(&server, path);
    TRY(buf_status(&server));
    *ret_server = arena_str(arena, buf_bytes(&server));
    return *ret_server != NULL ? ST_OK : ST_NOMEM;
}

static enum status add_all_below(struct docs *d, const struct route_api *api, const char *path)
{
    for (size_t i = 0; route_at(api, i) != NULL; i++)
        TRY(add_below(d, api, i, path));
    return ST_OK;
}

/* The rows of all APIs that have the fixed path: modules may share a prefix. */
static enum status add_fixed_below(struct docs *d, const char *path)
{
    struct module_walk walk = {0};
    const struct route_api *api;
    while ((api = module_next_api(&d->req->router->options.modules, &walk)) != NULL)
        if (api->dialect == d->dialect && module_stands_at(api, bytes_str(path), true))
            TRY(add_all_below(d, api, path + MIN(strlen(path), strlen(api->prefix))));
    return ST_OK;
}

enum status openapi_help(struct req *req)
{
    size_t len = req->path.len;
    ASSERT(req->help);
    if (req->api == NULL)
        return ST_NOT_FOUND;
    while (len > 0 && req->path.data[len - 1] == '/')
        len--;
    const char *path = arena_str(req->arena, bytes_of(req->path.data, len));
    struct docs d = {
        .req = req, .dialect = req->dialect, .arena = req->arena, .base = "", .id = req->api->type};
    if (path == NULL)
        return ST_NOMEM;
    TRY(make_server(req->arena, req->dialect->root, path, &d.server));
    TRY(req->api->prefix == NULL
            ? add_all_below(&d, req->api, path + MIN(req->path.len - req->rest.len, len))
            : add_fixed_below(&d, path));
    settle(&d);
    if (d.n == 0)
        return ST_NOT_FOUND;
    return openapi_write_help(&d, path);
}
