#include "core_cluster.h"

uint64_t rnd(struct cluster *c, uint64_t below)
{
    c->rng ^= c->rng << 13;
    c->rng ^= c->rng >> 7;
    c->rng ^= c->rng << 17;
    return (c->rng >> 20) % below;
}

void event_push(struct cluster *c, struct event *e, uint64_t at)
{
    e->at = at;
    e->seq = ++c->event_seq;
    if (c->n_events == c->cap_events) {
        c->cap_events = c->cap_events * 2 + 256;
        c->events = mem_must_realloc(c->events, c->cap_events * sizeof *c->events);
    }
    size_t i = c->n_events++;
    for (; i > 0; i--) { /* latest first */
        const struct event *o = c->events[i - 1];
        if (o->at > e->at || (o->at == e->at && o->seq > e->seq))
            break;
        c->events[i] = c->events[i - 1];
    }
    c->events[i] = e;
}

struct event *event_new(enum event_kind kind, const struct cnode *to)
{
    struct event *e = mem_zalloc(sizeof *e);
    ASSERT(e != NULL);
    e->kind = kind;
    e->to = to->id;
    e->life = to->life;
    return e;
}

struct cnode *node_of(struct cluster *c, uint64_t id)
{
    ASSERT(id >= 1 && id <= c->n_nodes);
    return &c->nodes[id - 1];
}

/* The disk. */
static void disk_truncate(struct cnode *n, uint64_t from)
{
    while (n->n > 0 && n->first + n->n - 1 >= from)
        rlog_block_unref(n->log[--n->n].block);
}

static void disk_add(struct cnode *n, const struct rlog_entry *e)
{
    if (n->n == n->cap) {
        n->cap = n->cap * 2 + 64;
        n->log = mem_must_realloc(n->log, n->cap * sizeof *n->log);
    }
    rlog_block_ref(e->block);
    n->log[n->n++] = *e;
}

static void disk_drop_prefix(struct cnode *n, uint64_t upto)
{
    size_t gone = 0;
    for (; gone < n->n && n->first + gone <= upto; gone++)
        rlog_block_unref(n->log[gone].block);
    n->n -= gone;
    memmove(n->log, n->log + gone, n->n * sizeof *n->log);
    n->first += gone;
}

static void disk_reset(struct cnode *n, uint64_t first)
{
    disk_truncate(n, n->first);
    n->first = first;
}

static void write_done(struct cnode *n, struct write *w, unsigned count)
{
    ASSERT(w->index <= n->first + n->n);
    disk_truncate(n, w->index);
    for (unsigned i = 0; i < count; i++)
        disk_add(n, &w->entries[i]);
}

static void write_free(struct write *w)
{
    for (unsigned i = 0; i < w->n; i++)
        rlog_block_unref(w->entries[i].block);
    list_remove(&w->link);
    mem_free(w->entries);
    mem_free(w);
}

/* What the core asks for. */
static enum status on_persist(void *ctx, uint64_t term, uint64_t vote)
{
    struct cnode *n = ctx;
    n->term = term;
    n->vote = vote;
    return ST_OK;
}

static uint64_t on_append(void *ctx, uint64_t index, const struct rlog_entry *e, unsigned k)
{
    struct cnode *n = ctx;
    struct cluster *c = n->cluster;
    struct write *w = mem_zalloc(sizeof *w);
    ASSERT(w != NULL);
    *w = (struct write){.seq = ++n->seq, .index = index, .n = k};
    w->entries = mem_alloc(k * sizeof *e);
    ASSERT(w->entries != NULL);
    memcpy(w->entries, e, k * sizeof *e);
    for (unsigned i = 0; i < k; i++)
        rlog_block_ref(e[i].block);
    list_push(&n->writes, &w->link);
    n->disk_free_ms =
        MAX(n->disk_free_ms, c->now) + (rnd(c, 100) < 2 ? 50 + rnd(c, 150) : rnd(c, 6));
    event_push(c, event_new(EV_DISK, n), n->disk_free_ms);
    return w->seq;
}

