/* Checks of the hashes of a node's tree, and what the status shows of them meanwhile. */
#include "store/model.h"

#include "cluster/dr/check.h"
#include "cluster/dr/dr.h"
#include "store/read.h"

enum { KEYS = 5000, ENDED_MS = 4711000 };

static struct hand_env env;
static struct store *store;
static struct part_host host;
static struct dr dr;
static struct dr_check check;     /* the result of the last check */
static struct dr_facts at_end;    /* the facts when a check was through, and not told yet */
static enum status second_status; /* of a check that is asked for then */

static int64_t time_at_end(struct part_host *of)
{
    static struct dr_check second;
    assert_ptr_equal(of, &host);
    dr_live_get(&dr.live, &at_end);
    second_status = dr_check_store(&dr, store, true, &second);
    return ENDED_MS;
}

static int set_up(void **ctx)
{
    static const struct part_calls calls = {.time_ms = time_at_end};
    char key[32];
    (void)ctx;
    host = (struct part_host){.calls = &calls};
    dr = (struct dr){.host = &host};
    at_end = (struct dr_facts){0};
    second_status = ST_OK;
    hand_env_init(&env);
    assert_status(store_new(&env.env, &store), ST_OK);
    assert_status(dr_live_init(&dr.live), ST_OK);
    store_put(store, BYTES("l/x"), BYTES("local"), 1);
    for (unsigned i = 0; i < KEYS; i++) {
        int len = snprintf(key, sizeof key, "s/ab/%u", i);
        store_put(store, bytes_of(key, (size_t)len), BYTES("value"), 1);
    }
    store_publish(store, 1);
    return 0;
}

static int tear_down(void **ctx)
{
    (void)ctx;
    dr_live_done(&dr.live);
    store_close(store, &env);
    return 0;
}

static struct dr_check_facts facts_now(void)
{
    struct dr_facts facts;
    dr_live_get(&dr.live, &facts);
    return facts.check;
}

/* As a fault of the memory does. */
static void flip_value(const char *key)
{
    struct store_pin pin;
    assert_status(store_pin(store, "test", 0, &pin), ST_OK);
    const struct store_leaf *leaf = store_read_leaf(pin.root, bytes_str(key));
    assert_non_null(leaf);
    ((uint8_t *)(uintptr_t)store_leaf_value(leaf).data)[0] ^= 4;
    store_unpin(&pin);
}

static void a_reindex_shows_its_progress_while_it_runs(void **ctx)
{
    (void)ctx;
    assert_status(dr_check_store(&dr, store, true, &check), ST_OK);
    assert_true(at_end.check.reindexes);
    assert_int_equal(at_end.check.total, KEYS + 1);
    assert_in_range(at_end.check.done, 1, KEYS + 1);
    const struct dr_check_facts after = facts_now();
    assert_false(after.reindexes);
    assert_int_equal(after.total, 0);
    assert_int_equal(after.reindexed_ms, ENDED_MS);
    assert_int_equal(check.keys, KEYS + 1);
    assert_true(atomic_load(&host.root_mended));
}

static void a_check_is_no_reindex(void **ctx)
{
    (void)ctx;
    assert_status(dr_check_store(&dr, store, false, &check), ST_OK);
    assert_false(at_end.check.reindexes);
    const struct dr_check_facts after = facts_now();
    assert_int_equal(after.checked_ms, ENDED_MS);
    assert_int_equal(after.reindexed_ms, 0);
    assert_false(after.corrupted);
    assert_false(atomic_load(&host.root_mended));
}

static void one_check_runs_at_a_time(void **ctx)
{
    (void)ctx;
    assert_status(dr_check_store(&dr, store, false, &check), ST_OK);
    assert_status(second_status, ST_BUSY);
    assert_status(dr_check_store(&dr, store, false, &check), ST_OK);
}

static void damage_is_told_by_its_page_until_it_is_mended(void **ctx)
{
    (void)ctx;
    assert_status(dr_check_store(&dr, store, false, &check), ST_OK); /* computes the hashes */
    flip_value("s/ab/77");
    assert_status(dr_check_store(&dr, store, false, &check), ST_OK);
    assert_true(check.replicated.corrupted && !check.local.corrupted);
    assert_int_equal(check.replicated.n, 1);
    assert_int_equal(check.replicated.subpages['a']['b' / 8], 1U << 'b' % 8);
    assert_true(facts_now().corrupted);
    assert_status(dr_check_store(&dr, store, true, &check), ST_OK);
    assert_true(check.replicated.n > 1); /* the nodes above follow */
    assert_false(facts_now().corrupted);
    assert_status(dr_check_store(&dr, store, false, &check), ST_OK);
    assert_false(check.replicated.corrupted);
}

static void a_node_that_stops_ends_the_check(void **ctx)
{
    (void)ctx;
    host.stopping = true;
    assert_status(dr_check_store(&dr, store, true, &check), ST_CLOSED);
    const struct dr_check_facts after = facts_now();
    assert_false(after.reindexes);
    assert_int_equal(after.total, 0);
    assert_int_equal(after.reindexed_ms, 0);
    assert_status(dr_check_run(&dr, false, &check), ST_CLOSED); /* there is no replica */
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_reindex_shows_its_progress_while_it_runs),
        TEST(a_check_is_no_reindex),
        TEST(one_check_runs_at_a_time),
        TEST(damage_is_told_by_its_page_until_it_is_mended),
        TEST(a_node_that_stops_ends_the_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
