/* A dialect: how one family of APIs speaks HTTP.
 *
 * Handlers and the router know a status, a field and a text. The dialect knows where token and
 * namespace stand in a request, what a method means, how a body is read, and the form of a success
 * and of an error. A dialect is one constant; route tables at fixed paths name theirs
 * (route_api.dialect), and the router finds a request's dialect by its path.
 *
 * Functions run on the worker's thread; `parse_body` on any. NULL where a comment says so. */
#ifndef HOLDFAST_ROUTER_REQUEST_DIALECT_H
#define HOLDFAST_ROUTER_REQUEST_DIALECT_H

#include "router/request/path.h"
#include "router/request/reply.h"
#include "router/table/module.h"

struct docs_dialect;
struct router_request;

struct dialect {
    const char *name;
    const char *root; /* prefix of the paths of its route tables: "/v1/" */
    /* mounts serve every path below the root that no table claims; one dialect at most */
    bool mounts;

    /* Requests. `req` has what was read before: read_headers, query, method, namespace, token. */

    /* Read the headers of the dialect alone. ST_INVALID with the request's error. NULL: there are
     * none. */
    enum status (*read_headers)(struct req *req, const struct router_request *request);
    /* Set req->method, req->help and, where the path means the same in another form, req->path and
     * req->rule_path. ST_INVALID with the request's error; ST_NOMEM. */
    enum status (*read_method)(struct req *req, const struct router_request *request);
    /* The name of the namespace; empty: the request gave none and means the root. */
    struct bytes (*read_namespace)(const struct req *req, const struct router_request *request);
    /* The token as the client sent it; empty: none. */
    struct bytes (*read_token)(const struct req *req, const struct router_request *request);
    /* Parse the body; most dialects set body_parse here. */
    enum status (*parse_body)(struct arena *arena, enum http_method method, struct bytes body,
                              struct bytes content_type, const struct text_value *query,
                              const struct text_value **ret_data, struct reason *reason);
    /* A field of the body has no value that its table takes. Set the request's error and return the
     * status to fail with. */
    enum status (*refuse_field)(struct req *req, const char *field, const char *why);
    /* The body has a field that no table knows: as refuse_field, or warn and return ST_OK. */
    enum status (*unknown_field)(struct req *req, struct bytes field);
    /* A fixed path was matched: the same for what read_headers asked of the reply. NULL: nothing
     * was asked. */
    enum status (*check_route)(struct req *req);
    /* The client wants to be sent to the active node itself. NULL: no client can say so. */
    bool (*asks_redirect)(const struct router_request *request);
    /* The request has the header that no page of another site can add. NULL: there is none, and
     * listeners do not require it. */
    bool (*is_marked)(const struct router_request *request);
    const char *unmarked_text;       /* text of the refusal of a request that lacks the header */
    const char *const *page_headers; /* headers that pages of other sites may send (cors.h) */
    size_t n_page_headers;

    /* Replies. A function that writes leaves a lack of memory to the buffer. */

    int silent_http;     /* status of a success without data, as 204 */
    bool tells_warnings; /* a success with nothing but warnings has a body, which put_data writes */
    const char *data_type;
    /* The whole body around a handler's data; `data` is empty where warnings alone are told. */
    void (*put_data)(const struct req *req, struct bytes data, struct buf *out);
    /* The reply was made: put another one in its place, as read_headers was asked to. Returns
     * ST_OK, or the status of an error that it made in `reply`. NULL: replies stay as they are. */
    enum status (*finish)(struct req *req, struct router_reply *reply);
    const char *error_type;
    int (*error_http)(enum status st); /* NULL: the table of statuses decides */
    /* Text of an error that has no text of its own; "": the error gets none. */
    const char *(*error_text)(enum status st);
    /* write an error; text "": the error has no text */
    void (*put_error)(const char *text, struct buf *out);
    const char *body_too_long_text;
    /* Set the text of the request's error: no table has this path (`served`: a table or a mount
     * serves paths beside it). */
    void (*say_no_path)(struct req *req, bool served);
    /* Headers of the reply to this node's client, and of the reply to a node that forwarded. */
    void (*add_headers)(const struct req *req, const struct router_request *request,
                        struct router_reply *reply);
    const struct docs_dialect *docs; /* openapi_dialect.h; NULL: read_method asks for no help */
};

/* The dialect of requests that no table claims: the dialect with mounts, or else the first. */
const struct dialect *dialect_home(const struct module_list *modules);
/* Whether every table speaks the home's dialect. */
bool dialect_is_only(const struct module_list *modules, const struct dialect *home);
/* The dialect of the table at the path `full` ("/v1/sys/mounts"), or the home. */
const struct dialect *dialect_find(const struct module_list *modules, const struct dialect *home,
                                   struct bytes full);

#endif
