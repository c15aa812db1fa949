/* The functions of memfs.h that read and change files, and those that copy and damage the whole
 * file system. */
#ifndef HOLDFAST_TESTS_UNIT_RAFT_MEMFS_CALLS_H
#define HOLDFAST_TESTS_UNIT_RAFT_MEMFS_CALLS_H

#include "raft/memfs.h"

static inline enum status memfs_read_at(struct fs_file *file, void *buf, size_t n, uint64_t off,
                                        size_t *ret_n)
{
    struct mem_inode *inode = mem_file_of(file)->inode;
    bool crash;
    assert_false((mem_file_of(file)->flags & FS_DIRECT) != 0);
    TRY(mem_call(memfs_of(file->fs), &crash));
    if (crash)
        return ST_IO;
    size_t got = off < inode->size ? MIN(n, inode->size - (size_t)off) : 0;
    if (got != 0)
        memcpy(buf, inode->now + off, got);
    *ret_n = got;
    return ST_OK;
}

/* A write that fails may still be seen by readers, and never reach the disk: every other one does.
 */
static inline enum status memfs_write_at(struct fs_file *file, const struct bytes *parts, size_t n,
                                         uint64_t off)
{
    struct memfs *m = memfs_of(file->fs);
    struct mem_file *f = mem_file_of(file);
    size_t at = (size_t)off, len = 0;
    bool crash;
    enum status st = mem_call(m, &crash);
    bool seen = st != ST_OK && !m->dead && m->calls % 2 == 0;
    if (st != ST_OK && !seen)
        return st;
    assert_true((f->flags & FS_WRITE) != 0);
    assert_true((f->flags & FS_DIRECT) == 0 || fs_parts_in_blocks(parts, n, off));
    for (size_t i = 0; i < n; i++)
        len += parts[i].len;
    size_t more = at + len > f->inode->size ? at + len - f->inode->size : 0;
    if (more > m->room)
        return ST_NO_SPACE;
    if (m->room != UINT64_MAX)
        m->room -= more;
    mem_inode_grow(f->inode, at + len);
    for (size_t i = 0; i < n; i++) {
        memcpy(f->inode->now + at, parts[i].data, parts[i].len);
        at += parts[i].len;
    }
    f->inode->size = MAX(f->inode->size, at);
    for (size_t s = (size_t)off / MEM_SECTOR; s * MEM_SECTOR < at; s++)
        f->inode->dirty[s] = !seen;
    m->writes++;
    m->direct += (f->flags & FS_DIRECT) != 0;
    if (crash || seen)
        return ST_IO;
    if ((f->flags & FS_DSYNC) != 0)
        mem_flush(f->inode, (size_t)off, at);
    return ST_OK;
}

static inline enum status memfs_sync(struct fs_file *file)
{
    struct memfs *m = memfs_of(file->fs);
    struct mem_inode *inode = mem_file_of(file)->inode;
    bool crash;
    enum status st = mem_call(m, &crash);
    if (st != ST_OK && !m->dead) /* what it covered is clean now, and not on the disk */
        memset(inode->dirty, 0, inode->cap / MEM_SECTOR);
    TRY(st);
    if (crash)
        return ST_IO;
    m->syncs++;
    mem_flush(inode, 0, inode->cap);
    return ST_OK;
}

static inline enum status memfs_size(struct fs_file *file, uint64_t *ret_size)
{
    bool crash;
    TRY(mem_call(memfs_of(file->fs), &crash));
    *ret_size = mem_file_of(file)->inode->size;
    return crash ? ST_IO : ST_OK;
}

static inline enum status memfs_set_size(struct fs_file *file, uint64_t size)
{
    struct mem_inode *inode = mem_file_of(file)->inode;
    bool crash;
    TRY(mem_call(memfs_of(file->fs), &crash));
    mem_inode_grow(inode, (size_t)size);
    if (size < inode->size)
        memset(inode->now + size, 0, inode->size - (size_t)size);
    for (size_t s = (size_t)size / MEM_SECTOR; s * MEM_SECTOR < inode->size; s++)
        inode->dirty[s] = 1;
    inode->size = (size_t)size;
    return crash ? ST_IO : ST_OK;
}

static inline enum status mem_renaming(struct fs *fs, const char *gone, const char *made)
{
    struct memfs *m = memfs_of(fs);
    char from[MEM_PATH], to[MEM_PATH];
    bool crash;
    mem_path_clean(gone, from);
    mem_path_clean(made, to);
    TRY(mem_call(m, &crash));
    struct mem_name *there = mem_find(&m->now, from);
    if (there == NULL)
        return ST_NOT_FOUND;
    mem_change_add(m, from, to, to[0] != '\0' ? there->inode : NULL);
    return crash ? ST_IO : ST_OK;
}

static inline enum status memfs_unlink(struct fs *fs, const char *path)
{
    return mem_renaming(fs, path, "");
}

