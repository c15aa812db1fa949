/* Settings of the cluster. Each setting is one record of JSON, written by a schema, at
 * s/ns/NS/config/NAME. */
#ifndef HOLDFAST_ROUTER_SETTING_H
#define HOLDFAST_ROUTER_SETTING_H

#include "state/state_txn.h"
#include "text/schema.h"

/* Fill *ret_struct (schema->size bytes); strings lie in the transaction's arena. ST_NOT_FOUND: the
 * setting was never set, *ret_struct untouched. ST_CORRUPT; else as state_get. */
NODISCARD enum status setting_load(struct state_txn *txn, const char *ns, const char *name,
                                   const struct schema *schema, void *ret_struct);
/* Whether the setting exists: ST_OK or ST_NOT_FOUND; else as state_exists. */
NODISCARD enum status setting_exists(struct state_txn *txn, const char *ns, const char *name);
/* Stage the whole record. As state_put. */
NODISCARD enum status setting_save(struct state_txn *txn, const char *ns, const char *name,
                                   const struct schema *schema, const void *from);
/* Stage the deletion of a setting, which may be absent. As state_delete. */
NODISCARD enum status setting_delete(struct state_txn *txn, const char *ns, const char *name);
/* The key of a setting. A name that ends in '/' gives the key of a folder of settings. ST_NOMEM. */
NODISCARD enum status setting_key(struct arena *arena, const char *ns, const char *name,
                                  struct bytes *ret_key);

#endif
