/* When services begin and end, and what a run that hangs can still do. Replica and state are
 * stand-ins; services run on threads of their own, the test is the raft thread. */
#include "support.h"

#include "base/mem.h"
#include "loop/loop.h"
#include "node/service.h"

#include <semaphore.h>
#include <stdatomic.h>
#include <time.h>

enum { PATIENCE_S = 20 };

/* The raft thread's env: tasks are run by pump. */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t posted = PTHREAD_COND_INITIALIZER;
static struct list tasks;
static uint64_t now_ms;

static uint64_t mono_ns(struct env *env)
{
    (void)env;
    return now_ms * 1000000;
}

static void post(struct env *env, struct env_task *task)
{
    (void)env;
    pthread_mutex_lock(&lock);
    list_push(&tasks, &task->link);
    pthread_cond_signal(&posted);
    pthread_mutex_unlock(&lock);
}

static const struct env_ops env_ops = {.mono_ns = mono_ns, .post = post, .post_round = post};
static struct env raft_env = {.ops = &env_ops};

/* Run the next task that comes. */
static void pump(void)
{
    struct timespec until;
    assert_int_equal(clock_gettime(CLOCK_REALTIME, &until), 0);
    until.tv_sec += PATIENCE_S;
    pthread_mutex_lock(&lock);
    int late = 0;
    while (list_empty(&tasks) && late == 0)
        late = pthread_cond_timedwait(&posted, &lock, &until);
    struct list *link = list_pop(&tasks);
    pthread_mutex_unlock(&lock);
    assert_non_null(link);
    struct env_task *task = CONTAINER_OF(link, struct env_task, link);
    task->run(task);
}

/* The replica: it leads in `leads_term`, and meets another write in each of `conflicts`. */

static uint64_t leads_term, proposed_term;
static unsigned conflicts, applied, refused;

struct store *rlog_store(struct rlog *rlog)
{
    (void)rlog;
    return NULL;
}

void rlog_propose(struct rlog *rlog, struct rlog_propose *p)
{
    (void)rlog;
    proposed_term = p->term;
    if (p->term != leads_term) {
        refused++;
        p->done(p, ST_NOT_LEADER);
    } else if (conflicts != 0) {
        conflicts--;
        p->done(p, ST_CONFLICT);
    } else {
        applied++;
        p->done(p, ST_OK);
    }
}

/* The state: transactions are empty, commits reach the replica by way of the raft thread. */

struct state {
    struct env *env;
    struct state_log *log;
};

struct state_log state_log_of(struct rlog *rlog, struct env *env)
{
    return (struct state_log){.env = env, .ctx = rlog};
}

enum status state_new(struct env *env, struct state_log *log, struct barrier *barrier,
                      struct state **ret_state)
{
    (void)barrier;
    struct state *state = mem_zalloc(sizeof *state);
    assert_non_null(state);
    *state = (struct state){env, log};
    *ret_state = state;
    return ST_OK;
}

void state_close(struct state *state)
{
    assert_non_null(state);
}

void state_free(struct state *state)
{
    mem_free(state);
}

bool state_idle(const struct state *state)
{
    return state != NULL;
}

static bool stages = true;

enum status state_begin(struct state *state, struct arena *arena, const struct state_read *read,
                        struct state_txn *ret_txn)
{
    (void)read;
    *ret_txn = (struct state_txn){.state = state, .arena = arena};
    return ST_OK;
}

bool state_staged(const struct state_txn *txn)
{
    (void)txn;
    return stages;
}

void state_end(struct state_txn *txn)
{
    (void)txn;
}

static void on_done(struct env_task *task)
{
    struct state_commit *c = CONTAINER_OF(task, struct state_commit, task);
    c->done(c, c->status);
}

static void on_proposed(struct rlog_propose *p, enum status st)
{
    struct state_commit *c = CONTAINER_OF(p, struct state_commit, rlog);
    c->status = st;
    c->task.run = on_done;
    env_post(c->state->env, &c->task);
}

static void propose_on_raft(struct env_task *task)
{
    struct state_commit *c = CONTAINER_OF(task, struct state_commit, task);
    c->state->log->propose(c->state->log, &c->rlog);
}

enum status state_commit(struct state_txn *txn, struct state_commit *c)
{
    c->state = txn->state;
    c->rlog = (struct rlog_propose){.done = on_proposed};
    c->task.run = propose_on_raft;
    env_post(c->state->log->env, &c->task);
    return ST_OK;
}

void state_commit_done(struct state_commit *c)
{
    (void)c;
}

/* The services */

static _Atomic unsigned begun, ended, staged;
static _Atomic enum status wrote;
static sem_t outside, out;

