/* Files, as a table of synchronous calls, so that the simulator can tear, lose or refuse a write
 * and flip stored bits.
 *
 * Calls block: after start-up they are made from env_work only. Paths use '/' and are relative to
 * the root directory of the fs. A failed write or sync is final for its file: the caller stops
 * (PROTOCOL R12). Any thread may call; one thread at a time uses a file. */
#ifndef HOLDFAST_BASE_FS_H
#define HOLDFAST_BASE_FS_H

#include "base/bytes.h"
#include "base/status.h"

struct fs;
struct fs_file;

enum fs_flag {
    FS_READ = 1 << 0,
    FS_WRITE = 1 << 1,
    FS_CREATE = 1 << 2,
    FS_EXCL = 1 << 3,
    FS_DSYNC = 1 << 4, /* every write returns durable (O_DSYNC) */
    /* Writes bypass the page cache (O_DIRECT) where the file system supports that. The offset of a
     * write, and length and address of every part, are multiples of FS_BLOCK. A file opened so is
     * not read. */
    FS_DIRECT = 1 << 5,
};

enum { FS_BLOCK = 4096 };

struct fs_ops {
    enum status (*open)(struct fs *fs, const char *path, unsigned flags, struct fs_file **ret_file);
    void (*close)(struct fs_file *file);
    enum status (*read_at)(struct fs_file *file, void *buf, size_t n, uint64_t off, size_t *ret_n);
    enum status (*write_at)(struct fs_file *file, const struct bytes *parts, size_t n,
                            uint64_t off);
    enum status (*sync)(struct fs_file *file);
    enum status (*size)(struct fs_file *file, uint64_t *ret_size);
    enum status (*set_size)(struct fs_file *file, uint64_t size);
    enum status (*rename)(struct fs *fs, const char *from, const char *to);
    enum status (*unlink)(struct fs *fs, const char *path);
    enum status (*mkdir)(struct fs *fs, const char *path);
    enum status (*sync_dir)(struct fs *fs, const char *path);
    enum status (*list)(struct fs *fs, const char *path,
                        enum status (*each)(void *ctx, const char *name), void *ctx);
    enum status (*lock)(struct fs *fs, const char *path, struct fs_file **ret_lock);
    enum status (*free_bytes)(struct fs *fs, uint64_t *ret_free);
};

struct fs {
    const struct fs_ops *ops;
};

/* `flags` are of enum fs_flag. FS_CREATE makes a file of mode 0600. ST_NOT_FOUND; ST_EXISTS with
 * FS_EXCL; ST_IO, ST_NO_SPACE. */
NODISCARD static inline enum status fs_open(struct fs *fs, const char *path, unsigned flags,
                                            struct fs_file **ret_file)
{
    return fs->ops->open(fs, path, flags, ret_file);
}

/* Every implementation's file begins with this struct, which names the functions to call. */
struct fs_file {
    struct fs *fs;
};

static inline void fs_close(struct fs_file *file)
{
    if (file != NULL)
        file->fs->ops->close(file);
}

/* Read `n` bytes. *ret_n < n only at the end of the file. */
NODISCARD static inline enum status fs_read_at(struct fs_file *f, void *buf, size_t n, uint64_t off,
                                               size_t *ret_n)
{
    return f->fs->ops->read_at(f, buf, n, off, ret_n);
}

/* Whether these parts may be written at `off` to a file opened with FS_DIRECT. */
static inline bool fs_parts_in_blocks(const struct bytes *parts, size_t n, uint64_t off)
{
    bool good = off % FS_BLOCK == 0;
    for (size_t i = 0; i < n; i++)
        good = good && parts[i].len % FS_BLOCK == 0 && (uintptr_t)parts[i].data % FS_BLOCK == 0;
    return good;
}

/* Write all parts one after another, the first at `off`, or fail. */
NODISCARD static inline enum status fs_write_at(struct fs_file *f, const struct bytes *parts,
                                                size_t n, uint64_t off)
{
    return f->fs->ops->write_at(f, parts, n, off);
}

NODISCARD static inline enum status fs_sync(struct fs_file *f)
{
    return f->fs->ops->sync(f);
}

NODISCARD static inline enum status fs_size(struct fs_file *f, uint64_t *ret_size)
{
    return f->fs->ops->size(f, ret_size);
}

NODISCARD static inline enum status fs_set_size(struct fs_file *f, uint64_t size)
{
    return f->fs->ops->set_size(f, size);
}

/* Rename atomically, replacing `to`. Durable after fs_sync_dir of the directory. */
NODISCARD static inline enum status fs_rename(struct fs *fs, const char *from, const char *to)
{
    return fs->ops->rename(fs, from, to);
}

NODISCARD static inline enum status fs_unlink(struct fs *fs, const char *path)
{
    return fs->ops->unlink(fs, path);
}

/* Make a directory of mode 0700. ST_OK also when the directory exists already. */
NODISCARD static inline enum status fs_mkdir(struct fs *fs, const char *path)
{
    return fs->ops->mkdir(fs, path);
}

NODISCARD static inline enum status fs_sync_dir(struct fs *fs, const char *path)
{
    return fs->ops->sync_dir(fs, path);
}

/* Give `each` every name in the directory but "." and "..", in byte order. Stops at the first
 * status that is not ST_OK and returns that status. */
NODISCARD static inline enum status fs_list(struct fs *fs, const char *path,
                                            enum status (*each)(void *ctx, const char *name),
                                            void *ctx)
{
    return fs->ops->list(fs, path, each, ctx);
}

/* Take an exclusive lock, held until fs_close. ST_BUSY when another process has it. */
NODISCARD static inline enum status fs_lock(struct fs *fs, const char *path,
                                            struct fs_file **ret_lock)
{
    return fs->ops->lock(fs, path, ret_lock);
}

/* How many bytes an unprivileged process may still write. */
NODISCARD static inline enum status fs_free_bytes(struct fs *fs, uint64_t *ret_free)
{
    return fs->ops->free_bytes(fs, ret_free);
}

#endif
