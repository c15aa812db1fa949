#include "http/harness.h"
#include "http/hostile.h"

#include <stdlib.h>

enum { PIECE = 10000 };

/* What the server's thread does with requests. */

static struct http_request *held;
static atomic_int gone_calls, stream_status;

struct job {
    struct env_work work;
    struct http_request *req;
};

static void job_run(struct env_work *work)
{
    (void)work; /* slow work would be done here */
}

static void respond_text(struct http_request *req, struct bytes text)
{
    struct http_reply reply = {.status = 200, .content_type = "text/plain", .body = text};
    http_respond(req, &reply);
}

/* From the arena, which may have been out of memory. */
static void respond_made(struct http_request *req, const char *text)
{
    if (text != NULL)
        respond_text(req, bytes_str(text));
    else
        http_respond_status(req, ST_NOMEM, NULL);
}

static void job_done(struct env_work *work)
{
    respond_text(CONTAINER_OF(work, struct job, work)->req, BYTES("worked\n"));
}

static void on_gone(struct http_request *req)
{
    atomic_fetch_add(&gone_calls, 1);
    if (req == held)
        held = NULL;
    respond_text(req, BYTES("nobody hears this"));
}

struct flow {
    uint64_t left;
    uint8_t piece[PIECE];
};

static void flow_next(struct http_request *req, enum status st)
{
    struct flow *flow = req->user;
    if (st != ST_OK || flow->left == 0) {
        http_respond_end(req, st == ST_OK);
        return;
    }
    size_t n = (size_t)MIN(flow->left, PIECE);
    flow->left -= n;
    memset(flow->piece, 'f', n);
    http_respond_piece(req, bytes_of(flow->piece, n), flow_next);
}

static void flow_begin(struct http_request *req, uint64_t n, uint64_t length)
{
    struct http_reply reply = {.status = 200, .body = BYTES("first")};
    struct flow *flow = arena_zalloc(&req->arena, sizeof *flow);
    assert_non_null(flow);
    flow->left = n;
    req->user = flow;
    http_respond_begin(req, &reply, length);
    flow_next(req, ST_OK);
}

static void drip_piece(struct http_request *req, enum status st, struct bytes piece, bool last)
{
    uint64_t *sum = req->user;
    for (size_t i = 0; i < piece.len; i++)
        *sum += piece.data[i];
    if (st != ST_OK) {
        atomic_store(&stream_status, (int)st);
        http_respond_status(req, st, NULL);
    } else if (last) {
        char *text = arena_format(&req->arena, "sum %llu\n", (unsigned long long)*sum);
        respond_made(req, text);
    } else {
        http_body_next(req, drip_piece);
    }
}

/* Whole up to a length, in pieces above it. */
static void long_body(struct http_request *req)
{
    static uint64_t sum;
    sum = 0;
    req->user = &sum;
    if (http_body_streams(req)) {
        assert_int_equal(req->body.len, 0);
        http_body_next(req, drip_piece);
        return;
    }
    respond_made(req, arena_format(&req->arena, "whole %zu announced %lld\n", req->body.len,
                                   (long long)http_body_length(req)));
}

static void respond_big(struct http_request *req, size_t n)
{
    uint8_t *body = arena_alloc(&req->arena, n);
    assert_non_null(body);
    memset(body, 'b', n);
    respond_text(req, bytes_of(body, n));
}

static void respond_evil(struct http_request *req)
{
    struct http_header headers[] = {{BYTES("X-Good"), BYTES("yes")},
                                    {BYTES("X-Evil"), BYTES("a\r\nX-Split: b")},
                                    {BYTES("Content-Length"), BYTES("7")}};
    struct http_reply reply = {
        .status = 200, .headers = headers, .n_headers = ARRAY_LEN(headers), .body = BYTES("ok")};
    http_respond(req, &reply);
}

static void respond_job(struct harness *h, struct http_request *req)
{
    struct job *job = arena_zalloc(&req->arena, sizeof *job);
    assert_non_null(job);
    *job = (struct job){{.run = job_run, .done = job_done, .lane = LANE_POOL}, req};
    env_work(h->env, &job->work);
}

static void respond_peer(struct http_request *req)
{
    char peer[HTTP_PEER_TEXT];
    http_peer_text(req, peer);
    char *text =
        arena_format(&req->arena, "peer %s %s\n", peer, http_is_tls(req) ? "tls" : "clear");
    respond_made(req, text);
}

