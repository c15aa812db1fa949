#include "router/openapi/openapi_cache.h"
#include "base/mem.h"
#include "http/names.h"

#include <strings.h>

#define ZLIB_CONST
#include <zlib.h>

enum { GZIP_BITS = 15 + 16 }; /* the largest window, in the format of gzip */

static void page_clear(struct openapi_page *page)
{
    shared_unref(page->text); /* replies on their way may have it still */
    shared_unref(page->gzip);
    *page = (struct openapi_page){0};
}

void openapi_cache_done(struct openapi_cache *cache)
{
    page_clear(&cache->named);
    page_clear(&cache->generic);
    for (size_t i = 0; i < ARRAY_LEN(cache->others); i++)
        page_clear(&cache->others[i]);
}

bool openapi_page_is(const struct openapi_page *page, const char *ns, uint64_t version)
{
    return page->text != NULL && page->version == version && strcmp(page->ns, ns) == 0;
}

static void *zlib_take(void *ctx, unsigned n, unsigned size)
{
    (void)ctx;
    return mem_zalloc((size_t)n * size);
}

static void zlib_give(void *ctx, void *pointer)
{
    (void)ctx;
    mem_free(pointer);
}

static enum status compress_into(struct bytes text, struct buf *out)
{
    z_stream z = {.zalloc = zlib_take, .zfree = zlib_give};
    if (text.len > UINT32_MAX / 2 ||
        deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, GZIP_BITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return ST_NOMEM;
    size_t room = deflateBound(&z, text.len);
    enum status st = buf_reserve(out, room);
    if (st == ST_OK) {
        z.next_in = text.data;
        z.avail_in = (unsigned)text.len;
        z.next_out = out->data;
        z.avail_out = (unsigned)room;
        int end = deflate(&z, Z_FINISH);
        ASSERT(end == Z_STREAM_END); /* the output buffer has room for the whole result */
        out->len = z.total_out;
    }
    (void)deflateEnd(&z); /* deflateEnd only frees memory */
    return st;
}

enum status openapi_page_put(struct openapi_page *page, const char *ns, uint64_t version,
                             struct bytes text)
{
    page_clear(page);
    if (strlen(ns) >= sizeof page->ns)
        return ST_TOO_BIG;
    memcpy(page->ns, ns, strlen(ns) + 1);
    page->version = version;
    CLEANUP(buf_done) struct buf plain = {0}, gzip = {0};
    buf_add(&plain, text);
    enum status st = buf_status(&plain);
    if (st == ST_OK)
        st = compress_into(text, &gzip);
    if (st == ST_OK) {
        page->text = shared_new(&plain);
        page->gzip = shared_new(&gzip);
        st = page->text != NULL && page->gzip != NULL ? ST_OK : ST_NOMEM;
    }
    if (st != ST_OK)
        page_clear(page);
    return st;
}

/* Whether a weight ("q=0", "q=0.0") refuses the coding. */
static bool is_refusal(struct bytes weight)
{
    if (weight.len < 3 || strncasecmp((const char *)weight.data, "q=", 2) != 0)
        return false;
    for (size_t i = 2; i < weight.len; i++)
        if (weight.data[i] != '0' && weight.data[i] != '.')
            return false;
    return true;
}

/* Take the bytes before the next `mark`; *rest then begins behind it. */
static struct bytes until(struct bytes *rest, char mark)
{
    const uint8_t *at = rest->len != 0 ? memchr(rest->data, mark, rest->len) : NULL;
    struct bytes part = {rest->data, at != NULL ? (size_t)(at - rest->data) : rest->len};
    *rest = bytes_from(*rest, MIN(part.len + 1, rest->len));
    return http_trimmed(part);
}

bool openapi_takes_gzip(struct bytes accept_encoding)
{
    while (accept_encoding.len != 0) {
        struct bytes item = until(&accept_encoding, ',');
        struct bytes name = until(&item, ';');
        if (name.len == 4 && strncasecmp((const char *)name.data, "gzip", 4) == 0)
            return !is_refusal(http_trimmed(item));
    }
    return false;
}
