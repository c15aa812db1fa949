#include "sim_fs_inner.h"

#include "base/mem.h"

#include <stdio.h>
#include <stdlib.h>

struct sim_file {
    struct fs_file file; /* first */
    struct inode *inode;
    unsigned flags;
    bool is_lock;
};

static struct sim_fs *fs_of(struct fs *fs)
{
    return CONTAINER_OF(fs, struct sim_fs, fs);
}

static struct sim_file *file_of(struct fs_file *file)
{
    return CONTAINER_OF(file, struct sim_file, file);
}

struct fs_name *names_find(struct fs_names *names, const char *path)
{
    for (size_t i = 0; i < names->n; i++)
        if (strcmp(names->all[i].path, path) == 0)
            return &names->all[i];
    return NULL;
}

void names_set(struct fs_names *names, const char *path, struct inode *inode)
{
    struct fs_name *name = names_find(names, path);
    inode->names++;
    if (name != NULL) {
        name->inode->names--;
        name->inode = inode;
        return;
    }
    if (names->n == names->cap) {
        names->cap = names->cap != 0 ? names->cap * 2 : 32;
        names->all = sim_grow(names->all, names->cap * sizeof *names->all);
    }
    name = &names->all[names->n++];
    snprintf(name->path, sizeof name->path, "%s", path);
    name->inode = inode;
}

void names_remove(struct fs_names *names, const char *path)
{
    struct fs_name *name = names_find(names, path);
    if (name == NULL)
        return;
    name->inode->names--;
    *name = names->all[--names->n];
}

size_t path_dir_len(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? (size_t)(slash - path) : 0;
}

/* "./a//b/" is "a/b"; the root is "". */
static void path_clean(const char *path, char out[FS_PATH_MAX])
{
    size_t n = 0;
    while (*path != '\0') {
        size_t len = strcspn(path, "/");
        if (len != 0 && !(len == 1 && *path == '.')) {
            ASSERT(n + len + 2 < FS_PATH_MAX);
            if (n != 0)
                out[n++] = '/';
            memcpy(out + n, path, len);
            n += len;
        }
        path += len;
        path += strspn(path, "/");
    }
    out[n] = '\0';
}

static struct inode *inode_new(struct sim_fs *fs, bool dir)
{
    struct inode *inode = sim_alloc(sizeof *inode);
    inode->dir = dir;
    list_push(&fs->inodes, &inode->link);
    return inode;
}

void inode_release(struct sim_fs *fs, struct inode *inode)
{
    if (inode->names + inode->opens + inode->changes != 0)
        return;
    if (fs->stray.inode == inode)
        stray_forget(fs);
    fs->used -= inode->size;
    list_remove(&inode->link);
    free(inode->data);
    free(inode);
}

/* Grown bytes are zero. */
void inode_resize(struct inode *inode, size_t size)
{
    if (size > inode->cap) {
        inode->cap = MAX(size, inode->cap * 2);
        inode->data = sim_grow(inode->data, inode->cap);
    }
    if (size > inode->size)
        memset(inode->data + inode->size, 0, size - inode->size);
    inode->size = size;
}

static struct fs_op *journal_add(struct sim_fs *fs, enum fs_op_kind kind, struct inode *inode)
{
    struct fs_op *op = sim_alloc(sizeof *op);
    op->kind = kind;
    op->inode = inode;
    op->job = fs->job;
    op->call = fs->job != NULL ? fs->job->calls : 0;
    op->at = fs->calls;
    if (inode != NULL)
        inode->changes++;
    list_push(&fs->journal, &op->link);
    return op;
}

void op_free(struct sim_fs *fs, struct fs_op *op)
{
    list_remove(&op->link);
    if (op->inode != NULL) {
        op->inode->changes--;
        inode_release(fs, op->inode);
    }
    free(op->swap);
    free(op);
}

