/* The bound of what a session sends in a second. Clock and connection are stand-ins. */
#include "support.h"

#include "cluster/dr/serve/serve_internal.h"

enum { BYTES_S = 100000, BURST = BYTES_S / 4 };

static int64_t now_ms;
static uint64_t sent;
static struct dr dr;
static struct dr_session session;

int64_t dr_conn_now_ms(void)
{
    return now_ms;
}

void dr_conn_stats(const struct dr_conn *conn, struct dr_conn_stats *ret_stats)
{
    assert_null(conn);
    *ret_stats = (struct dr_conn_stats){.wire_sent = sent};
}

static int set_up(void **ctx)
{
    (void)ctx;
    now_ms = 1000;
    sent = 777; /* before the first look */
    dr = (struct dr){.bandwidth = BYTES_S};
    session = (struct dr_session){.dr = &dr};
    return 0;
}

static unsigned pause_after(uint64_t bytes, int64_t ms)
{
    sent += bytes;
    now_ms += ms;
    return dr_session_pause_ms(&session);
}

static void without_a_bound_nothing_waits(void **ctx)
{
    (void)ctx;
    dr.bandwidth = 0;
    assert_int_equal(pause_after(UINT32_MAX, 0), 0);
    assert_int_equal(dr_session_piece(&session, 1 << 20), 1 << 20);
}

static void a_session_that_owes_bytes_waits_for_as_long_as_they_take(void **ctx)
{
    (void)ctx;
    assert_int_equal(pause_after(0, 0), 0);
    assert_int_equal(pause_after(10000, 0), 101);
    assert_int_equal(pause_after(0, 60), 41);
    assert_int_equal(pause_after(0, 40), 0);
    assert_int_equal(pause_after(10000, 100), 0);
    assert_int_equal(pause_after(1, 0), 1);
}

static void no_wait_is_longer_than_the_next_look(void **ctx)
{
    (void)ctx;
    assert_int_equal(pause_after(0, 0), 0);
    assert_int_equal(pause_after(BYTES_S * 10, 0), DR_JUDGE_MS);
    assert_int_equal(pause_after(0, 9900), 101);
}

static void a_rest_saves_up_a_quarter_of_a_second(void **ctx)
{
    (void)ctx;
    assert_int_equal(pause_after(0, 0), 0);
    assert_int_equal(pause_after(BURST, 3600 * 1000), 0);
    assert_int_equal(pause_after(1000, 0), 11);
}

static void many_looks_in_a_millisecond_lose_no_time(void **ctx)
{
    (void)ctx;
    assert_int_equal(pause_after(0, 0), 0);
    assert_int_equal(pause_after(10000, 0), 101);
    for (unsigned i = 0; i < 99; i++)
        assert_true(pause_after(0, i % 2) != 0); /* 49 ms pass */
    assert_int_equal(pause_after(0, 0), 52);
}

static void a_bound_that_is_set_later_begins_anew(void **ctx)
{
    (void)ctx;
    assert_int_equal(pause_after(0, 0), 0);
    assert_true(pause_after(BYTES_S, 0) != 0);
    dr.bandwidth = 0;
    assert_int_equal(pause_after(BYTES_S * 10, 1), 0);
    dr.bandwidth = BYTES_S;
    assert_int_equal(pause_after(0, 1), 0); /* what was sent without a bound is not owed */
}

static void pieces_are_of_a_quarter_of_a_second(void **ctx)
{
    (void)ctx;
    assert_int_equal(dr_session_piece(&session, 1 << 20), BURST);
    assert_int_equal(dr_session_piece(&session, 100), 100);
    dr.bandwidth = DR_BANDWIDTH_MIN;
    assert_int_equal(dr_session_piece(&session, 1 << 20), 4096);
}

#define TEST(f) cmocka_unit_test_setup(f, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(without_a_bound_nothing_waits),
        TEST(a_session_that_owes_bytes_waits_for_as_long_as_they_take),
        TEST(no_wait_is_longer_than_the_next_look),
        TEST(a_rest_saves_up_a_quarter_of_a_second),
        TEST(many_looks_in_a_millisecond_lose_no_time),
        TEST(a_bound_that_is_set_later_begins_anew),
        TEST(pieces_are_of_a_quarter_of_a_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
