/* An HTTP server on a thread of its own, and blocking sockets to talk to the server. */
#ifndef HOLDFAST_TEST_HTTP_HARNESS_H
#define HOLDFAST_TEST_HTTP_HARNESS_H

#include "base/mem.h"
#include "base/trace.h"
#include "http/counters.h"
#include "http/http.h"
#include "loop/loop.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

struct harness {
    struct env *env;
    struct http_server *server;
    pthread_t thread;
    struct env_task start_task, stop_task;
    struct http_server_options options;
    uint32_t patience_ms;
};

__attribute__((unused)) static void *harness_main(void *arg)
{
    loop_run(arg);
    return NULL;
}

__attribute__((unused)) static void harness_drained(void *ctx)
{
    struct harness *h = ctx;
    http_server_free(h->server);
    h->server = NULL;
    loop_stop(h->env);
}

__attribute__((unused)) static void harness_stop(struct env_task *task)
{
    struct harness *h = CONTAINER_OF(task, struct harness, stop_task);
    http_server_drain(h->server, h->patience_ms, harness_drained, h);
}

/* Serve on a free port of the loopback, with what `options` says beyond the address. */
__attribute__((unused)) static void harness_open(struct harness *h,
                                                 const struct http_server_options *options)
{
    static struct sockaddr_in any;
    any = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    *h = (struct harness){.patience_ms = 200, .options = *options};
    h->options.address = (struct sockaddr *)&any;
    h->options.ctx = h;
    assert_int_equal(loop_new(NULL, &h->env), ST_OK);
    assert_int_equal(http_server_start(h->env, &h->options, &h->server, NULL), ST_OK);
    assert_int_equal(pthread_create(&h->thread, NULL, harness_main, h->env), 0);
}

__attribute__((unused)) static void harness_up(struct harness *h,
                                               const struct http_handler *handler,
                                               const struct http_limits *limits,
                                               struct tls_ctx *tls)
{
    struct http_server_options options = {.handler = handler, .limits = limits, .tls = tls};
    harness_open(h, &options);
}

/* After harness_stop was posted. */
__attribute__((unused)) static void harness_join(struct harness *h)
{
    assert_int_equal(pthread_join(h->thread, NULL), 0);
    assert_null(h->server);
    loop_free(h->env);
}

__attribute__((unused)) static void harness_down(struct harness *h)
{
    h->stop_task.run = harness_stop;
    env_post(h->env, &h->stop_task);
    harness_join(h);
}

/* Calls with a timeout are tried again after an EINTR, which comes without any signal to a thread
 * that made a loop: newer libuv gives each loop an io_uring, whose work is done by its maker. */
__attribute__((unused)) static int dial(const struct harness *h)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_addr = {htonl(INADDR_LOOPBACK)},
                             .sin_port = htons(http_server_port(h->server))};
    struct timeval patience = {.tv_sec = 120};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience), 0);
    assert_int_equal(TEMP_FAILURE_RETRY(connect(fd, (struct sockaddr *)&to, sizeof to)), 0);
    return fd;
}

/* As much as the peer takes. */
__attribute__((unused)) static size_t say(int fd, struct bytes text)
{
    size_t n = 0;
    while (n < text.len) {
        ssize_t more = TEMP_FAILURE_RETRY(send(fd, text.data + n, text.len - n, MSG_NOSIGNAL));
        if (more <= 0)
            break;
        n += (size_t)more;
    }
    return n;
}

/* Until the peer ends, `out` is full, or `until` was seen; terminated. */
__attribute__((unused)) static size_t hear(int fd, char *out, size_t room, const char *until)
{
    size_t n = 0;
    out[0] = '\0';
    while (n + 1 < room && (until == NULL || strstr(out, until) == NULL)) {
        ssize_t more = TEMP_FAILURE_RETRY(recv(fd, out + n, room - 1 - n, 0));
        if (more <= 0)
            break;
        n += (size_t)more;
        out[n] = '\0';
    }
    return n;
}

__attribute__((unused)) static bool ended(int fd)
{
    char c;
    ssize_t n = TEMP_FAILURE_RETRY(recv(fd, &c, 1, 0));
    return n == 0 || (n < 0 && errno == ECONNRESET);
}

__attribute__((unused)) static size_t count(const char *text, const char *word)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, word)) != NULL; at += strlen(word))
        n++;
    return n;
}

#define HOST "Host: h\r\n"

#endif
