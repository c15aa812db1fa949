#include "state/set.h"

enum { LEVELS_MAX = 16 }; /* each holds about a quarter of the one below */

static struct state_item *item_new(struct arena *arena, struct bytes key, unsigned levels)
{
    ASSERT(levels > 0 && levels <= LEVELS_MAX);
    size_t size = sizeof(struct state_item) + levels * sizeof(struct state_item *);
    struct state_item *item = arena_alloc(arena, size + key.len);
    if (item == NULL)
        return NULL;
    memset(item, 0, size);
    uint8_t *copy = (uint8_t *)item + size; /* behind its links */
    if (key.len != 0)
        memcpy(copy, key.data, key.len);
    item->key = bytes_of(copy, key.len);
    item->levels = levels;
    return item;
}

/* On each level in use the last item before `key`. The set has a head. */
static void find_before(const struct state_set *set, struct bytes key,
                        struct state_item *before[LEVELS_MAX])
{
    struct state_item *at = set->head;
    for (unsigned level = set->levels; level-- > 0;) {
        while (at->next[level] != NULL && bytes_cmp(at->next[level]->key, key) < 0)
            at = at->next[level];
        before[level] = at;
    }
}

struct state_item *set_after(const struct state_set *set, struct bytes key, bool from)
{
    struct state_item *before[LEVELS_MAX];
    if (set->head == NULL)
        return NULL;
    find_before(set, key, before);
    struct state_item *item = before[0]->next[0];
    if (item != NULL && !from && bytes_eq(item->key, key))
        item = item->next[0];
    return item;
}

struct state_item *set_find(const struct state_set *set, struct bytes key)
{
    struct state_item *item = set_after(set, key, true);
    return item != NULL && bytes_eq(item->key, key) ? item : NULL;
}

static unsigned height(uint64_t random)
{
    unsigned levels = 1;
    for (; levels < LEVELS_MAX && (random & 3) == 0; random >>= 2)
        levels++;
    return levels;
}

enum status set_add(struct state_set *set, struct arena *arena, uint64_t random, struct bytes key,
                    struct state_item **ret_item)
{
    struct state_item *before[LEVELS_MAX];

    ASSERT(key.len > 0);
    if (set->head == NULL) {
        set->head = item_new(arena, BYTES(""), LEVELS_MAX);
        set->levels = 1;
    }
    if (set->head == NULL)
        return ST_NOMEM;
    find_before(set, key, before);
    struct state_item *item = before[0]->next[0];
    if (item == NULL || !bytes_eq(item->key, key)) {
        item = item_new(arena, key, height(random));
        if (item == NULL)
            return ST_NOMEM;
        for (; set->levels < item->levels; set->levels++)
            before[set->levels] = set->head;
        for (unsigned level = 0; level < item->levels; level++) {
            item->next[level] = before[level]->next[level];
            before[level]->next[level] = item;
        }
        set->n++;
    }
    *ret_item = item;
    return ST_OK;
}

/* Remove the items that begin with `prefix`. With `keep_exact`, an item at `prefix` itself stays;
 * it is the first of them. */
static void remove_below(struct state_set *set, struct bytes prefix, bool keep_exact)
{
    struct state_item *before[LEVELS_MAX];

    if (set->head == NULL)
        return;
    find_before(set, prefix, before);
    for (unsigned level = set->levels; level-- > 0;) {
        struct state_item *at = before[level];
        if (keep_exact && at->next[level] != NULL && bytes_eq(at->next[level]->key, prefix))
            at = at->next[level];
        while (at->next[level] != NULL && bytes_has_prefix(at->next[level]->key, prefix)) {
            at->next[level] = at->next[level]->next[level];
            ASSERT(set->n > 0);
            set->n -= level == 0;
        }
    }
}

void set_remove_prefix(struct state_set *set, struct bytes prefix)
{
    remove_below(set, prefix, false);
}

struct state_item *set_covering(const struct state_set *set, struct bytes key)
{
    struct state_item *before[LEVELS_MAX];

    if (set->head == NULL)
        return NULL;
    /* A set never keeps a prefix together with a longer item that begins with this prefix. Every
     * item between a prefix of `key` and `key` would begin with that prefix. So only the last item
     * up to `key` can be a prefix of `key`. */
    find_before(set, key, before);
    struct state_item *item = before[0]->next[0];
    if (item == NULL || !bytes_eq(item->key, key))
        item = before[0];
    return item != set->head && bytes_has_prefix(key, item->key) ? item : NULL;
}

enum status set_add_prefix(struct state_set *set, struct arena *arena, uint64_t random,
                           struct bytes prefix, struct state_item **ret_item)
{
    struct state_item *item = set_covering(set, prefix);

    if (item == NULL) {
        TRY(set_add(set, arena, random, prefix, &item));
        remove_below(set, prefix, true);
    }
    *ret_item = item;
    return ST_OK;
}
