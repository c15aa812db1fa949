/* The server process: signals, the node, the workers, start and end. */
#include "server/server.h"
#include "audit/audit_table.h"
#include "auth/registry/registry_settings.h"
#include "base/cpus.h"
#include "base/mem.h"
#include "base/trace.h"
#include "base/version.h"
#include "crypto/crypto.h"
#include "crypto/tls.h"
#include "loop/loop.h"
#include "out/sql/sql.h"
#include "quota/quota_table.h"
#include "server/memory_holder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static void say(const char *text)
{
    (void)fprintf(stderr, "holdfast: %s\n", text); /* standard error is the last place to report */
}

/* A write or sync failed. The unit does not start the node again after this code (EX_IOERR of
 * sysexits.h). */
enum { EXIT_DISK = 74 };

/* End the process at once, without winding down: nothing more may be acknowledged (PROTOCOL R12).
 */
static void on_failed(void *ctx, enum node_failure failure, const struct reason *reason)
{
    (void)ctx;
    trace_end(TRACE_ERROR, "main", "%s: %s",
              failure == NODE_NOT_STARTED ? "cannot start" : "stopping", reason->text);
    _exit(failure == NODE_DISK_FAILED ? EXIT_DISK : EXIT_FAILURE);
}

/* Whether the node still waits for members or workers. The replica exists before every worker has
 * its state. Until every worker has it, no reply may say that the cluster can be initialised: the
 * next request could reach a worker without a state. */
static bool host_awaits(struct router_host *host, struct reason *why)
{
    struct server *s = CONTAINER_OF(host, struct server, host);
    const struct node_options *o = &s->node_options;
    if (node_awaits_members(s->node, why))
        return true;
    if (o->member.join_by_request || o->member.join_token_file != NULL ||
        s->n_begun >= s->n_workers)
        return false;
    reason_set(why, "not initialised: this node is starting");
    return true;
}

static void on_http(void *ctx, struct mesh_http connection)
{
    struct server *s = ctx;
    unsigned n_workers = s->n_workers;
    if (n_workers == 0 || s->stopping) {
        mesh_http_drop(&connection);
        return;
    }
    worker_adopt(&s->workers[s->next_worker++ % n_workers], connection);
}

static void on_unauthenticated(void *ctx, struct mesh_http connection)
{
    struct server *s = ctx;
    if (s->n_workers == 0 || s->stopping)
        mesh_http_drop(&connection);
    else
        worker_adopt(&s->workers[0],
                     connection); /* only worker 0 listens for unauthenticated peers */
}

static void start_workers(struct server *s)
{
    struct reason reason = {{0}};
    /* Leave one processor to the raft thread: every write waits for it. */
    int64_t wanted = s->config->workers != 0 ? s->config->workers : (int64_t)cpus_usable() - 1;
    unsigned n = (unsigned)MIN(MAX(wanted, 1), WORKERS_MAX);
    ASSERT(s->n_workers == 0 && !s->stopping);
    s->n_wanted = n;
    const struct http_budget_options streams = {
        .total = n * STREAMS_MAX, .share = n * STREAMS_MAX / 2, .clients_max = n * STREAMS_MAX};
    enum status st = http_budget_init(&s->streams, s->env, &streams);
    if (st != ST_OK) {
        reason_set(&reason, "the budget of streams: %s", status_text(st));
        on_failed(s, NODE_NOT_STARTED, &reason);
    }
    for (unsigned i = 0; i < n; i++) {
        if (worker_start(s, &s->workers[i], &reason) != ST_OK)
            on_failed(s, NODE_NOT_STARTED, &reason);
        s->n_workers = i + 1;
    }
    trace(TRACE_INFO, "main",
          s->ready ? "serving as %s with %u workers"
                   : "%s is waiting to become a member of a cluster; %u workers",
          s->config->node_name, n);
    notify_serving(s);
}

static void serve_all(struct env_task *task)
{
    struct server *s = CONTAINER_OF(task, struct server, ready_task);
    if (s->stopping)
        return;
    s->ready = true;
    if (s->n_workers == 0) {
        start_workers(s);
        return;
    }
    for (unsigned i = 0; i < s->n_workers; i++)
        worker_begin(&s->workers[i]);
    notify_joined(s);
}

static void on_ready(void *ctx)
{
    struct server *s = ctx;
    s->ready_task = (struct env_task){.run = serve_all};
    env_post(s->env, &s->ready_task);
}

