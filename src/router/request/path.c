#include "router/request/path.h"
#include "base/vector.h"
#include "text/utf8.h"

#include <assert.h>

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
    ASSERT((size_t)(to - begin) <= text.len);
    *ret_len = (size_t)(to - begin);
    return ST_OK;
}

/* Remove, in place, slashes at the front and repeated slashes. */
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

/* Kinds of bytes in a path. A segment that begins with a slash is empty, one that begins with a dot
 * may be "." or "..". */
enum { OPENS_SEGMENT = 1, NOT_FIRST = 2, ODD = 4 };

static const uint8_t byte_kinds[256] = {
    [0 ... ' '] = ODD,     ['%'] = ODD, ['.'] = NOT_FIRST, ['/'] = OPENS_SEGMENT | NOT_FIRST,
    [0x7f ... 0xff] = ODD,
};

/* Whether sixteen bytes have no kind ODD, and no slash before another slash or a dot. */
static bool is_ordinary_part(const uint8_t *at)
{
    const VECTOR_OF(uint8_t) v = vector_at(at), next = vector_at(at + 1), printable = v - '!';
    return vector_is_all((printable <= '~' - '!') & (v != '%') &
                         ((v != '/') | ((next != '/') & (next != '.'))));
}

/* Whether a path has nothing to decode, to collapse or to refuse, as nearly all paths. Runs for
 * every request, so a byte costs one look at the table and no branch. */
static bool is_ordinary(struct bytes raw)
{
    unsigned refused = 0, before = 0;
    static_assert(NOT_FIRST == OPENS_SEGMENT << 1, "the kind before shows what is refused");
    if (raw.len == 0 || raw.data[0] != '/')
        return false;
    if (raw.len > VECTOR_BYTES)
        return vector_all_fit(bytes_of(raw.data, raw.len - 1), is_ordinary_part) &&
               (byte_kinds[raw.data[raw.len - 1]] & ODD) == 0;
    for (size_t i = 0; i < raw.len; i++) {
        unsigned kind = byte_kinds[raw.data[i]];
        refused |= kind & (ODD | (before & OPENS_SEGMENT) << 1);
        before = kind;
    }
    return refused == 0;
}

/* Decode a path that may have escapes or repeated slashes into `text`, which has room for all of
 * `raw`. Returns why the target is malformed, or NULL. */
static const char *decode_odd(struct bytes raw, uint8_t *text, size_t *ret_len)
{
    size_t len = 0;
    if (percent_decode(raw, false, text, &len) != ST_OK)
        return "the path has a malformed escape";
    len = collapse_slashes(text, len);
    ASSERT(len <= raw.len);
    *ret_len = len;
    bool fits = len <= PATH_BYTES_MAX; /* a path that is too long gets an error about its length */
    if (fits && (!text_printable(bytes_of(text, len)) || has_dots(bytes_of(text, len))))
        return "the path has unprintable characters, or a segment '.' or '..'";
    return NULL;
}

/* Decode what follows the first '/' into `text`, which has room for all of `raw`. Returns why the
 * target is malformed, or NULL. */
static const char *decode(struct bytes raw, uint8_t *text, struct path_target *target,
                          size_t *ret_len)
{
    target->as_sent = is_ordinary(raw);
    if (!target->as_sent)
        return decode_odd(raw, text, ret_len);
    *ret_len = raw.len - 1;
    memcpy(text, raw.data + 1, raw.len - 1);
    return NULL;
}

enum status path_canonical(struct arena *arena, struct bytes raw, struct path_target *ret_target)
{
    static const char too_long[] = "the path is longer than 3000 bytes";
    static_assert(PATH_BYTES_MAX == 3000, "as the text says");
    struct path_target target = {.fault = too_long};
    size_t len = 0;
    if (raw.len <= 3 * PATH_BYTES_MAX) {
        uint8_t *text = arena_alloc(arena, raw.len + 2);
        if (text == NULL)
            return ST_NOMEM;
        text[0] = '/';
        target.fault = decode(raw, text + 1, &target, &len);
        if (target.fault == NULL && len > PATH_BYTES_MAX)
            target.fault = too_long;
        text[1 + len] = 0;
        target.full = bytes_of(text, 1 + len);
    }
    if (target.fault != NULL) {
        target.full = (struct bytes){0};
        target.malformed = bytes_of(raw.data, MIN(raw.len, (size_t)PATH_BYTES_MAX));
        target.malformed.data = arena_dup(arena, target.malformed);
        if (target.malformed.data == NULL)
            return ST_NOMEM;
    }
    *ret_target = target;
    return ST_OK;
}

void path_set_root(struct path_target *target, const char *root)
{
    struct bytes prefix = bytes_str(root);
    ASSERT(prefix.len != 0 && prefix.data[prefix.len - 1] == '/');
    bool below = bytes_has_prefix(target->full, prefix);
    target->path = below ? bytes_from(target->full, prefix.len) : (struct bytes){0};
}

enum status path_folder(struct arena *arena, struct bytes path, struct bytes *ret_folder)
{
    if (path.len != 0 && path.data[path.len - 1] != '/') {
        const char *text = arena_format(arena, "%s/", (const char *)path.data);
        if (text == NULL)
            return ST_NOMEM;
        path = bytes_str(text);
    }
    *ret_folder = path;
    return ST_OK;
}

enum status path_encode(struct arena *arena, const struct path_target *target,
                        struct bytes *ret_raw)
{
    ASSERT(target->fault == NULL);
    if (target->as_sent) {
        *ret_raw = target->full;
        return ST_OK;
    }
    static const char digits[] = "0123456789ABCDEF";
    uint8_t *text = arena_alloc(arena, 3 * target->full.len);
    size_t len = 0;
    if (text == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < target->full.len; i++) {
        uint8_t c = target->full.data[i];
        if (c > ' ' && c < 0x7f && c != '%' && c != '?' && c != '#') {
            text[len++] = c;
            continue;
        }
        text[len++] = '%';
        text[len++] = (uint8_t)digits[c >> 4];
        text[len++] = (uint8_t)digits[c & 15];
    }
    ASSERT(len <= 3 * target->full.len);
    *ret_raw = bytes_of(text, len);
    return ST_OK;
}

enum status path_unescape(struct arena *arena, struct bytes raw, struct bytes *ret_text)
{
    size_t len = 0;
    uint8_t *text = arena_alloc(arena, raw.len + 1);
    if (text == NULL)
        return ST_NOMEM;
    if (percent_decode(raw, true, text, &len) != ST_OK || !text_utf8_valid(bytes_of(text, len)))
        return ST_INVALID;
    ASSERT(len <= raw.len);
    text[len] = 0;
    *ret_text = bytes_of(text, len);
    return ST_OK;
}

static enum status decode_part(struct arena *arena, struct bytes raw, struct bytes *ret_text,
                               struct reason *reason)
{
    enum status st = path_unescape(arena, raw, ret_text);
    if (st == ST_INVALID)
        reason_set(reason, "a parameter is not percent-encoded UTF-8");
    return st;
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
    ASSERT(object->kind == TEXT_OBJECT);
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
