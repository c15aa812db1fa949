#include "router/pipe_world.h"

static void step_down(struct world *world)
{
    world_standby(world, true);
}

static void a_leader_that_steps_down_forwards_what_it_did_not_propose(void **ctx)
{
    (void)ctx;
    w.propose_status[0] = ST_NOT_LEADER;
    w.n_propose = 1;
    w.before_propose = step_down;
    struct test_request *t = world_request(&w, METHOD_PUT, "/v1/test/add", NULL);
    assert_int_equal(t->http, 299);
    assert_int_equal(w.forwards, 1);
    assert_count(NULL);
}

/* Standbys */

static void a_standby_forwards_writes_with_an_id(void **ctx)
{
    (void)ctx;
    static const uint8_t none[16];
    world_standby(&w, true);
    struct test_request *t = world_request(&w, METHOD_PUT, "/v1/test/add", NULL);
    assert_int_equal(t->http, 299);
    assert_body(t, "{\"from\":\"the active node\"}");
    assert_int_equal(w.forwards, 1);
    assert_memory_not_equal(w.forward_ids[0].bytes, none, sizeof none);
    assert_int_equal(runs, 0);
}

static void a_performance_standby_serves_reads_itself(void **ctx)
{
    (void)ctx;
    world_standby(&w, true);
    assert_int_equal(world_request(&w, METHOD_GET, "/v1/test/count", NULL)->http, 200);
    assert_int_equal(world_request(&w, METHOD_POST, "/v1/test/reads", NULL)->http, 200);
    assert_int_equal(w.forwards, 0);
    assert_int_equal(w.reads, 2);
    assert_int_equal(world_request(&w, METHOD_GET, "/v1/test/active", NULL)->http, 299);
    assert_int_equal(w.forwards, 1);
}

static void a_plain_standby_forwards_reads_with_an_id(void **ctx)
{
    (void)ctx;
    static const uint8_t none[16];
    world_standby(&w, false);
    assert_int_equal(world_request(&w, METHOD_GET, "/v1/test/count", NULL)->http, 299);
    assert_memory_not_equal(w.forward_ids[0].bytes, none, sizeof none);
}

static void a_read_that_stages_something_is_forwarded(void **ctx)
{
    (void)ctx;
    world_standby(&w, true);
    struct test_request *t = world_request(&w, METHOD_GET, "/v1/test/add", NULL);
    assert_int_equal(t->http, 299);
    assert_int_equal(runs, 1);
    assert_int_equal(w.proposals, 0);
    assert_count(NULL);
}

static void a_forward_of_unknown_fate_is_tried_again_with_its_id(void **ctx)
{
    (void)ctx;
    world_standby(&w, true);
    w.forward_status[0] = ST_UNKNOWN_OUTCOME;
    w.forward_status[1] = ST_NOT_LEADER;
    w.forward_status[2] = ST_OK;
    w.n_forward = 3;
    assert_int_equal(world_request(&w, METHOD_PUT, "/v1/test/add", NULL)->http, 299);
    assert_int_equal(w.forwards, 3);
    assert_memory_equal(&w.forward_ids[0], &w.forward_ids[1], sizeof w.forward_ids[0]);
    assert_memory_equal(&w.forward_ids[0], &w.forward_ids[2], sizeof w.forward_ids[0]);
}

/* It may have counted a use of its token. */
static void a_forwarded_read_of_unknown_fate_is_tried_again_with_its_id(void **ctx)
{
    (void)ctx;
    static const char *const targets[] = {"/v1/test/count", "/v1/test/add"};
    for (size_t i = 0; i < ARRAY_LEN(targets); i++) {
        world_standby(&w, i == 1);
        w.forwards = 0;
        w.forward_status[0] = ST_UNKNOWN_OUTCOME;
        w.forward_status[1] = ST_OK;
        w.n_forward = 2;
        assert_int_equal(world_request(&w, METHOD_GET, targets[i], NULL)->http, 299);
        assert_int_equal(w.forwards, 2);
        assert_memory_equal(&w.forward_ids[0], &w.forward_ids[1], sizeof w.forward_ids[0]);
        assert_true(!w.forward_again[0] && w.forward_again[1]);
        w.n_forward = 1; /* for ever */
        w.forwards = 0;
        assert_int_equal(world_request(&w, METHOD_GET, targets[i], NULL)->http, i == 1 ? 500 : 503);
    }
}

