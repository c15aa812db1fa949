#include "store/store.h"
#include "base/mem.h"
#include "store/pins.h"
#include "store/read.h"
#include "store/tree.h"

enum {
    PUBLISHED_KEPT = 64, /* a reader between two looks may fall this far behind, then starts over */
    TICK_MS = 250,       /* while pins are held or dead nodes wait */
};

struct published {
    _Atomic(const struct store_node *) root, floor, staged;
    _Atomic bool staging;
    _Atomic uint64_t newest, version;
};

struct store {
    struct env *env;
    struct store_tree live, staged;
    bool staging;
    uint64_t shared; /* the staged tree is a clone: greatest birth of nodes in both trees; else 0 */
    struct store_node *part; /* a leaf: prefix is what the clone was made of; else NULL */
    struct store_node *floor; /* a leaf: prefix is what a swap keeps, newest the swap's version */
    struct store_writer writer;
    struct env_timer timer;
    bool ticking;
    struct store_pins pins;
    _Atomic uint64_t generation; /* the newest published generation; storing it publishes */
    struct published published[PUBLISHED_KEPT];
};

static void publish(struct store *store, uint64_t version)
{
    uint64_t generation = store->writer.batch;
    struct published *p = &store->published[generation % PUBLISHED_KEPT];
    atomic_store_explicit(&p->root, store->live.root, memory_order_release);
    atomic_store_explicit(&p->floor, store->floor, memory_order_release);
    atomic_store_explicit(&p->staged, store->staged.root, memory_order_release);
    atomic_store_explicit(&p->staging, store->staging, memory_order_release);
    atomic_store_explicit(&p->newest, store->live.newest, memory_order_release);
    atomic_store_explicit(&p->version, version, memory_order_release);
    atomic_store(&store->generation, generation);
    ASSERT(generation < STORE_BIRTH_MAX);
    store->writer.batch++;
}

enum status store_new(struct env *env, struct store **ret_store)
{
    struct store *store = mem_zalloc(sizeof *store);
    if (store == NULL)
        return ST_NOMEM;
    store->env = env;
    store->writer.batch = 1;
    store->writer.reclaim.env = env;
    store->writer.reclaim.pins = &store->pins;
    if (store_pins_init(&store->pins) != ST_OK) {
        mem_free(store);
        return ST_NOMEM;
    }
    publish(store, 0);
    *ret_store = store;
    return ST_OK;
}

bool store_idle(const struct store *store)
{
    return !store->writer.reclaim.job.busy;
}

void store_free(struct store *store)
{
    if (store == NULL)
        return;
    ASSERT(store_idle(store));
    store_pins_done(&store->pins);
    if (store->ticking)
        env_timer_stop(store->env, &store->timer);
    store_stage_drop(store);
    store_reclaim_free_tree(store->live.root);
    store_reclaim_free_tree(store->floor);
    store_reclaim_done(&store->writer.reclaim);
    mem_free(store);
}

struct store_pin_owner {
    const char *owner;
    uint32_t deadline_ms;
};

/* Pin the newest publication; *ret_staged is its staged tree. */
static enum status pin_take(struct store *store, struct store_pin_owner by,
                            const struct store_node **ret_staged, bool *ret_staging,
                            struct store_pin *ret_pin)
{
    uint64_t generation;
    unsigned slot;
    struct store_pin pin = {.store = store};

    TRY(store_pins_take(&store->pins, &store->generation, &generation, &slot));
    store_pins_describe(&store->pins, slot, by.owner, by.deadline_ms);
    for (;;) {
        struct published *p = &store->published[generation % PUBLISHED_KEPT];
        pin.root = atomic_load_explicit(&p->root, memory_order_acquire);
        pin.floor = atomic_load_explicit(&p->floor, memory_order_acquire);
        pin.newest = atomic_load_explicit(&p->newest, memory_order_acquire);
        pin.version = atomic_load_explicit(&p->version, memory_order_acquire);
        *ret_staged = atomic_load_explicit(&p->staged, memory_order_acquire);
        *ret_staging = atomic_load_explicit(&p->staging, memory_order_acquire);
        if (atomic_load(&store->generation) - generation < PUBLISHED_KEPT - 1)
            break;
        generation = store_pins_renew(&store->pins, &store->generation, slot);
    }
    pin.generation = generation;
    pin.slot = slot;
    *ret_pin = pin;
    return ST_OK;
}

