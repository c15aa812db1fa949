/* PostgreSQL by libpq, its non-blocking interface. */
#include "base/mem.h"
#include "out/out_settings.h"
#include "out/sql/sql_internal.h"

#include <libpq-fe.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define SYSTEM_AUTHORITIES "/etc/ssl/certs/ca-certificates.crt"

enum { OID_BYTEA = 17, OID_INT8 = 20, OID_UUID = 2950, OPTIONS_MAX = 24, BINARY = 1 };

struct postgres {
    struct out_sql_conn conn;
    PGconn *pq;
};

static struct postgres *of(struct out_sql_conn *conn)
{
    return CONTAINER_OF(conn, struct postgres, conn);
}

/* The meaning of the server's SQLSTATE to an operator. The server's own text is never shown. */
static void explain_state(const char *state, struct reason *reason)
{
    static const struct {
        const char *prefix, *text;
    } known[] = {
        {"28", "it refuses the name and password"},
        {"3D000", "it has no such database"},
        {"42P01", "it has no tables for tokens: write stores/NAME/schema"},
        {"42703", "its tables are of another version: write stores/NAME/schema"},
        {"3F000", "it has no such schema"},
        {"42501", "its user lacks a right: SELECT, INSERT and UPDATE are needed"},
        {"25006", "it is read-only"},
        {"53300", "it has too many connections"},
        {"53", "it has no room left"},
        {"57P", "it is shutting down or starting up"},
        {"57014", "it cancelled the statement"},
        {"58", "it has an input/output error"},
    };
    char safe[6] = "";
    for (size_t i = 0; state != NULL && i < 5 && state[i] != '\0'; i++)
        if ((state[i] >= '0' && state[i] <= '9') || (state[i] >= 'A' && state[i] <= 'Z'))
            safe[strlen(safe)] = state[i];
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (strncmp(safe, known[i].prefix, strlen(known[i].prefix)) == 0) {
            reason_set(reason, "%s (SQLSTATE %s)", known[i].text, safe);
            return;
        }
    reason_set(reason, "it replied with an error (SQLSTATE %s)",
               safe[0] != '\0' ? safe : "unknown");
}

struct options {
    const char *names[OPTIONS_MAX], *values[OPTIONS_MAX];
    size_t n;
};

static void set(struct options *o, const char *name, const char *value)
{
    ASSERT(o->n < OPTIONS_MAX - 1);
    if (value == NULL)
        return;
    o->names[o->n] = name;
    o->values[o->n++] = value;
}

static void set_sslmode(const struct sql_try *t, struct options *o, const char *ca_path)
{
    static const char *const modes[] = {[SQL_TLS_OFF] = "disable",
                                        [SQL_TLS_PREFER] = "prefer",
                                        [SQL_TLS_ANY] = "require",
                                        [SQL_TLS_CA] = "verify-ca",
                                        [SQL_TLS_FULL] = "verify-full"};
    enum sql_tls tls = t->name->tls;
    bool own = ca_path != NULL || t->name->root_file != NULL;
    if (t->ip == NULL)
        tls = SQL_TLS_OFF; /* a socket of this machine */
    else if (tls == SQL_TLS_SILENT)
        tls = sql_is_loopback(t->ip) && !own ? SQL_TLS_PREFER : SQL_TLS_FULL;
    const char *root = ca_path != NULL ? ca_path : t->name->root_file;
    bool verifies = tls == SQL_TLS_CA || tls == SQL_TLS_FULL;
    if (root == NULL && verifies)
        root = out_settings_ca_file()[0] != '\0' ? out_settings_ca_file() : SYSTEM_AUTHORITIES;
    set(o, "sslmode", modes[tls]);
    /* a file that does not exist: libpq would look for one in the home directory */
    set(o, "sslrootcert", verifies && root != NULL ? root : "/nonexistent/root.crt");
    set(o, "sslcert", t->name->cert_file != NULL ? t->name->cert_file : "/nonexistent/client.crt");
    set(o, "sslkey", t->name->key_file != NULL ? t->name->key_file : "/nonexistent/client.key");
    set(o, "sslcrl", t->name->crl_file);
    set(o, "ssl_min_protocol_version", "TLSv1.2");
}

