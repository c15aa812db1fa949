#include "base/crc32c.h"
#include "base/record_internal.h"

struct decoding {
    const struct record *record;
    struct arena *arena;
    struct reader *in;
    uint8_t bits; /* of RECORD_BITS */
};

static void number_store(void *at, size_t size, uint64_t v)
{
    const uint8_t u8 = (uint8_t)v;
    const uint16_t u16 = (uint16_t)v;
    const uint32_t u32 = (uint32_t)v;
    switch (size) {
    case 1: memcpy(at, &u8, 1); break;
    case 2: memcpy(at, &u16, 2); break;
    case 4: memcpy(at, &u32, 4); break;
    default: ASSERT(size == 8); memcpy(at, &v, 8);
    }
}

static uint64_t decode_number(enum record_kind kind, struct reader *in)
{
    switch (kind) {
    case RECORD_U8:
    case RECORD_LIST8: return reader_u8(in);
    case RECORD_U16: return reader_u16(in);
    case RECORD_U32: return reader_u32(in);
    case RECORD_U64: return reader_u64(in);
    default: ASSERT(kind == RECORD_VARINT || kind == RECORD_LIST); return reader_varint(in);
    }
}

static enum status store_content(const struct record_field *f, struct bytes content,
                                 struct arena *arena, uint8_t *at)
{
    ASSERT(f->kind > RECORD_FLAG && f->kind < RECORD_LIST8);
    struct buf copy = {0};
    const char *text;
    switch (f->in) {
    case RECORD_IN_RAW:
        ASSERT(content.len == f->size);
        memcpy(at, content.data, f->size);
        return ST_OK;
    case RECORD_IN_BYTES: memcpy(at, &content, sizeof content); return ST_OK;
    case RECORD_IN_BUF:
        buf_add(&copy, content);
        memcpy(at, &copy, sizeof copy);
        return buf_status(&copy);
    case RECORD_IN_CHARS:
        ASSERT(content.len < f->size);
        memset(bytes_put(at, content), 0, f->size - content.len);
        return ST_OK;
    default: ASSERT(f->in == RECORD_IN_TEXT);
    }
    ASSERT(f->kind == RECORD_TEXT0 || arena != NULL);
    text = f->kind == RECORD_TEXT0 ? (const char *)content.data : arena_str(arena, content);
    memcpy(at, &text, sizeof text);
    return text != NULL ? ST_OK : ST_NOMEM;
}

/* The bytes of a text or block; TEXT0 without its zero byte. */
static struct bytes decode_content(const struct record_field *f, struct reader *in)
{
    struct bytes content;
    switch (f->kind) {
    case RECORD_FIXED: return reader_take(in, f->size);
    case RECORD_REST: return reader_take(in, reader_left(in));
    case RECORD_TEXT0: return bytes_str(reader_text(in));
    case RECORD_TEXT:
        content = reader_block(in);
        if (content.len != 0 && memchr(content.data, 0, content.len) != NULL)
            in->failed = true;
        return content;
    default: ASSERT(f->kind == RECORD_BLOCK); return reader_block(in);
    }
}

static enum status decode_record(const struct record *record, struct arena *arena,
                                 struct reader *in, void *to);

/* Make room for item `n` of a list whose number of items is not known before. */
static enum status grow_items(const struct record_field *f, struct arena *arena, uint64_t n,
                              uint8_t **items)
{
    if ((n & (n - 1)) != 0) /* room doubles at each power of two */
        return ST_OK;
    uint8_t *room = arena_zalloc(arena, (size_t)(n == 0 ? 1 : 2 * n) * f->sub->size);
    if (room == NULL)
        return ST_NOMEM;
    if (n != 0)
        memcpy(room, *items, (size_t)n * f->sub->size);
    *items = room;
    return ST_OK;
}

