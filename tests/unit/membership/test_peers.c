/* The reports that members send about themselves: what is stored, and which voter gets the
 * leadership. */
#include "support.h"

#include "cluster/membership/members/peers.h"
#include "router/clock_env.h"

static struct clock_env clock_env;
static struct part_host host;
static struct peers peers;
static struct rlog_status raft;

void rlog_status(struct rlog *rlog, struct rlog_status *ret_status)
{
    (void)rlog;
    *ret_status = raft;
}

static bool linked = true;

bool mesh_linked(const struct mesh *mesh, uint64_t id)
{
    (void)mesh, (void)id;
    return linked;
}

static int set_up(void **ctx)
{
    (void)ctx;
    clock_env_init(&clock_env);
    clock_env.now_ms = 100000;
    host = (struct part_host){.env = &clock_env.env, .id = 1};
    peers = (struct peers){0};
    raft = (struct rlog_status){.n_members = 3,
                                .members = {{.id = 1, .role = RLOG_VOTER},
                                            {.id = 2, .role = RLOG_VOTER},
                                            {.id = 3, .role = RLOG_STANDBY}}};
    assert_status(peers_part.start(&peers, &host), ST_OK);
    return 0;
}

static int tear_down(void **ctx)
{
    (void)ctx;
    timer_heap_done(&clock_env.timers);
    peers_done(&peers);
    return 0;
}

static bool receive(uint64_t from, struct bytes content)
{
    const struct part_frame frame = {from, "peer", FRAME_REPORT, content};
    return peers_part.receive(&peers, &frame);
}

static void report(uint64_t from, bool unsealed)
{
    CLEANUP(buf_done) struct buf said = {0};
    buf_add_u8(&said, REPORT_SEALED);
    buf_add_u8(&said, unsealed);
    buf_add_block(&said, BYTES("https://peer:8200"));
    buf_add_block(&said, BYTES("1.2.3"));
    assert_true(receive(from, buf_bytes(&said)));
}

static void leadership_goes_to_an_unsealed_voter_that_spoke_lately(void **ctx)
{
    (void)ctx;
    assert_int_equal(peers_target(&peers), 0);
    report(3, true); /* has no vote */
    report(2, false);
    assert_int_equal(peers_target(&peers), 0);
    report(2, true);
    assert_int_equal(peers_target(&peers), 2);
    clock_env.now_ms += 3001;
    assert_int_equal(peers_target(&peers), 0);
}

static void a_report_is_kept(void **ctx)
{
    (void)ctx;
    struct peer_report kept;
    assert_false(peers_get(&peers, 2, &kept));
    report(2, true);
    assert_true(peers_get(&peers, 2, &kept));
    assert_string_equal(kept.api_addr, "https://peer:8200");
    assert_string_equal(kept.version, "1.2.3");
    assert_int_equal(peers_heard_ms(&peers, 2), 100000);
    assert_int_equal(peers_heard_ms(&peers, 3), 0);
}

static void report_feature(uint64_t from, uint16_t level)
{
    CLEANUP(buf_done) struct buf said = {0};
    buf_add_u8(&said, REPORT_FEATURE);
    buf_add_u16(&said, level);
    assert_true(receive(from, buf_bytes(&said)));
}

static void a_feature_level_counts_while_it_is_reported(void **ctx)
{
    (void)ctx;
    report_feature(2, 7); /* of a node that has not reported on itself yet */
    assert_int_equal(peers_feature(&peers, 2), RLOG_FEATURE_FIRST);
    report(2, true);
    assert_int_equal(peers_feature(&peers, 2), RLOG_FEATURE_FIRST);
    report_feature(2, 7);
    report(2, true);
    assert_int_equal(peers_feature(&peers, 2), 7);
    report_feature(2, 0);
    assert_int_equal(peers_feature(&peers, 2), 7);
    clock_env.now_ms += 3000;
    report(2, true); /* an older build does not report its level */
    assert_int_equal(peers_feature(&peers, 2), 7);
    clock_env.now_ms += 1;
    assert_int_equal(peers_feature(&peers, 2), RLOG_FEATURE_FIRST);
}

static const uint8_t mark[SEAL_MARK_BYTES] = "the mark of k 1",
                     another[SEAL_MARK_BYTES] = "another";

static void report_seal(uint64_t from, const uint8_t *of, size_t len)
{
    CLEANUP(buf_done) struct buf said = {0};
    buf_add_u8(&said, REPORT_SEAL);
    buf_add(&said, bytes_of(of, len));
    assert_true(receive(from, buf_bytes(&said)));
}

static void a_seal_key_counts_while_it_is_reported_over_a_link(void **ctx)
{
    (void)ctx;
    host.mesh = (struct mesh *)&linked; /* is not read */
    report_seal(2, mark, sizeof mark);  /* of a node that has not reported on itself yet */
    report(2, true);
    assert_false(peers_has_seal(&peers, 2, mark));
    report_seal(2, mark, sizeof mark);
    report(2, false);
    assert_true(peers_has_seal(&peers, 2, mark));
    assert_false(peers_has_seal(&peers, 2, another));
    assert_false(peers_has_seal(&peers, 3, mark));
    report_seal(2, another, 7); /* malformed */
    assert_true(peers_has_seal(&peers, 2, mark));
    report_seal(2, another, sizeof another);
    assert_false(peers_has_seal(&peers, 2, mark));
    assert_true(peers_has_seal(&peers, 2, another));
    linked = false;
    assert_false(peers_has_seal(&peers, 2, another));
    linked = true;
    clock_env.now_ms += 3001;
    report(2, true); /* of an older build, after a restart */
    assert_false(peers_has_seal(&peers, 2, another));
    report_seal(2, another, sizeof another);
    host.mesh = NULL;
    assert_false(peers_has_seal(&peers, 2, another));
}

static void a_report_of_an_address_is_left_to_another_part(void **ctx)
{
    (void)ctx;
    assert_false(receive(2, bytes_of((const uint8_t[]){REPORT_ADDRESS, 0}, 2)));
}

static void a_report_of_a_later_build_is_ignored(void **ctx)
{
    (void)ctx;
    struct peer_report kept;
    assert_true(receive(2, bytes_of((const uint8_t[]){9, 1}, 2)));
    assert_true(receive(2, (struct bytes){0}));
    assert_false(peers_get(&peers, 2, &kept));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(leadership_goes_to_an_unsealed_voter_that_spoke_lately,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_report_is_kept, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_feature_level_counts_while_it_is_reported, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_seal_key_counts_while_it_is_reported_over_a_link, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_report_of_an_address_is_left_to_another_part, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_report_of_a_later_build_is_ignored, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
