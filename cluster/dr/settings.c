#include "cluster/dr/settings.h"

#include "state/state_record.h"

static const struct dr_settings defaults = {.sync_timeout_ms = DR_SYNC_TIMEOUT_MS};

static bool is_possible(const void *from)
{
    const struct dr_settings *s = from;
    return s->bandwidth == 0 || s->bandwidth >= DR_BANDWIDTH_MIN;
}

static const struct record_field settings_fields[] = {
    RECORD_BITS_BYTE,
    RECORD_FIELD(struct dr_settings, sync, FLAG, .mask = 1, .help = "sync mode"),
    RECORD_FIELD(struct dr_settings, sync_timeout_ms, U32, .min = DR_SYNC_TIMEOUT_MIN_MS,
                 .max = DR_SYNC_TIMEOUT_MAX_MS),
    RECORD_FIELD(struct dr_settings, bandwidth, U64, .max = DR_BANDWIDTH_MAX,
                 .help = "bytes a second to one secondary; 0: no bound"),
};
static const struct record settings_record = {RECORD(struct dr_settings, settings_fields),
                                              .name = "dr/settings",
                                              .key = DR_SETTINGS,
                                              .newest = 1,
                                              .raw = true,
                                              .valid = is_possible};
RECORD_LISTED(settings_record);

static enum status or_defaults(enum status st, struct dr_settings *ret)
{
    if (st != ST_OK)
        *ret = defaults;
    return st == ST_NOT_FOUND ? ST_OK : st;
}

enum status dr_settings_read(struct state_txn *txn, struct dr_settings *ret)
{
    return or_defaults(state_get_record(txn, BYTES(DR_SETTINGS), &settings_record, ret), ret);
}

enum status dr_settings_at(const struct store_pin *pin, struct dr_settings *ret)
{
    return or_defaults(state_record_at(pin, BYTES(DR_SETTINGS), &settings_record, ret), ret);
}

enum status dr_settings_put(struct state_txn *txn, const struct dr_settings *settings)
{
    return state_put_record(txn, BYTES(DR_SETTINGS), &settings_record, settings);
}
