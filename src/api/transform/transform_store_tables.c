/* The tables of a store.
 *
 *   tokens           a row is a token; without ciphertext: a tombstone, or its end has passed
 *   schema_version   the versions of these tables that were applied
 *
 * Each statement may run again, so the whole may: an attempt that ended half-way is repeated. */
#include "api/transform/transform_store.h"

const char *transform_store_table_name(struct arena *arena, enum out_sql_driver driver,
                                       const char *schema)
{
    return driver == OUT_SQL_POSTGRES ? arena_format(arena, "\"%s\".\"tokens\"", schema) : "tokens";
}

static const char *const postgres[] = {
    "CREATE TABLE IF NOT EXISTS \"%s\".schema_version (version integer PRIMARY KEY, "
    "applied_at timestamptz NOT NULL DEFAULT now())",
    "CREATE TABLE IF NOT EXISTS \"%s\".tokens ("
    "transform_id uuid NOT NULL, storage_token bytea NOT NULL, fingerprint bytea NOT NULL, "
    "key_version bigint NOT NULL, ciphertext bytea, encrypted_metadata bytea, encrypted_id bytea, "
    "expiration_time bigint, seq bigint GENERATED ALWAYS AS IDENTITY UNIQUE, "
    "PRIMARY KEY (transform_id, storage_token))",
    "CREATE INDEX IF NOT EXISTS tokens_fingerprint ON \"%s\".tokens "
    "(transform_id, fingerprint, expiration_time)",
    "CREATE INDEX IF NOT EXISTS tokens_expiration ON \"%s\".tokens (expiration_time) "
    "WHERE ciphertext IS NOT NULL",
    "INSERT INTO \"%s\".schema_version (version) VALUES (1) ON CONFLICT DO NOTHING",
};

static const char *const mysql[] = {
    "CREATE TABLE IF NOT EXISTS schema_version (version int PRIMARY KEY, "
    "applied_at timestamp NOT NULL DEFAULT current_timestamp) ENGINE=InnoDB",
    "CREATE TABLE IF NOT EXISTS tokens ("
    "transform_id binary(16) NOT NULL, storage_token varbinary(32) NOT NULL, "
    "fingerprint varbinary(32) NOT NULL, key_version bigint NOT NULL, ciphertext mediumblob, "
    "encrypted_metadata mediumblob, encrypted_id mediumblob, expiration_time bigint, "
    "seq bigint NOT NULL AUTO_INCREMENT, PRIMARY KEY (transform_id, storage_token), "
    "UNIQUE KEY tokens_seq (seq), "
    "KEY tokens_fingerprint (transform_id, fingerprint, expiration_time), "
    "KEY tokens_expiration (expiration_time)) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4",
    "INSERT IGNORE INTO schema_version (version) VALUES (1)",
};

static enum status run_text(struct out_sql_conn *conn, const char *text, struct reason *reason)
{
    const struct out_sql_query query = {.text = text, .columns = ""};
    return out_sql_run(conn, &query, reason);
}

static enum status on_found(void *ctx, const struct out_sql_value *values)
{
    bool *found = ctx;
    ASSERT(values != NULL);
    *found = true;
    return ST_OK;
}

/* Without the right to create schemas, an existing one will do. */
static enum status need_schema(struct out_sql_conn *conn, const char *schema, struct arena *arena,
                               struct reason *reason)
{
    const struct out_sql_value name = {.kind = OUT_SQL_BYTES, .bytes = bytes_str(schema)};
    bool found = false;
    const struct out_sql_query query = {.text = "SELECT 1::bigint FROM pg_catalog.pg_namespace "
                                                "WHERE nspname = convert_from($1, 'UTF8')",
                                        .values = &name,
                                        .n = 1,
                                        .columns = "i",
                                        .row = on_found,
                                        .ctx = &found};
    TRY(out_sql_run(conn, &query, reason));
    if (found)
        return ST_OK;
    const char *text = arena_format(arena, "CREATE SCHEMA IF NOT EXISTS \"%s\"", schema);
    return text != NULL ? run_text(conn, text, reason) : ST_NOMEM;
}

enum status transform_store_make_tables(struct out_sql_conn *conn, const char *schema,
                                        struct reason *reason)
{
    CLEANUP(arena_done) struct arena arena = {0};
    bool is_postgres = out_sql_conn_driver(conn) == OUT_SQL_POSTGRES;
    const char *const *texts = is_postgres ? postgres : mysql;
    size_t n = is_postgres ? ARRAY_LEN(postgres) : ARRAY_LEN(mysql);
    if (is_postgres)
        TRY(need_schema(conn, schema, &arena, reason));
    for (size_t i = 0; i < n; i++) {
        const char *text = texts[i];
        CLEANUP(buf_drop) struct buf statement = {0};
        for (const char *mark; (mark = strstr(text, "%s")) != NULL; text = mark + 2) {
            buf_add(&statement, bytes_of(text, (size_t)(mark - text)));
            buf_add_str(&statement, schema);
        }
        buf_add(&statement, bytes_of(text, strlen(text) + 1));
        TRY(buf_status(&statement));
        TRY(run_text(conn, (const char *)statement.data, reason));
    }
    return ST_OK;
}
