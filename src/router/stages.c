#include "router/stages.h"
#include "auth/namespace.h"
#include "auth/token_cache.h"
#include "router/body.h"
#include "mount/mount_cache.h"
#include "router/openapi.h"
#include "router/path.h"
#include "router/wrap.h"

/* Names of headers: ours, and what clients of the upstream product send. */
static inline struct bytes header_either(const struct router_call *call, const char *ours,
                                         const char *theirs)
{
    struct bytes value = router_header(call, ours);
    return value.data != NULL ? value : router_header(call, theirs);
}

struct bytes stage_namespace(const struct router_call *call)
{
    return header_either(call, "x-secrets-namespace", "x-vault-namespace");
}

static enum status read_flag(struct req *req, const char *name, bool *ret_wanted)
{
    const struct text_value *v = text_get(req->query, name);
    *ret_wanted = false;
    if (v == NULL)
        return ST_OK;
    if (v->kind != TEXT_STRING || text_bool_parse(v->text, ret_wanted) != ST_OK)
        return req_fail(req, ST_INVALID, "%s: true or false is expected", name);
    return ST_OK;
}

static bool is_listing(const struct req *req)
{
    return req->method == METHOD_LIST || req->method == METHOD_SCAN;
}

/* Variants of GET besides a read. */
static enum status read_get_flags(struct req *req)
{
    bool list, scan;
    if (req->query->n == 0)
        return ST_OK;
    TRY(read_flag(req, "help", &req->help));
    TRY(read_flag(req, "list", &list));
    TRY(read_flag(req, "scan", &scan));
    if (req->help)
        req->method = METHOD_OPTIONS;
    else if (list && scan)
        return req_fail(req, ST_INVALID, "list and scan exclude each other");
    else if (list)
        req->method = METHOD_LIST;
    else if (scan)
        req->method = METHOD_SCAN;
    return ST_OK;
}

/* There are no methods, so that a good header has no effect. */
static enum status check_mfa(struct req *req, struct bytes header)
{
    const uint8_t *colon = header.len != 0 ? memchr(header.data, ':', header.len) : NULL;
    if (colon == NULL)
        return ST_OK;
    if (colon == header.data)
        return req_fail(req, ST_INVALID,
                        "invalid data in header \"X-Secrets-MFA\"; missing method name or ID");
    if (colon == header.data + header.len - 1)
        return req_fail(req, ST_INVALID,
                        "invalid data in header \"X-Secrets-MFA\"; missing method value");
    return ST_OK;
}

/* The path as a folder: it ends in '/'. */
static enum status folder_of(const struct req *req, struct bytes *ret_path)
{
    struct bytes path = req->path;
    if (path.len != 0 && path.data[path.len - 1] != '/') {
        const char *text = arena_format(req->arena, "%s/", (const char *)path.data);
        if (text == NULL)
            return ST_NOMEM;
        path = bytes_str(text);
    }
    *ret_path = path;
    return ST_OK;
}

static enum status read_method(struct req *req, const struct router_call *call)
{
    bool slash = req->path.len > 0 && req->path.data[req->path.len - 1] == '/';
    req->method = call->method;
    switch (call->method) {
    case METHOD_GET: TRY(read_get_flags(req)); break;
    case METHOD_POST:
    case METHOD_PUT:
    case METHOD_PATCH:
        if (slash)
            return req_fail(req, ST_INVALID, "cannot write to a path ending in '/'");
        break;
    default: break;
    }
    if (is_listing(req))
        return folder_of(req, &req->path);
    if (slash) /* the slash means nothing here, and rules leave it out */
        req->rule_path = path_trimmed(req->path);
    return ST_OK;
}

/* A prefix that ends in '/' has everything below it, another one is a path of its own. */
static bool stands_at(const struct route_api *api, struct bytes path, bool help)
{
    struct bytes prefix = bytes_str(api->prefix);
    if (!bytes_has_prefix(path, prefix))
        return false;
    return prefix.data[prefix.len - 1] == '/' || path.len == prefix.len ||
           (help && path.len == prefix.len + 1 && path.data[prefix.len] == '/');
}

/* The API that stands at a fixed path, NULL where mounts decide. `help`: a path of its own may be
 * written as a folder. */