static void respond_about(struct http_request *req)
{
    struct bytes token = http_header(req, "X-Vault-Token");
    char *text = arena_format(
        &req->arena, "%s %.*s?%.*s token=%.*s body=%zu\n", http_method_name(req->method),
        (int)req->path.len, (const char *)req->path.data, (int)req->query.len,
        (const char *)req->query.data, (int)token.len, (const char *)token.data, req->body.len);
    respond_made(req, text);
}

static void release_held(void)
{
    struct http_request *req = held;
    held = NULL;
    if (req != NULL)
        respond_text(req, BYTES("released\n"));
}

static bool path_is(const struct http_request *req, const char *path)
{
    return bytes_eq(req->path, bytes_str(path));
}

static uint64_t query_number(const struct http_request *req)
{
    char text[24] = "";
    memcpy(text, req->query.data, MIN(req->query.len, sizeof text - 1));
    return strtoull(text, NULL, 10);
}

static void on_head(void *ctx, struct http_request *req)
{
    (void)ctx; /* stateless */
    if (path_is(req, "/drip"))
        http_stream_body(req, 0);
    if (path_is(req, "/long"))
        http_stream_body(req, 1000);
    if (path_is(req, "/small"))
        http_limit_body(req, 10);
    if (path_is(req, "/early"))
        http_respond_error(req, 403, "permission denied");
}

static void on_request(void *ctx, struct http_request *req)
{
    static uint64_t sum;
    if (path_is(req, "/echo"))
        respond_text(req, req->body);
    else if (path_is(req, "/hold")) {
        held = req;
        http_on_gone(req, on_gone);
    } else if (path_is(req, "/release")) {
        release_held();
        respond_text(req, BYTES("did\n"));
    } else if (path_is(req, "/big"))
        respond_big(req, (size_t)query_number(req));
    else if (path_is(req, "/flow"))
        flow_begin(req, query_number(req), HTTP_LENGTH_UNKNOWN);
    else if (path_is(req, "/flowlen"))
        flow_begin(req, query_number(req), query_number(req) + 5);
    else if (path_is(req, "/flowshort"))
        flow_begin(req, query_number(req), query_number(req) + 6);
    else if (path_is(req, "/drip")) {
        sum = 0;
        req->user = &sum;
        http_body_next(req, drip_piece);
    } else if (path_is(req, "/long")) {
        long_body(req);
    } else if (path_is(req, "/evil"))
        respond_evil(req);
    else if (path_is(req, "/job"))
        respond_job(ctx, req);
    else if (path_is(req, "/peer"))
        respond_peer(req);
    else if (path_is(req, "/none"))
        http_respond(req, &(struct http_reply){.status = 204});
    else if (path_is(req, "/missing"))
        http_respond_error(req, 404, NULL);
    else if (path_is(req, "/quote"))
        http_respond_error(req, 400, "1 error occurred:\n\t* \"x\\y\" \x01\n\n");
    else
        respond_about(req);
}

static const struct http_handler handler = {.head = on_head, .request = on_request};

static struct harness h;

static int setup(void **ctx)
{
    (void)ctx; /* one at a time, static */
    atomic_store(&gone_calls, 0);
    atomic_store(&stream_status, 0);
    harness_up(&h, &handler, NULL, NULL);
    return 0;
}

static int teardown(void **ctx)
{
    (void)ctx; /* static */
    harness_down(&h);
    return 0;
}

/* Say `in` on a new connection and return all that comes back until the peer ends. */
static const char *talk(struct bytes in)
{
    static char out[256 * 1024];
    int fd = dial(&h);
    (void)say(fd, in); /* a refusal may come before all of it is taken */
    (void)hear(fd, out, sizeof out, NULL);
    (void)close(fd);
    return out;
}

#define TALK(literal) talk(BYTES(literal))
#define CLOSE "Connection: close\r\n"

static void assert_has(const char *text, const char *word)
{
    if (strstr(text, word) == NULL)
        print_error("\"%s\" is not in:\n%.2000s\n", word, text);
    assert_non_null(strstr(text, word));
}

static void a_request_is_answered(void **ctx)
{
    (void)ctx; /* static */
    assert_string_equal(TALK("GET /a/b?c=d HTTP/1.1\r\n" HOST CLOSE "X-VAULT-TOKEN:  s.1 \r\n\r\n"),
                        "HTTP/1.1 200 OK\r\nCache-Control: no-store\r\nContent-Type: text/plain"
                        "\r\nContent-Length: 30\r\nConnection: close\r\n\r\n"
                        "GET /a/b?c=d token=s.1 body=0\n");
}

