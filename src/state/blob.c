#include "state/blob.h"

#include "base/record.h"
#include "crypto/digest.h"
#include "state/ns_key.h"
#include "text/random.h"

#define CHUNKS STATE_SHARED "blob/chunk/"
#define WHOLE STATE_SHARED "blob/whole/"
#define OPEN STATE_SHARED "blob/open/"

enum { DIGEST_BYTES = 32, SWEEP_MAX = 20 };

struct manifest {
    uint64_t bytes;
    uint8_t digest[DIGEST_BYTES];
};
static const struct record_field manifest_fields[] = {
    RECORD_FIELD(struct manifest, bytes, U64, .help = "length"),
    RECORD_FIELD(struct manifest, digest, FIXED, .help = "SHA-256"),
};
static const struct record manifest_record = {RECORD(struct manifest, manifest_fields),
                                              .name = "blob/whole", .key = WHOLE, .newest = 1};
RECORD_LISTED(manifest_record);

void blob_id(struct env *env, char ret_id[BLOB_ID_LEN + 1])
{
    text_random(env, ret_id, BLOB_ID_LEN);
}

static enum status as_key(const char *text, struct bytes *ret_key)
{
    if (text == NULL)
        return ST_NOMEM;
    *ret_key = bytes_str(text);
    return ST_OK;
}

static enum status chunk_key(struct state_txn *txn, const char *id, size_t i, struct bytes *ret_key)
{
    return as_key(arena_format(txn->arena, CHUNKS "%s/%08zx", id, i), ret_key);
}

static enum status whole_key(struct state_txn *txn, const char *id, struct bytes *ret_key)
{
    return as_key(arena_concat(txn->arena, WHOLE, id), ret_key);
}

static enum status open_key(struct state_txn *txn, const char *id, int64_t opened_ms,
                            struct bytes *ret_key)
{
    char time[STATE_TIME_DIGITS + 1];
    state_time_text(MAX(opened_ms, INT64_C(1)), time);
    return as_key(arena_format(txn->arena, OPEN "%s/%s", time, id), ret_key);
}

enum status blob_put(struct state_txn *txn, const char *id, struct bytes content, unsigned turn,
                     int64_t now_ms, bool *ret_more)
{
    size_t first = (size_t)turn * BLOB_TURN_CHUNKS;
    size_t all = (content.len + BLOB_CHUNK_BYTES - 1) / BLOB_CHUNK_BYTES;
    size_t end = MIN(first + BLOB_TURN_CHUNKS, all);
    struct bytes key;
    ASSERT(strlen(id) == BLOB_ID_LEN);
    if (turn == 0) {
        TRY(open_key(txn, id, now_ms, &key));
        TRY(state_put_name(txn, key, false));
    }
    for (size_t i = first; i < end; i++) {
        struct bytes left = bytes_from(content, i * BLOB_CHUNK_BYTES);
        TRY(chunk_key(txn, id, i, &key));
        TRY(state_put(txn, key, bytes_of(left.data, MIN(left.len, (size_t)BLOB_CHUNK_BYTES))));
    }
    *ret_more = end < all;
    return ST_OK;
}

enum status blob_close(struct state_txn *txn, const char *id, struct bytes content,
                       int64_t opened_ms)
{
    CLEANUP(buf_done) struct buf record = {0};
    struct manifest manifest = {.bytes = content.len};
    uint8_t digest[CRYPTO_DIGEST_MAX];
    struct bytes key;
    size_t len;
    TRY(crypto_digest("sha2-256", content, digest, &len));
    ASSERT(len == DIGEST_BYTES);
    memcpy(manifest.digest, digest, DIGEST_BYTES);
    TRY(record_encode(&manifest_record, &manifest, &record));
    TRY(open_key(txn, id, opened_ms, &key));
    TRY(state_delete(txn, key));
    TRY(whole_key(txn, id, &key));
    return state_put(txn, key, buf_bytes(&record));
}

enum status blob_read(struct state_txn *txn, const char *id, struct bytes *ret_content)
{
    struct state_value value;
    struct manifest manifest;
    struct bytes key;
    uint8_t digest[CRYPTO_DIGEST_MAX];
    size_t at = 0, len;
    TRY(whole_key(txn, id, &key));
    TRY(state_get(txn, key, &value));
    TRY(record_decode(&manifest_record, value.value, NULL, &manifest));
    uint8_t *content = arena_alloc(txn->arena, (size_t)manifest.bytes + 1);
    if (content == NULL)
        return ST_NOMEM;
    for (size_t i = 0; at < manifest.bytes; i++) {
        TRY(chunk_key(txn, id, i, &key));
        enum status st = state_get(txn, key, &value);
        if (st != ST_OK)
            return st == ST_NOT_FOUND ? ST_CORRUPT : st;
        if (value.value.len == 0 || value.value.len > manifest.bytes - at)
            return ST_CORRUPT;
        memcpy(content + at, value.value.data, value.value.len);
        at += value.value.len;
    }
    TRY(crypto_digest("sha2-256", bytes_of(content, at), digest, &len));
    if (memcmp(digest, manifest.digest, DIGEST_BYTES) != 0)
        return ST_CORRUPT;
    *ret_content = bytes_of(content, at);
    return ST_OK;
}

enum status blob_delete(struct state_txn *txn, const char *id)
{
    struct bytes key;
    TRY(as_key(arena_format(txn->arena, CHUNKS "%s/", id), &key));
    TRY(state_delete_prefix(txn, key));
    TRY(whole_key(txn, id, &key));
    return state_delete(txn, key);
}

uint64_t blob_total(const struct state_txn *txn)
{
    return state_count(txn, BYTES(CHUNKS)) * BLOB_CHUNK_BYTES;
}

enum status blob_sweep(struct state_txn *txn, int64_t now_ms)
{
    struct state_walk walk;
    char until[STATE_TIME_DIGITS + 1];
    unsigned n = 0;
    if (now_ms <= BLOB_OPEN_MS)
        return ST_OK;
    state_time_text(now_ms - BLOB_OPEN_MS, until);
    state_walk(txn, BYTES(OPEN), &walk);
    while (n++ < SWEEP_MAX && state_walk_next(&walk)) {
        struct bytes rest = bytes_from(walk.key, sizeof OPEN - 1);
        if (rest.len <= STATE_TIME_DIGITS + 1 || memcmp(rest.data, until, STATE_TIME_DIGITS) > 0)
            return ST_OK; /* the keys are in the order of their times */
        const char *id = arena_str(txn->arena, bytes_from(rest, STATE_TIME_DIGITS + 1));
        uint8_t *key = arena_dup(txn->arena, walk.key);
        if (id == NULL || key == NULL)
            return ST_NOMEM;
        struct bytes open = bytes_of(key, walk.key.len);
        TRY(state_exists(txn, open)); /* a precondition: the blob is still open at the commit */
        TRY(blob_delete(txn, id));
        TRY(state_delete(txn, open));
    }
    return ST_OK;
}
