#include "store/reclaim.h"
#include "base/mem.h"

enum {
    CHUNK_ITEMS = 254,     /* a chunk is 4 KiB */
    LOOSE_INLINE = 1024,   /* loose nodes the writer judges at each run, at least */
    LOOSE_FOR_JOB = 16384, /* with more loose nodes than this, the background judges them */
};

struct store_dead_chunk {
    struct store_dead_chunk *next;
    size_t n;
    struct store_dead items[CHUNK_ITEMS];
};

/* Last in, first out: the walk of a dropped subtree keeps a short list. */
static void dead_add(struct store_dead_list *list, struct store_dead dead)
{
    struct store_dead_chunk *chunk = list->first;
    if (chunk == NULL || chunk->n == CHUNK_ITEMS) {
        chunk = mem_must_alloc(sizeof *chunk);
        chunk->next = list->first;
        chunk->n = 0;
        list->first = chunk;
        if (list->last == NULL)
            list->last = chunk;
    }
    chunk->items[chunk->n++] = dead;
    list->n++;
}

/* false when empty. */
static bool dead_take(struct store_dead_list *list, struct store_dead *ret_dead)
{
    struct store_dead_chunk *chunk = list->first;
    if (chunk == NULL)
        return false;
    ASSERT(chunk->n > 0);
    ASSERT(list->n > 0);
    *ret_dead = chunk->items[--chunk->n];
    list->n--;
    if (chunk->n == 0) {
        list->first = chunk->next;
        if (list->first == NULL)
            list->last = NULL;
        mem_free(chunk);
    }
    return true;
}

/* Moves all of `from`. */
static void dead_splice(struct store_dead_list *to, struct store_dead_list *from)
{
    if (from->first == NULL)
        return;
    if (to->last != NULL)
        to->last->next = from->first;
    else
        to->first = from->first;
    to->last = from->last;
    to->n += from->n;
    *from = (struct store_dead_list){0};
}

static struct store_retire_list *retire_list_of(struct store_retire_lists *retired,
                                                uint64_t generation)
{
    size_t low = 0, high = retired->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (retired->items[middle].generation < generation)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < retired->n && retired->items[low].generation == generation)
        return &retired->items[low];
    if (retired->n == retired->cap) {
        retired->cap = retired->cap != 0 ? retired->cap * 2 : 8;
        retired->items = mem_must_realloc(retired->items, retired->cap * sizeof *retired->items);
    }
    memmove(retired->items + low + 1, retired->items + low,
            (retired->n - low) * sizeof *retired->items);
    retired->n++;
    retired->items[low] = (struct store_retire_list){.generation = generation};
    return &retired->items[low];
}

static void retired_done(struct store_retire_lists *retired)
{
    ASSERT(retired->n == 0);
    mem_free(retired->items);
    *retired = (struct store_retire_lists){0};
}

void store_weight_add(struct store_weight *weight, const struct store_node *node)
{
    weight->keys += node->kind == STORE_LEAF;
    weight->nodes++;
    weight->bytes += store_node_bytes(node);
}

static void weight_sub(struct store_weight *from, const struct store_weight *less)
{
    ASSERT(from->nodes >= less->nodes);
    ASSERT(from->bytes >= less->bytes);
    from->keys -= less->keys;
    from->nodes -= less->nodes;
    from->bytes -= less->bytes;
}

/* Free a dead node, or put it into the retire list of a pin that needs it. Returns the bytes
 * freed. `spare` may be NULL. */
static uint64_t dead_judge(struct store_dead dead, const struct store_held *held,
                           struct store_retire_lists *retired, struct store_spare *spare)
{
    ASSERT(store_node_birth(dead.node) <= dead.death);
    uint64_t pin = store_held_between(held, store_node_birth(dead.node), dead.death);
    if (pin != 0) {
        dead_add(&retire_list_of(retired, pin)->dead, dead);
        return 0;
    }
    uint64_t bytes = store_node_bytes(dead.node);
    store_spare_give(spare, dead.node, bytes);
    return bytes;
}

