/* Snapshot, restore and export of the rows of a transformation.
 *
 * A value of a snapshot is base64 of a record with the look-up key, the row as it is stored, and a
 * mac by a key of the transformation. Rows are walked in the order of their look-up keys, which
 * never change, so whatever existed at the first request is met. A continuation is Base58 of
 *
 *   id of the transformation (16 bytes), look-up key of the last row (32), mac (16)
 */
#include "api/transform/transform.h"
#include "api/transform/transform_sql.h"
#include "api/transform/transform_token.h"
#include "base/mem.h"
#include "base/record.h"
#include "text/base58.h"
#include "text/encode.h"

enum {
    LIMIT_MAX = 10000,
    REPLY_BYTES_MAX = 256 * 1024, /* a reply ends with the value that goes beyond it */
    EXPORT_MAX = 1000,
    RESTORE_MAX = 1000,
    VALUE_TEXT_MAX = 1024 * 1024,
    POSITION_MAC = 16,
    POSITION = TRANSFORM_SCOPE + TRANSFORM_DIGEST + POSITION_MAC,
};
static_assert((int)POSITION <= (int)TEXT_BASE58_BYTES_MAX, "a continuation fits");

struct taken {
    uint8_t mode; /* 1: default, 2: exportable */
    uint8_t lookup[TRANSFORM_DIGEST], mac[TRANSFORM_DIGEST];
    struct bytes row;
};
static const struct record_field taken_fields[] = {
    RECORD_FIELD(struct taken, mode, U8, .min = 1, .max = 2, .help = "1: default, 2: exportable"),
    RECORD_FIELD(struct taken, lookup, FIXED),
    RECORD_FIELD(struct taken, mac, FIXED, .help = "over all other fields"),
    RECORD_FIELD(struct taken, row, REST, .help = "a record transform/token"),
};
static const struct record taken_record = {
    RECORD(struct taken, taken_fields), .name = "transform/snapshot-value",
    .where = "A value of the snapshot of a transformation", .newest = 1};
RECORD_LISTED(taken_record);

struct page_in {
    int64_t limit;
    const char *continuation;
};
static const struct field page_fields[] = {
    FIELD(struct page_in, continuation, STRING,
          .help = "Where an earlier reply ended. Without it: from the start."),
    FIELD(struct page_in, limit, INT, .preset = "1000",
          .help = "Most values, 1 to 10000. A reply may have fewer."),
};
static const struct schema snapshot_page_schema = SCHEMA(struct page_in, page_fields);

/* A walk over the rows of a transformation. */
struct page {
    struct req *req;
    struct transform_transformation transformation;
    struct transform_tokens *t;
    struct hmac *hmac; /* of snapshots */
    struct req_cleanup cleanup;
    struct state_iter iter;
    struct bytes prefix;
    uint8_t lookup[TRANSFORM_DIGEST]; /* of the current row */
    struct transform_row row;
    struct bytes stored;
    size_t n, bytes, limit;
    struct transform_chain chain; /* a restore into stores outside */
    struct transform_sql *sql;
};

static void page_drop(struct req_cleanup *cleanup)
{
    struct page *p = CONTAINER_OF(cleanup, struct page, cleanup);
    hmac_free(p->hmac);
    p->hmac = NULL;
}

static enum status load_page(struct req *req, struct page **ret_page)
{
    const char *name = req_param(req, "name");
    struct page *p = arena_zalloc(req->arena, sizeof *p);
    if (p == NULL)
        return ST_NOMEM;
    p->req = req;
    p->cleanup.run = page_drop;
    req_defer(req, &p->cleanup);
    enum status st = transform_load(req, TRANSFORM_TRANSFORMATION, name,
                                    &transform_transformation_schema, &p->transformation);
    if (st == ST_NOT_FOUND ||
        (st == ST_OK && strcmp(p->transformation.type, TRANSFORM_TOKENIZATION) != 0))
        return req_fail(req, ST_INVALID, "no transformation \"%.140s\" by tokenization exists",
                        name);
    TRY(st);
    TRY(transform_tokens_load(req, name, &p->transformation, &p->t));
    *ret_page = p;
    return transform_token_hmac(p->t->ring.fixed, p->t->ring.scope, "snapshot", &p->hmac);
}

