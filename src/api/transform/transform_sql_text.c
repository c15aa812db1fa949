/* Statements on the table `tokens`. Values are always bound; the only name in a text is the
 * schema's, which was checked when the store was written. */
#include "api/transform/transform_sql.h"
#include "text/time.h"

enum { COLUMNS = 8, SEALED_MAX = 128 * 1024, PLACES_MAX = 1024 };

struct statement {
    struct transform_sql *sql;
    const struct transform_sql_store *store;
    struct out_sql_conn *conn;
    struct reason *reason;
    struct arena *arena; /* of the statement alone */
    struct buf text;
    struct out_sql_value *values;
    size_t n, room;
    bool postgres;
    struct transform_list *to; /* rows go here */
    int64_t limit;
};

static enum status open_statement(struct statement *s, size_t room)
{
    s->postgres = out_sql_conn_driver(s->conn) == OUT_SQL_POSTGRES;
    s->room = room;
    s->values = arena_zalloc(s->arena, room * sizeof *s->values);
    return s->values != NULL ? ST_OK : ST_NOMEM;
}

static void put(struct statement *s, const char *text)
{
    buf_add(&s->text, bytes_str(text));
}

static void put_table(struct statement *s)
{
    const char *name = transform_store_table_name(
        s->arena, s->postgres ? OUT_SQL_POSTGRES : OUT_SQL_MYSQL, s->store->store.schema);
    if (name != NULL)
        put(s, name);
    else
        s->text.failed = true;
}

/* Append the mark of the next parameter, and bind it. */
static void bind(struct statement *s, struct out_sql_value value)
{
    ASSERT(s->n < s->room);
    s->values[s->n++] = value;
    if (s->postgres)
        buf_add_format(&s->text, "$%zu", s->n);
    else
        buf_add_u8(&s->text, '?');
}

static struct out_sql_value blob(struct bytes bytes)
{
    return (struct out_sql_value){.kind = OUT_SQL_BYTES, .bytes = bytes};
}

static struct out_sql_value blob_or_null(struct bytes bytes)
{
    return (struct out_sql_value){.kind = OUT_SQL_BYTES, .bytes = bytes, .is_null = bytes.len == 0};
}

static struct out_sql_value number(int64_t n)
{
    return (struct out_sql_value){.kind = OUT_SQL_INT, .number = n};
}

static struct out_sql_value scope_of(const struct statement *s)
{
    return (struct out_sql_value){.kind = OUT_SQL_UUID,
                                  .bytes = bytes_of(s->sql->ring.scope, TRANSFORM_SCOPE)};
}

static void put_digests(struct statement *s, const struct transform_digest *items, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        put(s, i == 0 ? "(" : ", ");
        bind(s, blob(bytes_of(items[i].bytes, TRANSFORM_DIGEST)));
    }
    put(s, ")");
}

static enum status run_statement(struct statement *s, const char *columns,
                                 enum status (*row)(void *ctx, const struct out_sql_value *values))
{
    buf_add_u8(&s->text, '\0');
    TRY(buf_status(&s->text));
    const struct out_sql_query query = {.text = (const char *)s->text.data,
                                        .values = s->values,
                                        .n = s->n,
                                        .columns = columns,
                                        .row = row,
                                        .ctx = s};
    return out_sql_run(s->conn, &query, s->reason);
}

static enum status copy_cell(struct statement *s, const struct out_sql_value *v, size_t max,
                             struct bytes *ret)
{
    *ret = (struct bytes){0};
    if (v->is_null || v->bytes.len == 0)
        return ST_OK;
    if (v->bytes.len > max) {
        reason_set(s->reason, "a row of it is malformed");
        return ST_BAD_GATEWAY;
    }
    *ret = bytes_of(arena_dup(s->sql->t->req->arena, v->bytes), v->bytes.len);
    return ret->data != NULL ? ST_OK : ST_NOMEM;
}

/* Columns: storage_token, fingerprint, key_version, expiration_time, encrypted_id, ciphertext,
 * encrypted_metadata; a look-up by fingerprint lacks the last two. */
