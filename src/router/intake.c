/* Calls as they come in: refusals are answered at once, the others become pipes. */
#include "router/pipe.h"
#include "text/random.h"

/* Without room for a pipe: answer at once. */
static void refuse(struct router_call *call, enum status st)
{
    struct router_answer answer = {0};
    if (call->forwarded && call->again) /* an earlier try may have taken effect */
        answer.retry = ST_UNKNOWN_OUTCOME;
    else
        answer_error(&answer, call->dialect, st, NULL);
    call->respond(call, &answer);
    buf_done(&answer.body);
}

void router_answer(struct router_worker *worker, struct router_call *call,
                   struct router_answer *answer)
{
    atomic_fetch_add(&worker->calls, 1);
    call->respond(call, answer);
    buf_done(&answer->body);
}

static void make_request_id(struct router_worker *worker, char ret_id[TEXT_UUID_LEN + 1])
{
    if (worker->n_ids == 0) {
        env_random(worker->env, worker->ids, sizeof worker->ids);
        worker->n_ids = WORKER_IDS;
    }
    text_uuid_of(worker->ids[--worker->n_ids], ret_id);
}

/* All of `p` but the members that phases set before they wait. */
static void init_pipe(struct pipe *p, struct router_worker *worker, struct router_call *call,
                      uint64_t now_ns)
{
    memset(p, 0, offsetof(struct pipe, work));
    p->worker = worker;
    p->call = call;
    p->begun_ns = now_ns;
    p->begun_ms = now_ns / 1000000;
    p->deadline_ms = p->begun_ms + PIPE_PATIENCE_MS;
    struct req *req = &p->req;
    req->arena = call->arena;
    req->peer = call->peer;
    req->dialect = call->dialect;
    req->env = worker->env;
    req->cipher = worker->cipher;
    req->tokens = worker->tokens;
    req->acls = worker->acls;
    req->mounts = worker->mounts;
    req->docs = &worker->docs;
    req->host = worker->router->options.host;
    req->router = worker->router;
}

/* Find path and quota of a call that the front lets in. */
static enum pipe_phase arrive(struct pipe *p)
{
    struct router_worker *worker = p->worker;
    struct router_call *call = p->call;
    const struct router_verdict *verdict = call->verdict;
    bool preflight = verdict != NULL && verdict->preflight;
    enum status st = verdict != NULL ? verdict->st : ST_OK;
    if (st != ST_OK && verdict->why != NULL)
        reason_set(&p->req.error, "%s", verdict->why);
    if (st == ST_OK && !preflight)
        st = stage_target(&p->req, worker->router, call);
    if (st == ST_OK && !preflight)
        st = quota_judge(worker->quotas, worker->state, call, &p->req, p->begun_ms, &p->quota);
    if (st != ST_OK)
        return pipe_fail(p, st);
    if (!preflight)
        return PIPE_CHOOSING;
    p->answer.http = 200;
    return pipe_end(p);
}

void router_handle(struct router_worker *worker, struct router_call *call)
{
    ASSERT(call->dialect != NULL);
    atomic_fetch_add(&worker->calls, 1);
    if (worker->running >= worker->inflight_max) {
        atomic_fetch_add(&worker->refused, 1);
        refuse(call, ST_BUSY);
        return;
    }
    struct pipe *p = arena_alloc(call->arena, sizeof *p);
    char *request_id = arena_alloc(call->arena, TEXT_UUID_LEN + 1);
    if (p == NULL || request_id == NULL) {
        refuse(call, ST_NOMEM);
        return;
    }
    worker->running++;
    make_request_id(worker, request_id);
    uint64_t now_ns = env_mono_ns(worker->env);
    init_pipe(p, worker, call, now_ns);
    p->req.request_id = request_id;
    list_push(&worker->calls_under_way, &p->link);
    pipe_go(p, arrive(p));
}

void router_place(struct router_worker *worker, struct router_call *call)
{
    ASSERT(call->dialect == NULL);
    call->dialect = worker->one_dialect ? worker->home
                                        : dialect_find(&worker->router->options.modules,
                                                       worker->home, call->target.full);
    path_set_root(&call->target, call->dialect->root);
}

const struct dialect *router_home(const struct router_worker *worker)
{
    return worker->home;
}

enum status router_give_up(struct router_call *call)
{
    call->given_up = true;
    return call->unsettled ? ST_UNKNOWN_OUTCOME : ST_TIMEOUT;
}

/* Whether a route, which has no parameters, is the one for a call. */
static bool is_for(const struct long_route *is, struct bytes path, enum http_method method)
{
    return path.len == is->path_len && bytes_has_prefix(path, bytes_str(is->api->prefix)) &&
           text_is(bytes_from(path, strlen(is->api->prefix)), is->route->path) &&
           route_takes(is->route, method);
}

bool router_is_long(struct router_worker *worker, const struct router_call *call,
                    uint64_t *ret_upload_bytes_max)
{
    uint64_t upload_bytes_max = worker->router->options.host->upload_bytes_max;
    struct bytes path = path_trimmed(call->target.path); /* as routes are matched (route.h) */
    for (unsigned i = 0; i < worker->n_longs; i++) {
        const struct long_route *is = &worker->longs[i];
        if (is->api->dialect != call->dialect || !is_for(is, path, call->method))
            continue;
        *ret_upload_bytes_max = (is->route->flags & ROUTE_UPLOAD) != 0 ? upload_bytes_max : 0;
        return true;
    }
    return false;
}
