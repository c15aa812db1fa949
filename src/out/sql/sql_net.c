/* Names, addresses, waiting, files in memory. */
#include "out/out_settings.h"
#include "out/sql/sql_internal.h"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static _Atomic int stop_fd = -1;

void sql_set_stop(int fd)
{
    atomic_store(&stop_fd, fd);
}

uint64_t out_sql_now_ms(void)
{
    struct timespec now;
    int rc = clock_gettime(CLOCK_MONOTONIC, &now);
    ASSERT(rc == 0);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

enum status sql_wait(int fd, short events, uint64_t until_ms, short *ret_events)
{
    ASSERT(fd >= 0 && events != 0);
    for (;;) {
        uint64_t now = out_sql_now_ms();
        struct pollfd fds[2] = {{.fd = fd, .events = events},
                                {.fd = atomic_load(&stop_fd), .events = POLLIN}};
        if (now >= until_ms)
            return ST_TIMEOUT;
        int n = poll(fds, 2, (int)MIN(until_ms - now, UINT64_C(60000)));
        if (n < 0)
            continue; /* EINTR, or no memory: again until the deadline */
        if (fds[1].revents != 0)
            return ST_CLOSED;
        if (fds[0].revents != 0) {
            *ret_events = fds[0].revents;
            return ST_OK;
        }
    }
}

bool sql_is_dead(int fd)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};
    return fd < 0 || poll(&one, 1, 0) != 0;
}

bool sql_is_loopback(const struct ip *ip)
{
    static const uint8_t v6[16] = {[15] = 1};
    return ip->len == 4 ? ip->bytes[0] == 127 : memcmp(ip->bytes, v6, sizeof v6) == 0;
}

static bool read_address(const struct addrinfo *info, struct ip *ret)
{
    char text[IP_PORT_TEXT];
    if (info->ai_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, info->ai_addr, sizeof in);
        *ret = ip_of((const uint8_t *)&in.sin_addr, 4);
        return true;
    }
    if (info->ai_family != AF_INET6)
        return false;
    struct sockaddr_in6 in6;
    memcpy(&in6, info->ai_addr, sizeof in6);
    *ret = ip_of((const uint8_t *)&in6.sin6_addr, 16);
    ip_port_put(ret, 1, text);
    return in6.sin6_scope_id == 0; /* an address with a zone is link-local */
}

enum status sql_resolve(const struct sql_name *name, struct ip ret_ips[SQL_ADDRESSES_MAX],
                        size_t *ret_n, struct reason *reason)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC};
    struct addrinfo *list = NULL;
    struct ip ip;
    ASSERT(!name->is_socket);
    *ret_n = 0;
    int code = getaddrinfo(name->host, NULL, &hints, &list);
    if (code != 0) {
        reason_set(reason, "the name of its host cannot be resolved");
        return ST_BAD_GATEWAY;
    }
    enum status st = ST_BAD_GATEWAY;
    reason_set(reason, "its host has no address");
    for (const struct addrinfo *i = list; i != NULL && *ret_n < SQL_ADDRESSES_MAX; i = i->ai_next) {
        struct reason refusal = {0};
        if (!read_address(i, &ip))
            continue;
        if (out_rules_judge(out_settings_rules(), &ip, name->port, &refusal) == ST_OK) {
            ret_ips[(*ret_n)++] = ip;
            st = ST_OK;
        } else if (*ret_n == 0) {
            reason_set(reason, "%.200s", refusal.text);
        }
    }
    freeaddrinfo(list);
    return st;
}

int sql_memory_file(const char *content, char ret_path[64])
{
    size_t len = strlen(content), done = 0;
    int fd = memfd_create("holdfast-ca", MFD_CLOEXEC);
    while (fd >= 0 && done < len) {
        ssize_t n = write(fd, content + done, len - done);
        if (n <= 0) {
            (void)close(fd); /* no library has seen it */
            return -1;
        }
        done += (size_t)n;
    }
    if (fd >= 0)
        (void)snprintf(ret_path, 64, "/proc/self/fd/%d", fd);
    return fd;
}
