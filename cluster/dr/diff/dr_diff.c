#include "cluster/dr/diff/dr_diff_internal.h"

#include "base/mem.h"
#include "crypto/sha256.h"

#include <stdlib.h>

enum { WANT_PIECE_BYTES = 128 * 1024, QUEUE_SHIFT_BYTES = 1024 * 1024 };

/* A list of keys with a number each; read from `at` on. */
struct dr_diff_keys {
    struct buf items; /* u64 number, u32 length, key */
    size_t at;
};

struct dr_diff {
    struct dr_diff_input in;
    struct crypto_sha256 *sha;
    struct dr_diff_counts counts;
    struct dr_diff_keys queue; /* places to open; the first `asked` are asked */
    size_t asked;
    struct dr_diff_keys wants; /* places to fetch; the number is 1: the key alone */
    struct dr_diff_keys deleted, newest;
    enum status st; /* first failure to remember something */

    struct rlog_machine_part *parts; /* the places of `wants`, ascending */
    size_t n_parts, n_told;
    /* The keys of this side in these places, beside those that come. */
    size_t part;
    bool part_open, has_local;
    struct store_item local;
    struct store_iter iter;
    struct dr_diff_last last; /* the key that came last */
};

static void keys_add(struct dr_diff *d, struct dr_diff_keys *list, struct bytes key,
                     uint64_t number)
{
    size_t have =
        d->queue.items.len + d->wants.items.len + d->deleted.items.len + d->newest.items.len;
    if (d->st == ST_OK && have + key.len > DR_DIFF_BYTES_MAX)
        d->st = ST_TOO_BIG;
    if (d->st != ST_OK)
        return;
    buf_add_u64(&list->items, number);
    buf_add_u32(&list->items, (uint32_t)key.len);
    buf_add(&list->items, key);
    d->st = buf_status(&list->items);
}

/* The item at `*at`, and `*at` moves behind it. */
static bool keys_next(const struct dr_diff_keys *list, size_t *at, struct bytes *ret_key,
                      uint64_t *ret_number)
{
    if (*at == list->items.len)
        return false;
    const uint8_t *item = list->items.data + *at;
    *ret_number = le64_get(item);
    *ret_key = bytes_of(item + 12, le32_get(item + 8));
    *at += 12 + ret_key->len;
    ASSERT(*at <= list->items.len);
    return true;
}

enum status dr_diff_new(const struct dr_diff_input *in, struct dr_diff **ret_diff)
{
    struct dr_diff *d = mem_zalloc(sizeof *d);
    if (d == NULL)
        return ST_NOMEM;
    ASSERT(in->floor <= in->version);
    d->in = *in;
    enum status st = crypto_sha256_new(&d->sha);
    keys_add(d, &d->queue, BYTES(RLOG_REPLICATED), 0);
    if (st == ST_OK)
        st = d->st;
    if (st != ST_OK)
        dr_diff_free(d);
    else
        *ret_diff = d;
    return st;
}

void dr_diff_free(struct dr_diff *d)
{
    if (d == NULL)
        return;
    crypto_sha256_free(d->sha);
    buf_done(&d->queue.items);
    buf_done(&d->wants.items);
    buf_done(&d->deleted.items);
    buf_done(&d->newest.items);
    mem_free(d->parts);
    mem_free(d);
}

/* Comparing */

bool dr_diff_ask(struct dr_diff *d, struct buf *out)
{
    CLEANUP(buf_done) struct buf places = {0};
    struct dr_diff_last last;
    struct bytes key;
    uint64_t number;
    size_t at = d->queue.at;
    last.len = 0;
    ASSERT(d->asked == 0);
    while (d->asked < DR_DIFF_ASKS_MAX && places.len < DR_DIFF_PIECE_BYTES &&
           keys_next(&d->queue, &at, &key, &number)) {
        dr_diff_key_put(&last, key, false, &places);
        d->asked++;
    }
    if (d->asked == 0)
        return false;
    buf_add_varint(out, d->asked);
    buf_add(out, buf_bytes(&places));
    if (buf_status(&places) != ST_OK)
        out->failed = true;
    return true;
}

bool dr_diff_waits(const struct dr_diff *d)
{
    return d->asked > 0;
}

static void note_deleted(struct dr_diff *d, const struct store_item *item)
{
    keys_add(d, &d->deleted, item->key, 0);
    d->counts.deleted++;
    if (d->in.goes != NULL)
        d->in.goes(d->in.ctx, item);
}

static void note_want(struct dr_diff *d, struct bytes at, bool exact)
{
    keys_add(d, &d->wants, at, exact);
    d->counts.wanted++;
}

/* A node of the primary: what a piece of an answer says of one place. */
struct node {
    struct bytes place; /* the place of the question */
    uint8_t key[STORE_KEY_MAX];
    size_t len; /* of the node's key */
    uint64_t newest;
    bool has_own;
    struct bytes own, bytes, leaves, digests;
};

