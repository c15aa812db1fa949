/* Records as text: their form for the docs, their values for people. */
#include "base/mem.h"
#include "base/record_internal.h"

#include <inttypes.h>

enum { CONTENT_SHOWN_MAX = 64 };

static const char *bytes_of_kind(enum record_kind kind)
{
    switch (kind) {
    case RECORD_U8:
    case RECORD_BITS: return "1";
    case RECORD_U16: return "2";
    case RECORD_U32: return "4";
    case RECORD_U64: return "8";
    case RECORD_VARINT: return "varint";
    case RECORD_BLOCK:
    case RECORD_TEXT: return "block";
    case RECORD_TEXT0: return "block, ends in 0";
    case RECORD_LIST8: return "1, items";
    case RECORD_LIST: return "varint, items";
    case RECORD_LIST_END: return "items";
    default: return "…";
    }
}

static void draw_bounds(const struct record_field *f, const char *sep, struct buf *out)
{
    const char *of = f->kind <= RECORD_VARINT ? "" : record_is_list(f->kind) ? " items" : " bytes";
    bool holds = f->max != 0 || f->in == RECORD_IN_CHARS || f->in == RECORD_IN_ARRAY;
    uint64_t max = record_max(f);
    if (f->min == 0 && !holds && f->in != RECORD_IN_BOOL)
        return;
    buf_add_str(out, sep);
    if (f->in == RECORD_IN_BOOL)
        buf_add_str(out, "0 or 1");
    else if (f->min != 0 && holds && f->min == max)
        buf_add_format(out, "%" PRIu64 "%s", max, of);
    else if (f->min != 0 && holds)
        buf_add_format(out, "%" PRIu64 " to %" PRIu64 "%s", f->min, max, of);
    else if (f->min != 0)
        buf_add_format(out, "at least %" PRIu64 "%s", f->min, of);
    else
        buf_add_format(out, "at most %" PRIu64 "%s", max, of);
}

/* A '|' ends a cell. */
static void draw_text(const char *text, struct buf *out)
{
    for (; *text != '\0'; text++) {
        if (*text == '|')
            buf_add_u8(out, '\\');
        buf_add_u8(out, (uint8_t)*text);
    }
}

static void draw_meaning(const struct record_field *f, struct buf *out)
{
    draw_text(f->help != NULL ? f->help : "", out);
    draw_bounds(f, f->help != NULL ? "; " : "", out);
}

static void draw_bits(const struct record *record, struct buf *out)
{
    const char *sep = "";
    ASSERT(record->n > 1);
    for (uint32_t i = 0; i < record->n; i++) {
        const struct record_field *f = &record->fields[i];
        if (f->mask == 0)
            continue;
        buf_add_format(out, "%s%u: ", sep, f->mask);
        if (f->kind == RECORD_FLAG)
            buf_add_str(out, f->help != NULL ? f->help : f->name);
        else
            buf_add_format(out, "%s is there", f->name);
        sep = "; ";
    }
}

static void draw_fields(const struct record *record, const char *in, struct buf *out)
{
    for (uint32_t i = 0; i < record->n; i++) {
        const struct record_field *f = &record->fields[i];
        if (f->kind == RECORD_FLAG)
            continue;
        if (f->kind == RECORD_FIXED)
            buf_add_format(out, "| %s%u | ", in, (unsigned)f->size);
        else
            buf_add_format(out, "| %s%s | ", in, bytes_of_kind(f->kind));
        buf_add_str(out, f->name);
        if (f->since > record_oldest(record))
            buf_add_format(out, ", from %s %u on", record->protocol != 0 ? "protocol" : "format",
                           f->since);
        if (f->mask != 0)
            buf_add_str(out, ", if its bit is set");
        buf_add_str(out, " | ");
        if (f->kind == RECORD_BITS)
            draw_bits(record, out);
        else
            draw_meaning(f, out);
        buf_add_str(out, f->secret ? " (secret) |\n" : " |\n");
        ASSERT((f->sub != NULL) == record_is_list(f->kind));
        if (f->sub != NULL)
            draw_fields(f->sub, "each: ", out);
    }
}

void record_draw(const struct record *record, struct buf *out)
{
    buf_add_str(out, "| bytes | field | meaning |\n|---|---|---|\n");
    if (record->newest != 0 && record_oldest(record) == record->newest)
        buf_add_format(out, "| 1 | format | %u |\n", record->newest);
    else if (record->newest != 0)
        buf_add_format(out, "| 1 | format | %u to %u |\n", record_oldest(record), record->newest);
    draw_fields(record, "", out);
    if (record->crc)
        buf_add_str(out, "| 4 | CRC-32C | of all bytes before |\n");
    if (record->protocol != 0)
        buf_add_format(out, "| … | later fields | of protocols above %u; not read |\n",
                       record->protocol);
}

static bool is_plain(struct bytes content)
{
    for (size_t i = 0; i < content.len; i++)
        if (content.data[i] < ' ' || content.data[i] > '~' || content.data[i] == '"')
            return false;
    return true;
}

static void dump_content(const struct record_field *f, struct bytes content, struct buf *out)
{
    if (f->secret || content.len > CONTENT_SHOWN_MAX) {
        buf_add_format(out, "(%zu bytes)", content.len);
    } else if (f->kind != RECORD_FIXED && is_plain(content)) {
        buf_add_format(out, "\"%.*s\"", (int)content.len, (const char *)content.data);
    } else {
        buf_add_str(out, "0x");
        for (size_t i = 0; i < content.len; i++)
            buf_add_format(out, "%02x", content.data[i]);
    }
}

static void dump_fields(const struct record *record, const void *from, struct buf *out)
{
    const char *sep = "";
    for (uint32_t i = 0; i < record->n; i++) {
        const struct record_field *f = &record->fields[i];
        if (f->kind == RECORD_BITS)
            continue;
        buf_add_format(out, "%s%s ", sep, f->name);
        sep = ", ";
        if (record_is_list(f->kind)) {
            buf_add_str(out, "[");
            for (uint64_t k = 0; k < record_amount(f, from); k++) {
                buf_add_str(out, k != 0 ? "; " : "");
                dump_fields(f->sub, record_item(f, from, k), out);
            }
            buf_add_str(out, "]");
        } else if (f->in == RECORD_IN_BOOL) {
            buf_add_str(out, record_amount(f, from) != 0 ? "true" : "false");
        } else if (record_is_number(f->kind)) {
            if (f->secret)
                buf_add_str(out, "(number)");
            else
                buf_add_format(out, "%" PRIu64, record_amount(f, from));
        } else {
            dump_content(f, record_content(f, from), out);
        }
    }
}

void record_dump(const struct record *record, struct bytes bytes, struct buf *out)
{
    CLEANUP(arena_done) struct arena arena = {0};
    ASSERT(record->size != 0 && record->size <= RECORD_STRUCT_MAX);
    void *decoded = mem_zalloc(record->size);
    enum status st = decoded != NULL ? record_decode(record, bytes, &arena, decoded) : ST_NOMEM;
    if (st == ST_OK) {
        dump_fields(record, decoded, out);
        record_done(record, decoded);
        mem_wipe(decoded, record->size);
    } else {
        buf_add_str(out, st == ST_NOMEM ? "out of memory" : "malformed");
    }
    mem_free(decoded);
}
