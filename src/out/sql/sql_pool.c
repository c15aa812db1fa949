/* Pools: queues, threads, breakers.
 *
 * One lock guards all pools; it is held for moments only, never during a call to a library. A
 * thread of a pool:
 *
 *   CONNECTING ──connected──▶ READY ◀──job done──┐
 *     │   ▲                     └──takes a job──▶ WORKING ──lost──▶ CONNECTING
 *     │   └─ after OUT_SQL_PROBE_MS, one thread of the pool
 *     └─ failed: the breaker opens, every waiting job fails
 *
 * A clock thread ends jobs whose time is over while they wait. A pool that is replaced or unused
 * leaves the table, and its last thread frees it. */
#include "base/mem.h"
#include "out/sql/sql_internal.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum {
    LABEL_MAX = 200,
    CLOCK_MS = 25,
    STOP_MS = 5000,
    LEAST_MS = 1000, /* a job with less time left does not begin */
};

struct pool {
    struct list link; /* in `pools`; empty once replaced */
    char *name, *label, *text, *username, *password, *tls_ca;
    struct out_sql_target target; /* borrows from the texts above */
    struct out_sql_limits limits;
    struct list jobs;
    unsigned n_jobs, n_threads, n_idle, n_ready;
    bool open, probing, closing; /* open: the breaker; probing: a thread tries to connect */
    struct reason why;           /* with `open` */
    uint64_t used_ms, chore_ms;  /* chore_ms: when the last chore was due; 0: never */
    pthread_cond_t wake;
    /* counters */
    uint64_t done, failed, waited_ms, worked_ms;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list pools = {&pools, &pools};
static pthread_cond_t clock_wake, gone;
static unsigned n_threads; /* of all pools, and the clock */
static bool begun, stopping, clock_runs;
static int stop_event = -1;

static void begin_pools(void)
{
    pthread_condattr_t attr;
    if (begun)
        return;
    begun = true;
    (void)pthread_condattr_init(&attr);                      /* cannot fail here */
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC); /* cannot fail here */
    (void)pthread_cond_init(&clock_wake, &attr);             /* cannot fail here */
    (void)pthread_cond_init(&gone, &attr);                   /* cannot fail here */
    (void)pthread_condattr_destroy(&attr);                   /* cannot fail here */
    stop_event = eventfd(0, EFD_CLOEXEC);
    sql_set_stop(stop_event); /* -1: a wait ends by its deadline */
}

/* Wait on a condition for at most `ms`. */
static void wait_ms(pthread_cond_t *cond, uint64_t ms)
{
    struct timespec at;
    (void)clock_gettime(CLOCK_MONOTONIC, &at); /* cannot fail */
    at.tv_sec += (time_t)(ms / 1000);
    at.tv_nsec += (long)(ms % 1000) * 1000000;
    if (at.tv_nsec >= 1000000000) {
        at.tv_sec++;
        at.tv_nsec -= 1000000000;
    }
    (void)pthread_cond_timedwait(cond, &lock, &at); /* the caller looks at what it waits for */
}

static void wipe_free(char *text)
{
    if (text != NULL)
        mem_wipe(text, strlen(text));
    mem_free(text);
}

static void pool_free(struct pool *pool)
{
    ASSERT(pool->n_threads == 0 && list_empty(&pool->jobs));
    wipe_free(pool->name);
    wipe_free(pool->label);
    wipe_free(pool->text);
    wipe_free(pool->username);
    wipe_free(pool->password);
    wipe_free(pool->tls_ca);
    (void)pthread_cond_destroy(&pool->wake); /* no thread waits */
    mem_free(pool);
}

/* Take the pool out of the table: it ends once its jobs are done. With the lock. */
static void retire(struct pool *pool)
{
    list_remove(&pool->link);
    pool->closing = true;
    (void)pthread_cond_broadcast(&pool->wake); /* cannot fail */
    if (pool->n_threads == 0)
        pool_free(pool);
}

static bool same_target(const struct pool *pool, const struct out_sql_target *t,
                        const struct out_sql_limits *limits)
{
    return pool->target.driver == t->driver && strcmp(pool->text, t->text) == 0 &&
           strcmp(pool->username, t->username) == 0 && strcmp(pool->password, t->password) == 0 &&
           strcmp(pool->tls_ca, t->tls_ca) == 0 && pool->limits.max_open == limits->max_open &&
           pool->limits.max_idle == limits->max_idle &&
           pool->limits.lifetime_s == limits->lifetime_s;
}

