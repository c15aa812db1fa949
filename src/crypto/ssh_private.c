/* Private keys: made, read, written, and signing. */
#include "base/mem.h"
#include "crypto/crypto.h"
#include "crypto/ssh_key.h"
#include "crypto/ssh_openssh.h"
#include "crypto/ssh_wire.h"
#include "text/value.h"

#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

enum { SAVED_MAX = 8192, SIGNATURE_MAX = SSH_RSA_BITS_MAX / 8, NUMBER_MAX = 66 };

void ssh_private_done(struct ssh_private *key)
{
    EVP_PKEY_free(key->key);
    *key = (struct ssh_private){0};
}

static enum status refuse(struct reason *why, const char *text)
{
    reason_set(why, "%s", text);
    return ST_INVALID;
}

/* Set kind and bits by the key of OpenSSL. False: the key signs no certificates. */
static bool judge_kind(struct ssh_private *key)
{
    char group[32] = "";
    size_t len = 0;
    EVP_PKEY *pkey = key->key;
    ASSERT(pkey != NULL);
    key->bits = (unsigned)EVP_PKEY_get_bits(pkey);
    if (EVP_PKEY_is_a(pkey, "RSA") == 1) {
        key->kind = SSH_RSA;
        return true;
    }
    if (EVP_PKEY_is_a(pkey, "ED25519") == 1) {
        key->kind = SSH_ED25519;
        key->bits = 256;
        return true;
    }
    if (EVP_PKEY_is_a(pkey, "EC") != 1 ||
        EVP_PKEY_get_group_name(pkey, group, sizeof group, &len) != 1)
        return false;
    key->kind = strcmp(group, "secp384r1") == 0   ? SSH_ECDSA_384
                : strcmp(group, "secp521r1") == 0 ? SSH_ECDSA_521
                                                  : SSH_ECDSA_256;
    return key->kind != SSH_ECDSA_256 || strcmp(group, "prime256v1") == 0;
}

enum status ssh_private_make(enum ssh_kind kind, unsigned bits, struct ssh_private *ret_key)
{
    EVP_PKEY *key = NULL;
    ASSERT(ret_key->key == NULL && kind <= SSH_ED25519);
    switch (kind) {
    case SSH_RSA:
        ASSERT(bits >= SSH_RSA_CA_BITS_MIN && bits <= SSH_RSA_BITS_MAX);
        key = EVP_RSA_gen(bits);
        break;
    case SSH_ECDSA_256: key = EVP_EC_gen("P-256"); break;
    case SSH_ECDSA_384: key = EVP_EC_gen("P-384"); break;
    case SSH_ECDSA_521: key = EVP_EC_gen("P-521"); break;
    default: key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    }
    ERR_clear_error(); /* the returned status tells the failure */
    if (key == NULL)
        return ST_CRYPTO;
    ret_key->key = key;
    bool known = judge_kind(ret_key);
    ASSERT(known && ret_key->kind == kind);
    return ST_OK;
}

/* Reading */

/* OpenSSL must not ask for a password at the terminal; `ctx` learns that the key needs one. */
static int note_password(char *out, int room, int rw, void *ctx)
{
    (void)out, (void)room, (void)rw; /* OpenSSL sets the parameters of this callback */
    *(bool *)ctx = true;
    return -1;
}

static EVP_PKEY *read_pem(struct bytes pem, bool *ret_password)
{
    ASSERT(pem.len <= SSH_PRIVATE_MAX);
    BIO *bio = BIO_new_mem_buf(pem.data, (int)pem.len);
    *ret_password = false;
    EVP_PKEY *key =
        bio != NULL ? PEM_read_bio_PrivateKey(bio, NULL, note_password, ret_password) : NULL;
    BIO_free(bio);
    return key;
}

static bool is_sound(EVP_PKEY *key)
{
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new(key, NULL);
    bool ok = ctx != NULL && (EVP_PKEY_is_a(key, "ED25519") == 1 || EVP_PKEY_check(ctx) == 1);
    EVP_PKEY_CTX_free(ctx);
    return ok;
}

