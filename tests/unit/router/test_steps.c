/* The steps of a route around its handler: prepare, outside, finish. */
#include "audit/fake_devices.h"
#include "base/mem.h"
#include "router/world.h"

static struct world w;
static struct test_request request;
static char trail[1024]; /* a letter for each step that ran */
static enum status prepare_result, outside_result, finish_result;
static bool finish_stages;
static void (*during_prepare)(void), (*during_outside)(void), (*during_finish)(void);

static void pass(char step, void (**during)(void))
{
    size_t n = strlen(trail);
    void (*run)(void) = *during;
    assert_true(n + 1 < sizeof trail);
    trail[n] = step;
    trail[n + 1] = '\0';
    *during = NULL;
    if (run != NULL)
        run();
}

static enum status prepare(struct req *req)
{
    assert_null(req->txn);
    assert_null(req->mount);
    assert_null(req->acl);
    assert_null(req->prepared);
    pass('p', &during_prepare);
    req->prepared = arena_format(req->arena, "prepared %s", trail);
    return prepare_result == ST_OK ? ST_OK : req_fail(req, prepare_result, "not prepared");
}

static enum status add_to(struct req *req, struct bytes key)
{
    struct state_value stored;
    int64_t n = 0;
    enum status st = state_get(req->txn, key, &stored);
    if (st == ST_OK)
        st = text_int_parse(stored.value, &n);
    if (st != ST_OK && st != ST_NOT_FOUND)
        return st;
    char *next = arena_format(req->arena, "%lld", (long long)n + 1);
    return next != NULL ? state_put(req->txn, key, bytes_str(next)) : ST_NOMEM;
}

static enum status handle(struct req *req)
{
    assert_ptr_equal(req_scope(req).caller, req->token);
    static void (*none)(void);
    pass('h', &none);
    if (req->route->prepare != NULL)
        assert_string_equal(req->prepared, "prepared p");
    return add_to(req, BYTES("s/first"));
}

static enum status handle_nothing(struct req *req)
{
    static void (*none)(void);
    (void)req;
    pass('h', &none);
    return ST_OK;
}

static enum status outside(struct req *req)
{
    assert_null(req->txn);
    assert_null(req->mount);
    pass('o', &during_outside);
    return outside_result == ST_OK ? ST_OK : req_fail(req, outside_result, "outside failed");
}

static enum status finish(struct req *req)
{
    assert_non_null(req->txn);
    assert_null(req->acl);
    assert_null(req_scope(req).caller); /* this transaction has not read the token */
    pass('f', &during_finish);
    if (finish_stages)
        TRY(add_to(req, BYTES("s/second")));
    else if (state_exists(req->txn, BYTES("s/second")) == ST_NOMEM)
        return ST_NOMEM;
    if (finish_result != ST_OK)
        return req_fail(req, finish_result, "finish failed");
    struct text_writer out = req_reply_begin(req);
    text_open_object(&out);
    text_member_str(&out, "trail", trail);
    text_close(&out);
    return req_reply_end(req);
}

static enum status nothing_exists(struct req *req)
{
    assert_non_null(req->mount);
    return ST_NOT_FOUND;
}

/* The handler replies itself, and says that its step outside is not due. */
static enum status handle_alone(struct req *req)
{
    static void (*none)(void);
    pass('h', &none);
    TRY(add_to(req, BYTES("s/first")));
    req_skip_outside(req);
    struct text_writer out = req_reply_begin(req);
    text_open_object(&out);
    text_member_str(&out, "trail", trail);
    text_close(&out);
    return req_reply_end(req);
}

/* Refuses, after it has staged a count that must be kept and something that must not. */
static enum status handle_refused(struct req *req)
{
    TRY(add_to(req, BYTES("s/first")));
    req_keep(req);
    TRY(add_to(req, BYTES("s/second")));
    return req_fail(req, ST_INVALID, "refused after a count");
}

enum { PARTS = 3 };