static void a_forward_that_never_succeeds_tells_what_is_known(void **ctx)
{
    (void)ctx;
    world_standby(&w, true);
    w.forward_status[0] = ST_NOT_LEADER;
    w.n_forward = 1;
    assert_int_equal(world_request(&w, METHOD_PUT, "/v1/test/add", NULL)->http, 503);
    assert_true(w.forwards > 10);
    w.forward_status[0] = ST_IO;
    w.forwards = 0;
    struct test_request *t = world_request(&w, METHOD_PUT, "/v1/test/add", NULL);
    assert_int_equal(t->http, 500);
    assert_body_has(t, "outcome unknown");
}

static void a_long_body_of_unknown_fate_is_not_tried_again(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf body = {0};
    world_standby(&w, true);
    uint8_t *room = buf_extend(&body, 1024 * 1024 + 2);
    memset(room, ' ', 1024 * 1024 + 1);
    room[1024 * 1024 + 1] = 0;
    w.forward_status[0] = ST_IO;
    w.n_forward = 1;
    struct test_request *t = world_request(&w, METHOD_PUT, "/v1/test/add", (const char *)body.data);
    assert_int_equal(t->http, 500);
    assert_int_equal(w.forwards, 1);
}

static void without_an_active_node_a_write_waits_then_fails(void **ctx)
{
    (void)ctx;
    world_standby(&w, true);
    w.node.has_leader = false;
    uint64_t begun = w.env.now_ms;
    struct test_request *t = world_request(&w, METHOD_PUT, "/v1/test/add", NULL);
    assert_int_equal(t->http, 503);
    assert_body_has(t, "no active node");
    assert_int_equal(w.forwards, 0);
    assert_true(w.env.now_ms >= begun + 9000);
}

static void a_node_that_became_active_meanwhile_runs_the_request(void **ctx)
{
    (void)ctx;
    struct test_request t;
    world_standby(&w, true);
    w.node.has_leader = false;
    test_request_init(&t, METHOD_PUT, "/v1/test/add", NULL);
    test_request_header(&t, "x-vault-token", w.token);
    world_take(&w, &t);
    clock_run(&w.env);
    assert_int_equal(t.replies, 0);
    w.node.active = w.node.has_leader = true;
    for (int i = 0; i < 100; i++) {
        w.env.now_ms++;
        clock_run(&w.env);
    }
    assert_int_equal(t.replies, 1);
    assert_int_equal(t.http, 200);
    assert_count("1");
    test_request_done(&t);
}

static void a_client_may_ask_to_be_redirected(void **ctx)
{
    (void)ctx;
    struct test_request t;
    world_standby(&w, false);
    test_request_init(&t, METHOD_GET, "/v1/test/count?a=b", NULL);
    test_request_header(&t, "x-vault-token", w.token);
    test_request_header(&t, "x-vault-no-request-forwarding", "true");
    world_handle(&w, &t);
    assert_int_equal(t.http, 307);
    assert_string_equal(t.location, "https://node2:8200/v1/test/count?a=b");
    assert_int_equal(w.forwards, 0);
    test_request_done(&t);

    w.node.leader_address[0] = '\0'; /* it has not said where it is */
    test_request_init(&t, METHOD_GET, "/v1/test/count", NULL);
    test_request_header(&t, "x-vault-token", w.token);
    test_request_header(&t, "x-vault-no-request-forwarding", "true");
    world_handle(&w, &t);
    assert_int_equal(t.http, 503);
    assert_string_equal(t.location, "");
    test_request_done(&t);
}

