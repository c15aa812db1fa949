/* Version 2: load a secret with its versions, change it, store it. */
#include "api/kv/kv2.h"

/* How many versions one write drops at most: after max_versions was lowered, a write must not
 * become too long. The next writes drop the rest. */
enum { DROPS_MAX = 256 };

/* Take a value that version 1 stored as the only version of a secret. */
static enum status adopt(struct req *req, struct bytes object, struct kv2_record *ret)
{
    struct kv2_version *versions = arena_alloc(req->arena, 2 * sizeof *versions);
    if (versions == NULL)
        return ST_NOMEM;
    int64_t at_ms = MAX(req->mount->upgraded_ms, INT64_C(1));
    versions[0] = (struct kv2_version){.created_ms = at_ms, .place = KV2_INLINE, .data = object};
    *ret = (struct kv2_record){
        .newest = 1, .created_ms = at_ms, .updated_ms = at_ms, .versions = versions, .n = 1};
    return ST_OK;
}

static enum status make_empty(struct req *req, struct kv2_record *ret)
{
    struct kv2_version *versions = arena_alloc(req->arena, sizeof *versions);
    if (versions == NULL)
        return ST_NOMEM;
    ASSERT(req->now_ms > 0);
    *ret = (struct kv2_record){
        .created_ms = req->now_ms, .updated_ms = req->now_ms, .versions = versions};
    return ST_OK;
}

static enum status decode(struct req *req, struct bytes value, struct kv2_record *ret)
{
    if (value.len > 0 && value.data[0] == '{')
        return adopt(req, value, ret);
    return kv2_record_decode(value, req->arena, ret);
}

/* Find the record of each inline or appended version in the stored value. */
static enum status find_versions(struct kv2_record *r, struct store_retain_parts stored)
{
    ASSERT(r->n <= r->newest);
    if (stored.head.len == 0) /* staged by this transaction */
        return ST_CORRUPT;
    for (size_t i = r->n; i-- > 0;) {
        struct kv2_version *v = &r->versions[i];
        if (v->place == KV2_INLINE)
            v->sealed = stored.head;
        if (v->place != KV2_APPENDED)
            continue;
        if (v->sealed.len > stored.suffix.len)
            return ST_CORRUPT;
        v->sealed.data = stored.suffix.data;
        stored.suffix = bytes_from(stored.suffix, v->sealed.len);
    }
    return stored.suffix.len == 0 ? ST_OK : ST_CORRUPT;
}

enum status kv2_load_key(struct req *req, struct bytes key, struct kv2_secret *ret_secret)
{
    struct state_value stored;
    ret_secret->key = key;
    enum status st = state_get(req->txn, ret_secret->key, &stored);
    if (st == ST_NOT_FOUND) {
        TRY(make_empty(req, &ret_secret->record));
        return st;
    }
    TRY(st);
    TRY(decode(req, stored.value, &ret_secret->record));
    ASSERT(ret_secret->record.created_ms > 0);
    return find_versions(&ret_secret->record, stored.stored);
}

enum status kv2_load(struct req *req, struct kv2_secret *ret_secret)
{
    struct bytes key;
    TRY(kv_key(req, &key));
    return kv2_load_key(req, key, ret_secret);
}

static uint64_t number_of(const struct kv2_secret *secret, const struct kv2_version *version)
{
    const struct kv2_record *r = &secret->record;
    ASSERT(version >= r->versions && version < r->versions + r->n);
    return r->newest - r->n + 1 + (uint64_t)(version - r->versions);
}

/* "v/PATH" and a zero byte: what the keys of all versions begin with. */
static enum status versions_prefix(struct req *req, size_t room, struct bytes *ret_key)
{
    struct bytes key;
    const char *name = arena_concat(req->arena, "v/", req_param(req, "path"));
    if (name == NULL)
        return ST_NOMEM;
    TRY(req_key(req, name, &key));
    uint8_t *copy = arena_alloc(req->arena, key.len + 1 + room);
    if (copy == NULL)
        return ST_NOMEM;
    memcpy(copy, key.data, key.len);
    copy[key.len] = 0;
    *ret_key = bytes_of(copy, key.len + 1);
    return ST_OK;
}

