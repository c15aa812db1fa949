/* Run a call in a child process and check that the call aborts. */
#ifndef HOLDFAST_TESTS_UNIT_DIES_H
#define HOLDFAST_TESTS_UNIT_DIES_H

#include "support.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DIES_SAID = 4096 };

/* Call `act` in a child; its first output on the standard error stream goes to ret_said. True: the
 * child aborted. False: it returned from `act`, or ended in another way. */
static inline bool dies(void (*act)(void *ctx), void *ctx, char ret_said[DIES_SAID])
{
    int ends[2], how = 0;
    size_t n = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const struct rlimit none = {0, 0};
        (void)setrlimit(RLIMIT_CORE, &none); /* or a core is left */
        (void)dup2(ends[1], STDERR_FILENO);
        (void)signal(SIGABRT, SIG_DFL);
        act(ctx);
        _exit(0);
    }
    (void)close(ends[1]);
    for (ssize_t got;
         n < DIES_SAID - 1 && (got = read(ends[0], ret_said + n, DIES_SAID - 1 - n)) > 0;)
        n += (size_t)got;
    ret_said[n] = '\0';
    (void)close(ends[0]);
    assert_int_equal(waitpid(child, &how, 0), child);
    return WIFSIGNALED(how) && WTERMSIG(how) == SIGABRT;
}

#endif
