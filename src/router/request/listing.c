#include "base/plant.h"
#include "router/request/req.h"

/* The first key behind the name `after`. If `after` is a folder, the first key behind all keys in
 * the folder. */
static enum status first_behind(struct req *req, struct bytes prefix, struct bytes after,
                                struct bytes *ret_key)
{
    uint8_t *key = arena_alloc(req->arena, prefix.len + after.len + 1);
    if (key == NULL)
        return ST_NOMEM;
    memcpy(key, prefix.data, prefix.len);
    memcpy(key + prefix.len, after.data, after.len);
    size_t len = prefix.len + after.len;
    ASSERT(after.len != 0);
    if (key[len - 1] == '/' || planted(PLANT_LIST_SKIPS))
        key[len - 1]++;
    else
        key[len++] = 0;
    *ret_key = bytes_of(key, len);
    return ST_OK;
}

static enum status read_limit(struct req *req, size_t *ret_limit)
{
    struct bytes limit;
    int64_t n = 0;
    TRY(req_query(req, "limit", &limit));
    if (limit.len != 0 && text_int_parse(limit, &n) != ST_OK)
        return req_fail(req, ST_INVALID, "limit: a whole number is expected");
    *ret_limit = n > 0 ? (size_t)n : SIZE_MAX;
    return ST_OK;
}

enum status req_scan_after(struct req *req, struct bytes prefix, struct state_iter *iter)
{
    struct bytes after, from = {0};
    TRY(req_query(req, "after", &after));
    if (prefix.len + after.len >= STATE_KEY_MAX)
        return req_fail(req, ST_INVALID, "after: too long");
    if (after.len != 0)
        TRY(first_behind(req, prefix, after, &from));
    return state_scan(req->txn, prefix, from, iter);
}

/* The next key without the prefix. ST_NOT_FOUND: there is none. */
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

/* A listing that is being written. Each name is written when it is found, because there may be
 * many. */
struct listing {
    struct state_iter *iter; /* keys with the prefix; NULL: `given` has the names */
    struct req_names *given;
    size_t limit;
    bool cut; /* the default limit may cut the listing: the request set no limit */
    struct text_writer names;
    /* writes the details of a key; NULL: the listing has only names */
    enum status (*put)(struct req *req, struct bytes key, struct text_writer *w);
    struct buf info;
    struct text_writer details;
};

static enum status next_name(struct req *req, struct listing *l, struct bytes *ret_name)
{
    if (l->given != NULL)
        return l->given->next(req, l->given, ret_name);
    return req->method == METHOD_SCAN ? next_key(req, l->iter, ret_name)
                                      : state_iter_name(l->iter, ret_name);
}

/* Memory that the details of one reply may take. */
enum { DETAILS_BYTES_MAX = 32 * 1024 * 1024 };

static void open_listing(struct req *req, struct listing *l)
{
    ASSERT(req->reply.kind == REPLY_NONE);
    l->names = req_reply_begin(req);
    text_open_object(&l->names);
    text_key(&l->names, "keys");
    text_open_list(&l->names);
    if (l->put == NULL)
        return;
    l->details = (struct text_writer){.out = &l->info};
    text_open_object(&l->details);
}

static enum status add_name(struct req *req, struct listing *l, struct bytes name)
{
    text_put_bytes(&l->names, name);
    if (l->put == NULL)
        return ST_OK;
    size_t len = l->iter->prefix.len;
    uint8_t *key = arena_alloc(req->arena, len + name.len);
    if (key == NULL)
        return ST_NOMEM;
    memcpy(key, l->iter->prefix.data, len);
    memcpy(key + len, name.data, name.len);
    text_key_bytes(&l->details, name);
    return l->put(req, bytes_of(key, len + name.len), &l->details);
}

static enum status close_listing(struct req *req, struct listing *l)
{
    text_close(&l->names);
    if (l->put != NULL) {
        text_close(&l->details);
        ASSERT(l->details.depth == 0);
        TRY(buf_status(&l->info));
        text_key(&l->names, "key_info");
        text_put_raw(&l->names, buf_bytes(&l->info));
    }
    text_close(&l->names);
    ASSERT(l->names.depth == 0);
    return req_reply_end(req);
}

static enum status write_names(struct req *req, struct listing *l)
{
    size_t bytes_max = req->arena->bytes + DETAILS_BYTES_MAX, n = 0;
    struct bytes name = {0};
    enum status st = ST_OK;

    while (n < l->limit && (st = next_name(req, l, &name)) == ST_OK) {
        if (n++ == 0)
            open_listing(req, l);
        TRY(add_name(req, l, name));
        if (l->put != NULL && (req->arena->bytes > bytes_max || l->info.len > DETAILS_BYTES_MAX)) {
            l->cut = true;
            l->limit = n;
        }
    }
    if (n == 0 || (st != ST_OK && st != ST_NOT_FOUND))
        return st;
    ASSERT(n <= l->limit);
    if (l->cut && n == l->limit && next_name(req, l, &(struct bytes){0}) == ST_OK)
        req_warn(req, "More than %zu keys: get the rest with after=%.*s.", n,
                 (int)MIN(name.len, (size_t)200), (const char *)name.data);
    return close_listing(req, l);
}

static enum status list(struct req *req, struct bytes prefix, struct listing *l)
{
    size_t most = l->put != NULL               ? REQ_DETAILS_MAX
                  : req->method == METHOD_SCAN ? REQ_SCAN_MAX
                                               : SIZE_MAX;

    ASSERT(prefix.len > 0 && prefix.data[prefix.len - 1] == '/');
    l->iter = arena_alloc(req->arena, sizeof *l->iter);
    if (l->iter == NULL)
        return ST_NOMEM;
    TRY(read_limit(req, &l->limit));
    ASSERT(l->limit > 0);
    l->cut = l->limit > most;
    l->limit = MIN(l->limit, most);
    TRY(req_scan_after(req, prefix, l->iter));
    return write_names(req, l);
}

enum status req_reply_listing(struct req *req, struct bytes prefix)
{
    struct listing l = {0};
    return list(req, prefix, &l);
}

enum status req_reply_names(struct req *req, struct req_names *names)
{
    struct listing l = {.given = names};
    ASSERT(names->next != NULL);
    TRY(read_limit(req, &l.limit));
    return write_names(req, &l);
}

enum status req_reply_details(struct req *req, struct bytes prefix,
                              enum status (*put)(struct req *req, struct bytes key,
                                                 struct text_writer *w))
{
    struct listing l = {.put = put};
    enum status st = list(req, prefix, &l);
    buf_done(&l.info);
    return st;
}
