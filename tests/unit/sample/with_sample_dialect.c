/* A dialect: what is said and the errors are lines of text, the token stands in X-Lantern, and
 * paths begin with /lantern/. One table speaks it. */
#include "router/request/body.h"
#include "router/request/dialect.h"
#include "sample/sample.h"

#define TEXT_TYPE "text/plain; charset=utf-8"

static enum status read_method(struct req *req, const struct router_request *request)
{
    req->method = request->method;
    return ST_OK;
}

static struct bytes read_namespace(const struct req *req, const struct router_request *request)
{
    (void)req;     /* every request */
    (void)request; /* means the root */
    return (struct bytes){0};
}

static struct bytes read_token(const struct req *req, const struct router_request *request)
{
    (void)req; /* no parameter carries a token */
    return router_header(request, "x-lantern");
}

static enum status refuse_field(struct req *req, const char *field, const char *why)
{
    return req_fail(req, ST_INVALID, "%s is wrong: %s", field, why);
}

static enum status refuse_unknown_field(struct req *req, struct bytes field)
{
    return req_fail(req, ST_INVALID, "there is no field %.*s", (int)MIN(field.len, (size_t)64),
                    (const char *)field.data);
}

static void put_data(const struct req *req, struct bytes data, struct buf *out)
{
    (void)req; /* warnings are not told */
    buf_add(out, data);
}

static void put_error(int http, const char *text, struct buf *out)
{
    (void)http; /* the same form for all */
    buf_add_str(out, text);
    buf_add_str(out, "\n");
}

static const char *error_text(enum status st)
{
    switch (st) {
    case ST_SEALED: return "the lantern is locked";
    case ST_DENIED: return "not yours";
    case ST_BUSY: return "too many hands";
    case ST_UNSUPPORTED: return "not with this method";
    default: return status_text(st);
    }
}

static void say_no_path(struct req *req, bool served)
{
    (void)served; /* the same text */
    reason_set(req_reason(req), "no lantern there");
}

static void add_headers(const struct req *req, const struct router_request *request,
                        struct router_reply *reply)
{
    (void)request; /* the same to each client */
    (void)reply_add_header(reply, req->arena, BYTES("X-Lantern-Burns"),
                           BYTES("yes")); /* else the reply lacks it */
}

static const struct dialect lantern_dialect = {
    .name = "lantern",
    .root = "/lantern/",
    .read_method = read_method,
    .read_namespace = read_namespace,
    .read_token = read_token,
    .parse_body = body_parse,
    .refuse_field = refuse_field,
    .unknown_field = refuse_unknown_field,
    .silent_http = 200,
    .data_type = TEXT_TYPE,
    .put_data = put_data,
    .error_type = TEXT_TYPE,
    .error_text = error_text,
    .put_error = put_error,
    .body_too_long_text = "too much for a lantern",
    .say_no_path = say_no_path,
    .add_headers = add_headers,
};

struct word {
    const char *word;
};
static const struct field word_fields[] = {
    FIELD(struct word, word, STRING, .required = true, .help = "A word."),
};
static const struct schema word_schema = SCHEMA(struct word, word_fields);

static enum status lantern_echo(struct req *req)
{
    const struct word *in = req_body(req);
    return req_reply_raw(req, TEXT_TYPE, bytes_str(in->word));
}

static const struct route lantern_routes[] = {
    {.method = METHOD_POST,
     .path = "echo",
     .handler = lantern_echo,
     .body = &word_schema,
     .who = WHO_ANY_TOKEN,
     .form = FORM_BARE,
     .flags = ROUTE_READS,
     .shape = "text",
     .help = "Say a word again."},
};

const struct route_api sample_lantern_api = {.prefix = "light/",
                                             .dialect = &lantern_dialect,
                                             .type = "lantern",
                                             .routes = lantern_routes,
                                             .n = ARRAY_LEN(lantern_routes)};
