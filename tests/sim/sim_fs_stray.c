/* Writes that a sync confirms and the disk loses, or puts elsewhere (sim_fs.h). */
#include "sim_fs_inner.h"

#include <stdlib.h>

void stray_forget(struct sim_fs *fs)
{
    free(fs->stray.data);
    fs->stray = (struct fs_stray){0};
}

static bool is_zero(struct bytes b)
{
    size_t i = 0;
    while (i < b.len && b.data[i] == 0)
        i++;
    return i == b.len;
}

/* A later write is confirmed: it follows the lost bytes, or takes the place of some of them. Zeros
 * prepare a file: they follow nothing. */
static void stray_later(struct sim_fs *fs, const struct fs_op *op)
{
    struct fs_stray *s = &fs->stray;
    const uint8_t *data = op->inode->data + op->off;
    uint64_t end = op->off + op->len, lo = MAX(op->off, s->off), hi = MIN(end, s->off + s->len);
    if (op->kind != OP_WRITE || op->inode != s->inode || op->at <= s->at)
        return;
    if (lo < hi)
        memcpy(s->data + (lo - s->off), op->inode->data + lo, (size_t)(hi - lo));
    if (end > s->off + s->len && !is_zero(bytes_of(data, op->len)) && !s->followed) {
        s->followed = true;
        fs->strays++;
    }
}

/* Put the bytes at another place of the file, too. */
static void put_elsewhere(struct sim_fs *fs, const struct fs_stray *s)
{
    size_t room = s->inode->size - s->len, to;
    ASSERT(s->inode->size >= s->len);
    to = (size_t)rng_below(&fs->rng, room / FS_SECTOR + 1) * FS_SECTOR;
    memmove(s->inode->data + to, s->data, s->len);
}

void stray_note(struct sim_fs *fs, struct fs_op *op)
{
    struct fs_stray *s = &fs->stray;
    if (!op->stray) {
        stray_later(fs, op);
        return;
    }
    stray_forget(fs);
    *s = (struct fs_stray){op->inode, op->off, op->at, op->len, sim_alloc(op->len), false};
    memcpy(s->data, op->inode->data + op->off, op->len);
    memcpy(op->inode->data + op->off, op->swap, op->len);
    if (rng_chance(&fs->rng, 500))
        put_elsewhere(fs, s);
}

static void put_back(const struct fs_stray *s)
{
    if (s->off + s->len <= s->inode->size)
        memcpy(s->inode->data + s->off, s->data, s->len);
}

void stray_settle(struct sim_fs *fs)
{
    if (fs->stray.inode == NULL || fs->stray.followed)
        return;
    journal_undo_content(fs);
    put_back(&fs->stray);
    LIST_FOR (link, &fs->journal) {
        struct fs_op *op = CONTAINER_OF(link, struct fs_op, link);
        if (op_is_content(op))
            op_swap(op, op->new_size);
    }
    stray_forget(fs);
}