static void serve_waiting(struct env_task *task)
{
    struct server *s = CONTAINER_OF(task, struct server, waits_task);
    ASSERT(!s->ready);
    if (!s->stopping)
        start_workers(s);
}

static void on_waits(void *ctx)
{
    struct server *s = ctx;
    s->waits_task = (struct env_task){.run = serve_waiting};
    env_post(s->env, &s->waits_task);
}

static void stop_serving(struct env_timer *timer)
{
    struct server *s = CONTAINER_OF(timer, struct server, leave_timer);
    ASSERT(s->host.leaving);
    if (s->stopping) /* a signal after the first: the node already knows */
        return;
    env_timer_stop(s->env, timer);
    s->stopping = true;
    node_join_give_up(s->node);
    loop_stop(s->env);
}

static void on_signal(uv_signal_t *signal, int number)
{
    struct server *s = signal->data;
    if (number == SIGHUP) {
        if (!s->stopping)
            notify_reload(s);
        return;
    }
    if (s->host.leaving) { /* a second signal ends the wait */
        stop_serving(&s->leave_timer);
        return;
    }
    trace_end(TRACE_INFO, "main", "signal %d: stopping", number);
    s->host.leaving = true;
    notify_stopping(s);
    uint64_t delay_ms = (uint64_t)s->config->drain_delay_s * 1000;
    s->leave_timer = (struct env_timer){.fire = stop_serving};
    if (delay_ms > 0)
        env_timer_set(s->env, &s->leave_timer, env_mono_ms(s->env) + delay_ms);
    else
        stop_serving(&s->leave_timer);
}

static void on_published(void *ctx)
{
    struct server *s = ctx;
    for (unsigned i = 0, n = s->n_workers; i < n; i++)
        router_worker_published(s->workers[i].router);
}

static enum seal_type seal_type_of(const struct config *c)
{
    return strcmp(c->seal.type, "static") == 0 ? SEAL_STATIC : SEAL_SHAMIR;
}

static void background_of(struct server *s)
{
    ASSERT(s->n_duties == 0 && s->n_services == 0);
    for (size_t i = 0; i < server_modules.n; i++) {
        const struct module *module = server_modules.items[i];
        ASSERT(s->n_duties + module->n_duties <= SERVER_DUTIES_MAX);
        for (size_t k = 0; k < module->n_duties; k++)
            s->duties[s->n_duties++] = module->duties[k];
        ASSERT(s->n_services + module->n_services <= SERVER_SERVICES_MAX);
        for (size_t k = 0; k < module->n_services; k++)
            s->services[s->n_services++] = module->services[k];
    }
    ASSERT(s->n_duties < SERVER_DUTIES_MAX);
    module_lease_kinds(&server_modules, &s->lease_kinds);
    s->expiry_kinds = (struct expiry_kinds){.leases = &s->lease_kinds, .counts = &s->expiry_counts};
    module_expiry_kinds(&server_modules, &s->expiry_kinds);
    s->duties[s->n_duties++] = (struct node_duty){.name = "what ends by itself",
                                                  .run_with = expiry_upkeep,
                                                  .asked = expiry_asked,
                                                  .committed = expiry_committed,
                                                  .with = &s->expiry_kinds};
    static_assert((int)PACE_STEPS_MAX <= (int)EXPIRY_STEPS, "a turn of the duty fits into a run");
}

static void node_options_of(const struct config *c, struct server *s)
{
    struct node_options *o = &s->node_options;
    background_of(s);
    *o = (struct node_options){
        .member = {.name = c->node_name,
                   .data_dir = c->data_dir,
                   .api_addr = c->api_addr,
                   .version = holdfast_version,
                   .cluster_addr = c->cluster.advertise,
                   .ca_file = c->cluster.ca_file,
                   .cert_file = c->cluster.cert_file,
                   .key_file = c->cluster.key_file,
                   .seal_mark = s->seal_mark,
                   .join_token_file = c->cluster.join_token_file,
                   .auto_join = c->cluster.auto_join,
                   .join_by_request = c->cluster.join != NULL},
        .cluster_name = c->cluster.name,
        .listen_addr = c->cluster.address,
        .seal_type = seal_type_of(c),
        .seal = s->seal.type != 0 ? &s->seal : NULL,
        .former_seal = s->former_seal.type != 0 ? &s->former_seal : NULL,
        .has_former_seal = c->former_seal.type != NULL,
        .duties = s->duties,
        .n_duties = s->n_duties,
        .services = s->services,
        .n_services = s->n_services,
        .performance_standby = c->performance_standby,
        .peer_unseal = c->peer_unseal,
        .election_ms = (unsigned)c->cluster.election_ms,
        .heartbeat_ms = (unsigned)c->cluster.heartbeat_ms,
        .segment_bytes = c->segment_bytes,
        .snapshot_log_bytes = c->snapshot_log_bytes,
        .state_bytes_max = c->state_bytes_max,
        .reserve_bytes = c->reserve_bytes,
        .waits = on_waits,
        .ready = on_ready,
        .published = on_published,
        .failed = on_failed,
        .accept_http = on_http,
        .accept_unauthenticated = on_unauthenticated,
        .ctx = s,
    };
    ASSERT(c->cluster.n_members <= ARRAY_LEN(o->member.initial_members));
    for (unsigned i = 0; i < c->cluster.n_members; i++) {
        o->member.initial_members[i].name = c->cluster.members[i].name;
        o->member.initial_members[i].address = c->cluster.members[i].address;
    }
    o->member.n_initial_members = c->cluster.n_members;
}

