/* Intrusive doubly linked list with a sentinel head. */
#ifndef HOLDFAST_BASE_LIST_H
#define HOLDFAST_BASE_LIST_H

#include "base/macros.h"

/* Head of a list, or link inside an element. may_alias works around gcc 12 at -O2: functions change
 * a head through the pointers of a link, while its owner reads the head by name. With type-based
 * alias analysis gcc then reads the first element only once, before a loop that removes elements.
 */
struct list {
    struct list *prev, *next;
} __attribute__((may_alias));

static inline void list_init(struct list *l)
{
    l->prev = l->next = l;
}

static inline bool list_empty(const struct list *head)
{
    return head->next == head;
}

static inline void list_insert_before(struct list *at, struct list *item)
{
    item->prev = at->prev;
    item->next = at;
    at->prev->next = item;
    at->prev = item;
}

static inline void list_push(struct list *head, struct list *item)
{
    list_insert_before(head, item);
}

/* Afterwards `item` is an empty list, so removing an item twice is harmless. */
static inline void list_remove(struct list *item)
{
    item->prev->next = item->next;
    item->next->prev = item->prev;
    list_init(item);
}

/* NULL when empty. */
static inline struct list *list_pop(struct list *head)
{
    struct list *first = head->next;
    if (first == head)
        return NULL;
    list_remove(first);
    return first;
}

/* Move all of `from` to the end of `to`. */
static inline void list_splice(struct list *to, struct list *from)
{
    if (list_empty(from))
        return;
    from->next->prev = to->prev;
    to->prev->next = from->next;
    from->prev->next = to;
    to->prev = from->prev;
    list_init(from);
}

#define LIST_FOR(item, head) \
    for (struct list *item = (head)->next; item != (head); item = item->next)

/* The current item may be removed inside the loop. */
#define LIST_FOR_SAFE(item, after, head)                                        \
    for (struct list *item = (head)->next, *after = item->next; item != (head); \
         item = after, after = item->next)

#endif
