/* The records, each with a format byte first:
 *
 *   secondary  format u8, block secret, created u64, expire u64, activated u64, key 32, next key 32
 *   ca         format u8, block certificate, block key
 *   link       format u8, cluster 16, block authority, block certificate, block key
 *   addresses  format u8, n u8, n blocks
 *   root       format u8, block
 *   box        format u8, private key 32
 *   applied    format u8, version u64, time u64
 */
#include "cluster/dr/records.h"

#include "base/mem.h"
#include "text/time.h"

enum { RECORD_FORMAT = 1, SECONDARY_KEY_MAX = sizeof DR_SECONDARY_PREFIX + DR_ID_MAX };

static struct bytes secondary_key(const char *id, char room[SECONDARY_KEY_MAX])
{
    ASSERT(strlen(id) < DR_ID_MAX);
    memcpy(room, DR_SECONDARY_PREFIX, sizeof DR_SECONDARY_PREFIX);
    memcpy(room + sizeof DR_SECONDARY_PREFIX - 1, id, strlen(id) + 1);
    return bytes_str(room);
}

static bool copy_block(struct bytes from, char *to, size_t room)
{
    if (from.len >= room || (from.len != 0 && memchr(from.data, 0, from.len) != NULL))
        return false;
    if (from.len != 0)
        memcpy(to, from.data, from.len);
    to[from.len] = '\0';
    return true;
}

enum status dr_secondary_decode(struct bytes id, struct bytes record, struct dr_secondary *ret)
{
    struct dr_secondary s = {0};
    struct reader in = reader_of(record);
    uint8_t format = reader_u8(&in);
    struct bytes secret = reader_block(&in);
    s.created_ms = (int64_t)reader_u64(&in);
    s.expire_ms = (int64_t)reader_u64(&in);
    s.activated_ms = (int64_t)reader_u64(&in);
    struct bytes key = reader_take(&in, sizeof s.key_sha256);
    struct bytes next = reader_take(&in, sizeof s.next_sha256);
    if (reader_end(&in) != ST_OK || format != RECORD_FORMAT ||
        !copy_block(secret, s.secret, sizeof s.secret) || !copy_block(id, s.id, sizeof s.id) ||
        s.created_ms < 0 || s.expire_ms < 0 || s.activated_ms < 0)
        return ST_CORRUPT;
    memcpy(s.key_sha256, key.data, sizeof s.key_sha256);
    memcpy(s.next_sha256, next.data, sizeof s.next_sha256);
    *ret = s;
    return ST_OK;
}

bool dr_secondary_renews(const struct dr_secondary *s)
{
    static const uint8_t none[sizeof s->next_sha256];
    return memcmp(s->next_sha256, none, sizeof none) != 0;
}

bool dr_secondary_has_key(const struct dr_secondary *s, const uint8_t key_sha256[32])
{
    return s->activated_ms != 0 && (memcmp(s->key_sha256, key_sha256, sizeof s->key_sha256) == 0 ||
                                    (dr_secondary_renews(s) && memcmp(s->next_sha256, key_sha256,
                                                                      sizeof s->next_sha256) == 0));
}

enum status dr_secondary_get(struct state_txn *txn, const char *id, struct dr_secondary *ret)
{
    char room[SECONDARY_KEY_MAX];
    struct state_value stored;
    TRY(state_get(txn, secondary_key(id, room), &stored));
    return dr_secondary_decode(bytes_str(id), stored.value, ret);
}

bool dr_secondary_lives(const struct dr_secondary *s, int64_t now_ms)
{
    return s->activated_ms != 0 || s->expire_ms > now_ms;
}

enum status dr_secondary_put(struct state_txn *txn, const struct dr_secondary *s)
{
    CLEANUP(buf_done) struct buf record = {0};
    char room[SECONDARY_KEY_MAX];
    ASSERT(dr_name_id_valid(s->id));
    buf_add_u8(&record, RECORD_FORMAT);
    buf_add_block(&record, bytes_str(s->secret));
    buf_add_u64(&record, (uint64_t)s->created_ms);
    buf_add_u64(&record, (uint64_t)s->expire_ms);
    buf_add_u64(&record, (uint64_t)s->activated_ms);
    buf_add(&record, bytes_of(s->key_sha256, sizeof s->key_sha256));
    buf_add(&record, bytes_of(s->next_sha256, sizeof s->next_sha256));
    TRY(buf_status(&record));
    return state_put(txn, secondary_key(s->id, room), buf_bytes(&record));
}

