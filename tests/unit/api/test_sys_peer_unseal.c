/* Peer unseal on the active node: which request gets the root key. */
#include "api/api_world.h"

#include "cluster/membership/join/peer_unseal.h"
#include "router/pipeline/worker.h"
#include "text/encode.h"

#define PEER "/v1/sys/storage/raft/peer-unseal"

static struct box_key key;
static struct test_request asked;
static char ask_body[512]; /* of the last request */

static int set_up(void **ctx)
{
    (void)open_world(ctx);
    static const char *const names[] = {"a", "b", "c"};
    w.node.raft.n_members = ARRAY_LEN(names);
    for (unsigned i = 0; i < ARRAY_LEN(names); i++) {
        w.node.raft.members[i] = (struct rlog_member){.id = i + 1, .role = RLOG_VOTER};
        (void)snprintf(w.node.raft.members[i].name, sizeof w.node.raft.members[i].name, "%s",
                       names[i]);
    }
    assert_status(box_key_new(&key), ST_OK);
    return 0;
}

static int tear_down(void **ctx)
{
    box_key_done(&key);
    test_request_done(&asked);
    return close_world(ctx);
}

/* A request that `member` makes for itself (NULL: a client), in the name of `name`. */
static struct test_request *ask_with(const char *member, const char *name, const char *public_key)
{
    (void)snprintf(ask_body, sizeof ask_body, "{\"node_id\":\"%s\",\"public_key\":\"%s\"}", name,
                   public_key);
    test_request_done(&asked);
    test_request_init(&asked, METHOD_POST, PEER "/key", ask_body);
    asked.request.member = member;
    world_handle(&w, &asked);
    return &asked;
}

static struct test_request *ask(const char *member, const char *name)
{
    char text[TEXT_BASE64_LEN(BOX_PUBLIC_BYTES) + 1];
    (void)text_base64_put(bytes_of(key.public_key, BOX_PUBLIC_BYTES), TEXT_BASE64, text);
    return ask_with(member, name, text);
}

static void turn(bool on)
{
    (void)request(METHOD_POST, PEER, on ? "{\"enabled\":true}" : "{\"enabled\":false}", 204);
}

static void approve(const char *name)
{
    char body[64];
    (void)snprintf(body, sizeof body, "{\"server_id\":\"%s\"}", name);
    (void)request(METHOD_POST, PEER "/approve", body, 200);
}

/* The reply holds a root key for `name` that only this test's key opens. */
static void assert_key_for(const char *name)
{
    CLEANUP(buf_done) struct buf context = {0};
    CLEANUP(secret_done) struct secret root_key = {0}, none = {0};
    static const char mark[] = "\"sealed_key\":\"";
    uint8_t sealed[256];
    size_t n = 0;
    assert_int_equal(asked.http, 200);
    const char *at = strstr(text(&asked), mark);
    assert_non_null(at);
    at += sizeof mark - 1;
    struct bytes base64 = bytes_of((const uint8_t *)at, strcspn(at, "\""));
    assert_true(TEXT_BASE64_BYTES(base64.len) <= sizeof sealed);
    assert_status(text_base64_parse(base64, sealed, &n), ST_OK);
    assert_status(peer_unseal_context(w.node.cluster_id, "other", &context), ST_OK);
    assert_status(box_open(&key, buf_bytes(&context), bytes_of(sealed, n), &none), ST_CORRUPT);
    buf_clear(&context);
    assert_status(peer_unseal_context(w.node.cluster_id, name, &context), ST_OK);
    assert_status(box_open(&key, buf_bytes(&context), bytes_of(sealed, n), &root_key), ST_OK);
    assert_int_equal(root_key.len, 32);
}

static void it_is_off_by_default(void **ctx)
{
    (void)ctx;
    expect(ask("b", "b"), 403, "peer unseal is off");
    (void)expect(world_request(&w, METHOD_POST, PEER "/approve", "{\"server_id\":\"b\"}"), 400,
                 "is off");
    assert_body_has(request(METHOD_GET, PEER, NULL, 200), "\"enabled\":false,\"approvals\":[]");
}

