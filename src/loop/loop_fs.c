/* Files of a real disk. A failed sync is reported and never repeated: after the failure the kernel
 * may have dropped the dirty pages, and a second sync would wrongly succeed. */
#include "loop/loop_fs.h"
#include "base/mem.h"
#include "base/plant.h"
#include "base/trace.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    IOV_BATCH = 64,
    FILE_MODE = 0600,
    DIR_MODE = 0700,
    FILES_FROM = 512,
    PACE_BYTES = 256 * 1024,
};

struct disk {
    struct fs fs;
    int root;
    _Atomic bool told; /* a log line has said that the disk refuses O_DIRECT */
};

struct disk_file {
    struct fs_file file;
    int fd;
    bool direct;  /* the file is open with O_DIRECT */
    size_t ahead; /* bytes written whose writeback may not have begun */
};

static int root_of(struct fs *fs)
{
    return CONTAINER_OF(fs, struct disk, fs)->root;
}

static int fd_of(struct fs_file *file)
{
    return CONTAINER_OF(file, struct disk_file, file)->fd;
}

/* Whether a path is relative and without "..": no path leads out of the root. An empty path is the
 * root itself. */
static bool path_ok(const char *path)
{
    if (path[0] == '/')
        return false;
    for (const char *at = path; at != NULL; at = strchr(at, '/')) {
        at += *at == '/';
        size_t len = strcspn(at, "/");
        if (len == 2 && at[0] == '.' && at[1] == '.')
            return false;
    }
    return true;
}

/* In builds with the thread sanitizer, give files other descriptors than sockets: libuv closes
 * sockets by a system call that the sanitizer does not see, so a file with the descriptor of a
 * closed socket would look like a race. */
static int apart_from_sockets(int fd)
{
#ifdef __SANITIZE_THREAD__
    int high = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, FILES_FROM);
    if (high >= 0 && syscall(SYS_close, fd) == 0)
        return high;
#endif
    return fd;
}

static int open_retry(int dir, const char *path, int flags)
{
    int fd;
    do
        fd = openat(dir, path, flags | O_CLOEXEC | O_NOFOLLOW, FILE_MODE);
    while (fd < 0 && errno == EINTR);
    return apart_from_sockets(fd);
}

static int open_flags(unsigned flags)
{
    int to = (flags & FS_WRITE) == 0 ? O_RDONLY : (flags & FS_READ) != 0 ? O_RDWR : O_WRONLY;
    to |= (flags & FS_CREATE) != 0 ? O_CREAT : 0;
    to |= (flags & FS_EXCL) != 0 ? O_EXCL : 0;
    to |= (flags & FS_DSYNC) != 0 && !planted(PLANT_SYNC_SKIPPED) ? O_DSYNC : 0;
    return to;
}

static enum status disk_open_raw(struct fs *fs, const char *path, int flags,
                                 struct fs_file **ret_file)
{
    if (!path_ok(path))
        return ST_INVALID;
    struct disk_file *f = mem_zalloc(sizeof *f);
    if (f == NULL)
        return ST_NOMEM;
    f->file.fs = fs;
    f->fd = open_retry(root_of(fs), path, flags);
    if (f->fd < 0) {
        enum status st = status_from_errno(errno);
        mem_free(f);
        return st;
    }
    *ret_file = &f->file;
    return ST_OK;
}

/* Whether writes of whole FS_BLOCKs may go past the page cache. If the kernel is too old to tell,
 * the first write shows it (disk_write_at). */
static bool blocks_suit(int fd)
{
#ifdef STATX_DIOALIGN
    struct statx about;
    if (statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &about) != 0 ||
        (about.stx_mask & STATX_DIOALIGN) == 0)
        return true;
    uint32_t place = about.stx_dio_offset_align, memory = about.stx_dio_mem_align;
    return place != 0 && FS_BLOCK % place == 0 && memory != 0 && FS_BLOCK % memory == 0;
#else
    (void)fd;
    return true;
#endif
}

