#include "api/kv/kv2_record.h"
#include "text/time.h"

enum {
    FORMAT = 3,
    FLAG_CAS = 1,
    FLAG_MAX_VERSIONS = 2,
    FLAG_DELETE_AFTER = 4,
    FLAG_CUSTOM = 8,
    FLAG_METADATA_CAS = 16,
    FLAG_METADATA_VERSION = 32,
    FLAGS = 63,
    PLACE_MASK = 3,
    DELETED = 4,
    ENDED = 8,
    SHIFT = 4,
    CUSTOM_MAX = 1024, /* more than can be set */
};

static void encode_version(const struct kv2_version *v, int64_t before_ms, struct buf *out)
{
    ASSERT(v->created_ms >= before_ms);
    ASSERT(v->deleted_ms == 0 || v->deleted_ms >= v->created_ms);
    ASSERT(!v->ended || v->deleted_ms != 0);
    buf_add_varint(out, (uint64_t)(v->created_ms - before_ms) << SHIFT | (uint64_t)v->place |
                            (v->deleted_ms != 0 ? DELETED : 0u) | (v->ended ? ENDED : 0u));
    if (v->deleted_ms != 0)
        buf_add_varint(out, (uint64_t)(v->deleted_ms - v->created_ms));
    if (v->place == KV2_INLINE)
        buf_add_block(out, v->data);
    if (v->place == KV2_APPENDED)
        buf_add_varint(out, v->sealed.len);
}

/* An estimate of the record's length: a record of usual size needs one allocation. */
static size_t bytes_about(const struct kv2_record *r)
{
    enum { HEAD = 64, VERSION = 16 };
    size_t n = HEAD + r->n * VERSION;
    return r->n != 0 ? n + r->versions[r->n - 1].data.len : n;
}

enum status kv2_record_encode(const struct kv2_record *r, struct buf *out)
{
    int64_t before_ms = r->created_ms;
    ASSERT(r->n <= r->newest && r->n <= KV2_VERSIONS_MAX);
    ASSERT(r->created_ms > 0 && r->updated_ms >= r->created_ms);
    TRY(buf_reserve(out, bytes_about(r)));
    buf_add_u8(out, FORMAT);
    buf_add_u8(out, (uint8_t)((r->cas_required ? FLAG_CAS : 0) |
                              (r->max_versions != 0 ? FLAG_MAX_VERSIONS : 0) |
                              (r->delete_after_s != 0 ? FLAG_DELETE_AFTER : 0) |
                              (r->custom.n != 0 ? FLAG_CUSTOM : 0) |
                              (r->metadata_cas_required ? FLAG_METADATA_CAS : 0) |
                              (r->metadata_version != 0 ? FLAG_METADATA_VERSION : 0)));
    buf_add_varint(out, r->newest);
    buf_add_varint(out, r->n);
    buf_add_varint(out, (uint64_t)r->created_ms);
    buf_add_varint(out, (uint64_t)(r->updated_ms - r->created_ms));
    if (r->max_versions != 0)
        buf_add_varint(out, r->max_versions);
    if (r->delete_after_s != 0)
        buf_add_varint(out, (uint64_t)r->delete_after_s);
    if (r->metadata_version != 0)
        buf_add_varint(out, r->metadata_version);
    if (r->custom.n != 0) {
        buf_add_varint(out, r->custom.n);
        for (size_t i = 0; i < 2 * r->custom.n; i++)
            buf_add_block(out, bytes_str(r->custom.pairs[i]));
    }
    for (size_t i = 0; i < r->n; i++) {
        ASSERT(r->versions[i].place != KV2_INLINE || i == r->n - 1);
        encode_version(&r->versions[i], before_ms, out);
        before_ms = r->versions[i].created_ms;
    }
    return buf_status(out);
}

/* The time `add` ms after `before_ms`. If that is `end_ms` or later: 0, and the reader is marked as
 * failed. */
static int64_t read_time(struct reader *r, int64_t before_ms, uint64_t add, int64_t end_ms)
{
    if (add >= (uint64_t)end_ms || before_ms + (int64_t)add >= end_ms) {
        r->failed = true;
        return 0;
    }
    return before_ms + (int64_t)add;
}

static void read_version(struct reader *r, int64_t before_ms, struct kv2_version *ret)
{
    uint64_t head = reader_varint(r);
    ret->place = (enum kv2_place)(head & PLACE_MASK);
    ret->ended = (head & ENDED) != 0;
    if ((head & (DELETED | ENDED)) == ENDED)
        r->failed = true;
    ret->created_ms = read_time(r, before_ms, head >> SHIFT, TEXT_CLOCK_END);
    ret->deleted_ms = 0;
    if ((head & DELETED) != 0)
        ret->deleted_ms = read_time(r, ret->created_ms, reader_varint(r), TEXT_EXPIRY_END);
    ret->data = (struct bytes){0};
    ret->sealed = (struct bytes){0};
    if (ret->place == KV2_INLINE)
        ret->data = reader_block(r);
    if (ret->place == KV2_APPENDED) {
        ret->sealed.len = reader_varint(r);
        if (ret->sealed.len == 0 || ret->sealed.len > KV2_APPENDED_MAX)
            r->failed = true;
    }
    ASSERT(r->failed || ret->created_ms >= before_ms);
}

