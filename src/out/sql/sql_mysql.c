/* MariaDB and MySQL by libmariadb, its non-blocking interface.
 *
 * libmariadb resolves names itself and checks the certificate against the name that it was given.
 * It is given the address that was judged; the name takes the address's place before the TLS
 * handshake, at the first wait after the library has stored it. */
#include "base/mem.h"
#include "out/out_settings.h"
#include "out/sql/sql_internal.h"

#include <fcntl.h>
#include <mysql.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define SYSTEM_AUTHORITIES "/etc/ssl/certs/ca-certificates.crt"

enum {
    DEADLOCK = 1213,
    LOCK_WAIT = 1205,
    CHANGED = 1020, /* under snapshot isolation: the transaction is gone */
    COLUMNS_MAX = 16,
    LIBRARY_ERRORS = 2000, /* to 2999: of the library, not of the server */
};

struct mysql_conn {
    struct out_sql_conn conn;
    MYSQL my;
    bool open;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool initialised;

/* mysql_init would do it too, but not for two threads at a time. */
static void init_library(void)
{
    initialised = mysql_library_init(0, NULL, NULL) == 0;
}

static struct mysql_conn *of(struct out_sql_conn *conn)
{
    return CONTAINER_OF(conn, struct mysql_conn, conn);
}

static void explain_code(unsigned code, struct reason *reason)
{
    static const struct {
        unsigned code;
        const char *text;
    } known[] = {
        {1040, "it has too many connections"},
        {1044, "its user may not use the database"},
        {1045, "it refuses the name and password"},
        {1049, "it has no such database"},
        {1053, "it is shutting down"},
        {1054, "its tables are of another version: write stores/NAME/schema"},
        {1114, "it has no room left"},
        {1021, "it has no room left"},
        {1142, "its user lacks a right: SELECT, INSERT and UPDATE are needed"},
        {1143, "its user lacks a right: SELECT, INSERT and UPDATE are needed"},
        {1146, "it has no tables for tokens: write stores/NAME/schema"},
        {1153, "max_allowed_packet is shorter than the statement"},
        {1203, "it has too many connections"},
        {1290, "it is read-only"},
        {1698, "it refuses the name and password"},
        {1836, "it is read-only"},
        {2026, "its certificate is not trusted, or it does not speak TLS as tls asks for"},
        {2002, "it refuses connections"},
        {2003, "it refuses connections"},
    };
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (code == known[i].code) {
            reason_set(reason, "%s (error %u)", known[i].text, code);
            return;
        }
    reason_set(reason, "it replied with an error (error %u)", code);
}

/* The library's TLS reads and writes as if the socket were non-blocking, but leaves it blocking. */
static void make_nonblocking(struct mysql_conn *c)
{
    int fd = (int)mysql_get_socket(&c->my);
    int flags = fd >= 0 ? fcntl(fd, F_GETFL) : -1;
    if (flags >= 0 && (flags & O_NONBLOCK) == 0)
        (void)fcntl(fd, F_SETFL, flags | O_NONBLOCK); /* cannot fail on a socket */
}

/* Wait as the library asks. Returns what is ready, for the library's `_cont` functions; 0: the
 * deadline has passed, *ret_st says why. */
static int wait_ready(struct mysql_conn *c, int status, uint64_t until_ms, enum status *ret_st)
{
    short events = 0, ready = 0;
    events = (short)(events | ((status & MYSQL_WAIT_READ) != 0 ? POLLIN : 0));
    events = (short)(events | ((status & MYSQL_WAIT_WRITE) != 0 ? POLLOUT : 0));
    events = (short)(events | ((status & MYSQL_WAIT_EXCEPT) != 0 ? POLLPRI : 0));
    if (events == 0)
        events = POLLIN;
    make_nonblocking(c);
    *ret_st = sql_wait((int)mysql_get_socket(&c->my), events, until_ms, &ready);
    if (*ret_st != ST_OK)
        return 0;
    int got = 0;
    if ((ready & (POLLIN | POLLHUP | POLLERR)) != 0)
        got |= MYSQL_WAIT_READ;
    if ((ready & (POLLOUT | POLLERR)) != 0)
        got |= MYSQL_WAIT_WRITE;
    if ((ready & POLLPRI) != 0)
        got |= MYSQL_WAIT_EXCEPT;
    return got & status ? got & status : status & (MYSQL_WAIT_READ | MYSQL_WAIT_WRITE);
}

/* The call was given up, so the library cannot continue it. Without its socket nothing of the
 * library waits for the server, mysql_close least of all. */
static void abandon(struct mysql_conn *c)
{
    c->conn.broken = true;
    (void)shutdown((int)mysql_get_socket(&c->my), SHUT_RDWR); /* fails where it is closed */
}

static enum sql_tls tls_of(const struct sql_try *t)
{
    enum sql_tls tls = t->name->tls;
    if (t->ip == NULL)
        return SQL_TLS_OFF;
    if (tls != SQL_TLS_SILENT)
        return tls;
    return sql_is_loopback(t->ip) && t->target->tls_ca[0] == '\0' ? SQL_TLS_PREFER : SQL_TLS_FULL;
}

static int refuse_infile_init(void **ptr, const char *name, void *ctx)
{
    (void)name;
    (void)ctx;
    *ptr = NULL;
    return 1;
}

static int refuse_infile_read(void *ptr, char *buffer, unsigned len)
{
    (void)ptr;
    (void)buffer;
    (void)len;
    return -1;
}

static void refuse_infile_end(void *ptr)
{
    (void)ptr;
}

static int refuse_infile_error(void *ptr, char *message, unsigned len)
{
    (void)ptr;
    if (len != 0)
        message[0] = '\0';
    return 1;
}

static bool set_client_options(struct mysql_conn *c, enum sql_tls tls, const char *ca_path)
{
    MYSQL *my = &c->my;
    unsigned none = 0;
    my_bool yes = 1, no = 0, verify = tls == SQL_TLS_FULL || tls == SQL_TLS_CA;
    /* For the TLS handshake, during which the library waits by itself: it takes the option's
     * seconds for ms there. Connecting has our own deadline. */
    unsigned connect = OUT_SQL_CONNECT_MS, call_s = OUT_SQL_JOB_MS / 1000;
    bool fine = mysql_options(my, MYSQL_OPT_NONBLOCK, NULL) == 0 &&
                mysql_options(my, MYSQL_OPT_CONNECT_TIMEOUT, &connect) == 0 &&
                mysql_options(my, MYSQL_OPT_READ_TIMEOUT, &call_s) == 0 &&
                mysql_options(my, MYSQL_OPT_WRITE_TIMEOUT, &call_s) == 0 &&
                mysql_options(my, MYSQL_OPT_LOCAL_INFILE, &none) == 0 &&
                mysql_options(my, MYSQL_SET_CHARSET_NAME, "utf8mb4") == 0 &&
                mysql_options(my, MYSQL_OPT_RECONNECT, &no) == 0 &&
                mysql_options(my, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verify) == 0;
    mysql_set_local_infile_handler(my, refuse_infile_init, refuse_infile_read, refuse_infile_end,
                                   refuse_infile_error, NULL);
    if (tls != SQL_TLS_OFF) /* without SSL_ENFORCE the library speaks in clear */
        fine = fine && mysql_options(my, MYSQL_OPT_SSL_ENFORCE, &yes) == 0 &&
               mysql_options(my, MARIADB_OPT_TLS_VERSION, "TLSv1.2,TLSv1.3") == 0;
    if (verify)
        fine = fine && mysql_options(my, MYSQL_OPT_SSL_CA, ca_path) == 0;
    return fine;
}

/* Put the name in the place of the address once the library has stored the address. */
static enum status swap_host(struct mysql_conn *c, const struct sql_try *t, bool *swapped)
{
    if (*swapped || t->ip == NULL || c->my.host == NULL)
        return ST_OK;
    char *name = mem_strdup(t->name->host); /* the library frees it */
    if (name == NULL)
        return ST_NOMEM;
    mem_free(c->my.host);
    c->my.host = name;
    *swapped = true;
    return ST_OK;
}

static enum status real_connect(struct mysql_conn *c, const struct sql_try *t, const char *host)
{
    MYSQL *ret = NULL;
    bool swapped = false;
    enum status st = ST_OK;
    const char *path = t->ip == NULL ? t->name->host : NULL;
    int status = mysql_real_connect_start(&ret, &c->my, host, t->name->user, t->name->password,
                                          t->name->database, t->name->port, path, 0);
    while (status != 0) {
        TRY(swap_host(c, t, &swapped));
        int ready = wait_ready(c, status, t->until_ms, &st);
        if (st != ST_OK) {
            abandon(c);
            return st;
        }
        status = mysql_real_connect_cont(&ret, &c->my, ready);
    }
    if (ret == NULL)
        return ST_BAD_GATEWAY;
    make_nonblocking(c);
    return ST_OK;
}

static const char *authorities_of(const struct sql_try *t, const char *own)
{
    if (own != NULL)
        return own;
    (void)t;
    return out_settings_ca_file()[0] != '\0' ? out_settings_ca_file() : SYSTEM_AUTHORITIES;
}

static enum status connect_by(struct mysql_conn *c, const struct sql_try *t, const char *ca_path,
                              struct reason *reason)
{
    char address[IP_PORT_TEXT] = "";
    bool v6 = t->ip != NULL && t->ip->len == 16;
    const enum sql_tls tls = tls_of(t);
    if (t->ip != NULL) {
        ip_port_put(t->ip, 1, address);
        address[strlen(address) - (v6 ? 3 : 2)] = '\0';
    }
    (void)pthread_once(&once, init_library); /* cannot fail */
    if (!initialised || mysql_init(&c->my) == NULL)
        return ST_NOMEM;
    c->open = true;
    if (!set_client_options(c, tls, authorities_of(t, ca_path)))
        return ST_NOMEM;
    enum status st = real_connect(c, t, t->ip != NULL ? address + v6 : NULL);
    bool clear = st == ST_OK && mysql_get_ssl_cipher(&c->my) == NULL;
    if (clear && tls != SQL_TLS_OFF && tls != SQL_TLS_PREFER) { /* SSL_ENFORCE allows that */
        reason_set(reason, "it does not speak TLS");
        return ST_BAD_GATEWAY;
    }
    if (st == ST_TIMEOUT)
        reason_set(reason, "no connection within %u ms", t->name->connect_ms);
    else if (st == ST_BAD_GATEWAY)
        explain_code(mysql_errno(&c->my), reason);
    return st == ST_TIMEOUT ? ST_BAD_GATEWAY : st;
}

static void mysql_conn_close(struct out_sql_conn *conn)
{
    struct mysql_conn *c = of(conn);
    if (c->open) { /* say goodbye, without a wait for the answer */
        (void)shutdown((int)mysql_get_socket(&c->my), SHUT_RD); /* fails where it is closed */
        mysql_close(&c->my);
    }
    mem_free(c);
}

static enum status mysql_conn_connect(const struct sql_try *t, struct out_sql_conn **ret_conn,
                                      struct reason *reason)
{
    char path[64];
    bool own_ca = t->target->tls_ca[0] != '\0';
    int ca = own_ca ? sql_memory_file(t->target->tls_ca, path) : -1;
    struct mysql_conn *c = mem_zalloc(sizeof *c);
    enum status st = c != NULL && (!own_ca || ca >= 0) ? ST_OK : ST_NOMEM;
    if (st == ST_OK)
        st = connect_by(c, t, own_ca ? path : NULL, reason);
    if (ca >= 0)
        (void)close(ca); /* the library has read it */
    if (st != ST_OK) {
        if (c != NULL)
            mysql_conn_close(&c->conn);
        return st;
    }
    *ret_conn = &c->conn;
    return ST_OK;
}

static enum status lost(struct mysql_conn *c, enum status st, struct reason *reason)
{
    abandon(c);
    c->conn.timed_out = st == ST_TIMEOUT;
    if (st == ST_TIMEOUT)
        reason_set(reason, "it did not reply in time");
    else
        reason_set(reason, "the connection was lost");
    return st == ST_CLOSED ? st : ST_BAD_GATEWAY;
}

static enum status judge_code(struct mysql_conn *c, unsigned code, struct reason *reason)
{
    if (code == DEADLOCK || code == LOCK_WAIT || code == CHANGED) {
        reason_set(reason, "the statement met others again and again");
        return ST_CONFLICT;
    }
    if (code >= LIBRARY_ERRORS && code < LIBRARY_ERRORS + 1000)
        return lost(c, ST_BAD_GATEWAY, reason);
    explain_code(code, reason);
    return ST_BAD_GATEWAY;
}

/* Run one call of the library to its end. */
#define FINISH(c, start, cont, reason)                                          \
    do {                                                                        \
        enum status wait_st_ = ST_OK;                                           \
        int status_ = (start);                                                  \
        while (status_ != 0) {                                                  \
            int ready_ = wait_ready(c, status_, (c)->conn.until_ms, &wait_st_); \
            if (wait_st_ != ST_OK)                                              \
                return lost(c, wait_st_, reason);                               \
            status_ = (cont);                                                   \
        }                                                                       \
    } while (0)

static enum status bind_values(const struct out_sql_query *q, struct arena *arena,
                               MYSQL_BIND **ret_binds)
{
    MYSQL_BIND *binds = arena_zalloc(arena, MAX(q->n, (size_t)1) * sizeof *binds);
    unsigned long *lengths = arena_zalloc(arena, MAX(q->n, (size_t)1) * sizeof *lengths);
    if (binds == NULL || lengths == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < q->n; i++) {
        const struct out_sql_value *v = &q->values[i];
        binds[i].buffer_type = v->is_null               ? MYSQL_TYPE_NULL
                               : v->kind == OUT_SQL_INT ? MYSQL_TYPE_LONGLONG
                                                        : MYSQL_TYPE_BLOB;
        binds[i].buffer = v->kind == OUT_SQL_INT ? (void *)(uintptr_t)&v->number
                                                 : (void *)(uintptr_t)v->bytes.data;
        lengths[i] = v->bytes.len;
        binds[i].length = &lengths[i];
        binds[i].buffer_length = v->bytes.len;
    }
    *ret_binds = binds;
    return ST_OK;
}

struct cells {
    MYSQL_BIND binds[COLUMNS_MAX];
    unsigned long lengths[COLUMNS_MAX];
    my_bool nulls[COLUMNS_MAX], errors[COLUMNS_MAX];
    long long numbers[COLUMNS_MAX];
    uint8_t small[COLUMNS_MAX][64];
};

static void bind_cells(struct cells *cells, const char *columns)
{
    for (size_t i = 0; columns[i] != '\0'; i++) {
        bool number = columns[i] == 'i';
        cells->binds[i] = (MYSQL_BIND){
            .buffer_type = number ? MYSQL_TYPE_LONGLONG : MYSQL_TYPE_BLOB,
            .buffer = number ? (void *)&cells->numbers[i] : (void *)cells->small[i],
            .buffer_length = number ? sizeof cells->numbers[i] : sizeof cells->small[i],
            .length = &cells->lengths[i],
            .is_null = &cells->nulls[i],
            .error = &cells->errors[i]};
    }
}

/* A value of the current row, which is stored whole in the library's memory. */
static enum status read_cell(MYSQL_STMT *stmt, struct cells *cells, unsigned i, char column,
                             struct arena *arena, struct out_sql_value *ret)
{
    *ret = (struct out_sql_value){.kind = column == 'i' ? OUT_SQL_INT : OUT_SQL_BYTES,
                                  .is_null = true};
    if (cells->nulls[i])
        return ST_OK;
    if (column == 'i') {
        *ret = (struct out_sql_value){.kind = OUT_SQL_INT, .number = cells->numbers[i]};
        return ST_OK;
    }
    unsigned long len = cells->lengths[i];
    uint8_t *data = cells->small[i];
    if (len > sizeof cells->small[i]) {
        MYSQL_BIND whole = {.buffer_type = MYSQL_TYPE_BLOB};
        data = arena_alloc(arena, len);
        if (data == NULL)
            return ST_NOMEM;
        whole.buffer = data;
        whole.buffer_length = len;
        if (mysql_stmt_fetch_column(stmt, &whole, i, 0) != 0)
            return ST_BAD_GATEWAY;
    }
    *ret = (struct out_sql_value){.kind = OUT_SQL_BYTES, .bytes = bytes_of(data, len)};
    return ST_OK;
}

static enum status give_stored(struct mysql_conn *c, MYSQL_STMT *stmt,
                               const struct out_sql_query *q, struct reason *reason)
{
    struct out_sql_value values[COLUMNS_MAX];
    unsigned columns = (unsigned)strlen(q->columns);
    size_t bytes = 0;
    struct cells cells = {.nulls = {0}};
    int rc = 0;
    ASSERT(columns <= COLUMNS_MAX);
    if (mysql_stmt_field_count(stmt) != columns) {
        reason_set(reason, "its tables are of another version: write stores/NAME/schema");
        return ST_BAD_GATEWAY;
    }
    bind_cells(&cells, q->columns);
    if (mysql_stmt_bind_result(stmt, cells.binds) != 0)
        return lost(c, ST_BAD_GATEWAY, reason);
    FINISH(c, mysql_stmt_store_result_start(&rc, stmt),
           mysql_stmt_store_result_cont(&rc, stmt, ready_), reason);
    if (rc != 0)
        return judge_code(c, mysql_stmt_errno(stmt), reason);
    for (;;) { /* the rows are in memory: no call waits */
        CLEANUP(arena_done) struct arena arena = {0};
        rc = mysql_stmt_fetch(stmt);
        if (rc == MYSQL_NO_DATA)
            return ST_OK;
        if (rc != 0 && rc != MYSQL_DATA_TRUNCATED)
            return judge_code(c, mysql_stmt_errno(stmt), reason);
        for (unsigned i = 0; i < columns; i++) {
            TRY(read_cell(stmt, &cells, i, q->columns[i], &arena, &values[i]));
            bytes += values[i].bytes.len;
        }
        if (bytes > OUT_SQL_RESULT_MAX) {
            reason_set(reason, "its reply is longer than %d bytes", OUT_SQL_RESULT_MAX);
            return ST_BAD_GATEWAY;
        }
        TRY(q->row(q->ctx, values));
    }
}

static enum status run_stmt(struct mysql_conn *c, MYSQL_STMT *stmt, const struct out_sql_query *q,
                            struct reason *reason)
{
    CLEANUP(arena_done) struct arena arena = {0};
    MYSQL_BIND *binds = NULL;
    int rc = 0;
    TRY(bind_values(q, &arena, &binds));
    FINISH(c, mysql_stmt_prepare_start(&rc, stmt, q->text, strlen(q->text)),
           mysql_stmt_prepare_cont(&rc, stmt, ready_), reason);
    if (rc != 0)
        return judge_code(c, mysql_stmt_errno(stmt), reason);
    if (mysql_stmt_param_count(stmt) != q->n || (q->n != 0 && mysql_stmt_bind_param(stmt, binds)))
        return lost(c, ST_BAD_GATEWAY, reason);
    FINISH(c, mysql_stmt_execute_start(&rc, stmt), mysql_stmt_execute_cont(&rc, stmt, ready_),
           reason);
    if (rc != 0)
        return judge_code(c, mysql_stmt_errno(stmt), reason);
    c->conn.changed = q->row != NULL ? 0 : mysql_stmt_affected_rows(stmt);
    return q->row != NULL ? give_stored(c, stmt, q, reason) : ST_OK;
}

static enum status close_stmt(struct mysql_conn *c, MYSQL_STMT *stmt, struct reason *reason)
{
    my_bool rc = 0;
    FINISH(c, mysql_stmt_close_start(&rc, stmt), mysql_stmt_close_cont(&rc, stmt, ready_), reason);
    return ST_OK;
}

static enum status mysql_conn_run(struct out_sql_conn *conn, const struct out_sql_query *q,
                                  struct reason *reason)
{
    struct mysql_conn *c = of(conn);
    MYSQL_STMT *stmt = mysql_stmt_init(&c->my);
    if (stmt == NULL)
        return ST_NOMEM;
    enum status st = run_stmt(c, stmt, q, reason);
    if (!c->conn.broken && close_stmt(c, stmt, reason) == ST_OK)
        return st;
    mysql_close(&c->my); /* first, so that nothing waits for the server */
    c->open = false;
    (void)mysql_stmt_close(stmt); /* frees memory only: its connection is gone */
    return st == ST_OK ? ST_BAD_GATEWAY : st;
}

static int mysql_conn_socket(struct out_sql_conn *conn)
{
    struct mysql_conn *c = of(conn);
    return c->open ? (int)mysql_get_socket(&c->my) : -1;
}

const struct sql_driver sql_mysql = {.connect = mysql_conn_connect,
                                     .run = mysql_conn_run,
                                     .socket = mysql_conn_socket,
                                     .close = mysql_conn_close};
