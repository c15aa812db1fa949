/* The primary's side.
 *
 *   question   varint n, n × place              place   varint shared, varint 2 × length + flag,
 * rest nodes      varint n, n × node               wants   varint n, n × place; flag: one key alone
 *   node       u8 0: no key is there
 *              u8 1: one key
 *              u8 2, block edge, varint newest, u8 own, digest of the own value if own is 1,
 *                    varint n, n bytes, a bit for each: one key, n digests
 *
 * A node is the answer to the place at the same position of the question. */
#include "cluster/dr/diff/dr_diff_internal.h"

#include "base/mem.h"
#include "crypto/sha256.h"

void dr_diff_digest(struct crypto_sha256 *sha, const struct store_shape_entry *entry,
                    uint64_t floor, uint8_t ret_digest[DR_DIFF_DIGEST_BYTES])
{
    uint8_t newest[8], whole[CRYPTO_SHA256_BYTES];
    le64_put(newest, MAX(entry->newest, floor));
    struct bytes parts[] = {bytes_of(entry->hash, sizeof entry->hash),
                            bytes_of(newest, sizeof newest)};
    crypto_sha256(sha, parts, ARRAY_LEN(parts), whole);
    memcpy(ret_digest, whole, DR_DIFF_DIGEST_BYTES);
}

void dr_diff_key_put(struct dr_diff_last *last, struct bytes key, bool flag, struct buf *out)
{
    size_t shared = bytes_common_len(bytes_of(last->key, last->len), key);
    struct bytes rest = bytes_from(key, shared);
    ASSERT(key.len <= sizeof last->key);
    buf_add_varint(out, shared);
    buf_add_varint(out, 2 * (uint64_t)rest.len + flag);
    buf_add(out, rest);
    if (rest.len != 0)
        memcpy(last->key + shared, rest.data, rest.len);
    last->len = key.len;
}

bool dr_diff_key_take(struct dr_diff_last *last, struct reader *r, bool *ret_flag)
{
    uint64_t shared = reader_varint(r), form = reader_varint(r);
    if (r->failed || shared > last->len || form / 2 > sizeof last->key - shared)
        return false;
    struct bytes rest = reader_take(r, (size_t)(form / 2));
    if (r->failed)
        return false;
    if (rest.len != 0)
        memcpy(last->key + shared, rest.data, rest.len);
    last->len = (size_t)shared + rest.len;
    *ret_flag = form % 2 != 0;
    return bytes_has_prefix(bytes_of(last->key, last->len), BYTES(RLOG_REPLICATED));
}

struct answer {
    struct crypto_sha256 *sha;
    uint64_t floor;
    struct store_shape shape;
    struct dr_diff_last last;
    struct buf nodes; /* encoded, without their number */
    uint64_t n;       /* of them */
};

static void put_digest(struct answer *a, const struct store_shape_entry *e)
{
    uint8_t digest[DR_DIFF_DIGEST_BYTES];
    dr_diff_digest(a->sha, e, a->floor, digest);
    buf_add(&a->nodes, bytes_of(digest, sizeof digest));
}

static void put_node(struct answer *a, const struct store_pin *pin, struct bytes at)
{
    const struct store_shape *s = &a->shape;
    uint8_t leaves[32] = {0};
    a->n++;
    if (!store_shape_get(pin, at, &a->shape)) {
        buf_add_u8(&a->nodes, DR_DIFF_NONE);
        return;
    }
    buf_add_u8(&a->nodes, s->leaf ? DR_DIFF_LEAF : DR_DIFF_INNER);
    if (s->leaf)
        return;
    buf_add_block(&a->nodes, s->edge);
    buf_add_varint(&a->nodes, s->newest);
    buf_add_u8(&a->nodes, s->has_own);
    if (s->has_own)
        put_digest(a, &s->own);
    buf_add_varint(&a->nodes, s->n);
    for (unsigned i = 0; i < s->n; i++) {
        buf_add_u8(&a->nodes, s->children[i].byte);
        if (s->children[i].leaf)
            leaves[i / 8] |= (uint8_t)(1U << i % 8);
    }
    buf_add(&a->nodes, bytes_of(leaves, (s->n + 7) / 8));
    for (unsigned i = 0; i < s->n; i++)
        put_digest(a, &s->children[i]);
}