static void errors_have_the_shape_clients_parse(void **ctx)
{
    (void)ctx; /* static */
    const char *out = TALK("GET /missing HTTP/1.1\r\n" HOST CLOSE "\r\n");
    assert_has(out, "HTTP/1.1 404 Not Found\r\nCache-Control: no-store\r\n"
                    "Content-Type: application/json\r\n");
    assert_has(out, "\r\n\r\n{\"errors\":[]}\n");
    assert_has(TALK("GET /quote HTTP/1.1\r\n" HOST CLOSE "\r\n"),
               "{\"errors\":[\"1 error occurred:\\n\\t* \\\"x\\\\y\\\" \\u0001\\n\\n\"]}\n");
}

static void list_reaches_the_handler(void **ctx)
{
    (void)ctx; /* static */
    assert_has(TALK("LIST /a HTTP/1.1\r\n" HOST "\r\nLIST /b HTTP/1.1\r\n" HOST CLOSE "\r\n"),
               "LIST /b? token= body=0");
}

static void a_body_comes_with_the_request(void **ctx)
{
    (void)ctx; /* static */
    assert_has(TALK("PUT /echo HTTP/1.1\r\n" HOST CLOSE "Content-Length: 5\r\n\r\nhello"),
               "\r\n\r\nhello");
    assert_has(TALK("PUT /echo HTTP/1.1\r\n" HOST CLOSE
                    "Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"),
               "Content-Length: 5\r\nConnection: close\r\n\r\nhello");
}

static void any_split_of_the_input_gives_the_same_answers(void **ctx)
{
    static char whole[4096], split[4096];
    struct bytes in = BYTES("PUT /echo HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello"
                            "LIST /x?y HTTP/1.1\r\n" HOST "\r\n"
                            "PUT /echo HTTP/1.1\r\n" HOST
                            "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
                            "GET /end HTTP/1.1\r\n" HOST CLOSE "\r\n");
    (void)ctx;                                           /* static */
    (void)snprintf(whole, sizeof whole, "%s", talk(in)); /* fits */
    assert_int_equal(count(whole, "HTTP/1.1 200 OK"), 4);
    for (size_t cut = 1; cut < in.len; cut++) {
        int fd = dial(&h);
        int on = 1;
        assert_int_equal(setsockopt(fd, IPPROTO_TCP, 1 /* TCP_NODELAY */, &on, sizeof on), 0);
        assert_int_equal(say(fd, bytes_of(in.data, cut)), cut);
        sched_yield();
        assert_int_equal(say(fd, bytes_from(in, cut)), in.len - cut);
        (void)hear(fd, split, sizeof split, NULL);
        (void)close(fd);
        assert_string_equal(split, whole);
    }
}

static void pipelined_requests_are_answered_in_order(void **ctx)
{
    static char in[20000], out[64 * 1024];
    size_t n = 0;
    char want[40];
    (void)ctx; /* static */
    for (int i = 0; i < 100; i++)
        n += (size_t)snprintf(in + n, sizeof in - n, "GET /%s%d HTTP/1.1\r\n" HOST "%s\r\n",
                              i % 10 == 3 ? "job?" : "n", i, i == 99 ? CLOSE : "");
    int fd = dial(&h);
    assert_int_equal(say(fd, bytes_of(in, n)), n);
    (void)hear(fd, out, sizeof out, NULL);
    (void)close(fd);
    const char *at = out;
    for (int i = 0; i < 100; i++) {
        (void)snprintf(want, sizeof want, i % 10 == 3 ? "worked\n" : "GET /n%d?", i); /* fits */
        at = strstr(at, want);
        assert_non_null(at);
    }
    assert_int_equal(count(out, "HTTP/1.1 200 OK"), 100);
}

static void a_pipelined_request_waits_for_the_one_before(void **ctx)
{
    static char out[4096];
    (void)ctx; /* static */
    int fd = dial(&h);
    (void)say(fd, BYTES("GET /hold HTTP/1.1\r\n" HOST "\r\nGET /two HTTP/1.1\r\n" HOST "\r\n"));
    struct timeval brief = {.tv_usec = 50 * 1000};
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &brief, sizeof brief), 0);
    assert_int_equal(hear(fd, out, sizeof out, NULL), 0);
    assert_has(TALK("GET /release HTTP/1.1\r\n" HOST CLOSE "\r\n"), "did");
    brief.tv_sec = 10;
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &brief, sizeof brief), 0);
    (void)hear(fd, out, sizeof out, "/two");
    assert_true(strstr(out, "released") < strstr(out, "GET /two"));
    (void)close(fd);
}

