#include "out/with_peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static bool raw_say(int fd, struct bytes text)
{
    while (text.len != 0) {
        ssize_t n = TEMP_FAILURE_RETRY(send(fd, text.data, text.len, MSG_NOSIGNAL));
        if (n <= 0)
            return false;
        text = bytes_from(text, (size_t)n);
    }
    return true;
}

static bool flush(struct link *link)
{
    CLEANUP(buf_done) struct buf out = {0};
    tls_take_out(link->tls, &out);
    return raw_say(link->fd, buf_bytes(&out));
}

/* What the other side says next. False: nothing more. */
static bool hear_some(struct link *link)
{
    uint8_t data[16384];
    struct pollfd waits = {.fd = link->fd, .events = POLLIN};
    while (poll(&waits, 1, 20) <= 0)
        if (atomic_load(&link->peer->ended))
            return false;
    ssize_t n = TEMP_FAILURE_RETRY(recv(link->fd, data, sizeof data, 0));
    if (n <= 0)
        return false;
    if (link->tls == NULL) {
        buf_add(&link->peer->heard, bytes_of(data, (size_t)n));
        return true;
    }
    if (tls_feed(link->tls, bytes_of(data, (size_t)n)) != ST_OK)
        return false;
    size_t got = 1;
    enum status st = ST_OK;
    while (st == ST_OK && got != 0) {
        got = 0;
        st = tls_read(link->tls, data, sizeof data, &got);
        buf_add(&link->peer->heard, bytes_of(data, got));
    }
    (void)flush(link); /* an alert, perhaps to nobody */
    return st == ST_OK;
}

bool link_say(struct link *link, struct bytes text)
{
    if (link->tls == NULL)
        return raw_say(link->fd, text);
    while (text.len != 0) {
        struct bytes part = bytes_of(text.data, MIN(text.len, 16384u));
        if (tls_write(link->tls, &part, 1) != ST_OK || !flush(link))
            return false;
        text = bytes_from(text, part.len);
    }
    return true;
}

static bool has_heard(const struct link *link, const char *until)
{
    const struct buf *heard = &link->peer->heard;
    return heard->len != 0 && memmem(heard->data, heard->len, until, strlen(until)) != NULL;
}

bool link_hear(struct link *link, const char *until)
{
    while (!has_heard(link, until))
        if (!hear_some(link))
            return false;
    return true;
}

void link_hang(struct link *link)
{
    while (!atomic_load(&link->peer->ended))
        (void)usleep(5000); /* a signal only shortens it */
}

void link_reset(struct link *link)
{
    struct linger now = {.l_onoff = 1};
    assert_int_equal(setsockopt(link->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
}

static void serve_one(struct peer *peer, int fd)
{
    struct link link = {.peer = peer, .fd = fd};
    bool open = true;
    buf_clear(&peer->heard);
    if (peer->tls != NULL) {
        open = tls_conn_new(peer->tls, NULL, &link.tls) == ST_OK;
        while (open && tls_conn_phase(link.tls) == TLS_HANDSHAKE)
            open = hear_some(&link);
    }
    if (open)
        peer->serve(&link);
    if (link.tls != NULL) {
        tls_close_notify(link.tls);
        (void)flush(&link); /* the other side may have gone */
    }
    tls_conn_free(link.tls);
    (void)close(fd);
}

static void *peer_main(void *arg)
{
    struct peer *peer = arg;
    struct pollfd waits = {.fd = peer->fd, .events = POLLIN};
    while (!atomic_load(&peer->ended)) {
        if (poll(&waits, 1, 20) <= 0)
            continue;
        int fd = accept4(peer->fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            continue;
        atomic_fetch_add(&peer->accepted, 1);
        serve_one(peer, fd);
    }
    return NULL;
}

static void listen_at(struct peer *peer, const struct sockaddr *at, socklen_t len)
{
    struct sockaddr_in6 mine;
    socklen_t mine_len = sizeof mine;
    peer->fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(peer->fd >= 0);
    assert_int_equal(bind(peer->fd, at, len), 0);
    assert_int_equal(listen(peer->fd, 32), 0);
    assert_int_equal(getsockname(peer->fd, (struct sockaddr *)&mine, &mine_len), 0);
    peer->port = ntohs(mine.sin6_port); /* at the same place in both families */
    assert_int_equal(pthread_create(&peer->thread, NULL, peer_main, peer), 0);
}

void peer_up(struct peer *peer, peer_serve *serve, struct tls_ctx *tls)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    peer->serve = serve;
    peer->tls = tls;
    listen_at(peer, (struct sockaddr *)&at, sizeof at);
}

void peer_up_v6(struct peer *peer, peer_serve *serve)
{
    struct sockaddr_in6 at = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
    peer->serve = serve;
    listen_at(peer, (struct sockaddr *)&at, sizeof at);
}

void peer_down(struct peer *peer)
{
    atomic_store(&peer->ended, true);
    assert_int_equal(pthread_join(peer->thread, NULL), 0);
    (void)close(peer->fd);
    buf_done(&peer->heard);
}

void serve_script(struct link *link)
{
    if (link_hear(link, "\r\n\r\n"))
        (void)link_say(link, link->peer->script); /* the client may have had enough */
}

void serve_nothing(struct link *link)
{
    (void)link_hear(link, "\r\n\r\n");
    link_hang(link);
}

const char *url_of(const struct peer *peer, const char *scheme, const char *host)
{
    static _Thread_local char url[512];
    (void)snprintf(url, sizeof url, "%s://%s:%u/path?query=secret", scheme, host,
                   (unsigned)peer->port);
    return url;
}

enum status get(const char *url, struct out_reply *reply, struct reason *reason)
{
    struct out_request request = {.method = "GET", .url = url};
    return out_request(&request, reply, NULL, reason);
}

void assert_has_text(const char *text, const char *word)
{
    if (strstr(text, word) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", text, word);
}

void assert_lacks_text(const char *text, const char *word)
{
    if (strstr(text, word) != NULL)
        fail_msg("\"%s\" has \"%s\"", text, word);
}

uint64_t clock_ms(void)
{
    struct timespec now;
    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &now), 0);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}
