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
#include "base/record.h"
#include "base/trace.h"
#include "state/state_core.h"
#include "store/retain.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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

static const struct record_field write_fields[] = {
    RECORD_FIELD(struct dr_lost_write, key, BLOCK),
    RECORD_FIELD(struct dr_lost_write, created, VARINT, .help = "version"),
    RECORD_FIELD(struct dr_lost_write, modified, VARINT, .help = "version"),
    RECORD_FIELD(struct dr_lost_write, opened, U8,
                 .help = "the value is as clients wrote it; else as it was stored"),
    RECORD_FIELD(struct dr_lost_write, value, BLOCK, .secret = true),
};
static const struct record lost_record = {
    RECORD(struct dr_lost_write, write_fields), .name = "dr/lost",
    .where = "A file `dr-lost-…`: u32 length, then as many bytes, encrypted under the local ring"};
RECORD_LISTED(lost_record);

/* barrier_decrypt. A term that this node lacks may be one that another node made: follow the keys.
 * What has no term then is a value in the clear, or damaged: ST_CORRUPT. */
static enum status open_value(struct part_host *host, struct barrier_cipher *cipher,
                              struct bytes key, struct bytes sealed, uint8_t *out, size_t *ret_len)
{
    enum status st = barrier_decrypt(cipher, key, sealed, out, ret_len);
    if (st != ST_NOT_FOUND)
        return st;
    st = state_follow(rlog_store(host->rlog), host->barrier);
    TRY(st == ST_CORRUPT ? ST_SEALED : st); /* newer keys do not open here */
    st = barrier_decrypt(cipher, key, sealed, out, ret_len);
    return st == ST_NOT_FOUND ? ST_CORRUPT : st;
}

/* Encode a write whose value is decrypted if the barrier encrypted it: without the pieces of
 * earlier values that its module may keep after it (store/retain.h). The keys of these values are
 * gone after the swap, so only a value that is damaged or in the clear is kept as stored. */
static enum status encode_lost(struct follow_lost *l, const struct store_item *item)
{
    struct dr_lost_write lost = {.key = item->key,
                                 .value = item->value,
                                 .created = item->created,
                                 .modified = item->modified};
    CLEANUP(buf_done) struct buf open = {0};
    struct store_retain_parts parts;
    size_t len = 0;
    uint8_t *room = buf_extend(&open, item->value.len + 1);
    if (room == NULL)
        return ST_NOMEM;
    enum status st = store_retain_split(item->value, &parts);
    if (st == ST_OK)
        st = open_value(l->f->thread->host, l->cipher, item->key, parts.head, room, &len);
    lost.opened = st == ST_OK;
    if (lost.opened)
        lost.value = bytes_of(room, len);
    else if (st != ST_CORRUPT)
        return st;
    return record_encode(&lost_record, &lost, &l->plain);
}

enum status follow_lost_add(struct follow_lost *l, const struct store_item *item)
{
    if (l->file == NULL)
        TRY(make_file(l));
    buf_clear(&l->plain);
    buf_clear(&l->sealed);
    TRY(encode_lost(l, item));
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

/* Reading */

enum { RECORD_MAX = STORE_VALUE_MAX + STORE_KEY_MAX + 64 };

static bool name_valid(const char *name)
{
    static const char prefix[] = "dr-lost-";
    size_t n = strlen(name), digits = strspn(name + MIN(n, sizeof prefix - 1), "0123456789");
    return strncmp(name, prefix, sizeof prefix - 1) == 0 && digits > 0 && digits < 21 &&
           n == sizeof prefix - 1 + digits;
}

static enum status read_at(struct fs_file *file, uint64_t at, uint8_t *to, size_t n)
{
    size_t got = 0;
    TRY(fs_read_at(file, to, n, at, &got));
    return got == n ? ST_OK : ST_CORRUPT;
}

struct lost_reader {
    struct part_host *host;
    struct fs_file *file;
    struct barrier_cipher *cipher;
    uint64_t size, at; /* of the file; of the next record */
};

/* Read the next record into `room`, decrypted. ST_NOT_FOUND: the end. */
static enum status read_write(struct lost_reader *r, struct buf *room)
{
    uint8_t head[4];
    size_t len = 0;
    if (r->at == r->size)
        return ST_NOT_FOUND;
    TRY(read_at(r->file, r->at, head, sizeof head));
    uint32_t n = le32_get(head);
    if (n <= BARRIER_OVERHEAD || n > RECORD_MAX + BARRIER_OVERHEAD)
        return ST_CORRUPT;
    buf_clear(room);
    uint8_t *to = buf_extend(room, 2 * (size_t)n); /* encrypted, then not */
    if (to == NULL)
        return ST_NOMEM;
    TRY(read_at(r->file, r->at + sizeof head, to, n));
    TRY(open_value(r->host, r->cipher, BYTES(DR_LOST), bytes_of(to, n), to + n, &len));
    r->at += sizeof head + n;
    memmove(to, to + n, len);
    room->len = len;
    return ST_OK;
}

static enum status read_writes(struct lost_reader *r, uint64_t from,
                               bool (*each)(void *ctx, const struct dr_lost_write *write),
                               void *ctx)
{
    struct buf room = {0};
    struct dr_lost_write write = {0};
    uint8_t magic[sizeof LOST_MAGIC - 1];
    TRY(fs_size(r->file, &r->size));
    TRY(read_at(r->file, 0, magic, sizeof magic));
    r->at = sizeof magic;
    enum status st = memcmp(magic, LOST_MAGIC, sizeof magic) == 0 ? ST_OK : ST_CORRUPT;
    for (uint64_t i = 0; st == ST_OK; i++) {
        st = read_write(r, &room);
        if (st == ST_OK && i >= from)
            st = record_decode(&lost_record, buf_bytes(&room), NULL, &write);
        if (st == ST_OK && i >= from && !each(ctx, &write))
            break;
    }
    if (room.data != NULL)
        mem_wipe(room.data, room.len);
    buf_done(&room);
    return st == ST_NOT_FOUND ? ST_OK : st;
}

enum status dr_lost_read(struct part_host *host, const char *name, uint64_t from,
                         bool (*each)(void *ctx, const struct dr_lost_write *write), void *ctx)
{
    struct lost_reader r = {.host = host};
    if (!name_valid(name))
        return ST_NOT_FOUND;
    TRY(fs_open(host->fs, name, FS_READ, &r.file));
    /* decryption draws no random bytes, so the env may be another thread's */
    enum status st = barrier_cipher_new(host->barrier, host->env, &r.cipher);
    if (st == ST_OK)
        st = read_writes(&r, from, each, ctx);
    barrier_cipher_free(r.cipher);
    fs_close(r.file);
    return st;
}
