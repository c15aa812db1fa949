/* Choosing where a request runs, and the requests that need no state. */
#include "auth/token_cache.h"
#include "base/plant.h"
#include "mount/mount_cache.h"
#include "router/pipeline/pipe_phases.h"
#include "router/req_dr.h"
#include "router/request/body.h"

static enum status read_stateless(struct pipe *p)
{
    struct req *req = &p->req;
    if (req->others.methods != 0 &&
        req->method != METHOD_OPTIONS) /* the method is refused, so the body is not needed */
        return ST_UNSUPPORTED;
    if (p->request->body.len > BODY_FREE_MAX || p->request->streamed)
        return ST_TOO_BIG;
    p->content_type = router_header(p->request, "content-type");
    TRY(pipe_parse_into(p, req->arena));
    return body_decode(req);
}

/* Run a route about the node that needs no state. Its step outside comes before the reply: there is
 * no transaction that would have to end first. */
enum pipe_phase pipe_stateless(struct pipe *p)
{
    struct req *req = &p->req;
    ASSERT(p->place == PIPE_NO_STATE);
    enum status st = req->data == NULL   ? read_stateless(p)
                     : req->body == NULL ? body_decode(req) /* pipe_again dropped the body */
                                         : ST_OK;
    req->closed_ceremonies = p->request->closed_ceremonies;
    if (st == ST_OK && !stage_reads(req) && req->host->audit != NULL) {
        /* the handler itself may change this node: it unseals, for example */
        st = pipe_find_devices(p);
        if (st == ST_OK && pipe_owes_record(p))
            return pipe_record_first(p, PIPE_STATELESS);
    }
    if (st == ST_OK) {
        p->once |= PIPE_ONCE_HANDLED;
        req->awaits = false;
        st = req->route->handler(req);
        if (pipe_awaits(p))
            return pipe_again(p);
    }
    if (st == ST_OK && req->route->outside != NULL)
        return pipe_go_stateless(p);
    p->failure = reply_make(req, st, &p->reply);
    return pipe_end(p);
}

enum pipe_phase pipe_go_stateless(struct pipe *p)
{
    bool unknown = p->req.host->audit != NULL && (p->once & PIPE_ONCE_DEVICES) == 0;
    enum status st = unknown ? pipe_find_devices(p) : ST_OK;
    if (st == ST_OK && pipe_owes_record(p))
        return pipe_record_first(p, PIPE_STATELESS_OUTSIDE);
    if (st == ST_OK && p->request->given_up)
        st = ST_TIMEOUT;
    return st == ST_OK ? PIPE_STATELESS_OUTSIDE : pipe_fail(p, st);
}

enum pipe_phase pipe_stateless_done(struct pipe *p)
{
    ASSERT(p->req.txn == NULL);
    p->failure = reply_make(&p->req, p->result, &p->reply);
    return pipe_end(p);
}

/* On a standby, find out which row a write below a mount has: a row that only reads is served here,
 * and a step outside of another row is not repeated. A guess that turns out wrong costs time: the
 * row is found again in the transaction of the request. */
static void guess_row(struct pipe *p)
{
    struct req *req = &p->req;
    if (p->node.active || p->node.sealed || req->api != NULL || !req->dialect->mounts ||
        req->likely != NULL || req->help || stage_reads(req) || p->worker->state == NULL ||
        pipe_need_run(p) != ST_OK)
        return;
    if (state_begin(p->worker->state, req->arena, NULL, &p->run->txn) != ST_OK)
        return;
    stage_guess(req, p->worker->router, &p->run->txn);
    state_end(&p->run->txn);
}

/* Choose where a request runs: here without the state, here with the state, on the active node, or
 * nowhere yet. Metrics without a token need no state, so a sealed node serves them too. */
