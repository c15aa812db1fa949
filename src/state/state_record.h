/* Reading and staging values that a table describes (base/record.h). A record that is `raw` is
 * stored unencrypted, see state_put_raw. */
#ifndef HOLDFAST_STATE_STATE_RECORD_H
#define HOLDFAST_STATE_STATE_RECORD_H

#include "base/record.h"
#include "state/state.h"

/* Stage the record at `key`. As state_put. */
NODISCARD enum status state_put_record(struct state_txn *txn, struct bytes key,
                                       const struct record *record, const void *from);
/* Read the record at `key` into *ret; texts and blocks lie in the arena of the transaction.
 * ST_NOT_FOUND; ST_CORRUPT; else as state_get. */
NODISCARD enum status state_get_record(struct state_txn *txn, struct bytes key,
                                       const struct record *record, void *ret);
/* Read a `raw` record at a pin; its blocks are borrowed from the pin. ST_NOT_FOUND; ST_CORRUPT. Any
 * thread. */
NODISCARD enum status state_record_at(const struct store_pin *pin, struct bytes key,
                                      const struct record *record, void *ret);

#endif
