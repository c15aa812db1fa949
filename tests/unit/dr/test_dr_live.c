/* Figures of the link, as the status shows them. */
#include "support.h"

#include "cluster/dr/link/dr_conn.h"
#include "cluster/dr/live.h"

static void lag_counts_from_the_primarys_newest_version_that_is_here(void **ctx)
{
    struct dr_facts f = {0};
    (void)ctx;
    struct dr_lag lag = dr_live_lag(&f, 10, 5000);
    assert_int_equal(lag.heard_ms, -1);
    assert_int_equal(dr_live_age_ms(&f, 5000), -1);
    f = (struct dr_facts){
        .primary_heard_ms = 4000, .primary_version = 15, .settled_ms = 3000, .behind_bytes = 700};
    lag = dr_live_lag(&f, 10, 5000);
    assert_int_equal(lag.heard_ms, 1000);
    assert_int_equal(lag.entries, 5);
    assert_int_equal(lag.ms, 2000);
    assert_int_equal(lag.bytes, 700);
    lag = dr_live_lag(&f, 15, 5000); /* everything is here */
    assert_int_equal(lag.entries, 0);
    assert_int_equal(lag.ms, 0);
    assert_int_equal(lag.bytes, 0);
    assert_int_equal(dr_live_age_ms(&f, 5000), 2000);
    lag = dr_live_lag(&f, 15, 3999); /* the time was read before the primary was heard */
    assert_int_equal(lag.heard_ms, 0);
}

static void a_conflict_lasts_while_it_is_heard(void **ctx)
{
    struct dr_live live = {0};
    struct dr_facts f;
    (void)ctx;
    assert_status(dr_live_init(&live), ST_OK);
    uint64_t now_ms = (uint64_t)dr_conn_now_ms();
    dr_live_get(&live, &f);
    assert_null(dr_live_conflict_of(&f, now_ms));
    dr_live_conflict(&live, 3, "east");
    dr_live_get(&live, &f);
    const struct dr_conflict *c = dr_live_conflict_of(&f, now_ms);
    assert_non_null(c);
    assert_int_equal(c->epoch, 3);
    assert_string_equal(c->source, "east");
    assert_null(dr_live_conflict_of(&f, f.conflict.heard_ms + DR_CONFLICT_MS));
    dr_live_agree(&live);
    dr_live_get(&live, &f);
    assert_null(dr_live_conflict_of(&f, now_ms));
    dr_live_done(&live);
}

static void the_lag_of_a_secondary_that_was_not_heard_is_not_known(void **ctx)
{
    struct dr_live live = {0};
    (void)ctx;
    assert_status(dr_live_init(&live), ST_OK);
    assert_int_equal(dr_live_peer(dr_live_begin(&live), "east", "")->lag_ms, -1);
    dr_live_end(&live);
    dr_live_done(&live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lag_counts_from_the_primarys_newest_version_that_is_here),
        cmocka_unit_test(a_conflict_lasts_while_it_is_heard),
        cmocka_unit_test(the_lag_of_a_secondary_that_was_not_heard_is_not_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
