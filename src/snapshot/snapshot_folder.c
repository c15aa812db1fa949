#include "snapshot/snapshot_folder.h"
#include "snapshot/snapshot_internal.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/trace.h"
#include "raft/snapshot/rlog_archive.h"

#include <inttypes.h>
#include <stdio.h>

#define WHOLE ".snap"
#define PART WHOLE ".part"

enum { DIGITS = 19 };

/* Whether a name has the folder's prefix, a time and this ending. */
static bool is_named(const struct snapshot_folder *folder, const char *name, const char *ending)
{
    size_t len = strlen(folder->prefix);
    if (strncmp(name, folder->prefix, len) != 0 || name[len] != '-')
        return false;
    const char *digits = name + len + 1;
    return strspn(digits, "0123456789") == DIGITS && strcmp(digits + DIGITS, ending) == 0;
}

struct sweep {
    const struct snapshot_folder *folder;
    uint64_t n, bytes; /* whole snapshots */
    uint64_t excess;   /* how many of the next snapshots to delete */
};

/* Count a whole snapshot; delete one that was not finished. */
static enum status count_one(void *ctx, const char *name)
{
    struct sweep *w = ctx;
    struct fs_file *file = NULL;
    uint64_t bytes = 0;
    ASSERT(w->excess == 0);
    ASSERT(name[0] != '\0');
    if (is_named(w->folder, name, PART))
        return fs_unlink(w->folder->fs, name);
    if (!is_named(w->folder, name, WHOLE))
        return ST_OK;
    TRY(fs_open(w->folder->fs, name, FS_READ, &file));
    enum status st = fs_size(file, &bytes);
    fs_close(file);
    w->n++;
    w->bytes += bytes;
    return st;
}

/* fs_list gives names in byte order, so the oldest come first. */
static enum status delete_oldest(void *ctx, const char *name)
{
    struct sweep *w = ctx;
    if (w->excess == 0 || !is_named(w->folder, name, WHOLE))
        return ST_OK;
    w->excess--;
    return fs_unlink(w->folder->fs, name);
}

static enum status count(const struct snapshot_folder *folder, struct sweep *ret_found)
{
    *ret_found = (struct sweep){.folder = folder};
    return fs_list(folder->fs, "", count_one, ret_found);
}

/* Delete what is too much; *ret_found is what is left. */
static enum status prune(const struct snapshot_folder *folder, struct sweep *ret_found)
{
    ASSERT(folder->retain != 0);
    ASSERT(folder->fs != NULL);
    TRY(count(folder, ret_found));
    if (ret_found->n <= folder->retain)
        return ST_OK;
    ASSERT(ret_found->excess == 0);
    ret_found->excess = ret_found->n - folder->retain;
    TRY(fs_list(folder->fs, "", delete_oldest, ret_found));
    TRY(fs_sync_dir(folder->fs, ""));
    return count(folder, ret_found);
}

enum status snapshot_folder_prune(const struct snapshot_folder *folder)
{
    struct sweep w;
    return prune(folder, &w);
}

/* The name of the snapshot of this time. */
static void name_of(const struct snapshot_folder *folder, int64_t time_ms, const char *ending,
                    char ret_name[SNAPSHOT_NAME_MAX + 1])
{
    ASSERT(time_ms > 0 && time_ms < INT64_MAX / 1000000);
    int n = snprintf(ret_name, SNAPSHOT_NAME_MAX + 1, "%s-%0*" PRId64 "%s", folder->prefix,
                     (int)DIGITS, time_ms * 1000000, ending);
    ASSERT(n > 0 && n <= SNAPSHOT_NAME_MAX);
}

enum status snapshot_folder_drop(const struct snapshot_folder *folder, int64_t time_ms)
{
    char name[SNAPSHOT_NAME_MAX + 1];
    name_of(folder, time_ms, WHOLE, name);
    ASSERT(is_named(folder, name, WHOLE));
    TRY(fs_unlink(folder->fs, name));
    return fs_sync_dir(folder->fs, "");
}

struct filing {
    struct snapshot *snapshot;
    const struct snapshot_folder *folder;
    struct fs_file *file;
    uint64_t used;        /* bytes of the snapshots that the folder has */
    uint64_t at, checked; /* bytes written; when to look at the free space again */
    struct reason *reason;
    uint8_t proof[SNAPSHOT_PROOF_BYTES]; /* the content of SHA256SUMS.sealed */
};

static bool must_stop(const struct filing *f)
{
    return f->folder->stop != NULL && f->folder->stop(f->folder->ctx);
}

