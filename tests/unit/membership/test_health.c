/* The health of the members, as a leader judges it, and when a member is stable. */
#include "support.h"

#include "cluster/membership/removal/health.h"
#include "router/clock_env.h"

static struct clock_env clock_env;
static struct part_host host;
static struct peers peers;
static struct health health;
static struct rlog_status raft;
static struct autopilot stored;
static enum status stored_status;

void rlog_status(struct rlog *rlog, struct rlog_status *ret_status)
{
    (void)rlog;
    *ret_status = raft;
}

enum status local_read(struct local *local, struct bytes key, struct buf *out)
{
    (void)local;
    assert_true(bytes_eq(key, BYTES(AUTOPILOT_KEY)));
    return stored_status == ST_OK ? autopilot_encode(&stored, out) : stored_status;
}

static int set_up(void **ctx)
{
    (void)ctx;
    clock_env_init(&clock_env);
    clock_env.now_ms = 100000;
    host = (struct part_host){.env = &clock_env.env, .id = 1};
    peers = (struct peers){0};
    health = (struct health){.peers = &peers};
    stored_status = ST_OK;
    stored = autopilot_default;
    raft = (struct rlog_status){
        .n_members = 2,
        .id = 1,
        .term = 5,
        .is_leader = true,
        .last_index = 5000,
        .match = {5000, 4500},
        .members = {{.id = 1, .role = RLOG_VOTER}, {.id = 2, .role = RLOG_STANDBY}}};
    assert_status(peers_part.start(&peers, &host), ST_OK);
    assert_status(health_part.start(&health, &host), ST_OK);
    return 0;
}

static int tear_down(void **ctx)
{
    (void)ctx;
    timer_heap_done(&clock_env.timers);
    peers_done(&peers);
    health_done(&health);
    return 0;
}

static void tick(uint64_t ms)
{
    clock_env.now_ms += ms;
    health_part.changed(&health, &raft);
}

static void report(void)
{
    static const uint8_t said[] = {REPORT_SEALED, 1, 0, 0};
    const struct part_frame frame = {2, "peer", FRAME_REPORT, bytes_of(said, sizeof said)};
    assert_true(peers_part.receive(&peers, &frame));
}

/* The member reports once a second for so long. */
static void live(unsigned seconds)
{
    for (unsigned i = 0; i < seconds; i++) {
        report();
        tick(1000);
    }
}

static bool is_healthy(uint64_t id)
{
    struct member_health m;
    assert_true(health_get(&health, id, &m));
    return m.healthy;
}

static void a_member_is_stable_after_the_time_without_an_interruption(void **ctx)
{
    (void)ctx;
    tick(0);
    assert_false(is_healthy(2));
    assert_true(is_healthy(1));
    report();
    tick(0);
    assert_true(is_healthy(2));
    live(9);
    assert_false(health_stable(&health, 2));
    live(1);
    assert_true(health_stable(&health, 2));
    assert_false(health_stable(&health, 3)); /* no member */
}

static void a_silence_starts_the_time_again(void **ctx)
{
    (void)ctx;
    struct member_health before, after;
    report();
    tick(0);
    live(9);
    assert_true(health_get(&health, 2, &before));
    tick(10000);
    assert_true(health_get(&health, 2, &after));
    assert_true(!after.healthy && after.silent && after.since_ms > before.since_ms);
    assert_int_equal(after.since_wall_ms, env_wall_ms(&clock_env.env));
    report();
    tick(0);
    live(9);
    assert_false(health_stable(&health, 2));
    live(1);
    assert_true(health_stable(&health, 2));
}

static void a_member_that_falls_behind_starts_again(void **ctx)
{
    (void)ctx;
    report();
    tick(0);
    live(9);
    raft.match[1] = 3999;
    live(1);
    assert_false(is_healthy(2));
    raft.match[1] = 4000;
    live(1);
    assert_true(is_healthy(2));
    live(9);
    assert_false(health_stable(&health, 2));
    live(1);
    assert_true(health_stable(&health, 2));
}

static void a_new_leader_begins_again(void **ctx)
{
    (void)ctx;
    struct member_health m;
    report();
    tick(0);
    live(20);
    assert_true(health_stable(&health, 2));
    raft.is_leader = false;
    tick(200);
    assert_false(health_stable(&health, 2));
    assert_false(health_get(&health, 2, &m));
    raft.is_leader = true;
    raft.term = 7;
    tick(200);
    assert_false(is_healthy(2)); /* the last report went to the leader of an older term */
    report();
    tick(0);
    assert_true(is_healthy(2));
    live(9);
    assert_false(health_stable(&health, 2));
    raft.term = 8; /* leads again without a tick in between */
    live(9);
    assert_false(health_stable(&health, 2));
}

static void a_member_under_another_raft_id_begins_again(void **ctx)
{
    (void)ctx;
    report();
    tick(0);
    live(20);
    raft.members[1].id = 9;
    tick(200);
    assert_false(health_stable(&health, 9));
    assert_false(health_stable(&health, 2));
}

static void the_stored_settings_count_and_unreadable_ones_are_the_defaults(void **ctx)
{
    (void)ctx;
    stored.server_stabilization_time = 3;
    report();
    tick(0);
    live(2);
    assert_false(health_stable(&health, 2));
    live(1);
    assert_true(health_stable(&health, 2));
    stored_status = ST_SEALED;
    live(1);
    assert_false(health_stable(&health, 2));
    live(6);
    assert_true(health_stable(&health, 2));
    stored_status = ST_OK;
    stored.server_stabilization_time = 0;
    raft.members[1].id = 0;
    live(1);
    raft.members[1].id = 2;
    live(1);
    assert_true(health_stable(&health, 2));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_member_is_stable_after_the_time_without_an_interruption),
        TEST(a_silence_starts_the_time_again),
        TEST(a_member_that_falls_behind_starts_again),
        TEST(a_new_leader_begins_again),
        TEST(a_member_under_another_raft_id_begins_again),
        TEST(the_stored_settings_count_and_unreadable_ones_are_the_defaults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