static struct pool *pool_new(const char *name, const char *label, const struct out_sql_target *t,
                             const struct out_sql_limits *limits)
{
    pthread_condattr_t attr;
    struct pool *pool = mem_zalloc(sizeof *pool);
    if (pool == NULL)
        return NULL;
    list_init(&pool->link);
    list_init(&pool->jobs);
    (void)pthread_condattr_init(&attr);                      /* cannot fail here */
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC); /* cannot fail here */
    (void)pthread_cond_init(&pool->wake, &attr);             /* cannot fail here */
    (void)pthread_condattr_destroy(&attr);                   /* cannot fail here */
    pool->name = mem_strdup(name);
    pool->label = mem_strdup(label);
    pool->text = mem_strdup(t->text);
    pool->username = mem_strdup(t->username);
    pool->password = mem_strdup(t->password);
    pool->tls_ca = mem_strdup(t->tls_ca);
    pool->limits = *limits;
    pool->target = (struct out_sql_target){t->driver, pool->text, pool->username, pool->password,
                                           pool->tls_ca};
    if (pool->name != NULL && pool->label != NULL && pool->text != NULL && pool->username != NULL &&
        pool->password != NULL && pool->tls_ca != NULL)
        return pool;
    pool_free(pool);
    return NULL;
}

/* With the lock. NULL: no memory. */
static struct pool *find_pool(const char *name, const char *label,
                              const struct out_sql_target *target,
                              const struct out_sql_limits *limits)
{
    for (struct list *l = pools.next; l != &pools; l = l->next) {
        struct pool *pool = CONTAINER_OF(l, struct pool, link);
        if (strcmp(pool->name, name) != 0)
            continue;
        if (same_target(pool, target, limits))
            return pool;
        retire(pool);
        break;
    }
    struct pool *pool = pool_new(name, label, target, limits);
    if (pool != NULL)
        list_push(&pools, &pool->link);
    return pool;
}

/* A job that ends without a connection. Its `done` runs without the lock. */
static void end_job(struct out_sql_job *job, enum status st, const struct reason *why)
{
    job->status = st;
    if (why != NULL)
        job->reason = *why;
    job->done(job);
}

static void fail_list(struct list *jobs, const struct reason *why)
{
    struct list *l;
    while ((l = list_pop(jobs)) != NULL)
        end_job(CONTAINER_OF(l, struct out_sql_job, link), ST_BAD_GATEWAY, why);
}

/* Move all waiting jobs to `to`. With the lock. */
static void take_jobs(struct pool *pool, struct list *to)
{
    pool->failed += pool->n_jobs;
    pool->n_jobs = 0;
    list_splice(to, &pool->jobs);
}

/* The store cannot be reached: what waits fails now. Called with the lock, which it gives back
 * meanwhile. */
static void open_breaker(struct pool *pool, const struct reason *why)
{
    struct list failed;
    struct reason copy = *why;
    list_init(&failed);
    pool->open = true;
    pool->why = copy;
    take_jobs(pool, &failed);
    (void)pthread_cond_broadcast(&pool->wake); /* cannot fail */
    (void)pthread_mutex_unlock(&lock);         /* cannot fail */
    fail_list(&failed, &copy);
    (void)pthread_mutex_lock(&lock); /* cannot fail */
}

/* Connect, again and again while jobs are asked for. With the lock; false: the thread ends. */
static bool reach(struct pool *pool, struct out_sql_conn **conn)
{
    bool prober = false;
    ASSERT(*conn == NULL);
    for (;;) {
        struct reason why = {0};
        if (stopping || (pool->closing && list_empty(&pool->jobs)))
            break;
        if (pool->open && !prober && pool->probing)
            break;                         /* another thread tries */
        (void)pthread_mutex_unlock(&lock); /* cannot fail */
        enum status st =
            sql_connect(&pool->target, out_sql_now_ms() + OUT_SQL_CONNECT_MS, conn, &why);
        if (st == ST_NOMEM)
            reason_set(&why, "this node has no memory left");
        (void)pthread_mutex_lock(&lock); /* cannot fail */
        if (st == ST_OK) {
            pool->open = false;
            break;
        }
        open_breaker(pool, &why);
        if (pool->probing && !prober)
            break;
        prober = pool->probing = true;
        uint64_t unused = out_sql_now_ms() - pool->used_ms;
        if (stopping || pool->closing || unused > OUT_SQL_UNUSED_MS)
            break;
        wait_ms(&pool->wake, OUT_SQL_PROBE_MS);
    }
    if (prober)
        pool->probing = false;
    if (prober && *conn == NULL)
        pool->open = false; /* the next caller tries */
    return *conn != NULL;
}

/* Wait for a job. NULL: the thread ends; or the idle connection is dead, which makes it `broken`,
 * and the jobs stay in the queue. With the lock. */
