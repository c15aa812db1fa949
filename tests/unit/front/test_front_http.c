#include "http/harness.h"
#include "support.h"

#include "front/front.h"
#include "front/front_http.h"
#include "front/front_request.h"
#include "front/relay.h"
#include "front/secrets/secrets.h"

#include <poll.h>
#include <stdatomic.h>

static bool removed;

static char asks_itself[MESH_NAME_MAX]; /* the member of the last request; "": a client */

static bool is_member(const struct front_http *http, const struct http_request *req,
                      char ret_name[static MESH_NAME_MAX])
{
    (void)http;
    (void)req;
    (void)snprintf(ret_name, MESH_NAME_MAX, "node7");
    return !removed;
}

static struct front_http client_side,
    peer_side = {.peers = true, .is_member = is_member, .open_metrics = true};

static void on_client_head(void *ctx, struct http_request *req)
{
    (void)ctx;
    front_http_handler.head(&client_side, req);
}

static void on_peer_head(void *ctx, struct http_request *req)
{
    (void)ctx;
    front_http_handler.head(&peer_side, req);
}

static void on_client(void *ctx, struct http_request *req)
{
    (void)ctx;
    front_http_handler.request(&client_side, req);
}

static const char *on_client_late(void *ctx, struct http_request *req, int *ret_status)
{
    (void)ctx;
    return front_http_handler.late(&client_side, req, ret_status);
}

static void on_peer(void *ctx, struct http_request *req)
{
    (void)ctx;
    front_http_handler.request(&peer_side, req);
}

static const char *on_error(void *ctx, const struct http_request *req, int status,
                            struct bytes message, struct buf *out)
{
    (void)ctx;
    return front_http_handler.error(&client_side, req, status, message, out);
}

static const struct http_handler client_handler = {
    .head = on_client_head, .request = on_client, .error = on_error};
static const struct http_handler peer_handler = {
    .head = on_peer_head, .request = on_peer, .error = on_error};

static struct http_request *stream_req;
static struct router_request *late_request;
static atomic_bool watched;
static unsigned sends;

static void send_nothing(struct reply_stream *stream)
{
    (void)stream;
    sends++;
    http_respond_end(stream_req, true);
}

/* As a download: the place of the request in `user` is its own, and the reply goes on. */
static void send_for_long(struct reply_stream *stream)
{
    stream_req->user = stream;
    atomic_store(&watched, true);
}

static void respond_for_long(struct router_request *request)
{
    static struct reply_stream stream = {.length = HTTP_LENGTH_UNKNOWN, .send = send_for_long};
    struct router_reply reply = {.http = 200, .stream = &stream};
    stream_req = front_request_of(request)->req;
    request->watch(request);
    request->respond(request, &reply);
}

static void end_long(struct env_task *task)
{
    (void)task;
    http_respond_end(stream_req, true);
}

static void respond_length(struct router_request *request)
{
    struct router_reply reply = {.http = 200, .content_type = "application/json"};
    buf_add_format(&reply.body, "[%zu of %llu]", request->body.len,
                   (unsigned long long)request->body_length);
    request->respond(request, &reply);
}

static struct router_request *collected_request;

static void on_collected(struct router_collect *collect, enum status st)
{
    (void)collect;
    assert_status(st, ST_OK);
    assert_false(collected_request->streamed);
    respond_length(collected_request);
}