static void wait_for_end(struct service *s)
{
    begun++;
    while (service_wait(s, 60000))
        ;
    ended++;
}

static void return_early(struct service *s)
{
    begun++;
    ended += service_wait(s, 1);
}

static enum status stage(struct state_txn *txn, void *ctx, int64_t time_ms)
{
    (void)txn;
    assert_ptr_equal(ctx, &staged);
    assert_int_equal(time_ms, 42);
    staged++;
    return ST_OK;
}

static void write_once(struct service *s)
{
    begun++;
    wrote = service_transact(s, stage, &staged);
    while (service_wait(s, 60000))
        ;
    ended++;
}

/* A call to the outside that does not end; then a write. */
static void hang_and_write(struct service *s)
{
    begun++;
    (void)sem_post(&outside);
    while (sem_wait(&out) != 0)
        ;
    wrote = service_transact(s, stage, &staged);
    ended++;
}

static const struct node_service waiting[] = {{.name = "waiting", .run = wait_for_end}};
static const struct node_service early[] = {{.name = "early", .run = return_early}};
static const struct node_service writing[] = {{.name = "writing", .run = write_once}};
static const struct node_service hanging[] = {{.name = "hanging", .run = hang_and_write}};

static struct part_host host;
static struct services all;
static unsigned failures;

static void on_fail(struct part_host *from, enum status why, const struct reason *reason)
{
    assert_ptr_equal(from, &host);
    assert_status(why, ST_TIMEOUT);
    assert_non_null(strstr(reason->text, "hanging"));
    failures++;
}

static const struct part_calls calls = {.fail = on_fail};

static int64_t time_ms_of(void *ctx)
{
    assert_ptr_equal(ctx, &all);
    return 42;
}

static void open_with(const struct node_service *rows)
{
    list_init(&tasks);
    now_ms = 1000;
    leads_term = proposed_term = 0;
    conflicts = applied = refused = failures = 0;
    begun = ended = staged = 0;
    wrote = ST_OK;
    stages = true;
    assert_int_equal(sem_init(&outside, 0, 0), 0);
    assert_int_equal(sem_init(&out, 0, 0), 0);
    host = (struct part_host){.env = &raft_env, .calls = &calls};
    all = (struct services){.rows = rows, .n = 1, .time_ms = time_ms_of, .time_ctx = &all};
    assert_status(service_part.start(&all, &host), ST_OK);
}

/* This node becomes active in a term; 0: a standby. */
static void change(uint64_t term)
{
    static const struct rlog_status raft;
    leads_term = term;
    host.active_term = term;
    service_part.changed(&all, &raft);
}

static void stop_all(void)
{
    host.stopping = true;
    host.active_term = 0;
    while (!service_part.stop(&all))
        pump();
    host.replica_closed = true;
    assert_true(service_part.stop(&all));
    services_done(&all);
}

/* The tests */

static void a_service_is_begun_and_ended_once_a_term(void **ctx)
{
    (void)ctx;
    open_with(waiting);
    change(0);
    assert_int_equal(all.items[0].phase, SERVICE_IDLE);
    change(3);
    change(3);
    assert_int_equal(all.items[0].phase, SERVICE_RUNNING);
    change(4); /* no standby in between */
    change(4);
    assert_int_equal(all.items[0].phase, SERVICE_ENDING);
    pump(); /* joined */
    assert_int_equal(begun, 1);
    assert_int_equal(ended, 1);
    assert_int_equal(all.items[0].phase, SERVICE_IDLE);
    change(4);
    change(0);
    change(0);
    pump();
    assert_int_equal(begun, 2);
    assert_int_equal(ended, 2);
    change(4); /* sealed and unsealed again: active once more in the same term */
    assert_int_equal(all.items[0].phase, SERVICE_RUNNING);
    stop_all();
    assert_int_equal(begun, 3);
    assert_int_equal(ended, 3);
}

static void a_run_that_returned_is_begun_again_in_the_next_term(void **ctx)
{
    (void)ctx;
    open_with(early);
    change(3);
    pump();
    change(3);
    change(3);
    assert_int_equal(all.items[0].phase, SERVICE_IDLE);
    assert_int_equal(begun, 1);
    change(4);
    pump();
    assert_int_equal(begun, 2);
    stop_all();
}

static void a_write_carries_the_term_of_its_run(void **ctx)
{
    (void)ctx;
    open_with(writing);
    change(7);
    pump(); /* the proposal */
    assert_int_equal(proposed_term, 7);
    assert_int_equal(applied, 1);
    stop_all();
    assert_status(wrote, ST_OK);
    assert_int_equal(staged, 1);
}

