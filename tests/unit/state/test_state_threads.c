/* Real threads: workers that increment one counter through a raft thread. No increment is lost. */
#include "support.h"

#include "loop/loop.h"
#include "raft/txn/rlog_txn.h"
#include "state/state_core.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { WORKERS = 3, INCREMENTS = 60 };

static struct env *raft_env;
static struct rlog_machine machine;
static struct barrier *barrier;
static struct state_log log_of_test;
static struct seal seal;
static uint64_t index_applied;
static atomic_uint conflicts;

static void on_applied(void *ctx, unsigned i, const struct rlog_applied *applied)
{
    (void)i;
    *(struct rlog_applied *)ctx = *applied;
}

static void propose(struct state_log *log, struct rlog_propose *p)
{
    struct buf entry = {0};
    (void)log;
    enum status st = rlog_entry_encode(RLOG_FEATURE_FIRST, 1000, &p->txn, 1, &entry);
    if (st == ST_OK)
        rlog_machine_apply(&machine, ++index_applied, buf_bytes(&entry), on_applied, &p->applied);
    buf_done(&entry);
    p->done(p, st);
}

static void confirm(struct state_log *log, struct rlog_read *r)
{
    (void)log;
    r->done(r, ST_OK);
}

static void ticket_drop(struct state_log *log, uint64_t ticket)
{
    (void)log;
    (void)ticket;
}

struct worker {
    pthread_t thread;
    struct env *env;
    struct state *state;
    struct env_task task;
    struct state_commit commit;
    unsigned done;
    enum status failed;
};

static void increment(struct worker *w);

static void on_commit(struct state_commit *commit, enum status st)
{
    struct worker *w = CONTAINER_OF(commit, struct worker, commit);
    w->done += st == ST_OK;
    if (st == ST_CONFLICT)
        atomic_fetch_add(&conflicts, 1);
    else if (st != ST_OK)
        w->failed = st;
    if (w->done == INCREMENTS || w->failed != ST_OK)
        loop_stop(w->env);
    else
        increment(w);
}

static enum status stage_increment(struct state_txn *txn)
{
    char text[16] = "0";
    struct state_value value;
    enum status st = state_get(txn, BYTES("s/counter"), &value);
    if (st == ST_OK)
        memcpy(text, value.value.data, MIN(value.value.len, sizeof text - 1));
    else if (st != ST_NOT_FOUND)
        return st;
    (void)snprintf(text, sizeof text, "%d", atoi(text) + 1);
    return state_put(txn, BYTES("s/counter"), bytes_str(text));
}

static void increment(struct worker *w)
{
    struct arena arena = {0};
    struct state_txn txn;
    enum status st = state_begin(w->state, &arena, NULL, &txn);
    if (st == ST_OK)
        st = stage_increment(&txn);
    if (st == ST_OK)
        st = state_commit(&txn, &w->commit);
    state_end(&txn);
    arena_done(&arena);
    if (st != ST_OK) {
        w->failed = st;
        loop_stop(w->env);
    }
}

static void start(struct env_task *task)
{
    increment(CONTAINER_OF(task, struct worker, task));
}

static void *run_loop(void *env)
{
    loop_run(env);
    return NULL;
}

static void *run_worker(void *arg)
{
    struct worker *w = arg;
    loop_run(w->env);
    return NULL;
}

/* By this thread alone, before the others start. */
static void initialise(void)
{
    struct arena arena = {0};
    struct worker w = {.commit.done = on_commit};
    struct state_txn txn;
    struct state_init init;
    w.env = raft_env;
    w.done = INCREMENTS - 1;
    assert_status(state_new(raft_env, &log_of_test, barrier, &w.state), ST_OK);
    assert_status(state_begin(w.state, &arena, NULL, &txn), ST_OK);
    assert_status(state_init_begin(&txn, &seal, 1, &init), ST_OK);
    assert_status(state_commit(&txn, &w.commit), ST_OK);
    state_end(&txn);
    loop_run(raft_env);
    assert_status(w.failed, ST_OK);
    state_init_done(&init);
    state_commit_done(&w.commit);
    state_free(w.state);
    arena_done(&arena);
    assert_status(state_unseal(machine.store, barrier, &seal, NULL), ST_OK);
}

static void no_increment_is_lost(void **state)
{
    (void)state;
    static struct worker workers[WORKERS];
    static const uint8_t key[32] = {3};
    pthread_t raft_thread;
    struct arena arena = {0};
    struct state_txn txn;
    struct state_value value;
    assert_status(crypto_init(NULL), ST_OK);
    assert_status(loop_new(NULL, &raft_env), ST_OK);
    assert_status(store_new(raft_env, &machine.store), ST_OK);
    assert_status(seal_static(bytes_of(key, 32), "k", &seal, NULL), ST_OK);
    assert_status(barrier_new(&barrier), ST_OK);
    log_of_test = (struct state_log){raft_env, machine.store, propose, confirm, ticket_drop, NULL};
    initialise();

    assert_int_equal(pthread_create(&raft_thread, NULL, run_loop, raft_env), 0);
    for (int i = 0; i < WORKERS; i++) {
        struct worker *w = &workers[i];
        *w = (struct worker){.task.run = start, .commit.done = on_commit};
        assert_status(loop_new(NULL, &w->env), ST_OK);
        assert_status(state_new(w->env, &log_of_test, barrier, &w->state), ST_OK);
        env_post(w->env, &w->task);
        assert_int_equal(pthread_create(&w->thread, NULL, run_worker, w), 0);
    }
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    loop_stop(raft_env);
    assert_int_equal(pthread_join(raft_thread, NULL), 0);

    assert_status(state_begin(workers[0].state, &arena, NULL, &txn), ST_OK);
    assert_status(state_get(&txn, BYTES("s/counter"), &value), ST_OK);
    char text[16] = "";
    memcpy(text, value.value.data, MIN(value.value.len, sizeof text - 1));
    assert_int_equal(atoi(text), WORKERS * INCREMENTS);
    print_message("%u conflicts\n", atomic_load(&conflicts));
    state_end(&txn);
    arena_done(&arena);
    for (int i = 0; i < WORKERS; i++) {
        assert_status(workers[i].failed, ST_OK);
        state_commit_done(&workers[i].commit);
        state_free(workers[i].state); /* a renewal may be under way: the loop ends it */
    }
    for (int again = 0; again < 2; again++) /* what went to the raft thread, and what comes back */
        for (int i = 0; i < WORKERS; i++) {
            loop_stop(raft_env);
            loop_run(raft_env);
            loop_stop(workers[i].env);
            loop_run(workers[i].env);
        }
    for (int i = 0; i < WORKERS; i++)
        loop_free(workers[i].env);
    barrier_free(barrier);
    seal_done(&seal);
    for (int i = 0; i < 10000 && !store_idle(machine.store); i++) {
        (void)usleep(1000); /* background release */
        loop_stop(raft_env);
        loop_run(raft_env);
    }
    store_free(machine.store);
    loop_free(raft_env);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_increment_is_lost),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
