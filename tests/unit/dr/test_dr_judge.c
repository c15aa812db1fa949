/* Which secondaries a node of a primary serves, and which refusal the others get. */
#include "state/state_world.h"

#include "cluster/dr/serve/serve_internal.h"

enum { LEVEL = 4 };

static const uint8_t set[DR_SET_BYTES] = {7}, other_set[DR_SET_BYTES] = {8};

static struct state_world world;
static struct state_txn txn;
static struct part_host host;
static struct dr dr;
static struct dr_session session;
static struct dr_refuse told;
static struct reason why;

static void begin(void)
{
    why = (struct reason){{0}};
    sw_begin(&world, &txn);
}

/* Run one change of the role, in a transaction of its own. */
#define CHANGE(call)                                   \
    do {                                               \
        begin();                                       \
        assert_status(call, ST_OK);                    \
        assert_status(sw_commit(&world, &txn), ST_OK); \
    } while (0)

/* A session of the secondary "east", with its own certificate and the set's epoch. */
static void arrive(enum dr_purpose purpose, uint64_t epoch)
{
    dr_reader_done(&session.reader);
    session = (struct dr_session){.dr = &dr, .reader.host = &host};
    session.peer.name.epoch = 1;
    session.peer.key_sha256[0] = 1;
    session.hello = (struct dr_hello){
        .protocol = 1, .feature = LEVEL, .purpose = (uint8_t)purpose, .epoch = epoch};
    memcpy(session.peer.name.set, set, sizeof set);
    memcpy(session.hello.set, set, sizeof set);
    memcpy(session.peer.name.id, "east", sizeof "east");
    memcpy(session.hello.id, "east", sizeof "east");
}

static bool is_served(void)
{
    struct store_pin pin;
    assert_status(store_pin(world.m.store, "test", 0, &pin), ST_OK);
    told = (struct dr_refuse){0};
    bool served = dr_session_judge_at(&session, &pin, &told);
    store_unpin(&pin);
    assert_true(served == (told.code == 0));
    return served;
}

static void assert_refused(enum dr_refusal code, uint64_t epoch)
{
    assert_false(is_served());
    assert_int_equal(told.code, code);
    assert_int_equal(told.epoch, epoch);
}

static int set_up(void **ctx)
{
    struct dr_secondary s = {.id = "east", .created_ms = 1, .activated_ms = 1, .key_sha256 = {1}};
    (void)ctx;
    sw_open(&world);
    sw_init(&world);
    host = (struct part_host){.barrier = world.barrier, .env = &world.worker.env};
    atomic_store(&host.feature, LEVEL);
    dr = (struct dr){.host = &host};
    session = (struct dr_session){0};
    assert_status(dr_live_init(&dr.live), ST_OK);
    assert_status(dr_epochs_init(&dr.epochs), ST_OK);
    CHANGE(dr_role_enable(&txn, set, "", 1, &why));
    CHANGE(dr_secondary_put(&txn, &s));
    arrive(DR_STREAM, 1);
    return 0;
}

static int tear_down(void **ctx)
{
    (void)ctx;
    dr_reader_done(&session.reader);
    dr_epochs_done(&dr.epochs);
    dr_live_done(&dr.live);
    sw_close(&world);
    return 0;
}

static void a_secondary_is_served_for_each_purpose(void **ctx)
{
    static const enum dr_purpose purposes[] = {DR_STREAM, DR_SYNC, DR_HEARTBEAT, DR_DIFF};
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(purposes); i++) {
        arrive(purposes[i], 1);
        assert_true(is_served());
    }
}

static void a_hello_of_another_set_or_name_is_refused(void **ctx)
{
    (void)ctx;
    memcpy(session.hello.set, other_set, sizeof other_set);
    assert_refused(DR_REFUSE_SET, 0);
    arrive(DR_STREAM, 1);
    memcpy(session.hello.id, "west", sizeof "west"); /* the certificate has another name */
    assert_refused(DR_REFUSE_ID, 0);
    arrive(DR_STREAM, 1);
    memcpy(session.peer.name.set, other_set, sizeof other_set);
    assert_refused(DR_REFUSE_ID, 0);
}

