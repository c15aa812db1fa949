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

/* Names are written as they are met: there may be many. */
static enum status write_names(struct req *req, struct state_iter *iter, size_t limit)
{
    struct text_writer w = {0};
    struct bytes name;
    size_t n = 0;
    enum status st = ST_OK;

    while (n < limit && (st = state_iter_name(iter, &name)) == ST_OK) {
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
