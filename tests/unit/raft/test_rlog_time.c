/* Cluster time (R16): where it begins, how it follows the clocks, and that it never falls. */
#include "raft/replica/rlog_wire.h"
#include "support.h"
#include "text/time.h"
#include "world.h"

static int64_t world_wall(const struct world *w)
{
    return 1700000000000 + (int64_t)(w->now_ns / 1000000);
}

static void a_new_clusters_time_begins_at_the_median(void **ctx)
{
    (void)ctx;
    for (unsigned i = 0; i < 6; i++) { /* one of them leads, so one wrong clock is the leader's */
        struct world *w = world_make(20, 3);
        w->nodes[i / 2].e.skew_ms = i % 2 != 0 ? 3600000 : -3600000;
        world_start(w);
        struct wnode *leader = world_await_leader(w);
        assert_status(world_read(leader), ST_OK);
        assert_in_range(rlog_time_ms(leader->rlog), world_wall(w) - 1000, world_wall(w) + 1000);
        assert_status(world_put(leader, "s/a", "1"), ST_OK);
        struct rlog_status s;
        rlog_status(leader->rlog, &s);
        assert_in_range(s.time_ms, world_wall(w) - 1000, world_wall(w) + 1000);
        world_free(w);
    }
}

/* Two of three initial members run, one of them an hour behind. The third shows which is right. */
static void a_new_clusters_time_steps_forward_to_a_late_initial_members(void **ctx)
{
    (void)ctx;
    struct world *w = world_make(21, 3);
    w->nodes[0].e.skew_ms = -3600000;
    world_start(w);
    wnode_stop(&w->nodes[2]);
    struct wnode *leader = world_await_leader(w);
    assert_status(world_put(leader, "s/a", "1"), ST_OK);
    assert_true(rlog_time_ms(leader->rlog) < world_wall(w) - 3500000);
    assert_status(wnode_start(&w->nodes[2], NULL), ST_OK);
    world_run(w, 5000);
    leader = world_await_leader(w);
    assert_in_range(rlog_time_ms(leader->rlog), world_wall(w) - 1000, world_wall(w) + 1000);
    world_free(w);
}

/* Whoever leads next has the entry, but may not have heard of the time. */
static void a_step_forward_is_in_an_entry_before_it_is_advertised(void **ctx)
{
    (void)ctx;
    int64_t advertised = 0;
    struct world *w = world_make(24, 3);
    w->nodes[0].e.skew_ms = -3600000;
    world_start(w);
    wnode_stop(&w->nodes[2]);
    assert_status(world_put(world_await_leader(w), "s/a", "1"), ST_OK);
    assert_status(wnode_start(&w->nodes[2], NULL), ST_OK);
    for (unsigned i = 0; i < 1000; i++) {
        struct wnode *leader = world_await_leader(w);
        struct rlog_status s;
        rlog_status(leader->rlog, &s);
        advertised = rlog_time_ms(leader->rlog);
        assert_true(advertised < s.time_ms + 60000);
        world_run(w, 5);
    }
    assert_in_range(advertised, world_wall(w) - 1000, world_wall(w) + 1000);
    world_free(w);
}

/* Nobody else could lead: after a night its time is right at once, without an entry for it. A
 * reader does not hear the time of the last entry, not even in the first moment. */
static void a_sole_voter_steps_by_itself(void **ctx)
{
    (void)ctx;
    struct world *w = world_make(25, 1);
    struct rlog_status before, after;
    world_start(w);
    assert_status(world_put(world_await_leader(w), "s/a", "1"), ST_OK);
    rlog_status(w->nodes[0].rlog, &before);
    wnode_stop(&w->nodes[0]);
    w->now_ns += UINT64_C(28800) * 1000 * 1000 * 1000;
    assert_status(wnode_start(&w->nodes[0], NULL), ST_OK);
    struct wnode *leader = world_await_leader(w);
    assert_in_range(rlog_time_ms(leader->rlog), world_wall(w) - 1000, world_wall(w) + 1000);
    assert_status(world_read(leader), ST_OK);
    assert_in_range(rlog_time_ms(leader->rlog), world_wall(w) - 1000, world_wall(w) + 1000);
    rlog_status(leader->rlog, &after);
    assert_int_equal(after.last_index, before.last_index);
    world_free(w);
}

/* Its wall clock may go back before its next start, so an entry must have the step. */
static void the_step_of_a_sole_voter_that_runs_outlives_its_restart(void **ctx)
{
    (void)ctx;
    struct world *w = world_make(26, 1);
    world_start(w);
    assert_status(world_put(world_await_leader(w), "s/a", "1"), ST_OK);
    world_run(w, 1000);
    w->nodes[0].e.skew_ms = 3600000;
    world_run(w, 5000);
    int64_t told = rlog_time_ms(w->nodes[0].rlog);
    assert_in_range(told, world_wall(w) + 3590000, world_wall(w) + 3610000);
    wnode_stop(&w->nodes[0]);
    w->nodes[0].e.skew_ms = 0;
    assert_status(wnode_start(&w->nodes[0], NULL), ST_OK);
    struct wnode *leader = world_await_leader(w);
    assert_status(world_read(leader), ST_OK);
    assert_true(rlog_time_ms(leader->rlog) > told - 5000); /* less the time since the entry */
    world_free(w);
}

