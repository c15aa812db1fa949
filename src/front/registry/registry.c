#include "front/registry/registry.h"

#include "auth/policy_list.h"
#include "auth/registry/registry_settings.h"
#include "front/registry/registry_docs.h"
#include "front/registry/registry_namespace.h"
#include "front/registry/registry_pretty.h"
#include "front/registry/registry_read.h"
#include "front/registry/registry_rights.h"
#include "router/header.h"
#include "router/request/body.h"

#include <stdio.h>
#include <strings.h>

#define ACL_PREFIX "acl/"
#define LIMITED_TEXT "rate limit exceeded"

/* Reading requests */

static enum status read_get_help(struct req *req, const struct router_request *request)
{
    bool help = false;
    ASSERT(req->query != NULL);
    req->method = request->method;
    if (req->method != METHOD_GET || req->query->n == 0)
        return ST_OK;
    req->help = text_bool_parse(registry_parameter(req, "help"), &help) == ST_OK && help;
    if (req->help)
        req->method = METHOD_OPTIONS;
    return ST_OK;
}

/* The root namespace is called "default" here. */
static struct bytes read_namespace(const struct req *req, const struct router_request *request)
{
    struct bytes ns = registry_parameter(req, "ns");
    if (ns.len == 0)
        ns = header_either(request, "x-registry-namespace", "x-consul-namespace");
    return text_is(ns, "default") ? (struct bytes){0} : ns;
}

/* The first word behind the scheme Bearer, which is read in any case; empty: none. */
static struct bytes bearer_of(const struct router_request *request)
{
    static const char scheme[] = "bearer ";
    struct bytes text = router_header(request, "authorization");
    if (text.len < sizeof scheme - 1 ||
        strncasecmp((const char *)text.data, scheme, sizeof scheme - 1) != 0)
        return (struct bytes){0};
    text = bytes_from(text, sizeof scheme - 1);
    while (text.len != 0 && text.data[0] == ' ')
        text = bytes_from(text, 1);
    const uint8_t *end = text.len != 0 ? memchr(text.data, ' ', text.len) : NULL;
    return end != NULL ? bytes_of(text.data, (size_t)(end - text.data)) : text;
}

static bool has_own_token(const struct router_request *request)
{
    return header_either(request, "x-registry-token", "x-consul-token").data != NULL;
}

static struct bytes read_token(const struct req *req, const struct router_request *request)
{
    if (!registry_settings()->acl)
        return (struct bytes){0};
    struct bytes token = registry_parameter(req, "token");
    if (token.len == 0)
        token = header_either(request, "x-registry-token", "x-consul-token");
    return token.len != 0 ? token : bearer_of(request);
}

static const char *noun_of(const struct route *route)
{
    return route != NULL && route->noun != NULL ? route->noun : "Request";
}

static enum status parse_body(struct arena *arena, const struct body_raw *raw,
                              const struct text_value **ret_data, struct reason *reason)
{
    bool writes = raw->method == METHOD_PUT;
    struct reason why = {0};
    if (!writes)
        return body_query(arena, raw->query, ret_data);
    if (raw->text.len == 0 && raw->route->noun != NULL) {
        reason_set(reason, "%s decoding failed: EOF", raw->route->noun);
        return ST_INVALID;
    }
    /* JSON, whatever the header says: curl calls every body a form */
    const struct body_raw json = {.method = raw->method, .text = raw->text};
    enum status st = body_parse(arena, &json, ret_data, &why);
    if (st == ST_INVALID)
        reason_set(reason, "%s decoding failed: %s", noun_of(raw->route), why.text);
    return st;
}

static enum status refuse_field(struct req *req, const char *field, const char *why)
{
    if (req->method != METHOD_PUT)
        return req_fail(req, ST_INVALID, "Invalid %s: %s", field, why);
    return req_fail(req, ST_INVALID, "%s decoding failed: json: field %s: %s", noun_of(req->route),
                    field, why);
}

