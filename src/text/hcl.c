#include "text/hcl.h"
#include "base/buf.h"
#include "text/json.h"
#include "text/utf8.h"

#include <stdarg.h>
#include <stdio.h>

enum { LABELS_MAX = 4 };

struct hcl_reader {
    struct arena *arena;
    const uint8_t *at, *end;
    struct reason *reason;
    uint32_t line;
    unsigned depth, values;
};

static enum status hcl_read_value(struct hcl_reader *r, struct text_value *v);
static enum status hcl_read_items(struct hcl_reader *r, struct text_value *object, bool braced);

__attribute__((format(printf, 2, 3))) static enum status hcl_refuse(struct hcl_reader *r,
                                                                    const char *format, ...)
{
    char text[160];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args); /* a long text is cut */
    va_end(args);
    reason_set(r->reason, "line %u: %s", r->line, text);
    return ST_INVALID;
}

static uint8_t peek(const struct hcl_reader *r, size_t ahead)
{
    return (size_t)(r->end - r->at) > ahead ? r->at[ahead] : 0;
}

static bool next_is(struct hcl_reader *r, uint8_t c)
{
    if (peek(r, 0) != c || r->at == r->end)
        return false;
    r->at++;
    return true;
}

static bool is_ident_head(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

static bool is_ident(uint8_t c)
{
    return is_ident_head(c) || is_digit(c) || c == '-' || c == '.';
}

static void skip_line(struct hcl_reader *r)
{
    while (r->at < r->end && *r->at != '\n')
        r->at++;
}

static enum status skip_long_comment(struct hcl_reader *r)
{
    uint32_t from = r->line;
    for (r->at += 2; r->at < r->end; r->at++) {
        if (*r->at == '\n')
            r->line++;
        if (*r->at == '*' && peek(r, 1) == '/') {
            r->at += 2;
            return ST_OK;
        }
    }
    r->line = from;
    return hcl_refuse(r, "a comment does not end");
}

/* Skip spaces, line ends and comments. */
static enum status skip_space(struct hcl_reader *r)
{
    for (;;) {
        uint8_t c = peek(r, 0);
        if (c == '#' || (c == '/' && peek(r, 1) == '/')) {
            skip_line(r);
        } else if (c == '/' && peek(r, 1) == '*') {
            TRY(skip_long_comment(r));
        } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
            r->line += c == '\n';
            r->at++;
        } else {
            return ST_OK;
        }
    }
}

static enum status new_value(struct hcl_reader *r, struct text_value *parent, struct bytes name,
                             struct text_value **ret_value)
{
    if (++r->values > TEXT_HCL_VALUES_MAX) {
        reason_set(r->reason, "line %u: more than %d values", r->line, TEXT_HCL_VALUES_MAX);
        return ST_TOO_BIG;
    }
    struct text_value *v = text_value_new(r->arena, parent, TEXT_NULL, name);
    if (v == NULL)
        return ST_NOMEM;
    v->line = r->line;
    *ret_value = v;
    return ST_OK;
}

/* Read the rune of an escape, \x, \u, \U or octal: `digits` digits of `base`. */
static enum status hcl_read_code(struct hcl_reader *r, unsigned digits, uint32_t base,
                                 uint32_t *ret_rune)
{
    uint32_t rune = 0;
    for (unsigned i = 0; i < digits; i++) {
        uint32_t digit = text_hex_digit(peek(r, 0));
        if (digit >= base)
            return hcl_refuse(r, "malformed escape in a string");
        rune = rune * base + digit;
        r->at++;
    }
    if (rune > 0x10ffff || (rune >= 0xd800 && rune <= 0xdfff))
        return hcl_refuse(r, "an escape in a string is not a Unicode character");
    *ret_rune = rune;
    return ST_OK;
}

/* Read the escape behind a backslash and append its character at *to. */
static enum status hcl_read_escape(struct hcl_reader *r, uint8_t **to)
{
    static const char from[] = "\"\\abfnrtv", gives[] = "\"\\\a\b\f\n\r\t\v";
    uint32_t rune = 0;
    uint8_t c = peek(r, 0);
    const char *found = c != 0 ? strchr(from, c) : NULL;
    if (found != NULL) {
        r->at++;
        *(*to)++ = (uint8_t)gives[found - from];
        return ST_OK;
    }
    if (c >= '0' && c <= '7') {
        TRY(hcl_read_code(r, 3, 8, &rune));
    } else if (c == 'x' || c == 'u' || c == 'U') {
        r->at++;
        TRY(hcl_read_code(r, c == 'x' ? 2 : c == 'u' ? 4 : 8, 16, &rune));
    } else {
        return hcl_refuse(r, "unknown escape in a string");
    }
    *to += text_utf8_put(rune, *to);
    return ST_OK;
}

