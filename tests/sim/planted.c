/* Proof that the simulator notices bugs: some run must find each planted bug within a bounded
 * number of runs. */
#include "campaign.h"

#include "base/plant.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FOUND_SECONDS_MAX = 300, RECORDS_MAX = 128 };

/* planted.txt: "NAME PROFILE SEED [twice]". SEED is where the search begins: for a rare bug, the
 * seed that shows it. "twice": it shows by two runs of a seed that differ. */
struct record {
    char name[32], profile[24], how[8];
    uint64_t seed;
};

/* Seconds of processor this process and the runs it has waited for have taken: a busy machine does
 * not shorten the search. */
static double now(void)
{
    static const int whose[] = {RUSAGE_SELF, RUSAGE_CHILDREN};
    double sum = 0;
    for (size_t i = 0; i < ARRAY_LEN(whose); i++) {
        struct rusage u;
        if (getrusage(whose[i], &u) != 0)
            abort(); /* cannot fail for these two */
        sum += (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
               (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
    }
    return sum;
}

static unsigned read_records(const char *path, struct record *records)
{
    char line[200];
    unsigned n = 0;
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        perror(path);
        exit(2);
    }
    while (n < RECORDS_MAX && fgets(line, sizeof line, file) != NULL) {
        struct record *r = &records[n];
        r->how[0] = '\0';
        if (line[0] != '#' &&
            sscanf(line, "%31s %23s %" SCNu64 " %7s", r->name, r->profile, &r->seed, r->how) >= 3)
            n++;
    }
    fclose(file);
    return n;
}

/* A run that only did too little, or was too long, has found nothing. */
static bool tells(const struct verdict *v)
{
    return !v->passed && !v->too_long && strstr(v->text, "too little happened") == NULL;
}

/* Whether the run shows the bug, and not without it. */
static bool shows(enum plant plant, const struct record *r, uint64_t seed, struct verdict *with)
{
    struct verdict without;
    uint64_t hash = 0;
    if (with->passed && strcmp(r->how, "twice") == 0 &&
        (!run_anew(seed, r->profile, plant_name(plant), &hash) || hash != with->outcome.hash)) {
        with->passed = false;
        snprintf(with->text, sizeof with->text, "two runs differ");
        return run_anew(seed, r->profile, NULL, &hash);
    }
    if (!tells(with))
        return false;
    run_in_child(seed, r->profile, 0, &without);
    return without.passed;
}

/* Run seeds until one fails that passes without the bug. */
static bool hunt(enum plant plant, const struct record *r)
{
    double started = now();
    struct verdict with;
    for (uint64_t seed = r->seed; now() - started < (double)FOUND_SECONDS_MAX; seed++) {
        run_in_child(seed, r->profile, 1 + (unsigned)plant, &with);
        if (!shows(plant, r, seed, &with))
            continue;
        printf("found  %-20s in %4.1f s, %s %" PRIu64 ": %.150s\n", plant_name(plant),
               now() - started, r->profile, seed, with.text);
        return true;
    }
    printf("MISSED %-20s in %4.1f s, %s %" PRIu64 "...: %s\n", plant_name(plant), now() - started,
           r->profile, r->seed, plant_text(plant));
    return false;
}

/* In a process of its own, which counts its own processor time. */
static void hunt_start(enum plant plant, const struct record *r)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid < 0) {
        perror("sim: fork");
        exit(2);
    }
    if (pid != 0)
        return;
    bool found = hunt(plant, r);
    fflush(stdout);
    _exit(!found);
}

/* Waits for one of the hunts: whether it found its bug. */
static bool hunt_await(void)
{
    int status;
    while (wait(&status) < 0)
        if (errno != EINTR) {
            perror("sim: wait");
            exit(2);
        }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool planted_run(const char *path, const char *only, struct slice slice, unsigned jobs)
{
    struct record records[RECORDS_MAX];
    unsigned n = read_records(path, records), found = 0, wanted = 0, running = 0;
    for (unsigned plant = 0; plant < PLANTS_SIMULATED; plant++) {
        const struct record *r = NULL;
        if (only != NULL && strcmp(only, plant_name((enum plant)plant)) != 0)
            continue;
        if (only == NULL && plant % slice.count != slice.number)
            continue;
        for (unsigned i = 0; i < n; i++)
            if (strcmp(records[i].name, plant_name((enum plant)plant)) == 0)
                r = &records[i];
        if (r == NULL) {
            printf("open   %-20s no profile provokes it yet: %s\n", plant_name((enum plant)plant),
                   plant_text((enum plant)plant));
            continue;
        }
        wanted++;
        hunt_start((enum plant)plant, r);
        if (++running >= jobs) {
            found += hunt_await();
            running--;
        }
    }
    for (; running != 0; running--)
        found += hunt_await();
    printf("%u of %u planted bugs found\n%u passed, %u failed\n", found, wanted, found,
           wanted - found);
    return found == wanted && wanted != 0;
}
