/* Runs commands of the command line inside a test, and keeps what they print. */
#ifndef HOLDFAST_TESTS_UNIT_CLI_WITH_CLI_H
#define HOLDFAST_TESTS_UNIT_CLI_WITH_CLI_H

#include "support.h"

/* The output of the last command, on standard output and on standard error. */
extern char shown[8192], err[8192];

/* Run a command, whose name may be several words. Returns the exit code. */
int run(const char *command, int argc, const char *const *argv);

#define RUN(command, ...)                                                \
    run((command), (int)ARRAY_LEN(((const char *const[]){__VA_ARGS__})), \
        (const char *const[]){__VA_ARGS__})

#endif