static const uint8_t *string_end(const struct hcl_reader *r)
{
    for (const uint8_t *p = r->at; p < r->end && *p != '\n'; p++) {
        if (*p == '"')
            return p;
        if (*p == '\\' && ++p == r->end)
            return NULL;
    }
    return NULL;
}

static enum status checked(struct hcl_reader *r, const uint8_t *text, size_t len,
                           struct bytes *ret_text)
{
    if (!text_utf8_valid(bytes_of(text, len)))
        return hcl_refuse(r, "a string is not valid UTF-8");
    if (len != 0 && memchr(text, 0, len) != NULL)
        return hcl_refuse(r, "a string contains a zero character");
    *ret_text = bytes_of(text, len);
    return ST_OK;
}

/* Read a string behind its opening quote. The text of an escape is never longer than the escape, so
 * the distance to the closing quote bounds the string. */
static enum status hcl_read_string(struct hcl_reader *r, struct bytes *ret_text)
{
    const uint8_t *from = r->at, *close = string_end(r);
    if (close == NULL)
        return hcl_refuse(r, "a string does not end on its line");
    uint8_t *text = arena_alloc(r->arena, (size_t)(close - r->at) + 1), *to = text;
    if (text == NULL)
        return ST_NOMEM;
    while (r->at < close) {
        uint8_t c = *r->at++;
        if (c == '\\')
            TRY(hcl_read_escape(r, &to));
        else if (c < 0x20 && c != '\t')
            return hcl_refuse(r, "control character in a string");
        else
            *to++ = c;
    }
    if (r->at != close) /* an escape extended beyond the closing quote */
        return hcl_refuse(r, "malformed escape in a string");
    ASSERT(to - text <= close - from); /* an escape is never shorter than its text */
    r->at++;
    *to = 0;
    return checked(r, text, (size_t)(to - text), ret_text);
}

/* Take one line of a heredoc, without its line end. r->at moves to the next line. */
static struct bytes take_line(struct hcl_reader *r)
{
    const uint8_t *from = r->at;
    skip_line(r);
    struct bytes line = bytes_of(from, (size_t)(r->at - from));
    if (r->at < r->end) {
        r->at++;
        r->line++;
    }
    if (line.len > 0 && line.data[line.len - 1] == '\r')
        line.len--;
    return line;
}

static size_t indent_of(struct bytes line)
{
    size_t n = 0;
    while (n < line.len && (line.data[n] == ' ' || line.data[n] == '\t'))
        n++;
    return n;
}

/* Copy the lines of `body`, each without its first `drop` bytes. */
static enum status copy_heredoc(struct hcl_reader *r, struct bytes body, size_t drop,
                                struct bytes *ret_text)
{
    struct hcl_reader lines = {.at = body.data, .end = body.data + body.len};
    uint8_t *text = arena_alloc(r->arena, body.len + 1), *to = text;
    if (text == NULL)
        return ST_NOMEM;
    while (lines.at < lines.end) {
        struct bytes line = take_line(&lines);
        if (line.len > drop) {
            memcpy(to, line.data + drop, line.len - drop);
            to += line.len - drop;
        }
        *to++ = '\n';
    }
    ASSERT((size_t)(to - text) <= body.len);
    *to = 0;
    return checked(r, text, (size_t)(to - text), ret_text);
}

/* Read a heredoc behind "<<". With "<<-" every line loses the indentation of the closing marker; if
 * a line has less indentation, no line loses any. */
static enum status hcl_read_heredoc(struct hcl_reader *r, struct bytes *ret_text)
{
    bool indented = next_is(r, '-');
    uint32_t begun = r->line;
    struct bytes marker = take_line(r);
    if (marker.len == 0 || indent_of(marker) != 0) {
        r->line = begun;
        return hcl_refuse(r, "a heredoc needs a marker");
    }

    struct bytes body = {r->at, 0};
    size_t least = SIZE_MAX;
    while (r->at < r->end) {
        const uint8_t *from = r->at;
        struct bytes line = take_line(r);
        size_t indent = indent_of(line);
        if (bytes_eq(bytes_from(line, indent), marker) && (indented || indent == 0)) {
            if (r->at > from && r->at[-1] == '\n') { /* the line end is not part of the heredoc */
                r->at--;
                r->line--;
            }
            return copy_heredoc(r, body, indented && indent <= least ? indent : 0, ret_text);
        }
        body.len = (size_t)(r->at - body.data);
        least = MIN(least, line.len == 0 ? least : indent);
    }
    r->line = begun;
    return hcl_refuse(r, "a heredoc does not end");
}

