#include "api/kv/kv2.h"

/* So that a change of max_versions cannot make a write too long: the rest goes with the next. */
enum { DROPS_MAX = 256 };

/* What version 1 stored, seen as the only version of a secret. */
static enum status adopt(struct req *req, struct bytes object, struct kv2_record *ret)
{
    struct kv2_version *versions = arena_alloc(req->arena, 2 * sizeof *versions);
    if (versions == NULL)
        return ST_NOMEM;
    int64_t at_ms = MAX(req->mount->upgraded_ms, INT64_C(1));
    versions[0] = (struct kv2_version){.created_ms = at_ms, .place = KV2_INSIDE, .data = object};
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

/* Where each version is that has its data in what is stored: `first` bytes of it are the record. */
static enum status find_versions(struct kv2_secret *secret, size_t first)
{
    struct kv2_record *r = &secret->record;
    size_t at = first;
    for (size_t i = r->n; i-- > 0;) {
        struct kv2_version *v = &r->versions[i];
        if (v->place == KV2_INSIDE)
            v->bytes = first;
        if (v->place != KV2_BEHIND)
            continue;
        v->at = at;
        at += v->bytes;
    }
    return at == secret->stored.len ? ST_OK : ST_CORRUPT;
}

enum status kv2_load(struct req *req, struct kv2_secret *ret_secret)
{
    struct state_value stored;
    ret_secret->stored = (struct bytes){0};
    TRY(kv_key(req, &ret_secret->key));
    enum status st = state_get(req->txn, ret_secret->key, &stored);
    if (st == ST_NOT_FOUND) {
        TRY(make_empty(req, &ret_secret->record));
        return st;
    }
    TRY(st);
    ret_secret->stored = stored.stored;
    TRY(decode(req, stored.value, &ret_secret->record));
    return find_versions(ret_secret, stored.value.len + BARRIER_OVERHEAD);
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
    TRY(versions_prefix(req, VARINT_MAX, &prefix));
    buf_add_varint(&digits, number);
    TRY(buf_status(&digits));
    memcpy((uint8_t *)prefix.data + prefix.len, digits.data, digits.len);
    *ret_key = bytes_of(prefix.data, prefix.len + digits.len);
    return ST_OK;
}

static struct bytes sealed_at(const struct kv2_secret *secret, const struct kv2_version *version)
{
    ASSERT(version->at <= secret->stored.len && version->bytes <= secret->stored.len - version->at);
    return bytes_of(secret->stored.data + version->at, version->bytes);
}

/* From the record that it was the newest of. */
static enum status data_behind(struct req *req, const struct kv2_secret *secret,
                               const struct kv2_version *version, struct bytes *ret_data)
{
    struct kv2_record then;
    struct bytes plain;
    TRY(state_open(req->txn, secret->key, sealed_at(secret, version), &plain));
    TRY(decode(req, plain, &then));
    if (then.n == 0 || then.newest != number_of(secret, version) ||
        then.versions[then.n - 1].place != KV2_INSIDE)
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
    if (version->place == KV2_INSIDE) {
        *ret_data = version->data;
        return ST_OK;
    }
    if (version->place == KV2_BEHIND)
        return data_behind(req, secret, version, ret_data);
    TRY(version_key(req, number_of(secret, version), &key));
    enum status st = state_get(req->txn, key, &stored);
    if (st == ST_NOT_FOUND)
        return ST_CORRUPT;
    TRY(st);
    *ret_data = stored.value;
    return ST_OK;
}

static enum status put(struct req *req, bool anyway, struct bytes key, struct bytes value)
{
    return anyway ? state_put_anyway(req->txn, key, value) : state_put(req->txn, key, value);
}

static enum status move_outside(struct req *req, bool anyway, const struct kv2_secret *secret,
                                struct kv2_version *version)
{
    struct bytes key, data;
    TRY(version_key(req, number_of(secret, version), &key));
    TRY(kv2_data(req, secret, version, &data));
    TRY(put(req, anyway, key, data));
    version->place = KV2_OUTSIDE;
    version->data = (struct bytes){0};
    return ST_OK;
}

/* Keep the record short: the newest version stays in it and others behind it, in the records that
 * they came with, unless one is too long, or the oldest are too long together. */
static enum status spill(struct req *req, bool anyway, struct kv2_secret *secret)
{
    struct kv2_record *r = &secret->record;
    size_t behind = 0;
    for (size_t i = r->n; i-- > 0;) {
        struct kv2_version *v = &r->versions[i];
        if (v->place != KV2_INSIDE && v->place != KV2_BEHIND)
            continue;
        bool stays = v->place == KV2_INSIDE && i == r->n - 1;
        if (stays ? v->data.len > KV2_INSIDE_MAX : behind + v->bytes > KV2_BEHIND_MAX) {
            TRY(move_outside(req, anyway, secret, v));
        } else if (!stays) {
            behind += v->bytes;
            v->place = KV2_BEHIND;
            v->data = (struct bytes){0};
        }
    }
    return ST_OK;
}

/* What stays behind the record: a run of what is stored, or else all that is left of it, anew. */
static enum status keep_behind(const struct kv2_secret *secret, struct state_parts *parts,
                               struct buf *left)
{
    const struct kv2_record *r = &secret->record;
    bool whole = true;
    for (size_t i = r->n; i-- > 0;) {
        const struct kv2_version *v = &r->versions[i];
        if (v->place != KV2_BEHIND)
            continue;
        if (parts->kept == 0)
            parts->from = v->at;
        whole = whole && v->at == parts->from + parts->kept;
        parts->kept += v->bytes;
    }
    if (whole)
        return ST_OK;
    parts->kept = 0;
    for (size_t i = r->n; i-- > 0;)
        if (r->versions[i].place == KV2_BEHIND)
            buf_add(left, sealed_at(secret, &r->versions[i]));
    parts->behind = buf_bytes(left);
    return buf_status(left);
}

static enum status store(struct req *req, bool anyway, struct kv2_secret *secret)
{
    CLEANUP(buf_done) struct buf out = {0};
    CLEANUP(buf_done) struct buf left = {0};
    struct state_parts parts = {0};
    secret->record.updated_ms = MAX(req->now_ms, secret->record.updated_ms);
    TRY(spill(req, anyway, secret));
    TRY(keep_behind(secret, &parts, &left));
    TRY(kv2_record_encode(&secret->record, &out));
    parts.value = buf_bytes(&out);
    return state_put_parts(req->txn, secret->key, &parts, anyway);
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
    struct bytes key;
    if (version->place == KV2_OUTSIDE) {
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
    return ST_OK;
}

/* 0: never. */
static int64_t deletion_time(const struct kv2_config *config, const struct kv2_record *record,
                             int64_t created_ms)
{
    int64_t mine = record->delete_after_s, all = config->delete_after_s;
    if (all < 0 || (mine == 0 && all == 0))
        return 0;
    int64_t after_s = mine == 0 ? all : all == 0 ? mine : MIN(mine, all);
    return created_ms + after_s * 1000;
}

enum status kv2_add_version(struct req *req, const struct kv2_config *config,
                            struct kv2_secret *secret, struct bytes data)
{
    struct kv2_record *r = &secret->record;
    if (data.len > STATE_VALUE_MAX)
        return req_fail(req, ST_TOO_BIG, "the data is longer than %d bytes", STATE_VALUE_MAX);
    int64_t before_ms = r->n > 0 ? r->versions[r->n - 1].created_ms : r->created_ms;
    struct kv2_version *v = &r->versions[r->n];
    *v = (struct kv2_version){
        .created_ms = MAX(req->now_ms, before_ms), .place = KV2_INSIDE, .data = data};
    v->deleted_ms = deletion_time(config, r, v->created_ms);
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
        if (secret->record.versions[i].place == KV2_OUTSIDE)
            return state_delete_prefix(req->txn, prefix);
    return ST_OK;
}

void kv2_put_time(struct text_writer *w, const char *name, int64_t ms)
{
    if (ms != 0)
        text_member_time(w, name, ms);
    else
        text_member_str(w, name, "");
}

void kv2_put_custom(struct text_writer *w, const struct field_map *custom)
{
    text_key(w, "custom_metadata");
    if (custom->n == 0) {
        text_put_null(w);
        return;
    }
    text_open_object(w);
    for (size_t i = 0; i < custom->n; i++)
        text_member_str(w, custom->pairs[2 * i], custom->pairs[2 * i + 1]);
    text_close(w);
}

void kv2_put_version(struct text_writer *w, const struct kv2_secret *secret,
                     const struct kv2_version *version)
{
    kv2_put_time(w, "created_time", version->created_ms);
    kv2_put_custom(w, &secret->record.custom);
    kv2_put_time(w, "deletion_time", version->deleted_ms);
    text_member_bool(w, "destroyed", version->place == KV2_DESTROYED);
    text_member_int(w, "version", (int64_t)number_of(secret, version));
}