static struct out_sql_job *next_job(struct pool *pool, struct out_sql_conn *conn, bool was_idle)
{
    uint64_t lifetime_ms = 1000 * (uint64_t)pool->limits.lifetime_s;
    while (list_empty(&pool->jobs)) {
        uint64_t now = out_sql_now_ms();
        bool old = lifetime_ms != 0 && now - conn->made_ms >= lifetime_ms;
        bool unused = now - pool->used_ms >= OUT_SQL_UNUSED_MS;
        if (stopping || pool->closing || old || unused || pool->n_idle >= pool->limits.max_idle)
            return NULL;
        pool->n_idle++;
        wait_ms(&pool->wake, 1000);
        pool->n_idle--;
    }
    conn->broken = was_idle && sql_is_dead(sql_socket(conn));
    if (conn->broken)
        return NULL;
    pool->n_jobs--;
    return CONTAINER_OF(list_pop(&pool->jobs), struct out_sql_job, link);
}

static const struct reason late_why = {"all its connections are busy, and the time is over"};

/* Run a job; a connection that died while it was idle is made anew once. Without the lock. */
static void run_job(struct pool *pool, struct out_sql_conn **conn, struct out_sql_job *job,
                    bool was_idle)
{
    enum status st = ST_BAD_GATEWAY;
    struct reason why = {0};
    if (job->until_ms <= out_sql_now_ms() + LEAST_MS) {
        job->status = st;
        job->reason = late_why;
        return;
    }
    for (int i = 0; i < 2; i++) {
        if ((*conn)->broken) {
            sql_close(*conn);
            *conn = NULL;
            why = (struct reason){0};
            st = sql_connect(&pool->target, job->until_ms, conn, &why);
            if (st != ST_OK)
                break;
        }
        (*conn)->until_ms = job->until_ms;
        st = job->run(job, *conn, &why);
        bool again = was_idle && (*conn)->broken && !(*conn)->timed_out && st == ST_BAD_GATEWAY;
        if (!again)
            break;
    }
    job->status = st;
    job->reason = why;
}

static void count(struct pool *pool, const struct out_sql_job *job, uint64_t began_ms)
{
    *(job->status == ST_OK ? &pool->done : &pool->failed) += 1;
    pool->waited_ms += began_ms - job->since_ms;
    pool->worked_ms += out_sql_now_ms() - began_ms;
}

static void work_on(struct pool *pool)
{
    struct out_sql_conn *conn = NULL;
    struct out_sql_job *job;
    bool was_idle = false;
    while (reach(pool, &conn)) {
        pool->n_ready++;
        was_idle = false;
        while (conn != NULL && (job = next_job(pool, conn, was_idle)) != NULL) {
            uint64_t began = out_sql_now_ms();
            (void)pthread_mutex_unlock(&lock); /* cannot fail */
            run_job(pool, &conn, job, was_idle);
            bool lost = conn == NULL || conn->broken;
            bool sick = conn == NULL || conn->timed_out; /* else: see whether it can be reached */
            struct reason why = job->reason;
            if (lost) {
                sql_close(conn);
                conn = NULL;
            }
            (void)pthread_mutex_lock(&lock); /* cannot fail */
            count(pool, job, began);
            if (sick)
                open_breaker(pool, &why);
            (void)pthread_mutex_unlock(&lock); /* cannot fail */
            job->done(job);
            (void)pthread_mutex_lock(&lock); /* cannot fail */
            was_idle = true;
        }
        pool->n_ready--;
        if (conn != NULL && !conn->broken)
            break;                         /* there is nothing to do */
        (void)pthread_mutex_unlock(&lock); /* cannot fail */
        sql_close(conn);
        conn = NULL;
        (void)pthread_mutex_lock(&lock); /* cannot fail */
    }
    (void)pthread_mutex_unlock(&lock); /* cannot fail */
    sql_close(conn);
    (void)pthread_mutex_lock(&lock); /* cannot fail */
}

static void *pool_main(void *ctx)
{
    static const struct reason closed = {"this node is shutting down"};
    struct pool *pool = ctx;
    struct list left;
    list_init(&left);
    (void)pthread_setname_np(pthread_self(), "sql"); /* for people */
    (void)pthread_mutex_lock(&lock);                 /* cannot fail */
    do /* a job may have come for this thread while it was ending */
        work_on(pool);
    while (!stopping && pool->n_threads == 1 && !list_empty(&pool->jobs));
    pool->n_threads--;
    if (pool->n_threads == 0 && !list_empty(&pool->jobs)) {
        take_jobs(pool, &left);
        (void)pthread_mutex_unlock(&lock); /* cannot fail */
        fail_list(&left, &closed);
        (void)pthread_mutex_lock(&lock); /* cannot fail */
    }
    if (pool->closing && pool->n_threads == 0)
        pool_free(pool);
    n_threads--;
    (void)pthread_cond_broadcast(&gone); /* cannot fail */
    (void)pthread_mutex_unlock(&lock);   /* cannot fail */
    return NULL;
}