void store_reclaim_retire(struct store_reclaim *r, struct store_node *node, uint64_t batch)
{
    struct store_weight weight = {0};
    store_weight_add(&weight, node);
    weight_sub(&r->live, &weight);
    ASSERT(store_node_birth(node) <= batch);
    if (store_node_birth(node) < batch) {
        r->retained_bytes += weight.bytes;
        dead_add(&r->fresh, (struct store_dead){node, batch});
    } else if (node->kind == STORE_LEAF && r->lent) {
        dead_add(&r->spent, (struct store_dead){node, batch});
    } else {
        store_spare_give(&r->spare, node, weight.bytes);
    }
}

void store_reclaim_drop(struct store_reclaim *r, struct store_node *root, uint64_t batch)
{
    if (root != NULL)
        dead_add(&r->fresh_drops, (struct store_dead){root, batch});
}

static void push_children(struct store_dead_list *stack, const struct store_node *node,
                          uint64_t death)
{
    if (node->kind == STORE_LEAF)
        return;
    const struct store_inner *inner = store_inner_of(node);
    unsigned at = 0;
    uint8_t byte;
    if (inner->own != NULL)
        dead_add(stack, (struct store_dead){inner->own, death});
    for (struct store_node *child; (child = store_inner_next(inner, &at, &byte)) != NULL;)
        dead_add(stack, (struct store_dead){child, death});
}

void store_dead_note(struct store_dead_list *list, struct store_node *node)
{
    dead_add(list, (struct store_dead){node, 0});
}

bool store_dead_next(struct store_dead_list *list, struct store_node **ret_node)
{
    struct store_dead dead;
    if (!dead_take(list, &dead))
        return false;
    *ret_node = dead.node;
    return true;
}

void store_reclaim_drop_younger(struct store_reclaim *r, struct store_node *root, uint64_t shared,
                                uint64_t batch)
{
    struct store_dead_list stack = {0};
    struct store_dead dead;
    if (root != NULL)
        dead_add(&stack, (struct store_dead){root, batch});
    while (dead_take(&stack, &dead)) {
        if (store_node_birth(dead.node) <= shared)
            continue; /* everything below is shared too */
        push_children(&stack, dead.node, batch);
        store_reclaim_retire(r, dead.node, batch);
    }
}

void store_reclaim_free_tree(struct store_node *root)
{
    struct store_dead_list stack = {0};
    struct store_dead dead;
    if (root != NULL)
        dead_add(&stack, (struct store_dead){root, 0});
    while (dead_take(&stack, &dead)) {
        push_children(&stack, dead.node, 0);
        store_node_free(NULL, dead.node);
    }
}

static void show(struct store_reclaim *r)
{
    atomic_store_explicit(&r->shown.keys, r->live.keys, memory_order_relaxed);
    atomic_store_explicit(&r->shown.nodes, r->live.nodes, memory_order_relaxed);
    atomic_store_explicit(&r->shown.bytes, r->live.bytes, memory_order_relaxed);
    atomic_store_explicit(&r->shown.retained_bytes, r->retained_bytes, memory_order_relaxed);
}

static void job_run(struct env_work *work)
{
    struct store_job *job = CONTAINER_OF(work, struct store_job, work);
    struct store_reclaim *r = CONTAINER_OF(job, struct store_reclaim, job);
    struct store_held held;
    struct store_dead dead;

    store_pins_held(r->pins, &held);
    while (dead_take(&job->loose, &dead))
        job->freed_bytes += dead_judge(dead, &held, &job->retired, NULL);
    while (dead_take(&job->drops, &dead)) {
        uint64_t bytes = store_node_bytes(dead.node);
        store_weight_add(&job->walked, dead.node);
        push_children(&job->drops, dead.node, dead.death);
        if (dead_judge(dead, &held, &job->retired, NULL) == 0)
            job->kept_bytes += bytes;
    }
}

static void job_start(struct store_reclaim *r);

