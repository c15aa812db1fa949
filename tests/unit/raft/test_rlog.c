/* The calls of a replica: proposals, reads, restart. */
#include "support.h"
#include "world.h"

#include "raft/replica/rlog_wire.h"

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

static void a_leaders_entries_leave_before_it_writes_them(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(1, 3);
    struct wnode *leader = world_await_leader(w), *follower = world_follower(w);
    unsigned flushes = leader->flushes, others = follower->flushes;
    for (unsigned i = 0; i < 5; i++) {
        world_run(w, 50); /* the write before is done, also here */
        assert_status(world_put(leader, "s/a", "1"), ST_OK);
    }
    assert_int_equal(leader->flushes, flushes + 5);
    assert_int_equal(leader->flushes_writing, 0);
    assert_int_equal(follower->flushes, others);
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

/* Put a key by a proposal with these settings. */
static enum status put_with(struct wnode *n, const char *key, struct rlog_propose settings)
{
    CLEANUP(rlog_txn_done) struct rlog_txn_builder b = {0};
    struct wclient c = {.p = settings};
    rlog_txn_put(&b, bytes_str(key), BYTES("v"));
    wclient_propose(n, &c, &b);
    enum status st = wclient_wait(n->e.world, &c);
    buf_done(&c.txn);
    return st;
}

static enum status put_in_term(struct wnode *n, uint64_t term)
{
    return put_with(n, "s/a", (struct rlog_propose){.term = term});
}

static void a_proposal_of_another_term_is_refused(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(4, 3);
    struct wnode *leader = world_await_leader(w);
    struct rlog_status status;
    rlog_status(leader->rlog, &status);
    assert_status(put_in_term(leader, status.term), ST_OK);
    assert_status(put_in_term(leader, status.term - 1), ST_NOT_LEADER);
    assert_status(put_in_term(leader, status.term + 1), ST_NOT_LEADER);
    assert_status(put_in_term(leader, 0), ST_OK);
    world_free(w);
}

static uint16_t feature_of(const struct wnode *n)
{
    struct rlog_status status;
    rlog_status(n->rlog, &status);
    return status.feature;
}

static enum status raise_to(struct wnode *n, uint16_t feature)
{
    return put_with(n, "l/raised", (struct rlog_propose){.feature = feature});
}

static void one_entry_raises_the_feature_level_for_good(void **ctx)
{
    (void)ctx;
    struct reason reason;
    struct world *w = world_new(4, 3);
    struct wnode *leader = world_await_leader(w);
    assert_status(world_put(leader, "s/a", "1"), ST_OK);
    assert_int_equal(feature_of(leader), RLOG_FEATURE_FIRST);
    assert_status(raise_to(leader, RLOG_FEATURE), ST_OK);
    assert_int_equal(feature_of(leader), RLOG_FEATURE);
    assert_status(world_put(leader, "s/a", "2"), ST_OK); /* of no level of its own */
    for (unsigned i = 0; i < 3; i++) {
        assert_status(world_read(&w->nodes[i]), ST_OK);
        assert_int_equal(feature_of(&w->nodes[i]), RLOG_FEATURE);
    }
    for (unsigned i = 0; i < 3; i++)
        wnode_stop(&w->nodes[i]);
    for (unsigned i = 0; i < 3; i++)
        assert_status(wnode_start(&w->nodes[i], &reason), ST_OK);
    assert_non_null(world_await_leader(w));
    for (unsigned i = 0; i < 3; i++) {
        assert_status(world_read(&w->nodes[i]), ST_OK);
        assert_int_equal(feature_of(&w->nodes[i]), RLOG_FEATURE);
    }
    world_free(w);
}

static enum status put_for_upkeep(struct wnode *n, const char *key)
{
    return put_with(n, key, (struct rlog_propose){.upkeep = true});
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
        if (i == N / 2)
            world_run(w, 0); /* the loop's turn ends, nothing is written yet */
    }
    for (unsigned i = 0; i < N; i++) {
        assert_status(wclient_wait(w, &clients[i]), ST_OK);
        buf_done(&clients[i].txn);
    }
    rlog_status(leader->rlog, &after);
    assert_int_equal(after.version, before.version + N);
    assert_int_equal(after.last_index,
                     before.last_index + 2); /* those of one turn, then the rest */
    world_free(w);
}