static bool spawn(void *(*run)(void *ctx), void *ctx)
{
    pthread_attr_t attr;
    pthread_t thread;
    if (pthread_attr_init(&attr) != 0)
        return false;
    bool made = pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED) == 0 &&
                pthread_create(&thread, &attr, run, ctx) == 0;
    (void)pthread_attr_destroy(&attr); /* cannot fail */
    if (made)
        n_threads++;
    return made;
}

/* Move the jobs whose time is over. With the lock. Returns whether jobs wait. */
static bool take_late(struct list *late)
{
    uint64_t now = out_sql_now_ms();
    bool waits = false;
    for (struct list *l = pools.next; l != &pools; l = l->next) {
        struct pool *pool = CONTAINER_OF(l, struct pool, link);
        for (struct list *j = pool->jobs.next, *next; j != &pool->jobs; j = next) {
            struct out_sql_job *job = CONTAINER_OF(j, struct out_sql_job, link);
            next = j->next;
            if (job->until_ms > now + LEAST_MS) {
                waits = true;
                continue;
            }
            list_remove(j);
            list_push(late, j);
            pool->n_jobs--;
            pool->failed++;
        }
    }
    return waits;
}

/* Retire pools without threads that no request uses. With the lock. */
static void sweep(void)
{
    uint64_t now = out_sql_now_ms();
    for (struct list *l = pools.next, *next; l != &pools; l = next) {
        struct pool *pool = CONTAINER_OF(l, struct pool, link);
        next = l->next;
        if (pool->n_threads == 0 && now - pool->used_ms > 2 * OUT_SQL_UNUSED_MS)
            retire(pool);
    }
}

static void *clock_main(void *ctx)
{
    (void)ctx;
    (void)pthread_setname_np(pthread_self(), "sql-clock"); /* for people */
    (void)pthread_mutex_lock(&lock);                       /* cannot fail */
    while (!stopping) {
        struct list late;
        list_init(&late);
        bool waits = take_late(&late);
        sweep();
        if (!list_empty(&late)) {
            (void)pthread_mutex_unlock(&lock); /* cannot fail */
            fail_list(&late, &late_why);
            (void)pthread_mutex_lock(&lock); /* cannot fail */
            continue;
        }
        wait_ms(&clock_wake, waits ? CLOCK_MS : 10000);
    }
    n_threads--;
    (void)pthread_cond_broadcast(&gone); /* cannot fail */
    (void)pthread_mutex_unlock(&lock);   /* cannot fail */
    return NULL;
}

/* Put the job into the queue, and see that a thread will take it. With the lock. Returns why not;
 * NULL: it waits. */
static const char *enqueue(struct pool *pool, struct out_sql_job *job)
{
    if (stopping)
        return "this node is shutting down";
    if (pool->open)
        return pool->why.text;
    if (pool->n_jobs >= OUT_SQL_QUEUE_MAX)
        return "too many requests wait for it";
    if (!clock_runs)
        clock_runs = spawn(clock_main, NULL);
    bool grows = pool->n_idle <= pool->n_jobs && pool->n_threads < pool->limits.max_open &&
                 n_threads <= OUT_SQL_THREADS_MAX;
    if (grows && spawn(pool_main, pool))
        pool->n_threads++;
    if (pool->n_threads == 0 || !clock_runs)
        return "this node has no connection left: other stores use them all";
    list_push(&pool->jobs, &job->link);
    if (pool->n_jobs++ == 0)
        (void)pthread_cond_signal(&clock_wake); /* cannot fail */
    (void)pthread_cond_signal(&pool->wake);     /* cannot fail */
    return NULL;
}

void out_sql_submit(const char *name, const char *label, const struct out_sql_target *target,
                    const struct out_sql_limits *limits, struct out_sql_job *job)
{
    const char *why = "this node has no memory left";
    ASSERT(limits->max_open != 0 && limits->max_open <= OUT_SQL_CONNECTIONS_MAX);
    job->since_ms = out_sql_now_ms();
    job->status = ST_BAD_GATEWAY;
    (void)pthread_mutex_lock(&lock); /* cannot fail */
    begin_pools();
    struct pool *pool = find_pool(name, label, target, limits);
    if (pool != NULL) {
        pool->used_ms = job->since_ms;
        why = enqueue(pool, job);
        pool->failed += why != NULL;
    }
    if (why != NULL)
        reason_set(&job->reason, "%s", why);
    (void)pthread_mutex_unlock(&lock); /* cannot fail */
    if (why != NULL)
        job->done(job);
}

