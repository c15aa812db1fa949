/* One process of a job:
 *
 *   started ──end──▶ ended ──▶ its group is killed, its output read to the end
 *      │ cancel, end of the time, of the lease or of the worker
 *      ▼
 *   interrupted (SIGINT to the group) ──end──▶ ended
 *      │ force-cancel, or the grace is over
 *      ▼
 *   killed (SIGKILL to the group) ──▶ ended */
#include "worker/worker_internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    LOOK_MS = 500,
    LINGER_MS = 2000,    /* for output of processes that left the group */
    GRACE_MS = 30000,    /* from SIGINT to SIGKILL after the end of the time */
    LOST_MS_MAX = 10000, /* the same before the end of the lease */
    STRAYS_ROUNDS = 100, /* of killing what the process left behind */
    PART_BYTES = 32 * 1024,
    ARGS_MAX = 1024,
};

struct process {
    struct job *job;
    pid_t pid;
    int pidfd, out, err; /* -1: closed */
    struct buf *capture;
    size_t max;
    bool too_much, interrupted, killed;
    uint64_t interrupted_ms, ended_ms;
};

static void close_fd(int *fd)
{
    if (*fd >= 0)
        (void)close(*fd); /* read only, or the child has its own */
    *fd = -1;
}

/* The time before the end of the lease that a process gets to end by itself. */
static uint64_t lost_ms(void)
{
    return MIN((uint64_t)worker.lease_s * 1000 / 6, (uint64_t)LOST_MS_MAX);
}

bool job_must_stop(struct job *job)
{
    if (job->order == ORDER_KILL)
        job->stop = MAX(job->stop, STOP_KILL);
    if (job_is_lost(job, lost_ms()))
        job->stop = STOP_LOST;
    if (job->stop != STOP_NONE)
        return true;
    if (job->order == ORDER_CANCEL)
        job->stop = STOP_CANCEL;
    else if (client_mono_ms() >= job->end_ms)
        job->stop = STOP_TIMEOUT;
    else if (client_is_ending())
        job->stop = STOP_END;
    return job->stop != STOP_NONE;
}

/* How long an interrupted process may go on. */
static uint64_t grace_ms(const struct job *job)
{
    switch (job->stop) {
    case STOP_CANCEL:
        return client_is_ending() ? (uint64_t)worker.config.stop_s * 1000 : UINT64_MAX;
    case STOP_END: return (uint64_t)worker.config.stop_s * 1000;
    case STOP_TIMEOUT: return GRACE_MS;
    case STOP_LOST: return lost_ms();
    default: return 0;
    }
}

static void send_signals(struct process *p)
{
    uint64_t now_ms = client_mono_ms();
    if (!job_must_stop(p->job) || p->killed)
        return;
    if (!p->interrupted && p->job->stop != STOP_KILL) {
        p->interrupted = true;
        p->interrupted_ms = now_ms;
        (void)kill(-p->pid, SIGINT); /* the group may have ended already */
        return;
    }
    if (p->interrupted && now_ms - p->interrupted_ms < grace_ms(p->job))
        return;
    p->killed = true;
    (void)kill(-p->pid, SIGKILL); /* the group may have ended already */
}

/* Output */

static void take(struct process *p, bool is_out, struct bytes part)
{
    if (!is_out || p->capture == NULL) {
        job_log_add(p->job, part);
    } else if (p->capture->len + part.len > p->max) {
        p->too_much = true; /* the rest is read and dropped: the process shall end by itself */
    } else {
        buf_add(p->capture, part);
    }
}

static void read_part(struct process *p, int *fd)
{
    uint8_t part[PART_BYTES];
    ssize_t n = read(*fd, part, sizeof part);
    if (n > 0)
        take(p, fd == &p->out, bytes_of(part, (size_t)n));
    else if (n == 0 || (errno != EINTR && errno != EAGAIN))
        close_fd(fd);
}

/* One look at everything. */
static void turn(struct process *p)
{
    uint64_t count;
    struct pollfd fds[4] = {{.fd = p->out, .events = POLLIN},
                            {.fd = p->err, .events = POLLIN},
                            {.fd = p->ended_ms == 0 ? p->pidfd : -1, .events = POLLIN},
                            {.fd = p->job->wake, .events = POLLIN}};
    int n = poll(fds, 4, LOOK_MS);
    if (n > 0 && fds[3].revents != 0)
        (void)!read(p->job->wake, &count, sizeof count); /* the counter is 0 then */
    if (n > 0 && fds[0].revents != 0)
        read_part(p, &p->out);
    if (n > 0 && fds[1].revents != 0)
        read_part(p, &p->err);
    if (n > 0 && fds[2].revents != 0) {
        p->ended_ms = client_mono_ms();
        (void)kill(-p->pid, SIGKILL); /* the rest of the group: its leader is not reaped yet */
    }
    if (p->ended_ms == 0)
        send_signals(p);
}

