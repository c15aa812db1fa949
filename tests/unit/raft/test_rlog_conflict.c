/* Conflicting transactions: conflicts are noticed early, and no request conflicts for ever. */
#include "support.h"
#include "world.h"

static uint64_t version_of(struct wnode *n, const char *key)
{
    struct store_pin pin;
    struct store_item item;
    uint64_t version = 0;
    assert_status(store_pin(rlog_store(n->rlog), "test", 0, &pin), ST_OK);
    if (store_get(&pin, bytes_str(key), &item) == ST_OK)
        version = item.modified;
    store_unpin(&pin);
    return version;
}

/* Reads the key, and proposes to write it if it is unchanged. */
static void propose_rmw(struct wnode *n, struct wclient *c, const char *key, uint64_t version)
{
    struct rlog_txn_builder b = {0};
    rlog_txn_need_key(&b, bytes_str(key), version);
    rlog_txn_put(&b, bytes_str(key), BYTES("x"));
    wclient_propose(n, c, &b);
}

static struct rlog_status status_of(struct wnode *n)
{
    struct rlog_status s;
    rlog_status(n->rlog, &s);
    return s;
}

static void a_doomed_transaction_is_not_replicated(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(1, 3);
    struct wnode *leader = world_await_leader(w);
    struct wclient first = {0}, second = {0}, third = {0};
    assert_status(world_put(leader, "s/a", "1"), ST_OK);
    uint64_t version = version_of(leader, "s/a");
    struct rlog_status before = status_of(leader);
    propose_rmw(leader, &first, "s/a", version);
    propose_rmw(leader, &second, "s/a", version);
    propose_rmw(leader, &third, "s/a", version);
    assert_status(wclient_wait(w, &first), ST_OK);
    assert_status(wclient_wait(w, &second), ST_CONFLICT);
    assert_status(wclient_wait(w, &third), ST_CONFLICT);
    assert_string_equal(second.conflict, "s/a");
    assert_true(second.p.applied.version >= first.p.applied.version);
    struct rlog_status after = status_of(leader);
    assert_int_equal(after.txns_applied - before.txns_applied, 1);
    assert_int_equal(after.last_index - before.last_index, 1);
    buf_done(&first.txn);
    buf_done(&second.txn);
    buf_done(&third.txn);
    world_free(w);
}

static void held_transactions_go_on_when_the_other_fails(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(2, 3);
    struct wnode *leader = world_await_leader(w);
    struct wclient stale = {0}, good = {0};
    assert_status(world_put(leader, "s/a", "1"), ST_OK);
    assert_status(world_put(leader, "s/a", "2"), ST_OK);
    uint64_t version = version_of(leader, "s/a");
    propose_rmw(leader, &stale, "s/a", version - 1); /* will conflict at apply */
    propose_rmw(leader, &good, "s/a", version);
    assert_status(wclient_wait(w, &stale), ST_CONFLICT);
    assert_status(wclient_wait(w, &good), ST_OK);
    buf_done(&stale.txn);
    buf_done(&good.txn);
    world_free(w);
}

static void a_listing_conflicts_with_a_pending_write_below_it(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(3, 3);
    struct wnode *leader = world_await_leader(w);
    struct wclient put = {0}, list = {0}, other = {0};
    struct rlog_txn_builder b = {0};
    assert_status(world_put(leader, "s/dir/a", "1"), ST_OK);
    assert_status(world_put(leader, "s/elsewhere/a", "1"), ST_OK);
    uint64_t version = status_of(leader).version, applied = status_of(leader).txns_applied;
    wclient_put(leader, &put, "s/dir/sub/b", "1");
    rlog_txn_need_prefix(&b, BYTES("s/dir/"), version);
    rlog_txn_put(&b, BYTES("s/x"), BYTES("1"));
    wclient_propose(leader, &list, &b);
    b = (struct rlog_txn_builder){0};
    rlog_txn_need_prefix(&b, BYTES("s/elsewhere/"), version);
    rlog_txn_put(&b, BYTES("s/y"), BYTES("1"));
    wclient_propose(leader, &other, &b);
    assert_status(wclient_wait(w, &put), ST_OK);
    assert_status(wclient_wait(w, &list), ST_CONFLICT);
    assert_status(wclient_wait(w, &other), ST_OK);
    assert_int_equal(status_of(leader).txns_applied - applied, 2);
    buf_done(&put.txn);
    buf_done(&list.txn);
    buf_done(&other.txn);
    world_free(w);
}

