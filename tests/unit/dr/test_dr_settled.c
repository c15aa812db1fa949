/* A primary keeps the links from superseded root keys until its secondaries need them no more. */
#include "state/state_world.h"

#include "cluster/dr/dr.h"
#include "cluster/dr/settled.h"

enum { MADE_MS = 1000, LATER_MS = MADE_MS + 2 * 3600 * 1000 };

static struct state_world world;
static struct state_txn txn;
static struct dr dr;

static int set_up(void **ctx)
{
    (void)ctx;
    sw_open(&world);
    sw_init(&world);
    sw_raise(&world);
    dr = (struct dr){0};
    assert_status(dr_live_init(&dr.live), ST_OK);
    return 0;
}

static int tear_down(void **ctx)
{
    (void)ctx;
    dr_live_done(&dr.live);
    sw_close(&world);
    return 0;
}

static void add_secondary(const char *id, int64_t activated_ms)
{
    struct dr_secondary s = {
        .created_ms = 1, .expire_ms = 2 * (int64_t)LATER_MS, .activated_ms = activated_ms};
    memcpy(s.id, id, strlen(id) + 1);
    sw_begin(&world, &txn);
    assert_status(dr_secondary_put(&txn, &s), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
}

static void hear(const char *id, uint64_t settled)
{
    struct dr_facts *facts = dr_live_begin(&dr.live);
    struct dr_peer *peer = dr_live_peer(facts, id, "");
    assert_non_null(peer);
    peer->settled = settled;
    dr_live_end(&dr.live);
}

static uint64_t version_now(void)
{
    struct store_pin pin;
    assert_status(store_pin(world.m.store, "test", 0, &pin), ST_OK);
    uint64_t version = pin.version;
    store_unpin(&pin);
    return version;
}

/* The version of a new root key. */
static uint64_t rekey(void)
{
    sw_begin(&world, &txn);
    assert_status(state_rekey(&txn, &world.seal, MADE_MS), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    assert_status(state_follow(world.m.store, world.barrier), ST_OK);
    return version_now();
}

/* How many links are left after the duty ran, long after they were made. */
static uint64_t links_left(void)
{
    struct dr *self = &dr;
    struct store_pin pin;
    sw_begin(&world, &txn);
    assert_status(dr_settled_upkeep(&self, &txn, LATER_MS, 1), ST_OK);
    if (state_staged(&txn))
        assert_status(sw_commit(&world, &txn), ST_OK);
    else
        state_end(&txn);
    assert_status(store_pin(world.m.store, "test", 0, &pin), ST_OK);
    uint64_t n = store_count(&pin, BYTES(BARRIER_LINKS));
    store_unpin(&pin);
    return n;
}

static void without_secondaries_links_go_by_their_age(void **ctx)
{
    (void)ctx;
    add_secondary("token", 0); /* its activation will give the present root key */
    (void)rekey();
    assert_int_equal(links_left(), 0);
}

static void a_link_stays_until_each_secondary_is_settled(void **ctx)
{
    (void)ctx;
    add_secondary("a", 5);
    add_secondary("b", 5);
    uint64_t first = rekey(), second = rekey();
    assert_int_equal(links_left(), 2); /* nobody was heard */
    hear("a", second);
    assert_int_equal(links_left(), 2); /* "b" is away */
    hear("b", first);
    assert_int_equal(links_left(), 1);
    hear("b", second);
    assert_int_equal(links_left(), 0);
}

static void a_revoked_secondary_keeps_no_link(void **ctx)
{
    (void)ctx;
    add_secondary("a", 5);
    (void)rekey();
    assert_int_equal(links_left(), 1);
    sw_begin(&world, &txn);
    assert_status(dr_secondary_delete(&txn, "a"), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    assert_int_equal(links_left(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(without_secondaries_links_go_by_their_age, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_link_stays_until_each_secondary_is_settled, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_revoked_secondary_keeps_no_link, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
