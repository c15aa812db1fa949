/* The files in memory of a test world (world.h). */
#include "world.h"

/* Files. */
void wfile_unref(struct wfile *f)
{
    if (--f->refs > 0)
        return;
    free(f->data);
    free(f);
}

static struct wfile **wfile_find(struct wenv *e, const char *path)
{
    for (unsigned i = 0; i < WORLD_FILES; i++)
        if (e->files[i] != NULL && strcmp(e->files[i]->path, path) == 0)
            return &e->files[i];
    return NULL;
}

static enum status wfs_open(struct fs *fs, const char *path, unsigned flags, struct fs_file **ret)
{
    struct wenv *e = CONTAINER_OF(fs, struct wenv, fs);
    struct wfile **at = wfile_find(e, path);
    if (at != NULL && (flags & FS_EXCL) != 0)
        return ST_EXISTS;
    if (at == NULL && (flags & FS_CREATE) == 0)
        return ST_NOT_FOUND;
    for (unsigned i = 0; i < WORLD_FILES && at == NULL; i++)
        if (e->files[i] == NULL)
            at = &e->files[i];
    ASSERT(at != NULL);
    if (*at == NULL) {
        *at = calloc(1, sizeof **at);
        ASSERT(*at != NULL);
        (*at)->refs = 1;
        (void)snprintf((*at)->path, sizeof(*at)->path, "%s", path);
    }
    struct whandle *h = calloc(1, sizeof *h);
    ASSERT(h != NULL);
    h->base.fs = fs;
    h->file = *at;
    h->file->refs++;
    *ret = &h->base;
    return ST_OK;
}

static void wfs_close(struct fs_file *f)
{
    struct whandle *h = CONTAINER_OF(f, struct whandle, base);
    if (h->lock)
        h->file->locked = false;
    wfile_unref(h->file);
    free(h);
}

static enum status wfs_set_size(struct fs_file *f, uint64_t size)
{
    struct wfile *file = CONTAINER_OF(f, struct whandle, base)->file;
    if (size > file->cap) {
        file->data = realloc(file->data, size);
        memset(file->data + file->cap, 0, size - file->cap);
        file->cap = size;
    }
    if (size < file->size)
        memset(file->data + size, 0, file->size - size);
    file->size = size;
    return ST_OK;
}

static enum status wfs_read_at(struct fs_file *f, void *buf, size_t n, uint64_t off, size_t *ret_n)
{
    const struct wfile *file = CONTAINER_OF(f, struct whandle, base)->file;
    size_t left = off < file->size ? file->size - off : 0;
    *ret_n = MIN(n, left);
    if (*ret_n > 0)
        memcpy(buf, file->data + off, *ret_n);
    return ST_OK;
}

static enum status wfs_write_at(struct fs_file *f, const struct bytes *parts, size_t n,
                                uint64_t off)
{
    struct wfile *file = CONTAINER_OF(f, struct whandle, base)->file;
    for (size_t i = 0; i < n; i++) {
        if (off + parts[i].len > file->size)
            TRY(wfs_set_size(f, off + parts[i].len));
        if (parts[i].len > 0)
            memcpy(file->data + off, parts[i].data, parts[i].len);
        off += parts[i].len;
    }
    return ST_OK;
}

static enum status wfs_sync(struct fs_file *f)
{
    (void)f;
    return ST_OK;
}

static enum status wfs_size(struct fs_file *f, uint64_t *ret_size)
{
    *ret_size = CONTAINER_OF(f, struct whandle, base)->file->size;
    return ST_OK;
}

static enum status wfs_unlink(struct fs *fs, const char *path)
{
    struct wfile **at = wfile_find(CONTAINER_OF(fs, struct wenv, fs), path);
    if (at == NULL)
        return ST_NOT_FOUND;
    wfile_unref(*at);
    *at = NULL;
    return ST_OK;
}

static enum status wfs_rename(struct fs *fs, const char *from, const char *to)
{
    struct wenv *e = CONTAINER_OF(fs, struct wenv, fs);
    struct wfile **at = wfile_find(e, from);
    if (at == NULL)
        return ST_NOT_FOUND;
    struct wfile *file = *at;
    if (wfile_find(e, to) != NULL)
        TRY(wfs_unlink(fs, to));
    (void)snprintf(file->path, sizeof file->path, "%s", to);
    return ST_OK;
}

static enum status wfs_dir(struct fs *fs, const char *path)
{
    (void)fs;
    (void)path;
    return ST_OK;
}

static int wfs_compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

static enum status wfs_list(struct fs *fs, const char *path,
                            enum status (*each)(void *ctx, const char *name), void *ctx)
{
    struct wenv *e = CONTAINER_OF(fs, struct wenv, fs);
    char names[WORLD_FILES][128];
    size_t n = 0, len = strlen(path);
    for (unsigned i = 0; i < WORLD_FILES; i++) {
        const char *p = e->files[i] != NULL ? e->files[i]->path : "";
        if (strncmp(p, path, len) == 0 && p[len] == '/' && strchr(p + len + 1, '/') == NULL)
            (void)snprintf(names[n++], sizeof names[0], "%s", p + len + 1);
    }
    qsort(names, n, sizeof names[0], wfs_compare);
    for (size_t i = 0; i < n; i++)
        TRY(each(ctx, names[i]));
    return ST_OK;
}

static enum status wfs_lock(struct fs *fs, const char *path, struct fs_file **ret)
{
    struct fs_file *f;
    TRY(wfs_open(fs, path, FS_READ | FS_WRITE | FS_CREATE, &f));
    struct whandle *h = CONTAINER_OF(f, struct whandle, base);
    if (h->file->locked) {
        wfs_close(f);
        return ST_BUSY;
    }
    h->lock = h->file->locked = true;
    *ret = f;
    return ST_OK;
}

static enum status wfs_free_bytes(struct fs *fs, uint64_t *ret_free)
{
    (void)fs;
    *ret_free = UINT64_MAX / 2;
    return ST_OK;
}

const struct fs_ops wfs_ops = {.open = wfs_open,
                               .close = wfs_close,
                               .read_at = wfs_read_at,
                               .sync = wfs_sync,
                               .write_at = wfs_write_at,
                               .size = wfs_size,
                               .rename = wfs_rename,
                               .set_size = wfs_set_size,
                               .unlink = wfs_unlink,
                               .mkdir = wfs_dir,
                               .sync_dir = wfs_dir,
                               .list = wfs_list,
                               .lock = wfs_lock,
                               .free_bytes = wfs_free_bytes};
