#include "raft/snapshot/rlog_archive.h"
#include "raft/snapshot/rlog_archive_tar.h"

#include "base/mem.h"
#include "crypto/sha256.h"
#include "raft/snapshot/rlog_archive_zlib.h"
#include "text/json.h"

#include <inttypes.h>
#include <stdio.h>

/* low level: the values are encrypted and compress badly */
enum { OUT_BYTES = 64 * 1024, LEVEL = 1 };

static const char sum_line[] = "%s  %s\n"; /* the form in which sha256sum prints a line */

struct writing {
    struct rlog_machine_dump *dump;
    const struct rlog_archive_facts *facts;
    const struct rlog_archive_out *out;
    struct crypto_sha256 *hash;
    uint64_t state_bytes;
    uint8_t meta_digest[CRYPTO_SHA256_BYTES], state_digest[CRYPTO_SHA256_BYTES];
    struct buf meta, sums, sealed;
    z_stream z;
    bool z_ready;
    uint8_t packed[OUT_BYTES];
};

static void writing_free(struct writing **w)
{
    if (*w == NULL)
        return;
    if ((*w)->z_ready)
        /* reports an unfinished stream, a failure that is known already */
        (void)deflateEnd(&(*w)->z);
    crypto_sha256_free((*w)->hash);
    buf_done(&(*w)->meta);
    buf_done(&(*w)->sums);
    buf_done(&(*w)->sealed);
    mem_free(*w);
}

/* Compress `piece` and hand out what that makes; the last piece ends the stream. */
static enum status pack(struct writing *w, struct bytes piece, bool last)
{
    ASSERT(piece.len <= UINT32_MAX);
    w->z.next_in = piece.data;
    w->z.avail_in = (unsigned)piece.len;
    int result = Z_OK;
    do {
        w->z.next_out = w->packed;
        w->z.avail_out = sizeof w->packed;
        result = deflate(&w->z, last ? Z_FINISH : Z_NO_FLUSH);
        ASSERT(result == Z_OK || result == Z_STREAM_END || result == Z_BUF_ERROR);
        size_t n = sizeof w->packed - w->z.avail_out;
        if (n != 0)
            TRY(w->out->write(w->out->ctx, bytes_of(w->packed, n)));
    } while (last ? result != Z_STREAM_END : w->z.avail_out == 0);
    ASSERT(w->z.avail_in == 0);
    return ST_OK;
}

static enum status pack_header(struct writing *w, const char *name, uint64_t size)
{
    struct tar_entry entry = {{0}, size};
    uint8_t block[TAR_BLOCK];
    /* cannot be cut: the names are short literals */
    (void)snprintf(entry.name, sizeof entry.name, "%s", name);
    tar_header_make(&entry, w->dump->time_ms / 1000, block);
    return pack(w, bytes_of(block, sizeof block), false);
}

static enum status pack_padding(struct writing *w, uint64_t size)
{
    static const uint8_t zeros[TAR_BLOCK];
    return pack(w, bytes_of(zeros, tar_padding(size)), false);
}

static enum status pack_file(struct writing *w, const char *name, struct bytes content)
{
    TRY(pack_header(w, name, content.len));
    TRY(pack(w, content, false));
    return pack_padding(w, content.len);
}

/* The first walk, which computes length and sum of the content. */
static enum status count_piece(void *ctx, struct bytes content)
{
    struct writing *w = ctx;
    w->state_bytes += content.len;
    crypto_sha256_add(w->hash, content);
    return ST_OK;
}

static enum status pack_piece(void *ctx, struct bytes content)
{
    return pack(ctx, content, false);
}

static void sha_text(const uint8_t digest[CRYPTO_SHA256_BYTES],
                     char ret_text[2 * CRYPTO_SHA256_BYTES + 1])
{
    for (size_t i = 0; i < CRYPTO_SHA256_BYTES; i++)
        (void)snprintf(ret_text + 2 * i, 3, "%02x", digest[i]); /* two digits and a zero fit */
}

