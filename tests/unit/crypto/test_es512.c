#include "support.h"

#include "crypto/crypto.h"
#include "crypto/es512.h"
#include "text/encode.h"

/* The key of RFC 7515 A.4.1 in PKCS #8; `openssl pkcs8 -topk8` made the form of its numbers. */
#define RFC_KEY                                                                                   \
    "3081ee020100301006072a8648ce3d020106052b810400230481d63081d30201010442018e696fb034505881dd"  \
    "110b483eb87d32ce495fe36b3745edf2d8cae4f0f2539f4615a0e98eab52b3c0c5eac4ce075185a8e7bb47dea"   \
    "c1d1de77bccf66135e63d82a18189038186000401e929050f124fc6bc55c7d5393365df9def4ab0c22cb25798f9" \
    "34eb04e3c6bae3701a57a7910e9d81bf363159e8ebcb155d6349f4bdb6ccf8a94c5c59c7aac101a40034a6440e3" \
    "76750d2371fd1bdc2c8f3b71d2f4ee5ea3432c815cca31560fe5d9387ec774b55838630e5cbbf5a8cbe0a91dd00" \
    "64c6999a1f6e6e67faddede4c8c8f6"
/* What RFC 7515 A.4 signs, and the signature. */
#define RFC_INPUT "eyJhbGciOiJFUzUxMiJ9.UGF5bG9hZA"
#define RFC_SIGNATURE                                                  \
    "AdwMgeerwtHoh-l192l60hp9wAHZFVJbLfD_UxMi70cwnZOYaRI1bKPWROc-mZZq" \
    "wqT2SI-KGDKB34XO0aw_7XdtAG8GaSwFKdCAPZgoXD2YBJZCPEX3xKpRwcdOO8Kp" \
    "EHwJjyqOgzDO7iKvU8vcnwNrmxYbSW9ERBXukOXolLzeO_Jn"
/* A signature of "header.claims" by the same key: `openssl dgst -sha512 -sign`. */
#define DER_SIGNATURE                                                                              \
    "3081880242012fd240334c235f5cc9c3f62672c2d794e865176e1ca53adcff1206ebac0ab869fbde64840120c04c" \
    "6c4e9b64d84ff606e5cd2279d17f17f1c6723ddc431c7a53e9024200b7bde8da707cf85c50a53fd7bcaa63ee3975" \
    "c3145cf65d36307cc977418deffbd51043eca5bc5ffbd6edf507fb5a62698a932d930848bf5572b03154a290b20"  \
    "654"
/* The order of the group (SEC 2, 2.9.1). */
#define ORDER                                                            \
    "01ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff" \
    "fa51868783bf2f966b7fcc0148f709a5d03bb5c9b8899c47aebb6fb71e91386409"

#define MESSAGE BYTES("header.claims")

static struct es512_key key; /* of the RFC */
static uint8_t der[ES512_DER_MAX];

static int set_up(void **ctx)
{
    uint8_t saved[sizeof RFC_KEY / 2];
    (void)ctx;
    assert_status(crypto_init(NULL), ST_OK);
    assert_status(text_hex_parse(BYTES(RFC_KEY), saved), ST_OK);
    assert_status(es512_key_load(bytes_of(saved, sizeof saved), &key), ST_OK);
    assert_int_equal(strlen(DER_SIGNATURE), 2 * sizeof der);
    assert_status(text_hex_parse(BYTES(DER_SIGNATURE), der), ST_OK);
    return 0;
}

static int tear_down(void **ctx)
{
    (void)ctx;
    es512_key_done(&key);
    return 0;
}

static void the_example_of_the_standard_is_accepted(void **ctx)
{
    uint8_t raw[TEXT_BASE64_BYTES(sizeof RFC_SIGNATURE)];
    size_t len = 0;
    (void)ctx;
    assert_status(text_base64_url_parse(BYTES(RFC_SIGNATURE), raw, &len), ST_OK);
    assert_int_equal(len, ES512_SIGNATURE_BYTES);
    assert_status(es512_verify(&key, BYTES(RFC_INPUT), bytes_of(raw, len)), ST_OK);
    assert_status(es512_verify(&key, BYTES(RFC_INPUT "A"), bytes_of(raw, len)), ST_INVALID);
}

static void the_longest_der_form_is_accepted(void **ctx)
{
    (void)ctx;
    assert_status(es512_verify(&key, MESSAGE, bytes_of(der, sizeof der)), ST_OK);
    assert_status(es512_verify(&key, BYTES("header.claimt"), bytes_of(der, sizeof der)),
                  ST_INVALID);
}