static enum status position_mac(const struct page *p, const uint8_t position[POSITION],
                                uint8_t ret_mac[HMAC_BYTES])
{
    uint8_t message[POSITION + 1] = {'p'};
    memcpy(message + 1, position, POSITION - POSITION_MAC);
    return hmac_run(p->hmac, bytes_of(message, sizeof message - POSITION_MAC), ret_mac);
}

static enum status put_position(const struct page *p, const char **ret_text)
{
    uint8_t position[POSITION], mac[HMAC_BYTES];
    char *text = arena_alloc(p->req->arena, TEXT_BASE58_LEN_MAX + 1);
    if (text == NULL)
        return ST_NOMEM;
    memcpy(position, p->t->ring.scope, TRANSFORM_SCOPE);
    memcpy(position + TRANSFORM_SCOPE, p->lookup, TRANSFORM_DIGEST);
    TRY(position_mac(p, position, mac));
    memcpy(position + POSITION - POSITION_MAC, mac, POSITION_MAC);
    (void)text_base58_put(bytes_of(position, sizeof position), text);
    *ret_text = text;
    return ST_OK;
}

/* The key at which the walk goes on: the one behind the last row. */
static enum status read_position(const struct page *p, const char *text, struct bytes *ret_from)
{
    uint8_t position[TEXT_BASE58_BYTES_MAX], mac[HMAC_BYTES];
    char lookup[TEXT_BASE64_LEN(TRANSFORM_DIGEST) + 1];
    size_t len;
    bool fits = text_base58_parse(bytes_str(text), position, &len) == ST_OK && len == POSITION;
    if (fits) {
        TRY(position_mac(p, position, mac));
        fits = bytes_eq_secret(bytes_of(mac, POSITION_MAC),
                               bytes_of(position + POSITION - POSITION_MAC, POSITION_MAC));
    }
    if (!fits)
        return req_fail(p->req, ST_INVALID,
                        "continuation: it is of no snapshot or export of this transformation");
    (void)text_base64_put(bytes_of(position + TRANSFORM_SCOPE, TRANSFORM_DIGEST), TEXT_BASE64_URL,
                          lookup);
    const char *from = arena_format(p->req->arena, "%.*s%s~", (int)p->prefix.len,
                                    (const char *)p->prefix.data, lookup);
    if (from == NULL)
        return ST_NOMEM;
    *ret_from = bytes_str(from);
    return ST_OK;
}

static enum status open_page(struct req *req, struct page **ret_page)
{
    const struct page_in *in = req_body(req);
    struct bytes from = {0};
    struct page *p;
    if (in->limit < 1 || in->limit > LIMIT_MAX)
        return req_fail(req, ST_INVALID, "limit: 1 to %d is expected", LIMIT_MAX);
    TRY(load_page(req, &p));
    if (strcmp(p->transformation.stores.items[0], TRANSFORM_INTERNAL) != 0)
        return req_fail(req, ST_INVALID,
                        "stores: rows are read from \"%s\" alone, if it is the first store: copy "
                        "the table of a database with its own tools",
                        TRANSFORM_INTERNAL);
    p->limit = (size_t)in->limit;
    TRY(transform_row_prefix(p->t, &p->prefix));
    if (in->continuation != NULL && in->continuation[0] != '\0')
        TRY(read_position(p, in->continuation, &from));
    *ret_page = p;
    return state_scan(req->txn, p->prefix, from, &p->iter);
}

/* The next row that has not ended. ST_NOT_FOUND: there are no more. */
static enum status next_row(struct page *p)
{
    uint8_t lookup[TEXT_BASE64_BYTES(TEXT_BASE64_LEN(TRANSFORM_DIGEST))];
    size_t len;
    while (state_iter_next(&p->iter)) {
        struct bytes name = bytes_from(p->iter.key, p->prefix.len);
        if (name.len >= TEXT_BASE64_LEN(TRANSFORM_DIGEST) ||
            text_base64_url_parse(name, lookup, &len) != ST_OK || len != TRANSFORM_DIGEST)
            return ST_CORRUPT;
        TRY(state_iter_value(&p->iter, &p->stored));
        TRY(record_decode(&transform_row_record, p->stored, p->req->arena, &p->row));
        memcpy(p->lookup, lookup, sizeof p->lookup);
        if (p->row.expire_ms == 0 || p->row.expire_ms > p->req->now_ms)
            return ST_OK;
    }
    return ST_NOT_FOUND;
}