/* Stores a result that needs several transactions. */
static enum status finish_in_parts(struct req *req)
{
    pass('f', &during_finish);
    TRY(add_to(req, BYTES("s/second")));
    if (req->steps.finished + 1 < PARTS) {
        req_finish_again(req);
        return ST_OK;
    }
    struct text_writer out = req_reply_begin(req);
    text_open_object(&out);
    text_member_int(&out, "parts", (int64_t)req->steps.finished + 1);
    text_close(&out);
    return req_reply_end(req);
}

static enum status reply_outside(struct req *req)
{
    pass('o', &during_outside);
    struct text_writer out = req_reply_begin(req);
    text_open_object(&out);
    text_member_str(&out, "secret", "made outside");
    text_close(&out);
    return req_reply_end(req);
}

struct any {
    const char *text;
};
static const struct field any_fields[] = {FIELD(struct any, text, STRING)};
static const struct schema any_reply = SCHEMA(struct any, any_fields);

static const struct route rows[] = {
    {.method = METHOD_POST, .path = "alone", .handler = handle_alone, .outside = outside},
    {.method = METHOD_POST, .path = "refused", .handler = handle_refused},
    {.method = METHOD_POST,
     .path = "parts",
     .handler = handle_nothing,
     .outside = outside,
     .finish = finish_in_parts},
    {.method = METHOD_POST,
     .path = "late",
     .handler = handle_nothing,
     .outside = reply_outside,
     .reply = &any_reply},
    {.method = METHOD_POST,
     .path = "all",
     .handler = handle,
     .prepare = prepare,
     .outside = outside,
     .finish = finish},
    {.method = METHOD_GET, .path = "prepared", .handler = handle_nothing, .prepare = prepare},
    {.method = METHOD_POST, .path = "nothing", .handler = handle_nothing, .outside = outside},
};
static const struct route_api fixed = {.dialect = &secrets_dialect,
                                       .prefix = "steps/",
                                       .type = "steps",
                                       .routes = rows,
                                       .n = ARRAY_LEN(rows)};
static const struct route engine_rows[] = {
    {.method = METHOD_POST,
     .path = "*path",
     .handler = handle,
     .exists = nothing_exists,
     .prepare = prepare,
     .outside = outside,
     .finish = finish},
};
static const struct route_api engine = {
    .type = "stepping", .routes = engine_rows, .n = ARRAY_LEN(engine_rows)};
static const struct route_api *const apis[] = {&fixed, &engine};
static const struct module_engine engines[] = {{.type = "stepping"}};
static const struct module steps_module = {
    .name = "steps", .apis = apis, .n_apis = 2, .engines = engines, .n_engines = 1};
static const struct module *const modules[] = {&steps_module, &token_module, &cubbyhole_module,
                                               SYS_MODULES, &kv_module};

static int open_steps(void **ctx)
{
    (void)ctx;
    trail[0] = '\0';
    prepare_result = outside_result = finish_result = ST_OK;
    finish_stages = true;
    during_prepare = during_outside = during_finish = NULL;
    request = (struct test_request){0};
    world_open(&w, modules, ARRAY_LEN(modules));
    world_init(&w);
    return 0;
}

static int close_steps(void **ctx)
{
    (void)ctx;
    test_request_done(&request);
    world_close(&w);
    return 0;
}

/* A request that a step may look at while it runs. */
static void send_request(enum http_method method, const char *target)
{
    test_request_done(&request);
    test_request_init(&request, method, target, NULL);
    test_request_header(&request, "x-secrets-token", w.token);
    world_handle(&w, &request);
}

static void assert_value_of(struct bytes key, const char *wanted)
{
    struct arena arena = {0};
    struct state_txn txn;
    struct state_value stored;
    assert_status(state_begin(w.state, &arena, NULL, &txn), ST_OK);
    enum status st = state_get(&txn, key, &stored);
    state_end(&txn);
    if (wanted == NULL)
        assert_status(st, ST_NOT_FOUND);
    else
        assert_bytes(stored.value, bytes_str(wanted));
    arena_done(&arena);
}

static void assert_stored(const char *first, const char *second)
{
    assert_value_of(BYTES("s/first"), first);
    assert_value_of(BYTES("s/second"), second);
}

