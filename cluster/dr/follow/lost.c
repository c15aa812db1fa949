/* Writes of this cluster that its new primary never got: they are kept in a file of the data
 * directory before a difference sync overwrites them.
 *
 *   file     "holdfast lost writes 1\n", then records
 *   record   u32 length, a block encrypted by the barrier for the key DR_LOST
 *   block    block key, varint created, varint modified, u8 1: the value is decrypted, 0: as it was
 *            stored, block value
 *
 * The file lies on the node that was active. Its name tells the version that this cluster had, so a
 * sync that is repeated writes the same file anew. */
#include "cluster/dr/follow/follow_internal.h"

#include "base/fs.h"
#include "base/mem.h"
#include "base/trace.h"

#include <inttypes.h>
#include <stdio.h>

#define LOST_MAGIC "holdfast lost writes 1\n"

struct follow_lost {
    struct dr_follow *f;
    struct barrier_cipher *cipher;
    struct fs_file *file; /* NULL before the first key */
    char name[48];
    uint64_t bytes;
    struct buf plain, sealed;
};

enum status follow_lost_new(struct dr_follow *f, struct follow_lost **ret_lost)
{
    struct follow_lost *l = mem_zalloc(sizeof *l);
    if (l == NULL)
        return ST_NOMEM;
    l->f = f;
    *ret_lost = l;
    return ST_OK;
}

void follow_lost_free(struct follow_lost *l)
{
    if (l == NULL)
        return;
    fs_close(l->file);
    barrier_cipher_free(l->cipher);
    if (l->plain.data != NULL)
        mem_wipe(l->plain.data, l->plain.len);
    buf_done(&l->plain);
    buf_done(&l->sealed);
    mem_free(l);
}

static enum status append(struct follow_lost *l, struct bytes bytes)
{
    TRY(fs_write_at(l->file, &bytes, 1, l->bytes));
    l->bytes += bytes.len;
    return ST_OK;
}

static enum status make_file(struct follow_lost *l)
{
    struct part_host *host = l->f->thread->host;
    uint64_t version = 0;
    TRY(follow_look(l->f, &version));
    (void)snprintf(l->name, sizeof l->name, "dr-lost-%" PRIu64, version); /* always fits */
    enum status st = fs_unlink(host->fs, l->name); /* of a sync that ended before its swap */
    if (st != ST_OK && st != ST_NOT_FOUND)
        return st;
    TRY(barrier_cipher_new(host->barrier, l->f->thread->env, &l->cipher));
    TRY(fs_open(host->fs, l->name, FS_READ | FS_WRITE | FS_CREATE | FS_EXCL, &l->file));
    return append(l, BYTES(LOST_MAGIC));
}

/* Append the value, decrypted if the barrier encrypted it. */
static enum status add_lost_value(struct follow_lost *l, const struct store_item *item)
{
    struct buf open = {0};
    size_t len = 0;
    uint8_t *room = buf_extend(&open, item->value.len + 1);
    if (room == NULL)
        return ST_NOMEM;
    bool opened = barrier_decrypt(l->cipher, item->key, item->value, room, &len) == ST_OK;
    buf_add_u8(&l->plain, opened);
    buf_add_block(&l->plain, opened ? bytes_of(room, len) : item->value);
    mem_wipe(room, item->value.len + 1);
    buf_done(&open);
    return buf_status(&l->plain);
}

enum status follow_lost_add(struct follow_lost *l, const struct store_item *item)
{
    if (l->file == NULL)
        TRY(make_file(l));
    buf_clear(&l->plain);
    buf_clear(&l->sealed);
    buf_add_block(&l->plain, item->key);
    buf_add_varint(&l->plain, item->created);
    buf_add_varint(&l->plain, item->modified);
    TRY(add_lost_value(l, item));
    uint32_t len = (uint32_t)(l->plain.len + BARRIER_OVERHEAD);
    buf_add_u32(&l->sealed, len);
    uint8_t *room = buf_extend(&l->sealed, len);
    if (room == NULL)
        return ST_NOMEM;
    TRY(barrier_encrypt(l->cipher, BYTES(DR_LOST), buf_bytes(&l->plain), room));
    return append(l, buf_bytes(&l->sealed));
}

enum status follow_lost_end(struct follow_lost *l, uint64_t n)
{
    struct part_host *host = l->f->thread->host;
    if (l->file == NULL)
        return ST_OK;
    TRY(fs_sync(l->file));
    TRY(fs_sync_dir(host->fs, "."));
    trace(TRACE_WARN, "dr",
          "%" PRIu64 " keys were written here and never reached the new primary: they are kept in "
          "%s/%s of node %s, encrypted",
          n, host->options->data_dir, l->name, host->options->name);
    struct dr_facts *facts = dr_live_begin(&l->f->dr->live);
    facts->diff.lost = n;
    (void)snprintf(facts->diff.lost_file, sizeof facts->diff.lost_file, "%s", l->name); /* fits */
    dr_live_end(&l->f->dr->live);
    return ST_OK;
}