/* Whether the reply is full: then another row must exist for a continuation to make sense. */
static bool is_full(const struct page *p)
{
    return p->n == p->limit || p->bytes >= REPLY_BYTES_MAX;
}

static enum status value_mac(const struct page *p, const struct taken *taken,
                             uint8_t ret_mac[HMAC_BYTES])
{
    CLEANUP(buf_done) struct buf message = {0};
    buf_add_u8(&message, 'v');
    buf_add_u8(&message, taken->mode);
    buf_add(&message, bytes_of(taken->lookup, sizeof taken->lookup));
    buf_add(&message, taken->row);
    TRY(buf_status(&message));
    return hmac_run(p->hmac, buf_bytes(&message), ret_mac);
}

static uint8_t mode_of(const struct page *p)
{
    return p->t->exportable ? 2 : 1;
}

static enum status value_text(struct page *p, const char **ret_text)
{
    CLEANUP(buf_done) struct buf encoded = {0};
    struct taken taken = {.mode = mode_of(p), .row = p->stored};
    memcpy(taken.lookup, p->lookup, sizeof taken.lookup);
    TRY(value_mac(p, &taken, taken.mac));
    TRY(record_encode(&taken_record, &taken, &encoded));
    char *text = arena_alloc(p->req->arena, TEXT_BASE64_LEN(encoded.len) + 1);
    if (text == NULL)
        return ST_NOMEM;
    p->bytes += text_base64_put(buf_bytes(&encoded), TEXT_BASE64, text);
    *ret_text = text;
    return ST_OK;
}

struct snapshot_out {
    struct field_strings values;
    const char *continuation;
};
static const struct field snapshot_fields[] = {
    FIELD(struct snapshot_out, continuation, STRING, .omit = true,
          .help = "Give it in the next request; absent at the end."),
    FIELD(struct snapshot_out, values, STRINGS, .help = "Rows, encrypted as they are stored."),
};
static const struct schema snapshot_schema = SCHEMA(struct snapshot_out, snapshot_fields);

static enum status snapshot_call(struct req *req)
{
    struct snapshot_out out = {.values = {.given = true}};
    const char *position = NULL;
    enum status st = ST_OK;
    struct page *p;
    TRY(open_page(req, &p));
    const char **values = arena_alloc(req->arena, p->limit * sizeof *values);
    if (values == NULL)
        return ST_NOMEM;
    while (!is_full(p) && (st = next_row(p)) == ST_OK) {
        TRY(value_text(p, &values[p->n]));
        p->n++;
    }
    if (is_full(p)) {
        TRY(put_position(p, &position));
        st = next_row(p);
    }
    if (st != ST_NOT_FOUND)
        TRY(st);
    out.continuation = st == ST_OK ? position : NULL;
    out.values.items = values;
    out.values.n = p->n;
    return req_reply(req, &out);
}

struct export_value {
    const char *plaintext, *token;
    int64_t expire_ms;
};
static const struct field export_value_fields[] = {
    FIELD_NAMED("expiration_time", struct export_value, expire_ms, TIME, .omit = true,
                .help = "When the token ends; absent: never."),
    FIELD(struct export_value, plaintext, STRING, .help = "Base64 of the value."),
    FIELD(struct export_value, token, STRING, .help = "Its token."),
};
static const struct schema export_value_schema = SCHEMA(struct export_value, export_value_fields);
struct export_out {
    struct field_list values;
    const char *continuation;
};
static const struct field export_fields[] = {
    FIELD(struct export_out, continuation, STRING, .omit = true,
          .help = "Give it in the next request; absent at the end."),
    FIELD(struct export_out, values, LIST, .sub = &export_value_schema,
          .help = "Values and their tokens."),
};
static const struct schema export_schema = SCHEMA(struct export_out, export_fields);