static enum status open_tls(struct server *s, struct reason *reason)
{
    ASSERT(s->config->n_listeners <= ARRAY_LEN(s->tls));
    for (unsigned i = 0; i < s->config->n_listeners; i++) {
        const struct config_listener *l = &s->config->listeners[i];
        struct reason why = {{0}};
        struct tls_options options = reload_tls_options(l);
        enum status st = l->tls_disable ? ST_OK : tls_ctx_new(&options, &s->tls[i], &why);
        if (st != ST_OK) {
            reason_set(reason, "%s: listener %s: %s", s->config->file, l->address, why.text);
            return st;
        }
    }
    return ST_OK;
}

static enum status open_data_dir(const struct config *c, struct reason *reason)
{
    struct stat st;
    if (mkdir(c->data_dir, 0700) == 0 || stat(c->data_dir, &st) == 0)
        return ST_OK;
    reason_set(reason, "%s: data_dir: %s cannot be made: %s", c->file, c->data_dir,
               strerrordesc_np(errno));
    return ST_IO;
}

static bool is_static(const struct config_seal *seal)
{
    return seal->type != NULL && strcmp(seal->type, "static") == 0;
}

/* Read the key of a static seal. A node without the key file starts and stays sealed: it keeps the
 * log and votes. The key of a disabled seal may be gone after the migration. A key that exists and
 * cannot be used is an error. */
static enum status open_seal(const struct config *c, const struct config_seal *from,
                             struct seal *ret_seal, struct reason *reason)
{
    struct reason why = {{0}};
    if (!is_static(from))
        return ST_OK;
    bool file = from->key_file != NULL;
    enum status st =
        file ? seal_static_file(from->key_file, from->key_id, ret_seal, &why)
             : seal_static_credential(from->credential, c->file, from->key_id, ret_seal, &why);
    if (st == ST_NOT_FOUND) {
        trace(from->disabled ? TRACE_WARN : TRACE_ERROR, "main",
              from->disabled ? "seal: %s: this node cannot move the cluster away from this seal"
                             : "seal: %s: this node stays sealed until it is started with its key",
              why.text);
        return ST_OK;
    }
    if (st != ST_OK)
        reason_set(reason, "%s: seal: %s: %s", c->file, file ? "key_file" : "credential", why.text);
    return st;
}

/* Read the key that was in use before. It may be gone when the cluster has changed its key. */
static enum status open_previous(const struct config *c, struct seal *ret_seal,
                                 struct reason *reason)
{
    const struct config_seal *from = &c->seal;
    struct reason why = {{0}};
    bool file = from->previous_key_file != NULL;
    if (!is_static(from) || (!file && from->previous_credential == NULL))
        return ST_OK;
    enum status st =
        file ? seal_static_file(from->previous_key_file, from->previous_key_id, ret_seal, &why)
             : seal_static_credential(from->previous_credential, c->file, from->previous_key_id,
                                      ret_seal, &why);
    if (st == ST_NOT_FOUND) {
        trace(TRACE_WARN, "main", "seal: %s: this node does without the previous key", why.text);
        return ST_OK;
    }
    if (st != ST_OK)
        reason_set(reason, "%s: seal: %s: %s", c->file,
                   file ? "previous_key_file" : "previous_credential", why.text);
    return st;
}