static const struct route_api *find_fixed(const struct router *router, struct bytes path, bool help)
{
    struct module_walk walk = {0};
    const struct route_api *api;
    while ((api = module_next_api(&router->options.modules, &walk)) != NULL)
        if (api->prefix != NULL && stands_at(api, path, help))
            return api;
    return NULL;
}

static bool serves(const struct route_api *api, const struct mount *mount)
{
    bool is = api->type[0] == mount->type[0] && strcmp(api->type, mount->type) == 0;
    if (api->prefix != NULL || !is)
        return false;
    const char *version = mount_option(mount, "version");
    return api->version == NULL || strcmp(api->version, version != NULL ? version : "1") == 0;
}

const struct route_api *stage_engine(const struct router *router, const struct mount *mount)
{
    struct module_walk walk = {0};
    const struct route_api *api;
    while ((api = module_next_api(&router->options.modules, &walk)) != NULL)
        if (serves(api, mount))
            return api;
    return NULL;
}

static const struct route help_route = {
    .method = METHOD_GET,
    .handler = openapi_help,
    .flags = ROUTE_BARE,
};

/* Of a path that needs no token, or any, everybody with a token may read the help. */
static enum status match_help(struct req *req)
{
    static const enum http_method methods[] = {METHOD_GET, METHOD_POST};
    for (size_t i = 0; i < ARRAY_LEN(methods); i++) {
        enum status st = route_match(req->api, methods[i], req->rest, req->arena, &req->route,
                                     &req->params, &req->others);
        if (st == ST_NOMEM)
            return st;
        if (st == ST_OK &&
            (req->route->auth == AUTH_NONE || (req->route->flags & ROUTE_ANY_TOKEN) != 0))
            req->help_open = true;
    }
    req->params.n = 0;
    req->route = &help_route;
    req->matched = ST_OK;
    return ST_OK;
}

static enum status refuse_method(struct req *req)
{
    (void)req; /* the signature is a handler's */
    return ST_UNSUPPORTED;
}

/* Where no method needs a token, none is asked for to say that there are others only. */
static const struct route no_method_route = {
    .handler = refuse_method,
    .auth = AUTH_NONE,
    .flags = ROUTE_NODE | ROUTE_FREE_BODY,
};

/* Rules know a policy by its name, whose letters are small. */
static enum status find_policy_path(struct req *req)
{
    const char *given = req_param(req, "name"), *name;
    enum status st = policy_name(req->arena, bytes_str(given), &name);
    if (st != ST_OK)
        return st == ST_NOMEM ? st : ST_OK; /* the handler refuses it */
    if (strcmp(name, given) == 0)
        return ST_OK;
    const char *text = arena_format(req->arena, "%.*s%s", (int)(req->path.len - strlen(given)),
                                    (const char *)req->path.data, name);
    if (text == NULL)
        return ST_NOMEM;
    req->rule_path = path_trimmed(bytes_str(text));
    return ST_OK;
}

static enum status match(struct req *req)
{
    if (req->help)
        return match_help(req);
    enum status st = route_match(req->api, req->method, req->rest, req->arena, &req->route,
                                 &req->params, &req->others);
    if (st == ST_NOMEM)
        return st;
    if (st == ST_UNSUPPORTED && req->others.open) {
        req->route = &no_method_route;
        st = ST_OK;
    }
    req->matched = st;
    bool policy = st == ST_OK && (req->route->flags & ROUTE_POLICY) != 0;
    return policy ? find_policy_path(req) : ST_OK;
}

static enum status read_query(struct req *req, struct bytes text)
{
    static const struct text_value nothing = {.kind = TEXT_OBJECT};
    struct text_value *query;
    req->query = &nothing;
    if (text.len == 0)
        return ST_OK;
    TRY(path_parse_pairs(req->arena, text, &query, &req->error));
    req->query = query;
    return ST_OK;
}

static enum status read_path(struct req *req, const struct router_call *call)
{
    const struct path_target *target = &call->target;
    if (target->fault != NULL)
        return req_fail(req, ST_INVALID, "%s", target->fault);
    req->path = target->path;
    return target->path.data != NULL ? ST_OK : ST_NOT_FOUND;
}