void op_swap(struct fs_op *op, size_t size)
{
    struct inode *inode = op->inode;
    size_t most = MAX(MAX(inode->size, size), (size_t)op->off + op->len);
    inode_resize(inode, most);
    uint8_t block[4096]; /* a byte at a time, this took a fifth of all time */
    for (size_t at = 0, n; at < op->len; at += n) {
        n = MIN(op->len - at, sizeof block);
        memcpy(block, op->swap + at, n);
        memcpy(op->swap + at, inode->data + op->off + at, n);
        memcpy(inode->data + op->off + at, block, n);
    }
    inode->size = size;
}

/* `op` becomes durable: what undoing an older, still unsynced change brings back must contain it.
 */
static void retire_patch_older(struct sim_fs *fs, const struct fs_op *op)
{
    LIST_FOR (link, &fs->journal) {
        struct fs_op *older = CONTAINER_OF(link, struct fs_op, link);
        if (older == op)
            return;
        if (older->inode != op->inode || !op_is_content(older))
            continue;
        older->old_size = op->kind == OP_SIZE ? op->new_size : MAX(older->old_size, op->new_size);
        uint64_t lo = MAX(older->off, op->off),
                 hi = MIN(older->off + older->len, op->off + op->len);
        if (op->kind == OP_WRITE && lo < hi)
            memcpy(older->swap + (lo - older->off), op->inode->data + lo, (size_t)(hi - lo));
    }
}

/* A sync of a range writes the pages of that range back, and the size of the file. */
static bool sync_covers(const struct fs_op *sync, const struct fs_op *op)
{
    uint64_t from = sync->off / FS_PAGE * FS_PAGE;
    uint64_t to = (sync->off + sync->len + FS_PAGE - 1) / FS_PAGE * FS_PAGE;
    return sync->len == 0 || op->kind == OP_SIZE || (op->off >= from && op->off + op->len <= to);
}

static void retire_content(struct sim_fs *fs, const struct inode *inode, const struct fs_op *sync)
{
    LIST_FOR_SAFE (link, after, &fs->journal) {
        struct fs_op *op = CONTAINER_OF(link, struct fs_op, link);
        if (op == sync)
            return;
        if (op->inode != inode || !op_is_content(op) || op->job != NULL || op->lost ||
            !sync_covers(sync, op))
            continue;
        retire_patch_older(fs, op);
        stray_note(fs, op);
        op_free(fs, op);
    }
}

static void name_make_durable(struct sim_fs *fs, struct fs_op *op)
{
    if (op->kind == OP_RENAME)
        names_remove(&fs->durable, op->from);
    if (op->kind == OP_UNLINK)
        names_remove(&fs->durable, op->path);
    else
        names_set(&fs->durable, op->path, op->inode);
}

static bool path_in_dir(const char *path, const char *dir)
{
    size_t n = path_dir_len(path);
    return n == strlen(dir) && memcmp(path, dir, n) == 0;
}

static void retire_names(struct sim_fs *fs, const char *dir, const struct fs_op *sync)
{
    LIST_FOR_SAFE (link, after, &fs->journal) {
        struct fs_op *op = CONTAINER_OF(link, struct fs_op, link);
        if (op == sync)
            return;
        if (!op_is_name(op) || op->job != NULL || !path_in_dir(op->path, dir))
            continue;
        name_make_durable(fs, op);
        op_free(fs, op);
    }
}

/* The sync took effect: everything before it is durable. */
static void sync_done(struct sim_fs *fs, struct fs_op *sync)
{
    if (sync->kind == OP_SYNC)
        retire_content(fs, sync->inode, sync);
    else
        retire_names(fs, sync->path, sync);
    op_free(fs, sync);
}

bool op_before_sync_dir(const struct fs_op *op, const struct fs_op *sync)
{
    return op_is_name(op) && op->job != NULL && op->job != sync->job &&
           path_in_dir(op->path, sync->path);
}

/* The oldest change of a name that another job had made before the sync; NULL: none. */
static struct fs_op *before_sync_dir(struct sim_fs *fs, const struct fs_op *sync)
{
    LIST_FOR (link, &fs->journal) {
        struct fs_op *op = CONTAINER_OF(link, struct fs_op, link);
        if (op == sync)
            break;
        if (op_before_sync_dir(op, sync))
            return op;
    }
    return NULL;
}

