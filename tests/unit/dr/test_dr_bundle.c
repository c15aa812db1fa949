/* Bundles: what is written is read, and nothing else is. */
#include "dr/dr_pendings.h"

#include <stdio.h>

static struct dr_bundle bundle, found;
static struct buf text;
static struct reason why;

static int set_up(void **ctx)
{
    (void)ctx;
    assert_status(crypto_init(NULL), ST_OK);
    make_bundle(&bundle, BYTES("-----BEGIN CERTIFICATE-----\nAAAA\n"));
    why = (struct reason){{0}};
    return 0;
}

static int tear_down(void **ctx)
{
    (void)ctx;
    dr_bundle_done(&bundle);
    dr_bundle_done(&found);
    buf_done(&text);
    return 0;
}

static enum status read_text(const char *object)
{
    dr_bundle_done(&found);
    why = (struct reason){{0}};
    return dr_bundle_read(bytes_str(object), &found, &why);
}

static void a_bundle_is_read_as_it_was_written(void **ctx)
{
    (void)ctx;
    assert_status(dr_bundle_put(&bundle, &text), ST_OK);
    assert_status(dr_bundle_read(buf_bytes(&text), &found, &why), ST_OK);
    assert_same_bundle(&bundle, &found);
}

static void addresses_are_left_out_where_a_box_would_overflow(void **ctx)
{
    (void)ctx;
    char address[DR_ADDRESS_MAX];
    for (unsigned i = 0; i < 600; i++) /* an authority of a usual length */
        buf_add_u8(&bundle.ca, 'x');
    while (bundle.addresses.n < DR_ADDRESSES_MAX) {
        (void)snprintf(address, sizeof address, "%0*u:8201", 250, bundle.addresses.n);
        assert_status(dr_addresses_add(&bundle.addresses, bytes_str(address)), ST_OK);
    }
    assert_status(dr_bundle_put(&bundle, &text), ST_OK);
    assert_true(text.len <= DR_BUNDLE_BYTES_MAX);
    assert_status(dr_bundle_read(buf_bytes(&text), &found, &why), ST_OK);
    assert_in_range(found.addresses.n, 10, DR_ADDRESSES_MAX - 1);
    assert_string_equal(found.addresses.at[0], "lb.example:8201");

    for (unsigned i = 0; i < DR_BUNDLE_BYTES_MAX; i++)
        buf_add_u8(&bundle.ca, 'x');
    buf_clear(&text);
    assert_status(dr_bundle_put(&bundle, &text), ST_TOO_BIG);
    assert_int_equal(text.len, 0);
}

#define START "{\"id\":\"a\",\"set\":\"" HEX "\",\"cluster_id\":\"" HEX "\","
#define HEX "0123456789abcdef0123456789abcdef"
#define END "\"ca\":\"x\",\"secret\":\"" DR_TEST_SECRET "\"}"
#define GOOD START "\"epoch\":1,\"primary_cluster_addr\":\"h:1\"," END

static void what_is_no_bundle_is_refused(void **ctx)
{
    (void)ctx;
    static const char *const bad[] = {
        "",
        "[]",
        "{}",
        "null",
        "{\"id\":\"a\"}",
        GOOD "x",
        START END,
        START "\"epoch\":0,\"primary_cluster_addr\":\"h:1\"," END,
        START "\"epoch\":-1,\"primary_cluster_addr\":\"h:1\"," END,
        START "\"epoch\":1.5,\"primary_cluster_addr\":\"h:1\"," END,
        START "\"epoch\":\"1\",\"primary_cluster_addr\":\"h:1\"," END,
        START "\"epoch\":1,\"primary_cluster_addr\":\"h\"," END,
        START "\"epoch\":1,\"primary_cluster_addr\":\"\"," END,
        START "\"epoch\":1,\"primary_cluster_addr\":7," END,
        START "\"epoch\":1,\"known_primary_cluster_addrs\":[7]," END,
        START "\"epoch\":1,\"known_primary_cluster_addrs\":[\"h:0\"]," END,
        START "\"epoch\":1,\"epoch\":1,\"primary_cluster_addr\":\"h:1\"," END,
        START "\"epoch\":1,\"primary_cluster_addr\":\"h:1\",\"ca\":\"\",\"secret\":\""
              DR_TEST_SECRET "\"}",
        START "\"epoch\":1,\"primary_cluster_addr\":\"h:1\",\"ca\":\"x\",\"secret\":\"short\"}",
        "{\"id\":\"-\"," "\"set\":\"" HEX "\",\"cluster_id\":\"" HEX "\",\"epoch\":1,"
        "\"primary_cluster_addr\":\"h:1\"," END,
        "{\"id\":\"a\",\"set\":\"" HEX "0\",\"cluster_id\":\"" HEX "\",\"epoch\":1,"
        "\"primary_cluster_addr\":\"h:1\"," END,
        "{\"id\":\"a\",\"set\":\"" HEX "\",\"cluster_id\":\"x\",\"epoch\":1,"
        "\"primary_cluster_addr\":\"h:1\"," END,
    };
    assert_status(read_text(GOOD), ST_OK);
    assert_status(read_text(START "\"epoch\":1,\"known_primary_cluster_addrs\":[\"h:1\"],"
                                  "\"later\":[]," END),
                  ST_OK);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_status(read_text(bad[i]), ST_INVALID);
        assert_non_null(strstr(why.text, "malformed"));
        assert_null(strstr(why.text, DR_TEST_SECRET));
    }
}

