/* sys/monitor: what is refused, and the follower of a reply. */
#include "api/api_world.h"
#include "base/trace_tail.h"

static void what_is_no_level_or_format_is_refused(void **ctx)
{
    (void)ctx;
    assert_body_has(request(METHOD_GET, "/v1/sys/monitor?log_level=loud", NULL, 400),
                    "unknown log level");
    assert_body_has(request(METHOD_GET, "/v1/sys/monitor?log_format=xml", NULL, 400),
                    "unknown log format");
    w.token[0] = '\0';
    (void)request(METHOD_GET, "/v1/sys/monitor", NULL, 403);
    assert_int_equal(tail_lowest(), TRACE_OFF);
}

static void a_client_too_many_is_refused(void **ctx)
{
    (void)ctx;
    struct tail *tails[TAIL_MAX];
    for (unsigned i = 0; i < TAIL_MAX; i++)
        assert_status(tail_open(TRACE_ERROR, TAIL_JSON, &tails[i]), ST_OK);
    assert_body_has(request(METHOD_GET, "/v1/sys/monitor", NULL, 503),
                    "16 clients follow the log of this node already");
    for (unsigned i = 0; i < TAIL_MAX; i++)
        tail_close(tails[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_no_level_or_format_is_refused),
        TEST(a_client_too_many_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