/* What other jobs did in the directory before the sync has taken effect too. */
static void others_complete(struct sim_fs *fs, const struct fs_op *sync)
{
    struct fs_op *op;
    while ((op = before_sync_dir(fs, sync)) != NULL) {
        op->job->floor = MAX(op->job->floor, op->call + 1);
        journal_complete(fs, op->job, op->call);
    }
}

void journal_complete(struct sim_fs *fs, struct fs_job *job, unsigned last)
{
    LIST_FOR_SAFE (link, after, &fs->journal) {
        struct fs_op *op = CONTAINER_OF(link, struct fs_op, link);
        if (op->job != job || op->call > last)
            continue;
        if (op->kind == OP_SYNC_DIR)
            others_complete(fs, op); /* frees older elements only */
        op->job = NULL;
        if (op->kind == OP_SYNC || op->kind == OP_SYNC_DIR)
            sync_done(fs, op); /* frees older elements only, and this one */
    }
}

void sim_fs_job_run(struct sim_fs *fs, struct fs_job *job)
{
    ASSERT(fs->job == NULL);
    fs->job = job;
}

void sim_fs_job_pause(struct sim_fs *fs)
{
    fs->job = NULL;
}

void sim_fs_job_end(struct sim_fs *fs, struct fs_job *job)
{
    ASSERT(fs->job == NULL);
    journal_complete(fs, job, job->calls);
}

static bool hits(uint64_t *countdown)
{
    return *countdown != 0 && --*countdown == 0;
}

/* Every call passes here first. */
static enum status call_begin(struct sim_fs *fs, enum fs_call kind, size_t bytes)
{
    static const uint64_t cost[FS_CALLS] = {2 * SIM_US, 4 * SIM_US, 10 * SIM_US, 6 * SIM_US};
    unsigned slow = MAX(fs->faults.slow, 1u);
    if (fs->dead)
        return ST_IO;
    fs->calls++;
    if (fs->job != NULL)
        fs->job->calls++;
    core_note(fs->core, (uint64_t)kind << 56 ^ bytes);
    fs->cost_ns += cost[kind] + bytes / 2;
    if (kind == FS_CALL_SYNC)
        fs->cost_ns += slow * rng_between(&fs->rng, fs->sync_ns_max / 8, fs->sync_ns_max);
    if (hits(&fs->faults.crash_after)) {
        fs->dead = true;
        return ST_IO;
    }
    if (!hits(&fs->faults.fail_after[kind]))
        return ST_OK;
    fs->injected++;
    return fs->faults.fail_with;
}

/* Whether `grown` more bytes fit. */
static enum status space_take(struct sim_fs *fs, size_t grown)
{
    if (grown == 0 || (!fs->faults.full && fs->used + grown <= fs->capacity))
        return ST_OK;
    fs->injected++;
    return ST_NO_SPACE;
}

/* Whether the directory that would hold `path` exists. */
static bool has_parent(struct sim_fs *fs, const char *path)
{
    char dir[FS_PATH_MAX];
    snprintf(dir, sizeof dir, "%.*s", (int)path_dir_len(path), path);
    return dir[0] == '\0' || names_find(&fs->visible, dir) != NULL;
}

static enum status sim_open(struct fs *base, const char *path, unsigned flags,
                            struct fs_file **ret_file)
{
    struct sim_fs *fs = fs_of(base);
    char clean[FS_PATH_MAX];
    path_clean(path, clean);
    TRY(call_begin(fs, FS_CALL_NAME, 0));
    struct fs_name *name = names_find(&fs->visible, clean);
    if (name == NULL && ((flags & FS_CREATE) == 0 || !has_parent(fs, clean)))
        return ST_NOT_FOUND;
    if (name != NULL && (flags & FS_EXCL) != 0)
        return ST_EXISTS;
    struct sim_file *file = mem_zalloc(sizeof *file);
    if (file == NULL)
        return ST_NOMEM;
    if (name == NULL) {
        struct inode *inode = inode_new(fs, false);
        struct fs_op *op = journal_add(fs, OP_CREATE, inode);
        snprintf(op->path, sizeof op->path, "%s", clean);
        names_set(&fs->visible, clean, inode);
        name = names_find(&fs->visible, clean);
    }
    file->file.fs = base;
    file->inode = name->inode;
    file->flags = flags;
    file->inode->opens++;
    *ret_file = &file->file;
    return ST_OK;
}

