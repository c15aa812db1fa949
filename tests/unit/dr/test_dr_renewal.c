/* Renewal of a secondary's certificate on the primary: which keys count when. */
#include "state/state_world.h"

#include "cluster/dr/records.h"
#include "cluster/dr/renewal.h"
#include "cluster/dr/role.h"

enum { NOW_S = 1800000000, KEYS = 3 };

static const uint8_t set[DR_SET_BYTES] = {7};

static struct state_world world;
static struct state_txn txn;
static struct reason why;
static struct buf public_pem[KEYS];
static uint8_t sha256[KEYS][32];

static void begin(void)
{
    sw_begin(&world, &txn);
}

static void commit(void)
{
    assert_status(sw_commit(&world, &txn), ST_OK);
}

static struct dr_name name_of(void)
{
    struct dr_name name = {.cluster = {1}, .epoch = 1, .id = "east"};
    memcpy(name.set, set, sizeof set);
    return name;
}

static int set_up(void **ctx)
{
    CLEANUP(cert_pair_done) struct cert_pair ca = {0};
    struct dr_secondary s = {.id = "east", .created_ms = 1, .activated_ms = 1};
    struct dr_name name = name_of();
    (void)ctx;
    sw_open(&world);
    sw_init(&world);
    for (unsigned i = 0; i < KEYS; i++) {
        CLEANUP(buf_done) struct buf key = {0};
        assert_status(cert_key_make(&key, &public_pem[i]), ST_OK);
        assert_status(cert_public_fingerprint(buf_bytes(&public_pem[i]), sha256[i]), ST_OK);
    }
    memcpy(s.key_sha256, sha256[0], 32);
    assert_status(dr_cert_ca_make(&name, NOW_S, &ca, &why), ST_OK);
    begin();
    assert_status(dr_role_enable(&txn, set, "", 1, &why), ST_OK);
    commit();
    begin();
    assert_status(dr_ca_put(&txn, &ca), ST_OK);
    assert_status(dr_secondary_put(&txn, &s), ST_OK);
    commit();
    return 0;
}

static int tear_down(void **ctx)
{
    (void)ctx;
    sw_close(&world);
    for (unsigned i = 0; i < KEYS; i++)
        buf_done(&public_pem[i]);
    return 0;
}

static struct dr_cert_peer peer_of(unsigned key)
{
    struct dr_cert_peer peer = {.name = name_of()};
    memcpy(peer.key_sha256, sha256[key], 32);
    return peer;
}

/* The holder of a certificate asks for one with another key. The certificate is empty on failure.
 */
static enum status renew(unsigned by, unsigned key, struct buf *ret_cert)
{
    struct dr_renewal_work w = {.sign = true, .peer = peer_of(by), .now_s = NOW_S, .cluster = {1}};
    buf_add(&w.public_pem, buf_bytes(&public_pem[key]));
    begin();
    enum status st = dr_renewal_stage(&w, &txn);
    if (st == ST_OK)
        commit();
    else
        state_end(&txn);
    buf_clear(ret_cert);
    buf_add(ret_cert, buf_bytes(&w.cert));
    buf_done(&w.public_pem);
    buf_done(&w.cert);
    return st;
}

static void use(unsigned key)
{
    struct dr_renewal_work w = {.use = true, .user = peer_of(key)};
    begin();
    assert_status(dr_renewal_stage(&w, &txn), ST_OK);
    if (state_staged(&txn))
        commit();
    else
        state_end(&txn);
}

static void assert_keys(bool first, bool second, bool third)
{
    const bool wanted[KEYS] = {first, second, third};
    struct dr_secondary s;
    begin();
    assert_status(dr_secondary_get(&txn, "east", &s), ST_OK);
    state_end(&txn);
    for (unsigned i = 0; i < KEYS; i++)
        assert_int_equal(dr_secondary_has_key(&s, sha256[i]), wanted[i]);
}

static void both_keys_count_until_the_new_one_was_used(void **ctx)
{
    CLEANUP(buf_done) struct buf cert = {0};
    struct dr_name name;
    int64_t ends_s;
    (void)ctx;
    assert_keys(true, false, false);
    assert_status(renew(0, 1, &cert), ST_OK);
    assert_status(dr_cert_name(buf_bytes(&cert), &name), ST_OK);
    assert_string_equal(name.id, "east");
    assert_status(cert_not_after(buf_bytes(&cert), &ends_s), ST_OK);
    assert_int_equal(ends_s, NOW_S + (int64_t)DR_CERT_DAYS * 86400);
    assert_keys(true, true, false);
    use(0);
    assert_keys(true, true, false);
    use(1);
    assert_keys(false, true, false);
    use(0); /* its certificate counts no more */
    assert_keys(false, true, false);
    assert_status(renew(0, 2, &cert), ST_INVALID);
}

static void a_secondary_that_got_no_reply_asks_again(void **ctx)
{
    CLEANUP(buf_done) struct buf cert = {0};
    (void)ctx;
    assert_status(renew(0, 1, &cert), ST_OK);
    assert_status(renew(0, 2, &cert), ST_OK);
    assert_keys(true, false, true);
    assert_status(renew(2, 1, &cert), ST_OK); /* by the new one: the first one has ended */
    assert_keys(false, true, true);
}

static void only_a_running_primary_renews_and_only_for_a_living_secondary(void **ctx)
{
    CLEANUP(buf_done) struct buf cert = {0};
    (void)ctx;
    begin();
    assert_status(dr_role_hear(&txn, 5, &why), ST_OK);
    commit();
    assert_status(renew(0, 1, &cert), ST_INVALID);
    assert_int_equal(cert.len, 0);
    assert_keys(true, false, false);
    begin();
    assert_status(dr_secondary_delete(&txn, "east"), ST_OK);
    commit();
    use(0);
    assert_status(renew(0, 1, &cert), ST_INVALID);
}

#define RENEWAL_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RENEWAL_TEST(both_keys_count_until_the_new_one_was_used),
        RENEWAL_TEST(a_secondary_that_got_no_reply_asks_again),
        RENEWAL_TEST(only_a_running_primary_renews_and_only_for_a_living_secondary),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