static void another_writes(struct bytes key)
{
    struct rlog_txn_builder b = {0};
    CLEANUP(buf_done) struct buf encoded = {0};
    CLEANUP(buf_done) struct buf entry = {0};
    uint8_t sealed[3 + BARRIER_OVERHEAD];
    assert_status(barrier_encrypt(state_cipher(w.state), key, BYTES("100"), sealed), ST_OK);
    rlog_txn_put(&b, key, bytes_of(sealed, sizeof sealed));
    assert_status(rlog_txn_encode(&b, &encoded), ST_OK);
    struct bytes one = buf_bytes(&encoded);
    assert_status(rlog_entry_encode(RLOG_FEATURE_FIRST, 1000, &one, 1, &entry), ST_OK);
    rlog_machine_apply(&w.m, ++w.index, buf_bytes(&entry), NULL, NULL);
    rlog_txn_done(&b);
}

static void overtake_first(struct world *world)
{
    (void)world;
    another_writes(BYTES("s/first"));
}

static void overtake_second(struct world *world)
{
    (void)world;
    another_writes(BYTES("s/second"));
}

static void will_overtake_finish(void)
{
    w.before_propose = overtake_second;
}

static void will_overtake_confirmation(void)
{
    w.before_read = overtake_second;
}

/* Order, and runs */

static void each_step_runs_once_in_its_order(void **ctx)
{
    (void)ctx;
    send_request(METHOD_POST, "/v1/steps/all");
    assert_int_equal(request.http, 200);
    assert_body_has(&request, "\"trail\":\"phof\"");
    assert_int_equal(w.proposals, 2);
    assert_int_equal(w.env.works_run, 2);
    assert_stored("1", "1");
}

static void a_read_can_prepare(void **ctx)
{
    (void)ctx;
    send_request(METHOD_GET, "/v1/steps/prepared");
    assert_int_equal(request.http, 204);
    assert_string_equal(trail, "ph");
    assert_int_equal(w.reads, 1);
}

static void a_transaction_that_runs_again_does_not_prepare_again(void **ctx)
{
    (void)ctx;
    w.before_propose = overtake_first;
    send_request(METHOD_POST, "/v1/steps/all");
    assert_int_equal(request.http, 200);
    assert_body_has(&request, "\"trail\":\"phhof\"");
    assert_stored("101", "1");
}

static void a_search_for_the_leader_does_not_prepare_again(void **ctx)
{
    (void)ctx;
    w.propose_status[0] = ST_NOT_LEADER;
    w.n_propose = 1;
    send_request(METHOD_POST, "/v1/steps/all");
    assert_int_equal(request.http, 200);
    assert_string_equal(trail, "phhof");
    assert_stored("1", "1");
}

static void an_overtaken_finish_runs_alone(void **ctx)
{
    (void)ctx;
    during_outside = will_overtake_finish;
    send_request(METHOD_POST, "/v1/steps/all");
    assert_int_equal(request.http, 200);
    assert_body_has(&request, "\"trail\":\"phoff\"");
    assert_stored("1", "101");
}

static void a_finish_that_stores_nothing_is_confirmed(void **ctx)
{
    (void)ctx;
    finish_stages = false;
    during_finish = will_overtake_confirmation;
    send_request(METHOD_POST, "/v1/steps/all");
    w.before_read = NULL;
    assert_int_equal(request.http, 500); /* overtaken again and again */
    assert_body_has(&request, "could not be stored");
    trail[0] = '\0';
    send_request(METHOD_POST, "/v1/steps/all");
    assert_int_equal(request.http, 200);
    assert_body_has(&request, "\"trail\":\"phof\"");
}

/* Rights */

static void nothing_is_prepared_for_a_sender_without_the_right(void **ctx)
{
    (void)ctx;
    char root[sizeof w.token];
    memcpy(root, w.token, sizeof root);
    (void)snprintf(w.token, sizeof w.token, "hvs.wrong");
    send_request(METHOD_POST, "/v1/steps/all");
    assert_int_equal(request.http, 403);
    memcpy(w.token, root, sizeof root);
    w.read_status = ST_TIMEOUT; /* a right that is not confirmed */
    send_request(METHOD_POST, "/v1/steps/all");
    assert_int_equal(request.http, 503);
    assert_string_equal(trail, "");
    assert_int_equal(w.env.works_run, 0);
}

