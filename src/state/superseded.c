#include "state/superseded.h"

#include "base/plant.h"
#include "state/following.h"
#include "state/state_core.h"
#include "text/value.h"

#include <inttypes.h>
#include <stdio.h>

static void collect_one(struct barrier_records *records, struct superseded_names *names,
                        const struct store_item *item)
{
    char *name = names->text[records->n_links];
    ASSERT(records->n_links < BARRIER_LINKS_MAX);
    if (item->key.len >= SUPERSEDED_NAME_MAX)
        return; /* no name of a link */
    memcpy(name, item->key.data, item->key.len);
    records->links[records->n_links++] =
        (struct barrier_link){bytes_of(name, item->key.len), item->value};
}

/* Add at most `max` links below a prefix, the last ones. */
static void collect_below(const struct store_pin *pin, struct bytes prefix, unsigned max,
                          struct barrier_records *records, struct superseded_names *names)
{
    struct store_iter iter;
    uint64_t n = store_count(pin, prefix), skip = n > max ? n - max : 0;
    ASSERT(max <= BARRIER_LINKS_MAX);
    if (n == 0)
        return;
    store_iter_init(&iter, pin, prefix, (struct bytes){0});
    for (unsigned added = 0; added < max && store_iter_next(&iter);) {
        if (skip != 0) {
            skip--;
            continue;
        }
        collect_one(records, names, &iter.item);
        added++;
    }
}

void superseded_collect(const struct store_pin *pin, struct barrier_records *records,
                        struct superseded_names *names)
{
    struct store_item item;
    ASSERT(records->n_links == 0);
    if (store_get(pin, BYTES(BARRIER_SUPERSEDED), &item) == ST_OK)
        collect_one(records, names, &item);
    collect_below(pin, BYTES(BARRIER_LOCAL_LINKS), SUPERSEDED_LOCAL_MAX, records, names);
    collect_below(pin, BYTES(BARRIER_LINKS), SUPERSEDED_MAX, records, names);
}

/* The number of a link; 0: the key is no name of one. */
static uint64_t number_of(struct bytes key, struct bytes prefix)
{
    int64_t number = 0;
    struct bytes digits = bytes_from(key, prefix.len);
    if (digits.len != SUPERSEDED_DIGITS || text_int_parse(digits, &number) != ST_OK || number < 0)
        return 0;
    return (uint64_t)number;
}

struct bytes superseded_name(const struct store_pin *pin, struct bytes prefix,
                             char room[SUPERSEDED_NAME_MAX])
{
    struct store_iter iter;
    uint64_t number = pin->version;
    store_iter_init(&iter, pin, prefix, (struct bytes){0});
    while (store_iter_next(&iter))
        number = MAX(number, number_of(iter.item.key, prefix) + 1);
    int n = snprintf(room, SUPERSEDED_NAME_MAX, "%.*s%020" PRIu64, (int)prefix.len,
                     (const char *)prefix.data, number);
    ASSERT(n == (int)prefix.len + SUPERSEDED_DIGITS);
    return bytes_of(room, (size_t)n);
}

static bool is_old(struct bytes record, int64_t now_ms)
{
    int64_t made_ms = 0;
    return barrier_link_time(record, &made_ms) != ST_OK || now_ms - made_ms >= SUPERSEDED_MS;
}

enum status superseded_expire(struct state_txn *txn, struct bytes prefix, int64_t now_ms,
                              uint64_t version)
{
    struct state_walk walk;
    struct state_value stored;
    state_walk(txn, prefix, &walk);
    while (state_walk_next(&walk)) {
        enum status st = state_get_raw(txn, walk.key, &stored);
        if (st == ST_NOT_FOUND)
            continue; /* this transaction deletes it already */
        TRY(st);
        if (stored.modified <= version && is_old(stored.value, now_ms))
            TRY(state_delete(txn, walk.key));
    }
    return ST_OK;
}

enum status state_superseded_upkeep(struct state_txn *txn, int64_t now_ms, uint64_t confirmed)
{
    bool following = false;
    ASSERT(txn->open);
    TRY(state_is_following(txn, &following));
    enum status st = state_exists(txn, BYTES(STATE_DR_SEAL));
    if (following || st == ST_OK)
        return ST_OK; /* state_dr_upkeep keeps what the own seal needs */
    if (st != ST_NOT_FOUND)
        return st;
    if (planted(PLANT_DR_OLD_ROOT_KEY))
        return state_count(txn, BYTES(BARRIER_LINKS)) != 0
                   ? state_delete_prefix(txn, BYTES(BARRIER_LINKS))
                   : ST_OK;
    TRY(superseded_expire(txn, BYTES(BARRIER_LINKS), now_ms, confirmed));
    TRY(superseded_expire(txn, BYTES(BARRIER_LOCAL_LINKS), now_ms, UINT64_MAX));
    return superseded_expire(txn, BYTES(BARRIER_SUPERSEDED), now_ms, UINT64_MAX);
}
