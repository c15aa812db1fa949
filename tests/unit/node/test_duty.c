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

static uint64_t txns, reads; /* transactions applied and reads confirmed by the replica */

void rlog_status(struct rlog *rlog, struct rlog_status *ret)
{
    (void)rlog;
    *ret = (struct rlog_status){.txns_applied = txns, .reads_confirmed = reads};
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

static unsigned too_big; /* a transaction of so many steps, or more, is too big; 0: none is */
static unsigned steps;   /* of the last run */
static uint64_t shown;   /* ticket of the last commit */

enum status state_commit(struct state_txn *txn, struct state_commit *commit)
{
    (void)txn;
    if (too_big != 0 && steps >= too_big)
        return ST_TOO_BIG;
    shown = commit->ticket;
    commit->ticket = 0;
    committing = commit;
    return ST_OK;
}

static uint64_t returned; /* the last ticket that was given back */

void state_commit_done(struct state_commit *commit)
{
    assert_ptr_equal(commit, &d->commit);
    if (commit->ticket != 0)
        returned = commit->ticket;
    commit->ticket = 0;
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

static bool staging_nothing, asked;
static uint64_t run_ms;    /* time that a run of stage_steps takes */
static unsigned committed; /* calls of note_committed */

static enum status stage_steps(const void *with, struct state_txn *txn, int64_t now_ms,
                               unsigned most)
{
    assert_ptr_equal(with, &run_ms);
    (void)txn;
    (void)now_ms;
    assert_in_range(most, 1, PACE_STEPS_MAX);
    steps = most;
    runs++;
    clock_env.now_ms += run_ms;
    return staging_nothing ? ST_SEALED : ST_OK;
}

static bool is_asked(const void *with)
{
    assert_ptr_equal(with, &run_ms);
    return asked;
}

static void note_committed(const void *with)
{
    assert_ptr_equal(with, &run_ms);
    committed++;
}

static enum status take_long(struct state_txn *txn, int64_t now_ms)
{
    (void)txn;
    (void)now_ms;
    clock_env.now_ms += turn_ms;
    return ST_SEALED; /* stages nothing, and says nothing */
}

static unsigned others; /* runs of the duty after the one that stages steps */

static enum status count_other(struct state_txn *txn, int64_t now_ms)
{
    (void)txn;
    (void)now_ms;
    others++;
    return ST_SEALED;
}

static enum status count_run(struct state_txn *txn, int64_t now_ms)
{
    (void)txn;
    (void)now_ms;
    runs++;
    return ST_SEALED;
}

static const struct node_duty staging[] = {{.name = "something", .run = stage_something}};
static const struct node_duty stepping[] = {{.name = "steps",
                                             .run_with = stage_steps,
                                             .asked = is_asked,
                                             .committed = note_committed,
                                             .with = &run_ms}};
static const struct node_duty two[] = {{.name = "steps", .run_with = stage_steps, .with = &run_ms},
                                       {.name = "other", .run = count_other}};
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

static int set_up_stepping(void **ctx)
{
    (void)ctx;
    run_ms = txns = reads = 0;
    staging_nothing = asked = false;
    runs = committed = too_big = 0;
    begin(stepping, ARRAY_LEN(stepping));
    change(1);
    clock_run(&clock_env);
    assert_non_null(committing);
    return 0;
}

static int set_up_two(void **ctx)
{
    (void)ctx;
    run_ms = txns = reads = returned = 0;
    staging_nothing = false;
    runs = others = too_big = 0;
    begin(two, ARRAY_LEN(two));
    change(1);
    clock_run(&clock_env);
    assert_non_null(committing);
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
    struct state_commit *commit = committing;
    committing = NULL;
    commit->done(commit, st);
}

/* The commit meets a conflict; the log gives a ticket for the rerun. */
static void conflict(uint64_t ticket)
{
    committing->ticket = ticket;
    end_commit(ST_CONFLICT);
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

/* The node was busy when it became active, as far as it knows, so it rests. */
static void a_rest_is_as_long_as_the_turn_that_was_committed(void **ctx)
{
    (void)ctx;
    expect_rest(0, PACE_BUSY_REST_MS);
    expect_rest(PACE_BUSY_REST_MS + 7, PACE_BUSY_REST_MS + 7);
    expect_rest(10 * PACE_REST_MS, PACE_REST_MS);
    expect_rest(0, 0); /* no client has written for long */
    expect_rest(8, 4);
}

static void the_time_of_the_run_counts_for_the_rest(void **ctx)
{
    (void)ctx;
    expect_rest(PACE_QUIET_MS, PACE_REST_MS);
    run_ms = 9; /* of the run after this rest */
    expect_rest(0, 0);
    run_ms = 0;
    expect_rest(3, 6);
}

/* End the turn; the next one begins within the time of a rest, and took so many steps. */
static void expect_steps(unsigned clients, unsigned wanted)
{
    txns += 1 + clients; /* the turn itself is a transaction too */
    end_commit(ST_OK);
    for (unsigned i = 0; i <= PACE_REST_MS && committing == NULL; i++) {
        clock_run(&clock_env);
        clock_env.now_ms++;
    }
    assert_non_null(committing);
    assert_int_equal(steps, wanted);
}

static void a_turn_beside_clients_takes_as_many_steps_as_they_wrote(void **ctx)
{
    (void)ctx;
    assert_int_equal(steps, PACE_STEPS_MIN);
    expect_steps(1, PACE_STEPS_MIN);
    expect_steps(PACE_STEPS_MIN + 3, PACE_STEPS_MIN + 3);
    expect_steps(10 * PACE_STEPS_MAX, PACE_STEPS_MAX);
}

static void a_turn_that_an_operator_asked_for_takes_more_steps(void **ctx)
{
    (void)ctx;
    asked = true;
    expect_steps(1, PACE_STEPS_ASKED);
    expect_steps(PACE_STEPS_ASKED + 3, PACE_STEPS_ASKED + 3);
    txns += 2;         /* a client and the turn */
    expect_rest(6, 7); /* the turn has taken 1 ms already */
    asked = false;
    expect_steps(1, PACE_STEPS_MIN);
}

static void turns_without_clients_grow(void **ctx)
{
    (void)ctx;
    unsigned before = steps, turns = 0;
    for (; steps < PACE_STEPS_MAX && turns < 100; turns++) {
        txns++;
        end_commit(ST_OK);
        clock_env.now_ms += PACE_REST_MS;
        clock_run(&clock_env);
        assert_in_range(steps, before, 2 * before);
        before = steps;
    }
    assert_int_equal(steps, PACE_STEPS_MAX);
    expect_steps(1, PACE_STEPS_MIN); /* a client writes */
}

static void a_few_reads_are_no_reason_for_a_small_turn(void **ctx)
{
    turns_without_clients_grow(ctx);
    end_commit(ST_OK);
    clock_env.now_ms += PACE_QUIET_MS;
    clock_run(&clock_env);
    reads += PACE_READS - 1;
    expect_steps(0, 4 * PACE_STEPS_MIN);
    reads += PACE_READS;
    expect_steps(0, PACE_STEPS_MIN);
}

static void what_clients_wrote_while_nothing_was_due_brings_no_credit(void **ctx)
{
    (void)ctx;
    staging_nothing = true;
    txns++;
    end_commit(ST_OK);
    clock_env.now_ms += PACE_REST_MS;
    clock_run(&clock_env); /* the round ends */
    clock_env.now_ms++;
    clock_run(&clock_env);
    assert_null(committing);
    staging_nothing = false;
    txns += 10 * PACE_STEPS_MAX;
    clock_env.now_ms += DUTY_EVERY_MS;
    clock_run(&clock_env);
    assert_non_null(committing);
    assert_int_equal(steps, PACE_STEPS_MIN);
}

static void a_transaction_that_is_too_big_is_halved(void **ctx)
{
    (void)ctx;
    too_big = 3;
    runs = 0;
    expect_steps(0, 2); /* after 16, 8, 4 */
    assert_int_equal(runs, 4);
    expect_steps(0, 2);
    too_big = 1;
    runs = 0;
    end_commit(ST_OK);
    clock_env.now_ms += PACE_REST_MS;
    clock_run(&clock_env);
    assert_null(committing); /* one step is too big: the duty waits */
    assert_int_equal(steps, 1);
    too_big = 0;
    clock_env.now_ms += DUTY_EVERY_MS;
    clock_run(&clock_env);
    assert_non_null(committing);
}

static void a_duty_hears_of_its_commit_only(void **ctx)
{
    (void)ctx;
    end_commit(ST_CONFLICT);
    assert_int_equal(committed, 0);
    clock_env.now_ms += PACE_REST_MS;
    clock_run(&clock_env);
    end_commit(ST_UNKNOWN_OUTCOME);
    assert_int_equal(committed, 0);
    clock_env.now_ms += DUTY_EVERY_MS;
    clock_run(&clock_env);
    end_commit(ST_OK);
    assert_int_equal(committed, 1);
}

/* PROTOCOL R5: a request that conflicts again and again gets its turn by its ticket. */
static void a_duty_that_conflicts_runs_again_with_its_ticket(void **ctx)
{
    (void)ctx;
    conflict(1);
    clock_env.now_ms += PACE_BUSY_REST_MS;
    clock_run(&clock_env);
    assert_int_equal(shown, 1);
    conflict(7); /* from now on others wait for the rerun */
    clock_run(&clock_env);
    assert_int_equal(shown, 7);
    assert_int_equal(runs, 3);
    assert_int_equal(others, 0);
    end_commit(ST_OK);
    assert_int_equal(returned, 0);
    clock_env.now_ms += PACE_REST_MS;
    clock_run(&clock_env);
    assert_int_equal(others, 1);
    assert_int_equal(shown, 0); /* of the first duty, in the next round */
}

static void a_ticket_is_given_back_when_nothing_is_left_to_do(void **ctx)
{
    (void)ctx;
    conflict(7);
    staging_nothing = true;
    clock_env.now_ms += PACE_BUSY_REST_MS;
    clock_run(&clock_env);
    assert_int_equal(returned, 7);
    assert_true(others > 0);
}

static void a_ticket_is_given_back_with_the_term(void **ctx)
{
    (void)ctx;
    conflict(7);
    assert_int_equal(returned, 0);
    change(0);
    assert_int_equal(returned, 7);
    change(2);
    clock_run(&clock_env);
    assert_int_equal(shown, 0);
    change(0);
    conflict(8); /* after the term */
    assert_int_equal(returned, 8);
}

static void a_duty_that_only_conflicts_does_not_hold_up_the_next(void **ctx)
{
    (void)ctx;
    for (unsigned i = 0; others == 0; i++) {
        assert_true(i <= DUTY_RERUNS_MAX);
        assert_int_equal(runs, i + 1);
        conflict(i + 1);
        clock_env.now_ms += PACE_REST_MS;
        clock_run(&clock_env);
    }
    assert_int_equal(returned, DUTY_RERUNS_MAX + 1);
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

static unsigned own_runs;

static enum status run_local(struct state_txn *txn, int64_t now_ms)
{
    (void)txn;
    (void)now_ms;
    own_runs++;
    return ST_SEALED;
}

static void a_dr_secondary_runs_duties_of_local_keys_alone(void **ctx)
{
    (void)ctx;
    turn_ms = own_runs = 0;
    d->first[d->n_first++] =
        (struct node_duty){.name = "local", .run = run_local, .secondary = true};
    host.dr_secondary = true;
    change(1);
    clock_run(&clock_env);
    assert_int_equal(own_runs, 1);
    assert_int_equal(runs, 0);
    host.dr_secondary = false; /* promoted */
    change(1);
    clock_env.now_ms += DUTY_EVERY_MS;
    clock_run(&clock_env);
    assert_int_equal(own_runs, 2);
    assert_int_equal(runs, 1);
    host.dr_secondary = true; /* demoted */
    change(1);
    clock_env.now_ms += DUTY_EVERY_MS;
    clock_run(&clock_env);
    assert_int_equal(own_runs, 3);
    assert_int_equal(runs, 1);
}

static enum status run_own(struct state_txn *txn, int64_t now_ms)
{
    (void)txn;
    (void)now_ms;
    assert_int_equal(runs, 0); /* the duties of modules have not run yet */
    own_runs++;
    return ST_SEALED;
}

static void the_duty_of_the_node_itself_runs_first(void **ctx)
{
    (void)ctx;
    turn_ms = own_runs = 0;
    d->first[d->n_first++] = (struct node_duty){.name = "own", .run = run_own};
    change(1);
    clock_run(&clock_env);
    assert_int_equal(own_runs, 1);
    assert_int_equal(runs, 1);
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
        cmocka_unit_test_setup_teardown(a_rest_is_as_long_as_the_turn_that_was_committed, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_time_of_the_run_counts_for_the_rest, set_up_stepping,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_turn_beside_clients_takes_as_many_steps_as_they_wrote,
                                        set_up_stepping, tear_down),
        cmocka_unit_test_setup_teardown(turns_without_clients_grow, set_up_stepping, tear_down),
        cmocka_unit_test_setup_teardown(a_turn_that_an_operator_asked_for_takes_more_steps,
                                        set_up_stepping, tear_down),
        cmocka_unit_test_setup_teardown(a_few_reads_are_no_reason_for_a_small_turn, set_up_stepping,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_clients_wrote_while_nothing_was_due_brings_no_credit,
                                        set_up_stepping, tear_down),
        cmocka_unit_test_setup_teardown(a_transaction_that_is_too_big_is_halved, set_up_stepping,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_duty_hears_of_its_commit_only, set_up_stepping,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_duty_that_conflicts_runs_again_with_its_ticket,
                                        set_up_two, tear_down),
        cmocka_unit_test_setup_teardown(a_ticket_is_given_back_when_nothing_is_left_to_do,
                                        set_up_two, tear_down),
        cmocka_unit_test_setup_teardown(a_ticket_is_given_back_with_the_term, set_up_two,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_duty_that_only_conflicts_does_not_hold_up_the_next,
                                        set_up_two, tear_down),
        cmocka_unit_test_setup_teardown(
            a_turn_that_took_its_budget_leaves_the_next_duty_to_the_next_turn, set_up_reading,
            tear_down),
        cmocka_unit_test_setup_teardown(the_duty_of_the_node_itself_runs_first, set_up_reading,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_dr_secondary_runs_duties_of_local_keys_alone,
                                        set_up_reading, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