static bool node_take(struct reader *r, uint64_t version, struct node *n)
{
    struct bytes edge = reader_block(r);
    n->newest = reader_varint(r);
    uint8_t own = reader_u8(r);
    n->has_own = own == 1;
    n->own = reader_take(r, own == 1 ? DR_DIFF_DIGEST_BYTES : 0);
    uint64_t children = reader_varint(r);
    if (r->failed || own > 1 || children > 256 || children + own < 2 || n->newest > version ||
        n->place.len + edge.len >= sizeof n->key)
        return false;
    n->bytes = reader_take(r, (size_t)children);
    n->leaves = reader_take(r, (size_t)(children + 7) / 8);
    n->digests = reader_take(r, (size_t)children * DR_DIFF_DIGEST_BYTES);
    if (r->failed)
        return false;
    for (size_t i = 1; i < n->bytes.len; i++)
        if (n->bytes.data[i] <= n->bytes.data[i - 1])
            return false;
    n->len = (size_t)(bytes_put(bytes_put(n->key, n->place), edge) - n->key);
    return true;
}

static bool digest_equal(struct dr_diff *d, const struct store_shape_entry *ours,
                         const uint8_t *theirs)
{
    uint8_t digest[DR_DIFF_DIGEST_BYTES];
    dr_diff_digest(d->sha, ours, d->in.floor, digest);
    return memcmp(digest, theirs, sizeof digest) == 0;
}

static void compare_children(struct dr_diff *d, struct node *n)
{
    struct store_shape_entry ours;
    for (size_t i = 0; i < n->bytes.len; i++) {
        n->key[n->len] = n->bytes.data[i];
        struct bytes at = bytes_of(n->key, n->len + 1);
        bool here = store_shape_place(d->in.pin, at, &ours);
        if (here && digest_equal(d, &ours, n->digests.data + i * DR_DIFF_DIGEST_BYTES))
            continue;
        if (here && (n->leaves.data[i / 8] >> i % 8 & 1) == 0)
            keys_add(d, &d->queue, at, 0);
        else
            note_want(d, at, false);
    }
}

/* Note the keys of this side that the primary has no place for. */
static void compare_own(struct dr_diff *d, struct node *n)
{
    struct bytes node = bytes_of(n->key, n->len);
    store_iter_init(&d->iter, d->in.pin, n->place, BYTES(""));
    while (store_iter_next(&d->iter)) {
        const struct store_item *item = &d->iter.item;
        bool below = item->key.len > n->len && bytes_has_prefix(item->key, node);
        if (below && memchr(n->bytes.data, item->key.data[n->len], n->bytes.len) != NULL) {
            uint8_t skip[STORE_KEY_MAX]; /* the iterator moves its own key */
            memcpy(skip, item->key.data, n->len + 1);
            store_iter_skip(&d->iter, bytes_of(skip, n->len + 1));
        } else if (!n->has_own || !bytes_eq(item->key, node)) {
            note_deleted(d, item);
        }
    }
}

static void compare_node(struct dr_diff *d, struct node *n)
{
    struct store_shape_entry ours;
    struct bytes node = bytes_of(n->key, n->len);
    d->counts.opened++;
    if (n->newest > d->in.floor)
        keys_add(d, &d->newest, node, n->newest);
    /* The key of the segment has no value, and a version that a restore sets: always fetch it. */
    if (n->has_own &&
        (bytes_eq(node, BYTES(RLOG_REPLICATED)) || !store_shape_key(d->in.pin, node, &ours) ||
         !digest_equal(d, &ours, n->own.data)))
        note_want(d, node, true);
    if (n->bytes.len != 0)
        compare_children(d, n);
    compare_own(d, n);
}

/* The primary has no key at the place. */
static void compare_none(struct dr_diff *d, struct bytes place)
{
    store_iter_init(&d->iter, d->in.pin, place, BYTES(""));
    while (store_iter_next(&d->iter))
        note_deleted(d, &d->iter.item);
}

static enum status take_one(struct dr_diff *d, struct reader *r, struct node *n)
{
    struct bytes place;
    uint64_t number;
    uint8_t kind = reader_u8(r);
    if (d->asked == 0 || r->failed || kind > DR_DIFF_INNER)
        return ST_INVALID;
    bool more = keys_next(&d->queue, &d->queue.at, &place, &number);
    ASSERT(more);
    d->asked--;
    /* The queue grows meanwhile, and its memory moves. */
    uint8_t room[STORE_KEY_MAX];
    n->place = bytes_of(room, (size_t)(bytes_put(room, place) - room));
    if (kind == DR_DIFF_INNER) {
        if (!node_take(r, d->in.version, n))
            return ST_INVALID;
        compare_node(d, n);
    } else if (kind == DR_DIFF_LEAF) {
        note_want(d, n->place, false);
    } else {
        compare_none(d, n->place);
    }
    return d->st;
}

