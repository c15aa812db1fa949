/* The way of a request through the program, from bytes a transport hands over to a reply.
 *
 *   limits, target, namespace, route, authenticate, body, authorise, audit request, handler,
 *   commit, audit response, send
 *
 * Handlers are straight-line functions (req.h); everything that waits is a phase of pipeline.c.
 *
 * 1. Every request gets exactly one reply.
 * 2. A reply that staged writes is sent after they were committed and applied; one that staged
 *    nothing after what it read was confirmed (PROTOCOL R1, R2).
 * 3. A standby whose handler stages anything discards it and forwards the whole request (R4).
 * 4. With an audit device, nothing takes effect and nothing is sent unrecorded (R20).
 *
 * It knows no transport and no node: those come as tables of functions. One router for the process,
 * immutable; one worker for each thread that serves. */
#ifndef HOLDFAST_ROUTER_ROUTER_H
#define HOLDFAST_ROUTER_ROUTER_H

#include "audit/audit.h"
#include "base/histogram.h"
#include "base/trace.h"
#include "node/node_ops.h"
#include "router/request/parsed.h"
#include "router/request/path.h"
#include "router/request/reply.h"
#include "router/table/module.h"
#include "router/throttle.h"

enum {
    /* A longer body is left unread until its sender was found to have a right to send it. */
    ROUTER_UNJUDGED_BYTES_MAX = HTTP_SMALL_BODY,
    /* A longer body that another node is to read is not kept here: it streams through, and is sent
     * once (PROTOCOL R14). */
    ROUTER_WHOLE_BYTES_MAX = 1024 * 1024,
};

struct dialect;
struct fs_file;
struct metrics;
struct quota_table;
struct router_worker;
struct seal;

/* A streamed body on its way into memory. `done` is called once, on the worker's thread, never from
 * inside `collect`; its statuses are those of http_whole_fn. */
struct router_collect {
    void (*done)(struct router_collect *collect, enum status st);
};

/* A streamed body on its way into a file. `done` is called once, on the worker's thread, never from
 * inside `receive`. ST_OK: `file`, the router's to close, has `bytes`. ST_CLOSED, ST_TIMEOUT,
 * ST_TOO_BIG, ST_INVALID: of the body. ST_NO_SPACE, ST_IO, ST_NOMEM. */
struct router_receive {
    struct env *env;
    struct router_host *host;
    void (*done)(struct router_receive *receive, enum status st);
    struct fs_file *file;
    uint64_t bytes;
};

/* The front's decision about a request, from where the request comes. */
struct router_verdict {
    enum status st;                    /* ST_OK, or the request is refused, */
    const char *why;                   /* ... with this text; NULL: that of the status */
    bool preflight;                    /* reply with 200 and the headers alone */
    const struct http_header *headers; /* of the reply, in the arena or static */
    size_t n_headers;
};

struct router_forward;

/* One request as a transport hands it over. Lives until its reply was given to `respond`. */
struct router_request {
    enum http_method method;
    struct path_target target;
    const struct dialect *dialect; /* by router_place */
    struct bytes query, body;      /* as sent */
    bool streamed;          /* the body was not read yet: `collect`, `receive` or `forward` does */
    uint64_t body_length;   /* of a streamed body, or HTTP_LENGTH_UNKNOWN */
    struct arena *arena;    /* of the request; everything made for it lies there */
    const char *peer;       /* "127.0.0.1:4711", for records */
    bool open_metrics;      /* the listener shows metrics without a token */
    bool closed_ceremonies; /* the listener wants a token for ROUTE_CEREMONY */
    bool forwarded;         /* by another node, which is believed for `peer` and `id` */
    struct rlog_request_id id; /* all zero: none */
    bool again;                /* an earlier try with this id may have been executed */

    const struct router_verdict *verdict; /* NULL: nothing was decided */

    uint64_t no_header; /* a bit for each length up to 63 that no header's name has */
    /* The first header of that name (lower case); data NULL: absent. */
    struct bytes (*header)(const struct router_request *request, const char *name);
    /* Read the body, which is streamed, into memory: then it is `body`, and `streamed` is over.
     * NULL: the transport does not stream. */
    void (*collect)(struct router_request *request, struct router_collect *collect);
    /* Put the body, which is streamed, into a file. NULL: the transport does not stream. ST_NOMEM:
     * `done` is not called. */
    enum status (*receive)(struct router_request *request, struct router_receive *receive);
    /* Send the request to the active node. */
    void (*forward)(struct router_request *request, struct router_forward *f);
    /* Once, on the worker's thread, possibly from inside router_handle. The body may be taken. */
    void (*respond)(struct router_request *request, struct router_reply *reply);

    /* The router's. */
    bool unsettled; /* the request may change something, or has */
    bool given_up;
};

/* As request->header, at once where no name is as long: most that are asked for are absent. */
static inline struct bytes router_header(const struct router_request *request, const char *name)
{
    size_t len = strlen(name);
    return len < 64 && (request->no_header >> len & 1) != 0 ? (struct bytes){0}
                                                            : request->header(request, name);
}