enum status stage_target(struct req *req, const struct router *router,
                         const struct router_call *call)
{
    struct bytes ns = stage_namespace(call);

    TRY(wrap_read(req, header_either(call, "x-secrets-wrap-ttl", "x-vault-wrap-ttl")));
    TRY(check_mfa(req, header_either(call, "x-secrets-mfa", "x-vault-mfa")));
    TRY(read_path(req, call));
    TRY(read_query(req, call->query));
    TRY(read_method(req, call));
    if (auth_namespace_find(ns, &req->ns) != ST_OK)
        return req_fail(req, ST_NOT_FOUND, "namespace not found");
    struct bytes path = req->path;
    if (req->help)
        TRY(folder_of(req, &path)); /* "sys" is about all of "sys/" */
    req->api = find_fixed(router, path, req->help);
    if (req->api == NULL)
        return ST_OK;
    if (req->api->alias_of != NULL)
        req->rule_path = bytes_str(req->api->alias_of);
    req->rest = bytes_from(req->path, MIN(req->path.len, strlen(req->api->prefix)));
    TRY(match(req));
    return wrap_check(req);
}

struct held_mount {
    struct mount_ref *ref;
    struct req_cleanup cleanup;
};

static void drop_mount(struct req_cleanup *cleanup)
{
    mount_ref_drop(CONTAINER_OF(cleanup, struct held_mount, cleanup)->ref);
}

/* The mount that serves the request, until the transaction ends. */
static enum status find_mount(struct req *req, const struct mount **ret_mount)
{
    struct held_mount *held = arena_zalloc(req->arena, sizeof *held);
    if (held == NULL)
        return ST_NOMEM;
    TRY(mount_cache_find(req->mounts, req->txn, req->ns, req->path, &held->ref));
    held->cleanup.run = drop_mount;
    req_defer(req, &held->cleanup);
    *ret_mount = mount_ref_get(held->ref);
    return ST_OK;
}

enum status stage_route(struct req *req, const struct router *router)
{
    if (req->api != NULL && req->mount == NULL)
        return ST_OK; /* fixed: matched before */
    const struct mount *mount = NULL;
    req->mount = NULL;
    req->route = NULL;
    req->api = NULL;
    enum status st = find_mount(req, &mount);
    if (st == ST_OK)
        req->api = stage_engine(router, mount);
    if (st == ST_NOT_FOUND || (st == ST_OK && req->api == NULL)) {
        req->matched = ST_NOT_FOUND;
        return ST_OK;
    }
    TRY(st);
    req->mount = mount;
    size_t len = strlen(mount->path);
    req->rest = bytes_from(req->path, MIN(len, req->path.len));
    return match(req);
}

struct bytes stage_bearer(const struct router_call *call)
{
    static const struct bytes scheme = {(const uint8_t *)"Bearer ", 7};
    struct bytes token = header_either(call, "x-secrets-token", "x-vault-token");
    if (token.len != 0)
        return token;
    token = router_header(call, "authorization");
    return bytes_has_prefix(token, scheme) ? bytes_from(token, scheme.len) : (struct bytes){0};
}

bool stage_has_bearer(const struct router_call *call)
{
    return stage_bearer(call).len != 0;
}

void stage_forget_token(struct req *req)
{
    token_ref_drop(req->token_ref);
    req->token_ref = NULL;
    req->token = NULL;
    req->acl = NULL;
}

enum status stage_authenticate(struct req *req, const struct router_call *call)
{
    const struct auth_token *token;
    stage_forget_token(req);
    req->bearer = stage_bearer(call);
    const struct auth_scope scope = req_scope(req);
    TRY(auth_token_hold(&scope, req->bearer, &token, &req->token_ref));
    TRY(auth_token_from(token, call->peer));
    req->token = token;
    return ST_OK;
}

enum status stage_use(struct req *req)
{
    const struct auth_scope scope = req_scope(req);
    if (!req->token->limited)
        return ST_OK;
    struct auth_token *token = arena_alloc(req->arena, sizeof *token);
    if (token == NULL)
        return ST_NOMEM;
    *token = *req->token;
    TRY(auth_token_use(&scope, token));
    req->token = token;
    return ST_OK;
}

static enum status ask(const struct req *req, unsigned caps)
{
    bool says = req->method != METHOD_DELETE && !is_listing(req);
    const struct acl_question question = {
        .path = req->path,
        .rule_path = req->rule_path,
        .caps = caps,
        .list = is_listing(req),
        .data = says ? req->data : NULL,
        .wrap_s = req->wrap_ttl_s,
    };
    return acl_check(req->acl, &question);
}

