#include "state/ns_key.h"

static const struct bytes before_ns = {(const uint8_t *)"s/ns/", 5};

enum status state_ns_key(struct arena *arena, const char *ns, const char *kind, struct bytes first,
                         const char *second, struct bytes *ret_key)
{
    const struct bytes parts[] = {
        before_ns,
        bytes_str(ns),
        BYTES("/"),
        bytes_str(kind),
        BYTES("/"),
        first,
        second != NULL ? BYTES("/") : (struct bytes){0},
        second != NULL ? bytes_str(second) : (struct bytes){0},
    };
    size_t len = 0;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        len += parts[i].len;
    uint8_t *key = arena_alloc(arena, len + 1), *to = key;
    if (key == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        if (parts[i].len != 0)
            memcpy(to, parts[i].data, parts[i].len);
        to += parts[i].len;
    }
    *to = 0;
    *ret_key = bytes_of(key, len);
    return ST_OK;
}

enum status state_ns_time_key(struct arena *arena, const char *ns, const char *kind,
                              int64_t time_ms, const char *second, struct bytes *ret_key)
{
    char time[STATE_TIME_DIGITS + 1];
    ASSERT(time_ms > 0 && time_ms < TEXT_EXPIRY_END);
    for (int i = STATE_TIME_DIGITS - 1; i >= 0; i--, time_ms /= 16)
        time[i] = "0123456789abcdef"[time_ms % 16];
    time[STATE_TIME_DIGITS] = '\0';
    return state_ns_key(arena, ns, kind, bytes_str(time), second, ret_key);
}

bool state_ns_holds(struct bytes key, const char *ns)
{
    struct bytes rest = bytes_from(key, MIN(key.len, before_ns.len)), id = bytes_str(ns);
    return bytes_has_prefix(key, before_ns) && bytes_has_prefix(rest, id) && rest.len > id.len &&
           rest.data[id.len] == '/';
}