/* That is a matter of the node that the client spoke to, which also says what it is. */
static void who_is_forwarded_is_not_redirected(void **ctx)
{
    (void)ctx;
    struct test_request t;
    for (int standby = 0; standby < 2; standby++) {
        if (standby != 0)
            world_standby(&w, false);
        test_request_init(&t, METHOD_GET, "/v1/test/count", NULL);
        test_request_header(&t, "x-vault-token", w.token);
        test_request_header(&t, "x-vault-namespace", "root");
        test_request_header(&t, "x-vault-no-request-forwarding", "true");
        t.request.forwarded = true;
        world_handle(&w, &t);
        assert_string_equal(t.told, "");
        assert_status(t.retry, standby != 0 ? ST_NOT_LEADER : ST_OK);
        test_request_done(&t);
    }
}

/* Long bodies */

static struct test_request *streamed_request(struct test_request *t)
{
    w.forwards = 0;
    test_request_init(t, METHOD_PUT, "/v1/test/add", NULL);
    test_request_header(t, "x-secrets-token", w.token);
    t->request.streamed = true;
    t->request.body_length = ROUTER_WHOLE_BYTES_MAX + 1;
    world_handle(&w, t);
    return t;
}

static void a_streamed_request_is_sent_without_an_id(void **ctx)
{
    (void)ctx;
    static const uint8_t none[16];
    struct test_request t;
    world_standby(&w, true);
    assert_int_equal(streamed_request(&t)->http, 299);
    assert_memory_equal(w.forward_ids[0].bytes, none, sizeof none);
    test_request_done(&t);
}

static void a_streamed_request_without_a_right_stays_here(void **ctx)
{
    (void)ctx;
    static struct test_request t;
    (void)snprintf(w.token, sizeof w.token, "hvs.none");
    world_standby(&w, true);
    assert_int_equal(streamed_request(&t)->http, 403);
    test_request_done(&t);
    world_standby(&w, false);
    assert_int_equal(streamed_request(&t)->http, 403);
    assert_int_equal(w.forwards, 0);
    test_request_done(&t);
}

static void a_streamed_request_waits_for_an_active_node_until_its_body_was_read(void **ctx)
{
    (void)ctx;
    static const enum status untouched[] = {ST_NO_LEADER, ST_NOT_LEADER, ST_BUSY};
    world_standby(&w, true);
    for (size_t i = 0; i < ARRAY_LEN(untouched); i++) {
        struct test_request t;
        w.forward_status[0] = untouched[i];
        w.forward_status[1] = ST_OK;
        w.n_forward = 2;
        w.forward_takes_body = false;
        assert_int_equal(streamed_request(&t)->http, 299);
        assert_int_equal(w.forwards, 2);
        test_request_done(&t);
        w.forward_takes_body = true;
        assert_int_equal(streamed_request(&t)->http, 503); /* nothing was done */
        assert_int_equal(w.forwards, 1);
        test_request_done(&t);
    }
}

static void a_streamed_request_of_unknown_outcome_says_so(void **ctx)
{
    (void)ctx;
    struct test_request t;
    world_standby(&w, true);
    w.forward_takes_body = true;
    w.forward_status[0] = ST_UNKNOWN_OUTCOME;
    w.forward_status[1] = ST_OK;
    w.n_forward = 2;
    assert_int_equal(streamed_request(&t)->http, 500);
    assert_body_has(&t, "outcome unknown");
    assert_int_equal(w.forwards, 1);
    test_request_done(&t);
}

/* The same with a body that comes when it is asked for. */
static struct test_request *late_request(struct test_request *t, uint64_t length)
{
    w.forwards = 0;
    test_request_init(t, METHOD_PUT, "/v1/kv/late", NULL);
    test_request_header(t, "x-secrets-token", w.token);
    t->request.streamed = true;
    t->request.body_length = length;
    t->late_body = "{\"a\":1}";
    return t;
}

static void a_long_body_is_read_here_once_its_sender_was_judged(void **ctx)
{
    (void)ctx;
    struct test_request t;
    world_handle(&w, late_request(&t, HTTP_LENGTH_UNKNOWN));
    assert_int_equal(t.http, 204);
    assert_int_equal(t.collects, 1);
    assert_int_equal(w.reads, 0); /* what this node knew was enough */
    test_request_done(&t);
    assert_int_equal(world_request(&w, METHOD_GET, "/v1/kv/late", NULL)->http, 200);
}