/* The parameters of a query that a route does not know mean nothing to it. */
static enum status refuse_unknown_field(struct req *req, struct bytes field)
{
    if (req->method != METHOD_PUT)
        return ST_OK;
    return req_fail(req, ST_INVALID, "%s decoding failed: json: unknown field \"%.*s\"",
                    noun_of(req->route), (int)MIN(field.len, (size_t)64), (const char *)field.data);
}

/* Whether the reply depends on the state: then it says how new the state is. */
static bool reads_state(const struct req *req)
{
    return req->method == METHOD_GET && req->route != NULL && req->route->place != PLACE_NODE;
}

static enum status check_route(struct req *req)
{
    struct bytes dc = registry_parameter(req, "dc");
    ASSERT(req->query != NULL && req->api != NULL);
    if (!registry_settings()->acl && bytes_has_prefix(req->path, BYTES(ACL_PREFIX)))
        return req_fail(req, ST_UNAUTHENTICATED, "ACL support disabled");
    if (req->others.methods != 0 && req->method != METHOD_OPTIONS)
        reason_set(req_reason(req), "method %s not allowed", http_method_name(req->method));
    if (dc.len != 0 && !text_is(dc, registry_settings()->datacenter))
        return req_fail(req, ST_REFUSED, "No path to datacenter");
    return reads_state(req) ? registry_read_query(req) : ST_OK;
}

/* Rights */

static enum status deny(struct req *req, const struct registry_row *need)
{
    if (req->token != NULL)
        return req_fail(req, ST_DENIED,
                        "Permission denied: token with AccessorID '%s' lacks permission '%s'",
                        req->token->accessor, need->permission);
    return req_fail(req, ST_DENIED,
                    "Permission denied: anonymous token lacks permission '%s'. The anonymous token "
                    "is used implicitly when a request does not specify a token.",
                    need->permission);
}

/* The name that the right of a route is about: agents have the names of their nodes. */
static enum status name_of_right(const struct req *req, struct bytes *ret_name)
{
    *ret_name = (struct bytes){0};
    const struct registry_row *need = req->route->of_dialect;
    if (need->resource != REGISTRY_AGENT)
        return ST_OK;
    struct node_status *node = arena_alloc(req->arena, sizeof *node);
    if (node == NULL)
        return ST_NOMEM;
    req->host->node_ops->status(req->host->node, node);
    *ret_name = bytes_str(node->name);
    return ST_OK;
}

static enum status judge_sender(struct req *req)
{
    const struct registry_row *need = req->route->of_dialect;
    struct bytes name;
    if (!registry_settings()->acl)
        return ST_OK;
    if (req->token != NULL && req->token->kind == TOKEN_SECRETS &&
        !policy_list_is_root(&req->token->policies))
        return req_fail(req, ST_DENIED, "%s", registry_dialect.unknown_token_text);
    if (need == NULL)
        return ST_OK;
    TRY(name_of_right(req, &name));
    enum status st = registry_allow(req, need->resource, name, need->level);
    return st == ST_DENIED ? deny(req, need) : st;
}

/* Writing replies */

static void put_data(const struct req *req, struct bytes data, struct buf *out)
{
    if (text_get(req->query, "pretty") != NULL)
        registry_pretty(data, out);
    else
        buf_add(out, data);
}

static int error_http(enum status st)
{
    switch (st) {
    case ST_INVALID:
    case ST_UNAUTHENTICATED:
    case ST_DENIED:
    case ST_NOT_FOUND:
    case ST_UNSUPPORTED:
    case ST_TOO_BIG:
    case ST_LIMITED:
    case ST_SEALED:
    case ST_BUSY:
    case ST_CLOSED: return status_http(st);
    case ST_UNINITIALIZED: return status_http(ST_SEALED);
    default: return 500;
    }
}

static const char *error_text(enum status st)
{
    switch (st) {
    case ST_DENIED: return "Permission denied";
    case ST_NO_LEADER:
    case ST_NOT_LEADER: return "No cluster leader";
    case ST_LIMITED: return LIMITED_TEXT;
    case ST_SEALED: return "this node is sealed";
    default: return status_text(st);
    }
}

