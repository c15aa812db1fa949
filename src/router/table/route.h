/* Route tables: the only place that knows path, method, authority, fields, help and handler.
 *
 * A row is one operation. A pattern is relative to the path of its API, without a slash at either
 * end. In a pattern
 *
 *   :name       takes one segment that is a name: letters, digits, '_', inside also '-' and '.'
 *   :name@      as :name, inside also '@': for an engine whose names are those of users
 *   *path       at the end takes the rest of the path, which may be empty and may end in '/'
 *   +path       as *path, for a rest that is not empty
 *   *path/tune  takes one segment or more, and then the literal
 *
 * The most literal of the patterns that fit serves the request (route_index.h). */
#ifndef HOLDFAST_ROUTER_TABLE_ROUTE_H
#define HOLDFAST_ROUTER_TABLE_ROUTE_H

#include "auth/policy.h"
#include "http/http.h"
#include "router/table/route_columns.h"
#include "text/schema.h"

struct dialect;
struct req;
struct req_wait;
struct router_host;

struct route {
    /* METHOD_POST takes PUT too, METHOD_PUT takes no POST. METHOD_LIST takes GET ?list=true,
     * METHOD_SCAN GET ?scan=true. */
    enum http_method method;
    const char *path;
    enum status (*handler)(struct req *req);
    /* For a POST: whether the object that the request writes exists. ST_OK: it exists, and
     * CAP_UPDATE is needed; ST_NOT_FOUND: CAP_CREATE is needed. Called before the fields are
     * decoded. Another status refuses the request, if its token has either capability. NULL: `caps`
     * are needed. */
    enum status (*exists)(struct req *req);
    /* Steps around the handler, in this order: prepare, the handler's transaction, outside, finish.
     * NULL: the route has no such step.
     *
     * `prepare` runs on the pool, where it may block, after the sender's right was checked. Its
     * result in req->prepared is kept when the transaction runs again. `prepare` changes nothing,
     * because a client may send the request again when a later step fails. If `prepare` fails, its
     * error is the reply.
     *
     * `outside` runs on the pool, once, after the handler succeeded and what it staged was
     * committed; its changes outside the state are not undone. If `outside` fails, its error is the
     * reply, and `finish` does not run. ST_NOT_LEADER: nothing was done; the request looks for the
     * leader.
     *
     * `finish` runs in a second transaction, on the active node, after `outside` succeeded, to
     * store the result of `outside`. It runs again when another request changed data that it read.
     * It is not authorised again, req->acl is NULL.
     *
     * `prepare` and `outside` have no transaction, mount or ACL. One of handler, `outside` and
     * `finish` makes the reply; `outside` only where there is no `finish`. A node that forwards a
     * request whose row has `outside` sends it once: if the reply is lost, the client hears that
     * the outcome is unknown (PROTOCOL R14). The functions of req_steps.h change the course. */
    enum status (*prepare)(struct req *req);
    enum status (*outside)(struct req *req);
    enum status (*finish)(struct req *req);
    /* Before `outside`, which sees the result: work of the module's own threads, for which no
     * thread of the pool waits. The function begins the work, which ends by req_wait_done. NULL:
     * none. */
    void (*waits)(struct req *req, struct req_wait *wait);
    /* For INPUT_UPLOAD: the longest body. NULL: as long as a snapshot may be. */
    uint64_t (*upload_bytes_max)(const struct router_host *host);
    /* `outside` ends when the client has gone (req_left.h). A node that forwards the request lets
     * the active node know. */
    bool ends_with_client;
    /* `prepare` and `outside` may take seconds of a CPU: they run on LANE_SLOW, so that other
     * requests do not wait for them. */
    bool is_slow;
    enum route_place place;
    enum route_who who;
    unsigned when; /* bits of enum route_when */
    enum route_form form;
    enum route_input input;
    enum route_indexed index;
    enum route_kind kind;
    unsigned flags; /* bits of enum route_flag */
    unsigned caps;  /* bits of enum cap; 0: the capability that the method implies */
    /* The path by which policies and quotas know the request, if the client may spell it in several
     * ways: sets req->rule_path. ST_NOMEM. NULL: the path as the client sent it. */
    enum status (*rule_path)(struct req *req);
    const void *of_dialect; /* facts for the row's dialect alone; NULL: none */
    uint16_t feature;       /* feature level of the cluster that the route needs; 0: any */
    /* The noun for the body in errors about its form: "Policy". NULL: errors name no noun, and the
     * body may be missing. */
    const char *noun;
    const struct schema *body, *reply;
    /* The form of a reply that no schema can describe, because the form depends on the request or
     * on data that clients stored. In the notation of shape.h, of which `reply` may be a part. The
     * row says why. NULL without `reply`: the reply has no data; the reply of a listing has its
     * keys. */
    const char *shape;
    const char *statuses; /* Statuses of a reply described by `shape`, if 200 is not the only one:
                             "200 429". "any": the request may name another status. */
    const char *help;
};

