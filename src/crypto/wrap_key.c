#include "crypto/wrap_key.h"

#include "base/mem.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

enum { RSA_BYTES = WRAP_KEY_BITS / 8, KEK_BYTES = 32, WRAPPED_BYTES = WRAP_KEY_BYTES + 8 };

static enum status take_bio(BIO *bio, size_t max, struct buf *out)
{
    char *data;
    ASSERT(max != 0 && out->len == 0);
    long len = BIO_get_mem_data(bio, &data);
    if (len <= 0 || (size_t)len > max)
        return ST_CRYPTO;
    buf_add(out, bytes_of(data, (size_t)len));
    return buf_status(out);
}

enum status wrap_key_make(struct buf *saved, struct buf *pem)
{
    EVP_PKEY *key = EVP_RSA_gen(WRAP_KEY_BITS);
    BIO *secret = BIO_new(BIO_s_secmem()), *public = BIO_new(BIO_s_mem());
    enum status st = ST_CRYPTO;
    ASSERT(saved->len == 0 && pem->len == 0);
    if (key != NULL && secret != NULL && public != NULL &&
        i2d_PKCS8PrivateKey_bio(secret, key, NULL, NULL, 0, NULL, NULL) == 1 &&
        PEM_write_bio_PUBKEY(public, key) == 1)
        st = take_bio(secret, WRAP_KEY_SAVED_MAX, saved);
    if (st == ST_OK)
        st = take_bio(public, WRAP_KEY_PEM_MAX, pem);
    BIO_free(secret); /* also wipes the memory */
    BIO_free(public);
    EVP_PKEY_free(key);
    ERR_clear_error();
    return st;
}

static const EVP_MD *oaep_digest(const char *hash)
{
    static const struct {
        const char *name;
        const EVP_MD *(*md)(void);
    } rows[] = {{"SHA1", EVP_sha1},
                {"SHA224", EVP_sha224},
                {"SHA256", EVP_sha256},
                {"SHA384", EVP_sha384},
                {"SHA512", EVP_sha512}};
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strcmp(hash, rows[i].name) == 0)
            return rows[i].md();
    return NULL;
}

bool wrap_key_knows(const char *hash)
{
    return oaep_digest(hash) != NULL;
}

static EVP_PKEY *read_saved(struct bytes saved)
{
    const unsigned char *at = saved.data;
    ASSERT(saved.data != NULL || saved.len == 0);
    if (saved.len == 0 || saved.len > WRAP_KEY_SAVED_MAX)
        return NULL;
    PKCS8_PRIV_KEY_INFO *info = d2i_PKCS8_PRIV_KEY_INFO(NULL, &at, (long)saved.len);
    EVP_PKEY *key = info != NULL ? EVP_PKCS82PKEY(info) : NULL;
    PKCS8_PRIV_KEY_INFO_free(info); /* also wipes the private key */
    bool fits =
        key != NULL && EVP_PKEY_is_a(key, "RSA") == 1 && EVP_PKEY_get_bits(key) == WRAP_KEY_BITS;
    if (!fits) {
        EVP_PKEY_free(key);
        return NULL;
    }
    return key;
}

static bool open_oaep(EVP_PKEY *key, const EVP_MD *md, const uint8_t *in, uint8_t kek[KEK_BYTES])
{
    uint8_t plain[RSA_BYTES];
    size_t len = sizeof plain;
    ASSERT(EVP_PKEY_get_size(key) == RSA_BYTES);
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(NULL, key, NULL);
    bool ok = ctx != NULL && EVP_PKEY_decrypt_init(ctx) == 1 &&
              EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_OAEP_PADDING) == 1 &&
              EVP_PKEY_CTX_set_rsa_oaep_md(ctx, md) == 1 &&
              EVP_PKEY_CTX_set_rsa_mgf1_md(ctx, md) == 1 &&
              EVP_PKEY_decrypt(ctx, plain, &len, in, RSA_BYTES) == 1 && len == KEK_BYTES;
    if (ok)
        memcpy(kek, plain, KEK_BYTES);
    mem_wipe(plain, sizeof plain);
    EVP_PKEY_CTX_free(ctx);
    return ok;
}

static bool open_kwp(const uint8_t kek[KEK_BYTES], const uint8_t *in,
                     uint8_t ret_key[WRAP_KEY_BYTES])
{
    uint8_t plain[WRAPPED_BYTES + 8];
    int len = 0, rest = 0;
    EVP_CIPHER *cipher = EVP_CIPHER_fetch(NULL, "AES-256-WRAP-PAD", NULL);
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    bool ok = cipher != NULL && ctx != NULL;
    ASSERT(kek != in && in != ret_key);
    if (ok)
        EVP_CIPHER_CTX_set_flags(ctx, EVP_CIPHER_CTX_FLAG_WRAP_ALLOW);
    ok = ok && EVP_DecryptInit_ex2(ctx, cipher, kek, NULL, NULL) == 1 &&
         EVP_DecryptUpdate(ctx, plain, &len, in, WRAPPED_BYTES) == 1 &&
         EVP_DecryptFinal_ex(ctx, plain + MAX(len, 0), &rest) == 1 && len == WRAP_KEY_BYTES;
    if (ok)
        memcpy(ret_key, plain, WRAP_KEY_BYTES);
    mem_wipe(plain, sizeof plain);
    EVP_CIPHER_CTX_free(ctx);
    EVP_CIPHER_free(cipher);
    return ok;
}

enum status wrap_key_open(struct bytes saved, const char *hash, struct bytes message,
                          uint8_t ret_key[WRAP_KEY_BYTES])
{
    uint8_t kek[KEK_BYTES] = {0};
    const EVP_MD *md = oaep_digest(hash);
    ASSERT(md != NULL && EVP_MD_get_size(md) > 0);
    if (message.len != WRAP_KEY_MESSAGE)
        return ST_INVALID;
    EVP_PKEY *key = read_saved(saved);
    if (key == NULL) {
        ERR_clear_error();
        return ST_CORRUPT;
    }
    bool ok =
        open_oaep(key, md, message.data, kek) && open_kwp(kek, message.data + RSA_BYTES, ret_key);
    mem_wipe(kek, sizeof kek);
    EVP_PKEY_free(key);
    ERR_clear_error();
    return ok ? ST_OK : ST_INVALID;
}