static enum status hcl_read_hex(struct hcl_reader *r, struct text_value *v)
{
    const uint8_t *from = r->at;
    uint64_t n = 0;
    for (;; r->at++) {
        unsigned digit = text_hex_digit(peek(r, 0));
        if (digit == 16)
            break;
        n = n << 4 | digit;
    }
    if (r->at == from || r->at - from > 15 || is_ident(peek(r, 0)))
        return hcl_refuse(r, "malformed number");
    char *text = arena_format(r->arena, "%llu", (unsigned long long)n);
    if (text == NULL)
        return ST_NOMEM;
    v->text = bytes_str(text);
    return ST_OK;
}

static bool skip_digits(struct hcl_reader *r)
{
    const uint8_t *from = r->at;
    while (is_digit(peek(r, 0)))
        r->at++;
    return r->at != from;
}

static enum status hcl_read_number(struct hcl_reader *r, struct text_value *v)
{
    const uint8_t *from = r->at;
    v->kind = TEXT_NUMBER;
    if (peek(r, 0) == '0' && (peek(r, 1) | 0x20) == 'x') {
        r->at += 2;
        return hcl_read_hex(r, v);
    }
    (void)next_is(r, '-'); /* the sign is optional */
    bool fine = next_is(r, '0') || skip_digits(r);
    if (fine && next_is(r, '.'))
        fine = skip_digits(r);
    if (fine && (peek(r, 0) | 0x20) == 'e') {
        r->at++;
        if (!next_is(r, '+'))
            (void)next_is(r, '-'); /* the sign is optional */
        fine = skip_digits(r);
    }
    if (!fine || is_ident(peek(r, 0)))
        return hcl_refuse(r, "malformed number (durations and sizes are quoted)");
    v->text.len = (size_t)(r->at - from);
    v->text.data = (uint8_t *)arena_str(r->arena, bytes_of(from, v->text.len));
    return v->text.data != NULL ? ST_OK : ST_NOMEM;
}

static struct bytes take_ident(struct hcl_reader *r)
{
    const uint8_t *from = r->at;
    while (is_ident(peek(r, 0)))
        r->at++;
    return bytes_of(from, (size_t)(r->at - from));
}

static enum status hcl_read_word(struct hcl_reader *r, struct text_value *v)
{
    struct bytes word = take_ident(r);
    if (word.len == 0)
        return hcl_refuse(r, "a value is expected");
    if (!text_is(word, "true") && !text_is(word, "false"))
        return hcl_refuse(r, "\"%.*s\" is not a value: quote a string", (int)MIN(word.len, 64),
                          word.data);
    v->kind = TEXT_BOOL;
    v->truth = text_is(word, "true");
    return ST_OK;
}

/* Read the items of a list, behind '['. */
static enum status hcl_read_list(struct hcl_reader *r, struct text_value *list)
{
    struct text_value *item;
    for (;;) {
        TRY(skip_space(r));
        if (next_is(r, ']'))
            return ST_OK;
        TRY(new_value(r, list, (struct bytes){0}, &item));
        TRY(hcl_read_value(r, item));
        TRY(skip_space(r));
        if (!next_is(r, ',') && peek(r, 0) != ']')
            return hcl_refuse(r, "',' or ']' is expected");
    }
}

static enum status hcl_read_nested(struct hcl_reader *r, struct text_value *v)
{
    ASSERT(v->kind == TEXT_LIST || v->kind == TEXT_OBJECT);
    if (++r->depth > TEXT_HCL_DEPTH_MAX)
        return hcl_refuse(r, "nested deeper than %d levels", TEXT_HCL_DEPTH_MAX);
    TRY(v->kind == TEXT_LIST ? hcl_read_list(r, v) : hcl_read_items(r, v, true));
    r->depth--;
    return ST_OK;
}

static enum status hcl_read_value(struct hcl_reader *r, struct text_value *v)
{
    uint8_t c = peek(r, 0);
    if (next_is(r, '"')) {
        v->kind = TEXT_STRING;
        return hcl_read_string(r, &v->text);
    }
    if (c == '<' && peek(r, 1) == '<') {
        r->at += 2;
        v->kind = TEXT_STRING;
        return hcl_read_heredoc(r, &v->text);
    }
    if (next_is(r, '[') || next_is(r, '{')) {
        v->kind = c == '[' ? TEXT_LIST : TEXT_OBJECT;
        return hcl_read_nested(r, v);
    }
    return c == '-' || is_digit(c) ? hcl_read_number(r, v) : hcl_read_word(r, v);
}