/* Keys that share a folder count it once. Each folder counts until the transaction is applied. */
static void a_listing_conflicts_with_each_folder_of_a_pending_write(void **ctx)
{
    (void)ctx;
    static const char *const folders[] = {"s/dir/", "s/dir/sub/", "s/dir/sub2/", "s/other/"};
    struct world *w = world_new(6, 1);
    struct wnode *leader = world_await_leader(w);
    for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
        struct wclient put = {0}, early = {0}, late = {0};
        struct rlog_txn_builder b = {0};
        uint64_t version = status_of(leader).version, applied = status_of(leader).txns_applied;
        rlog_txn_put(&b, BYTES("s/dir/a"), BYTES("1"));
        rlog_txn_put(&b, BYTES("s/dir/sub/a"), BYTES("1"));
        rlog_txn_put(&b, BYTES("s/dir/sub/b"), BYTES("1"));
        rlog_txn_put(&b, BYTES("s/dir/sub2/b"), BYTES("1"));
        rlog_txn_put(&b, BYTES("s/other/b"), BYTES("1"));
        wclient_propose(leader, &put, &b);
        b = (struct rlog_txn_builder){0};
        rlog_txn_need_prefix(&b, bytes_str(folders[i]), version);
        rlog_txn_put(&b, BYTES("s/x"), BYTES("1"));
        wclient_propose(leader, &early, &b);
        assert_status(wclient_wait(w, &put), ST_OK);
        assert_status(wclient_wait(w, &early), ST_CONFLICT);
        assert_int_equal(status_of(leader).txns_applied - applied, 1);
        b = (struct rlog_txn_builder){0};
        rlog_txn_need_prefix(&b, bytes_str(folders[i]), status_of(leader).version);
        rlog_txn_put(&b, BYTES("s/x"), BYTES("1"));
        wclient_propose(leader, &late, &b);
        assert_status(wclient_wait(w, &late), ST_OK);
        buf_done(&put.txn);
        buf_done(&early.txn);
        buf_done(&late.txn);
    }
    world_free(w);
}

static void a_key_conflicts_with_a_pending_sweep(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(4, 1);
    struct wnode *leader = world_await_leader(w);
    struct wclient sweep = {0}, rmw = {0};
    struct rlog_txn_builder b = {0};
    assert_status(world_put(leader, "s/dir/a", "1"), ST_OK);
    uint64_t version = version_of(leader, "s/dir/a");
    rlog_txn_delete_prefix(&b, BYTES("s/dir/"));
    wclient_propose(leader, &sweep, &b);
    propose_rmw(leader, &rmw, "s/dir/a", version);
    assert_status(wclient_wait(w, &sweep), ST_OK);
    assert_status(wclient_wait(w, &rmw), ST_CONFLICT);
    assert_int_equal(version_of(leader, "s/dir/a"), 0);
    buf_done(&sweep.txn);
    buf_done(&rmw.txn);
    world_free(w);
}

/* The hashes of a large transaction are not kept: they are made again when it is applied. */
static void writes_are_pending_until_they_are_applied(void **ctx)
{
    (void)ctx;
    /* two hashes are of folders */
    static const unsigned sizes[] = {1, RLOG_MARKS_MAX - 2, RLOG_MARKS_MAX - 1, 2 * RLOG_MARKS_MAX};
    struct world *w = world_new(9, 1);
    struct wnode *leader = world_await_leader(w);
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        struct wclient writer = {0}, early = {0}, late = {0};
        struct rlog_txn_builder b = {0};
        char key[32];
        assert_status(world_put(leader, "s/dir/0", "1"), ST_OK);
        uint64_t applied = status_of(leader).txns_applied, version = version_of(leader, "s/dir/0");
        for (unsigned n = 0; n < sizes[i]; n++) {
            (void)snprintf(key, sizeof key, "s/dir/%u", n);
            rlog_txn_put(&b, bytes_str(key), BYTES("1"));
        }
        wclient_propose(leader, &writer, &b);
        propose_rmw(leader, &early, "s/dir/0", version);
        assert_status(wclient_wait(w, &writer), ST_OK);
        assert_status(wclient_wait(w, &early), ST_CONFLICT);
        assert_int_equal(status_of(leader).txns_applied - applied, 1);
        propose_rmw(leader, &late, key, version_of(leader, key));
        assert_status(wclient_wait(w, &late), ST_OK);
        buf_done(&writer.txn);
        buf_done(&early.txn);
        buf_done(&late.txn);
    }
    world_free(w);
}

enum { RIVALS = 40 };

struct rival {
    struct wclient c;
    uint64_t think_until_ms; /* between reading and proposing */
    uint64_t version;
    unsigned think_ms, attempts, worst, wins;
    bool reading;
};

/* One step of a client that increments a hot key again and again. */
static void rival_step(struct wnode *leader, struct rival *v, uint64_t now)
{
    if (v->reading) {
        if (now < v->think_until_ms)
            return;
        v->reading = false;
        v->attempts++;
        propose_rmw(leader, &v->c, "s/hot", v->version);
        return;
    }
    if (!v->c.done)
        return;
    if (v->c.status == ST_OK) {
        v->worst = MAX(v->worst, v->attempts);
        v->attempts = 0;
        v->wins++;
    } else {
        assert_status(v->c.status, ST_CONFLICT);
    }
    v->version = version_of(leader, "s/hot");
    v->think_until_ms = now + v->think_ms;
    v->reading = true;
}