static void work_off_the_loop_answers_later(void **ctx)
{
    (void)ctx; /* static */
    assert_has(TALK("GET /job HTTP/1.1\r\n" HOST CLOSE "\r\n"), "worked");
}

static void old_clients_are_closed_or_kept_as_they_ask(void **ctx)
{
    (void)ctx; /* static */
    assert_has(TALK("GET /a HTTP/1.0\r\n\r\n"), "Connection: close\r\n");
    const char *out =
        TALK("GET /a HTTP/1.0\r\nConnection: keep-alive\r\n\r\nGET /b HTTP/1.0\r\n\r\n");
    assert_has(out, "Connection: keep-alive\r\n");
    assert_has(out, "GET /b?");
}

static void head_and_204_have_no_body(void **ctx)
{
    (void)ctx; /* static */
    const char *out = TALK("HEAD /echo HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nhello"
                           "GET /none HTTP/1.1\r\n" HOST CLOSE "\r\n");
    assert_has(out, "Content-Length: 5\r\n\r\nHTTP/1.1 204 No Content\r\n");
    assert_null(strstr(out, "hello"));
    assert_int_equal(count(out, "Content-Length"), 1);
}

static void a_half_closed_client_is_still_answered(void **ctx)
{
    static char out[4096];
    (void)ctx; /* static */
    int fd = dial(&h);
    (void)say(fd, BYTES("GET /job HTTP/1.1\r\n" HOST "\r\nGET /two HTTP/1.1\r\n" HOST "\r\n"));
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    (void)hear(fd, out, sizeof out, NULL);
    assert_has(out, "worked");
    assert_has(out, "GET /two");
    (void)close(fd);
}

static void expecting_clients_are_told_to_continue(void **ctx)
{
    static char out[4096];
    (void)ctx; /* static */
    int fd = dial(&h);
    (void)say(fd, BYTES("PUT /echo HTTP/1.1\r\n" HOST CLOSE
                        "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n"));
    (void)hear(fd, out, sizeof out, "\r\n\r\n");
    assert_string_equal(out, "HTTP/1.1 100 Continue\r\n\r\n");
    (void)say(fd, BYTES("hello"));
    (void)hear(fd, out, sizeof out, NULL);
    assert_has(out, "hello");
    (void)close(fd);
    const char *refused =
        TALK("PUT /early HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n");
    assert_has(refused, "HTTP/1.1 403");
    assert_null(strstr(refused, "100 Continue"));
}

static void what_is_malformed_is_refused_and_closed(void **ctx)
{
    static const char *const cases[][2] = {
        {"GET / HTTP/1.1\r\n\r\n", "400"},
        {"LINK / HTTP/1.1\r\n" HOST "\r\n", "501"},
        {"GET / HTTP/3.0\r\n" HOST "\r\n", "400"},
        {"GET / HTTP/2.0\r\n" HOST "\r\n", "505"},
        {"PUT / HTTP/1.1\r\n" HOST "Expect: x\r\n\r\n", "417"},
        {"garbage\r\n\r\n", "400"},
    };
    char want[40];
    (void)ctx; /* static */
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *out = talk(bytes_str(cases[i][0]));
        (void)snprintf(want, sizeof want, "HTTP/1.1 %s ", cases[i][1]); /* fits */
        assert_has(out, want);
        assert_has(out, "Connection: close\r\n\r\n{\"errors\":[\"");
    }
}

static void hostile_framings_are_refused_and_closed(void **ctx)
{
    char want[40];
    (void)ctx; /* static */
    for (size_t i = 0; i < ARRAY_LEN(hostile); i++) {
        CLEANUP(buf_done) struct buf in = {0};
        buf_add(&in, BYTES("GET /first HTTP/1.1\r\n" HOST "\r\n"));
        buf_add(&in, hostile[i].in);
        buf_add(&in, BYTES("GET /smuggled HTTP/1.1\r\n" HOST "\r\n"));
        const char *out = talk(buf_bytes(&in)); /* returns when the server closes */
        (void)snprintf(want, sizeof want, "HTTP/1.1 %d ", hostile[i].status); /* fits */
        assert_has(out, "GET /first");
        assert_has(out, want);
        assert_int_equal(count(out, "HTTP/1.1 "), 2);
        assert_null(strstr(out, "smuggled"));
    }
}

