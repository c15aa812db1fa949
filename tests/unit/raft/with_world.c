#include "world.h"

#include <malloc.h>

size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

size_t world_heap_bytes(void)
{
    if (__sanitizer_get_current_allocated_bytes != NULL)
        return __sanitizer_get_current_allocated_bytes();
    return mallinfo2().uordblks;
}

uint64_t wrnd(struct world *w)
{
    w->rng ^= w->rng << 13;
    w->rng ^= w->rng >> 7;
    w->rng ^= w->rng << 17;
    return w->rng >> 16;
}

static uint64_t wenv_mono(struct env *env)
{
    return CONTAINER_OF(env, struct wenv, env)->world->now_ns;
}

static int64_t wenv_wall(struct env *env)
{
    struct wenv *e = CONTAINER_OF(env, struct wenv, env);
    return 1700000000000 + (int64_t)(e->world->now_ns / 1000000) + e->skew_ms;
}

static void wenv_random(struct env *env, void *buf, size_t n)
{
    struct world *w = CONTAINER_OF(env, struct wenv, env)->world;
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)buf)[i] = (uint8_t)wrnd(w);
}

static void wenv_timer_set(struct env *env, struct env_timer *timer, uint64_t at_ms)
{
    timer_heap_set(&CONTAINER_OF(env, struct wenv, env)->timers, timer, at_ms);
}

static void wenv_timer_stop(struct env *env, struct env_timer *timer)
{
    timer_heap_stop(&CONTAINER_OF(env, struct wenv, env)->timers, timer);
}

static void wenv_work(struct env *env, struct env_work *work)
{
    struct wenv *e = CONTAINER_OF(env, struct wenv, env);
    if (list_empty(&e->works[work->lane]))
        e->work_at[work->lane] = e->world->now_ns + 200000 + wrnd(e->world) % 2000000;
    list_push(&e->works[work->lane], &work->link);
}

static void wenv_post(struct env *env, struct env_task *task)
{
    list_push(&CONTAINER_OF(env, struct wenv, env)->tasks, &task->link);
}

static const struct env_ops wenv_ops = {.mono_ns = wenv_mono,
                                        .wall_ms = wenv_wall,
                                        .random = wenv_random,
                                        .timer_set = wenv_timer_set,
                                        .timer_stop = wenv_timer_stop,
                                        .work = wenv_work,
                                        .post = wenv_post};

/* One thing that is due, at or before `until_ns`. */
static bool wenv_step(struct wenv *e, uint64_t *until_ns, bool run)
{
    struct list *link = e->tasks.next;
    struct env_timer *timer = timer_heap_first(&e->timers);
    if (link != &e->tasks) {
        *until_ns = e->world->now_ns;
        if (run) {
            list_remove(link);
            struct env_task *task = CONTAINER_OF(link, struct env_task, link);
            task->run(task);
        }
        return true;
    }
    int lane = -1;
    for (int i = 0; i < LANES; i++)
        if (!list_empty(&e->works[i]) && e->work_at[i] <= *until_ns) {
            lane = i;
            *until_ns = e->work_at[i];
        }
    if (timer != NULL && timer->at_ms * 1000000 < *until_ns) {
        *until_ns = MAX(timer->at_ms * 1000000, e->world->now_ns);
        if (run) {
            timer_heap_stop(&e->timers, timer);
            timer->fire(timer);
        }
        return true;
    }
    if (lane < 0)
        return false;
    if (run) {
        struct env_work *work = CONTAINER_OF(list_pop(&e->works[lane]), struct env_work, link);
        e->work_at[lane] = e->world->now_ns + 200000 + wrnd(e->world) % 2000000;
        work->run(work);
        work->done(work);
    }
    return true;
}

/* The network. */
static struct wnode *wnode_of(struct world *w, uint64_t id)
{
    for (unsigned i = 0; i < w->n_nodes; i++)
        if (w->nodes[i].id == id)
            return &w->nodes[i];
    return NULL;
}

static void wnet_send(void *ctx, uint64_t to, const struct bytes *parts, unsigned n, bool bulk)
{
    struct wnode *node = ctx;
    struct world *w = node->e.world;
    struct wnode *target = wnode_of(w, to);
    size_t len = 0;
    for (unsigned i = 0; i < n; i++)
        len += parts[i].len;
    if (target == NULL || w->cut[node - w->nodes][target - w->nodes] || wrnd(w) % 100 < w->loss)
        return;
    struct wframe *f = calloc(1, sizeof *f + len);
    ASSERT(f != NULL && len <= RLOG_FRAME_MAX);
    f->from = node->id;
    f->to = to;
    for (unsigned i = 0; i < n; i++) {
        if (parts[i].len > 0)
            memcpy(f->data + f->len, parts[i].data, parts[i].len);
        f->len += parts[i].len;
    }
    w->n_frames++;
    w->bytes += len;
    f->at = w->now_ns + 500000 + wrnd(w) % 1000000 + (bulk ? w->bulk_delay_ms * 1000000 : 0);
    struct list *at = &w->frames;
    while (at->prev != &w->frames && CONTAINER_OF(at->prev, struct wframe, link)->at > f->at)
        at = at->prev;
    list_insert_before(at, &f->link);
}