static void an_approval_serves_its_node_once(void **ctx)
{
    (void)ctx;
    turn(true);
    expect(ask("b", "b"), 403, "has no approval");
    approve("b");
    expect(ask("c", "c"), 403, "has no approval");
    assert_body_has(request(METHOD_GET, PEER, NULL, 200), "\"node_id\":\"b\"");
    (void)ask("b", "b");
    assert_key_for("b");
    expect(ask("b", "b"), 403, "has no approval");
    assert_body_has(request(METHOD_GET, PEER, NULL, 200), "\"approvals\":[]");
}

static struct test_request overtaking;

/* The node asks once more while its earlier request is about to be committed. */
static void overtake(struct world *world)
{
    test_request_init(&overtaking, METHOD_POST, PEER "/key", ask_body);
    overtaking.request.member = "b";
    world_take(world, &overtaking);
    clock_run(&world->env);
}

static void of_two_requests_at_once_one_gets_the_key(void **ctx)
{
    (void)ctx;
    turn(true);
    approve("b");
    w.before_propose = overtake;
    expect(ask("b", "b"), 403, "has no approval"); /* run anew: its precondition had changed */
    assert_int_equal(w.worker->reruns, 1);
    assert_int_equal(overtaking.replies, 1);
    test_request_done(&asked);
    asked = overtaking;
    assert_key_for("b");
    assert_body_has(request(METHOD_GET, PEER, NULL, 200), "\"approvals\":[]");
}

static void only_the_member_itself_is_served(void **ctx)
{
    (void)ctx;
    turn(true);
    approve("b");
    expect(ask(NULL, "b"), 403, "a member asks for itself");
    expect(ask("c", "b"), 403, "a member asks for itself");
    expect(ask("b", "c"), 403, "a member asks for itself");
    (void)ask("b", "b");
    assert_key_for("b");
}

static void an_approval_goes_with_the_disk_with_revocation_and_with_the_switch(void **ctx)
{
    (void)ctx;
    turn(true);
    approve("b");
    w.node.raft.members[1].id = 77;
    expect(ask("b", "b"), 403, "for its earlier disk");
    w.node.raft.members[1].name[0] = 'x';
    expect(ask("b", "b"), 403, "for its earlier disk");
    w.node.raft.members[1].name[0] = 'b';
    approve("b");
    (void)request(METHOD_POST, PEER "/revoke", "{\"server_id\":\"b\"}", 204);
    expect(ask("b", "b"), 403, "has no approval");
    approve("b");
    turn(false);
    expect(ask("b", "b"), 403, "peer unseal is off");
    turn(true);
    expect(ask("b", "b"), 403, "has no approval");
}

static void a_wrong_key_uses_nothing_up(void **ctx)
{
    (void)ctx;
    turn(true);
    approve("b");
    expect(ask_with("b", "b", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="), 400,
           "no usable X25519 key");
    expect(ask_with("b", "b", "AAAA"), 400, "32 bytes in base64");
    expect(ask_with("b", "b", "not base64"), 400, "32 bytes in base64");
    expect(
        ask_with("b", "b", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
        400, "32 bytes in base64");
    (void)ask("b", "b");
    assert_key_for("b");
}

static void an_approval_names_a_member_and_a_short_time(void **ctx)
{
    (void)ctx;
    turn(true);
    static const struct {
        const char *body, *says;
    } bad[] = {
        {"{}", "server_id"},
        {"{\"server_id\":\"z\"}", "no node"},
        {"{\"server_id\":\"../b\"}", "cannot be the name"},
        {"{\"server_id\":\"b\",\"ttl\":0}", "ttl"},
        {"{\"server_id\":\"b\",\"ttl\":601}", "ttl"},
    };
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        expect(world_request(&w, METHOD_POST, PEER "/approve", bad[i].body), 400, bad[i].says);
    (void)expect(world_request(&w, METHOD_POST, PEER "/revoke", "{\"server_id\":\"../b\"}"), 400,
                 "cannot be the name");
}

#undef TEST
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(it_is_off_by_default),
        TEST(an_approval_serves_its_node_once),
        TEST(of_two_requests_at_once_one_gets_the_key),
        TEST(only_the_member_itself_is_served),
        TEST(an_approval_goes_with_the_disk_with_revocation_and_with_the_switch),
        TEST(a_wrong_key_uses_nothing_up),
        TEST(an_approval_names_a_member_and_a_short_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