/* The token of the current row: its id is sealed in the row. */
static enum status open_id(struct page *p, const struct transform_sealer *sealer,
                           struct transform_token *token)
{
    CLEANUP(buf_done) struct buf id = {0};
    struct transform_token_key *key;
    TRY(transform_open(sealer, TRANSFORM_ID, p->row.id, &id));
    if (id.len != TRANSFORM_TOKEN_ID && id.len != TRANSFORM_TOKEN_ID_MAX)
        return ST_CORRUPT;
    memcpy(token->id, id.data, id.len);
    token->id_len = id.len;
    token->key_version = p->t->convergent ? 0 : p->row.key_version;
    transform_token_set_expiry(token, p->row.expire_ms);
    TRY(transform_tokens_key(p->t, token->key_version, &key));
    return transform_token_sign(key, token);
}

static enum status export_row(struct page *p, struct export_value *out)
{
    CLEANUP(buf_done) struct buf plain = {0};
    struct transform_token token = {.id_len = 0};
    struct transform_token_key *key;
    TRY(transform_tokens_key(p->t, p->row.key_version, &key));
    struct transform_sealer sealer = {
        .key = key->key, .scope = key->scope, .lookup = p->lookup, .expire_ms = p->row.expire_ms};
    TRY(open_id(p, &sealer, &token));
    sealer.id = bytes_of(token.id, token.id_len);
    TRY(transform_open(&sealer, TRANSFORM_VALUE, p->row.value, &plain));
    char *token_text = arena_alloc(p->req->arena, TRANSFORM_TOKEN_TEXT_MAX + 1);
    char *text = arena_alloc(p->req->arena, TEXT_BASE64_LEN(plain.len) + 1);
    if (token_text == NULL || text == NULL)
        return ST_NOMEM;
    p->bytes += transform_token_put(&token, token_text);
    p->bytes += text_base64_put(buf_bytes(&plain), TEXT_BASE64, text);
    *out = (struct export_value){text, token_text, p->row.expire_ms};
    return ST_OK;
}

static enum status export_decoded(struct req *req)
{
    struct export_out out = {.continuation = NULL};
    const char *position = NULL;
    size_t skipped = 0;
    enum status st = ST_OK;
    struct page *p;
    TRY(open_page(req, &p));
    if (!p->t->exportable)
        return req_fail(req, ST_INVALID, "mapping_mode: it is default, so nothing can be exported");
    p->limit = MIN(p->limit, (size_t)EXPORT_MAX);
    struct export_value *values = arena_alloc(req->arena, p->limit * sizeof *values);
    if (values == NULL)
        return ST_NOMEM;
    while (!is_full(p) && (st = next_row(p)) == ST_OK) {
        if (!transform_tokens_decodes(p->t, p->row.key_version))
            skipped++;
        else
            TRY(export_row(p, &values[p->n++]));
    }
    if (is_full(p)) {
        TRY(put_position(p, &position));
        st = next_row(p);
    }
    if (st != ST_NOT_FOUND)
        TRY(st);
    if (skipped != 0)
        req_warn(req,
                 "%zu tokens were left out: the version of their key was trimmed, or is below "
                 "min_decryption_version",
                 skipped);
    out.continuation = st == ST_OK ? position : NULL;
    out.values = (struct field_list){values, p->n};
    return req_reply(req, &out);
}

struct restore_in {
    struct field_strings values;
};
static const struct field restore_fields[] = {
    FIELD(struct restore_in, values, STRINGS, .required = true,
          .help = "Values of a snapshot of this transformation, 1000 at most, in any order."),
};
static const struct schema restore_schema = SCHEMA(struct restore_in, restore_fields);

static enum status refuse_value(struct page *p, size_t at, const char *why)
{
    return req_fail(p->req, ST_INVALID, "values: number %zu %s", at + 1, why);
}

/* Read a value and check that this transformation made it. */
static enum status read_taken(struct page *p, size_t at, const char *text, struct taken *taken)
{
    uint8_t mac[HMAC_BYTES];
    size_t len = strlen(text);
    uint8_t *bytes = arena_alloc(p->req->arena, TEXT_BASE64_BYTES(len));
    if (len > VALUE_TEXT_MAX)
        return refuse_value(p, at, "is too long");
    if (bytes == NULL)
        return ST_NOMEM;
    enum status st = text_base64_parse(bytes_str(text), bytes, &len);
    if (st == ST_OK)
        st = record_decode(&taken_record, bytes_of(bytes, len), p->req->arena, taken);
    if (st == ST_NOMEM)
        return st;
    if (st != ST_OK)
        return refuse_value(p, at, "is no value of a snapshot");
    if (taken->mode != mode_of(p))
        return refuse_value(p, at, "is of another mapping_mode");
    TRY(value_mac(p, taken, mac));
    if (!bytes_eq_secret(bytes_of(mac, sizeof mac), bytes_of(taken->mac, sizeof taken->mac)))
        return refuse_value(p, at, "is of another transformation, or was altered");
    return record_decode(&transform_row_record, taken->row, p->req->arena, &p->row);
}