static void nobody_conflicts_for_ever(void **ctx)
{
    (void)ctx;
    static struct rival rivals[RIVALS];
    struct world *w = world_new(5, 3);
    struct wnode *leader = world_await_leader(w);
    assert_status(world_put(leader, "s/hot", "1"), ST_OK);
    memset(rivals, 0, sizeof rivals);
    for (unsigned i = 0; i < RIVALS; i++) {
        rivals[i].c.done = true;
        rivals[i].think_ms = i == 0 ? 40 : i % 3; /* the first is far too slow to win by luck */
    }
    for (unsigned ms = 0; ms < 4000; ms++) {
        world_run(w, 1);
        for (unsigned i = 0; i < RIVALS; i++)
            rival_step(leader, &rivals[i], w->now_ns / 1000000);
    }
    for (unsigned i = 0; i < RIVALS; i++) {
        assert_true(rivals[i].wins >= 3);
        assert_true(rivals[i].worst <= 4 && rivals[i].attempts <= 4);
    }
    wnode_stop(leader);
    for (unsigned i = 0; i < RIVALS; i++) {
        assert_true(rivals[i].reading || rivals[i].c.done);
        buf_done(&rivals[i].c.txn);
    }
    world_free(w);
}

static void a_ticket_given_back_frees_the_key(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(6, 1);
    struct wnode *leader = world_await_leader(w);
    struct wclient c = {0};
    assert_status(world_put(leader, "s/a", "1"), ST_OK);
    for (unsigned i = 0; i < 2; i++) {
        propose_rmw(leader, &c, "s/a", 999);
        assert_status(wclient_wait(w, &c), ST_CONFLICT);
    }
    assert_int_not_equal(c.p.ticket, 0);
    struct wclient blocked = {0};
    wclient_put(leader, &blocked, "s/a", "2");
    world_run(w, 100);
    assert_false(blocked.done);
    rlog_ticket_drop(leader->rlog, c.p.ticket);
    assert_status(wclient_wait(w, &blocked), ST_OK);
    buf_done(&c.txn);
    buf_done(&blocked.txn);
    world_free(w);
}

static void who_comes_late_from_a_fence_is_not_replicated(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(8, 1);
    struct wnode *leader = world_await_leader(w);
    struct wclient c = {0}, late = {0}, never = {0};
    assert_status(world_put(leader, "s/a", "1"), ST_OK);
    uint64_t version = version_of(leader, "s/a");
    for (unsigned i = 0; i < 2; i++) {
        propose_rmw(leader, &c, "s/a", version + 999);
        assert_status(wclient_wait(w, &c), ST_CONFLICT);
    }
    uint64_t applied = status_of(leader).txns_applied;
    propose_rmw(leader, &never, "s/a", version + 999); /* late before it came */
    assert_status(wclient_wait(w, &never), ST_CONFLICT);
    propose_rmw(leader, &late, "s/a", version);
    world_run(w, 100);
    assert_false(late.done);
    propose_rmw(leader, &c, "s/a", version);
    assert_status(wclient_wait(w, &c), ST_OK);
    assert_status(wclient_wait(w, &late), ST_CONFLICT);
    assert_int_equal(status_of(leader).txns_applied - applied, 1);
    buf_done(&c.txn);
    buf_done(&late.txn);
    buf_done(&never.txn);
    world_free(w);
}

static void a_ticket_that_does_not_come_back_expires(void **ctx)
{
    (void)ctx;
    struct world *w = world_new(7, 1);
    struct wnode *leader = world_await_leader(w);
    struct wclient c = {0};
    assert_status(world_put(leader, "s/a", "1"), ST_OK);
    for (unsigned i = 0; i < 2; i++) {
        propose_rmw(leader, &c, "s/a", 999);
        assert_status(wclient_wait(w, &c), ST_CONFLICT);
    }
    uint64_t from = w->now_ns / 1000000;
    assert_status(world_put(leader, "s/a", "2"), ST_OK);
    assert_true(w->now_ns / 1000000 - from <= 2200);
    buf_done(&c.txn);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_doomed_transaction_is_not_replicated),
        cmocka_unit_test(held_transactions_go_on_when_the_other_fails),
        cmocka_unit_test(a_listing_conflicts_with_a_pending_write_below_it),
        cmocka_unit_test(a_listing_conflicts_with_each_folder_of_a_pending_write),
        cmocka_unit_test(a_key_conflicts_with_a_pending_sweep),
        cmocka_unit_test(writes_are_pending_until_they_are_applied),
        cmocka_unit_test(nobody_conflicts_for_ever),
        cmocka_unit_test(a_ticket_given_back_frees_the_key),
        cmocka_unit_test(who_comes_late_from_a_fence_is_not_replicated),
        cmocka_unit_test(a_ticket_that_does_not_come_back_expires),
    };
    trace_set_level(getenv("V") != NULL ? TRACE_DEBUG : TRACE_ERROR);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
