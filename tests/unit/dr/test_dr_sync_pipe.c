/* Transactions of a sync that are proposed before the ones before them have ended
 * (cluster/dr/follow/sync_pipe.h). The replica is a list: the test ends what is in it. */
#include "cluster/dr/follow/sync_pipe.h"
#include "support.h"

#include <stdatomic.h>

enum { PROPOSED_MAX = 16 };

static struct {
    struct env env;
    struct part_host host;
    struct sync_pipe pipe;
    struct rlog_propose *proposed[PROPOSED_MAX];
    unsigned n;
} world;

void rlog_propose(struct rlog *rlog, struct rlog_propose *p)
{
    (void)rlog;
    assert_true(world.n < PROPOSED_MAX);
    world.proposed[world.n++] = p;
}

static void post_now(struct env *env, struct env_task *task)
{
    (void)env;
    task->run(task);
}

static int set_up(void **ctx)
{
    static const struct env_ops ops = {.post = post_now};
    (void)ctx;
    memset(&world, 0, sizeof world);
    world.env.ops = &ops;
    world.host.env = &world.env;
    return sync_pipe_init(&world.pipe, &world.host) == ST_OK ? 0 : -1;
}

static int tear_down(void **ctx)
{
    (void)ctx;
    sync_pipe_done(&world.pipe);
    return 0;
}

static void end(unsigned i, enum status st, enum rlog_outcome outcome, uint64_t stage)
{
    world.proposed[i]->applied = (struct rlog_applied){.outcome = outcome, .stage = stage};
    world.proposed[i]->done(world.proposed[i], st);
}

static enum status send(const char *text)
{
    CLEANUP(buf_done) struct buf txn = {0};
    buf_add_str(&txn, text);
    enum status st = sync_pipe_send(&world.pipe, &txn, false);
    assert_true(st != ST_OK || txn.data == NULL);
    return st;
}

static void as_many_run_as_there_are_places(void **ctx)
{
    (void)ctx;
    for (unsigned i = 0; i < SYNC_PIPE_MAX; i++)
        assert_status(send((const char[]){(char)('a' + i), 0}), ST_OK);
    assert_int_equal(world.n, SYNC_PIPE_MAX);
    end(1, ST_OK, RLOG_APPLIED, 0); /* a place in the middle is free */
    assert_status(send("z"), ST_OK);
    assert_true(bytes_eq(world.proposed[0]->txn, BYTES("a")));
    assert_true(bytes_eq(world.proposed[2]->txn, BYTES("c")));
    assert_true(bytes_eq(world.proposed[SYNC_PIPE_MAX]->txn, BYTES("z")));
    end(0, ST_OK, RLOG_APPLIED, 7);
    for (unsigned i = 2; i <= SYNC_PIPE_MAX; i++)
        end(i, ST_OK, RLOG_APPLIED, 0);
    assert_status(sync_pipe_drain(&world.pipe), ST_OK);
    assert_int_equal(world.pipe.stage, 7);
}

static void nothing_is_proposed_after_a_failure(void **ctx)
{
    (void)ctx;
    assert_status(send("a"), ST_OK);
    assert_status(send("b"), ST_OK);
    end(0, ST_OK, RLOG_CONFLICTED, 0);
    end(1, ST_NOT_LEADER, RLOG_APPLIED, 0);
    assert_status(send("c"), ST_DENIED);
    assert_int_equal(world.n, 2);
    assert_status(sync_pipe_drain(&world.pipe), ST_DENIED);
}

static void a_node_that_stops_ends_what_is_sent(void **ctx)
{
    (void)ctx;
    world.host.stopping = true;
    assert_status(send("a"), ST_OK);
    assert_int_equal(world.n, 0);
    assert_status(sync_pipe_drain(&world.pipe), ST_CLOSED);
}

static void *end_later(void *arg)
{
    struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
    (void)nanosleep(&pause, NULL);
    atomic_store((atomic_bool *)arg, true);
    end(0, ST_OK, RLOG_APPLIED, 0);
    return NULL;
}

static void a_full_pipe_waits_for_a_place(void **ctx)
{
    pthread_t thread;
    atomic_bool ended = false;
    (void)ctx;
    for (unsigned i = 0; i < SYNC_PIPE_MAX; i++)
        assert_status(send("a"), ST_OK);
    assert_int_equal(pthread_create(&thread, NULL, end_later, &ended), 0);
    assert_status(send("b"), ST_OK);
    assert_true(atomic_load(&ended));
    assert_int_equal(pthread_join(thread, NULL), 0);
    for (unsigned i = 1; i <= SYNC_PIPE_MAX; i++)
        end(i, ST_OK, RLOG_APPLIED, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(as_many_run_as_there_are_places, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_is_proposed_after_a_failure, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_node_that_stops_ends_what_is_sent, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_full_pipe_waits_for_a_place, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