static bool set_direct(int fd, bool direct)
{
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, direct ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

/* Turn on O_DIRECT if possible: without it writing is only slower. */
static void go_direct(struct fs *fs, struct disk_file *f, const char *path)
{
    struct disk *disk = CONTAINER_OF(fs, struct disk, fs);
    f->direct = blocks_suit(f->fd) && set_direct(f->fd, true);
    if (!f->direct && !atomic_exchange(&disk->told, true))
        trace(TRACE_INFO, "loop", "%s: written through the page cache, direct writes are refused",
              path);
}

static enum status disk_open(struct fs *fs, const char *path, unsigned flags,
                             struct fs_file **ret_file)
{
    ASSERT((flags & (FS_READ | FS_WRITE)) != 0);
    TRY(disk_open_raw(fs, path, open_flags(flags), ret_file));
    if ((flags & FS_DIRECT) != 0 && !planted(PLANT_SYNC_SKIPPED))
        go_direct(fs, CONTAINER_OF(*ret_file, struct disk_file, file), path);
    return ST_OK;
}

static void disk_close(struct fs_file *file)
{
    (void)close(fd_of(file)); /* a sync has stored durable data and reported its own status */
    mem_free(CONTAINER_OF(file, struct disk_file, file));
}

static enum status disk_read_at(struct fs_file *file, void *buf, size_t n, uint64_t off,
                                size_t *ret_n)
{
    size_t got = 0;
    while (got < n) {
        ssize_t more = pread(fd_of(file), (char *)buf + got, n - got, (off_t)(off + got));
        if (more < 0 && errno == EINTR)
            continue;
        if (more < 0)
            return status_from_errno(errno);
        if (more == 0)
            break;
        got += (size_t)more;
    }
    *ret_n = got;
    return ST_OK;
}

/* Fill `iov` with what is left, beginning `skip` bytes into parts[0]. */
static int iov_fill(struct iovec *iov, const struct bytes *parts, size_t n, size_t skip)
{
    int count = 0;
    for (size_t i = 0; i < n && count < IOV_BATCH; i++, skip = 0) {
        struct bytes left = bytes_from(parts[i], skip);
        iov[count].iov_base = (void *)(uintptr_t)left.data;
        iov[count].iov_len = left.len;
        count++;
    }
    return count;
}

/* Write through the page cache from now on: a file system may refuse a direct write at any time, or
 * may have written only a part of a block. */
static bool give_up_direct(struct disk_file *f)
{
    if (errno != EINVAL || !f->direct)
        return false;
    f->direct = false;
    return set_direct(f->fd, false);
}

/* Write a long file to the disk step by step while it grows: otherwise a sync at its end would
 * delay all other writes. A failure must be reported here: the later sync would not see it any
 * more. */
static enum status pace(struct disk_file *f, size_t wrote)
{
    f->ahead += wrote;
    if (f->direct || f->ahead < PACE_BYTES)
        return ST_OK;
    f->ahead = 0;
    int err;
    do
        err = sync_file_range(f->fd, 0, 0,
                              SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                                  SYNC_FILE_RANGE_WAIT_AFTER);
    while (err != 0 && errno == EINTR);
    bool unknown = err != 0 && (errno == ENOSYS || errno == EINVAL || errno == ESPIPE);
    return err == 0 || unknown ? ST_OK : status_from_errno(errno);
}

static enum status disk_write_at(struct fs_file *file, const struct bytes *parts, size_t n,
                                 uint64_t off)
{
    struct disk_file *f = CONTAINER_OF(file, struct disk_file, file);
    struct iovec iov[IOV_BATCH];
    size_t skip = 0, total = 0;
    for (;;) {
        for (; n > 0 && skip >= parts->len; n--, parts++) /* skip parts that are written in full */
            skip -= parts->len;
        if (n == 0)
            return pace(f, total);
        ssize_t wrote = pwritev(f->fd, iov, iov_fill(iov, parts, n, skip), (off_t)off);
        if (wrote < 0 && (errno == EINTR || give_up_direct(f)))
            continue;
        if (wrote < 0)
            return status_from_errno(errno);
        if (wrote == 0)
            return ST_IO;
        off += (size_t)wrote;
        skip += (size_t)wrote;
        total += (size_t)wrote;
    }
}

static enum status disk_sync(struct fs_file *file)
{
    return fdatasync(fd_of(file)) == 0 ? ST_OK : status_from_errno(errno);
}

static enum status disk_size(struct fs_file *file, uint64_t *ret_size)
{
    struct stat about;
    if (fstat(fd_of(file), &about) != 0)
        return status_from_errno(errno);
    *ret_size = (uint64_t)about.st_size;
    return ST_OK;
}

static enum status disk_set_size(struct fs_file *file, uint64_t size)
{
    int err;
    do
        err = ftruncate(fd_of(file), (off_t)size);
    while (err != 0 && errno == EINTR);
    return err == 0 ? ST_OK : status_from_errno(errno);
}

static enum status disk_rename(struct fs *fs, const char *from, const char *to)
{
    if (!path_ok(from) || !path_ok(to))
        return ST_INVALID;
    int err = renameat(root_of(fs), from, root_of(fs), to);
    return err == 0 ? ST_OK : status_from_errno(errno);
}

static enum status disk_unlink(struct fs *fs, const char *path)
{
    if (!path_ok(path))
        return ST_INVALID;
    return unlinkat(root_of(fs), path, 0) == 0 ? ST_OK : status_from_errno(errno);
}

static enum status disk_mkdir(struct fs *fs, const char *path)
{
    struct stat about;
    if (!path_ok(path))
        return ST_INVALID;
    if (mkdirat(root_of(fs), path, DIR_MODE) == 0)
        return ST_OK;
    int err = errno;
    bool there = err == EEXIST && fstatat(root_of(fs), path, &about, AT_SYMLINK_NOFOLLOW) == 0 &&
                 S_ISDIR(about.st_mode);
    return there ? ST_OK : status_from_errno(err);
}

static enum status dir_open(struct fs *fs, const char *path, int *ret_fd)
{
    if (!path_ok(path))
        return ST_INVALID;
    int fd = open_retry(root_of(fs), path[0] != '\0' ? path : ".", O_RDONLY | O_DIRECTORY);
    if (fd < 0)
        return status_from_errno(errno);
    *ret_fd = fd;
    return ST_OK;
}

static enum status disk_sync_dir(struct fs *fs, const char *path)
{
    int fd = -1;
    TRY(dir_open(fs, path, &fd));
    enum status st = fsync(fd) == 0 ? ST_OK : status_from_errno(errno);
    (void)close(fd); /* the file is a directory opened for reading */
    return st;
}

struct names {
    char **names;
    size_t n, cap;
};

static void names_done(struct names *all)
{
    for (size_t i = 0; i < all->n; i++)
        mem_free(all->names[i]);
    mem_free(all->names);
}

static enum status names_add(struct names *all, const char *name)
{
    if (all->n == all->cap) {
        size_t cap = all->cap != 0 ? all->cap * 2 : 32;
        char **names = mem_realloc(all->names, cap * sizeof *names);
        if (names == NULL)
            return ST_NOMEM;
        all->names = names;
        all->cap = cap;
    }
    char *copy = mem_strdup(name);
    if (copy == NULL)
        return ST_NOMEM;
    all->names[all->n++] = copy;
    return ST_OK;
}

static enum status names_read(struct names *all, DIR *dir)
{
    for (;;) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (entry == NULL)
            return errno == 0 ? ST_OK : status_from_errno(errno);
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            TRY(names_add(all, entry->d_name));
    }
}

