#include "state/state_internal.h"

/* The keys of the pinned tree and the staged keys, merged:
 *
 *   store.item   the next key of the pinned tree, while store_have
 *   bound        staged keys from here on are still to come; looked for at each step, because the
 *                handler may stage while it walks */

static struct bytes bound_of(const struct state_iter *iter)
{
    return bytes_of(iter->bound, iter->bound_len);
}

static void set_bound(struct state_iter *iter, struct bytes key, bool past)
{
    ASSERT(key.len <= sizeof iter->bound);
    memcpy(iter->bound, key.data, key.len);
    iter->bound_len = key.len;
    iter->past_bound = past;
}

static bool is_segment(struct bytes key)
{
    return key.len == sizeof STATE_SHARED - 1;
}

/* To the next key of the pinned tree that no staged deletion of a prefix hides. */
static void find_store_item(struct state_iter *iter)
{
    while (!iter->store_end) {
        if (!iter->store_have && !store_iter_next(&iter->store)) {
            iter->store_end = true;
            return;
        }
        iter->store_have = iter->store_given = true;
        struct bytes key = iter->store.item.key;
        const struct state_set *drops = &iter->txn->drops;
        struct state_item *drop = drops->head != NULL ? set_covering(drops, key) : NULL;
        if (drop == NULL && !is_segment(key))
            return;
        if (drop != NULL)
            store_iter_skip(&iter->store, drop->key);
        iter->store_have = false;
    }
}

enum status state_scan(struct state_txn *txn, struct bytes prefix, struct bytes from,
                       struct state_iter *iter)
{
    ASSERT(txn->open);
    if (!rlog_txn_prefix_valid(prefix) || from.len > STATE_KEY_MAX)
        return ST_INVALID;
    TRY(txn_note_prefix(txn, prefix));
    uint8_t *copy = arena_dup(txn->arena, prefix);
    if (copy == NULL)
        return ST_NOMEM;
    iter->txn = txn;
    iter->key = (struct bytes){0};
    iter->prefix = bytes_of(copy, prefix.len);
    iter->own = NULL;
    iter->store_have = iter->store_given = iter->store_end = false;
    set_bound(iter, bytes_cmp(from, prefix) > 0 ? from : prefix, false);
    store_iter_init(&iter->store, &txn->pin, prefix, from);
    return ST_OK;
}

static void give_store(struct state_iter *iter)
{
    iter->store_have = false;
    iter->own = NULL;
    iter->key = iter->store.item.key;
    iter->created = iter->store.item.created;
    iter->modified = iter->store.item.modified;
    set_bound(iter, iter->key, true);
}

static void give_own(struct state_iter *iter, struct state_item *staged)
{
    iter->own = staged->op;
    iter->key = staged->key;
    iter->created = iter->modified = 0;
}

bool state_iter_next(struct state_iter *iter)
{
    ASSERT(iter->txn->open);
    for (;;) {
        find_store_item(iter);
        const struct state_set *writes = &iter->txn->writes; /* of a listing: empty */
        struct state_item *staged =
            writes->head != NULL ? set_after(writes, bound_of(iter), !iter->past_bound) : NULL;
        if (staged != NULL && !bytes_has_prefix(staged->key, iter->prefix))
            staged = NULL;
        if (staged == NULL && !iter->store_have)
            return false;
        int order = staged == NULL      ? 1
                    : !iter->store_have ? -1
                                        : bytes_cmp(staged->key, iter->store.item.key);
        if (order > 0) {
            give_store(iter);
            return true;
        }
        if (order == 0) /* replaced or deleted by what is staged */
            iter->store_have = false;
        set_bound(iter, staged->key, true);
        if (staged->op->kind == STATE_OP_PUT) {
            give_own(iter, staged);
            return true;
        }
    }
}

enum status state_iter_value(struct state_iter *iter, struct bytes *ret_value)
{
    return state_iter_value_into(iter, iter->txn->arena, ret_value);
}

enum status state_iter_value_into(struct state_iter *iter, struct arena *arena,
                                  struct bytes *ret_value)
{
    ASSERT(iter->key.len > 0);
    if (iter->own != NULL) {
        *ret_value = iter->own->value;
        return ST_OK;
    }
    return txn_open_value(iter->txn, arena, iter->key, iter->store.item.value, ret_value);
}

/* Continue behind every key below `folder`, which ends in '/'. */
static enum status leave_folder(struct state_iter *iter, struct bytes folder)
{
    ASSERT(folder.len > 0 && folder.data[folder.len - 1] == '/');
    uint8_t *behind = arena_dup(iter->txn->arena, folder);
    if (behind == NULL)
        return ST_NOMEM;
    behind[folder.len - 1]++;
    if (iter->store_given && !iter->store_end && bytes_has_prefix(iter->store.item.key, folder)) {
        store_iter_skip(&iter->store, folder);
        iter->store_have = false;
    }
    set_bound(iter, bytes_of(behind, folder.len), false);
    return ST_OK;
}

enum status state_iter_name(struct state_iter *iter, struct bytes *ret_name)
{
    do
        if (!state_iter_next(iter))
            return ST_NOT_FOUND;
    while (iter->key.len == iter->prefix.len);

    uint8_t *key = arena_dup(iter->txn->arena, iter->key);
    if (key == NULL)
        return ST_NOMEM;
    ASSERT(iter->key.len > iter->prefix.len);
    size_t start = iter->prefix.len, len = iter->key.len - start;
    const uint8_t *slash = memchr(key + start, '/', len);
    if (slash != NULL) {
        len = (size_t)(slash - (key + start)) + 1;
        TRY(leave_folder(iter, bytes_of(key, start + len)));
    }
    *ret_name = bytes_of(key + start, len);
    return ST_OK;
}

void state_walk_from(const struct state_txn *txn, struct bytes prefix, struct bytes from,
                     struct state_walk *walk)
{
    ASSERT(txn->open);
    walk->key = (struct bytes){0};
    walk->created = 0;
    store_iter_init(&walk->store, &txn->pin, prefix, from);
}

void state_walk(const struct state_txn *txn, struct bytes prefix, struct state_walk *walk)
{
    state_walk_from(txn, prefix, (struct bytes){0}, walk);
}

bool state_walk_next(struct state_walk *walk)
{
    if (!store_iter_next(&walk->store))
        return false;
    walk->key = walk->store.item.key;
    walk->created = walk->store.item.created;
    return true;
}

void state_walk_skip(struct state_walk *walk, struct bytes skip)
{
    ASSERT(bytes_has_prefix(walk->key, skip));
    store_iter_skip(&walk->store, skip);
}

uint64_t state_count(const struct state_txn *txn, struct bytes prefix)
{
    ASSERT(txn->open);
    return store_count(&txn->pin, prefix);
}
