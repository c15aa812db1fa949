/* A replica's calls: proposals, reads, restart. */
#include "support.h"
#include "world.h"

static void a_write_reaches_every_node(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(1, 3);
    struct wnode *leader = world_await_leader(w);
    assert_non_null(leader);

    assert_status(world_put(leader, "s/a", "1"), ST_OK);

    world_run(w, 500);
    for (unsigned i = 0; i < 3; i++)
        assert_string_equal(world_get(&w->nodes[i], "s/a"), "1");
    world_free(w);
}

static void a_read_on_a_follower_sees_the_last_write(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(2, 3);
    struct wnode *leader = world_await_leader(w), *follower = world_follower(w);
    for (int i = 0; i < 20; i++) {
        char value[16];
        (void)snprintf(value, sizeof value, "%d", i);
        assert_status(world_put(leader, "s/a", value), ST_OK);
        assert_status(world_read(follower), ST_OK);
        assert_string_equal(world_get(follower, "s/a"), value);
        assert_status(world_read(leader), ST_OK);
    }
    world_free(w);
}

static void a_sole_voter_commits_alone(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(3, 1);
    struct wnode *leader = world_await_leader(w);
    assert_non_null(leader);
    assert_status(world_put(leader, "s/a", "1"), ST_OK);
    assert_status(world_read(leader), ST_OK);
    assert_string_equal(world_get(leader, "s/a"), "1");
    world_free(w);
}

static void a_follower_refuses_proposals(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(4, 3);
    assert_non_null(world_await_leader(w));
    assert_status(world_put(world_follower(w), "s/a", "1"), ST_NOT_LEADER);
    world_free(w);
}

static enum status put_for_upkeep(struct wnode *n, const char *key)
{
    CLEANUP(rlog_txn_done) struct rlog_txn_builder b = {0};
    struct wclient c = {.p.upkeep = true};
    rlog_txn_put(&b, bytes_str(key), BYTES("v"));
    wclient_propose(n, &c, &b);
    enum status st = wclient_wait(n->e.world, &c);
    buf_done(&c.txn);
    return st;
}

static enum status delete_key(struct wnode *n, const char *key)
{
    CLEANUP(rlog_txn_done) struct rlog_txn_builder b = {0};
    struct wclient c = {0};
    rlog_txn_delete(&b, bytes_str(key));
    wclient_propose(n, &c, &b);
    enum status st = wclient_wait(n->e.world, &c);
    buf_done(&c.txn);
    return st;
}

static void a_full_state_takes_deletes_and_upkeep_alone(void **ctx)
{
    (void)ctx;
    struct world *w = world_make(5, 3);
    enum status st = ST_OK;
    char key[16];
    int n = 0;
    w->options.state_bytes_max = 16384;
    world_start(w);
    struct wnode *leader = world_await_leader(w);
    for (; st == ST_OK && n < 1000; n++) {
        (void)snprintf(key, sizeof key, "s/k%d", n);
        st = world_put(leader, key, "value");
    }
    assert_status(st, ST_STATE_FULL);
    assert_true(n > 10);

    assert_status(world_put(leader, "s/k0", "v"), ST_STATE_FULL);
    assert_status(put_for_upkeep(leader, "l/upkeep"), ST_OK);
    for (int i = 0; i < 5; i++) {
        (void)snprintf(key, sizeof key, "s/k%d", i);
        assert_status(delete_key(leader, key), ST_OK);
    }
    assert_status(world_put(leader, "s/k0", "again"), ST_OK);
    world_free(w);
}

static void all_waiting_commands_share_an_entry(void **ctx)
{
    (void)ctx;
    enum { N = 200 };
    static struct wclient clients[N];
    struct rlog_status before, after;
    struct world *w = world_new(5, 3);
    struct wnode *leader = world_await_leader(w);
    world_run(w, 1000);
    rlog_status(leader->rlog, &before);
    memset(clients, 0, sizeof clients);
    for (unsigned i = 0; i < N; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "s/k%u", i);
        wclient_put(leader, &clients[i], key, "v");
    }
    for (unsigned i = 0; i < N; i++) {
        assert_status(wclient_wait(w, &clients[i]), ST_OK);
        buf_done(&clients[i].txn);
    }
    rlog_status(leader->rlog, &after);
    assert_int_equal(after.version, before.version + N);
    assert_int_equal(after.last_index, before.last_index + 2); /* the first alone, then the rest */
    world_free(w);
}