struct route_table {
    const struct route *rows;
    size_t n;
};

/* An API that stands at a fixed path, or an engine that is mounted by its type. */
struct route_api {
    /* Dialect of the clients at a fixed path. NULL for an engine: mounts have one dialect. */
    const struct dialect *dialect;
    /* as "sys/"; without '/' at the end for one path; "" for every path below the root of the
     * dialect; NULL for an engine */
    const char *prefix;
    /* for an API of one path: the path by which rules know it; NULL: its own path */
    const char *alias_of;
    const char *type; /* "system": shown as mount_type */
    /* serves only mounts whose option "version" has this value; a mount without it has "1" */
    const char *version;
    /* The most literal pattern that fits a path serves it alone: a method that only a wider pattern
     * has is refused. So DELETE of "token/self" is no DELETE of "token/:accessor". */
    bool narrow;
    bool single; /* initialisation mounts the engine once */
    bool login;  /* an auth method's API: serves the method's mounts below "auth/" */
    const struct route *routes;
    size_t n;
    /* more tables of a long API, by subject; their rows follow `routes` */
    const struct route_table *const *more;
    size_t n_more;
};

/* A position among the rows of an API; all zero: before the first row. */
struct route_walk {
    const struct route *next, *end; /* rows of the table that was opened last */
    size_t table;                   /* number of the table to open next */
};

/* The next row of an API, in order; NULL after the last. */
static inline const struct route *route_next(const struct route_api *api, struct route_walk *walk)
{
    while (walk->next == walk->end) {
        if (walk->table > api->n_more)
            return NULL;
        const struct route_table *more = walk->table > 0 ? api->more[walk->table - 1] : NULL;
        size_t n = more != NULL ? more->n : api->n;
        walk->next = more != NULL ? more->rows : api->routes;
        walk->end = n != 0 ? walk->next + n : walk->next; /* a table without rows may be NULL */
        walk->table++;
    }
    return walk->next++;
}

/* The row with number `i` in the order of route_next; NULL after the last. */
static inline const struct route *route_at(const struct route_api *api, size_t i)
{
    if (i < api->n)
        return &api->routes[i];
    i -= api->n;
    for (size_t t = 0; t < api->n_more; i -= api->more[t++]->n)
        if (i < api->more[t]->n)
            return &api->more[t]->rows[i];
    return NULL;
}

enum { ROUTE_PARAMS_MAX = 4, ROUTE_METHODS_TEXT = 64 };

struct route_params {
    struct {
        struct bytes name;
        const char *value; /* the captured text, in the arena of the request or inside its path */
    } items[ROUTE_PARAMS_MAX];
    unsigned n;
};

/* The methods that a path has, when it lacks the method of the request. */
struct route_others {
    unsigned methods; /* a bit (1 << METHOD_…) for each method */
    bool open;        /* no row with one of these methods needs a token */
};

/* Match a pattern. A slash at the end of the path matters only to "*path" and "+path". The captured
 * texts lie in `arena`; NULL: nothing is captured. ST_NOT_FOUND; ST_NOMEM. */
NODISCARD enum status route_fit(const char *pattern, const char *path, struct arena *arena,
                                struct route_params *ret_params);

/* The methods of a row, a bit (1 << METHOD_…) for each. */
unsigned route_methods(const struct route *route);

/* Whether a row serves requests that use the method. */
bool route_takes(const struct route *route, enum http_method method);

/* Whether ":name" takes the segment. */
bool route_is_name(struct bytes segment);
/* Whether `want`, the segment ":name" or ":name@" of a pattern, takes the segment. */
bool route_takes_name(struct bytes want, struct bytes segment);

/* Write the methods of route_others.methods, "GET, LIST, PUT". */
void route_methods_text(unsigned methods, char ret_text[ROUTE_METHODS_TEXT]);

/* The capabilities that a row asks for; by default the capabilities that the method implies. */
unsigned route_caps(const struct route *route, enum http_method method);

/* Whether the router asks for no token. */
static inline bool route_is_open(const struct route *route)
{
    return route->who == WHO_ANYONE || route->who == WHO_CEREMONY;
}

/* Whether every valid token may send the request. */
static inline bool route_takes_any_token(const struct route *route)
{
    return route_is_open(route) || route->who == WHO_ANY_TOKEN || route->who == WHO_OPTIONAL;
}

/* Whether a pattern begins with "*name" or "+name". */
static inline bool route_is_rest(const char *pattern)
{
    return *pattern == '*' || *pattern == '+';
}

/* Check that a row makes sense: its columns, steps and pattern fit together. ST_INVALID with the
 * reason: the row is a mistake of its author. */
NODISCARD enum status route_check(const struct route *route, struct reason *why);

/* Whether the nodes of a DR secondary serve the row: rows about the node that need no token, and
 * those of disaster recovery. */
bool route_is_of_secondary(const struct route *route);

#endif