enum status dr_secondary_delete(struct state_txn *txn, const char *id)
{
    char room[SECONDARY_KEY_MAX];
    return state_delete(txn, secondary_key(id, room));
}

enum status dr_secondaries_read(struct state_txn *txn, int64_t now_ms, struct dr_secondaries *ret)
{
    struct dr_secondaries all = {0};
    struct state_iter iter;
    struct bytes value;
    TRY(state_scan(txn, BYTES(DR_SECONDARY_PREFIX), (struct bytes){0}, &iter));
    while (all.n < DR_SECONDARIES_MAX && state_iter_next(&iter)) {
        struct dr_secondary *next = &all.items[all.n];
        TRY(state_iter_value(&iter, &value));
        TRY(dr_secondary_decode(bytes_from(iter.key, sizeof DR_SECONDARY_PREFIX - 1), value, next));
        all.n += dr_secondary_lives(next, now_ms);
    }
    TRY(txn->status);
    *ret = all;
    return ST_OK;
}

enum status dr_ca_decode(struct bytes record, struct cert_pair *ret_ca)
{
    struct reader in = reader_of(record);
    uint8_t format = reader_u8(&in);
    struct bytes cert = reader_block(&in), key = reader_block(&in);
    if (reader_end(&in) != ST_OK || format != RECORD_FORMAT)
        return ST_CORRUPT;
    buf_add(&ret_ca->cert, cert);
    buf_add(&ret_ca->key, key);
    TRY(buf_status(&ret_ca->cert));
    return buf_status(&ret_ca->key);
}

enum status dr_ca_get(struct state_txn *txn, struct cert_pair *ret_ca)
{
    struct state_value stored;
    TRY(state_get(txn, BYTES(DR_CA), &stored));
    return dr_ca_decode(stored.value, ret_ca);
}

enum status dr_ca_put(struct state_txn *txn, const struct cert_pair *ca)
{
    CLEANUP(buf_done) struct buf record = {0};
    buf_add_u8(&record, RECORD_FORMAT);
    buf_add_block(&record, buf_bytes(&ca->cert));
    buf_add_block(&record, buf_bytes(&ca->key));
    TRY(buf_status(&record));
    return state_put(txn, BYTES(DR_CA), buf_bytes(&record));
}

void dr_link_record_done(struct dr_link_record *link)
{
    buf_done(&link->ca);
    cert_pair_done(&link->own);
}

enum status dr_link_put(struct state_txn *txn, const struct dr_link_record *link)
{
    CLEANUP(buf_done) struct buf record = {0};
    buf_add_u8(&record, RECORD_FORMAT);
    buf_add(&record, bytes_of(link->cluster, sizeof link->cluster));
    buf_add_block(&record, buf_bytes(&link->ca));
    buf_add_block(&record, buf_bytes(&link->own.cert));
    buf_add_block(&record, buf_bytes(&link->own.key));
    TRY(buf_status(&record));
    return state_put(txn, BYTES(DR_LINK), buf_bytes(&record));
}

enum status dr_link_get(struct state_txn *txn, struct dr_link_record *ret_link)
{
    struct state_value stored;
    TRY(state_get(txn, BYTES(DR_LINK), &stored));
    return dr_link_decode(stored.value, ret_link);
}

enum status dr_link_decode(struct bytes record, struct dr_link_record *ret_link)
{
    struct reader in = reader_of(record);
    uint8_t format = reader_u8(&in);
    struct bytes cluster = reader_take(&in, MESH_CLUSTER_ID_BYTES), ca = reader_block(&in);
    struct bytes cert = reader_block(&in), key = reader_block(&in);
    if (reader_end(&in) != ST_OK || format != RECORD_FORMAT)
        return ST_CORRUPT;
    memcpy(ret_link->cluster, cluster.data, sizeof ret_link->cluster);
    buf_add(&ret_link->ca, ca);
    buf_add(&ret_link->own.cert, cert);
    buf_add(&ret_link->own.key, key);
    TRY(buf_status(&ret_link->ca));
    TRY(buf_status(&ret_link->own.cert));
    return buf_status(&ret_link->own.key);
}

static enum status encode_addresses(const struct dr_addresses *addresses, struct buf *out)
{
    ASSERT(addresses->n <= DR_ADDRESSES_MAX);
    buf_add_u8(out, RECORD_FORMAT);
    buf_add_u8(out, addresses->n);
    for (unsigned i = 0; i < addresses->n; i++)
        buf_add_block(out, bytes_str(addresses->at[i]));
    return buf_status(out);
}

