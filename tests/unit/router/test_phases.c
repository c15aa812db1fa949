#include "dies.h"
#include "router/pipeline/pipe.h"

/* A wrong use of the pipeline, and a part of the assertion that stops it. */
struct wrong {
    enum pipe_phase from, to; /* PIPE_PENDING: what the phase waits for comes */
    bool open, given_up;
    const char *said;
};

static void run(void *arg)
{
    const struct wrong *wrong = arg;
    struct router_request request = {.given_up = wrong->given_up};
    struct state_txn txn = {0};
    struct pipe p = {.request = &request, .phase = wrong->from};
    p.req.method = METHOD_PUT;
    p.req.txn = wrong->open ? &txn : NULL;
    if (wrong->to == PIPE_PENDING)
        pipe_step(&p);
    else
        pipe_go(&p, wrong->to);
}

static void assert_stopped(const struct wrong *wrong, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct wrong one = wrong[i];
        char said[DIES_SAID];
        if (!dies(run, &one, said))
            fail_msg("from %d to %d: not stopped", (int)one.from, (int)one.to);
        if (strstr(said, one.said) == NULL)
            fail_msg("from %d to %d: %s", (int)one.from, (int)one.to, said);
    }
}

static void a_phase_follows_only_where_the_table_says_so(void **ctx)
{
    (void)ctx;
    static const char said[] = "followers[p->phase]";
    const struct wrong wrong[] = {
        {PIPE_ARRIVED, PIPE_HANDLING, true, false, said},
        {PIPE_CHOOSING, PIPE_COMMITTING, true, false, said},
        {PIPE_WAITING, PIPE_FORWARDING, false, false, said},
        {PIPE_STATELESS, PIPE_OUTSIDE, false, false, said},
        {PIPE_PRECHECKING, PIPE_PARSING, true, false, said},
        {PIPE_READING, PIPE_HANDLING, true, false, said},
        {PIPE_PARSING, PIPE_HANDLING, true, false, said},
        {PIPE_AUTHORISING, PIPE_COMMITTING, true, false, said},
        {PIPE_PREPARING, PIPE_HANDLING, true, false, said},
        {PIPE_COMMITTING, PIPE_COMMITTING, true, false, said},
        {PIPE_COMMITTING, PIPE_HANDLING, true, false, said},
        {PIPE_OUTSIDE, PIPE_OUTSIDE, false, false, said},
        {PIPE_FINISHING, PIPE_OUTSIDE, false, false, said},
        {PIPE_FINISH_WAITING, PIPE_DONE, false, false, said},
        {PIPE_RECORDING_REPLY, PIPE_HANDLING, false, false, said},
        {PIPE_DONE, PIPE_DONE, false, false, said},
        {PIPE_DONE, PIPE_CHOOSING, false, false, said},
    };
    assert_stopped(wrong, ARRAY_LEN(wrong));
}

static void a_phase_has_a_transaction_or_none(void **ctx)
{
    (void)ctx;
    static const char said[] = "fitting & to";
    const struct wrong wrong[] = {
        {PIPE_AUTHORISING, PIPE_HANDLING, false, false, said},
        {PIPE_HANDLING, PIPE_OUTSIDE, true, false, said},
        {PIPE_HANDLING, PIPE_COMMITTING, false, false, said},
        {PIPE_AUTHORISING, PIPE_FORWARDING, true, false, said},
        {PIPE_RECORDING_REQUEST, PIPE_PREPARING, true, false, said},
    };
    assert_stopped(wrong, ARRAY_LEN(wrong));
}

static void nothing_changes_after_the_client_was_told_so(void **ctx)
{
    (void)ctx;
    static const char said[] = "given_up";
    const struct wrong wrong[] = {
        {PIPE_HANDLING, PIPE_COMMITTING, true, true, said},
        {PIPE_CONFIRMING, PIPE_OUTSIDE, false, true, said},
        {PIPE_CHOOSING, PIPE_FORWARDING, false, true, said},
    };
    assert_stopped(wrong, ARRAY_LEN(wrong));
}

static void only_a_phase_that_waits_is_gone_on_with(void **ctx)
{
    (void)ctx;
    static const char said[] = "resume[p->phase] != NULL";
    const struct wrong wrong[] = {
        {PIPE_ARRIVED, PIPE_PENDING, false, false, said},
        {PIPE_CHOOSING, PIPE_PENDING, false, false, said},
        {PIPE_HANDLING, PIPE_PENDING, true, false, said},
        {PIPE_FINISHING, PIPE_PENDING, false, false, said},
        {PIPE_DONE, PIPE_PENDING, false, false, said},
    };
    assert_stopped(wrong, ARRAY_LEN(wrong));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_phase_follows_only_where_the_table_says_so),
        cmocka_unit_test(a_phase_has_a_transaction_or_none),
        cmocka_unit_test(nothing_changes_after_the_client_was_told_so),
        cmocka_unit_test(only_a_phase_that_waits_is_gone_on_with),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