enum status store_pin(struct store *store, const char *owner, uint32_t deadline_ms,
                      struct store_pin *ret_pin)
{
    const struct store_node *staged;
    bool staging;
    return pin_take(store, (struct store_pin_owner){owner, deadline_ms}, &staged, &staging, ret_pin);
}

enum status store_pin_staged(struct store *store, const char *owner, uint32_t deadline_ms,
                             struct store_pin *ret_pin)
{
    struct store_pin pin;
    const struct store_node *staged;
    bool staging;
    TRY(pin_take(store, (struct store_pin_owner){owner, deadline_ms}, &staged, &staging, &pin));
    if (!staging) {
        store_unpin(&pin);
        return ST_NOT_FOUND;
    }
    pin.root = staged;
    pin.floor = NULL;
    *ret_pin = pin;
    return ST_OK;
}

void store_unpin(struct store_pin *pin)
{
    ASSERT(pin->store != NULL);
    store_pins_give(&pin->store->pins, pin->slot);
    *pin = (struct store_pin){0};
}

/* The keys that a clone was made of stay as they are while it is staged: they share nodes. */
static void live_check(const struct store *store, struct bytes key)
{
    if (store->shared != 0)
        ASSERT(!bytes_has_prefix(key, store_node_prefix(store->part)) &&
               !bytes_has_prefix(store_node_prefix(store->part), key));
}

void store_put(struct store *store, struct bytes key, struct bytes value, uint64_t version)
{
    struct store_change change = {.key = key, .value = value, .modified = version};
    live_check(store, key);
    store_tree_put(&store->writer, &store->live, &change);
}

void store_put_retain(struct store *store, struct bytes key, struct bytes value,
                      struct store_retain retain, uint64_t version)
{
    struct store_change change = {
        .key = key, .value = value, .retain = retain, .modified = version};
    live_check(store, key);
    store_tree_put(&store->writer, &store->live, &change);
}

bool store_delete(struct store *store, struct bytes key, uint64_t version)
{
    live_check(store, key);
    return store_tree_delete(&store->writer, &store->live, key, version);
}

static void drop(struct store *store, struct store_node *top)
{
    store_reclaim_drop(&store->writer.reclaim, top, store->writer.batch);
}

void store_delete_prefix(struct store *store, struct bytes prefix, uint64_t version)
{
    size_t hidden;
    live_check(store, prefix);
    drop(store, store_tree_cut(&store->writer, &store->live, prefix, version, &hidden));
}

enum status store_writer_get(struct store *store, struct bytes key, struct store_item *ret_item)
{
    const struct store_leaf *leaf = store_read_leaf(store->live.root, key);
    if (leaf == NULL)
        return ST_NOT_FOUND;
    store_read_item(leaf, key, ret_item);
    store->writer.reclaim.lent = true;
    return ST_OK;
}

uint64_t store_writer_newest(struct store *store, struct bytes prefix)
{
    struct store_view view = {store->live.root, store->floor, store->live.newest};
    return store_read_newest(&view, prefix);
}

static void on_timer(struct env_timer *timer);

/* Look at the pins, and again soon while any are held or dead nodes wait. */
static void tick(struct store *store, bool waiting)
{
    if (store->env == NULL)
        return;
    uint64_t now_ms = env_mono_ms(store->env);
    waiting |= store_pins_tick(&store->pins, now_ms) != 0;
    if (!waiting || store->ticking)
        return;
    store->ticking = true;
    store->timer.fire = on_timer;
    env_timer_set(store->env, &store->timer, now_ms + TICK_MS);
}

