/* A trivial JSON reply from src/http, for wrk to load beside bench_responder's.
 *
 *     bench_http PORT [THREADS]     until it is killed
 *     wrk -c 64 -t 1 -d 5 http://127.0.0.1:PORT/ */
#include "http/http.h"
#include "loop/loop.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS_MAX = 16 };

#define BODY "{\"request_id\":\"0\",\"data\":{\"value\":\"hello\"},\"warnings\":null}\n"

static struct sockaddr_in at = {.sin_family = AF_INET};

static void check(bool ok, const char *what)
{
    if (ok)
        return;
    (void)fprintf(stderr, "%s failed\n", what); /* then exit */
    exit(1);
}

static void on_request(void *ctx, struct http_request *req)
{
    struct http_reply reply = {
        .status = 200, .content_type = "application/json", .body = BYTES(BODY)};
    (void)ctx; /* stateless */
    http_respond(req, &reply);
}

static void *server_main(void *arg)
{
    static const struct http_handler handler = {.request = on_request};
    const struct http_server_options options = {.address = (const struct sockaddr *)&at,
                                                .handler = &handler};
    struct env *env = NULL;
    struct http_server *server = NULL;
    (void)arg; /* none */
    check(loop_new(NULL, &env) == ST_OK, "loop_new");
    check(http_server_start(env, &options, &server, NULL) == ST_OK, "listening");
    loop_run(env);
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
    for (long i = 1; i < threads; i++)
        check(pthread_create(&thread, NULL, server_main, NULL) == 0, "pthread_create");
    (void)server_main(NULL); /* until the process ends */
    return 0;
}
