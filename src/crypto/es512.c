#include "crypto/es512.h"

#include "base/mem.h"

#include <assert.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

static_assert(ES512_SIGNATURE_BYTES < ES512_DER_MAX, "one buffer holds either form");

enum status es512_key_new(struct es512_key *ret_key)
{
    ASSERT(ret_key->key == NULL);
    ret_key->key = EVP_EC_gen("P-521");
    ERR_clear_error(); /* the returned status tells the failure */
    return ret_key->key != NULL ? ST_OK : ST_CRYPTO;
}

void es512_key_done(struct es512_key *key)
{
    EVP_PKEY_free(key->key);
    *key = (struct es512_key){0};
}

/* Append what the memory BIO holds. */
static enum status take_bio(BIO *bio, struct buf *out)
{
    char *data;
    long len = BIO_get_mem_data(bio, &data);
    ASSERT(len > 0);
    ASSERT(len <= ES512_SAVED_MAX);
    buf_add(out, bytes_of(data, (size_t)len));
    return buf_status(out);
}

enum status es512_key_save(const struct es512_key *key, struct buf *out)
{
    ASSERT(key->key != NULL);
    BIO *secret = BIO_new(BIO_s_secmem());
    enum status st = ST_CRYPTO;
    if (secret != NULL && i2d_PKCS8PrivateKey_bio(secret, key->key, NULL, NULL, 0, NULL, NULL) == 1)
        st = take_bio(secret, out);
    BIO_free(secret); /* also wipes the memory */
    ERR_clear_error();
    return st;
}

static bool is_p521(EVP_PKEY *key)
{
    char group[32];
    size_t len = 0;
    return EVP_PKEY_is_a(key, "EC") == 1 &&
           EVP_PKEY_get_group_name(key, group, sizeof group, &len) == 1 &&
           strcmp(group, "secp521r1") == 0;
}

enum status es512_key_load(struct bytes saved, struct es512_key *ret_key)
{
    const unsigned char *at = saved.data;
    ASSERT(ret_key->key == NULL);
    if (saved.len == 0 || saved.len > ES512_SAVED_MAX)
        return ST_CORRUPT;
    PKCS8_PRIV_KEY_INFO *info = d2i_PKCS8_PRIV_KEY_INFO(NULL, &at, (long)saved.len);
    EVP_PKEY *key = info != NULL && at == saved.data + saved.len ? EVP_PKCS82PKEY(info) : NULL;
    bool ok = key != NULL && is_p521(key);
    PKCS8_PRIV_KEY_INFO_free(info); /* also wipes the private key */
    ERR_clear_error();
    if (!ok) {
        EVP_PKEY_free(key);
        return ST_CORRUPT;
    }
    ret_key->key = key;
    return ST_OK;
}

/* Both forms of a signature */

/* Read the only DER form of two numbers. NULL: another form. */
static ECDSA_SIG *read_der(struct bytes der)
{
    const unsigned char *at = der.data;
    unsigned char again[ES512_DER_MAX], *to = again;
    ASSERT(at != NULL || der.len == 0);
    if (der.len > ES512_DER_MAX)
        return NULL;
    ECDSA_SIG *sig = d2i_ECDSA_SIG(NULL, &at, (long)der.len);
    if (sig == NULL)
        return NULL;
    int len = i2d_ECDSA_SIG(sig, NULL);
    ASSERT(at <= der.data + der.len);
    bool same = len > 0 && (size_t)len == der.len && i2d_ECDSA_SIG(sig, &to) == len &&
                bytes_eq(bytes_of(again, (size_t)len), der);
    if (same)
        return sig;
    ECDSA_SIG_free(sig);
    return NULL;
}

static ECDSA_SIG *read_raw(const uint8_t raw[ES512_SIGNATURE_BYTES])
{
    ECDSA_SIG *sig = ECDSA_SIG_new();
    BIGNUM *r = BN_bin2bn(raw, ES512_NUMBER_BYTES, NULL);
    BIGNUM *s = BN_bin2bn(raw + ES512_NUMBER_BYTES, ES512_NUMBER_BYTES, NULL);
    if (sig != NULL && r != NULL && s != NULL && ECDSA_SIG_set0(sig, r, s) == 1)
        return sig;
    BN_free(r);
    BN_free(s);
    ECDSA_SIG_free(sig);
    return NULL;
}

enum status es512_sign(const struct es512_key *key, struct bytes message,
                       uint8_t ret_signature[ES512_SIGNATURE_BYTES])
{
    unsigned char der[ES512_DER_MAX];
    size_t len = sizeof der;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    ECDSA_SIG *sig = NULL;
    ASSERT(key->key != NULL);
    if (ctx != NULL && EVP_DigestSignInit(ctx, NULL, EVP_sha512(), NULL, key->key) == 1 &&
        EVP_DigestSign(ctx, der, &len, message.data, message.len) == 1)
        sig = read_der(bytes_of(der, len));
    ASSERT(len <= sizeof der);
    bool ok = sig != NULL &&
              BN_bn2binpad(ECDSA_SIG_get0_r(sig), ret_signature, ES512_NUMBER_BYTES) ==
                  ES512_NUMBER_BYTES &&
              BN_bn2binpad(ECDSA_SIG_get0_s(sig), ret_signature + ES512_NUMBER_BYTES,
                           ES512_NUMBER_BYTES) == ES512_NUMBER_BYTES;
    ECDSA_SIG_free(sig);
    EVP_MD_CTX_free(ctx);
    ERR_clear_error();
    return ok ? ST_OK : ST_CRYPTO;
}

/* Whether the signature holds. OpenSSL refuses numbers that are 0 or not below the group's order.
 */
static bool holds(const struct es512_key *key, struct bytes message, const ECDSA_SIG *sig)
{
    unsigned char der[ES512_DER_MAX], *to = der;
    ASSERT(key->key != NULL);
    int len = i2d_ECDSA_SIG(sig, NULL);
    if (len <= 0 || len > ES512_DER_MAX || i2d_ECDSA_SIG(sig, &to) != len)
        return false;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool ok = ctx != NULL && EVP_DigestVerifyInit(ctx, NULL, EVP_sha512(), NULL, key->key) == 1 &&
              EVP_DigestVerify(ctx, der, (size_t)len, message.data, message.len) == 1;
    EVP_MD_CTX_free(ctx);
    return ok;
}

enum status es512_verify(const struct es512_key *key, struct bytes message, struct bytes signature)
{
    ECDSA_SIG *sig = NULL;
    bool ok = false;
    ASSERT(key->key != NULL);
    if (signature.len == ES512_SIGNATURE_BYTES) {
        sig = read_raw(signature.data);
        ok = sig != NULL && holds(key, message, sig);
        ECDSA_SIG_free(sig);
    }
    if (!ok) { /* a short DER form may have the length of the raw form */
        sig = read_der(signature);
        ok = sig != NULL && holds(key, message, sig);
        ECDSA_SIG_free(sig);
    }
    ERR_clear_error();
    return ok ? ST_OK : ST_INVALID;
}
