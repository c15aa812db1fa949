#include "auth/token_record.h"

enum {
    FORMAT = 1,
    FORMAT_KIND = 2,
    FLAG_RENEWABLE = 1,
    FLAG_BATCH = 2,
    FLAG_BOUND = 4,
    FLAG_KEEPS = 8,
    FLAG_DERIVED = 16,
    FLAGS = 31
};

const char *token_kind_name(enum token_kind kind)
{
    static const char *const names[TOKEN_KINDS] = {
        [TOKEN_SECRETS] = "secrets",
        [TOKEN_REGISTRY] = "registry",
        [TOKEN_SCHEDULER] = "scheduler",
        [TOKEN_PLATFORM] = "platform",
    };
    ASSERT((unsigned)kind < TOKEN_KINDS);
    return names[kind];
}

bool auth_token_is_batch(const struct auth_token *token)
{
    return strcmp(token->type, AUTH_TYPE_BATCH) == 0;
}

int64_t auth_token_granted_s(const struct auth_token *token)
{
    /* Another leader's cluster time may have been before the creation: count from the later one. */
    int64_t from_ms = MAX(token->created_ms, token->renewed_ms);
    return token->expire_ms == 0 ? 0 : MAX(token->expire_ms - from_ms, INT64_C(0)) / 1000;
}

static void put_number(struct buf *out, int64_t n)
{
    ASSERT(n >= 0);
    buf_add_varint(out, (uint64_t)n);
}

static void put_texts(struct buf *out, const struct field_strings *texts)
{
    buf_add_varint(out, texts->n);
    for (size_t i = 0; i < texts->n; i++)
        buf_add_text(out, texts->items[i]);
}

static void put_kind(const struct auth_token *t, struct buf *out)
{
    ASSERT(t->kind < TOKEN_KINDS);
    ASSERT(t->parent[0] == '\0' && t->num_uses == 0 && !t->keeps);
    buf_add_u8(out, FORMAT_KIND);
    buf_add_u8(out, (uint8_t)t->kind);
    put_number(out, t->expire_ms);
    put_number(out, t->created_ms);
    buf_add_text(out, t->accessor);
    put_texts(out, &t->policies);
    buf_add_block(out, t->part);
}

void token_record_put(const struct auth_token *t, struct buf *out)
{
    if (t->kind != TOKEN_SECRETS) {
        put_kind(t, out);
        return;
    }
    buf_add_u8(out, FORMAT);
    buf_add_u8(out, (uint8_t)((t->renewable ? FLAG_RENEWABLE : 0) |
                              (auth_token_is_batch(t) ? FLAG_BATCH : 0) |
                              (t->bound_cidrs.n != 0 ? FLAG_BOUND : 0) |
                              (t->keeps ? FLAG_KEEPS : 0) | (t->derived ? FLAG_DERIVED : 0)));
    put_number(out, t->expire_ms);
    buf_add_text(out, t->parent);
    buf_add_varint(out, t->depth);
    put_number(out, t->created_ms);
    put_number(out, t->renewed_ms);
    put_number(out, t->creation_ttl_s);
    put_number(out, t->explicit_max_ttl_s);
    put_number(out, t->period_s);
    put_number(out, t->num_uses);
    buf_add_text(out, t->accessor);
    buf_add_text(out, t->display_name);
    buf_add_text(out, t->path);
    buf_add_text(out, t->role);
    buf_add_text(out, t->entity_id);
    put_texts(out, &t->policies);
    buf_add_varint(out, t->meta.n);
    for (size_t i = 0; i < 2 * t->meta.n; i++)
        buf_add_text(out, t->meta.pairs[i]);
    if (t->bound_cidrs.n != 0)
        buf_add_varint(out, t->bound_cidrs.n);
    for (size_t i = 0; i < t->bound_cidrs.n; i++)
        buf_add_text(out, t->bound_cidrs.items[i]);
}

static int64_t read_number(struct reader *r)
{
    uint64_t n = reader_varint(r);
    if (n > INT64_MAX)
        r->failed = true;
    return n > INT64_MAX ? 0 : (int64_t)n;
}

/* Read a number below `end`. */
static int64_t read_below(struct reader *r, int64_t end)
{
    int64_t n = read_number(r);
    if (n >= end)
        r->failed = true;
    return n;
}

static int64_t read_seconds(struct reader *r)
{
    return read_below(r, TEXT_DURATION_MAX_S + 1);
}

/* The fast path for a text in a block of less than 128 bytes, as most texts are: a token may have
 * hundreds of policies, and every request with the token reads them. NULL: use reader_text. */
static const char *read_short(struct reader *r)
{
    size_t left = reader_left(r), len = left != 0 ? r->at[0] : 0;
    if (len == 0 || len >= 128 || len >= left || memchr(r->at + 1, 0, len) != r->at + len)
        return NULL;
    const uint8_t *text = r->at + 1;
    r->at = text + len;
    ASSERT(r->at <= r->end);
    return (const char *)text;
}

