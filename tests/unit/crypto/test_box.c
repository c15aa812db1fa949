#include "support.h"

#include "crypto/box.h"

static struct box_key key, other;
static struct buf sealed;

static int set_up(void **ctx)
{
    (void)ctx;
    bool locked;
    assert_status(crypto_init(&locked), ST_OK);
    assert_status(box_key_new(&key), ST_OK);
    assert_status(box_key_new(&other), ST_OK);
    return 0;
}

static int tear_down(void **ctx)
{
    (void)ctx;
    box_key_done(&key);
    box_key_done(&other);
    buf_done(&sealed);
    return 0;
}

static enum status open_with(const struct box_key *with, const char *context, struct bytes bytes)
{
    CLEANUP(secret_done) struct secret plain = {0};
    enum status st = box_open(with, bytes_str(context), bytes, &plain);
    if (st == ST_OK)
        assert_true(bytes_eq(secret_bytes(&plain), BYTES("the key")));
    else
        assert_null(plain.data);
    return st;
}

static void a_message_is_for_its_receiver_and_context(void **ctx)
{
    (void)ctx;
    assert_status(box_seal(key.public_key, BYTES("here"), BYTES("the key"), &sealed), ST_OK);
    assert_int_equal(sealed.len, 7 + BOX_OVERHEAD);
    assert_status(open_with(&key, "here", buf_bytes(&sealed)), ST_OK);
    assert_status(open_with(&other, "here", buf_bytes(&sealed)), ST_CORRUPT);
    assert_status(open_with(&key, "there", buf_bytes(&sealed)), ST_CORRUPT);
    assert_null(memmem(sealed.data, sealed.len, "the key", 7));
}

static void each_message_is_another(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf again = {0};
    assert_status(box_seal(key.public_key, BYTES("c"), BYTES("the key"), &sealed), ST_OK);
    assert_status(box_seal(key.public_key, BYTES("c"), BYTES("the key"), &again), ST_OK);
    assert_false(bytes_eq(buf_bytes(&sealed), buf_bytes(&again)));
}

static void damage_is_noticed(void **ctx)
{
    (void)ctx;
    assert_status(box_seal(key.public_key, BYTES("c"), BYTES("the key"), &sealed), ST_OK);
    for (size_t bit = 0; bit < 8 * sealed.len; bit++) {
        sealed.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_status(open_with(&key, "c", buf_bytes(&sealed)), ST_CORRUPT);
        sealed.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t n = 0; n < sealed.len; n++)
        assert_status(open_with(&key, "c", bytes_of(sealed.data, n)), ST_CORRUPT);
    buf_add_u8(&sealed, 0);
    assert_status(open_with(&key, "c", buf_bytes(&sealed)), ST_CORRUPT);
}

static void a_point_of_small_order_is_refused(void **ctx)
{
    (void)ctx;
    static const uint8_t zero[BOX_PUBLIC_BYTES], one[BOX_PUBLIC_BYTES] = {1};
    assert_status(box_seal(zero, BYTES("c"), BYTES("the key"), &sealed), ST_INVALID);
    assert_status(box_seal(one, BYTES("c"), BYTES("the key"), &sealed), ST_INVALID);
    assert_int_equal(sealed.len, 0);
    buf_add(&sealed, bytes_of(zero, sizeof zero));
    buf_add(&sealed, BYTES("twenty bytes, and more"));
    assert_status(open_with(&key, "c", buf_bytes(&sealed)), ST_CORRUPT);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_message_is_for_its_receiver_and_context),
        TEST(each_message_is_another),
        TEST(damage_is_noticed),
        TEST(a_point_of_small_order_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