static void a_restarted_cluster_has_everything(void **ctx)
{
    (void)ctx;
    struct reason reason;
    struct world *w = world_new(6, 3);
    struct wnode *leader = world_await_leader(w);
    for (int i = 0; i < 30; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "s/k%d", i);
        assert_status(world_put(leader, key, "v"), ST_OK);
    }
    for (unsigned i = 0; i < 3; i++)
        wnode_stop(&w->nodes[i]);
    for (unsigned i = 0; i < 3; i++)
        assert_status(wnode_start(&w->nodes[i], &reason), ST_OK);
    assert_non_null(world_await_leader(w));
    for (unsigned i = 0; i < 3; i++) {
        assert_status(world_read(&w->nodes[i]), ST_OK);
        assert_string_equal(world_get(&w->nodes[i], "s/k29"), "v");
    }
    world_free(w);
}

static void reads_survive_lost_frames(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(7, 3);
    struct wnode *leader = world_await_leader(w);
    assert_non_null(leader);
    w->loss = 15;
    for (unsigned i = 0; i < 30; i++)
        assert_status(world_read(&w->nodes[i % 3]), ST_OK);
    world_free(w);
}

static void a_follower_applies_without_waiting_for_a_heartbeat(void **ctx)
{
    (void)ctx;
    struct rlog_status at_leader, at_follower;
    struct world *w = world_new(11, 3);
    struct wnode *leader = world_await_leader(w), *follower = world_follower(w);
    for (int i = 0; i < 20; i++) {
        world_run(w, 37);
        assert_status(world_put(leader, "s/a", "1"), ST_OK);
        world_run(w, 8);
        rlog_status(leader->rlog, &at_leader);
        rlog_status(follower->rlog, &at_follower);
        assert_int_equal(at_follower.applied_index, at_leader.applied_index);
    }
    world_free(w);
}

static void a_cut_off_leader_confirms_nothing(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(8, 3);
    struct wnode *leader = world_await_leader(w);
    struct wclient read = {.r = {.done = wclient_read}}, write = {0};
    unsigned at = (unsigned)(leader - w->nodes);
    for (unsigned i = 0; i < 3; i++)
        w->cut[at][i] = w->cut[i][at] = i != at;
    read.r.deadline_ms = w->now_ns / 1000000 + 4000;
    rlog_read(leader->rlog, &read.r);
    wclient_put(leader, &write, "s/a", "1");
    world_run(w, 3000);
    assert_false(read.done);
    world_run(w, 3000);
    assert_true(read.done);
    assert_int_not_equal(read.status, ST_OK);
    assert_true(write.done);
    assert_status(write.status, ST_UNKNOWN_OUTCOME);
    buf_done(&write.txn);
    world_free(w);
}

static void closing_answers_everything(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(9, 3);
    struct wnode *leader = world_await_leader(w);
    struct wclient read = {.r = {.done = wclient_read}}, first = {0}, second = {0};
    wclient_put(leader, &first, "s/a", "1");
    wclient_put(leader, &second, "s/a", "2");
    rlog_read(leader->rlog, &read.r);
    wnode_stop(leader);
    assert_true(first.done && second.done && read.done);
    assert_status(first.status, ST_UNKNOWN_OUTCOME); /* it was in an entry */
    assert_status(second.status, ST_CLOSED);
    assert_status(read.status, ST_CLOSED);
    buf_done(&first.txn);
    buf_done(&second.txn);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_write_reaches_every_node),
        cmocka_unit_test(a_read_on_a_follower_sees_the_last_write),
        cmocka_unit_test(a_sole_voter_commits_alone),
        cmocka_unit_test(a_follower_refuses_proposals),
        cmocka_unit_test(a_full_state_takes_deletes_and_upkeep_alone),
        cmocka_unit_test(all_waiting_commands_share_an_entry),
        cmocka_unit_test(a_restarted_cluster_has_everything),
        cmocka_unit_test(reads_survive_lost_frames),
        cmocka_unit_test(a_follower_applies_without_waiting_for_a_heartbeat),
        cmocka_unit_test(a_cut_off_leader_confirms_nothing),
        cmocka_unit_test(closing_answers_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
