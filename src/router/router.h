/* The way of a request through the program, from the bytes of a transport to the reply.
 *
 *   limits, target, namespace, route, authenticate, body, authorise, handler, audit request,
 *   commit, audit response, send
 *
 * Handlers are straight-line functions (req.h); each step that waits is a phase of pipeline.c.
 *
 * 1. Every request gets exactly one reply.
 * 2. If a request staged writes, its reply is sent after the writes were committed and applied. If
 *    it staged nothing, its reply is sent after the data that it read were confirmed (PROTOCOL R1,
 *    R2).
 * 3. A standby whose handler stages anything discards it and forwards the whole request (R4).
 * 4. With an audit device, nothing takes effect and nothing is sent unrecorded (R20).
 *
 * Transport and node give the router tables of functions. A process has one router, which never
 * changes, and one worker for each thread that serves. */
#ifndef HOLDFAST_ROUTER_ROUTER_H
#define HOLDFAST_ROUTER_ROUTER_H

#include "audit/audit.h"
#include "base/trace.h"
#include "node/node_ops.h"
#include "router/counters.h"
#include "router/reload.h"
#include "router/reply_room.h"
#include "router/request/parsed.h"
#include "router/request/path.h"
#include "router/request/reply.h"
#include "router/table/route_index.h"
#include "router/throttle.h"
enum {
    /* a longer body is read only after its sender was found to have a right on the path */
    ROUTER_UNJUDGED_BYTES_MAX = HTTP_SMALL_BODY,
    /* A forwarded request with a body longer than this is sent only once: the body streams to the
     * active node and is not kept here (PROTOCOL R14). */
    ROUTER_WHOLE_BYTES_MAX = 1024 * 1024,
};

struct dialect_map;
struct fs_file;
struct metrics;
struct quota_table;
struct router_forward;
struct router_worker;
struct seal;

/* A streamed body on its way into memory. `done` is called once, on the worker's thread, never from
 * inside `collect`; its statuses are those of http_whole_fn. */
struct router_collect {
    void (*done)(struct router_collect *collect, enum status st);
};

/* A streamed body on its way into a file. `done` is called once, on the worker's thread, never from
 * inside `receive`. ST_OK: `file` has `bytes`, and the router closes it. ST_CLOSED, ST_TIMEOUT,
 * ST_TOO_BIG, ST_INVALID: the body did not arrive, or is not allowed. ST_NO_SPACE, ST_IO, ST_NOMEM:
 * the file was not written. */
struct router_receive {
    struct env *env;
    struct router_host *host;
    void (*done)(struct router_receive *receive, enum status st);
    struct fs_file *file;
    uint64_t bytes;
};

/* The front's decision about a request, made from the origin that the request names. */
struct router_verdict {
    enum status st;                    /* ST_OK, or the status of the refusal */
    const char *why;                   /* text of the refusal; NULL: the status's text */
    bool preflight;                    /* reply with 200 and the headers alone */
    const struct http_header *headers; /* headers for the reply; in the arena or static */
    size_t n_headers;
};

/* One request as a transport hands it over. Lives until `respond` was called. */
struct router_request {
    enum http_method method;
    struct path_target target;
    const struct dialect *dialect; /* dialect of the path, set by router_place */
    bool foreign;                  /* `dialect` is not the home dialect: set by router_place */
    struct bytes query, body;      /* query and body as the client sent them */
    bool streamed; /* the body was not read yet: `collect`, `receive` or `forward` reads it */
    uint64_t body_length;   /* length of a streamed body, or HTTP_LENGTH_UNKNOWN */
    struct arena *arena;    /* memory for everything made for the request */
    const char *peer;       /* address of the client, "127.0.0.1:4711" */
    bool open_metrics;      /* the listener shows metrics without a token */
    bool closed_ceremonies; /* the listener wants a token for WHO_CEREMONY */
    bool forwarded;         /* another node forwarded the request, and set `peer` and `id` */
    const char *member; /* name of the member that makes this request for itself; NULL: a client */
    struct rlog_request_id id; /* all zero: the request has no id */
    bool again;                /* an earlier try with this id may have been executed */
    /* Of a forwarded request: the reply, made by the node that forwarded it. NULL: the handler
     * makes the reply here. */
    const struct reply_answer *answer;
    const struct router_verdict *verdict; /* NULL: the front decided nothing */

