#include "state/feature.h"
#include "state/state_internal.h"
#include "text/value.h"

enum status state_has_feature(struct state_txn *txn, uint16_t level, bool *ret_has)
{
    const struct bytes key = BYTES(STATE_FEATURE_RAISED);
    struct store_item item = {.modified = 0};
    int64_t reached = RLOG_FEATURE_FIRST;

    ASSERT(txn->open);
    ASSERT(level > RLOG_FEATURE_FIRST && level <= RLOG_FEATURE);
    if (txn->feature >= level) {
        *ret_has = true;
        return ST_OK;
    }
    if (store_get(&txn->pin, key, &item) == ST_OK && text_int_parse(item.value, &reached) != ST_OK)
        reached = RLOG_FEATURE_FIRST; /* the text is no number: it raises nothing */
    *ret_has = reached >= level;
    if (*ret_has)
        txn->feature = (uint16_t)MIN(reached, (int64_t)RLOG_FEATURE);
    return *ret_has ? ST_OK : txn_note_key(txn, key, item.modified);
}