/* Until the newest entry is durable here; no majority can have it. Milliseconds since `start`. */
static uint64_t await_stored(struct world *w, struct wnode *leader, uint64_t start)
{
    struct rlog_status s;
    do {
        assert_true(world_step(w, w->now_ns + 10000000));
        rlog_status(leader->rlog, &s);
    } while (s.stored_index != s.last_index);
    return (w->now_ns - start) / 1000000;
}

static void writes_wait_for_the_majority_of_those_before_but_not_long(void **ctx)
{
    enum { N = 40 };
    static struct wclient clients[2 * N];
    struct rlog_status before, waiting, after;
    unsigned waited = 0;
    (void)ctx;
    struct world *w = world_new(19, 3);
    struct wnode *leader = world_await_leader(w);
    memset(clients, 0, sizeof clients);
    for (unsigned i = 0; i < N; i++) {
        assert_status(world_put(leader, "s/a", "1"), ST_OK);
        world_run(w, 20);
        for (unsigned k = 0; k < 3; k++)
            w->cut[k][leader - w->nodes] = true;
        wclient_put(leader, &clients[2 * i], "s/a", "2");
        world_run(w, 0);
        bool soon = await_stored(w, leader, w->now_ns) == 0;
        rlog_status(leader->rlog, &before);
        wclient_put(leader, &clients[2 * i + 1], "s/b", "3");
        world_run(w, 0);
        rlog_status(leader->rlog, &waiting);
        waited += waiting.last_index == before.last_index;
        assert_true(!soon || waiting.last_index == before.last_index);
        world_run(w, 60);
        rlog_status(leader->rlog, &after);
        assert_int_equal(after.last_index, before.last_index + 1);
        for (unsigned k = 0; k < 3; k++)
            w->cut[k][leader - w->nodes] = false;
        assert_status(wclient_wait(w, &clients[2 * i + 1]), ST_OK);
        buf_done(&clients[2 * i].txn);
        buf_done(&clients[2 * i + 1].txn);
    }
    assert_true(waited > N / 4);
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

/* One voter and the leader are a majority of three. */
static void a_read_asks_no_more_voters_than_it_needs(void **ctx)
{
    enum { READS = 20 };
    (void)ctx;
    struct world *w = world_new(17, 3);
    struct wnode *leader = world_await_leader(w);
    assert_status(world_read(leader), ST_OK);
    uint64_t before = w->n_frames;
    for (int i = 0; i < READS; i++)
        assert_status(world_read(leader), ST_OK);
    assert_true(w->n_frames - before < 3 * READS);
    world_free(w);
}

static void a_read_asks_another_voter_when_one_keeps_silent(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(18, 3);
    struct wnode *leader = world_await_leader(w);
    for (unsigned gone = 0; gone < 3; gone++) {
        unsigned at = (unsigned)(leader - w->nodes);
        if (gone == at)
            continue;
        assert_status(world_read(leader), ST_OK);
        w->cut[at][gone] = w->cut[gone][at] = true;
        uint64_t start = w->now_ns;
        for (int i = 0; i < 20; i++)
            assert_status(world_read(leader), ST_OK);
        assert_true(w->now_ns - start < 150000000); /* of virtual time: no round was given up */
        w->cut[at][gone] = w->cut[gone][at] = false;
        world_run(w, 500);
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

/* A write is two frames and two answers; that it is committed costs none while others follow. */
static void the_next_write_notifies_of_a_commit(void **ctx)
{
    enum { WRITES = 50 };
    (void)ctx;
    struct world *w = world_new(13, 3);
    struct wnode *leader = world_await_leader(w);
    assert_status(world_put(leader, "s/a", "1"), ST_OK);
    uint64_t before = w->n_frames;
    for (int i = 0; i < WRITES; i++)
        assert_status(world_put(leader, "s/a", "1"), ST_OK);
    assert_true(w->n_frames - before < 5 * WRITES);
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
    assert_status(read.status, ST_NO_LEADER); /* it knows that it leads nobody */
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
    world_run(w, 0);
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

/* An entry that a later version of the program made, in the name of the leader. */
static void tell_future(struct wnode *to, const struct wnode *leader, uint64_t term,
                        uint64_t entry_term)
{
    CLEANUP(buf_done) struct buf txn = {0};
    CLEANUP(buf_done) struct buf entry = {0};
    CLEANUP(buf_done) struct buf frame = {0};
    CLEANUP(rlog_txn_done) struct rlog_txn_builder b = {0};
    struct rlog_frame f = {.kind = RLOG_FRAME_CORE};
    struct raft_append_entries *ae = &f.core.raft.append_entries;
    struct rlog_status s;
    rlog_status(to->rlog, &s);
    rlog_txn_put(&b, BYTES("s/future"), BYTES("?"));
    assert_status(rlog_txn_encode(&b, &txn), ST_OK);
    struct bytes one = buf_bytes(&txn);
    assert_status(rlog_entry_encode(RLOG_FEATURE_FIRST, s.time_ms, &one, 1, &entry), ST_OK);
    le16_put(entry.data + 2, RLOG_FEATURE + 1);
    struct rlog_entry e = {entry_term, RLOG_COMMAND, buf_bytes(&entry), NULL};
    f.core.raft.type = RAFT_APPEND_ENTRIES;
    *ae = (struct raft_append_entries){.term = term,
                                       .prev_log_index = 1,
                                       .prev_log_term = rlog_entry_term(to->rlog, 1),
                                       .n_entries = 1};
    f.core.entries = &e;
    rlog_wire_encode(&f, &frame);
    buf_add(&frame, e.data);
    rlog_receive(to->rlog, leader->id, leader->identity.name, buf_bytes(&frame));
}

static void only_a_leader_that_is_one_stops_us_with_an_entry_of_a_later_format(void **ctx)
{
    (void)ctx;
    struct rlog_status s;
    struct world *w = world_new(7, 3);
    struct wnode *leader = world_await_leader(w), *standby = world_follower(w);
    assert_status(world_put(leader, "s/a", "1"), ST_OK);
    world_run(w, 500);
    rlog_status(standby->rlog, &s);
    assert_true(s.term > 1);
    tell_future(standby, leader, s.term - 1, s.term - 1); /* a leader that was */
    tell_future(standby, leader, s.term, s.term + 1);     /* what no leader sends */
    tell_future(standby, standby, s.term, s.term);
    tell_future(leader, standby, s.term, s.term);
    assert_string_equal(standby->fatal, "");
    assert_string_equal(leader->fatal, "");
    assert_status(world_put(leader, "s/a", "2"), ST_OK);
    tell_future(standby, leader, s.term, s.term);
    assert_non_null(strstr(standby->fatal, "later format"));
    assert_status(standby->fatal_why, ST_UNSUPPORTED); /* not the disk's fault */
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_write_reaches_every_node),
        cmocka_unit_test(a_leaders_entries_leave_before_it_writes_them),
        cmocka_unit_test(a_read_on_a_follower_sees_the_last_write),
        cmocka_unit_test(a_sole_voter_commits_alone),
        cmocka_unit_test(a_follower_refuses_proposals),
        cmocka_unit_test(a_proposal_of_another_term_is_refused),
        cmocka_unit_test(one_entry_raises_the_feature_level_for_good),
        cmocka_unit_test(a_full_state_takes_deletes_and_upkeep_alone),
        cmocka_unit_test(all_waiting_commands_share_an_entry),
        cmocka_unit_test(writes_wait_for_the_majority_of_those_before_but_not_long),
        cmocka_unit_test(a_restarted_cluster_has_everything),
        cmocka_unit_test(a_read_asks_no_more_voters_than_it_needs),
        cmocka_unit_test(a_read_asks_another_voter_when_one_keeps_silent),
        cmocka_unit_test(reads_survive_lost_frames),
        cmocka_unit_test(a_follower_applies_without_waiting_for_a_heartbeat),
        cmocka_unit_test(the_next_write_notifies_of_a_commit),
        cmocka_unit_test(a_cut_off_leader_confirms_nothing),
        cmocka_unit_test(only_a_leader_that_is_one_stops_us_with_an_entry_of_a_later_format),
        cmocka_unit_test(closing_answers_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
