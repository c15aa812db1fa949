/* Snapshots of replicas: created, sent, installed, restored. */
#include "raft/replica/rlog_internal.h"
#include "support.h"
#include "world.h"

static void put_many(struct wnode *leader, int from, int to)
{
    for (int i = from; i < to; i++) {
        char key[32];
        (void)snprintf(key, sizeof key, "s/key%05d", i);
        assert_status(world_put(leader, key, "a value of some length"), ST_OK);
    }
}

static struct world *small_logs(uint64_t seed, unsigned nodes)
{
    struct world *w = world_make(seed, nodes);
    w->options.snapshot_log_bytes = 6000;
    w->options.snapshot_trailing = 16;
    world_start(w);
    return w;
}

static struct rlog_status status_of(struct wnode *n)
{
    struct rlog_status s;
    rlog_status(n->rlog, &s);
    return s;
}

static void a_long_log_is_cut(void **ctx)
{
    (void)ctx;
    struct world *w = small_logs(1, 3);
    struct wnode *leader = world_await_leader(w);
    put_many(leader, 0, 300);
    world_run(w, 1000);
    for (unsigned i = 0; i < 3; i++) {
        struct rlog_status s = status_of(&w->nodes[i]);
        assert_true(s.snapshots_created > 0);
        assert_true(s.snapshot_index > 100);
    }
    world_free(w);
}

static void the_log_is_cut_by_the_size_of_the_state(void **ctx)
{
    (void)ctx;
    const uint64_t mib = 1024 * 1024;
    assert_int_equal(rlog_snapshot_create_threshold(0, 0, 0), 32 * mib);
    assert_int_equal(rlog_snapshot_create_threshold(0, 64 * mib, 0), 32 * mib);
    assert_int_equal(rlog_snapshot_create_threshold(0, 200 * mib, 0), 100 * mib);
    assert_int_equal(rlog_snapshot_create_threshold(0, 200 * mib, 256), 125 * mib);
    assert_int_equal(rlog_snapshot_create_threshold(0, UINT64_MAX, 0), 512 * mib);
    assert_int_equal(rlog_snapshot_create_threshold(0, UINT64_MAX, 256), 640 * mib);
    assert_int_equal(rlog_snapshot_create_threshold(4096, 200 * mib, 128), 4608);
}

static void a_restart_begins_at_the_snapshot(void **ctx)
{
    (void)ctx;
    struct reason reason;
    struct world *w = small_logs(2, 3);
    put_many(world_await_leader(w), 0, 300);
    world_run(w, 1000);
    uint64_t version = status_of(&w->nodes[0]).version;
    for (unsigned i = 0; i < 3; i++)
        wnode_stop(&w->nodes[i]);
    for (unsigned i = 0; i < 3; i++)
        assert_status(wnode_start(&w->nodes[i], &reason), ST_OK);
    assert_non_null(world_await_leader(w));
    for (unsigned i = 0; i < 3; i++) {
        assert_status(world_read(&w->nodes[i]), ST_OK);
        assert_string_equal(world_get(&w->nodes[i], "s/key00000"), "a value of some length");
        assert_string_equal(world_get(&w->nodes[i], "s/key00299"), "a value of some length");
        assert_int_equal(status_of(&w->nodes[i]).version, version);
    }
    world_free(w);
}

static void a_follower_left_behind_gets_the_snapshot(void **ctx)
{
    (void)ctx;
    struct reason reason;
    struct world *w = small_logs(3, 3);
    struct wnode *leader = world_await_leader(w), *behind = world_follower(w);
    put_many(leader, 0, 10);
    wnode_stop(behind);
    put_many(leader, 10, 400);
    world_run(w, 1000);
    assert_status(wnode_start(behind, &reason), ST_OK);
    world_run(w, 5000);
    struct rlog_status s = status_of(behind);
    assert_int_equal(s.snapshots_installed, 1);
    assert_int_equal(s.applied_index, status_of(leader).applied_index);
    assert_string_equal(world_get(behind, "s/key00001"), "a value of some length");
    assert_string_equal(world_get(behind, "s/key00399"), "a value of some length");

    put_many(leader, 400, 410);
    assert_status(world_read(behind), ST_OK);
    assert_string_equal(world_get(behind, "s/key00409"), "a value of some length");
    wnode_stop(behind);
    assert_status(wnode_start(behind, &reason), ST_OK);
    assert_status(world_read(behind), ST_OK);
    assert_string_equal(world_get(behind, "s/key00100"), "a value of some length");
    world_free(w);
}