/* Stands in for the front and the router: answers with what it was given. */
void front_handle(struct router_worker *worker, struct router_request *request)
{
    struct router_reply reply = {.http = 200, .content_type = "application/json"};
    struct bytes agent = router_header(request, "user-agent");
    char id[RELAY_ID_TEXT];

    assert_null(worker);
    if (request->streamed)
        agent = BYTES("streamed");
    assert_ptr_equal(&front_request_of(request)->req->arena, request->arena);
    if (bytes_eq(request->target.full, BYTES("/changes")) ||
        bytes_eq(request->target.full, BYTES("/waits"))) {
        late_request = request;
        return;
    }
    if (bytes_eq(request->target.full, BYTES("/watched"))) {
        late_request = request;
        request->watch(request);
        assert_false(request->left);
        atomic_store(&watched, true);
        return;
    }
    if (request->answer != NULL) {
        const struct reply_answer *answer = request->answer;
        assert_int_equal(request->body.len, 0);
        buf_add_format(&reply.body, "[%d|%s|%.*s]", answer->kind,
                       answer->type != NULL ? answer->type : "", (int)answer->data.len,
                       (const char *)answer->data.data);
        request->respond(request, &reply);
        return;
    }
    if (bytes_eq(request->target.full, BYTES("/length"))) {
        respond_length(request);
        return;
    }
    if (bytes_eq(request->target.full, BYTES("/collect"))) {
        static struct router_collect collect = {.done = on_collected};
        collected_request = request;
        request->collect(request, &collect);
        return;
    }
    if (bytes_eq(request->target.full, BYTES("/stream"))) {
        static struct reply_stream stream = {.length = HTTP_LENGTH_UNKNOWN, .send = send_nothing};
        stream_req = front_request_of(request)->req;
        reply.stream = &stream;
        request->respond(request, &reply);
        return;
    }
    if (bytes_eq(request->target.full, BYTES("/watched-stream"))) {
        respond_for_long(request);
        return;
    }
    if (bytes_eq(request->target.full, BYTES("/retry")))
        reply.retry = ST_NOT_LEADER;
    if (bytes_eq(request->target.full, BYTES("/allow")))
        assert_true(reply_add_header(&reply, request->arena, BYTES("Allow"), BYTES("GET")));
    (void)snprintf(asks_itself, sizeof asks_itself, "%s",
                   request->member != NULL ? request->member : "");
    relay_id_put(&request->id, id);
    buf_add_format(&reply.body, "[%s|%.*s|%.*s|%.*s|%.*s|%d%d%d%d|%s|%s]",
                   http_method_name(request->method), (int)request->target.full.len,
                   (const char *)request->target.full.data, (int)request->query.len,
                   (const char *)request->query.data, (int)request->body.len,
                   (const char *)request->body.data, (int)agent.len, (const char *)agent.data,
                   request->forwarded, request->again, request->open_metrics,
                   request->closed_ceremonies, id, request->peer);
    request->respond(request, &reply);
    assert_null(reply.body.data); /* taken */
}

void router_place(struct router_worker *worker, struct router_request *request,
                  const struct dialect_map *dialects)
{
    assert_null(worker);
    assert_null(dialects);
    request->dialect = &secrets_dialect;
    path_set_root(&request->target, "/v1/");
}

bool router_place_forwarded(struct router_worker *worker, struct router_request *request,
                            struct bytes name)
{
    router_place(worker, request, NULL);
    return name.len == 0 || text_is(name, "registry");
}

const struct dialect *router_home(const struct router_worker *worker)
{
    assert_null(worker);
    return &secrets_dialect;
}

bool router_is_long(struct router_worker *worker, const struct router_request *request,
                    uint64_t *ret_upload_bytes_max)
{
    (void)worker;
    (void)request;
    (void)ret_upload_bytes_max;
    return false;
}

enum status router_give_up(struct router_request *request)
{
    return bytes_eq(request->target.full, BYTES("/changes")) ? ST_UNKNOWN_OUTCOME : ST_TIMEOUT;
}

static const char *ask(const struct http_handler *handler, const char *request)
{
    static char out[4096];
    struct harness h;
    harness_up(&h, handler, NULL, NULL);
    int fd = dial(&h);
    assert_int_equal(say(fd, bytes_str(request)), strlen(request));
    (void)hear(fd, out, sizeof out, "]");
    assert_int_equal(close(fd), 0);
    harness_down(&h);
    return out;
}

#define assert_has(text, part)                                   \
    do {                                                         \
        if (strstr((text), (part)) == NULL)                      \
            fail_msg("\"%s\" is not in \"%s\"", (part), (text)); \
    } while (0)

static void a_request_reaches_the_router_with_its_canonical_path(void **ctx)
{
    (void)ctx;
    const char *out =
        ask(&client_handler, "PUT /v1/a%20b?x=1 HTTP/1.1\r\n" HOST
                             "User-Agent: test\r\nContent-Length: 7\r\n\r\n{\"a\":1}");
    assert_has(out, "HTTP/1.1 200 ");
    assert_has(out, "Content-Type: application/json\r\n");
    assert_has(out, "[PUT|/v1/a b|x=1|{\"a\":1}|test|0000|");
    assert_has(out, "|127.0.0.1:");
}

/* A request with that header and a body of `n` letters. */
static const char *ask_long(const char *path, const char *framing, size_t n)
{
    static char request[200 * 1024];
    int head =
        snprintf(request, sizeof request, "PUT %s HTTP/1.1\r\n" HOST "%s\r\n\r\n", path, framing);
    memset(request + head, 'x', n);
    request[(size_t)head + n] = 0;
    return ask(&client_handler, request);
}