static void on_send(void *ctx, uint64_t to, const struct rlog_message *m)
{
    struct cnode *n = ctx;
    struct cluster *c = n->cluster;
    struct rlog_frame frame = {.kind = RLOG_FRAME_CORE, .core = *m};
    if (to > c->n_nodes || rnd(c, 100) < c->loss || c->cut[n->id - 1][to - 1])
        return;
    for (int copies = rnd(c, 100) < c->duplicates ? 2 : 1; copies > 0; copies--) {
        struct event *e = event_new(EV_FRAME, node_of(c, to));
        e->from = n->id;
        rlog_wire_encode(&frame, &e->frame);
        if (m->raft.type == RAFT_APPEND_ENTRIES)
            for (unsigned i = 0; i < m->raft.append_entries.n_entries; i++)
                buf_add(&e->frame, m->entries[i].data);
        uint64_t delay = rnd(c, 100) < 6 && c->slow_ms > 0 ? rnd(c, c->slow_ms) : rnd(c, 8);
        event_push(c, e, c->now + 1 + delay);
    }
}

static void on_offer(void *ctx, uint64_t to)
{
    struct cnode *n = ctx;
    struct cluster *c = n->cluster;
    struct event *e = event_new(EV_SNAP, node_of(c, to));
    e->from = n->id;
    e->term = n->core.term;
    e->snap = n->snap;
    if (rnd(c, 100) < c->loss || c->cut[n->id - 1][to - 1])
        mem_free(e);
    else
        event_push(c, e, c->now + 5 + rnd(c, 50));
}

static void on_install(void *ctx)
{
    struct cnode *n = ctx;
    struct event *e = event_new(EV_INSTALLED, n);
    n->installing = true;
    n->disk_free_ms = MAX(n->disk_free_ms, n->cluster->now) + 5 + rnd(n->cluster, 60);
    event_push(n->cluster, e, n->disk_free_ms);
}

static void on_state(void *ctx)
{
    struct cnode *n = ctx;
    struct cluster *c = n->cluster;
    if (!rlog_core_leads(&n->core))
        return;
    ASSERT(n->core.term < TERMS_MAX);
    uint64_t *leader = &c->leader_of[n->core.term];
    if (*leader != 0 && *leader != n->id) {
        (void)fprintf(stderr, "two leaders in term %" PRIu64 "\n", n->core.term);
        abort();
    }
    *leader = n->id;
}

static void on_configured(void *ctx)
{
    (void)ctx;
}

static void on_apply(void *ctx, uint64_t index, const struct rlog_entry *e)
{
    struct cnode *n = ctx;
    struct cluster *c = n->cluster;
    uint64_t h = n->state ^ (index * 0x9E3779B97F4A7C15u) ^ e->term << 40 ^ (uint64_t)e->type;
    h = (h ^ bytes_hash(e->data)) * 0x100000001B3u;
    n->state = h ^ h >> 29;
    ASSERT(index < HISTORY_MAX);
    if (index == c->committed + 1) {
        c->committed = index;
        c->history[index] = n->state;
    } else if (index > c->committed || c->history[index] != n->state) {
        (void)fprintf(stderr, "node %" PRIu64 " applies another entry at %" PRIu64 "\n", n->id,
                      index);
        abort();
    }
}

static void on_fatal(void *ctx, enum status why, const struct reason *reason)
{
    (void)why;
    struct cnode *n = ctx;
    (void)fprintf(stderr, "node %" PRIu64 ": %s\n", n->id, reason->text);
    abort();
}

struct cnode *node_create(struct cluster *c)
{
    ASSERT(c->n_nodes < NODES_MAX);
    struct cnode *n = &c->nodes[c->n_nodes++];
    *n = (struct cnode){.cluster = c, .id = c->n_nodes, .exists = true, .first = 1};
    list_init(&n->writes);
    return n;
}

