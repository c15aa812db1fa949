/* Snapshots by a schedule: the records of sys/storage/raft/snapshot-auto, private to
 * src/api/members.
 *
 *   l/snapshot-auto/config/NAME   a configuration
 *   l/snapshot-auto/status/NAME   what became of it; absent before the first snapshot
 *
 * Both are JSON, written by the schemas of members_autosnap_record.c. They belong to this cluster:
 * a snapshot has none of them, and a restore keeps them. A record that cannot be opened was written
 * before a restore that dropped the local key ring; it counts as absent. */
#ifndef HOLDFAST_API_MEMBERS_MEMBERS_AUTOSNAP_H
#define HOLDFAST_API_MEMBERS_MEMBERS_AUTOSNAP_H

#include "api/members/members.h"
#include "snapshot/snapshot_folder.h"

#define AUTOSNAP_CONFIGS STATE_LOCAL "snapshot-auto/config/"
#define AUTOSNAP_STATUSES STATE_LOCAL "snapshot-auto/status/"

enum {
    AUTOSNAP_MAX = 16, /* configurations */
    AUTOSNAP_NAME_MAX = 64,
    AUTOSNAP_PATH_MAX = 512,
    AUTOSNAP_RETAIN_MAX = 10000,
    AUTOSNAP_RETRY_MS = 60000, /* longest time until a failed snapshot is tried again */
};
#define AUTOSNAP_INTERVAL_MAX_S (INT64_C(10) * 365 * 24 * 60 * 60)

struct members_autosnap {
    const char *file_prefix, *path_prefix, *storage_type;
    int64_t interval, retain; /* seconds; number of snapshots */
    uint64_t local_max_space; /* bytes */
    bool has_file, has_path, has_type, has_interval, has_retain, has_space;
};
extern const struct schema members_autosnap_schema;

/* Times are cluster times in ms; 0: never. */
struct members_autosnap_status {
    int64_t slot_ms;  /* when the newest good snapshot was due; the next one is due from here */
    int64_t retry_ms; /* not before this time, after a failure */
    bool running;     /* a snapshot was begun, and its end is not recorded */
    int64_t begun_ms;
    const char *begun_node;
    int64_t start_ms, end_ms; /* of the last snapshot that ended, well or not */
    const char *error, *url, *node;
    int64_t failures; /* since the last good one */
    int64_t good_ms;  /* the newest good snapshot */
    const char *good_url;
};

/* ST_NOT_FOUND; else as state_get. Strings lie in the transaction's arena. */
NODISCARD enum status members_autosnap_load(struct state_txn *txn, const char *name,
                                            struct members_autosnap *ret);
/* The status; that of a new configuration if there is none. As state_get. */
NODISCARD enum status members_autosnap_load_status(struct state_txn *txn, const char *name,
                                                   struct members_autosnap_status *ret);
/* Stage a record. As state_put. */
NODISCARD enum status members_autosnap_save(struct state_txn *txn, const char *name,
                                            const struct members_autosnap *from);
NODISCARD enum status members_autosnap_save_status(struct state_txn *txn, const char *name,
                                                   const struct members_autosnap_status *from);
/* Stage the deletion of both records, which may be absent. As state_delete. */
NODISCARD enum status members_autosnap_delete(struct state_txn *txn, const char *name);

/* When the next snapshot is due; 0: at once. */
int64_t members_autosnap_due_ms(const struct members_autosnap *config,
                                const struct members_autosnap_status *status);
/* The snapshot that was begun ended well at `end_ms`. */
void members_autosnap_succeed(struct members_autosnap_status *status,
                              const struct members_autosnap *config, const char *url,
                              int64_t end_ms);
/* The snapshot that was begun failed, or was not finished. */
void members_autosnap_fail(struct members_autosnap_status *status,
                           const struct members_autosnap *config, const char *error,
                           int64_t end_ms);

/* Check what a configuration asks for. ST_INVALID with a reason that names the field. */
NODISCARD enum status members_autosnap_check(const struct members_autosnap *config,
                                             struct reason *why);
/* Whether two configurations would write and delete the same files. */
bool members_autosnap_collide(const struct members_autosnap *one,
                              const struct members_autosnap *other);

/* Open the folder on this node; loop_fs_free ends the use. `data_dir`: NULL:
 * the node has none. ST_NOT_FOUND, ST_INVALID, ST_IO, ST_NOMEM with a reason. */
NODISCARD enum status members_autosnap_open(const char *path, const char *data_dir,
                                            struct fs **ret_fs, bool *ret_same_disk,
                                            struct reason *why);

/* members_autosnap_run.c */
/* The service that saves snapshots by the schedules. */
void members_autosnap_run(struct service *service);
void members_autosnap_metrics(struct metric_out *out);

#endif