static void a_long_body_of_somebody_without_a_right_is_never_read(void **ctx)
{
    (void)ctx;
    static const char *const open_routes[] = {"/v1/sys/unseal", "/v1/sys/init",
                                              "/v1/sys/generate-root/update"};
    static struct test_request t;
    for (size_t i = 0; i < ARRAY_LEN(open_routes); i++) {
        test_request_init(&t, METHOD_PUT, open_routes[i], NULL);
        t.request.streamed = true;
        t.request.body_length = HTTP_LENGTH_UNKNOWN;
        world_handle(&w, &t);
        assert_int_equal(t.http, 413);
        assert_int_equal(t.collects, 0);
        test_request_done(&t);
    }
    (void)snprintf(w.token, sizeof w.token, "hvs.none");
    w.reads = 0;
    world_handle(&w, late_request(&t, 100 * 1024));
    assert_int_equal(t.http, 403);
    assert_int_equal(t.collects, 0);
    assert_int_equal(w.reads, 1); /* its token might have been newer than what is known here */
    test_request_done(&t);
}

static void a_standby_reads_what_it_can_send_again(void **ctx)
{
    (void)ctx;
    static const uint8_t none[16];
    struct test_request t;
    world_standby(&w, true);
    for (uint64_t over = 0; over < 2; over++) {
        world_handle(&w, late_request(&t, ROUTER_WHOLE_BYTES_MAX + over));
        assert_int_equal(t.http, 299);
        assert_int_equal(t.collects, over == 0 ? 1 : 0);
        assert_int_equal(memcmp(w.forward_ids[0].bytes, none, sizeof none) == 0, over == 1);
        test_request_done(&t);
    }
}

static void a_node_that_becomes_active_reads_what_was_to_be_sent_on(void **ctx)
{
    (void)ctx;
    struct test_request t;
    world_standby(&w, true);
    w.forward_status[0] = ST_NOT_LEADER;
    w.n_forward = 1;
    (void)late_request(&t, ROUTER_WHOLE_BYTES_MAX + 1);
    world_take(&w, &t);
    w.node.active = true;
    clock_run(&w.env);
    for (int i = 0; t.replies == 0 && i < 1000; i++) {
        test_collected(&t);
        w.env.now_ms++;
        clock_run(&w.env);
    }
    assert_int_equal(t.http, 204);
    assert_int_equal(w.forwards, 1);
    test_request_done(&t);
}

static void a_body_that_does_not_come_changes_nothing(void **ctx)
{
    static const struct {
        enum status st;
        int http;
        const char *text;
    } cases[] = {
        {ST_CLOSED, 400, "broke off"},
        {ST_INVALID, 400, "broke off"},
        {ST_TIMEOUT, 408, "too slowly"},
        {ST_TOO_BIG, 413, "too large"},
        {ST_BUSY, 503, "too many request bodies"},
        {ST_NOMEM, 500, "out of memory"},
    };
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct test_request t;
        late_request(&t, 100 * 1024)->late_status = cases[i].st;
        world_handle(&w, &t);
        assert_int_equal(t.http, cases[i].http);
        assert_body_has(&t, cases[i].text);
        test_request_done(&t);
    }
    assert_int_equal(w.proposals, 0);
}

/* Requests whose client no longer waits */

static struct test_request given_up;

static void handle_in_part(void)
{
    test_request_init(&given_up, METHOD_PUT, "/v1/test/add", NULL);
    test_request_header(&given_up, "x-secrets-token", w.token);
    world_take(&w, &given_up);
}

static void run_to_the_end(void)
{
    for (int i = 0; i < 20000; i++) {
        clock_run(&w.env);
        w.env.now_ms++;
    }
    assert_int_equal(given_up.replies, 1);
    test_request_done(&given_up);
}

static void a_request_sent_to_another_node_may_have_been_executed(void **ctx)
{
    (void)ctx;
    world_standby(&w, true);
    w.forward_status[0] = ST_UNKNOWN_OUTCOME;
    w.n_forward = 1;
    handle_in_part();
    assert_status(router_give_up(&given_up.request), ST_UNKNOWN_OUTCOME);
    run_to_the_end();
    assert_int_equal(w.forwards, 1); /* nor is it tried again */
}

