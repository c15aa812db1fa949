#include "lin.h"

#include "core.h"

#include <stdlib.h>

/* Calls and returns in order of time, linked so that an operation can be lifted out and put back.
 */
struct node {
    struct node *prev, *next, *match; /* match: a call's return; NULL for a return */
    size_t op;
};

struct state {
    uint64_t value;
    uint64_t *taken; /* bit set of linearized operations */
};

struct search {
    const struct lin_op *ops;
    size_t n, words;
    struct node *nodes, head;
    uint64_t value, *taken;
    struct {
        struct node *call;
        uint64_t value_before;
    } * stack;
    size_t depth, required, required_left;
    uint64_t *seen; /* hash table of visited (taken, value): words + 1 numbers a slot */
    size_t seen_n, seen_cap;
    uint64_t steps;
    struct node *deepest; /* the return that stopped the longest attempt */
    size_t deepest_depth;
};

static bool required(const struct lin_op *op)
{
    return op->ret != LIN_NEVER;
}

static int op_order(const void *a, const void *b)
{
    const struct lin_op *x = a, *y = b;
    return x->call != y->call ? (x->call > y->call) - (x->call < y->call)
                              : (x->ret > y->ret) - (x->ret < y->ret);
}

static bool value_is_used(const struct lin_op *ops, size_t n, uint64_t value)
{
    for (size_t i = 0; i < n; i++)
        if ((ops[i].kind == LIN_READ && ops[i].value == value) ||
            (ops[i].kind != LIN_READ && ops[i].kind != LIN_WRITE && ops[i].expect == value))
            return true;
    return false;
}

/* A write whose outcome is unknown and whose value nobody saw may be taken as never made, if no
 * answer could owe its truth to it: then the search is spared its many possible places. */
static size_t drop_unseen(struct lin_op *ops, size_t n)
{
    uint64_t first_dropped = LIN_NEVER;
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        bool drop = !required(&ops[i]) && (ops[i].kind == LIN_READ || ops[i].kind == LIN_DIFFER);
        if (!required(&ops[i]) && !drop && !value_is_used(ops, n, ops[i].value)) {
            first_dropped = MIN(first_dropped, ops[i].call);
            ops[i].call = LIN_NEVER; /* marks it; sorted out below */
        } else if (drop) {
            ops[i].call = LIN_NEVER;
        }
    }
    for (size_t i = 0; i < n; i++) {
        bool doubtful = ops[i].kind == LIN_DIFFER && ops[i].ret >= first_dropped;
        if (ops[i].call != LIN_NEVER && !doubtful)
            ops[kept++] = ops[i];
    }
    return kept;
}

struct edge {
    uint64_t at;
    bool is_return;
    size_t op;
};

/* At equal times calls come first: the operations then count as overlapping. */
static int edge_order(const void *a, const void *b)
{
    const struct edge *x = a, *y = b;
    if (x->at != y->at)
        return x->at < y->at ? -1 : 1;
    if (x->is_return != y->is_return)
        return x->is_return ? 1 : -1;
    return (x->op > y->op) - (x->op < y->op);
}

static void link_history(struct search *s)
{
    struct edge *edges = sim_alloc(2 * s->n * sizeof *edges);
    for (size_t i = 0; i < s->n; i++) {
        edges[2 * i] = (struct edge){s->ops[i].call, false, i};
        edges[2 * i + 1] = (struct edge){s->ops[i].ret, true, i};
    }
    qsort(edges, 2 * s->n, sizeof *edges, edge_order);
    struct node *last = &s->head, **call_of = sim_alloc((s->n + 1) * sizeof *call_of);
    for (size_t i = 0; i < 2 * s->n; i++) {
        struct node *node = &s->nodes[i];
        *node = (struct node){.prev = last, .op = edges[i].op};
        last->next = node;
        last = node;
        if (edges[i].is_return)
            call_of[node->op]->match = node;
        else
            call_of[node->op] = node;
    }
    free(call_of);
    free(edges);
}

static void lift(struct node *call)
{
    struct node *ret = call->match;
    call->prev->next = call->next;
    call->next->prev = call->prev; /* a return always follows */
    ret->prev->next = ret->next;
    if (ret->next != NULL)
        ret->next->prev = ret->prev;
}

static void unlift(struct node *call)
{
    struct node *ret = call->match;
    ret->prev->next = ret;
    if (ret->next != NULL)
        ret->next->prev = ret;
    call->prev->next = call;
    call->next->prev = call;
}

