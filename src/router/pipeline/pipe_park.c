/* Blocking requests (block.h): whether a result is newer than the client's, and parking.
 *
 * A request parks with the transaction that made its result, so no change is lost between the read
 * and the watch. A request that is woken by a change, or because the node leaves, runs again on the
 * newest version of this node: the first run was confirmed after the request had arrived, and every
 * later version is newer. Any other run is confirmed as usual.
 *
 * A parked request is recorded once, with its reply at the end: until then the client was given
 * nothing. A client that goes before leaves no record. */
#include "base/mem.h"
#include "base/tally.h"
#include "http/budget.h"
#include "router/pipeline/pipe_phases.h"
#include "state/ns_key.h"

enum { WAIT_SPREAD = 16 /* the router adds up to a sixteenth to the wait */ };

struct parked *pipe_resumed(const struct pipe *p)
{
    struct router_parked *handle = p->request->resumed;
    return handle != NULL ? CONTAINER_OF(handle, struct parked, handle) : NULL;
}

uint64_t pipe_block_ms(const struct pipe *p)
{
    bool blocks = pipe_has_index(p, INDEX_BLOCKS) && p->req.block.index != 0;
    return blocks ? p->req.block.wait_ms + p->req.block.wait_ms / WAIT_SPREAD + 1 : 0;
}

bool pipe_trusts_version(const struct pipe *p)
{
    const struct parked *parked = pipe_resumed(p);
    bool newer = parked != NULL && (parked->why == PARKED_CHANGED || parked->why == PARKED_LEAVING);
    return newer && p->reruns == 0;
}

/* Whether a parked request, woken, has its reply. */
static bool is_over(const struct pipe *p, const struct parked *parked, enum status st)
{
    if (parked->why == PARKED_TIME || parked->why == PARKED_LEAVING)
        return true;
    /* there was nothing, and there is nothing: wait on, unless the whole state was replaced */
    if (parked->absent && st == ST_NOT_FOUND)
        return state_restored(&p->run->txn) > parked->version;
    return p->req.index > parked->index;
}

bool pipe_must_wait(const struct pipe *p, enum status st)
{
    const struct router_host *host = p->req.host;
    const struct parked *parked = pipe_resumed(p);
    ASSERT(req_in_txn(&p->req));
    if (pipe_block_ms(p) == 0 || p->req.watches == NULL || (st != ST_OK && st != ST_NOT_FOUND))
        return false;
    if (p->request->given_up || host->leaving || p->worker->parking.leaving ||
        p->worker->parking.watches == NULL || state_staged(&p->run->txn))
        return false;
    if (p->request->may_park == NULL || !p->request->may_park(p->request))
        return false;
    return parked != NULL ? !is_over(p, parked, st) : p->req.index <= p->req.block.index;
}

/* Make what is kept of a request that parks for the first time. */
static enum status parked_new(struct pipe *p, struct parked **ret_parked)
{
    struct router_worker *worker = p->worker;
    struct http_budget *budget = p->req.host->parking;
    const struct ip client = ip_port_ip(p->request->peer);
    uint32_t wait_ms = p->req.block.wait_ms, random;
    ASSERT(p->req.block.index != 0 && p->request->resumed == NULL);
    struct parked *parked = mem_zalloc(sizeof *parked);
    if (parked == NULL)
        return ST_NOMEM;
    if (budget != NULL && !http_budget_take(budget, &client, 1)) {
        mem_free(parked);
        tally_add(&worker->parking.refused, 1);
        return req_fail(&p->req, ST_LIMITED,
                        "too many requests wait for changes: let some of them end first");
    }
    env_random(worker->env, &random, sizeof random);
    parked->worker = worker;
    parked->client = client;
    parked->index = p->req.block.index;
    parked->deadline_ms = p->begun_ms + wait_ms + random % (wait_ms / WAIT_SPREAD + 1);
    list_init(&parked->link);
    *ret_parked = parked;
    return ST_OK;
}

struct watched_keys {
    struct state_watched items[PARKING_WATCHES_MAX];
    size_t n;
};

static enum status add_key(struct watched_keys *keys, struct state_watched key)
{
    if (keys->n == ARRAY_LEN(keys->items))
        return ST_TOO_BIG;
    keys->items[keys->n++] = key;
    return ST_OK;
}

/* Watch the records of the token and its ancestors: the request ends when one of them does.
 * *expire_ms becomes the first of their times; 0: none expires. */
