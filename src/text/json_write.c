#include "base/vector.h"
#include "text/json.h"
#include "text/time.h"
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
    static const char gives[0x80] = {
        ['"'] = '"', ['\\'] = '\\', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'};
    ASSERT(rune <= 0x10ffff);
    if (rune >= sizeof gives || gives[rune] == '\0') {
        buf_add_format(out, "\\u%04x", rune);
        return;
    }
    uint8_t *at = buf_extend(out, 2);
    if (at == NULL)
        return; /* buf_status reports the failure */
    at[0] = '\\';
    at[1] = (uint8_t)gives[rune];
}

/* Bytes that may need an escape: in a plain text (text_writer.plain), and in a text that must be
 * safe in HTML. A byte above 0x7f may be invalid UTF-8, or begin U+2028 or U+2029, which end a line
 * in JavaScript. */
enum { LOOK_PLAIN = 1, LOOK_HTML = 2, LOOK_ALWAYS = LOOK_PLAIN | LOOK_HTML };
static const uint8_t looks[256] = {
    [0 ... 0x1f] = LOOK_ALWAYS, ['"'] = LOOK_ALWAYS,
    ['\\'] = LOOK_ALWAYS,       ['<'] = LOOK_HTML,
    ['>'] = LOOK_HTML,          ['&'] = LOOK_HTML,
    [0x7f] = LOOK_HTML,         [0x80 ... 0xff] = LOOK_ALWAYS,
};

/* Whether a rune above 0x7f is written without an escape. */
static bool is_verbatim(uint32_t rune, bool plain)
{
    return rune >= 0x80 && (plain || (rune != 0x2028 && rune != 0x2029));
}

/* The index of the first byte from `at` on that may need an escape. */
static size_t skip_verbatim(struct bytes text, size_t at, bool plain)
{
    unsigned look = plain ? LOOK_PLAIN : LOOK_HTML;
    while (at < text.len && (looks[text.data[at]] & look) == 0)
        at++;
    return at;
}

/* Add `text` with escapes where needed. No byte before `at` needs an escape. Bytes that are not
 * UTF-8 are written as U+FFFD. */
static void add_escaped(struct buf *out, struct bytes text, size_t at, bool plain)
{
    size_t from = 0;
    for (; at < text.len; at = skip_verbatim(text, at, plain)) {
        size_t before = at;
        uint32_t rune = text.data[at];
        if (rune < 0x80) { /* most of what needs an escape: quotes and ends of lines */
            at++;
        } else if (text_utf8_next(text, &at, &rune) != ST_OK) {
            rune = 0xfffd;
            at++;
        } else if (is_verbatim(rune, plain)) {
            continue;
        }
        buf_add(out, bytes_of(text.data + from, before - from));
        add_escape(out, rune);
        from = at;
    }
    ASSERT(at == text.len);
    ASSERT(from <= text.len);
    buf_add(out, bytes_of(text.data + from, text.len - from));
}

/* Whether any of these sixteen bytes may need an escape in HTML. */
static bool has_special(uint64_t first, uint64_t second)
{
    const VECTOR_OF(uint64_t) both = {first, second};
    const VECTOR_OF(int8_t) v = (VECTOR_OF(int8_t))both;
    /* Bytes above 0x7f are negative. '&' and '"' differ in one bit, and so do '>' and '<'. */
    const VECTOR_OF(int8_t) special = (v < 0x20) | (v == 0x7f) | (v == '\\') |
                                      ((v & ~('"' ^ '&')) == '"') | ((v & ~('<' ^ '>')) == '<');
    const VECTOR_OF(uint64_t) found = (VECTOR_OF(uint64_t))special;
    return (found[0] | found[1]) != 0;
}

/* Whether no byte needs an escape, not even in HTML. A false "no" is possible, a false "yes" is
 * not. */
static inline bool is_all_verbatim(struct bytes text)
{
    if (text.len < 4)
        return skip_verbatim(text, 0, false) == text.len;
    const uint8_t *at = text.data, *end = at + text.len;
    if (text.len < 8) {
        uint64_t all = le32_get(at) | (uint64_t)le32_get(end - 4) << 32;
        return !has_special(all, all);
    }
    for (; end - at >= 16; at += 16)
        if (has_special(le64_get(at), le64_get(at + 8)))
            return false;
    return at == end || !has_special(le64_get(end - at >= 8 ? at : end - 8), le64_get(end - 8));
}

static __attribute__((noinline)) void add_quoted_escaped(struct buf *out, struct bytes text,
                                                         bool plain, bool comma)
{
    buf_add(out, comma ? BYTES(",\"") : BYTES("\""));
    add_escaped(out, text, skip_verbatim(text, 0, plain), plain);
    buf_add_u8(out, '"');
}

/* Add a text between quotes, with a comma in front if `comma`. */
static void add_quoted(struct buf *out, struct bytes text, bool plain, bool comma)
{
    if (!is_all_verbatim(text)) {
        add_quoted_escaped(out, text, plain, comma);
        return;
    }
    uint8_t *at = buf_extend(out, comma + text.len + 2);
    if (at == NULL)
        return; /* buf_status reports the failure */
    if (comma)
        *at++ = ',';
    *at++ = '"';
    if (text.len != 0)
        memcpy(at, text.data, text.len);
    at[text.len] = '"';
}

static void add_name(struct buf *out, struct bytes name, bool plain, bool comma)
{
    add_quoted(out, name, plain, comma);
    buf_add_u8(out, ':');
}

void text_key_bytes(struct text_writer *w, struct bytes name)
{
    ASSERT(w->depth > 0 && (w->lists & 1) == 0);
    add_name(w->out, name, w->plain, w->separate);
    w->separate = false;
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
    uint8_t digits[21]; /* 20 digits and a sign */
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
    add_quoted(w->out, text, w->plain, w->separate);
    w->separate = true;
}

void text_put_str(struct text_writer *w, const char *text)
{
    if (text == NULL)
        text_put_null(w);
    else
        text_put_bytes(w, bytes_str(text));
}

void text_put_time(struct text_writer *w, int64_t ms)
{
    uint8_t text[TEXT_TIME_MAX];
    text_put_bytes(w, bytes_of(text, text_time(ms, text)));
}

/* Recursion is as deep as the tree: the readers bound the depth of a tree. */
static void add_tree(struct buf *out, const struct text_value *v, bool plain)
{
    switch (v->kind) {
    case TEXT_NULL: buf_add_str(out, "null"); break;
    case TEXT_BOOL: buf_add_str(out, v->truth ? "true" : "false"); break;
    case TEXT_NUMBER: buf_add(out, v->text); break;
    case TEXT_STRING: add_quoted(out, v->text, plain, false); break;
    case TEXT_LIST:
    case TEXT_OBJECT:
        buf_add_u8(out, v->kind == TEXT_LIST ? '[' : '{');
        TEXT_FOR (item, v) {
            if (v->kind == TEXT_OBJECT)
                add_name(out, item->name, plain, item != v->first);
            else if (item != v->first)
                buf_add_u8(out, ',');
            add_tree(out, item, plain);
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
    add_tree(w->out, v, w->plain);
}
