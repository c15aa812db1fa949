#include "router/req.h"

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
    struct bytes after, limit;
    int64_t n = 0;
    TRY(req_query(req, "after", &after));
    TRY(req_query(req, "limit", &limit));
    if (limit.len != 0 && text_int_parse(limit, &n) != ST_OK)
        return req_fail(req, ST_INVALID, "limit: a whole number is expected");
    *ret_limit = n > 0 ? (size_t)n : SIZE_MAX;
    if (after.len == 0)
        return ST_OK;
    if (after.len > STATE_KEY_MAX - prefix.len - 1)
        return req_fail(req, ST_INVALID, "after: too long");
    return first_behind(req, prefix, after, ret_from);
}

/* The rest of the next key below the prefix. ST_NOT_FOUND: there is none. */
static enum status next_key(struct req *req, struct state_iter *iter, struct bytes *ret_name)
{
    do
        if (!state_iter_next(iter))
            return ST_NOT_FOUND;
    while (iter->key.len == iter->prefix.len);
    struct bytes rest = bytes_from(iter->key, iter->prefix.len);
    *ret_name = bytes_of(arena_dup(req->arena, rest), rest.len);
    return ret_name->data != NULL ? ST_OK : ST_NOMEM;
}

static enum status next_name(struct req *req, struct state_iter *iter, struct bytes *ret_name)
{
    return req->method == METHOD_SCAN ? next_key(req, iter, ret_name)
                                      : state_iter_name(iter, ret_name);
}

/* A scan that was not asked to be short, and is. */
static void say_how_to_go_on(struct req *req, struct state_iter *iter, struct bytes last)
{
    if (state_iter_next(iter))
        req_warn(req, "More than %d keys: the rest is behind the last one (after=%.*s).",
                 REQ_SCAN_MAX, (int)MIN(last.len, (size_t)200), (const char *)last.data);
}

/* Names are written as they are met: there may be many. */
static enum status write_names(struct req *req, struct state_iter *iter, size_t limit)
{
    bool bounded = req->method == METHOD_SCAN && limit > REQ_SCAN_MAX;
    struct text_writer w = {0};
    struct bytes name;
    size_t n = 0;
    enum status st = ST_OK;

    if (bounded)
        limit = REQ_SCAN_MAX;
    while (n < limit && (st = next_name(req, iter, &name)) == ST_OK) {
        if (n++ == 0) {
            w = req_reply_begin(req);
            text_open_object(&w);
            text_key(&w, "keys");
            text_open_list(&w);
        }
        text_put_bytes(&w, name);
    }
    if (n == 0 || (st != ST_OK && st != ST_NOT_FOUND))
        return st;
    text_close(&w);
    text_close(&w);
    if (bounded && n == limit)
        say_how_to_go_on(req, iter, name);
    return req_reply_end(req);
}

enum status req_reply_listing(struct req *req, struct bytes prefix)
{
    struct state_iter *iter = arena_alloc(req->arena, sizeof *iter);
    struct bytes from = {0};
    size_t limit = 0;

    ASSERT(prefix.len > 0 && prefix.data[prefix.len - 1] == '/');
    if (iter == NULL)
        return ST_NOMEM;
    TRY(read_window(req, prefix, &from, &limit));
    ASSERT(limit > 0);
    TRY(state_scan(req->txn, prefix, from, iter));
    return write_names(req, iter, limit);
}
