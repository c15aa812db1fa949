/* The headers of a forwarded request, and the meaning of the replies. HTTP client, request and node
 * are stand-ins. */
#include "state/fake_env.h"
#include "support.h"

#include "base/mem.h"
#include "front/forward.h"
#include "front/front_request.h"
#include "http/unwritten.h"
#include "node/node.h"
#include "router/request/dialect.h"

#include <stdio.h>

static struct fake_env fake;
static struct arena arena;
static struct front_request request;
static struct http_request incoming;
static struct router_forward f;
static unsigned ended;
static enum status ended_with;

/* The client's request */

static const struct http_header *sent_by_client;
static size_t n_sent_by_client;

size_t http_header_count(const struct http_request *req)
{
    assert_ptr_equal(req, &incoming);
    return n_sent_by_client;
}

struct http_header http_header_at(const struct http_request *req, size_t i)
{
    assert_true(req == &incoming && i < n_sent_by_client);
    return sent_by_client[i];
}

uint64_t http_body_length(const struct http_request *req)
{
    (void)req; /* has none */
    return 0;
}

static void (*gone)(struct http_request *req);

void http_on_gone(struct http_request *req, void (*call)(struct http_request *req))
{
    assert_ptr_equal(req, &incoming);
    gone = call;
}

enum status stream_body_reserve(struct forward *fw)
{
    (void)fw;
    fail(); /* nothing streams here */
    return ST_BUSY;
}

enum status stream_reply_reserve(struct forward *fw)
{
    (void)fw;
    fail(); /* nothing streams here */
    return ST_BUSY;
}

bool stream_is_read(const struct forward *fw)
{
    (void)fw;
    fail(); /* no reply arrives here */
    return true;
}

void http_reply_payer(struct http_request *req, const char *client, uint64_t token)
{
    (void)req, (void)client, (void)token;
    fail();
}

enum status http_reply_take(struct http_request *req, size_t bytes)
{
    (void)req, (void)bytes;
    fail();
    return ST_BUSY;
}

void stream_body_begin(struct forward *fw)
{
    (void)fw;
    fail();
}

void stream_body_end(struct forward *fw)
{
    (void)fw; /* nothing streams here */
}

struct reply_stream *stream_reply(struct forward *fw)
{
    (void)fw;
    fail();
    return NULL;
}

void stream_reply_over(struct forward *fw, enum status st)
{
    (void)fw;
    (void)st;
    fail();
}

/* The node */

static struct mesh_identity identity = {.name = "node1"};
static const char *leader_cluster;

const struct mesh_identity *node_identity(struct node *node)
{
    (void)node;
    return &identity;
}

struct tls_ctx *node_tls(struct node *node)
{
    (void)node;
    return NULL;
}

void node_status_get(struct node *node, struct node_status *ret_status)
{
    (void)node;
    *ret_status = (struct node_status){.leader_name = "node2"};
    (void)snprintf(ret_status->leader_cluster, sizeof ret_status->leader_cluster, "%s",
                   leader_cluster); /* fits */
}

/* The client of HTTP */

static struct http_client_request *under_way;
static unsigned cancelled;
static char target_uri[MESH_URI_MAX], target_address[64];
static const struct http_header *reply_headers;
static size_t n_reply_headers;

void http_client_send(struct http_client *client, const struct http_target *target,
                      struct http_client_request *http)
{
    (void)client;
    assert_null(under_way);
    (void)snprintf(target_uri, sizeof target_uri, "%s", target->uri);             /* fits */
    (void)snprintf(target_address, sizeof target_address, "%s", target->address); /* fits */
    under_way = http;
}

void http_client_cancel(struct http_client_request *http)
{
    assert_ptr_equal(http, under_way);
    cancelled++;
}

size_t http_client_reply_header_count(const struct http_client_request *http)
{
    assert_ptr_equal(http, under_way);
    return n_reply_headers;
}

struct http_header http_client_reply_header_at(const struct http_client_request *http, size_t i)
{
    assert_true(http == under_way && i < n_reply_headers);
    return reply_headers[i];
}

struct bytes http_client_reply_header(const struct http_client_request *http, const char *name)
{
    assert_ptr_equal(http, under_way);
    for (size_t i = 0; i < n_reply_headers; i++)
        if (text_is(reply_headers[i].name, name))
            return reply_headers[i].value;
    return (struct bytes){0};
}

static void on_ended(struct router_forward *ended_one, enum status st)
{
    assert_ptr_equal(ended_one, &f);
    ended++;
    ended_with = st;
}

