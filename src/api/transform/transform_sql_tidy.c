/* Rows whose end has passed are wiped in the databases: a chore of each node that writes to a
 * store, at most once a period. The rows are refused without that. */
#include "api/transform/transform_sql.h"
#include "base/mem.h"

enum { PERIOD_MS = 3600 * 1000, ROWS = 1000, ROUNDS_MAX = 1000 };

struct tidy {
    struct out_sql_job job;
    struct arena arena; /* of the texts */
    const char *pool, *label, *statement;
    struct out_sql_target target;
    struct out_sql_limits limits;
    int64_t now_ms;
    unsigned rounds;
    bool more;
};

static const char postgres[] =
    "UPDATE %s SET ciphertext = NULL, encrypted_metadata = NULL, encrypted_id = NULL, fingerprint "
    "= "
    "'' WHERE ctid = ANY (ARRAY (SELECT ctid FROM %s WHERE ciphertext IS NOT NULL AND "
    "expiration_time <= $1 ORDER BY expiration_time LIMIT 1000))";
static const char mysql[] =
    "UPDATE %s SET ciphertext = NULL, encrypted_metadata = NULL, encrypted_id = NULL, fingerprint "
    "= "
    "'' WHERE ciphertext IS NOT NULL AND expiration_time <= ? ORDER BY expiration_time LIMIT 1000";

static enum status run_tidy(struct out_sql_job *job, struct out_sql_conn *conn,
                            struct reason *reason)
{
    struct tidy *t = CONTAINER_OF(job, struct tidy, job);
    const struct out_sql_value now = {.kind = OUT_SQL_INT, .number = t->now_ms};
    const struct out_sql_query query = {
        .text = t->statement, .values = &now, .n = 1, .columns = ""};
    t->more = false;
    TRY(out_sql_run(conn, &query, reason));
    t->more = out_sql_changed(conn) >= ROWS;
    return ST_OK;
}

static void tidy_free(struct tidy *t)
{
    arena_done(&t->arena);
    mem_free(t);
}

static void submit(struct tidy *t)
{
    t->job.until_ms = out_sql_now_ms() + OUT_SQL_JOB_MS;
    out_sql_submit(t->pool, t->label, &t->target, &t->limits, &t->job);
}

/* A failure is left to the next period. */
static void on_tidied(struct out_sql_job *job)
{
    struct tidy *t = CONTAINER_OF(job, struct tidy, job);
    if (job->status == ST_OK && t->more && ++t->rounds < ROUNDS_MAX)
        submit(t);
    else
        tidy_free(t);
}

static const char *kept(struct tidy *t, const char *text)
{
    return arena_str(&t->arena, bytes_str(text));
}

static bool fill_tidy(struct tidy *t, const struct transform_sql_store *store)
{
    const struct out_sql_target from = transform_store_target(&store->store);
    bool is_postgres = from.driver == OUT_SQL_POSTGRES;
    const char *table = transform_store_table_name(&t->arena, from.driver, store->store.schema);
    t->limits = store->limits;
    t->pool = kept(t, store->pool);
    t->label = kept(t, store->label);
    t->target = (struct out_sql_target){.driver = from.driver,
                                        .text = kept(t, from.text),
                                        .username = kept(t, from.username),
                                        .password = kept(t, from.password),
                                        .tls_ca = kept(t, from.tls_ca)};
    if (table != NULL)
        t->statement = is_postgres ? arena_format(&t->arena, postgres, table, table)
                                   : arena_format(&t->arena, mysql, table);
    return t->statement != NULL && t->pool != NULL && t->label != NULL && t->target.text != NULL &&
           t->target.username != NULL && t->target.password != NULL && t->target.tls_ca != NULL;
}

void transform_sql_tidy(const struct transform_sql_store *store, int64_t now_ms)
{
    if (!out_sql_chore_is_due(store->pool, PERIOD_MS))
        return;
    struct tidy *t = mem_zalloc(sizeof *t);
    if (t == NULL)
        return; /* the next period comes */
    t->now_ms = now_ms;
    t->job = (struct out_sql_job){.run = run_tidy, .done = on_tidied};
    if (fill_tidy(t, store))
        submit(t);
    else
        tidy_free(t);
}