static void a_certificate_without_a_record_is_revoked(void **ctx)
{
    (void)ctx;
    session.peer.key_sha256[0] = 2; /* of a certificate from before */
    assert_refused(DR_REFUSE_REVOKED, 0);
    arrive(DR_STREAM, 1);
    CHANGE(dr_secondary_delete(&txn, "east"));
    assert_refused(DR_REFUSE_REVOKED, 0);
}

static void an_older_build_is_refused_and_a_newer_one_is_not(void **ctx)
{
    (void)ctx;
    session.hello.feature = LEVEL - 1;
    assert_refused(DR_REFUSE_FEATURE, 1);
    session.hello.feature = LEVEL + 1;
    assert_true(is_served());
    atomic_store(&host.feature, LEVEL + 2); /* the primary was upgraded meanwhile */
    assert_refused(DR_REFUSE_FEATURE, 1);
}

static void a_higher_epoch_supersedes_before_it_is_stored(void **ctx)
{
    struct dr_heard heard;
    (void)ctx;
    arrive(DR_STREAM, 3);
    assert_refused(DR_REFUSE_SUPERSEDED, 3);
    dr_epoch_noted(&dr.epochs, &heard);
    assert_int_equal(heard.epoch, 3);
    assert_string_equal(heard.id, "east");
    arrive(DR_STREAM, 1); /* and this node serves no secondary from then on */
    assert_refused(DR_REFUSE_SUPERSEDED, 3);
}

static void a_revoked_secondary_is_not_believed(void **ctx)
{
    struct dr_heard heard;
    (void)ctx;
    CHANGE(dr_secondary_delete(&txn, "east"));
    arrive(DR_ANNOUNCE, 9);
    assert_refused(DR_REFUSE_REVOKED, 0);
    dr_epoch_noted(&dr.epochs, &heard);
    assert_int_equal(heard.epoch, 0);
}

static void an_announcement_is_always_refused(void **ctx)
{
    (void)ctx;
    arrive(DR_ANNOUNCE, 1);
    assert_refused(DR_REFUSE_CONFLICT, 1);
    assert_int_equal(atomic_load(&dr.counts.conflicts), 1);
    arrive(DR_ANNOUNCE, 2);
    assert_refused(DR_REFUSE_SUPERSEDED, 2);
}

static void a_demoted_cluster_serves_streams_alone(void **ctx)
{
    (void)ctx;
    CHANGE(dr_role_demote(&txn, 1, &why));
    assert_true(is_served());
    arrive(DR_SYNC, 1);
    assert_refused(DR_REFUSE_NOT_PRIMARY, 1);
    arrive(DR_ANNOUNCE, 2);
    assert_refused(DR_REFUSE_NOT_PRIMARY, 2); /* and it has heard of the promotion */
}

/* The secondary of an earlier epoch needs a new token, and is believed. */
static void a_former_secondary_is_believed_and_not_served(void **ctx)
{
    (void)ctx;
    CHANGE(dr_role_demote(&txn, 1, &why));
    CHANGE(dr_role_promote(&txn, "", 1, &why));
    assert_refused(DR_REFUSE_ID, 2);
    arrive(DR_ANNOUNCE, 1);
    assert_refused(DR_REFUSE_EPOCH, 2);
    arrive(DR_ANNOUNCE, 5);
    assert_refused(DR_REFUSE_SUPERSEDED, 5);
}

static void a_sealed_node_says_so(void **ctx)
{
    (void)ctx;
    barrier_seal(world.barrier);
    assert_refused(DR_REFUSE_SEALED, 0);
}

static void a_cluster_without_a_role_is_no_primary(void **ctx)
{
    (void)ctx;
    CHANGE(dr_role_disable(&txn, &why));
    assert_refused(DR_REFUSE_NOT_PRIMARY, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_secondary_is_served_for_each_purpose),
        TEST(a_hello_of_another_set_or_name_is_refused),
        TEST(a_certificate_without_a_record_is_revoked),
        TEST(an_older_build_is_refused_and_a_newer_one_is_not),
        TEST(a_higher_epoch_supersedes_before_it_is_stored),
        TEST(a_revoked_secondary_is_not_believed),
        TEST(an_announcement_is_always_refused),
        TEST(a_demoted_cluster_serves_streams_alone),
        TEST(a_former_secondary_is_believed_and_not_served),
        TEST(a_sealed_node_says_so),
        TEST(a_cluster_without_a_role_is_no_primary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