/* Read a name or a block's label. */
static enum status hcl_read_key(struct hcl_reader *r, struct bytes *ret_key)
{
    if (next_is(r, '"'))
        return hcl_read_string(r, ret_key);
    if (!is_ident_head(peek(r, 0)))
        return hcl_refuse(r, "a name is expected");
    struct bytes ident = take_ident(r);
    ret_key->data = (uint8_t *)arena_str(r->arena, ident);
    ret_key->len = ident.len;
    return ret_key->data != NULL ? ST_OK : ST_NOMEM;
}

/* Read a block behind its name: labels, then the body. Each label is a block inside the one before.
 */
static enum status hcl_read_block(struct hcl_reader *r, struct text_value *v)
{
    for (unsigned labels = 0;; labels++) {
        struct bytes label;
        v->kind = TEXT_OBJECT;
        v->block = true;
        if (next_is(r, '{'))
            return hcl_read_nested(r, v);
        if ((peek(r, 0) != '"' && !is_ident_head(peek(r, 0))) || labels == LABELS_MAX)
            return hcl_refuse(r, "'=' or '{' is expected after \"%.*s\"", (int)MIN(v->name.len, 64),
                              v->name.data);
        TRY(hcl_read_key(r, &label));
        TRY(new_value(r, v, label, &v));
        TRY(skip_space(r));
    }
}

static enum status hcl_read_item(struct hcl_reader *r, struct text_value *object)
{
    struct bytes name;
    struct text_value *v;

    TRY(hcl_read_key(r, &name));
    TRY(new_value(r, object, name, &v));
    TRY(skip_space(r));
    if (!next_is(r, '='))
        return hcl_read_block(r, v);
    TRY(skip_space(r));
    return hcl_read_value(r, v);
}

/* Check that a name occurs once, or for blocks only. */
static enum status check_names(struct hcl_reader *r, const struct text_value *object)
{
    const struct text_value *repeated;
    TRY(text_repeated(r->arena, object, &repeated));
    if (repeated == NULL)
        return ST_OK;
    reason_set(r->reason, "line %u: \"%.*s\" is repeated", repeated->line,
               (int)MIN(repeated->name.len, 64), repeated->name.data);
    return ST_INVALID;
}

/* Read items up to '}' (braced) or the end of the text. Commas between items are optional. */
static enum status hcl_read_items(struct hcl_reader *r, struct text_value *object, bool braced)
{
    ASSERT(object->kind == TEXT_OBJECT);
    ASSERT(braced == (r->depth > 0));
    for (;;) {
        TRY(skip_space(r));
        if (r->at == r->end && !braced)
            break;
        if (r->at == r->end)
            return hcl_refuse(r, "the block that began on line %u does not end", object->line);
        if (braced && next_is(r, '}'))
            break;
        TRY(hcl_read_item(r, object));
        TRY(skip_space(r));
        (void)next_is(r, ','); /* the comma is optional */
    }
    return check_names(r, object);
}

/* The text without the byte order mark that some editors write first. */
static struct bytes without_mark(struct bytes text)
{
    static const uint8_t mark[] = {0xEF, 0xBB, 0xBF};
    return bytes_has_prefix(text, bytes_of(mark, sizeof mark)) ? bytes_from(text, sizeof mark)
                                                               : text;
}

enum status text_hcl_parse(struct arena *arena, struct bytes given,
                           const struct text_value **ret_value, struct reason *reason)
{
    struct bytes text = without_mark(given);
    struct hcl_reader r = {.arena = arena,
                           .at = text.data,
                           .end = text.len != 0 ? text.data + text.len : text.data,
                           .reason = reason,
                           .line = 1};
    struct text_value *root;

    if (text.len > TEXT_HCL_BYTES_MAX) {
        reason_set(reason, "longer than %d bytes", TEXT_HCL_BYTES_MAX);
        return ST_TOO_BIG;
    }
    while (next_is(&r, ' ') || next_is(&r, '\t') || next_is(&r, '\r') || next_is(&r, '\n'))
        continue;
    if (peek(&r, 0) == '{')
        return text_json_parse(arena, text, ret_value, reason);
    r.at = text.data;
    TRY(new_value(&r, NULL, (struct bytes){0}, &root));
    root->kind = TEXT_OBJECT;
    TRY(hcl_read_items(&r, root, false));
    ASSERT(r.depth == 0);
    ASSERT(r.at == r.end);
    *ret_value = root;
    return ST_OK;
}
