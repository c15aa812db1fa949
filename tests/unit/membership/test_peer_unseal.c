/* Peer unseal on the sealed node: how long it waits until it asks again. */
#include "support.h"

#include "cluster/membership/join/peer_unseal.h"
#include "crypto/crypto.h"
#include "router/clock_env.h"
#include "text/encode.h"

#include <stdio.h>

enum { OWN = 1, LEADER = 2 };

static struct clock_env clock_env;
static struct part_host host;
static struct peer_unseal asking;
static struct rlog_status raft;
static struct http_client_request *sent; /* under way; NULL: none */
static unsigned opened;

/* Stand in for the client, the cluster port and the seal. */

enum status http_client_new(struct env *env, struct http_client **ret_client)
{
    (void)env;
    *ret_client = (struct http_client *)&sent; /* never looked into */
    return ST_OK;
}

void http_client_send(struct http_client *client, const struct http_target *target,
                      struct http_client_request *request)
{
    (void)client;
    (void)target;
    assert_null(sent);
    sent = request;
}

void http_client_cancel(struct http_client_request *request)
{
    assert_ptr_equal(request, sent);
    sent = NULL;
}

void http_client_close(struct http_client *client, void (*closed)(void *ctx), void *ctx)
{
    (void)client;
    closed(ctx);
}

void http_client_free(struct http_client *client)
{
    (void)client;
}

struct tls_ctx *mesh_tls_client(struct mesh *mesh)
{
    (void)mesh;
    return NULL;
}

static bool wants(void *ctx)
{
    (void)ctx;
    return true;
}

static enum status open_root(void *ctx, const struct secret *root, struct reason *reason)
{
    (void)ctx;
    (void)reason;
    assert_int_equal(root->len, 4);
    opened++;
    return ST_OK;
}

static const struct member_options options = {.name = "n1"};

static int set_up(void **ctx)
{
    (void)ctx;
    assert_status(crypto_init(NULL), ST_OK);
    clock_env_init(&clock_env);
    clock_env.now_ms = 100000;
    host = (struct part_host){.env = &clock_env.env,
                              .options = &options,
                              .id = OWN,
                              .phase = PHASE_MEMBER,
                              .mesh = (struct mesh *)&sent, /* never looked into */
                              .cluster_id = "01234567"};
    raft = (struct rlog_status){
        .n_members = 2, .id = OWN, .leader = LEADER, .members = {{.id = OWN}, {.id = LEADER}}};
    asking = (struct peer_unseal){.enabled = true, .seal = {NULL, wants, open_root}};
    sent = NULL;
    opened = 0;
    assert_status(peer_unseal_part.start(&asking, &host), ST_OK);
    return 0;
}

static int tear_down(void **ctx)
{
    (void)ctx;
    host.stopping = true;
    assert_true(peer_unseal_part.stop(&asking));
    timer_heap_done(&clock_env.timers);
    return 0;
}

/* The active node's reply to the request under way. */
static void reply(int http, const char *body)
{
    struct http_client_request *request = sent;
    assert_non_null(request);
    sent = NULL;
    request->status = http;
    buf_add_str(&request->reply, body);
    request->done(request, ST_OK);
}

static void reply_key(void)
{
    CLEANUP(buf_done) struct buf context = {0}, sealed = {0};
    char text[256], body[320];
    assert_status(peer_unseal_context(host.cluster_id, options.name, &context), ST_OK);
    assert_status(box_seal(asking.key.public_key, buf_bytes(&context), BYTES("root"), &sealed),
                  ST_OK);
    assert_true(TEXT_BASE64_LEN(sealed.len) < sizeof text);
    (void)text_base64_put(buf_bytes(&sealed), TEXT_BASE64, text);
    (void)snprintf(body, sizeof body, "{\"data\":{\"sealed_key\":\"%s\"}}", text);
    reply(200, body);
}

/* After how many milliseconds the node asks again. */
static uint64_t pause_ms(void)
{
    uint64_t since_ms = clock_env.now_ms;
    while (sent == NULL) {
        peer_unseal_part.changed(&asking, &raft);
        if (sent == NULL)
            clock_env.now_ms += PART_TICK_MS;
        assert_true(clock_env.now_ms - since_ms < 60000);
    }
    return clock_env.now_ms - since_ms;
}

static void refusals_make_it_wait_longer_and_a_key_ends_that(void **ctx)
{
    (void)ctx;
    static const uint64_t waits_ms[] = {0, 2000, 4000, 8000, 16000, 30000, 30000};
    for (size_t i = 0; i < ARRAY_LEN(waits_ms); i++) {
        assert_int_equal(pause_ms(), waits_ms[i]);
        reply(403, "{\"errors\":[\"peer unseal is off\"]}");
    }
    assert_int_equal(pause_ms(), 30000);
    reply_key();
    assert_int_equal(opened, 1);
    assert_int_equal(pause_ms(), 1000); /* sealed again: the refusals of before do not count */
    reply(403, "{}");
    assert_int_equal(pause_ms(), 2000);
}

static void a_reply_that_is_no_key_unseals_nothing(void **ctx)
{
    (void)ctx;
    static const char *const bodies[] = {"",
                                         "{}",
                                         "{\"data\":{}}",
                                         "{\"data\":{\"sealed_key\":7}}",
                                         "{\"data\":{\"sealed_key\":\"AAAA\"}}",
                                         "{\"data\":{\"sealed_key\":\"no base64!\"}}"};
    for (size_t i = 0; i < ARRAY_LEN(bodies); i++) {
        (void)pause_ms();
        reply(200, bodies[i]);
        assert_int_equal(opened, 0);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(refusals_make_it_wait_longer_and_a_key_ends_that),
        TEST(a_reply_that_is_no_key_unseals_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
