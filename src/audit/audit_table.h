/* The audit devices of this node: those of the configuration file, and those of the state while
 * this node is unsealed.
 *
 * The table follows the state without a loop of its own. A request whose transaction sees newer
 * records of devices reads them before it is recorded, on its worker's thread; a timer does the
 * same on a node without requests (audit_table_watch). Opening a sink is work of the device's
 * thread, so nothing here waits.
 *
 * 1. A request that reads a version with a device is recorded by a set that has the device.
 * 2. A sealed node has no salt: the devices of the state are closed, those of the configuration
 *    file go on without a salt. The watch sees to it within its period.
 * 3. A device of the state at the path of a device of the configuration file is not opened on this
 *    node; a log line says so. */
#ifndef HOLDFAST_AUDIT_AUDIT_TABLE_H
#define HOLDFAST_AUDIT_AUDIT_TABLE_H

#include "audit/audit_entry.h"
#include "audit/places.h"
#include "audit/record.h"

struct metric_out;

enum {
    AUDIT_WATCH_MS = 500, /* period of audit_table_watch */
    AUDIT_END_MS = 5000,  /* how long audit_table_close waits */
};

/* `places`: where devices may write files; borrowed. ST_NOMEM. */
NODISCARD enum status audit_table_new(const struct audit_places *places,
                                      struct audit_table **ret_table);
/* For the end of the process: close every device, and wait until each has written what it holds,
 * AUDIT_END_MS at most for all together. The loops of the workers still run; no request and no
 * watch is under way.
 */
void audit_table_close(struct audit_table *table);
/* After audit_table_close, or where no record was ever offered. NULL is allowed. */
void audit_table_free(struct audit_table *table);

/* Add a device of the configuration file: path, type, description, options. Copies `entry`. Before
 * other threads use the table. ST_INVALID with a reason; ST_NOMEM, ST_CRYPTO. */
NODISCARD enum status audit_table_declare(struct audit_table *table,
                                          const struct audit_entry *entry, struct reason *why);

/* Follow the state and the seal, and judge the devices. `state` belongs to the calling thread;
 * NULL: this node has no state yet. Call every AUDIT_WATCH_MS, on one thread. */
void audit_table_watch(struct audit_table *table, struct state *state);
/* Whether devices are enabled and every one of them fails or is late. audit_table_watch finds this
 * out, so the result may be AUDIT_WATCH_MS old. Any thread. */
bool audit_table_is_mute(const struct audit_table *table);

/* Open every sink anew, as after SIGHUP. Any thread. */
void audit_table_reopen(struct audit_table *table);
/* How a device does on this node: "open", "opening", "failing" or "late", and for the latter two
 * why. Any thread. */
const char *audit_use_status(const struct audit_use *use, struct reason *ret_why);
/* The text that stands for `input` in the records of a device. ST_NOT_FOUND: this node has not
 * opened the device; ST_NOMEM, ST_CRYPTO. Any thread. */
NODISCARD enum status audit_use_hash(const struct audit_use *use, struct bytes input,
                                     char ret_text[AUDIT_HMAC_LEN + 1]);
/* Figures of each device. Any thread. */
void audit_table_metrics(struct audit_table *table, struct metric_out *out);

/* The device that writes the file that the options of `entry` name; NULL: none. `discard`,
 * `stdout`, terminals and /dev/null may repeat. Calls the file system: never on a loop. */
const struct audit_use *audit_use_of_file(const struct audit_set *set,
                                          const struct audit_entry *entry);
/* The path of the file of a device; NULL: the device has none, or one that may repeat. */
const char *audit_file_of(const char *type, const struct field_map *options);

/* Whether a path equals one of the two paths, or stands above or below the other. Both end in '/'.
 */
bool audit_paths_overlap(const char *one, const char *other);

#endif
