/* The configuration of audit devices in the state.
 *
 *   s/core/audit/device/PATH   a device; PATH ends in '/'
 *   l/core/audit/device/PATH   a device with local = true
 *   s/core/audit/header/NAME   a request header that records show; NAME is in lower case
 *
 * A record is JSON, written by the schemas of this header. It exists from feature level
 * AUDIT_FEATURE on: an older build would serve requests without recording them. All writes are
 * exempt from the state limit, so their number is bounded. */
#ifndef HOLDFAST_AUDIT_AUDIT_ENTRY_H
#define HOLDFAST_AUDIT_AUDIT_ENTRY_H

#include "audit/audit_set.h"
#include "state/state.h"

#include <assert.h>

#define AUDIT_SHARED_PREFIX STATE_SHARED "core/audit/"
#define AUDIT_LOCAL_PREFIX STATE_LOCAL "core/audit/"

enum {
    AUDIT_FEATURE = 2,
    AUDIT_ENTRIES_MAX = 8,  /* devices in the state */
    AUDIT_DECLARED_MAX = 8, /* devices in the configuration file of a node */
    AUDIT_HEADERS_MAX = 64,
    AUDIT_HEADER_NAME_MAX = 128,
    AUDIT_ENTRY_PATH_MAX = 256,
    AUDIT_ENTRY_BYTES_MAX = 16384,
    AUDIT_ENTRY_SALT = 32, /* bytes */
};
static_assert((int)AUDIT_ENTRIES_MAX + (int)AUDIT_DECLARED_MAX == (int)AUDIT_SET_MAX,
              "a set has room for every device");

struct audit_entry {
    const char *path; /* the end of the record's key; not in the record */
    const char *uuid; /* names this enabling of the path */
    const char *type, *description;
    struct field_map options;
    bool local;
    const char *salt; /* AUDIT_ENTRY_SALT bytes as hex digits; secret: no reply shows it */
};
extern const struct schema audit_entry_schema;

/* The key of a device. ST_NOMEM. */
NODISCARD enum status audit_entry_key(struct arena *arena, bool local, const char *path,
                                      struct bytes *ret_key);
/* Call `each` for every device, those with local = true last, until it returns another status than
 * ST_OK. A record that cannot be read is given with a `type` of NULL. Notes the prefixes as
 * state_scan does; statuses as there. */
NODISCARD enum status
audit_entry_each(struct state_txn *txn,
                 enum status (*each)(void *ctx, const struct audit_entry *entry), void *ctx);
/* The salt of an entry. ST_CORRUPT. */
NODISCARD enum status audit_entry_salt(const struct audit_entry *entry,
                                       uint8_t ret_salt[AUDIT_ENTRY_SALT]);
/* Stage a new device. ST_TOO_BIG: above AUDIT_ENTRY_BYTES_MAX. Else as state_put_exempt. */
NODISCARD enum status audit_entry_save(struct state_txn *txn, const struct audit_entry *entry);
/* Stage the deletion of a device, which may be absent. As state_delete. */
NODISCARD enum status audit_entry_delete(struct state_txn *txn, const char *path);

extern const struct schema audit_header_schema; /* struct audit_header, without its name */

/* The recorded request headers, ordered by name; strings lie in `arena`. Notes the prefix as
 * state_scan does. ST_CORRUPT; else as state_scan. */
NODISCARD enum status audit_header_list(struct state_txn *txn, struct arena *arena,
                                        struct audit_header *ret_headers, unsigned *ret_n);
/* Stage the record of a header, or its deletion. As state_put_exempt, state_delete. */
NODISCARD enum status audit_header_save(struct state_txn *txn, const struct audit_header *header);
NODISCARD enum status audit_header_delete(struct state_txn *txn, const char *name);

#endif