static void a_standby_prepares_nothing_that_it_sends_on(void **ctx)
{
    (void)ctx;
    world_standby(&w, true);
    send_request(METHOD_POST, "/v1/steps/all");
    assert_int_equal(request.http, 299);
    assert_string_equal(trail, "");
}

/* Failures */

static void a_failed_prepare_is_the_reply(void **ctx)
{
    (void)ctx;
    prepare_result = ST_INVALID;
    send_request(METHOD_POST, "/v1/steps/all");
    assert_int_equal(request.http, 400);
    assert_body_has(&request, "not prepared");
    assert_string_equal(trail, "p");
    assert_int_equal(w.proposals, 0);
}

/* PROTOCOL R3: a use counts although the request fails. */
static void a_failed_prepare_uses_the_token(void **ctx)
{
    (void)ctx;
    struct test_request *made =
        world_request(&w, METHOD_POST, "/v1/auth/token/create",
                      "{\"id\":\"twice\",\"num_uses\":2,\"policies\":[\"root\"]}");
    assert_int_equal(made->http, 200);
    (void)snprintf(w.token, sizeof w.token, "twice");
    prepare_result = ST_INVALID;
    for (int i = 0; i < 2; i++) {
        send_request(METHOD_POST, "/v1/steps/all");
        assert_int_equal(request.http, 400);
        assert_body_has(&request, "not prepared");
    }
    send_request(METHOD_POST, "/v1/steps/all");
    assert_int_equal(request.http, 403);
}

static void after_a_failed_step_outside_nothing_is_finished(void **ctx)
{
    (void)ctx;
    outside_result = ST_LIMITED;
    send_request(METHOD_POST, "/v1/steps/all");
    assert_int_equal(request.http, 429);
    assert_body_has(&request, "outside failed");
    assert_string_equal(trail, "pho");
    assert_stored("1", NULL);
}

static void a_failed_finish_stores_nothing(void **ctx)
{
    (void)ctx;
    finish_result = ST_INVALID;
    send_request(METHOD_POST, "/v1/steps/all");
    assert_int_equal(request.http, 400);
    assert_body_has(&request, "finish failed");
    assert_string_equal(trail, "phof");
    assert_stored("1", NULL);
}

static void a_result_that_cannot_be_stored_is_told(void **ctx)
{
    (void)ctx;
    static const enum status lost[] = {ST_NOT_LEADER, ST_UNKNOWN_OUTCOME, ST_NO_SPACE, ST_CLOSED};
    for (size_t i = 0; i < ARRAY_LEN(lost); i++) {
        trail[0] = '\0';
        w.proposals = 0;
        w.propose_status[1] = lost[i];
        w.n_propose = 2;
        send_request(METHOD_POST, "/v1/steps/all");
        assert_int_equal(request.http, 500);
        assert_body_has(&request, "was done, but its result could not be stored");
        assert_string_equal(trail, "phof");
        assert_status(request.retry, ST_OK); /* no other node may do the work again */
    }
    assert_stored("4", NULL);
}

static struct test_request unmounting;

static void unmount(void)
{
    test_request_init(&unmounting, METHOD_DELETE, "/v1/sys/mounts/s", NULL);
    test_request_header(&unmounting, "x-secrets-token", w.token);
    world_take(&w, &unmounting);
    clock_run(&w.env);
}

static void the_mount_may_be_gone_when_the_work_is_done(void **ctx)
{
    (void)ctx;
    struct test_request *t =
        world_request(&w, METHOD_POST, "/v1/sys/mounts/s", "{\"type\":\"stepping\"}");
    assert_int_equal(t->http, 204);
    send_request(METHOD_POST, "/v1/s/a");
    assert_int_equal(request.http, 200);
    assert_body_has(&request, "\"trail\":\"phof\"");
    trail[0] = '\0';
    during_outside = unmount;
    send_request(METHOD_POST, "/v1/s/a");
    assert_int_equal(unmounting.http, 204);
    test_request_done(&unmounting);
    assert_int_equal(request.http, 500);
    assert_body_has(&request, "could not be stored");
    assert_string_equal(trail, "pho");
}

/* Clients that go away */