static enum status decode_list_end(const struct record_field *f, struct decoding *d, uint8_t *to)
{
    uint8_t *items = to + f->offset;
    uint64_t n = 0;
    ASSERT(f->sub != NULL && f->sub->size != 0);
    ASSERT(f->in == RECORD_IN_ARRAY || d->arena != NULL);
    if (f->in == RECORD_IN_ITEMS)
        items = NULL;
    for (; !d->in->failed && reader_left(d->in) != 0; n++) {
        if (n == record_max(f)) {
            d->in->failed = true;
            return ST_OK;
        }
        if (f->in == RECORD_IN_ITEMS)
            TRY(grow_items(f, d->arena, n, &items));
        TRY(decode_record(f->sub, d->arena, d->in, items + n * f->sub->size));
    }
    if (f->in == RECORD_IN_ITEMS)
        memcpy(to + f->offset, &items, sizeof items);
    number_store(to + f->count, f->count_size, n);
    d->in->failed = d->in->failed || n < f->min;
    return ST_OK;
}

static enum status decode_list(const struct record_field *f, struct decoding *d, uint8_t *to)
{
    uint64_t n = decode_number(f->kind, d->in);
    uint8_t *items = to + f->offset;
    ASSERT(f->sub != NULL && f->sub->size != 0);
    /* every item takes a byte at least: what is allocated is bounded by what is there */
    if (d->in->failed || n < f->min || n > record_max(f) || n > reader_left(d->in)) {
        d->in->failed = true;
        return ST_OK;
    }
    if (f->in == RECORD_IN_ITEMS) {
        ASSERT(d->arena != NULL);
        items = arena_zalloc(d->arena, (size_t)n * f->sub->size + 1);
        if (items == NULL)
            return ST_NOMEM;
        memcpy(to + f->offset, &items, sizeof items);
    }
    number_store(to + f->count, f->count_size, n);
    for (uint64_t i = 0; i < n && !d->in->failed; i++)
        TRY(decode_record(f->sub, d->arena, d->in, items + i * f->sub->size));
    return ST_OK;
}

static void decode_bits(struct decoding *d)
{
    uint8_t known = 0;
    for (uint32_t i = 0; i < d->record->n; i++)
        known |= d->record->fields[i].mask;
    d->bits = reader_u8(d->in);
    if ((d->bits & ~known) != 0)
        d->in->failed = true;
}

static enum status decode_member(const struct record_field *f, struct decoding *d, uint8_t *to)
{
    uint64_t n;
    ASSERT(f->kind != RECORD_BITS && !d->in->failed);
    if (f->kind == RECORD_FLAG) {
        number_store(to + f->offset, f->size, (d->bits & f->mask) != 0);
        return ST_OK;
    }
    if (f->kind == RECORD_LIST_END)
        return decode_list_end(f, d, to);
    if (record_is_list(f->kind))
        return decode_list(f, d, to);
    struct bytes content = {0};
    if (f->kind <= RECORD_VARINT) {
        n = decode_number(f->kind, d->in);
    } else {
        content = decode_content(f, d->in);
        n = content.len;
    }
    bool bounded = f->kind == RECORD_FIXED || (n >= f->min && n <= record_max(f));
    if (d->in->failed || !bounded || (f->check != NULL && !f->check(content))) {
        d->in->failed = true;
        return ST_OK;
    }
    if (f->kind > RECORD_VARINT)
        return store_content(f, content, d->arena, to + f->offset);
    number_store(to + f->offset, f->size, n);
    return ST_OK;
}

/* A field that the record does not have. */
static void store_preset(const struct record_field *f, uint8_t *to)
{
    const struct bytes empty = BYTES("");
    const char *const text = "";
    ASSERT(f->since != 0 || f->mask != 0);
    ASSERT(f->preset == 0 || record_is_number(f->kind));
    if (record_is_number(f->kind))
        number_store(to + f->offset, f->size, f->preset);
    else if (record_is_list(f->kind))
        number_store(to + f->count, f->count_size, 0);
    else if (f->in == RECORD_IN_BYTES)
        memcpy(to + f->offset, &empty, sizeof empty);
    else if (f->in == RECORD_IN_TEXT)
        memcpy(to + f->offset, &text, sizeof text);
    else
        memset(to + f->offset, 0, f->size);
}