static PGconn *start_connect(const struct sql_try *t, const char *ca_path)
{
    char address[IP_PORT_TEXT] = "", port[8];
    struct options o = {.n = 0};
    if (t->ip != NULL) {
        ip_port_put(t->ip, 1, address);
        address[strlen(address) - 2] = '\0'; /* ":1" */
    }
    bool v6 = address[0] == '[';
    if (v6)
        address[strlen(address) - 1] = '\0';
    (void)snprintf(port, sizeof port, "%u", t->name->port); /* fits */
    set(&o, "host", t->name->host);
    set(&o, "hostaddr", t->ip != NULL ? address + v6 : NULL);
    set(&o, "port", port);
    set(&o, "user", t->name->user);
    set(&o, "password", t->name->password);
    set(&o, "dbname", t->name->database);
    set(&o, "options", t->name->options);
    set(&o, "application_name", t->name->application);
    set(&o, "client_encoding", "UTF8");
    set(&o, "gssencmode", "disable");
    set(&o, "passfile", "/nonexistent/pgpass");
    set_sslmode(t, &o, ca_path);
    return PQconnectStartParams(o.names, o.values, 0);
}

static enum status refuse_connect(const struct sql_try *t, PGconn *pq, enum status st,
                                  struct reason *reason)
{
    const char *text = PQerrorMessage(pq);
    if (st == ST_TIMEOUT)
        reason_set(reason, "no connection within %u ms", t->name->connect_ms);
    else if (strstr(text, "certificate") != NULL || strstr(text, "SSL") != NULL)
        reason_set(reason, "its certificate is not trusted, or it does not speak TLS as sslmode "
                           "asks for");
    else if (strstr(text, "authentication failed") != NULL ||
             strstr(text, "no pg_hba.conf entry") != NULL)
        reason_set(reason, "it refuses the name and password, or this address");
    else if (strstr(text, "does not exist") != NULL)
        reason_set(reason, "it has no such database or user");
    else if (strstr(text, "refused") != NULL)
        reason_set(reason, "it refuses connections");
    else
        reason_set(reason, "no connection could be made");
    return ST_BAD_GATEWAY;
}

static enum status poll_connect(const struct sql_try *t, PGconn *pq)
{
    PostgresPollingStatusType next = PGRES_POLLING_WRITING;
    while (next == PGRES_POLLING_READING || next == PGRES_POLLING_WRITING) {
        short events = next == PGRES_POLLING_READING ? POLLIN : POLLOUT, ready;
        int fd = PQsocket(pq);
        if (fd < 0)
            return ST_BAD_GATEWAY;
        TRY(sql_wait(fd, events, t->until_ms, &ready));
        next = PQconnectPoll(pq);
    }
    return next == PGRES_POLLING_OK ? ST_OK : ST_BAD_GATEWAY;
}

static void drop_notice(void *ctx, const PGresult *result)
{
    (void)ctx; /* a notice of the server is shown to no client and not logged */
    (void)result;
}

static enum status postgres_connect(const struct sql_try *t, struct out_sql_conn **ret_conn,
                                    struct reason *reason)
{
    char path[64];
    bool own_ca = t->target->tls_ca[0] != '\0';
    int ca = own_ca ? sql_memory_file(t->target->tls_ca, path) : -1;
    struct postgres *c = mem_zalloc(sizeof *c);
    enum status st = c != NULL && (!own_ca || ca >= 0) ? ST_OK : ST_NOMEM;
    if (st == ST_OK) {
        c->pq = start_connect(t, own_ca ? path : NULL);
        st = c->pq != NULL ? ST_OK : ST_NOMEM;
    }
    if (st == ST_OK && PQstatus(c->pq) == CONNECTION_BAD)
        st = ST_BAD_GATEWAY;
    if (st == ST_OK)
        st = poll_connect(t, c->pq);
    if (st == ST_OK && PQsetnonblocking(c->pq, 1) != 0)
        st = ST_BAD_GATEWAY;
    if (ca >= 0)
        (void)close(ca); /* libpq has read it */
    if (st != ST_OK) {
        st = st == ST_NOMEM || st == ST_CLOSED ? st : refuse_connect(t, c->pq, st, reason);
        if (c != NULL)
            PQfinish(c->pq);
        mem_free(c);
        return st;
    }
    (void)PQsetNoticeReceiver(c->pq, drop_notice, NULL); /* returns the former one */
    *ret_conn = &c->conn;
    return ST_OK;
}