static enum status told;

static void give_up(void)
{
    told = router_give_up(&request.request);
}

static void give_up_world(struct world *world)
{
    world->before_read = NULL;
    give_up();
}

static void a_client_that_goes_before_the_work_costs_none(void **ctx)
{
    (void)ctx;
    w.before_read = give_up_world;
    send_request(METHOD_POST, "/v1/steps/all");
    assert_status(told, ST_TIMEOUT);
    assert_string_equal(trail, "");
}

static void a_client_that_goes_during_prepare_changes_nothing(void **ctx)
{
    (void)ctx;
    during_prepare = give_up;
    send_request(METHOD_POST, "/v1/steps/all");
    assert_status(told, ST_TIMEOUT);
    assert_string_equal(trail, "p");
    assert_int_equal(w.proposals, 0);
}

/* The client was told that the outcome is unknown: the steps go on to the end. */
static void a_client_that_goes_later_leaves_nothing_half_done(void **ctx)
{
    (void)ctx;
    w.before_propose = give_up_world;
    send_request(METHOD_POST, "/v1/steps/all");
    assert_status(told, ST_UNKNOWN_OUTCOME);
    assert_string_equal(trail, "phof");
    trail[0] = '\0';
    told = ST_OK;
    during_outside = give_up;
    send_request(METHOD_POST, "/v1/steps/all");
    assert_status(told, ST_UNKNOWN_OUTCOME);
    assert_string_equal(trail, "phof");
    trail[0] = '\0';
    told = ST_OK;
    during_finish = give_up;
    send_request(METHOD_POST, "/v1/steps/all");
    assert_status(told, ST_UNKNOWN_OUTCOME);
    assert_string_equal(trail, "phof");
    assert_stored("3", "3");
}

/* A node that is too busy to store the result */

static unsigned busy_runs; /* of `finish`, before one that the node is not too busy for */

static void busy_for_a_time(void)
{
    finish_result = busy_runs-- > 0 ? ST_BUSY : ST_OK;
    during_finish = busy_for_a_time;
}

static void a_busy_node_finishes_after_a_pause(void **ctx)
{
    (void)ctx;
    uint64_t began = w.env.now_ms;
    busy_runs = 3; /* the data cannot be read */
    during_finish = busy_for_a_time;
    send_request(METHOD_POST, "/v1/steps/all");
    assert_int_equal(request.http, 200);
    assert_body_has(&request, "\"trail\":\"phoffff\"");
    assert_int_equal(w.env.works_run, 2); /* the work outside was not repeated */
    assert_true(w.env.now_ms >= began + 3);
    assert_stored("1", "1");
    during_finish = NULL;
    trail[0] = '\0';
    w.proposals = 0;
    w.propose_status[1] = w.propose_status[2] = ST_BUSY; /* the data cannot be written */
    w.n_propose = 3;
    send_request(METHOD_POST, "/v1/steps/all");
    assert_int_equal(request.http, 200);
    assert_body_has(&request, "\"trail\":\"phofff\"");
    assert_stored("2", "2");
}

/* A client that has gone does not end it. */
static void a_busy_node_finishes_without_its_client(void **ctx)
{
    (void)ctx;
    w.propose_status[1] = ST_BUSY;
    w.n_propose = 2;
    during_finish = give_up;
    send_request(METHOD_POST, "/v1/steps/all");
    assert_status(told, ST_UNKNOWN_OUTCOME);
    assert_string_equal(trail, "phoff");
    assert_stored("1", "1");
}

static void a_node_that_stays_busy_says_so_in_the_end(void **ctx)
{
    (void)ctx;
    uint64_t began = w.env.now_ms;
    finish_result = ST_BUSY;
    send_request(METHOD_POST, "/v1/steps/all");
    assert_int_equal(request.http, 500);
    assert_body_has(&request, "could not be stored: finish failed");
    assert_true(w.env.now_ms - began >= 10000);
    assert_stored("1", NULL);
}

static struct fake_devices devices;

static void enable_device(void)
{
    fake_devices_init(&devices, 1);
    w.host.audit = &devices.table;
}

static void disable_device(void)
{
    w.host.audit = NULL;
    fake_devices_done(&devices);
}

