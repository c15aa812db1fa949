#include "text/json.h"
#include "text/utf8.h"

static void before_item(struct text_writer *w)
{
    if (w->separate)
        buf_add_u8(w->out, ',');
    w->separate = true;
}

static void open_level(struct text_writer *w, bool list)
{
    ASSERT(w->depth < TEXT_WRITER_DEPTH_MAX);
    before_item(w);
    buf_add_u8(w->out, list ? '[' : '{');
    w->lists = w->lists << 1 | list;
    w->depth++;
    w->separate = false;
}

void text_open_object(struct text_writer *w)
{
    open_level(w, false);
}

void text_open_list(struct text_writer *w)
{
    open_level(w, true);
}

void text_close(struct text_writer *w)
{
    ASSERT(w->depth > 0);
    buf_add_u8(w->out, (w->lists & 1) != 0 ? ']' : '}');
    w->lists >>= 1;
    w->depth--;
    w->separate = true;
}

static void add_escape(struct buf *out, uint32_t rune)
{
    static const char from[] = "\"\\\n\r\t", gives[] = "\"\\nrt";
    const char *found = rune != 0 && rune < 0x80 ? strchr(from, (int)rune) : NULL;
    if (found != NULL)
        buf_add(out, (struct bytes){(const uint8_t[]){'\\', (uint8_t)gives[found - from]}, 2});
    else
        buf_add_format(out, "\\u%04x", rune);
}

/* Whether a rune stands for itself. U+2028 and U+2029 end a line in JavaScript. */
static bool is_verbatim(uint32_t rune, bool plain)
{
    if (rune < 0x20 || rune == '"' || rune == '\\')
        return false;
    return plain || (rune != '<' && rune != '>' && rune != '&' && rune != 0x7f && rune != 0x2028 &&
                     rune != 0x2029);
}

/* What is not UTF-8 is written as U+FFFD. */
static void add_quoted(struct buf *out, struct bytes text, bool plain)
{
    size_t at = 0, from = 0;
    buf_add_u8(out, '"');
    while (at < text.len) {
        size_t before = at;
        uint32_t rune;
        if (text_utf8_next(text, &at, &rune) != ST_OK) {
            rune = 0xfffd;
            at++;
        } else if (is_verbatim(rune, plain)) {
            continue;
        }
        buf_add(out, bytes_of(text.data + from, before - from));
        add_escape(out, rune);
        from = at;
    }
    if (from < text.len)
        buf_add(out, bytes_from(text, from));
    buf_add_u8(out, '"');
}

void text_key_bytes(struct text_writer *w, struct bytes name)
{
    ASSERT(w->depth > 0 && (w->lists & 1) == 0);
    before_item(w);
    add_quoted(w->out, name, w->plain);
    buf_add_u8(w->out, ':');
    w->separate = false;
}

void text_key(struct text_writer *w, const char *name)
{
    text_key_bytes(w, bytes_str(name));
}

void text_put_raw(struct text_writer *w, struct bytes json)
{
    before_item(w);
    buf_add(w->out, json);
}

void text_put_null(struct text_writer *w)
{
    text_put_raw(w, BYTES("null"));
}

void text_put_bool(struct text_writer *w, bool truth)
{
    text_put_raw(w, truth ? BYTES("true") : BYTES("false"));
}

static void add_digits(struct buf *out, bool negative, uint64_t n)
{
    uint8_t digits[21]; /* 20 and a sign */
    size_t at = sizeof digits;
    do {
        digits[--at] = (uint8_t)('0' + n % 10);
        n /= 10;
    } while (n != 0);
    if (negative)
        digits[--at] = '-';
    buf_add(out, bytes_of(digits + at, sizeof digits - at));
}

void text_put_int(struct text_writer *w, int64_t n)
{
    before_item(w);
    add_digits(w->out, n < 0, n < 0 ? -(uint64_t)n : (uint64_t)n);
}

void text_put_uint(struct text_writer *w, uint64_t n)
{
    before_item(w);
    add_digits(w->out, false, n);
}

void text_put_bytes(struct text_writer *w, struct bytes text)
{
    before_item(w);
    add_quoted(w->out, text, w->plain);
}

void text_put_str(struct text_writer *w, const char *text)
{
    if (text == NULL)
        text_put_null(w);
    else
        text_put_bytes(w, bytes_str(text));
}

/* Recursion is bounded by the depth the readers allow. */
static void add_value(struct buf *out, const struct text_value *v, bool plain)
{
    switch (v->kind) {
    case TEXT_NULL: buf_add_str(out, "null"); break;
    case TEXT_BOOL: buf_add_str(out, v->truth ? "true" : "false"); break;
    case TEXT_NUMBER: buf_add(out, v->text); break;
    case TEXT_STRING: add_quoted(out, v->text, plain); break;
    case TEXT_LIST:
    case TEXT_OBJECT:
        buf_add_u8(out, v->kind == TEXT_LIST ? '[' : '{');
        TEXT_FOR (item, v) {
            if (item != v->first)
                buf_add_u8(out, ',');
            if (v->kind == TEXT_OBJECT) {
                add_quoted(out, item->name, plain);
                buf_add_u8(out, ':');
            }
            add_value(out, item, plain);
        }
        buf_add_u8(out, v->kind == TEXT_LIST ? ']' : '}');
        break;
    }
}

void text_put_value(struct text_writer *w, const struct text_value *v)
{
    if (v == NULL) {
        text_put_null(w);
        return;
    }
    before_item(w);
    add_value(w->out, v, w->plain);
}

void text_member_str(struct text_writer *w, const char *name, const char *text)
{
    text_key(w, name);
    text_put_str(w, text);
}

void text_member_int(struct text_writer *w, const char *name, int64_t n)
{
    text_key(w, name);
    text_put_int(w, n);
}

void text_member_bool(struct text_writer *w, const char *name, bool truth)
{
    text_key(w, name);
    text_put_bool(w, truth);
}

void text_member_null(struct text_writer *w, const char *name)
{
    text_key(w, name);
    text_put_null(w);
}