/* Read the keys of the seals, and make the mark of the configured one. */
static enum status open_seals(struct server *s, struct reason *reason)
{
    const struct config *c = s->config;
    TRY(open_seal(c, &c->seal, &s->seal, reason));
    TRY(open_previous(c, &s->previous_seal, reason));
    TRY(open_seal(c, &c->former_seal, &s->former_seal, reason));
    if (s->previous_seal.type != 0)
        s->seal.previous = &s->previous_seal;
    return s->seal.type != 0 ? seal_mark(&s->seal, s->seal_mark) : ST_OK;
}

/* Keep keys and tokens in memory out of core files, and from debuggers of the same user. */
static void forbid_dumps(void)
{
    struct rlimit none = {0, 0};
    if (setrlimit(RLIMIT_CORE, &none) != 0 || prctl(PR_SET_DUMPABLE, 0) != 0)
        trace(TRACE_WARN, "main", "core dumps could not be switched off");
}

/* Raise the limit of open files to the maximum: each connection needs a descriptor. */
static void raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        trace(TRACE_WARN, "main", "the limit of open files could not be raised");
}

static enum status router_of(struct server *s, struct reason *reason)
{
    if (gethostname(s->hostname, sizeof s->hostname - 1) != 0)
        s->hostname[0] = '\0'; /* then replies lack the host name */
    s->host = (struct router_host){
        .node_ops = &node_ops,
        .awaits_members = host_awaits,
        .inflight = inflight_gather,
        .reload = reload_part,
        .upload_bytes_max = s->config->snapshot_bytes_max,
        .state_bytes_max = s->config->state_bytes_max,
        .seal_type = seal_type_of(s->config),
        .seal = s->seal.type != 0 ? &s->seal : NULL,
        .metrics = &s->metrics,
        .version =
            s->config->reported_version != NULL ? s->config->reported_version : holdfast_version,
        .optional_mounts = s->config->default_kv,
        .hostname =
            s->config->enable_response_header_hostname && s->hostname[0] != 0 ? s->hostname : NULL,
        .node_id = s->config->enable_response_header_raft_node_id ? s->config->node_name : NULL,
        .request_log = reload_level_of(s->config->log_requests_level),
        .log_level = reload_level_of(s->config->log_level),
        .data_dir = s->config->data_dir,
        .maintenance = s->config->maintenance,
        .ceremonies = {.burst = CEREMONIES_BURST,
                       .every_ms = CEREMONIES_EVERY_MS,
                       .lock = PTHREAD_MUTEX_INITIALIZER},
    };
    const struct router_options options = {.modules = server_modules, .host = &s->host};
    return router_init(&s->router, &options, reason);
}

/* Open the budgets for bodies above HTTP_SMALL_BODY in memory. Requests of other nodes have a
 * budget of their own, so that clients of this node cannot keep out requests that other nodes
 * forward. */
static enum status open_budgets(struct server *s)
{
    uint64_t body_max = http_limits_default.body_bytes_max;
    for (unsigned i = 0; i < s->config->n_listeners; i++)
        body_max = MAX(body_max, s->config->listeners[i].max_request_bytes);
    size_t total = MAX((size_t)BODIES_BYTES, (size_t)body_max * 2);
    const struct http_budget_options options = {
        .total = total, .share = total / 2, .clients_max = total / HTTP_SMALL_BODY};
    TRY(http_budget_init(&s->client_bodies, s->env, &options));
    TRY(http_budget_init(&s->cluster_bodies, s->env, &options));
    ASSERT(s->config->max_blocking_queries > 0);
    const size_t waits = (size_t)s->config->max_blocking_queries,
                 share = (size_t)s->config->max_blocking_queries_per_address;
    const struct http_budget_options parking = {.total = waits,
                                                .share = share != 0 ? MIN(share, waits)
                                                                    : (waits + 1) / 2,
                                                .clients_max = waits};
    TRY(http_budget_init(&s->parking, s->env, &parking));
    s->host.parking = &s->parking;
    const size_t conns = (size_t)s->config->max_connections;
    const struct http_budget_options connections = {
        .total = conns,
        .share = MIN((size_t)s->config->max_connections_per_address, conns),
        .clients_max = conns};
    TRY(http_budget_init(&s->conns, s->env, &connections));
    return parsed_budgets_init(&s->host.parsed, s->env, body_max);
}