static void a_waiting_request_is_not_executed_once_it_was_given_up(void **ctx)
{
    (void)ctx;
    world_standby(&w, true);
    w.node.has_leader = false;
    handle_in_part();
    assert_status(router_give_up(&given_up.request), ST_TIMEOUT);
    w.node.active = w.node.has_leader = true;
    run_to_the_end();
    assert_count(NULL);
}

static void give_up_and_conflict(struct world *world)
{
    assert_status(router_give_up(&given_up.request), ST_UNKNOWN_OUTCOME);
    someone_else_counts(world);
}

static void a_request_given_up_while_it_is_proposed_is_not_proposed_again(void **ctx)
{
    (void)ctx;
    w.before_propose = give_up_and_conflict;
    handle_in_part();
    run_to_the_end();
    assert_int_equal(w.proposals, 1);
    assert_count("100");
}

static unsigned watched;

static void count_watch(struct router_request *request)
{
    (void)request;
    watched++;
}

static void handle_path(const char *path)
{
    watched = 0;
    test_request_init(&given_up, METHOD_POST, path, NULL);
    test_request_header(&given_up, "x-secrets-token", w.token);
    given_up.request.watch = count_watch;
    world_take(&w, &given_up);
}

static void work_that_ends_with_its_client_is_ended_on_the_active_node(void **ctx)
{
    (void)ctx;
    world_standby(&w, true);
    w.forward_holds = true;
    handle_path("/v1/test/ends");
    clock_run(&w.env);
    assert_non_null(w.forwarding);
    assert_true(w.forwarding->waits);
    given_up.request.end_wait(&given_up.request); /* as the transport does */
    run_to_the_end();
    assert_int_equal(given_up.http, 503);
    assert_int_equal(w.forwards, 1);
}

static void other_work_outside_goes_on_without_its_client(void **ctx)
{
    (void)ctx;
    world_standby(&w, true);
    w.forward_holds = true;
    handle_path("/v1/test/out");
    clock_run(&w.env);
    assert_non_null(w.forwarding);
    assert_false(w.forwarding->waits);
    env_post(&w.env.env, &w.forward_task);
    run_to_the_end();
}

static void the_client_is_watched_where_work_ends_with_it(void **ctx)
{
    (void)ctx;
    handle_path("/v1/test/ends");
    run_to_the_end();
    assert_int_equal(watched, 1);
    handle_path("/v1/test/out");
    run_to_the_end();
    assert_int_equal(watched, 0);
}

static unsigned drops;

static void dropped(struct reply_stream *stream)
{
    (void)stream;
    drops++;
}

static void a_reply_that_is_not_sent_drops_its_stream(void **ctx)
{
    (void)ctx;
    struct reply_stream stream = {.drop = dropped};
    struct router_reply reply = {.http = 200, .stream = &stream};
    reply_done(&reply);
    reply_done(&reply);
    assert_int_equal(drops, 1);
}

/* Forwarded requests */

static void handle_forwarded(struct test_request *t, uint8_t id)
{
    test_request_init(t, METHOD_PUT, "/v1/test/add", NULL);
    test_request_header(t, "x-vault-token", w.token);
    t->request.forwarded = true;
    t->request.id.bytes[0] = id;
    t->request.id.issued = w.m.version;
    world_handle(&w, t);
}

static void a_repeated_id_gets_the_reply_of_its_first_try(void **ctx)
{
    (void)ctx;
    struct test_request first, second, other;
    handle_forwarded(&first, 1);
    handle_forwarded(&second, 1);
    handle_forwarded(&other, 2);
    assert_int_equal(first.http, 200);
    assert_body_has(&first, "\"count\":\"1\"");
    assert_int_equal(second.http, 200);
    assert_body(&second, (const char *)first.body.data);
    assert_body_has(&other, "\"count\":\"2\"");
    assert_count("2");
    test_request_done(&first);
    test_request_done(&second);
    test_request_done(&other);
}

