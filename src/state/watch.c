#include "state/watch.h"

#include "base/mem.h"
#include "base/plant.h"
#include "base/tally.h"
#include "state/state_internal.h"

#include <stdatomic.h>

enum { PIN_DEADLINE_MS = 10 * 1000 };

/* A node of the tree of watched keys: a watched key, or a point where two of them part. A node
 * whose other branches have ended stays until its last branch ends. */
struct watch_node {
    struct watch_node *parent;    /* NULL: the root */
    struct watch_node **children; /* sorted by the first byte of their edges */
    unsigned n_children, cap;
    unsigned present;    /* watches at or below that found their key or prefix present */
    struct list watches; /* watches of the key that ends here */
    size_t edge_len;
    uint8_t edge[]; /* bytes of the key behind the parent's */
};

/* One key or prefix of a watcher. */
struct watch {
    struct list link;   /* link in the node's list */
    struct watch *next; /* of the same watcher */
    struct state_watcher *watcher;
    struct watch_node *node;
    struct state_watched what; /* without the key, which the node has */
};

struct state_watches {
    struct state *state;
    struct watch_node *root;
    struct list watchers; /* begun, and not told */
    struct list fired;    /* to be told */
    uint64_t walked;      /* every change up to this version was compared with the watches */
    uint64_t walk_ms;     /* time of the last walk */
    atomic_bool active;   /* there are watchers: a publication must be followed by a walk */
    atomic_bool posted;   /* `task` is on its way, or `timer` is set */
    struct env_task task;
    struct env_timer timer;
    _Atomic uint64_t n, walks, visited, told;
};

/* The tree of watched keys */

static struct bytes edge_of(const struct watch_node *node)
{
    return bytes_of(node->edge, node->edge_len);
}

static struct watch_node *node_new(struct bytes edge)
{
    struct watch_node *node = mem_zalloc(sizeof *node + edge.len);
    if (node == NULL)
        return NULL;
    list_init(&node->watches);
    node->edge_len = edge.len;
    if (edge.len != 0)
        memcpy(node->edge, edge.data, edge.len);
    return node;
}

static void node_free(struct watch_node *node)
{
    ASSERT(list_empty(&node->watches) && node->present == 0);
    mem_free(node->children);
    mem_free(node);
}

