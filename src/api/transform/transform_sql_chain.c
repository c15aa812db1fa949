/* A request goes through its stores, one after the other, on the threads of their connections. */
#include "api/transform/transform_sql.h"

static void go_on(struct transform_chain *c);

static enum status run_step(struct out_sql_job *job, struct out_sql_conn *conn,
                            struct reason *reason)
{
    struct transform_chain *c = CONTAINER_OF(job, struct transform_chain, job);
    struct transform_sql *sql = c->sql;
    if (c->phase == TRANSFORM_READING) {
        if (sql->wants.n != 0)
            TRY(transform_sql_read_rows(sql, c->store, conn, reason));
        return sql->prints.n != 0 ? transform_sql_read_hits(sql, c->store, conn, reason) : ST_OK;
    }
    if (sql->writes.n != 0)
        TRY(transform_sql_write_rows(sql, c->store, conn, reason));
    return sql->tombs.n != 0 ? transform_sql_wipe_rows(sql, c->store, conn, reason) : ST_OK;
}

static void finish(struct transform_chain *c)
{
    for (size_t i = 0; i < c->n; i++)
        transform_sql_suspend(c->all[i]);
    req_wait_done(c->wait); /* last touch */
}

static void on_step_done(struct out_sql_job *job)
{
    struct transform_chain *c = CONTAINER_OF(job, struct transform_chain, job);
    if (job->status != ST_OK) {
        c->status = job->status;
        c->name = c->store->name;
        c->reason = job->reason;
        finish(c);
        return;
    }
    if (c->phase == TRANSFORM_WRITING)
        transform_sql_tidy(c->store, c->req->now_ms);
    go_on(c);
}

/* Whether a store has something to do in this phase. */
static bool is_due(const struct transform_chain *c, struct transform_sql *sql)
{
    if (c->phase == TRANSFORM_WRITING)
        return sql->writes.n != 0 || sql->tombs.n != 0;
    return sql->prints.n != 0 || (sql->wants.n != 0 && transform_sql_misses(sql));
}

/* The next store of the phase. */
static bool next_store(struct transform_chain *c)
{
    while (c->at < c->n * TRANSFORM_STORES_MAX) {
        struct transform_sql *sql = c->all[c->at / TRANSFORM_STORES_MAX];
        size_t i = c->at++ % TRANSFORM_STORES_MAX;
        if (i < sql->n_stores && is_due(c, sql)) {
            c->sql = sql;
            c->store = &sql->stores[i];
            return true;
        }
    }
    return false;
}

/* The rows are read: run the items that need them. */
static enum status run_again(struct transform_chain *c)
{
    for (size_t i = 0; i < c->n; i++)
        transform_sql_resume(c->all[i]);
    TRY(c->again(c, &c->reason));
    for (size_t i = 0; i < c->n; i++)
        transform_sql_order_writes(c->all[i]);
    return ST_OK;
}

static void go_on(struct transform_chain *c)
{
    bool due = next_store(c);
    if (!due && c->phase == TRANSFORM_READING) {
        c->status = run_again(c);
        c->phase = TRANSFORM_WRITING;
        c->at = 0;
        due = c->status == ST_OK && next_store(c);
    }
    if (!due) {
        finish(c);
        return;
    }
    const struct out_sql_target target = transform_store_target(&c->store->store);
    c->job.run = run_step;
    c->job.done = on_step_done;
    out_sql_submit(c->store->pool, c->store->label, &target, &c->store->limits, &c->job);
}

void transform_chain_start(struct transform_chain *c)
{
    ASSERT(c->n != 0 && c->again != NULL);
    c->job.until_ms = out_sql_now_ms() + TRANSFORM_SQL_MS;
    go_on(c);
}

enum status transform_chain_result(const struct transform_chain *c)
{
    if (c->status == ST_OK || c->status == ST_NOMEM)
        return c->status;
    if (c->name != NULL)
        return req_fail(c->req, ST_BAD_GATEWAY, "store \"%s\": %s", c->name, c->reason.text);
    return req_fail(c->req, c->status == ST_CORRUPT ? ST_BAD_GATEWAY : c->status, "%s",
                    c->reason.text);
}
