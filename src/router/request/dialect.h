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

#include "auth/token_record.h"
#include "router/request/path.h"
#include "router/request/reply.h"
#include "router/table/module.h"

struct body_raw;
struct docs_dialect;
struct router_request;

struct dialect {
    const char *name;
    const char *root; /* prefix of the paths of its route tables: "/v1/"; dialects may share one */
    /* name of the dialect to whose API this one belongs: a listener that serves that API serves
     * this dialect too; NULL: an API of its own */
    const char *part_of;
    /* mounts serve every path below the root that no table claims; one dialect at most */
    bool mounts;

    /* Requests. These functions get in `req` the results of the functions before them, in this
     * order: read_headers, query, method, namespace, token. */

    /* Read the headers that only this dialect has. ST_INVALID with the request's error. NULL: the
     * dialect has none. */
    enum status (*read_headers)(struct req *req, const struct router_request *request);
    /* Set req->method and req->help. If the request has another spelling of its path, set req->path
     * and req->rule_path too. ST_INVALID with the request's error; ST_NOMEM. */
    enum status (*read_method)(struct req *req, const struct router_request *request);
    /* The name of the namespace; empty: the request gave none and means the root. */
    struct bytes (*read_namespace)(const struct req *req, const struct router_request *request);
    /* Called when a fixed path was matched and no namespace has the name req->ns_unknown: refuse
     * the request, or change req->route. NULL: the router refuses it. */
    enum status (*serve_no_namespace)(struct req *req);
    /* Whether the request has a header for the token that only clients of this dialect send. NULL:
     * no header tells. */
    bool (*has_own_token)(const struct router_request *request);
    /* The token as the client sent it; empty: none. */
    struct bytes (*read_token)(const struct req *req, const struct router_request *request);
    /* Tokens that requests of this dialect may use. A token of another kind is unknown here, except
     * a root token of the secrets service. */
    enum token_kind token_kind;
    /* Parse the body; most dialects set body_parse here. */
    enum status (*parse_body)(struct arena *arena, const struct body_raw *raw,
                              const struct text_value **ret_data, struct reason *reason);
    bool any_patch_type; /* the body of a PATCH may have any content type: parse_body judges it */
    /* A parameter of the path does not replace the field of the body with its name. */
    bool separate_params;
    /* A field of the body has no value that its table takes. Set the request's error and return the
     * status to fail with. */
    enum status (*refuse_field)(struct req *req, const char *field, const char *why);
    /* The body has a field that no table knows. Do as refuse_field, or add a warning and return
     * ST_OK. */
    enum status (*unknown_field)(struct req *req, struct bytes field);
    /* Every client may learn which paths and methods there are, and read the help about them: a
     * missing path, a wrong method and OPTIONS get their reply before the token is read. False:
     * only a client with a right on the path may, and OPTIONS is a wrong method. */
    bool open_paths;
    /* Write the methods of a path for the header Allow. NULL: route_methods_text. */
    void (*write_methods)(unsigned methods, char ret_text[ROUTE_METHODS_TEXT]);
    /* Decide whether the sender may run the request, in place of the policies of the secrets
     * service: req->token has the right that the matched route asks for. req->token is NULL if the
     * request has no token. ST_DENIED with the request's error, or a failure of the state. NULL:
     * those policies decide. */
    enum status (*authorise)(struct req *req);
    const char *unknown_token_text;  /* with `authorise`: text of the refusal of an unknown token */
    bool unknown_is_unauthenticated; /* the refusal is ST_UNAUTHENTICATED, else ST_DENIED */
    /* Called when a fixed path was matched: check that its route allows the form of reply for which
     * read_headers found a header. NULL: no header asks for a form of the reply. */
    enum status (*check_route)(struct req *req);
    /* Whether the client wants a redirect to the active node. NULL: no client can ask for one. */
    bool (*asks_redirect)(const struct router_request *request);
    /* Whether the request has the header that a page of another site cannot add. NULL: the dialect
     * has no such header, and listeners do not require one. */
    bool (*is_marked)(const struct router_request *request);
    const char *unmarked_text;       /* text of the refusal of a request that lacks the header */
    const char *const *page_headers; /* headers that pages of other sites may send (cors.h) */
    size_t n_page_headers;

