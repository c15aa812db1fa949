/* Making, opening and closing a replica's directory. */
#include "base/mem.h"
#include "base/trace.h"
#include "raft/disk/rlog_disk_internal.h"

enum { GROUP_MAX = 4 << 20 };

static enum status dir_check(const char *dir, struct reason *reason)
{
    size_t len = strlen(dir);
    if (len > 0 && len < DISK_DIR_MAX)
        return ST_OK;
    reason_set(reason, "the data directory's path must have 1 to %d bytes", DISK_DIR_MAX - 1);
    return ST_INVALID;
}

static enum status count_one(void *ctx, const char *name)
{
    uint64_t a, b;
    bool *any = ctx;
    *any |= segment_name_parse(name, &a) || snapshot_name_parse(name, &a, &b);
    return ST_OK;
}

/* Whether `dir` holds segments or snapshots: then it is or was a replica. */
static enum status has_content(struct fs *fs, const char *dir, bool *ret_any)
{
    static const char *const subs[] = {"log", "snap"};
    bool any = false;
    for (size_t i = 0; i < ARRAY_LEN(subs); i++) {
        char path[DISK_PATH_MAX];
        (void)snprintf(path, sizeof path, "%s/%s", dir, subs[i]); /* not cut: `dir` is bounded */
        enum status st = fs_list(fs, path, count_one, &any);
        if (st != ST_NOT_FOUND)
            TRY(st);
    }
    *ret_any = any;
    return ST_OK;
}

/* Sync the parent of `dir`, so that the name of `dir` is durable. */
static enum status sync_parent(struct fs *fs, const char *dir)
{
    char path[DISK_PATH_MAX];
    const char *slash = strrchr(dir, '/');
    (void)snprintf(path, sizeof path, "%.*s", slash != NULL ? (int)(slash - dir) : 0,
                   dir); /* cannot be cut: `dir` is bounded */
    return fs_sync_dir(fs, path);
}

static enum status make_dirs(struct fs *fs, const char *dir)
{
    char path[DISK_PATH_MAX];
    TRY(fs_mkdir(fs, dir));
    (void)snprintf(path, sizeof path, "%s/log", dir); /* cannot be cut: `dir` is bounded */
    TRY(fs_mkdir(fs, path));
    (void)snprintf(path, sizeof path, "%s/snap", dir); /* cannot be cut: `dir` is bounded */
    TRY(fs_mkdir(fs, path));
    TRY(sync_parent(fs, dir));
    return fs_sync_dir(fs, dir);
}

/* Write the identity last: the replica exists only with its identity. */
static enum status create_locked(struct fs *fs, const char *dir,
                                 const struct rlog_identity *identity, struct reason *reason)
{
    struct rlog_identity there;
    char path[DISK_PATH_MAX];
    bool any = false;
    enum status st = identity_load(fs, dir, &there);
    if (st == ST_OK) {
        reason_set(reason, "%s: there is a replica here already, of node %s", dir, there.name);
        return ST_EXISTS;
    }
    if (st != ST_NOT_FOUND)
        return st;
    TRY(has_content(fs, dir, &any));
    if (any) {
        reason_set(reason, "%s: there is a log or snapshot, but the identity is missing", dir);
        return ST_CORRUPT;
    }
    (void)snprintf(path, sizeof path, "%s/slot", dir); /* cannot be cut: `dir` is bounded */
    TRY(vote_file_create(fs, path, identity->id));
    TRY(fs_sync_dir(fs, dir));
    return identity_create(fs, dir, identity);
}

enum status rlog_disk_create(struct env *env, const char *dir, const struct rlog_identity *identity,
                             struct reason *reason)
{
    struct fs_file *held = NULL;
    char path[DISK_PATH_MAX];
    ASSERT(identity->id > 0);
    ASSERT(memchr(identity->name, 0, sizeof identity->name) != NULL);
    TRY(dir_check(dir, reason));
    reason_set(reason, "%s: the directory cannot be made", dir);
    TRY(make_dirs(env->fs, dir));
    (void)snprintf(path, sizeof path, "%s/lock", dir); /* cannot be cut: `dir` is bounded */
    reason_set(reason, "%s: in use by another process", dir);
    TRY(fs_lock(env->fs, path, &held));
    reason_set(reason, "%s: the replica cannot be made", dir);
    enum status st = create_locked(env->fs, dir, identity, reason);
    fs_close(held);
    return st;
}