/* A write that may be made once, like a check-and-set. */
static void a_later_try_gets_the_reply_of_the_try_that_took_effect(void **ctx)
{
    (void)ctx;
    for (int try = 0; try < 3; try++) {
        struct test_request t;
        test_request_init(&t, METHOD_PUT, "/v1/test/once", NULL);
        test_request_header(&t, "x-vault-token", w.token);
        t.request.forwarded = true;
        t.request.id.bytes[0] = try < 2 ? 5 : 6;
        t.request.id.issued = w.m.version;
        t.request.again = try > 0;
        world_handle(&w, &t);
        assert_int_equal(t.http, try < 2 ? 200 : 400); /* the third is another request */
        test_request_done(&t);
    }
    assert_count("1");
}

static void a_later_try_that_fails_shuts_the_earlier_one_out(void **ctx)
{
    (void)ctx;
    struct test_request late, early;
    test_request_init(&late, METHOD_PUT, "/v1/test/fail", NULL);
    test_request_header(&late, "x-vault-token", w.token);
    late.request.forwarded = late.request.again = true;
    late.request.id.bytes[0] = 5;
    late.request.id.issued = w.m.version;
    world_handle(&w, &late);
    assert_int_equal(late.http, 400);
    handle_forwarded(&early, 5); /* was on its way all the time */
    assert_int_equal(early.http, 400);
    assert_count(NULL);
    test_request_done(&late);
    test_request_done(&early);
}

static void an_unknown_fate_is_told_with_the_next_try(void **ctx)
{
    (void)ctx;
    world_standby(&w, true);
    w.forward_status[0] = ST_NOT_LEADER;
    w.forward_status[1] = ST_TIMEOUT;
    w.forward_status[2] = ST_OK;
    w.n_forward = 3;
    assert_int_equal(world_request(&w, METHOD_PUT, "/v1/test/add", NULL)->http, 299);
    assert_false(w.forward_again[0] || w.forward_again[1]);
    assert_true(w.forward_again[2]);
}

/* The first try may have filled the state, or may yet be committed by the old leader. */
static void a_later_try_that_the_node_refuses_leaves_the_outcome_open(void **ctx)
{
    static const enum status refusals[] = {ST_BUSY, ST_STATE_FULL, ST_NO_SPACE};
    (void)ctx;
    for (size_t i = 0; i < 2 * ARRAY_LEN(refusals); i++) {
        struct test_request t;
        bool again = i % 2 == 0;
        w.proposals = 0;
        w.propose_status[0] = w.propose_status[1] = refusals[i / 2];
        w.n_propose = 2;
        test_request_init(&t, METHOD_PUT, "/v1/test/add", NULL);
        test_request_header(&t, "x-vault-token", w.token);
        t.request.forwarded = true;
        t.request.id.bytes[0] = (uint8_t)(10 + i);
        t.request.id.issued = w.m.version;
        t.request.again = again;
        world_handle(&w, &t);
        assert_status(t.retry, again ? ST_UNKNOWN_OUTCOME : ST_OK);
        assert_true(again || t.http >= 500);
        test_request_done(&t);
    }
}

static void a_node_that_is_not_active_hands_the_request_back(void **ctx)
{
    (void)ctx;
    struct test_request t;
    world_standby(&w, true);
    handle_forwarded(&t, 1);
    assert_status(t.retry, ST_NOT_LEADER);
    assert_int_equal(w.forwards, 0);
    test_request_done(&t);
}

static void an_active_node_that_lost_the_commit_hands_it_back(void **ctx)
{
    (void)ctx;
    struct test_request t;
    handle_forwarded(&t, 2); /* the local ring, which keeps answers, is renewed beside it */
    test_request_done(&t);
    w.proposals = 0;
    w.propose_status[0] = ST_UNKNOWN_OUTCOME;
    w.propose_status[1] = ST_NOT_LEADER;
    w.n_propose = 2;
    handle_forwarded(&t, 1);
    assert_status(t.retry, ST_UNKNOWN_OUTCOME);
    test_request_done(&t);
    handle_forwarded(&t, 1);
    assert_status(t.retry, ST_NOT_LEADER);
    test_request_done(&t);
}