/* Ending */

/* The parent of a process, by /proc/PID/stat: "PID (NAME) STATE PARENT"; 0: it is gone. */
static pid_t parent_of(pid_t pid)
{
    CLEANUP(buf_done) struct buf text = {0};
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if (client_read_file(path, 4096, &text) != ST_OK)
        return 0;
    buf_add_u8(&text, 0);
    const char *end = buf_status(&text) == ST_OK ? strrchr((const char *)text.data, ')') : NULL;
    return end != NULL && strlen(end) > 4 ? (pid_t)strtol(end + 4, NULL, 10) : 0;
}

/* Kill and reap the children of this process. Those whose own parent ended are children of it too,
 * for it is a subreaper. Returns how many there were. */
static unsigned kill_children(void)
{
    unsigned n = 0;
    DIR *dir = opendir("/proc");
    for (const struct dirent *e; dir != NULL && (e = readdir(dir)) != NULL;) {
        pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
        if (pid <= 0 || parent_of(pid) != getpid())
            continue;
        (void)kill(pid, SIGKILL); /* the child may have ended already */
        (void)waitpid(pid, NULL, 0);
        n++;
    }
    if (dir != NULL)
        (void)closedir(dir); /* the descriptor was only read */
    return n;
}

static int process_reap(struct process *p)
{
    int status = 0;
    while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    for (unsigned i = 0; i < STRAYS_ROUNDS && kill_children() != 0; i++)
        continue;
    close_fd(&p->pidfd);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static int process_watch(struct process *p)
{
    while (p->ended_ms == 0)
        turn(p);
    int code = process_reap(p); /* strays are gone, so the pipes end */
    while ((p->out >= 0 || p->err >= 0) && client_mono_ms() < p->ended_ms + LINGER_MS)
        turn(p);
    close_fd(&p->out);
    close_fd(&p->err);
    return code;
}

/* Starting */

static enum status process_start(struct process *p, const char *const *argv, struct reason *why)
{
    char *words[ARGS_MAX + 1] = {0};
    int out[2] = {-1, -1}, err[2] = {-1, -1};
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    size_t n = 0;
    for (; argv[n] != NULL && n < ARGS_MAX; n++)
        words[n] = (char *)(uintptr_t)argv[n];
    enum status st = ST_IO;
    if (argv[n] != NULL)
        reason_set(why, "more than %d arguments", ARGS_MAX);
    else if (nothing < 0 || pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0)
        reason_set(why, "no descriptors: %s", strerror(errno));
    else
        st = client_spawn(&(struct spawn){.path = argv[0],
                                          .dir = p->job->work,
                                          .user = "",
                                          .argv = words,
                                          .env = p->job->env,
                                          .in = nothing,
                                          .out = out[1],
                                          .err = p->capture != NULL ? err[1] : out[1]},
                          &p->pid, why);
    close_fd(&nothing);
    close_fd(&out[1]);
    close_fd(&err[1]);
    p->out = out[0];
    p->err = err[0];
    if (st == ST_OK)
        p->pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0);
    if (st == ST_OK && p->pidfd < 0) {
        reason_set(why, "pidfd_open: %s", strerror(errno));
        (void)kill(-p->pid, SIGKILL); /* a child of ours */
        (void)process_reap(p);
        st = ST_IO;
    }
    if (st != ST_OK) {
        close_fd(&p->out);
        close_fd(&p->err);
    }
    return st;
}

enum status worker_process(struct job *job, const char *const *argv, struct buf *capture,
                           size_t max, int *ret_code, struct reason *why)
{
    struct process p = {.job = job, .pidfd = -1, .capture = capture, .max = max};
    if (job_must_stop(job))
        return ST_CLOSED;
    TRY(process_start(&p, argv, why));
    *ret_code = process_watch(&p);
    if (p.too_much) {
        reason_set(why, "%s wrote more than %zu bytes", argv[1], max);
        return ST_TOO_BIG;
    }
    return capture != NULL ? buf_status(capture) : ST_OK;
}
