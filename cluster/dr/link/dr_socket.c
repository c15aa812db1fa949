#include "cluster/dr/link/dr_conn_internal.h"
#include "cluster/mesh/mesh.h"
#include "text/address.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { ENDPOINTS_MAX = 8 }; /* most addresses of one host that are tried */

int64_t dr_conn_now_ms(void)
{
    struct timespec t = {0};
    (void)clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail: the kernel has the clock */
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Take note of a wake-up; the eventfd counts until it is read. */
static void take_wake(struct dr_conn *conn)
{
    uint64_t count;
    if (read(conn->wake_fd, &count, sizeof count) == (ssize_t)sizeof count)
        conn->woken = true;
}

enum status dr_socket_wait(struct dr_conn *conn, short events, int64_t until_ms)
{
    struct pollfd fds[2] = {{.fd = conn->fd, .events = events},
                            {.fd = conn->wake_fd, .events = POLLIN}};
    ASSERT(conn->fd >= 0);
    for (;;) {
        if (atomic_load(&conn->cancelled))
            return dr_conn_note(conn, ST_CLOSED, "cancelled");
        int64_t left_ms = until_ms - dr_conn_now_ms();
        int n = poll(fds, 2, (int)MIN(MAX(left_ms, 0), INT_MAX));
        if (n < 0 && errno != EINTR)
            return dr_conn_note(conn, ST_IO, "the socket cannot be polled");
        if (n > 0 && fds[1].revents != 0)
            take_wake(conn);
        else if (n > 0)
            return ST_OK;
        else if (n == 0 && left_ms <= 0)
            return ST_TIMEOUT;
        if (conn->woken && !atomic_load(&conn->cancelled))
            return ST_OK;
    }
}

static enum status connected(struct dr_conn *conn)
{
    int err = 0;
    socklen_t len = sizeof err;
    if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &err, &len) != 0)
        err = errno;
    if (err == 0)
        return ST_OK;
    reason_set(&conn->error, "connecting failed: %s", strerror(err)); /* of the last address */
    return ST_IO;
}

static enum status connect_one(struct dr_conn *conn, const struct addrinfo *to, int64_t until_ms)
{
    int type = to->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC;
    ASSERT(conn->fd < 0);
    conn->fd = socket(to->ai_family, type, to->ai_protocol);
    if (conn->fd < 0 || mesh_tune_socket(conn->fd, DR_CONN_STUCK_MS) != 0) {
        reason_set(&conn->error, "no socket: %s", strerror(errno));
        return ST_IO;
    }
    if (connect(conn->fd, to->ai_addr, to->ai_addrlen) == 0)
        return ST_OK;
    if (errno != EINPROGRESS) {
        reason_set(&conn->error, "connecting failed: %s", strerror(errno));
        return ST_IO;
    }
    for (;;) {
        struct pollfd now = {.fd = conn->fd, .events = POLLOUT};
        enum status st = dr_socket_wait(conn, POLLOUT, until_ms);
        if (st == ST_TIMEOUT)
            reason_set(&conn->error, "connecting timed out");
        TRY(st);
        if (poll(&now, 1, 0) == 1) /* else only dr_conn_wake was called */
            return connected(conn);
    }
}

static void drop_socket(struct dr_conn *conn)
{
    if (conn->fd >= 0)
        (void)close(conn->fd); /* nothing was written to the socket */
    conn->fd = -1;
}

enum status dr_socket_connect(struct dr_conn *conn, const char *address, int64_t until_ms)
{
    char host[TEXT_HOST_MAX], service[8];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV}, *found;
    enum status st = ST_IO;
    uint16_t port;
    unsigned n = 0, left;
    if (text_address_split(address, host, &port) != ST_OK)
        return dr_conn_note(conn, ST_INVALID, "the address is not of the form host:port");
    int len = snprintf(service, sizeof service, "%u", (unsigned)port);
    ASSERT(len > 0 && (size_t)len < sizeof service);
    int err = getaddrinfo(host, service, &hints, &found);
    if (err != 0) {
        reason_set(&conn->error, "the host name was not found: %s", gai_strerror(err));
        return ST_IO;
    }
    for (const struct addrinfo *at = found; at != NULL && n < ENDPOINTS_MAX; at = at->ai_next)
        n++;
    left = n;
    for (const struct addrinfo *at = found; left > 0; at = at->ai_next, left--) {
        int64_t now_ms = dr_conn_now_ms();
        /* Each address gets its share of the time that is left. */
        st = connect_one(conn, at, now_ms + MAX(until_ms - now_ms, 0) / left);
        if (st == ST_OK || st == ST_CLOSED)
            break;
        drop_socket(conn);
    }
    freeaddrinfo(found);
    return st;
}