static enum pipe_place place_of(const struct req *req, const struct router_request *request,
                                const struct node_brief *node)
{
    const struct route *route = req->route;
    if (route == NULL)
        route = req->likely;
    enum route_place place = route != NULL ? route->place : PLACE_ANY;
    bool open = route != NULL && route->who == WHO_LISTENER && request->open_metrics;
    if (place == PLACE_NODE && (route_is_open(route) || open))
        return PIPE_NO_STATE;
    if (place == PLACE_LEADER && !node->removed)
        return node->leads ? PIPE_HERE : PIPE_ACTIVE_NODE;
    bool sealed = node->sealed && !planted(PLANT_SEALED_ANSWERS);
    if (!node->initialized || sealed || node->removed)
        return PIPE_NOWHERE;
    if (place == PLACE_ACTIVE_OR_LOCAL && node->no_quorum && !request->forwarded)
        return PIPE_HERE_ALONE;
    bool stays = place == PLACE_NODE || place == PLACE_STAYS;
    if (node->active || req->mode == REQ_STALE || stays)
        return PIPE_HERE;
    bool active = place == PLACE_ACTIVE || place == PLACE_ACTIVE_OR_LOCAL;
    bool reads = stage_reads(req) || pipe_keeps_unwrap(req);
    bool reads_here = node->perf_standby && reads && !active;
    return reads_here ? PIPE_HERE : PIPE_ACTIVE_NODE;
}

/* While this node bootstraps a cluster with others, or its workers have no state yet: delay a
 * request that would change the cluster, for the time that requests wait for an active node; refuse
 * any other request with a text that says what the node waits for. PIPE_PENDING: the node does not
 * bootstrap. */
static enum pipe_phase await_members(struct pipe *p)
{
    struct reason why;
    if (p->worker->state != NULL || pipe_is_served(p, WHEN_UNINITIALIZED))
        return PIPE_PENDING;
    bool forming = p->req.host->awaits_members(p->req.host, &why);
    bool held = pipe_has_place(p, PLACE_LEADER) && !stage_reads(&p->req) && !p->node.removed;
    if (held && (forming || !p->node.waits))
        return pipe_wait(p, ST_UNINITIALIZED);
    if (!forming)
        return PIPE_PENDING;
    reason_set(req_reason(&p->req), "%s", why.text);
    return pipe_fail(p, ST_UNINITIALIZED);
}

static enum pipe_phase refuse_uninitialized(struct pipe *p)
{
    bool restores = pipe_uploads(p);
    reason_set(req_reason(&p->req), "%s: the cluster is not initialised; initialise it%s",
               p->req.dialect->error_text(ST_SEALED),
               restores ? " first, then restore with force: the snapshot's keys and tokens "
                          "replace those of the initialisation"
                        : " (operator init)");
    return pipe_fail(p, ST_SEALED);
}

/* Refuse a request on a sealed node, and clear the caches: no decrypted data stays in memory. */
static enum pipe_phase refuse_sealed(struct pipe *p)
{
    struct reason why;
    ASSERT(p->place == PIPE_NOWHERE);
    if (p->node.removed)
        reason_set(req_reason(&p->req),
                   "this node was removed from the cluster and serves nothing");
    else if (p->worker->state == NULL)
        reason_set(req_reason(&p->req), "%s",
                   p->node.waits
                       ? "this node is in no cluster yet: it waits for sys/storage/raft/join"
                       : "this node is starting");
    else if (!p->node.initialized)
        return refuse_uninitialized(p);
    else if (p->req.host->node_ops->no_quorum(p->req.host->node, &why))
        reason_set(req_reason(&p->req), "%s; %s", p->req.dialect->error_text(ST_SEALED), why.text);
    token_cache_clear(p->worker->tokens);
    for (size_t i = 0; i < ARRAY_LEN(p->worker->acls); i++)
        acl_cache_clear(p->worker->acls[i]);
    mount_cache_clear(p->worker->mounts);
    return pipe_fail(p, ST_SEALED);
}

/* Maintenance refuses the clients of this node; requests that other nodes forward are served. */
static bool in_maintenance(const struct pipe *p)
{
    return p->req.host->maintenance && !p->request->forwarded && !pipe_has_place(p, PLACE_NODE) &&
           !pipe_is_served(p, WHEN_MAINTENANCE);
}

/* Whether the nodes of a DR secondary serve the request. */
static bool served_by_secondary(const struct pipe *p)
{
    bool open = pipe_has_who(p, WHO_LISTENER) && p->request->open_metrics;
    const struct route *route = p->req.route;
    return route != NULL && (route_is_of_secondary(route) || (route->place == PLACE_NODE && open));
}

