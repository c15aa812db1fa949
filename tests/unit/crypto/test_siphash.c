#include "support.h"

#include "crypto/siphash.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

enum { MESSAGE_MAX = 300 };

static uint8_t key[SIPHASH_KEY_BYTES], message[MESSAGE_MAX];

static int fill(void **ctx)
{
    (void)ctx;
    for (size_t i = 0; i < sizeof key; i++)
        key[i] = (uint8_t)i;
    for (size_t i = 0; i < sizeof message; i++)
        message[i] = (uint8_t)i;
    return 0;
}

static void tag_bytes(struct siphash_tag tag, uint8_t ret[16])
{
    le64_put(ret, tag.words[0]);
    le64_put(ret + 8, tag.words[1]);
}

/* The first of the vectors its authors published for this key and these messages. */
static void the_published_tags_come_out(void **ctx)
{
    (void)ctx;
    static const uint8_t empty[16] = {0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6,
                                      0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93};
    static const uint8_t fifteen[16] = {0x54, 0x93, 0xe9, 0x99, 0x33, 0xb0, 0xa8, 0x11,
                                        0x7e, 0x08, 0xec, 0x0f, 0x97, 0xcf, 0xc3, 0xd9};
    uint8_t tag[16];
    tag_bytes(siphash(key, (struct bytes){0}), tag);
    assert_memory_equal(tag, empty, sizeof tag);
    tag_bytes(siphash(key, bytes_of(message, 15)), tag);
    assert_memory_equal(tag, fifteen, sizeof tag);
}

/* OpenSSL's is an independent one. */
static void another_implementation_agrees_on_every_length(void **ctx)
{
    (void)ctx;
    EVP_MAC *mac = EVP_MAC_fetch(NULL, "SIPHASH", NULL);
    EVP_MAC_CTX *other = EVP_MAC_CTX_new(mac);
    size_t size = 16;
    const OSSL_PARAM params[] = {
        OSSL_PARAM_construct_size_t(OSSL_MAC_PARAM_SIZE, &size),
        OSSL_PARAM_construct_end(),
    };
    assert_non_null(other);
    for (size_t len = 0; len <= sizeof message; len++) {
        uint8_t ours[16], theirs[16];
        size_t n = 0;
        tag_bytes(siphash(key, bytes_of(message, len)), ours);
        assert_int_equal(EVP_MAC_init(other, key, sizeof key, params), 1);
        assert_int_equal(EVP_MAC_update(other, message, len), 1);
        assert_int_equal(EVP_MAC_final(other, theirs, &n, sizeof theirs), 1);
        assert_int_equal(n, sizeof theirs);
        assert_memory_equal(ours, theirs, sizeof ours);
    }
    EVP_MAC_CTX_free(other);
    EVP_MAC_free(mac);
}

static void tags_are_equal_only_in_both_words(void **ctx)
{
    (void)ctx;
    struct siphash_tag a = {{1, 2}}, b = {{1, 3}}, c = {{0, 2}};
    assert_true(siphash_tag_eq(a, a));
    assert_false(siphash_tag_eq(a, b));
    assert_false(siphash_tag_eq(a, c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_tags_come_out),
        cmocka_unit_test(another_implementation_agrees_on_every_length),
        cmocka_unit_test(tags_are_equal_only_in_both_words),
    };
    return cmocka_run_group_tests(tests, fill, NULL);
}
