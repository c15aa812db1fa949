/* A node in one thread: the real router, state, barrier and store; a log that applies at once; a
 * clock that is moved by hand; a transport that stores the reply. */
#ifndef HOLDFAST_TESTS_UNIT_ROUTER_WORLD_H
#define HOLDFAST_TESTS_UNIT_ROUTER_WORLD_H

#include "router/clock_env.h"
#include "router/test_request.h"
#include "support.h"

#include "api/cubbyhole/cubbyhole.h"
#include "api/kv/kv.h"
#include "api/sys_modules.h"
#include "api/token/token.h"
#include "base/metric.h"
#include "front/front.h"
#include "front/secrets/secrets.h"
#include "state/state_core.h"

#include <stdio.h>

enum { WORLD_FORWARDS_MAX = 600 };

struct world {
    struct clock_env env;
    struct rlog_machine m;
    uint64_t index;
    struct state_log log;
    struct seal seal;
    struct barrier *barrier;
    struct state *state;
    struct metrics metrics;
    struct router_host host;
    struct node_ops node_ops;
    struct node_status node;
    struct router router;
    struct router_worker *worker;
    const struct dialect_map *dialects; /* of the listener; NULL: all */
    bool awaits;                        /* initial members */
    char token[64];                     /* of root */
    int64_t later_ms;                   /* cluster time, beyond 1700000000000 */
    uint64_t contact_ms;                /* since the leader was heard */

    /* What the log does instead of its work, when not ST_OK. */
    enum status propose_status[8];
    unsigned n_propose, proposals, reads;
    size_t last_txn_bytes;
    enum status read_status;
    void (*before_propose)(struct world *w), (*before_read)(struct world *w); /* once; always */
    struct rlog_request_id proposed_id;

    /* What forwarding comes to. */
    enum status forward_status[8]; /* one each; the last one stays */
    unsigned n_forward, forwards;
    struct rlog_request_id forward_ids[WORLD_FORWARDS_MAX];
    bool forward_again[WORLD_FORWARDS_MAX];
    uint64_t forward_deadline_ms; /* of the last forward */
    bool forward_holds;           /* no reply comes */
    bool forward_takes_body;      /* of streamed requests */
    char forward_answer[256];     /* of the last forward: kind, type and data; "": none */
    struct router_forward *forwarding;
    struct env_task forward_task;
};

static inline void world_each(void *ctx, unsigned i, const struct rlog_applied *applied)
{
    struct rlog_propose *p = ctx;
    (void)i;
    p->applied = *applied;
    p->done(p, applied->outcome == RLOG_CONFLICTED ? ST_CONFLICT : ST_OK);
}

static inline void world_propose(struct state_log *log, struct rlog_propose *p)
{
    struct world *w = log->ctx;
    CLEANUP(buf_done) struct buf entry = {0};
    void (*before)(struct world *) = w->before_propose;
    w->last_txn_bytes = p->txn.len;
    unsigned i = w->proposals++;
    w->before_propose = NULL;
    if (before != NULL)
        before(w);
    if (i < w->n_propose && w->propose_status[i] != ST_OK) {
        p->done(p, w->propose_status[i]);
        return;
    }
    assert_status(rlog_entry_encode(RLOG_FEATURE_FIRST, 1000, &p->txn, 1, &entry), ST_OK);
    rlog_machine_apply(&w->m, ++w->index, buf_bytes(&entry), world_each, p);
}

static inline void world_read(struct state_log *log, struct rlog_read *r)
{
    struct world *w = log->ctx;
    w->reads++;
    if (w->before_read != NULL)
        w->before_read(w);
    r->time_ms = 1700000000000 + w->later_ms;
    r->done(r, w->read_status);
}

static inline void world_ticket_drop(struct state_log *log, uint64_t ticket)
{
    (void)log;
    (void)ticket;
}

#include "router/world_host.h"

static inline void world_take(struct world *w, struct test_request *t);

static inline void world_take_again(struct test_request *t)
{
    world_take(t->world, t);
}

static inline void world_take(struct world *w, struct test_request *t)
{
    t->world = w;
    t->take = world_take_again;
    t->request.forward = world_forward_request;
    t->request.end_wait = world_end_wait;
    if (t->forwarded_api != NULL)
        t->known_api = router_place_forwarded(w->worker, &t->request, bytes_str(t->forwarded_api));
    else
        router_place(w->worker, &t->request, w->dialects);
    front_handle(w->worker, &t->request);
}

