/* The feature level that a cluster may have, from what its members understand. */
#include "support.h"

#include "cluster/membership/members/feature_level.h"

static uint16_t level_of[8]; /* by raft id */

static uint16_t understood(void *ctx, const struct rlog_member *member)
{
    (void)ctx;
    assert_true(member->id < ARRAY_LEN(level_of));
    return level_of[member->id];
}

static uint16_t common_of(const struct rlog_status *raft, uint16_t own)
{
    return feature_common(raft, own, understood, NULL);
}

static void a_lone_member_decides(void **ctx)
{
    const struct rlog_status raft = {
        .id = 1, .n_members = 1, .members = {{.id = 1, .role = RLOG_VOTER}}};
    (void)ctx;
    level_of[1] = 1; /* what others would hear of it does not count */
    assert_int_equal(common_of(&raft, 3), 3);
}

static void the_oldest_build_of_all_members_decides(void **ctx)
{
    const struct rlog_status raft = {.id = 1,
                                     .n_members = 3,
                                     .members = {{.id = 1, .role = RLOG_VOTER},
                                                 {.id = 2, .role = RLOG_VOTER},
                                                 {.id = 3, .role = RLOG_VOTER}}};
    (void)ctx;
    level_of[2] = 3;
    level_of[3] = 2;
    assert_int_equal(common_of(&raft, 3), 2);
    level_of[3] = 3;
    assert_int_equal(common_of(&raft, 3), 3);
    assert_int_equal(common_of(&raft, 2), 2);
}

static void a_standby_without_a_vote_counts(void **ctx)
{
    const struct rlog_status raft = {
        .id = 1,
        .n_members = 2,
        .members = {{.id = 1, .role = RLOG_VOTER}, {.id = 2, .role = RLOG_STANDBY}}};
    (void)ctx;
    level_of[2] = 1;
    assert_int_equal(common_of(&raft, 3), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lone_member_decides),
        cmocka_unit_test(the_oldest_build_of_all_members_decides),
        cmocka_unit_test(a_standby_without_a_vote_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
