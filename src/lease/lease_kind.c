#include "lease/lease_kind.h"
#include "text/time.h"
#include "text/value.h"

enum { FORMAT = 1, FLAG_RENEWABLE = 1, KIND_NAME_MAX = 31 };

void lease_kinds_add(struct lease_kinds *kinds, const struct lease_kind *kind)
{
    size_t len = strlen(kind->name);
    ASSERT(kinds->n < LEASE_KINDS_MAX && len > 0 && len <= KIND_NAME_MAX);
    for (size_t i = 0; i < kinds->n; i++) {
        ASSERT(strcmp(kinds->items[i]->name, kind->name) != 0);
        ASSERT(!kind->indexed || !kinds->items[i]->indexed);
    }
    ASSERT(!kind->indexed || kind->find != NULL);
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

void lease_record_put(const struct lease *lease, struct buf *out)
{
    ASSERT(!lease->kind->indexed);
    ASSERT(lease->expire_ms < TEXT_EXPIRY_END && lease->issued_ms < TEXT_CLOCK_END);
    buf_add_u8(out, FORMAT);
    buf_add_u8(out, lease->renewable ? FLAG_RENEWABLE : 0);
    put_time(out, lease->issued_ms);
    put_time(out, lease->expire_ms);
    put_time(out, lease->renewed_ms);
    buf_add_block(out, bytes_str(lease->kind->name));
    buf_add(out, lease->data);
}

static int64_t read_time(struct reader *r, int64_t end)
{
    uint64_t ms = reader_varint(r);
    if (ms >= (uint64_t)end)
        r->failed = true;
    return r->failed ? 0 : (int64_t)ms;
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
    struct bytes name = reader_block(&r);
    if (format != FORMAT || (flags & ~FLAG_RENEWABLE) != 0 || name.len == 0)
        r.failed = true;
    lease.data = reader_take(&r, reader_left(&r));
    lease.renewable = (flags & FLAG_RENEWABLE) != 0;
    lease.kind = r.failed ? NULL : lease_kind_of(kinds, name);
    bool known = reader_end(&r) == ST_OK && lease.kind != NULL && !lease.kind->indexed;
    if (!known)
        return ST_CORRUPT;
    *ret_lease = lease;
    return ST_OK;
}