static void nothing_behind_a_refused_request_is_served(void **ctx)
{
    (void)ctx; /* static */
    const char *out = TALK("POST /1 HTTP/1.1\r\n" HOST
                           "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
                           "GET /smuggled HTTP/1.1\r\n" HOST "\r\n");
    assert_int_equal(count(out, "HTTP/1.1 "), 1);
    assert_null(strstr(out, "smuggled"));
}

static void requests_before_a_malformed_one_are_served(void **ctx)
{
    (void)ctx; /* static */
    const char *out = TALK("GET /one HTTP/1.1\r\n" HOST "\r\nGARBAGE\r\n\r\n");
    assert_true(strstr(out, "GET /one") < strstr(out, "HTTP/1.1 400"));
}

static void a_body_above_the_limit_is_refused_before_it_is_sent(void **ctx)
{
    (void)ctx; /* static */
    const char *out = TALK("PUT /echo HTTP/1.1\r\n" HOST "Content-Length: 33554433\r\n\r\n");
    assert_has(out, "HTTP/1.1 413 ");
    assert_has(out, "{\"errors\":[\"http: request body too large\"]}");
    assert_has(TALK("PUT /small HTTP/1.1\r\n" HOST "Content-Length: 11\r\n\r\n"), "HTTP/1.1 413 ");
    assert_has(TALK("PUT /small HTTP/1.1\r\n" HOST
                    "Transfer-Encoding: chunked\r\n\r\nb\r\n12345678901\r\n"),
               "HTTP/1.1 413 ");
}

static void a_client_that_sends_33_megabytes_reads_413(void **ctx)
{
    static uint8_t chunk[1 << 20];
    static char out[4096];
    (void)ctx; /* static */
    int fd = dial(&h);
    (void)say(fd, BYTES("PUT /echo HTTP/1.1\r\n" HOST "Content-Length: 34603008\r\n\r\n"));
    size_t sent = 0;
    for (int i = 0; i < 33; i++)
        sent += say(fd, bytes_of(chunk, sizeof chunk));
    assert_int_equal(sent, 34603008);
    (void)hear(fd, out, sizeof out, NULL);
    assert_has(out, "HTTP/1.1 413 ");
    (void)close(fd);
}

static void large_bodies_go_both_ways(void **ctx)
{
    enum { N = 5 * 1024 * 1024 + 17 };
    static uint8_t body[N];
    static char out[N + 1024];
    char head[200];
    (void)ctx; /* static */
    for (size_t i = 0; i < N; i++)
        body[i] = (uint8_t)('a' + i % 23);
    int fd = dial(&h);
    int len =
        snprintf(head, sizeof head, "PUT /echo HTTP/1.1\r\n" HOST "Content-Length: %d\r\n\r\n", N);
    (void)say(fd, bytes_of(head, (size_t)len));
    assert_int_equal(say(fd, bytes_of(body, N)), N);
    size_t n = 0;
    for (ssize_t more; n < N && (more = recv(fd, out + n, sizeof out - n, 0)) > 0;)
        n += (size_t)more;
    while (n < N + 80) {
        ssize_t more = recv(fd, out + n, sizeof out - n, 0);
        if (more <= 0)
            break;
        n += (size_t)more;
        if (n >= N && memcmp(out + n - 17, body + N - 17, 17) == 0)
            break;
    }
    assert_true(n > N);
    assert_memory_equal(out + n - N, body, N);
    (void)close(fd);
}

static void a_streamed_body_arrives_in_pieces(void **ctx)
{
    static uint8_t body[3000000];
    static char out[4096];
    (void)ctx; /* static */
    memset(body, 2, sizeof body);
    int fd = dial(&h);
    (void)say(fd, BYTES("PUT /drip HTTP/1.1\r\n" HOST CLOSE "Expect: 100-continue\r\n"
                        "Content-Length: 3000000\r\n\r\n"));
    assert_int_equal(say(fd, bytes_of(body, sizeof body)), sizeof body);
    (void)hear(fd, out, sizeof out, NULL);
    assert_has(out, "HTTP/1.1 100 Continue\r\n\r\n");
    assert_has(out, "sum 6000000\n");
    (void)close(fd);
    assert_has(TALK("PUT /drip HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n"
                    "1\r\n\1\r\n1\r\n\1\r\n1\r\n\1\r\n0\r\n\r\n"
                    "PUT /drip HTTP/1.1\r\n" HOST CLOSE "Content-Length: 0\r\n\r\n"),
               "sum 3\n");
}