/* Steps outside of the transaction */

static void an_outside_step_runs_once_after_the_commit(void **ctx)
{
    (void)ctx;
    w.before_propose = someone_else_counts;
    struct test_request *t = world_request(&w, METHOD_PUT, "/v1/test/out", NULL);
    assert_int_equal(t->http, 200);
    assert_int_equal(runs, 2);
    assert_int_equal(outside_runs, 1);
    assert_int_equal(world_request(&w, METHOD_GET, "/v1/test/out", NULL)->http, 200);
    assert_int_equal(outside_runs, 2);
}

static void an_outside_step_does_not_follow_a_failure(void **ctx)
{
    (void)ctx;
    assert_int_equal(world_request(&w, METHOD_PUT, "/v1/test/out-fail", NULL)->http, 400);
    w.propose_status[0] = ST_NO_SPACE;
    w.n_propose = 1;
    assert_int_equal(world_request(&w, METHOD_PUT, "/v1/test/out", NULL)->http, 507);
    assert_int_equal(outside_runs, 0);
}

static void a_failed_outside_step_is_the_reply(void **ctx)
{
    (void)ctx;
    outside_result = ST_BAD_GATEWAY;
    struct test_request *t = world_request(&w, METHOD_PUT, "/v1/test/out", NULL);
    assert_int_equal(t->http, 502);
    assert_body(t, "{\"errors\":[\"outside failed\"]}");
    assert_int_equal(outside_runs, 1);
}

static void an_outside_step_of_unknown_fate_is_not_tried_again(void **ctx)
{
    (void)ctx;
    world_standby(&w, true);
    w.forward_status[0] = ST_TIMEOUT;
    w.n_forward = 1;
    assert_int_equal(world_request(&w, METHOD_PUT, "/v1/test/out", NULL)->http, 500);
    assert_int_equal(w.forwards, 1);
    w.forward_status[0] = ST_NOT_LEADER; /* it was not done: another try is fine */
    w.forward_status[1] = ST_OK;
    w.n_forward = 2;
    w.forwards = 0;
    assert_int_equal(world_request(&w, METHOD_PUT, "/v1/test/out", NULL)->http, 299);
}

static void a_repeated_id_does_not_go_outside_again(void **ctx)
{
    (void)ctx;
    for (int i = 0; i < 2; i++) {
        struct test_request t;
        test_request_init(&t, METHOD_PUT, "/v1/test/out", NULL);
        test_request_header(&t, "x-vault-token", w.token);
        t.request.forwarded = true;
        t.request.id.bytes[0] = 7;
        t.request.id.issued = w.m.version;
        world_handle(&w, &t);
        assert_int_equal(t.http, i == 0 ? 200 : 500); /* did the first one's succeed? */
        test_request_done(&t);
    }
    assert_int_equal(outside_runs, 1);
    assert_count("1");
}

static void a_read_that_is_repeated_goes_outside_again(void **ctx)
{
    (void)ctx;
    for (int i = 0; i < 2; i++) {
        struct test_request t;
        test_request_init(&t, METHOD_GET, "/v1/test/out", NULL);
        test_request_header(&t, "x-vault-token", w.token);
        t.request.forwarded = t.request.again = true;
        t.request.id.bytes[0] = 7;
        t.request.id.issued = w.m.version;
        world_handle(&w, &t);
        assert_int_equal(t.http, 200);
        assert_int_equal(outside_runs, i + 1);
        test_request_done(&t);
    }
}

static void (*lost_done)(struct rlog_propose *p, enum status st);

static void lose_reply(struct rlog_propose *p, enum status st)
{
    assert_status(st, ST_OK);
    lost_done(p, ST_UNKNOWN_OUTCOME);
}

static void apply_and_lose_reply(struct state_log *log, struct rlog_propose *p)
{
    log->propose = world_propose;
    lost_done = p->done;
    p->done = lose_reply;
    world_propose(log, p);
}

