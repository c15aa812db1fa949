#include "router/openapi/openapi_dialect.h"
#include "router/openapi/openapi_internal.h"
#include "router/openapi/shape.h"
#include "router/request/dialect.h"
#include "router/router.h"

#define REF_ERROR "#/components/responses/Error"

const char *openapi_verb(const struct route *route)
{
    static const char *const verbs[METHODS] = {
        [METHOD_GET] = "get",   [METHOD_LIST] = "get",        [METHOD_POST] = "post",
        [METHOD_PUT] = "put",   [METHOD_PATCH] = "patch",     [METHOD_DELETE] = "delete",
        [METHOD_HEAD] = "head", [METHOD_OPTIONS] = "options", [METHOD_SCAN] = "get",
    };
    ASSERT(route->method < METHODS);
    return verbs[route->method];
}

void openapi_put_type(struct text_writer *w, const char *type)
{
    text_open_object(w);
    text_member_str(w, "type", type);
    text_close(w);
}

void openapi_put_ref(struct text_writer *w, const char *ref)
{
    text_open_object(w);
    text_member_str(w, "$ref", ref);
    text_close(w);
}

void openapi_open_member(struct text_writer *w, const char *name)
{
    text_key(w, name);
    text_open_object(w);
}

/* The next "{name}" of a template at *at. */
static bool next_param(const char **at, struct bytes *ret_name)
{
    const char *open = strchr(*at, '{');
    if (open == NULL)
        return false;
    size_t n = strcspn(open + 1, "}");
    *ret_name = bytes_of(open + 1, n);
    *at = open + 1 + n;
    return true;
}

static bool in_path(void *ctx, const char *name)
{
    const struct docs_op *op = ctx;
    const char *at = op->path;
    struct bytes param;
    while (next_param(&at, &param))
        if (text_is(param, name))
            return true;
    return false;
}

/* Parameters */

static void put_param(struct text_writer *w, struct bytes name, const char *in, bool required)
{
    text_key(w, "name");
    text_put_bytes(w, name);
    text_member_str(w, "in", in);
    if (required)
        text_member_bool(w, "required", true);
}

static bool takes_the_rest(const struct docs_op *op, struct bytes name)
{
    const char *star = strpbrk(op->route->path, "*+");
    return star != NULL && strncmp(star + 1, (const char *)name.data, name.len) == 0;
}

static void put_path_params(const struct docs_op *op, struct text_writer *w)
{
    const char *at = op->path;
    struct bytes name;
    bool any = false;
    ASSERT(op->path[0] == '/');
    while (next_param(&at, &name)) {
        if (!any) {
            text_key(w, "parameters");
            text_open_list(w);
        }
        any = true;
        text_open_object(w);
        put_param(w, name, "path", true);
        if (takes_the_rest(op, name))
            text_member_str(w, "description", "May hold slashes.");
        text_key(w, "schema");
        openapi_put_type(w, "string");
        text_close(w);
    }
    if (any)
        text_close(w);
}

static void put_truth_param(const char *name, bool required, const char *help,
                            struct text_writer *w)
{
    text_open_object(w);
    put_param(w, bytes_str(name), "query", required);
    text_member_str(w, "description", help);
    openapi_open_member(w, "schema");
    text_member_str(w, "type", "string");
    text_key(w, "enum");
    text_open_list(w);
    text_put_str(w, "true");
    text_close(w);
    text_close(w);
    text_close(w);
}

static void put_list_params(const struct docs_op *op, struct text_writer *w)
{
    bool scans = (op->route->flags & ROUTE_SCANS) != 0;
    ASSERT(op->route->method == METHOD_LIST);
    put_truth_param("list", !scans, "Or the method LIST without it.", w);
    if (scans)
        put_truth_param("scan", false,
                        "Instead of list: all that is below. Or the method SCAN without it.", w);
    if (strpbrk(op->route->path, "*+") == NULL)
        return;
    text_open_object(w);
    put_param(w, BYTES("after"), "query", false);
    text_member_str(w, "description", "The name behind which the listing begins.");
    text_key(w, "schema");
    openapi_put_type(w, "string");
    text_close(w);
    text_open_object(w);
    put_param(w, BYTES("limit"), "query", false);
    text_member_str(w, "description", "How many names at most.");
    text_key(w, "schema");
    openapi_put_type(w, "integer");
    text_close(w);
}