/* The clock of a cluster's only voter begins its time. Voters that come later outvote it: a
 * twentieth faster or slower, and never back. */
static void the_wrong_clock_of_an_initial_member_is_slewed_away(void **ctx)
{
    (void)ctx;
    enum { RUN_MS = 100000 };
    struct world *w = world_make(22, 1);
    w->nodes[0].e.skew_ms = 3600000;
    world_start(w);
    struct wnode *leader = world_await_leader(w);
    assert_status(world_put(leader, "s/a", "1"), ST_OK);
    for (uint64_t id = 2; id <= 3; id++) {
        assert_status(wnode_start(wnode_create(w, id), NULL), ST_OK);
        struct wclient c = {.a = {.done = wclient_admin, .member = world_member(id, RLOG_VOTER)}};
        rlog_member_add(leader->rlog, &c.a);
        assert_status(wclient_wait(w, &c), ST_OK);
    }
    int64_t last = rlog_time_ms(leader->rlog), ahead = last - world_wall(w);
    assert_in_range(ahead, 3500000, 3600000);
    for (unsigned ms = 0; ms < RUN_MS; ms += 250) {
        world_run(w, 250);
        int64_t now = rlog_time_ms(leader->rlog);
        assert_true(now > last);
        last = now;
    }
    int64_t gone = ahead - (rlog_time_ms(leader->rlog) - world_wall(w));
    assert_in_range(gone, RUN_MS / 25, RUN_MS / 20);
    world_free(w);
}

/* The estimate of a standby is no less than a time that it was given before. */
static void a_late_question_does_not_set_a_standbys_clock_back(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf out = {0};
    struct world *w = world_new(23, 3);
    struct wnode *leader = world_await_leader(w), *standby;
    struct rlog_status s;
    assert_status(world_put(leader, "s/a", "1"), ST_OK);
    world_run(w, 3000);
    standby = world_follower(w);
    rlog_status(standby->rlog, &s);
    int64_t before = rlog_time_ms(standby->rlog);
    struct rlog_frame late = {.kind = RLOG_FRAME_ASK,
                              .ask = {.term = s.term, .round = 1, .time_ms = before - 2500}};
    rlog_wire_encode(&late, &out);
    rlog_receive(standby->rlog, leader->id, leader->identity.name, buf_bytes(&out));
    assert_in_range(rlog_time_ms(standby->rlog), before - 1000 / 20, before);
    world_free(w);
}

/* It writes, and the others take what it says. */
static void a_clock_that_is_wrong_by_ages_stops_no_node(void **ctx)
{
    (void)ctx;
    for (unsigned n = 1; n <= 3; n += 2) {
        struct world *w = world_make(24, n);
        for (unsigned i = 0; i < n; i++)
            w->nodes[i].e.skew_ms = INT64_MAX / 4;
        world_start(w);
        struct wnode *leader = world_await_leader(w);
        assert_status(world_put(leader, "s/a", "1"), ST_OK);
        world_run(w, 2000);
        assert_status(world_put(world_await_leader(w), "s/a", "2"), ST_OK);
        assert_in_range(rlog_time_ms(leader->rlog), 1, TEXT_CLOCK_END - 1);
        world_free(w);
    }
}

static void cluster_time_never_falls_and_follows_the_median(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(10, 3);
    w->nodes[0].e.skew_ms = 3600000;
    int64_t last = 0;
    for (int i = 0; i < 40; i++) {
        struct wnode *leader = world_await_leader(w);
        assert_non_null(leader);
        int64_t now = rlog_time_ms(leader->rlog);
        assert_true(now >= last);
        last = now;
        world_run(w, 500);
        if (i == 20)
            wnode_stop(leader);
    }
    assert_true(last > world_wall(w) - 61000);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_clusters_time_begins_at_the_median),
        cmocka_unit_test(a_new_clusters_time_steps_forward_to_a_late_initial_members),
        cmocka_unit_test(a_step_forward_is_in_an_entry_before_it_is_advertised),
        cmocka_unit_test(a_sole_voter_steps_by_itself),
        cmocka_unit_test(the_step_of_a_sole_voter_that_runs_outlives_its_restart),
        cmocka_unit_test(the_wrong_clock_of_an_initial_member_is_slewed_away),
        cmocka_unit_test(a_late_question_does_not_set_a_standbys_clock_back),
        cmocka_unit_test(a_clock_that_is_wrong_by_ages_stops_no_node),
        cmocka_unit_test(cluster_time_never_falls_and_follows_the_median),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