static void job_done(struct env_work *work)
{
    struct store_job *job = CONTAINER_OF(work, struct store_job, work);
    struct store_reclaim *r = CONTAINER_OF(job, struct store_reclaim, job);

    ASSERT(job->busy);
    weight_sub(&r->live, &job->walked);
    r->retained_bytes += job->kept_bytes;
    ASSERT(r->retained_bytes >= job->freed_bytes);
    r->retained_bytes -= job->freed_bytes;
    for (size_t i = 0; i < job->retired.n; i++)
        dead_splice(&retire_list_of(&r->retired, job->retired.items[i].generation)->dead,
                    &job->retired.items[i].dead);
    job->retired.n = 0;
    job->walked = (struct store_weight){0};
    job->kept_bytes = job->freed_bytes = 0;
    job->busy = false;
    show(r);
    job_start(r);
}

static void job_start(struct store_reclaim *r)
{
    struct store_job *job = &r->job;
    if (job->busy || (r->drops.n == 0 && r->loose.n < LOOSE_FOR_JOB))
        return;
    dead_splice(&job->drops, &r->drops);
    dead_splice(&job->loose, &r->loose);
    job->work = (struct env_work){.run = job_run, .done = job_done, .lane = LANE_BULK};
    job->busy = true;
    if (r->env != NULL) {
        env_work(r->env, &job->work);
        return;
    }
    job_run(&job->work);
    job_done(&job->work);
}

/* Release the retire lists whose pin is gone: their nodes become loose. */
static void retired_release(struct store_reclaim *r, const struct store_held *held)
{
    size_t kept = 0;
    for (size_t i = 0; i < r->retired.n; i++) {
        struct store_retire_list *list = &r->retired.items[i];
        uint64_t generation = list->generation;
        if (store_held_between(held, generation, generation + 1) != 0)
            r->retired.items[kept++] = *list;
        else
            dead_splice(&r->loose, &list->dead);
    }
    r->retired.n = kept;
}

static void free_list(struct store_dead_list *list, struct store_spare *spare)
{
    struct store_dead dead;
    while (dead_take(list, &dead))
        store_node_free(spare, dead.node);
}

/* Judge up to `loose_max` loose nodes and all fresh ones. */
static bool retired_run(struct store_reclaim *r, struct store_dead_list *fresh, size_t loose_max)
{
    struct store_held held;
    struct store_dead dead;
    uint64_t freed_bytes = 0;

    if (fresh->n + r->loose.n + r->drops.n + r->retired.n == 0) {
        show(r);
        return r->job.busy;
    }
    store_pins_held(r->pins, &held);
    retired_release(r, &held);
    while (dead_take(fresh, &dead))
        freed_bytes += dead_judge(dead, &held, &r->retired, &r->spare);
    for (; loose_max > 0 && dead_take(&r->loose, &dead); loose_max--)
        freed_bytes += dead_judge(dead, &held, &r->retired, &r->spare);
    ASSERT(r->retained_bytes >= freed_bytes);
    r->retained_bytes -= freed_bytes;
    show(r);
    job_start(r);
    return r->job.busy || r->loose.n + r->drops.n + r->retired.n != 0;
}

bool store_reclaim_published(struct store_reclaim *r)
{
    dead_splice(&r->drops, &r->fresh_drops);
    free_list(&r->spent, &r->spare);
    r->lent = false;
    return retired_run(r, &r->fresh, LOOSE_INLINE + 2 * r->fresh.n);
}

bool store_reclaim_run(struct store_reclaim *r)
{
    struct store_dead_list none = {0};
    return retired_run(r, &none, LOOSE_INLINE);
}

void store_reclaim_done(struct store_reclaim *r)
{
    struct store_dead dead;
    ASSERT(!r->job.busy);
    dead_splice(&r->drops, &r->fresh_drops);
    free_list(&r->fresh, NULL);
    free_list(&r->spent, NULL);
    free_list(&r->loose, NULL);
    while (dead_take(&r->drops, &dead))
        store_reclaim_free_tree(dead.node);
    for (size_t i = 0; i < r->retired.n; i++)
        free_list(&r->retired.items[i].dead, NULL);
    r->retired.n = 0;
    retired_done(&r->retired);
    retired_done(&r->job.retired);
    store_spare_done(&r->spare);
}
