/* `sim --self-test`: tests of the simulator's own parts. */
#ifndef HOLDFAST_SIM_SELFTEST_H
#define HOLDFAST_SIM_SELFTEST_H

#include <stdio.h>
#include <stdlib.h>

#define CHECK(condition)                                                              \
    do {                                                                              \
        if (!(condition)) {                                                           \
            fprintf(stderr, "self-test %s:%d: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                                  \
        }                                                                             \
    } while (0)

unsigned selftest_core(void); /* each returns how many tests passed, or exits with status 1 */
unsigned selftest_fs(void);
unsigned selftest_lin(void);
unsigned selftest_front(void);
unsigned selftest_trail(void);
unsigned selftest_wal(void);

#endif