static void sim_close(struct fs_file *base)
{
    struct sim_file *file = file_of(base);
    if (file->is_lock)
        file->inode->locked = false;
    file->inode->opens--;
    inode_release(fs_of(base->fs), file->inode);
    mem_free(file);
}

static enum status sim_read_at(struct fs_file *base, void *buf, size_t n, uint64_t off,
                               size_t *ret_n)
{
    struct sim_file *file = file_of(base);
    ASSERT((file->flags & FS_DIRECT) == 0);
    TRY(call_begin(fs_of(base->fs), FS_CALL_READ, n));
    size_t left = off < file->inode->size ? file->inode->size - (size_t)off : 0;
    *ret_n = MIN(n, left);
    if (*ret_n != 0)
        memcpy(buf, file->inode->data + off, *ret_n);
    return ST_OK;
}

static struct fs_op *content_write(struct sim_fs *fs, struct inode *inode, uint64_t off,
                                   struct bytes data)
{
    struct fs_op *op = journal_add(fs, OP_WRITE, inode);
    op->off = off;
    op->len = data.len;
    op->swap = sim_alloc(data.len);
    memcpy(op->swap, data.data, data.len);
    op->old_size = inode->size;
    op->new_size = MAX(inode->size, (size_t)off + data.len);
    fs->used += op->new_size - op->old_size;
    op_swap(op, op->new_size);
    return op;
}

static enum status write_parts(struct sim_fs *fs, struct inode *inode, struct bytes all,
                               uint64_t off)
{
    size_t grown = (size_t)off + all.len > inode->size ? (size_t)off + all.len - inode->size : 0;
    enum status st = call_begin(fs, FS_CALL_WRITE, all.len);
    if (st == ST_OK)
        st = space_take(fs, grown);
    if (st == ST_OK) {
        if (all.len != 0)
            content_write(fs, inode, off, all)->stray = hits(&fs->faults.stray_after);
    } else if (!fs->dead && all.len != 0 && st == ST_IO) {
        uint64_t end = rng_between(&fs->rng, off, off + all.len) / FS_SECTOR * FS_SECTOR;
        if (end > off) /* a failed write may have begun */
            (void)content_write(fs, inode, off, bytes_of(all.data, (size_t)(end - off)));
    }
    return st;
}

/* `len` 0: the whole file. */
static void sync_file(struct sim_fs *fs, struct inode *inode, uint64_t off, size_t len)
{
    struct fs_op *op = journal_add(fs, OP_SYNC, inode);
    op->off = off;
    op->len = len;
    if (fs->job == NULL)
        sync_done(fs, op);
}

static enum status sim_write_at(struct fs_file *base, const struct bytes *parts, size_t n,
                                uint64_t off)
{
    struct sim_file *file = file_of(base);
    struct sim_fs *fs = fs_of(base->fs);
    size_t total = 0, at = 0;
    ASSERT((file->flags & FS_WRITE) != 0);
    ASSERT((file->flags & FS_DIRECT) == 0 || fs_parts_in_blocks(parts, n, off));
    for (size_t i = 0; i < n; i++)
        total += parts[i].len;
    uint8_t *all = sim_alloc(total);
    for (size_t i = 0; i < n; at += parts[i++].len)
        if (parts[i].len != 0)
            memcpy(all + at, parts[i].data, parts[i].len);
    enum status st = write_parts(fs, file->inode, bytes_of(all, total), off);
    free(all);
    if (st != ST_OK || (file->flags & FS_DSYNC) == 0)
        return st;
    TRY(call_begin(fs, FS_CALL_SYNC, 0));
    sync_file(fs, file->inode, off, total);
    return ST_OK;
}

