/* A cluster that follows another one: what its machine applies, and what it refuses. */
#include "machine_world.h"

#include "raft/txn/rlog_wal.h"

static struct world w;

static void add_record(struct buf *run, uint64_t version, int64_t time_ms, struct bytes ops)
{
    buf_add_u8(run, RLOG_WAL_OPS);
    buf_add_u64(run, version);
    buf_add_u64(run, (uint64_t)time_ms);
    buf_add_u32(run, (uint32_t)ops.len);
    buf_add(run, ops);
}

static void add_jump(struct buf *run, uint64_t before, uint64_t version)
{
    buf_add_u8(run, RLOG_WAL_JUMP);
    buf_add_u64(run, version);
    buf_add_u64(run, 0);
    buf_add_u32(run, 8);
    buf_add_u64(run, before);
}

/* A transaction with the run, which is then empty. */
static enum rlog_outcome follow(struct buf *run)
{
    struct rlog_txn_builder b = {0};
    rlog_txn_wal(&b, buf_bytes(run));
    enum rlog_outcome outcome = world_apply(&w, &b);
    buf_done(run);
    return outcome;
}

static enum rlog_outcome follow_put(uint64_t version)
{
    struct buf run = {0};
    add_record(&run, version, 0, BYTES("\1\3s/w\1x"));
    return follow(&run);
}

/* State with s/a at version 1, which follows. */
static int setup(void **state)
{
    (void)state;
    world_open(&w);
    world_put(&w, "s/a", "1");
    world_put(&w, RLOG_FOLLOWING, "");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    world_close(&w);
    return 0;
}

static void the_key_decides_whether_a_cluster_follows(void **state)
{
    (void)state;
    struct rlog_txn_builder b = {0};
    assert_true(w.m.following);
    world_delete(&w, "l/dr/other");
    world_put(&w, "l/dr", "a folder of the key, and another key");
    assert_true(w.m.following);
    world_delete(&w, RLOG_FOLLOWING);
    assert_false(w.m.following);
    world_put(&w, RLOG_FOLLOWING, "");
    assert_true(w.m.following);
    rlog_txn_delete_prefix(&b, BYTES("l/dr/f"));
    world_apply(&w, &b);
    assert_false(w.m.following);
    rlog_txn_put(&b, BYTES(RLOG_FOLLOWING), BYTES(""));
    rlog_txn_delete_prefix(&b, BYTES("l/d"));
    world_apply(&w, &b);
    assert_false(w.m.following);
    world_put(&w, "s/b", "it leads again");
    assert_int_equal(w.applied.outcome, RLOG_APPLIED);
}

static void a_restart_finds_the_key(void **state)
{
    (void)state;
    struct buf follows = {0}, leads = {0};
    world_dump(&w, &follows);
    world_delete(&w, RLOG_FOLLOWING);
    world_dump(&w, &leads);
    assert_status(world_load(&w, buf_bytes(&follows), 10), ST_OK);
    assert_true(w.m.following);
    assert_status(world_load(&w, buf_bytes(&leads), 10), ST_OK);
    assert_false(w.m.following);
    buf_done(&follows);
    buf_done(&leads);
}

static void put_replicated(struct rlog_txn_builder *b)
{
    rlog_txn_put(b, BYTES("s/x"), BYTES("x"));
}

static void put_retain_replicated(struct rlog_txn_builder *b)
{
    *rlog_txn_put_retain_room(b, BYTES("s/a"), 1, (struct store_retain){.len = 1}) = 'x';
}

static void delete_replicated(struct rlog_txn_builder *b)
{
    rlog_txn_delete(b, BYTES("s/a"));
}

static void delete_prefix_replicated(struct rlog_txn_builder *b)
{
    rlog_txn_delete_prefix(b, BYTES("s/a"));
}

static void swap(struct rlog_txn_builder *b)
{
    rlog_txn_stage_begin(b);
    rlog_txn_stage_swap(b);
}

static void raise_version(struct rlog_txn_builder *b)
{
    rlog_txn_raise(b, 100);
}

/* Even together with what is allowed. */
static void mixed(struct rlog_txn_builder *b)
{
    rlog_txn_put(b, BYTES("l/x"), BYTES("x"));
    rlog_txn_delete(b, BYTES(RLOG_FOLLOWING));
    rlog_txn_put(b, BYTES("s/x"), BYTES("x"));
}

