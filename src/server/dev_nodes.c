/* The nodes of "holdfast dev". The children are in a process group of their own, so Ctrl-C reaches
 * only the parent, which ends the children in order. The kernel ends the children if the parent
 * dies. */
#include "server/dev.h"
#include "server/server.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RESTART_MS = 2000, STOP_MS = 15000, TAIL_BYTES = 2000 };

static uint64_t now_ms(void)
{
    struct timespec t;
    int rc = clock_gettime(CLOCK_MONOTONIC, &t);
    ASSERT(rc == 0);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Whether a socket can listen at the address; if not, errno tells why. The nodes share ports with
 * SO_REUSEPORT; this socket does not, so it finds a port that is in use. */
static bool can_bind(const char *host, unsigned port)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char service[16];
    int one = 1;
    (void)snprintf(service, sizeof service, "%u", port); /* the text fits */
    if (getaddrinfo(host, service, &hints, &found) != 0) {
        errno = EADDRNOTAVAIL;
        return false;
    }
    int fd = socket(found->ai_family, found->ai_socktype | SOCK_CLOEXEC, found->ai_protocol);
    bool good = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
                bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, 1) == 0;
    int why = errno;
    if (fd >= 0)
        (void)close(fd); /* the socket was used only here */
    freeaddrinfo(found);
    errno = why;
    return good;
}

bool dev_ports_free(const struct dev *dev)
{
    for (unsigned i = 0; i < 2 * dev->n_nodes; i++) {
        unsigned port = dev->port + i / 2 * DEV_PORTS_APART + i % 2;
        const char *host = i % 2 == 0 ? dev->host : "127.0.0.1";
        if (port <= UINT16_MAX && can_bind(host, port))
            continue;
        if (port > UINT16_MAX)
            cli_complain("%s:%u has too few ports above it for %u nodes", dev->host, dev->port,
                         dev->n_nodes);
        else
            cli_complain("%s:%u %s; choose another with -listen ADDRESS:PORT", host, port,
                         errno == EADDRINUSE ? "is taken by another program" : strerror(errno));
        return false;
    }
    return true;
}

void dev_nodes_prepare(struct dev *dev)
{
    static const int ends[] = {SIGTERM, SIGINT, SIGHUP};
    bool good = sigemptyset(&dev->signals) == 0 && sigaddset(&dev->signals, SIGCHLD) == 0;
    for (size_t i = 0; i < ARRAY_LEN(ends); i++)
        if (!ending_is_ignored(ends[i]))
            good = good && sigaddset(&dev->signals, ends[i]) == 0;
    good = good && sigprocmask(SIG_BLOCK, &dev->signals, NULL) == 0;
    ASSERT(good);
    (void)signal(SIGPIPE, SIG_IGN); /* a closed output must not end us early */
}

static char *node_file(struct dev *dev, unsigned node, const char *name)
{
    return arena_format(&dev->cli->arena, "%s/node%u/%s", dev->dir, node + 1, name);
}

/* Replace the child process by a node. */
static _Noreturn void become_node(const struct dev *dev, const char *config, const char *log,
                                  pid_t parent)
{
    int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    bool good = in >= 0 && out >= 0 && dup2(in, STDIN_FILENO) >= 0 &&
                dup2(out, STDOUT_FILENO) >= 0 && dup2(out, STDERR_FILENO) >= 0 &&
                setpgid(0, 0) == 0 && prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 &&
                signal(SIGPIPE, SIG_DFL) != SIG_ERR &&
                sigprocmask(SIG_UNBLOCK, &dev->signals, NULL) == 0 && getppid() == parent;
    if (good)
        (void)execl("/proc/self/exe", "holdfast", "server", "-config", config,
                    (char *)NULL); /* execv returns only when it has failed */
    _exit(EXIT_FAILURE);
}

static bool start_node(struct dev *dev, unsigned i)
{
    const char *config = node_file(dev, i, "holdfast.json"), *log = node_file(dev, i, "log");
    pid_t parent = getpid(), pid = config != NULL && log != NULL ? fork() : -1;
    if (pid < 0) {
        cli_complain("node%u cannot be started: %s", i + 1, strerror(errno));
        return false;
    }
    if (pid == 0)
        become_node(dev, config, log, parent);
    dev->nodes[i] = (struct dev_node){.pid = pid};
    return true;
}