/* A row that exists stays: it is the same, or has newer metadata. */
static enum status restore_value(struct page *p, size_t at, const char *text)
{
    struct taken taken;
    struct transform_row present;
    TRY(read_taken(p, at, text, &taken));
    if (p->row.expire_ms != 0 && p->row.expire_ms <= p->req->now_ms)
        return ST_OK;
    if (p->t->sql != NULL)
        TRY(transform_sql_write(p->t->sql, taken.lookup, &p->row));
    if (!p->t->is_internal)
        return ST_OK;
    enum status st = transform_row_load(p->t, taken.lookup, &present);
    if (st != ST_NOT_FOUND)
        return st;
    return transform_row_save(p->t, taken.lookup, &p->row);
}

static enum status nothing_again(struct transform_chain *chain, struct reason *reason)
{
    (void)chain; /* a restore reads no rows outside */
    (void)reason;
    return ST_OK;
}

static enum status restore_call(struct req *req)
{
    const struct restore_in *in = req_body(req);
    struct page *p;
    TRY(load_page(req, &p));
    if (in->values.n == 0 || in->values.n > RESTORE_MAX)
        return req_fail(req, ST_INVALID, "values: 1 to %d are expected, %zu were given",
                        RESTORE_MAX, in->values.n);
    for (size_t i = 0; i < in->values.n; i++)
        TRY(restore_value(p, i, in->values.items[i]));
    struct transform_sql *sql = p->t->sql;
    if (sql == NULL || sql->writes.n == 0) {
        req_skip_outside(req);
        return ST_OK;
    }
    sql->only_missing = true;
    p->sql = sql;
    p->chain.all = &p->sql;
    p->chain.n = 1;
    p->chain.again = nothing_again;
    p->chain.req = req;
    req->prepared = p;
    return transform_sql_keep(sql);
}

static void restore_waits(struct req *req, struct req_wait *wait)
{
    struct page *p = req->prepared;
    if (p == NULL) { /* an earlier try of the request has run the handler */
        req_wait_done(wait);
        return;
    }
    p->chain.wait = wait;
    transform_chain_start(&p->chain);
}

static enum status restore_outside(struct req *req)
{
    const struct page *p = req->prepared;
    return p != NULL ? transform_chain_result(&p->chain) : ST_UNKNOWN_OUTCOME;
}

static const struct route snapshot_routes[] = {
    {.method = METHOD_POST,
     .path = "transformations/tokenization/snapshot/+name",
     .handler = snapshot_call,
     .flags = ROUTE_READS,
     .feature = TRANSFORM_TOKEN_FEATURE,
     .body = &snapshot_page_schema,
     .reply = &snapshot_schema,
     .help = "Read the tokens of a transformation as they are stored, a part with each request. "
             "All that existed at the first request are in it."},
    {.method = METHOD_POST,
     .path = "transformations/tokenization/restore/+name",
     .handler = restore_call,
     .waits = restore_waits,
     .outside = restore_outside,
     .feature = TRANSFORM_TOKEN_FEATURE,
     .body = &restore_schema,
     .help = "Store values of a snapshot of the same transformation. Tokens that exist stay."},
    {.method = METHOD_POST,
     .path = "transformations/tokenization/export-decoded/+name",
     .handler = export_decoded,
     .flags = ROUTE_READS | ROUTE_SUDO,
     .feature = TRANSFORM_TOKEN_FEATURE,
     .body = &snapshot_page_schema,
     .reply = &export_schema,
     .help = "Read all values in clear with their tokens, where mapping_mode is exportable."},
};
const struct route_table transform_token_snapshot_table = {snapshot_routes,
                                                           ARRAY_LEN(snapshot_routes)};
