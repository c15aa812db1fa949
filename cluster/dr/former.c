#include "cluster/dr/former.h"
#include "text/encode.h"

#include <stdio.h>

static struct bytes key_of(const uint8_t key_sha256[32], char room[DR_FORMER_KEY_MAX])
{
    memcpy(room, DR_FORMER_PREFIX, sizeof DR_FORMER_PREFIX - 1);
    text_hex_put(bytes_of(key_sha256, 32), room + sizeof DR_FORMER_PREFIX - 1);
    return bytes_str(room);
}

static void add(struct dr_former *all, const uint8_t key_sha256[32])
{
    if (all->n < DR_FORMER_MAX)
        memcpy(all->keys[all->n++], key_sha256, 32);
}

static enum status add_secondaries(struct state_txn *txn, struct dr_former *all)
{
    struct state_iter iter;
    struct bytes value;
    TRY(state_scan(txn, BYTES(DR_SECONDARY_PREFIX), (struct bytes){0}, &iter));
    while (state_iter_next(&iter)) {
        struct dr_secondary next;
        struct bytes id = bytes_from(iter.key, sizeof DR_SECONDARY_PREFIX - 1);
        TRY(state_iter_value(&iter, &value));
        TRY(dr_secondary_decode(id, value, &next));
        if (next.activated_ms == 0)
            continue;
        add(all, next.key_sha256);
        if (dr_secondary_renews(&next))
            add(all, next.next_sha256);
    }
    return txn->status;
}

enum status dr_former_collect(struct state_txn *txn, struct dr_former *ret_former)
{
    struct state_iter iter;
    uint8_t key[32];
    ret_former->n = 0;
    TRY(add_secondaries(txn, ret_former));
    TRY(state_scan(txn, BYTES(DR_FORMER_PREFIX), (struct bytes){0}, &iter));
    while (state_iter_next(&iter)) {
        struct bytes hex = bytes_from(iter.key, sizeof DR_FORMER_PREFIX - 1);
        if (hex.len != 64 || text_hex_parse(hex, key) != ST_OK)
            return ST_CORRUPT;
        add(ret_former, key);
    }
    return txn->status;
}

enum status dr_former_put(struct state_txn *txn, const struct dr_former *former)
{
    char room[DR_FORMER_KEY_MAX];
    ASSERT(former->n <= DR_FORMER_MAX);
    for (unsigned i = 0; i < former->n; i++)
        TRY(state_put_raw(txn, key_of(former->keys[i], room), BYTES("")));
    return ST_OK;
}

enum status dr_former_get(struct state_txn *txn, const uint8_t key_sha256[32])
{
    char room[DR_FORMER_KEY_MAX];
    return state_exists(txn, key_of(key_sha256, room));
}

bool dr_former_at(const struct store_pin *pin, const uint8_t key_sha256[32])
{
    char room[DR_FORMER_KEY_MAX];
    struct store_item item;
    return store_get(pin, key_of(key_sha256, room), &item) == ST_OK;
}
