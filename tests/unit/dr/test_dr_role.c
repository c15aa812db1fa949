/* Each change of the role in each mode and phase: the next one, or a refusal that stages nothing.
 */
#include "state/state_world.h"

#include "cluster/dr/former.h"
#include "cluster/dr/role.h"

static const uint8_t set[DR_SET_BYTES] = {7}, other_set[DR_SET_BYTES] = {8};

static struct state_world world;
static struct state_txn txn;
static struct reason why;

static int set_up(void **ctx)
{
    (void)ctx;
    sw_open(&world);
    sw_init(&world);
    return 0;
}

static int tear_down(void **ctx)
{
    (void)ctx;
    sw_close(&world);
    return 0;
}

/* The states of a role. */
enum place { DISABLED, RUNNING, SUPERSEDED, IDLE, SYNCING, COMPARING, STREAMING, PLACES };
static const struct {
    enum dr_mode mode;
    enum dr_phase phase;
    bool whole;
    const char *state;
} places[PLACES] = {
    [DISABLED] = {DR_MODE_DISABLED, 0, false, "idle"},
    [RUNNING] = {DR_MODE_PRIMARY, DR_PHASE_RUNNING, false, "running"},
    [SUPERSEDED] = {DR_MODE_PRIMARY, DR_PHASE_SUPERSEDED, false, "idle"},
    [IDLE] = {DR_MODE_SECONDARY, DR_PHASE_IDLE, false, "idle"},
    [SYNCING] = {DR_MODE_SECONDARY, DR_PHASE_SYNCING, false, "merkle-sync"},
    [COMPARING] = {DR_MODE_SECONDARY, DR_PHASE_SYNCING, true, "merkle-diff"},
    [STREAMING] = {DR_MODE_SECONDARY, DR_PHASE_STREAMING, false, "stream-wals"},
};

enum { EPOCH = 5, TARGET = 99 };

static struct dr_role role_of(enum place place)
{
    struct dr_role role = {.mode = places[place].mode};
    if (place == DISABLED)
        return role;
    role.phase = places[place].phase;
    role.whole = places[place].whole;
    role.epoch = EPOCH;
    role.since_ms = 1;
    role.target = role.phase == DR_PHASE_SYNCING ? TARGET : 0;
    memcpy(role.set, set, sizeof role.set);
    if (role.mode == DR_MODE_SECONDARY)
        memcpy(role.id, "b", 2);
    return role;
}

/* Put the cluster into a place, whatever it was in. */
static void put_place(enum place place)
{
    CLEANUP(buf_done) struct buf record = {0};
    const struct dr_role role = role_of(place);
    sw_begin(&world, &txn);
    assert_status(state_delete_prefix(&txn, BYTES(DR_PREFIX)), ST_OK);
    if (place != DISABLED) {
        assert_status(dr_role_encode(&role, &record), ST_OK);
        assert_status(state_put_raw(&txn, BYTES(DR_ROLE), buf_bytes(&record)), ST_OK);
        if (dr_stands_still(&role))
            assert_status(state_put_raw(&txn, BYTES(DR_FOLLOWING), BYTES("")), ST_OK);
    }
    assert_status(sw_commit(&world, &txn), ST_OK);
}

static struct dr_role role_now(bool *ret_following)
{
    struct dr_role role;
    sw_begin(&world, &txn);
    assert_status(dr_role_read(&txn, &role), ST_OK);
    *ret_following = state_exists(&txn, BYTES(DR_FOLLOWING)) == ST_OK;
    state_end(&txn);
    return role;
}

/* The changes. */
static const struct dr_primary primary = {.set = {7}, .epoch = EPOCH, .id = "c", .address = "p:1"};

static enum status enable(void)
{
    return dr_role_enable(&txn, set, "a:1", 10, &why);
}
static enum status demote(void)
{
    return dr_role_demote(&txn, 10, &why);
}
static enum status disable(void)
{
    return dr_role_disable(&txn, &why);
}
static enum status follow(void)
{
    return dr_role_follow(&txn, &primary, 10, &why);
}
static enum status resync(void)
{
    return dr_role_resync(&txn, &primary, &why);
}
static enum status forget(void)
{
    return dr_role_forget(&txn, "asked to", &why);
}
static enum status synced(void)
{
    return dr_role_synced(&txn, &why);
}
static enum status aim(void)
{
    return dr_role_aim(&txn, 1234, &why);
}
static enum status promote(void)
{
    return dr_role_promote(&txn, "a:2", 10, &why);
}
static enum status hear(void)
{
    return dr_role_hear(&txn, EPOCH + 2, &why);
}
static enum status learn(void)
{
    return dr_role_learn(&txn, EPOCH + 2, &why);
}

enum { NO = -1 }; /* refused */