bool out_sql_chore_is_due(const char *name, uint64_t period_ms)
{
    uint64_t now = out_sql_now_ms();
    bool due = false;
    (void)pthread_mutex_lock(&lock); /* cannot fail */
    for (struct list *l = pools.next; l != &pools; l = l->next) {
        struct pool *pool = CONTAINER_OF(l, struct pool, link);
        if (strcmp(pool->name, name) != 0)
            continue;
        due = pool->chore_ms == 0 || now - pool->chore_ms >= period_ms;
        if (due)
            pool->chore_ms = now;
    }
    (void)pthread_mutex_unlock(&lock); /* cannot fail */
    return due;
}

void out_sql_stop(void)
{
    uint64_t until = out_sql_now_ms() + STOP_MS, one = 1;
    (void)pthread_mutex_lock(&lock); /* cannot fail */
    if (begun) {
        stopping = true;
        if (stop_event >= 0 && write(stop_event, &one, sizeof one) < 0)
            until = out_sql_now_ms(); /* waits end by their deadlines: do not wait for them */
        (void)pthread_cond_broadcast(&clock_wake); /* cannot fail */
        for (struct list *l = pools.next; l != &pools; l = l->next)
            (void)pthread_cond_broadcast(&CONTAINER_OF(l, struct pool, link)->wake);
        while (n_threads != 0 && out_sql_now_ms() < until)
            wait_ms(&gone, 50);
        while (n_threads == 0 && !list_empty(&pools))
            retire(CONTAINER_OF(pools.next, struct pool, link));
    }
    (void)pthread_mutex_unlock(&lock); /* cannot fail */
}

static void put_pools(struct metric_out *out, const char *name, enum metric_kind kind,
                      const char *help, uint64_t (*value)(const struct pool *pool), bool millis)
{
    char labels[LABEL_MAX + 16];
    metric_start(out, name, kind, help);
    for (struct list *l = pools.next; l != &pools; l = l->next) {
        const struct pool *pool = CONTAINER_OF(l, struct pool, link);
        (void)snprintf(labels, sizeof labels, "store=\"%.*s\"", LABEL_MAX, pool->label);
        if (millis)
            metric_nanos(out, labels, 1000000 * value(pool));
        else
            metric_value(out, labels, value(pool));
    }
}

static uint64_t jobs_done(const struct pool *p)
{
    return p->done;
}

static uint64_t jobs_failed(const struct pool *p)
{
    return p->failed;
}

static uint64_t jobs_waiting(const struct pool *p)
{
    return p->n_jobs;
}

static uint64_t connections(const struct pool *p)
{
    return p->n_ready;
}

static uint64_t is_down(const struct pool *p)
{
    return p->open;
}

static uint64_t waited(const struct pool *p)
{
    return p->waited_ms;
}

static uint64_t worked(const struct pool *p)
{
    return p->worked_ms;
}

void out_sql_metrics(struct metric_out *out)
{
    (void)pthread_mutex_lock(&lock); /* cannot fail */
    if (!list_empty(&pools)) {
        put_pools(out, "holdfast_token_store_requests_total", METRIC_COUNTER,
                  "Requests that a database of tokens has served for this node.", jobs_done, false);
        put_pools(out, "holdfast_token_store_failures_total", METRIC_COUNTER,
                  "Requests to a database of tokens that failed.", jobs_failed, false);
        put_pools(out, "holdfast_token_store_waiting", METRIC_GAUGE,
                  "Requests that wait for a connection to a database of tokens.", jobs_waiting,
                  false);
        put_pools(out, "holdfast_token_store_connections", METRIC_GAUGE,
                  "Open connections to a database of tokens.", connections, false);
        put_pools(out, "holdfast_token_store_down", METRIC_GAUGE,
                  "1 while a database of tokens cannot be reached.", is_down, false);
        put_pools(out, "holdfast_token_store_wait_seconds_total", METRIC_COUNTER,
                  "Time that requests waited for a connection to a database of tokens.", waited,
                  true);
        put_pools(out, "holdfast_token_store_work_seconds_total", METRIC_COUNTER,
                  "Time that a database of tokens took for requests.", worked, true);
    }
    (void)pthread_mutex_unlock(&lock); /* cannot fail */
}
