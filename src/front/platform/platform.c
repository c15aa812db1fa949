#include "front/platform/platform.h"

#include "front/platform/platform_docs.h"
#include "router/header.h"
#include "router/request/body.h"
#include "text/duration.h"

#include <stdio.h>

#define API_VERSION "2.6"
#define RELEASE "v202409-1" /* clients cut this text by position: keep its form */
#define MEDIA_TYPE "application/vnd.api+json"
#define POINTER "/data"
#define SIGNED "blobs/"
#define LOGS "logs/" /* signed too */
#define WORKER "worker/"

enum { WAIT_S_DEFAULT = 30, WAIT_S_MAX = 300 };

/* Requests */

static enum status read_headers(struct req *req, const struct router_request *request)
{
    req->authority = router_header(request, "host");
    req->user_agent = router_header(request, "user-agent");
    return ST_OK;
}

/* A parameter of the query; empty: absent. */
static struct bytes query_text(const struct req *req, const char *name)
{
    const struct text_value *v = text_get(req->query, name);
    return v != NULL && v->kind == TEXT_STRING ? v->text : (struct bytes){0};
}

/* Workers wait for jobs: `index` of the result that they have, and how long they wait. */
static enum status read_worker_wait(struct req *req)
{
    struct bytes index = query_text(req, "index"), wait = query_text(req, "wait");
    int64_t n = 0, wait_s = WAIT_S_DEFAULT;
    if (index.len != 0 && (text_int_parse(index, &n) != ST_OK || n < 0))
        return req_fail(req, ST_INVALID, "index: a whole number is expected");
    if (wait.len != 0 && (text_seconds_parse(wait, &wait_s) != ST_OK || wait_s < 0))
        return req_fail(req, ST_INVALID, "wait: a duration as 30s is expected");
    req->block.index = (uint64_t)n;
    req->block.wait_ms = (uint32_t)MIN(MAX(wait_s, INT64_C(1)), (int64_t)WAIT_S_MAX) * 1000;
    return ST_OK;
}

static enum status read_method(struct req *req, const struct router_request *request)
{
    req->method = request->method;
    bool worker = bytes_has_prefix(req->path, BYTES(WORKER)) && req->method == METHOD_GET;
    return worker ? read_worker_wait(req) : ST_OK;
}

/* The platform has organizations; the header for namespaces means nothing to it. */
static struct bytes read_namespace(const struct req *req, const struct router_request *request)
{
    (void)req; /* every request is in the root namespace */
    (void)request;
    return (struct bytes){0};
}

static struct bytes read_token(const struct req *req, const struct router_request *request)
{
    (void)req; /* the header alone carries a token */
    return header_bearer(request);
}

/* A document, whatever the header says. Deletions of relationships have one too. */
static enum status parse_document(struct arena *arena, const struct body_raw *raw,
                                  const struct text_value **ret_data, struct reason *reason)
{
    static const struct text_value nothing = {.kind = TEXT_OBJECT};
    struct reason why = {0};
    bool reads = raw->method == METHOD_GET || raw->method == METHOD_HEAD;
    if (reads)
        return body_query(arena, raw->query, ret_data);
    *ret_data = &nothing;
    if (raw->text.len == 0)
        return ST_OK;
    const struct text_value *document;
    enum status st = text_json_parse(arena, raw->text, &document, &why);
    if (st == ST_INVALID) {
        reason_set(reason, "the body is not JSON: %s", why.text);
        return ST_REFUSED;
    }
    TRY(st);
    if (document->kind != TEXT_OBJECT) {
        reason_set(reason, "the body is %s: an object is expected", text_kind_name(document->kind));
        return ST_REFUSED;
    }
    *ret_data = document;
    return ST_OK;
}

static enum status refuse_field(struct req *req, const char *field, const char *why)
{
    return req_fail(req, ST_REFUSED, POINTER "/attributes/%s: %s", field, why);
}

/* Clients send members of later versions. */
static enum status ignore_field(struct req *req, struct bytes field)
{
    (void)req;
    (void)field;
    return ST_OK;
}

/* Every handler judges what the owner of the token may do there. */
static enum status need_token(struct req *req)
{
    return req->token != NULL ? ST_OK : ST_UNAUTHENTICATED;
}

static void say_no_path(struct req *req, bool served)
{
    (void)req; /* the text of the status says all */
    (void)served;
}

/* Replies */

static void put_data(const struct req *req, struct bytes data, struct buf *out)
{
    (void)req; /* the handler wrote the document */
    buf_add(out, data);
}

static int error_http(enum status st)
{
    switch (st) {
    case ST_TIMEOUT: return 504;
    case ST_BAD_GATEWAY: return 500;
    case ST_CONFLICT: return 503; /* of transactions; clients read 409 as a state of the object */
    case ST_UNINITIALIZED: return 503;
    default: return status_http(st);
    }
}