/* The place that each change leads to, and the epoch then. */
static const struct {
    const char *name;
    enum status (*change)(void);
    int to[PLACES];
    int epoch_more;
} changes[] = {
    /* from: disabled, running, superseded, idle, syncing, comparing, streaming */
    {"enable", enable, {RUNNING, NO, NO, NO, NO, NO, NO}, DR_EPOCH_FIRST - EPOCH},
    {"demote", demote, {NO, IDLE, IDLE, NO, NO, NO, NO}, 0},
    {"disable", disable, {NO, DISABLED, DISABLED, DISABLED, DISABLED, DISABLED, DISABLED}, 0},
    {"follow", follow, {SYNCING, NO, NO, NO, NO, NO, NO}, 0},
    {"resync", resync, {NO, NO, NO, COMPARING, SYNCING, COMPARING, COMPARING}, 0},
    {"forget", forget, {NO, NO, NO, IDLE, NO, IDLE, IDLE}, 0},
    {"synced", synced, {NO, NO, NO, NO, STREAMING, STREAMING, NO}, 0},
    {"aim", aim, {NO, NO, NO, NO, SYNCING, COMPARING, NO}, 0},
    {"promote", promote, {NO, NO, NO, RUNNING, NO, NO, RUNNING}, 1},
    {"hear", hear, {NO, SUPERSEDED, SUPERSEDED, IDLE, NO, NO, NO}, 2},
    {"learn", learn, {NO, NO, NO, IDLE, SYNCING, COMPARING, STREAMING}, 2},
};

static void assert_place(enum place place, uint64_t epoch)
{
    bool following = false;
    struct dr_role role = role_now(&following);
    assert_int_equal(role.mode, places[place].mode);
    assert_int_equal(role.phase, places[place].phase);
    assert_int_equal(role.whole, places[place].whole);
    assert_int_equal(role.epoch, place == DISABLED ? 0 : epoch);
    assert_int_equal(following, dr_stands_still(&role)); /* role.h, 2. */
    if (place == DISABLED)
        return;
    assert_string_equal(dr_state_text(&role), places[place].state);
    assert_memory_equal(role.set, set, sizeof set);
    assert_true(dr_phase_text(role.phase)[0] != '\0');
}

static void each_change_leads_where_the_drawing_says_or_is_refused(void **ctx)
{
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(changes); i++)
        for (enum place from = DISABLED; from < PLACES; from++) {
            int to = changes[i].to[from];
            put_place(from);
            why = (struct reason){{0}};
            sw_begin(&world, &txn);
            enum status st = changes[i].change();
            if (st != (to == NO ? ST_INVALID : ST_OK))
                fail_msg("%s in %d: %s %s", changes[i].name, from, status_name(st), why.text);
            if (to == NO) {
                assert_false(state_staged(&txn));
                assert_true(why.text[0] != '\0');
                state_end(&txn);
                assert_place(from, EPOCH);
                continue;
            }
            assert_status(sw_commit(&world, &txn), ST_OK);
            assert_place((enum place)to, (uint64_t)(EPOCH + changes[i].epoch_more));
        }
}