struct wipe {
    struct fs *fs;
    const char *dir;
};

static enum status wipe_one(void *ctx, const char *name)
{
    const struct wipe *w = ctx;
    char path[DISK_PATH_MAX];
    int n = snprintf(path, sizeof path, "%s/%s", w->dir, name);
    if (n < 0 || n >= (int)sizeof path)
        return ST_INVALID;
    return fs_unlink(w->fs, path);
}

static enum status wipe_file(struct fs *fs, const char *dir, const char *name)
{
    struct wipe w = {fs, dir};
    enum status st = wipe_one(&w, name);
    return st == ST_NOT_FOUND ? ST_OK : st;
}

static enum status wipe_folder(struct fs *fs, const char *dir, const char *sub)
{
    char path[DISK_PATH_MAX];
    (void)snprintf(path, sizeof path, "%s/%s", dir, sub); /* cannot be cut: `dir` is bounded */
    struct wipe w = {fs, path};
    enum status st = fs_list(fs, path, wipe_one, &w);
    if (st == ST_NOT_FOUND)
        return ST_OK;
    TRY(st);
    return fs_sync_dir(fs, path);
}

/* Remove the identity first: without an identity the remaining files cannot be used as a
 * replica. */
static enum status wipe_locked(struct fs *fs, const char *dir)
{
    TRY(wipe_file(fs, dir, "identity"));
    TRY(fs_sync_dir(fs, dir));
    TRY(wipe_folder(fs, dir, "log"));
    TRY(wipe_folder(fs, dir, "snap"));
    TRY(wipe_file(fs, dir, "install"));
    TRY(wipe_file(fs, dir, "slot"));
    return fs_sync_dir(fs, dir);
}

enum status rlog_disk_wipe(struct env *env, const char *dir, struct reason *reason)
{
    char path[DISK_PATH_MAX];
    struct fs_file *held = NULL;
    TRY(dir_check(dir, reason));
    (void)snprintf(path, sizeof path, "%s/lock", dir); /* cannot be cut: `dir` is bounded */
    enum status st = fs_lock(env->fs, path, &held);
    if (st == ST_NOT_FOUND)
        return ST_OK;
    reason_set(reason, st == ST_BUSY ? "%s: in use by another process" : "%s: cannot be opened",
               dir);
    TRY(st);
    st = wipe_locked(env->fs, dir);
    fs_close(held);
    reason_set(reason, "%s: the damaged replica cannot be removed", dir);
    return st;
}

static enum status disk_new(const struct rlog_disk_options *o, struct rlog_disk **ret_disk)
{
    struct rlog_disk *disk = mem_zalloc(sizeof *disk);
    if (disk == NULL)
        return ST_NOMEM;
    if (pthread_mutex_init(&disk->lock, NULL) != 0) {
        mem_free(disk);
        return ST_NOMEM;
    }
    disk->env = o->env;
    disk->fs = o->env->fs;
    disk->ops = o->ops;
    disk->idle = o->idle;
    disk->held = o->held;
    memcpy(disk->dir, o->dir, strlen(o->dir) + 1);
    uint64_t size = o->segment_bytes != 0 ? o->segment_bytes : SEGMENT_DEFAULT;
    size = MIN(MAX(size, (uint64_t)SEGMENT_MIN), (uint64_t)SEGMENT_MAX);
    disk->segment_bytes = size / SECTOR * SECTOR;
    disk->group_bytes = MIN(disk->segment_bytes / 2, (uint64_t)GROUP_MAX);
    disk->reserve_bytes = o->reserve_bytes != 0 ? o->reserve_bytes : DISK_RESERVE_DEFAULT;
    disk->snapshots_kept = o->snapshots_kept != 0 ? MIN(o->snapshots_kept, DISK_VERIFIED_MAX) : 2;
    disk_works_init(disk);
    *ret_disk = disk;
    return ST_OK;
}

static void disk_free(struct rlog_disk *disk)
{
    tail_done(&disk->tail);
    fs_close(disk->vote_file);
    fs_close(disk->lock_file);
    (void)pthread_mutex_destroy(&disk->lock); /* no thread holds the lock */
    mem_free(disk);
}