static enum status flush_nodes(struct answer *a, enum status (*send)(void *ctx, struct bytes nodes),
                               void *ctx)
{
    CLEANUP(buf_done) struct buf piece = {0};
    buf_add_varint(&piece, a->n);
    buf_add(&piece, buf_bytes(&a->nodes));
    TRY(buf_status(&a->nodes));
    TRY(buf_status(&piece));
    buf_clear(&a->nodes);
    a->n = 0;
    return send(ctx, buf_bytes(&piece));
}

static enum status answer_places(struct answer *a, const struct store_pin *pin, struct reader *r,
                                 enum status (*send)(void *ctx, struct bytes nodes), void *ctx)
{
    uint64_t n = reader_varint(r);
    if (r->failed || n == 0 || n > DR_DIFF_ASKS_MAX)
        return ST_INVALID;
    for (; n > 0; n--) {
        bool flag;
        if (!dr_diff_key_take(&a->last, r, &flag) || flag)
            return ST_INVALID;
        put_node(a, pin, bytes_of(a->last.key, a->last.len));
        if (a->nodes.len >= DR_DIFF_PIECE_BYTES)
            TRY(flush_nodes(a, send, ctx));
    }
    TRY(reader_end(r));
    return a->n > 0 ? flush_nodes(a, send, ctx) : ST_OK;
}

enum status dr_diff_answer(const struct store_pin *pin, uint64_t floor, struct bytes ask,
                           enum status (*send)(void *ctx, struct bytes nodes), void *ctx)
{
    struct reader r = reader_of(ask);
    struct answer *a = mem_zalloc(sizeof *a);
    if (a == NULL)
        return ST_NOMEM;
    a->floor = floor;
    enum status st = crypto_sha256_new(&a->sha);
    if (st == ST_OK)
        st = answer_places(a, pin, &r, send, ctx);
    crypto_sha256_free(a->sha);
    buf_done(&a->nodes);
    mem_free(a);
    return st;
}

/* Of a place in `index`. */
enum { INDEX_BYTES = 8 };

static struct rlog_machine_part part_at(const struct dr_diff_parts *parts, size_t i)
{
    const uint8_t *at = parts->index.data + i * INDEX_BYTES;
    uint32_t form = le32_get(at + 4);
    return (struct rlog_machine_part){bytes_of(parts->keys.data + le32_get(at), form / 2),
                                      form % 2 != 0};
}

enum status dr_diff_parts_add(struct dr_diff_parts *parts, struct bytes want)
{
    struct reader r = reader_of(want);
    struct dr_diff_last last = {.len = 0};
    for (uint64_t n = reader_varint(&r); n > 0; n--) {
        bool exact;
        if (!dr_diff_key_take(&last, &r, &exact))
            return ST_INVALID;
        struct bytes key = bytes_of(last.key, last.len);
        if (parts->n > 0) {
            struct rlog_machine_part before = part_at(parts, parts->n - 1);
            if (bytes_cmp(key, before.at) <= 0 ||
                (!before.exact && bytes_has_prefix(key, before.at)))
                return ST_INVALID;
        }
        if (parts->keys.len + key.len + parts->index.len > DR_DIFF_WANTS_MAX)
            return ST_TOO_BIG;
        buf_add_u32(&parts->index, (uint32_t)parts->keys.len);
        buf_add_u32(&parts->index, (uint32_t)(2 * key.len + exact));
        buf_add(&parts->keys, key);
        TRY(buf_status(&parts->index));
        TRY(buf_status(&parts->keys));
        parts->n++;
    }
    return reader_end(&r);
}

enum status dr_diff_parts_end(struct dr_diff_parts *parts)
{
    ASSERT(parts->parts == NULL);
    parts->parts = mem_alloc((parts->n + 1) * sizeof *parts->parts);
    if (parts->parts == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < parts->n; i++)
        parts->parts[i] = part_at(parts, i);
    return ST_OK;
}

void dr_diff_parts_done(struct dr_diff_parts *parts)
{
    buf_done(&parts->keys);
    buf_done(&parts->index);
    mem_free(parts->parts);
    *parts = (struct dr_diff_parts){0};
}