/* After a failed sync the kernel calls the pages clean: a part of them never reaches the disk. */
static void sync_failed(struct sim_fs *fs, struct inode *inode)
{
    LIST_FOR (link, &fs->journal) {
        struct fs_op *op = CONTAINER_OF(link, struct fs_op, link);
        if (op->inode == inode && op_is_content(op) && rng_chance(&fs->rng, 700))
            op->lost = true;
    }
}

static enum status sim_sync(struct fs_file *base)
{
    struct sim_file *file = file_of(base);
    struct sim_fs *fs = fs_of(base->fs);
    enum status st = call_begin(fs, FS_CALL_SYNC, 0);
    if (st == ST_OK)
        sync_file(fs, file->inode, 0, 0);
    else if (!fs->dead)
        sync_failed(fs, file->inode);
    return st;
}

static enum status sim_size(struct fs_file *base, uint64_t *ret_size)
{
    TRY(call_begin(fs_of(base->fs), FS_CALL_READ, 0));
    *ret_size = file_of(base)->inode->size;
    return ST_OK;
}

static enum status sim_set_size(struct fs_file *base, uint64_t size)
{
    struct sim_fs *fs = fs_of(base->fs);
    struct inode *inode = file_of(base)->inode;
    TRY(call_begin(fs, FS_CALL_WRITE, 0));
    TRY(space_take(fs, size > inode->size ? (size_t)size - inode->size : 0));
    struct fs_op *op = journal_add(fs, OP_SIZE, inode);
    op->old_size = inode->size;
    op->new_size = (size_t)size;
    if (size < inode->size) { /* keep what is cut off, to bring it back */
        op->off = size;
        op->len = inode->size - (size_t)size;
        op->swap = sim_alloc(op->len);
    }
    fs->used += op->new_size - op->old_size;
    op_swap(op, op->new_size);
    return ST_OK;
}

static enum status sim_rename(struct fs *base, const char *from, const char *to)
{
    struct sim_fs *fs = fs_of(base);
    char source[FS_PATH_MAX], target[FS_PATH_MAX];
    path_clean(from, source);
    path_clean(to, target);
    TRY(call_begin(fs, FS_CALL_NAME, 0));
    struct fs_name *name = names_find(&fs->visible, source);
    if (name == NULL)
        return ST_NOT_FOUND;
    struct inode *inode = name->inode;
    struct fs_name *old = names_find(&fs->visible, target);
    struct inode *replaced = old != NULL ? old->inode : NULL;
    struct fs_op *op = journal_add(fs, OP_RENAME, inode);
    memcpy(op->path, target, sizeof target);
    memcpy(op->from, source, sizeof source);
    names_set(&fs->visible, target, inode);
    names_remove(&fs->visible, source);
    if (replaced != NULL)
        inode_release(fs, replaced);
    return ST_OK;
}

static enum status sim_unlink(struct fs *base, const char *path)
{
    struct sim_fs *fs = fs_of(base);
    char clean[FS_PATH_MAX];
    path_clean(path, clean);
    TRY(call_begin(fs, FS_CALL_NAME, 0));
    struct fs_name *name = names_find(&fs->visible, clean);
    if (name == NULL)
        return ST_NOT_FOUND;
    struct fs_op *op = journal_add(fs, OP_UNLINK, name->inode);
    memcpy(op->path, clean, sizeof clean);
    names_remove(&fs->visible, clean);
    return ST_OK;
}

static enum status sim_mkdir(struct fs *base, const char *path)
{
    struct sim_fs *fs = fs_of(base);
    char clean[FS_PATH_MAX];
    path_clean(path, clean);
    TRY(call_begin(fs, FS_CALL_NAME, 0));
    struct fs_name *name = names_find(&fs->visible, clean);
    if (clean[0] == '\0' || (name != NULL && name->inode->dir))
        return ST_OK;
    if (name != NULL)
        return ST_EXISTS;
    struct inode *inode = inode_new(fs, true);
    struct fs_op *op = journal_add(fs, OP_CREATE, inode);
    memcpy(op->path, clean, sizeof clean);
    names_set(&fs->visible, clean, inode);
    return ST_OK;
}

