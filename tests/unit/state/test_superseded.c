/* The chain of root keys in the state: where a rekey stores its link, and when the link goes. */
#include "state_world.h"

#include "state/following.h"
#include "state/superseded.h"

#define NOW_MS INT64_C(1700000000000)
#define HOUR_MS INT64_C(3600000)

static struct state_world world;

static int setup(void **state)
{
    sw_open(&world);
    sw_init(&world);
    *state = &world;
    return 0;
}

static int setup_raised(void **state)
{
    (void)setup(state);
    sw_raise(&world);
    return 0;
}

static int teardown(void **state)
{
    sw_close(*state);
    return 0;
}

static enum status rekey(struct state_world *w, int64_t now_ms)
{
    struct state_txn txn;
    sw_begin(w, &txn);
    enum status st = state_rekey(&txn, &w->seal, now_ms);
    if (st != ST_OK) {
        state_end(&txn);
        return st;
    }
    TRY(sw_commit(w, &txn));
    return state_follow(w->m.store, w->barrier);
}

/* Whether something was deleted. */
static bool upkeep(struct state_world *w, int64_t now_ms, uint64_t confirmed)
{
    struct state_txn txn;
    sw_begin(w, &txn);
    assert_status(state_superseded_upkeep(&txn, now_ms, confirmed), ST_OK);
    bool staged = state_staged(&txn);
    if (staged)
        assert_status(sw_commit(w, &txn), ST_OK);
    else
        state_end(&txn);
    return staged;
}

static uint64_t count(struct state_world *w, const char *prefix)
{
    struct store_pin pin;
    assert_status(store_pin(w->m.store, "test", 0, &pin), ST_OK);
    uint64_t n = store_count(&pin, bytes_str(prefix));
    store_unpin(&pin);
    return n;
}

static void below_its_level_a_rekey_uses_the_former_place(void **state)
{
    struct state_world *w = *state;
    assert_false(upkeep(w, NOW_MS, STATE_NO_SECONDARY)); /* there is none */
    assert_status(rekey(w, NOW_MS), ST_OK);
    assert_int_equal(count(w, BARRIER_SUPERSEDED), 1);
    assert_int_equal(count(w, BARRIER_LINKS), 0);
    assert_false(upkeep(w, NOW_MS + HOUR_MS - 1, STATE_NO_SECONDARY));
    assert_true(upkeep(w, NOW_MS + HOUR_MS, STATE_NO_SECONDARY));
    assert_int_equal(count(w, BARRIER_SUPERSEDED), 0);
}

static void a_link_of_the_former_place_still_counts(void **state)
{
    struct state_world *w = *state;
    struct barrier *standby = NULL;
    assert_status(barrier_new(&standby), ST_OK);
    assert_status(state_unseal(w->m.store, standby, &w->seal, NULL), ST_OK);
    assert_status(rekey(w, NOW_MS), ST_OK);
    sw_raise(w);
    assert_status(rekey(w, NOW_MS), ST_OK);
    assert_int_equal(count(w, BARRIER_SUPERSEDED), 1);
    assert_int_equal(count(w, BARRIER_LINKS), 1);
    assert_status(state_follow(w->m.store, standby), ST_OK);
    barrier_free(standby);
}

static void a_node_follows_through_several_rekeys(void **state)
{
    struct state_world *w = *state;
    struct barrier *standby = NULL;
    struct store_iter iter;
    struct store_pin pin;
    assert_status(barrier_new(&standby), ST_OK);
    assert_status(state_unseal(w->m.store, standby, &w->seal, NULL), ST_OK);
    for (int i = 0; i < 4; i++)
        assert_status(rekey(w, NOW_MS), ST_OK);
    assert_int_equal(count(w, BARRIER_LINKS), 4);
    assert_int_equal(count(w, BARRIER_SUPERSEDED), 0);
    assert_status(state_follow(w->m.store, standby), ST_OK);
    assert_status(store_pin(w->m.store, "test", 0, &pin), ST_OK);
    store_iter_init(&iter, &pin, BYTES(BARRIER_LINKS), (struct bytes){0});
    while (store_iter_next(&iter))
        assert_int_equal(iter.item.key.len, sizeof BARRIER_LINKS - 1 + SUPERSEDED_DIGITS);
    store_unpin(&pin);
    barrier_free(standby);
}