static void wnet_flush(void *ctx)
{
    struct wnode *node = ctx;
    node->flushes++;
    node->flushes_writing += !list_empty(&node->e.works[LANE_LOG]);
}

static void wnet_members(void *ctx, const struct rlog_member *members, unsigned n)
{
    struct wnode *node = ctx;
    memcpy(node->members, members, n * sizeof *members);
    node->n_members = n;
}

static void wnode_fatal(void *ctx, enum status why, const struct reason *reason)
{
    struct wnode *node = ctx;
    node->failed = true;
    node->fatal_why = why;
    (void)snprintf(node->fatal, sizeof node->fatal, "%s", reason->text);
}

static void wnode_applied(void *ctx, uint64_t index, uint64_t version)
{
    (void)index;
    (void)version;
    ((struct wnode *)ctx)->applied_calls++;
}

bool world_step(struct world *w, uint64_t until_ns)
{
    struct wnode *who = NULL;
    uint64_t at = until_ns;
    for (unsigned i = 0; i < w->n_nodes; i++) {
        uint64_t mine = at;
        if (wenv_step(&w->nodes[i].e, &mine, false) && (who == NULL || mine < at)) {
            who = &w->nodes[i];
            at = mine;
        }
    }
    if (!list_empty(&w->frames)) {
        struct wframe *f = CONTAINER_OF(w->frames.next, struct wframe, link);
        if (f->at < at) {
            struct wnode *to = wnode_of(w, f->to), *from = wnode_of(w, f->from);
            list_remove(&f->link);
            w->now_ns = MAX(w->now_ns, f->at);
            if (to != NULL && to->up && from != NULL)
                rlog_receive(to->rlog, f->from, from->identity.name, bytes_of(f->data, f->len));
            free(f);
            return true;
        }
    }
    if (who == NULL)
        return false;
    w->now_ns = MAX(w->now_ns, at++);
    (void)wenv_step(&who->e, &at, true); /* what was just found to be due */
    return true;
}

void world_run(struct world *w, uint64_t ms)
{
    uint64_t end = w->now_ns + ms * 1000000;
    while (world_step(w, end))
        ;
    w->now_ns = end;
}

struct rlog_member world_member(uint64_t id, enum rlog_role role)
{
    struct rlog_member m = {.id = id, .role = role};
    (void)snprintf(m.name, sizeof m.name, "n%u", (unsigned)id);
    (void)snprintf(m.address, sizeof m.address, "host%u:8201", (unsigned)id);
    return m;
}

struct wnode *wnode_create(struct world *w, uint64_t id)
{
    ASSERT(w->n_nodes < WORLD_NODES);
    struct wnode *n = &w->nodes[w->n_nodes++];
    n->id = id;
    n->identity.id = id;
    memcpy(n->identity.cluster, "0123456789abcdef", 16);
    (void)snprintf(n->identity.name, sizeof n->identity.name, "n%u", (unsigned)id);
    n->e.env.ops = &wenv_ops;
    n->e.env.fs = &n->e.fs;
    n->e.fs.ops = &wfs_ops;
    n->e.world = w;
    list_init(&n->e.tasks);
    for (unsigned i = 0; i < LANES; i++)
        list_init(&n->e.works[i]);
    return n;
}

struct rlog_options wnode_options(struct wnode *n)
{
    struct world *w = n->e.world;
    struct rlog_options o = w->options;
    o.env = &n->e.env;
    o.dir = "d";
    o.identity = n->identity;
    o.net = (struct rlog_net_ops){wnet_send, wnet_flush, wnet_members, n};
    o.events = (struct rlog_events){.fatal = wnode_fatal, .applied = wnode_applied, .ctx = n};
    o.segment_bytes = 65536;
    if (n->id <= w->n_initial_members) {
        o.initial_members = w->initial_members;
        o.n_initial_members = w->n_initial_members;
    }
    return o;
}

enum status wnode_start(struct wnode *n, struct reason *reason)
{
    struct rlog_options o = wnode_options(n);
    enum status st = rlog_start(&o, &n->rlog, reason);
    n->up = st == ST_OK;
    return st;
}

static void wnode_on_closed(void *ctx)
{
    ((struct wnode *)ctx)->closed = true;
}

void wnode_stop(struct wnode *n)
{
    if (!n->up)
        return;
    n->closed = false;
    rlog_close(n->rlog, wnode_on_closed, n);
    n->up = false;
    for (int i = 0; i < 1000 && !n->closed; i++)
        world_run(n->e.world, 1);
    ASSERT(n->closed);
    n->rlog = NULL;
}

