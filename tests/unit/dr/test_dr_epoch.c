/* Epochs that a cluster hears of (PROTOCOL R19): whom it believes, and what follows. */
#include "state/state_world.h"

#include "cluster/dr/epoch.h"
#include "cluster/dr/former.h"

static const uint8_t set[DR_SET_BYTES] = {7}, other_set[DR_SET_BYTES] = {8};

static struct state_world world;
static struct state_txn txn;
static struct reason why;

static void begin(void)
{
    why = (struct reason){{0}};
    sw_begin(&world, &txn);
}

static void commit(void)
{
    assert_status(sw_commit(&world, &txn), ST_OK);
}

/* Run one change of the role, in a transaction of its own. */
#define CHANGE(call)                \
    do {                            \
        begin();                    \
        assert_status(call, ST_OK); \
        commit();                   \
    } while (0)

static struct dr_role role_now(void)
{
    struct dr_role role;
    begin();
    assert_status(dr_role_read(&txn, &role), ST_OK);
    state_end(&txn);
    return role;
}

static void add_secondary(const char *id, uint8_t key)
{
    struct dr_secondary s = {.created_ms = 1, .activated_ms = 1, .key_sha256 = {key}};
    memcpy(s.id, id, strlen(id) + 1);
    CHANGE(dr_secondary_put(&txn, &s));
}

static int set_up(void **ctx)
{
    (void)ctx;
    sw_open(&world);
    sw_init(&world);
    CHANGE(dr_role_enable(&txn, set, "", 1, &why));
    add_secondary("east", 1);
    return 0;
}

static int tear_down(void **ctx)
{
    (void)ctx;
    sw_close(&world);
    return 0;
}

static struct dr_heard claim(const char *id, uint8_t key, uint64_t epoch)
{
    struct dr_heard heard = {.epoch = epoch, .key_sha256 = {key}};
    memcpy(heard.set, set, sizeof set);
    memcpy(heard.id, id, strlen(id) + 1);
    return heard;
}

static enum status hear(struct dr_heard heard)
{
    begin();
    enum status st = dr_epoch_hear(&txn, &heard, &why);
    if (st == ST_OK)
        return sw_commit(&world, &txn);
    state_end(&txn);
    return st;
}

static void a_primary_is_superseded_and_a_promotion_goes_above(void **ctx)
{
    (void)ctx;
    assert_status(hear(claim("east", 1, 5)), ST_OK);
    assert_int_equal(role_now().phase, DR_PHASE_SUPERSEDED);
    assert_int_equal(role_now().epoch, 5);
    assert_status(hear(claim("east", 1, 5)), ST_INVALID); /* no higher epoch */
    assert_status(hear(claim("east", 1, 7)), ST_OK);
    CHANGE(dr_role_demote(&txn, 1, &why));
    CHANGE(dr_role_promote(&txn, "", 1, &why));
    assert_int_equal(role_now().epoch, 8);
    assert_int_equal(role_now().phase, DR_PHASE_RUNNING);
}

static void a_demoted_cluster_hears_the_one_that_was_promoted(void **ctx)
{
    (void)ctx;
    CHANGE(dr_role_demote(&txn, 1, &why));
    assert_status(hear(claim("east", 1, 2)), ST_OK);
    struct dr_role role = role_now();
    assert_int_equal(role.mode, DR_MODE_SECONDARY);
    assert_int_equal(role.phase, DR_PHASE_IDLE);
    assert_int_equal(role.epoch, 2);
    assert_non_null(strstr(role.reason, "promoted to epoch 2"));
    CHANGE(dr_role_promote(&txn, "", 1, &why));
    assert_int_equal(role_now().epoch, 3);
}

/* The records of the secondaries end with the promotion, and their claims count all the same. */
static void a_cluster_that_was_promoted_again_believes_its_former_secondaries(void **ctx)
{
    struct dr_secondary none;
    (void)ctx;
    for (unsigned round = 0; round < 2; round++) {
        CHANGE(dr_role_demote(&txn, 1, &why));
        CHANGE(dr_role_promote(&txn, "", 1, &why));
    }
    begin();
    assert_status(dr_secondary_get(&txn, "east", &none), ST_NOT_FOUND);
    state_end(&txn);
    assert_status(hear(claim("east", 1, 9)), ST_OK);
    assert_int_equal(role_now().phase, DR_PHASE_SUPERSEDED);
}