static enum status take_sql_row(void *ctx, const struct out_sql_value *v, bool whole)
{
    struct statement *s = ctx;
    bool fits = !v[0].is_null && v[0].bytes.len == TRANSFORM_DIGEST && !v[1].is_null &&
                v[1].bytes.len == TRANSFORM_DIGEST && v[2].number > 0 &&
                v[2].number <= UINT32_MAX && v[3].number >= 0 && v[3].number < TEXT_EXPIRY_END;
    if (!fits) {
        reason_set(s->reason, "a row of it is malformed");
        return ST_BAD_GATEWAY;
    }
    struct transform_sql_row *row = transform_list_add(s->sql->t->req->arena, s->to, sizeof *row);
    if (row == NULL)
        return ST_NOMEM;
    memcpy(row->lookup, v[0].bytes.data, TRANSFORM_DIGEST);
    memcpy(row->row.print, v[1].bytes.data, TRANSFORM_DIGEST);
    row->row.key_version = (uint32_t)v[2].number;
    row->row.expire_ms = v[3].is_null ? 0 : v[3].number;
    TRY(copy_cell(s, &v[4], SEALED_MAX, &row->row.id));
    if (!whole)
        return ST_OK;
    TRY(copy_cell(s, &v[5], SEALED_MAX, &row->row.value));
    return copy_cell(s, &v[6], SEALED_MAX, &row->row.metadata);
}

static enum status on_row(void *ctx, const struct out_sql_value *v)
{
    return take_sql_row(ctx, v, true);
}

static enum status on_hit(void *ctx, const struct out_sql_value *v)
{
    return take_sql_row(ctx, v, false);
}

/* Rows that an earlier store gave are asked for again, which is harmless: the first one counts. */
static enum status read_rows(struct statement *s)
{
    struct transform_sql *sql = s->sql;
    const struct transform_digest *wants = sql->wants.items;
    struct transform_digest *missing =
        arena_alloc(s->arena, MAX(sql->wants.n, (size_t)1) * sizeof *missing);
    struct transform_row row;
    size_t n = 0;
    if (missing == NULL)
        return ST_NOMEM;
    sql->sorted = false;
    for (size_t i = 0; i < sql->wants.n; i++)
        if (transform_sql_find(sql, wants[i].bytes, &row) == ST_NOT_FOUND)
            missing[n++] = wants[i];
    if (n == 0)
        return ST_OK;
    TRY(open_statement(s, n + 1));
    s->to = &sql->found;
    put(s, "SELECT storage_token, fingerprint, key_version, expiration_time, encrypted_id, "
           "ciphertext, encrypted_metadata FROM ");
    put_table(s);
    put(s, " WHERE ciphertext IS NOT NULL AND transform_id = ");
    bind(s, scope_of(s));
    put(s, " AND storage_token IN ");
    put_digests(s, missing, n);
    return run_statement(s, "bbiibbb", on_row);
}

static enum status read_hits(struct statement *s)
{
    struct transform_sql *sql = s->sql;
    TRY(open_statement(s, sql->prints.n + 3));
    s->to = &sql->hits;
    put(s, "SELECT storage_token, fingerprint, key_version, expiration_time, encrypted_id FROM ");
    put_table(s);
    put(s, " WHERE ciphertext IS NOT NULL AND transform_id = ");
    bind(s, scope_of(s));
    put(s, " AND fingerprint IN ");
    put_digests(s, sql->prints.items, sql->prints.n);
    put(s, " AND (expiration_time IS NULL OR expiration_time > ");
    bind(s, number(sql->t->req->now_ms));
    put(s, ") ORDER BY expiration_time IS NOT NULL, expiration_time LIMIT ");
    bind(s, number(TRANSFORM_HITS_MAX));
    return run_statement(s, "bbiib", on_hit);
}

static const char upsert_postgres[] =
    " ON CONFLICT (transform_id, storage_token) DO UPDATE SET fingerprint = EXCLUDED.fingerprint, "
    "key_version = EXCLUDED.key_version, ciphertext = EXCLUDED.ciphertext, "
    "encrypted_metadata = EXCLUDED.encrypted_metadata, encrypted_id = EXCLUDED.encrypted_id, "
    "expiration_time = EXCLUDED.expiration_time WHERE t.ciphertext IS NULL OR ";
static const char if_metadata_postgres[] = "EXCLUDED.encrypted_metadata IS NOT NULL OR ";
static const char if_metadata_mysql[] = "VALUES(encrypted_metadata) IS NOT NULL OR ";

/* MariaDB assigns from left to right, so the columns of the condition come last. A tombstone has no
 * fingerprint; a live row of the same key has the same one. */
static const char *const replaced_mysql[] = {"encrypted_id", "expiration_time", "ciphertext",
                                             "encrypted_metadata", "key_version"};

