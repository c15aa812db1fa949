/* Calls as they come in: probes and refusals are answered at once, the others become pipes. */
#include "router/pipe.h"
#include "router/probe.h"

/* Without room for a pipe: answer at once. */
static void refuse(struct router_call *call, enum status st)
{
    struct router_answer answer = {0};
    answer_error(&answer, st, NULL);
    call->respond(call, &answer);
    buf_done(&answer.body);
}

/* Probes need no room for a pipe. */
static bool probed(struct router_host *host, struct router_call *call)
{
    struct router_answer answer = {0};
    if (call->forwarded || !probe_answer(host, call, &answer))
        return false;
    call->respond(call, &answer);
    buf_done(&answer.body);
    return true;
}

static void make_request_id(struct router_worker *worker, char ret_id[AUTH_UUID_LEN + 1])
{
    if (worker->n_ids == 0) {
        env_random(worker->env, worker->ids, sizeof worker->ids);
        worker->n_ids = WORKER_IDS;
    }
    auth_uuid_of(worker->ids[--worker->n_ids], ret_id);
}

void router_handle(struct router_worker *worker, struct router_call *call)
{
    const struct router *router = worker->router;
    atomic_fetch_add(&worker->calls, 1);
    if (probed(router->options.host, call))
        return;
    if (worker->running >= worker->inflight_max) {
        atomic_fetch_add(&worker->refused, 1);
        refuse(call, ST_BUSY);
        return;
    }
    struct pipe *p = arena_alloc(call->arena, sizeof *p);
    char *request_id = arena_alloc(call->arena, AUTH_UUID_LEN + 1);
    if (p == NULL || request_id == NULL) {
        refuse(call, ST_NOMEM);
        return;
    }
    worker->running++;
    make_request_id(worker, request_id);
    *p = (struct pipe){.worker = worker,
                       .call = call,
                       .begun_ms = env_mono_ms(worker->env),
                       .req = {.arena = call->arena,
                               .env = worker->env,
                               .seat = worker->seat,
                               .tokens = worker->tokens,
                               .acls = worker->acls,
                               .mounts = worker->mounts,
                               .host = router->options.host,
                               .router = router,
                               .request_id = request_id}};
    list_push(&worker->calls_under_way, &p->link);
    p->deadline_ms = p->begun_ms + PIPE_PATIENCE_MS;
    enum status st = cors_judge(worker->state, call, &p->cors, &p->req.error);
    if (st == ST_OK && !p->cors.preflight)
        st = stage_target(&p->req, router, call);
    if (st == ST_OK && !p->cors.preflight)
        st = quota_judge(worker->quotas, worker->state, call, p->req.path, p->begun_ms, &p->quota,
                         &p->req.error);
    if (st != ST_OK) {
        pipe_fail(p, st);
    } else if (p->cors.preflight) {
        p->answer.http = 200;
        pipe_finish(p);
    } else {
        pipe_choose(p);
    }
}

enum status router_give_up(struct router_call *call)
{
    call->given_up = true;
    return call->unsettled ? ST_UNKNOWN_OUTCOME : ST_TIMEOUT;
}

/* Whether `route` of `api` is the one for a call, byte by byte: no pattern, no other spelling. */
static bool is_for(const struct route_api *api, const struct route *route,
                   const struct router_call *call)
{
    struct bytes rest = bytes_from(call->path, MIN(call->path.len, sizeof "/v1/" - 1));
    size_t prefix = strlen(api->prefix);
    bool put = call->method == METHOD_PUT && route->method == METHOD_POST;
    return (put || call->method == route->method) && bytes_has_prefix(call->path, BYTES("/v1/")) &&
           bytes_has_prefix(rest, bytes_str(api->prefix)) &&
           bytes_eq(bytes_from(rest, prefix), bytes_str(route->path));
}

bool router_is_long(struct router_worker *worker, const struct router_call *call,
                    uint64_t *ret_upload_bytes_max)
{
    uint64_t upload_bytes_max = worker->router->options.host->upload_bytes_max;
    for (unsigned i = 0; i < worker->n_longs; i++) {
        const struct long_route *is = &worker->longs[i];
        if (!is_for(is->api, is->route, call))
            continue;
        *ret_upload_bytes_max = (is->route->flags & ROUTE_UPLOAD) != 0 ? upload_bytes_max : 0;
        return true;
    }
    return false;
}
