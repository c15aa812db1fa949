#include "cluster/dr/pending.h"

#include "barrier/token.h"
#include "base/mem.h"
#include "crypto/cert.h"
#include "state/state_record.h"

struct pending_record {
    char name[2 * BARRIER_MAC_BYTES + 1];
    struct bytes encoded;
};
static const struct record_field pending_fields[] = {
    RECORD_FIELD(struct pending_record, name, TEXT, .help = "name of the activation token"),
    RECORD_FIELD(struct pending_record, encoded, BLOCK, .secret = true,
                 .help = "dr/activation-keys"),
};
static const struct record pending_record = {RECORD(struct pending_record, pending_fields),
                                             .name = "dr/activation", .key = DR_PENDING,
                                             .newest = 1};
RECORD_LISTED(pending_record);

struct keys_record {
    struct bytes bundle, key;
    uint8_t box[BOX_SAVED_BYTES];
};
static const struct record_field keys_fields[] = {
    RECORD_FIELD(struct keys_record, bundle, BLOCK, .secret = true,
                 .help = "the bundle that the token wrapped"),
    RECORD_FIELD(struct keys_record, key, BLOCK, .secret = true,
                 .help = "private key of the secondary's certificate, PEM"),
    RECORD_FIELD(struct keys_record, box, FIXED, .secret = true,
                 .help = "private key that opens the primary's root key"),
};
static const struct record keys_record = {RECORD(struct keys_record, keys_fields),
                                          .name = "dr/activation-keys",
                                          .where = "Part of dr/activation"};
RECORD_LISTED(keys_record);

void dr_pending_done(struct dr_pending *pending)
{
    dr_bundle_done(&pending->bundle);
    buf_done(&pending->key);
    buf_done(&pending->public_pem);
    box_key_done(&pending->box);
}

enum status dr_pending_make_keys(struct dr_pending *pending)
{
    ASSERT(pending->key.len == 0 && pending->box.key == NULL);
    TRY(cert_key_make(&pending->key, &pending->public_pem));
    return box_key_new(&pending->box);
}

enum status dr_pending_encode(const struct dr_pending *pending, struct buf *out)
{
    CLEANUP(buf_done) struct buf bundle = {0};
    struct keys_record keys;
    TRY(dr_bundle_put(&pending->bundle, &bundle));
    TRY(box_key_save(&pending->box, keys.box));
    keys.bundle = buf_bytes(&bundle);
    keys.key = buf_bytes(&pending->key);
    enum status st = record_encode(&keys_record, &keys, out);
    mem_wipe(&keys, sizeof keys);
    return st;
}

static enum status corrupt_unless_nomem(enum status st)
{
    return st == ST_INVALID || st == ST_TOO_BIG ? ST_CORRUPT : st;
}

enum status dr_pending_decode(struct bytes encoded, struct dr_pending *ret)
{
    struct reason why;
    struct keys_record keys = {0};
    *ret = (struct dr_pending){0};
    TRY(record_decode(&keys_record, encoded, NULL, &keys));
    enum status st = corrupt_unless_nomem(dr_bundle_read(keys.bundle, &ret->bundle, &why));
    buf_add(&ret->key, keys.key);
    if (st == ST_OK)
        st = buf_status(&ret->key);
    if (st == ST_OK)
        st = corrupt_unless_nomem(cert_key_public(keys.key, &ret->public_pem));
    if (st == ST_OK)
        st = box_key_load(bytes_of(keys.box, sizeof keys.box), &ret->box);
    mem_wipe(&keys, sizeof keys);
    return st;
}

enum status dr_pending_put(struct state_txn *txn, struct bytes token, struct bytes encoded)
{
    struct pending_record record = {.encoded = encoded};
    TRY(token_name(txn->cipher, token, record.name));
    return state_put_record(txn, BYTES(DR_PENDING), &pending_record, &record);
}

enum status dr_pending_get(struct state_txn *txn, struct bytes token, struct bytes *ret_encoded)
{
    char wanted[sizeof((struct pending_record *)0)->name];
    struct pending_record record = {0};
    TRY(state_get_record(txn, BYTES(DR_PENDING), &pending_record, &record));
    TRY(token_name(txn->cipher, token, wanted));
    if (!bytes_eq_secret(bytes_str(record.name), bytes_str(wanted))) {
        TRY(state_need_keys(txn));
        return ST_NOT_FOUND;
    }
    *ret_encoded = record.encoded;
    return ST_OK;
}

enum status dr_pending_delete(struct state_txn *txn)
{
    return state_delete(txn, BYTES(DR_PENDING));
}
