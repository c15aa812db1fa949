/* Rows of the internal store, the index of fingerprints, and the end of rows. */
#include "api/transform/transform.h"
#include "api/transform/transform_sql.h"
#include "api/transform/transform_token.h"
#include "state/ns_key.h"
#include "state/state_record.h"
#include "text/encode.h"

enum {
    DIGEST_TEXT = 43, /* base64url of TRANSFORM_DIGEST bytes */
    SEALED_MAX = 128 * 1024
};

#define NEVER "000000000000"

static const struct record_field row_fields[] = {
    RECORD_FIELD(struct transform_row, key_version, U32, .min = 1, .help = "of the data key"),
    RECORD_FIELD(struct transform_row, print, FIXED, .help = "fingerprint of the value"),
    RECORD_FIELD(struct transform_row, expire_ms, U64, .max = TEXT_EXPIRY_END - 1,
                 .help = "0: never"),
    RECORD_FIELD(struct transform_row, value, BLOCK, .min = 1, .max = SEALED_MAX,
                 .help = "sealed with a key that needs the token"),
    RECORD_FIELD(struct transform_row, metadata, BLOCK, .max = SEALED_MAX,
                 .help = "sealed with the same key; empty: none"),
    RECORD_FIELD(struct transform_row, id, BLOCK, .max = SEALED_MAX,
                 .help = "of the token, sealed; empty unless it can be exported"),
};
const struct record transform_row_record = {
    RECORD(struct transform_row, row_fields), .name = "transform/token",
    .where = "Key `token/ID/LOOKUP` of a mount of the transform engine", .newest = 1};
RECORD_LISTED(transform_row_record);

/* Where the rows of a transformation lie: for a request, and for the duty of the active node. */
struct place {
    struct state_txn *txn;
    const char *ns, *uuid, *scope;
};

static struct place place_of(const struct transform_tokens *t)
{
    return (struct place){t->req->txn, t->req->ns, t->req->mount->uuid, t->scope};
}

static enum status place_key(const struct place *p, const char *path, struct bytes *ret_key)
{
    const struct mount mount = {.uuid = p->uuid};
    return path != NULL ? mount_key(p->txn->arena, p->ns, &mount, path, ret_key) : ST_NOMEM;
}

static enum status row_key(const struct place *p, const char *lookup, struct bytes *ret_key)
{
    return place_key(p, arena_format(p->txn->arena, "token/%s/%s", p->scope, lookup), ret_key);
}

static enum status print_key(const struct place *p, const uint8_t print[TRANSFORM_DIGEST],
                             const char *rest, struct bytes *ret_key)
{
    char text[TEXT_BASE64_LEN(TRANSFORM_DIGEST) + 1];
    (void)text_base64_put(bytes_of(print, TRANSFORM_DIGEST), TEXT_BASE64_URL, text);
    return place_key(p, arena_format(p->txn->arena, "fingerprint/%s/%s/%s", p->scope, text, rest),
                     ret_key);
}

static void time_text(int64_t ms, char ret_text[STATE_TIME_DIGITS + 1])
{
    if (ms == 0)
        memcpy(ret_text, NEVER, sizeof NEVER);
    else
        state_time_text(ms, ret_text);
}

static enum status index_key(const struct place *p, const struct transform_row *row,
                             const char *lookup, struct bytes *ret_key)
{
    char time[STATE_TIME_DIGITS + 1];
    time_text(row->expire_ms, time);
    const char *rest = arena_format(p->txn->arena, "%s/%s", time, lookup);
    return rest != NULL ? print_key(p, row->print, rest, ret_key) : ST_NOMEM;
}

/* The entry of the end of a row: "UUID.ID.LOOKUP". */
static enum status entry_of(const struct place *p, const char *lookup, const char **ret_id)
{
    *ret_id = arena_format(p->txn->arena, "%s.%s.%s", p->uuid, p->scope, lookup);
    return *ret_id != NULL ? ST_OK : ST_NOMEM;
}

static void lookup_text(const uint8_t lookup[TRANSFORM_DIGEST],
                        char ret_text[TEXT_BASE64_LEN(TRANSFORM_DIGEST) + 1])
{
    size_t len = text_base64_put(bytes_of(lookup, TRANSFORM_DIGEST), TEXT_BASE64_URL, ret_text);
    ASSERT(len == DIGEST_TEXT);
}

static enum status load(const struct place *p, const char *lookup, struct transform_row *ret_row)
{
    struct bytes key;
    TRY(row_key(p, lookup, &key));
    return state_get_record(p->txn, key, &transform_row_record, ret_row);
}

static enum status drop(const struct place *p, const char *lookup, const struct transform_row *row)
{
    struct bytes key;
    TRY(row_key(p, lookup, &key));
    TRY(state_delete(p->txn, key));
    TRY(index_key(p, row, lookup, &key));
    return state_delete(p->txn, key);
}

enum status transform_row_load(struct transform_tokens *t, const uint8_t lookup[TRANSFORM_DIGEST],
                               struct transform_row *ret_row)
{
    char text[TEXT_BASE64_LEN(TRANSFORM_DIGEST) + 1];
    const struct place p = place_of(t);
    lookup_text(lookup, text);
    return load(&p, text, ret_row);
}

