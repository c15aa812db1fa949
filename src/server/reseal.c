/* The request by which the active node changes the key of a static seal (node/reseal.h). It takes
 * the way of every request, so audit devices record it before it takes effect. A timer of the first
 * worker makes it, one at a time.
 *
 *   IDLE ──due──▶ RUNNING ──reply──▶ IDLE */
#include "base/mem.h"
#include "base/trace.h"
#include "router/request/dialect.h"
#include "server/server.h"

enum { LOOK_MS = 500, AGAIN_MS = 5000 };

struct reseal_request {
    struct worker *worker;
    struct arena arena;
    struct router_request request;
};

static bool no_header(const struct router_request *request, const char *name, size_t *at,
                      struct bytes *ret_value)
{
    (void)request, (void)name, (void)at, (void)ret_value; /* the request has no header */
    return false;
}

static void reseal_free(struct reseal_request *r)
{
    if (r != NULL)
        arena_done(&r->arena);
    mem_free(r);
}

static void look_in(struct worker *w, uint64_t ms)
{
    env_timer_set(w->env, &w->reseal_timer, env_mono_ms(w->env) + ms);
}

static void on_resealed(struct router_request *request, struct router_reply *reply)
{
    struct reseal_request *r = CONTAINER_OF(request, struct reseal_request, request);
    struct worker *w = r->worker;
    int http = reply->retry == ST_OK ? reply->http : 503;
    ASSERT(w->resealing);
    reply_done(reply);
    reseal_free(r);
    w->resealing = false;
    if (http >= 300)
        trace(TRACE_WARN, "main", "the key of the seal was not changed: reply %d; trying again",
              http);
    if (!w->reseal_over)
        look_in(w, http >= 300 ? AGAIN_MS : LOOK_MS);
}

static struct reseal_request *reseal_new(struct worker *w)
{
    struct reseal_request *r = mem_zalloc(sizeof *r);
    struct path_target target;
    ASSERT(w->router != NULL && w == &w->server->workers[0]);
    if (r == NULL)
        return NULL;
    r->worker = w;
    const char *path = arena_concat(&r->arena, router_home(w->router)->root, "sys/seal/rewrap");
    if (path == NULL || path_canonical(&r->arena, bytes_str(path), &target) != ST_OK) {
        reseal_free(r);
        return NULL;
    }
    r->request = (struct router_request){.method = METHOD_POST,
                                         .target = target,
                                         .arena = &r->arena,
                                         .peer = w->server->config->cluster.advertise,
                                         .forwarded = true, /* no node sends it on */
                                         .member = w->server->config->node_name,
                                         .no_header = UINT64_MAX,
                                         .header_next = no_header,
                                         .respond = on_resealed};
    return r;
}

static void on_look(struct env_timer *timer)
{
    struct worker *w = CONTAINER_OF(timer, struct worker, reseal_timer);
    struct reseal_request *r = node_reseal_is_due(w->server->node) ? reseal_new(w) : NULL;
    ASSERT(!w->resealing);
    if (r == NULL) { /* not due, or out of memory */
        look_in(w, LOOK_MS);
        return;
    }
    w->resealing = true;
    router_place(w->router, &r->request, NULL);
    router_handle(w->router, &r->request); /* `r` may be gone */
}

void reseal_watch(struct worker *w)
{
    const struct seal *seal = w->server->node_options.seal;
    if (w != &w->server->workers[0] || seal == NULL || seal->previous == NULL)
        return;
    w->reseal_timer = (struct env_timer){.fire = on_look};
    look_in(w, LOOK_MS);
}

void reseal_unwatch(struct worker *w)
{
    w->reseal_over = true;
    if (w == &w->server->workers[0])
        env_timer_stop(w->env, &w->reseal_timer);
}
