/* The end of the process by a signal: a line on standard error names the signal. */
#include "base/trace.h"
#include "server/server.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

/* Handler for signals during start, and for signals that a fault of the process raised. Only
 * functions that are allowed in a signal handler are called. */
static void on_fatal_signal(int number)
{
    const char *name = sigabbrev_np(number);
    const char *words[] = {"holdfast: ended by SIG", name != NULL ? name : "?", "\n"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (write(STDERR_FILENO, words[i], strlen(words[i])) < 0)
            break;       /* standard error is the last place to report */
    (void)raise(number); /* blocked until this handler returns; SA_RESETHAND restored the default */
}

void ending_say_signals(void)
{
    static const int numbers[] = {SIGTERM, SIGINT,  SIGHUP,  SIGQUIT,  SIGABRT, SIGSEGV,
                                  SIGBUS,  SIGILL,  SIGFPE,  SIGSYS,   SIGTRAP, SIGALRM,
                                  SIGUSR1, SIGUSR2, SIGXCPU, SIGVTALRM};
    struct sigaction ours = {.sa_handler = on_fatal_signal, .sa_flags = (int)SA_RESETHAND};
    struct sigaction now;
    (void)sigemptyset(&ours.sa_mask); /* cannot fail */
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        if (sigaction(numbers[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL)
            (void)sigaction(numbers[i], &ours,
                            NULL);  /* on failure the signal ends us without a line */
    (void)signal(SIGXFSZ, SIG_IGN); /* the write says that it failed */
    (void)signal(SIGPIPE, SIG_IGN); /* the write says that it failed */
}

bool ending_is_ignored(int number)
{
    struct sigaction now;
    return sigaction(number, NULL, &now) == 0 && now.sa_handler == SIG_IGN;
}
