/* The part of a campaign that a run takes, as tests/fuzz/replay.c takes a part of a corpus:
 * HOLDFAST_CORPUS=I/N in the environment means the cases I, I + N, I + 2 N, ... Without it, all. */
#ifndef HOLDFAST_TESTS_UNIT_SLICE_H
#define HOLDFAST_TESTS_UNIT_SLICE_H

#include "support.h"

#include <stdio.h>
#include <stdlib.h>

struct slice {
    unsigned number, count;
};

static inline struct slice slice_of_run(void)
{
    struct slice slice = {0, 1};
    const char *text = getenv("HOLDFAST_CORPUS");
    char end;
    if (text != NULL)
        assert_int_equal(sscanf(text, "%u/%u%c", &slice.number, &slice.count, &end), 2);
    assert_true(slice.number < slice.count);
    return slice;
}

#endif
