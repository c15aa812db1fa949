#include "cluster/dr/settings.h"

enum { SETTINGS_FORMAT = 1, SETTINGS_SYNC = 1 };

static const struct dr_settings defaults = {.sync_timeout_ms = DR_SYNC_TIMEOUT_MS};

static bool is_possible(const struct dr_settings *s)
{
    return s->sync_timeout_ms >= DR_SYNC_TIMEOUT_MIN_MS &&
           s->sync_timeout_ms <= DR_SYNC_TIMEOUT_MAX_MS &&
           (s->bandwidth == 0 ||
            (s->bandwidth >= DR_BANDWIDTH_MIN && s->bandwidth <= (uint64_t)DR_BANDWIDTH_MAX));
}

static enum status settings_decode(struct bytes record, struct dr_settings *ret)
{
    struct reader in = reader_of(record);
    uint8_t format = reader_u8(&in), flags = reader_u8(&in);
    struct dr_settings s = {.sync = (flags & SETTINGS_SYNC) != 0};
    s.sync_timeout_ms = reader_u32(&in);
    s.bandwidth = reader_u64(&in);
    if (reader_end(&in) != ST_OK || format != SETTINGS_FORMAT || flags > SETTINGS_SYNC ||
        !is_possible(&s))
        return ST_CORRUPT;
    *ret = s;
    return ST_OK;
}

enum status dr_settings_read(struct state_txn *txn, struct dr_settings *ret)
{
    struct state_value stored;
    enum status st = state_get_raw(txn, BYTES(DR_SETTINGS), &stored);
    *ret = defaults;
    if (st != ST_OK)
        return st == ST_NOT_FOUND ? ST_OK : st;
    return settings_decode(stored.value, ret);
}

enum status dr_settings_at(const struct store_pin *pin, struct dr_settings *ret)
{
    struct store_item item;
    *ret = defaults;
    return store_get(pin, BYTES(DR_SETTINGS), &item) == ST_OK ? settings_decode(item.value, ret)
                                                              : ST_OK;
}

enum status dr_settings_put(struct state_txn *txn, const struct dr_settings *settings)
{
    CLEANUP(buf_done) struct buf record = {0};
    ASSERT(is_possible(settings));
    buf_add_u8(&record, SETTINGS_FORMAT);
    buf_add_u8(&record, settings->sync ? SETTINGS_SYNC : 0);
    buf_add_u32(&record, settings->sync_timeout_ms);
    buf_add_u64(&record, settings->bandwidth);
    TRY(buf_status(&record));
    return state_put_raw(txn, BYTES(DR_SETTINGS), buf_bytes(&record));
}
