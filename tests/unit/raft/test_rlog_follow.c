/* Replicas of a cluster that follows another, and the ring of the WAL of each replica. */
#include "support.h"
#include "world.h"

#include "raft/txn/rlog_wal.h"

static struct rlog_status status_of(struct wnode *n)
{
    struct rlog_status s;
    rlog_status(n->rlog, &s);
    return s;
}

static struct world *ring_world(uint64_t seed)
{
    struct world *w = world_make(seed, 3);
    w->options.wal_bytes_max = RLOG_WAL_BYTES;
    world_start(w);
    return w;
}

static enum status read_ring(struct wnode *n, uint64_t after, struct buf *out)
{
    uint64_t last;
    buf_clear(out);
    return rlog_wal_read(rlog_wal(n->rlog), after, SIZE_MAX, out, &last);
}

static void every_replica_has_the_same_records_also_after_a_restart(void **ctx)
{
    (void)ctx;
    struct reason reason;
    struct world *w = ring_world(1);
    struct wnode *leader = world_await_leader(w);
    struct buf records = {0}, found = {0};
    for (int i = 0; i < 20; i++)
        assert_status(world_put(leader, "s/a", "value"), ST_OK);
    assert_status(read_ring(leader, 0, &records), ST_OK);
    for (unsigned restarts = 0; restarts < 2; restarts++) {
        for (unsigned i = 0; i < 3; i++) {
            assert_status(world_read(&w->nodes[i]), ST_OK);
            assert_status(read_ring(&w->nodes[i], 0, &found), ST_OK);
            assert_bytes(buf_bytes(&found), buf_bytes(&records));
        }
        for (unsigned i = 0; i < 3; i++)
            wnode_stop(&w->nodes[i]);
        for (unsigned i = 0; i < 3; i++)
            assert_status(wnode_start(&w->nodes[i], &reason), ST_OK);
        assert_non_null(world_await_leader(w));
    }
    buf_done(&records);
    buf_done(&found);
    world_free(w);
}

static void a_ring_begins_with_the_snapshot_that_was_loaded(void **ctx)
{
    (void)ctx;
    struct reason reason;
    struct world *w = ring_world(2);
    struct wnode *leader = world_await_leader(w);
    struct buf found = {0};
    assert_status(world_put(leader, "s/a", "1"), ST_OK);
    rlog_snapshot_now(leader->rlog);
    world_run(w, 2000);
    assert_true(status_of(leader).snapshots_created > 0);
    assert_status(world_put(leader, "s/a", "2"), ST_OK);
    wnode_stop(leader);
    assert_status(wnode_start(leader, &reason), ST_OK);
    assert_non_null(world_await_leader(w));
    assert_status(world_read(leader), ST_OK);
    assert_status(read_ring(leader, 0, &found), ST_CONFLICT);
    assert_status(read_ring(leader, 1, &found), ST_OK);
    buf_done(&found);
    world_free(w);
}

static void a_replica_may_have_no_ring(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(3, 1);
    struct wnode *leader = world_await_leader(w);
    assert_null(rlog_wal(leader->rlog));
    assert_status(world_put(leader, "s/a", "1"), ST_OK);
    world_free(w);
}

static void propose_run(struct wnode *n, struct wclient *c, uint64_t version)
{
    struct rlog_txn_builder b = {0};
    struct buf run = {0};
    buf_add_u8(&run, RLOG_WAL_OPS);
    buf_add_u64(&run, version);
    buf_add_u64(&run, 0);
    buf_add_u32(&run, 8);
    buf_add(&run, BYTES("\1\3s/w\2xy"));
    rlog_txn_need_key(&b, BYTES("l/dr/role"), 1);
    rlog_txn_wal(&b, buf_bytes(&run));
    wclient_propose(n, c, &b);
    buf_done(&run);
}

/* A cluster of one node that follows: l/dr/role is at local version 1. */
static struct wnode *following(struct world *w)
{
    struct wnode *leader = world_await_leader(w);
    assert_status(world_put(leader, "l/dr/role", "role"), ST_OK);
    assert_false(status_of(leader).following);
    assert_status(world_put(leader, RLOG_FOLLOWING, ""), ST_OK);
    assert_true(status_of(leader).following);
    return leader;
}