/* The numbers of the DER form, as the raw form has them. */
static void both_forms_are_one_signature(void **ctx)
{
    uint8_t raw[ES512_SIGNATURE_BYTES];
    (void)ctx;
    memcpy(raw, der + 5, ES512_NUMBER_BYTES);
    memcpy(raw + ES512_NUMBER_BYTES, der + 5 + ES512_NUMBER_BYTES + 2, ES512_NUMBER_BYTES);
    assert_status(es512_verify(&key, MESSAGE, bytes_of(raw, sizeof raw)), ST_OK);
}

static void a_signature_has_the_raw_form_and_is_of_its_message_and_key(void **ctx)
{
    CLEANUP(es512_key_done) struct es512_key other = {0};
    (void)ctx;
    assert_status(es512_key_new(&other), ST_OK);
    for (int i = 0; i < 32; i++) { /* a number with zeroes in front comes in about every other */
        uint8_t signature[ES512_SIGNATURE_BYTES + 1];
        signature[ES512_SIGNATURE_BYTES] = 0xA5;
        assert_status(es512_sign(&key, MESSAGE, signature), ST_OK);
        assert_int_equal(signature[ES512_SIGNATURE_BYTES], 0xA5);
        const struct bytes made = bytes_of(signature, ES512_SIGNATURE_BYTES);
        assert_status(es512_verify(&key, MESSAGE, made), ST_OK);
        assert_status(es512_verify(&other, MESSAGE, made), ST_INVALID);
        assert_status(es512_verify(&key, BYTES("header.claim"), made), ST_INVALID);
        assert_status(es512_verify(&key, BYTES(""), made), ST_INVALID);
    }
}

static void a_changed_bit_anywhere_is_noticed(void **ctx)
{
    uint8_t raw[ES512_SIGNATURE_BYTES];
    (void)ctx;
    assert_status(es512_sign(&key, MESSAGE, raw), ST_OK);
    for (size_t i = 0; i < sizeof raw; i++) {
        raw[i] ^= 0x10;
        assert_status(es512_verify(&key, MESSAGE, bytes_of(raw, sizeof raw)), ST_INVALID);
        raw[i] ^= 0x10;
    }
    for (size_t i = 0; i < sizeof der; i++) {
        der[i] ^= 0x01;
        assert_status(es512_verify(&key, MESSAGE, bytes_of(der, sizeof der)), ST_INVALID);
        der[i] ^= 0x01;
    }
}

static void every_other_length_is_refused(void **ctx)
{
    uint8_t raw[ES512_SIGNATURE_BYTES], long_one[400] = {0};
    (void)ctx;
    assert_status(es512_sign(&key, MESSAGE, raw), ST_OK);
    for (size_t n = 0; n < sizeof long_one; n++) {
        memcpy(long_one, raw, sizeof raw);
        if (n != sizeof raw)
            assert_status(es512_verify(&key, MESSAGE, bytes_of(long_one, n)), ST_INVALID);
        memcpy(long_one, der, sizeof der);
        if (n != sizeof der)
            assert_status(es512_verify(&key, MESSAGE, bytes_of(long_one, n)), ST_INVALID);
    }
}

/* Each of r and s is replaced by 0, by the order, by the order and more, and by the greatest. */
static void numbers_outside_of_the_group_are_refused(void **ctx)
{
    uint8_t order[ES512_NUMBER_BYTES], bad[4][ES512_NUMBER_BYTES] = {{0}};
    (void)ctx;
    assert_status(text_hex_parse(BYTES(ORDER), order), ST_OK);
    memcpy(bad[1], order, sizeof order);
    memcpy(bad[2], order, sizeof order);
    bad[2][ES512_NUMBER_BYTES - 1]++;
    memset(bad[3], 0xFF, sizeof bad[3]);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        for (unsigned which = 1; which < 4; which++) {
            uint8_t raw[ES512_SIGNATURE_BYTES];
            assert_status(es512_sign(&key, MESSAGE, raw), ST_OK);
            for (unsigned half = 0; half < 2; half++)
                if ((which & 1u << half) != 0)
                    memcpy(raw + half * ES512_NUMBER_BYTES, bad[i], ES512_NUMBER_BYTES);
            assert_status(es512_verify(&key, MESSAGE, bytes_of(raw, sizeof raw)), ST_INVALID);
        }
}