/* The parameters of a statement as libpq takes them. */
struct params {
    Oid *types;
    const char **values;
    int *lengths, *formats;
    uint8_t (*numbers)[8];
};

static enum status make_params(const struct out_sql_query *q, struct arena *arena, struct params *p)
{
    size_t n = MAX(q->n, (size_t)1);
    p->types = arena_zalloc(arena, n * sizeof *p->types);
    p->values = arena_zalloc(arena, n * sizeof *p->values);
    p->lengths = arena_zalloc(arena, n * sizeof *p->lengths);
    p->formats = arena_zalloc(arena, n * sizeof *p->formats);
    p->numbers = arena_zalloc(arena, n * sizeof *p->numbers);
    if (p->types == NULL || p->values == NULL || p->lengths == NULL || p->formats == NULL ||
        p->numbers == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < q->n; i++) {
        const struct out_sql_value *v = &q->values[i];
        static const Oid types[] = {
            [OUT_SQL_BYTES] = OID_BYTEA, [OUT_SQL_INT] = OID_INT8, [OUT_SQL_UUID] = OID_UUID};
        p->formats[i] = BINARY;
        p->types[i] = types[v->kind];
        if (v->is_null)
            continue;
        if (v->kind == OUT_SQL_INT) {
            be64_put(p->numbers[i], (uint64_t)v->number);
            p->values[i] = (const char *)p->numbers[i];
            p->lengths[i] = 8;
        } else {
            p->values[i] = v->bytes.len != 0 ? (const char *)v->bytes.data : "";
            p->lengths[i] = (int)v->bytes.len;
        }
    }
    return ST_OK;
}

/* The connection is lost, or out of step with the server. */
static enum status broken(struct postgres *c, enum status st, struct reason *reason)
{
    c->conn.broken = true;
    c->conn.timed_out = st == ST_TIMEOUT;
    if (st == ST_TIMEOUT)
        reason_set(reason, "it did not reply in time");
    else
        reason_set(reason, "the connection was lost");
    return st == ST_NOMEM || st == ST_CLOSED ? st : ST_BAD_GATEWAY;
}

static enum status flush_output(struct postgres *c)
{
    for (;;) {
        int left = PQflush(c->pq);
        short ready = 0;
        if (left <= 0)
            return left == 0 ? ST_OK : ST_BAD_GATEWAY;
        TRY(sql_wait(PQsocket(c->pq), POLLIN | POLLOUT, c->conn.until_ms, &ready));
        if ((ready & POLLIN) != 0 && PQconsumeInput(c->pq) == 0)
            return ST_BAD_GATEWAY;
    }
}

/* The next result; NULL: there are no more. */
static enum status next_result(struct postgres *c, PGresult **ret)
{
    while (PQisBusy(c->pq) != 0) {
        short ready;
        TRY(sql_wait(PQsocket(c->pq), POLLIN, c->conn.until_ms, &ready));
        if (PQconsumeInput(c->pq) == 0)
            return ST_BAD_GATEWAY;
    }
    *ret = PQgetResult(c->pq);
    return ST_OK;
}

static enum status read_int(const PGresult *r, int row, int column, int64_t *ret)
{
    const uint8_t *data = (const uint8_t *)PQgetvalue(r, row, column);
    int len = PQgetlength(r, row, column);
    uint64_t value = 0;
    if (len != 2 && len != 4 && len != 8)
        return ST_BAD_GATEWAY;
    for (int i = 0; i < len; i++)
        value = value << 8 | data[i];
    if (len == 4)
        value = (uint64_t)(int64_t)(int32_t)(uint32_t)value;
    if (len == 2)
        value = (uint64_t)(int64_t)(int16_t)(uint16_t)value;
    *ret = (int64_t)value;
    return ST_OK;
}

