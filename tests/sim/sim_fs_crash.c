/* The content of a disk after a power loss or the end of the process. */
#include "sim_fs_inner.h"

#include <stdio.h>
#include <stdlib.h>

enum { JOBS_MAX = 16 };

struct cut {
    struct fs_job *job;
    unsigned call; /* the last call that began; it may be torn */
};

/* Choose for every job that has not ended the call at which it was cut. */
static unsigned choose_cuts(struct sim_fs *fs, struct cut cuts[JOBS_MAX])
{
    unsigned n = 0;
    LIST_FOR (link, &fs->journal) {
        struct fs_op *op = CONTAINER_OF(link, struct fs_op, link);
        unsigned i = 0;
        while (i < n && cuts[i].job != op->job)
            i++;
        if (op->job == NULL || i < n)
            continue;
        ASSERT(n < JOBS_MAX);
        unsigned floor = op->job->floor;
        unsigned may_end = op->job->calls + 1 - MIN(floor, op->job->calls);
        cuts[n++] = (struct cut){op->job, floor + (unsigned)rng_below(&fs->rng, may_end)};
    }
    return n;
}

static struct cut *cut_of(struct cut *cuts, unsigned n, const struct fs_op *op)
{
    for (unsigned i = 0; i < n; i++)
        if (cuts[i].job == op->job)
            return &cuts[i];
    return NULL;
}

/* A sync of a directory that took effect shows that earlier changes in it by other jobs did. */
static void raise_cuts(struct sim_fs *fs, struct cut *cuts, unsigned n)
{
    for (struct list *link = fs->journal.prev; link != &fs->journal; link = link->prev) {
        struct fs_op *sync = CONTAINER_OF(link, struct fs_op, link);
        struct cut *cut = sync->job != NULL ? cut_of(cuts, n, sync) : NULL;
        if (sync->kind != OP_SYNC_DIR || cut == NULL || sync->call > cut->call)
            continue;
        for (struct list *before = link->prev; before != &fs->journal; before = before->prev) {
            struct fs_op *op = CONTAINER_OF(before, struct fs_op, link);
            if (!op_before_sync_dir(op, sync))
                continue;
            struct cut *other = cut_of(cuts, n, op);
            ASSERT(other != NULL);
            other->call = MAX(other->call, op->call + 1);
        }
    }
}

/* Take back, newest first, what no job got to do any more. */
static void undo_never_done(struct sim_fs *fs, struct cut *cuts, unsigned n)
{
    struct list *before;
    for (struct list *link = fs->journal.prev; link != &fs->journal; link = before) {
        struct fs_op *op = CONTAINER_OF(link, struct fs_op, link);
        const struct cut *cut = op->job != NULL ? cut_of(cuts, n, op) : NULL;
        before = link->prev;
        if (cut == NULL || op->call <= cut->call)
            continue;
        if (op_is_content(op))
            op_swap(op, op->old_size);
        op_free(fs, op);
    }
}

/* Put back into the file what the undone write held, sector by sector. */
static void redo_sectors(struct sim_fs *fs, struct fs_op *op, unsigned keep_permille)
{
    struct inode *inode = op->inode;
    for (size_t at = 0; at < op->len;) {
        size_t into = (size_t)(op->off + at) % FS_SECTOR;
        size_t n = MIN(op->len - at, FS_SECTOR - into), end = (size_t)op->off + at + n;
        if (rng_chance(&fs->rng, keep_permille)) {
            if (end > inode->size)
                inode_resize(inode, end);
            memcpy(inode->data + op->off + at, op->swap + at, n);
        }
        at += n;
    }
}

/* An unsynced change may have reached the disk whole, in part, or not at all. */
static void redo_content(struct sim_fs *fs, struct fs_op *op, bool torn)
{
    bool whole = !torn && rng_chance(&fs->rng, fs->keep_permille);
    if (op->lost)
        return;
    if (op->kind == OP_SIZE) {
        if (whole || rng_chance(&fs->rng, 500))
            inode_resize(op->inode, op->new_size);
    } else if (whole) {
        redo_sectors(fs, op, 1000);
    } else if (torn || rng_chance(&fs->rng, fs->keep_permille)) {
        redo_sectors(fs, op, (unsigned)rng_below(&fs->rng, 1001));
        fs->torn++;
    }
}

void journal_undo_content(struct sim_fs *fs)
{
    for (struct list *link = fs->journal.prev; link != &fs->journal; link = link->prev) {
        struct fs_op *op = CONTAINER_OF(link, struct fs_op, link);
        if (op_is_content(op))
            op_swap(op, op->old_size);
    }
}

