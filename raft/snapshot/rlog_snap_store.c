/* The snapshot files of a replica: find, verify, remove. */
#include "base/trace.h"
#include "raft/disk/rlog_disk_internal.h"
#include "raft/snapshot/rlog_snap_format.h"

void snapshot_path(const struct rlog_disk *disk, uint64_t index, uint64_t term,
                   char path[DISK_PATH_MAX])
{
    disk_path(disk, path, "snap/%016llx-%016llx.snap", (unsigned long long)index,
              (unsigned long long)term);
}

static bool newer(const struct disk_snapshot *a, const struct disk_snapshot *b)
{
    return a->index != b->index ? a->index > b->index : a->term > b->term;
}

void snapshot_verified(struct rlog_disk *disk, uint64_t index, uint64_t term)
{
    struct disk_snapshot it = {index, term};
    disk_lock(disk);
    unsigned at = 0;
    while (at < disk->n_verified && newer(&disk->verified[at], &it))
        at++;
    bool there = at < disk->n_verified && !newer(&it, &disk->verified[at]);
    if (!there && at < DISK_VERIFIED_MAX) {
        disk->n_verified = MIN(disk->n_verified + 1, (unsigned)DISK_VERIFIED_MAX);
        memmove(&disk->verified[at + 1], &disk->verified[at],
                (disk->n_verified - at - 1) * sizeof it);
        disk->verified[at] = it;
    }
    ASSERT(disk->n_verified <= DISK_VERIFIED_MAX);
    disk_unlock(disk);
}

static void forget_verified(struct rlog_disk *disk, const struct disk_snapshot *it)
{
    unsigned kept = 0;
    disk_lock(disk);
    for (unsigned i = 0; i < disk->n_verified; i++)
        if (newer(&disk->verified[i], it) || newer(it, &disk->verified[i]))
            disk->verified[kept++] = disk->verified[i];
    ASSERT(kept <= disk->n_verified);
    disk->n_verified = kept;
    disk_unlock(disk);
}

static bool is_verified(struct rlog_disk *disk, const struct disk_snapshot *it)
{
    bool found = false;
    disk_lock(disk);
    for (unsigned i = 0; i < disk->n_verified; i++)
        found |= !newer(&disk->verified[i], it) && !newer(it, &disk->verified[i]);
    disk_unlock(disk);
    return found;
}

uint64_t snapshot_floor(const struct rlog_disk *disk)
{
    unsigned kept = disk->snapshots_kept;
    ASSERT(kept > 0 && kept <= DISK_VERIFIED_MAX);
    return disk->n_verified >= kept ? disk->verified[kept - 1].index : 0;
}

/* The newest files, in ascending order as fs_list gives them. */
struct listing {
    struct disk_snapshot all[DISK_SNAPSHOTS_MAX];
    unsigned n;
};

static enum status list_one(void *ctx, const char *name)
{
    struct listing *l = ctx;
    struct disk_snapshot it;
    if (!snapshot_name_parse(name, &it.index, &it.term))
        return ST_OK;
    if (l->n == DISK_SNAPSHOTS_MAX)
        memmove(&l->all[0], &l->all[1], --l->n * sizeof it);
    ASSERT(l->n < DISK_SNAPSHOTS_MAX);
    l->all[l->n++] = it;
    return ST_OK;
}

static enum status list_all(struct rlog_disk *disk, struct listing *l)
{
    char path[DISK_PATH_MAX];
    l->n = 0;
    disk_path(disk, path, "snap");
    enum status st = fs_list(disk->fs, path, list_one, l);
    return st == ST_NOT_FOUND ? ST_OK : st;
}

/* Verify one file. ST_CORRUPT with a reason naming the file. */
static enum status verify_file(struct rlog_disk *disk, const struct disk_snapshot *it,
                               struct rlog_snapshot_meta *ret_meta, struct reason *reason)
{
    char path[DISK_PATH_MAX];
    struct fs_file *file = NULL;
    struct reason why = {{0}};
    struct rlog_snapshot_meta meta;
    snapshot_path(disk, it->index, it->term, path);
    TRY(fs_open(disk->fs, path, FS_READ, &file));
    enum status st = snap_verify(file, &meta, &why);
    fs_close(file);
    if (st == ST_OK && (meta.index != it->index || meta.term != it->term)) {
        reason_set(&why, "the header belongs to another snapshot");
        st = ST_CORRUPT;
    }
    if (st != ST_OK) {
        reason_set(reason, "snap/%016llx-%016llx.snap: %s", (unsigned long long)it->index,
                   (unsigned long long)it->term, why.text);
        return st;
    }
    *ret_meta = meta;
    return ST_OK;
}

enum status snapshots_find(struct rlog_disk *disk, struct snapshots_found *ret)
{
    struct listing list;
    *ret = (struct snapshots_found){0};
    TRY(list_all(disk, &list));
    for (unsigned i = list.n; i > 0; i--) {
        const struct disk_snapshot *it = &list.all[i - 1];
        struct reason reason;
        enum status st = verify_file(disk, it, &ret->newest, &reason);
        if (st == ST_OK) {
            snapshot_verified(disk, it->index, it->term);
            return ST_OK;
        }
        if (st != ST_CORRUPT)
            return st;
        if (ret->bad_index == 0) {
            ret->bad_index = it->index;
            ret->bad_term = it->term;
            ret->reason = reason;
        }
    }
    return ST_OK;
}

static enum status unlink_temporary(void *ctx, const char *name)
{
    struct rlog_disk *disk = ctx;
    char path[DISK_PATH_MAX];
    const char *dot = strrchr(name, '.');
    if (dot == NULL || strcmp(dot, ".tmp") != 0 || strlen(name) > 64)
        return ST_OK;
    disk_path(disk, path, "snap/%s", name);
    return fs_unlink(disk->fs, path);
}

enum status snapshots_tidy(struct rlog_disk *disk)
{
    char path[DISK_PATH_MAX];
    disk_path(disk, path, "snap");
    return fs_list(disk->fs, path, unlink_temporary, disk);
}

enum status snapshot_remove(struct rlog_disk *disk, uint64_t index, uint64_t term)
{
    char path[DISK_PATH_MAX];
    snapshot_path(disk, index, term, path);
    forget_verified(disk, &(struct disk_snapshot){index, term});
    TRY(fs_unlink(disk->fs, path));
    return disk_sync_dir(disk, "snap");
}

enum status rlog_snap_prune(struct rlog_disk *disk)
{
    struct listing list;
    unsigned good = 0;
    ASSERT(disk->snapshots_kept > 0);
    TRY(list_all(disk, &list));
    for (unsigned i = list.n; i > 0; i--) {
        const struct disk_snapshot *it = &list.all[i - 1];
        struct rlog_snapshot_meta meta;
        struct reason reason;
        enum status st = ST_OK;
        if (good < disk->snapshots_kept && !is_verified(disk, it)) {
            st = verify_file(disk, it, &meta, &reason);
            if (st == ST_OK)
                snapshot_verified(disk, it->index, it->term);
            else if (st != ST_CORRUPT)
                return st;
        }
        if (st == ST_OK && good < disk->snapshots_kept) {
            good++;
            continue;
        }
        if (st == ST_CORRUPT)
            trace(TRACE_ERROR, "raft", "%s/%s", disk->dir, reason.text);
        if (good != 0) /* a damaged file that nothing replaces stays: it says what there was */
            TRY(snapshot_remove(disk, it->index, it->term));
    }
    return ST_OK;
}
