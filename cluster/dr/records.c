#include "cluster/dr/records.h"

#include "base/mem.h"
#include "state/state_record.h"
#include "text/time.h"

enum { SECONDARY_KEY_MAX = sizeof DR_SECONDARY_PREFIX + DR_ID_MAX };

static struct bytes secondary_key(const char *id, char room[SECONDARY_KEY_MAX])
{
    ASSERT(strlen(id) < DR_ID_MAX);
    memcpy(room, DR_SECONDARY_PREFIX, sizeof DR_SECONDARY_PREFIX);
    memcpy(room + sizeof DR_SECONDARY_PREFIX - 1, id, strlen(id) + 1);
    return bytes_str(room);
}

static const struct record_field secondary_fields[] = {
    RECORD_FIELD(struct dr_secondary, secret, TEXT, .help = "name of its one-time secret"),
    RECORD_FIELD(struct dr_secondary, created_ms, U64, .help = "cluster time of its token"),
    RECORD_FIELD(struct dr_secondary, expire_ms, U64,
                 .help = "cluster time at which the token ends, unless it was used"),
    RECORD_FIELD(struct dr_secondary, activated_ms, U64,
                 .help = "cluster time of the activation; 0: not activated"),
    RECORD_FIELD(struct dr_secondary, key_sha256, FIXED, .help = "of its certificate's public key"),
    RECORD_FIELD(struct dr_secondary, next_sha256, FIXED,
                 .help = "of the next certificate's; zeros: none"),
};
static const struct record secondary_record = {RECORD(struct dr_secondary, secondary_fields),
                                               .name = "dr/secondary", .key = DR_SECONDARY_PREFIX,
                                               .newest = 1};
RECORD_LISTED(secondary_record);

