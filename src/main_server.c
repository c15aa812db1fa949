/* The server process: signals, the node, the workers, start and end. */
#include "api/cubbyhole/cubbyhole.h"
#include "api/kv/kv.h"
#include "api/sys/sys.h"
#include "api/sys/sys_keys.h"
#include "api/token/token.h"
#include "auth/lease.h"
#include "auth/token_tree.h"
#include "base/mem.h"
#include "base/trace.h"
#include "crypto/crypto.h"
#include "crypto/tls.h"
#include "loop/loop.h"
#include "main.h"
#include "router/quota_table.h"
#include "state/state_core.h"

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
    (void)fprintf(stderr, "holdfast: %s\n", text); /* standard error is all there is */
}

/* A failed disk or a refused start: nothing more may be acknowledged, so nothing is wound down
 * (PROTOCOL R12). */
static void on_failed(void *ctx, const struct reason *reason, bool refused)
{
    (void)ctx;
    trace_end(TRACE_ERROR, "main", "%s: %s", refused ? "cannot start" : "stopping", reason->text);
    _exit(EXIT_FAILURE);
}

static void host_status(struct router_host *host, struct node_status *ret_status)
{
    node_status_get(CONTAINER_OF(host, struct server, host)->node, ret_status);
}

static int64_t host_time(struct router_host *host)
{
    return node_time_ms(CONTAINER_OF(host, struct server, host)->node);
}

static enum status host_remove(struct router_host *host, const char *name, struct reason *why)
{
    return node_remove_member(CONTAINER_OF(host, struct server, host)->node, name, why);
}

static enum status host_set_vote(struct router_host *host, const char *name, bool votes,
                                 struct reason *why)
{
    return node_set_vote(CONTAINER_OF(host, struct server, host)->node, name, votes, why);
}

static enum status host_step_down(struct router_host *host, struct reason *why)
{
    return node_step_down(CONTAINER_OF(host, struct server, host)->node, why);
}

static struct node *node_of(struct router_host *host)
{
    return CONTAINER_OF(host, struct server, host)->node;
}

static struct node_brief host_brief(struct router_host *host)
{
    return node_brief_get(node_of(host));
}

static void host_seal_status(struct router_host *host, struct node_seal_status *ret_status)
{
    node_seal_status(node_of(host), ret_status);
}

static enum status host_unseal_share(struct router_host *host, struct env *env, struct bytes share,
                                     struct reason *why)
{
    return node_unseal_share(node_of(host), env, share, why);
}

static enum status host_unseal_reset(struct router_host *host, struct reason *why)
{
    return node_unseal_reset(node_of(host), why);
}

static void host_seal_node(struct router_host *host)
{
    node_seal(node_of(host));
}

static enum status host_join(struct router_host *host, const struct node_join *how,
                             struct reason *why)
{
    return node_join(node_of(host), how, why);
}

static enum status host_snapshot_save(struct router_host *host, struct fs_file **ret_file,
                                      uint64_t *ret_bytes, struct reason *why)
{
    return node_snapshot_save(node_of(host), ret_file, ret_bytes, why);
}

static enum status host_snapshot_restore(struct router_host *host, struct env *env,
                                         const struct node_snapshot *snapshot, struct reason *why)
{
    return node_snapshot_restore(node_of(host), env, snapshot, why);
}

static enum status host_file_open(struct router_host *host, struct fs_file **ret_file)
{
    return node_snapshot_file(node_of(host), ret_file);
}

static bool host_file_room(struct router_host *host)
{
    return node_snapshot_room(node_of(host));
}

