#include "router/worker.h"
#include "auth/acl_cache.h"
#include "auth/token_cache.h"
#include "base/mem.h"
#include "router/mount_cache.h"
#include "router/quota.h"

enum { INFLIGHT_DEFAULT = 16384 };

static void find_longs(struct router_worker *worker, const struct router_options *options)
{
    for (size_t i = 0; i < options->n_apis; i++) {
        const struct route_api *api = options->apis[i];
        const struct route *route;
        for (size_t j = 0; api->prefix != NULL && (route = route_at(api, j)) != NULL; j++) {
            if ((route->flags & (ROUTE_LONG | ROUTE_UPLOAD)) == 0)
                continue;
            ASSERT(worker->n_longs < WORKER_LONG_MAX);
            worker->longs[worker->n_longs++] = (struct long_route){api, route};
        }
    }
}

enum status router_worker_new(const struct router *router, struct env *env, struct state *state,
                              struct router_worker **ret_worker)
{
    const struct router_options *options = &router->options;
    ASSERT(options->host != NULL && options->n_apis != 0);
    struct router_worker *worker = mem_zalloc(sizeof *worker);
    if (worker == NULL)
        return ST_NOMEM;
    worker->router = router;
    worker->env = env;
    list_init(&worker->calls_under_way);
    if (state != NULL)
        router_worker_begin(worker, state);
    worker->inflight_max =
        options->inflight_max != 0 ? options->inflight_max : (unsigned)INFLIGHT_DEFAULT;
    if (acl_cache_new(env, &worker->acls) != ST_OK || token_cache_new(&worker->tokens) != ST_OK ||
        mount_cache_new(&worker->mounts) != ST_OK ||
        quotas_new(options->host->quotas, &worker->quotas) != ST_OK) {
        router_worker_free(worker);
        return ST_NOMEM;
    }
    find_longs(worker, options);
    audit_init(&worker->audit);
    *ret_worker = worker;
    return ST_OK;
}

void router_worker_begin(struct router_worker *worker, struct state *state)
{
    ASSERT(worker->state == NULL && state != NULL);
    worker->state = state;
    worker->seat = state_seat(state);
}

void router_worker_free(struct router_worker *worker)
{
    if (worker == NULL)
        return;
    ASSERT(worker->running == 0);
    acl_cache_free(worker->acls);
    token_cache_free(worker->tokens);
    mount_cache_free(worker->mounts);
    quotas_free(worker->quotas);
    mem_free(worker);
}

struct audit *router_worker_audit(struct router_worker *worker)
{
    return &worker->audit;
}

unsigned router_worker_running(const struct router_worker *worker)
{
    return worker->running;
}

void router_worker_counters(const struct router_worker *worker,
                            struct router_counters *ret_counters)
{
    *ret_counters = (struct router_counters){
        .calls = atomic_load(&worker->calls),
        .forwards = atomic_load(&worker->forwards),
        .reruns = atomic_load(&worker->reruns),
        .refused = atomic_load(&worker->refused),
        .parsed_bytes = atomic_load(&worker->parsed_bytes),
    };
}