static void become_active(struct world *world)
{
    world->node.active = true;
    (void)snprintf(world->node.leader_name, sizeof world->node.leader_name, "node1");
}

static void a_commit_we_had_not_heard_of_is_followed_outside(void **ctx)
{
    (void)ctx;
    world_standby(&w, true);
    w.forward_status[0] = ST_NOT_LEADER;
    w.n_forward = 1;
    struct test_request t;
    test_request_init(&t, METHOD_PUT, "/v1/test/out", NULL);
    test_request_header(&t, "x-vault-token", w.token);
    world_take(&w, &t);
    clock_run(&w.env);
    assert_int_equal(w.forwards, 1);
    become_active(&w);
    w.log.propose = apply_and_lose_reply;
    for (int i = 0; t.replies == 0 && i < 10000; i++) {
        w.env.now_ms++;
        clock_run(&w.env);
    }
    assert_int_equal(t.http, 200);
    assert_body_has(&t, "\"count\":\"1\"");
    assert_int_equal(outside_runs, 1);
    assert_count("1");
    test_request_done(&t);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_world, close_world)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_leader_that_steps_down_forwards_what_it_did_not_propose),
        TEST(a_standby_forwards_writes_with_an_id),
        TEST(a_performance_standby_serves_reads_itself),
        TEST(a_plain_standby_forwards_reads_with_an_id),
        TEST(a_read_that_stages_something_is_forwarded),
        TEST(a_forward_of_unknown_fate_is_tried_again_with_its_id),
        TEST(a_forwarded_read_of_unknown_fate_is_tried_again_with_its_id),
        TEST(a_forward_that_never_succeeds_tells_what_is_known),
        TEST(a_long_body_of_unknown_fate_is_not_tried_again),
        TEST(without_an_active_node_a_write_waits_then_fails),
        TEST(a_node_that_became_active_meanwhile_runs_the_request),
        TEST(a_client_may_ask_to_be_redirected),
        TEST(who_is_forwarded_is_not_redirected),
        TEST(a_streamed_request_is_sent_without_an_id),
        TEST(a_streamed_request_without_a_right_stays_here),
        TEST(a_streamed_request_waits_for_an_active_node_until_its_body_was_read),
        TEST(a_streamed_request_of_unknown_outcome_says_so),
        TEST(a_long_body_is_read_here_once_its_sender_was_judged),
        TEST(a_long_body_of_somebody_without_a_right_is_never_read),
        TEST(a_standby_reads_what_it_can_send_again),
        TEST(a_node_that_becomes_active_reads_what_was_to_be_sent_on),
        TEST(a_body_that_does_not_come_changes_nothing),
        TEST(a_reply_that_is_not_sent_drops_its_stream),
        TEST(a_request_sent_to_another_node_may_have_been_executed),
        TEST(a_waiting_request_is_not_executed_once_it_was_given_up),
        TEST(a_request_given_up_while_it_is_proposed_is_not_proposed_again),
        TEST(work_that_ends_with_its_client_is_ended_on_the_active_node),
        TEST(other_work_outside_goes_on_without_its_client),
        TEST(the_client_is_watched_where_work_ends_with_it),
        TEST(a_repeated_id_gets_the_reply_of_its_first_try),
        TEST(a_later_try_gets_the_reply_of_the_try_that_took_effect),
        TEST(a_later_try_that_fails_shuts_the_earlier_one_out),
        TEST(a_later_try_that_the_node_refuses_leaves_the_outcome_open),
        TEST(an_unknown_fate_is_told_with_the_next_try),
        TEST(a_node_that_is_not_active_hands_the_request_back),
        TEST(an_active_node_that_lost_the_commit_hands_it_back),
        TEST(an_outside_step_runs_once_after_the_commit),
        TEST(an_outside_step_does_not_follow_a_failure),
        TEST(a_failed_outside_step_is_the_reply),
        TEST(an_outside_step_of_unknown_fate_is_not_tried_again),
        TEST(a_repeated_id_does_not_go_outside_again),
        TEST(a_read_that_is_repeated_goes_outside_again),
        TEST(a_commit_we_had_not_heard_of_is_followed_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
