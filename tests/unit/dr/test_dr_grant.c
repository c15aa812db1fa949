/* What a primary grants, in the order of its checks; the records of both sides. */
#include "dr/dr_pendings.h"
#include "state/state_world.h"

#include "cluster/dr/grant.h"

enum { LEVEL = 4, MINUTE_MS = 60000 };

static struct state_world world;
static struct state_txn txn;
static struct reason why;
static struct buf key_pem, public_pem, other_key, other_public;
static char secret[DR_SECRET_LEN + 1];
static const uint8_t box_key[BOX_PUBLIC_BYTES] = {1}, other_box_key[BOX_PUBLIC_BYTES] = {2};

static void begin(void)
{
    why = (struct reason){{0}};
    sw_begin(&world, &txn);
}

static void commit(void)
{
    assert_status(sw_commit(&world, &txn), ST_OK);
}

static int set_up(void **ctx)
{
    static const uint8_t set[DR_SET_BYTES] = {7};
    (void)ctx;
    sw_open(&world);
    sw_init(&world);
    assert_status(cert_key_make(&key_pem, &public_pem), ST_OK);
    assert_status(cert_key_make(&other_key, &other_public), ST_OK);
    begin();
    assert_status(dr_role_enable(&txn, set, "", 1, &why), ST_OK);
    commit();
    return 0;
}

static int tear_down(void **ctx)
{
    (void)ctx;
    sw_close(&world);
    buf_done(&key_pem);
    buf_done(&public_pem);
    buf_done(&other_key);
    buf_done(&other_public);
    return 0;
}

static enum status make(const char *id, int64_t now_ms, int64_t ttl_s)
{
    const struct dr_grant_order order = {id, now_ms, ttl_s};
    begin();
    enum status st = dr_grant_make(&txn, &world.worker.env, &order, secret, &why);
    if (st == ST_OK)
        commit();
    else
        state_end(&txn);
    return st;
}

static struct dr_claim good(void)
{
    return (struct dr_claim){.id = "east",
                             .secret = secret,
                             .public_pem = buf_bytes(&public_pem),
                             .box_key = box_key,
                             .version = 5,
                             .protocol = 1,
                             .feature = LEVEL};
}

static enum status use(const struct dr_claim *claim, int64_t now_ms)
{
    begin();
    enum status st = dr_grant_use(&txn, claim, LEVEL, now_ms, &why);
    if (st == ST_OK)
        commit();
    else
        state_end(&txn);
    return st;
}

