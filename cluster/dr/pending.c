/* The record: format u8, block name of the token (barrier/token.h), block encoded.
 * Encoded:    block bundle, block key, private key of the box 32. */
#include "cluster/dr/pending.h"

#include "barrier/token.h"
#include "base/mem.h"
#include "crypto/cert.h"

enum { PENDING_FORMAT = 1, NAME_LEN = 2 * BARRIER_MAC_BYTES };

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
    uint8_t saved[BOX_SAVED_BYTES];
    TRY(dr_bundle_put(&pending->bundle, &bundle));
    TRY(box_key_save(&pending->box, saved));
    buf_add_block(out, buf_bytes(&bundle));
    buf_add_block(out, buf_bytes(&pending->key));
    buf_add(out, bytes_of(saved, sizeof saved));
    mem_wipe(saved, sizeof saved);
    return buf_status(out);
}

static enum status corrupt_unless_nomem(enum status st)
{
    return st == ST_INVALID || st == ST_TOO_BIG ? ST_CORRUPT : st;
}

enum status dr_pending_decode(struct bytes encoded, struct dr_pending *ret)
{
    struct reason why;
    struct reader in = reader_of(encoded);
    struct bytes bundle = reader_block(&in), key = reader_block(&in);
    struct bytes box = reader_take(&in, BOX_SAVED_BYTES);
    *ret = (struct dr_pending){0};
    if (reader_end(&in) != ST_OK)
        return ST_CORRUPT;
    TRY(corrupt_unless_nomem(dr_bundle_read(bundle, &ret->bundle, &why)));
    buf_add(&ret->key, key);
    TRY(buf_status(&ret->key));
    TRY(corrupt_unless_nomem(cert_key_public(key, &ret->public_pem)));
    return box_key_load(box, &ret->box);
}

enum status dr_pending_put(struct state_txn *txn, struct bytes token, struct bytes encoded)
{
    CLEANUP(buf_done) struct buf record = {0};
    char name[NAME_LEN + 1];
    TRY(token_name(txn->cipher, token, name));
    buf_add_u8(&record, PENDING_FORMAT);
    buf_add_block(&record, bytes_str(name));
    buf_add_block(&record, encoded);
    TRY(buf_status(&record));
    return state_put(txn, BYTES(DR_PENDING), buf_bytes(&record));
}

enum status dr_pending_get(struct state_txn *txn, struct bytes token, struct bytes *ret_encoded)
{
    char wanted[NAME_LEN + 1];
    struct state_value stored;
    TRY(state_get(txn, BYTES(DR_PENDING), &stored));
    TRY(token_name(txn->cipher, token, wanted));
    struct reader in = reader_of(stored.value);
    uint8_t format = reader_u8(&in);
    struct bytes name = reader_block(&in), encoded = reader_block(&in);
    if (reader_end(&in) != ST_OK || format != PENDING_FORMAT)
        return ST_CORRUPT;
    if (!bytes_eq_secret(name, bytes_str(wanted)))
        return ST_NOT_FOUND;
    *ret_encoded = encoded;
    return ST_OK;
}

enum status dr_pending_delete(struct state_txn *txn)
{
    return state_delete(txn, BYTES(DR_PENDING));
}
