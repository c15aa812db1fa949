/* A search from the largest part of the tree to the smaller parts.
 *
 * A part is all keys that begin with some bytes. The candidates are parts that do not overlap and
 * whose union is everything below the prefix. The largest candidate is taken out: a folder is the
 * next result, since no other candidate has a larger folder; any other part is split by its next
 * byte. */
#include "state/largest.h"
#include "state/state.h"

struct candidate {
    struct bytes prefix;
    uint64_t keys;
    bool folder; /* a whole folder: `prefix` ends in its '/' */
};

struct search {
    const struct state_txn *txn;
    size_t root; /* bytes of the prefix below which folders are searched */
    unsigned looks;
    struct candidate *heap; /* a parent has at least as many keys as its children */
    size_t n, room;
    struct state_walk walk; /* of the part that is split now */
};

static void push(struct search *s, struct candidate c)
{
    ASSERT(s->n < s->room);
    size_t i = s->n++;
    for (; i > 0 && s->heap[(i - 1) / 2].keys < c.keys; i = (i - 1) / 2)
        s->heap[i] = s->heap[(i - 1) / 2];
    s->heap[i] = c;
}

static struct candidate pop(struct search *s)
{
    ASSERT(s->n > 0);
    struct candidate top = s->heap[0], last = s->heap[--s->n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < s->n; i = child) {
        if (child + 1 < s->n && s->heap[child + 1].keys > s->heap[child].keys)
            child++;
        if (s->heap[child].keys <= last.keys)
            break;
        s->heap[i] = s->heap[child];
    }
    s->heap[i] = last;
    return top;
}

/* The part of the tree with `key` that is one byte longer than `prefix`; the whole folder of `key`
 * if the part has nothing else. The bytes are borrowed from `key`. */
static struct candidate part_of(const struct search *s, struct bytes key, size_t prefix_len)
{
    struct bytes part = bytes_of(key.data, prefix_len + 1);
    uint64_t keys = state_count(s->txn, part);
    const uint8_t *slash = memchr(key.data + s->root, '/', key.len - s->root);
    if (slash != NULL) {
        struct bytes folder = bytes_of(key.data, (size_t)(slash - key.data) + 1);
        ASSERT(folder.len > prefix_len);
        if (state_count(s->txn, folder) == keys)
            return (struct candidate){folder, keys, true};
    }
    return (struct candidate){part, keys, false};
}

/* Replace a part by its smaller parts. *ret_whole false: the looks did not suffice. */
static enum status split(struct search *s, struct bytes prefix, bool *ret_whole)
{
    struct state_walk *walk = &s->walk;
    state_walk(s->txn, prefix, walk);
    while (state_walk_next(walk)) {
        if (walk->key.len == prefix.len)
            continue; /* a key in no folder */
        *ret_whole = s->looks > 0;
        if (s->looks == 0)
            return ST_OK;
        s->looks--;
        struct candidate part = part_of(s, walk->key, prefix.len);
        struct bytes skip = bytes_of(walk->key.data, prefix.len + 1);
        const uint8_t *copy = arena_dup(s->txn->arena, part.prefix);
        if (copy == NULL)
            return ST_NOMEM;
        part.prefix.data = copy;
        push(s, part);
        state_walk_skip(walk, skip);
    }
    return ST_OK;
}

enum status state_largest(const struct state_txn *txn, struct bytes prefix, size_t max,
                          unsigned looks, struct state_folder *ret_items, size_t *ret_n,
                          bool *ret_exact)
{
    struct search *s = arena_alloc(txn->arena, sizeof *s);
    bool whole = true;

    ASSERT(prefix.len != 0 && looks > 0);
    *ret_n = 0;
    if (s == NULL)
        return ST_NOMEM;
    s->txn = txn;
    s->root = prefix.len;
    s->looks = looks;
    s->n = 0;
    s->room = (size_t)looks + 1;
    s->heap = arena_alloc(txn->arena, s->room * sizeof *s->heap);
    if (s->heap == NULL)
        return ST_NOMEM;
    push(s, (struct candidate){.prefix = prefix, .keys = state_count(txn, prefix)});
    while (s->n > 0 && *ret_n < max) {
        struct candidate top = pop(s);
        if (top.folder)
            ret_items[(*ret_n)++] = (struct state_folder){
                bytes_of(top.prefix.data + s->root, top.prefix.len - s->root - 1), top.keys};
        else if (whole)
            TRY(split(s, top.prefix, &whole));
    }
    ASSERT(*ret_n <= max);
    *ret_exact = whole;
    return ST_OK;
}
