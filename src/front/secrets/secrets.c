#include "front/secrets/secrets.h"

#include "front/secrets/secrets_docs.h"
#include "front/secrets/wrap.h"
#include "router/header.h"
#include "router/request/body.h"

#define JSON_TYPE "application/json"

enum { ENVELOPE_BYTES = 320 };

/* Reading requests */

/* Check the form of the header only: no method of multi-factor authentication can be configured. */
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

static enum status read_headers(struct req *req, const struct router_request *request)
{
    TRY(wrap_read(req, header_either(request, "x-secrets-wrap-ttl", "x-vault-wrap-ttl")));
    if (req->wrap_ttl_s != 0 ||
        bytes_has_prefix(request->target.path, BYTES("sys/wrapping/"))) /* else unused */
        TRY(wrap_read_form(req,
                           header_either(request, "x-secrets-wrap-format", "x-vault-wrap-format")));
    return check_mfa(req, header_either(request, "x-secrets-mfa", "x-vault-mfa"));
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

/* Read the query parameters that turn a GET into another operation. */
static enum status read_get_flags(struct req *req)
{
    bool list, scan;
    ASSERT(req->method == METHOD_GET);
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

static enum status read_method(struct req *req, const struct router_request *request)
{
    bool slash = req->path.len > 0 && req->path.data[req->path.len - 1] == '/';
    ASSERT(req->query != NULL);
    req->method = request->method;
    switch (request->method) {
    case METHOD_GET: TRY(read_get_flags(req)); break;
    case METHOD_POST:
    case METHOD_PUT:
    case METHOD_PATCH:
        if (slash)
            return req_fail(req, ST_INVALID, "cannot write to a path ending in '/'");
        break;
    default: break;
    }
    if (req->method == METHOD_LIST || req->method == METHOD_SCAN)
        return path_folder(req->arena, req->path, &req->path);
    if (slash) /* drop the slash: it means nothing here, and rules leave it out */
        req->rule_path = path_trimmed(req->path);
    return ST_OK;
}

static struct bytes namespace_of(const struct router_request *request)
{
    return header_either(request, "x-secrets-namespace", "x-vault-namespace");
}

static struct bytes read_namespace(const struct req *req, const struct router_request *request)
{
    (void)req; /* the header alone names the namespace */
    return namespace_of(request);
}

static bool has_own_token(const struct router_request *request)
{
    return header_either(request, "x-secrets-token", "x-vault-token").data != NULL;
}

static struct bytes read_token(const struct req *req, const struct router_request *request)
{
    struct bytes token = header_either(request, "x-secrets-token", "x-vault-token");
    (void)req; /* the token never stands in a parameter */
    return token.len != 0 ? token : header_bearer(request);
}

static enum status refuse_field(struct req *req, const char *field, const char *why)
{
    return req_fail(req, ST_INVALID, "Field validation failed: %s: %s", field, why);
}

static enum status note_unknown_field(struct req *req, struct bytes field)
{
    req_note(req, "Endpoint ignored the unrecognized parameter %.*s",
             (int)MIN(field.len, (size_t)64), (const char *)field.data);
    return ST_OK;
}

static bool asks_redirect(const struct router_request *request)
{
    return header_either(request, "x-secrets-no-request-forwarding",
                         "x-vault-no-request-forwarding")
               .data != NULL;
}

/* A browser sends this header to another site only after a preflight allowed it. */
static bool is_marked(const struct router_request *request)
{
    return text_is(router_header(request, "x-secrets-request"), "true") ||
           text_is(router_header(request, "x-vault-request"), "true");
}

static const char *const page_headers[] = {
    "X-Secrets-Token",
    "X-Secrets-Namespace",
    "X-Secrets-Request",
    "X-Secrets-Wrap-TTL",
    "X-Secrets-Wrap-Format",
    "X-Secrets-MFA",
    "X-Secrets-No-Request-Forwarding",
    "X-Secrets-Policy-Override",
    "X-Vault-Token",
    "X-Vault-Namespace",
    "X-Vault-Request",
    "X-Vault-Wrap-TTL",
    "X-Vault-Wrap-Format",
    "X-Vault-MFA",
    "X-Vault-No-Request-Forwarding",
    "X-Vault-Policy-Override",
};

/* Writing replies */

/* Repeat the members of `data` in the envelope itself, where old clients look for them. `data` is a
 * compact object that the router wrote. */
static void repeat_members(struct text_writer *w, struct bytes data)
{
    ASSERT(data.len >= 2);
    ASSERT(data.data[0] == '{');
    if (data.len > 2)
        text_put_raw(w, bytes_of(data.data + 1, data.len - 2));
}

static void put_warnings(const struct req_reply *reply, struct text_writer *w)
{
    ASSERT(reply->n_warnings <= REQ_WARNINGS_MAX);
    text_key(w, "warnings");
    if (reply->n_warnings == 0) {
        text_put_null(w);
        return;
    }
    text_open_list(w);
    for (unsigned i = 0; i < reply->n_warnings; i++)
        text_put_str(w, reply->warnings[i]);
    text_close(w);
}

/* Write the members after the data; in most replies they are null. */
static void put_rest(const struct req_reply *reply, struct text_writer *w)
{
    ASSERT(reply->kind != REPLY_RAW);
    if (reply->n_warnings == 0 && reply->auth.len == 0) {
        text_put_raw(w, BYTES("\"wrap_info\":null,\"warnings\":null,\"auth\":null"));
        return;
    }
    text_member_null(w, "wrap_info");
    put_warnings(reply, w);
    text_key(w, "auth");
    if (reply->auth.len != 0)
        text_put_raw(w, buf_bytes(&reply->auth));
    else
        text_put_null(w);
}

void secrets_put_errors(struct text_writer *w, const char *text)
{
    text_key(w, "errors");
    text_open_list(w);
    if (text[0] != '\0')
        text_put_str(w, text);
    text_close(w);
}

static void put_lease(const struct req_reply *reply, struct text_writer *w)
{
    if (reply->lease_id == NULL) { /* most replies give no lease */
        text_put_raw(w, BYTES("\"lease_id\":\"\",\"renewable\":false"));
        return;
    }
    text_member_str(w, "lease_id", reply->lease_id);
    text_member_bool(w, "renewable", reply->renewable);
}

static void put_envelope(const struct req *req, struct bytes data, struct buf *out)
{
    struct text_writer w = {.out = out};
    const struct req_reply *reply = &req->reply;

    ASSERT(out->len == 0);
    ASSERT(reply->lease_duration_s >= 0);
    if (buf_reserve(out, data.len + reply->auth.len + ENVELOPE_BYTES) != ST_OK)
        return; /* buf_status tells the failure */
    text_open_object(&w);
    if (reply->http >= 400)
        secrets_put_errors(&w, req_error(req)->text);
    text_member_str(&w, "request_id", req->request_id);
    put_lease(reply, &w);
    text_member_int(&w, "lease_duration", reply->lease_duration_s);
    text_key(&w, "data");
    if (data.len != 0)
        text_put_raw(&w, data);
    else
        text_put_null(&w);
    put_rest(reply, &w);
    text_member_str(&w, "mount_type", req->api->type);
    if (req->route->form == FORM_TOP_LEVEL && data.len != 0)
        repeat_members(&w, data);
    text_close(&w);
}

static const char *error_text(enum status st)
{
    switch (st) {
    case ST_NOT_FOUND: return "";
    case ST_SEALED: return "Vault is sealed"; /* clients of the upstream API look for these words */
    case ST_DENIED: return "1 error occurred:\n\t* permission denied\n\n";
    case ST_UNSUPPORTED: return "1 error occurred:\n\t* unsupported operation\n\n";
    default: return status_text(st);
    }
}

static void put_error(int http, const char *text, struct buf *out)
{
    (void)http; /* the same form for all */
    struct text_writer w = {.out = out};
    text_open_object(&w);
    secrets_put_errors(&w, text);
    text_close(&w);
}

static void say_no_path(struct req *req, bool served)
{
    if (served)
        reason_set(req_reason(req), "1 error occurred:\n\t* unsupported path\n\n");
    else
        reason_set(req_reason(req), "no handler for route \"%.160s\". route entry not found.",
                   (const char *)req->path.data);
}

/* Add the headers that describe the node which the client asked. */
static void tell_node(const struct req *req, const struct router_request *request,
                      struct router_reply *reply)
{
    const struct router_host *host = req->host;
    struct bytes ns = namespace_of(request);
    ASSERT(!request->forwarded);
    if (ns.len != 0)
        header_tell(reply, req->arena, "X-Secrets-Namespace", "X-Vault-Namespace", ns);
    if (host->hostname != NULL)
        header_tell(reply, req->arena, "X-Secrets-Hostname", "X-Vault-Hostname",
                    bytes_str(host->hostname));
    if (host->node_id != NULL)
        header_tell(reply, req->arena, "X-Secrets-Raft-Node-ID", "X-Vault-Raft-Node-ID",
                    bytes_str(host->node_id));
}

/* Add the id of a refused request: a user quotes the id, an operator finds it in the audit log. The
 * reply of another node brings its own id. */
static void tell_request_id(const struct req *req, struct router_reply *reply)
{
    if (reply->http < 400)
        return;
    ASSERT(req->request_id[0] != '\0');
    for (size_t i = 0; i < reply->n_headers; i++)
        if (text_is(reply->headers[i].name, "x-secrets-request-id"))
            return;
    header_tell(reply, req->arena, "X-Secrets-Request-ID", "X-Vault-Request-ID",
                bytes_str(req->request_id));
}

static void add_headers(const struct req *req, const struct router_request *request,
                        struct router_reply *reply)
{
    ASSERT(reply->http != 0 || reply->retry != ST_OK);
    ASSERT(reply->n_headers <= REPLY_HEADERS_MAX);
    tell_request_id(req, reply);
    if (!request->forwarded)
        tell_node(req, request, reply);
}

const struct dialect secrets_dialect = {
    .name = "secrets",
    .root = "/v1/",
    .mounts = true,
    .read_headers = read_headers,
    .read_method = read_method,
    .read_namespace = read_namespace,
    .has_own_token = has_own_token,
    .read_token = read_token,
    .parse_body = body_parse,
    .refuse_field = refuse_field,
    .unknown_field = note_unknown_field,
    .check_route = wrap_check,
    .asks_redirect = asks_redirect,
    .is_marked = is_marked,
    .unmarked_text = "missing 'X-Secrets-Request' header",
    .page_headers = page_headers,
    .n_page_headers = ARRAY_LEN(page_headers),
    .silent_http = 204,
    .tells_warnings = true,
    .data_type = JSON_TYPE,
    .put_data = put_envelope,
    .finish = wrap_reply,
    .error_type = JSON_TYPE,
    .error_text = error_text,
    .put_error = put_error,
    .body_too_long_text = "http: request body too large",
    .say_no_path = say_no_path,
    .add_headers = add_headers,
    .docs = &secrets_docs,
};
