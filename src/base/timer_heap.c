#include "base/env.h"
#include "base/mem.h"

static bool before(const struct env_timer *a, const struct env_timer *b)
{
    return a->at_ms != b->at_ms ? a->at_ms < b->at_ms : a->seq < b->seq;
}

static void place(struct timer_heap *heap, size_t i, struct env_timer *timer)
{
    heap->slots[i] = timer;
    timer->slot = i + 1;
}

static void sift_up(struct timer_heap *heap, size_t i, struct env_timer *timer)
{
    ASSERT(i < heap->n);
    for (; i > 0 && before(timer, heap->slots[(i - 1) / 2]); i = (i - 1) / 2)
        place(heap, i, heap->slots[(i - 1) / 2]);
    place(heap, i, timer);
}

static void sift_down(struct timer_heap *heap, size_t i, struct env_timer *timer)
{
    ASSERT(i < heap->n);
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= heap->n)
            break;
        if (child + 1 < heap->n && before(heap->slots[child + 1], heap->slots[child]))
            child++;
        if (!before(heap->slots[child], timer))
            break;
        place(heap, i, heap->slots[child]);
        i = child;
    }
    place(heap, i, timer);
}

void timer_heap_done(struct timer_heap *heap)
{
    mem_free(heap->slots);
    *heap = (struct timer_heap){0};
}

void timer_heap_set(struct timer_heap *heap, struct env_timer *timer, uint64_t at_ms)
{
    ASSERT(timer->fire != NULL);
    timer_heap_stop(heap, timer);
    ASSERT(timer->slot == 0);
    if (heap->n == heap->cap) {
        heap->cap = heap->cap != 0 ? heap->cap * 2 : 64;
        heap->slots = mem_must_realloc(heap->slots, heap->cap * sizeof *heap->slots);
    }
    timer->at_ms = at_ms;
    timer->seq = heap->seq++;
    sift_up(heap, heap->n++, timer);
}

void timer_heap_stop(struct timer_heap *heap, struct env_timer *timer)
{
    if (timer->slot == 0)
        return;
    size_t i = timer->slot - 1;
    ASSERT(i < heap->n && heap->slots[i] == timer);
    timer->slot = 0;
    struct env_timer *last = heap->slots[--heap->n];
    if (last == timer)
        return;
    if (i > 0 && before(last, heap->slots[(i - 1) / 2]))
        sift_up(heap, i, last);
    else
        sift_down(heap, i, last);
}

struct env_timer *timer_heap_first(const struct timer_heap *heap)
{
    return heap->n != 0 ? heap->slots[0] : NULL;
}