static int set_up(void **ctx)
{
    (void)ctx;
    fake_env_init(&fake, 1);
    leader_cluster = "127.0.0.1:8201";
    under_way = NULL;
    gone = NULL;
    cancelled = 0;
    incoming.user = &request;
    sent_by_client = reply_headers = NULL;
    n_sent_by_client = n_reply_headers = ended = 0;
    request = (struct front_request){.req = &incoming};
    request.request = (struct router_request){
        .method = METHOD_PUT,
        .arena = &arena,
        .peer = "10.1.2.3",
        .target = {.full = BYTES("/v1/kv/a b"), .path = BYTES("kv/a b")},
    };
    f = (struct router_forward){
        .request = &request.request, .env = &fake.env, .deadline_ms = 5001, .done = on_ended};
    return 0;
}

static int tear_down(void **ctx)
{
    (void)ctx;
    arena_done(&arena);
    return 0;
}

static void start(void)
{
    static const struct forwarder forwarder;
    forward_start(&forwarder, &f);
    assert_int_equal(ended, 0); /* never from inside */
}

/* The header of the request that went out; NULL: it has none of that name. */
static const char *out(const char *name)
{
    const char *found = NULL;
    for (size_t i = 0; i < under_way->n_headers; i++) {
        if (!text_is(under_way->headers[i].name, name))
            continue;
        assert_null(found); /* once */
        found = arena_str(&arena, under_way->headers[i].value);
    }
    return found;
}

/* The reply of the active node, with one header. */
static enum status reply(int http, const char *name, const char *value)
{
    const struct http_header header = {bytes_str(name), bytes_str(value)};
    reply_headers = &header;
    n_reply_headers = name[0] != '\0';
    under_way->status = http;
    under_way->done(under_way, ST_OK);
    assert_int_equal(ended, 1);
    return ended_with;
}

static void the_request_goes_to_the_leader_as_it_came(void **ctx)
{
    static const struct http_header headers[] = {
        {BYTES("x-vault-token"), BYTES("t")},
        {BYTES("content-type"), BYTES("application/json")},
    };
    (void)ctx;
    sent_by_client = headers;
    n_sent_by_client = ARRAY_LEN(headers);
    request.request.query = BYTES("x=1");
    request.request.body = BYTES("{}");
    start();
    assert_string_equal(target_address, "127.0.0.1:8201");
    assert_non_null(strstr(target_uri, "node2"));
    assert_int_equal(under_way->method, METHOD_PUT);
    assert_bytes(under_way->path, BYTES("/v1/kv/a%20b?x=1"));
    assert_bytes(under_way->body, BYTES("{}"));
    assert_int_equal(under_way->timeout_ms, 5000);
    assert_string_equal(out("x-vault-token"), "t");
    assert_string_equal(out("content-type"), "application/json");
    assert_string_equal(out("x-holdfast-client"), "10.1.2.3");
    assert_null(out("x-holdfast-id"));
    assert_false(under_way->repeatable);
}

/* A client must not speak for this node, or frame the message for it. */
static void headers_of_the_connection_and_of_nodes_stay_here(void **ctx)
{
    static const char *const names[] = {
        "connection",        "keep-alive",        "proxy-connection", "te",
        "trailer",           "transfer-encoding", "upgrade",          "expect",
        "content-length",    "cache-control",     "x-holdfast-id",    "x-holdfast-again",
        "x-holdfast-closed", "x-holdfast-answer", "x-holdfast-retry", "x-holdfast-anything",
    };
    struct http_header headers[ARRAY_LEN(names) + 1];
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        headers[i] = (struct http_header){bytes_str(names[i]), BYTES("1")};
    headers[ARRAY_LEN(names)] = (struct http_header){BYTES("x-holdfast-client"), BYTES("10.9.9.9")};
    sent_by_client = headers;
    n_sent_by_client = ARRAY_LEN(headers);
    start();
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        assert_null(out(names[i]));
    assert_string_equal(out("x-holdfast-client"), "10.1.2.3");
    assert_int_equal(under_way->n_headers, 1);
}

static void the_id_goes_with_it_and_whether_it_is_a_later_try(void **ctx)
{
    (void)ctx;
    f.id.bytes[0] = 0xAB;
    f.id.issued = 7;
    request.request.closed_ceremonies = true;
    start();
    assert_string_equal(out("x-holdfast-id"), "ab000000000000000000000000000000-7");
    assert_null(out("x-holdfast-again"));
    assert_string_equal(out("x-holdfast-closed"), "1");
    assert_null(out("x-holdfast-api"));
    assert_true(under_way->repeatable && under_way->once); /* a second try has to say so */
    under_way = NULL;
    f.again = true;
    start();
    assert_string_equal(out("x-holdfast-again"), "1");
}

