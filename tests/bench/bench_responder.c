/* The least that libuv and llhttp can do to reply to a request: the peer our server is measured
 * against. No limits, no headers kept, no pipelining, no time-outs.
 *
 *     bench_responder PORT [THREADS]     until it is killed */
#include "base/mem.h"

#include <assert.h>
#include <llhttp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <uv.h>

enum { THREADS_MAX = 16, READ_BYTES = 65536 };

#define BODY "{\"request_id\":\"0\",\"data\":{\"value\":\"hello\"},\"warnings\":null}\n"

static struct sockaddr_in at = {.sin_family = AF_INET};

static void check(bool ok, const char *what)
{
    if (ok)
        return;
    (void)fprintf(stderr, "%s failed\n", what); /* then exit */
    exit(1);
}

struct peer {
    uv_tcp_t tcp;
    llhttp_t parser;
    bool complete;
};

static llhttp_settings_t settings;

static int peer_complete(llhttp_t *parser)
{
    struct peer *p = parser->data;
    p->complete = true;
    return 0;
}

static void peer_closed(uv_handle_t *handle)
{
    mem_free(handle->data);
}

static void peer_alloc(uv_handle_t *handle, size_t size, uv_buf_t *ret_buf)
{
    static _Thread_local char scratch[READ_BYTES];
    (void)handle, (void)size; /* one buffer for all */
    *ret_buf = uv_buf_init(scratch, sizeof scratch);
}

static void peer_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    static char reply[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                          "Content-Length: 60\r\n\r\n" BODY;
    struct peer *p = stream->data;
    uv_buf_t out = uv_buf_init(reply, sizeof reply - 1);
    if (n == 0)
        return;
    bool ok = n > 0 && llhttp_execute(&p->parser, buf->base, (size_t)n) == HPE_OK;
    if (ok && p->complete) {
        p->complete = false;
        ok = uv_try_write(stream, &out, 1) == (int)out.len;
    }
    if (!ok)
        uv_close((uv_handle_t *)stream, peer_closed);
}

static void peer_accept(uv_stream_t *listener, int err)
{
    struct peer *p = mem_zalloc(sizeof *p);
    check(p != NULL && err == 0, "accepting");
    check(uv_tcp_init(listener->loop, &p->tcp) == 0, "uv_tcp_init");
    p->tcp.data = p;
    llhttp_init(&p->parser, HTTP_REQUEST, &settings);
    p->parser.data = p;
    check(uv_accept(listener, (uv_stream_t *)&p->tcp) == 0, "uv_accept");
    check(uv_tcp_nodelay(&p->tcp, 1) == 0, "uv_tcp_nodelay");
    check(uv_read_start((uv_stream_t *)&p->tcp, peer_alloc, peer_read) == 0, "uv_read_start");
}

static void *peer_main(void *arg)
{
    uv_loop_t loop;
    uv_tcp_t listener;
    uv_os_fd_t fd;
    int on = 1;
    (void)arg; /* none */
    check(uv_loop_init(&loop) == 0, "uv_loop_init");
    check(uv_tcp_init_ex(&loop, &listener, AF_INET) == 0, "uv_tcp_init_ex");
    check(uv_fileno((uv_handle_t *)&listener, &fd) == 0, "uv_fileno");
    check(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0, "SO_REUSEPORT");
    check(uv_tcp_bind(&listener, (const struct sockaddr *)&at, 0) == 0, "uv_tcp_bind");
    check(uv_listen((uv_stream_t *)&listener, 1024, peer_accept) == 0, "uv_listen");
    (void)uv_run(&loop, UV_RUN_DEFAULT); /* until the process ends */
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    long port = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
    long threads = argc > 2 ? strtol(argv[2], NULL, 10) : 1;
    if (port < 1 || port > UINT16_MAX || threads < 1 || threads > THREADS_MAX) {
        (void)fprintf(stderr, "usage: %s PORT [THREADS]\n", argv[0]);
        return 2;
    }
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    at.sin_port = htons((uint16_t)port);
    static_assert(sizeof BODY - 1 == 60, "the reply's Content-Length says so");
    llhttp_settings_init(&settings);
    settings.on_message_complete = peer_complete;
    check(signal(SIGPIPE, SIG_IGN) != SIG_ERR, "signal");
    for (long i = 1; i < threads; i++)
        check(pthread_create(&thread, NULL, peer_main, NULL) == 0, "pthread_create");
    (void)peer_main(NULL); /* until the process ends */
    return 0;
}
