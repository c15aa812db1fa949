#include "cluster/membership/certificate/authority.h"
#include "text/time.h"

enum { AUTHORITY_FORMAT = 1, JOIN_FORMAT = 1, ROTATE_FORMAT = 1 };

enum status authority_encode(const struct cert_pair *pair, struct buf *out)
{
    buf_add_u8(out, AUTHORITY_FORMAT);
    buf_add_block(out, buf_bytes(&pair->cert));
    buf_add_block(out, buf_bytes(&pair->key));
    return buf_status(out);
}

enum status authority_decode(struct bytes record, struct cert_pair *ret_pair)
{
    CLEANUP(cert_pair_done) struct cert_pair pair = {0};
    struct reader r = reader_of(record);
    ASSERT(ret_pair->cert.len == 0);
    ASSERT(ret_pair->key.len == 0);
    uint8_t format = reader_u8(&r);
    struct bytes cert = reader_block(&r), key = reader_block(&r);
    if (reader_end(&r) != ST_OK || format != AUTHORITY_FORMAT)
        return ST_CORRUPT;
    buf_add(&pair.cert, cert);
    buf_add(&pair.key, key);
    TRY(buf_status(&pair.cert));
    TRY(buf_status(&pair.key));
    *ret_pair = pair;
    pair = (struct cert_pair){0};
    return ST_OK;
}

enum status join_record_encode(const struct join_record *record, struct buf *out)
{
    ASSERT(record->expires_ms >= 0);
    ASSERT(record->expires_ms < TEXT_EXPIRY_END);
    buf_add_u8(out, JOIN_FORMAT);
    buf_add_u64(out, (uint64_t)record->expires_ms);
    buf_add_block(out, bytes_str(record->node));
    buf_add_u8(out, record->used);
    buf_add_block(out, bytes_str(record->used_by));
    buf_add(out, bytes_of(record->key_mac, sizeof record->key_mac));
    return buf_status(out);
}

static bool take_name(struct bytes from, char to[AUTHORITY_NAME_MAX])
{
    if (from.len >= AUTHORITY_NAME_MAX || (from.len != 0 && memchr(from.data, 0, from.len) != NULL))
        return false;
    if (from.len != 0)
        memcpy(to, from.data, from.len);
    to[from.len] = '\0';
    return true;
}

enum status join_record_decode(struct bytes stored, struct join_record *ret_record)
{
    struct join_record record = {0};
    struct reader r = reader_of(stored);
    uint8_t format = reader_u8(&r);
    record.expires_ms = (int64_t)reader_u64(&r);
    struct bytes node = reader_block(&r);
    uint8_t used = reader_u8(&r);
    struct bytes used_by = reader_block(&r), key = reader_take(&r, sizeof record.key_mac);
    if (reader_end(&r) != ST_OK || format != JOIN_FORMAT || used > 1 || record.expires_ms < 0 ||
        record.expires_ms >= TEXT_EXPIRY_END || !take_name(node, record.node) ||
        !take_name(used_by, record.used_by))
        return ST_CORRUPT;
    record.used = used == 1;
    ASSERT(key.len == sizeof record.key_mac);
    memcpy(record.key_mac, key.data, key.len);
    *ret_record = record;
    return ST_OK;
}

enum status authority_rotate_encode(int64_t since_s, struct buf *out)
{
    ASSERT(since_s >= 0);
    buf_add_u8(out, ROTATE_FORMAT);
    buf_add_u64(out, (uint64_t)since_s);
    return buf_status(out);
}

enum status authority_rotate_decode(struct bytes stored, int64_t *ret_since_s)
{
    struct reader r = reader_of(stored);
    uint8_t format = reader_u8(&r);
    uint64_t since_s = reader_u64(&r);
    if (reader_end(&r) != ST_OK || format != ROTATE_FORMAT ||
        since_s >= (uint64_t)TEXT_CLOCK_END / 1000)
        return ST_CORRUPT;
    *ret_since_s = (int64_t)since_s;
    return ST_OK;
}