/* Read the format byte; a record without one has the newest format. */
static uint8_t decode_format(const struct record *record, struct reader *in)
{
    if (record->newest == 0)
        return UINT8_MAX;
    uint8_t format = reader_u8(in);
    if (format < record_oldest(record) || format > record->newest)
        in->failed = true;
    return format;
}

/* Conditions on the whole record. */
static bool is_sound(const struct record *record, uint8_t format, const void *decoded)
{
    if (record->newest != 0 && format >= record_least(record) &&
        format != record_format_of(record, decoded))
        return false; /* each record has one form */
    return record->valid == NULL || record->valid(decoded);
}

static enum status decode_record(const struct record *record, struct arena *arena,
                                 struct reader *in, void *to)
{
    struct decoding d = {.record = record, .arena = arena, .in = in};
    ASSERT(record->n != 0);
    uint8_t format = decode_format(record, in);
    for (uint32_t i = 0; i < record->n && !in->failed; i++) {
        const struct record_field *f = &record->fields[i];
        bool absent = f->mask != 0 && f->kind != RECORD_FLAG && (d.bits & f->mask) == 0;
        if (f->kind == RECORD_BITS && f->since <= format)
            decode_bits(&d);
        else if (f->since > format || absent)
            store_preset(f, to);
        else
            TRY(decode_member(f, &d, to));
        if (i == 0 && record->protocol != 0)
            format = record_format_of(record, to);
        if (f->mask != 0 && f->kind != RECORD_FLAG && !absent && !in->failed &&
            record_amount(f, to) == 0)
            in->failed = true; /* present, and empty: that has another form */
    }
    if (!in->failed && !is_sound(record, format, to))
        in->failed = true;
    if (record->protocol != 0 && format > record->protocol)
        (void)reader_take(in, reader_left(in)); /* fields of a later protocol */
    return ST_OK;
}

void record_done(const struct record *record, void *decoded)
{
    struct buf buf;
    for (uint32_t i = 0; i < record->n; i++) {
        const struct record_field *f = &record->fields[i];
        if (f->in != RECORD_IN_BUF)
            continue;
        memcpy(&buf, (uint8_t *)decoded + f->offset, sizeof buf);
        buf_done(&buf);
        memcpy((uint8_t *)decoded + f->offset, &buf, sizeof buf);
    }
}

/* Cut the checksum off. False: it is wrong. */
static bool decode_crc(struct bytes *bytes)
{
    enum { CRC = 4 };
    if (bytes->len < CRC)
        return false;
    bytes->len -= CRC;
    return crc32c(0, *bytes) == le32_get(bytes->data + bytes->len);
}

/* Decode in place, so that `valid` sees a struct of its type, and put the former content back after
 * a failure. Buffers of the caller are not those of the record. */
enum status record_decode(const struct record *record, struct bytes bytes, struct arena *arena,
                          void *ret)
{
    uint8_t former[RECORD_STRUCT_MAX];
    if (record->crc && !decode_crc(&bytes))
        return ST_CORRUPT;
    struct reader in = reader_of(bytes);
    ASSERT(record->size <= sizeof former);
    memcpy(former, ret, record->size);
    for (uint32_t i = 0; i < record->n; i++)
        if (record->fields[i].in == RECORD_IN_BUF)
            memset((uint8_t *)ret + record->fields[i].offset, 0, sizeof(struct buf));
    enum status st = decode_record(record, arena, &in, ret);
    if (st == ST_OK && reader_end(&in) != ST_OK)
        st = ST_CORRUPT;
    if (st != ST_OK) {
        record_done(record, ret);
        memcpy(ret, former, record->size);
    }
    return st;
}
