/* The model of two clusters of the unit tests finds each planted bug of a cluster that follows. A
 * build without planted bugs runs the model alone. */
#include "selftest.h"

#include "base/plant.h"
#include "raft/wal_pair.h"

enum { SEEDS = 40, STEPS = 250 };

/* What differed in the first run that shows a difference; NULL: none did. */
static const char *difference(void)
{
    struct wal_pair_tally tally = {0};
    const char *wrong = NULL;
    for (uint64_t seed = 1; seed <= SEEDS && wrong == NULL; seed++)
        wrong = wal_pair_run(seed, STEPS, &tally);
    return wrong;
}

#ifdef HOLDFAST_PLANT
static bool found(enum plant plant)
{
    plant_number = 1 + (unsigned)plant;
    bool differs = difference() != NULL;
    plant_number = 0;
    return differs;
}
#else
static bool found(enum plant plant)
{
    return !planted(plant); /* nothing to find */
}
#endif

unsigned selftest_wal(void)
{
    CHECK(difference() == NULL);
    CHECK(found(PLANT_DR_GAP));
    CHECK(found(PLANT_DR_TWICE));
    CHECK(found(PLANT_DR_NEWEST));
    return 4;
}
