#include "raft/snapshot/rlog_archive.h"
#include "raft/snapshot/rlog_archive_tar.h"

#include "base/arena.h"
#include "base/mem.h"
#include "crypto/sha256.h"
#include "raft/snapshot/rlog_archive_zlib.h"
#include "raft/txn/rlog_content.h"
#include "text/json.h"

#include <assert.h>
#include <inttypes.h>

enum {
    IN_BYTES = 64 * 1024,
    CHUNK_BYTES = 64 * 1024,
    TAIL_BLOCKS_MAX = 64, /* of zeros behind the last file: tar programs fill up to a record */
};

struct reading {
    const struct rlog_archive_in *in;
    struct rlog_archive_found *found;
    struct reason *reason;
    struct crypto_sha256 *hash;
    struct rlog_content *content;
    struct arena arena;
    uint8_t meta_digest[CRYPTO_SHA256_BYTES], state_digest[CRYPTO_SHA256_BYTES];
    uint64_t content_version;
    int64_t content_time_ms;
    enum status key_status; /* status of a failure of in->key */
    z_stream z;
    bool z_ready, z_ended, in_ended;
    uint8_t packed[IN_BYTES], chunk[CHUNK_BYTES];
};

static void reading_free(struct reading **r)
{
    if (*r == NULL)
        return;
    if ((*r)->z_ready)
        (void)inflateEnd(&(*r)->z); /* cannot fail: the stream was begun */
    if ((*r)->content != NULL) {
        enum status st = rlog_content_end((*r)->content);
        (void)st; /* the failure that led here is reported */
    }
    crypto_sha256_free((*r)->hash);
    arena_done(&(*r)->arena);
    mem_free(*r);
}

static enum status wrong(struct reading *r, const char *what)
{
    reason_set(r->reason, "the snapshot is refused: %s", what);
    return ST_INVALID;
}

/* Read more bytes of the file. */
static enum status refill(struct reading *r)
{
    size_t n = 0;
    if (r->z.avail_in != 0 || r->in_ended)
        return ST_OK;
    TRY(r->in->read(r->in->ctx, r->packed, sizeof r->packed, &n));
    ASSERT(n <= sizeof r->packed);
    r->in_ended = n < sizeof r->packed;
    r->z.next_in = r->packed;
    r->z.avail_in = (unsigned)n;
    return ST_OK;
}

/* Read exactly `n` unpacked bytes. */
static enum status take(struct reading *r, uint8_t *room, size_t n)
{
    ASSERT(n <= UINT32_MAX);
    r->z.next_out = room;
    r->z.avail_out = (unsigned)n;
    while (r->z.avail_out != 0) {
        TRY(refill(r));
        if (r->z_ended || r->z.avail_in == 0)
            return wrong(r, "it is cut short");
        int result = inflate(&r->z, Z_NO_FLUSH);
        if (result == Z_MEM_ERROR)
            return ST_NOMEM;
        if (result != Z_OK && result != Z_STREAM_END)
            return wrong(r, "it is damaged, or no gzip file");
        r->z_ended = result == Z_STREAM_END;
    }
    return ST_OK;
}

static enum status take_padding(struct reading *r, uint64_t size)
{
    uint8_t block[TAR_BLOCK];
    size_t n = tar_padding(size);
    ASSERT(n < sizeof block);
    TRY(take(r, block, n));
    for (size_t i = 0; i < n; i++)
        if (block[i] != 0)
            return wrong(r, "it is damaged between its files");
    return ST_OK;
}

/* Read the header of the next file. */
static enum status expect(struct reading *r, const char *name, uint64_t bytes_max,
                          uint64_t *ret_size)
{
    uint8_t block[TAR_BLOCK];
    struct tar_entry entry;

    TRY(take(r, block, sizeof block));
    if (tar_header_read(block, &entry) != ST_OK || strcmp(entry.name, name) != 0) {
        reason_set(r->reason, "the snapshot is refused: %s is missing where it should be", name);
        return ST_INVALID;
    }
    if (bytes_max != 0 && entry.size > bytes_max) {
        reason_set(r->reason,
                   "the snapshot is refused: its %s has %" PRIu64 " bytes, more than %" PRIu64,
                   name, entry.size, bytes_max);
        return ST_TOO_BIG;
    }
    *ret_size = entry.size;
    return ST_OK;
}

static enum status take_small(struct reading *r, const char *name, uint8_t *room, size_t room_bytes,
                              size_t *ret_len)
{
    uint64_t size = 0;
    ASSERT(room_bytes > 0);
    TRY(expect(r, name, room_bytes, &size));
    ASSERT(size <= room_bytes);
    TRY(take(r, room, (size_t)size));
    TRY(take_padding(r, size));
    *ret_len = (size_t)size;
    return ST_OK;
}