static enum status version_key(struct req *req, uint64_t number, struct bytes *ret_key)
{
    enum { VARINT_MAX = 10 };
    CLEANUP(buf_done) struct buf digits = {0};
    struct bytes prefix;
    ASSERT(number > 0);
    TRY(versions_prefix(req, VARINT_MAX, &prefix));
    buf_add_varint(&digits, number);
    TRY(buf_status(&digits));
    ASSERT(digits.len <= VARINT_MAX);
    memcpy((uint8_t *)prefix.data + prefix.len, digits.data, digits.len);
    *ret_key = bytes_of(prefix.data, prefix.len + digits.len);
    return ST_OK;
}

/* Read the data from the earlier record in which the version was the newest. */
static enum status data_appended(struct req *req, const struct kv2_secret *secret,
                                 const struct kv2_version *version, struct bytes *ret_data)
{
    struct kv2_record then;
    struct bytes plain;
    ASSERT(version->place == KV2_APPENDED);
    TRY(state_open(req->txn, secret->key, version->sealed, &plain));
    TRY(decode(req, plain, &then));
    if (then.n == 0 || then.newest != number_of(secret, version) ||
        then.versions[then.n - 1].place != KV2_INLINE)
        return ST_CORRUPT;
    *ret_data = then.versions[then.n - 1].data;
    return ST_OK;
}

enum status kv2_data(struct req *req, const struct kv2_secret *secret,
                     const struct kv2_version *version, struct bytes *ret_data)
{
    struct state_value stored;
    struct bytes key;
    ASSERT(version->place != KV2_DESTROYED);
    if (version->place == KV2_INLINE) {
        *ret_data = version->data;
        return ST_OK;
    }
    if (version->place == KV2_APPENDED)
        return data_appended(req, secret, version, ret_data);
    TRY(version_key(req, number_of(secret, version), &key));
    enum status st = state_get(req->txn, key, &stored);
    if (st == ST_NOT_FOUND)
        return ST_CORRUPT;
    TRY(st);
    *ret_data = stored.value;
    return ST_OK;
}

static enum status put(struct req *req, bool exempt, struct bytes key, struct bytes value)
{
    return exempt ? state_put_exempt(req->txn, key, value) : state_put(req->txn, key, value);
}

static enum status move_separate(struct req *req, bool exempt, const struct kv2_secret *secret,
                                 struct kv2_version *version)
{
    struct bytes key, data;
    ASSERT(version->place == KV2_INLINE || version->place == KV2_APPENDED);
    TRY(version_key(req, number_of(secret, version), &key));
    TRY(kv2_data(req, secret, version, &data));
    TRY(put(req, exempt, key, data));
    version->place = KV2_SEPARATE;
    version->data = (struct bytes){0};
    return ST_OK;
}

/* Keep the record short. The newest version stays inline. An earlier version stays in the record
 * that held it, and that record is appended to the new record. Versions that are too long become
 * separate, and also the oldest appended versions beyond KV2_APPENDED_MAX. */
static enum status spill(struct req *req, bool exempt, struct kv2_secret *secret)
{
    struct kv2_record *r = &secret->record;
    size_t appended = 0;
    for (size_t i = r->n; i-- > 0;) {
        struct kv2_version *v = &r->versions[i];
        if (v->place != KV2_INLINE && v->place != KV2_APPENDED)
            continue;
        bool stays = v->place == KV2_INLINE && i == r->n - 1;
        if (stays ? v->data.len > KV2_INLINE_MAX : appended + v->sealed.len > KV2_APPENDED_MAX) {
            TRY(move_separate(req, exempt, secret, v));
        } else if (!stays) {
            appended += v->sealed.len;
            v->place = KV2_APPENDED;
            v->data = (struct bytes){0};
        }
    }
    ASSERT(appended <= KV2_APPENDED_MAX);
    return ST_OK;
}

/* The records of the appended versions, newest first. */
static void retain_appended(const struct kv2_record *r, struct store_retain_suffix *suffix)
{
    for (size_t i = r->n; i-- > 0;)
        if (r->versions[i].place == KV2_APPENDED)
            store_retain_add(suffix, r->versions[i].sealed);
}

