/* SQL databases outside of the cluster: PostgreSQL and MariaDB (MySQL).
 *
 * A pool holds the connections of one store on this node. Each open connection has a thread, which
 * runs the jobs of the pool's queue one by one; inside a job the code is straight and speaks the
 * library's non-blocking interface under a deadline.
 *
 *   submit ──▶ queue ──▶ a connection's thread: `run`, then `done`
 *                └─ time over, store down: `done` with the reason
 *
 * 1. Time is bounded: a job ends by its deadline, in the queue or on a connection; it does not
 * begin in the last second. The resolver alone has no deadline of ours; only a thread without a job
 * waits for it.
 * 2. Queues, connections of a pool, and connections of all pools are bounded.
 * 3. A store that cannot be reached, or does not answer in time, opens its breaker: jobs fail at
 *    once, and one connection a second is tried while jobs are asked for. Other pools notice
 *    nothing.
 * 4. `outgoing` judges each address after the name was resolved, and the connection goes to that
 *    address and no other.
 * 5. A reason names no password, no value and no text of the server.
 * 6. libpq and libmariadb appear in this folder alone. */
#ifndef HOLDFAST_OUT_SQL_SQL_H
#define HOLDFAST_OUT_SQL_SQL_H

#include "base/list.h"
#include "base/metric.h"
#include "base/status.h"
#include "text/schema.h"

enum {
    OUT_SQL_TEXT_MAX = 4096,        /* bytes of a connection string */
    OUT_SQL_WORD_MAX = 512,         /* bytes of a user name, of a password */
    OUT_SQL_CA_MAX = 64 * 1024,     /* bytes of PEM certificates */
    OUT_SQL_CONNECTIONS_MAX = 32,   /* connections of a pool */
    OUT_SQL_THREADS_MAX = 64,       /* connections of all pools of the node */
    OUT_SQL_QUEUE_MAX = 256,        /* waiting jobs of a pool */
    OUT_SQL_CONNECT_MS = 3000,      /* time for connection, TLS and login */
    OUT_SQL_JOB_MS = 5000,          /* time of a job, with its time in the queue */
    OUT_SQL_PROBE_MS = 1000,        /* between two tries to reach a store that is down */
    OUT_SQL_UNUSED_MS = 60 * 1000,  /* after so long without a job a pool closes */
    OUT_SQL_RESULT_MAX = 64 << 20,  /* bytes of a result */
    OUT_SQL_VALUES_MAX = 16 * 1024, /* values of a statement */
};

enum out_sql_driver { OUT_SQL_POSTGRES, OUT_SQL_MYSQL };

/* Things that this node allows: the block `stores` of the configuration. */
struct out_sql_policy {
    bool allow_sockets;
    const char *const *directories; /* absolute; files of connection strings lie below one */
    size_t n_directories;
};
/* Set once, before threads start; borrowed. Without it: no sockets, no files. */
void out_sql_set_policy(const struct out_sql_policy *policy);

/* The server to connect to. All is borrowed, and copied by out_sql_pool_get. */
struct out_sql_target {
    enum out_sql_driver driver;
    const char *text; /* connection string with slots {{username}}, {{password}} */
    const char *username, *password;
    const char *tls_ca; /* PEM; "": the system's authorities */
};

/* Check a connection string without resolving or connecting. ST_INVALID with a reason that shows
 * no password. */
NODISCARD enum status out_sql_check(const struct out_sql_target *target, struct reason *reason);
/* The driver of a name, "postgres" or "mysql". ST_INVALID with a reason. */
NODISCARD enum status out_sql_driver_of(const char *name, enum out_sql_driver *ret_driver,
                                        struct reason *reason);

/* A parameter of a statement or a value of a row. */
enum out_sql_kind { OUT_SQL_BYTES, OUT_SQL_INT, OUT_SQL_UUID };
struct out_sql_value {
    enum out_sql_kind kind;
    bool is_null;
    struct bytes bytes; /* OUT_SQL_BYTES; OUT_SQL_UUID: 16 bytes */
    int64_t number;     /* OUT_SQL_INT */
};

struct out_sql_conn;

/* A statement. Parameters are $1, $2 … for PostgreSQL and ? for MariaDB, always bound. */
struct out_sql_query {
    const char *text;
    const struct out_sql_value *values;
    size_t n;
    const char *columns; /* of the rows: 'b' bytes, 'i' integer; "": the statement has no rows */
    /* Called for each row; values live until it returns. Another status than ST_OK ends the
     * statement. */
    enum status (*row)(void *ctx, const struct out_sql_value *values);
    void *ctx;
};
/* Run a statement. Only inside a job, on its connection. ST_CONFLICT: the statement met another
 * one (a deadlock or a serialisation failure): run it again. ST_BAD_GATEWAY with a reason. Else as
 * `row`. */
NODISCARD enum status out_sql_run(struct out_sql_conn *conn, const struct out_sql_query *query,
                                  struct reason *reason);
enum out_sql_driver out_sql_conn_driver(const struct out_sql_conn *conn);
/* The rows that the last statement changed. */
uint64_t out_sql_changed(const struct out_sql_conn *conn);

/* A job, embedded in its owner. */
struct out_sql_job {
    /* On a connection's thread. Runs again, from its start, if an idle connection turns out to be
     * dead. Set `status` and `reason` of the job by the result. */
    enum status (*run)(struct out_sql_job *job, struct out_sql_conn *conn, struct reason *reason);
    /* Once, on any thread, possibly inside of out_sql_submit; the last touch. */
    void (*done)(struct out_sql_job *job);
    uint64_t until_ms; /* out_sql_now_ms at which it ends */
    enum status status;
    struct reason reason;
    struct list link;
    uint64_t since_ms;
};
uint64_t out_sql_now_ms(void); /* monotonic */

struct out_sql_limits {
    unsigned max_open, max_idle; /* connections */
    int64_t lifetime_s;          /* of a connection; 0: no limit */
};
/* Submit a job to the pool with this name, which is made or replaced if target or limits changed:
 * so new credentials count from the next job on. A store without memory or threads fails the job.
 * `name` is unique on the node; `label` names the store in metrics and reasons. */
void out_sql_submit(const char *name, const char *label, const struct out_sql_target *target,
                    const struct out_sql_limits *limits, struct out_sql_job *job);
/* Whether a chore of the pool is due: true once a period, and for the first call about a pool.
 * False where there is no such pool. */
bool out_sql_chore_is_due(const char *name, uint64_t period_ms);
/* Run a job on a connection of its own, on the calling thread, which blocks; then close it. */
NODISCARD enum status out_sql_once(const struct out_sql_target *target, struct out_sql_job *job,
                                   struct reason *reason);
/* Close all pools and wait for their threads: at the end of the process. */
void out_sql_stop(void);
void out_sql_metrics(struct metric_out *out);

#endif
