#include "state/state_record.h"

enum status state_put_record(struct state_txn *txn, struct bytes key, const struct record *record,
                             const void *from)
{
    CLEANUP(buf_done) struct buf encoded = {0};
    TRY(record_encode(record, from, &encoded));
    return record->raw ? state_put_raw(txn, key, buf_bytes(&encoded))
                       : state_put(txn, key, buf_bytes(&encoded));
}

enum status state_get_record(struct state_txn *txn, struct bytes key, const struct record *record,
                             void *ret)
{
    struct state_value stored;
    TRY(record->raw ? state_get_raw(txn, key, &stored) : state_get(txn, key, &stored));
    return record_decode(record, stored.value, txn->arena, ret);
}

enum status state_record_at(const struct store_pin *pin, struct bytes key,
                            const struct record *record, void *ret)
{
    struct store_item item;
    ASSERT(record->raw);
    if (store_get(pin, key, &item) != ST_OK)
        return ST_NOT_FOUND;
    return record_decode(record, item.value, NULL, ret);
}