static void put_query_fields(const struct docs_op *op, const struct schema *query,
                             struct text_writer *w)
{
    for (size_t i = 0; query != NULL && i < query->n; i++) {
        const struct field *f = &query->fields[i];
        if (in_path((void *)(uintptr_t)op, f->name))
            continue;
        text_open_object(w);
        put_param(w, bytes_str(f->name), "query", f->required);
        text_key(w, "schema");
        shape_write_field(f, w);
        text_close(w);
    }
}

static void put_query_params(const struct docs_dialect *docs, const struct docs_op *op,
                             struct text_writer *w)
{
    const struct route *route = op->route;
    bool reads = route->method == METHOD_GET || route->method == METHOD_LIST ||
                 route->method == METHOD_DELETE;
    const struct schema *query = reads ? route->body : NULL;
    ASSERT(docs != NULL);
    const struct schema *more = docs->parameters != NULL ? docs->parameters(route) : NULL;
    if (route->method != METHOD_LIST && (query == NULL || query->n == 0) && more == NULL)
        return;
    text_key(w, "parameters");
    text_open_list(w);
    if (route->method == METHOD_LIST)
        put_list_params(op, w);
    put_query_fields(op, query, w);
    put_query_fields(op, more, w);
    text_close(w);
}

/* Bodies */

static void put_body(const struct docs_dialect *docs, const struct docs_op *op,
                     struct text_writer *w)
{
    const struct route *route = op->route;
    bool own = docs->put_body != NULL;
    bool writes = route->method == METHOD_POST || route->method == METHOD_PUT ||
                  route->method == METHOD_PATCH;
    bool free_body = route->input == INPUT_FREE;
    if (!writes || (route->body == NULL && !free_body) || route->input == INPUT_UPLOAD)
        return;
    openapi_open_member(w, "requestBody");
    openapi_open_member(w, "content");
    openapi_open_member(w, docs->media_type != NULL        ? docs->media_type
                           : route->method == METHOD_PATCH ? "application/merge-patch+json"
                                                           : "application/json");
    text_key(w, "schema");
    if (own && docs->put_body(route, w))
        ASSERT(w->depth > 0); /* the dialect wrote the schema */
    else if (route->body != NULL)
        shape_write_fields(route->body, false, in_path, (void *)(uintptr_t)op, w);
    else
        openapi_put_type(w, "object");
    text_close(w);
    text_close(w);
    text_close(w);
}

void openapi_put_data(const struct route *route, const char *shape, struct text_writer *w)
{
    const char *type = shape != NULL ? shape_type(shape) : NULL;
    if (type != NULL) {
        shape_write(type, route->reply, w);
    } else if (route->reply != NULL) {
        shape_write_schema(route->reply, w);
    } else {
        text_open_object(w);
        text_member_str(w, "type", "object");
        text_member_bool(w, "nullable", true);
        text_member_int(w, "maxProperties", 0);
        text_close(w);
    }
}

/* Replies */

static void put_raw_type(const char *type, bool text, struct text_writer *w)
{
    openapi_open_member(w, type);
    text_key(w, "schema");
    text_open_object(w);
    text_member_str(w, "type", "string");
    if (!text)
        text_member_str(w, "format", "binary");
    text_close(w);
    text_close(w);
}

static void put_success_body(const struct docs_dialect *docs, const struct route *route,
                             const char *shape, struct text_writer *w)
{
    static const struct {
        const char *kind, *type;
        bool text;
    } raws[] = {{"text", "text/plain", true},
                {"openmetrics", "application/openmetrics-text", true},
                {"gzip", "application/gzip", false},
                {"bytes", "application/octet-stream", false}};
    bool raw = false;
    unsigned depth = w->depth;
    openapi_open_member(w, "content");
    for (size_t i = 0; shape != NULL && i < ARRAY_LEN(raws); i++)
        if (shape_has(shape, raws[i].kind)) {
            put_raw_type(raws[i].type, raws[i].text, w);
            raw = true;
        }
    if (!raw || shape_type(shape) != NULL) { /* the route may also reply with JSON */
        openapi_open_member(w, docs->media_type != NULL ? docs->media_type : "application/json");
        text_key(w, "schema");
        if (shape != NULL && shape_has(shape, "json"))
            openapi_put_type(w, "object");
        else if (route->form == FORM_BARE)
            openapi_put_data(route, shape, w);
        else
            docs->put_envelope(route, shape, w);
        text_close(w);
    }
    text_close(w);
    ASSERT(w->depth == depth);
}

