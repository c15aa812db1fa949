#include "support.h"

#include "cluster/membership/removal/autopilot.h"
#include "text/time.h"

enum { DAY_MS = 24 * 3600 * 1000, DEAD = DAY_MS + 1000 };

static struct autopilot cleaning(int64_t min_quorum)
{
    struct autopilot a = autopilot_default;
    a.cleanup_dead_servers = true;
    a.min_quorum = min_quorum;
    return a;
}

static void settings_come_back_as_they_were_stored(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf out = {0};
    struct autopilot a = {.cleanup_dead_servers = true,
                          .dead_server_last_contact_threshold = 61,
                          .last_contact_threshold = 2,
                          .server_stabilization_time = 3,
                          .max_trailing_logs = 4,
                          .min_quorum = INT64_MAX};
    struct autopilot back = {0};
    assert_status(autopilot_encode(&a, &out), ST_OK);
    assert_status(autopilot_decode(buf_bytes(&out), &back), ST_OK);
    assert_true(back.cleanup_dead_servers);
    assert_int_equal(back.dead_server_last_contact_threshold, 61);
    assert_int_equal(back.last_contact_threshold, 2);
    assert_int_equal(back.server_stabilization_time, 3);
    assert_int_equal(back.max_trailing_logs, 4);
    assert_int_equal(back.min_quorum, INT64_MAX);
    for (size_t len = 0; len < out.len; len++)
        assert_status(autopilot_decode(bytes_of(out.data, len), &back), ST_CORRUPT);
    buf_add_u8(&out, 0);
    assert_status(autopilot_decode(buf_bytes(&out), &back), ST_CORRUPT);
    out.len--;
    out.data[0]++;
    assert_status(autopilot_decode(buf_bytes(&out), &back), ST_CORRUPT);
    for (size_t i = 0; i < 3; i++) { /* the durations follow two bytes */
        buf_clear(&out);
        assert_status(autopilot_encode(&a, &out), ST_OK);
        uint8_t *duration = out.data + 2 + 8 * i;
        for (unsigned over = 0; over < 2; over++) {
            le64_put(duration, (uint64_t)TEXT_DURATION_MAX_S + over);
            assert_status(autopilot_decode(buf_bytes(&out), &back), over ? ST_CORRUPT : ST_OK);
        }
    }
}

static void a_healthy_member_reports_and_has_the_log(void **ctx)
{
    (void)ctx;
    struct autopilot a = autopilot_default;
    struct autopilot_contact c = {.heard = true, .silent_ms = 10000, .behind = 1000};
    assert_true(autopilot_healthy(&a, &c));
    c.silent_ms++;
    assert_true(autopilot_silent(&a, &c));
    assert_false(autopilot_healthy(&a, &c));
    c = (struct autopilot_contact){.heard = true, .behind = 1001};
    assert_false(autopilot_silent(&a, &c));
    assert_false(autopilot_healthy(&a, &c));
    c = (struct autopilot_contact){.heard = false};
    assert_false(autopilot_healthy(&a, &c));
}

static void nobody_is_dead_unless_asked_for(void **ctx)
{
    (void)ctx;
    static const struct autopilot_server servers[] = {
        {true, 0}, {true, 0}, {true, 0}, {true, DEAD}};
    struct autopilot a = cleaning(3);
    assert_int_equal(autopilot_dead(&autopilot_default, servers, 4), 4);
    assert_int_equal(autopilot_dead(&a, servers, 3), 3);
    assert_int_equal(autopilot_dead(&a, servers, 4), 3);
}

static void silence_up_to_the_threshold_is_not_death(void **ctx)
{
    (void)ctx;
    struct autopilot_server servers[] = {{true, 0}, {true, 0}, {true, 0}, {true, DAY_MS}};
    struct autopilot a = cleaning(3);
    assert_int_equal(autopilot_dead(&a, servers, 4), 4);
    servers[3].silent_ms = DEAD;
    assert_int_equal(autopilot_dead(&a, servers, 4), 3);
}

static void voters_that_are_needed_stay(void **ctx)
{
    (void)ctx;
    static const struct autopilot_server three[] = {{true, 0}, {true, 0}, {true, DEAD}};
    static const struct autopilot_server split[] = {{true, 0},    {true, DEAD}, {true, DEAD},
                                                    {true, DEAD}, {true, 0},    {false, DEAD}};
    static const struct autopilot_server plain[] = {{true, 0}, {true, 0}, {true, 0}, {false, DEAD}};
    struct autopilot a = cleaning(3), fewer = cleaning(2);
    assert_int_equal(autopilot_dead(&a, three, 3), 3);
    assert_int_equal(autopilot_dead(&fewer, three, 3), 2);
    assert_int_equal(autopilot_dead(&fewer, split, 6), 6); /* no majority is alive */
    assert_int_equal(autopilot_dead(&a, plain, 4), 3);     /* it has no vote to miss */
}

static void the_living_outlast_many_dead_one_at_a_time(void **ctx)
{
    (void)ctx;
    struct autopilot_server servers[] = {{true, 0},    {true, DEAD}, {true, 0},
                                         {true, DEAD}, {true, 0},    {true, 0}};
    struct autopilot a = cleaning(3);
    assert_int_equal(autopilot_dead(&a, servers, 6), 1);
    servers[1] = servers[5];
    assert_int_equal(autopilot_dead(&a, servers, 5), 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(settings_come_back_as_they_were_stored),
        cmocka_unit_test(a_healthy_member_reports_and_has_the_log),
        cmocka_unit_test(nobody_is_dead_unless_asked_for),
        cmocka_unit_test(silence_up_to_the_threshold_is_not_death),
        cmocka_unit_test(voters_that_are_needed_stay),
        cmocka_unit_test(the_living_outlast_many_dead_one_at_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
