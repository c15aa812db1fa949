/* Shared by the files of this folder. */
#ifndef HOLDFAST_OUT_SQL_SQL_INTERNAL_H
#define HOLDFAST_OUT_SQL_SQL_INTERNAL_H

#include "base/arena.h"
#include "out/sql/sql.h"
#include "text/cidr.h"

/* sql_name.c: a connection string, read. */

enum sql_tls { SQL_TLS_SILENT, SQL_TLS_OFF, SQL_TLS_PREFER, SQL_TLS_ANY, SQL_TLS_CA, SQL_TLS_FULL };
enum { SQL_PAIRS_MAX = 64 };

struct sql_name {
    enum out_sql_driver driver;
    const char *host; /* a name, an address, or the path of a socket */
    uint16_t port;
    const char *database, *user, *password; /* NULL: not given */
    enum sql_tls tls;
    const char *root_file, *cert_file, *key_file, *crl_file; /* NULL: not given */
    uint32_t connect_ms;
    const char *options;        /* PostgreSQL: settings of the session, as `-c name=value` */
    const char *application;    /* PostgreSQL: application_name */
    bool is_socket, has_secret; /* has_secret: the password stands in the string itself */
};
/* All texts lie in the arena. ST_INVALID with a reason, ST_NOMEM. */
NODISCARD enum status sql_name_parse(const struct out_sql_target *target, struct arena *arena,
                                     struct sql_name *ret_name, struct reason *reason);
bool sql_file_is_allowed(const char *path);
const struct out_sql_policy *sql_policy(void);

/* sql_net.c */

/* Resolve the host and find the addresses that the rules for outgoing requests allow, at most
 * `max`. ST_BAD_GATEWAY with a reason. Blocks. */
enum { SQL_ADDRESSES_MAX = 4 };
NODISCARD enum status sql_resolve(const struct sql_name *name, struct ip ret_ips[SQL_ADDRESSES_MAX],
                                  size_t *ret_n, struct reason *reason);
bool sql_is_loopback(const struct ip *ip);
/* Wait until the socket is ready. ST_TIMEOUT; ST_CLOSED: the process ends. */
NODISCARD enum status sql_wait(int fd, short events, uint64_t until_ms, short *ret_events);
/* Whether an idle connection has something to read: then it is over. */
bool sql_is_dead(int fd);
/* A file in memory with the content, whose path a library can open. -1: none could be made. */
int sql_memory_file(const char *content, char ret_path[64]);
void sql_set_stop(int fd); /* sql_wait ends when this becomes readable */

/* A connection; each driver's lies at the start of its own struct. */
struct out_sql_conn {
    enum out_sql_driver driver;
    uint64_t until_ms; /* deadline of the current job */
    uint64_t made_ms;
    uint64_t changed; /* rows, by the last statement */
    bool broken;      /* close it */
    bool timed_out;
};
struct sql_try {
    const struct out_sql_target *target;
    const struct sql_name *name;
    const struct ip *ip; /* NULL: a socket */
    uint64_t until_ms;
};
struct sql_driver {
    enum status (*connect)(const struct sql_try *t, struct out_sql_conn **ret_conn,
                           struct reason *reason);
    enum status (*run)(struct out_sql_conn *conn, const struct out_sql_query *query,
                       struct reason *reason);
    int (*socket)(struct out_sql_conn *conn);
    void (*close)(struct out_sql_conn *conn);
};
extern const struct sql_driver sql_postgres, sql_mysql;
/* sql_conn.c: resolve, judge, connect. ST_BAD_GATEWAY with a reason. */
NODISCARD enum status sql_connect(const struct out_sql_target *target, uint64_t until_ms,
                                  struct out_sql_conn **ret_conn, struct reason *reason);
void sql_close(struct out_sql_conn *conn);
int sql_socket(struct out_sql_conn *conn);

#endif