static enum status identity_check(const struct rlog_disk *disk, const struct rlog_identity *expect,
                                  struct reason *reason)
{
    const struct rlog_identity *have = &disk->identity;
    if (expect == NULL)
        return ST_OK;
    if (memcmp(have->cluster, expect->cluster, sizeof have->cluster) != 0) {
        reason_set(reason, "%s: belongs to another cluster (node %s)", disk->dir, have->name);
        return ST_INVALID;
    }
    if (strcmp(have->name, expect->name) != 0) {
        reason_set(reason, "%s: belongs to node %s, this is %s", disk->dir, have->name,
                   expect->name);
        return ST_INVALID;
    }
    return ST_OK;
}

static void identity_lost(struct rlog_disk *disk, struct rlog_loaded *ret_loaded, const char *why,
                          struct reason *reason)
{
    *ret_loaded = (struct rlog_loaded){.corrupt = true, .first = 1};
    reason_set(&ret_loaded->reason, "identity: %s", why);
    reason_set(reason, "%s/identity: %s", disk->dir, why);
    disk->corrupt = disk->tail.broken = disk->failed = true;
}

/* Look for a replica. ST_NOT_FOUND before anything is locked or changed. */
static enum status look(struct fs *fs, const char *dir, struct reason *reason)
{
    char path[DISK_PATH_MAX];
    struct fs_file *file = NULL;
    bool any = false;
    (void)snprintf(path, sizeof path, "%s/identity", dir); /* cannot be cut: `dir` is bounded */
    enum status st = fs_open(fs, path, FS_READ, &file);
    fs_close(file);
    if (st == ST_NOT_FOUND) {
        TRY(has_content(fs, dir, &any));
        st = any ? ST_OK : ST_NOT_FOUND;
    }
    reason_set(reason,
               st == ST_NOT_FOUND ? "%s: there is no replica here"
                                  : "%s: the directory cannot be read",
               dir);
    return st;
}

static enum status open_locked(struct rlog_disk *disk, const struct rlog_identity *expect,
                               struct rlog_loaded *ret_loaded, struct reason *reason)
{
    enum status st = identity_load(disk->fs, disk->dir, &disk->identity);
    if (st == ST_NOT_FOUND || st == ST_CORRUPT) {
        identity_lost(disk, ret_loaded,
                      st == ST_NOT_FOUND ? "the file is missing" : "both copies are damaged",
                      reason);
        return ST_OK;
    }
    TRY(st);
    TRY(identity_check(disk, expect, reason));
    TRY(disk_load(disk, ret_loaded, reason));
    if (ret_loaded->corrupt) {
        disk->corrupt = disk->failed = true;
        reason_set(reason, "%s/%s", disk->dir, ret_loaded->reason.text);
        return ST_OK;
    }
    disk_free_check(disk);
    env_timer_set(disk->env, &disk->tick, env_mono_ms(disk->env) + DISK_TICK_MS);
    return ST_OK;
}

enum status rlog_disk_open(const struct rlog_disk_options *options,
                           const struct rlog_identity *expect, struct rlog_disk **ret_disk,
                           struct rlog_identity *ret_identity, struct rlog_loaded *ret_loaded,
                           struct reason *reason)
{
    struct rlog_disk *disk = NULL;
    char path[DISK_PATH_MAX];
    ASSERT(options->ops.written != NULL && options->ops.fatal != NULL);
    TRY(dir_check(options->dir, reason));
    TRY(look(options->env->fs, options->dir, reason));
    reason_set(reason, "out of memory");
    TRY(disk_new(options, &disk));
    disk_path(disk, path, "lock");
    enum status st = fs_lock(disk->fs, path, &disk->lock_file);
    reason_set(reason, st == ST_BUSY ? "%s: in use by another process" : "%s: cannot be opened",
               options->dir);
    if (st == ST_OK)
        st = open_locked(disk, expect, ret_loaded, reason);
    if (st != ST_OK) {
        disk_free(disk);
        return st;
    }
    *ret_identity = disk->identity;
    *ret_disk = disk;
    return ST_OK;
}

void rlog_disk_close(struct rlog_disk *disk)
{
    if (disk == NULL)
        return;
    disk_drop_held(disk);
    ASSERT(rlog_disk_idle(disk));
    env_timer_stop(disk->env, &disk->tick);
    disk_prep_close(disk);
    if (!disk->failed && !disk->tail.broken && tail_mark(disk, BATCH_CLEAN, NULL) != ST_OK)
        trace(TRACE_WARN, "raft", "%s: the log could not be marked as closed", disk->dir);
    disk_free(disk);
}