static enum status watch_token(struct pipe *p, struct watched_keys *keys, int64_t *expire_ms)
{
    struct req *req = &p->req;
    const struct auth_scope scope = req_scope(req);
    const struct auth_token *token = req->token;
    struct auth_token parent;
    ASSERT(req_in_txn(req));
    *expire_ms = 0;
    while (token != NULL) {
        if (token->expire_ms != 0)
            *expire_ms = *expire_ms == 0 ? token->expire_ms : MIN(*expire_ms, token->expire_ms);
        if (token->id[0] == '\0') /* not stored: its parent is */
            ASSERT(auth_token_is_batch(token));
        struct bytes key;
        TRY(state_ns_key(req->arena, req->ns, "token", bytes_str(token->id), NULL, &key));
        if (token->id[0] != '\0')
            TRY(add_key(keys, (struct state_watched){.key = key, .present = true}));
        if (token->parent[0] == '\0')
            break;
        TRY(token_store_load(&scope, token->parent, &parent));
        token = &parent;
    }
    return ST_OK;
}

static enum status collect_keys(struct pipe *p, struct watched_keys *keys, int64_t *expire_ms)
{
    keys->n = 0;
    for (const struct req_watch *w = p->req.watches; w != NULL; w = w->next)
        TRY(add_key(keys, (struct state_watched){w->key, w->prefix, w->present}));
    return watch_token(p, keys, expire_ms);
}

/* When the request must run again because its token may have expired, on the monotonic clock. */
static uint64_t token_ms(const struct pipe *p, int64_t expire_ms)
{
    if (expire_ms == 0)
        return 0;
    return env_mono_ms(p->worker->env) + (uint64_t)MAX(expire_ms - p->req.now_ms, INT64_C(100));
}

static enum status park(struct pipe *p, struct parked **parked)
{
    struct watched_keys *keys = arena_alloc(p->req.arena, sizeof *keys);
    int64_t expire_ms;
    if (keys == NULL)
        return ST_NOMEM;
    TRY(collect_keys(p, keys, &expire_ms));
    if (*parked == NULL)
        TRY(parked_new(p, parked));
    else
        tally_add(&p->worker->parking.again, 1);
    struct parked *it = *parked;
    ASSERT(it->worker == p->worker);
    it->stale = pipe_is_local(p);
    it->absent = p->failure == ST_NOT_FOUND;
    if (it->absent)
        it->index = MAX(it->index, p->req.index);
    it->version = state_version(&p->run->txn);
    TRY(parking_add(&p->worker->parking, it, &p->run->txn, keys->items, keys->n));
    parking_until(it, token_ms(p, expire_ms));
    return ST_OK;
}

enum pipe_phase pipe_park(struct pipe *p)
{
    struct router_request *request = p->request;
    struct parked *parked = pipe_resumed(p);
    bool fresh = parked == NULL;
    ASSERT(p->req.txn != NULL &&
           p->effect != PIPE_CHANGED); /* a lost try of a read changed nothing */
    ASSERT(request->may_park != NULL && request->park != NULL);
    enum status st = park(p, &parked);
    if (st != ST_OK) {
        if (fresh)
            parked_free(parked);
        return pipe_fail(p, st);
    }
    reply_done(&p->reply);
    pipe_release(p);
    request->park(request, &parked->handle); /* last touch: the arena, and so p, is gone */
    return PIPE_PENDING;
}

void pipe_end_parked(struct pipe *p)
{
    struct parked *parked = pipe_resumed(p);
    if (parked == NULL)
        return;
    struct parking *parking = &p->worker->parking;
    ASSERT(list_empty(&parked->link) && !parked->watcher.begun);
    bool newer = parked->why == PARKED_CHANGED && p->reply.http < 400;
    tally_add(newer                        ? &parking->changed
              : parked->why == PARKED_TIME ? &parking->timeouts
                                           : &parking->ended,
              1);
    parked_free(parked);
    p->request->resumed = NULL;
}

void router_worker_leave(struct router_worker *worker)
{
    parking_leave(&worker->parking);
    LIST_FOR_SAFE (link, after, &worker->requests_under_way) {
        struct pipe *p = CONTAINER_OF(link, struct pipe, link);
        if (p->phase == PIPE_FORWARDING && p->forward->waits)
            p->request->end_wait(p->request);
    }
}