static void on_timer(struct env_timer *timer)
{
    struct store *store = CONTAINER_OF(timer, struct store, timer);
    store->ticking = false;
    tick(store, store_reclaim_run(&store->writer.reclaim));
}

void store_publish(struct store *store, uint64_t version)
{
    publish(store, version);
    tick(store, store_reclaim_published(&store->writer.reclaim));
}

/* The staged tree is a clone no more. */
static void clone_end(struct store *store)
{
    if (store->part != NULL)
        store_node_free(&store->writer.reclaim.spare, store->part);
    store->part = NULL;
    store->shared = 0;
}

static void clone_drop(struct store *store)
{
    struct store_writer *w = &store->writer;
    struct store_node *node;
    store_reclaim_drop_younger(&w->reclaim, store->staged.root, store->shared, w->batch);
    while (store_dead_next(&w->parted, &node))
        continue; /* the node lives on in the tree that the clone was made of */
    clone_end(store);
}

void store_stage_drop(struct store *store)
{
    if (store->shared != 0)
        clone_drop(store);
    else
        drop(store, store->staged.root);
    store->staged = (struct store_tree){0};
    store->staging = false;
}

void store_stage_clone(struct store *store, struct bytes part)
{
    struct store_writer *w = &store->writer;
    size_t hidden;
    uint8_t key[STORE_KEY_MAX];
    ASSERT(part.len != 0);
    store_stage_drop(store);
    store->staging = true;
    /* Nodes of the running batch are edited in place: end it, so that no shared node is one. */
    store->shared = w->batch++;
    ASSERT(w->batch < STORE_BIRTH_MAX);
    store->part = &store_leaf_new(store_birth_of(w), part, BYTES(""), (struct bytes){0})->node;
    struct store_node *top = (struct store_node *)(uintptr_t)store_read_top(store->live.root, part,
                                                                            &hidden);
    if (top == NULL)
        return;
    struct bytes tail = bytes_from(store_node_prefix(top), hidden);
    ASSERT(part.len + tail.len <= sizeof key);
    memcpy(key, part.data, part.len);
    if (tail.len != 0)
        memcpy(key + part.len, tail.data, tail.len);
    store->staged.root =
        store_node_clone(top, store_birth_of(w), bytes_of(key, part.len + tail.len), 0);
    store->staged.newest = top->newest;
    store_weight_add(&w->reclaim.live, store->staged.root);
}

/* Begin and end a change of the staged tree. */
static struct store_writer *staged_begin(struct store *store)
{
    ASSERT(store->staging);
    store->writer.shared = store->shared;
    return &store->writer;
}

static void staged_end(struct store *store)
{
    store->writer.shared = 0;
}

bool store_stage_delete(struct store *store, struct bytes key)
{
    bool found = store_tree_delete(staged_begin(store), &store->staged, key, 0);
    staged_end(store);
    return found;
}

void store_stage_begin(struct store *store)
{
    store_stage_drop(store);
    store->staging = true;
}

bool store_staging(const struct store *store)
{
    return store->staging;
}

void store_stage_put(struct store *store, struct bytes key, struct bytes value, uint64_t created,
                     uint64_t modified)
{
    struct store_change change = {
        .key = key, .value = value, .modified = modified, .created = created, .restored = true};
    store_tree_put(staged_begin(store), &store->staged, &change);
    staged_end(store);
}

static void floor_drop(struct store *store)
{
    if (store->floor != NULL)
        store_reclaim_retire(&store->writer.reclaim, store->floor, store->writer.batch);
    store->floor = NULL;
}

static void floor_set(struct store *store, struct bytes keep, uint64_t newest)
{
    struct store_writer *w = &store->writer;
    struct store_leaf *leaf = store_leaf_new(store_birth_of(w), keep, BYTES(""), (struct bytes){0});
    leaf->node.newest = newest;
    floor_drop(store);
    store->floor = &leaf->node;
    store_weight_add(&w->reclaim.live, store->floor);
}