static void a_long_body_is_not_read_before_the_router_asks(void **ctx)
{
    (void)ctx;
    assert_has(ask_long("/unread", "Content-Length: 65537", 0), "[PUT|/unread|||streamed|");
    assert_has(ask_long("//unr%65ad", "Content-Length: 65537", 0), "[PUT|/unread|||streamed|");
    assert_has(ask_long("/length", "Content-Length: 65536", 65536), "[65536 of 65536]");
    assert_has(ask_long("/collect", "Content-Length: 70000", 70000), "[70000 of 70000]");
}

static void a_streamed_reply_is_begun_and_left_to_its_stream(void **ctx)
{
    (void)ctx;
    sends = 0;
    const char *out =
        ask(&client_handler, "GET /stream HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
    assert_has(out, "HTTP/1.1 200 ");
    assert_has(out, "Transfer-Encoding: chunked\r\n");
    assert_has(out, "\r\n\r\n0\r\n\r\n");
    assert_int_equal(sends, 1);
}

static void reply_late(struct env_task *task)
{
    struct router_reply reply = {.http = 204};
    (void)task;
    late_request->respond(late_request, &reply);
}

/* What a client hears whose request is answered too late. */
static const char *ask_late(const char *request)
{
    static const struct http_handler late_handler = {on_client_head, on_client, on_client_late,
                                                     on_error};
    static struct env_task reply = {.run = reply_late};
    static char out[4096];
    struct http_limits limits = http_limits_default;
    struct harness h;
    limits.request_ms = 50;
    harness_up(&h, &late_handler, &limits, NULL);
    int fd = dial(&h);
    (void)say(fd, bytes_str(request));
    (void)hear(fd, out, sizeof out, NULL);
    assert_int_equal(close(fd), 0);
    env_post(h.env, &reply);
    harness_down(&h);
    return out;
}

static void a_late_reply_leaves_the_client_with_what_is_known(void **ctx)
{
    (void)ctx;
    const char *out = ask_late("PUT /changes HTTP/1.1\r\n" HOST "\r\n");
    assert_has(out, "HTTP/1.1 504 ");
    assert_has(out, "{\"errors\":[\"outcome unknown");
    out = ask_late("PUT /waits HTTP/1.1\r\n" HOST "\r\n");
    assert_has(out, "HTTP/1.1 503 ");
    assert_has(out, "nothing was changed\"]}");
}

/* Whether it became true within a minute. */
static bool becomes_true(const _Atomic bool *what)
{
    for (unsigned i = 0; i < 60000 && !atomic_load(what); i++)
        (void)poll(NULL, 0, 1);
    return atomic_load(what);
}

static void a_watched_request_learns_that_its_client_has_gone(void **ctx)
{
    static struct env_task reply = {.run = reply_late};
    struct harness h;
    (void)ctx;
    harness_up(&h, &client_handler, NULL, NULL);
    int fd = dial(&h);
    (void)say(fd, BYTES("PUT /watched HTTP/1.1\r\n" HOST "\r\n"));
    assert_true(becomes_true(&watched));
    assert_int_equal(close(fd), 0);
    assert_true(becomes_true(&late_request->left));
    env_post(h.env, &reply);
    harness_down(&h);
}

static void a_client_may_go_while_a_watched_request_sends_its_reply(void **ctx)
{
    static struct env_task end = {.run = end_long};
    char out[4096];
    struct harness h;
    (void)ctx;
    atomic_store(&watched, false);
    harness_up(&h, &client_handler, NULL, NULL);
    int fd = dial(&h);
    (void)say(fd, BYTES("GET /watched-stream HTTP/1.1\r\n" HOST "\r\n"));
    assert_true(becomes_true(&watched));
    assert_int_equal(close(fd), 0);
    fd = dial(&h); /* served after the end of the first connection was seen */
    (void)say(fd, BYTES("GET /allow HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n"));
    (void)hear(fd, out, sizeof out, NULL);
    assert_has(out, "Allow: GET\r\n");
    assert_int_equal(close(fd), 0);
    env_post(h.env, &end);
    harness_down(&h);
}

static void list_is_a_method(void **ctx)
{
    (void)ctx;
    assert_has(ask(&client_handler, "LIST /v1/a HTTP/1.1\r\n" HOST "\r\n"), "[LIST|/v1/a|");
}

static void headers_of_a_reply_are_sent(void **ctx)
{
    (void)ctx;
    assert_has(ask(&client_handler, "GET /allow HTTP/1.1\r\n" HOST "\r\n"), "Allow: GET\r\n");
}

static const char forwarded_request[] =
    "GET /v1/a HTTP/1.1\r\n" HOST
    "x-holdfast-id: 000102030405060708090a0b0c0d0e0f-77\r\nx-holdfast-client: 192.0.2.9:5\r\n"
    "x-holdfast-again: 1\r\nx-holdfast-closed: 1\r\n\r\n";

static void a_node_of_the_cluster_speaks_for_a_client(void **ctx)
{
    (void)ctx;
    assert_has(ask(&peer_handler, forwarded_request),
               "|1111|000102030405060708090a0b0c0d0e0f-77|192.0.2.9:5]");
}

static void a_client_cannot_pass_for_a_node(void **ctx)
{
    (void)ctx;
    const char *out = ask(&client_handler, forwarded_request);
    assert_has(out, "|0000|00000000000000000000000000000000-0|127.0.0.1:");
}

static void only_a_node_asks_for_itself(void **ctx)
{
    (void)ctx;
    static const char own[] = "GET /v1/a HTTP/1.1\r\n" HOST "x-holdfast-own: 1\r\n\r\n";
    (void)ask(&peer_handler, own);
    assert_string_equal(asks_itself, "node7");
    (void)ask(&peer_handler, forwarded_request);
    assert_string_equal(asks_itself, "");
    (void)ask(&client_handler, own);
    assert_string_equal(asks_itself, "");
}

static void only_a_node_names_the_api(void **ctx)
{
    (void)ctx;
    static const char strange[] = "GET /v1/a HTTP/1.1\r\n" HOST "x-holdfast-api: x\r\n\r\n";
    static const char known[] = "GET /v1/a HTTP/1.1\r\n" HOST "x-holdfast-api: registry\r\n\r\n";
    assert_has(ask(&peer_handler, known), "[GET|");
    assert_has(ask(&peer_handler, strange), "malformed headers of a forwarded request");
    assert_has(ask(&client_handler, strange), "[GET|");
}

/* What a node or a client hears that gives `value` as the kind of the reply in its body. */
static const char *ask_answered(const struct http_handler *handler, const char *value)
{
    static char request[256];
    (void)snprintf(request, sizeof request,
                   "GET /v1/a HTTP/1.1\r\n" HOST
                   "x-holdfast-answer: %s\r\nContent-Length: 7\r\n\r\n{\"a\":1}",
                   value);
    return ask(handler, request);
}

static void a_node_of_the_cluster_may_bring_its_reply(void **ctx)
{
    (void)ctx;
    static const char *const malformed[] = {"d", "data x", "raw", "other"};
    assert_has(ask_answered(&peer_handler, "data"), "[1||{\"a\":1}]");
    assert_has(ask_answered(&peer_handler, "bare"), "[2||{\"a\":1}]");
    assert_has(ask_answered(&peer_handler, "raw text/plain; x=1"), "[3|text/plain; x=1|{\"a\":1}]");
    assert_has(ask_answered(&client_handler, "data"), "[GET|/v1/a||{\"a\":1}|");
    for (size_t i = 0; i < ARRAY_LEN(malformed); i++)
        assert_has(ask_answered(&peer_handler, malformed[i]), "HTTP/1.1 400 ");
    assert_has(ask(&peer_handler, "GET /v1/a HTTP/1.1\r\n" HOST
                                  "x-holdfast-answer: data\r\nContent-Length: 65537\r\n\r\n"),
               "HTTP/1.1 400 ");
}

static void a_malformed_id_of_a_node_is_refused(void **ctx)
{
    (void)ctx;
    assert_has(ask(&peer_handler, "GET /v1/a HTTP/1.1\r\n" HOST "x-holdfast-id: 12\r\n\r\n"),
               "HTTP/1.1 400 ");
}

static void a_request_handed_back_says_why(void **ctx)
{
    (void)ctx;
    const char *out = ask(&peer_handler, "GET /retry HTTP/1.1\r\n" HOST "\r\n");
    assert_has(out, "HTTP/1.1 503 ");
    assert_has(out, "x-holdfast-retry: ST_NOT_LEADER\r\n");
}

static void a_node_that_was_removed_speaks_for_nobody(void **ctx)
{
    (void)ctx;
    removed = true;
    const char *out = ask(&peer_handler, "GET /v1/x HTTP/1.1\r\n" HOST "\r\n");
    removed = false;
    assert_has(out, "HTTP/1.1 503 ");
    assert_has(out, "no member of the cluster");
}

/* A web page cannot make a browser send the header unasked, with the one value that counts. */
static void a_listener_may_insist_on_the_request_header(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *request, *status;
    } cases[] = {
        {"GET /v1/a HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 412 "},
        {"GET /v1/a HTTP/1.1\r\n" HOST "X-Vault-Request: true\r\n\r\n", "HTTP/1.1 200 "},
        {"GET /v1/a HTTP/1.1\r\n" HOST "X-Secrets-Request: true\r\n\r\n", "HTTP/1.1 200 "},
        {"GET /v1/a HTTP/1.1\r\n" HOST "X-Secrets-Request: false\r\n\r\n", "HTTP/1.1 412 "},
        {"GET /v1/a HTTP/1.1\r\n" HOST "X-Vault-Request: 1\r\n\r\n", "HTTP/1.1 412 "},
        {"GET //v1/a HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 412 "},
        {"GET /%761/a HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 412 "},
        {"GET /v1%2fa HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 412 "},
        {"GET http://x//v1/a HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 412 "},
        {"GET //v1/a HTTP/1.1\r\n" HOST "X-Vault-Request: true\r\n\r\n", "HTTP/1.1 200 "},
        {"GET /ui HTTP/1.1\r\n" HOST "\r\n", "HTTP/1.1 200 "},
    };
    client_side.require_request_header = peer_side.require_request_header = true;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_has(ask(&client_handler, cases[i].request), cases[i].status);
    assert_has(ask(&peer_handler, cases[0].request), "HTTP/1.1 200 "); /* it was asked there */
    client_side.require_request_header = peer_side.require_request_header = false;
}