static void the_api_of_the_listener_goes_with_it(void **ctx)
{
    static const struct dialect registry = {.name = "registry"};
    (void)ctx;
    request.request.dialect = &registry;
    request.request.foreign = true;
    start();
    assert_string_equal(out("x-holdfast-api"), "registry");
}

static void a_reply_about_this_node_takes_the_place_of_the_body(void **ctx)
{
    (void)ctx;
    static const struct reply_answer answers[] = {
        {.kind = REPLY_DATA, .data = BYTES("{\"a\":1}")},
        {.kind = REPLY_BARE, .data = BYTES("{}")},
        {.kind = REPLY_RAW, .type = "text/plain; x=1", .data = BYTES("up 1\n")}};
    static const char *const words[] = {"data", "bare", "raw text/plain; x=1"};
    for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
        f.answer = &answers[i];
        start();
        assert_string_equal(out("x-holdfast-answer"), words[i]);
        assert_bytes(under_way->body, answers[i].data);
        under_way = NULL;
    }
}

static void without_a_leader_nothing_is_sent(void **ctx)
{
    (void)ctx;
    leader_cluster = "";
    start();
    assert_null(under_way);
    while (fake_env_step(&fake))
        ;
    assert_int_equal(ended, 1);
    assert_status(ended_with, ST_NO_LEADER);
}

static void a_reply_is_taken_with_its_headers(void **ctx)
{
    (void)ctx;
    start();
    buf_add_str(&under_way->reply, "{\"a\":1}");
    assert_status(reply(404, "x-answer", "42"), ST_OK);
    assert_int_equal(f.reply.http, 404);
    assert_bytes(buf_bytes(&f.reply.body), BYTES("{\"a\":1}"));
    assert_int_equal(f.reply.n_headers, 1);
    assert_bytes(f.reply.headers[0].name, BYTES("x-answer"));
    assert_bytes(f.reply.headers[0].value, BYTES("42"));
    buf_done(&f.reply.body);
}

static void the_other_node_says_whether_to_try_again(void **ctx)
{
    static const struct {
        const char *text;
        enum status wanted;
    } cases[] = {
        {"ST_NOT_LEADER", ST_NOT_LEADER},
        {"ST_UNKNOWN_OUTCOME", ST_UNKNOWN_OUTCOME},
        {"ST_OK", ST_UNKNOWN_OUTCOME}, /* nonsense: it may have been executed */
        {"later", ST_UNKNOWN_OUTCOME},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        start();
        assert_status(reply(503, "x-holdfast-retry", cases[i].text), cases[i].wanted);
        assert_int_equal(tear_down(ctx), 0);
        assert_int_equal(set_up(ctx), 0);
    }
}

static void a_request_that_fails_ends_with_its_status(void **ctx)
{
    (void)ctx;
    start();
    under_way->done(under_way, ST_UNKNOWN_OUTCOME);
    assert_int_equal(ended, 1);
    assert_status(ended_with, ST_UNKNOWN_OUTCOME);
}

static void a_request_that_waits_ends_with_its_client(void **ctx)
{
    (void)ctx;
    f.waits = true;
    start();
    assert_non_null(gone);
    gone(&incoming);
    assert_int_equal(cancelled, 1);
    assert_int_equal(ended, 1);
    assert_status(ended_with, ST_CLOSED);
    assert_null(gone);
}

static void a_request_that_waits_gets_its_reply(void **ctx)
{
    (void)ctx;
    f.waits = true;
    start();
    assert_status(reply(200, "", ""), ST_OK);
    assert_null(gone);
    assert_int_equal(cancelled, 0);
    buf_done(&f.reply.body);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_request_goes_to_the_leader_as_it_came),
        TEST(headers_of_the_connection_and_of_nodes_stay_here),
        TEST(the_id_goes_with_it_and_whether_it_is_a_later_try),
        TEST(the_api_of_the_listener_goes_with_it),
        TEST(a_reply_about_this_node_takes_the_place_of_the_body),
        TEST(without_a_leader_nothing_is_sent),
        TEST(a_reply_is_taken_with_its_headers),
        TEST(the_other_node_says_whether_to_try_again),
        TEST(a_request_that_fails_ends_with_its_status),
        TEST(a_request_that_waits_ends_with_its_client),
        TEST(a_request_that_waits_gets_its_reply),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