    /* Replies. If a function runs out of memory, the buffer that it writes to reports this. */

    int silent_http;     /* status of a success without data, such as 204 */
    bool tells_warnings; /* a success that has only warnings gets a body, which put_data writes */
    const char *data_type;
    /* Write the whole body around a handler's data; `data` is empty if only warnings are
     * reported. */
    void (*put_data)(const struct req *req, struct bytes data, struct buf *out);
    /* The reply was made: replace it by another reply, if read_headers found that the client wants
     * one. Returns ST_OK, or the status of an error that the function wrote into `reply`. NULL:
     * replies stay as they are. */
    enum status (*finish)(struct req *req, struct router_reply *reply);
    const char *error_type;
    int (*error_http)(enum status st); /* NULL: the table of statuses decides */
    /* Text of an error that has no text of its own; "": the error gets none. */
    const char *(*error_text)(enum status st);
    const char *no_leader_words; /* how an error begins that explains a missing leader; NULL: not */
    /* write an error; `http` is the status of the reply; text "": the error has no text */
    void (*put_error)(int http, const char *text, struct buf *out);
    /* Write what a client gets that asked for WebSocket, after the handshake, in place of an error
     * whose body is `text`. NULL: the dialect has no such routes. */
    void (*refuse_upgrade)(int http, struct bytes text, struct buf *out);
    const char *body_too_long_text;
    const char *limited_text; /* of the refusal by a quota; NULL: a text with the path */
    /* Set the text of the request's error: no table has this path (`served`: a table or a mount
     * serves paths beside it). */
    void (*say_no_path)(struct req *req, bool served);
    /* Headers of a reply, for a client of this node and for a node that forwarded the request. */
    void (*add_headers)(const struct req *req, const struct router_request *request,
                        struct router_reply *reply);
    const struct docs_dialect *docs; /* openapi_dialect.h; NULL: read_method asks for no help */
};

enum { DIALECTS_MAX = 8, DIALECT_PLACES_MAX = 64 };

/* Where the tables of each dialect stand, so that the dialect of a request is found by its path. */
struct dialect_map {
    const struct dialect *dialects[DIALECTS_MAX]; /* in the order of the modules */
    unsigned n;
    /* Paths of the fixed APIs that do not speak the home dialect: "/v1/" and "acl/". */
    struct dialect_place {
        const struct dialect *dialect;
        const struct route_api *api; /* NULL: every path below the root */
        struct bytes root;           /* root of the dialect */
    } places[DIALECT_PLACES_MAX];
    unsigned n_places;
    /* the dialect of requests that no table claims: the dialect with mounts, or else the first */
    const struct dialect *home;
};

/* Make the map of the modules' tables. */
void dialect_map_init(struct dialect_map *map, const struct module_list *modules);
/* The map of the dialects with these names alone, as a listener serves them. ST_NOT_FOUND: no
 * dialect has the name `names[*ret_unknown]`. */
NODISCARD enum status dialect_map_choose(const struct dialect_map *all, const char *const *names,
                                         size_t n, struct dialect_map *ret_map,
                                         size_t *ret_unknown);
/* The dialect of the table at the path `full` ("/v1/sys/mounts"), or the home. */
const struct dialect *dialect_find(const struct dialect_map *map, struct bytes full);
/* The dialect of a request whose path dialect_find gave to the home: another one where only clients
 * of that send the header with the request's token. So they learn in the form that they read that
 * no such path is served, and not that a secret is forbidden. */
const struct dialect *dialect_of_client(const struct dialect_map *map,
                                        const struct router_request *request);
/* The dialect with this name; NULL: there is none. */
const struct dialect *dialect_named(const struct dialect_map *map, struct bytes name);

#endif