enum status transform_row_find(struct transform_tokens *t, const uint8_t lookup[TRANSFORM_DIGEST],
                               struct transform_row *ret_row)
{
    if (t->outside)
        return transform_sql_find(t->sql, lookup, ret_row);
    enum status st = t->is_internal ? transform_row_load(t, lookup, ret_row) : ST_NOT_FOUND;
    if (st != ST_NOT_FOUND || t->sql == NULL)
        return st;
    TRY(transform_sql_want(t->sql, lookup));
    t->waits = true;
    return ST_BUSY;
}

enum status transform_row_save(struct transform_tokens *t, const uint8_t lookup[TRANSFORM_DIGEST],
                               const struct transform_row *row)
{
    char text[TEXT_BASE64_LEN(TRANSFORM_DIGEST) + 1];
    const struct place p = place_of(t);
    const char *id;
    struct bytes key;
    ASSERT(row->key_version != 0 && row->value.len != 0);
    lookup_text(lookup, text);
    TRY(row_key(&p, text, &key));
    TRY(state_put_record(p.txn, key, &transform_row_record, row));
    TRY(index_key(&p, row, text, &key));
    TRY(state_put_name(p.txn, key, false));
    if (row->expire_ms == 0)
        return ST_OK;
    TRY(entry_of(&p, text, &id));
    return expiry_put(p.txn, &transform_token_end, p.ns, row->expire_ms, id);
}

enum status transform_row_delete(struct transform_tokens *t, const uint8_t lookup[TRANSFORM_DIGEST],
                                 const struct transform_row *row)
{
    char text[TEXT_BASE64_LEN(TRANSFORM_DIGEST) + 1];
    const struct place p = place_of(t);
    const char *id;
    lookup_text(lookup, text);
    TRY(drop(&p, text, row));
    if (row->expire_ms == 0)
        return ST_OK;
    TRY(entry_of(&p, text, &id));
    return expiry_drop_new(p.txn, &transform_token_end, p.ns, row->expire_ms, id);
}

/* The end in a key of the index, "…/TIME/LOOKUP". */
static enum status read_index_name(struct bytes rest, int64_t *ret_ms, struct bytes *ret_lookup)
{
    int64_t ms = 0;
    if (rest.len != STATE_TIME_DIGITS + 1 + DIGEST_TEXT || rest.data[STATE_TIME_DIGITS] != '/')
        return ST_CORRUPT;
    for (size_t i = 0; i < STATE_TIME_DIGITS; i++)
        ms = ms << 4 | (int64_t)(text_hex_digit(rest.data[i]) & 15);
    *ret_ms = ms;
    *ret_lookup = bytes_from(rest, STATE_TIME_DIGITS + 1);
    return ST_OK;
}

enum status transform_row_each(struct transform_tokens *t, const uint8_t print[TRANSFORM_DIGEST],
                               int64_t from_ms, int64_t to_ms,
                               enum status (*each)(void *ctx, int64_t expire_ms,
                                                   struct bytes lookup),
                               void *ctx)
{
    const struct place p = place_of(t);
    struct state_iter *iter = arena_alloc(t->req->arena, sizeof *iter);
    char time[STATE_TIME_DIGITS + 1];
    struct bytes prefix, from, lookup;
    int64_t ms;
    if (iter == NULL)
        return ST_NOMEM;
    time_text(MIN(from_ms, TEXT_EXPIRY_END - 1), time);
    TRY(print_key(&p, print, "", &prefix));
    TRY(print_key(&p, print, time, &from));
    TRY(state_scan(p.txn, prefix, from, iter));
    while (state_iter_next(iter)) {
        TRY(read_index_name(bytes_from(iter->key, prefix.len), &ms, &lookup));
        if (ms > to_ms)
            break;
        enum status st = each(ctx, ms, lookup);
        if (st != ST_OK)
            return st == ST_NOT_FOUND ? ST_OK : st;
    }
    return ST_OK;
}

enum status transform_row_prefix(struct transform_tokens *t, struct bytes *ret_prefix)
{
    const struct place p = place_of(t);
    return row_key(&p, "", ret_prefix);
}

/* The end of a row has come. */
static enum status row_ends(const struct expiry_task *task)
{
    const char *dot = strchr(task->id, '.');
    const char *second = dot != NULL ? strchr(dot + 1, '.') : NULL;
    struct transform_row row;
    if (second == NULL)
        return ST_NOT_FOUND;
    struct arena *arena = task->txn->arena;
    const struct place p = {task->txn, task->ns,
                            arena_str(arena, bytes_of(task->id, (size_t)(dot - task->id))),
                            arena_str(arena, bytes_of(dot + 1, (size_t)(second - dot - 1)))};
    if (p.uuid == NULL || p.scope == NULL)
        return ST_NOMEM;
    TRY(load(&p, second + 1, &row));
    if (row.expire_ms == 0 || row.expire_ms > task->now_ms)
        return ST_NOT_FOUND;
    return drop(&p, second + 1, &row);
}

const struct expiry_kind transform_token_end = {
    .name = "transform-token", .former_end = "transform-token", .end = row_ends};
