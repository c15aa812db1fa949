/* Notifications to systemd, over the datagram socket it names in $NOTIFY_SOCKET (sd_notify(3)).
 *
 * READY=1 is sent when clients are served, RELOADING=1 and READY=1 around a reload, STOPPING=1 when
 * a signal ends the process. WATCHDOG=1 is sent after every round in which each worker and the
 * node's thread have run a task. A new round begins only after the previous round is complete, so
 * one thread that hangs stops the notifications, and systemd's watchdog acts. */
#include "base/trace.h"
#include "server/server.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { SEND_TIMEOUT_S = 5, ROUNDS_A_WATCHDOG = 4, WATCHDOG_MS_MAX = 24 * 3600 * 1000 };

/* The socket's address: a path, or an abstract name behind '@'. */
static bool address_of(const char *name, struct sockaddr_un *ret_address, socklen_t *ret_len)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    size_t len = strlen(name);
    if ((name[0] != '/' && name[0] != '@') || len < 2 || len >= sizeof a.sun_path)
        return false;
    memcpy(a.sun_path, name, len);
    if (name[0] == '@')
        a.sun_path[0] = '\0';
    *ret_address = a;
    *ret_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len + (name[0] == '/'));
    return true;
}

static bool send_to(const char *name, const char *text)
{
    struct sockaddr_un address;
    socklen_t address_len;
    struct timeval patience = {.tv_sec = SEND_TIMEOUT_S};
    if (!address_of(name, &address, &address_len)) {
        errno = EINVAL;
        return false;
    }
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience,
                     sizeof patience); /* on failure sendto may block */
    size_t len = strlen(text);
    ssize_t sent;
    /* EINTR also comes without a signal: newer versions of libuv use io_uring, whose work
     * interrupts system calls of this thread. */
    do
        sent = sendto(fd, text, len, MSG_NOSIGNAL, (struct sockaddr *)&address, address_len);
    while (sent < 0 && errno == EINTR);
    int why = errno;
    (void)close(fd); /* the datagram was already sent, or failed */
    errno = why;
    return sent == (ssize_t)len;
}

static void tell(const char *text)
{
    const char *name = getenv("NOTIFY_SOCKET");
    if (name != NULL && name[0] != '\0' && !send_to(name, text))
        trace(TRACE_WARN, "main", "systemd was not told %.16s: %s", text, strerrordesc_np(errno));
}

static uint64_t watchdog_ms(void)
{
    const char *text = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    char *end;
    if (text == NULL || text[0] < '0' || text[0] > '9')
        return 0;
    if (pid != NULL && strtoimax(pid, NULL, 10) != getpid())
        return 0; /* the variable is meant for another process */
    uintmax_t ms = strtoumax(text, &end, 10) / 1000;
    return *end == '\0' ? MIN(ms, (uintmax_t)WATCHDOG_MS_MAX) : 0;
}

static void on_worker_ping(struct env_task *task)
{
    struct worker *w = CONTAINER_OF(task, struct worker, ping_task);
    unsigned before = atomic_fetch_sub(&w->server->watchdog.unanswered, 1);
    ASSERT(before > 0);
}

static void on_node_ping(struct env_task *task)
{
    struct watchdog *dog = CONTAINER_OF(task, struct watchdog, node_task);
    unsigned before = atomic_fetch_sub(&dog->unanswered, 1);
    ASSERT(before > 0);
}

static void ask_threads(struct server *s)
{
    struct watchdog *dog = &s->watchdog;
    ASSERT(dog->unanswered == 0);
    dog->unanswered = s->n_workers + 1;
    for (unsigned i = 0; i < s->n_workers; i++) {
        s->workers[i].ping_task = (struct env_task){.run = on_worker_ping};
        env_post(s->workers[i].env, &s->workers[i].ping_task);
    }
    dog->node_task = (struct env_task){.run = on_node_ping};
    env_post(node_env(s->node), &dog->node_task);
}

static void on_round(struct env_timer *timer)
{
    struct server *s = CONTAINER_OF(timer, struct server, watchdog.timer);
    ASSERT(s->watchdog.period_ms > 0 && !s->host.leaving);
    if (s->watchdog.unanswered == 0) {
        tell("WATCHDOG=1");
        ask_threads(s);
    }
    env_timer_set(s->env, timer, env_mono_ms(s->env) + s->watchdog.period_ms);
}

void notify_joined(struct server *s)
{
    ASSERT(s->serving && s->ready);
    if (!s->host.leaving)
        tell("STATUS=Serving");
}

void notify_serving(struct server *s)
{
    ASSERT(!s->serving && s->n_workers > 0);
    s->serving = true;
    if (s->host.leaving) /* a signal came first: STOPPING=1 was sent */
        return;
    tell(s->ready ? "READY=1\nSTATUS=Serving"
                  : "READY=1\nSTATUS=Waiting for a cluster to be a member of");
    uint64_t limit_ms = watchdog_ms();
    if (limit_ms == 0)
        return;
    s->watchdog.period_ms = MAX(limit_ms / ROUNDS_A_WATCHDOG, (uint64_t)1);
    s->watchdog.timer = (struct env_timer){.fire = on_round};
    env_timer_set(s->env, &s->watchdog.timer, env_mono_ms(s->env) + s->watchdog.period_ms);
}

/* Before the node serves, a reload sends nothing to systemd: READY=1 would say that the node
 * serves. */
void notify_reload(struct server *s)
{
    char text[64];
    (void)snprintf(text, sizeof text, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64,
                   env_mono_ns(s->env) / 1000); /* the text fits */
    if (s->serving)
        tell(text);
    reload_all(s);
    if (s->serving)
        tell("READY=1");
}

void notify_stopping(struct server *s)
{
    env_timer_stop(s->env, &s->watchdog.timer);
    tell("STOPPING=1\nSTATUS=Stopping");
}
