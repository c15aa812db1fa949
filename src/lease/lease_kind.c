#include "lease/lease_kind.h"
#include "base/record.h"
#include "text/time.h"
#include "text/value.h"

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

struct lease_bytes {
    struct lease l;
    struct bytes kind;
};

static bool is_possible(const void *from)
{
    const struct lease *l = &((const struct lease_bytes *)from)->l;
    return l->limit_ms == 0 || (l->expire_ms != 0 && l->expire_ms <= l->limit_ms);
}

/* The id of a token is a segment of a key. */
static bool is_segment(struct bytes id)
{
    return memchr(id.data, '/', id.len) == NULL;
}

static const struct record_field lease_fields[] = {
    RECORD_BITS_BYTE,
    RECORD_NAMED("renewable", struct lease_bytes, l.renewable, FLAG, .mask = 1),
    RECORD_NAMED("issued_ms", struct lease_bytes, l.issued_ms, VARINT, .max = TEXT_CLOCK_END - 1),
    RECORD_NAMED("expire_ms", struct lease_bytes, l.expire_ms, VARINT, .max = TEXT_EXPIRY_END - 1,
                 .help = "0: never"),
    RECORD_NAMED("renewed_ms", struct lease_bytes, l.renewed_ms, VARINT, .max = TEXT_CLOCK_END - 1,
                 .help = "0: never"),
    RECORD_NAMED("limit_ms", struct lease_bytes, l.limit_ms, VARINT, .max = TEXT_EXPIRY_END - 1,
                 .mask = 4, .help = "no renewal moves the end beyond this time"),
    RECORD_FIELD(struct lease_bytes, kind, BLOCK, .min = 1, .max = KIND_NAME_MAX),
    RECORD_NAMED("token", struct lease_bytes, l.token, TEXT0, .max = LEASE_TOKEN_LEN_MAX, .mask = 2,
                 .check = is_segment, .help = "id of the token that has the lease"),
    RECORD_NAMED("data", struct lease_bytes, l.data, REST, .max = LEASE_DATA_MAX,
                 .help = "of the kind"),
};
static const struct record lease_record = {RECORD(struct lease_bytes, lease_fields),
                                           .name = "lease/lease", .where = "The index of leases",
                                           .newest = 1, .valid = is_possible};
RECORD_LISTED(lease_record);

void lease_record_put(const struct lease *lease, struct buf *out)
{
    const struct lease_bytes bytes = {*lease, bytes_str(lease->kind->name)};
    ASSERT(!lease->kind->indexed);
    record_encode(&lease_record, &bytes, out);
}

enum status lease_record_read(struct bytes record, const struct lease_kinds *kinds,
                              struct lease *ret_lease)
{
    struct lease_bytes bytes = {.l = *ret_lease};
    TRY(record_decode(&lease_record, record, NULL, &bytes));
    bytes.l.kind = lease_kind_of(kinds, bytes.kind);
    if (bytes.l.kind != NULL && bytes.l.kind->indexed)
        return ST_CORRUPT;
    *ret_lease = bytes.l;
    return ST_OK;
}