static void a_cluster_that_follows_another_one_believes_nobody(void **ctx)
{
    (void)ctx;
    struct dr_primary primary = {.epoch = 2, .id = "west", .address = "a:1"};
    memcpy(primary.set, set, sizeof set);
    CHANGE(dr_role_demote(&txn, 1, &why));
    CHANGE(dr_role_promote(&txn, "", 1, &why));
    add_secondary("south", 2);
    CHANGE(dr_role_demote(&txn, 1, &why));
    CHANGE(dr_role_resync(&txn, &primary, &why));
    assert_status(hear(claim("east", 1, 9)), ST_INVALID);
    assert_status(hear(claim("south", 2, 9)), ST_INVALID);
    assert_int_equal(role_now().epoch, 2);
}

static void claims_of_others_count_for_nothing(void **ctx)
{
    (void)ctx;
    struct dr_heard heard = claim("east", 1, 5);
    memcpy(heard.set, other_set, sizeof heard.set);
    assert_status(hear(heard), ST_INVALID);
    assert_status(hear(claim("east", 3, 5)), ST_INVALID); /* another key */
    assert_status(hear(claim("west", 1, 5)), ST_INVALID); /* no such secondary */
    assert_status(hear(claim("east", 1, 1)), ST_INVALID); /* an equal epoch */
    assert_status(hear(claim("east", 1, DR_EPOCH_MAX + 1)), ST_INVALID);
    assert_status(hear(claim("east", 1, 1 + DR_EPOCH_AHEAD + 1)), ST_INVALID);
    CHANGE(dr_secondary_delete(&txn, "east"));
    assert_status(hear(claim("east", 1, 5)), ST_INVALID); /* revoked */
    assert_int_equal(role_now().phase, DR_PHASE_RUNNING);
    assert_int_equal(role_now().epoch, 1);
}

/* The revocation is applied between the look at the record and the commit. */
static void a_secondary_that_is_revoked_meanwhile_is_not_believed(void **ctx)
{
    struct dr_heard heard = claim("east", 1, 5);
    struct state_txn revoke;
    (void)ctx;
    begin();
    assert_status(dr_epoch_hear(&txn, &heard, &why), ST_OK);
    sw_begin(&world, &revoke);
    assert_status(dr_secondary_delete(&revoke, "east"), ST_OK);
    assert_status(sw_commit(&world, &revoke), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_CONFLICT);
    assert_int_equal(role_now().epoch, 1);
}

static void a_secondary_learns_the_epoch_of_its_primary_and_keeps_its_phase(void **ctx)
{
    (void)ctx;
    struct dr_primary primary = {.epoch = 3, .id = "west", .address = "a:1"};
    memcpy(primary.set, set, sizeof set);
    CHANGE(dr_role_disable(&txn, &why));
    CHANGE(dr_role_follow(&txn, &primary, 1, &why));
    CHANGE(dr_role_synced(&txn, &why));
    CHANGE(dr_epoch_learn(&txn, set, 6, &why));
    assert_int_equal(role_now().epoch, 6);
    assert_int_equal(role_now().phase, DR_PHASE_STREAMING);
    begin();
    assert_status(dr_epoch_learn(&txn, set, 6, &why), ST_INVALID);
    assert_status(dr_epoch_learn(&txn, set, DR_EPOCH_MAX + 1, &why), ST_INVALID);
    assert_status(dr_epoch_learn(&txn, set, 6 + DR_EPOCH_AHEAD + 1, &why), ST_INVALID);
    assert_status(dr_epoch_learn(&txn, other_set, 9, &why), ST_INVALID);
    state_end(&txn);
    assert_status(hear(claim("east", 1, 9)), ST_INVALID);
    CHANGE(dr_role_promote(&txn, "", 1, &why));
    assert_int_equal(role_now().epoch, 7);
    begin();
    assert_status(dr_epoch_learn(&txn, set, 9, &why), ST_INVALID); /* a primary is told by others */
    state_end(&txn);
}