static void give_up_at_the_reply(struct fake_device *d)
{
    if (d->n_lines == 2)
        give_up();
}

static void work_that_was_done_counts_as_a_change(void **ctx)
{
    (void)ctx;
    enable_device();
    devices.devices[0].on_offer = give_up_at_the_reply;
    send_request(METHOD_POST, "/v1/steps/nothing");
    assert_string_equal(trail, "ho");
    assert_int_equal(devices.devices[0].n_lines, 2);
    assert_status(told, ST_UNKNOWN_OUTCOME);
    disable_device();
}

static void assert_nothing_was_done(struct fake_device *d)
{
    if (d->n_lines == 1)
        assert_string_equal(trail, "");
}

static void a_request_is_recorded_before_it_prepares(void **ctx)
{
    (void)ctx;
    enable_device();
    devices.devices[0].on_offer = assert_nothing_was_done;
    send_request(METHOD_POST, "/v1/steps/all");
    assert_string_equal(trail, "phof");
    assert_int_equal(devices.devices[0].n_lines, 2);
    assert_int_equal(request.http, 200);
    disable_device();
}

static void a_request_that_is_not_recorded_does_not_prepare(void **ctx)
{
    (void)ctx;
    enable_device();
    devices.devices[0].results[0] = ST_IO;
    send_request(METHOD_POST, "/v1/steps/all");
    assert_string_equal(trail, "");
    assert_int_equal(request.http, 500);
    disable_device();
}

/* Memory */

static uint64_t failing; /* the allocation that fails */
static bool failed;

static void memory_is_back(struct world *world)
{
    (void)world;
    failed = mem_fail_nth(0);
}

static void memory_fails(void)
{
    w.before_propose = memory_is_back;
    (void)mem_fail_nth(failing);
}

static void every_failed_allocation_of_finish_is_told(void **ctx)
{
    (void)ctx;
    for (failing = 1, failed = true; failed; failing++) {
        trail[0] = '\0';
        failed = false;
        during_finish = memory_fails;
        send_request(METHOD_POST, "/v1/steps/all");
        if (w.before_propose != NULL)
            memory_is_back(&w);
        w.before_propose = NULL;
        assert_string_equal(trail, "phof");
        assert_int_equal(request.http, failed ? 500 : 200);
        assert_true(!failed ||
                    strstr((const char *)request.body.data, "could not be stored") != NULL);
    }
    assert_true(failing > 3);
}

/* A node that forwards knows from its own mounts which rows have a step outside. */
static void a_forwarded_step_outside_is_asked_for_once(void **ctx)
{
    (void)ctx;
    assert_int_equal(
        world_request(&w, METHOD_POST, "/v1/sys/mounts/st", "{\"type\":\"stepping\"}")->http, 204);
    world_standby(&w, true);
    w.forward_status[0] = ST_UNKNOWN_OUTCOME;
    w.n_forward = 1;
    send_request(METHOD_POST, "/v1/st/x");
    assert_true(request.http >= 500);
    assert_body_has(&request, "outcome");
    assert_int_equal(w.forwards, 1);
    assert_string_equal(trail, "");
    w.forward_status[0] = ST_UNKNOWN_OUTCOME; /* the row of kv has no such step */
    w.forward_status[1] = ST_OK;
    w.n_forward = 2;
    w.forwards = 0;
    send_request(METHOD_POST, "/v1/kv/x");
    assert_int_equal(request.http, 299);
    assert_int_equal(w.forwards, 2);
}

static void send_wrapped(const char *target)
{
    test_request_done(&request);
    test_request_init(&request, METHOD_POST, target, NULL);
    test_request_header(&request, "x-secrets-token", w.token);
    test_request_header(&request, "x-secrets-wrap-ttl", "60s");
    world_handle(&w, &request);
}

static void a_handler_may_say_that_no_step_is_due(void **ctx)
{
    (void)ctx;
    send_request(METHOD_POST, "/v1/steps/alone");
    assert_int_equal(request.http, 200);
    assert_string_equal(trail, "h");
    assert_stored("1", NULL);
}