static enum status server_prepare(struct server *s, struct reason *reason)
{
    bool locked = false;
    uint64_t seed[2];
    const struct config *c = s->config;
    TRY(crypto_init(&locked));
    if (!locked)
        trace(TRACE_WARN, "main", "key memory is not locked: RLIMIT_MEMLOCK is too low");
    TRY(open_seals(s, reason));
    TRY(open_tls(s, reason));
    TRY(open_data_dir(c, reason));
    modules_configure(c);
    registry_settings_in(c->datacenter);
    node_options_of(c, s);
    TRY(router_of(s, reason));
    TRY(crypto_random(seed, sizeof seed));
    TRY(quota_table_new(seed, &s->host.quotas));
    TRY(trail_open(s, reason));
    config_show(c, &s->shown);
    TRY(buf_status(&s->shown));
    s->host.configuration = buf_bytes(&s->shown);
    TRY(loop_new(NULL, &s->env));
    s->started_ms = env_wall_ms(s->env);
    metrics_start(s);
    return open_budgets(s);
}

static void wind_down(struct server *s)
{
    ASSERT(s->stopping); /* no further worker starts, no connection is adopted */
    for (unsigned i = 0; i < s->n_workers; i++)
        worker_drain(&s->workers[i]);
    out_sql_stop(); /* ends requests that wait for a database */
    trail_close(s);
    trim_stop(s);
    node_stop(s->node); /* ends the proposals of workers with a status */
    for (unsigned i = 0; i < s->n_workers; i++)
        worker_stop(&s->workers[i]);
    node_free(s->node);
}

static void on_signal_closed(uv_handle_t *handle)
{
    (void)handle; /* lives on the stack of server_serve() */
}

static void on_ignored(uv_signal_t *signal_handle, int number)
{
    (void)signal_handle, (void)number; /* the process is already ending in order */
}

/* Keep a handle of another loop, which never runs. When the last handle of a signal closes, libuv
 * restores the default action of the signal, which would end the process. */
static void ignore_from_now_on(int number, uv_signal_t *ignored)
{
    if (uv_signal_init(uv_default_loop(), ignored) == 0)
        (void)uv_signal_start(ignored, on_ignored, number); /* else a second signal ends us */
}

static int server_serve(struct server *s)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
    static uv_signal_t ignored[ARRAY_LEN(numbers)]; /* in use until the end */
    uv_signal_t signals[ARRAY_LEN(numbers)];
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        bool heeded = numbers[i] == SIGHUP || !ending_is_ignored(numbers[i]);
        signals[i].data = s;
        if (uv_signal_init(loop_uv(s->env), &signals[i]) != 0 ||
            (heeded && uv_signal_start(&signals[i], on_signal, numbers[i]) != 0)) {
            say("signals cannot be handled");
            return EXIT_FAILURE;
        }
    }
    if (node_start(&s->node_options, &s->node) != ST_OK)
        return EXIT_FAILURE;
    s->host.node = s->node; /* workers use it; loop_run below starts the first one */
    trim_start(s);
    loop_run(s->env);
    wind_down(s);
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        ignore_from_now_on(numbers[i], &ignored[i]);
        uv_close((uv_handle_t *)&signals[i], on_signal_closed);
    }
    loop_free(s->env);
    return EXIT_SUCCESS;
}

int server_run(const struct config *config)
{
    /* Static: there is one server in a process, and the struct is too large for a stack. */
    static struct server s;
    struct reason reason = {{0}};
    ending_say_signals();
    s.config = config;
    trace_set_node(config->node_name);
    trace_set_level(reload_level_of(config->log_level));
    trace_set_text(config->log_format != NULL && config->log_format[0] != '\0' ? strcmp(config->log_format, "text") == 0
                                                 : isatty(STDERR_FILENO) != 0);
    forbid_dumps();
    raise_descriptors();
    if (memory_holder_start() != ST_OK)
        trace(TRACE_DEBUG, "main",
              "no process holds the memory: with a large state a kill is slow");
    enum status st = server_prepare(&s, &reason);
    if (st != ST_OK) {
        say(reason.text[0] != '\0' ? reason.text : status_text(st));
        return EXIT_FAILURE;
    }
    int code = server_serve(&s);
    for (unsigned i = 0; i < ARRAY_LEN(s.tls); i++)
        tls_ctx_unref(s.tls[i]);
    router_done(&s.router);
    audit_table_free(s.host.audit);
    quota_table_free(s.host.quotas);
    http_budget_done(&s.client_bodies);
    http_budget_done(&s.cluster_bodies);
    http_budget_done(&s.streams);
    http_budget_done(&s.parking);
    http_budget_done(&s.conns);
    parsed_budgets_done(&s.host.parsed);
    buf_done(&s.shown);
    seal_done(&s.seal);
    seal_done(&s.previous_seal);
    seal_done(&s.former_seal);
    memory_holder_stop();
    return code;
}