enum status dr_addresses_get(struct state_txn *txn, struct dr_addresses *ret)
{
    struct state_value stored;
    TRY(state_get(txn, BYTES(DR_ADDRESSES), &stored));
    return dr_addresses_decode(stored.value, ret);
}

enum status dr_addresses_decode(struct bytes record, struct dr_addresses *ret)
{
    struct reader in = reader_of(record);
    uint8_t format = reader_u8(&in), n = reader_u8(&in);
    *ret = (struct dr_addresses){0};
    if (format != RECORD_FORMAT || n > DR_ADDRESSES_MAX)
        return ST_CORRUPT;
    for (unsigned i = 0; i < n; i++)
        if (dr_addresses_add(ret, reader_block(&in)) != ST_OK)
            return ST_CORRUPT;
    return reader_end(&in) == ST_OK ? ST_OK : ST_CORRUPT;
}

enum status dr_addresses_put(struct state_txn *txn, const struct dr_addresses *addresses)
{
    CLEANUP(buf_done) struct buf record = {0};
    struct state_value stored;
    TRY(encode_addresses(addresses, &record));
    enum status st = state_get(txn, BYTES(DR_ADDRESSES), &stored);
    if (st == ST_OK && bytes_eq(stored.value, buf_bytes(&record)))
        return ST_OK;
    if (st != ST_OK && st != ST_NOT_FOUND)
        return st;
    return state_put(txn, BYTES(DR_ADDRESSES), buf_bytes(&record));
}

enum status dr_root_get(struct state_txn *txn, struct secret *ret_root)
{
    struct state_value stored;
    TRY(state_get(txn, BYTES(DR_ROOT_KEY), &stored));
    return dr_root_decode(stored.value, ret_root);
}

enum status dr_root_decode(struct bytes record, struct secret *ret_root)
{
    struct reader in = reader_of(record);
    uint8_t format = reader_u8(&in);
    struct bytes root = reader_block(&in);
    if (reader_end(&in) != ST_OK || format != RECORD_FORMAT || root.len == 0)
        return ST_CORRUPT;
    return secret_dup(root, ret_root);
}

enum status dr_root_put(struct state_txn *txn, struct bytes root)
{
    CLEANUP(buf_done) struct buf record = {0};
    ASSERT(root.len > 0 && root.len <= DR_ROOT_BYTES_MAX);
    buf_add_u8(&record, RECORD_FORMAT);
    buf_add_block(&record, root);
    TRY(buf_status(&record));
    return state_put(txn, BYTES(DR_ROOT_KEY), buf_bytes(&record));
}

enum status dr_box_get(struct state_txn *txn, struct box_key *ret_key)
{
    struct state_value stored;
    TRY(state_get(txn, BYTES(DR_BOX), &stored));
    struct reader in = reader_of(stored.value);
    uint8_t format = reader_u8(&in);
    struct bytes saved = reader_take(&in, BOX_SAVED_BYTES);
    if (reader_end(&in) != ST_OK || format != RECORD_FORMAT)
        return ST_CORRUPT;
    return box_key_load(saved, ret_key);
}

enum status dr_box_put(struct state_txn *txn, const struct box_key *key)
{
    uint8_t record[1 + BOX_SAVED_BYTES] = {RECORD_FORMAT};
    enum status st = box_key_save(key, record + 1);
    if (st == ST_OK)
        st = state_put(txn, BYTES(DR_BOX), bytes_of(record, sizeof record));
    mem_wipe(record, sizeof record);
    return st;
}

enum status dr_applied_put(struct state_txn *txn, const struct dr_applied *applied)
{
    CLEANUP(buf_done) struct buf record = {0};
    buf_add_u8(&record, RECORD_FORMAT);
    buf_add_u64(&record, applied->version);
    buf_add_u64(&record, (uint64_t)applied->time_ms);
    TRY(buf_status(&record));
    return state_put_raw(txn, BYTES(DR_APPLIED), buf_bytes(&record));
}

int64_t dr_applied_ms(const struct store_pin *pin)
{
    struct store_item item;
    if (store_get(pin, BYTES(DR_APPLIED), &item) != ST_OK)
        return 0;
    struct reader in = reader_of(item.value);
    uint8_t format = reader_u8(&in);
    uint64_t version = reader_u64(&in), ms = reader_u64(&in);
    bool here = reader_end(&in) == ST_OK && format == RECORD_FORMAT && version == pin->version;
    return here && ms < (uint64_t)TEXT_CLOCK_END ? (int64_t)ms : 0;
}