static void a_link_stays_while_a_secondary_needs_it(void **state)
{
    struct state_world *w = *state;
    uint64_t before = w->m.version;
    assert_status(rekey(w, NOW_MS), ST_OK);
    uint64_t stored = w->m.version;
    sw_put(w, "s/a", "later");
    assert_status(rekey(w, NOW_MS), ST_OK);
    assert_false(upkeep(w, NOW_MS + 100 * HOUR_MS, before));
    assert_false(upkeep(w, NOW_MS + HOUR_MS - 1, STATE_NO_SECONDARY));
    assert_true(upkeep(w, NOW_MS + HOUR_MS, stored));
    assert_int_equal(count(w, BARRIER_LINKS), 1);
    assert_true(upkeep(w, NOW_MS + HOUR_MS, w->m.version));
    assert_int_equal(count(w, BARRIER_LINKS), 0);
    /* Numbers are not used twice. */
    assert_status(rekey(w, NOW_MS), ST_OK);
    assert_status(rekey(w, NOW_MS), ST_OK);
    assert_int_equal(count(w, BARRIER_LINKS), 2);
}

static void a_secondary_deletes_no_link(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    static const char *const marks[] = {STATE_FOLLOWING, STATE_DR_SEAL};
    assert_status(rekey(w, NOW_MS), ST_OK);
    for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
        struct state_value seal;
        sw_begin(w, &txn);
        assert_status(state_get_raw(&txn, BYTES(BARRIER_SEAL), &seal), ST_OK);
        assert_status(state_put_raw(&txn, bytes_str(marks[i]), i == 0 ? BYTES("") : seal.value),
                      ST_OK);
        assert_status(sw_commit(w, &txn), ST_OK);
        assert_false(upkeep(w, NOW_MS + HOUR_MS, STATE_NO_SECONDARY));
        sw_delete(w, marks[i]);
    }
    assert_true(upkeep(w, NOW_MS + HOUR_MS, STATE_NO_SECONDARY));
}

static void too_many_links_refuse_a_rekey(void **state)
{
    struct state_world *w = *state;
    struct barrier *standby = NULL;
    assert_status(barrier_new(&standby), ST_OK);
    assert_status(state_unseal(w->m.store, standby, &w->seal, NULL), ST_OK);
    for (int i = 0; i < SUPERSEDED_MAX; i++)
        assert_status(rekey(w, NOW_MS), ST_OK);
    assert_status(rekey(w, NOW_MS), ST_NO_SPACE);
    assert_status(state_follow(w->m.store, standby), ST_OK); /* through all of them */
    assert_true(upkeep(w, NOW_MS + HOUR_MS, STATE_NO_SECONDARY));
    assert_status(rekey(w, NOW_MS), ST_OK);
    barrier_free(standby);
}

/* Keys that no program of this version stored: read with care, and deleted like old links. */
static void junk_among_the_links_does_no_harm(void **state)
{
    struct state_world *w = *state;
    struct state_txn txn;
    struct barrier *standby = NULL;
    static const char *const names[] = {
        BARRIER_LINKS "junk",
        BARRIER_LINKS "99999999999999999999",
        BARRIER_LINKS "/",
        BARRIER_LINKS "00000000000000000007",
        BARRIER_LOCAL_LINKS "x",
        BARRIER_LINKS "a name that is far too long to be a link of the chain of root keys"};
    assert_status(barrier_new(&standby), ST_OK);
    assert_status(state_unseal(w->m.store, standby, &w->seal, NULL), ST_OK);
    sw_begin(w, &txn);
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        assert_status(state_put_raw(&txn, bytes_str(names[i]), BYTES("junk")), ST_OK);
    assert_status(sw_commit(w, &txn), ST_OK);
    assert_status(rekey(w, NOW_MS), ST_OK);
    assert_status(rekey(w, NOW_MS), ST_OK);
    assert_status(state_follow(w->m.store, standby), ST_OK);
    assert_true(upkeep(w, NOW_MS, STATE_NO_SECONDARY));
    assert_int_equal(count(w, BARRIER_LINKS), 2);
    assert_int_equal(count(w, BARRIER_LOCAL_LINKS), 0);
    barrier_free(standby);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup_raised, teardown)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(below_its_level_a_rekey_uses_the_former_place, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_link_of_the_former_place_still_counts, setup, teardown),
        T(a_node_follows_through_several_rekeys),
        T(a_link_stays_while_a_secondary_needs_it),
        T(a_secondary_deletes_no_link),
        T(too_many_links_refuse_a_rekey),
        T(junk_among_the_links_does_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
