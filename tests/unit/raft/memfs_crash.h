/* The content of a memfs after a power loss, after the end of the process, and after rot. */
#ifndef HOLDFAST_TESTS_UNIT_RAFT_MEMFS_CRASH_H
#define HOLDFAST_TESTS_UNIT_RAFT_MEMFS_CRASH_H

#include "raft/memfs_calls.h"

struct rng {
    uint64_t state;
};

static inline uint64_t rng_next(struct rng *rng)
{
    uint64_t z = rng->state += 0x9E3779B97F4A7C15U;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9U;
    z = (z ^ z >> 27) * 0x94D049BB133111EBU;
    return z ^ z >> 31;
}

static inline size_t rng_below(struct rng *rng, size_t n)
{
    return (size_t)(rng_next(rng) % n);
}

/* Each dirty sector reached the disk, or not, or only its first bytes. */
static inline void mem_inode_crash(struct mem_inode *inode, struct rng *rng)
{
    size_t keep = rng_below(rng, 5), cut_one = rng_below(rng, 3);
    for (size_t s = 0; s < inode->cap / MEM_SECTOR; s++) {
        uint8_t *now = inode->now + s * MEM_SECTOR, *disk = inode->disk + s * MEM_SECTOR;
        if (inode->dirty[s] != 0 && rng_below(rng, 4) < keep)
            memcpy(disk, now, cut_one == 0 ? rng_below(rng, MEM_SECTOR + 1) : MEM_SECTOR);
        inode->dirty[s] = 0;
    }
    if (inode->size != inode->disk_size && rng_below(rng, 2) == 0)
        inode->disk_size = inode->size;
    for (size_t at = inode->disk_size; at < inode->cap; at++)
        inode->disk[at] = 0;
    if (inode->cap != 0)
        memcpy(inode->now, inode->disk, inode->cap);
    inode->size = inode->disk_size;
    inode->locked = false;
}

static inline void memfs_revive(struct memfs *m)
{
    m->dead = false;
    m->calls = m->fail_at = m->crash_at = 0;
}

/* Files held open must be closed by their owner, before or after. */
static inline void memfs_crash(struct memfs *m, uint64_t seed)
{
    struct rng rng = {seed};
    size_t made = rng_below(&rng, m->n_changes + 1);
    for (size_t i = 0; i < made; i++)
        mem_change_apply(&m->disk, &m->changes[i]);
    m->n_changes = 0;
    m->now = m->disk;
    for (struct mem_inode *inode = m->inodes; inode != NULL; inode = inode->next)
        mem_inode_crash(inode, &rng);
    memfs_revive(m);
}

/* The process dies, the machine stays up: what is visible stays so, and may yet be lost. */
static inline void memfs_exit(struct memfs *m)
{
    for (struct mem_inode *inode = m->inodes; inode != NULL; inode = inode->next)
        inode->locked = false;
    memfs_revive(m);
}

/* A copy of what is visible, all of it durable. */
static inline struct memfs *memfs_copy(const struct memfs *m)
{
    struct memfs *c = memfs_new();
    for (unsigned i = 0; i < m->now.n; i++) {
        const struct mem_inode *from = m->now.all[i].inode;
        struct mem_inode *to = mem_inode_new(c, from->dir);
        mem_inode_grow(to, from->size);
        if (from->size != 0) {
            memcpy(to->now, from->now, from->size);
            memcpy(to->disk, from->now, from->size);
        }
        to->size = to->disk_size = from->size;
        mem_set(&c->now, m->now.all[i].path, to);
    }
    c->disk = c->now;
    return c;
}

static inline struct mem_inode *memfs_inode(struct memfs *m, const char *path)
{
    struct mem_name *there = mem_find(&m->now, path);
    return there != NULL ? there->inode : NULL;
}

static inline void memfs_flip(struct memfs *m, const char *path, size_t off, unsigned bit)
{
    struct mem_inode *inode = memfs_inode(m, path);
    assert_non_null(inode);
    assert_true(off < inode->size);
    inode->now[off] ^= (uint8_t)(1U << bit);
    inode->disk[off] ^= (uint8_t)(1U << bit);
}

/* Replace or make a file, durably. */
static inline void memfs_put(struct memfs *m, const char *path, struct bytes content)
{
    struct mem_inode *inode = mem_inode_new(m, false);
    mem_inode_grow(inode, content.len);
    memcpy(inode->now, content.data, content.len);
    memcpy(inode->disk, content.data, content.len);
    inode->size = inode->disk_size = content.len;
    mem_set(&m->now, path, inode);
    mem_set(&m->disk, path, inode);
}

static inline void memfs_drop(struct memfs *m, const char *path)
{
    mem_remove(&m->now, path);
    mem_remove(&m->disk, path);
}

#endif
