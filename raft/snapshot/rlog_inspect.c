#include "raft/snapshot/rlog_inspect.h"

#include "base/fs.h"
#include "base/mem.h"

#include <stdlib.h>

struct inspect {
    const struct rlog_archive_in *in;
    const struct rlog_inspect_options *options;
    struct arena *arena;
    struct rlog_inspect *ret;
    struct rlog_inspect_group *groups; /* heap; grows */
    size_t room, names_bytes;
    bool full; /* a bound was reached: no further group begins */
};

static enum status read_more(void *ctx, void *room, size_t n, size_t *ret_n)
{
    struct inspect *i = ctx;
    return i->in->read(i->in->ctx, room, n, ret_n);
}

/* The name of the group of a key. */
static struct bytes group_of(const struct inspect *i, struct bytes name)
{
    uint64_t parts = 0;
    for (size_t at = 0; i->options->depth != 0 && at < name.len; at++)
        if (name.data[at] == '/' && ++parts == i->options->depth)
            return bytes_of(name.data, at + 1);
    return name;
}

static void count_key(struct rlog_inspect_count *count, const struct store_item *item)
{
    count->keys++;
    count->bytes += item->key.len + item->value.len; /* at most the size of the archive's content */
}

static enum status begin_group(struct inspect *i, struct bytes name,
                               struct rlog_inspect_group **ret_group)
{
    size_t n = i->ret->n_groups;
    ASSERT(n <= i->room && i->room <= RLOG_INSPECT_GROUPS_MAX);
    i->full = i->full || n == RLOG_INSPECT_GROUPS_MAX ||
              name.len > RLOG_INSPECT_NAMES_MAX - i->names_bytes;
    *ret_group = NULL;
    if (i->full)
        return ST_OK;
    if (n == i->room) {
        size_t room = MIN(MAX(2 * i->room, (size_t)64), (size_t)RLOG_INSPECT_GROUPS_MAX);
        struct rlog_inspect_group *more = mem_realloc(i->groups, room * sizeof *more);
        if (more == NULL)
            return ST_NOMEM;
        i->groups = more;
        i->room = room;
    }
    uint8_t *copy = arena_dup(i->arena, name);
    if (copy == NULL)
        return ST_NOMEM;
    i->names_bytes += name.len;
    i->groups[n] = (struct rlog_inspect_group){.name = bytes_of(copy, name.len)};
    *ret_group = &i->groups[n];
    i->ret->n_groups++;
    return ST_OK;
}

static enum status add_key(void *ctx, const struct store_item *item)
{
    struct inspect *i = ctx;
    size_t segment = sizeof RLOG_REPLICATED - 1;
    ASSERT(bytes_has_prefix(item->key, BYTES(RLOG_REPLICATED)));
    ASSERT(!i->full || i->ret->n_groups != 0);
    struct bytes name = bytes_from(item->key, segment);
    if (!bytes_has_prefix(name, i->options->filter))
        return ST_OK;
    count_key(&i->ret->total, item);
    if (!i->options->groups)
        return ST_OK;
    struct bytes wanted = group_of(i, name);
    size_t n = i->ret->n_groups;
    struct rlog_inspect_group *group =
        n != 0 && bytes_eq(i->groups[n - 1].name, wanted) ? &i->groups[n - 1] : NULL;
    if (group == NULL)
        TRY(begin_group(i, wanted, &group));
    count_key(group != NULL ? &group->count : &i->ret->others, item);
    return ST_OK;
}

static int by_count(const void *one, const void *other)
{
    const struct rlog_inspect_group *a = one, *b = other;
    if (a->count.keys != b->count.keys)
        return a->count.keys > b->count.keys ? -1 : 1;
    return bytes_cmp(a->name, b->name);
}

static enum status take_groups(struct inspect *i)
{
    struct rlog_inspect *ret = i->ret;
    ASSERT(ret->n_groups <= i->room);
    if (ret->n_groups == 0)
        return ST_OK;
    qsort(i->groups, ret->n_groups, sizeof *i->groups, by_count);
    ret->groups = arena_alloc(i->arena, ret->n_groups * sizeof *ret->groups);
    if (ret->groups == NULL)
        return ST_NOMEM;
    memcpy(ret->groups, i->groups, ret->n_groups * sizeof *ret->groups);
    return ST_OK;
}

enum status rlog_inspect(const struct rlog_archive_in *in,
                         const struct rlog_inspect_options *options, struct arena *arena,
                         struct rlog_inspect *ret, struct reason *reason)
{
    struct inspect i = {.in = in, .options = options, .arena = arena, .ret = ret};
    const struct rlog_archive_in wrapped = {read_more, add_key, &i, in->state_bytes_max};
    ASSERT(in->read != NULL);
    *ret = (struct rlog_inspect){.found = arena_alloc(arena, sizeof *ret->found)};
    if (ret->found == NULL)
        return ST_NOMEM;
    enum status st = rlog_archive_read(&wrapped, ret->found, reason);
    ASSERT(st != ST_OK || ret->total.keys <= ret->found->n_keys);
    if (st == ST_OK)
        st = take_groups(&i);
    mem_free(i.groups);
    return st;
}

struct file_at {
    struct fs_file *file;
    uint64_t at;
};

static enum status read_archive(void *ctx, void *room, size_t n, size_t *ret_n)
{
    struct file_at *f = ctx;
    TRY(fs_read_at(f->file, room, n, f->at, ret_n));
    f->at += *ret_n;
    return ST_OK;
}

enum status rlog_inspect_file(struct fs *fs, const char *path,
                              const struct rlog_inspect_options *options, struct arena *arena,
                              struct rlog_inspect *ret, struct reason *reason)
{
    struct file_at at = {.at = 0};
    const struct rlog_archive_in in = {.read = read_archive, .ctx = &at};
    ASSERT(path != NULL);
    TRY(fs_open(fs, path, FS_READ, &at.file));
    enum status st = rlog_inspect(&in, options, arena, ret, reason);
    fs_close(at.file);
    return st;
}