/* Zero, a negative number, a length that is longer than needed, and a byte behind the sequence. */
static void other_encodings_of_the_der_form_are_refused(void **ctx)
{
    static const uint8_t zeroes[] = {0x30, 6, 2, 1, 0, 2, 1, 0},
                         negative[] = {0x30, 6, 2, 1, 0x80, 2, 1, 1};
    uint8_t padded[ES512_DER_MAX + 1] = {0x30, 0x82, 0x00, 0x88};
    uint8_t longer[ES512_DER_MAX + 1] = {0};
    (void)ctx;
    memcpy(padded + 4, der + 3, sizeof der - 3);
    memcpy(longer, der, sizeof der);
    assert_status(es512_verify(&key, MESSAGE, bytes_of(zeroes, sizeof zeroes)), ST_INVALID);
    assert_status(es512_verify(&key, MESSAGE, bytes_of(negative, sizeof negative)), ST_INVALID);
    assert_status(es512_verify(&key, MESSAGE, bytes_of(padded, sizeof padded)), ST_INVALID);
    assert_status(es512_verify(&key, MESSAGE, bytes_of(longer, sizeof longer)), ST_INVALID);
}

static void a_key_is_saved_and_loaded(void **ctx)
{
    CLEANUP(es512_key_done) struct es512_key made = {0}, again = {0};
    CLEANUP(buf_done) struct buf saved = {0};
    uint8_t signature[ES512_SIGNATURE_BYTES];
    (void)ctx;
    assert_status(es512_key_save(&key, &saved), ST_OK);
    uint8_t wanted[sizeof RFC_KEY / 2];
    assert_status(text_hex_parse(BYTES(RFC_KEY), wanted), ST_OK);
    assert_bytes(buf_bytes(&saved), bytes_of(wanted, sizeof wanted));
    buf_clear(&saved);
    assert_status(es512_key_new(&made), ST_OK);
    assert_status(es512_key_save(&made, &saved), ST_OK);
    assert_true(saved.len <= ES512_SAVED_MAX);
    assert_status(es512_key_load(buf_bytes(&saved), &again), ST_OK);
    assert_status(es512_sign(&made, MESSAGE, signature), ST_OK);
    assert_status(es512_verify(&again, MESSAGE, bytes_of(signature, sizeof signature)), ST_OK);
    assert_status(es512_verify(&key, MESSAGE, bytes_of(signature, sizeof signature)), ST_INVALID);
}

/* `openssl ecparam -name prime256v1 -genkey | openssl pkcs8 -topk8 -nocrypt -outform DER` */
#define P256_KEY                                                                                 \
    "308187020100301306072a8648ce3d020106082a8648ce3d030107046d306b020101042094fae2857827add07f" \
    "6aa4d9767a3c358cd2a22d5d452846ab8e2a70759516b4a144034200049396e9ace526845c3b8128da1f0fefd5" \
    "d6c71f68d96ebac970b608f92e3a2bb499762b89ab1dc00e80c2d91bcd0ce18808a8d6b3b36606118be54456fb" \
    "2d516e"

static void what_is_no_key_of_the_curve_is_not_loaded(void **ctx)
{
    CLEANUP(es512_key_done) struct es512_key none = {0};
    uint8_t saved[sizeof RFC_KEY / 2 + 1] = {0}, other[sizeof P256_KEY / 2];
    (void)ctx;
    assert_status(text_hex_parse(BYTES(RFC_KEY), saved), ST_OK);
    for (size_t n = 0; n < sizeof saved - 1; n++)
        assert_status(es512_key_load(bytes_of(saved, n), &none), ST_CORRUPT);
    assert_status(es512_key_load(bytes_of(saved, sizeof saved), &none), ST_CORRUPT);
    assert_status(text_hex_parse(BYTES(P256_KEY), other), ST_OK);
    assert_status(es512_key_load(bytes_of(other, sizeof other), &none), ST_CORRUPT);
    assert_null(none.key);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_example_of_the_standard_is_accepted),
        TEST(the_longest_der_form_is_accepted),
        TEST(both_forms_are_one_signature),
        TEST(a_signature_has_the_raw_form_and_is_of_its_message_and_key),
        TEST(a_changed_bit_anywhere_is_noticed),
        TEST(every_other_length_is_refused),
        TEST(numbers_outside_of_the_group_are_refused),
        TEST(other_encodings_of_the_der_form_are_refused),
        TEST(a_key_is_saved_and_loaded),
        TEST(what_is_no_key_of_the_curve_is_not_loaded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
