/* Files in memory for the tests of the disk: what is visible and what is durable, sector by sector.
 *
 * A failed sync forgets which sectors were dirty, as the kernel does: a later sync does not write
 * them. The n-th call can fail, or take the power away in the middle. memfs_crash.h has the crash.
 */
#ifndef HOLDFAST_TESTS_UNIT_RAFT_MEMFS_H
#define HOLDFAST_TESTS_UNIT_RAFT_MEMFS_H

#include "support.h"

#include "base/fs.h"

#include <stdio.h>
#include <stdlib.h>

enum { MEM_SECTOR = 512, MEM_PATH = 128, MEM_NAMES = 512, MEM_FILE_MAX = 16 << 20 };

struct mem_inode {
    uint8_t *now, *disk; /* MEM_FILE_MAX grown on demand; zero behind the size */
    uint8_t *dirty;      /* one byte a sector */
    size_t size, disk_size, cap;
    bool dir, locked;
    struct mem_inode *next;
};

struct mem_name {
    char path[MEM_PATH];
    struct mem_inode *inode;
};

struct mem_names {
    struct mem_name all[MEM_NAMES];
    unsigned n;
};

/* A change of names that is not durable yet. */
struct mem_change {
    char gone[MEM_PATH], made[MEM_PATH]; /* either may be empty */
    struct mem_inode *inode;
};

struct memfs {
    struct fs fs;
    struct mem_inode *inodes;
    struct mem_names now, disk;
    struct mem_change changes[MEM_NAMES];
    unsigned n_changes;
    uint64_t calls, syncs, writes; /* so far */
    uint64_t direct;               /* of the writes, those past the page cache */
    uint64_t fail_at, crash_at;    /* number of a call; 0 never */
    enum status fail_with;
    bool dead;
    uint64_t room; /* bytes that may still be allocated; UINT64_MAX: no limit */
};

struct mem_file {
    struct fs_file file;
    struct mem_inode *inode;
    unsigned flags;
};

static inline struct memfs *memfs_of(struct fs *fs)
{
    return CONTAINER_OF(fs, struct memfs, fs);
}

static inline struct mem_file *mem_file_of(struct fs_file *file)
{
    return CONTAINER_OF(file, struct mem_file, file);
}

static inline void mem_path_clean(const char *path, char out[MEM_PATH])
{
    size_t n = strlen(path);
    while (n > 0 && path[n - 1] == '/')
        n--;
    assert_true(n < MEM_PATH);
    memcpy(out, path, n);
    out[n] = '\0';
}

static inline struct mem_name *mem_find(struct mem_names *names, const char *path)
{
    for (unsigned i = 0; i < names->n; i++)
        if (strcmp(names->all[i].path, path) == 0)
            return &names->all[i];
    return NULL;
}

static inline void mem_set(struct mem_names *names, const char *path, struct mem_inode *inode)
{
    struct mem_name *there = mem_find(names, path);
    if (there == NULL) {
        assert_true(names->n < MEM_NAMES);
        there = &names->all[names->n++];
        memmove(there->path, path, strlen(path) + 1);
    }
    there->inode = inode;
}

static inline void mem_remove(struct mem_names *names, const char *path)
{
    struct mem_name *there = mem_find(names, path);
    if (there != NULL)
        *there = names->all[--names->n];
}

static inline void mem_change_apply(struct mem_names *names, const struct mem_change *c)
{
    if (c->gone[0] != '\0')
        mem_remove(names, c->gone);
    if (c->made[0] != '\0')
        mem_set(names, c->made, c->inode);
}

static inline void mem_change_add(struct memfs *m, const char *gone, const char *made,
                                  struct mem_inode *inode)
{
    assert_true(m->n_changes < MEM_NAMES);
    struct mem_change *c = &m->changes[m->n_changes++];
    *c = (struct mem_change){.inode = inode};
    (void)snprintf(c->gone, MEM_PATH, "%s", gone);
    (void)snprintf(c->made, MEM_PATH, "%s", made);
    mem_change_apply(&m->now, c);
}

static inline struct mem_inode *mem_inode_new(struct memfs *m, bool dir)
{
    struct mem_inode *inode = calloc(1, sizeof *inode);
    assert_non_null(inode);
    inode->dir = dir;
    inode->next = m->inodes;
    m->inodes = inode;
    return inode;
}

static inline void mem_inode_grow(struct mem_inode *inode, size_t size)
{
    if (size <= inode->cap)
        return;
    assert_true(size <= MEM_FILE_MAX);
    size_t twice = MIN(inode->cap * 2, (size_t)MEM_FILE_MAX);
    size_t cap = (MAX(size, twice) + MEM_SECTOR - 1) / MEM_SECTOR * MEM_SECTOR;
    inode->now = realloc(inode->now, cap);
    inode->disk = realloc(inode->disk, cap);
    inode->dirty = realloc(inode->dirty, cap / MEM_SECTOR);
    assert_true(inode->now != NULL && inode->disk != NULL && inode->dirty != NULL);
    memset(inode->now + inode->cap, 0, cap - inode->cap);
    memset(inode->disk + inode->cap, 0, cap - inode->cap);
    memset(inode->dirty + inode->cap / MEM_SECTOR, 0, (cap - inode->cap) / MEM_SECTOR);
    inode->cap = cap;
}

/* Make the sectors from `off` to `end` durable, those that are still known to be dirty. */
static inline void mem_flush(struct mem_inode *inode, size_t off, size_t end)
{
    for (size_t s = off / MEM_SECTOR; s * MEM_SECTOR < MIN(end, inode->cap); s++)
        if (inode->dirty[s] != 0) {
            memcpy(inode->disk + s * MEM_SECTOR, inode->now + s * MEM_SECTOR, MEM_SECTOR);
            inode->dirty[s] = 0;
        }
    inode->disk_size = inode->size;
}

/* Begin a call: ST_OK to go on. *ret_crash: do it, but the power goes before it is complete. */
static inline enum status mem_call(struct memfs *m, bool *ret_crash)
{
    *ret_crash = false;
    if (m->dead)
        return ST_IO;
    m->calls++;
    if (m->calls == m->fail_at)
        return m->fail_with;
    if (m->calls == m->crash_at)
        *ret_crash = m->dead = true;
    return ST_OK;
}

static inline enum status memfs_open(struct fs *fs, const char *path, unsigned flags,
                                     struct fs_file **ret_file)
{
    struct memfs *m = memfs_of(fs);
    char name[MEM_PATH];
    bool crash;
    mem_path_clean(path, name);
    TRY(mem_call(m, &crash));
    if (crash)
        return ST_IO;
    struct mem_name *there = mem_find(&m->now, name);
    if (there == NULL && (flags & FS_CREATE) == 0)
        return ST_NOT_FOUND;
    if (there != NULL && (flags & FS_EXCL) != 0)
        return ST_EXISTS;
    struct mem_file *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->file.fs = fs;
    f->flags = flags;
    f->inode = there != NULL ? there->inode : mem_inode_new(m, false);
    if (there == NULL)
        mem_change_add(m, "", name, f->inode);
    *ret_file = &f->file;
    return ST_OK;
}

static inline void memfs_close(struct fs_file *file)
{
    struct mem_file *f = mem_file_of(file);
    if (f->flags == 0)
        f->inode->locked = false;
    free(f);
}

#endif
