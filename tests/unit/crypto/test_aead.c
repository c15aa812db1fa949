/* AES-256-GCM and HMAC-SHA-256: published test vectors, and inputs that must be refused. */
#include "support.h"

#include <stdio.h>

#include "base/mem.h"
#include "crypto/aead.h"
#include "crypto/hmac.h"

static void unhex(const char *text, uint8_t *out)
{
    for (; *text != '\0'; text += 2) {
        unsigned v;
        assert_int_equal(sscanf(text, "%2x", &v), 1);
        *out++ = (uint8_t)v;
    }
}

/* McGrew and Viega, "The Galois/Counter Mode of Operation", test case 16. */
static const char key16[] = "feffe9928665731c6d6a8f9467308308feffe9928665731c6d6a8f9467308308";
static const char nonce16[] = "cafebabefacedbaddecaf888";
static const char aad16[] = "feedfacedeadbeeffeedfacedeadbeefabaddad2";
static const char plain16[] = "d9313225f88406e5a55909c5aff5269a86a7a9531534f7da2e4c303d8a318a72"
                              "1c3c0c95956809532fcf0e2449a6b525b16aedf5aa0de657ba637b39";
static const char cipher16[] = "522dc1f099567d07f47f37a32a84427d643a8cdcbfe5c0c97598a2bd2555d1aa"
                               "8cb08e48590dbb3da7b08b1056828838c5f61e6393ba7a0abcc9f662";
static const char tag16[] = "76fc6ece0f4e1768cddf8853bb2d551b";

struct fixture {
    struct aead *aead;
    uint8_t nonce[12], aad[20], plain[60], cipher[60], tag[16];
};

static int setup(void **state)
{
    static struct fixture f;
    uint8_t key[32];
    unhex(key16, key);
    unhex(nonce16, f.nonce);
    unhex(aad16, f.aad);
    unhex(plain16, f.plain);
    unhex(cipher16, f.cipher);
    unhex(tag16, f.tag);
    *state = &f;
    return aead_new(bytes_of(key, sizeof key), &f.aead) == ST_OK ? 0 : -1;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    aead_free(f->aead);
    return 0;
}

static void sealing_gives_the_published_bytes_each_time(void **state)
{
    struct fixture *f = *state;
    uint8_t out[60], tag[16];
    for (int i = 0; i < 3; i++) { /* the context is kept */
        assert_status(
            aead_seal(f->aead, f->nonce, bytes_of(f->aad, 20), bytes_of(f->plain, 60), out, tag),
            ST_OK);
        assert_memory_equal(out, f->cipher, 60);
        assert_memory_equal(tag, f->tag, 16);
        assert_status(
            aead_open(f->aead, f->nonce, bytes_of(f->aad, 20), bytes_of(out, 60), tag, out), ST_OK);
    }
}

static void opening_gives_the_text_back(void **state)
{
    struct fixture *f = *state;
    uint8_t out[60];
    assert_status(
        aead_open(f->aead, f->nonce, bytes_of(f->aad, 20), bytes_of(f->cipher, 60), f->tag, out),
        ST_OK);
    assert_memory_equal(out, f->plain, 60);
}

static enum status open_with(struct fixture *f, uint8_t *out)
{
    return aead_open(f->aead, f->nonce, bytes_of(f->aad, 20), bytes_of(f->cipher, 60), f->tag, out);
}

static void any_flipped_bit_is_noticed_and_gives_nothing(void **state)
{
    struct fixture *f = *state;
    static const uint8_t zero[60];
    uint8_t out[60];
    struct {
        uint8_t *data;
        size_t len;
    } parts[] = {{f->nonce, 12}, {f->aad, 20}, {f->cipher, 60}, {f->tag, 16}};
    for (size_t p = 0; p < ARRAY_LEN(parts); p++)
        for (size_t bit = 0; bit < parts[p].len * 8; bit++) {
            parts[p].data[bit / 8] ^= (uint8_t)(1u << bit % 8);
            assert_status(open_with(f, out), ST_CORRUPT);
            assert_memory_equal(out, zero, 60);
            parts[p].data[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    assert_status(open_with(f, out), ST_OK);
}

static void empty_text_is_sealed_too(void **state)
{
    struct fixture *f = *state;
    uint8_t tag[16];
    struct bytes none = {0};
    assert_status(aead_seal(f->aead, f->nonce, none, none, NULL, tag), ST_OK);
    assert_status(aead_open(f->aead, f->nonce, none, none, tag, NULL), ST_OK);
    tag[0] ^= 1;
    assert_status(aead_open(f->aead, f->nonce, none, none, tag, NULL), ST_CORRUPT);
}

/* RFC 4231, cases 1, 2 and 6. */
static void hmac_gives_the_published_values_each_time(void **state)
{
    (void)state;
    static uint8_t key6[131];
    memset(key6, 0xAA, sizeof key6);
    const struct {
        struct bytes key, message;
        const char *mac;
    } cases[] = {
        {BYTES("\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b\x0b"),
         BYTES("Hi There"), "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
        {BYTES("Jefe"), BYTES("what do ya want for nothing?"),
         "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
        {{key6, sizeof key6},
         BYTES("Test Using Larger Than Block-Size Key - Hash Key First"),
         "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint8_t want[32], mac[32];
        struct hmac *h = NULL;
        unhex(cases[i].mac, want);
        assert_status(hmac_new(cases[i].key, &h), ST_OK);
        for (int again = 0; again < 3; again++) {
            assert_status(hmac_run(h, cases[i].message, mac), ST_OK);
            assert_memory_equal(mac, want, 32);
            assert_status(hmac_run(h, BYTES(""), mac), ST_OK);
        }
        hmac_free(h);
    }
}

static void running_out_of_memory_is_told(void **state)
{
    (void)state;
    uint8_t key[32] = {0};
    struct aead *a = NULL;
    struct hmac *h = NULL;
    (void)mem_fail_nth(1); /* arms it */
    assert_status(aead_new(bytes_of(key, 32), &a), ST_NOMEM);
    (void)mem_fail_nth(1);
    assert_status(hmac_new(bytes_of(key, 32), &h), ST_NOMEM);
    assert_true(mem_fail_nth(0));
    assert_null(a);
    assert_null(h);
    aead_free(NULL);
    hmac_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(sealing_gives_the_published_bytes_each_time, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(opening_gives_the_text_back, setup, teardown),
        cmocka_unit_test_setup_teardown(any_flipped_bit_is_noticed_and_gives_nothing, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(empty_text_is_sealed_too, setup, teardown),
        cmocka_unit_test(hmac_gives_the_published_values_each_time),
        cmocka_unit_test(running_out_of_memory_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