/* Move the live keys below `keep` into the staged tree. */
static void carry_over(struct store *store, struct bytes keep)
{
    struct store_writer *w = &store->writer;
    size_t hidden;
    drop(store, store_tree_cut(w, &store->staged, keep, 0, &hidden));
    struct store_node *kept = store_tree_cut(w, &store->live, keep, 0, &hidden);
    if (kept != NULL)
        store_tree_graft(w, &store->staged, keep, kept, hidden);
}

void store_stage_newest(struct store *store, struct bytes prefix, uint64_t version)
{
    store_tree_raise(staged_begin(store), &store->staged, prefix, version);
    staged_end(store);
}

void store_floor_raise(struct store *store, struct bytes keep, uint64_t floor)
{
    ASSERT(store->floor == NULL || bytes_eq(store_node_prefix(store->floor), keep));
    if (floor <= (store->floor != NULL ? store->floor->newest : 0))
        return;
    store->live.newest = MAX(store->live.newest, floor);
    floor_set(store, keep, floor);
}

void store_stage_swap_clone(struct store *store, struct bytes keep, uint64_t floor)
{
    struct store_writer *w = &store->writer;
    struct store_node *node;
    size_t hidden;
    ASSERT(store->staging && store->shared != 0);
    struct store_node *kept = store_tree_cut(w, &store->live, keep, 0, &hidden), *top = store->live.root;
    if (top != NULL) { /* the clone has a top of its own, and shares all below but `parted` */
        ASSERT(bytes_has_prefix(store_node_prefix(top), store_node_prefix(store->part)));
        store_reclaim_retire(&w->reclaim, top, w->batch);
    }
    while (store_dead_next(&w->parted, &node))
        store_reclaim_retire(&w->reclaim, node, w->batch);
    if (kept != NULL)
        store_tree_graft(w, &store->staged, keep, kept, hidden);
    store->live.root = store->staged.root;
    store->live.newest = MAX(store->live.newest, store->staged.newest);
    clone_end(store);
    store->staged = (struct store_tree){0};
    store->staging = false;
    store_floor_raise(store, keep, floor);
}

void store_stage_swap_as_is(struct store *store, struct bytes keep)
{
    ASSERT(store->staging && store->shared == 0);
    ASSERT(store->floor == NULL || bytes_eq(store_node_prefix(store->floor), keep));
    if (keep.len != 0)
        carry_over(store, keep);
    drop(store, store->live.root);
    store->live.root = store->staged.root;
    store->live.newest = MAX(store->live.newest, store->staged.newest);
    store->staged = (struct store_tree){0};
    store->staging = false;
    floor_drop(store);
}

void store_stage_swap(struct store *store, struct bytes keep, uint64_t version)
{
    store_stage_swap_as_is(store, keep);
    store->live.newest = MAX(store->live.newest, version);
    floor_set(store, keep, version);
}

void store_load_put(struct store *store, struct bytes key, struct bytes value, uint64_t created,
                    uint64_t modified)
{
    struct store_change change = {
        .key = key, .value = value, .modified = modified, .created = created, .restored = true};
    store_tree_put(&store->writer, &store->live, &change);
}

void store_load_reset(struct store *store)
{
    store_stage_drop(store);
    floor_drop(store);
    drop(store, store->live.root);
    store->live = (struct store_tree){0};
}

void store_raise_newest(struct store *store, struct bytes prefix, uint64_t version)
{
    store_tree_raise(&store->writer, &store->live, prefix, version);
}

void store_stats(struct store *store, struct store_stats *ret_stats)
{
    const struct store_reclaim *r = &store->writer.reclaim;
    *ret_stats = (struct store_stats){
        .keys = atomic_load_explicit(&r->shown.keys, memory_order_relaxed),
        .nodes = atomic_load_explicit(&r->shown.nodes, memory_order_relaxed),
        .bytes = atomic_load_explicit(&r->shown.bytes, memory_order_relaxed),
        .retained_bytes = atomic_load_explicit(&r->shown.retained_bytes, memory_order_relaxed),
        .generation = atomic_load(&store->generation),
    };
    store_pins_stats(&store->pins, &ret_stats->pins, &ret_stats->oldest_pin_age_ms);
}
