/* The list of members on the active node, and the requests that change members. */
#include "api/api_world.h"
#include "cluster/membership/local.h"

static struct node_peer peers[RLOG_MEMBERS_MAX];
static unsigned n_peers, changed, step_downs;
static enum status change_ends;
static bool given_vote;

static unsigned tell_peers(struct node *node, struct node_peer *ret_peers)
{
    (void)node;
    memcpy(ret_peers, peers, sizeof peers);
    return n_peers;
}

static enum status keep_vote(struct node *node, const char *name, bool votes, struct reason *why)
{
    (void)node, (void)name, (void)why;
    changed++;
    given_vote = votes;
    return change_ends;
}

static enum status give_way(struct node *node, struct reason *why)
{
    (void)node, (void)why;
    step_downs++;
    return ST_OK;
}

static enum status remove_one(struct node *node, const char *name, struct reason *why)
{
    (void)node, (void)why;
    changed++;
    return strcmp(name, "gone") == 0 ? ST_NOT_FOUND : change_ends;
}

static int64_t now_ms(void)
{
    return env_wall_ms(&w.env.env);
}

/* "a", "b", "c", …, of which the first leads and so many vote; all are well. */
static void set_members(unsigned n, unsigned voters)
{
    struct rlog_status *raft = &w.node.raft;
    w.node_ops.peers = tell_peers;
    w.node_ops.set_vote = keep_vote;
    w.node_ops.remove_member = remove_one;
    w.node_ops.step_down = give_way;
    w.node.active_since_ms = now_ms() - 1000000;
    raft->id = raft->leader = 1;
    raft->last_index = 1000;
    raft->n_members = n_peers = n;
    changed = step_downs = 0;
    for (unsigned i = 0; i < n; i++) {
        struct rlog_member *m = &raft->members[i];
        *m = (struct rlog_member){.id = i + 1, .role = i < voters ? RLOG_VOTER : RLOG_SPARE};
        m->name[0] = (char)('a' + i);
        peers[i] = (struct node_peer){
            .heard_ms = now_ms(), .healthy = true, .serves = true, .stable_ms = now_ms() - 5000};
        peers[i].name[0] = m->name[0];
    }
}

#define STATE "/v1/sys/storage/raft/autopilot/state"

/* What is said of one of them. */
static void assert_server(unsigned i, const char *health, const char *status)
{
    char start[32], part[64];
    struct test_request *t = request(METHOD_GET, STATE, NULL, 200);
    (void)snprintf(start, sizeof start, "\"%c\":{\"id\":\"%c\"", 'a' + i, 'a' + i);
    const char *at = strstr(text(t), start);
    assert_non_null(at);
    const char *end = strchr(at, '}');
    (void)snprintf(part, sizeof part, "\"node_status\":\"%s\"", status);
    const char *found = strstr(at, part);
    assert_true(found != NULL && found < end);
    (void)snprintf(part, sizeof part, "\"healthy\":%s,", health);
    found = strstr(at, part);
    assert_true(found != NULL && found < end);
}

static void the_state_shows_what_the_leader_judged(void **ctx)
{
    (void)ctx;
    set_members(3, 3);
    assert_server(0, "true", "alive");
    assert_server(1, "true", "alive");
    peers[1].healthy = false;
    assert_server(1, "false", "alive");
    peers[1].silent = true;
    assert_server(1, "false", "failed");
    assert_server(2, "true", "alive");
}

static void a_member_that_will_vote_is_told_from_one_that_must_not(void **ctx)
{
    (void)ctx;
    set_members(3, 2);
    struct test_request *t = request(METHOD_GET, STATE, NULL, 200);
    assert_body_has(t, "\"node_type\":\"voter\",\"status\":\"non-voter\"");
    world_put(MEMBER_NONVOTER_KEY "c", "noted");
    t = request(METHOD_GET, STATE, NULL, 200);
    assert_body_has(t, "\"node_type\":\"non-voter\",\"status\":\"non-voter\"");
}

static void what_may_fail_is_counted_among_voters_that_are_well(void **ctx)
{
    (void)ctx;
    set_members(5, 3);
    struct test_request *t = request(METHOD_GET, STATE, NULL, 200);
    assert_body_has(t, "\"healthy\":true,\"failure_tolerance\":1,");
    assert_body_has(t, "\"voters\":[\"a\",\"b\",\"c\"],\"non_voters\":[\"d\",\"e\"],");
    peers[4].healthy = false;
    t = request(METHOD_GET, STATE, NULL, 200);
    assert_body_has(t, "\"healthy\":false,\"failure_tolerance\":1,");
    peers[2].healthy = false;
    t = request(METHOD_GET, STATE, NULL, 200);
    assert_body_has(t, "\"healthy\":false,\"failure_tolerance\":0,");
    peers[1].healthy = false;
    assert_body_has(request(METHOD_GET, STATE, NULL, 200), "\"failure_tolerance\":0,");
    set_members(3, 3);
    assert_null(strstr(text(request(METHOD_GET, STATE, NULL, 200)), "non_voters"));
    set_members(4, 4);
    assert_body_has(request(METHOD_GET, STATE, NULL, 200), "\"failure_tolerance\":1,");
}