/* Read a whole number that is not negative. */
static enum status meta_number(struct reading *r, const struct text_value *parent, const char *name,
                               uint64_t *ret_n)
{
    const struct text_value *v = text_get(parent, name);
    int64_t n = 0;
    if (v == NULL || text_to_int(v, &n) != ST_OK || n < 0) {
        reason_set(r->reason, "the snapshot is refused: meta.json has no number %s", name);
        return ST_INVALID;
    }
    *ret_n = (uint64_t)n;
    return ST_OK;
}

static enum status read_meta(struct reading *r, struct bytes text)
{
    struct rlog_archive_facts *facts = &r->found->facts;
    const struct text_value *root = NULL;
    uint64_t format = 0, time_ms = 0;

    enum status st = text_json_parse(&r->arena, text, &root, NULL);
    if (st == ST_NOMEM)
        return st;
    if (st != ST_OK || root->kind != TEXT_OBJECT)
        return wrong(r, "meta.json is no JSON object");
    const struct text_value *ours = text_get(root, "holdfast");
    if (ours == NULL)
        return wrong(r, "it was made by another program");
    TRY(meta_number(r, ours, "format", &format));
    if (format != RLOG_ARCHIVE_FORMAT) {
        reason_set(r->reason,
                   "the snapshot is refused: it is of format %" PRIu64 ", and this version of "
                   "the program reads format %d",
                   format, RLOG_ARCHIVE_FORMAT);
        return ST_UNSUPPORTED;
    }
    TRY(meta_number(r, root, "Index", &facts->index));
    TRY(meta_number(r, root, "Term", &facts->term));
    TRY(meta_number(r, ours, "version", &facts->version));
    TRY(meta_number(r, ours, "time_ms", &time_ms));
    if (facts->version > RLOG_ARCHIVE_VERSION_MAX)
        return wrong(r, "its version leaves no room for later ones");
    facts->time_ms = (int64_t)time_ms;
    const struct text_value *cluster = text_get(ours, "cluster");
    if (cluster == NULL || cluster->kind != TEXT_STRING ||
        cluster->text.len >= sizeof facts->cluster)
        return wrong(r, "meta.json names no cluster");
    memcpy(facts->cluster, cluster->text.data, cluster->text.len);
    return ST_OK;
}

static enum status take_meta(struct reading *r)
{
    size_t n = 0;
    static_assert((int)RLOG_ARCHIVE_META_MAX <= (int)CHUNK_BYTES, "meta.json is read whole");
    TRY(take_small(r, "meta.json", r->chunk, RLOG_ARCHIVE_META_MAX, &n));
    struct bytes text = bytes_of(r->chunk, n);
    crypto_sha256(r->hash, &text, 1, r->meta_digest);
    return read_meta(r, text);
}

static void on_header(void *ctx, const struct rlog_machine *counters)
{
    struct reading *r = ctx;
    r->content_version = counters->version;
    r->content_time_ms = counters->time_ms;
    r->found->feature = counters->feature;
}

/* Skip the key of the segment itself: apply writes that key. It is not counted. */
static void on_key(void *ctx, const struct store_item *item)
{
    struct reading *r = ctx;
    if (r->key_status != ST_OK || bytes_eq(item->key, BYTES(RLOG_REPLICATED)))
        return;
    if (!rlog_txn_stage_valid(item)) {
        r->key_status = wrong(r, "state.bin has a key that cannot be restored");
        return;
    }
    r->found->n_keys++;
    if (r->in->key != NULL)
        r->key_status = r->in->key(r->in->ctx, item);
}

/* Ignore the versions of prefixes: a swap makes every prefix as new as the swap. */
static void on_newest(void *ctx, struct bytes at, uint64_t version)
{
    (void)ctx;
    (void)at;
    (void)version;
}

static enum status content_wrong(struct reading *r, enum status st)
{
    if (st == ST_UNSUPPORTED)
        reason_set(r->reason, "the snapshot is refused: its state.bin needs a later version of "
                              "this program");
    return st == ST_CORRUPT ? wrong(r, "its state.bin is damaged") : st;
}

