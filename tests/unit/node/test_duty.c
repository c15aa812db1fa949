/* When duties run again. The test decides when a commit of the state ends. */
#include "support.h"

#include "base/mem.h"
#include "node/duty.h"
#include "router/clock_env.h"

static struct clock_env clock_env;
static struct part_host host;
static struct duties *d;
static unsigned runs; /* of the second duty */
static struct state_commit *committing;

/* Stand in for the replica and the state. */

int64_t rlog_time_ms(struct rlog *rlog)
{
    (void)rlog;
    return 1;
}

struct state_log state_log_of(struct rlog *rlog, struct env *env)
{
    (void)rlog;
    return (struct state_log){.env = env};
}

enum status state_new(struct env *env, struct state_log *log, struct barrier *barrier,
                      struct state **ret_state)
{
    (void)env;
    (void)barrier;
    *ret_state = (struct state *)log; /* not looked into */
    return ST_OK;
}

void state_free(struct state *state)
{
    (void)state;
}

bool state_idle(const struct state *state)
{
    (void)state;
    return true;
}

void state_upkeep(struct state *state)
{
    (void)state;
}

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
    return true;
}

enum status state_commit(struct state_txn *txn, struct state_commit *commit)
{
    (void)txn;
    committing = commit;
    return ST_OK;
}

void state_commit_done(struct state_commit *commit)
{
    assert_ptr_equal(commit, committing);
    committing = NULL;
}

void state_end(struct state_txn *txn)
{
    (void)txn;
}

static uint64_t turn_ms; /* of the first duty */

static enum status stage_something(struct state_txn *txn, int64_t now_ms)
{
    (void)txn;
    (void)now_ms;
    return ST_OK;
}

static enum status take_long(struct state_txn *txn, int64_t now_ms)
{
    (void)txn;
    (void)now_ms;
    clock_env.now_ms += turn_ms;
    return ST_SEALED; /* stages nothing, and says nothing */
}

static enum status count_run(struct state_txn *txn, int64_t now_ms)
{
    (void)txn;
    (void)now_ms;
    runs++;
    return ST_SEALED;
}

static const struct node_duty staging[] = {{.name = "something", .run = stage_something}};
static const struct node_duty reading[] = {{.name = "long", .run = take_long},
                                           {.name = "counted", .run = count_run}};

static void change(uint64_t active_term)
{
    static const struct rlog_status raft;
    host.active_term = active_term;
    duty_part.changed(d, &raft);
}

static void begin(const struct node_duty *rows, size_t n)
{
    clock_env_init(&clock_env);
    d = mem_zalloc(sizeof *d);
    assert_non_null(d);
    *d = (struct duties){.rows = rows, .n = n};
    host = (struct part_host){.env = &clock_env.env};
    assert_status(duty_part.start(d, &host), ST_OK);
}

static int set_up(void **ctx)
{
    (void)ctx;
    begin(staging, ARRAY_LEN(staging));
    change(1);
    clock_run(&clock_env);
    assert_non_null(committing); /* the duty's first commit is under way */
    return 0;
}

static int set_up_reading(void **ctx)
{
    (void)ctx;
    runs = 0;
    begin(reading, ARRAY_LEN(reading));
    return 0;
}

static int tear_down(void **ctx)
{
    (void)ctx;
    timer_heap_done(&clock_env.timers);
    mem_free(d);
    return 0;
}

static bool timer_is_set(void)
{
    return timer_heap_first(&clock_env.timers) != NULL;
}

static void end_commit(enum status st)
{
    committing->done(committing, st);
}

static void a_commit_that_ends_after_the_stop_sets_no_timer(void **ctx)
{
    static const enum status ends[] = {ST_OK, ST_CONFLICT, ST_CLOSED, ST_UNKNOWN_OUTCOME};
    for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
        host.stopping = true;
        host.active_term = 0;
        assert_true(duty_part.stop(d)); /* the replica may close */
        host.replica_closed = true;
        assert_false(duty_part.stop(d)); /* the thread may not end yet */
        end_commit(ends[i]);
        assert_false(timer_is_set());
        assert_true(duty_part.stop(d));
        assert_int_equal(tear_down(ctx), 0);
        assert_int_equal(set_up(ctx), 0);
    }
}

/* The node was asked to stop, and its parts will be. */
static void a_commit_that_ends_before_the_parts_stop_sets_no_timer(void **ctx)
{
    (void)ctx;
    host.stopping = true;
    host.active_term = 0;
    end_commit(ST_OK);
    assert_false(timer_is_set());
    assert_true(duty_part.stop(d));
}

static void a_commit_that_ends_in_a_later_term_goes_on_in_it(void **ctx)
{
    (void)ctx;
    change(0);
    assert_false(timer_is_set());
    change(2);
    assert_false(timer_is_set()); /* not before the commit of the earlier term has ended */
    end_commit(ST_UNKNOWN_OUTCOME);
    assert_true(timer_is_set());
    clock_env.now_ms += DUTY_EVERY_MS;
    clock_run(&clock_env);
    assert_non_null(committing);
}

static void a_commit_that_ends_between_two_terms_waits_for_the_next(void **ctx)
{
    (void)ctx;
    change(0);
    end_commit(ST_NOT_LEADER);
    assert_false(timer_is_set());
    change(2);
    assert_true(timer_is_set());
}

/* End a commit that took `ms`; the next one begins after `rest_ms`, not before. */
static void expect_rest(uint64_t ms, uint64_t rest_ms)
{
    clock_env.now_ms += ms;
    end_commit(ST_OK);
    for (uint64_t i = 0; i < rest_ms; i++, clock_env.now_ms++) {
        clock_run(&clock_env);
        assert_null(committing);
    }
    clock_run(&clock_env);
    assert_non_null(committing);
}

static void a_rest_is_as_long_as_the_commit(void **ctx)
{
    (void)ctx;
    expect_rest(0, 0);
    expect_rest(7, 7);
    expect_rest(10 * DUTY_REST_MS, DUTY_REST_MS);
}

static void a_turn_that_took_its_budget_leaves_the_next_duty_to_the_next_turn(void **ctx)
{
    (void)ctx;
    turn_ms = DUTY_TURN_MS;
    change(1);
    clock_run(&clock_env);
    assert_int_equal(runs, 0);
    assert_true(timer_is_set());
    clock_env.now_ms++;
    clock_run(&clock_env);
    assert_int_equal(runs, 1);
    turn_ms = DUTY_TURN_MS - 1;
    clock_env.now_ms += DUTY_EVERY_MS;
    clock_run(&clock_env);
    assert_int_equal(runs, 2); /* both in one turn */
}

static void a_dr_secondary_begins_no_duty(void **ctx)
{
    (void)ctx;
    host.dr_secondary = true;
    change(1);
    assert_false(timer_is_set());
    host.dr_secondary = false;
    change(1);
    assert_true(timer_is_set());
    host.dr_secondary = true;
    change(1);
    assert_false(timer_is_set());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_commit_that_ends_after_the_stop_sets_no_timer, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_commit_that_ends_before_the_parts_stop_sets_no_timer,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_commit_that_ends_in_a_later_term_goes_on_in_it, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_commit_that_ends_between_two_terms_waits_for_the_next,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_rest_is_as_long_as_the_commit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_turn_that_took_its_budget_leaves_the_next_duty_to_the_next_turn, set_up_reading,
            tear_down),
        cmocka_unit_test_setup_teardown(a_dr_secondary_begins_no_duty, set_up_reading, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