static void assert_refused(const struct dr_claim *claim, int64_t now_ms, const char *words)
{
    assert_status(use(claim, now_ms), ST_INVALID);
    if (strstr(why.text, words) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", why.text, words);
}

static void one_pair_of_keys_uses_a_secret_and_may_repeat_its_request(void **ctx)
{
    (void)ctx;
    struct dr_secondary stored;
    struct dr_claim claim = good();
    assert_status(make("east", 1000, 60), ST_OK);
    begin();
    assert_status(dr_secondary_get(&txn, "east", &stored), ST_OK);
    assert_null(strstr(stored.secret, secret));
    state_end(&txn);
    assert_status(use(&claim, 2000), ST_OK);
    assert_status(use(&claim, 2000 + 5 * MINUTE_MS), ST_OK); /* past the expiry of the token */
    begin();
    assert_status(dr_secondary_get(&txn, "east", &stored), ST_OK);
    assert_int_equal(stored.activated_ms, 2000);
    state_end(&txn);
    claim.public_pem = buf_bytes(&other_public);
    assert_refused(&claim, 3000, "used already");
    claim.public_pem = buf_bytes(&public_pem);
    claim.box_key = other_box_key; /* would get the root key */
    assert_refused(&claim, 3000, "used already");
    claim.box_key = box_key;
    assert_status(use(&claim, 3000), ST_OK);
    claim.secret = "00000000000000000000000000000000";
    assert_refused(&claim, 3000, "knows no such");
    claim.secret = secret;
    assert_refused(&claim, 2000 + DR_GRANT_AGAIN_MS, "used already");
}

static void each_check_comes_before_the_next(void **ctx)
{
    (void)ctx;
    struct dr_claim claim = {
        .id = "east", .secret = "wrong", .public_pem = BYTES("no key"), .version = UINT64_MAX};
    claim.box_key = box_key;
    assert_status(make("east", 1000, 60), ST_OK);
    assert_refused(&claim, 1000 + MINUTE_MS, "knows no such");
    claim.secret = "00000000000000000000000000000000";
    assert_refused(&claim, 1000 + MINUTE_MS, "knows no such");
    claim.secret = secret;
    claim.id = "west";
    assert_refused(&claim, 1000 + MINUTE_MS, "knows no such");
    claim.id = "";
    assert_refused(&claim, 1000 + MINUTE_MS, "knows no such");
    claim.id = "east";
    assert_refused(&claim, 1000 + MINUTE_MS, "public_key:");
    claim.public_pem = buf_bytes(&public_pem);
    assert_refused(&claim, 1000 + MINUTE_MS, "has expired");
    assert_refused(&claim, 1000 + MINUTE_MS - 1, "protocol:");
    claim.protocol = 1;
    claim.feature = LEVEL - 1;
    assert_refused(&claim, 2000, "feature level 3");
    claim.feature = LEVEL + 1;
    assert_refused(&claim, 2000, "version: impossible");
    claim.version = world.m.version + DR_VERSION_AHEAD + 1;
    assert_refused(&claim, 2000, "version: impossible");
    claim.version = DR_VERSION_MAX;
    assert_refused(&claim, 2000, "version: impossible");
    claim.version = world.m.version + DR_VERSION_AHEAD;
    assert_status(use(&claim, 2000), ST_OK); /* the refusals have not used the secret up */
}

/* Else the version of the secondary would fall when it takes the state over. */
static void the_version_rises_to_the_secondarys(void **ctx)
{
    (void)ctx;
    struct dr_claim claim = good();
    assert_status(make("east", 1000, 60), ST_OK);
    claim.version = 900;
    assert_status(use(&claim, 2000), ST_OK);
    assert_int_equal(world.m.version, 900);
    claim.version = 1000; /* the same secondary repeats its request after more writes */
    assert_status(use(&claim, 2000), ST_OK);
    assert_int_equal(world.m.version, 1000);
    claim.version = 5;
    assert_status(use(&claim, 2000), ST_OK);
    assert_int_equal(world.m.version, 1000);
}

static void only_a_running_primary_grants(void **ctx)
{
    (void)ctx;
    struct dr_claim claim = good();
    assert_status(make("east", 1000, 60), ST_OK);
    begin();
    assert_status(dr_role_hear(&txn, 2, &why), ST_OK);
    commit();
    assert_refused(&claim, 2000, "not running: superseded");
    begin();
    assert_status(dr_role_demote(&txn, 1, &why), ST_OK);
    commit();
    assert_refused(&claim, 2000, "but a secondary");
    begin();
    assert_status(dr_role_disable(&txn, &why), ST_OK);
    commit();
    assert_refused(&claim, 2000, "replication is disabled");
}

static void an_id_belongs_to_one_secondary(void **ctx)
{
    (void)ctx;
    struct dr_claim claim = good();
    char first[DR_SECRET_LEN + 1];
    assert_status(make("east", 1000, 60), ST_OK);
    memcpy(first, secret, sizeof first);
    assert_status(make("east", 1000 + MINUTE_MS - 1, 60), ST_INVALID);
    assert_non_null(strstr(why.text, "not used yet"));
    assert_status(make("east", 1000 + MINUTE_MS, 60), ST_OK);
    claim.secret = first;
    assert_refused(&claim, 1000 + MINUTE_MS, "knows no such");
    claim.secret = secret;
    assert_status(use(&claim, 1000 + MINUTE_MS), ST_OK);
    assert_status(make("east", INT64_C(1) << 40, 60), ST_INVALID);
    assert_non_null(strstr(why.text, "activated already"));
    begin();
    assert_status(dr_secondary_delete(&txn, "east"), ST_OK);
    commit();
    assert_refused(&claim, 1000 + MINUTE_MS, "knows no such");
    assert_status(make("east", 1000, 60), ST_OK);
}

static void a_primary_has_so_many_secondaries(void **ctx)
{
    (void)ctx;
    char id[8];
    for (unsigned i = 0; i < DR_SECONDARIES_MAX; i++) {
        (void)snprintf(id, sizeof id, "s%u", i);
        assert_status(make(id, 1000, i == 3 ? 60 : 600), ST_OK);
    }
    assert_status(make("more", 1000, 60), ST_INVALID);
    assert_non_null(strstr(why.text, "16 secondaries"));
    assert_status(make("more", 1000 + MINUTE_MS, 60), ST_OK); /* the expired record has gone */
    begin();
    assert_int_equal(state_count(&txn, BYTES(DR_SECONDARY_PREFIX)), DR_SECONDARIES_MAX);
    state_end(&txn);
}

static void an_activation_under_way_is_found_by_its_token_alone(void **ctx)
{
    (void)ctx;
    struct bytes found;
    begin();
    assert_status(dr_pending_get(&txn, BYTES("token"), &found), ST_NOT_FOUND);
    assert_status(dr_pending_put(&txn, BYTES("token"), BYTES("encoded")), ST_OK);
    commit();
    begin();
    assert_status(dr_pending_get(&txn, BYTES("token2"), &found), ST_NOT_FOUND);
    assert_status(dr_pending_get(&txn, BYTES("token"), &found), ST_OK);
    assert_true(bytes_eq(found, BYTES("encoded")));
    assert_status(dr_pending_delete(&txn), ST_OK);
    assert_status(dr_pending_get(&txn, BYTES("token"), &found), ST_NOT_FOUND);
    state_end(&txn);
}

static void keys_of_a_secondary_are_stored_encrypted(void **ctx)
{
    (void)ctx;
    CLEANUP(secret_done) struct secret root = {0};
    CLEANUP(box_key_done) struct box_key made = {0};
    CLEANUP(box_key_done) struct box_key key = {0};
    struct state_value raw;
    assert_status(box_key_new(&made), ST_OK);
    begin();
    assert_status(dr_root_get(&txn, &root), ST_NOT_FOUND);
    assert_status(dr_box_get(&txn, &key), ST_NOT_FOUND);
    assert_status(dr_root_put(&txn, BYTES("a root key of thirty-two bytes!!")), ST_OK);
    assert_status(dr_box_put(&txn, &made), ST_OK);
    commit();
    begin();
    assert_status(dr_root_get(&txn, &root), ST_OK);
    assert_true(bytes_eq(secret_bytes(&root), BYTES("a root key of thirty-two bytes!!")));
    assert_status(dr_box_get(&txn, &key), ST_OK);
    assert_memory_equal(key.public_key, made.public_key, BOX_PUBLIC_BYTES);
    state_end(&txn);
    begin();
    assert_status(state_get_raw(&txn, BYTES(DR_ROOT_KEY), &raw), ST_OK);
    assert_null(memmem(raw.value.data, raw.value.len, "thirty-two", 10));
    state_end(&txn);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_pair_of_keys_uses_a_secret_and_may_repeat_its_request),
        TEST(each_check_comes_before_the_next),
        TEST(the_version_rises_to_the_secondarys),
        TEST(only_a_running_primary_grants),
        TEST(an_id_belongs_to_one_secondary),
        TEST(a_primary_has_so_many_secondaries),
        TEST(an_activation_under_way_is_found_by_its_token_alone),
        TEST(keys_of_a_secondary_are_stored_encrypted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