/* A request on its way to the active node. */
struct router_forward {
    struct router_request *request;
    struct env *env;           /* of the worker */
    struct rlog_request_id id; /* to be sent with it; all zero: none */
    bool again;                /* to be sent with it: see router_request */
    uint64_t deadline_ms;      /* monotonic */
    /* Once, on the worker's thread, never from inside `forward`. ST_OK: `reply` is set, its body
     * the callee's. ST_NOT_LEADER, ST_NO_LEADER, ST_BUSY: certainly not executed. Anything else:
     * unknown. */
    void (*done)(struct router_forward *f, enum status st);
    struct router_reply reply;
    bool body_taken;      /* of a streamed request something was read: it cannot be sent again */
    struct env_task task; /* the transport's, as the next */
    enum status refusal;
};

/* The program around the router. Functions are called on any worker's thread. */
struct router_host {
    struct node *node;
    const struct node_ops *node_ops;
    /* Whether the cluster does not exist yet, or this node's workers cannot serve it yet; *ret_why
     * says what the node waits for. */
    bool (*awaits_members)(struct router_host *host, struct reason *ret_why);
    /* The requests of all workers: members of an object. Blocks until each has replied. ST_NOMEM.
     */
    enum status (*inflight)(struct router_host *host, struct text_writer *w);
    uint64_t upload_bytes_max; /* of ROUTE_UPLOAD */
    enum seal_type seal_type;  /* configured; for sys/init, as the next */
    const struct seal *seal;   /* NULL: none, or its key is missing */
    const struct metrics *metrics;
    const char *version;            /* reported to clients */
    const char *hostname, *node_id; /* told in headers of replies; NULL: not */
    enum trace_level request_log;   /* of the lines about requests */
    enum trace_level log_level;     /* configured */
    const char *data_dir;           /* for the room on its disk; NULL: not told */
    struct bytes configuration;     /* the configuration, without secrets: an object of JSON */
    /* This node replies 503 to all but health and what operators need. */
    _Atomic bool maintenance;
    struct quota_table *quotas; /* shared by the workers */
    struct throttle ceremonies; /* of anonymous requests to ROUTE_CEREMONY that change something */
    struct parsed_budgets parsed;  /* shared by the workers */
    bool optional_mounts;          /* whether initialisation makes those mounts of modules */
    _Atomic int64_t challenged_ms; /* rate limit of sys/storage/raft/bootstrap */
    _Atomic bool leaving; /* ends soon: health tells balancers to go elsewhere; any thread */
};

struct router_options {
    struct module_list modules;
    struct router_host *host;
    unsigned inflight_max; /* requests at once in a worker; 0: 16384 */
};

struct router {
    struct router_options options;
};

/* `router` outlives its workers. `state` belongs to the same thread; NULL: there is none yet, and
 * only routes that need none are served until router_worker_begin. ST_NOMEM. */
NODISCARD enum status router_worker_new(const struct router *router, struct env *env,
                                        struct state *state, struct router_worker **ret_worker);
void router_worker_begin(struct router_worker *worker, struct state *state);
/* No request may be under way. NULL is allowed. */
void router_worker_free(struct router_worker *worker);
struct audit *router_worker_audit(struct router_worker *worker);
struct router_host *router_worker_host(const struct router_worker *worker);
struct state *router_worker_state(const struct router_worker *worker); /* NULL: there is none yet */
unsigned router_worker_running(const struct router_worker *worker);    /* requests under way */
/* Members of an object, one for each of those. On its thread. */
struct text_writer;
void router_worker_inflight(struct router_worker *worker, struct text_writer *w);
extern const struct schema router_inflight_schema; /* of a request */

/* Find the dialect of a request whose target is canonical, and the path below the root of the
 * dialect. Once for a request, before the router is told anything else of it. */
void router_place(struct router_worker *worker, struct router_request *request);
/* The dialect of requests that no table claims, and of what is no request. */
const struct dialect *router_home(const struct router_worker *worker);

/* Take a request. It ends with `respond`, once. On the thread of the worker. */
void router_handle(struct router_worker *worker, struct router_request *request);
/* Count a request that the front serves itself, and send `reply`. The body is freed. On the
 * thread of the worker. */
void router_reply(struct router_worker *worker, struct router_request *request,
                  struct router_reply *reply);
/* The client was told that its request takes too long. ST_UNKNOWN_OUTCOME: the request may change
 * something, or has; ST_TIMEOUT: it has not, and will not. The request still ends with `respond`,
 * whose reply is discarded. */
enum status router_give_up(struct router_request *request);
/* Whether a request, as far as its path tells, is for a route that may take long;
 * *ret_upload_bytes_max is what its body may have if that is to be streamed (ROUTE_UPLOAD), else 0.
 */
bool router_is_long(struct router_worker *worker, const struct router_request *request,
                    uint64_t *ret_upload_bytes_max);

/* Classes of the latency histograms; each request is counted in one. */
enum router_class {
    ROUTER_READ,
    ROUTER_LIST, /* and recursive listings */
    ROUTER_WRITE,
    ROUTER_NODE,      /* about this node: health, metrics, seal status */
    ROUTER_FORWARDED, /* sent on to the active node */
    ROUTER_LONG,      /* may take long: snapshots */
    ROUTER_CLASSES
};
const char *router_class_name(enum router_class class);

struct router_counters {
    /* From the request's head to the reply, on this node. */
    struct histogram_sum latency[ROUTER_CLASSES];
    uint64_t requests, forwards, reruns, refused; /* refused: above inflight_max */
    uint64_t parsed_bytes; /* of bodies whose senders had some right on the path */
};
/* Any thread. */
void router_worker_counters(const struct router_worker *worker,
                            struct router_counters *ret_counters);

#endif