static enum status read_custom(struct reader *r, struct arena *arena, struct field_map *ret)
{
    uint64_t n = reader_varint(r);
    if (r->failed || n == 0 || n > CUSTOM_MAX)
        return ST_CORRUPT;
    const char **pairs = arena_alloc(arena, 2 * n * sizeof *pairs);
    if (pairs == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < 2 * n; i++) {
        struct bytes text = reader_block(r);
        if (r->failed || (text.len != 0 && memchr(text.data, 0, text.len) != NULL))
            return ST_CORRUPT;
        pairs[i] = arena_str(arena, text);
        if (pairs[i] == NULL)
            return ST_NOMEM;
    }
    *ret = (struct field_map){.pairs = pairs, .n = n, .given = true};
    return ST_OK;
}

/* All but the versions. */
static enum status read_head(struct reader *r, struct arena *arena, struct kv2_record *ret)
{
    uint8_t format = reader_u8(r), flags = reader_u8(r);
    ASSERT(ret->max_versions == 0 && ret->delete_after_s == 0 && ret->metadata_version == 0);
    ret->newest = reader_varint(r);
    ret->n = reader_varint(r);
    ret->created_ms = read_time(r, 0, reader_varint(r), TEXT_CLOCK_END);
    ret->updated_ms = read_time(r, ret->created_ms, reader_varint(r), TEXT_CLOCK_END);
    ret->cas_required = (flags & FLAG_CAS) != 0;
    ret->metadata_cas_required = (flags & FLAG_METADATA_CAS) != 0;
    if ((flags & FLAG_MAX_VERSIONS) != 0)
        ret->max_versions = reader_varint(r);
    if ((flags & FLAG_DELETE_AFTER) != 0)
        ret->delete_after_s = read_time(r, 0, reader_varint(r), TEXT_DURATION_MAX_S + 1);
    if ((flags & FLAG_METADATA_VERSION) != 0)
        ret->metadata_version = reader_varint(r);
    bool canonical = (flags & ~FLAGS) == 0 &&
                     ((flags & FLAG_MAX_VERSIONS) != 0) == (ret->max_versions != 0) &&
                     ((flags & FLAG_DELETE_AFTER) != 0) == (ret->delete_after_s != 0) &&
                     ((flags & FLAG_METADATA_VERSION) != 0) == (ret->metadata_version != 0);
    if (r->failed || format != FORMAT || !canonical || ret->created_ms == 0 ||
        ret->metadata_version > INT64_MAX)
        return ST_CORRUPT;
    /* A version takes a byte or more: what is allocated is bounded by what is there. */
    if (ret->newest > INT64_MAX || ret->n > ret->newest || ret->n > KV2_VERSIONS_MAX ||
        ret->n > reader_left(r))
        return ST_CORRUPT;
    return (flags & FLAG_CUSTOM) != 0 ? read_custom(r, arena, &ret->custom) : ST_OK;
}

enum status kv2_record_decode(struct bytes stored, struct arena *arena,
                              struct kv2_record *ret_record)
{
    struct kv2_record record = {0};
    struct reader r = reader_of(stored);

    TRY(read_head(&r, arena, &record));
    record.versions = arena_alloc(arena, (record.n + 1) * sizeof *record.versions);
    if (record.versions == NULL)
        return ST_NOMEM;
    int64_t before_ms = record.created_ms;
    for (size_t i = 0; i < record.n; i++) {
        read_version(&r, before_ms, &record.versions[i]);
        before_ms = record.versions[i].created_ms;
        if (record.versions[i].place == KV2_INLINE && i < record.n - 1)
            return ST_CORRUPT;
    }
    if (reader_end(&r) != ST_OK)
        return ST_CORRUPT;
    ASSERT(before_ms >= record.created_ms && record.updated_ms >= record.created_ms);
    *ret_record = record;
    return ST_OK;
}

struct kv2_version *kv2_record_version(const struct kv2_record *record, uint64_t number)
{
    if (number > record->newest || number + record->n <= record->newest)
        return NULL;
    return &record->versions[number + record->n - record->newest - 1];
}

bool kv2_version_lives(const struct kv2_version *version, int64_t now_ms)
{
    return version->place != KV2_DESTROYED && !version->ended &&
           (version->deleted_ms == 0 || version->deleted_ms > now_ms);
}