static void a_refused_request_commits_what_must_be_recorded(void **ctx)
{
    (void)ctx;
    for (int i = 1; i <= 2; i++) {
        send_request(METHOD_POST, "/v1/steps/refused");
        assert_int_equal(request.http, 400);
        assert_body_has(&request, "refused after a count");
        assert_stored(i == 1 ? "1" : "2", NULL);
    }
}

static void a_result_may_take_several_transactions(void **ctx)
{
    (void)ctx;
    send_request(METHOD_POST, "/v1/steps/parts");
    assert_int_equal(request.http, 200);
    assert_body_has(&request, "\"parts\":3");
    assert_string_equal(trail, "hofff");
    assert_stored(NULL, "3");
}

static void an_overtaken_part_of_a_result_runs_alone(void **ctx)
{
    (void)ctx;
    during_finish = will_overtake_finish;
    send_request(METHOD_POST, "/v1/steps/parts");
    assert_int_equal(request.http, 200);
    assert_body_has(&request, "\"parts\":3");
    assert_string_equal(trail, "hoffff");
}

/* The reply of each step is wrapped or refused, never sent as it is. */
static void no_step_sends_a_reply_plain_that_was_to_be_wrapped(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *path, *trail;
        int http;
    } rows_of[] = {{"/v1/steps/all", "phof", 200},
                   {"/v1/steps/alone", "h", 200},
                   {"/v1/steps/parts", "hofff", 200},
                   {"/v1/steps/late", "h", 400}};
    for (size_t i = 0; i < ARRAY_LEN(rows_of); i++) {
        trail[0] = '\0';
        send_wrapped(rows_of[i].path);
        assert_int_equal(request.http, rows_of[i].http);
        assert_string_equal(trail, rows_of[i].trail);
        assert_null(strstr((const char *)request.body.data, "made outside"));
        assert_null(strstr((const char *)request.body.data, "\"trail\""));
        assert_null(strstr((const char *)request.body.data, "\"parts\""));
        assert_body_has(&request, rows_of[i].http == 200 ? "\"wrap_info\":{\"token\":\"hvs."
                                                         : "cannot be wrapped");
    }
    trail[0] = '\0';
    send_request(METHOD_POST, "/v1/steps/late"); /* without the header it is sent */
    assert_body_has(&request, "made outside");
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_steps, close_steps)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_step_runs_once_in_its_order),
        TEST(a_handler_may_say_that_no_step_is_due),
        TEST(a_forwarded_step_outside_is_asked_for_once),
        TEST(a_refused_request_commits_what_must_be_recorded),
        TEST(a_result_may_take_several_transactions),
        TEST(an_overtaken_part_of_a_result_runs_alone),
        TEST(no_step_sends_a_reply_plain_that_was_to_be_wrapped),
        TEST(a_read_can_prepare),
        TEST(a_transaction_that_runs_again_does_not_prepare_again),
        TEST(a_search_for_the_leader_does_not_prepare_again),
        TEST(an_overtaken_finish_runs_alone),
        TEST(a_finish_that_stores_nothing_is_confirmed),
        TEST(nothing_is_prepared_for_a_sender_without_the_right),
        TEST(a_standby_prepares_nothing_that_it_sends_on),
        TEST(a_failed_prepare_is_the_reply),
        TEST(a_failed_prepare_uses_the_token),
        TEST(after_a_failed_step_outside_nothing_is_finished),
        TEST(a_failed_finish_stores_nothing),
        TEST(a_result_that_cannot_be_stored_is_told),
        TEST(the_mount_may_be_gone_when_the_work_is_done),
        TEST(a_client_that_goes_before_the_work_costs_none),
        TEST(a_client_that_goes_during_prepare_changes_nothing),
        TEST(a_client_that_goes_later_leaves_nothing_half_done),
        TEST(work_that_was_done_counts_as_a_change),
        TEST(a_busy_node_finishes_after_a_pause),
        TEST(a_busy_node_finishes_without_its_client),
        TEST(a_node_that_stays_busy_says_so_in_the_end),
        TEST(a_request_is_recorded_before_it_prepares),
        TEST(a_request_that_is_not_recorded_does_not_prepare),
        TEST(every_failed_allocation_of_finish_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
