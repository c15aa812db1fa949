/* The model of the store, a sorted array, and keys for store and model. */
#ifndef HOLDFAST_TESTS_STORE_MODEL_H
#define HOLDFAST_TESTS_STORE_MODEL_H

#include "store/hand_env.h"

struct model_item {
    struct bytes key, value; /* owned */
    uint64_t created, modified;
};

/* Sorted by key. Zero-initialise. */
struct model {
    struct model_item *items;
    size_t n, cap;
};

static inline struct bytes model_dup(struct bytes b)
{
    uint8_t *copy = mem_must_alloc(b.len);
    if (b.len != 0)
        memcpy(copy, b.data, b.len);
    return bytes_of(copy, b.len);
}

static inline void model_item_done(struct model_item *item)
{
    mem_free((void *)(uintptr_t)item->key.data);
    mem_free((void *)(uintptr_t)item->value.data);
}

static inline void model_done(struct model *m)
{
    for (size_t i = 0; i < m->n; i++)
        model_item_done(&m->items[i]);
    mem_free(m->items);
    *m = (struct model){0};
}

/* Index of the first key ≥ `key`. */
static inline size_t model_find(const struct model *m, struct bytes key)
{
    size_t low = 0, high = m->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (bytes_cmp(m->items[middle].key, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static inline struct model_item *model_get(const struct model *m, struct bytes key)
{
    size_t at = model_find(m, key);
    return at < m->n && bytes_eq(m->items[at].key, key) ? &m->items[at] : NULL;
}

/* `created` 0: as it is, else `modified`. */
static inline void model_put(struct model *m, struct bytes key, struct bytes value,
                             uint64_t created, uint64_t modified)
{
    size_t at = model_find(m, key);
    if (at < m->n && bytes_eq(m->items[at].key, key)) {
        struct model_item *item = &m->items[at];
        mem_free((void *)(uintptr_t)item->value.data);
        item->value = model_dup(value);
        item->created = created != 0 ? created : item->created;
        item->modified = modified;
        return;
    }
    if (m->n == m->cap) {
        m->cap = m->cap != 0 ? m->cap * 2 : 64;
        m->items = mem_must_realloc(m->items, m->cap * sizeof *m->items);
    }
    memmove(m->items + at + 1, m->items + at, (m->n - at) * sizeof *m->items);
    m->n++;
    m->items[at] = (struct model_item){model_dup(key), model_dup(value),
                                       created != 0 ? created : modified, modified};
}

static inline void model_remove(struct model *m, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        model_item_done(&m->items[i]);
    if (to > from)
        memmove(m->items + from, m->items + to, (m->n - to) * sizeof *m->items);
    m->n -= to - from;
}

static inline bool model_delete(struct model *m, struct bytes key)
{
    size_t at = model_find(m, key);
    if (at == m->n || !bytes_eq(m->items[at].key, key))
        return false;
    model_remove(m, at, at + 1);
    return true;
}

/* The items that begin with `prefix` are [*ret_from, *ret_to). */
static inline void model_range(const struct model *m, struct bytes prefix, size_t *ret_from,
                               size_t *ret_to)
{
    size_t from = model_find(m, prefix), to = from;
    while (to < m->n && bytes_has_prefix(m->items[to].key, prefix))
        to++;
    *ret_from = from;
    *ret_to = to;
}

static inline void model_delete_prefix(struct model *m, struct bytes prefix)
{
    size_t from, to;
    model_range(m, prefix, &from, &to);
    model_remove(m, from, to);
}

static inline void model_copy(struct model *to, const struct model *from)
{
    for (size_t i = 0; i < from->n; i++)
        model_put(to, from->items[i].key, from->items[i].value, from->items[i].created,
                  from->items[i].modified);
}

static inline void assert_item(const struct store_item *item, const struct model_item *want)
{
    assert_int_equal(item->key.len, want->key.len);
    assert_int_equal(bytes_cmp(item->key, want->key), 0);
    assert_int_equal(item->value.len, want->value.len);
    assert_int_equal(bytes_cmp(item->value, want->value), 0);
    assert_int_equal(item->created, want->created);
    assert_int_equal(item->modified, want->modified);
}

/* Every prefix of `key`, and every such prefix with another last byte, counts as in the model. */
static inline void assert_counts(const struct store_pin *pin, const struct model *m,
                                 struct bytes key)
{
    uint8_t room[STORE_KEY_MAX];
    size_t from, to;
    if (key.len != 0)
        memcpy(room, key.data, key.len);
    for (size_t len = 0; len <= key.len; len++) {
        model_range(m, bytes_of(room, len), &from, &to);
        assert_int_equal(store_count(pin, bytes_of(room, len)), to - from);
        if (len == key.len)
            return;
        room[len]++;
        model_range(m, bytes_of(room, len + 1), &from, &to);
        assert_int_equal(store_count(pin, bytes_of(room, len + 1)), to - from);
        room[len]--;
    }
}

/* The pinned tree holds what the model does, by walk, by look-up and by count. */
static inline void assert_same(const struct store_pin *pin, const struct model *m)
{
    static struct store_iter iter;
    struct store_item item;
    size_t i = 0;
    store_iter_init(&iter, pin, BYTES(""), BYTES(""));
    for (; store_iter_next(&iter); i++) {
        assert_true(i < m->n);
        assert_item(&iter.item, &m->items[i]);
        assert_int_equal(store_get(pin, m->items[i].key, &item), ST_OK);
        assert_item(&item, &m->items[i]);
    }
    assert_int_equal(i, m->n);
    assert_int_equal(store_count(pin, BYTES("")), m->n);
    for (size_t step = m->n / 32 + 1, at = 0; at < m->n; at += step)
        assert_counts(pin, m, m->items[at].key);
}

enum { MODEL_KEY_MAX = 200 };

struct model_key {
    uint8_t data[MODEL_KEY_MAX];
    size_t len;
};

static inline struct bytes key_bytes(const struct model_key *key)
{
    return bytes_of(key->data, key->len);
}

/* Kinds of keys that drive different shapes of the tree. */
enum keys { KEYS_NESTED, KEYS_WIDE, KEYS_PATHS, KEYS_DEEP, KEYS_KINDS };

static inline void key_random(struct rng *rng, enum keys kind, struct model_key *ret_key)
{
    static const char *const words[] = {"s/", "l/",    "a/", "kv/", "b",    "user-", "x",
                                        "y/", "token", "0",  "1",   "data", "/",     "app/"};
    size_t n = 0;
    switch (kind) {
    case KEYS_NESTED: /* few letters: keys inside keys */
        for (size_t len = rng_below(rng, 7); n < len; n++)
            ret_key->data[n] = (uint8_t)("ab/c"[rng_below(rng, 4)]);
        break;
    case KEYS_WIDE: /* every byte: nodes with many children */
        for (size_t len = 1 + rng_below(rng, 2); n < len; n++)
            ret_key->data[n] = (uint8_t)rng_next(rng);
        break;
    case KEYS_PATHS:
        for (size_t i = 0, parts = 1 + rng_below(rng, 5); i < parts; i++) {
            const char *word = words[i == 0 ? rng_below(rng, 2) : rng_below(rng, ARRAY_LEN(words))];
            memcpy(ret_key->data + n, word, strlen(word));
            n += strlen(word);
        }
        break;
    default: /* one long run: paths longer than an iterator remembers */
        for (size_t len = rng_below(rng, 150); n < len; n++)
            ret_key->data[n] = rng_below(rng, 60) == 0 ? 'b' : 'a';
    }
    ret_key->len = n;
}

#endif