static void put_upsert_mysql(struct statement *s, int64_t least)
{
    put(s, " ON DUPLICATE KEY UPDATE ");
    for (size_t i = 0; i < ARRAY_LEN(replaced_mysql); i++) {
        const char *column = replaced_mysql[i];
        buf_add_format(&s->text, "%s = IF(fingerprint = '' OR ", column);
        put(s, s->sql->only_missing ? "" : if_metadata_mysql);
        put(s, "key_version < ");
        bind(s, number(least));
        buf_add_format(&s->text, ", VALUES(%s), %s), ", column, column);
    }
    put(s, "fingerprint = VALUES(fingerprint)");
}

/* A new row; a tombstone and a row whose key is gone are written anew; a live row stays, unless
 * there is new metadata, whose key is that of the whole new row. */
static enum status write_rows(struct statement *s)
{
    struct transform_sql *sql = s->sql;
    const struct transform_sql_row *rows = sql->writes.items;
    TRY(open_statement(s, COLUMNS * sql->writes.n + ARRAY_LEN(replaced_mysql)));
    put(s, "INSERT INTO ");
    put_table(s);
    put(s, s->postgres ? " AS t" : "");
    put(s, " (transform_id, storage_token, fingerprint, key_version, ciphertext, "
           "encrypted_metadata, encrypted_id, expiration_time) VALUES ");
    for (size_t i = 0; i < sql->writes.n; i++) {
        const struct transform_row *row = &rows[i].row;
        const struct out_sql_value values[COLUMNS] = {
            scope_of(s),
            blob(bytes_of(rows[i].lookup, TRANSFORM_DIGEST)),
            blob(bytes_of(row->print, TRANSFORM_DIGEST)),
            number(row->key_version),
            blob(row->value),
            blob_or_null(row->metadata),
            blob_or_null(row->id),
            {.kind = OUT_SQL_INT, .number = row->expire_ms, .is_null = row->expire_ms == 0}};
        for (size_t k = 0; k < COLUMNS; k++) {
            put(s, k != 0 ? ", " : i != 0 ? ", (" : "(");
            bind(s, values[k]);
        }
        put(s, ")");
    }
    const int64_t least = MAX(sql->ring.min_available, sql->ring.min_decryption);
    if (s->postgres) {
        put(s, upsert_postgres);
        put(s, sql->only_missing ? "" : if_metadata_postgres);
        put(s, "t.key_version < ");
        bind(s, number(least));
    } else {
        put_upsert_mysql(s, least);
    }
    return run_statement(s, "", NULL);
}

static enum status wipe_rows(struct statement *s)
{
    struct transform_sql *sql = s->sql;
    TRY(open_statement(s, sql->tombs.n + 1));
    put(s, "UPDATE ");
    put_table(s);
    put(s, " SET ciphertext = NULL, encrypted_metadata = NULL, encrypted_id = NULL, "
           "fingerprint = '' WHERE ciphertext IS NOT NULL AND transform_id = ");
    bind(s, scope_of(s));
    put(s, " AND storage_token IN ");
    put_digests(s, sql->tombs.items, sql->tombs.n);
    return run_statement(s, "", NULL);
}

/* Run a statement, again where it met another one. */
static enum status with_statement(struct transform_sql *sql,
                                  const struct transform_sql_store *store,
                                  struct out_sql_conn *conn, struct reason *reason,
                                  enum status (*make)(struct statement *s))
{
    enum { TRIES = 5 };
    enum status st = ST_CONFLICT;
    for (int i = 0; i < TRIES && st == ST_CONFLICT; i++) {
        CLEANUP(arena_done) struct arena arena = {0};
        struct statement s = {
            .sql = sql, .store = store, .conn = conn, .reason = reason, .arena = &arena};
        st = make(&s);
        buf_done(&s.text);
    }
    return st == ST_CONFLICT ? ST_BAD_GATEWAY : st;
}

enum status transform_sql_read_rows(struct transform_sql *sql,
                                    const struct transform_sql_store *store,
                                    struct out_sql_conn *conn, struct reason *reason)
{
    return with_statement(sql, store, conn, reason, read_rows);
}

enum status transform_sql_read_hits(struct transform_sql *sql,
                                    const struct transform_sql_store *store,
                                    struct out_sql_conn *conn, struct reason *reason)
{
    return with_statement(sql, store, conn, reason, read_hits);
}

enum status transform_sql_write_rows(struct transform_sql *sql,
                                     const struct transform_sql_store *store,
                                     struct out_sql_conn *conn, struct reason *reason)
{
    return with_statement(sql, store, conn, reason, write_rows);
}

enum status transform_sql_wipe_rows(struct transform_sql *sql,
                                    const struct transform_sql_store *store,
                                    struct out_sql_conn *conn, struct reason *reason)
{
    return with_statement(sql, store, conn, reason, wipe_rows);
}
