#include "front/scheduler/scheduler.h"

#include "auth/policy_list.h"
#include "front/registry/registry_pretty.h"
#include "front/registry/registry_read.h"
#include "front/scheduler/scheduler_docs.h"
#include "front/scheduler/scheduler_namespace.h"
#include "front/scheduler/scheduler_read.h"
#include "front/scheduler/scheduler_rights.h"
#include "router/header.h"
#include "router/request/body.h"
#include "text/websocket.h"

#define DENIED_TEXT "Permission denied"
#define LIMITED_TEXT "rate limit exceeded"

/* Reading requests */

struct bytes scheduler_parameter(const struct req *req, const char *name)
{
    return registry_parameter(req, name);
}

enum status scheduler_flag(struct req *req, const char *name, bool otherwise, bool *ret_truth)
{
    const char *text = arena_str(req->arena, scheduler_parameter(req, name));
    return text != NULL ? scheduler_truth(req, name, text, otherwise, ret_truth) : ST_NOMEM;
}

enum status scheduler_truth(struct req *req, const char *name, const char *value, bool otherwise,
                            bool *ret_truth)
{
    struct bytes text = bytes_str(value);
    ASSERT(value != NULL);
    *ret_truth = otherwise;
    ASSERT(name[0] != '\0');
    if (text.len == 0 || text_bool_parse(text, ret_truth) == ST_OK)
        return ST_OK;
    return req_fail(req, ST_REFUSED,
                    "Failed to parse value of \"%s\" (%.*s) as a bool: strconv.ParseBool: parsing "
                    "\"%.*s\": invalid syntax",
                    name, (int)MIN(text.len, (size_t)64), (const char *)text.data,
                    (int)MIN(text.len, (size_t)64), (const char *)text.data);
}

static enum status scheduler_read_get_help(struct req *req, const struct router_request *request)
{
    bool help = false;
    ASSERT(req->query != NULL);
    req->method = request->method;
    if (req->method != METHOD_GET || req->query->n == 0)
        return ST_OK;
    req->help = text_bool_parse(scheduler_parameter(req, "help"), &help) == ST_OK && help;
    if (req->help)
        req->method = METHOD_OPTIONS;
    return ST_OK;
}

/* The root namespace is called "default" here. */
static struct bytes read_namespace(const struct req *req, const struct router_request *request)
{
    struct bytes ns = scheduler_parameter(req, "namespace");
    (void)request; /* no header names a namespace */
    return text_is(ns, "default") ? (struct bytes){0} : ns;
}

static bool has_own_token(const struct router_request *request)
{
    return header_either(request, "x-scheduler-token", "x-nomad-token").data != NULL;
}

static struct bytes read_token(const struct req *req, const struct router_request *request)
{
    struct bytes token = header_either(request, "x-scheduler-token", "x-nomad-token");
    (void)req; /* the query has no token */
    return token.len != 0 ? token : header_bearer(request);
}

static enum status scheduler_parse_body(struct arena *arena, const struct body_raw *raw,
                                        const struct text_value **ret_data, struct reason *reason)
{
    bool writes = raw->method == METHOD_POST || raw->method == METHOD_PUT;
    struct reason why = {0};
    ASSERT(raw->route != NULL);
    if (!writes)
        return body_query(arena, raw->query, ret_data);
    if (raw->text.len == 0 && raw->route->noun != NULL) {
        reason_set(reason, "Failed to decode body: EOF");
        return ST_INVALID;
    }
    /* JSON, whatever the header says: curl calls every body a form */
    const struct body_raw json = {.method = raw->method, .text = raw->text};
    enum status st = body_parse(arena, &json, ret_data, &why);
    if (st == ST_INVALID)
        reason_set(reason, "Failed to decode body: %s", why.text);
    return st;
}

static enum status refuse_field(struct req *req, const char *field, const char *why)
{
    return req_fail(req, ST_INVALID, "Failed to decode body: json: field %s: %s", field, why);
}

static enum status ignore_unknown_field(struct req *req, struct bytes field)
{
    (void)req, (void)field; /* clients of other versions send more fields */
    return ST_OK;
}

/* Whether the reply depends on the state: then it says how new the state is. */
static bool reads_state(const struct req *req)
{
    return req->method == METHOD_GET && req->route != NULL && req->route->place != PLACE_NODE;
}

static enum status check_route(struct req *req)
{
    struct bytes region = scheduler_parameter(req, "region");
    ASSERT(req->route != NULL && req->query != NULL);
    if (req->others.methods != 0 && req->method != METHOD_OPTIONS)
        reason_set(req_reason(req), "Invalid method");
    if (region.len != 0 && !text_is(region, "global"))
        return req_fail(req, ST_REFUSED, "No path to region");
    return reads_state(req) ? scheduler_read_query(req) : ST_OK;
}

/* Rights */

static enum status deny(struct req *req, const struct scheduler_row *need)
{
    if (need->hides)
        return req_fail(req, ST_REFUSED, "Unknown allocation \"%.64s\"", req_param(req, "id"));
    return req_fail(req, ST_DENIED, DENIED_TEXT);
}

