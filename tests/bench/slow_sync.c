/* A slower disk for one program, whatever language it is written in.
 *
 *     slow_sync MICROSECONDS COMMAND [ARGUMENT…]
 *
 * Every call that waits for the disk is held back by so much and then goes on: fsync, fdatasync,
 * sync_file_range, syncfs, msync, and the positioned writes when the file is open with O_DSYNC or
 * the call says RWF_DSYNC. The kernel hands these calls over (seccomp's user notification), so also
 * those count that a program makes without libc, as Go's do. Calls of several threads wait side by
 * side, as on a disk that takes any number at once.
 *
 * Writes that go on while their thread does something else cannot be held back so: io_setup and
 * io_uring_setup fail as if the kernel had neither, and the program waits for its writes. Not seen:
 * write() and writev() on O_DSYNC files. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    WAITING_MAX = 4096, /* threads of the program that wait at once */
    DELAY_MAX_US = 999999,
};

struct held {
    uint64_t id, until_ns;
};

/* A ring: all wait equally long, so the first to come is the first to go. */
static struct held waiting[WAITING_MAX];
static unsigned n_waiting, first_waiting;
static pid_t child;

static void check(bool ok, const char *what)
{
    if (ok)
        return;
    (void)fprintf(stderr, "slow_sync: %s: %s\n", what, strerror(errno)); /* then exit */
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    check(clock_gettime(CLOCK_MONOTONIC, &t) == 0, "clock_gettime");
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

/* Asks to be told of these calls by all threads that this one's program will ever have. Returns
 * the descriptor to listen on. */
static int install_filter(void)
{
#define TELL(call)                                     \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (call), 0, 1), \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF)
#define DENY(call)                                     \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (call), 0, 1), \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS)
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        TELL(SYS_fsync),
        TELL(SYS_fdatasync),
        TELL(SYS_sync_file_range),
        TELL(SYS_syncfs),
        TELL(SYS_msync),
        TELL(SYS_pwrite64),
        TELL(SYS_pwritev),
        TELL(SYS_pwritev2),
        DENY(SYS_io_setup),
        DENY(SYS_io_uring_setup),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof rules / sizeof *rules, .filter = rules};
    check(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "PR_SET_NO_NEW_PRIVS");
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                        &program);
}

/* One byte and the descriptor, from the child to us. */
static void send_fd(int to, int fd)
{
    char byte = 0;
    char control[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec iov = {&byte, 1};
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    struct cmsghdr *header = CMSG_FIRSTHDR(&msg);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    check(sendmsg(to, &msg, 0) == 1, "sendmsg");
}

static int receive_fd(int from)
{
    int fd;
    char byte;
    char control[CMSG_SPACE(sizeof fd)] = {0};
    struct iovec iov = {&byte, 1};
    struct msghdr msg = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    check(recvmsg(from, &msg, MSG_CMSG_CLOEXEC) == 1, "the command did not start");
    check(CMSG_FIRSTHDR(&msg) != NULL, "no descriptor");
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&msg)), sizeof fd);
    return fd;
}

static void run_command(int to, char **command)
{
    check(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0, "PR_SET_PDEATHSIG");
    int fd = install_filter();
    check(fd >= 0, "seccomp");
    send_fd(to, fd);
    (void)close(fd); /* ours is the other end */
    (void)close(to);
    (void)execvp(command[0], command);
    check(false, command[0]);
}

/* Whether each write to this descriptor of that thread waits for the disk. */
static bool is_dsync(uint32_t pid, uint64_t fd)
{
    char path[64], line[128];
    unsigned flags = 0;
    (void)snprintf(path, sizeof path, "/proc/%u/fdinfo/%llu", pid, (unsigned long long)fd);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    while (fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "flags: %o", &flags) == 1)
            break;
    (void)fclose(file); /* only read */
    return (flags & O_DSYNC) != 0;
}

static bool waits_for_disk(const struct seccomp_notif *n)
{
    if (n->data.nr == SYS_pwritev2 && (n->data.args[5] & (RWF_DSYNC | RWF_SYNC)) != 0)
        return true;
    if (n->data.nr == SYS_pwrite64 || n->data.nr == SYS_pwritev || n->data.nr == SYS_pwritev2)
        return is_dsync(n->pid, n->data.args[0]);
    return true;
}

static void let_go(int fd, uint64_t id)
{
    struct seccomp_notif_resp go = {.id = id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
    /* ENOENT: a signal interrupted the call, or its thread ended. */
    check(ioctl(fd, SECCOMP_IOCTL_NOTIF_SEND, &go) == 0 || errno == ENOENT, "NOTIF_SEND");
}

static void on_call(int fd, uint64_t delay_ns)
{
    struct seccomp_notif call = {0};
    if (ioctl(fd, SECCOMP_IOCTL_NOTIF_RECV, &call) != 0) {
        check(errno == ENOENT || errno == EINTR, "NOTIF_RECV");
        return;
    }
    if (!waits_for_disk(&call) || n_waiting == WAITING_MAX) {
        let_go(fd, call.id);
        return;
    }
    waiting[(first_waiting + n_waiting++) % WAITING_MAX] =
        (struct held){.id = call.id, .until_ns = now_ns() + delay_ns};
}

static void supervise(int fd, uint64_t delay_ns)
{
    for (;;) {
        uint64_t now = now_ns();
        while (n_waiting > 0 && waiting[first_waiting].until_ns <= now) {
            let_go(fd, waiting[first_waiting].id);
            first_waiting = (first_waiting + 1) % WAITING_MAX;
            n_waiting--;
        }
        struct timespec left = {0};
        if (n_waiting > 0)
            left.tv_nsec = (long)(waiting[first_waiting].until_ns - now);
        struct pollfd poll = {.fd = fd, .events = POLLIN};
        int n = ppoll(&poll, 1, n_waiting > 0 ? &left : NULL, NULL);
        check(n >= 0 || errno == EINTR, "ppoll");
        if (n > 0 && (poll.revents & POLLIN) != 0)
            on_call(fd, delay_ns);
        else if (n > 0)
            return; /* nobody is left who could call */
    }
}

static void pass_on(int signal)
{
    (void)kill(child, signal); /* it may have ended */
}

int main(int argc, char **argv)
{
    int pair[2], status = 0;
    long delay_us = argc > 2 ? strtol(argv[1], NULL, 10) : -1;
    if (delay_us < 0 || delay_us > DELAY_MAX_US) {
        (void)fprintf(stderr, "usage: %s MICROSECONDS COMMAND [ARGUMENT...]\n", argv[0]);
        return 2;
    }
    check(prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL) == 0, "PR_SET_TIMERSLACK");
    check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0, "socketpair");
    child = fork();
    check(child >= 0, "fork");
    if (child == 0)
        run_command(pair[1], argv + 2);
    (void)close(pair[1]); /* the child's */
    check(signal(SIGTERM, pass_on) != SIG_ERR && signal(SIGINT, pass_on) != SIG_ERR, "signal");
    supervise(receive_fd(pair[0]), (uint64_t)delay_us * 1000);
    while (waitpid(child, &status, 0) < 0)
        check(errno == EINTR, "waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
