/* A connection: the host resolved, its addresses judged, one of them connected to. */
#include "out/sql/sql_internal.h"

static const struct sql_driver *driver_of(enum out_sql_driver driver)
{
    return driver == OUT_SQL_POSTGRES ? &sql_postgres : &sql_mysql;
}

static enum status try_address(const struct out_sql_target *target, const struct sql_name *name,
                               const struct ip *ip, uint64_t until_ms,
                               struct out_sql_conn **ret_conn, struct reason *reason)
{
    uint64_t now = out_sql_now_ms();
    const struct sql_try t = {.target = target,
                              .name = name,
                              .ip = ip,
                              .until_ms = MIN(until_ms, now + name->connect_ms)};
    TRY(driver_of(name->driver)->connect(&t, ret_conn, reason));
    (*ret_conn)->driver = name->driver;
    (*ret_conn)->made_ms = now;
    return ST_OK;
}

enum status sql_connect(const struct out_sql_target *target, uint64_t until_ms,
                        struct out_sql_conn **ret_conn, struct reason *reason)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct ip ips[SQL_ADDRESSES_MAX];
    struct sql_name name;
    size_t n = 0;
    enum status st = sql_name_parse(target, &arena, &name, reason);
    if (st == ST_INVALID) /* the configuration of this node allows less than that of another one */
        return ST_BAD_GATEWAY;
    TRY(st);
    if (name.is_socket)
        return try_address(target, &name, NULL, until_ms, ret_conn, reason);
    TRY(sql_resolve(&name, ips, &n, reason));
    ASSERT(n != 0);
    for (size_t i = 0; i < n; i++) {
        st = try_address(target, &name, &ips[i], until_ms, ret_conn, reason);
        if (st != ST_BAD_GATEWAY)
            break;
    }
    return st;
}

void sql_close(struct out_sql_conn *conn)
{
    if (conn != NULL)
        driver_of(conn->driver)->close(conn);
}

int sql_socket(struct out_sql_conn *conn)
{
    return driver_of(conn->driver)->socket(conn);
}

enum status out_sql_run(struct out_sql_conn *conn, const struct out_sql_query *query,
                        struct reason *reason)
{
    ASSERT(query->n <= OUT_SQL_VALUES_MAX && (query->columns[0] == '\0') == (query->row == NULL));
    if (conn->broken)
        return ST_BAD_GATEWAY;
    return driver_of(conn->driver)->run(conn, query, reason);
}

uint64_t out_sql_changed(const struct out_sql_conn *conn)
{
    return conn->changed;
}

enum out_sql_driver out_sql_conn_driver(const struct out_sql_conn *conn)
{
    return conn->driver;
}

enum status out_sql_once(const struct out_sql_target *target, struct out_sql_job *job,
                         struct reason *reason)
{
    struct out_sql_conn *conn = NULL;
    TRY(sql_connect(target, job->until_ms, &conn, reason));
    conn->until_ms = job->until_ms;
    enum status st = job->run(job, conn, reason);
    sql_close(conn);
    return st;
}