void node_start(struct cnode *n)
{
    struct cluster *c = n->cluster;
    struct rlog_conf_bytes newest;
    struct rlog_conf conf;
    uint64_t s = n->snap.core.index;
    if (n->up || n->removed)
        return;
    bool contains =
        s >= n->first && s < n->first + n->n && n->log[s - n->first].term == n->snap.core.term;
    if (s != 0 && !contains && n->first != s + 1)
        disk_reset(n, s + 1);
    struct rlog_loaded l = {.first = n->first, .n = n->n, .entries = n->log};
    l.snapshot.index = s;
    l.snapshot.term = n->snap.core.term;
    l.snapshot.conf_index = n->snap.core.conf.index;
    l.snapshot.conf_len = n->snap.core.conf.len;
    memcpy(l.snapshot.conf, n->snap.core.conf.bytes, n->snap.core.conf.len);
    ASSERT(rlog_core_loaded_conf(&l, &newest) == ST_OK);
    uint64_t sole_term = 0;
    if (newest.index != 0 && !planted(PLANT_F2_SOLE_VOTER)) {
        ASSERT(rlog_conf_decode(bytes_of(newest.bytes, newest.len), &conf) == ST_OK);
        if (rlog_conf_sole_voter(&conf, n->id)) {
            sole_term = ++n->term;
            n->vote = n->id;
        }
    }
    l.term = n->term;
    l.vote = n->vote;
    struct rlog_core_options o = {.ops = {on_persist, on_append, on_send, on_offer, on_install,
                                          on_state, on_configured, on_apply, on_fatal, n},
                                  .id = n->id,
                                  .election_ms = ELECTION,
                                  .heartbeat_ms = HEARTBEAT,
                                  .seed = (unsigned)rnd(c, UINT32_MAX)};
    ASSERT(rlog_core_init(&n->core, &o) == ST_OK);
    n->up = true;
    n->installing = false;
    n->state = n->snap.state;
    n->disk_free_ms = c->now;
    ASSERT(rlog_core_start(&n->core, &l, sole_term, c->now) == ST_OK);
}

void node_crash(struct cnode *n)
{
    struct cluster *c = n->cluster;
    if (!n->up)
        return;
    c->crashes++;
    c->truncations += n->core.truncations;
    c->rollbacks += n->core.rollbacks;
    c->elections += n->core.elections;
    if (!list_empty(&n->writes) && rnd(c, 100) < 60) {
        struct write *w = CONTAINER_OF(n->writes.next, struct write, link);
        write_done(n, w, (unsigned)rnd(c, w->n + 1));
        c->torn++;
    } else if (n->installing && rnd(c, 2) == 0) {
        n->snap = n->incoming; /* renamed, the log not reset */
    }
    while (!list_empty(&n->writes))
        write_free(CONTAINER_OF(n->writes.next, struct write, link));
    rlog_core_done(&n->core);
    n->up = false;
    n->life++;
}

void snapshot_create(struct cnode *n)
{
    struct rlog_core *core = &n->core;
    if (!n->up || n->installing || core->applied > core->stored ||
        core->applied <= core->snap.index)
        return;
    struct snap s = {
        .core = {core->applied, rlog_core_term_of(core, core->applied), core->committed},
        .state = n->state};
    n->snap = s;
    uint64_t trailing = rnd(n->cluster, 2) == 0 ? 40 : 10;
    uint64_t upto = rlog_core_snapshot(core, &s.core, trailing, n->cluster->now);
    if (upto != 0)
        disk_drop_prefix(n, MIN(upto, n->first + n->n - 1));
}

static void event_run(struct cluster *c, struct event *e)
{
    struct cnode *n = node_of(c, e->to);
    struct rlog_frame frame;
    bool same_life = n->up && n->life == e->life;
    switch (e->kind) {
    case EV_FRAME:
        if (!n->up)
            break;
        ASSERT(rlog_wire_decode(buf_bytes(&e->frame), &frame) == ST_OK);
        rlog_core_receive(&n->core, e->from, &frame.core, c->now);
        rlog_frame_done(&frame);
        break;
    case EV_DISK:
        if (same_life && !list_empty(&n->writes)) {
            struct write *w = CONTAINER_OF(n->writes.next, struct write, link);
            uint64_t seq = w->seq;
            write_done(n, w, w->n);
            write_free(w);
            rlog_core_written(&n->core, seq, c->now);
        }
        break;
    case EV_SNAP:
        if (!n->up || n->installing)
            break;
        n->incoming = e->snap;
        if (rlog_core_offer(&n->core, e->from, e->term, &e->snap.core, c->now))
            ASSERT(n->installing);
        break;
    case EV_INSTALLED:
        if (!same_life)
            break;
        ASSERT(list_empty(&n->writes));
        n->snap = n->incoming;
        disk_reset(n, n->snap.core.index + 1);
        n->state = n->snap.state;
        n->installing = false;
        c->installs++;
        rlog_core_installed(&n->core, c->now);
        break;
    case EV_RESTART: node_start(n); break;
    case EV_NOTIFIED:
        if (n->up)
            rlog_core_notified(&n->core, e->from, e->term, e->commit, c->now);
        break;
    }
}

