/* Requests that no audit device of a standby takes: the active node records them (PROTOCOL R20). */
#include "router/recorded_world.h"

/* The device of this node refuses every record, and the node is a performance standby. */
static void be_mute(void)
{
    world_standby(&w, true);
    break_device();
}

static void the_active_node_records_what_a_standby_cannot(void **ctx)
{
    (void)ctx;
    static const struct {
        enum http_method method;
        const char *target;
    } cases[] = {{METHOD_GET, "/v1/test/count"},
                 {METHOD_POST, "/v1/test/reads"},
                 {METHOD_GET, "/v1/nowhere"},
                 {METHOD_DELETE, "/v1/test/count"}};
    be_mute();
    for (unsigned i = 0; i < ARRAY_LEN(cases); i++) {
        if (cases[i].method == METHOD_DELETE)
            w.token[0] = '\0';
        struct test_request *t = call(cases[i].method, cases[i].target, NULL);
        assert_int_equal(t->http, 299);
        assert_body(t, "{\"from\":\"the active node\"}");
        assert_int_equal(w.forwards, i + 1);
        assert_string_equal(w.forward_answer, "");
    }
}

static void a_step_outside_is_left_to_the_active_node(void **ctx)
{
    (void)ctx;
    be_mute();
    assert_int_equal(call(METHOD_GET, "/v1/test/out", NULL)->http, 299);
    assert_int_equal(w.forwards, 1);
    assert_int_equal(outside_runs, 0);
}

static void without_an_active_node_nothing_is_told(void **ctx)
{
    (void)ctx;
    be_mute();
    w.forward_status[0] = ST_NO_LEADER;
    w.n_forward = 1;
    struct test_request *t = call(METHOD_GET, "/v1/test/count", NULL);
    assert_int_equal(t->http, 500);
    assert_body_has(t, "could not be recorded");
    assert_true(w.forwards > 10);
    w.node.has_leader = false;
    t = call(METHOD_GET, "/v1/test/count", NULL);
    assert_int_equal(t->http, 500);
    assert_body_has(t, "could not be recorded");
}

static void a_standby_that_becomes_active_records_again(void **ctx)
{
    (void)ctx;
    struct test_request t;
    be_mute();
    w.forward_status[0] = ST_NOT_LEADER;
    w.n_forward = 1;
    begin(&t, METHOD_GET, "/v1/test/stays");
    assert_int_equal(t.replies, 0);
    assert_int_equal(w.forwards, 1);
    w.node.active = true;
    for (unsigned i = 0; i < FAKE_LINES; i++)
        device->results[i] = ST_OK;
    w.env.now_ms += 25;
    clock_run(&w.env);
    assert_int_equal(t.replies, 1);
    assert_int_equal(t.http, 200);
    assert_int_equal(w.forwards, 1);
    test_request_done(&t);
}

static void a_node_that_forwards_is_not_forwarded_to(void **ctx)
{
    (void)ctx;
    struct test_request t;
    be_mute();
    test_request_init(&t, METHOD_GET, "/v1/test/stays", NULL);
    test_request_header(&t, "x-secrets-token", w.token);
    t.request.forwarded = true;
    world_handle(&w, &t);
    assert_int_equal(t.http, 500);
    assert_int_equal(w.forwards, 0);
    test_request_done(&t);
}

static void a_forwarded_write_at_a_standby_is_handed_back(void **ctx)
{
    (void)ctx;
    struct test_request t;
    world_standby(&w, true);
    test_request_init(&t, METHOD_GET, "/v1/test/add", NULL); /* a read that stages a write */
    test_request_header(&t, "x-secrets-token", w.token);
    t.request.forwarded = true;
    world_handle(&w, &t);
    assert_status(t.retry, ST_NOT_LEADER);
    test_request_done(&t);
}

/* Replies about the node that was asked */

static void a_reply_about_the_node_goes_along(void **ctx)
{
    (void)ctx;
    be_mute();
    assert_int_equal(call(METHOD_GET, "/v1/test/stays", NULL)->http, 299);
    assert_string_equal(w.forward_answer, "1  {\"runs\":1}");
    assert_int_equal(call(METHOD_GET, "/v1/sys/metrics", NULL)->http, 299);
    assert_non_null(strstr(w.forward_answer, "2  {\"Timestamp\":"));
    assert_int_equal(call(METHOD_GET, "/v1/sys/metrics?format=prometheus", NULL)->http, 299);
    assert_non_null(strstr(w.forward_answer, "3 text/plain; version=0.0.4; charset=utf-8 "));
    assert_int_equal(w.forwards, 3);
}