static void nothing_else_changes_replicated_keys(void **state)
{
    (void)state;
    void (*const adds[])(struct rlog_txn_builder *) = {put_replicated,
                                                       put_retain_replicated,
                                                       delete_replicated,
                                                       delete_prefix_replicated,
                                                       swap,
                                                       raise_version,
                                                       mixed};
    for (size_t i = 0; i < ARRAY_LEN(adds); i++) {
        struct rlog_txn_builder b = {0};
        struct buf txn = {0};
        struct bytes conflict = {0};
        struct rlog_machine before = w.m;
        adds[i](&b);
        assert_status(rlog_txn_encode(&b, &txn), ST_OK);
        assert_true(rlog_machine_conflicts(&w.m, buf_bytes(&txn), &conflict));
        assert_bytes(conflict, BYTES(RLOG_FOLLOWING));
        assert_int_equal(world_apply(&w, &b), RLOG_CONFLICTED);
        assert_string_equal(w.conflict, RLOG_FOLLOWING);
        assert_memory_equal(&w.m, &before, sizeof before);
        buf_done(&txn);
    }
    assert_value(&w, "s/a", "1");
    assert_absent(&w, "s/x");
}

static void local_keys_change_as_ever(void **state)
{
    (void)state;
    struct rlog_txn_builder b = {0};
    struct buf txn = {0};
    struct bytes conflict = {0};
    rlog_txn_need_key(&b, BYTES("s/a"), 1);
    rlog_txn_put(&b, BYTES("l/x"), BYTES("x"));
    rlog_txn_stage_begin(&b);
    rlog_txn_stage_newest(&b, BYTES("s/"), 3);
    rlog_txn_stage_drop(&b);
    assert_status(rlog_txn_encode(&b, &txn), ST_OK);
    assert_false(rlog_machine_conflicts(&w.m, buf_bytes(&txn), &conflict));
    assert_int_equal(world_apply(&w, &b), RLOG_APPLIED);
    assert_value(&w, "l/x", "x");
    assert_int_equal(w.m.version, 1);
    buf_done(&txn);
}

/* An id would take a version, and the versions are the other cluster's. */
static void a_request_id_does_not_count(void **state)
{
    (void)state;
    struct rlog_request_id id = {{9}, 1};
    for (int i = 0; i < 2; i++) {
        struct rlog_txn_builder b = {0};
        struct buf txn = {0};
        struct bytes conflict = {0};
        rlog_txn_id(&b, &id, BYTES("response"));
        rlog_txn_put(&b, BYTES("l/x"), BYTES("x"));
        assert_status(rlog_txn_encode(&b, &txn), ST_OK);
        assert_false(rlog_machine_conflicts(&w.m, buf_bytes(&txn), &conflict));
        assert_int_equal(world_apply(&w, &b), RLOG_APPLIED); /* the second time too */
        assert_int_equal(w.m.version, 1);
        buf_done(&txn);
    }
    assert_int_equal(w.m.id_bytes, 0);
}

static void the_last_write_may_be_in_the_transaction_that_begins_to_follow(void **state)
{
    (void)state;
    struct rlog_txn_builder b = {0};
    world_delete(&w, RLOG_FOLLOWING);
    rlog_txn_put(&b, BYTES(RLOG_FOLLOWING), BYTES(""));
    rlog_txn_put(&b, BYTES("s/last"), BYTES("x"));
    assert_int_equal(world_apply(&w, &b), RLOG_APPLIED);
    assert_true(w.m.following);
    assert_int_equal(world_get(&w, "s/last", NULL), 2);
}

static void the_last_run_may_be_in_the_transaction_that_ends_it(void **state)
{
    (void)state;
    struct rlog_txn_builder b = {0};
    struct buf run = {0};
    add_record(&run, 2, 0, BYTES("\1\3s/w\1x"));
    rlog_txn_delete(&b, BYTES(RLOG_FOLLOWING));
    rlog_txn_wal(&b, buf_bytes(&run));
    assert_int_equal(world_apply(&w, &b), RLOG_APPLIED);
    assert_value(&w, "s/w", "x");
    assert_false(w.m.following);
    buf_done(&run);
}

