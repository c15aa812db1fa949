/* Shared by sim_fs.c, sim_fs_crash.c and sim_fs_stray.c. */
#ifndef HOLDFAST_SIM_FS_INNER_H
#define HOLDFAST_SIM_FS_INNER_H

#include "sim_fs.h"

struct inode {
    struct list link;
    uint8_t *data;
    size_t size, cap;
    unsigned names, opens, changes; /* references */
    bool dir, locked;
};

enum fs_op_kind { OP_WRITE, OP_SIZE, OP_CREATE, OP_UNLINK, OP_RENAME, OP_SYNC, OP_SYNC_DIR };

/* One change or sync of the journal. */
struct fs_op {
    struct list link;
    enum fs_op_kind kind;
    struct inode *inode;
    char path[FS_PATH_MAX]; /* names: the target; OP_SYNC_DIR: the directory */
    char from[FS_PATH_MAX]; /* OP_RENAME */
    uint64_t off;
    size_t len;    /* bytes of `swap` */
    uint8_t *swap; /* the bytes that are not in the file now: old ones, or new ones while undone */
    size_t old_size, new_size;
    struct fs_job *job; /* not ended yet; NULL: completed */
    unsigned call;      /* which of the job's calls */
    bool lost;          /* a failed sync covered it */
    bool stray;         /* a write that goes astray when a sync confirms it */
    uint64_t at;        /* number of the call */
};

static inline bool op_is_content(const struct fs_op *op)
{
    return op->kind == OP_WRITE || op->kind == OP_SIZE;
}

static inline bool op_is_name(const struct fs_op *op)
{
    return op->kind == OP_CREATE || op->kind == OP_UNLINK || op->kind == OP_RENAME;
}

struct fs_name *names_find(struct fs_names *names, const char *path);
void names_set(struct fs_names *names, const char *path, struct inode *inode);
void names_remove(struct fs_names *names, const char *path);
void inode_resize(struct inode *inode, size_t size);
void inode_release(struct sim_fs *fs, struct inode *inode);
void op_free(struct sim_fs *fs, struct fs_op *op);
/* Exchange the bytes of a content change with those in the file, and set its size to `size`. */
void op_swap(struct fs_op *op, size_t size);
/* sim_fs_stray.c: a sync confirms `op`. */
void stray_note(struct sim_fs *fs, struct fs_op *op);
/* The process or the power ends. */
void stray_settle(struct sim_fs *fs);
void stray_forget(struct sim_fs *fs);
/* Take back all content changes of the journal, newest first. */
void journal_undo_content(struct sim_fs *fs);
/* Carry out the syncs of `job` up to and including call `last`; its other changes are completed. */
void journal_complete(struct sim_fs *fs, struct fs_job *job, unsigned last);
/* Whether a completed sync of a directory shows that `op` took effect: an earlier change of a name
 * in it, by another job. The kernel takes changes of a directory one after the other. */
bool op_before_sync_dir(const struct fs_op *op, const struct fs_op *sync);
/* Length of the directory part of a path, without the slash. */
size_t path_dir_len(const char *path);

#endif
