#include "text/json.h"
#include "text/utf8.h"

#include <stdarg.h>
#include <stdio.h>

struct json_reader {
    struct arena *arena;
    const uint8_t *at, *end;
    struct reason *reason;
    uint32_t line;
    unsigned depth, values;
};

static enum status read_value(struct json_reader *r, struct text_value *parent, struct bytes name,
                              struct text_value **ret_value);

__attribute__((format(printf, 2, 3))) static enum status refuse_json(struct json_reader *r,
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

static void skip_space(struct json_reader *r)
{
    for (; r->at < r->end; r->at++) {
        if (*r->at == '\n')
            r->line++;
        else if (*r->at != ' ' && *r->at != '\t' && *r->at != '\r')
            return;
    }
}

static bool next_is(struct json_reader *r, uint8_t c)
{
    if (r->at == r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

static enum status read_hex4(struct json_reader *r, uint32_t *ret_unit)
{
    uint32_t unit = 0;
    if (r->end - r->at < 4)
        return refuse_json(r, "\\u needs four hex digits");
    for (int i = 0; i < 4; i++) {
        uint32_t digit = text_hex_digit(*r->at++);
        if (digit == 16)
            return refuse_json(r, "\\u needs four hex digits");
        unit = unit << 4 | digit;
    }
    *ret_unit = unit;
    return ST_OK;
}

/* Read the rune behind "\u": one UTF-16 unit, or the two units of a surrogate pair. */
static enum status read_rune(struct json_reader *r, uint32_t *ret_rune)
{
    uint32_t high, low;
    TRY(read_hex4(r, &high));
    if (high < 0xd800 || high > 0xdfff) {
        *ret_rune = high;
        return ST_OK;
    }
    if (high > 0xdbff || !next_is(r, '\\') || !next_is(r, 'u'))
        return refuse_json(r, "half of a surrogate pair in a string");
    TRY(read_hex4(r, &low));
    if (low < 0xdc00 || low > 0xdfff)
        return refuse_json(r, "half of a surrogate pair in a string");
    *ret_rune = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
    ASSERT(*ret_rune <= 0x10ffff);
    return ST_OK;
}

/* Read the escape behind a backslash and append its character at *to. */
static enum status read_escape(struct json_reader *r, uint8_t **to)
{
    static const char from[] = "\"\\/bfnrt", gives[] = "\"\\/\b\f\n\r\t";
    uint32_t rune = 0;
    uint8_t c = r->at < r->end ? *r->at++ : 0;
    if (c == 'u') {
        TRY(read_rune(r, &rune));
        *to += text_utf8_put(rune, *to);
        return ST_OK;
    }
    const char *found = c != 0 ? strchr(from, c) : NULL;
    if (found == NULL)
        return refuse_json(r, "unknown escape in a string");
    *(*to)++ = (uint8_t)gives[found - from];
    return ST_OK;
}

/* The closing quote of the string that begins at r->at; NULL: there is none. */
static const uint8_t *string_end(const struct json_reader *r)
{
    for (const uint8_t *p = r->at; p < r->end; p++) {
        if (*p == '"')
            return p;
        if (*p == '\\' && ++p == r->end)
            return NULL;
    }
    return NULL;
}

/* Copy the text up to `close` and replace the escapes. The text of an escape is never longer than
 * the escape. */
static enum status copy_string(struct json_reader *r, const uint8_t *close, uint8_t *to,
                               size_t *ret_len)
{
    const uint8_t *from = to;
    ASSERT(r->at <= close && close <= r->end);
    while (r->at < close) {
        uint8_t c = *r->at++;
        if (c == '\\')
            TRY(read_escape(r, &to));
        else if (c < 0x20)
            return refuse_json(r, "control character in a string");
        else
            *to++ = c;
    }
    *ret_len = (size_t)(to - from);
    return ST_OK;
}

enum status text_json_unescape(struct bytes inside, uint8_t *to, size_t *ret_len)
{
    struct json_reader r = {.at = inside.data, .end = inside.data + inside.len};
    return copy_string(&r, r.end, to, ret_len);
}

/* Read a string behind its opening quote. The text of an escape is never longer than the escape, so
 * the distance to the closing quote bounds the string. */
static enum status read_string(struct json_reader *r, struct bytes *ret_text)
{
    const uint8_t *from = r->at, *close = string_end(r);
    if (close == NULL)
        return refuse_json(r, "a string does not end");
    size_t len;
    uint8_t *text = arena_alloc(r->arena, (size_t)(close - r->at) + 1);
    if (text == NULL)
        return ST_NOMEM;
    TRY(copy_string(r, close, text, &len));
    ASSERT(r->at == close);
    ASSERT(len <= (size_t)(close - from)); /* an escape is never shorter than its text */
    r->at++;
    text[len] = 0;
    *ret_text = bytes_of(text, len);
    return text_utf8_valid(*ret_text) ? ST_OK : refuse_json(r, "a string is not valid UTF-8");
}

static bool skip_digits(struct json_reader *r)
{
    const uint8_t *from = r->at;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9')
        r->at++;
    return r->at != from;
}

static enum status read_number(struct json_reader *r, struct text_value *v)
{
    const uint8_t *from = r->at;
    (void)next_is(r, '-'); /* the sign is optional */
    bool fine = next_is(r, '0') || skip_digits(r);
    if (fine && next_is(r, '.'))
        fine = skip_digits(r);
    if (fine && (next_is(r, 'e') || next_is(r, 'E'))) {
        if (!next_is(r, '+'))
            (void)next_is(r, '-'); /* the sign is optional */
        fine = skip_digits(r);
    }
    if (!fine)
        return refuse_json(r, "malformed number");
    v->kind = TEXT_NUMBER;
    v->text.len = (size_t)(r->at - from);
    v->text.data = (uint8_t *)arena_str(r->arena, bytes_of(from, v->text.len));
    return v->text.data != NULL ? ST_OK : ST_NOMEM;
}

static enum status read_keyword(struct json_reader *r, struct text_value *v)
{
    static const struct {
        const char *word;
        enum text_kind kind;
        bool truth;
    } words[] = {
        {"true", TEXT_BOOL, true}, {"false", TEXT_BOOL, false}, {"null", TEXT_NULL, false}};

    struct bytes rest = bytes_of(r->at, (size_t)(r->end - r->at));
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (!bytes_has_prefix(rest, bytes_str(words[i].word)))
            continue;
        v->kind = words[i].kind;
        v->truth = words[i].truth;
        r->at += strlen(words[i].word);
        return ST_OK;
    }
    return r->at == r->end ? refuse_json(r, "the text ends where a value is expected")
                           : refuse_json(r, "a value is expected");
}

static enum status read_member(struct json_reader *r, struct text_value *object)
{
    struct bytes name;
    struct text_value *v;
    skip_space(r);
    if (!next_is(r, '"'))
        return refuse_json(r, "a quoted name is expected");
    TRY(read_string(r, &name));
    skip_space(r);
    if (!next_is(r, ':'))
        return refuse_json(r, "':' is expected after a name");
    return read_value(r, object, name, &v);
}

/* Read the members of an object or the items of a list, behind the opening bracket. */
static enum status read_members(struct json_reader *r, struct text_value *v)
{
    const struct text_value *repeated = NULL;
    uint8_t close = v->kind == TEXT_OBJECT ? '}' : ']';
    struct text_value *item;

    ASSERT(v->kind == TEXT_OBJECT || v->kind == TEXT_LIST);
    if (++r->depth > TEXT_JSON_DEPTH_MAX)
        return refuse_json(r, "nested deeper than %d levels", TEXT_JSON_DEPTH_MAX);
    skip_space(r);
    if (!next_is(r, close)) {
        do
            TRY(v->kind == TEXT_OBJECT ? read_member(r, v)
                                       : read_value(r, v, (struct bytes){0}, &item));
        while (next_is(r, ','));
        if (!next_is(r, close))
            return refuse_json(r, "',' or '%c' is expected", close);
    }
    r->depth--;
    if (v->kind == TEXT_OBJECT)
        TRY(text_repeated(r->arena, v, &repeated));
    return repeated == NULL ? ST_OK
                            : refuse_json(r, "the name \"%.*s\" is repeated",
                                          (int)MIN(repeated->name.len, 64), repeated->name.data);
}

static enum status read_value(struct json_reader *r, struct text_value *parent, struct bytes name,
                              struct text_value **ret_value)
{
    skip_space(r);
    if (++r->values > TEXT_JSON_VALUES_MAX) {
        reason_set(r->reason, "line %u: more than %d values", r->line, TEXT_JSON_VALUES_MAX);
        return ST_TOO_BIG;
    }
    struct text_value *v = text_value_new(r->arena, parent, TEXT_NULL, name);
    if (v == NULL)
        return ST_NOMEM;
    v->line = r->line;
    ASSERT((parent != NULL) == (r->depth > 0));
    uint8_t c = r->at < r->end ? *r->at : 0;
    if (c == '{' || c == '[') {
        r->at++;
        v->kind = c == '{' ? TEXT_OBJECT : TEXT_LIST;
        TRY(read_members(r, v));
    } else if (c == '"') {
        r->at++;
        v->kind = TEXT_STRING;
        TRY(read_string(r, &v->text));
    } else {
        TRY(c == '-' || (c >= '0' && c <= '9') ? read_number(r, v) : read_keyword(r, v));
    }
    skip_space(r);
    *ret_value = v;
    return ST_OK;
}

enum status text_json_parse(struct arena *arena, struct bytes text,
                            const struct text_value **ret_value, struct reason *reason)
{
    struct json_reader r = {
        .arena = arena, .at = text.data, .end = text.data + text.len, .reason = reason, .line = 1};
    struct text_value *v;

    TRY(read_value(&r, NULL, (struct bytes){0}, &v));
    if (r.at != r.end)
        return refuse_json(&r, "more text follows the value");
    ASSERT(r.depth == 0);
    *ret_value = v;
    return ST_OK;
}