static bool apply(const struct lin_op *op, uint64_t value, uint64_t *ret_value)
{
    *ret_value = value;
    switch (op->kind) {
    case LIN_READ: return op->value == value;
    case LIN_WRITE: *ret_value = op->value; return true;
    case LIN_CAS: *ret_value = op->value; return op->expect == value;
    case LIN_DIFFER: return op->expect != value;
    }
    return false;
}

static uint64_t *seen_slot(uint64_t *table, size_t cap, const uint64_t *key, size_t words)
{
    uint64_t h = 1;
    for (size_t i = 0; i < words; i++)
        h = hash_mix(h, key[i]);
    for (size_t i = (size_t)h & (cap - 1);; i = (i + 1) & (cap - 1)) {
        uint64_t *slot = &table[i * (words + 1)];
        if (slot[0] == 0 || memcmp(slot + 1, key, words * sizeof *key) == 0)
            return slot;
    }
}

static void seen_grow(struct search *s, size_t words)
{
    size_t cap = s->seen_cap != 0 ? s->seen_cap * 2 : 1024;
    uint64_t *table = sim_alloc(cap * (words + 1) * sizeof *table);
    for (size_t i = 0; i < s->seen_cap; i++) {
        const uint64_t *old = &s->seen[i * (words + 1)];
        if (old[0] != 0)
            memcpy(seen_slot(table, cap, old + 1, words), old, (words + 1) * sizeof *old);
    }
    free(s->seen);
    s->seen = table;
    s->seen_cap = cap;
}

/* Whether this combination of taken operations and value is new; it is remembered. */
static bool seen_add(struct search *s, uint64_t value)
{
    size_t words = s->words + 1;
    if (s->seen_n * 2 >= s->seen_cap)
        seen_grow(s, words);
    s->taken[s->words] = value;
    uint64_t *slot = seen_slot(s->seen, s->seen_cap, s->taken, words);
    if (slot[0] != 0)
        return false;
    slot[0] = 1;
    memcpy(slot + 1, s->taken, words * sizeof *slot);
    s->seen_n++;
    return true;
}

static bool try_take(struct search *s, struct node *call)
{
    uint64_t value;
    if (!apply(&s->ops[call->op], s->value, &value))
        return false;
    s->taken[call->op / 64] |= 1ull << call->op % 64;
    if (!seen_add(s, value)) {
        s->taken[call->op / 64] &= ~(1ull << call->op % 64);
        return false;
    }
    s->stack[s->depth].call = call;
    s->stack[s->depth++].value_before = s->value;
    s->value = value;
    s->required_left -= required(&s->ops[call->op]);
    lift(call);
    return true;
}

static struct node *take_back(struct search *s)
{
    struct node *call = s->stack[--s->depth].call;
    s->value = s->stack[s->depth].value_before;
    s->taken[call->op / 64] &= ~(1ull << call->op % 64);
    s->required_left += required(&s->ops[call->op]);
    unlift(call);
    return call;
}

static enum lin_verdict search(struct search *s, uint64_t steps_max)
{
    struct node *at = s->head.next;
    while (s->required_left != 0) {
        if (++s->steps > steps_max)
            return LIN_TOO_HARD;
        if (at->match != NULL) {
            at = try_take(s, at) ? s->head.next : at->next;
            continue;
        }
        if (s->deepest == NULL || s->depth > s->deepest_depth) {
            s->deepest = at;
            s->deepest_depth = s->depth;
        }
        if (s->depth == 0)
            return LIN_BAD;
        at = take_back(s)->next;
    }
    return LIN_GOOD;
}

enum lin_verdict lin_check(struct lin_op *ops, size_t n, uint64_t steps_max, size_t *ret_stuck)
{
    n = drop_unseen(ops, n);
    if (n == 0)
        return LIN_GOOD;
    qsort(ops, n, sizeof *ops, op_order);
    struct search s = {.ops = ops, .n = n, .words = (n + 63) / 64};
    s.nodes = sim_alloc(2 * n * sizeof *s.nodes);
    s.taken = sim_alloc((s.words + 1) * sizeof *s.taken);
    s.stack = sim_alloc(n * sizeof *s.stack);
    for (size_t i = 0; i < n; i++)
        s.required_left += required(&ops[i]);
    link_history(&s);
    enum lin_verdict verdict = search(&s, steps_max);
    if (verdict == LIN_BAD)
        *ret_stuck = s.deepest->op;
    free(s.nodes);
    free(s.taken);
    free(s.stack);
    free(s.seen);
    return verdict;
}