static void a_body_is_streamed_from_the_length_its_handler_named(void **ctx)
{
    static uint8_t body[200000];
    (void)ctx; /* static */
    memset(body, 3, sizeof body);
    assert_has(TALK("GET /long HTTP/1.1\r\n" HOST CLOSE "\r\n"), "whole 0 announced 0\n");
    assert_has(TALK("PUT /long HTTP/1.1\r\n" HOST CLOSE "Content-Length: 3\r\n\r\nabc"),
               "whole 3 announced 3\n");
    assert_has(TALK("PUT /long HTTP/1.1\r\n" HOST CLOSE "Transfer-Encoding: chunked\r\n\r\n"
                    "3\r\nabc\r\n0\r\n\r\n"),
               "whole 3 announced -1\n");
    for (int chunked = 0; chunked < 2; chunked++) {
        static char out[4096];
        int fd = dial(&h);
        (void)say(fd, BYTES("PUT /long HTTP/1.1\r\n" HOST CLOSE));
        (void)say(fd, chunked != 0 ? BYTES("Transfer-Encoding: chunked\r\n\r\n30d40\r\n")
                                   : BYTES("Content-Length: 200000\r\n\r\n"));
        assert_int_equal(say(fd, bytes_of(body, sizeof body)), sizeof body);
        (void)say(fd, chunked != 0 ? BYTES("\r\n0\r\n\r\n") : BYTES(""));
        (void)hear(fd, out, sizeof out, NULL);
        assert_has(out, "sum 600000\n");
        (void)close(fd);
    }
}

static void a_stream_leaves_the_budget_of_bodies_alone(void **ctx)
{
    static struct http_budget budget = {.bytes_max = 64 * 1024};
    static char out[4096];
    struct http_server_options options = {.handler = &handler, .budget = &budget};
    (void)ctx; /* static */
    harness_down(&h);
    harness_open(&h, &options);
    int fd = dial(&h);
    (void)say(fd, BYTES("PUT /long HTTP/1.1\r\n" HOST CLOSE "Transfer-Encoding: chunked\r\n\r\n"));
    for (int i = 0; i < 100; i++) { /* far more than fits, and a pause in it */
        static const uint8_t zeros[4096];
        (void)say(fd, BYTES("1000\r\n"));
        (void)say(fd, bytes_of(zeros, sizeof zeros));
        (void)say(fd, BYTES("\r\n"));
    }
    for (int i = 0; i < 2000 && atomic_load(&budget.used) != 0; i++)
        usleep(1000);
    assert_int_equal(atomic_load(&budget.used), 0);
    (void)say(fd, BYTES("0\r\n\r\n"));
    (void)hear(fd, out, sizeof out, NULL);
    assert_has(out, "sum 0\n");
    (void)close(fd);
}

static void a_streamed_body_that_breaks_off_is_told(void **ctx)
{
    static char out[4096];
    (void)ctx; /* static */
    int fd = dial(&h);
    (void)say(fd, BYTES("PUT /drip HTTP/1.1\r\n" HOST "Content-Length: 100\r\n\r\nabc"));
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    (void)hear(fd, out, sizeof out, NULL);
    assert_int_equal(atomic_load(&stream_status), ST_CLOSED);
    (void)close(fd);
    assert_has(TALK("PUT /drip HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\nx"),
               "HTTP/1.1 400 ");
    assert_int_equal(atomic_load(&stream_status), ST_INVALID);
}