    uint64_t no_header; /* a bit for each length up to 63 that no header's name has */
    /* The next header with that name (lower case); *at starts as 0. False: none is left. */
    bool (*header_next)(const struct router_request *request, const char *name, size_t *at,
                        struct bytes *ret_value);
    /* Read the streamed body into memory: sets `body` and clears `streamed`. NULL: the transport
     * does not stream. */
    void (*collect)(struct router_request *request, struct router_collect *collect);
    /* Write the streamed body into a file. NULL: the transport does not stream. ST_NOMEM: `done` is
     * not called. */
    enum status (*receive)(struct router_request *request, struct router_receive *receive);
    void (*forward)(struct router_request *request, struct router_forward *f); /* active node */
    void (*end_wait)(struct router_request *request); /* end a forward that waits there */
    void (*watch)(struct router_request *request);    /* from now on, set `left`; NULL: never */
    bool (*may_park)(const struct router_request *request); /* NULL: never parked */
    /* Keep the head, release all else. One of parked->resume, router_parked_drop follows. */
    void (*park)(struct router_request *request, struct router_parked *parked);
    const struct reply_room *room; /* NULL: the transport has no budget of replies */
    struct router_parked *resumed; /* the request was parked before; NULL: it is new */
    /* Send the reply, once, perhaps from inside router_handle. May move reply->body away. */
    void (*respond)(struct router_request *request, struct router_reply *reply);

    uint64_t payer;    /* stands for the token, for `room`; 0: no token */
    _Atomic bool left; /* the client has gone before the reply was complete; any thread */
    /* The members below are for the router alone. */
    bool unsettled;       /* the request may change something, or has changed something */
    enum status given_up; /* result of router_give_up; ST_OK: it was not called */
};

/* The value of the first header with that name (lower case); data NULL: absent. If no header's name
 * has this length, request->header_next is not called: most headers are absent. */
static inline struct bytes router_header(const struct router_request *request, const char *name)
{
    size_t len = strlen(name), at = 0;
    struct bytes value = {0};
    if (len >= 64 || (request->no_header >> len & 1) == 0)
        (void)request->header_next(request, name, &at, &value); /* absent: the value stays empty */
    return value;
}

/* A request that is sent to the active node. */
struct router_forward {
    struct router_request *request;
    struct env *env;                   /* `env` of the worker */
    struct rlog_request_id id;         /* id to send with the request; all zero: none */
    bool again;                        /* flag to send with the request: see router_request */
    const struct reply_answer *answer; /* sent in place of a body; NULL: none */
    uint64_t deadline_ms;              /* monotonic time when the try ends */
    bool waits;                        /* the active node must hear when the client goes */
    /* Called once, on the worker's thread, never from inside `forward`. ST_OK: `reply` is set, and
     * the callee owns its body. ST_NOT_LEADER, ST_NO_LEADER, ST_BUSY: the request was certainly not
     * executed. Another status: it may have been executed. */
    void (*done)(struct router_forward *f, enum status st);
    struct router_reply reply;
    bool body_taken;      /* a part of a streamed body was read: the request cannot be sent again */
    struct env_task task; /* for the transport alone */
    enum status refusal;  /* for the transport alone */
};

/* The program around the router. Functions are called on any worker's thread. */
struct router_host {
    struct node *node;
    const struct node_ops *node_ops;
    /* Whether the cluster does not exist yet, or this node's workers cannot serve it yet; *ret_why
     * says what the node waits for. */
    bool (*awaits_members)(struct router_host *host, struct reason *ret_why);
    /* Write the requests in progress of all workers: members of an object. Blocks until each worker
     * has written its requests. ST_NOMEM. */
    enum status (*inflight)(struct router_host *host, struct text_writer *w);
    /* Read a part of the configuration again (reload.h). */
    enum status (*reload)(struct router_host *host, enum router_reload part,
                          struct reason *ret_why);
    uint64_t upload_bytes_max; /* most bytes of the body of an INPUT_UPLOAD */
    uint64_t state_bytes_max;  /* most bytes of the state; 0: no limit */
    enum seal_type seal_type;  /* type of the configured seal, for sys/init */
    const struct seal *seal; /* for sys/init; NULL: no seal is configured, or its key is missing */
    const struct metrics *metrics;
    const char *version;            /* version of the server that clients see */
    const char *hostname, *node_id; /* for headers of replies; NULL: no header */
    enum trace_level request_log;   /* level of the log line of a request */
    enum trace_level log_level;     /* configured level of the process */
    const char *data_dir;           /* directory whose free space is reported; NULL: not reported */
    struct bytes configuration;     /* the configuration, without secrets: an object of JSON */
    _Atomic bool maintenance;       /* 503 to all but health and the routes that operators need */
    struct quota_table *quotas;     /* shared by the workers */
    struct audit_table *audit;      /* audit devices; NULL: there are none, as in tests */
    struct throttle ceremonies;     /* limits anonymous changes by WHO_CEREMONY */
    struct parsed_budgets parsed;   /* shared by the workers */
    struct http_budget *parking;    /* bounds parked requests; NULL: not bounded, as in tests */
    bool optional_mounts;           /* initialisation makes the optional mounts of modules too */
    /* rate limits of sys/storage/raft/bootstrap, of sys/replication/dr/primary/bootstrap */
    _Atomic int64_t challenged_ms, dr_asked_ms;
    _Atomic bool leaving; /* the process ends soon, and probes say so; any thread */
};