static void event_free(struct event *e)
{
    buf_done(&e->frame);
    mem_free(e);
}

void cluster_run(struct cluster *c, uint64_t until)
{
    for (;;) {
        struct cnode *timer = NULL;
        uint64_t at = c->n_events > 0 ? c->events[c->n_events - 1]->at : UINT64_MAX;
        for (unsigned i = 0; i < c->n_nodes; i++)
            if (c->nodes[i].up && c->nodes[i].core.timeout_ms < at) {
                timer = &c->nodes[i];
                at = timer->core.timeout_ms;
            }
        if (at >= until)
            break;
        c->now = MAX(c->now, at);
        if (timer != NULL) {
            rlog_core_timeout(&timer->core, c->now);
            continue;
        }
        struct event *e = c->events[--c->n_events];
        event_run(c, e);
        event_free(e);
    }
    c->now = until;
}

struct cnode *cluster_leader(struct cluster *c)
{
    struct cnode *best = NULL;
    for (unsigned i = 0; i < c->n_nodes; i++) {
        struct cnode *n = &c->nodes[i];
        if (n->up && rlog_core_leads(&n->core) && (best == NULL || n->core.term > best->core.term))
            best = n;
    }
    return best;
}

struct rlog_member member_make(uint64_t id, enum rlog_role role)
{
    struct rlog_member m = {.id = id, .role = role};
    (void)snprintf(m.name, sizeof m.name, "n%" PRIu64, id);
    (void)snprintf(m.address, sizeof m.address, "host%" PRIu64 ":8201", id);
    return m;
}

struct rlog_entry entry_make(enum rlog_entry_type type, struct bytes data)
{
    struct rlog_block *block = rlog_block_new(data.len);
    ASSERT(block != NULL);
    memcpy(rlog_block_data(block), data.data, data.len);
    return (struct rlog_entry){1, type, bytes_of(rlog_block_data(block), data.len), block};
}

struct cluster *cluster_new(uint64_t seed, unsigned n_initial_members)
{
    struct cluster *c = mem_zalloc(sizeof *c);
    struct rlog_conf conf = {.n = n_initial_members};
    struct rlog_conf_bytes encoded;
    ASSERT(c != NULL);
    c->rng = seed * 0x9E3779B97F4A7C15u | 1;
    c->now = 1000;
    for (unsigned i = 0; i < n_initial_members; i++)
        conf.members[i] = member_make(i + 1, RLOG_VOTER);
    ASSERT(rlog_conf_encode(&conf, &encoded) == ST_OK);
    for (unsigned i = 0; i < n_initial_members; i++) {
        struct cnode *n = node_create(c);
        struct rlog_entry e = entry_make(RLOG_CHANGE, bytes_of(encoded.bytes, encoded.len));
        disk_add(n, &e);
        rlog_block_unref(e.block);
        n->term = 1;
    }
    for (unsigned i = 0; i < n_initial_members; i++)
        node_start(&c->nodes[i]);
    return c;
}

void cluster_free(struct cluster *c)
{
    for (unsigned i = 0; i < c->n_nodes; i++) {
        node_crash(&c->nodes[i]);
        disk_truncate(&c->nodes[i], c->nodes[i].first);
        mem_free(c->nodes[i].log);
    }
    while (c->n_events > 0)
        event_free(c->events[--c->n_events]);
    mem_free(c->events);
    mem_free(c);
}

enum status cluster_submit(struct cnode *n, uint64_t value)
{
    uint8_t data[8];
    uint64_t index;
    le64_put(data, value);
    struct rlog_entry e = entry_make(RLOG_COMMAND, bytes_of(data, 8));
    enum status st = rlog_core_submit(&n->core, RLOG_COMMAND, &e, n->cluster->now, &index);
    rlog_block_unref(e.block);
    return st;
}

void cluster_tell(struct cnode *leader, struct cnode *to)
{
    struct cluster *c = leader->cluster;
    struct event *e = event_new(EV_NOTIFIED, to);
    e->from = leader->id;
    e->term = leader->core.term;
    e->commit = leader->core.commit;
    event_push(c, e, c->now + 1 + rnd(c, rnd(c, 10) == 0 ? 500 : 5));
}