/* Create or update, decided by whether the key exists (PROTOCOL R1 keeps that true until the
 * commit). A token with both capabilities needs no look, and so does not conflict with other
 * writers. What is wrong with the path is told only to a token with one of the two. */
static enum status ask_to_write(struct req *req, unsigned caps)
{
    caps &= ~(unsigned)(CAP_CREATE | CAP_UPDATE);
    if (ask(req, caps | CAP_CREATE | CAP_UPDATE) == ST_OK)
        return ST_OK;
    enum status st = req->route->exists(req);
    if (st == ST_OK || st == ST_NOT_FOUND)
        return ask(req, caps | (st == ST_OK ? CAP_UPDATE : CAP_CREATE));
    bool may = ask(req, caps | CAP_UPDATE) == ST_OK || ask(req, caps | CAP_CREATE) == ST_OK;
    return may ? st : ST_DENIED;
}

static enum status refuse_unmatched(struct req *req)
{
    char methods[ROUTE_METHODS_TEXT];
    if (req->matched == ST_UNSUPPORTED) {
        route_methods_text(req->others.methods, methods);
        ASSERT(methods[0] != '\0');
        return ST_UNSUPPORTED;
    }
    if (req->api == NULL)
        return req_fail(req, ST_NOT_FOUND,
                        "no handler for route \"%.160s\". route entry not found.",
                        (const char *)req->path.data);
    return req_fail(req, ST_NOT_FOUND, "1 error occurred:\n\t* unsupported path\n\n");
}

/* Rights that a request without a row would need. */
static bool may_unmatched(const struct req *req)
{
    static const unsigned implied[METHODS] = {
        [METHOD_GET] = CAP_READ,      [METHOD_HEAD] = CAP_READ,   [METHOD_LIST] = CAP_LIST,
        [METHOD_DELETE] = CAP_DELETE, [METHOD_PATCH] = CAP_PATCH, [METHOD_SCAN] = CAP_SCAN,
    };
    unsigned caps = implied[req->method];
    if (caps != 0)
        return ask(req, caps) == ST_OK;
    return ask(req, CAP_UPDATE) == ST_OK || ask(req, CAP_CREATE) == ST_OK;
}

enum status stage_authorise(struct req *req)
{
    if (req->matched == ST_OK && req->route->auth == AUTH_NONE)
        return ST_OK;
    ASSERT(req->token != NULL);
    TRY(req_acl(req, req->token, &req->acl));
    if (req->help) {
        bool may = req->help_open || acl_capabilities(req->acl, req->path) != 0;
        return !may ? ST_DENIED : req->matched != ST_OK ? refuse_unmatched(req) : ST_OK;
    }
    if (req->matched != ST_OK) /* only those who might do it learn what is missing */
        return may_unmatched(req) ? refuse_unmatched(req) : ST_DENIED;
    if ((req->route->flags & ROUTE_ANY_TOKEN) != 0)
        return ST_OK;
    unsigned caps = route_caps(req->route, req->method);
    return req->route->exists != NULL ? ask_to_write(req, caps) : ask(req, caps);
}

/* A token that is invalid or may not do this is ignored: these paths also serve operators who have
 * lost their token. */
enum status stage_admit(struct req *req, const struct router_call *call)
{
    enum status st = ST_DENIED;
    req->token = NULL;
    if (stage_has_bearer(call))
        st = stage_authenticate(req, call);
    if (st == ST_OK)
        st = req_acl(req, req->token, &req->acl);
    if (st == ST_OK)
        st = ask(req, route_caps(req->route, req->method));
    if (st == ST_OK)
        return ST_OK;
    req->token = NULL;
    req->acl = NULL;
    return st == ST_DENIED ? ST_OK : st;
}

const char *stage_operation(enum http_method method)
{
    static const char *const names[METHODS] = {
        [METHOD_GET] = "read",   [METHOD_HEAD] = "read",   [METHOD_POST] = "update",
        [METHOD_PUT] = "update", [METHOD_PATCH] = "patch", [METHOD_DELETE] = "delete",
        [METHOD_LIST] = "list",  [METHOD_SCAN] = "scan",   [METHOD_OPTIONS] = "help",
    };
    return names[method];
}

bool stage_reads(const struct req *req)
{
    return req->method == METHOD_GET || is_listing(req) || req->method == METHOD_HEAD ||
           req->method == METHOD_OPTIONS ||
           (req->route != NULL && (req->route->flags & ROUTE_READS) != 0);
}
