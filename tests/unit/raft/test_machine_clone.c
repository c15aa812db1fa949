/* A staged tree that begins as a clone of the replicated keys. */
#include "machine_world.h"

#include "raft/txn/rlog_wal.h"

static struct world w;

static int setup(void **state)
{
    (void)state;
    world_open(&w);
    world_put(&w, "s/a", "1");
    world_put(&w, "s/b", "2");
    world_put(&w, "l/x", "local");
    world_put(&w, RLOG_FOLLOWING, "");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    world_close(&w);
    return 0;
}

static uint64_t clone(void)
{
    struct rlog_txn_builder b = {0};
    rlog_txn_stage_clone(&b);
    assert_int_equal(world_apply(&w, &b), RLOG_APPLIED);
    assert_true(w.m.staging && w.m.cloned);
    return w.applied.stage;
}

static enum rlog_outcome change(uint64_t stage)
{
    struct rlog_txn_builder b = {0};
    rlog_txn_need_stage(&b, stage);
    rlog_txn_stage_put(&b, BYTES("s/c"), BYTES("3"), 7, 7);
    rlog_txn_stage_delete(&b, BYTES("s/a"));
    rlog_txn_stage_delete(&b, BYTES("s/absent"));
    return world_apply(&w, &b);
}

static enum rlog_outcome swap(uint64_t stage, uint64_t version, uint64_t floor)
{
    struct rlog_txn_builder b = {0};
    rlog_txn_need_stage(&b, stage);
    rlog_txn_stage_swap_floor(&b, version, 5000, floor);
    return world_apply(&w, &b);
}

static enum rlog_outcome follow_put(uint64_t version)
{
    struct rlog_txn_builder b = {0};
    struct buf run = {0};
    buf_add_u8(&run, RLOG_WAL_OPS);
    buf_add_u64(&run, version);
    buf_add_u64(&run, 0);
    buf_add_u32(&run, 7);
    buf_add(&run, BYTES("\1\3s/w\1x"));
    rlog_txn_wal(&b, buf_bytes(&run));
    enum rlog_outcome outcome = world_apply(&w, &b);
    buf_done(&run);
    return outcome;
}

static void a_clone_becomes_the_state(void **state)
{
    (void)state;
    uint64_t stage = clone();
    assert_int_equal(change(stage), RLOG_APPLIED);
    assert_value(&w, "s/a", "1");
    assert_int_equal(swap(stage, 9, 0), RLOG_APPLIED);
    assert_false(w.m.staging || w.m.cloned);
    assert_int_equal(w.m.version, 9);
    assert_int_equal(w.m.time_ms, 5000);
    assert_absent(&w, "s/a");
    assert_value(&w, "s/b", "2");
    assert_value(&w, "s/c", "3");
    assert_value(&w, "l/x", "local");
    assert_int_equal(world_newest(&w, "s/b"), 2);
    assert_int_equal(world_newest(&w, "s/c"), 7);
}

static void a_floor_bounds_newest_versions(void **state)
{
    (void)state;
    assert_int_equal(swap(clone(), 9, 8), RLOG_APPLIED);
    assert_int_equal(world_newest(&w, "s/b"), 8);
    assert_int_equal(world_get(&w, "s/b", NULL), 2);
    assert_true(world_newest(&w, "l/x") < 8);
    assert_int_equal(swap(clone(), 9, 3), RLOG_APPLIED);
    assert_int_equal(world_newest(&w, "s/b"), 8);
}

/* A clone would lack the record, and shares nodes with what the record changes. */
static void a_record_of_the_primary_drops_a_clone(void **state)
{
    (void)state;
    uint64_t stage = clone();
    assert_int_equal(change(stage), RLOG_APPLIED);
    assert_int_equal(follow_put(3), RLOG_APPLIED);
    assert_false(w.m.staging || w.m.cloned);
    assert_int_equal(change(stage), RLOG_CONFLICTED);
    assert_int_equal(swap(stage, 9, 0), RLOG_CONFLICTED);
    assert_value(&w, "s/a", "1");
    assert_value(&w, "s/w", "x");
}

/* A cluster that is promoted with a clone left over writes, and drops the clone. */
static void a_write_after_following_drops_a_clone(void **state)
{
    (void)state;
    uint64_t stage = clone();
    assert_int_equal(change(stage), RLOG_APPLIED);
    assert_int_equal(world_delete(&w, RLOG_FOLLOWING), RLOG_APPLIED);
    assert_true(w.m.staging);
    struct rlog_txn_builder b = {0};
    rlog_txn_need_stage(&b, stage);
    rlog_txn_stage_swap(&b);
    assert_int_equal(world_apply(&w, &b), RLOG_CONFLICTED);
    assert_int_equal(world_put(&w, "s/a", "own"), RLOG_APPLIED);
    assert_false(w.m.staging);
    assert_value(&w, "s/a", "own");
    assert_int_equal(change(stage), RLOG_CONFLICTED);
}

static void a_cluster_that_leads_stages_no_clone(void **state)
{
    (void)state;
    struct rlog_txn_builder b = {0};
    world_delete(&w, RLOG_FOLLOWING);
    rlog_txn_stage_clone(&b);
    assert_int_equal(world_apply(&w, &b), RLOG_CONFLICTED);
    assert_string_equal(w.conflict, RLOG_FOLLOWING);
    assert_false(w.m.staging);
}

/* No version of the clone is above the swap. */
static void a_clone_is_not_swapped_in_below_its_version(void **state)
{
    (void)state;
    uint64_t stage = clone();
    assert_int_equal(swap(stage, 1, 0), RLOG_CONFLICTED);
    assert_int_equal(change(stage), RLOG_APPLIED);
    assert_int_equal(swap(stage, 6, 0), RLOG_CONFLICTED);
    assert_int_equal(swap(stage, 7, 0), RLOG_APPLIED);
}

/* One transaction may do it all, beside local keys. */
static void a_clone_may_be_of_one_transaction(void **state)
{
    (void)state;
    struct rlog_txn_builder b = {0};
    rlog_txn_put(&b, BYTES("l/y"), BYTES("new"));
    rlog_txn_stage_clone(&b);
    rlog_txn_stage_delete(&b, BYTES("s/a"));
    rlog_txn_put(&b, BYTES("l/x"), BYTES("changed"));
    rlog_txn_stage_swap_floor(&b, 4, 0, 0);
    assert_int_equal(world_apply(&w, &b), RLOG_APPLIED);
    assert_absent(&w, "s/a");
    assert_value(&w, "l/x", "changed");
    assert_value(&w, "l/y", "new");
}

#define CLONE_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLONE_TEST(a_clone_becomes_the_state),
        CLONE_TEST(a_floor_bounds_newest_versions),
        CLONE_TEST(a_record_of_the_primary_drops_a_clone),
        CLONE_TEST(a_write_after_following_drops_a_clone),
        CLONE_TEST(a_cluster_that_leads_stages_no_clone),
        CLONE_TEST(a_clone_is_not_swapped_in_below_its_version),
        CLONE_TEST(a_clone_may_be_of_one_transaction),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
