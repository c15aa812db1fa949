/* A cluster that follows another one has the other cluster's state (PROTOCOL R8d). The simulator's
 * self-test runs the same model with each planted bug: `sim --self-test`. */
#include "support.h"
#include "wal_pair.h"

enum { SEEDS = 150, STEPS = 250 };

static void equal_versions_mean_equal_states(void **state)
{
    (void)state;
    struct wal_pair_tally tally = {0};
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        const char *wrong = wal_pair_run(seed, STEPS, &tally);
        if (wrong != NULL)
            fail_msg("seed %lu: %s", (unsigned long)seed, wrong);
    }
    assert_true(tally.synced > 2 * SEEDS); /* all of it happened, not only the easy part */
    assert_true(tally.runs > 50 * SEEDS);
    assert_true(tally.repeats > SEEDS);
    assert_true(tally.gaps > SEEDS);
    assert_true(tally.jumps > SEEDS);
    assert_true(tally.lost > SEEDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(equal_versions_mean_equal_states)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