static void a_conflict_stages_again(void **ctx)
{
    (void)ctx;
    open_with(writing);
    conflicts = 2;
    change(7);
    for (unsigned i = 0; i < 3; i++)
        pump();
    stop_all();
    assert_status(wrote, ST_OK);
    assert_int_equal(staged, 3);
    assert_int_equal(applied, 1);
}

static void a_transaction_that_conflicts_for_ever_is_given_up(void **ctx)
{
    (void)ctx;
    open_with(writing);
    conflicts = UINT32_MAX;
    change(7);
    for (unsigned i = 0; i < SERVICE_TRIES_MAX; i++)
        pump();
    stop_all();
    assert_status(wrote, ST_CONFLICT);
    assert_int_equal(staged, SERVICE_TRIES_MAX);
}

static void a_transaction_that_stages_nothing_proposes_nothing(void **ctx)
{
    (void)ctx;
    open_with(writing);
    stages = false;
    change(7);
    stop_all();
    assert_int_equal(applied + refused, 0);
}

/* The run had proposed before it was asked to end, and the raft thread hears of both at once. */
static void a_write_that_arrives_after_the_end_is_refused(void **ctx)
{
    (void)ctx;
    open_with(writing);
    change(7);
    pthread_mutex_lock(&lock);
    while (list_empty(&tasks)) /* the proposal */
        pthread_cond_wait(&posted, &lock);
    pthread_mutex_unlock(&lock);
    change(0);
    leads_term = 7; /* sealed, but still the leader */
    stop_all();
    assert_int_equal(refused, 1);
    assert_int_equal(applied, 0);
    assert_int_not_equal(proposed_term, 7);
    assert_status(wrote, ST_CLOSED);
}

static void a_run_that_hangs_delays_no_role_and_writes_nothing(void **ctx)
{
    (void)ctx;
    open_with(hanging);
    change(3);
    assert_int_equal(sem_wait(&outside), 0);
    change(0); /* returns at once */
    change(5);
    now_ms += SERVICE_COMPLAIN_MS;
    change(5);
    assert_int_equal(all.items[0].phase, SERVICE_ENDING);
    assert_int_equal(all.items[0].complained_ms, now_ms);
    assert_int_equal(begun, 1); /* one run at a time */
    (void)sem_post(&out);
    pump();
    assert_status(wrote, ST_CLOSED);
    assert_int_equal(staged, 0);
    assert_int_equal(applied + refused, 0);
    change(5);
    assert_int_equal(sem_wait(&outside), 0);
    assert_int_equal(begun, 2);
    (void)sem_post(&out);
    stop_all();
}

static void a_node_that_stops_does_not_wait_for_ever(void **ctx)
{
    (void)ctx;
    open_with(hanging);
    change(3);
    assert_int_equal(sem_wait(&outside), 0);
    host.stopping = true;
    host.active_term = 0;
    assert_false(service_part.stop(&all));
    now_ms += SERVICE_STOP_MS - 1;
    assert_false(service_part.stop(&all));
    assert_int_equal(failures, 0);
    now_ms++;
    assert_false(service_part.stop(&all));
    assert_int_equal(failures, 1);
    (void)sem_post(&out);
    pump();
    stop_all();
}

static void a_dr_secondary_begins_no_service(void **ctx)
{
    (void)ctx;
    open_with(waiting);
    host.dr_secondary = true;
    change(3);
    assert_int_equal(all.items[0].phase, SERVICE_IDLE);
    host.dr_secondary = false;
    change(3);
    assert_int_equal(all.items[0].phase, SERVICE_RUNNING);
    host.dr_secondary = true; /* demoted while active */
    change(3);
    assert_int_equal(all.items[0].phase, SERVICE_ENDING);
    pump();
    change(3);
    assert_int_equal(all.items[0].phase, SERVICE_IDLE);
    assert_int_equal(begun, 1);
    stop_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_service_is_begun_and_ended_once_a_term),
        cmocka_unit_test(a_run_that_returned_is_begun_again_in_the_next_term),
        cmocka_unit_test(a_write_carries_the_term_of_its_run),
        cmocka_unit_test(a_conflict_stages_again),
        cmocka_unit_test(a_transaction_that_conflicts_for_ever_is_given_up),
        cmocka_unit_test(a_transaction_that_stages_nothing_proposes_nothing),
        cmocka_unit_test(a_write_that_arrives_after_the_end_is_refused),
        cmocka_unit_test(a_run_that_hangs_delays_no_role_and_writes_nothing),
        cmocka_unit_test(a_node_that_stops_does_not_wait_for_ever),
        cmocka_unit_test(a_dr_secondary_begins_no_service),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