/* The members with capitals are those that upstream's tools print. */
static void make_meta(struct writing *w)
{
    struct text_writer t = {.out = &w->meta};
    char id[80];
    int n = snprintf(id, sizeof id, "%" PRIu64 "-%" PRIu64 "-%" PRId64, w->facts->term,
                     w->facts->index, w->dump->time_ms);
    ASSERT(n > 0 && (size_t)n < sizeof id);
    ASSERT(w->meta.len == 0);
    text_open_object(&t);
    text_member_int(&t, "Version", 1);
    text_member_str(&t, "ID", id);
    text_key(&t, "Index");
    text_put_uint(&t, w->facts->index);
    text_key(&t, "Term");
    text_put_uint(&t, w->facts->term);
    text_key(&t, "Size");
    text_put_uint(&t, w->state_bytes);
    text_key(&t, "holdfast");
    text_open_object(&t);
    text_member_int(&t, "format", RLOG_ARCHIVE_FORMAT);
    text_member_str(&t, "cluster", w->facts->cluster);
    text_key(&t, "version");
    text_put_uint(&t, w->dump->version);
    text_member_int(&t, "time_ms", w->dump->time_ms);
    text_close(&t);
    text_close(&t);
}

static enum status make_sums(struct writing *w)
{
    char hex[2 * CRYPTO_SHA256_BYTES + 1];
    struct bytes meta = buf_bytes(&w->meta);

    crypto_sha256(w->hash, &meta, 1, w->meta_digest);
    sha_text(w->meta_digest, hex);
    buf_add_format(&w->sums, sum_line, hex, "meta.json");
    sha_text(w->state_digest, hex);
    buf_add_format(&w->sums, sum_line, hex, "state.bin");
    TRY(buf_status(&w->meta));
    TRY(buf_status(&w->sums));
    TRY(w->out->seal(w->out->ctx, buf_bytes(&w->sums), &w->sealed));
    TRY(buf_status(&w->sealed));
    ASSERT(w->sealed.len > 0 && w->sealed.len <= RLOG_ARCHIVE_SEALED_MAX);
    return ST_OK;
}

static enum status start(struct writing *w)
{
    ASSERT(!w->z_ready);
    ASSERT(w->state_bytes == 0);
    TRY(crypto_sha256_new(&w->hash));
    crypto_sha256_begin(w->hash);
    TRY(rlog_machine_dump_run(w->dump, count_piece, w));
    crypto_sha256_end(w->hash, w->state_digest);
    make_meta(w);
    TRY(make_sums(w));
    zlib_use_mem(&w->z);
    if (deflateInit2(&w->z, LEVEL, Z_DEFLATED, ZLIB_GZIP_BITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return ST_NOMEM;
    w->z_ready = true;
    return ST_OK;
}

enum status rlog_archive_write(struct rlog_machine_dump *dump,
                               const struct rlog_archive_facts *facts,
                               const struct rlog_archive_out *out)
{
    static const uint8_t end[2 * TAR_BLOCK];
    CLEANUP(writing_free) struct writing *w = mem_zalloc(sizeof *w);
    if (w == NULL)
        return ST_NOMEM;
    ASSERT(dump->replicated_only);
    w->dump = dump;
    w->facts = facts;
    w->out = out;
    TRY(start(w));
    TRY(pack_file(w, "meta.json", buf_bytes(&w->meta)));
    TRY(pack_header(w, "state.bin", w->state_bytes));
    TRY(rlog_machine_dump_run(w->dump, pack_piece, w));
    TRY(pack_padding(w, w->state_bytes));
    TRY(pack_file(w, "SHA256SUMS", buf_bytes(&w->sums)));
    TRY(pack_file(w, "SHA256SUMS.sealed", buf_bytes(&w->sealed)));
    return pack(w, bytes_of(end, sizeof end), true);
}
