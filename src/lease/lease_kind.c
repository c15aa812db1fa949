#include "lease/lease_kind.h"
#include "text/time.h"
#include "text/value.h"

enum { FORMAT = 1, FLAG_RENEWABLE = 1, FLAG_TOKEN = 2, FLAG_LIMIT = 4, FLAGS = 7 };
enum { KIND_NAME_MAX = 31 };

void lease_kinds_add(struct lease_kinds *kinds, const struct lease_kind *kind)
{
    size_t len = strlen(kind->name);
    ASSERT(kinds->n < LEASE_KINDS_MAX && len > 0 && len <= KIND_NAME_MAX);
    for (size_t i = 0; i < kinds->n; i++) {
        ASSERT(strcmp(kinds->items[i]->name, kind->name) != 0);
        ASSERT(!kind->indexed || !kinds->items[i]->indexed);
    }
    ASSERT(!kind->indexed || kind->find != NULL);
    ASSERT(kind->check_token == NULL || kinds->tokens == NULL);
    ASSERT((kind->keep_token != NULL) == (kind->check_token != NULL));
    if (kind->check_token != NULL)
        kinds->tokens = kind;
    kinds->items[kinds->n++] = kind;
}

const struct lease_kind *lease_kind_of(const struct lease_kinds *kinds, struct bytes name)
{
    for (size_t i = 0; i < kinds->n; i++)
        if (name.len == 0 ? kinds->items[i]->indexed : text_is(name, kinds->items[i]->name))
            return kinds->items[i];
    return NULL;
}

static void put_time(struct buf *out, int64_t ms)
{
    ASSERT(ms >= 0);
    buf_add_varint(out, (uint64_t)ms);
}

static bool within_limit(const struct lease *lease)
{
    return lease->limit_ms == 0 || (lease->expire_ms != 0 && lease->expire_ms <= lease->limit_ms);
}

void lease_record_put(const struct lease *lease, struct buf *out)
{
    ASSERT(!lease->kind->indexed && lease->data.len <= LEASE_DATA_MAX);
    ASSERT(lease->expire_ms < TEXT_EXPIRY_END && lease->issued_ms < TEXT_CLOCK_END);
    ASSERT(within_limit(lease));
    bool has_token = lease->token[0] != '\0', has_limit = lease->limit_ms != 0;
    buf_add_u8(out, FORMAT);
    buf_add_u8(out, (uint8_t)((lease->renewable ? FLAG_RENEWABLE : 0) |
                              (has_token ? FLAG_TOKEN : 0) | (has_limit ? FLAG_LIMIT : 0)));
    put_time(out, lease->issued_ms);
    put_time(out, lease->expire_ms);
    put_time(out, lease->renewed_ms);
    if (has_limit)
        put_time(out, lease->limit_ms);
    buf_add_block(out, bytes_str(lease->kind->name));
    if (has_token)
        buf_add_block(out, bytes_of(lease->token, strlen(lease->token) + 1));
    buf_add(out, lease->data);
}

static int64_t read_time(struct reader *r, int64_t end)
{
    uint64_t ms = reader_varint(r);
    if (ms >= (uint64_t)end)
        r->failed = true;
    return r->failed ? 0 : (int64_t)ms;
}

/* The id of a token: a segment of a key, with a zero byte at the end. */
static const char *read_token(struct reader *r)
{
    struct bytes block = reader_block(r);
    size_t len = block.len - 1;
    if (block.len < 2 || len > LEASE_TOKEN_LEN_MAX || block.data[len] != '\0' ||
        memchr(block.data, '\0', len) != NULL || memchr(block.data, '/', len) != NULL) {
        r->failed = true;
        return "";
    }
    return (const char *)block.data;
}

enum status lease_record_read(struct bytes record, const struct lease_kinds *kinds,
                              struct lease *ret_lease)
{
    struct lease lease = *ret_lease;
    struct reader r = reader_of(record);
    uint8_t format = reader_u8(&r), flags = reader_u8(&r);

    lease.issued_ms = read_time(&r, TEXT_CLOCK_END);
    lease.expire_ms = read_time(&r, TEXT_EXPIRY_END);
    lease.renewed_ms = read_time(&r, TEXT_CLOCK_END);
    lease.limit_ms = (flags & FLAG_LIMIT) != 0 ? read_time(&r, TEXT_EXPIRY_END) : 0;
    struct bytes name = reader_block(&r);
    lease.token = (flags & FLAG_TOKEN) != 0 ? read_token(&r) : "";
    if (format != FORMAT || (flags & ~FLAGS) != 0 || name.len == 0 || name.len > KIND_NAME_MAX)
        r.failed = true;
    lease.data = reader_take(&r, reader_left(&r));
    lease.renewable = (flags & FLAG_RENEWABLE) != 0;
    lease.kind = r.failed ? NULL : lease_kind_of(kinds, name);
    if (lease.data.len > LEASE_DATA_MAX || !within_limit(&lease) ||
        (lease.kind != NULL && lease.kind->indexed))
        r.failed = true;
    if (reader_end(&r) != ST_OK)
        return ST_CORRUPT;
    *ret_lease = lease;
    return ST_OK;
}