static void a_transfer_survives_lost_chunks(void **ctx)
{
    (void)ctx;
    enum { BIG = 200000 };
    struct reason reason;
    struct world *w = small_logs(4, 3);
    struct wnode *leader = world_await_leader(w), *behind = world_follower(w);
    struct wclient c = {0};
    uint8_t *big = mem_alloc(BIG);
    uint64_t random = 1;
    wnode_stop(behind);
    for (unsigned k = 0; k < 20; k++) { /* 4 MB that do not compress: 16 chunks */
        struct rlog_txn_builder b = {0};
        char key[16];
        for (unsigned i = 0; i < BIG; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            big[i] = (uint8_t)(random >> 56);
        }
        (void)snprintf(key, sizeof key, "s/big%u", k);
        rlog_txn_put(&b, bytes_str(key), bytes_of(big, BIG));
        wclient_propose(leader, &c, &b);
        assert_status(wclient_wait(w, &c), ST_OK);
    }
    mem_free(big);
    buf_done(&c.txn);
    put_many(leader, 0, 100);
    world_run(w, 1000);
    w->loss = 10;
    assert_status(wnode_start(behind, &reason), ST_OK);
    world_run(w, 60000);
    w->loss = 0;
    world_run(w, 5000);
    assert_true(status_of(behind).snapshots_installed >= 1);
    assert_int_equal(status_of(behind).applied_index, status_of(world_leader(w)).applied_index);
    world_free(w);
}

/* Whenever it comes: what a snapshot that was just loaded took the place of may still be freed. */
static void a_stop_while_a_snapshot_is_installed_is_a_stop(void **ctx)
{
    (void)ctx;
    enum { TRIES = 32, MS_MIN = 97, MS_SPREAD = 16 };
    struct reason reason;
    for (unsigned i = 0; i < TRIES; i++) {
        struct world *w = small_logs(100 + i, 3);
        struct wnode *leader = world_await_leader(w), *behind = world_follower(w);
        put_many(leader, 0, 120);
        world_run(w, 500);
        wnode_stop(behind);
        put_many(leader, 120, 270);
        world_run(w, 500);
        assert_status(wnode_start(behind, &reason), ST_OK);
        for (unsigned ms = 0; ms < 1000 && status_of(behind).leader == 0; ms++)
            world_run(w, 1);
        world_run(w, MS_MIN + i % MS_SPREAD);
        wnode_stop(behind);
        assert_status(wnode_start(behind, &reason), ST_OK);
        world_run(w, 3000);
        assert_int_equal(status_of(behind).applied_index, status_of(world_leader(w)).applied_index);
        world_free(w);
    }
}

static void a_snapshot_can_be_asked_for(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(5, 1);
    struct wnode *n = world_await_leader(w);
    put_many(n, 0, 5);
    rlog_snapshot_now(n->rlog);
    world_run(w, 500);
    assert_int_equal(status_of(n).snapshots_created, 1);
    assert_int_equal(status_of(n).snapshot_index, status_of(n).applied_index);
    world_free(w);
}

/* Everything of a replica counts: state, log, records, files (which are memory here). */
static void steady_overwrites_under_a_long_pin_keep_memory_bounded(void **ctx)
{
    (void)ctx;
    enum { WARM = 600, WRITES = 2400, KEYS = 20 };
    struct store_pin pin;
    size_t most[2] = {0}, before = world_heap_bytes();
    struct world *w = small_logs(6, 1);
    struct wnode *n = world_await_leader(w);
    put_many(n, 0, KEYS);
    assert_status(store_pin(rlog_store(n->rlog), "test", 600 * 1000, &pin), ST_OK);
    for (int i = 0; i < WRITES; i++) {
        size_t *peak = &most[i >= WARM];
        put_many(n, i % KEYS, i % KEYS + 1);
        world_run(w, 600 * 1000 / WRITES); /* ten minutes in all */
        *peak = MAX(*peak, world_heap_bytes() - before);
    }
    struct rlog_status s = status_of(n);
    assert_true(s.snapshots_created > 20);
    assert_true(most[1] <= most[0] + most[0] / 20);
    store_unpin(&pin);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_long_log_is_cut),
        cmocka_unit_test(the_log_is_cut_by_the_size_of_the_state),
        cmocka_unit_test(a_restart_begins_at_the_snapshot),
        cmocka_unit_test(a_follower_left_behind_gets_the_snapshot),
        cmocka_unit_test(a_transfer_survives_lost_chunks),
        cmocka_unit_test(a_stop_while_a_snapshot_is_installed_is_a_stop),
        cmocka_unit_test(a_snapshot_can_be_asked_for),
        cmocka_unit_test(steady_overwrites_under_a_long_pin_keep_memory_bounded),
    };
    trace_set_level(getenv("V") != NULL ? TRACE_DEBUG : TRACE_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
