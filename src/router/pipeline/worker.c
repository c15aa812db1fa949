#include "router/pipeline/worker.h"
#include "auth/acl_cache.h"
#include "auth/identity/identity.h"
#include "auth/registry/registry_settings.h"
#include "auth/token_cache.h"
#include "base/mem.h"
#include "mount/mount_cache.h"
#include "router/quota.h"
#include "router/quota_lease.h"
#include "router/request/dialect.h"

enum { INFLIGHT_DEFAULT = 16384 };

enum status router_init(struct router *router, const struct router_options *options,
                        struct reason *why)
{
    ASSERT(options->host != NULL && options->modules.n != 0);
    router->options = *options;
    return route_index_new(&options->modules, why, &router->index);
}

void router_done(struct router *router)
{
    route_index_free(router->index);
    router->index = NULL;
}

static enum status acls_new(struct router_worker *worker)
{
    const struct registry_settings *registry = registry_settings();
    worker->registry_acls = registry_kind(registry->datacenter,
                                          registry->default_allow ? REGISTRY_WRITE : REGISTRY_DENY);
    TRY(acl_cache_new(worker->env, &acl_secrets, &worker->acls[TOKEN_SECRETS]));
    return acl_cache_new(worker->env, &worker->registry_acls.kind, &worker->acls[TOKEN_REGISTRY]);
}

enum status router_worker_new(const struct router *router, struct env *env, struct state *state,
                              struct router_worker **ret_worker)
{
    const struct router_options *options = &router->options;
    ASSERT(options->host != NULL && options->modules.n != 0);
    struct router_worker *worker = mem_zalloc(sizeof *worker);
    if (worker == NULL)
        return ST_NOMEM;
    worker->router = router;
    dialect_map_init(&worker->dialects, &options->modules);
    worker->env = env;
    audit_init(&worker->audit, env);
    list_init(&worker->requests_under_way);
    parking_init(&worker->parking, worker);
    if (state != NULL)
        router_worker_begin(worker, state);
    worker->inflight_max =
        options->inflight_max != 0 ? options->inflight_max : (unsigned)INFLIGHT_DEFAULT;
    if (acls_new(worker) != ST_OK || token_cache_new(&worker->tokens) != ST_OK ||
        identity_cache_new(&worker->identities) != ST_OK ||
        mount_cache_new(&worker->mounts) != ST_OK ||
        quotas_new(options->host->quotas, &worker->quotas) != ST_OK ||
        lease_quotas_new(&worker->lease_quotas) != ST_OK) {
        router_worker_free(worker);
        return ST_NOMEM;
    }
    *ret_worker = worker;
    return ST_OK;
}

void router_worker_begin(struct router_worker *worker, struct state *state)
{
    ASSERT(worker->state == NULL && state != NULL);
    worker->state = state;
    worker->cipher = state_cipher(state);
    if (parking_begin(&worker->parking, state) != ST_OK)
        trace(TRACE_ERROR, "router", "out of memory: blocking requests of a worker do not wait");
}

void router_worker_free(struct router_worker *worker)
{
    if (worker == NULL)
        return;
    ASSERT(worker->running == 0);
    parking_done(&worker->parking);
    audit_done(&worker->audit);
    for (size_t i = 0; i < ARRAY_LEN(worker->acls); i++)
        acl_cache_free(worker->acls[i]);
    token_cache_free(worker->tokens);
    identity_cache_free(worker->identities);
    mount_cache_free(worker->mounts);
    openapi_cache_done(&worker->docs);
    quotas_free(worker->quotas);
    lease_quotas_free(worker->lease_quotas);
    mem_free(worker);
}

unsigned router_worker_offers(const struct router_worker *worker)
{
    return worker->audit.outstanding;
}

struct router_host *router_worker_host(const struct router_worker *worker)
{
    return worker->router->options.host;
}

struct state *router_worker_state(const struct router_worker *worker)
{
    return worker->state;
}

unsigned router_worker_running(const struct router_worker *worker)
{
    return worker->running;
}

const char *router_class_name(enum router_class class)
{
    static const char *const names[ROUTER_CLASSES] = {
        [ROUTER_READ] = "read", [ROUTER_LIST] = "list",           [ROUTER_WRITE] = "write",
        [ROUTER_NODE] = "node", [ROUTER_FORWARDED] = "forwarded", [ROUTER_LONG] = "long"};
    ASSERT(class < ROUTER_CLASSES);
    return names[class];
}

void router_worker_counters(const struct router_worker *worker,
                            struct router_counters *ret_counters)
{
    *ret_counters = (struct router_counters){
        .requests = atomic_load(&worker->requests),
        .forwards = atomic_load(&worker->forwards),
        .reruns = atomic_load(&worker->reruns),
        .refused = atomic_load(&worker->refused),
        .parsed_bytes = atomic_load(&worker->parsed_bytes),
    };
    parking_counters(&worker->parking, &ret_counters->parked);
    for (unsigned i = 0; i < ROUTER_CLASSES; i++)
        histogram_sum_add(&ret_counters->latency[i], &worker->latency[i]);
}