static enum status take_content(struct reading *r, uint64_t size)
{
    const struct rlog_content_visit visit = {on_header, on_key, on_newest, r};
    TRY(rlog_content_begin(&visit, &r->content));
    crypto_sha256_begin(r->hash);
    for (uint64_t left = size; left > 0;) {
        size_t n = (size_t)MIN(left, (uint64_t)sizeof r->chunk);
        TRY(take(r, r->chunk, n));
        crypto_sha256_add(r->hash, bytes_of(r->chunk, n));
        enum status st = rlog_content_piece(r->content, bytes_of(r->chunk, n));
        TRY(r->key_status);
        if (st != ST_OK)
            return content_wrong(r, st);
        left -= n;
    }
    crypto_sha256_end(r->hash, r->state_digest);
    enum status st = rlog_content_end(r->content);
    r->content = NULL;
    return st == ST_OK ? ST_OK : content_wrong(r, st);
}

static enum status take_state(struct reading *r)
{
    TRY(expect(r, "state.bin", r->in->state_bytes_max, &r->found->state_bytes));
    TRY(take_content(r, r->found->state_bytes));
    TRY(take_padding(r, r->found->state_bytes));
    if (r->content_version != r->found->facts.version ||
        r->content_time_ms != r->found->facts.time_ms)
        return wrong(r, "meta.json and state.bin do not belong together");
    return ST_OK;
}

/* Write the line of one file: digits, two blanks, name. */
static void sum_text(const uint8_t digest[CRYPTO_SHA256_BYTES], const char *name, struct buf *out)
{
    for (size_t i = 0; i < CRYPTO_SHA256_BYTES; i++)
        buf_add_format(out, "%02x", digest[i]);
    buf_add_format(out, "  %s\n", name);
}

static enum status take_sums(struct reading *r)
{
    CLEANUP(buf_done) struct buf want = {0};
    struct rlog_archive_found *f = r->found;

    TRY(take_small(r, "SHA256SUMS", f->sums, sizeof f->sums, &f->sums_len));
    sum_text(r->meta_digest, "meta.json", &want);
    sum_text(r->state_digest, "state.bin", &want);
    TRY(buf_status(&want));
    if (!bytes_eq(buf_bytes(&want), bytes_of(f->sums, f->sums_len)))
        return wrong(r, "SHA256SUMS does not fit its files");
    TRY(take_small(r, "SHA256SUMS.sealed", f->sealed, sizeof f->sealed, &f->sealed_len));
    return f->sealed_len != 0 ? ST_OK : wrong(r, "SHA256SUMS.sealed is empty");
}

static bool all_zero(const uint8_t *data, size_t n)
{
    uint8_t any = 0;
    for (size_t i = 0; i < n; i++)
        any |= data[i];
    return any == 0;
}

/* Read the end: only zeros may follow in the stream, the stream's own checksum must match, and
 * nothing may follow the stream. */
static enum status take_end(struct reading *r)
{
    bool zero = true;
    for (unsigned blocks = 0; !r->z_ended; blocks++) {
        TRY(refill(r));
        if (r->z.avail_in == 0)
            return wrong(r, "it is cut short");
        r->z.next_out = r->chunk;
        r->z.avail_out = TAR_BLOCK;
        int result = inflate(&r->z, Z_NO_FLUSH);
        if (result == Z_MEM_ERROR)
            return ST_NOMEM;
        bool going_on = result == Z_OK || (result == Z_BUF_ERROR && r->z.avail_in == 0);
        if (!going_on && result != Z_STREAM_END)
            return wrong(r, "it is damaged at its end");
        r->z_ended = result == Z_STREAM_END;
        zero &= all_zero(r->chunk, TAR_BLOCK - r->z.avail_out);
        if (!zero || blocks > TAIL_BLOCKS_MAX)
            return wrong(r, "there is more in it than its four files");
    }
    ASSERT(r->z_ended);
    TRY(refill(r));
    return r->z.avail_in == 0 ? ST_OK : wrong(r, "something follows behind its end");
}

static enum status read_all(struct reading *r)
{
    ASSERT(!r->z_ready);
    TRY(crypto_sha256_new(&r->hash));
    zlib_use_mem(&r->z);
    if (inflateInit2(&r->z, ZLIB_GZIP_BITS) != Z_OK)
        return ST_NOMEM;
    r->z_ready = true;
    TRY(take_meta(r));
    TRY(take_state(r));
    TRY(take_sums(r));
    return take_end(r);
}

enum status rlog_archive_read(const struct rlog_archive_in *in,
                              struct rlog_archive_found *ret_found, struct reason *reason)
{
    CLEANUP(reading_free) struct reading *r = mem_zalloc(sizeof *r);
    if (r == NULL)
        return ST_NOMEM;
    *ret_found = (struct rlog_archive_found){0};
    r->in = in;
    r->found = ret_found;
    r->reason = reason;
    return read_all(r);
}