/* A cluster that follows another one, or that another one has superseded, serves no client. The
 * state machine refuses its writes too; this refuses reads as well, with the reason. A sealed or
 * removed node says that first. PIPE_PENDING: the request is served. */
static enum pipe_phase heed_dr(struct pipe *p)
{
    const struct node_brief *node = &p->node;
    if ((!node->secondary && !node->superseded) || !node->initialized || node->sealed ||
        node->removed || served_by_secondary(p))
        return PIPE_PENDING;
    if (node->secondary) {
        reason_set(req_reason(&p->req), "%s", REQ_DR_DISABLED);
        return pipe_fail(p, ST_INVALID);
    }
    reason_set(req_reason(&p->req),
               "this cluster was superseded by another primary of its replication set: demote it, "
               "and let it follow that primary");
    return pipe_fail(p, ST_BUSY);
}

/* Whether the body of an upload streams into a file: the front decided that with the head, before
 * the route was known. */
static bool arrives_as_needed(const struct pipe *p)
{
    return !pipe_uploads(p) || (p->request->streamed && p->request->receive != NULL);
}

static enum pipe_phase go_on(struct pipe *p)
{
    if (!pipe_is_unread(p))
        return p->place == PIPE_ACTIVE_NODE ? pipe_forward(p) : pipe_begin(p);
    /* such a route needs no token, and this node may have no state yet */
    if (pipe_has_place(p, PLACE_LEADER))
        return pipe_fail(p, ST_TOO_BIG);
    return pipe_begin(p);
}

static enum pipe_phase go_to_place(struct pipe *p)
{
    bool here = p->place != PIPE_NOWHERE && p->place != PIPE_ACTIVE_NODE;
    if (here && !arrives_as_needed(p)) {
        reason_set(req_reason(&p->req), "the body of this request cannot be received here");
        return pipe_fail(p, ST_INTERNAL);
    }
    switch (p->place) {
    case PIPE_NO_STATE: return PIPE_STATELESS;
    case PIPE_NOWHERE: return refuse_sealed(p);
    case PIPE_HERE:
    case PIPE_HERE_ALONE:
    case PIPE_ACTIVE_NODE: break;
    }
    return go_on(p);
}

/* A client that limits the age of the state gets a confirmed read where this node's is older. */
static bool is_too_stale(const struct req *req)
{
    return req->mode == REQ_STALE && req->max_stale_ms != 0 &&
           req_contact_ms(req) > req->max_stale_ms;
}

enum pipe_phase pipe_choose(struct pipe *p)
{
    const struct router_host *host = p->req.host;
    ASSERT(p->req.txn == NULL);
    if (is_too_stale(&p->req))
        p->req.mode = REQ_DEFAULT;

    if (pipe_has_who(p, WHO_LISTENER))
        p->req.accept = router_header(p->request, "accept");
    if (pipe_has_who(p, WHO_OPTIONAL))
        p->req.accept_encoding = router_header(p->request, "accept-encoding");
    p->node = host->node_ops->brief(host->node);
    if (in_maintenance(p)) {
        reason_set(req_reason(&p->req), "this node is in maintenance");
        return pipe_fail(p, ST_BUSY);
    }
    enum pipe_phase next = await_members(p);
    if (next != PIPE_PENDING)
        return next;
    next = heed_dr(p);
    if (next != PIPE_PENDING)
        return next;
    if (p->worker->state == NULL && p->request->forwarded)
        return pipe_hand_back(p, ST_NOT_LEADER);
    guess_row(p);
    p->place = place_of(&p->req, p->request, &p->node);
    if ((p->once & PIPE_ONCE_MUTE) != 0 && p->node.active)
        pipe_pass_over(p);
    if ((p->once & PIPE_ONCE_MUTE) != 0 && p->place == PIPE_HERE)
        p->place = PIPE_ACTIVE_NODE;
    if (p->place != PIPE_NO_STATE && p->worker->state == NULL)
        p->place = PIPE_NOWHERE;
    return go_to_place(p);
}
