#include "support.h"

#include "base/mem.h"
#include "cluster/membership/join/challenge.h"

typedef enum status (*maker)(struct bytes, struct bytes, struct bytes, struct buf *);

static struct buf made(maker make, const char *a, const char *b, const char *c)
{
    struct buf out = {0};
    assert_status(make(bytes_str(a), bytes_str(b), bytes_str(c), &out), ST_OK);
    return out;
}

static void what_is_proved_is_this_and_nothing_else(void **ctx)
{
    (void)ctx;
    struct buf all[] = {
        made(challenge_answer, "c", "node", "key"),  made(challenge_accepted, "c", "node", "key"),
        made(challenge_answer, "cn", "ode", "key"),  made(challenge_answer, "c", "nodek", "ey"),
        made(challenge_answer, "", "cnode", "key"),  made(challenge_answer, "c", "node", ""),
        made(challenge_accepted, "cn", "ode", "key")};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        for (size_t j = 0; j < i; j++)
            assert_false(bytes_eq(buf_bytes(&all[i]), buf_bytes(&all[j])));
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        buf_done(&all[i]);
}

static void a_failed_allocation_is_reported(void **ctx)
{
    (void)ctx;
    static const maker makers[] = {challenge_answer, challenge_accepted};
    for (size_t i = 0; i < ARRAY_LEN(makers); i++) {
        struct buf out = {0};
        (void)mem_fail_nth(1);
        assert_status(makers[i](BYTES("c"), BYTES("n"), BYTES("k"), &out), ST_NOMEM);
        assert_true(mem_fail_nth(0));
        buf_done(&out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_proved_is_this_and_nothing_else),
        cmocka_unit_test(a_failed_allocation_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