static void a_run_is_applied_at_its_versions_and_times(void **state)
{
    (void)state;
    struct buf run = {0};
    uint64_t local = w.m.local_version;
    add_record(&run, 2, 7000, BYTES("\1\3s/b\1x\1\3s/c\1y"));
    add_record(&run, 3, 6000, BYTES(""));
    add_jump(&run, 3, 9);
    add_record(&run, 10, 9000, BYTES("\2\3s/c\x9\3s/b\0\1\1z"));
    assert_int_equal(follow(&run), RLOG_APPLIED);
    assert_int_equal(w.applied.version, 10);
    assert_versions(&w, 10, local);
    assert_int_equal(w.m.time_ms, 9000);
    assert_value(&w, "s/b", "zx");
    assert_int_equal(world_get(&w, "s/b", NULL), 10);
    assert_absent(&w, "s/c");
    assert_int_equal(world_newest(&w, "s/c"), 10);
    w.time_ms = 20000;
    assert_int_equal(follow_put(11), RLOG_APPLIED);
    assert_int_equal(w.m.time_ms, 20000);
}

static void known_records_do_nothing(void **state)
{
    (void)state;
    struct buf run = {0};
    world_delete(&w, "l/none");
    assert_int_equal(follow_put(2), RLOG_APPLIED);
    assert_int_equal(follow_put(2), RLOG_APPLIED);
    assert_int_equal(w.m.version, 2);
    add_record(&run, 1, 50000, BYTES("\1\3s/a\1y"));
    add_record(&run, 2, 50000, BYTES("\1\3s/w\1y"));
    assert_int_equal(follow(&run), RLOG_APPLIED);
    assert_int_equal(w.m.version, 2);
    assert_int_equal(w.m.time_ms, 1000);
    assert_value(&w, "s/w", "x");
    add_record(&run, 1, 0, BYTES("\1\3s/a\1y"));
    add_record(&run, 2, 0, BYTES("\1\3s/w\1y"));
    add_record(&run, 3, 0, BYTES("\1\3s/w\1z"));
    assert_int_equal(follow(&run), RLOG_APPLIED);
    assert_int_equal(w.m.version, 3);
    assert_value(&w, "s/a", "1");
    assert_value(&w, "s/w", "z");
}

static void a_gap_changes_nothing(void **state)
{
    (void)state;
    struct rlog_txn_builder b = {0};
    struct buf run = {0};
    struct rlog_machine before = w.m;
    assert_int_equal(follow_put(3), RLOG_CONFLICTED);
    assert_string_equal(w.conflict, "");
    add_jump(&run, 2, 9);
    assert_int_equal(follow(&run), RLOG_CONFLICTED);
    add_jump(&run, 0, 9); /* the version lies within the jump */
    assert_int_equal(follow(&run), RLOG_CONFLICTED);
    add_record(&run, 2, 0, BYTES("\1\3s/w\1x"));
    rlog_txn_wal(&b, buf_bytes(&run));
    buf_clear(&run);
    add_record(&run, 4, 0, BYTES("")); /* the second run of the transaction leaves a gap */
    rlog_txn_wal(&b, buf_bytes(&run));
    rlog_txn_put(&b, BYTES("l/x"), BYTES("x"));
    assert_int_equal(world_apply(&w, &b), RLOG_CONFLICTED);
    assert_memory_equal(&w.m, &before, sizeof before);
    assert_absent(&w, "s/w");
    assert_absent(&w, "l/x");
    buf_done(&run);
}

static void a_run_that_waits_for_another_is_no_early_conflict(void **state)
{
    (void)state;
    struct rlog_txn_builder b = {0};
    struct buf run = {0}, txn = {0};
    struct bytes conflict;
    add_record(&run, 3, 0, BYTES(""));
    rlog_txn_wal(&b, buf_bytes(&run));
    assert_status(rlog_txn_encode(&b, &txn), ST_OK);
    assert_false(rlog_machine_conflicts(&w.m, buf_bytes(&txn), &conflict));
    rlog_txn_done(&b);
    buf_done(&run);
    buf_done(&txn);
}

