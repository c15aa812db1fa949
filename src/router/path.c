#include "router/path.h"
#include "text/utf8.h"

/* Decode into `to`, which has room for all of `text`. ST_INVALID: a malformed escape. */
static enum status percent_decode(struct bytes text, bool plus, uint8_t *to, size_t *ret_len)
{
    const uint8_t *begin = to;
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];
        if (c == '%') {
            unsigned high = text.len - i > 2 ? text_hex_digit(text.data[i + 1]) : 16;
            unsigned low = text.len - i > 2 ? text_hex_digit(text.data[i + 2]) : 16;
            if (high > 15 || low > 15)
                return ST_INVALID;
            c = (uint8_t)(high << 4 | low);
            i += 2;
        } else if (plus && c == '+') {
            c = ' ';
        }
        *to++ = c;
    }
    *ret_len = (size_t)(to - begin);
    return ST_OK;
}

/* In place: one slash where there were several, none at the front. */
static size_t collapse_slashes(uint8_t *text, size_t len)
{
    size_t to = 0;
    for (size_t i = 0; i < len; i++)
        if (text[i] != '/' || (to > 0 && text[to - 1] != '/'))
            text[to++] = text[i];
    return to;
}

/* Whether a segment is "." or "..", which clients and proxies resolve in different ways. */
static bool has_dots(struct bytes path)
{
    for (size_t at = 0; at < path.len;) {
        const uint8_t *slash = memchr(path.data + at, '/', path.len - at);
        size_t end = slash != NULL ? (size_t)(slash - path.data) : path.len;
        struct bytes segment = bytes_of(path.data + at, end - at);
        if (text_is(segment, ".") || text_is(segment, ".."))
            return true;
        at = end + 1;
    }
    return false;
}

/* Nothing to decode, to collapse or to refuse: so are nearly all. */
static bool is_ordinary(struct bytes raw)
{
    if (raw.len == 0 || raw.data[0] != '/')
        return false;
    bool begins = false; /* a segment */
    for (size_t i = 0; i < raw.len; i++) {
        uint8_t c = raw.data[i];
        if (c <= ' ' || c >= 0x7f || c == '%' || (begins && (c == '/' || c == '.')))
            return false;
        begins = c == '/';
    }
    return true;
}

/* Into `text`, which has room for all of `raw`. */
static enum status decode_odd(struct bytes raw, uint8_t *text, size_t *ret_len,
                              struct reason *reason)
{
    size_t len = 0;
    if (percent_decode(raw, false, text, &len) != ST_OK) {
        reason_set(reason, "the path has a malformed escape");
        return ST_INVALID;
    }
    len = collapse_slashes(text, len);
    if (len <= PATH_BYTES_MAX &&
        (!text_printable(bytes_of(text, len)) || has_dots(bytes_of(text, len)))) {
        reason_set(reason, "the path holds characters that do not show, or '.' or '..'");
        return ST_INVALID;
    }
    *ret_len = len;
    return ST_OK;
}

enum status path_decode(struct arena *arena, struct bytes raw, struct bytes *ret_path,
                        struct reason *reason)
{
    size_t len = 0;
    if (raw.len > 3 * PATH_BYTES_MAX) {
        reason_set(reason, "the path is longer than %d bytes", PATH_BYTES_MAX);
        return ST_INVALID;
    }
    uint8_t *text = arena_alloc(arena, raw.len + 1);
    if (text == NULL)
        return ST_NOMEM;
    if (is_ordinary(raw)) {
        len = raw.len - 1;
        memcpy(text, raw.data + 1, len);
    } else {
        TRY(decode_odd(raw, text, &len, reason));
    }
    text[len] = 0;
    if (len > PATH_BYTES_MAX) {
        reason_set(reason, "the path is longer than %d bytes", PATH_BYTES_MAX);
        return ST_INVALID;
    }
    if (!bytes_has_prefix(bytes_of(text, len), BYTES("v1/")))
        return ST_NOT_FOUND;
    *ret_path = bytes_of(text + 3, len - 3);
    return ST_OK;
}

/* Decoded and zero-terminated, in the arena. */
static enum status decode_part(struct arena *arena, struct bytes raw, struct bytes *ret_text,
                               struct reason *reason)
{
    size_t len = 0;
    uint8_t *text = arena_alloc(arena, raw.len + 1);
    if (text == NULL)
        return ST_NOMEM;
    if (percent_decode(raw, true, text, &len) != ST_OK || !text_utf8_valid(bytes_of(text, len))) {
        reason_set(reason, "a parameter is not percent-encoded UTF-8");
        return ST_INVALID;
    }
    text[len] = 0;
    *ret_text = bytes_of(text, len);
    return ST_OK;
}

static struct text_value *find_member(struct text_value *object, struct bytes name)
{
    for (struct text_value *v = object->first; v != NULL; v = v->next)
        if (bytes_eq(v->name, name))
            return v;
    return NULL;
}

/* The first value of a name is a string; with the second it becomes a list. */
static enum status add_value(struct arena *arena, struct text_value *object, struct bytes name,
                             struct bytes text)
{
    struct text_value *old = find_member(object, name);
    struct text_value *v;
    if (old != NULL && old->kind == TEXT_STRING) {
        struct bytes first = old->text;
        old->kind = TEXT_LIST;
        old->text = (struct bytes){0};
        v = text_value_new(arena, old, TEXT_STRING, (struct bytes){0});
        if (v == NULL)
            return ST_NOMEM;
        v->text = first;
    }
    v = old != NULL ? text_value_new(arena, old, TEXT_STRING, (struct bytes){0})
                    : text_value_new(arena, object, TEXT_STRING, name);
    if (v == NULL)
        return ST_NOMEM;
    v->text = text;
    return ST_OK;
}

enum status path_parse_pairs(struct arena *arena, struct bytes text, struct text_value **ret_object,
                             struct reason *reason)
{
    struct text_value *object = text_value_new(arena, NULL, TEXT_OBJECT, (struct bytes){0});
    if (object == NULL)
        return ST_NOMEM;
    unsigned pairs = 0;
    for (size_t at = 0; at < text.len;) {
        const uint8_t *mark = memchr(text.data + at, '&', text.len - at);
        size_t end = mark != NULL ? (size_t)(mark - text.data) : text.len;
        struct bytes pair = bytes_of(text.data + at, end - at);
        at = end + 1;
        if (pair.len == 0)
            continue;
        if (++pairs > PATH_PAIRS_MAX) {
            reason_set(reason, "more than %d parameters", PATH_PAIRS_MAX);
            return ST_INVALID;
        }
        const uint8_t *equals = memchr(pair.data, '=', pair.len);
        size_t name_len = equals != NULL ? (size_t)(equals - pair.data) : pair.len;
        struct bytes name, value = bytes_from(pair, MIN(name_len + 1, pair.len));
        TRY(decode_part(arena, bytes_of(pair.data, name_len), &name, reason));
        TRY(decode_part(arena, value, &value, reason));
        TRY(add_value(arena, object, name, value));
    }
    *ret_object = object;
    return ST_OK;
}
