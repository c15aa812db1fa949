/* Many runs, each in a process of its own: an assertion or a crash of the program fails one run. */
#ifndef HOLDFAST_SIM_CAMPAIGN_H
#define HOLDFAST_SIM_CAMPAIGN_H

#include "cluster.h"

enum { TEXT_MAX = 1024 };

/* What one run came to. */
struct verdict {
    bool passed;
    bool too_long;          /* ended by the limit of processor time */
    struct outcome outcome; /* when it passed */
    char text[TEXT_MAX];    /* when it did not */
    double seconds;
};

/* Run a seed in a child process. `plant` is 1 + a planted bug; 0: none. Blocks. */
void run_in_child(uint64_t seed, const char *profile, unsigned plant, struct verdict *ret_verdict);

/* Run a seed in a new process, with other addresses. false: it failed. */
bool run_anew(uint64_t seed, const char *profile, const char *plant, uint64_t *ret_hash);

struct campaign {
    uint64_t first, count;
    const char *profile;
    unsigned plant;      /* 1 + a planted bug, in every run; 0: none */
    unsigned jobs;       /* at once */
    unsigned twice_each; /* every so many seeds run twice and are compared; 0: none */
    bool need_coverage;  /* every branch of recovery must have been reached */
};
/* Prints a summary and the seeds that failed. The number of failed runs. */
unsigned campaign_run(const struct campaign *campaign);
/* Seeds that once found something: lines "SEED PROFILE cause". As campaign_run. */
unsigned seeds_run(const char *path);
/* Every count-th, from that with the number on. */
struct slice {
    unsigned number, count; /* number < count */
};

/* Each planted bug of the slice, or `only`, must be found; `jobs` are looked for at once. true when
 * all were found. */
bool planted_run(const char *path, const char *only, struct slice slice, unsigned jobs);

#endif