static void stable_since_is_the_time_of_the_last_judgement(void **ctx)
{
    (void)ctx;
    char member[80];
    struct text_writer writer;
    set_members(2, 2);
    CLEANUP(buf_done) struct buf time = {0};
    writer = (struct text_writer){.out = &time};
    text_open_object(&writer);
    text_member_time(&writer, "stable_since", peers[1].stable_ms);
    (void)snprintf(member, sizeof member, "%.*s", (int)time.len - 1, (const char *)time.data + 1);
    assert_body_has(request(METHOD_GET, STATE, NULL, 200), member);
}

static void settings_are_bounded(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *body;
        int http;
    } cases[] = {
        {"{\"dead_server_last_contact_threshold\":59}", 400},
        {"{\"dead_server_last_contact_threshold\":60}", 204},
        {"{\"last_contact_threshold\":0}", 400},
        {"{\"last_contact_threshold\":1}", 204},
        {"{\"max_trailing_logs\":-1}", 400},
        {"{\"max_trailing_logs\":0}", 204},
        {"{\"min_quorum\":-1}", 400},
        {"{\"cleanup_dead_servers\":true,\"min_quorum\":2}", 400},
        {"{\"cleanup_dead_servers\":true}", 400},
        {"{\"cleanup_dead_servers\":true,\"min_quorum\":3}", 204},
        {"{\"min_quorum\":2}", 400}, /* while they are removed */
        {"{\"cleanup_dead_servers\":false,\"min_quorum\":0}", 204},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        (void)request(METHOD_POST, "/v1/sys/storage/raft/autopilot/configuration", cases[i].body,
                      cases[i].http);
}

static struct test_request *change(const char *what, const char *name, int http)
{
    char path[64], body[64];
    (void)snprintf(path, sizeof path, "/v1/sys/storage/raft/%s", what);
    (void)snprintf(body, sizeof body, "{\"server_id\":\"%s\"}", name);
    return request(METHOD_POST, path, body, http);
}

static void the_last_of_its_kind_stays(void **ctx)
{
    (void)ctx;
    set_members(1, 1);
    assert_body_has(change("remove-peer", "a", 400), "the last node");
    set_members(3, 1);
    assert_body_has(change("demote", "a", 400), "the last voter");
    assert_body_has(change("promote", "x", 400), "no node");
    assert_int_equal(changed, 0);
    (void)change("demote", "b", 204); /* it has no vote, and goes on without */
    assert_false(given_vote);
    (void)change("promote", "b", 204);
    assert_true(given_vote);
    (void)change("remove-peer", "c", 204);
    assert_int_equal(changed, 3);
    set_members(3, 2);
    (void)change("demote", "a", 204);
    assert_body_has(change("readmit", "b", 400), "was removed");
    assert_body_has(change("readmit", "a/b", 400), "the name of a node");
}

static void to_take_from_an_unknown_node_is_done_already(void **ctx)
{
    (void)ctx;
    for (unsigned members = 1; members <= 3; members += 2) {
        set_members(members, 1);
        change_ends = ST_NOT_FOUND;
        (void)change("demote", "x", 204);
        (void)change("remove-peer", "x", 204);
        change_ends = ST_OK;
    }
}

static void the_only_voter_steps_down_and_leads_on(void **ctx)
{
    (void)ctx;
    set_members(3, 1);
    (void)request(METHOD_POST, "/v1/sys/step-down", NULL, 204);
    assert_int_equal(step_downs, 0);
    set_members(3, 2);
    (void)request(METHOD_POST, "/v1/sys/step-down", NULL, 204);
    assert_int_equal(step_downs, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_state_shows_what_the_leader_judged),
        TEST(a_member_that_will_vote_is_told_from_one_that_must_not),
        TEST(what_may_fail_is_counted_among_voters_that_are_well),
        TEST(stable_since_is_the_time_of_the_last_judgement),
        TEST(settings_are_bounded),
        TEST(the_last_of_its_kind_stays),
        TEST(to_take_from_an_unknown_node_is_done_already),
        TEST(the_only_voter_steps_down_and_leads_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
