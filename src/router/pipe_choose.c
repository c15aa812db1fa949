/* Choosing where a call runs, and the calls that need no state. */
#include "auth/token_cache.h"
#include "mount/mount_cache.h"
#include "router/body.h"
#include "router/pipe.h"

static enum status read_plain(struct pipe *p)
{
    struct req *req = &p->req;
    if (req->others.methods != 0) /* refused, whatever it says */
        return ST_UNSUPPORTED;
    if (p->call->body.len > BODY_FREE_MAX || p->call->streamed)
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
    req->closed_ceremonies = p->call->closed_ceremonies;
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

/* Where a request runs: here without or with the state, on the active node, or nowhere yet.
 * Metrics that need no token need no state either: a sealed node shows that it is sealed. */
static enum place place_of(const struct req *req, const struct router_call *call,
                           const struct node_brief *node)
{
    unsigned flags = req->route != NULL ? req->route->flags : 0;
    bool open = (flags & ROUTE_OPEN_METRICS) != 0 && call->open_metrics;
    if ((flags & ROUTE_NODE) != 0 && (req->route->auth == AUTH_NONE || open))
        return PLACE_PLAIN;
    if ((flags & ROUTE_LEADER) != 0 && !node->removed)
        return node->leads ? PLACE_HERE : PLACE_ACTIVE_NODE;
    if (!node->initialized || node->sealed || node->removed)
        return PLACE_NOWHERE;
    bool local = (flags & ROUTE_LOCAL) != 0 && node->no_quorum && !call->forwarded;
    if (node->active || (flags & ROUTE_NODE) != 0 || local)
        return PLACE_HERE;
    bool reads_here = node->perf_standby && stage_reads(req) && (flags & ROUTE_ACTIVE) == 0;
    return reads_here ? PLACE_HERE : PLACE_ACTIVE_NODE;
}

/* This node forms a cluster with others, or has just done so and its workers are about to get the
 * state. A request that would change the cluster is held until then, for as long as it would wait
 * for an active node; any other is told whom the node waits for. */
static bool awaits_members(struct pipe *p)
{
    struct reason why;
    if (p->worker->state != NULL || pipe_has_flag(p, ROUTE_UNFOUNDED))
        return false;
    bool forming = p->req.host->awaits_members(p->req.host, &why);
    bool held = pipe_has_flag(p, ROUTE_LEADER) && !stage_reads(&p->req) && !p->node.removed;
    if (held && (forming || !p->node.waits)) {
        pipe_wait(p, ST_UNINITIALIZED);
    } else if (forming) {
        p->req.error = why;
        pipe_fail(p, ST_UNINITIALIZED);
    } else {
        return false;
    }
    return true;
}

static void refuse_uninitialized(struct pipe *p)
{
    bool restores = pipe_has_flag(p, ROUTE_UPLOAD);
    reason_set(&p->req.error, "Vault is sealed: the cluster is not initialised; initialise it%s",
               restores ? " first, then restore with force: the snapshot's keys and tokens "
                          "replace those of the initialisation"
                        : " (operator init)");
    pipe_fail(p, ST_SEALED);
}

/* Refuse: the node is sealed. Data decrypted before does not stay in memory. */
static void refuse_sealed(struct pipe *p)
{
    struct reason why;
    if (p->node.removed)
        reason_set(&p->req.error, "this node was removed from the cluster and serves nothing");
    else if (p->worker->state == NULL)
        reason_set(&p->req.error, "%s",
                   p->node.waits
                       ? "this node is in no cluster yet: it waits for sys/storage/raft/join"
                       : "this node is starting");
    else if (!p->node.initialized) {
        refuse_uninitialized(p);
        return;
    } else if (p->req.host->node_ops->no_quorum(p->req.host->node, &why))
        reason_set(&p->req.error, "Vault is sealed; %s", why.text);
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

/* How the body comes was decided with the head, before the route was known. False: the call was
 * answered. */
static bool arrived_as_needed(struct pipe *p)
{
    if (!pipe_has_flag(p, ROUTE_UPLOAD) || (p->call->streamed && p->call->receive != NULL))
        return true;
    reason_set(&p->req.error, "the body of this request cannot be received here");
    pipe_fail(p, ST_INTERNAL);
    return false;
}

static void go_on(struct pipe *p)
{
    if (!pipe_is_unread(p) && p->elsewhere)
        pipe_forward(p);
    else if (!pipe_is_unread(p))
        pipe_begin(p);
    else if (pipe_has_flag(p, ROUTE_LEADER)) /* needs no token, and perhaps there is no state */
        pipe_fail(p, ST_TOO_BIG);
    else if (p->judged)
        pipe_take_body(p);
    else
        pipe_judge(p);
}

void pipe_choose(struct pipe *p)
{
    struct router_host *host = p->req.host;

    pipe_move(p, PIPE_CHOOSING);
    p->judging = false;
    if (pipe_has_flag(p, ROUTE_OPEN_METRICS))
        p->req.accept = router_header(p->call, "accept");
    if (pipe_has_flag(p, ROUTE_TOKEN_OPTIONAL))
        p->req.accept_encoding = router_header(p->call, "accept-encoding");
    p->node = host->node_ops->brief(host->node);
    if (in_maintenance(p)) {
        reason_set(&p->req.error, "this node is in maintenance");
        pipe_fail(p, ST_BUSY);
        return;
    }
    if (awaits_members(p))
        return;
    if (p->worker->state == NULL && p->call->forwarded) {
        pipe_hand_back(p, ST_NOT_LEADER);
        return;
    }
    enum place place = place_of(&p->req, p->call, &p->node);
    p->local = place == PLACE_HERE && p->node.no_quorum && pipe_has_flag(p, ROUTE_LOCAL);
    if (place != PLACE_PLAIN && p->worker->state == NULL)
        place = PLACE_NOWHERE;
    if ((place == PLACE_PLAIN || place == PLACE_HERE) && !arrived_as_needed(p))
        return;
    p->elsewhere = place == PLACE_ACTIVE_NODE;
    switch (place) {
    case PLACE_PLAIN: run_plain(p); break;
    case PLACE_HERE:
    case PLACE_ACTIVE_NODE: go_on(p); break;
    case PLACE_NOWHERE: refuse_sealed(p); break;
    }
}