static void put_success(const struct docs_dialect *docs, const struct route *route,
                        const char *shape, struct text_writer *w)
{
    const char *codes = route->statuses != NULL ? route->statuses : "200";
    ASSERT(*codes != '\0');
    for (; *codes != '\0'; codes += strspn(codes, " ")) {
        struct bytes code = bytes_of(codes, strcspn(codes, " "));
        ASSERT(code.len == 3); /* a code of three letters: "200" or "any" */
        codes += code.len;
        text_key_bytes(w, text_is(code, "any") ? BYTES("default") : code);
        text_open_object(w);
        text_member_str(w, "description", "Done.");
        bool described = route->reply != NULL || shape != NULL;
        if (!text_is(code, "204") && (described || !docs->bodiless))
            put_success_body(docs, route, shape, w);
        text_close(w);
    }
}

/* Whether a parameter of the request may choose the status of the reply. */
static bool replies_any(const struct route *route)
{
    return route->statuses != NULL && strstr(route->statuses, "any") != NULL;
}

static void put_responses(const struct docs_dialect *docs, const struct route *route,
                          struct text_writer *w)
{
    static const char *const errors[] = {"400", "403", "404", "405", "412",
                                         "413", "500", "502", "503"};
    const char *shape = route->shape;
    if (shape == NULL && route->reply == NULL && route->method == METHOD_LIST)
        shape = "{keys:[str]}";
    bool nothing = route->reply == NULL && shape == NULL && route->form != FORM_TOKEN;
    unsigned depth = w->depth;
    openapi_open_member(w, "responses");
    bool astray = route->kind != ROW_SERVES;
    if (!astray)
        put_success(docs, route, shape, w);
    bool plain = route->statuses == NULL || strstr(route->statuses, "200") != NULL;
    if (nothing && plain && !astray) {
        openapi_open_member(w, "204");
        text_member_str(w, "description", "Done; with a warning it is 200.");
        text_close(w);
    }
    for (size_t i = 0; i < ARRAY_LEN(errors); i++) {
        if (route->statuses != NULL && strstr(route->statuses, errors[i]) != NULL)
            continue;
        if (strcmp(errors[i], "502") == 0 && route->waits == NULL)
            continue; /* other routes have no status "any": 502 is one of the default */
        text_key(w, errors[i]);
        openapi_put_ref(w, strcmp(errors[i], "404") == 0 ? "#/components/responses/NotFound"
                                                         : REF_ERROR);
    }
    if (!replies_any(route)) {
        text_key(w, "default");
        openapi_put_ref(w, REF_ERROR);
    }
    text_close(w);
    ASSERT(w->depth == depth);
}

/* Operations */

/* Add an operation id that is unique: the place of the API, the pattern and the method, in letters
 * that program names allow. */
static void put_id(const struct docs *d, const struct docs_op *op, const char *verb,
                   struct text_writer *w)
{
    char *id = arena_format(d->arena, "%s-%s-%s", op->route->method == METHOD_LIST ? "list" : verb,
                            op->id, op->tail);
    if (id == NULL) { /* out of memory: the writer reports the failure */
        w->out->failed = true;
        return;
    }
    size_t n = 0;
    ASSERT(verb[0] != '\0');
    for (const char *c = id; *c != '\0'; c++) {
        if (strchr(":*+", *c) != NULL)
            continue;
        id[n++] = *c == '/' ? '-' : *c;
    }
    while (n > 0 && id[n - 1] == '-')
        n--;
    text_key(w, "operationId");
    text_put_bytes(w, bytes_of(id, n));
}