static enum status judge_key(struct ssh_private *key, struct reason *why)
{
    if (!judge_kind(key))
        return refuse(why, "a key of this kind signs no certificates: RSA, ECDSA on a curve of "
                           "NIST or Ed25519 is expected");
    if (key->kind == SSH_RSA && (key->bits < SSH_RSA_CA_BITS_MIN || key->bits > SSH_RSA_BITS_MAX)) {
        reason_set(why, "an RSA key of %u bits: %d to %d are expected", key->bits,
                   SSH_RSA_CA_BITS_MIN, SSH_RSA_BITS_MAX);
        return ST_INVALID;
    }
    return is_sound(key->key) ? ST_OK : refuse(why, "the numbers of the key do not fit together");
}

enum status ssh_private_parse(struct bytes pem, struct ssh_private *ret_key, struct reason *why)
{
    struct ssh_private key = {0};
    bool password = false;
    ASSERT(ret_key->key == NULL);
    if (pem.len > SSH_PRIVATE_MAX)
        return refuse(why, "the key is longer than 16 KiB");
    if (ssh_openssh_is(pem)) {
        void *read = NULL;
        TRY(ssh_openssh_parse(pem, &read, why));
        key.key = read;
    } else {
        key.key = read_pem(pem, &password);
    }
    ERR_clear_error();
    if (key.key == NULL && password)
        return refuse(why, "the key has a passphrase: give the key without one");
    if (key.key == NULL)
        return refuse(why, "a private key in PEM form is expected: OpenSSH, PKCS #1, PKCS #8 or "
                           "SEC 1");
    enum status st = judge_key(&key, why);
    ERR_clear_error();
    if (st != ST_OK) {
        ssh_private_done(&key);
        return st;
    }
    *ret_key = key;
    return ST_OK;
}

/* Writing */

static bool put_rsa_number(EVP_PKEY *key, const char *name, struct buf *out)
{
    uint8_t raw[SSH_RSA_BITS_MAX / 8];
    BIGNUM *n = NULL;
    if (EVP_PKEY_get_bn_param(key, name, &n) != 1)
        return false;
    int len = BN_bn2bin(n, raw);
    BN_free(n);
    ASSERT(len > 0 && (size_t)len <= sizeof raw);
    ssh_put_mpint(out, bytes_of(raw, (size_t)len));
    return true;
}

enum status ssh_private_public(const struct ssh_private *key, struct buf *out)
{
    uint8_t point[2 * NUMBER_MAX + 1];
    size_t len = sizeof point;
    bool ok = true;
    ASSERT(key->key != NULL);
    ssh_put_string(out, bytes_str(ssh_kind_name(key->kind)));
    if (key->kind == SSH_RSA) {
        ok = put_rsa_number(key->key, OSSL_PKEY_PARAM_RSA_E, out) &&
             put_rsa_number(key->key, OSSL_PKEY_PARAM_RSA_N, out);
    } else if (key->kind == SSH_ED25519) {
        ok = EVP_PKEY_get_raw_public_key(key->key, point, &len) == 1;
        if (ok)
            ssh_put_string(out, bytes_of(point, len));
    } else {
        ok = EVP_PKEY_get_octet_string_param(key->key, OSSL_PKEY_PARAM_PUB_KEY, point, sizeof point,
                                             &len) == 1 &&
             point[0] == POINT_CONVERSION_UNCOMPRESSED;
        if (ok) {
            ssh_put_string(out, bytes_str(strrchr(ssh_kind_name(key->kind), '-') + 1));
            ssh_put_string(out, bytes_of(point, len));
        }
    }
    ERR_clear_error();
    return ok ? buf_status(out) : ST_CRYPTO;
}

static enum status take_bio(BIO *bio, struct buf *out)
{
    char *data;
    long len = BIO_get_mem_data(bio, &data);
    ASSERT(len > 0);
    buf_add(out, bytes_of(data, (size_t)len));
    return buf_status(out);
}

enum status ssh_private_save(const struct ssh_private *key, struct buf *out)
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

