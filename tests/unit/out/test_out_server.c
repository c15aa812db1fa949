/* Many requests at once, to this program's own HTTP server. */
#include "crypto/tls_pair.h"

#include "http/harness.h"
#include "out/with_peer.h"

enum { THREADS = 8, ROUNDS = 25 };

static struct pki pki;
static struct harness plain, secured;

static void on_request(void *ctx, struct http_request *req)
{
    struct http_header headers[] = {{BYTES("X-Path"), req->path}};
    (void)ctx; /* stateless */
    struct http_reply reply = {
        .status = 200, .headers = headers, .n_headers = 1, .body = req->body};
    http_respond(req, &reply);
}

static const struct http_handler handler = {.request = on_request};

static void ask(unsigned thread, unsigned round)
{
    static const char *const wanted[] = {"x-path", "cache-control"};
    char url[128], path[64], body[64];
    bool tls = round % 2 == 0;
    int path_len = snprintf(path, sizeof path, "/%u/%u", thread, round);
    int body_len = snprintf(body, sizeof body, "body %u of %u", round, thread);
    (void)snprintf(url, sizeof url, "%s://localhost:%u%s", tls ? "https" : "http",
                   (unsigned)http_server_port(tls ? secured.server : plain.server), path);
    struct out_request request = {.method = "PUT",
                                  .url = url,
                                  .body = bytes_of(body, (size_t)body_len),
                                  .wanted = wanted,
                                  .n_wanted = 2,
                                  .tls = {.ca_pem = buf_bytes(&pki.ca.cert)}};
    struct out_reply reply = {0};
    struct reason reason = {""};
    enum status st = out_request(&request, &reply, NULL, &reason);
    assert_string_equal(reason.text, "");
    assert_status(st, ST_OK);
    assert_int_equal(reply.status, 200);
    assert_bytes(buf_bytes(&reply.body), bytes_of(body, (size_t)body_len));
    assert_bytes(out_reply_header(&reply, 0), bytes_of(path, (size_t)path_len));
    assert_bytes(out_reply_header(&reply, 1), BYTES("no-store"));
    out_reply_done(&reply);
}

static void *ask_often(void *arg)
{
    unsigned thread = *(const unsigned *)arg;
    for (unsigned round = 0; round < ROUNDS; round++)
        ask(thread, round);
    return NULL;
}

static void many_threads_ask_the_own_server(void **ctx)
{
    (void)ctx; /* static */
    pthread_t threads[THREADS];
    unsigned numbers[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        numbers[i] = i;
        assert_int_equal(pthread_create(&threads[i], NULL, ask_often, &numbers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(many_threads_ask_the_own_server)};
    pki_init(&pki);
    struct tls_options options = own(&pki.server, &pki.ca);
    options.server = true;
    options.alpn = "http/1.1";
    struct tls_ctx *tls = ctx_of(options);
    harness_up(&plain, &handler, &http_limits_default, NULL);
    harness_up(&secured, &handler, &http_limits_default, tls);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    harness_down(&secured);
    harness_down(&plain);
    tls_ctx_unref(tls);
    pki_done(&pki);
    return failed;
}
