#include "campaign.h"
#include "selftest.h"

#include "base/plant.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

static const char usage_text[] =
    "sim [--profile NAME] [--plant NAME] [--verbose] SEED   one run\n"
    "sim [--profile NAME] [--jobs N] --campaign FIRST COUNT many runs; fails when a branch of\n"
    "                                                       recovery was never reached\n"
    "sim [--profile NAME] [--jobs N] [--plant NAME] --runs FIRST COUNT\n"
    "                                                       many runs\n"
    "sim --seeds FILE                                       runs that once found something\n"
    "sim [--slice I/N] --planted [NAME]                     every planted bug must be found; of N "
    "slices\n"
    "                                                       only that of number I, from 0\n"
    "sim --self-test                                        the simulator's own parts\n";

struct arguments {
    const char *profile, *plant;
    bool verbose;
    unsigned jobs;
    struct slice slice;
    const char *rest[3];
    unsigned n_rest;
};

static int usage(void)
{
    fputs(usage_text, stderr);
    fputs("profiles:", stderr);
    for (unsigned i = 0; profile_name(i) != NULL; i++)
        fprintf(stderr, " %s", profile_name(i));
    fputs("\n", stderr);
    return 2;
}

static uint64_t number(const char *text)
{
    char *end;
    uint64_t n = strtoull(text, &end, 0);
    if (*text == '\0' || *end != '\0')
        exit(usage());
    return n;
}

/* I/N with I < N. */
static struct slice slice_read(const char *text)
{
    struct slice slice;
    char end;
    if (sscanf(text, "%u/%u%c", &slice.number, &slice.count, &end) != 2 ||
        slice.number >= slice.count)
        exit(usage());
    return slice;
}

static struct arguments arguments_read(int argc, char **argv)
{
    struct arguments a = {.profile = "any", .jobs = 2, .slice = {.count = 1}};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (strcmp(argv[i], "--profile") == 0 && ++i)
            a.profile = value;
        else if (strcmp(argv[i], "--plant") == 0 && ++i)
            a.plant = value;
        else if (strcmp(argv[i], "--jobs") == 0 && ++i)
            a.jobs = (unsigned)number(value);
        else if (strcmp(argv[i], "--slice") == 0 && ++i)
            a.slice = slice_read(value);
        else if (strcmp(argv[i], "--verbose") == 0)
            a.verbose = true;
        else if (a.n_rest < ARRAY_LEN(a.rest))
            a.rest[a.n_rest++] = argv[i];
        else
            exit(usage());
    }
    return a;
}

/* 1 + the planted bug. */
static unsigned plant_of(const char *name)
{
#ifdef HOLDFAST_PLANT
    for (unsigned i = 0; i < PLANTS_SIMULATED; i++)
        if (strcmp(plant_name((enum plant)i), name) == 0)
            return 1 + i;
    exit(usage());
#else
    fprintf(stderr, "sim: built without planted bugs, so not %s\n", name);
    exit(2);
#endif
}

static int run_one(const struct arguments *a, uint64_t seed)
{
    struct outcome outcome;
#ifdef HOLDFAST_PLANT
    plant_number = a->plant != NULL ? plant_of(a->plant) : 0;
#else
    if (a->plant != NULL)
        (void)plant_of(a->plant); /* says that there are none */
#endif
    cluster_run(seed, a->profile, a->verbose, &outcome);
    printf("seed %" PRIu64 ": %" PRIu64 " operations, %" PRIu64 " elections, %" PRIu64
           " events, %.1f simulated s, hash %016" PRIx64 "\n",
           seed, outcome.tally.ops, outcome.tally.elections, outcome.tally.events,
           (double)outcome.tally.virtual_ms / 1000, outcome.hash);
    fflush(stdout);
    _exit(0); /* what the simulator itself still holds is no leak of the program */
}

int main(int argc, char **argv)
{
    struct arguments a = arguments_read(argc, argv);
    const char *what = a.n_rest > 0 ? a.rest[0] : "";
    struct campaign k = {.profile = a.profile, .jobs = a.jobs, .twice_each = 16};
    if (a.verbose)
        setvbuf(stdout, NULL, _IOLBF, 0);
    if (strcmp(what, "--self-test") == 0) {
        printf("%u passed, 0 failed\n", selftest_core() + selftest_fs() + selftest_lin() +
                                            selftest_front() + selftest_trail() + selftest_wal());
        return 0;
    }
    if ((strcmp(what, "--campaign") == 0 || strcmp(what, "--runs") == 0) && a.n_rest == 3) {
        k.first = number(a.rest[1]);
        k.count = number(a.rest[2]);
        k.need_coverage = strcmp(what, "--campaign") == 0;
        k.plant = a.plant != NULL ? plant_of(a.plant) : 0;
        return campaign_run(&k) != 0;
    }
    if (strcmp(what, "--seeds") == 0 && a.n_rest == 2)
        return seeds_run(a.rest[1]) != 0;
    if (strcmp(what, "--planted") == 0)
        return !planted_run(SIM_DIR "/planted.txt", a.rest[1], a.slice, a.jobs);
    if (a.n_rest == 1 && what[0] != '-' && what[0] != '\0')
        return run_one(&a, number(what));
    return usage();
}
