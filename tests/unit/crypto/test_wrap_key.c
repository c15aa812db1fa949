/* A key that a client brings: opened with the right key and hash alone. */
#include "support.h"

#include "crypto/wrap_key.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

enum { RSA_BYTES = WRAP_KEY_BITS / 8 };

static struct buf saved, pem;

static int begin(void **ctx)
{
    bool locked;
    (void)ctx;
    assert_status(crypto_init(&locked), ST_OK);
    assert_status(wrap_key_make(&saved, &pem), ST_OK);
    return 0;
}

static int end(void **ctx)
{
    (void)ctx;
    buf_done(&saved);
    buf_done(&pem);
    return 0;
}

/* What a client does, by RFC 8017 and RFC 5649. */
static void bring(const EVP_MD *md, const uint8_t *key, int key_len, uint8_t *out)
{
    uint8_t kek[32];
    size_t len = RSA_BYTES;
    int n = 0, rest = 0;
    BIO *bio = BIO_new_mem_buf(pem.data, (int)pem.len);
    EVP_PKEY *public = PEM_read_bio_PUBKEY(bio, NULL, NULL, NULL);
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(NULL, public, NULL);
    memset(kek, 7, sizeof kek);
    assert_int_equal(EVP_PKEY_encrypt_init(ctx), 1);
    assert_int_equal(EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_OAEP_PADDING), 1);
    assert_int_equal(EVP_PKEY_CTX_set_rsa_oaep_md(ctx, md), 1);
    assert_int_equal(EVP_PKEY_CTX_set_rsa_mgf1_md(ctx, md), 1);
    assert_int_equal(EVP_PKEY_encrypt(ctx, out, &len, kek, sizeof kek), 1);
    assert_int_equal(len, RSA_BYTES);
    EVP_PKEY_CTX_free(ctx);
    EVP_PKEY_free(public);
    BIO_free(bio);
    EVP_CIPHER_CTX *wrap = EVP_CIPHER_CTX_new();
    EVP_CIPHER_CTX_set_flags(wrap, EVP_CIPHER_CTX_FLAG_WRAP_ALLOW);
    assert_int_equal(EVP_EncryptInit_ex2(wrap, EVP_aes_256_wrap_pad(), kek, NULL, NULL), 1);
    assert_int_equal(EVP_EncryptUpdate(wrap, out + RSA_BYTES, &n, key, key_len), 1);
    assert_int_equal(EVP_EncryptFinal_ex(wrap, out + RSA_BYTES + n, &rest), 1);
    assert_int_equal(n, WRAP_KEY_MESSAGE - RSA_BYTES);
    EVP_CIPHER_CTX_free(wrap);
}

static enum status open_by(const char *hash, const uint8_t *message, size_t len, uint8_t *ret_key)
{
    return wrap_key_open(buf_bytes(&saved), hash, bytes_of(message, len), ret_key);
}

static void a_key_opens_by_every_hash(void **ctx)
{
    static const char *const hashes[] = {"SHA1", "SHA224", "SHA256", "SHA384", "SHA512"};
    uint8_t key[WRAP_KEY_BYTES], message[WRAP_KEY_MESSAGE], got[WRAP_KEY_BYTES];
    (void)ctx;
    for (size_t i = 0; i < sizeof key; i++)
        key[i] = (uint8_t)i;
    for (size_t i = 0; i < ARRAY_LEN(hashes); i++) {
        assert_true(wrap_key_knows(hashes[i]));
        bring(EVP_get_digestbyname(hashes[i]), key, sizeof key, message);
        assert_status(open_by(hashes[i], message, sizeof message, got), ST_OK);
        assert_memory_equal(got, key, sizeof key);
        const char *other = hashes[(i + 1) % ARRAY_LEN(hashes)];
        assert_status(open_by(other, message, sizeof message, got), ST_INVALID);
    }
    assert_false(wrap_key_knows("MD5"));
    assert_false(wrap_key_knows("sha256"));
    assert_false(wrap_key_knows(""));
}

static void what_is_altered_does_not_open(void **ctx)
{
    uint8_t key[WRAP_KEY_BYTES] = {1}, message[WRAP_KEY_MESSAGE], got[WRAP_KEY_BYTES];
    static const size_t places[] = {0, 1, RSA_BYTES - 1, RSA_BYTES, WRAP_KEY_MESSAGE - 1};
    (void)ctx;
    bring(EVP_sha256(), key, sizeof key, message);
    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        message[places[i]] ^= 1;
        assert_status(open_by("SHA256", message, sizeof message, got), ST_INVALID);
        message[places[i]] ^= 1;
    }
    assert_status(open_by("SHA256", message, sizeof message - 1, got), ST_INVALID);
    assert_status(open_by("SHA256", message, 0, got), ST_INVALID);
    bring(EVP_sha256(), key, 31, message); /* as long as a key of 32 bytes, when wrapped */
    assert_status(open_by("SHA256", message, sizeof message, got), ST_INVALID);
}

static void what_is_no_saved_key_is_corrupt(void **ctx)
{
    uint8_t message[WRAP_KEY_MESSAGE] = {0}, got[WRAP_KEY_BYTES];
    const struct bytes short_one = bytes_of(saved.data, saved.len - 1);
    (void)ctx;
    assert_status(wrap_key_open(short_one, "SHA256", bytes_of(message, sizeof message), got),
                  ST_CORRUPT);
    assert_status(wrap_key_open(BYTES(""), "SHA256", bytes_of(message, sizeof message), got),
                  ST_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_opens_by_every_hash),
        cmocka_unit_test(what_is_altered_does_not_open),
        cmocka_unit_test(what_is_no_saved_key_is_corrupt),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