static void an_error_about_the_node_is_not_replaced(void **ctx)
{
    (void)ctx;
    be_mute();
    struct test_request *t = call(METHOD_GET, "/v1/sys/metrics?format=nonsense", NULL);
    assert_int_equal(t->http, 500);
    assert_body_has(t, "could not be recorded");
    assert_int_equal(w.forwards, 0);
    w.node.raft.feature =
        RLOG_FEATURE_FIRST; /* the active node may be of a build that takes no reply */
    assert_int_equal(call(METHOD_GET, "/v1/test/stays", NULL)->http, 500);
    assert_int_equal(w.forwards, 0);
}

static void a_counted_use_does_not_change_who_replies(void **ctx)
{
    (void)ctx;
    struct test_request *t =
        call(METHOD_POST, "/v1/auth/token/create", "{\"policies\":[\"root\"],\"num_uses\":3}");
    const char *token = strstr((const char *)t->body.data, "\"client_token\":\"");
    assert_non_null(token);
    token += strlen("\"client_token\":\"");
    (void)snprintf(w.token, sizeof w.token, "%.*s", (int)strcspn(token, "\""), token);
    world_standby(&w, true);
    assert_int_equal(call(METHOD_GET, "/v1/test/stays", NULL)->http, 299);
    assert_string_equal(w.forward_answer, "1  {\"runs\":1}");
    assert_int_equal(device->n_lines, 0);
}

/* A request that another node has answered. */
static void handle_answered(struct test_request *t, const char *target, struct reply_answer *answer)
{
    test_request_init(t, METHOD_GET, target, NULL);
    test_request_header(t, "x-secrets-token", w.token);
    t->request.forwarded = true;
    t->request.answer = answer;
    fake_forget_lines(device);
    world_handle(&w, t);
}

static void the_active_node_records_and_sends_the_reply_of_another(void **ctx)
{
    (void)ctx;
    struct reply_answer answer = {.kind = REPLY_DATA, .data = BYTES("{\"seen\":\"there\"}")};
    struct test_request t;
    handle_answered(&t, "/v1/test/stays", &answer);
    assert_int_equal(t.http, 200);
    assert_body_has(&t, "\"data\":{\"seen\":\"there\"}");
    assert_int_equal(runs, 0);
    assert_pair();
    assert_line_has(1, "\"data\":{\"seen\":\"there\"}");
    test_request_done(&t);

    answer = (struct reply_answer){
        .kind = REPLY_RAW, .type = "text/plain", .data = BYTES("holdfast_up 1\n")};
    handle_answered(&t, "/v1/sys/metrics?format=prometheus", &answer);
    assert_int_equal(t.http, 200);
    assert_body(&t, "holdfast_up 1\n");
    assert_string_equal(t.type, "text/plain");
    assert_pair();
    test_request_done(&t);
}

static void the_active_node_judges_the_sender_of_an_answered_request(void **ctx)
{
    (void)ctx;
    struct reply_answer answer = {.kind = REPLY_DATA, .data = BYTES("{\"seen\":\"there\"}")};
    struct test_request t;
    handle_answered(&t, "/v1/test/count", &answer); /* the reply does not depend on the node */
    assert_int_equal(t.http, 400);
    test_request_done(&t);
    (void)snprintf(w.token, sizeof w.token, "hvs.unknown");
    handle_answered(&t, "/v1/test/stays", &answer);
    assert_int_equal(t.http, 403);
    assert_pair();
    assert_line_lacks(1, "there");
    test_request_done(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RECORDED_TEST(the_active_node_records_what_a_standby_cannot),
        RECORDED_TEST(a_step_outside_is_left_to_the_active_node),
        RECORDED_TEST(without_an_active_node_nothing_is_told),
        RECORDED_TEST(a_standby_that_becomes_active_records_again),
        RECORDED_TEST(a_node_that_forwards_is_not_forwarded_to),
        RECORDED_TEST(a_forwarded_write_at_a_standby_is_handed_back),
        RECORDED_TEST(a_reply_about_the_node_goes_along),
        RECORDED_TEST(an_error_about_the_node_is_not_replaced),
        RECORDED_TEST(a_counted_use_does_not_change_who_replies),
        RECORDED_TEST(the_active_node_records_and_sends_the_reply_of_another),
        RECORDED_TEST(the_active_node_judges_the_sender_of_an_answered_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
