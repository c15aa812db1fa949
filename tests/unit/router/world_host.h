/* How the world of the router's tests stands for a node, and for the active node that a request is
 * forwarded to. Only router/world.h includes this file,
 * because it needs struct world. */
#ifndef HOLDFAST_TESTS_UNIT_ROUTER_WORLD_HOST_H
#define HOLDFAST_TESTS_UNIT_ROUTER_WORLD_HOST_H

/* The node that the router is given stands for the world, and nothing looks into it. */
static inline struct world *world_of(const struct node *node)
{
    return (struct world *)(uintptr_t)node;
}

static inline void world_status(struct node *node, struct node_status *ret_status)
{
    *ret_status = world_of(node)->node;
}

static inline struct node_brief world_brief(const struct node *node)
{
    struct node_brief brief = node_brief_of(&world_of(node)->node);
    if (brief.feature == 0) /* unless a test sets one */
        brief.feature = RLOG_FEATURE;
    return brief;
}

/* Two members: this node, and one of the first feature level. */
static inline unsigned world_peers(struct node *node, struct node_peer *ret_peers)
{
    (void)node;
    ret_peers[0] = (struct node_peer){.name = "node1", .active = true, .feature = RLOG_FEATURE};
    ret_peers[1] = (struct node_peer){.name = "node2", .feature = RLOG_FEATURE_FIRST};
    return 2;
}

static inline bool world_no_quorum(struct node *node, struct reason *ret_why)
{
    const struct world *w = world_of(node);
    if (w->node.no_quorum)
        reason_set(ret_why, "no quorum: 1 of 3 voters reachable, 2 needed; missing b, c");
    return w->node.no_quorum;
}

static inline bool world_awaits_members(struct router_host *host, struct reason *ret_why)
{
    struct world *w = CONTAINER_OF(host, struct world, host);
    if (w->awaits)
        reason_set(ret_why, "waits for b (b:8201)");
    return w->awaits;
}

static inline void world_seal_status(struct node *node, struct node_seal_status *ret_status)
{
    (void)node;
    *ret_status = (struct node_seal_status){.known = true, .type = SEAL_STATIC};
}

static inline uint64_t world_heard(const struct node *node)
{
    struct world *w = world_of(node);
    return w->env.now_ms - w->contact_ms;
}

static inline int64_t world_time(struct node *node)
{
    return 1700000000000 + world_of(node)->later_ms;
}

static inline void world_forwarded(struct env_task *task)
{
    struct world *w = CONTAINER_OF(task, struct world, forward_task);
    struct router_forward *f = w->forwarding;
    unsigned i = w->forwards - 1;
    enum status st = w->n_forward == 0 ? ST_OK : w->forward_status[MIN(i, w->n_forward - 1)];
    w->forwarding = NULL;
    if (st == ST_OK) {
        f->reply = (struct router_reply){.http = 299, .content_type = "application/json"};
        buf_add_str(&f->reply.body, "{\"from\":\"the active node\"}");
    }
    f->done(f, st);
}

static inline void world_forward(struct world *w, struct router_forward *f)
{
    assert_null(w->forwarding);
    assert_true(w->forwards < WORLD_FORWARDS_MAX);
    w->forward_again[w->forwards] = f->again;
    w->forward_ids[w->forwards++] = f->id;
    w->forwarding = f;
    w->forward_deadline_ms = f->deadline_ms;
    w->forward_answer[0] = '\0';
    if (f->answer != NULL)
        (void)snprintf(w->forward_answer, sizeof w->forward_answer, "%d %s %.*s", f->answer->kind,
                       f->answer->type != NULL ? f->answer->type : "", (int)f->answer->data.len,
                       (const char *)f->answer->data.data);
    f->body_taken = w->forward_takes_body;
    w->forward_task.run = world_forwarded;
    if (!w->forward_holds)
        env_post(f->env, &w->forward_task);
}

static inline void world_end_wait(struct router_request *request)
{
    struct world *w = CONTAINER_OF(request, struct test_request, request)->world;
    struct router_forward *f = w->forwarding;
    assert_true(f->waits);
    w->forwarding = NULL;
    f->done(f, ST_CLOSED);
}

static inline void world_forward_request(struct router_request *request, struct router_forward *f)
{
    world_forward(CONTAINER_OF(request, struct test_request, request)->world, f);
}

#endif