static unsigned host_peers(struct router_host *host, struct node_peer *ret_peers)
{
    return node_peers(node_of(host), ret_peers);
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

static void on_stranger(void *ctx, struct mesh_http connection)
{
    struct server *s = ctx;
    if (s->n_workers == 0 || s->stopping)
        mesh_http_drop(&connection);
    else
        worker_adopt(&s->workers[0], connection); /* one has the few places there are */
}

static void start_workers(struct server *s)
{
    struct reason reason = {{0}};
    /* One is left to the raft thread: who crowds it waits for it, and the less each worker finds to
     * do at once, the more often everybody is woken. */
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    int64_t wanted = s->config->workers != 0 ? s->config->workers : processors - 1;
    unsigned n = (unsigned)MIN(MAX(wanted, 1), WORKERS_MAX);
    for (unsigned i = 0; i < n; i++) {
        if (worker_start(s, &s->workers[i], &reason) != ST_OK)
            on_failed(s, &reason, true);
        s->n_workers = i + 1;
    }
    trace(TRACE_INFO, "main", "%s %s with %u workers", s->config->node_name,
          s->ready ? "serves" : "waits", n);
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
    if (s->stopping) /* told once more: the node hears of it once */
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
    if (s->host.leaving) { /* a second one ends the wait */
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

static enum seal_type seal_type_of(const struct config *c)
{
    return strcmp(c->seal.type, "static") == 0 ? SEAL_STATIC : SEAL_SHAMIR;
}

static const struct node_duty duties[] = {
    {.name = "superseded root key", .run = state_handover_upkeep},
    {.name = "abandoned attempts with key shares", .run = sys_ceremony_upkeep},
    {.name = "expired and revoked tokens", .run = token_tree_upkeep},
    {.name = "revoked leases", .run = lease_upkeep},
    {.name = "the history of versions", .run = sys_version_upkeep},
};

static void node_options_of(const struct config *c, struct server *s)
{
    struct node_options *o = &s->node_options;
    *o = (struct node_options){
        .name = c->node_name,
        .data_dir = c->data_dir,
        .cluster_name = c->cluster.name,
        .api_addr = c->api_addr,
        .version = HOLDFAST_VERSION,
        .listen_addr = c->cluster.address,
        .cluster_addr = c->cluster.advertise,
        .ca_file = c->cluster.ca_file,
        .cert_file = c->cluster.cert_file,
        .key_file = c->cluster.key_file,
        .join_token_file = c->cluster.join_token_file,
        .join_by_request = c->cluster.join != NULL,
        .seal_type = seal_type_of(c),
        .seal = s->has_seal ? &s->seal : NULL,
        .duties = duties,
        .n_duties = ARRAY_LEN(duties),
        .performance_standby = c->performance_standby,
        .election_ms = (unsigned)c->cluster.election_ms,
        .heartbeat_ms = (unsigned)c->cluster.heartbeat_ms,
        .segment_bytes = c->segment_bytes,
        .snapshot_log_bytes = c->snapshot_log_bytes,
        .state_bytes_max = c->state_bytes_max,
        .reserve_bytes = c->reserve_bytes,
        .waits = on_waits,
        .ready = on_ready,
        .failed = on_failed,
        .accept_http = on_http,
        .accept_stranger = on_stranger,
        .ctx = s,
    };
    for (unsigned i = 0; i < c->cluster.n_members; i++) {
        o->founders[i].name = c->cluster.members[i].name;
        o->founders[i].address = c->cluster.members[i].address;
    }
    o->n_founders = c->cluster.n_members;
}

static enum status open_tls(struct server *s, struct reason *reason)
{
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

/* Without its key a node can do all that a sealed one does: keep the log, and vote. A key that is
 * there and cannot be used is a mistake. */
static enum status open_seal(struct server *s, struct reason *reason)
{
    const struct config *c = s->config;
    struct reason why = {{0}};
    if (seal_type_of(c) == SEAL_SHAMIR)
        return ST_OK;
    bool file = c->seal.key_file != NULL;
    enum status st =
        file ? seal_static_file(c->seal.key_file, c->seal.key_id, &s->seal, &why)
             : seal_static_credential(c->seal.credential, c->seal.key_id, &s->seal, &why);
    s->has_seal = st == ST_OK;
    if (st == ST_NOT_FOUND) {
        trace(TRACE_ERROR, "main",
              "seal: %s: this node stays sealed until it is started with its key", why.text);
        return ST_OK;
    }
    if (st != ST_OK)
        reason_set(reason, "%s: seal: %s: %s", c->file, file ? "key_file" : "credential", why.text);
    return st;
}

/* Keys and tokens are in memory: none of it may land in a core file or be read by a debugger of
 * the same user. */
static void forbid_dumps(void)
{
    struct rlimit none = {0, 0};
    if (setrlimit(RLIMIT_CORE, &none) != 0 || prctl(PR_SET_DUMPABLE, 0) != 0)
        trace(TRACE_WARN, "main", "core dumps could not be switched off");
}

/* Connections need descriptors: take what the system lets us have. */
static void raise_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        trace(TRACE_WARN, "main", "the limit of open files could not be raised");
}

static const struct route_api *const apis[] = {&sys_api, &token_api, &kv_api, &kv2_api,
                                               &cubbyhole_api};

static void router_of(struct server *s)
{
    if (gethostname(s->hostname, sizeof s->hostname - 1) != 0)
        s->hostname[0] = '\0'; /* no header then says it */
    s->host = (struct router_host){
        .status = host_status,
        .brief = host_brief,
        .time_ms = host_time,
        .forward = forward_start,
        .remove_member = host_remove,
        .set_vote = host_set_vote,
        .step_down = host_step_down,
        .inflight = inflight_gather,
        .seal_status = host_seal_status,
        .unseal_share = host_unseal_share,
        .unseal_reset = host_unseal_reset,
        .seal_node = host_seal_node,
        .join = host_join,
        .snapshot_save = host_snapshot_save,
        .snapshot_restore = host_snapshot_restore,
        .file_open = host_file_open,
        .file_room = host_file_room,
        .upload_bytes_max = s->config->snapshot_bytes_max,
        .peers = host_peers,
        .seal_type = seal_type_of(s->config),
        .seal = s->has_seal ? &s->seal : NULL,
        .metrics = &s->metrics,
        .version =
            s->config->reported_version != NULL ? s->config->reported_version : HOLDFAST_VERSION,
        .default_kv = s->config->default_kv,
        .hostname =
            s->config->enable_response_header_hostname && s->hostname[0] != 0 ? s->hostname : NULL,
        .node_id = s->config->enable_response_header_raft_node_id ? s->config->node_name : NULL,
        .request_log = reload_level_of(s->config->log_requests_level),
        .log_level = reload_level_of(s->config->log_level),
        .data_dir = s->config->data_dir,
        .maintenance = s->config->maintenance,
        .ceremonies = {.burst = CEREMONIES_BURST, .every_ms = CEREMONIES_EVERY_MS},
    };
    s->router.options =
        (struct router_options){.apis = apis, .n_apis = ARRAY_LEN(apis), .host = &s->host};
    atomic_init(&s->budget.used, 0);
    s->budget.bytes_max = HTTP_BUDGET_DEFAULT;
}

static enum status prepare(struct server *s, struct reason *reason)
{
    bool locked = false;
    uint64_t seed[2];
    const struct config *c = s->config;
    TRY(crypto_init(&locked));
    if (!locked)
        trace(TRACE_WARN, "main", "key memory is not locked: RLIMIT_MEMLOCK is too low");
    TRY(open_seal(s, reason));
    TRY(open_tls(s, reason));
    TRY(open_data_dir(c, reason));
    metrics_start(s);
    node_options_of(c, s);
    router_of(s);
    TRY(crypto_random(seed, sizeof seed));
    TRY(quota_table_new(seed, &s->host.quotas));
    config_show(c, &s->shown);
    TRY(buf_status(&s->shown));
    s->host.configuration = buf_bytes(&s->shown);
    return loop_new(NULL, &s->env);
}

static void wind_down(struct server *s)
{
    for (unsigned i = 0; i < s->n_workers; i++)
        worker_drain(&s->workers[i]);
    node_stop(s->node); /* what workers proposed by themselves ends here, and they hear of it */
    for (unsigned i = 0; i < s->n_workers; i++)
        worker_stop(&s->workers[i]);
    node_free(s->node);
}

static void on_signal_closed(uv_handle_t *handle)
{
    (void)handle; /* lives on the stack of serve() */
}

static int serve(struct server *s)
{
    static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
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
    loop_run(s->env);
    wind_down(s);
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        uv_close((uv_handle_t *)&signals[i], on_signal_closed);
        (void)signal(numbers[i], SIG_IGN); /* it ends already, and in order */
    }
    loop_free(s->env);
    return EXIT_SUCCESS;
}

int server_run(const struct config *config)
{
    static struct server s; /* one a process; too large for a stack */
    struct reason reason = {{0}};
    ending_say_signals();
    s.config = config;
    trace_set_node(config->node_name);
    trace_set_level(reload_level_of(config->log_level));
    forbid_dumps();
    raise_descriptors();
    enum status st = prepare(&s, &reason);
    if (st != ST_OK) {
        say(reason.text[0] != '\0' ? reason.text : status_text(st));
        return EXIT_FAILURE;
    }
    int code = serve(&s);
    for (unsigned i = 0; i < ARRAY_LEN(s.tls); i++)
        tls_ctx_unref(s.tls[i]);
    quota_table_free(s.host.quotas);
    buf_done(&s.shown);
    seal_done(&s.seal);
    return code;
}