enum status ssh_private_load(struct bytes saved, struct ssh_private *ret_key)
{
    const unsigned char *at = saved.data;
    struct ssh_private key = {0};
    ASSERT(ret_key->key == NULL);
    if (saved.len == 0 || saved.len > SAVED_MAX)
        return ST_CORRUPT;
    PKCS8_PRIV_KEY_INFO *info = d2i_PKCS8_PRIV_KEY_INFO(NULL, &at, (long)saved.len);
    key.key = info != NULL && at == saved.data + saved.len ? EVP_PKCS82PKEY(info) : NULL;
    PKCS8_PRIV_KEY_INFO_free(info); /* also wipes the private key */
    ERR_clear_error();
    if (key.key == NULL || !judge_kind(&key)) {
        ssh_private_done(&key);
        return ST_CORRUPT;
    }
    *ret_key = key;
    return ST_OK;
}

enum status ssh_private_export(const struct ssh_private *key, struct buf *out)
{
    ASSERT(key->key != NULL);
    if (key->kind == SSH_ED25519)
        return ssh_openssh_put(key->key, out);
    BIO *secret = BIO_new(BIO_s_secmem());
    enum status st = ST_CRYPTO;
    if (secret != NULL &&
        PEM_write_bio_PrivateKey_traditional(secret, key->key, NULL, NULL, 0, NULL, NULL) == 1)
        st = take_bio(secret, out);
    BIO_free(secret); /* also wipes the memory */
    ERR_clear_error();
    return st;
}

/* Signing */

static const EVP_MD *digest_of(const struct ssh_private *key, enum ssh_digest digest)
{
    switch (key->kind) {
    case SSH_RSA:
        return digest == SSH_SHA1       ? EVP_sha1()
               : digest == SSH_SHA2_512 ? EVP_sha512()
                                        : EVP_sha256();
    case SSH_ECDSA_256: return EVP_sha256();
    case SSH_ECDSA_384: return EVP_sha384();
    case SSH_ECDSA_521: return EVP_sha512();
    default: return NULL; /* Ed25519 has its own */
    }
}

static const char *algorithm_of(const struct ssh_private *key, enum ssh_digest digest)
{
    if (key->kind != SSH_RSA || digest == SSH_SHA1)
        return ssh_kind_name(key->kind);
    return digest == SSH_SHA2_512 ? "rsa-sha2-512" : "rsa-sha2-256";
}

/* A signature of ECDSA on the wire: both numbers (RFC 5656 3.1.2). */
static bool put_ecdsa(struct bytes der, struct buf *out)
{
    CLEANUP(buf_done) struct buf pair = {0};
    const unsigned char *at = der.data;
    uint8_t raw[NUMBER_MAX];
    ASSERT(der.len != 0);
    ECDSA_SIG *sig = d2i_ECDSA_SIG(NULL, &at, (long)der.len);
    if (sig == NULL)
        return false;
    const BIGNUM *numbers[] = {ECDSA_SIG_get0_r(sig), ECDSA_SIG_get0_s(sig)};
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
        ASSERT(BN_num_bytes(numbers[i]) <= NUMBER_MAX);
        int len = BN_bn2bin(numbers[i], raw);
        ssh_put_mpint(&pair, bytes_of(raw, (size_t)len));
    }
    ECDSA_SIG_free(sig);
    if (buf_status(&pair) != ST_OK)
        return false;
    ssh_put_string(out, buf_bytes(&pair));
    return true;
}

enum status ssh_sign(const struct ssh_private *key, enum ssh_digest digest, struct bytes message,
                     struct buf *out)
{
    CLEANUP(buf_done) struct buf signature = {0};
    uint8_t raw[SIGNATURE_MAX];
    size_t len = sizeof raw;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    ASSERT(key->key != NULL);
    bool ok = ctx != NULL &&
              EVP_DigestSignInit(ctx, NULL, digest_of(key, digest), NULL, key->key) == 1 &&
              EVP_DigestSign(ctx, raw, &len, message.data, message.len) == 1;
    EVP_MD_CTX_free(ctx);
    ASSERT(len <= sizeof raw);
    if (ok) {
        ssh_put_string(&signature, bytes_str(algorithm_of(key, digest)));
        if (ssh_kind_is_ecdsa(key->kind))
            ok = put_ecdsa(bytes_of(raw, len), &signature);
        else
            ssh_put_string(&signature, bytes_of(raw, len));
    }
    ERR_clear_error();
    if (!ok || buf_status(&signature) != ST_OK)
        return ST_CRYPTO;
    ssh_put_string(out, buf_bytes(&signature));
    return buf_status(out);
}
