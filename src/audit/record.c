#include "audit/record_internal.h"
#include "base/mem.h"
#include "text/encode.h"
#include "text/json.h"

#include <assert.h>

struct audit_record *audit_record_ref(struct audit_record *record)
{
    unsigned before = atomic_fetch_add_explicit(&record->refs, 1, memory_order_relaxed);
    ASSERT(before > 0);
    return record;
}

void audit_text_free(struct audit_spare *spare, struct buf *text)
{
    ASSERT(text->len <= text->cap);
    if (text->data != NULL)
        mem_wipe(text->data, text->len); /* behind it nothing was ever written */
    if (text->cap == AUDIT_SPARE_SMALL || text->cap == AUDIT_SPARE_LARGE)
        audit_spare_give(spare, text->data, text->cap);
    else
        mem_free(text->data); /* the text has grown, or was trimmed */
    *text = (struct buf){0};
}

void audit_record_unref(struct audit_record *record)
{
    if (record == NULL)
        return;
    unsigned before = atomic_fetch_sub(&record->refs, 1);
    ASSERT(before > 0);
    if (before > 1)
        return;
    audit_record_unref(record->part); /* a part has no part: this ends after one step */
    audit_text_free(record->spare, &record->text);
    audit_spare_give(record->spare, record, audit_record_size(record->n_holes));
}

size_t audit_record_bytes(const struct audit_record *record, const struct audit_record *counted)
{
    size_t part = 0;
    if (record->part != NULL && (counted == NULL || counted->part != record->part))
        part = audit_record_bytes(record->part, NULL);
    return part + audit_record_size(record->n_holes) + record->text.cap;
}

enum status audit_hmac(struct hmac *salt, struct bytes plain, char ret_text[AUDIT_HMAC_LEN + 1])
{
    static const char head[] = "hmac-sha256:";
    uint8_t mac[HMAC_BYTES];
    static_assert(sizeof head - 1 + TEXT_HEX_LEN(HMAC_BYTES) == AUDIT_HMAC_LEN, "head and digest");
    TRY(hmac_run(salt, plain, mac));
    memcpy(ret_text, head, sizeof head - 1);
    text_hex_put(bytes_of(mac, sizeof mac), ret_text + sizeof head - 1);
    return ST_OK;
}

/* Whether a device shows the text of a hole in clear. */
static bool is_clear(const struct audit_render *how, enum audit_hole_kind kind)
{
    return how->raw || (kind == AUDIT_ACCESSOR && !how->hmac_accessor);
}

static enum status render_text(const struct audit_render *how, enum audit_hole_kind kind,
                               struct bytes plain, struct buf *out)
{
    struct text_writer w = {.out = out};
    ASSERT(kind < AUDIT_LIST);
    if (is_clear(how, kind)) {
        if (kind == AUDIT_SCALAR)
            buf_add(out, plain);
        else
            text_put_bytes(&w, plain);
        return ST_OK;
    }
    if (how->salt == NULL) {
        text_put_bytes(&w, BYTES(""));
        return ST_OK;
    }
    char text[1 + AUDIT_HMAC_LEN + 1]; /* with its quotes */
    TRY(audit_hmac(how->salt, plain, text + 1));
    text[0] = text[1 + AUDIT_HMAC_LEN] = '"';
    buf_add(out, bytes_of(text, sizeof text));
    return ST_OK;
}

/* Show an HMAC again that stands in the buffer, with its quotes. */
static void copy_hmac(size_t from, struct buf *out)
{
    enum { QUOTED = AUDIT_HMAC_LEN + 2 };
    uint8_t *to = buf_extend(out, QUOTED);
    if (to == NULL)
        return; /* buf_status reports the failure */
    ASSERT(out->data + from + QUOTED <= to);
    memcpy(to, out->data + from, QUOTED);
}

/* Render the text from `from` to `to`, between which all holes lie. */
static enum status render_range(const struct audit_record *record, const struct audit_render *how,
                                size_t from, size_t to, struct buf *out)
{
    const struct audit_hole *holes = record->holes;
    size_t n = record->n_holes, shown_at[AUDIT_FEW_HOLES];
    const uint8_t *text = record->text.data;

    TRY(buf_reserve(out, to - from + n * (AUDIT_HMAC_LEN + 2)));
    for (size_t i = 0; i < n; i++) {
        const struct audit_hole *hole = &holes[i];
        ASSERT(hole->at >= from && hole->at + hole->len <= to);
        buf_add(out, bytes_of(text + from, hole->at - from));
        from = hole->at + hole->len;
        if (hole->kind == AUDIT_LIST && how->elide) {
            struct text_writer w = {.out = out};
            text_put_uint(&w, hole->entries);
            i = hole->end;
            from = holes[i].at;
        } else if (hole->kind < AUDIT_LIST) {
            ASSERT(hole->same <= i && hole->same <= AUDIT_FEW_HOLES);
            if (i < AUDIT_FEW_HOLES)
                shown_at[i] = out->len;
            if (hole->same != 0 && !is_clear(how, hole->kind) && how->salt != NULL)
                copy_hmac(shown_at[hole->same - 1], out);
            else
                TRY(render_text(how, hole->kind, bytes_of(text + hole->at, hole->len), out));
        }
    }
    ASSERT(from <= to);
    buf_add(out, bytes_of(text + from, to - from));
    return buf_status(out);
}

/* Copy a part that was rendered into the same buffer before. False: it was not. */
static bool copy_part(const struct audit_recent *recent, const struct audit_record *part,
                      struct buf *out)
{
    for (unsigned i = 0; i < AUDIT_RECENT_PARTS; i++) {
        if (recent->parts[i].part != part)
            continue;
        size_t at = recent->parts[i].at, len = recent->parts[i].len;
        ASSERT(at + len <= out->len);
        if (buf_reserve(out, len) == ST_OK)
            buf_add(out, bytes_of(out->data + at, len));
        return true; /* memory that ran out shows in the buffer */
    }
    return false;
}

/* Render the shared part without the braces of its object. */
static enum status render_part(const struct audit_record *part, const struct audit_render *how,
                               struct buf *out)
{
    struct audit_recent *recent = how->recent;
    size_t at = out->len;
    ASSERT(part->text.len >= 2);
    if (recent != NULL && copy_part(recent, part, out))
        return buf_status(out);
    TRY(render_range(part, how, 1, part->text.len - 1, out));
    if (recent != NULL) {
        unsigned slot = recent->next++ % AUDIT_RECENT_PARTS;
        recent->parts[slot].part = part;
        recent->parts[slot].at = at;
        recent->parts[slot].len = out->len - at;
    }
    return ST_OK;
}

enum status audit_record_render(const struct audit_record *record, const struct audit_render *how,
                                struct buf *out)
{
    const struct audit_record *part = record->part;
    size_t from = 0;
    if (part != NULL) {
        from = record->part_at;
        buf_add(out, bytes_of(record->text.data, from));
        TRY(render_part(part, how, out));
    }
    return render_range(record, how, from, record->text.len, out);
}