static void a_cluster_that_leads_applies_no_run_and_no_swap_at_a_version(void **state)
{
    (void)state;
    struct rlog_txn_builder b = {0};
    world_delete(&w, RLOG_FOLLOWING);
    assert_int_equal(follow_put(2), RLOG_CONFLICTED);
    assert_string_equal(w.conflict, RLOG_FOLLOWING);
    rlog_txn_stage_begin(&b);
    rlog_txn_stage_swap_at(&b, 50, 0);
    assert_int_equal(world_apply(&w, &b), RLOG_CONFLICTED);
    assert_string_equal(w.conflict, RLOG_FOLLOWING);
    assert_int_equal(w.m.version, 1);
    assert_false(w.m.staging);
}

static enum rlog_outcome swap_at(uint64_t version, uint64_t modified, uint64_t newest)
{
    struct rlog_txn_builder b = {0};
    rlog_txn_stage_begin(&b);
    rlog_txn_stage_put(&b, BYTES("s/"), BYTES(""), 0, 0);
    rlog_txn_stage_put(&b, BYTES("s/new"), BYTES("x"), 1, modified);
    if (newest != 0)
        rlog_txn_stage_newest(&b, BYTES("s/"), newest);
    rlog_txn_stage_swap_at(&b, version, 77000);
    return world_apply(&w, &b);
}

static void a_staged_tree_is_swapped_in_at_its_version(void **state)
{
    (void)state;
    struct rlog_txn_builder b = {0};
    world_put(&w, "l/kept", "local");
    uint64_t local = w.m.local_version;
    assert_int_equal(swap_at(40, 30, 37), RLOG_APPLIED);
    assert_versions(&w, 40, local + 1);
    assert_int_equal(w.m.time_ms, 77000);
    assert_false(w.m.staging);
    assert_int_equal(w.m.stage, 0);
    assert_absent(&w, "s/a");
    assert_int_equal(world_get(&w, "s/new", NULL), 30);
    assert_value(&w, "l/kept", "local");
    assert_int_equal(world_newest(&w, "s/"), 37);
    assert_int_equal(world_newest(&w, "s/new"), 30);
    assert_int_equal(world_newest(&w, "s/other"), 37);
    assert_int_equal(world_newest(&w, "l/kept"), local);
    assert_int_equal(follow_put(41), RLOG_APPLIED);
    assert_int_equal(swap_at(41, 41, 0), RLOG_APPLIED); /* anew, at the same version */
    assert_int_equal(w.m.version, 41);
    rlog_txn_stage_begin(&b);
    rlog_txn_stage_swap_at(&b, 42, 0); /* of nothing */
    assert_int_equal(world_apply(&w, &b), RLOG_APPLIED);
    assert_int_equal(world_newest(&w, "s/"), 0);
    assert_int_equal(w.m.time_ms, 77000);
}

static void a_swap_forgets_the_newest_versions_of_an_earlier_restore(void **state)
{
    (void)state;
    struct rlog_txn_builder b = {0};
    world_delete(&w, RLOG_FOLLOWING);
    rlog_txn_stage_begin(&b);
    rlog_txn_stage_swap(&b);
    world_apply(&w, &b);
    world_put(&w, RLOG_FOLLOWING, "");
    assert_int_equal(world_newest(&w, "s/x"), w.m.version);
    assert_int_equal(swap_at(w.m.version, 1, 0), RLOG_APPLIED);
    assert_int_equal(world_newest(&w, "s/x"), 1);
}

static void a_version_that_does_not_fit_swaps_nothing_in(void **state)
{
    (void)state;
    assert_int_equal(follow_put(2), RLOG_APPLIED);
    assert_int_equal(swap_at(1, 1, 0), RLOG_CONFLICTED); /* below the state's */
    assert_int_equal(swap_at(9, 10, 0), RLOG_CONFLICTED);
    assert_int_equal(swap_at(9, 9, 10), RLOG_CONFLICTED);
    assert_value(&w, "s/a", "1");
    assert_false(w.m.staging);
    struct rlog_txn_builder b = {0};
    rlog_txn_stage_begin(&b);
    rlog_txn_stage_put(&b, BYTES("s/new"), BYTES("x"), 1, 10);
    world_apply(&w, &b);
    rlog_txn_need_stage(&b, w.m.stage);
    rlog_txn_stage_swap_at(&b, 9, 0);
    assert_int_equal(world_apply(&w, &b), RLOG_CONFLICTED);
    assert_true(w.m.staging);
    rlog_txn_stage_swap_at(&b, 10, 0); /* it does not name the tree */
    assert_int_equal(world_apply(&w, &b), RLOG_CONFLICTED);
    rlog_txn_stage_newest(&b, BYTES("s/"), 10);
    assert_int_equal(world_apply(&w, &b), RLOG_CONFLICTED);
    rlog_txn_need_stage(&b, w.m.stage);
    rlog_txn_stage_swap_at(&b, 10, 0);
    assert_int_equal(world_apply(&w, &b), RLOG_APPLIED);
    assert_int_equal(w.m.version, 10);
}