static enum status give_tuples(const struct out_sql_query *q, const PGresult *r, size_t *bytes,
                               struct reason *reason)
{
    struct out_sql_value values[16];
    int columns = (int)strlen(q->columns);
    ASSERT(columns <= (int)ARRAY_LEN(values));
    if (PQnfields(r) != columns) {
        reason_set(reason, "its tables are of another version: write stores/NAME/schema");
        return ST_BAD_GATEWAY;
    }
    for (int row = 0; row < PQntuples(r); row++) {
        for (int i = 0; i < columns; i++) {
            struct out_sql_value *v = &values[i];
            size_t len = (size_t)PQgetlength(r, row, i);
            *bytes += len;
            *v = (struct out_sql_value){.kind = q->columns[i] == 'i' ? OUT_SQL_INT : OUT_SQL_BYTES,
                                        .is_null = PQgetisnull(r, row, i) != 0};
            if (v->is_null)
                continue;
            v->bytes = bytes_of(PQgetvalue(r, row, i), len);
            if (v->kind == OUT_SQL_INT && read_int(r, row, i, &v->number) != ST_OK) {
                reason_set(reason, "its tables are of another version: write stores/NAME/schema");
                return ST_BAD_GATEWAY;
            }
        }
        if (*bytes > OUT_SQL_RESULT_MAX) {
            reason_set(reason, "its reply is longer than %d bytes", OUT_SQL_RESULT_MAX);
            return ST_BAD_GATEWAY;
        }
        TRY(q->row(q->ctx, values));
    }
    return ST_OK;
}

static enum status judge_result(const struct out_sql_query *q, const PGresult *r, size_t *bytes,
                                struct reason *reason)
{
    const char *state;
    switch (PQresultStatus(r)) {
    case PGRES_COMMAND_OK: return ST_OK;
    case PGRES_SINGLE_TUPLE:
    case PGRES_TUPLES_OK: return q->row != NULL ? give_tuples(q, r, bytes, reason) : ST_OK;
    default: break;
    }
    state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
    if (state != NULL && (strcmp(state, "40001") == 0 || strcmp(state, "40P01") == 0)) {
        reason_set(reason, "the statement met others again and again");
        return ST_CONFLICT;
    }
    explain_state(state, reason);
    return ST_BAD_GATEWAY;
}

static enum status run_all(struct postgres *c, const struct out_sql_query *q, struct reason *reason)
{
    enum status verdict = ST_OK;
    size_t bytes = 0;
    for (;;) {
        PGresult *r = NULL;
        enum status st = next_result(c, &r);
        if (st != ST_OK)
            return broken(c, st, reason);
        if (r == NULL)
            break;
        if (verdict == ST_OK)
            verdict = judge_result(q, r, &bytes, reason);
        c->conn.changed = strtoull(PQcmdTuples(r), NULL, 10); /* "": 0 */
        PQclear(r);
    }
    if (PQstatus(c->pq) == CONNECTION_BAD)
        return verdict == ST_OK ? broken(c, ST_BAD_GATEWAY, reason)
                                : (c->conn.broken = true, verdict);
    return verdict;
}

static enum status postgres_run(struct out_sql_conn *conn, const struct out_sql_query *q,
                                struct reason *reason)
{
    CLEANUP(arena_done) struct arena arena = {0};
    struct postgres *c = of(conn);
    struct params p;
    TRY(make_params(q, &arena, &p));
    int sent = q->n == 0 && q->row == NULL
                   ? PQsendQuery(c->pq, q->text)
                   : PQsendQueryParams(c->pq, q->text, (int)q->n, p.types, p.values, p.lengths,
                                       p.formats, BINARY);
    if (sent == 0)
        return broken(c, ST_BAD_GATEWAY, reason);
    if (q->row != NULL)
        (void)PQsetSingleRowMode(c->pq); /* only saves memory */
    enum status st = flush_output(c);
    return st == ST_OK ? run_all(c, q, reason) : broken(c, st, reason);
}

static int postgres_socket(struct out_sql_conn *conn)
{
    return PQsocket(of(conn)->pq);
}

static void postgres_close(struct out_sql_conn *conn)
{
    struct postgres *c = of(conn);
    PQfinish(c->pq);
    mem_free(c);
}

const struct sql_driver sql_postgres = {.connect = postgres_connect,
                                        .run = postgres_run,
                                        .socket = postgres_socket,
                                        .close = postgres_close};