/* A run need not wait until the run before it is applied. */
static void runs_are_proposed_one_behind_the_other(void **ctx)
{
    (void)ctx;
    enum { RUNS = 20 };
    static struct wclient runs[RUNS];
    struct world *w = world_new(4, 3);
    struct wnode *leader = following(w);
    uint64_t last = status_of(leader).last_index;
    memset(runs, 0, sizeof runs);
    for (unsigned i = 0; i < RUNS; i++)
        propose_run(leader, &runs[i], i + 1);
    for (unsigned i = 0; i < RUNS; i++) {
        assert_status(wclient_wait(w, &runs[i]), ST_OK);
        assert_int_equal(runs[i].p.applied.version, i + 1);
        buf_done(&runs[i].txn);
    }
    assert_true(status_of(leader).last_index - last < RUNS); /* they shared entries */
    assert_string_equal(world_get(leader, "s/w"), "xy");
    world_free(w);
}

static void a_gap_conflicts_and_gets_no_ticket(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(5, 1);
    struct wnode *leader = following(w);
    struct wclient run = {0};
    for (unsigned i = 0; i < 4; i++) {
        uint64_t ticket = run.p.ticket;
        buf_done(&run.txn);
        run = (struct wclient){.p = {.ticket = ticket}};
        propose_run(leader, &run, 7);
        assert_status(wclient_wait(w, &run), ST_CONFLICT);
        assert_string_equal(run.conflict, "");
        assert_true(run.p.ticket <= 1); /* the mark of a conflict, not a ticket */
    }
    buf_done(&run.txn);
    world_free(w);
}

/* The end of the following waits for no one who conflicts because of it. */
static void a_write_is_refused_at_once_and_holds_nothing_up(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(6, 3);
    struct wnode *leader = following(w);
    struct wclient put = {0}, end = {0};
    struct rlog_txn_builder b = {0};
    struct rlog_status before = status_of(leader);
    for (unsigned i = 0; i < 4; i++) {
        uint64_t ticket = put.p.ticket;
        buf_done(&put.txn);
        put = (struct wclient){.p = {.ticket = ticket}};
        wclient_put(leader, &put, "s/a", "x");
        assert_status(wclient_wait(w, &put), ST_CONFLICT);
        assert_string_equal(put.conflict, RLOG_FOLLOWING);
        assert_true(put.p.ticket <= 1);
    }
    assert_int_equal(status_of(leader).last_index, before.last_index);
    rlog_txn_delete(&b, BYTES(RLOG_FOLLOWING));
    uint64_t start = w->now_ns;
    wclient_propose(leader, &end, &b);
    assert_status(wclient_wait(w, &end), ST_OK);
    assert_true(w->now_ns - start < 500 * UINT64_C(1000000));
    assert_status(world_put(leader, "s/a", "x"), ST_OK);
    buf_done(&put.txn);
    buf_done(&end.txn);
    world_free(w);
}

/* What reads replicated keys waits for a pending run, as for any write; what does not, goes on. */
static void a_pending_run_may_change_any_replicated_key(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(7, 3);
    struct wnode *leader = following(w);
    struct wclient run = {0}, reads = {0}, local = {0};
    struct rlog_txn_builder b = {0};
    uint64_t applied = status_of(leader).txns_applied;
    propose_run(leader, &run, 1);
    rlog_txn_need_key(&b, BYTES("s/w"), 0);
    rlog_txn_put(&b, BYTES("l/x"), BYTES("x"));
    wclient_propose(leader, &reads, &b);
    b = (struct rlog_txn_builder){0};
    rlog_txn_need_key(&b, BYTES("l/y"), 0);
    rlog_txn_put(&b, BYTES("l/y"), BYTES("y"));
    wclient_propose(leader, &local, &b);
    assert_status(wclient_wait(w, &run), ST_OK);
    assert_status(wclient_wait(w, &reads), ST_CONFLICT);
    assert_status(wclient_wait(w, &local), ST_OK);
    assert_int_equal(status_of(leader).txns_applied - applied, 2); /* the read was not replicated */
    buf_done(&run.txn);
    buf_done(&reads.txn);
    buf_done(&local.txn);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_replica_has_the_same_records_also_after_a_restart),
        cmocka_unit_test(a_ring_begins_with_the_snapshot_that_was_loaded),
        cmocka_unit_test(a_replica_may_have_no_ring),
        cmocka_unit_test(runs_are_proposed_one_behind_the_other),
        cmocka_unit_test(a_gap_conflicts_and_gets_no_ticket),
        cmocka_unit_test(a_write_is_refused_at_once_and_holds_nothing_up),
        cmocka_unit_test(a_pending_run_may_change_any_replicated_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
