/* The memory holder: clone(2) with CLONE_VM alone, so that the process shares the memory and has
 * its own table of open files.
 *
 * Until it rests, the holder runs beside the thread that started it, with the same thread-local
 * storage. So that thread waits for it, and the holder calls the system without a library function
 * that writes to such storage on success. */
#include "server/memory_holder.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
enum { SANITIZED = true };
#else
enum { SANITIZED = false };
#endif

enum { STACK_BYTES = 16 * 1024, START_S = 5 };

/* One holder in a process. */
static struct holder {
    _Alignas(16) uint8_t stack[STACK_BYTES];
    pid_t server, pid; /* pid 0: there is no holder */
    sem_t ended_start;
    bool rests; /* the start succeeded; valid after ended_start */
} holder;

/* Returns a descriptor that becomes readable when all threads of the server have ended; negative:
 * none. The signal of the server's death (PR_SET_PDEATHSIG) will not do: the end of the thread that
 * started the holder sends it, while other threads may still have to close the connections. */
static int prepare_to_rest(void)
{
    /* A copy of a descriptor would keep its connection open. */
    if (syscall(SYS_close_range, 0, ~0U, 0) != 0)
        return -1;
    (void)prctl(PR_SET_NAME, "hf-memory"); /* the name of a process is only a label */
    return (int)syscall(SYS_pidfd_open, holder.server, 0);
}

static int hold(void *unused)
{
    (void)unused;
    struct pollfd server = {.fd = prepare_to_rest(), .events = POLLIN};
    bool rests = server.fd >= 0;
    holder.rests = rests;
    (void)sem_post(&holder.ended_start); /* cannot fail: nothing else posts */
    if (rests) /* all signals are blocked: the call returns when the server has ended */
        (void)syscall(SYS_ppoll, &server, 1, NULL, NULL);
    return 0;
}

/* A tool that runs the program on a processor of its own making has no clone3 and stops at a clone
 * that shares memory. The kernel has clone3 and refuses these arguments with EINVAL. */
static bool kernel_clones(void)
{
    return syscall(SYS_clone3, NULL, 0) != 0 && errno == EINVAL;
}

static bool start_ended(void)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_MONOTONIC, &until); /* cannot fail: the kernel has the clock */
    until.tv_sec += START_S;
    while (sem_clockwait(&holder.ended_start, CLOCK_MONOTONIC, &until) != 0)
        if (errno != EINTR)
            return false;
    return holder.rests;
}

enum status memory_holder_start(void)
{
    sigset_t all, before;
    ASSERT(holder.pid == 0);
    ASSERT(getpid() == gettid());
    if (SANITIZED || !kernel_clones())
        return ST_UNSUPPORTED;
    if (sem_init(&holder.ended_start, 0, 0) != 0)
        return ST_NOMEM;
    holder.server = getpid();
    (void)sigfillset(&all); /* cannot fail: valid pointer */
    /* The holder inherits the mask. It cannot fail: the arguments are valid. */
    (void)sigprocmask(SIG_SETMASK, &all, &before);
    int pid = clone(hold, holder.stack + STACK_BYTES, CLONE_VM, NULL);
    (void)sigprocmask(SIG_SETMASK, &before, NULL); /* cannot fail: `before` is such a mask */
    if (pid < 0)
        return ST_NOMEM;
    holder.pid = pid;
    if (start_ended())
        return ST_OK;
    memory_holder_stop();
    return ST_UNSUPPORTED;
}

void memory_holder_stop(void)
{
    if (holder.pid == 0)
        return;
    ASSERT(holder.pid > 0);
    (void)kill(holder.pid, SIGKILL); /* fails when the holder has ended */
    while (waitpid(holder.pid, NULL, __WALL) < 0 && errno == EINTR)
        continue;
    holder.pid = 0;
}