bool dev_nodes_start(struct dev *dev)
{
    for (unsigned i = 0; i < dev->n_nodes; i++)
        if (!start_node(dev, i))
            return false;
    return true;
}

/* Print the last lines of a node's log. */
static void show_log(struct dev *dev, unsigned node)
{
    char text[TAIL_BYTES];
    const char *path = node_file(dev, node, "log");
    FILE *log = path != NULL ? fopen(path, "rbe") : NULL;
    if (log == NULL)
        return;
    if (fseek(log, -(long)sizeof text, SEEK_END) != 0)
        rewind(log);
    size_t n = fread(text, 1, sizeof text, log);
    (void)fclose(log); /* the file was only read */
    cli_put(stderr, bytes_of(text, n));
}

static void tell_end(struct dev *dev, unsigned node, int how)
{
    char why[64];
    if (WIFSIGNALED(how))
        (void)snprintf(why, sizeof why, "was ended by signal %d",
                       WTERMSIG(how)); /* the text fits */
    else
        (void)snprintf(why, sizeof why, "has ended with code %d",
                       WEXITSTATUS(how)); /* the text fits */
    cli_say("holdfast dev: node%u %s; its log is %s/node%u/log%s\n", node + 1, why, dev->dir,
            node + 1, dev->n_nodes > 1 ? "; it is started again" : "");
}

/* Handle the end of a child. False: the only node has ended. */
static bool reap(struct dev *dev)
{
    int how;
    for (pid_t pid; (pid = waitpid(-1, &how, WNOHANG)) > 0;)
        for (unsigned i = 0; i < dev->n_nodes; i++) {
            if (dev->nodes[i].pid != pid)
                continue;
            dev->nodes[i] = (struct dev_node){.restart_ms = now_ms() + RESTART_MS};
            tell_end(dev, i, how);
            if (dev->n_nodes == 1) {
                show_log(dev, i);
                return false;
            }
        }
    return true;
}

bool dev_nodes_watch(struct dev *dev, uint64_t wait_ms, bool *ret_failed)
{
    struct timespec wait = {.tv_sec = (time_t)(wait_ms / 1000),
                            .tv_nsec = (long)(wait_ms % 1000) * 1000000};
    int number = sigtimedwait(&dev->signals, NULL, &wait);
    *ret_failed = number == SIGCHLD && !reap(dev);
    if (number > 0 && number != SIGCHLD)
        return false;
    for (unsigned i = 0; i < dev->n_nodes && !*ret_failed; i++)
        if (dev->nodes[i].pid == 0 && now_ms() >= dev->nodes[i].restart_ms && !start_node(dev, i))
            dev->nodes[i].restart_ms = now_ms() + RESTART_MS;
    return !*ret_failed;
}

static bool any_left(const struct dev *dev)
{
    for (unsigned i = 0; i < dev->n_nodes; i++)
        if (dev->nodes[i].pid != 0)
            return true;
    return false;
}

void dev_nodes_stop(struct dev *dev)
{
    uint64_t deadline_ms = now_ms() + STOP_MS;
    for (unsigned i = 0; i < dev->n_nodes; i++)
        if (dev->nodes[i].pid != 0)
            (void)kill(dev->nodes[i].pid, SIGTERM); /* our child until waitpid */
    while (any_left(dev)) {
        struct timespec wait = {.tv_nsec = 20 * 1000000};
        (void)sigtimedwait(&dev->signals, NULL, &wait); /* a second signal changes nothing */
        for (unsigned i = 0; i < dev->n_nodes; i++) {
            pid_t pid = dev->nodes[i].pid;
            if (pid != 0 && waitpid(pid, NULL, WNOHANG) == pid)
                dev->nodes[i].pid = 0;
            else if (pid != 0 && now_ms() >= deadline_ms)
                (void)kill(pid, SIGKILL); /* a second SIGKILL changes nothing */
        }
    }
}