static void a_sealed_bundle_opens_with_its_key_only(void **ctx)
{
    (void)ctx;
    CLEANUP(box_key_done) struct box_key key = {0};
    CLEANUP(box_key_done) struct box_key other = {0};
    CLEANUP(box_key_done) struct box_key loaded = {0};
    uint8_t saved[BOX_SAVED_BYTES];
    assert_status(box_key_new(&key), ST_OK);
    assert_status(box_key_new(&other), ST_OK);
    assert_status(dr_bundle_seal(&bundle, key.public_key, &text), ST_OK);
    assert_true(dr_bundle_is_sealed(buf_bytes(&text)));
    assert_null(memmem(text.data, text.len, DR_TEST_SECRET, DR_SECRET_LEN));
    assert_status(dr_bundle_open(&other, buf_bytes(&text), &found, &why), ST_INVALID);
    assert_non_null(strstr(why.text, "another public key"));
    assert_status(box_key_save(&key, saved), ST_OK);
    assert_status(box_key_load(bytes_of(saved, sizeof saved - 1), &loaded), ST_CORRUPT);
    assert_status(box_key_load(bytes_of(saved, sizeof saved), &loaded), ST_OK);
    assert_memory_equal(loaded.public_key, key.public_key, sizeof key.public_key);
    assert_status(dr_bundle_open(&loaded, buf_bytes(&text), &found, &why), ST_OK);
    assert_same_bundle(&bundle, &found);
}

static void a_damaged_sealed_bundle_is_refused(void **ctx)
{
    (void)ctx;
    CLEANUP(box_key_done) struct box_key key = {0};
    assert_status(box_key_new(&key), ST_OK);
    assert_status(dr_bundle_seal(&bundle, key.public_key, &text), ST_OK);
    for (size_t n = sizeof DR_BUNDLE_PREFIX - 1; n < text.len; n++) {
        assert_status(dr_bundle_open(&key, bytes_of(text.data, n), &found, &why), ST_INVALID);
        text.data[n] ^= 1;
        assert_status(dr_bundle_open(&key, buf_bytes(&text), &found, &why), ST_INVALID);
        text.data[n] ^= 1;
    }
    while (text.len <= DR_BUNDLE_TEXT_MAX)
        buf_add_u8(&text, 'A');
    assert_status(dr_bundle_open(&key, buf_bytes(&text), &found, &why), ST_INVALID);
    assert_false(dr_bundle_is_sealed(BYTES("hvs.abc")));
}

static void an_activation_under_way_is_read_as_it_was_written(void **ctx)
{
    (void)ctx;
    CLEANUP(dr_pending_done) struct dr_pending pending = {0};
    CLEANUP(dr_pending_done) struct dr_pending again = {0};
    make_pending(&pending, BYTES("authority"));
    assert_status(dr_pending_encode(&pending, &text), ST_OK);
    assert_status(dr_pending_decode(buf_bytes(&text), &again), ST_OK);
    assert_same_bundle(&pending.bundle, &again.bundle);
    assert_true(bytes_eq(buf_bytes(&pending.key), buf_bytes(&again.key)));
    assert_true(bytes_eq(buf_bytes(&pending.public_pem), buf_bytes(&again.public_pem)));
    assert_memory_equal(pending.box.public_key, again.box.public_key, BOX_PUBLIC_BYTES);
    for (size_t n = 0; n < text.len; n++) {
        dr_pending_done(&again);
        assert_status(dr_pending_decode(bytes_of(text.data, n), &again), ST_CORRUPT);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_bundle_is_read_as_it_was_written),
        TEST(addresses_are_left_out_where_a_box_would_overflow),
        TEST(what_is_no_bundle_is_refused),
        TEST(a_sealed_bundle_opens_with_its_key_only),
        TEST(a_damaged_sealed_bundle_is_refused),
        TEST(an_activation_under_way_is_read_as_it_was_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
