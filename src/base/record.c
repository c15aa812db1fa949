/* Encoding, and what both directions share. */
#include "base/crc32c.h"
#include "base/record_internal.h"

static uint64_t form_max(enum record_kind kind)
{
    switch (kind) {
    case RECORD_U8:
    case RECORD_LIST8: return UINT8_MAX;
    case RECORD_U16: return UINT16_MAX;
    case RECORD_U32: return UINT32_MAX;
    default: return UINT64_MAX;
    }
}

uint64_t record_max(const struct record_field *f)
{
    uint64_t max = form_max(f->kind);
    ASSERT(f->max == 0 || f->max >= f->min);
    if (record_is_number(f->kind))
        max = MIN(max, f->member_max);
    else if (f->in == RECORD_IN_CHARS)
        max = f->size - 1;
    else if (f->in == RECORD_IN_ARRAY)
        max = MIN(max, f->size / f->sub->size);
    return f->max != 0 ? MIN(max, f->max) : max;
}

static uint64_t number_load(const void *at, size_t size)
{
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
    switch (size) {
    case 1: memcpy(&u8, at, 1); return u8;
    case 2: memcpy(&u16, at, 2); return u16;
    case 4: memcpy(&u32, at, 4); return u32;
    default:
        ASSERT(size == 8);
        memcpy(&u64, at, 8);
        return u64;
    }
}

uint64_t record_amount(const struct record_field *f, const void *from)
{
    const uint8_t *base = from;
    if (record_is_number(f->kind))
        return number_load(base + f->offset, f->size);
    return record_is_list(f->kind) ? number_load(base + f->count, f->count_size)
                                   : record_content(f, from).len;
}

struct bytes record_content(const struct record_field *f, const void *from)
{
    const uint8_t *at = (const uint8_t *)from + f->offset;
    struct bytes bytes;
    struct buf buf;
    const char *text;
    switch (f->in) {
    case RECORD_IN_RAW: return bytes_of(at, f->size);
    case RECORD_IN_BYTES: memcpy(&bytes, at, sizeof bytes); return bytes;
    case RECORD_IN_BUF: memcpy(&buf, at, sizeof buf); return buf_bytes(&buf);
    case RECORD_IN_CHARS: return bytes_of(at, strnlen((const char *)at, f->size));
    default:
        ASSERT(f->in == RECORD_IN_TEXT);
        memcpy(&text, at, sizeof text);
        ASSERT(text != NULL);
        return bytes_str(text);
    }
}

const void *record_item(const struct record_field *f, const void *from, uint64_t i)
{
    const uint8_t *at = (const uint8_t *)from + f->offset;
    const void *items = at;
    if (f->in == RECORD_IN_ITEMS)
        memcpy(&items, at, sizeof items);
    return (const uint8_t *)items + i * f->sub->size;
}

bool record_is_preset(const struct record_field *f, const void *from)
{
    return f->kind != RECORD_BITS && f->in != RECORD_IN_RAW && record_amount(f, from) == f->preset;
}

uint8_t record_format_of(const struct record *record, const void *from)
{
    uint8_t format = record_least(record);
    if (record->protocol != 0)
        return (uint8_t)MIN(record_amount(&record->fields[0], from), (uint64_t)UINT8_MAX);
    if (record->newest <= format)
        return format;
    for (uint32_t i = 0; i < record->n; i++)
        if (record->fields[i].since > format && !record_is_preset(&record->fields[i], from))
            format = record->fields[i].since;
    return format;
}

static void put_number(enum record_kind kind, uint64_t v, struct buf *out)
{
    switch (kind) {
    case RECORD_U8:
    case RECORD_LIST8: buf_add_u8(out, (uint8_t)v); break;
    case RECORD_U16: buf_add_u16(out, (uint16_t)v); break;
    case RECORD_U32: buf_add_u32(out, (uint32_t)v); break;
    case RECORD_U64: buf_add_u64(out, v); break;
    default: ASSERT(kind == RECORD_VARINT || kind == RECORD_LIST); buf_add_varint(out, v);
    }
}

static void put_bits(const struct record *record, const void *from, struct buf *out)
{
    uint8_t bits = 0;
    for (uint32_t i = 0; i < record->n; i++)
        if (record->fields[i].mask != 0 && record_amount(&record->fields[i], from) != 0)
            bits |= record->fields[i].mask;
    buf_add_u8(out, bits);
}

static void put_record(const struct record *record, const void *from, bool head, struct buf *out);

static void put_list(const struct record_field *f, const void *from, struct buf *out)
{
    uint64_t n = record_amount(f, from);
    ASSERT(n >= f->min && n <= record_max(f));
    if (f->kind != RECORD_LIST_END)
        put_number(f->kind, n, out);
    for (uint64_t i = 0; i < n; i++)
        put_record(f->sub, record_item(f, from, i), false, out);
}

static void put_field(const struct record_field *f, const void *from, struct buf *out)
{
    if (f->kind <= RECORD_VARINT) {
        uint64_t number = record_amount(f, from);
        ASSERT(number >= f->min && number <= record_max(f));
        put_number(f->kind, number, out);
        return;
    }
    if (record_is_list(f->kind)) {
        put_list(f, from, out);
        return;
    }
    struct bytes content = record_content(f, from);
    ASSERT(f->in == RECORD_IN_RAW || (content.len >= f->min && content.len <= record_max(f)));
    ASSERT(f->check == NULL || f->check(content));
    switch (f->kind) {
    case RECORD_FIXED:
    case RECORD_REST: buf_add(out, content); break;
    case RECORD_TEXT0: buf_add_block(out, bytes_of(content.data, content.len + 1)); break;
    default: ASSERT(f->kind == RECORD_BLOCK || f->kind == RECORD_TEXT); buf_add_block(out, content);
    }
}

static void put_record(const struct record *record, const void *from, bool head, struct buf *out)
{
    uint8_t format = record_format_of(record, from);
    ASSERT(record->n != 0);
    ASSERT(record->valid == NULL || record->valid(from));
    if (record->newest != 0) {
        ASSERT(format >= record_least(record) && format <= record->newest);
        buf_add_u8(out, format);
    }
    for (uint32_t i = 0; i < record->n; i++) {
        const struct record_field *f = &record->fields[i];
        if (f->since > format || f->kind == RECORD_FLAG || (head && f->kind == RECORD_REST))
            continue;
        if (f->kind == RECORD_BITS)
            put_bits(record, from, out);
        else if (f->mask == 0 || record_amount(f, from) != 0)
            put_field(f, from, out);
    }
}

enum status record_encode(const struct record *record, const void *from, struct buf *out)
{
    size_t start = out->len;
    put_record(record, from, false, out);
    if (record->crc && !out->failed)
        buf_add_u32(out, crc32c(0, bytes_from(buf_bytes(out), start)));
    return buf_status(out);
}

enum status record_encode_head(const struct record *record, const void *from, struct buf *out)
{
    put_record(record, from, true, out);
    return buf_status(out);
}