static int name_order(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static enum status disk_list(struct fs *fs, const char *path,
                             enum status (*each)(void *ctx, const char *name), void *ctx)
{
    CLEANUP(names_done) struct names all = {0};
    int fd = -1;
    TRY(dir_open(fs, path, &fd));
    DIR *dir = fdopendir(fd);
    if (dir == NULL) {
        enum status st = status_from_errno(errno);
        (void)close(fd); /* the file is a directory opened for reading */
        return st;
    }
    enum status st = names_read(&all, dir);
    (void)closedir(dir); /* the directory was only read */
    TRY(st);
    if (all.n != 0)
        qsort(all.names, all.n, sizeof *all.names, name_order);
    for (size_t i = 0; i < all.n; i++)
        TRY(each(ctx, all.names[i]));
    return ST_OK;
}

static enum status disk_lock(struct fs *fs, const char *path, struct fs_file **ret_lock)
{
    struct fs_file *file = NULL;
    TRY(disk_open_raw(fs, path, O_RDWR | O_CREAT, &file));
    if (flock(fd_of(file), LOCK_EX | LOCK_NB) != 0) {
        enum status st = errno == EWOULDBLOCK ? ST_BUSY : status_from_errno(errno);
        disk_close(file);
        return st;
    }
    *ret_lock = file;
    return ST_OK;
}

static enum status disk_free_bytes(struct fs *fs, uint64_t *ret_free)
{
    struct statvfs about;
    if (fstatvfs(root_of(fs), &about) != 0)
        return status_from_errno(errno);
    *ret_free = (uint64_t)about.f_bavail * about.f_frsize;
    return ST_OK;
}

static const struct fs_ops disk_ops = {
    .open = disk_open,
    .close = disk_close,
    .read_at = disk_read_at,
    .write_at = disk_write_at,
    .sync = disk_sync,
    .size = disk_size,
    .set_size = disk_set_size,
    .rename = disk_rename,
    .unlink = disk_unlink,
    .mkdir = disk_mkdir,
    .sync_dir = disk_sync_dir,
    .list = disk_list,
    .lock = disk_lock,
    .free_bytes = disk_free_bytes,
};

int loop_fs_direct(const struct fs_file *file)
{
    if (file->fs->ops != &disk_ops)
        return -1;
    const struct disk_file *f = CONTAINER_OF(file, const struct disk_file, file);
    return f->direct ? f->fd : -1;
}

enum status loop_fs_new(const char *root, struct fs **ret_fs, struct reason *reason)
{
    struct disk *disk = mem_zalloc(sizeof *disk);
    if (disk == NULL)
        return ST_NOMEM;
    disk->fs.ops = &disk_ops;
    disk->root = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (disk->root < 0) {
        enum status st = status_from_errno(errno);
        reason_set(reason, "directory %s: %s", root, strerrordesc_np(errno));
        mem_free(disk);
        return st;
    }
    *ret_fs = &disk->fs;
    return ST_OK;
}

void loop_fs_free(struct fs *fs)
{
    if (fs == NULL)
        return;
    struct disk *disk = CONTAINER_OF(fs, struct disk, fs);
    (void)close(disk->root); /* the file is a directory opened for reading */
    mem_free(disk);
}

static bool same_inode(const struct stat *one, const struct stat *other)
{
    return one->st_dev == other->st_dev && one->st_ino == other->st_ino;
}

enum status loop_fs_place(struct fs *fs, const char *dir, struct loop_fs_place *ret_place)
{
    enum { DEPTH_MAX = 4096 };
    struct stat goal, at, last = {0};
    ASSERT(fs->ops == &disk_ops);
    ASSERT(dir[0] != '\0');
    if (stat(dir, &goal) != 0 || fstat(root_of(fs), &at) != 0)
        return status_from_errno(errno);
    struct loop_fs_place place = {.inside = same_inode(&at, &goal),
                                  .same_disk = at.st_dev == goal.st_dev};
    int fd = openat(root_of(fs), ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (unsigned i = 0; fd >= 0 && !place.inside && !same_inode(&at, &last) && i < DEPTH_MAX;
         i++) {
        int up = openat(fd, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
        last = at;
        (void)close(fd); /* nothing was written */
        fd = up;
        if (fd >= 0 && fstat(fd, &at) != 0)
            break;
        place.inside = fd >= 0 && same_inode(&at, &goal);
    }
    if (fd < 0)
        return status_from_errno(errno);
    (void)close(fd); /* nothing was written */
    ASSERT(!place.inside || same_inode(&at, &goal));
    if (!place.inside && !same_inode(&at, &last))
        return ST_IO;
    *ret_place = place;
    return ST_OK;
}
