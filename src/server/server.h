/* The server process: what the files of this folder share.
 *
 *   main.c          commands
 *   server/dev.h      `holdfast dev`: nodes on this machine, to try the program
 *   server/server.c   the server process: signals, node, workers, start and end
 *   server/worker.c   a thread that serves requests
 *   server/metrics.c  metrics of all parts
 *   server/process.c  metrics of the process, its disk and its certificates; the number of leases
 *   server/reload.c   what SIGHUP and sys/config/reload read again
 *   server/trail.c    the audit devices of this node
 *   server/notify.c   what systemd is told
 *   server/end.c      a line on standard error before a signal ends the process
 *   server/trim.c     gives memory back to the system
 *   server/memory_holder.c  a process that lets the kernel close connections before it frees memory
 */
#ifndef HOLDFAST_SERVER_SERVER_H
#define HOLDFAST_SERVER_SERVER_H

#include "audit/places.h"
#include "base/metric.h"
#include "base/trace.h"
#include "config/config.h"
#include "crypto/tls.h"
#include "front/forward.h"
#include "front/front_http.h"
#include "http/budget.h"
#include "http/http.h"
#include "http/proxy.h"
#include "http/unwritten.h"
#include "node/node.h"
#include "router/request/dialect.h"

#include <pthread.h>
#include <semaphore.h>

enum {
    WORKERS_MAX = 64,
    STREAMS_MAX = 32, /* connections of one worker to the active node that streams may use; the
                         others carry short requests */
    /* Bytes of memory for long request bodies of clients, and as many again for requests of other
     * nodes. The budget is larger where a listener accepts larger bodies. */
    BODIES_BYTES = 256 * 1024 * 1024,
    DRAIN_MS = 10000,
    LISTENER_CLUSTER = CONFIG_LISTENERS_MAX,
    LISTENER_UNAUTHENTICATED,
    LISTENERS,
    /* Rate limit of requests without a token that change an attempt of generate-root or rekey. */
    CEREMONIES_BURST = 60,
    CEREMONIES_EVERY_MS = 1000,
};

struct server;
struct http_client;

/* A listener of a worker. The last two listeners serve connections of the cluster port: connections
 * of other nodes, and connections of unauthenticated peers. */
struct listener {
    struct http_server *http;
    struct front_http handler;
    struct client_rule client;
    struct http_proxy proxy;
    struct dialect_map dialects; /* if the configuration names the APIs of the listener */
};

struct worker {
    struct server *server;
    struct env *env;
    pthread_t thread;
    struct state_log log;
    struct state *state;
    struct router_worker *router;
    /* requests to the active node; those that may wait there for a change have another client, so
     * that they take no connection of the others */
    struct http_client *client, *waits;
    struct forwarder forwarder;
    struct listener listeners[LISTENERS];
    struct http_unwritten for_clients, for_nodes; /* replies that wait for their reader */
    unsigned draining;                            /* servers that have not drained yet */
    struct env_task drain_task;
    struct env_task ping_task;
    struct env_task begin_task;
    struct env_task flush_task;
    struct env_timer idle_timer;   /* while draining: looks whether the router is idle */
    struct env_timer audit_timer;  /* of worker 0: follows the audit devices */
    struct env_timer reseal_timer; /* of worker 0: looks whether the seal's key is to change */
    bool resealing, reseal_over;   /* the request is under way; no further one is made */
    sem_t drained, flushed;
    struct reason reason; /* why the worker did not start */
};

/* Sends a task to every thread, in rounds. When all threads have run it, the round is complete, and
 * systemd is notified. */
struct watchdog {
    struct env_timer timer;
    uint64_t period_ms;          /* 0: the watchdog is off */
    _Atomic unsigned unanswered; /* threads that have not run this round's task */
    struct env_task node_task;
};

/* Gives memory that is no longer used back to the system. */
struct trim {
    struct env_timer timer;
    struct env_work work;
    uint64_t highest; /* most bytes in use since memory was last given back */
};

enum { SERVER_DUTIES_MAX = 64, SERVER_SERVICES_MAX = 32 };