/* In each directory the changes of names up to a random one survive. */
static void redo_names(struct sim_fs *fs)
{
    LIST_FOR (link, &fs->journal) {
        struct fs_op *op = CONTAINER_OF(link, struct fs_op, link);
        if (!op_is_name(op) || op->lost)
            continue;
        if (rng_chance(&fs->rng, fs->keep_permille)) {
            if (op->kind == OP_RENAME)
                names_remove(&fs->durable, op->from);
            if (op->kind == OP_UNLINK)
                names_remove(&fs->durable, op->path);
            else
                names_set(&fs->durable, op->path, op->inode);
            continue;
        }
        size_t dir = path_dir_len(op->path);
        for (struct list *later = link; later != &fs->journal; later = later->next) {
            struct fs_op *o = CONTAINER_OF(later, struct fs_op, link);
            if (op_is_name(o) && path_dir_len(o->path) == dir && !memcmp(o->path, op->path, dir))
                o->lost = true;
        }
    }
}

/* A directory that was lost takes along what it held. */
static void drop_orphans(struct fs_names *names)
{
    bool again = true;
    while (again) {
        again = false;
        for (size_t i = 0; i < names->n && !again; i++) {
            char dir[FS_PATH_MAX];
            snprintf(dir, sizeof dir, "%.*s", (int)path_dir_len(names->all[i].path),
                     names->all[i].path);
            if (dir[0] != '\0' && names_find(names, dir) == NULL) {
                names_remove(names, names->all[i].path);
                again = true;
            }
        }
    }
}

static void names_clear(struct fs_names *names)
{
    while (names->n != 0)
        names_remove(names, names->all[0].path);
}

/* Nothing is open any more; files without a name are gone. */
static void close_all(struct sim_fs *fs)
{
    LIST_FOR_SAFE (link, after, &fs->inodes) {
        struct inode *inode = CONTAINER_OF(link, struct inode, link);
        inode->opens = 0;
        inode->locked = false;
        inode_release(fs, inode);
    }
    fs->used = 0;
    LIST_FOR (link, &fs->inodes)
        fs->used += CONTAINER_OF(link, struct inode, link)->size;
    fs->job = NULL;
    fs->dead = false;
    fs->cost_ns = 0;
}

static void journal_clear(struct sim_fs *fs)
{
    while (!list_empty(&fs->journal))
        op_free(fs, CONTAINER_OF(fs->journal.next, struct fs_op, link));
}

void sim_fs_crash(struct sim_fs *fs)
{
    struct cut cuts[JOBS_MAX];
    unsigned n = choose_cuts(fs, cuts);
    stray_settle(fs);
    raise_cuts(fs, cuts, n);
    undo_never_done(fs, cuts, n);
    for (unsigned i = 0; i < n; i++) /* calls before the last one that began are complete */
        if (cuts[i].call > 0)
            journal_complete(fs, cuts[i].job, cuts[i].call - 1);
    journal_undo_content(fs);
    LIST_FOR (link, &fs->journal) {
        struct fs_op *op = CONTAINER_OF(link, struct fs_op, link);
        if (op_is_content(op))
            redo_content(fs, op, op->job != NULL);
    }
    redo_names(fs);
    drop_orphans(&fs->durable);
    names_clear(&fs->visible);
    for (size_t i = 0; i < fs->durable.n; i++)
        names_set(&fs->visible, fs->durable.all[i].path, fs->durable.all[i].inode);
    journal_clear(fs);
    close_all(fs);
}

/* Changes of names that a dropped call had made are taken back by playing the kept ones again. */
static void names_replay(struct sim_fs *fs)
{
    names_clear(&fs->visible);
    for (size_t i = 0; i < fs->durable.n; i++)
        names_set(&fs->visible, fs->durable.all[i].path, fs->durable.all[i].inode);
    LIST_FOR (link, &fs->journal) {
        struct fs_op *op = CONTAINER_OF(link, struct fs_op, link);
        if (!op_is_name(op))
            continue;
        if (op->kind == OP_RENAME)
            names_remove(&fs->visible, op->from);
        if (op->kind == OP_UNLINK)
            names_remove(&fs->visible, op->path);
        else
            names_set(&fs->visible, op->path, op->inode);
    }
}

void sim_fs_exit(struct sim_fs *fs)
{
    struct cut cuts[JOBS_MAX];
    unsigned n = choose_cuts(fs, cuts);
    stray_settle(fs);
    raise_cuts(fs, cuts, n);
    undo_never_done(fs, cuts, n);
    for (unsigned i = 0; i < n; i++)
        journal_complete(fs, cuts[i].job, cuts[i].call);
    names_replay(fs);
    close_all(fs);
}

void sim_fs_wipe(struct sim_fs *fs)
{
    journal_clear(fs);
    stray_forget(fs);
    names_clear(&fs->visible);
    names_clear(&fs->durable);
    close_all(fs);
    ASSERT(list_empty(&fs->inodes) && fs->used == 0);
}

void sim_fs_done(struct sim_fs *fs)
{
    sim_fs_wipe(fs);
    free(fs->visible.all);
    free(fs->durable.all);
}
