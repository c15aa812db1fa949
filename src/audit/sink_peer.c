#include "audit/sink_peer.h"
#include "text/address.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

enum { PEER_LOST_TIMEOUTS = 15, PEER_LOST_MS_MAX = 30000 };

int sink_peer_lost_ms(const struct sink *sink)
{
    int64_t timeout_ms = sink->options->write_timeout_ms;
    ASSERT(timeout_ms > 0);
    return (int)MIN(timeout_ms * PEER_LOST_TIMEOUTS, (int64_t)PEER_LOST_MS_MAX);
}

static enum status fail(const char *address, const char *what, struct reason *why)
{
    reason_set(why, "%s: %s", address, what);
    return ST_IO;
}

/* Wait for the end of a connection's start. */
static enum status await_start(const struct sink *sink, int fd, int64_t until_ms,
                               const char *address, struct reason *why)
{
    int err = 0;
    socklen_t len = sizeof err;
    enum status st = sink_wait(sink, fd, POLLOUT, until_ms);
    ASSERT(fd >= 0);
    if (st == ST_TIMEOUT)
        (void)fail(address, "no answer to the connection", why); /* `st` says more */
    TRY(st);
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len) != 0)
        err = errno;
    return err == 0 ? ST_OK : fail(address, strerror(err), why);
}

/* One address of a receiver, and the time for it. */
struct attempt {
    const struct addrinfo *to;
    const char *address;
    int64_t share_ms;
};