static void a_streamed_answer_is_chunked_or_counted(void **ctx)
{
    (void)ctx; /* static */
    const char *out = TALK("GET /flow?25000 HTTP/1.1\r\n" HOST CLOSE "\r\n");
    assert_has(out, "Transfer-Encoding: chunked\r\n");
    assert_has(out, "\r\n\r\n5\r\nfirst\r\n2710\r\nff");
    assert_has(out, "ff\r\n1388\r\nff");
    assert_has(out, "ff\r\n0\r\n\r\n");
    out = TALK("GET /flowlen?25000 HTTP/1.1\r\n" HOST CLOSE "\r\n");
    assert_has(out, "Content-Length: 25005\r\n");
    assert_int_equal(strlen(strstr(out, "\r\n\r\n")), 4 + 25005);
    out = TALK("GET /flow?25000 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    assert_has(out, "Connection: close\r\n");
    assert_int_equal(strlen(strstr(out, "\r\n\r\n")), 4 + 25005);
    out = TALK("HEAD /flow?25000 HTTP/1.1\r\n" HOST CLOSE "\r\n");
    assert_null(strstr(out, "first"));
}

static void an_answer_that_falls_short_is_cut(void **ctx)
{
    (void)ctx; /* static */
    const char *out =
        TALK("GET /flowshort?100 HTTP/1.1\r\n" HOST "\r\nGET /x HTTP/1.1\r\n" HOST "\r\n");
    assert_null(strstr(out, "GET /x"));
}

static void a_slow_reader_gets_all_of_a_large_answer(void **ctx)
{
    enum { N = 20000000 };
    static char out[64 * 1024];
    (void)ctx; /* static */
    int fd = dial(&h);
    (void)say(fd, BYTES("GET /big?20000000 HTTP/1.1\r\n" HOST
                        "\r\nGET /flow?5000000 HTTP/1.1\r\n" HOST CLOSE "\r\n"));
    size_t n = 0;
    for (ssize_t more; (more = recv(fd, out, sizeof out, 0)) > 0;)
        n += (size_t)more;
    assert_true(n > N + 5000000);
    (void)close(fd);
}

static void the_loss_of_the_peer_is_told_once(void **ctx)
{
    (void)ctx; /* static */
    int fd = dial(&h);
    (void)say(fd, BYTES("GET /hold HTTP/1.1\r\n" HOST "\r\n"));
    (void)TALK("GET /a HTTP/1.1\r\n" HOST CLOSE "\r\n");
    (void)close(fd);
    for (int i = 0; i < 200 && atomic_load(&gone_calls) == 0; i++)
        usleep(5000);
    assert_int_equal(atomic_load(&gone_calls), 1);
}

static void await_no_connection(void)
{
    struct http_counters n = {.connections_open = 1};
    for (int i = 0; i < 2000 && n.connections_open != 0; i++) {
        usleep(1000);
        http_server_counters(h.server, &n);
    }
    assert_int_equal(n.connections_open, 0);
}

static void a_peer_that_leaves_within_an_answer_is_noticed(void **ctx)
{
    static char out[70000];
    (void)ctx; /* static */
    int fd = dial(&h), half = dial(&h);
    (void)say(fd, BYTES("GET /flow?100000000 HTTP/1.1\r\n" HOST "\r\n"));
    (void)say(half, BYTES("GET /flow?100000000 HTTP/1.1\r\n" HOST "\r\n"));
    assert_int_equal(shutdown(half, SHUT_WR), 0); /* ends its side first */
    (void)hear(fd, out, sizeof out, NULL);
    (void)hear(half, out, sizeof out, NULL);
    (void)close(fd);
    (void)close(half);
    await_no_connection();
    struct http_counters n;
    http_server_counters(h.server, &n);
    assert_int_equal(n.timeouts, 0);
}

static void an_early_answer_closes_when_a_body_was_announced(void **ctx)
{
    (void)ctx; /* static */
    const char *out = TALK("PUT /early HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nGET / ");
    assert_has(out, "403 Forbidden");
    assert_has(out, "Connection: close");
    out = TALK("GET /early HTTP/1.1\r\n" HOST "\r\nGET /next HTTP/1.1\r\n" HOST CLOSE "\r\n");
    assert_has(out, "GET /next");
}

static void a_header_that_would_split_the_answer_is_left_out(void **ctx)
{
    (void)ctx; /* static */
    trace_set_level(TRACE_OFF);
    const char *out = TALK("GET /evil HTTP/1.1\r\n" HOST CLOSE "\r\n");
    trace_set_level(TRACE_INFO);
    assert_has(out, "X-Good: yes\r\n");
    assert_null(strstr(out, "Split"));
    assert_int_equal(count(out, "Content-Length"), 1);
}

static void the_peer_is_known(void **ctx)
{
    (void)ctx; /* static */
    assert_has(TALK("GET /peer HTTP/1.1\r\n" HOST CLOSE "\r\n"), "peer 127.0.0.1:");
}

static void what_happens_is_counted(void **ctx)
{
    struct http_counters n;
    (void)ctx; /* static */
    (void)TALK("GET /a HTTP/1.1\r\n" HOST "\r\nGET /missing HTTP/1.1\r\n" HOST CLOSE "\r\n");
    (void)TALK("garbage\r\n");
    http_server_counters(h.server, &n);
    assert_int_equal(n.connections_accepted, 2);
    assert_int_equal(n.requests, 2);
    assert_int_equal(n.responses[2], 1);
    assert_int_equal(n.responses[4], 2);
    assert_int_equal(n.rejected, 1);
    assert_true(n.bytes_in > 50 && n.bytes_out > 200);
}

static uint64_t fail_nth;
static atomic_bool fail_armed;

static void arm(struct env_task *task)
{
    (void)task; /* static */
    mem_fail_nth(fail_nth);
    atomic_store(&fail_armed, true);
}

static const char *const fallible[] = {
    "GET /a HTTP/1.1\r\n" HOST CLOSE "\r\n",
    "PUT /echo HTTP/1.1\r\n" HOST CLOSE "Content-Length: 30000\r\n\r\n",
    "PUT /drip HTTP/1.1\r\n" HOST CLOSE "Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
    "GET /quote HTTP/1.1\r\n" HOST "\r\nGET /none HTTP/1.1\r\n" HOST "\r\nGET /x",
    "garbage\r\n",
};

static void the_server_survives_lack_of_memory(void **ctx)
{
    static struct env_task arm_task = {.run = arm};
    static uint8_t body[30000];
    static char out[40000];
    (void)ctx; /* static */
    for (fail_nth = 1; fail_nth < 12; fail_nth++)
        for (size_t i = 0; i < ARRAY_LEN(fallible); i++) {
            atomic_store(&fail_armed, false);
            env_post(h.env, &arm_task);
            while (!atomic_load(&fail_armed))
                sched_yield();
            int fd = dial(&h);
            (void)say(fd, bytes_str(fallible[i]));
            if (strstr(fallible[i], "30000") != NULL)
                (void)say(fd, bytes_of(body, sizeof body));
            assert_int_equal(shutdown(fd, SHUT_WR), 0);
            (void)hear(fd, out, sizeof out, NULL); /* an answer, or just an end */
            (void)close(fd);
        }
    await_no_connection();
}

static void starting_survives_lack_of_memory(void **ctx)
{
    (void)ctx; /* static */
    struct http_server *server = NULL;
    mem_fail_nth(1);
    assert_int_equal(http_server_start(h.env, &h.options, &server, NULL), ST_NOMEM);
    assert_true(mem_fail_nth(0));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_request_is_answered),
        TEST(errors_have_the_shape_clients_parse),
        TEST(list_reaches_the_handler),
        TEST(a_body_comes_with_the_request),
        TEST(any_split_of_the_input_gives_the_same_answers),
        TEST(pipelined_requests_are_answered_in_order),
        TEST(a_pipelined_request_waits_for_the_one_before),
        TEST(work_off_the_loop_answers_later),
        TEST(old_clients_are_closed_or_kept_as_they_ask),
        TEST(head_and_204_have_no_body),
        TEST(a_half_closed_client_is_still_answered),
        TEST(expecting_clients_are_told_to_continue),
        TEST(what_is_malformed_is_refused_and_closed),
        TEST(hostile_framings_are_refused_and_closed),
        TEST(nothing_behind_a_refused_request_is_served),
        TEST(requests_before_a_malformed_one_are_served),
        TEST(a_body_above_the_limit_is_refused_before_it_is_sent),
        TEST(a_client_that_sends_33_megabytes_reads_413),
        TEST(large_bodies_go_both_ways),
        TEST(a_streamed_body_arrives_in_pieces),
        TEST(a_body_is_streamed_from_the_length_its_handler_named),
        TEST(a_stream_leaves_the_budget_of_bodies_alone),
        TEST(a_streamed_body_that_breaks_off_is_told),
        TEST(a_streamed_answer_is_chunked_or_counted),
        TEST(an_answer_that_falls_short_is_cut),
        TEST(a_slow_reader_gets_all_of_a_large_answer),
        TEST(the_loss_of_the_peer_is_told_once),
        TEST(a_peer_that_leaves_within_an_answer_is_noticed),
        TEST(an_early_answer_closes_when_a_body_was_announced),
        TEST(a_header_that_would_split_the_answer_is_left_out),
        TEST(the_peer_is_known),
        TEST(what_happens_is_counted),
        TEST(the_server_survives_lack_of_memory),
        TEST(starting_survives_lack_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
