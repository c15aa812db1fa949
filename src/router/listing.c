#include "router/req.h"

struct names {
    struct req *req;
    const char **items;
    size_t n;
};

static enum status push(struct names *names, struct bytes name)
{
    struct arena *arena = names->req->arena;
    if ((names->n & (names->n - 1)) == 0 && (names->n == 0 || names->n >= 16)) {
        size_t room = MAX(2 * names->n, (size_t)16); /* full at every power of two */
        const char **more = arena_alloc(arena, room * sizeof *more);
        if (more == NULL)
            return ST_NOMEM;
        if (names->n != 0)
            memcpy(more, names->items, names->n * sizeof *more);
        names->items = more;
    }
    names->items[names->n] = arena_str(arena, name);
    return names->items[names->n++] != NULL ? ST_OK : ST_NOMEM;
}

/* The first key behind the name `after`: behind all that is in it, if that is a folder. */
static enum status first_behind(struct req *req, struct bytes prefix, struct bytes after,
                                struct bytes *ret_key)
{
    uint8_t *key = arena_alloc(req->arena, prefix.len + after.len + 1);
    if (key == NULL)
        return ST_NOMEM;
    memcpy(key, prefix.data, prefix.len);
    memcpy(key + prefix.len, after.data, after.len);
    size_t len = prefix.len + after.len;
    if (key[len - 1] == '/')
        key[len - 1]++;
    else
        key[len++] = 0;
    *ret_key = bytes_of(key, len);
    return ST_OK;
}

static enum status read_window(struct req *req, struct bytes prefix, struct bytes *ret_from,
                               size_t *ret_limit)
{
    const struct text_value *after = req_query(req, "after"), *limit = req_query(req, "limit");
    int64_t n = 0;
    if (limit != NULL && limit->text.len != 0 && text_int_parse(limit->text, &n) != ST_OK)
        return req_fail(req, ST_INVALID, "limit: a whole number is expected");
    *ret_limit = n > 0 ? (size_t)n : SIZE_MAX;
    if (after == NULL || after->text.len == 0)
        return ST_OK;
    if (after->text.len > STATE_KEY_MAX - prefix.len - 1)
        return req_fail(req, ST_INVALID, "after: too long");
    return first_behind(req, prefix, after->text, ret_from);
}

enum status req_reply_listing(struct req *req, struct bytes prefix)
{
    struct state_iter *iter = arena_alloc(req->arena, sizeof *iter);
    struct names names = {.req = req};
    struct bytes from = {0}, name;
    size_t limit = 0;
    enum status st = ST_OK;

    ASSERT(prefix.len > 0 && prefix.data[prefix.len - 1] == '/');
    if (iter == NULL)
        return ST_NOMEM;
    TRY(read_window(req, prefix, &from, &limit));
    TRY(state_scan(req->txn, prefix, from, iter));
    while (names.n < limit && (st = state_iter_name(iter, &name)) == ST_OK)
        TRY(push(&names, name));
    return st == ST_OK || st == ST_NOT_FOUND ? req_reply_keys(req, names.items, names.n) : st;
}
