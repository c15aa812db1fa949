/* Replies that wait for a secondary in sync mode (cluster/dr/hold.h). */
#include "cluster/dr/hold.h"
#include "support.h"

enum { TIMEOUT_MS = 1000, HOLDS = 4 };

/* An env that runs a posted task at once: the holds post without their lock. */
struct now_env {
    struct env env;
    struct dr_holds holds;
    struct dr_hold items[HOLDS];
    unsigned ended[HOLDS];
};

static struct now_env world;

static void on_end(struct env_task *task)
{
    struct dr_hold *hold = CONTAINER_OF(task, struct dr_hold, task);
    struct dr_hold_facts facts;
    world.ended[hold - world.items]++;
    dr_hold_get(&world.holds, &facts); /* would not return under the lock */
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
    return dr_holds_init(&world.holds) == ST_OK ? 0 : -1;
}

static int tear_down(void **ctx)
{
    (void)ctx;
    dr_hold_set(&world.holds, false, 0);
    dr_holds_done(&world.holds);
    return 0;
}

static bool begin(unsigned i, uint64_t version, uint64_t now_ms)
{
    world.items[i] =
        (struct dr_hold){.env = &world.env, .task = {.run = on_end}, .version = version};
    return dr_hold_begin(&world.holds, &world.items[i], now_ms);
}

static struct dr_hold_facts facts_now(void)
{
    struct dr_hold_facts facts;
    dr_hold_get(&world.holds, &facts);
    return facts;
}

static void assert_ended(unsigned i, enum dr_hold_end end)
{
    assert_int_equal(world.ended[i], 1);
    assert_int_equal(world.items[i].end, end);
}

static void nothing_waits_while_the_mode_is_off(void **ctx)
{
    (void)ctx;
    dr_hold_confirm(&world.holds, 100, 0);
    assert_false(begin(0, 5, 0));
    assert_int_equal(world.items[0].end, DR_HOLD_UNCONFIRMED);
    assert_int_equal(facts_now().phase, DR_HOLDS_OFF);
    assert_int_equal(facts_now().confirmed + facts_now().unconfirmed, 0);
}

static void a_reply_leaves_when_its_version_is_confirmed(void **ctx)
{
    (void)ctx;
    dr_hold_set(&world.holds, true, TIMEOUT_MS);
    assert_true(begin(0, 5, 0));
    assert_true(begin(1, 7, 0));
    assert_true(begin(2, 6, 0)); /* of another worker */
    assert_int_equal(facts_now().waiting, 3);
    dr_hold_confirm(&world.holds, 4, 1);
    assert_int_equal(world.ended[0], 0);
    dr_hold_confirm(&world.holds, 6, 2);
    assert_ended(0, DR_HOLD_CONFIRMED);
    assert_ended(2, DR_HOLD_CONFIRMED);
    assert_int_equal(world.ended[1], 0);
    dr_hold_confirm(&world.holds, 5, 3); /* of another secondary, which is behind */
    assert_int_equal(world.ended[1], 0);
    assert_false(begin(3, 6, 3));
    assert_int_equal(world.items[3].end, DR_HOLD_CONFIRMED);
    dr_hold_confirm(&world.holds, 7, 4);
    assert_ended(1, DR_HOLD_CONFIRMED);
    assert_int_equal(facts_now().confirmed, 4);
    assert_int_equal(facts_now().waiting, 0);
}

static void after_the_timeout_nothing_waits(void **ctx)
{
    (void)ctx;
    dr_hold_set(&world.holds, true, TIMEOUT_MS);
    assert_true(begin(0, 5, 100));
    assert_true(begin(1, 6, 1000));
    dr_hold_tick(&world.holds, 6, 100 + TIMEOUT_MS, 1);
    assert_int_equal(facts_now().phase, DR_HOLDS_CONFIRMING);
    dr_hold_tick(&world.holds, 6, 101 + TIMEOUT_MS, 77);
    assert_ended(0, DR_HOLD_UNCONFIRMED);
    assert_ended(1, DR_HOLD_UNCONFIRMED);
    assert_int_equal(facts_now().phase, DR_HOLDS_FALLEN_BACK);
    assert_int_equal(facts_now().fallen_wall_ms, 77);
    assert_int_equal(facts_now().falls, 1);
    assert_false(begin(2, 7, 2000));
    assert_int_equal(world.items[2].end, DR_HOLD_UNCONFIRMED);
    assert_int_equal(facts_now().unconfirmed, 3);
}

/* An older version that began to wait later stands in front. */
static void the_reply_that_waits_longest_decides(void **ctx)
{
    (void)ctx;
    dr_hold_set(&world.holds, true, TIMEOUT_MS);
    assert_true(begin(0, 9, 0));
    assert_true(begin(1, 5, 900));
    dr_hold_tick(&world.holds, 9, TIMEOUT_MS + 1, 1);
    assert_int_equal(facts_now().phase, DR_HOLDS_FALLEN_BACK);
}