static void put_error(int http, const char *text, struct buf *out)
{
    (void)http; /* the same form for all */
    buf_add_str(out, text);
}

static void say_no_path(struct req *req, bool served)
{
    (void)served; /* the same text */
    reason_set(req_reason(req), "Invalid URL path: not a recognized HTTP API endpoint\n"
                                "holdfast serves acl/, agent/self and status/ of this API: see "
                                "docs/compatibility.md\n");
}

static void write_methods(unsigned methods, char ret_text[ROUTE_METHODS_TEXT])
{
    int at = snprintf(ret_text, ROUTE_METHODS_TEXT, "%s", http_method_name(METHOD_OPTIONS));
    for (unsigned m = 0; m < METHODS; m++) {
        if ((methods >> m & 1) == 0 || m == METHOD_OPTIONS)
            continue;
        at += snprintf(ret_text + at, (size_t)(ROUTE_METHODS_TEXT - at), ",%s",
                       http_method_name((enum http_method)m));
        ASSERT(at < ROUTE_METHODS_TEXT);
    }
}

/* Whether the node that ran the request has added its headers already. */
static bool is_relayed(const struct router_reply *reply)
{
    for (size_t i = 0; i < reply->n_headers; i++)
        if (text_is(reply->headers[i].name, "x-registry-default-acl-policy"))
            return true;
    return false;
}

/* A warning as the value of a header: clients chose a part of its text, which must not end the
 * header. */
static struct bytes header_text(struct arena *arena, const char *warning)
{
    char *text = arena_str(arena, bytes_str(warning));
    if (text == NULL)
        return BYTES("a warning");
    for (char *c = text; *c != '\0'; c++)
        if (*c < ' ' || *c > '~')
            *c = '?';
    return bytes_str(text);
}

static void tell_registry(const struct req *req, const struct router_request *request,
                          struct router_reply *reply)
{
    (void)request; /* the same to a client and to a node */
    if (is_relayed(reply))
        return;
    (void)reply_add_header(reply, req->arena, BYTES("Vary"),
                           BYTES("Accept-Encoding")); /* without memory the header is missing */
    header_tell(reply, req->arena, "X-Registry-Default-ACL-Policy", "X-Consul-Default-ACL-Policy",
                registry_settings()->default_allow ? BYTES("allow") : BYTES("deny"));
    if (reads_state(req) && (reply->http == 200 || reply->http == 404))
        registry_read_tell(req, reply);
    for (unsigned i = 0; i < req->reply.n_warnings; i++)
        header_tell(reply, req->arena, "X-Registry-Warning", "X-Consul-Warning",
                    header_text(req->arena, req->reply.warnings[i]));
}

static const char *const page_headers[] = {
    "X-Registry-Token",
    "X-Registry-Namespace",
    "X-Consul-Token",
    "X-Consul-Namespace",
};

const struct dialect registry_dialect = {
    .name = "registry",
    .root = "/v1/",
    .read_method = read_get_help,
    .read_namespace = read_namespace,
    .serve_no_namespace = registry_namespace_serve,
    .has_own_token = has_own_token,
    .read_token = read_token,
    .parse_body = parse_body,
    .token_kind = TOKEN_REGISTRY,
    .separate_params = true,
    .refuse_field = refuse_field,
    .unknown_field = refuse_unknown_field,
    .open_paths = true,
    .write_methods = write_methods,
    .authorise = judge_sender,
    .unknown_token_text = "ACL not found",
    .check_route = check_route,
    .page_headers = page_headers,
    .n_page_headers = ARRAY_LEN(page_headers),
    .silent_http = 200,
    .data_type = "application/json",
    .put_data = put_data,
    .error_type = "text/plain; charset=utf-8",
    .error_http = error_http,
    .error_text = error_text,
    .no_leader_words = "No cluster leader: ",
    .put_error = put_error,
    .body_too_long_text = "request body too large",
    .limited_text = LIMITED_TEXT,
    .say_no_path = say_no_path,
    .add_headers = tell_registry,
    .docs = &registry_docs,
};