static void a_run_may_follow_the_swap_in_its_transaction(void **state)
{
    (void)state;
    struct rlog_txn_builder b = {0};
    struct buf run = {0};
    rlog_txn_stage_begin(&b);
    rlog_txn_stage_put(&b, BYTES("s/new"), BYTES("x"), 1, 5);
    rlog_txn_stage_swap_at(&b, 8, 0);
    add_record(&run, 9, 0, BYTES("\1\3s/w\1x"));
    rlog_txn_wal(&b, buf_bytes(&run));
    rlog_txn_put(&b, BYTES("l/x"), BYTES("x"));
    assert_int_equal(world_apply(&w, &b), RLOG_APPLIED);
    assert_int_equal(w.m.version, 9);
    assert_int_equal(world_get(&w, "s/w", NULL), 9);
    buf_done(&run);
}

/* The ring of a cluster that follows has what it applied, for the time when it leads. */
static void a_follower_keeps_a_ring_of_its_own(void **state)
{
    (void)state;
    struct rlog_wal *wal = NULL;
    struct buf run = {0}, copy = {0};
    uint64_t last = 0;
    assert_status(rlog_wal_new(RLOG_WAL_BYTES, &wal), ST_OK);
    rlog_wal_reset(wal, w.m.version);
    w.m.wal = wal;
    add_record(&run, 1, 0, BYTES("\1\3s/a\1y")); /* known */
    size_t known = run.len;
    add_record(&run, 2, 5000, BYTES("\1\3s/w\1x"));
    add_jump(&run, 2, 9);
    buf_add(&copy, bytes_from(buf_bytes(&run), known));
    assert_int_equal(follow(&run), RLOG_APPLIED);
    assert_status(rlog_wal_read(wal, 1, SIZE_MAX, &run, &last), ST_OK);
    assert_bytes(buf_bytes(&run), buf_bytes(&copy));
    assert_int_equal(last, 9);
    assert_int_equal(swap_at(20, 1, 0), RLOG_APPLIED);
    buf_clear(&run);
    assert_status(rlog_wal_read(wal, 9, SIZE_MAX, &run, &last), ST_CONFLICT);
    assert_status(rlog_wal_read(wal, 20, SIZE_MAX, &run, &last), ST_NOT_FOUND);
    rlog_wal_switch(wal, false);
    assert_int_equal(follow_put(21), RLOG_APPLIED);
    w.m.wal = NULL;
    rlog_wal_free(wal);
    buf_done(&run);
    buf_done(&copy);
}

#define FOLLOW_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FOLLOW_TEST(the_key_decides_whether_a_cluster_follows),
        FOLLOW_TEST(a_restart_finds_the_key),
        FOLLOW_TEST(nothing_else_changes_replicated_keys),
        FOLLOW_TEST(local_keys_change_as_ever),
        FOLLOW_TEST(a_request_id_does_not_count),
        FOLLOW_TEST(the_last_write_may_be_in_the_transaction_that_begins_to_follow),
        FOLLOW_TEST(the_last_run_may_be_in_the_transaction_that_ends_it),
        FOLLOW_TEST(a_run_is_applied_at_its_versions_and_times),
        FOLLOW_TEST(known_records_do_nothing),
        FOLLOW_TEST(a_gap_changes_nothing),
        FOLLOW_TEST(a_run_that_waits_for_another_is_no_early_conflict),
        FOLLOW_TEST(a_cluster_that_leads_applies_no_run_and_no_swap_at_a_version),
        FOLLOW_TEST(a_staged_tree_is_swapped_in_at_its_version),
        FOLLOW_TEST(a_swap_forgets_the_newest_versions_of_an_earlier_restore),
        FOLLOW_TEST(a_version_that_does_not_fit_swaps_nothing_in),
        FOLLOW_TEST(a_run_may_follow_the_swap_in_its_transaction),
        FOLLOW_TEST(a_follower_keeps_a_ring_of_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