/* Read a count n, then n groups of `each` texts. */
static enum status read_texts(struct reader *r, struct arena *arena, size_t each,
                              const char *const **ret_items, size_t *ret_n)
{
    uint64_t n = reader_varint(r);
    if (r->failed || n > reader_left(r)) { /* every text takes at least two bytes */
        r->failed = true;
        return ST_OK; /* the caller learns of the failure from reader_end */
    }
    const char **items = arena_alloc(arena, (size_t)n * each * sizeof *items + 1);
    if (items == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < n * each; i++)
        if ((items[i] = read_short(r)) == NULL)
            items[i] = reader_text(r);
    *ret_items = items;
    *ret_n = (size_t)n;
    return ST_OK;
}

static uint8_t read_head(struct reader *r, int64_t *ret_expire_ms, const char **ret_parent)
{
    uint8_t format = reader_u8(r), flags = reader_u8(r);
    if (format != FORMAT || (flags & ~FLAGS) != 0)
        r->failed = true;
    *ret_expire_ms = read_below(r, TEXT_EXPIRY_END);
    *ret_parent = reader_text(r);
    return flags;
}

struct auth_token auth_token_of_kind(enum token_kind kind)
{
    ASSERT(kind != TOKEN_SECRETS);
    return (struct auth_token){
        .kind = kind,
        .id = "",
        .parent = "",
        .accessor = "",
        .display_name = "",
        .path = "",
        .type = token_kind_name(kind),
        .role = "",
        .entity_id = "",
        .policies = {.given = true},
        .meta = {.given = true},
        .bound_cidrs = {.given = true},
        .orphan = true,
    };
}

/* Read the policies, as a list and as they are encoded. */
static enum status read_policies(struct reader *r, struct arena *arena, struct auth_token *t)
{
    const uint8_t *from = r->at;
    TRY(read_texts(r, arena, 1, &t->policies.items, &t->policies.n));
    t->policies_text = bytes_of(from, (size_t)(r->at - from));
    /* hash once here, instead of once for each request that finds the token in the cache */
    t->policies_hash = bytes_hash(t->policies_text);
    return ST_OK;
}

static enum status read_kind(struct bytes record, struct arena *arena, struct auth_token *ret_token)
{
    struct reader r = reader_of(record);
    uint8_t format = reader_u8(&r), kind = reader_u8(&r);
    ASSERT(format == FORMAT_KIND);
    if (kind == TOKEN_SECRETS || kind >= TOKEN_KINDS)
        return ST_CORRUPT;
    struct auth_token t = auth_token_of_kind((enum token_kind)kind);
    t.expire_ms = read_below(&r, TEXT_EXPIRY_END);
    t.created_ms = read_below(&r, TEXT_CLOCK_END);
    t.accessor = reader_text(&r);
    TRY(read_policies(&r, arena, &t));
    t.part = reader_block(&r);
    if (reader_end(&r) != ST_OK)
        return ST_CORRUPT;
    *ret_token = t;
    return ST_OK;
}

enum status token_record_read(struct bytes record, struct arena *arena,
                              struct auth_token *ret_token)
{
    if (record.len != 0 && record.data[0] == FORMAT_KIND)
        return read_kind(record, arena, ret_token);
    struct reader r = reader_of(record);
    struct auth_token t = {.id = ""};

    uint8_t flags = read_head(&r, &t.expire_ms, &t.parent);
    t.renewable = (flags & FLAG_RENEWABLE) != 0;
    t.type = (flags & FLAG_BATCH) != 0 ? AUTH_TYPE_BATCH : AUTH_TYPE_SERVICE;
    t.keeps = (flags & FLAG_KEEPS) != 0;
    t.derived = (flags & FLAG_DERIVED) != 0;
    uint64_t depth = reader_varint(&r);
    t.depth = (unsigned)depth;
    t.created_ms = read_below(&r, TEXT_CLOCK_END);
    t.renewed_ms = read_below(&r, TEXT_CLOCK_END);
    t.creation_ttl_s = read_seconds(&r);
    t.explicit_max_ttl_s = read_seconds(&r);
    t.period_s = read_seconds(&r);
    t.num_uses = read_number(&r);
    t.accessor = reader_text(&r);
    t.display_name = reader_text(&r);
    t.path = reader_text(&r);
    t.role = reader_text(&r);
    t.entity_id = reader_text(&r);
    TRY(read_policies(&r, arena, &t));
    TRY(read_texts(&r, arena, 2, &t.meta.pairs, &t.meta.n));
    if ((flags & FLAG_BOUND) != 0) {
        TRY(read_texts(&r, arena, 1, &t.bound_cidrs.items, &t.bound_cidrs.n));
        /* an empty list has another encoding: each token has one form */
        r.failed = r.failed || t.bound_cidrs.n == 0;
    }
    if (reader_end(&r) != ST_OK || depth > AUTH_TOKEN_DEPTH_MAX)
        return ST_CORRUPT;
    /* as long as the number of names, or longer; acl_cache relies on it */
    ASSERT(t.policies_text.len != 0);
    t.policies.given = t.meta.given = t.bound_cidrs.given = true;
    t.orphan = t.parent[0] == '\0';
    t.limited = t.num_uses != 0;
    *ret_token = t;
    return ST_OK;
}