static inline enum status memfs_mkdir(struct fs *fs, const char *path)
{
    struct memfs *m = memfs_of(fs);
    char name[MEM_PATH];
    bool crash;
    mem_path_clean(path, name);
    TRY(mem_call(m, &crash));
    if (mem_find(&m->now, name) == NULL)
        mem_change_add(m, "", name, mem_inode_new(m, true));
    return crash ? ST_IO : ST_OK;
}

/* Whether `path` is a name directly in `dir`; its last part. */
static inline const char *mem_in_dir(const char *path, const char *dir)
{
    size_t n = strlen(dir);
    const char *rest = n == 0 ? path : path + n + 1;
    if (n != 0 && (strncmp(path, dir, n) != 0 || path[n] != '/'))
        return NULL;
    return strchr(rest, '/') == NULL ? rest : NULL;
}

static inline enum status memfs_sync_dir(struct fs *fs, const char *path)
{
    struct memfs *m = memfs_of(fs);
    char dir[MEM_PATH];
    bool crash;
    unsigned kept = 0;
    mem_path_clean(path, dir);
    TRY(mem_call(m, &crash));
    if (crash)
        return ST_IO;
    if (dir[0] != '\0' && mem_find(&m->now, dir) == NULL)
        return ST_NOT_FOUND;
    for (unsigned i = 0; i < m->n_changes; i++) {
        struct mem_change *c = &m->changes[i];
        if (mem_in_dir(c->made[0] != '\0' ? c->made : c->gone, dir) != NULL)
            mem_change_apply(&m->disk, c);
        else
            m->changes[kept++] = *c;
    }
    m->n_changes = kept;
    return ST_OK;
}

static inline int mem_by_path(const void *a, const void *b)
{
    return strcmp(a, b);
}

static inline enum status memfs_list(struct fs *fs, const char *path,
                                     enum status (*each)(void *ctx, const char *name), void *ctx)
{
    struct memfs *m = memfs_of(fs);
    char dir[MEM_PATH];
    bool crash;
    mem_path_clean(path, dir);
    TRY(mem_call(m, &crash));
    if (crash)
        return ST_IO;
    if (dir[0] != '\0' && mem_find(&m->now, dir) == NULL)
        return ST_NOT_FOUND;
    char(*names)[MEM_PATH] = calloc(MEM_NAMES, MEM_PATH);
    size_t n = 0;
    assert_non_null(names);
    for (unsigned i = 0; i < m->now.n; i++)
        if (mem_in_dir(m->now.all[i].path, dir) != NULL)
            (void)snprintf(names[n++], MEM_PATH, "%s", mem_in_dir(m->now.all[i].path, dir));
    qsort(names, n, MEM_PATH, mem_by_path);
    enum status st = ST_OK;
    for (size_t i = 0; i < n && st == ST_OK; i++)
        st = each(ctx, names[i]);
    free(names);
    return st;
}

static inline enum status memfs_lock(struct fs *fs, const char *path, struct fs_file **ret_lock)
{
    struct fs_file *file = NULL;
    char dir[MEM_PATH];
    (void)snprintf(dir, sizeof dir, "%.*s", (int)(strrchr(path, '/') - path), path);
    if (mem_find(&memfs_of(fs)->now, dir) == NULL)
        return ST_NOT_FOUND;
    TRY(memfs_open(fs, path, FS_READ | FS_WRITE | FS_CREATE, &file));
    struct mem_file *f = mem_file_of(file);
    if (f->inode->locked) {
        memfs_close(file);
        return ST_BUSY;
    }
    f->flags = 0;
    f->inode->locked = true;
    *ret_lock = file;
    return ST_OK;
}

static inline enum status memfs_free_bytes(struct fs *fs, uint64_t *ret_free)
{
    *ret_free = memfs_of(fs)->room;
    return memfs_of(fs)->dead ? ST_IO : ST_OK;
}

static inline struct memfs *memfs_new(void)
{
    static const struct fs_ops ops = {memfs_open,   memfs_close,     memfs_read_at,  memfs_write_at,
                                      memfs_sync,   memfs_size,      memfs_set_size, mem_renaming,
                                      memfs_unlink, memfs_mkdir,     memfs_sync_dir, memfs_list,
                                      memfs_lock,   memfs_free_bytes};
    struct memfs *m = calloc(1, sizeof *m);
    assert_non_null(m);
    m->fs.ops = &ops;
    m->room = UINT64_MAX;
    m->fail_with = ST_IO;
    return m;
}

static inline void memfs_free(struct memfs *m)
{
    for (struct mem_inode *inode = m->inodes, *next; inode != NULL; inode = next) {
        next = inode->next;
        free(inode->now);
        free(inode->disk);
        free(inode->dirty);
        free(inode);
    }
    free(m);
}

#endif