static bool is_optional(const struct route *route)
{
    return route->who == WHO_OPTIONAL || route->who == WHO_OPTIONAL_RIGHT;
}

static const char *authority(const struct dialect *dialect, const struct route *route)
{
    if (route_is_open(route))
        return "none";
    if (dialect->authorise != NULL && dialect->docs->permission(route) == NULL)
        return "any";
    if (is_optional(route))
        return "optional";
    return route->who == WHO_ANY_TOKEN ? "any" : "token";
}

static void put_security(const struct dialect *dialect, const struct route *route,
                         struct text_writer *w)
{
    text_key(w, "security");
    text_open_list(w);
    if (is_optional(route)) {
        text_open_object(w);
        text_close(w);
    }
    for (unsigned i = 0; !route_is_open(route) && i < 2; i++) {
        text_open_object(w);
        text_key(w, i == 0 ? "token" : "bearer");
        text_open_list(w);
        text_close(w);
        text_close(w);
    }
    text_close(w);
    dialect->docs->put_marks(route, w);
    if (route->kind == ROW_ASTRAY)
        text_member_bool(w, "x-holdfast-astray", true);
    if (route_is_of_secondary(route))
        text_member_bool(w, "x-holdfast-dr-secondary", true);
    if (route->who == WHO_DR_TOKEN)
        text_member_bool(w, "x-holdfast-dr-token", true);
    text_member_str(w, "x-holdfast-auth", authority(dialect, route));
}

static void put_operation(const struct docs *d, const struct docs_op *op, const char *verb,
                          struct text_writer *w)
{
    const struct route *route = op->route;
    unsigned depth = w->depth;
    openapi_open_member(w, verb);
    if (route->help != NULL)
        text_member_str(w, "summary", route->help);
    put_id(d, op, verb, w);
    text_key(w, "tags");
    text_open_list(w);
    text_put_str(w, op->api->type);
    text_close(w);
    text_member_str(w, "x-holdfast-method", http_method_name(route->method));
    put_security(d->dialect, route, w);
    put_query_params(d->dialect->docs, op, w);
    put_body(d->dialect->docs, op, w);
    put_responses(d->dialect->docs, route, w);
    text_close(w);
    ASSERT(w->depth == depth);
}

/* Write all operations of one path. Returns their number. */
static size_t put_path(const struct docs *d, size_t at, struct text_writer *w)
{
    size_t n = 0;
    ASSERT(at < d->n);
    text_key(w, d->ops[at].path);
    text_open_object(w);
    put_path_params(&d->ops[at], w);
    for (; at + n < d->n && strcmp(d->ops[at + n].path, d->ops[at].path) == 0; n++) {
        const struct docs_op *op = &d->ops[at + n];
        if (op->shadowed)
            continue;
        put_operation(d, op, openapi_verb(op->route), w);
        if ((op->route->flags & ROUTE_HEAD) != 0)
            put_operation(d, op, "head", w);
    }
    text_close(w);
    ASSERT(n > 0); /* at least one row belongs to the path, so the loop over all paths ends */
    return n;
}

void openapi_write(const struct docs *d, struct text_writer *w)
{
    const struct docs_dialect *docs = d->dialect->docs;
    ASSERT(docs != NULL);
    ASSERT(d->n <= OPENAPI_OPERATIONS_MAX);
    unsigned depth = w->depth;
    text_open_object(w);
    text_member_str(w, "openapi", "3.0.3");
    openapi_open_member(w, "info");
    text_member_str(w, "title", docs->title);
    text_member_str(w, "description", docs->description);
    text_member_str(w, "version", d->req->host->version);
    if (d->cut)
        text_member_bool(w, "x-holdfast-cut", true);
    text_close(w);
    text_key(w, "servers");
    text_open_list(w);
    text_open_object(w);
    text_member_str(w, "url", d->server);
    text_close(w);
    text_close(w);
    openapi_open_member(w, "paths");
    for (size_t i = 0; i < d->n;)
        i += put_path(d, i, w);
    text_close(w);
    docs->put_components(w);
    text_close(w);
    ASSERT(w->depth == depth);
}