static enum status file_piece(void *ctx, struct bytes piece)
{
    struct filing *f = ctx;
    ASSERT(f->file != NULL);
    ASSERT(f->folder->bytes_max != 0);
    if (must_stop(f))
        return ST_CLOSED;
    if (piece.len > f->folder->bytes_max || f->used + f->at > f->folder->bytes_max - piece.len) {
        reason_set(f->reason,
                   "local_max_space: the snapshot does not fit: earlier snapshots have %" PRIu64
                   " of %" PRIu64 " bytes",
                   f->used, f->folder->bytes_max);
        return ST_TOO_BIG;
    }
    if (f->folder->same_disk && f->at >= f->checked) {
        if (!snapshot_room(f->snapshot)) {
            reason_set(f->reason, "the disk has no more than the reserve of the data directory");
            return ST_NO_SPACE;
        }
        f->checked = f->at + SNAPSHOT_ROOM_EVERY_BYTES;
    }
    ASSERT(f->used + f->at + piece.len <= f->folder->bytes_max);
    TRY(fs_write_at(f->file, &piece, 1, f->at));
    f->at += piece.len;
    return ST_OK;
}

struct reading {
    const struct filing *filing;
    uint64_t at;
};

static enum status read_back(void *ctx, void *room, size_t n, size_t *ret_n)
{
    struct reading *r = ctx;
    if (must_stop(r->filing))
        return ST_CLOSED;
    TRY(fs_read_at(r->filing->file, room, n, r->at, ret_n));
    r->at += *ret_n;
    return ST_OK;
}

/* Check the file against its sums, and the sums against what was sealed with the root key. */
static enum status check_written(const struct filing *f)
{
    struct reading reading = {.filing = f};
    const struct rlog_archive_in in = {.read = read_back, .ctx = &reading};
    struct reason why = {{0}};
    ASSERT(f->at != 0);
    ASSERT(f->file != NULL);
    struct rlog_archive_found *found = mem_zalloc(sizeof *found);
    if (found == NULL)
        return ST_NOMEM;
    enum status st = rlog_archive_read(&in, found, &why);
    bool same =
        st == ST_OK && reading.at == f->at &&
        bytes_eq(bytes_of(found->sealed, found->sealed_len), bytes_of(f->proof, sizeof f->proof));
    mem_free(found);
    if (st != ST_OK && st != ST_INVALID && st != ST_UNSUPPORTED && st != ST_TOO_BIG)
        return st;
    if (same)
        return ST_OK;
    reason_set(f->reason, "the disk gave back another file than was written: %.160s",
               why.text[0] != '\0' ? why.text : "the seal of the sums differs");
    return ST_CORRUPT;
}

static void discard(struct fs *fs, const char *name)
{
    enum status st = fs_unlink(fs, name);
    if (st != ST_OK && st != ST_NOT_FOUND)
        trace(TRACE_WARN, "node", "%s stays in the folder of snapshots: %s", name, status_text(st));
}

/* Write, sync and verify the file `part`, and give it the name `whole`. */
static enum status file_it(struct filing *f, const char *part, const char *whole)
{
    const struct snapshot_target target = {file_piece, f};
    struct fs *fs = f->folder->fs;
    ASSERT(f->at == 0);
    ASSERT(is_named(f->folder, part, PART));
    ASSERT(is_named(f->folder, whole, WHOLE));
    enum status st = fs_open(fs, part, FS_READ | FS_WRITE | FS_CREATE | FS_EXCL, &f->file);
    if (st != ST_OK)
        return st;
    st = snapshot_write(f->snapshot, &target, f->proof, f->reason);
    if (st == ST_OK)
        st = fs_sync(f->file);
    if (st == ST_OK)
        st = check_written(f);
    fs_close(f->file);
    if (st == ST_OK)
        st = fs_rename(fs, part, whole);
    if (st != ST_OK) {
        discard(fs, part); /* if it stays, the next snapshot deletes it */
        return st;
    }
    st = fs_sync_dir(fs, "");
    if (st != ST_OK)
        discard(fs, whole);
    return st;
}

static enum status must_be_free(struct fs *fs, const char *name)
{
    struct fs_file *file = NULL;
    enum status st = fs_open(fs, name, FS_READ, &file);
    fs_close(file);
    return st == ST_OK ? ST_EXISTS : st == ST_NOT_FOUND ? ST_OK : st;
}

enum status snapshot_folder_save(struct snapshot *s, const struct snapshot_folder *folder,
                                 int64_t time_ms, char ret_name[SNAPSHOT_NAME_MAX + 1],
                                 struct reason *reason)
{
    char part[SNAPSHOT_NAME_MAX + 1];
    struct filing f = {.snapshot = s, .folder = folder, .reason = reason};
    struct sweep found;
    ASSERT(strlen(folder->prefix) <= SNAPSHOT_PREFIX_MAX && folder->bytes_max != 0);
    ASSERT(folder->retain != 0);

    reason->text[0] = '\0';
    name_of(folder, time_ms, PART, part);
    name_of(folder, time_ms, WHOLE, ret_name);
    enum status st = prune(folder, &found);
    if (st == ST_OK)
        st = must_be_free(folder->fs, ret_name);
    f.used = found.bytes;
    if (st == ST_OK)
        st = file_it(&f, part, ret_name);
    if (st != ST_OK && reason->text[0] == '\0')
        reason_set(reason, "%s", st == ST_NOT_FOUND ? "the folder is gone" : status_text(st));
    return st;
}