static const char *error_text(enum status st)
{
    return st == ST_NOT_FOUND || st == ST_UNAUTHENTICATED ? "" : status_text(st);
}

static const char *title_of(int http, bool pointed)
{
    switch (http) {
    case 400: return "bad request";
    case 401: return "unauthorized";
    case 403: return "forbidden";
    case 404: return "not found";
    case 409: return "conflict";
    case 412: return "precondition failed";
    case 413: return "payload too large";
    case 422: return pointed ? "invalid attribute" : "unprocessable entity";
    case 429: return "Too many requests";
    case 503: return "service unavailable";
    case 504: return "gateway timeout";
    default: return http >= 500 ? "internal server error" : "request refused";
    }
}

/* A text that begins with "/data", as "/data/attributes/name: is required", begins with a pointer
 * to the member that it is about. */
static size_t pointer_len(const char *text)
{
    size_t len = strcspn(text, ": ");
    bool pointed =
        strncmp(text, POINTER, sizeof POINTER - 1) == 0 && text[len] == ':' && text[len + 1] == ' ';
    return pointed ? len : 0;
}

static void put_error(int http, const char *text, struct buf *out)
{
    size_t pointer = pointer_len(text);
    char status[16];
    struct text_writer w = {.out = out};
    (void)snprintf(status, sizeof status, "%d", http); /* three digits fit */
    text_open_object(&w);
    text_key(&w, "errors");
    text_open_list(&w);
    text_open_object(&w);
    text_member_str(&w, "status", status);
    text_member_str(&w, "title", title_of(http, pointer != 0));
    if (text[0] != '\0')
        text_member_str(&w, "detail", pointer != 0 ? text + pointer + 2 : text);
    if (pointer != 0) {
        text_key(&w, "source");
        text_open_object(&w);
        text_key(&w, "pointer");
        text_put_bytes(&w, bytes_of(text, pointer));
        text_close(&w);
    }
    text_close(&w);
    text_close(&w);
    text_close(&w);
}

/* Whether the node that ran the request has added its headers already. */
static bool is_relayed(const struct router_reply *reply)
{
    for (size_t i = 0; i < reply->n_headers; i++)
        if (text_is(reply->headers[i].name, "tfp-api-version"))
            return true;
    return false;
}

/* Without memory a header is missing. */
static void tell_platform(const struct req *req, const struct router_request *request,
                          struct router_reply *reply)
{
    (void)request; /* the same to a client and to a node */
    if (is_relayed(reply))
        return;
    (void)reply_add_header(reply, req->arena, BYTES("TFP-API-Version"), BYTES(API_VERSION));
    (void)reply_add_header(reply, req->arena, BYTES("X-TFE-Version"), BYTES(RELEASE));
    (void)reply_add_header(reply, req->arena, BYTES("Cache-Control"), BYTES("no-store"));
    if (bytes_has_prefix(req->path, BYTES(SIGNED)) || bytes_has_prefix(req->path, BYTES(LOGS)))
        (void)reply_add_header(reply, req->arena, BYTES("Referrer-Policy"), BYTES("no-referrer"));
}

#define PLATFORM_MANNERS                                                                          \
    .read_headers = read_headers, .read_method = read_method, .read_namespace = read_namespace,   \
    .read_token = read_token, .parse_body = parse_document, .token_kind = TOKEN_PLATFORM,         \
    .any_patch_type = true, .separate_params = true, .refuse_field = refuse_field,                \
    .unknown_field = ignore_field, .open_paths = true, .authorise = need_token,                   \
    .unknown_token_text = "the token is unknown", .unknown_is_unauthenticated = true,             \
    .silent_http = 204, .put_data = put_data, .error_type = MEDIA_TYPE, .error_http = error_http, \
    .error_text = error_text, .put_error = put_error,                                             \
    .body_too_long_text = "the body is too long", .limited_text = "rate limit exceeded",          \
    .say_no_path = say_no_path, .add_headers = tell_platform

const struct dialect platform_dialect = {
    .name = "platform",
    .root = "/api/v2/",
    PLATFORM_MANNERS,
    .data_type = MEDIA_TYPE,
    .docs = &platform_docs,
};

const struct dialect platform_discovery_dialect = {
    .name = "platform-discovery",
    .root = "/.well-known/",
    .part_of = "platform",
    PLATFORM_MANNERS,
    .data_type = "application/json",
};

const struct dialect platform_app_dialect = {
    .name = "platform-app",
    .root = "/app/",
    .part_of = "platform",
    PLATFORM_MANNERS,
    .data_type = "application/json",
};