/* The position of the first child whose edge begins with `byte` or a greater byte. */
static unsigned child_at(const struct watch_node *node, uint8_t byte)
{
    unsigned low = 0, high = node->n_children;
    while (low < high) {
        unsigned middle = (low + high) / 2;
        if (node->children[middle]->edge[0] < byte)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct watch_node *child_of(const struct watch_node *node, uint8_t byte)
{
    unsigned at = child_at(node, byte);
    bool found = at < node->n_children && node->children[at]->edge[0] == byte;
    return found ? node->children[at] : NULL;
}

static enum status child_add(struct watch_node *node, struct watch_node *child)
{
    if (node->n_children == node->cap) {
        unsigned cap = node->cap != 0 ? node->cap * 2 : 2;
        struct watch_node **more = mem_realloc(node->children, cap * sizeof(struct watch_node *));
        if (more == NULL)
            return ST_NOMEM;
        node->children = more;
        node->cap = cap;
    }
    unsigned at = child_at(node, child->edge[0]);
    ASSERT(child->parent == NULL && child->edge_len != 0);
    ASSERT(at == node->n_children || node->children[at]->edge[0] != child->edge[0]);
    memmove(node->children + at + 1, node->children + at,
            (node->n_children - at) * sizeof(struct watch_node *));
    node->children[at] = child;
    node->n_children++;
    child->parent = node;
    return ST_OK;
}

/* Put a node into the edge of `node`, behind its first `len` bytes. NULL: no memory. */
static struct watch_node *node_split(struct watch_node *node, size_t len)
{
    struct watch_node *parent = node->parent;
    struct watch_node *upper = node_new(bytes_of(node->edge, len));
    ASSERT(parent != NULL && len > 0);
    ASSERT(len < node->edge_len);
    if (upper == NULL)
        return NULL;
    upper->children = mem_alloc(2 * sizeof(struct watch_node *));
    if (upper->children == NULL) {
        node_free(upper);
        return NULL;
    }
    upper->cap = 2;
    upper->parent = parent;
    upper->present = node->present;
    parent->children[child_at(parent, node->edge[0])] = upper;
    node->edge_len -= len;
    memmove(node->edge, node->edge + len, node->edge_len);
    upper->children[0] = node;
    upper->n_children = 1;
    node->parent = upper;
    return upper;
}

/* Remove nodes that nothing needs any more, from `node` upwards. */
static void node_prune(struct watch_node *node)
{
    while (node->parent != NULL && node->n_children == 0 && list_empty(&node->watches)) {
        struct watch_node *parent = node->parent;
        unsigned at = child_at(parent, node->edge[0]);
        ASSERT(at < parent->n_children && parent->children[at] == node);
        ASSERT(node->present == 0);
        parent->n_children--;
        memmove(parent->children + at, parent->children + at + 1,
                (parent->n_children - at) * sizeof(struct watch_node *));
        node_free(node);
        node = parent;
    }
}

/* Find or make the node of a key. NULL: no memory; nodes without a use are pruned. */
static struct watch_node *node_at(struct watch_node *root, struct bytes key)
{
    struct watch_node *node = root, *next;
    ASSERT(root->parent == NULL);
    while (key.len != 0) {
        next = child_of(node, key.data[0]);
        if (next == NULL) {
            next = node_new(key);
            if (next == NULL || child_add(node, next) != ST_OK) {
                mem_free(next);
                node_prune(node);
                return NULL;
            }
            return next;
        }
        size_t same = bytes_common_len(key, edge_of(next));
        if (same < next->edge_len)
            next = node_split(next, same);
        if (next == NULL)
            return NULL;
        key = bytes_from(key, same);
        node = next;
    }
    return node;
}

static void count_present(struct watch_node *node, int by)
{
    for (; node != NULL; node = node->parent)
        node->present += (unsigned)by;
}

/* Watchers */

static void detach(struct state_watcher *watcher)
{
    while (watcher->watches != NULL) {
        struct watch *watch = watcher->watches;
        ASSERT(watch->watcher == watcher);
        watcher->watches = watch->next;
        list_remove(&watch->link);
        if (watch->what.present)
            count_present(watch->node, -1);
        node_prune(watch->node);
        mem_free(watch);
    }
}

static enum status attach(struct state_watches *ws, struct state_watcher *watcher,
                          const struct state_watched *keys, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct watch *watch = mem_alloc(sizeof *watch);
        struct watch_node *node = watch != NULL ? node_at(ws->root, keys[i].key) : NULL;
        if (node == NULL) {
            mem_free(watch);
            detach(watcher);
            return ST_NOMEM;
        }
        *watch = (struct watch){.next = watcher->watches,
                                .watcher = watcher,
                                .node = node,
                                .what = {.prefix = keys[i].prefix, .present = keys[i].present}};
        watcher->watches = watch;
        list_push(&node->watches, &watch->link);
        if (watch->what.present)
            count_present(node, 1);
    }
    return ST_OK;
}

static void fire(struct state_watches *ws, struct state_watcher *watcher)
{
    if (watcher->fired)
        return;
    watcher->fired = true;
    list_remove(&watcher->link);
    list_push(&ws->fired, &watcher->link);
}

static void ended(struct state_watches *ws, struct state_watcher *watcher)
{
    list_remove(&watcher->link);
    ASSERT(watcher->begun && tally_get(&ws->n) != 0);
    watcher->begun = false;
    detach(watcher);
    tally_add(&ws->n, (uint64_t)-1);
    if (list_empty(&ws->watchers) && list_empty(&ws->fired))
        atomic_store(&ws->active, false);
}

void state_watch_end(struct state_watches *watches, struct state_watcher *watcher)
{
    if (watcher->begun)
        ended(watches, watcher);
}

/* The walk */

/* Whether a watched key or prefix has changed after the version `since`. */
static bool has_changed(const struct state_watched *watched, uint64_t since,
                        const struct store_place *place)
{
    uint64_t modified = watched->prefix ? place->newest : store_place_modified(place);
    bool there = watched->prefix ? place->node != NULL : modified != 0;
    if (planted(PLANT_WATCH_INDEX))
        since++;
    return there ? modified > since : watched->present;
}

/* Compare the watches at and below `node` with the keys at and below `place`. The recursion is as
 * deep as watched keys have other watched keys, or points where such keys part, as prefixes. */
static void visit(struct state_watches *ws, const struct watch_node *node,
                  const struct store_place *place)
{
    bool absent = place->node == NULL;
    ASSERT(node->edge_len <= STATE_KEY_MAX);
    if (place->newest <= ws->walked || (absent && node->present == 0))
        return;
    tally_add(&ws->visited, 1);
    LIST_FOR (link, &node->watches) {
        const struct watch *watch = CONTAINER_OF(link, struct watch, link);
        if (has_changed(&watch->what, watch->watcher->since, place))
            fire(ws, watch->watcher);
    }
    for (unsigned i = 0; i < node->n_children; i++) {
        const struct watch_node *child = node->children[i];
        struct store_place below = store_place_below(place, edge_of(child));
        visit(ws, child, &below);
    }
}

static void fire_all(struct state_watches *ws)
{
    LIST_FOR_SAFE (link, after, &ws->watchers)
        fire(ws, CONTAINER_OF(link, struct state_watcher, link));
}

static void tell(struct state_watches *ws)
{
    struct list *link;
    while ((link = ws->fired.next) != &ws->fired) {
        struct state_watcher *watcher = CONTAINER_OF(link, struct state_watcher, link);
        ended(ws, watcher);
        tally_add(&ws->told, 1);
        watcher->changed(watcher); /* maybe the last touch of the watcher */
    }
}

static void walk_later(struct state_watches *ws, uint64_t at_ms);

static void walk(struct state_watches *ws)
{
    struct store_pin pin;
    struct env *env = ws->state->env;
    ASSERT(atomic_load(&ws->posted) && ws->timer.slot == 0);
    if (tally_get(&ws->n) == 0) { /* the replica may be gone */
        atomic_store(&ws->posted, false);
        return;
    }
    ws->walk_ms = env_mono_ms(env);
    atomic_store(&ws->posted, false);
    if (store_pin(ws->state->log->store, "watch", PIN_DEADLINE_MS, &pin) != ST_OK) {
        atomic_store(&ws->posted, true);
        walk_later(ws, ws->walk_ms + WATCH_PAUSE_MS); /* every pin is in use */
        return;
    }
    tally_add(&ws->walks, 1);
    if (core_restored(&pin) > ws->walked || pin.version < ws->walked) {
        fire_all(ws);
    } else {
        struct store_place top = store_place_top(&pin);
        visit(ws, ws->root, &top);
    }
    ws->walked = pin.version;
    store_unpin(&pin);
    tell(ws);
}

static void on_timer(struct env_timer *timer)
{
    walk(CONTAINER_OF(timer, struct state_watches, timer));
}

static void walk_later(struct state_watches *ws, uint64_t at_ms)
{
    ws->timer.fire = on_timer;
    env_timer_set(ws->state->env, &ws->timer, at_ms);
}

static void on_task(struct env_task *task)
{
    struct state_watches *ws = CONTAINER_OF(task, struct state_watches, task);
    uint64_t now_ms = env_mono_ms(ws->state->env), next_ms = ws->walk_ms + WATCH_PAUSE_MS;
    if (now_ms < next_ms)
        walk_later(ws, next_ms);
    else
        walk(ws);
}

static void post(struct state_watches *ws)
{
    if (atomic_load(&ws->posted) || atomic_exchange(&ws->posted, true))
        return;
    env_post(ws->state->env, &ws->task);
}

/* The publication comes before the look at `active`, and state_watch_begin sets `active` before it
 * pins: either this function sees the watcher, or the watcher sees the publication. */
void state_watches_published(struct state_watches *watches)
{
    if (atomic_load(&watches->active))
        post(watches);
}

/* Tell a new watcher what has changed since its transaction. From here on the walks find every
 * change: `active` is set, and no walk has gone beyond the version that is compared here. */
static enum status catch_up(struct state_watches *ws, struct state_watcher *watcher,
                            const struct state_watched *keys, size_t n)
{
    struct store_pin pin;
    TRY(store_pin(ws->state->log->store, "watch", PIN_DEADLINE_MS, &pin));
    bool changed = core_restored(&pin) > watcher->since || pin.version < watcher->since;
    if (pin.version != watcher->since && !changed) {
        struct store_place top = store_place_top(&pin);
        for (size_t i = 0; i < n && !changed; i++) {
            struct store_place place = store_place_below(&top, keys[i].key);
            changed = has_changed(&keys[i], watcher->since, &place);
        }
    }
    ASSERT(tally_get(&ws->n) > 0 && watcher->begun);
    if (tally_get(&ws->n) == 1) /* no other watcher holds the walks back */
        ws->walked = pin.version;
    store_unpin(&pin);
    if (changed && !planted(PLANT_WATCH_DROPPED)) {
        fire(ws, watcher);
        post(ws);
    }
    return ST_OK;
}

enum status state_watch_begin(struct state_watches *watches, struct state_watcher *watcher,
                              const struct state_txn *txn, const struct state_watched *keys,
                              size_t n)
{
    ASSERT(txn->open && !watcher->begun && watcher->changed != NULL);
    watcher->since = txn->pin.version;
    watcher->watches = NULL;
    watcher->fired = false;
    TRY(attach(watches, watcher, keys, n));
    watcher->begun = true;
    list_push(&watches->watchers, &watcher->link);
    tally_add(&watches->n, 1);
    atomic_store(&watches->active, true);
    enum status st = catch_up(watches, watcher, keys, n);
    if (st != ST_OK)
        ended(watches, watcher);
    return st;
}

enum status state_watches_new(struct state *state, struct state_watches **ret_watches)
{
    struct state_watches *ws = mem_zalloc(sizeof *ws);
    if (ws == NULL)
        return ST_NOMEM;
    ws->root = node_new((struct bytes){0});
    if (ws->root == NULL) {
        mem_free(ws);
        return ST_NOMEM;
    }
    ws->state = state;
    list_init(&ws->watchers);
    list_init(&ws->fired);
    ws->task.run = on_task;
    *ret_watches = ws;
    return ST_OK;
}

bool state_watches_idle(const struct state_watches *watches)
{
    return !atomic_load(&watches->posted) || watches->timer.slot != 0;
}

void state_watches_free(struct state_watches *watches)
{
    if (watches == NULL)
        return;
    ASSERT(tally_get(&watches->n) == 0);
    ASSERT(state_watches_idle(watches));
    env_timer_stop(watches->state->env, &watches->timer);
    node_free(watches->root);
    mem_free(watches);
}

void state_watches_counters(const struct state_watches *watches,
                            struct state_watch_counters *ret_counters)
{
    *ret_counters = (struct state_watch_counters){
        .watchers = tally_get(&watches->n),
        .walks = tally_get(&watches->walks),
        .visited = tally_get(&watches->visited),
        .told = tally_get(&watches->told),
    };
}