static void a_noted_claim_counts_for_its_set_and_for_some_seconds(void **ctx)
{
    struct dr_role role = {.epoch = 2}, other = {.epoch = 2};
    struct dr_epochs epochs = {0};
    struct dr_heard heard = claim("east", 1, 5), noted;
    (void)ctx;
    memcpy(role.set, set, sizeof set);
    memcpy(other.set, other_set, sizeof set);
    assert_status(dr_epochs_init(&epochs), ST_OK);
    assert_int_equal(dr_epoch_known(&epochs, &role, 1000), 2);
    dr_epoch_note(&epochs, &heard, 1000);
    heard.epoch = 4;
    dr_epoch_note(&epochs, &heard, 1001); /* a lower one is left out */
    assert_int_equal(dr_epoch_known(&epochs, &role, 1000), 5);
    assert_int_equal(dr_epoch_known(&epochs, &other, 1000), 2);
    assert_int_equal(dr_epoch_known(&epochs, &role, 10000), 2);
    dr_epoch_noted(&epochs, &noted);
    assert_int_equal(noted.epoch, 5);
    dr_epoch_forget(&epochs, &heard); /* not the noted one */
    dr_epoch_noted(&epochs, &noted);
    assert_int_equal(noted.epoch, 5);
    dr_epoch_forget(&epochs, &noted);
    assert_int_equal(dr_epoch_known(&epochs, &role, 1000), 2);
    memcpy(heard.set, other_set, sizeof heard.set);
    dr_epoch_note(&epochs, &heard, 1000);
    assert_int_equal(dr_epoch_known(&epochs, &other, 1000), 4);
    assert_int_equal(dr_epoch_known(&epochs, &role, 1000), 2);
    dr_epochs_done(&epochs);
}

static void two_announcements_of_one_epoch_are_a_conflict(void **ctx)
{
    struct dr_epochs epochs = {0};
    struct dr_heard east = claim("east", 1, 5), west = claim("west", 2, 5);
    (void)ctx;
    assert_status(dr_epochs_init(&epochs), ST_OK);
    assert_false(dr_epoch_announced(&epochs, &east, 1000));
    assert_false(dr_epoch_announced(&epochs, &east, 2000)); /* the same cluster again */
    assert_true(dr_epoch_announced(&epochs, &west, 3000));
    assert_true(dr_epoch_announced(&epochs, &east, 4000));
    west.epoch = 4;
    assert_false(dr_epoch_announced(&epochs, &west, 5000)); /* late, and hides nothing */
    west.epoch = 5;
    assert_true(dr_epoch_announced(&epochs, &west, 6000));
    assert_false(dr_epoch_announced(&epochs, &east, 90000)); /* the other one was silent since */
    memcpy(west.set, other_set, sizeof west.set);
    assert_false(dr_epoch_announced(&epochs, &west, 91000));
    dr_epochs_done(&epochs);
}

#define EPOCH_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EPOCH_TEST(a_primary_is_superseded_and_a_promotion_goes_above),
        EPOCH_TEST(a_demoted_cluster_hears_the_one_that_was_promoted),
        EPOCH_TEST(a_cluster_that_was_promoted_again_believes_its_former_secondaries),
        EPOCH_TEST(a_cluster_that_follows_another_one_believes_nobody),
        EPOCH_TEST(claims_of_others_count_for_nothing),
        EPOCH_TEST(a_secondary_that_is_revoked_meanwhile_is_not_believed),
        cmocka_unit_test(two_announcements_of_one_epoch_are_a_conflict),
        cmocka_unit_test(a_noted_claim_counts_for_its_set_and_for_some_seconds),
        EPOCH_TEST(a_secondary_learns_the_epoch_of_its_primary_and_keeps_its_phase),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