/* Until it is answered, moving the clock as far as needed. */
static inline void world_handle(struct world *w, struct test_request *t)
{
    world_take(w, t);
    clock_run(&w->env);
    for (int i = 0; t->replies == 0 && i < 10000; i++) {
        test_collected(t);
        w->env.now_ms++;
        clock_run(&w->env);
    }
    assert_int_equal(t->replies, 1);
    assert_int_equal(router_worker_running(w->worker), 0);
}

/* One call as root; the reply's body is kept until the next one. */
static inline struct test_request *world_request(struct world *w, enum http_method method,
                                                 const char *target, const char *body)
{
    static struct test_request t;
    test_request_done(&t);
    test_request_init(&t, method, target, body);
    if (w->token[0] != '\0')
        test_request_header(&t, "x-secrets-token", w->token);
    world_handle(w, &t);
    return &t;
}

static inline void world_open(struct world *w, const struct module *const *modules,
                              size_t n_modules)
{
    static const uint8_t key[32] = {9};
    *w = (struct world){0};
    clock_env_init(&w->env);
    assert_status(crypto_init(NULL), ST_OK);
    assert_status(store_new(&w->env.env, &w->m.store), ST_OK);
    w->log = (struct state_log){&w->env.env, w->m.store,        world_propose,
                                world_read,  world_ticket_drop, w};
    assert_status(seal_static(bytes_of(key, 32), "k", &w->seal, NULL), ST_OK);
    assert_status(barrier_new(&w->barrier), ST_OK);
    assert_status(state_new(&w->env.env, &w->log, w->barrier, &w->state), ST_OK);
    metrics_init(&w->metrics);
    w->node_ops = (struct node_ops){.status = world_status,
                                    .brief = world_brief,
                                    .no_quorum = world_no_quorum,
                                    .time_ms = world_time,
                                    .heard_ms = world_heard,
                                    .peers = world_peers,
                                    .seal_status = world_seal_status};
    w->host = (struct router_host){.node = (struct node *)(void *)w,
                                   .node_ops = &w->node_ops,
                                   .awaits_members = world_awaits_members,
                                   .seal_type = SEAL_STATIC,
                                   .seal = &w->seal,
                                   .metrics = &w->metrics,
                                   .version = "0.0.1",
                                   .optional_mounts = true};
    w->node = (struct node_status){.name = "node1",
                                   .leader_name = "node1",
                                   .leader_address = "https://node1:8200",
                                   .leader_cluster = "node1:8201",
                                   .cluster_name = "test",
                                   .cluster_id = "id",
                                   .has_leader = true,
                                   .sealed = true};
    const struct router_options options = {
        .modules = {modules, n_modules}, .host = &w->host, .inflight_max = 4};
    struct reason why = {{0}};
    if (router_init(&w->router, &options, &why) != ST_OK)
        fail_msg("%s", why.text);
    assert_status(router_worker_new(&w->router, &w->env.env, w->state, &w->worker), ST_OK);
}

/* Initialise over the API, then unseal as the node would. */
static inline void world_init(struct world *w)
{
    struct test_request *t = world_request(w, METHOD_PUT, "/v1/sys/init", "{}");
    const char *token = strstr((const char *)t->body.data, "\"root_token\":\"");
    if (t->http != 200 || token == NULL)
        fail_msg("init: %d %s", t->http, (const char *)t->body.data);
    token += strlen("\"root_token\":\"");
    (void)snprintf(w->token, sizeof w->token, "%.*s", (int)strcspn(token, "\""), token);
    assert_status(state_unseal(w->m.store, w->barrier, &w->seal, NULL), ST_OK);
    w->node.initialized = true;
    w->node.sealed = false;
    w->node.active = true;
    /* The key rings are renewed beside the first commit. */
    assert_int_equal(
        world_request(w, METHOD_PUT, "/v1/sys/mounts/kv", "{\"type\":\"kv-v1\"}")->http, 204);
    assert_int_equal(world_request(w, METHOD_PUT, "/v1/kv/first", "{\"a\":1}")->http, 204);
    assert_int_equal(world_request(w, METHOD_DELETE, "/v1/kv/first", NULL)->http, 204);
    w->proposals = w->reads = 0;
}

static inline void world_standby(struct world *w, bool performance)
{
    w->node.active = false;
    w->node.perf_standby = performance;
    (void)snprintf(w->node.leader_name, sizeof w->node.leader_name, "node2");
    (void)snprintf(w->node.leader_address, sizeof w->node.leader_address, "https://node2:8200");
}

static inline void world_close(struct world *w)
{
    clock_run(&w->env);
    router_worker_free(w->worker);
    router_done(&w->router);
    state_free(w->state);
    barrier_free(w->barrier);
    seal_done(&w->seal);
    store_free(w->m.store);
    timer_heap_done(&w->env.timers);
}

#endif