enum status dr_secondary_decode(struct bytes id, struct bytes record, struct dr_secondary *ret)
{
    if (id.len >= sizeof ret->id || (id.len != 0 && memchr(id.data, 0, id.len) != NULL))
        return ST_CORRUPT;
    TRY(record_decode(&secondary_record, record, NULL, ret));
    *bytes_put((uint8_t *)ret->id, id) = '\0';
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
    char room[SECONDARY_KEY_MAX];
    ASSERT(dr_name_id_valid(s->id));
    return state_put_record(txn, secondary_key(s->id, room), &secondary_record, s);
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

static const struct record ca_record = {RECORD(struct cert_pair, cert_pair_fields), .name = "dr/ca",
                                        .key = DR_CA, .newest = 1};
RECORD_LISTED(ca_record);

enum status dr_ca_decode(struct bytes record, struct cert_pair *ret_ca)
{
    return record_decode(&ca_record, record, NULL, ret_ca);
}

enum status dr_ca_get(struct state_txn *txn, struct cert_pair *ret_ca)
{
    return state_get_record(txn, BYTES(DR_CA), &ca_record, ret_ca);
}

enum status dr_ca_put(struct state_txn *txn, const struct cert_pair *ca)
{
    return state_put_record(txn, BYTES(DR_CA), &ca_record, ca);
}

static const struct record_field link_fields[] = {
    RECORD_FIELD(struct dr_link_record, cluster, FIXED, .help = "id of the primary's cluster"),
    RECORD_FIELD(struct dr_link_record, ca, BLOCK,
                 .help = "authority of the primary's cluster ports, PEM"),
    RECORD_NAMED("cert", struct dr_link_record, own.cert, BLOCK,
                 .help = "this secondary's certificate, PEM"),
    RECORD_NAMED("key", struct dr_link_record, own.key, BLOCK, .secret = true,
                 .help = "its private key, PEM"),
};
static const struct record link_record = {RECORD(struct dr_link_record, link_fields),
                                          .name = "dr/link", .key = DR_LINK, .newest = 1};
RECORD_LISTED(link_record);

void dr_link_record_done(struct dr_link_record *link)
{
    buf_done(&link->ca);
    cert_pair_done(&link->own);
}

enum status dr_link_put(struct state_txn *txn, const struct dr_link_record *link)
{
    return state_put_record(txn, BYTES(DR_LINK), &link_record, link);
}

enum status dr_link_get(struct state_txn *txn, struct dr_link_record *ret_link)
{
    return state_get_record(txn, BYTES(DR_LINK), &link_record, ret_link);
}

enum status dr_link_decode(struct bytes record, struct dr_link_record *ret_link)
{
    return record_decode(&link_record, record, NULL, ret_link);
}

static const struct record_field addresses_fields[] = {
    RECORD_ARRAY("addresses", struct dr_addresses, at, n, LIST8, &dr_address_record,
                 .help = "cluster ports of the primary"),
};
static const struct record addresses_record = {RECORD(struct dr_addresses, addresses_fields),
                                               .name = "dr/addresses", .key = DR_ADDRESSES,
                                               .newest = 1};
RECORD_LISTED(addresses_record);

enum status dr_addresses_get(struct state_txn *txn, struct dr_addresses *ret)
{
    return state_get_record(txn, BYTES(DR_ADDRESSES), &addresses_record, ret);
}

enum status dr_addresses_decode(struct bytes record, struct dr_addresses *ret)
{
    return record_decode(&addresses_record, record, NULL, ret);
}

enum status dr_addresses_put(struct state_txn *txn, const struct dr_addresses *addresses)
{
    CLEANUP(buf_done) struct buf record = {0};
    struct state_value stored;
    TRY(record_encode(&addresses_record, addresses, &record));
    enum status st = state_get(txn, BYTES(DR_ADDRESSES), &stored);
    if (st == ST_OK && bytes_eq(stored.value, buf_bytes(&record)))
        return ST_OK;
    if (st != ST_OK && st != ST_NOT_FOUND)
        return st;
    return state_put(txn, BYTES(DR_ADDRESSES), buf_bytes(&record));
}

static const struct record_field root_fields[] = {
    RECORD_ITSELF("root", struct bytes, BLOCK, .min = 1, .max = DR_ROOT_BYTES_MAX, .secret = true,
                  .help = "root key of the primary"),
};
static const struct record root_record = {RECORD(struct bytes, root_fields), .name = "dr/root",
                                          .key = DR_ROOT_KEY, .newest = 1};
RECORD_LISTED(root_record);

enum status dr_root_get(struct state_txn *txn, struct secret *ret_root)
{
    struct bytes root;
    TRY(state_get_record(txn, BYTES(DR_ROOT_KEY), &root_record, &root));
    return secret_dup(root, ret_root);
}

enum status dr_root_decode(struct bytes record, struct secret *ret_root)
{
    struct bytes root = {0};
    TRY(record_decode(&root_record, record, NULL, &root));
    return secret_dup(root, ret_root);
}

enum status dr_root_put(struct state_txn *txn, struct bytes root)
{
    return state_put_record(txn, BYTES(DR_ROOT_KEY), &root_record, &root);
}

static const struct record_field box_fields[] = {
    RECORD_ITSELF("key", uint8_t[BOX_SAVED_BYTES], FIXED, .secret = true,
                  .help = "private half of the key that a primary seals for"),
};
static const struct record box_record = {RECORD(uint8_t[BOX_SAVED_BYTES], box_fields),
                                         .name = "dr/box", .key = DR_BOX, .newest = 1};
RECORD_LISTED(box_record);

enum status dr_box_get(struct state_txn *txn, struct box_key *ret_key)
{
    uint8_t saved[BOX_SAVED_BYTES] = {0};
    enum status st = state_get_record(txn, BYTES(DR_BOX), &box_record, saved);
    if (st == ST_OK)
        st = box_key_load(bytes_of(saved, sizeof saved), ret_key);
    mem_wipe(saved, sizeof saved);
    return st;
}

enum status dr_box_put(struct state_txn *txn, const struct box_key *key)
{
    uint8_t saved[BOX_SAVED_BYTES];
    enum status st = box_key_save(key, saved);
    if (st == ST_OK)
        st = state_put_record(txn, BYTES(DR_BOX), &box_record, saved);
    mem_wipe(saved, sizeof saved);
    return st;
}

static const struct record_field applied_fields[] = {
    RECORD_FIELD(struct dr_applied, version, U64, .help = "of the newest record that was applied"),
    RECORD_FIELD(struct dr_applied, time_ms, U64, .help = "cluster time in that record"),
};
static const struct record applied_record = {RECORD(struct dr_applied, applied_fields),
                                             .name = "dr/applied", .key = DR_APPLIED, .newest = 1,
                                             .raw = true};
RECORD_LISTED(applied_record);

enum status dr_applied_put(struct state_txn *txn, const struct dr_applied *applied)
{
    return state_put_record(txn, BYTES(DR_APPLIED), &applied_record, applied);
}

int64_t dr_applied_ms(const struct store_pin *pin)
{
    struct dr_applied applied = {0};
    if (state_record_at(pin, BYTES(DR_APPLIED), &applied_record, &applied) != ST_OK)
        return 0;
    bool here = applied.version == pin->version && applied.time_ms < TEXT_CLOCK_END;
    return here ? applied.time_ms : 0;
}