enum status dr_diff_take(struct dr_diff *d, struct bytes nodes)
{
    struct reader r = reader_of(nodes);
    struct node *n = mem_alloc(sizeof *n);
    enum status st = n != NULL ? ST_OK : ST_NOMEM;
    uint64_t left = reader_varint(&r);
    if (st == ST_OK && (r.failed || left == 0))
        st = ST_INVALID;
    for (; st == ST_OK && left > 0; left--)
        st = take_one(d, &r, n);
    mem_free(n);
    TRY(st);
    if (d->queue.at >= QUEUE_SHIFT_BYTES) {
        buf_consume(&d->queue.items, d->queue.at);
        d->queue.at = 0;
    }
    return reader_end(&r);
}

/* Fetching */

static int part_order(const void *a, const void *b)
{
    const struct rlog_machine_part *x = a, *y = b;
    return bytes_cmp(x->at, y->at); /* no two places are equal */
}

static enum status sort_parts(struct dr_diff *d)
{
    struct bytes key;
    uint64_t exact;
    size_t at = 0, n = 0;
    d->parts = mem_alloc((d->counts.wanted + 1) * sizeof *d->parts);
    if (d->parts == NULL)
        return ST_NOMEM;
    while (keys_next(&d->wants, &at, &key, &exact))
        d->parts[n++] = (struct rlog_machine_part){key, exact != 0};
    ASSERT(n == d->counts.wanted);
    qsort(d->parts, n, sizeof *d->parts, part_order);
    d->n_parts = n;
    return ST_OK;
}

/* The next key of this side that lies in a place to fetch, in d->local. */
static void local_next(struct dr_diff *d)
{
    d->has_local = false;
    while (!d->has_local && d->part < d->n_parts) {
        const struct rlog_machine_part *part = &d->parts[d->part];
        bool first = !d->part_open;
        d->part_open = true;
        if (part->exact) {
            d->has_local = first && store_get(d->in.pin, part->at, &d->local) == ST_OK;
        } else {
            if (first)
                store_iter_init(&d->iter, d->in.pin, part->at, BYTES(""));
            d->has_local = store_iter_next(&d->iter);
            d->local = d->iter.item;
        }
        if (!d->has_local) {
            d->part++;
            d->part_open = false;
        }
    }
}

enum status dr_diff_want(struct dr_diff *d, struct buf *out, bool *ret_last)
{
    CLEANUP(buf_done) struct buf places = {0};
    struct dr_diff_last *last = &d->last;
    uint64_t n = 0;
    ASSERT(d->asked == 0 && d->queue.at == d->queue.items.len);
    if (d->parts == NULL)
        TRY(sort_parts(d));
    last->len = 0;
    for (; d->n_told < d->n_parts && places.len < WANT_PIECE_BYTES; n++, d->n_told++)
        dr_diff_key_put(last, d->parts[d->n_told].at, d->parts[d->n_told].exact, &places);
    buf_add_varint(out, n);
    buf_add(out, buf_bytes(&places));
    *ret_last = d->n_told == d->n_parts;
    last->len = 0;
    if (*ret_last)
        local_next(d);
    TRY(buf_status(&places));
    return buf_status(out);
}

/* Whether a key lies in a place that was asked for. */
static bool is_wanted(const struct dr_diff *d, struct bytes key)
{
    size_t low = 0, high = d->n_parts;
    while (low < high) { /* the first place above the key */
        size_t middle = (low + high) / 2;
        if (bytes_cmp(d->parts[middle].at, key) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return false;
    const struct rlog_machine_part *part = &d->parts[low - 1];
    return part->exact ? bytes_eq(key, part->at) : bytes_has_prefix(key, part->at);
}

bool dr_diff_got(struct dr_diff *d, const struct store_item *item)
{
    ASSERT(d->n_told == d->n_parts);
    if (!is_wanted(d, item->key))
        return false;
    int order = 1;
    for (; d->has_local && (order = bytes_cmp(d->local.key, item->key)) < 0; local_next(d))
        note_deleted(d, &d->local);
    d->counts.fetched++;
    if (!d->has_local || order != 0)
        return true;
    if (!bytes_eq(d->local.value, item->value)) {
        d->counts.replaced++;
        if (d->in.goes != NULL)
            d->in.goes(d->in.ctx, &d->local);
    }
    local_next(d);
    return true;
}

enum status dr_diff_end(struct dr_diff *d)
{
    for (; d->has_local; local_next(d))
        note_deleted(d, &d->local);
    return d->st;
}

bool dr_diff_deleted(struct dr_diff *d, struct bytes *ret_key)
{
    uint64_t number;
    return keys_next(&d->deleted, &d->deleted.at, ret_key, &number);
}

bool dr_diff_newest(struct dr_diff *d, struct bytes *ret_at, uint64_t *ret_version)
{
    return keys_next(&d->newest, &d->newest.at, ret_at, ret_version);
}

const struct dr_diff_counts *dr_diff_counts(const struct dr_diff *d)
{
    return &d->counts;
}
