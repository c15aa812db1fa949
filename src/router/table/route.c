#include "router/table/route.h"

#include <stdio.h>

static bool is_word(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c >= 0x80; /* letters of other scripts are allowed: the path is printable UTF-8 */
}

/* Whether a segment has word characters only, and inside also '-' and '.'. */
static bool is_name(struct bytes segment, bool at)
{
    if (segment.len == 0 || !is_word(segment.data[0]) || !is_word(segment.data[segment.len - 1]))
        return false;
    for (size_t i = 0; i < segment.len; i++)
        if (!is_word(segment.data[i]) && segment.data[i] != '-' && segment.data[i] != '.' &&
            (segment.data[i] != '@' || !at))
            return false;
    return true;
}

bool route_is_name(struct bytes segment)
{
    return is_name(segment, false);
}

/* Whether the pattern's segment is ":name@". */
static bool is_wide(struct bytes want)
{
    ASSERT(want.len > 1 && want.data[0] == ':');
    return want.data[want.len - 1] == '@';
}

bool route_takes_name(struct bytes want, struct bytes segment)
{
    return is_name(segment, is_wide(want));
}

static enum status param_add(struct route_params *params, struct arena *arena, struct bytes name,
                             struct bytes value)
{
    if (arena == NULL) /* the caller only asks whether the pattern fits */
        return ST_OK;
    ASSERT(params->n < ROUTE_PARAMS_MAX);
    const char *text = arena_str(arena, value);
    if (text == NULL)
        return ST_NOMEM;
    params->items[params->n].name = name;
    params->items[params->n++].value = text;
    return ST_OK;
}

static struct bytes segment_at(const char *text)
{
    return bytes_of(text, strcspn(text, "/"));
}

static bool ends_segment(char c)
{
    return c == '/' || c == '\0';
}

/* Step over a segment that pattern and path have in common. False: their segments differ. */
static bool skip_literal(const char **pattern, const char **path)
{
    const char *want = *pattern, *have = *path;
    ASSERT(!ends_segment(*want));
    while (*want == *have && !ends_segment(*want))
        want++, have++;
    if (!ends_segment(*want) || !ends_segment(*have))
        return false;
    *pattern = want + (*want == '/');
    *path = have + (*have == '/');
    return true;
}

/* Match "*name/tail": the part before the tail has at least one segment. */
static enum status fit_before(const char *pattern, const char *tail, const char *path,
                              struct arena *arena, struct route_params *ret_params)
{
    size_t len = strlen(path), tail_len = strlen(tail);
    if (len > 0 && path[len - 1] == '/')
        len--;
    if (len <= tail_len || memcmp(path + len - tail_len, tail, tail_len) != 0)
        return ST_NOT_FOUND;
    return param_add(ret_params, arena, bytes_of(pattern + 1, (size_t)(tail - pattern) - 1),
                     bytes_of(path, len - tail_len));
}

enum status route_fit(const char *pattern, const char *path, struct arena *arena,
                      struct route_params *ret_params)
{
    ret_params->n = 0;
    for (;;) {
        bool rest = route_is_rest(pattern);
        if (!rest && *pattern != ':' && *pattern != '\0') {
            if (!skip_literal(&pattern, &path)) /* rules out most rows */
                return ST_NOT_FOUND;
            continue;
        }
        const char *tail = rest ? strchr(pattern, '/') : NULL;
        if (tail != NULL)
            return fit_before(pattern, tail, path, arena, ret_params);
        if (*pattern == '+' && *path == '\0')
            return ST_NOT_FOUND;
        if (rest)
            return param_add(ret_params, arena, bytes_str(pattern + 1), bytes_str(path));
        struct bytes want = segment_at(pattern), have = segment_at(path);
        if (want.len == 0 || have.len == 0)
            return want.len == have.len ? ST_OK : ST_NOT_FOUND;
        if (!route_takes_name(want, have))
            return ST_NOT_FOUND;
        TRY(param_add(ret_params, arena, bytes_of(want.data + 1, want.len - 1 - is_wide(want)),
                      have));
        pattern += want.len + (pattern[want.len] == '/');
        path += have.len + (path[have.len] == '/');
    }
}

bool route_takes(const struct route *route, enum http_method method)
{
    if (route->kind == ROW_ABSENT)
        return method != METHOD_OPTIONS;
    if (method == METHOD_PUT && route->method != METHOD_PUT)
        method = METHOD_POST;
    if (method == METHOD_HEAD && (route->flags & ROUTE_HEAD) != 0)
        method = METHOD_GET;
    if (method == METHOD_SCAN && (route->flags & ROUTE_SCANS) != 0)
        method = METHOD_LIST;
    return route->method == method;
}

unsigned route_methods(const struct route *route)
{
    unsigned methods = 1u << route->method;
    if (route->method == METHOD_POST)
        methods |= 1u << METHOD_PUT;
    if ((route->flags & ROUTE_HEAD) != 0)
        methods |= 1u << METHOD_HEAD;
    if ((route->flags & ROUTE_SCANS) != 0)
        methods |= 1u << METHOD_SCAN;
    return methods;
}

void route_methods_text(unsigned methods, char ret_text[ROUTE_METHODS_TEXT])
{
    size_t at = 0;
    ret_text[0] = '\0';
    for (unsigned m = 0; m < METHODS; m++) {
        if ((methods >> m & 1) == 0)
            continue;
        int n = snprintf(ret_text + at, ROUTE_METHODS_TEXT - at, "%s%s", at > 0 ? ", " : "",
                         http_method_name((enum http_method)m));
        ASSERT(n > 0 && (size_t)n < ROUTE_METHODS_TEXT - at);
        at += (size_t)n;
    }
}

unsigned route_caps(const struct route *route, enum http_method method)
{
    static const unsigned implied[METHODS] = {
        [METHOD_GET] = CAP_READ,    [METHOD_HEAD] = CAP_READ,     [METHOD_LIST] = CAP_LIST,
        [METHOD_SCAN] = CAP_SCAN,   [METHOD_POST] = CAP_UPDATE,   [METHOD_PUT] = CAP_UPDATE,
        [METHOD_PATCH] = CAP_PATCH, [METHOD_DELETE] = CAP_DELETE,
    };
    bool any = method == METHOD_SCAN || route->kind == ROW_ABSENT;
    unsigned caps = route->caps != 0 ? route->caps : implied[any ? method : route->method];
    ASSERT(caps != 0);
    return caps | ((route->flags & ROUTE_SUDO) != 0 ? CAP_SUDO : 0u);
}

bool route_is_of_secondary(const struct route *route)
{
    bool about_node = route->place == PLACE_NODE && route_is_open(route);
    return about_node || route->who == WHO_DR_TOKEN || (route->when & WHEN_SECONDARY) != 0;
}