static enum status connect_to(const struct sink *sink, const struct attempt *attempt, int *ret_fd,
                              struct reason *why)
{
    const struct addrinfo *to = attempt->to;
    const char *address = attempt->address;
    int lost_ms = sink_peer_lost_ms(sink), on = 1;
    int fd = socket(to->ai_family, to->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    ASSERT(to->ai_addr != NULL);
    if (fd < 0)
        return fail(address, strerror(errno), why);
    if (to->ai_family != AF_UNIX && to->ai_socktype == SOCK_STREAM) {
        /* without these a lost peer is noticed later */
        (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &lost_ms, sizeof lost_ms);
        (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    enum status st = ST_OK;
    /* a unix stream whose backlog is full says EAGAIN and connects later by another attempt only */
    if (connect(fd, to->ai_addr, to->ai_addrlen) != 0)
        st = errno == EINPROGRESS
                 ? await_start(sink, fd, sink_now_ms() + attempt->share_ms, address, why)
                 : fail(address, strerror(errno), why);
    if (st == ST_OK)
        *ret_fd = fd;
    else
        (void)close(fd); /* nothing was sent */
    return st;
}

static enum status connect_unix(const struct sink *sink, int type, const char *path, int *ret_fd,
                                struct reason *why)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    struct addrinfo to = {.ai_family = AF_UNIX,
                          .ai_socktype = type,
                          .ai_addr = (struct sockaddr *)(void *)&name,
                          .ai_addrlen = sizeof name};
    if (strlen(path) >= sizeof name.sun_path)
        return fail(path, "the path is too long", why);
    memcpy(name.sun_path, path, strlen(path));
    ASSERT(name.sun_path[sizeof name.sun_path - 1] == '\0');
    const struct attempt attempt = {&to, path, sink->options->write_timeout_ms};
    return connect_to(sink, &attempt, ret_fd, why);
}

enum status sink_peer_connect_any(const struct sink *sink, const struct addrinfo *all,
                                  const char *address, int *ret_fd, struct reason *why)
{
    int64_t until_ms = sink_now_ms() + sink->options->write_timeout_ms;
    enum status st = ST_TIMEOUT;
    int64_t left = 0;
    ASSERT(all != NULL && *ret_fd < 0);
    for (const struct addrinfo *one = all; one != NULL; one = one->ai_next)
        left++;
    for (const struct addrinfo *one = all; one != NULL; one = one->ai_next) {
        ASSERT(left > 0);
        struct attempt attempt = {one, address, MAX((until_ms - sink_now_ms()) / left, INT64_C(0))};
        st = connect_to(sink, &attempt, ret_fd, why);
        if (st != ST_IO && st != ST_TIMEOUT)
            break;
        left--;
    }
    return st;
}

static enum status connect_host(const struct sink *sink, int type, const char *address, int *ret_fd,
                                struct reason *why)
{
    char host[TEXT_HOST_MAX], service[8];
    uint16_t port = 0;
    struct addrinfo *all = NULL, hints = {.ai_socktype = type, .ai_flags = AI_NUMERICSERV};
    ASSERT(type == SOCK_STREAM || type == SOCK_DGRAM);
    if (text_address_split(address, host, &port) != ST_OK)
        return fail(address, "is not HOST:PORT", why);
    (void)snprintf(service, sizeof service, "%u", port); /* fits */
    int err = getaddrinfo(host, service, &hints, &all);
    if (err != 0)
        return fail(address, gai_strerror(err), why);
    enum status st = sink_peer_connect_any(sink, all, address, ret_fd, why);
    freeaddrinfo(all);
    return st;
}

enum status sink_peer_connect(const struct sink *sink, enum audit_socket type, const char *address,
                              int *ret_fd, struct reason *why)
{
    switch (type) {
    case AUDIT_TCP: return connect_host(sink, SOCK_STREAM, address, ret_fd, why);
    case AUDIT_UDP: return connect_host(sink, SOCK_DGRAM, address, ret_fd, why);
    case AUDIT_UNIX: return connect_unix(sink, SOCK_STREAM, address, ret_fd, why);
    case AUDIT_UNIXGRAM: return connect_unix(sink, SOCK_DGRAM, address, ret_fd, why);
    }
    return fail(address, "unknown socket_type", why);
}

bool sink_peer_gone(int fd, int *ret_errno)
{
    enum { CHUNK = 4096, CHUNKS_MAX = 16 };
    uint8_t unread[CHUNK];
    ASSERT(fd >= 0);
    *ret_errno = 0;
    for (unsigned i = 0; i < CHUNKS_MAX; i++) {
        ssize_t n = recv(fd, unread, sizeof unread, MSG_DONTWAIT);
        if (n == 0)
            return true;
        if (n < 0) {
            *ret_errno = errno;
            return errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR;
        }
    }
    return false;
}

/* Send one datagram. *ret_errno: 0, or why it was not sent. */
static enum status send_one(const struct sink *sink, const struct sink_datagrams *to,
                            struct bytes line, int64_t until_ms, int *ret_errno)
{
    struct iovec parts[] = {
        {(void *)(uintptr_t)to->head.data, to->head.len}, /* sendmsg only reads */
        {(void *)(uintptr_t)line.data, line.len}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = ARRAY_LEN(parts)};
    ASSERT(line.len > 0);
    for (;;) {
        *ret_errno = 0;
        if (sendmsg(to->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
            return ST_OK;
        *ret_errno = errno;
        if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
            return ST_IO;
        TRY(sink_wait(sink, to->fd, POLLOUT, until_ms));
    }
}

enum status sink_peer_send(const struct sink *sink, const struct sink_datagrams *to,
                           struct sink_batch *batch, int *ret_errno)
{
    struct sink_patience patience = sink_patience(sink);
    ASSERT(to->fd >= 0);
    while (batch->done < batch->n) {
        size_t from = sink_start(batch, batch->done), end = batch->ends[batch->done];
        ASSERT(end > from + 1);
        struct bytes line = bytes_of(batch->data + from, end - from - to->trim);
        enum status st = send_one(sink, to, line, patience.until_ms, ret_errno);
        if (st != ST_OK && *ret_errno != EMSGSIZE)
            return st;
        sink_decide(batch, batch->done + 1, st == ST_OK ? ST_OK : ST_TOO_BIG);
        if (batch->done < batch->n)
            TRY(sink_moved(sink, &patience));
    }
    return ST_OK;
}