struct server {
    const struct config *config;
    struct env *env; /* env of the main thread */
    struct node *node;
    struct seal seal, previous_seal, former_seal; /* type 0: no key */
    uint8_t seal_mark[SEAL_MARK_BYTES];           /* of `seal`; all zero: no key */
    struct node_options node_options;
    struct audit_places audit_places;           /* for the table of audit devices */
    struct node_duty duties[SERVER_DUTIES_MAX]; /* duties of all modules, and the duty of leases */
    struct expiry_kinds expiry_kinds;           /* kinds of the expiry index */
    struct expiry_counts expiry_counts;         /* work of its duty */
    struct lease_kinds lease_kinds;             /* lease kinds of all modules */
    size_t n_duties;
    struct node_service services[SERVER_SERVICES_MAX]; /* services of all modules */
    size_t n_services;
    char hostname[256];
    struct router router;
    struct router_host host;
    struct http_budget client_bodies, cluster_bodies; /* bytes of long request bodies in memory */
    struct http_budget streams; /* number of bodies that stream to the active node */
    struct http_budget parking; /* number of requests that wait for a change */
    struct http_budget conns;   /* number of connections of clients */
    struct trim trim;
    struct tls_ctx *tls[CONFIG_LISTENERS_MAX];
    struct worker workers[WORKERS_MAX];
    int64_t started_ms;           /* wall clock time of the start */
    _Atomic bool ready;           /* the node has its replica; false: it waits for a join request */
    unsigned n_wanted;            /* workers that this node will run */
    _Atomic unsigned n_workers;   /* running workers; any thread may look */
    _Atomic unsigned n_begun;     /* workers that have their state */
    _Atomic unsigned next_worker; /* next worker for a connection of the cluster port */
    struct buf shown;             /* JSON of the configuration, for sys/config/state/sanitized */
    struct metrics metrics;
    struct metric_source metric_source;
    struct env_task waits_task, ready_task;
    struct watchdog watchdog;
    bool serving;
    struct env_timer leave_timer; /* time between the signal and the end of serving */
    _Atomic bool stopping; /* the server is stopping; set by the main thread, read by the node's
                              thread too */
};

/* server/modules.c */
extern const struct module_list server_modules;
/* The blocks that the modules add to the configuration file. First called before threads start. */
const struct config_blocks *modules_blocks(void);
/* Give each module the fields of its block. */
void modules_configure(const struct config *config);
void modules_metrics(struct metric_out *out);

/* server/server.c */
int server_run(const struct config *config);

/* server/end.c. Print the name of a signal that would end the process silently. Ignored signals
 * stay ignored. */
void ending_say_signals(void);
bool ending_is_ignored(int number);

/* server/trim.c. On the main thread; stop before the loop is released. */
void trim_start(struct server *server);
void trim_stop(struct server *server);

/* server/worker.c. Drain blocks until every request has its reply; stop ends the thread. */
NODISCARD enum status worker_start(struct server *server, struct worker *worker,
                                   struct reason *reason);
/* Tell a worker that was started before the node had its replica that the replica exists now. */
void worker_begin(struct worker *worker);
void worker_drain(struct worker *worker);
/* Wait until the worker has run the tasks that were posted to it so far. */
void worker_flush(struct worker *worker);
void worker_stop(struct worker *worker);
/* Give a worker a connection that another node opened. Any thread. */
void worker_adopt(struct worker *worker, struct mesh_http connection);

/* server/trail.c: the table of audit devices, with those of the configuration file. Others with a
 * reason. */
NODISCARD enum status trail_open(struct server *server, struct reason *reason);
/* Begin to follow the state, on the first worker; stop on its thread. */
void trail_watch(struct worker *worker);
void trail_unwatch(struct worker *worker);
/* Write what the devices hold, when every worker has drained. Blocks. */
void trail_close(struct server *server);

/* server/reseal.c: begin to look whether the key of the seal is to change, on the first worker;
 * stop on its thread, when a request that is under way still ends. */
void reseal_watch(struct worker *worker);
void reseal_unwatch(struct worker *worker);

/* server/reload.c */
void reload_all(struct server *server); /* on the main thread */
/* The `reload` of the router's host. */
enum status reload_part(struct router_host *host, enum router_reload part, struct reason *ret_why);
struct tls_options reload_tls_options(const struct config_listener *listener);
enum trace_level reload_level_of(const char *name); /* `name` NULL: the default */

/* server/notify.c, on the main thread. Without $NOTIFY_SOCKET only the reload is done, and nothing
 * is sent. */
void notify_serving(struct server *server);
void notify_joined(struct server *server); /* the node has joined and has its replica now */
void notify_reload(struct server *server);
void notify_stopping(struct server *server);

/* server/inflight.c */
NODISCARD enum status inflight_gather(struct router_host *host, struct text_writer *w);

/* server/metrics.c */
void metrics_start(struct server *server);

/* server/process.c */
void process_figures(struct metric_out *out, const struct server *server);
void lease_figures(struct metric_out *out, const struct server *s);

#endif