static enum status sim_sync_dir(struct fs *base, const char *path)
{
    struct sim_fs *fs = fs_of(base);
    char clean[FS_PATH_MAX];
    path_clean(path, clean);
    TRY(call_begin(fs, FS_CALL_SYNC, 0));
    if (clean[0] != '\0' && names_find(&fs->visible, clean) == NULL)
        return ST_NOT_FOUND;
    struct fs_op *op = journal_add(fs, OP_SYNC_DIR, NULL);
    memcpy(op->path, clean, sizeof clean);
    if (fs->job == NULL)
        sync_done(fs, op);
    return ST_OK;
}

static int name_order(const void *a, const void *b)
{
    return strcmp(a, b);
}

static enum status sim_list(struct fs *base, const char *path,
                            enum status (*each)(void *ctx, const char *name), void *ctx)
{
    struct sim_fs *fs = fs_of(base);
    char clean[FS_PATH_MAX];
    enum status st = ST_OK;
    size_t n = 0;
    path_clean(path, clean);
    TRY(call_begin(fs, FS_CALL_NAME, 0));
    if (clean[0] != '\0' && names_find(&fs->visible, clean) == NULL)
        return ST_NOT_FOUND;
    char(*found)[FS_PATH_MAX] = sim_alloc((fs->visible.n + 1) * sizeof *found);
    for (size_t i = 0; i < fs->visible.n; i++) {
        const char *at = fs->visible.all[i].path;
        size_t dir = path_dir_len(at);
        if (path_in_dir(at, clean))
            memcpy(found[n++], at + dir + (dir != 0), strlen(at + dir + (dir != 0)) + 1);
    }
    qsort(found, n, sizeof *found, name_order);
    for (size_t i = 0; i < n && st == ST_OK; i++)
        st = each(ctx, found[i]);
    free(found);
    return st;
}

static enum status sim_lock(struct fs *base, const char *path, struct fs_file **ret_lock)
{
    struct fs_file *lock;
    TRY(sim_open(base, path, FS_READ | FS_WRITE | FS_CREATE, &lock));
    struct sim_file *file = file_of(lock);
    if (file->inode->locked) {
        sim_close(lock);
        return ST_BUSY;
    }
    file->inode->locked = file->is_lock = true;
    *ret_lock = lock;
    return ST_OK;
}

static enum status sim_free_bytes(struct fs *base, uint64_t *ret_free)
{
    struct sim_fs *fs = fs_of(base);
    TRY(call_begin(fs, FS_CALL_READ, 0));
    *ret_free = fs->faults.full || fs->used >= fs->capacity ? 0 : fs->capacity - fs->used;
    return ST_OK;
}

static const struct fs_ops sim_fs_ops = {
    .open = sim_open,
    .close = sim_close,
    .read_at = sim_read_at,
    .write_at = sim_write_at,
    .sync = sim_sync,
    .size = sim_size,
    .set_size = sim_set_size,
    .rename = sim_rename,
    .unlink = sim_unlink,
    .mkdir = sim_mkdir,
    .sync_dir = sim_sync_dir,
    .list = sim_list,
    .lock = sim_lock,
    .free_bytes = sim_free_bytes,
};

void sim_fs_init(struct sim_fs *fs, struct core *core, uint64_t stream)
{
    *fs = (struct sim_fs){.fs = {.ops = &sim_fs_ops},
                          .core = core,
                          .rng = rng_make(core->seed, stream),
                          .capacity = 64u << 20,
                          .sync_ns_max = 200 * SIM_US,
                          .keep_permille = 500};
    list_init(&fs->inodes);
    list_init(&fs->journal);
}

uint64_t sim_fs_cost(struct sim_fs *fs)
{
    uint64_t cost = fs->cost_ns;
    fs->cost_ns = 0;
    return cost;
}

uint8_t *sim_fs_data(struct sim_fs *fs, const char *path, size_t *ret_size)
{
    struct fs_name *name = names_find(&fs->visible, path);
    if (name == NULL || name->inode->dir)
        return NULL;
    *ret_size = name->inode->size;
    return name->inode->data;
}
