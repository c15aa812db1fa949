/* A directory of a few files in memory that can only be read, for fuzz targets. */
#ifndef HOLDFAST_TESTS_FUZZ_RAM_FILES_H
#define HOLDFAST_TESTS_FUZZ_RAM_FILES_H

#include "base/fs.h"
#include "base/mem.h"

enum { RAM_FILES = 8 };

struct ram_fs {
    struct fs fs;
    struct {
        const char *dir, *name; /* ascending */
        struct bytes content;
    } files[RAM_FILES];
    size_t n;
};

struct ram_file {
    struct fs_file file;
    struct bytes content;
};

static inline struct ram_fs *ram_of(struct fs *fs)
{
    return CONTAINER_OF(fs, struct ram_fs, fs);
}

static inline bool ram_is(const char *path, const char *dir, const char *name)
{
    size_t n = strlen(dir);
    return strncmp(path, dir, n) == 0 && path[n] == '/' && strcmp(path + n + 1, name) == 0;
}

static inline enum status ram_open(struct fs *fs, const char *path, unsigned flags,
                                   struct fs_file **ret_file)
{
    struct ram_fs *r = ram_of(fs);
    ASSERT(flags == FS_READ);
    for (size_t i = 0; i < r->n; i++)
        if (ram_is(path, r->files[i].dir, r->files[i].name)) {
            struct ram_file *f = mem_must_alloc(sizeof *f);
            *f = (struct ram_file){{fs}, r->files[i].content};
            *ret_file = &f->file;
            return ST_OK;
        }
    return ST_NOT_FOUND;
}

static inline void ram_close(struct fs_file *file)
{
    mem_free(CONTAINER_OF(file, struct ram_file, file));
}

static inline enum status ram_read_at(struct fs_file *file, void *buf, size_t n, uint64_t off,
                                      size_t *ret_n)
{
    struct bytes c = CONTAINER_OF(file, struct ram_file, file)->content;
    size_t got = off < c.len ? MIN(n, c.len - (size_t)off) : 0;
    if (got != 0)
        memcpy(buf, c.data + off, got);
    *ret_n = got;
    return ST_OK;
}

static inline enum status ram_size(struct fs_file *file, uint64_t *ret_size)
{
    *ret_size = CONTAINER_OF(file, struct ram_file, file)->content.len;
    return ST_OK;
}

static inline enum status ram_list(struct fs *fs, const char *path,
                                   enum status (*each)(void *ctx, const char *name), void *ctx)
{
    struct ram_fs *r = ram_of(fs);
    for (size_t i = 0; i < r->n; i++)
        if (strcmp(path, r->files[i].dir) == 0)
            TRY(each(ctx, r->files[i].name));
    return ST_OK;
}

static inline void ram_init(struct ram_fs *r)
{
    static const struct fs_ops ops = {.open = ram_open,
                                      .close = ram_close,
                                      .read_at = ram_read_at,
                                      .size = ram_size,
                                      .list = ram_list};
    *r = (struct ram_fs){.fs.ops = &ops};
}

static inline void ram_add(struct ram_fs *r, const char *dir, const char *name,
                           struct bytes content)
{
    ASSERT(r->n < RAM_FILES);
    r->files[r->n].dir = dir;
    r->files[r->n].name = name;
    r->files[r->n++].content = content;
}

#endif