static void fall_back(uint64_t version, uint64_t now_ms)
{
    dr_hold_set(&world.holds, true, TIMEOUT_MS);
    assert_true(begin(0, version, now_ms - TIMEOUT_MS - 1));
    dr_hold_tick(&world.holds, version, now_ms, 1);
    assert_int_equal(facts_now().phase, DR_HOLDS_FALLEN_BACK);
}

static void a_secondary_in_time_brings_the_mode_back(void **ctx)
{
    (void)ctx;
    fall_back(50, 10000);
    dr_hold_confirm(&world.holds, 49, 10100); /* behind */
    assert_int_equal(facts_now().phase, DR_HOLDS_FALLEN_BACK);
    dr_hold_confirm(&world.holds, 50, 10000 + TIMEOUT_MS / 2 + 1); /* late */
    assert_int_equal(facts_now().phase, DR_HOLDS_FALLEN_BACK);
    dr_hold_tick(&world.holds, 60, 10000 + TIMEOUT_MS / 2 + 1, 1); /* another mark */
    dr_hold_confirm(&world.holds, 50, 10600);
    assert_int_equal(facts_now().phase, DR_HOLDS_FALLEN_BACK);
    dr_hold_confirm(&world.holds, 60, 10700);
    assert_int_equal(facts_now().phase, DR_HOLDS_CONFIRMING);
    assert_int_equal(facts_now().fallen_wall_ms, 0);
    assert_true(begin(1, 61, 10700));
}

/* Everything that was written is confirmed, but no secondary is there. */
static void silence_does_not_bring_the_mode_back(void **ctx)
{
    (void)ctx;
    fall_back(50, 10000);
    for (uint64_t now_ms = 10000; now_ms < 20000; now_ms += 200)
        dr_hold_tick(&world.holds, 50, now_ms, 1);
    assert_int_equal(facts_now().phase, DR_HOLDS_FALLEN_BACK);
}

static void the_end_of_a_term_releases_what_waits(void **ctx)
{
    (void)ctx;
    dr_hold_set(&world.holds, true, TIMEOUT_MS);
    assert_true(begin(0, 5, 0));
    dr_hold_release(&world.holds);
    assert_ended(0, DR_HOLD_UNCONFIRMED);
    assert_int_equal(facts_now().phase, DR_HOLDS_CONFIRMING);
    assert_true(begin(1, 6, 0));
    dr_hold_set(&world.holds, false, TIMEOUT_MS);
    assert_ended(1, DR_HOLD_UNCONFIRMED);
}

static void a_superseded_primary_does_not_say_that_a_write_counts(void **ctx)
{
    (void)ctx;
    dr_hold_set(&world.holds, true, TIMEOUT_MS);
    assert_true(begin(0, 5, 0));
    dr_hold_confirm(&world.holds, 4, 0);
    dr_hold_supersede(&world.holds);
    assert_ended(0, DR_HOLD_SUPERSEDED);
    assert_false(begin(1, 6, 0)); /* committed before, and late here */
    assert_int_equal(world.items[1].end, DR_HOLD_SUPERSEDED);
    assert_false(begin(2, 4, 0));
    assert_int_equal(world.items[2].end, DR_HOLD_CONFIRMED);
    assert_int_equal(facts_now().superseded, 2);
    dr_hold_set(&world.holds, false, TIMEOUT_MS);
    assert_int_equal(facts_now().phase, DR_HOLDS_OFF);
}

/* What one role confirmed says nothing of the next one. */
static void the_next_mode_begins_anew(void **ctx)
{
    (void)ctx;
    dr_hold_set(&world.holds, true, TIMEOUT_MS);
    dr_hold_confirm(&world.holds, 100, 0);
    dr_hold_set(&world.holds, true, 2 * TIMEOUT_MS); /* only the timeout changes */
    assert_false(begin(0, 100, 0));
    dr_hold_set(&world.holds, false, TIMEOUT_MS);
    dr_hold_set(&world.holds, true, TIMEOUT_MS);
    assert_true(begin(1, 100, 0));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(nothing_waits_while_the_mode_is_off),
        TEST(a_reply_leaves_when_its_version_is_confirmed),
        TEST(after_the_timeout_nothing_waits),
        TEST(the_reply_that_waits_longest_decides),
        TEST(a_secondary_in_time_brings_the_mode_back),
        TEST(silence_does_not_bring_the_mode_back),
        TEST(the_end_of_a_term_releases_what_waits),
        TEST(a_superseded_primary_does_not_say_that_a_write_counts),
        TEST(the_next_mode_begins_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
