/* New requests: a refused request gets its reply at once, any other becomes a pipe. */
#include "router/pipeline/pipe_phases.h"
#include "text/random.h"

/* Reply at once when there is no memory for a pipe. */
static void refuse_early(struct router_request *request, enum status st)
{
    struct router_reply reply = {0};
    if (request->resumed != NULL)
        router_parked_drop(request->resumed);
    request->resumed = NULL;
    if (request->forwarded && request->again) /* an earlier try may have taken effect */
        reply.retry = ST_UNKNOWN_OUTCOME;
    else
        reply_error(&reply, request->dialect, st, NULL);
    request->respond(request, &reply);
    buf_done(&reply.body);
}

void router_reply(struct router_worker *worker, struct router_request *request,
                  struct router_reply *reply)
{
    atomic_fetch_add(&worker->requests, 1);
    request->respond(request, reply);
    buf_done(&reply->body);
}

static void make_request_id(struct router_worker *worker, char ret_id[TEXT_UUID_LEN + 1])
{
    if (worker->n_ids == 0) {
        env_random(worker->env, worker->ids, sizeof worker->ids);
        worker->n_ids = WORKER_IDS;
    }
    text_uuid_of(worker->ids[--worker->n_ids], ret_id);
}

/* Set the members of `p`, except the members that a phase sets before it waits. */
static void init_pipe(struct pipe *p, struct router_worker *worker, struct router_request *request,
                      uint64_t now_ns)
{
    memset(p, 0, offsetof(struct pipe, work));
    p->worker = worker;
    p->request = request;
    p->begun_ns = now_ns;
    p->begun_ms = now_ns / 1000000;
    p->deadline_ms = p->begun_ms + PIPE_PATIENCE_MS;
    struct req *req = &p->req;
    req->arena = request->arena;
    req->peer = request->peer;
    req->left = &request->left;
    req->member = request->member;
    req->dialect = request->dialect;
    req->token_kind = request->dialect->token_kind;
    req->env = worker->env;
    req->cipher = worker->cipher;
    req->tokens = worker->tokens;
    req->identities = worker->identities;
    req->acls = worker->acls[req->token_kind];
    req->mounts = worker->mounts;
    req->lease_quotas = worker->lease_quotas;
    req->docs = &worker->docs;
    req->host = worker->router->options.host;
    req->router = worker->router;
    req->method = request->method;
}

/* Apply the front's verdict, then find the path of the request and apply its quota. */
static enum pipe_phase arrive(struct pipe *p)
{
    struct router_worker *worker = p->worker;
    struct router_request *request = p->request;
    const struct router_verdict *verdict = request->verdict;
    bool preflight = verdict != NULL && verdict->preflight;
    ASSERT(p->phase == PIPE_ARRIVED);
    enum status st = verdict != NULL ? verdict->st : ST_OK;
    if (st != ST_OK && verdict->why != NULL)
        reason_set(req_reason(&p->req), "%s", verdict->why);
    if (st == ST_OK && !preflight)
        st = stage_target(&p->req, worker->router, request);
    const struct parked *parked = pipe_resumed(p);
    if (st == ST_OK && parked != NULL && parked->why == PARKED_ALONE)
        st = ST_NO_LEADER;
    if (st == ST_OK && !preflight && parked == NULL) /* a resumed request was counted before */
        st = quota_judge(worker->quotas, worker->state, request, &p->req, p->begun_ms, &p->quota);
    p->unrecorded = preflight || p->quota.unrecorded;
    if (st != ST_OK)
        return pipe_fail(p, st);
    if (!preflight)
        return PIPE_CHOOSING;
    p->reply.http = 200;
    return pipe_end(p);
}

void router_handle(struct router_worker *worker, struct router_request *request)
{
    ASSERT(request->dialect != NULL);
    if (request->resumed == NULL)
        atomic_fetch_add(&worker->requests, 1);
    if (worker->running >= worker->inflight_max) {
        atomic_fetch_add(&worker->refused, 1);
        refuse_early(request, ST_BUSY);
        return;
    }
    struct pipe *p = arena_alloc(request->arena, sizeof *p);
    char *request_id = arena_alloc(request->arena, TEXT_UUID_LEN + 1);
    if (p == NULL || request_id == NULL) {
        refuse_early(request, ST_NOMEM);
        return;
    }
    worker->running++;
    make_request_id(worker, request_id);
    uint64_t now_ns = env_mono_ns(worker->env);
    init_pipe(p, worker, request, now_ns);
    p->req.request_id = request_id;
    list_push(&worker->requests_under_way, &p->link);
    pipe_go(p, arrive(p));
}

static void place(const struct router_worker *worker, struct router_request *request,
                  const struct dialect *dialect)
{
    ASSERT(request->dialect == NULL && dialect != NULL);
    request->dialect = dialect;
    request->foreign = dialect != worker->dialects.home;
    path_set_root(&request->target, dialect->root);
}

void router_place(struct router_worker *worker, struct router_request *request,
                  const struct dialect_map *dialects)
{
    const struct dialect_map *map = dialects != NULL ? dialects : &worker->dialects;
    const struct dialect *dialect = dialect_find(map, request->target.full);
    place(worker, request, dialect == map->home ? dialect_of_client(map, request) : dialect);
}

bool router_place_forwarded(struct router_worker *worker, struct router_request *request,
                            struct bytes name)
{
    const struct dialect *home = worker->dialects.home;
    const struct dialect *dialect = name.len != 0 ? dialect_named(&worker->dialects, name) : home;
    place(worker, request, dialect != NULL ? dialect : home);
    return dialect != NULL;
}

enum status router_choose(const struct router_worker *worker, const char *const *names, size_t n,
                          struct dialect_map *ret_map, size_t *ret_unknown)
{
    return dialect_map_choose(&worker->dialects, names, n, ret_map, ret_unknown);
}

const struct dialect *router_home(const struct router_worker *worker)
{
    return worker->dialects.home;
}

enum status router_give_up(struct router_request *request)
{
    bool unknown = request->unsettled && !planted(PLANT_GAVE_UP_TOO_LATE);
    request->given_up = unknown ? ST_UNKNOWN_OUTCOME : ST_TIMEOUT;
    return request->given_up;
}

bool router_is_long(struct router_worker *worker, const struct router_request *request,
                    uint64_t *ret_upload_bytes_max)
{
    struct route_found found;
    struct bytes path = request->target.path;
    if (path.data == NULL || route_find(worker->router->index, request->dialect, request->method,
                                        path, NULL, &found) != ST_OK)
        return false;
    const struct router_host *host = worker->router->options.host;
    bool uploads = found.route->input == INPUT_UPLOAD;
    *ret_upload_bytes_max = !uploads ? 0
                            : found.route->upload_bytes_max != NULL
                                ? found.route->upload_bytes_max(host)
                                : host->upload_bytes_max;
    return uploads || (found.route->flags & ROUTE_LONG) != 0;
}
