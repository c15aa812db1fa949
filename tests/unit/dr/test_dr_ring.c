/* How near a secondary is to the end of the WAL in memory (cluster/dr/ring.h), and when the herald
 * of a promoted cluster calls a node again. */
#include "cluster/dr/follow/follow.h"
#include "cluster/dr/ring.h"
#include "support.h"

#include "base/trace.h"

#include <stdio.h>

static const struct rlog_wal_stats half = {
    .on = true, .base = 100, .last = 200, .bytes = 500, .bytes_max = 1000};

static void the_share_counts_records_and_bytes(void **ctx)
{
    (void)ctx;
    struct rlog_wal_stats full = half;
    full.bytes = 1000;
    assert_int_equal(dr_ring_used(&half, 100), 50); /* all of half a ring */
    assert_int_equal(dr_ring_used(&half, 150), 25);
    assert_int_equal(dr_ring_used(&full, 150), 50);
    assert_int_equal(dr_ring_used(&full, 125), 75);
    full.bytes = 1200; /* a record above the bound */
    assert_int_equal(dr_ring_used(&full, 125), 75);
}

static void a_secondary_that_has_all_uses_nothing(void **ctx)
{
    (void)ctx;
    struct rlog_wal_stats empty = {.on = true, .base = 200, .last = 200, .bytes_max = 1000};
    struct rlog_wal_stats off = half;
    off.on = false;
    assert_int_equal(dr_ring_used(&half, 200), 0);
    assert_int_equal(dr_ring_used(&half, 300), 0); /* ahead of this node */
    assert_int_equal(dr_ring_used(&empty, 200), 0);
    assert_int_equal(dr_ring_used(&off, 1), 0);
}

static void a_secondary_whose_records_are_gone_uses_all(void **ctx)
{
    (void)ctx;
    assert_int_equal(dr_ring_used(&half, 99), 100);
    assert_int_equal(dr_ring_used(&half, 0), 100);
}

static struct dr_peer peer_at(const char *id, uint64_t position)
{
    struct dr_peer peer = {.position = position, .heard_ms = 1};
    (void)snprintf(peer.id, sizeof peer.id, "%s", id);
    return peer;
}

static void a_warning_comes_once_until_the_secondary_has_caught_up(void **ctx)
{
    struct dr_ring_watch watch = {0};
    struct rlog_wal_stats full = half;
    struct dr_peer near = peer_at("b", 125), other = peer_at("c", 110);
    (void)ctx;
    full.bytes = 1000;
    assert_true(dr_ring_judge(&watch, &full, &near)); /* 75 % */
    assert_false(dr_ring_judge(&watch, &full, &near));
    assert_true(dr_ring_judge(&watch, &full, &other));
    near.position = 150; /* better, but not by half */
    assert_false(dr_ring_judge(&watch, &full, &near));
    near.position = 125;
    assert_false(dr_ring_judge(&watch, &full, &near));
    near.position = 180; /* below half of the warning */
    assert_false(dr_ring_judge(&watch, &full, &near));
    near.position = 125;
    assert_true(dr_ring_judge(&watch, &full, &near));
    assert_false(dr_ring_judge(&watch, &full, &other));
    near.position = 126; /* 74 % */
    watch = (struct dr_ring_watch){0};
    assert_false(dr_ring_judge(&watch, &full, &near));
}

static void the_watch_is_bounded(void **ctx)
{
    struct dr_ring_watch watch = {0};
    (void)ctx;
    for (unsigned i = 0; i < DR_PEERS_MAX; i++) {
        char id[8];
        (void)snprintf(id, sizeof id, "s%u", i);
        const struct dr_peer peer = peer_at(id, 0);
        assert_true(dr_ring_judge(&watch, &half, &peer));
    }
    const struct dr_peer more = peer_at("more", 0);
    assert_false(dr_ring_judge(&watch, &half, &more));
    assert_int_equal(watch.n, DR_PEERS_MAX);
}

static void the_herald_leaves_a_node_alone_that_stands_apart(void **ctx)
{
    struct dr_herald_rest rest = {0};
    uint64_t now_ms = 1000, before = 0;
    (void)ctx;
    for (unsigned i = 0; i < 10; i++) {
        dr_herald_note(&rest, true, now_ms);
        assert_true(rest.pause_ms > before || rest.pause_ms == DR_HERALD_REST_MS);
        assert_int_equal(rest.due_ms, now_ms + rest.pause_ms);
        before = rest.pause_ms;
        now_ms = rest.due_ms;
    }
    assert_int_equal(rest.pause_ms, DR_HERALD_REST_MS);
    dr_herald_note(&rest, false, now_ms); /* a primary again, or not reached */
    assert_int_equal(rest.due_ms, now_ms);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_share_counts_records_and_bytes),
        cmocka_unit_test(a_secondary_that_has_all_uses_nothing),
        cmocka_unit_test(a_secondary_whose_records_are_gone_uses_all),
        cmocka_unit_test(a_warning_comes_once_until_the_secondary_has_caught_up),
        cmocka_unit_test(the_watch_is_bounded),
        cmocka_unit_test(the_herald_leaves_a_node_alone_that_stands_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