static void run(enum status (*change)(void))
{
    sw_begin(&world, &txn);
    assert_status(change(), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
}

static void a_sync_forgets_its_target_when_it_ends(void **ctx)
{
    bool following = false;
    (void)ctx;
    put_place(SYNCING);
    run(aim);
    assert_int_equal(role_now(&following).target, 1234);
    run(resync); /* another primary: the target is not known */
    assert_int_equal(role_now(&following).target, 0);
    run(aim);
    run(synced);
    assert_int_equal(role_now(&following).target, 0);
}

static void a_promotion_keeps_the_link_and_drops_the_tokens(void **ctx)
{
    static const char *const keys[] = {DR_LINK, DR_ADDRESSES, DR_CA, DR_PREFIX "token/x",
                                       DR_PREFIX "root"};
    (void)ctx;
    put_place(STREAMING);
    sw_begin(&world, &txn);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        assert_status(state_put(&txn, bytes_str(keys[i]), BYTES("kept")), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    run(promote);
    sw_begin(&world, &txn);
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        assert_status(state_exists(&txn, bytes_str(keys[i])), i < 3 ? ST_OK : ST_NOT_FOUND);
    assert_status(state_exists(&txn, BYTES(DR_PROMOTED)), ST_OK);
    state_end(&txn);
}

static void a_primary_that_must_not_be_followed_is_refused(void **ctx)
{
    struct dr_primary wrong = primary;
    (void)ctx;
    put_place(STREAMING);
    sw_begin(&world, &txn);
    wrong.epoch = EPOCH - 1;
    assert_status(dr_role_resync(&txn, &wrong, &why), ST_INVALID);
    assert_non_null(strstr(why.text, "superseded"));
    wrong.epoch = DR_EPOCH_MAX + 1;
    assert_status(dr_role_resync(&txn, &wrong, &why), ST_INVALID);
    wrong = primary;
    memcpy(wrong.set, other_set, sizeof other_set);
    assert_status(dr_role_resync(&txn, &wrong, &why), ST_INVALID);
    assert_non_null(strstr(why.text, "another replication set"));
    assert_false(state_staged(&txn));
    state_end(&txn);
}

static void an_epoch_that_is_not_higher_changes_nothing(void **ctx)
{
    static const uint64_t epochs[] = {0, EPOCH - 1, EPOCH, DR_EPOCH_MAX + 1, UINT64_MAX};
    (void)ctx;
    for (enum place from = DISABLED; from < PLACES; from++)
        for (size_t i = 0; i < ARRAY_LEN(epochs); i++) {
            put_place(from);
            sw_begin(&world, &txn);
            assert_status(dr_role_hear(&txn, epochs[i], &why), ST_INVALID);
            assert_status(dr_role_learn(&txn, epochs[i], &why), ST_INVALID);
            assert_false(state_staged(&txn));
            state_end(&txn);
        }
}

static void texts_that_do_not_fit_are_refused(void **ctx)
{
    char longest[DR_ROLE_ADDRESS_MAX + 1];
    (void)ctx;
    memset(longest, 'x', sizeof longest);
    longest[DR_ROLE_ADDRESS_MAX] = '\0';
    put_place(DISABLED);
    sw_begin(&world, &txn);
    assert_status(dr_role_enable(&txn, set, longest, 1, &why), ST_INVALID);
    assert_non_null(strstr(why.text, "primary_cluster_addr: at most 263 characters"));
    longest[DR_ROLE_ADDRESS_MAX - 1] = '\0';
    assert_status(dr_role_enable(&txn, set, longest, 1, &why), ST_OK);
    assert_status(sw_commit(&world, &txn), ST_OK);
    assert_place(RUNNING, DR_EPOCH_FIRST);
}

/* Set one byte of a record, or cut it. */
static enum status decode_changed(struct bytes record, size_t at, uint8_t to)
{
    uint8_t copy[1024];
    struct dr_role role;
    assert_true(record.len <= sizeof copy && at < record.len);
    memcpy(copy, record.data, record.len);
    copy[at] = to;
    return dr_role_decode(bytes_of(copy, record.len), &role);
}

static void only_a_possible_record_is_read(void **ctx)
{
    enum { MODE = 1, PHASE = 2, FLAGS = 3, EPOCH_AT = 20 };
    CLEANUP(buf_done) struct buf record = {0};
    struct dr_role role = role_of(SYNCING), read;
    (void)ctx;
    assert_status(dr_role_encode(&role, &record), ST_OK);
    assert_status(dr_role_decode(buf_bytes(&record), &read), ST_OK);
    assert_int_equal(read.target, TARGET);
    assert_string_equal(read.id, "b");
    for (size_t len = 0; len < record.len; len++)
        assert_status(dr_role_decode(bytes_of(record.data, len), &read), ST_CORRUPT);
    struct bytes all = buf_bytes(&record);
    assert_status(decode_changed(all, 0, 2), ST_CORRUPT);
    assert_status(decode_changed(all, MODE, DR_MODE_DISABLED), ST_CORRUPT);
    assert_status(decode_changed(all, MODE, DR_MODE_PRIMARY), ST_CORRUPT);
    assert_status(decode_changed(all, MODE, 77), ST_CORRUPT);
    assert_status(decode_changed(all, PHASE, DR_PHASE_RUNNING), ST_CORRUPT);
    assert_status(decode_changed(all, PHASE, 0), ST_CORRUPT);
    assert_status(decode_changed(all, FLAGS, 2), ST_CORRUPT);
    assert_status(decode_changed(all, EPOCH_AT, 0), ST_CORRUPT);     /* epoch 0 */
    assert_status(decode_changed(all, EPOCH_AT + 7, 1), ST_CORRUPT); /* above DR_EPOCH_MAX */
    assert_status(decode_changed(all, all.len - 3, 0), ST_CORRUPT); /* a zero byte in the id */
    buf_add_u8(&record, 0);
    assert_status(dr_role_decode(buf_bytes(&record), &read), ST_CORRUPT);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_change_leads_where_the_drawing_says_or_is_refused),
        TEST(a_sync_forgets_its_target_when_it_ends),
        TEST(a_promotion_keeps_the_link_and_drops_the_tokens),
        TEST(a_primary_that_must_not_be_followed_is_refused),
        TEST(an_epoch_that_is_not_higher_changes_nothing),
        TEST(texts_that_do_not_fit_are_refused),
        TEST(only_a_possible_record_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