struct world *world_make(uint64_t seed, unsigned n_initial_members)
{
    struct world *w = calloc(1, sizeof *w);
    ASSERT(w != NULL);
    w->rng = seed * 0x9E3779B97F4A7C15u | 1;
    w->now_ns = 1000000000;
    list_init(&w->frames);
    w->n_initial_members = n_initial_members;
    for (unsigned i = 0; i < n_initial_members; i++)
        w->initial_members[i] = world_member(i + 1, RLOG_VOTER);
    return w;
}

void world_start(struct world *w)
{
    for (unsigned i = 0; i < w->n_initial_members; i++) {
        enum status st = wnode_start(wnode_create(w, i + 1), NULL);
        ASSERT(st == ST_OK);
    }
}

struct world *world_new(uint64_t seed, unsigned n_initial_members)
{
    struct world *w = world_make(seed, n_initial_members);
    world_start(w);
    return w;
}

void world_free(struct world *w)
{
    struct list *link;
    for (unsigned i = 0; i < w->n_nodes; i++)
        wnode_stop(&w->nodes[i]);
    while ((link = list_pop(&w->frames)) != NULL)
        free(CONTAINER_OF(link, struct wframe, link));
    for (unsigned i = 0; i < w->n_nodes; i++) {
        timer_heap_done(&w->nodes[i].e.timers);
        for (unsigned k = 0; k < WORLD_FILES; k++)
            if (w->nodes[i].e.files[k] != NULL)
                wfile_unref(w->nodes[i].e.files[k]);
    }
    free(w);
}

struct wnode *world_leader(struct world *w)
{
    struct rlog_status s;
    for (unsigned i = 0; i < w->n_nodes; i++) {
        if (!w->nodes[i].up)
            continue;
        rlog_status(w->nodes[i].rlog, &s);
        if (s.is_leader && s.ready)
            return &w->nodes[i];
    }
    return NULL;
}

struct wnode *world_await_leader(struct world *w)
{
    for (int i = 0; i < 2000 && world_leader(w) == NULL; i++)
        world_run(w, 5);
    return world_leader(w);
}

struct wnode *world_follower(struct world *w)
{
    struct wnode *leader = world_leader(w);
    for (unsigned i = 0; i < w->n_nodes; i++)
        if (w->nodes[i].up && &w->nodes[i] != leader)
            return &w->nodes[i];
    return NULL;
}

static void wclient_proposed(struct rlog_propose *p, enum status st)
{
    struct wclient *c = CONTAINER_OF(p, struct wclient, p);
    ASSERT(!c->done);
    c->done = true;
    c->status = st;
    (void)snprintf(c->response, sizeof c->response, "%.*s", (int)p->applied.response.len,
                   (const char *)p->applied.response.data);
    (void)snprintf(c->conflict, sizeof c->conflict, "%.*s", (int)p->applied.conflict.len,
                   (const char *)p->applied.conflict.data);
}

void wclient_read(struct rlog_read *r, enum status st)
{
    struct wclient *c = CONTAINER_OF(r, struct wclient, r);
    ASSERT(!c->done);
    c->done = true;
    c->status = st;
}

void wclient_admin(struct rlog_admin *a, enum status st)
{
    struct wclient *c = CONTAINER_OF(a, struct wclient, a);
    ASSERT(!c->done);
    c->done = true;
    c->status = st;
}

enum status wclient_wait(struct world *w, struct wclient *c)
{
    for (int i = 0; i < 100000 && !c->done; i++)
        world_run(w, 1);
    ASSERT(c->done);
    return c->status;
}

void wclient_propose(struct wnode *n, struct wclient *c, struct rlog_txn_builder *b)
{
    buf_clear(&c->txn);
    enum status st = rlog_txn_encode(b, &c->txn);
    ASSERT(st == ST_OK);
    rlog_txn_done(b);
    c->done = false;
    c->p.txn = buf_bytes(&c->txn);
    c->p.done = wclient_proposed;
    rlog_propose(n->rlog, &c->p);
}

void wclient_put(struct wnode *n, struct wclient *c, const char *key, const char *value)
{
    struct rlog_txn_builder b = {0};
    rlog_txn_put(&b, bytes_str(key), bytes_str(value));
    wclient_propose(n, c, &b);
}

enum status world_put(struct wnode *n, const char *key, const char *value)
{
    struct wclient c = {0};
    wclient_put(n, &c, key, value);
    enum status st = wclient_wait(n->e.world, &c);
    buf_done(&c.txn);
    return st;
}

enum status world_read(struct wnode *n)
{
    struct wclient c = {.r.done = wclient_read};
    rlog_read(n->rlog, &c.r);
    return wclient_wait(n->e.world, &c);
}

const char *world_get(struct wnode *n, const char *key)
{
    static char value[256];
    struct store_pin pin;
    struct store_item item;
    enum status st = store_pin(rlog_store(n->rlog), "test", 0, &pin);
    ASSERT(st == ST_OK);
    value[0] = '\0';
    if (store_get(&pin, bytes_str(key), &item) == ST_OK)
        (void)snprintf(value, sizeof value, "%.*s", (int)item.value.len,
                       (const char *)item.value.data);
    store_unpin(&pin);
    return value;
}