static enum status scheduler_judge_sender(struct req *req)
{
    const struct scheduler_row *need = req->route->of_dialect;
    unsigned caps;
    ASSERT(req->route != NULL);
    if (req->token != NULL && req->token->kind == TOKEN_SECRETS &&
        !policy_list_is_root(&req->token->policies))
        return req_fail(req, ST_DENIED, DENIED_TEXT);
    if (need == NULL)
        return ST_OK;
    TRY(scheduler_caps(req, &caps));
    bool may = need->caps != 0 ? (caps & need->caps) != 0 : req->token != NULL;
    return may ? ST_OK : deny(req, need);
}

/* Writing replies */

static void put_data(const struct req *req, struct bytes data, struct buf *out)
{
    const struct text_value *pretty = text_get(req->query, "pretty");
    ASSERT(out != NULL);
    if (pretty != NULL && !text_is(scheduler_parameter(req, "pretty"), "0"))
        registry_pretty(data, out);
    else
        buf_add(out, data);
}

static int scheduler_error_http(enum status st)
{
    switch (st) {
    case ST_INVALID:
    case ST_DENIED:
    case ST_NOT_FOUND:
    case ST_UNSUPPORTED:
    case ST_TOO_BIG:
    case ST_LIMITED:
    case ST_SEALED:
    case ST_BUSY:
    case ST_CLOSED: return status_http(st);
    case ST_UNAUTHENTICATED: return status_http(ST_DENIED);
    case ST_UNINITIALIZED: return status_http(ST_SEALED);
    default: return 500;
    }
}

static const char *scheduler_error_text(enum status st)
{
    switch (st) {
    case ST_UNAUTHENTICATED:
    case ST_DENIED: return DENIED_TEXT;
    case ST_UNSUPPORTED: return "Invalid method";
    case ST_NO_LEADER:
    case ST_NOT_LEADER: return "No cluster leader";
    case ST_LIMITED: return LIMITED_TEXT;
    case ST_SEALED: return "this node is sealed";
    default: return status_text(st);
    }
}

static void put_error(int http, const char *text, struct buf *out)
{
    (void)http;
    buf_add_str(out, text);
}

/* The close frame in place of an error: 1011 for a status of 500, else 1008 (B5). A refusal of
 * rights has no code upstream, hence 1011. */
static void refuse_upgrade(int http, struct bytes text, struct buf *out)
{
    bool inner = http >= 500 || text_is(text, DENIED_TEXT);
    ASSERT(http >= 400);
    websocket_put_close(out, inner ? WEBSOCKET_INTERNAL : WEBSOCKET_POLICY, text);
}

static void say_no_path(struct req *req, bool served)
{
    (void)served; /* the same text */
    reason_set(req_reason(req), "resource not found: holdfast serves allocation(s), client, "
                                "evaluation(s), job(s), node(s) and scheduler/acl of this API: see "
                                "docs/compatibility.md");
}

/* Whether the node that ran the request has added its headers already. */
static bool is_relayed(const struct router_reply *reply)
{
    for (size_t i = 0; i < reply->n_headers; i++)
        if (text_is(reply->headers[i].name, "x-scheduler-index"))
            return true;
    return false;
}

static void scheduler_add_headers(const struct req *req, const struct router_request *request,
                                  struct router_reply *reply)
{
    (void)request; /* the same for a client and for a node */
    if (is_relayed(reply))
        return;
    (void)reply_add_header(reply, req->arena, BYTES("Vary"),
                           BYTES("Accept-Encoding")); /* without memory the header is missing */
    if (reads_state(req) && (reply->http == 200 || reply->http == 404))
        scheduler_read_headers(req, reply);
    else if (!reads_state(req) && reply->http == 200 && req->index != 0)
        scheduler_index_header(req, reply);
}

static const char *const page_headers[] = {"X-Scheduler-Token", "X-Nomad-Token"};

const struct dialect scheduler_dialect = {
    .name = "scheduler",
    .root = "/v1/",
    .read_method = scheduler_read_get_help,
    .read_namespace = read_namespace,
    .serve_no_namespace = scheduler_namespace_serve,
    .has_own_token = has_own_token,
    .read_token = read_token,
    .parse_body = scheduler_parse_body,
    .token_kind = TOKEN_SCHEDULER,
    .separate_params = true,
    .refuse_field = refuse_field,
    .unknown_field = ignore_unknown_field,
    .open_paths = true,
    .authorise = scheduler_judge_sender,
    .unknown_token_text = DENIED_TEXT,
    .check_route = check_route,
    .page_headers = page_headers,
    .n_page_headers = ARRAY_LEN(page_headers),
    .silent_http = 200,
    .data_type = "application/json",
    .put_data = put_data,
    .error_type = "text/plain; charset=utf-8",
    .error_http = scheduler_error_http,
    .error_text = scheduler_error_text,
    .no_leader_words = "No cluster leader: ",
    .put_error = put_error,
    .body_too_long_text = "request body too large",
    .limited_text = LIMITED_TEXT,
    .say_no_path = say_no_path,
    .add_headers = scheduler_add_headers,
    .refuse_upgrade = refuse_upgrade,
    .docs = &scheduler_docs,
};