static enum status store(struct req *req, bool exempt, struct kv2_secret *secret)
{
    CLEANUP(buf_done) struct buf out = {0};
    CLEANUP(store_retain_done) struct store_retain_suffix suffix = {0};
    secret->record.updated_ms = MAX(req->now_ms, secret->record.updated_ms);
    TRY(spill(req, exempt, secret));
    retain_appended(&secret->record, &suffix);
    ASSERT(suffix.run.len + suffix.copy.len <= KV2_APPENDED_MAX);
    TRY(kv2_record_encode(&secret->record, &out));
    return state_put_retain(req->txn, secret->key, buf_bytes(&out), &suffix, exempt);
}

enum status kv2_store(struct req *req, struct kv2_secret *secret)
{
    return store(req, false, secret);
}

enum status kv2_store_marks(struct req *req, struct kv2_secret *secret)
{
    return store(req, true, secret);
}

enum status kv2_destroy_version(struct req *req, const struct kv2_secret *secret,
                                struct kv2_version *version)
{
    const struct kv2_record *r = &secret->record;
    struct bytes key;
    ASSERT(version >= r->versions && version < r->versions + r->n);
    if (version->place == KV2_SEPARATE) {
        TRY(version_key(req, number_of(secret, version), &key));
        TRY(state_delete(req->txn, key));
    }
    version->place = KV2_DESTROYED;
    version->data = (struct bytes){0};
    return ST_OK;
}

static enum status drop_oldest(struct req *req, const struct kv2_config *config,
                               struct kv2_secret *secret)
{
    struct kv2_record *r = &secret->record;
    uint64_t most = MAX(r->max_versions, (uint64_t)config->max_versions);
    if (most == 0)
        most = KV2_VERSIONS_DEFAULT;
    for (unsigned drops = 0; r->n > most && drops < DROPS_MAX; drops++) {
        TRY(kv2_destroy_version(req, secret, &r->versions[0]));
        r->versions++;
        r->n--;
    }
    ASSERT(r->n > 0); /* the newest stays */
    return ST_OK;
}

int64_t kv2_deletion_time(const struct kv2_config *config, const struct kv2_record *record,
                          int64_t from_ms)
{
    int64_t mine = record->delete_after_s, all = config->delete_after_s;
    ASSERT(from_ms > 0 && mine >= 0);
    if (all < 0 || (mine == 0 && all == 0))
        return 0;
    int64_t after_s = mine == 0 ? all : all == 0 ? mine : MIN(mine, all);
    return from_ms + after_s * 1000;
}

enum status kv2_add_version(struct req *req, const struct kv2_config *config,
                            struct kv2_secret *secret, struct bytes data)
{
    struct kv2_record *r = &secret->record;
    if (data.len > STATE_VALUE_MAX)
        return req_fail(req, ST_TOO_BIG, "the data is longer than %d bytes", STATE_VALUE_MAX);
    ASSERT(r->n <= r->newest && data.len > 0);
    int64_t before_ms = r->n > 0 ? r->versions[r->n - 1].created_ms : r->created_ms;
    struct kv2_version *v = &r->versions[r->n]; /* kv2_record_decode left room for one more */
    *v = (struct kv2_version){
        .created_ms = MAX(req->now_ms, before_ms), .place = KV2_INLINE, .data = data};
    v->deleted_ms = kv2_deletion_time(config, r, v->created_ms);
    r->n++;
    r->newest++;
    TRY(drop_oldest(req, config, secret));
    return kv2_store(req, secret);
}

enum status kv2_remove(struct req *req, const struct kv2_secret *secret)
{
    struct bytes prefix;
    TRY(state_delete(req->txn, secret->key));
    TRY(versions_prefix(req, 0, &prefix));
    for (size_t i = 0; i < secret->record.n; i++)
        if (secret->record.versions[i].place == KV2_SEPARATE)
            return state_delete_prefix(req->txn, prefix);
    return ST_OK;
}

struct kv2_version_out kv2_version_out(const struct kv2_secret *secret,
                                       const struct kv2_version *version)
{
    return (struct kv2_version_out){.created_ms = version->created_ms,
                                    .deleted_ms = version->deleted_ms,
                                    .version = (int64_t)number_of(secret, version),
                                    .custom_metadata = secret->record.custom,
                                    .destroyed = version->place == KV2_DESTROYED};
}