struct router_options {
    struct module_list modules;
    struct router_host *host;
    unsigned inflight_max; /* requests at once in a worker; 0: 16384 */
};

struct router {
    struct router_options options;
    struct route_index *index;
};

/* Statuses of route_index_new. */
NODISCARD enum status router_init(struct router *router, const struct router_options *options,
                                  struct reason *why);
void router_done(struct router *router);
/* Make a worker. `router` outlives its workers. `state` belongs to the thread of the worker; NULL:
 * only routes that need no state are served until router_worker_begin. ST_NOMEM. */
NODISCARD enum status router_worker_new(const struct router *router, struct env *env,
                                        struct state *state, struct router_worker **ret_worker);
/* Give a worker the state that it was made without. On its thread. */
void router_worker_begin(struct router_worker *worker, struct state *state);
void router_worker_free(struct router_worker *worker); /* without requests under way; or NULL */
struct router_host *router_worker_host(const struct router_worker *worker);
struct state *router_worker_state(const struct router_worker *worker); /* NULL: there is none yet */
unsigned router_worker_running(const struct router_worker *worker);    /* requests under way */
/* Requests, also ended ones, whose records an audit device still holds: 0 before the worker may be
 * freed. audit_device_close and the loop end the offers. */
unsigned router_worker_offers(const struct router_worker *worker);
/* Write a member of an object for each request under way. On the worker's thread. */
void router_worker_inflight(struct router_worker *worker, struct text_writer *w);
extern const struct schema router_inflight_schema; /* schema of one request in that list */

/* Find the dialect of a request whose target is canonical, and the path below the root of the
 * dialect. `dialects` are those of the request's listener; NULL: all. Call once for a request,
 * before any other function of the router. */
void router_place(struct router_worker *worker, struct router_request *request,
                  const struct dialect_map *dialects);
/* As router_place, for a request that another node forwards: `name` is that of its dialect, empty:
 * the dialect is the home. False: no dialect has the name, and the request gets the home's. */
bool router_place_forwarded(struct router_worker *worker, struct router_request *request,
                            struct bytes name);
/* The map of the dialects with these names, for router_place. Statuses of dialect_map_choose. */
NODISCARD enum status router_choose(const struct router_worker *worker, const char *const *names,
                                    size_t n, struct dialect_map *ret_map, size_t *ret_unknown);
/* The dialect of requests that no table claims, and of errors that have no request. */
const struct dialect *router_home(const struct router_worker *worker);
/* Run a request; request->respond is called once. On the thread of the worker. */
void router_handle(struct router_worker *worker, struct router_request *request);
/* Count a request that the front serves, and send `reply`, whose body is freed. On its thread. */
void router_reply(struct router_worker *worker, struct router_request *request,
                  struct router_reply *reply);
/* The client is told that its request takes too long. ST_UNKNOWN_OUTCOME: the request may change
 * something, or has changed something; ST_TIMEOUT: the request has changed nothing, and will not.
 * `respond` is still called; its reply is discarded. */
enum status router_give_up(struct router_request *request);
/* Whether the request is for a route that may take long. *ret_upload_bytes_max: the longest body of
 * an upload that streams (INPUT_UPLOAD), else 0. */
bool router_is_long(struct router_worker *worker, const struct router_request *request,
                    uint64_t *ret_upload_bytes_max);

#endif