static void a_port_may_be_for_one_request_only(void **ctx)
{
    (void)ctx;
    static const char *const only[] = {"ask", "join", NULL};
    peer_side.only = only;
    assert_has(ask(&peer_handler, "POST /v1/join HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n"),
               "HTTP/1.1 200 ");
    assert_has(ask(&peer_handler, "POST //v1/j%6Fin HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n"),
               "[POST|/v1/join|");
    assert_has(ask(&peer_handler, "GET /v1/join HTTP/1.1\r\n" HOST "\r\n"), "HTTP/1.1 403 ");
    assert_has(ask(&peer_handler, "POST /v1/join/x HTTP/1.1\r\n" HOST "Content-Length: 0\r\n\r\n"),
               "HTTP/1.1 403 ");
    peer_side.only = NULL;
}

static void so_many_headers_say_who_the_client_is(void **ctx)
{
    (void)ctx;
    struct cidr everywhere;
    assert_status(cidr_parse(BYTES("127.0.0.0/8"), &everywhere), ST_OK);
    const struct client_rule rule = {.authorized = &everywhere, .n = 1};
    CLEANUP(buf_done) struct buf request = {0};
    client_side.client = peer_side.client = &rule;
    for (int over = 0; over < 2; over++) {
        buf_clear(&request);
        buf_add_str(&request, "GET /v1/a HTTP/1.1\r\n" HOST);
        for (int i = 0; i < 16 + over; i++)
            buf_add_format(&request, "X-Forwarded-For: 192.0.2.%d\r\n", i + 1);
        buf_add(&request, bytes_of("\r\n", 3));
        const char *out = ask(&client_handler, (const char *)request.data);
        assert_has(out, over ? "more than 16" : "|192.0.2.16:");
        out = ask(&peer_handler, (const char *)request.data);
        assert_has(out, "|127.0.0.1:"); /* nodes have their own way to say it */
    }
    client_side.client = peer_side.client = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_that_was_removed_speaks_for_nobody),
        cmocka_unit_test(a_request_reaches_the_router_with_its_canonical_path),
        cmocka_unit_test(a_long_body_is_not_read_before_the_router_asks),
        cmocka_unit_test(a_streamed_reply_is_begun_and_left_to_its_stream),
        cmocka_unit_test(a_late_reply_leaves_the_client_with_what_is_known),
        cmocka_unit_test(a_watched_request_learns_that_its_client_has_gone),
        cmocka_unit_test(a_client_may_go_while_a_watched_request_sends_its_reply),
        cmocka_unit_test(list_is_a_method),
        cmocka_unit_test(headers_of_a_reply_are_sent),
        cmocka_unit_test(a_node_of_the_cluster_speaks_for_a_client),
        cmocka_unit_test(a_client_cannot_pass_for_a_node),
        cmocka_unit_test(only_a_node_asks_for_itself),
        cmocka_unit_test(only_a_node_names_the_api),
        cmocka_unit_test(a_node_of_the_cluster_may_bring_its_reply),
        cmocka_unit_test(a_malformed_id_of_a_node_is_refused),
        cmocka_unit_test(a_request_handed_back_says_why),
        cmocka_unit_test(a_listener_may_insist_on_the_request_header),
        cmocka_unit_test(a_port_may_be_for_one_request_only),
        cmocka_unit_test(so_many_headers_say_who_the_client_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
