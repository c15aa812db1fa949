/* Route tables: the only place that knows path, method, authority, fields, help and handler.
 *
 * A row is one operation. A pattern is relative to the path of its API, without a slash at either
 * end. In a pattern
 *
 *   :name       takes one segment that is a name: letters, digits, '_', inside also '-' and '.'
 *   *path       at the end takes the rest of the path, which may be empty and may end in '/'
 *   *path/tune  takes one segment or more, and then the literal
 *
 * The first row whose pattern and method fit serves the request. */
#ifndef HOLDFAST_ROUTER_TABLE_ROUTE_H
#define HOLDFAST_ROUTER_TABLE_ROUTE_H

#include "auth/policy.h"
#include "http/http.h"
#include "text/schema.h"

struct dialect;
struct req;

enum route_auth {
    AUTH_TOKEN, /* needs a token that has `caps` on the path */
    AUTH_NONE,  /* needs no token */
};

enum route_flag {
    /* A route about this node: served here and never forwarded. With AUTH_NONE there is no
     * transaction, so a sealed node serves the route too. */
    ROUTE_NODE = 1 << 0,
    ROUTE_BARE = 1 << 1,   /* the reply is the whole body, without an envelope */
    ROUTE_ACTIVE = 1 << 2, /* runs on the active node, even if it only reads */
    ROUTE_SUDO = 1 << 3,   /* needs CAP_SUDO too */
    /* Runs on the leader of the log, even if the cluster is not initialised or is sealed. */
    ROUTE_LEADER = 1 << 4,
    /* A POST that stages nothing and is served where it arrives. */
    ROUTE_READS = 1 << 5,
    ROUTE_HEAD = 1 << 6,            /* a GET that also serves HEAD */
    ROUTE_TOP_LEVEL = 1 << 7,       /* the envelope repeats the members of data */
    ROUTE_OPEN_METRICS = 1 << 8,    /* needs no token if the listener says so */
    ROUTE_FREE_BODY = 1 << 9,       /* takes fields that its schema does not know */
    ROUTE_ANY_TOKEN = 1 << 10,      /* every valid token is enough; the handler checks more */
    ROUTE_TOKEN_OPTIONAL = 1 << 11, /* needs no token, but a token that is sent must be valid */
    ROUTE_LONG = 1 << 12,           /* the listener's request_ms does not bound it */
    /* The body is written into a file, after the handler and before `outside`; it has no fields.
     * The route stages nothing, and may take long. */
    ROUTE_UPLOAD = 1 << 13,
    ROUTE_OPERATOR = 1 << 14, /* served during maintenance, as ROUTE_NODE is */
    /* Serves requests that no other row takes, of any method, with an error that names the right
     * path. */
    ROUTE_ASTRAY = 1 << 15,
    ROUTE_SCANS = 1 << 17, /* a LIST that also serves SCAN: every key below the folder */
    /* "*name" is a policy's name: authorise by the policy, whatever the spelling */
    ROUTE_POLICY = 1 << 16,
    /* With AUTH_NONE: part of a ceremony with key shares. The handler sees the token of a request
     * whose token may do this. Other requests are anonymous: a listener may refuse them
     * (authenticated_ceremonies), and their rate is limited. */
    ROUTE_CEREMONY = 1 << 18,
    ROUTE_SOME = 1 << 19, /* "*path" takes at least one segment */
    /* A path of the upstream product that is not built. Serves requests of any method that no other
     * row takes. The reply to a token with a right on the path is 501 with the row's help. */
    ROUTE_ABSENT = 1 << 20,
    /* With ROUTE_ACTIVE: without a quorum, the node that the client asked serves the request. */
    ROUTE_LOCAL = 1 << 21,
    /* With ROUTE_NODE: served while initial members are awaited. */
    ROUTE_UNINITIALIZED = 1 << 22,
    ROUTE_GIVES_TOKEN = 1 << 23, /* the reply is a token, in the envelope's `auth` */
    /* A read that also tells about this node: confirmed as every read, and never forwarded. */
    ROUTE_STAYS = 1 << 24,
    /* A probe that shows no stored data: audit devices do not record its requests. */
    ROUTE_UNRECORDED = 1 << 25,
    /* A GET whose result has an index (req_watch_key): a client may wait for a newer result. */
    ROUTE_BLOCKING = 1 << 26,
    /* A write whose reply tells the version of its commit (REPLY_VERSION). */
    ROUTE_VERSION = 1 << 27,
    ROUTE_COLLECTION = 1 << 28, /* the reply is a list; in a namespace that there is not, empty */
    /* Served by a DR secondary too, and by a superseded primary. */
    ROUTE_SECONDARY = 1 << 29,
    /* As ROUTE_SECONDARY; on a DR secondary the body's `dr_operation_token` takes the place of the
     * client's token (req_dr.h). */
    ROUTE_DR_TOKEN = 1 << 30,
};

/* The right that a route of a dialect with `authorise` asks for. The dialect defines the numbers.
 */
struct route_permission {
    const char *text; /* "acl:read" */
    uint8_t resource, level;
};

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
     * `finish` makes the reply. A node that forwards a request does not know the route of an
     * engine, and may send the request twice. If the `outside` of an engine's route must not be
     * repeated, its transaction must therefore stage a write (PROTOCOL R14). */
    enum status (*prepare)(struct req *req);
    enum status (*outside)(struct req *req);
    enum status (*finish)(struct req *req);
    /* `outside` ends when the client has gone (req_left.h). A node that forwards the request lets
     * the active node know. */
    bool ends_with_client;
    enum route_auth auth;
    const struct route_permission *permission; /* for a dialect with `authorise`; else NULL */
    unsigned caps;    /* bits of enum cap; 0: the capability that the method implies */
    unsigned flags;   /* bits of enum route_flag */
    uint16_t feature; /* feature level of the cluster that the route needs; 0: any */
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
    const char *prefix; /* as "sys/"; without '/' at the end for one path; NULL for an engine */
    /* for an API of one path: the path by which rules know it; NULL: its own path */
    const char *alias_of;
    const char *type; /* "system": shown as mount_type */
    /* serves only mounts whose option "version" has this value; a mount without it has "1" */
    const char *version;
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

/* Find the row for a method and a zero-terminated path. ST_NOT_FOUND: no pattern fits.
 * ST_UNSUPPORTED: a pattern fits, but not with this method; *ret_others has the methods, and is
 * empty otherwise. ST_NOMEM. */
NODISCARD enum status route_match(const struct route_api *api, enum http_method method,
                                  struct bytes path, struct arena *arena,
                                  const struct route **ret_route, struct route_params *ret_params,
                                  struct route_others *ret_others);

/* Whether a row serves requests that use the method. */
bool route_takes(const struct route *route, enum http_method method);

/* Whether ":name" takes the segment. */
bool route_is_name(struct bytes segment);

/* Write the methods of route_others.methods, "GET, LIST, PUT". */
void route_methods_text(unsigned methods, char ret_text[ROUTE_METHODS_TEXT]);

/* The capabilities that a row asks for; by default the capabilities that the method implies. */
unsigned route_caps(const struct route *route, enum http_method method);

/* Whether the nodes of a DR secondary serve the row: rows about the node that need no token, and
 * those of disaster recovery. */
bool route_is_of_secondary(const struct route *route);

#endif
