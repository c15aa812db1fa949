/* Choosing where a call runs, and the calls that need no state. */
#include "auth/token_cache.h"
#include "router/body.h"
#include "router/mount_cache.h"
#include "router/pipe.h"

static enum status read_plain(struct pipe *p)
{
    struct req *req = &p->req;
    if (req->others.methods != 0) /* refused, whatever it says */
        return ST_UNSUPPORTED;
    if (p->call->body.len > BODY_FREE_MAX)
        return ST_TOO_BIG;
    TRY(body_parse(req->arena, req->method, p->call->body, router_header(p->call, "content-type"),
                   req->query, &req->data, &req->error));
    return body_decode(req);
}

/* A route about the node that needs no state. What it does outside comes before its answer: there
 * is no transaction that would have to end first. */
static void run_plain(struct pipe *p)
{
    struct req *req = &p->req;
    enum status st = read_plain(p);
    if (st == ST_OK)
        st = req->route->handler(req);
    if (st == ST_OK && req->route->outside != NULL) {
        p->plain = true;
        pipe_start_outside(p);
        return;
    }
    (void)answer_make(req, st, &p->answer); /* the answer says it */
    pipe_finish(p);
}

enum place { PLACE_PLAIN, PLACE_HERE, PLACE_ACTIVE_NODE, PLACE_NOWHERE };

/* Where a request runs: here without or with the state, on the active node, or nowhere yet. */
static enum place place_of(const struct req *req, const struct node_brief *node)
{
    unsigned flags = req->route != NULL ? req->route->flags : 0;
    if ((flags & ROUTE_NODE) != 0 && req->route->auth == AUTH_NONE)
        return PLACE_PLAIN;
    if ((flags & ROUTE_LEADER) != 0 && !node->removed)
        return node->leads ? PLACE_HERE : PLACE_ACTIVE_NODE;
    if (!node->initialized || node->sealed || node->removed)
        return PLACE_NOWHERE;
    if (node->active || (flags & ROUTE_NODE) != 0)
        return PLACE_HERE;
    bool reads_here = node->perf_standby && stage_reads(req) && (flags & ROUTE_ACTIVE) == 0;
    return reads_here ? PLACE_HERE : PLACE_ACTIVE_NODE;
}

/* What was decrypted before does not stay in memory. */
static void refuse_sealed(struct pipe *p)
{
    if (p->node.removed)
        reason_set(&p->req.error, "this node was removed from the cluster and serves nothing");
    else if (p->worker->state == NULL)
        reason_set(&p->req.error, "this node is in no cluster yet: it waits for "
                                  "sys/storage/raft/join");
    token_cache_clear(p->worker->tokens);
    acl_cache_clear(p->worker->acls);
    mount_cache_clear(p->worker->mounts);
    pipe_fail(p, ST_SEALED);
}

/* Other nodes' requests go on: it is this node's clients that are turned away. */
static bool in_maintenance(const struct pipe *p)
{
    return p->req.host->maintenance && !p->call->forwarded &&
           !pipe_has_flag(p, ROUTE_NODE | ROUTE_OPERATOR);
}

void pipe_choose(struct pipe *p)
{
    struct router_host *host = p->req.host;

    pipe_move(p, PIPE_CHOOSING);
    p->judging = false;
    p->node = host->brief(host);
    if (in_maintenance(p)) {
        reason_set(&p->req.error, "this node is in maintenance");
        pipe_fail(p, ST_BUSY);
        return;
    }
    enum place place = place_of(&p->req, &p->node);
    if (place != PLACE_PLAIN && p->worker->state == NULL)
        place = PLACE_NOWHERE;
    bool upload = pipe_has_flag(p, ROUTE_UPLOAD) && p->call->receive != NULL;
    if (p->call->streamed && !upload && (place == PLACE_PLAIN || place == PLACE_HERE)) {
        reason_set(&p->req.error, "this node became active while the request came in: nothing was "
                                  "done, send it again");
        pipe_fail(p, ST_NO_LEADER);
        return;
    }
    switch (place) {
    case PLACE_PLAIN: run_plain(p); break;
    case PLACE_HERE: pipe_begin(p); break;
    case PLACE_ACTIVE_NODE: pipe_send_on(p); break;
    case PLACE_NOWHERE: refuse_sealed(p); break;
    }
}

bool router_sends_on(struct router_worker *worker, const struct router_call *call)
{
    const struct router *router = worker->router;
    struct router_host *host = router->options.host;
    struct req req = {.arena = call->arena, .env = worker->env, .host = host};
    if (call->forwarded || worker->state == NULL || stage_target(&req, router, call) != ST_OK)
        return false; /* what is wrong with it is said here */
    const struct node_brief node = host->brief(host);
    return place_of(&req, &node) == PLACE_ACTIVE_NODE;
}
