/* A message for one recipient (RFC 9580 10.3):
 *
 *   packet 1   the session key, encrypted to the public key: RSA, ECDH (RFC 6637) or X25519
 *   packet 18  version 1, then AES-256 in CFB mode, with a zero vector, of:
 *                16 random bytes, the last two of them again
 *                packet 11: 'b', no name, no time, the plain text
 *                packet 19: SHA-1 of all that, the header of this packet included */
#include "crypto/crypto.h"
#include "crypto/pgp/pgp.h"
#include "crypto/pgp/pgp_packet.h"
#include "crypto/pgp/pgp_public.h"

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <openssl/rsa.h>

enum {
    SESSION_VERSION = 3,
    AES_128 = 7,
    AES_256 = 9,
    SESSION_BYTES = 32,
    SESSION_TEXT = 1 + SESSION_BYTES + 2, /* algorithm, key, checksum */
    SESSION_PADDED = 40,                  /* SESSION_TEXT as whole blocks of 8 */
    WRAP_MORE = 8,                        /* bytes that key wrap adds */
    KEK_MAX = 64,
    AES_BLOCK = 16,
    PREFIX = AES_BLOCK + 2,
    LITERAL_HEAD = 6,
    MDC_BYTES = 20,
    DATA_VERSION = 1,
    LEGACY_PREFIX = 0x40,
};

static size_t aes_key_bytes(uint8_t cipher)
{
    ASSERT(cipher >= AES_128 && cipher <= AES_256);
    return 16 + 8u * (cipher - AES_128);
}

/* Wrap `plain`, whole blocks of 8 bytes, by AES key wrap (RFC 3394); append the result. */
static enum status key_wrap(uint8_t cipher, const uint8_t *kek, struct bytes plain, struct buf *out)
{
    const EVP_CIPHER *kind = cipher == AES_128   ? EVP_aes_128_wrap()
                             : cipher == AES_256 ? EVP_aes_256_wrap()
                                                 : EVP_aes_192_wrap();
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    int n = 0;
    ASSERT(plain.len % 8 == 0);
    uint8_t *room = buf_extend(out, plain.len + WRAP_MORE);
    if (ctx == NULL || room == NULL) {
        EVP_CIPHER_CTX_free(ctx);
        return ST_NOMEM;
    }
    EVP_CIPHER_CTX_set_flags(ctx, EVP_CIPHER_CTX_FLAG_WRAP_ALLOW);
    bool ok = EVP_EncryptInit_ex(ctx, kind, NULL, kek, NULL) == 1 &&
              EVP_EncryptUpdate(ctx, room, &n, plain.data, (int)plain.len) == 1 &&
              (size_t)n == plain.len + WRAP_MORE;
    EVP_CIPHER_CTX_free(ctx);
    return ok ? ST_OK : ST_CRYPTO;
}

/* The session key as RSA and ECDH encrypt it: algorithm, key, sum of its bytes; for ECDH padded to
 * whole blocks. */
static enum status session_text(const struct secret *key, size_t len, struct secret *ret)
{
    unsigned sum = 0;
    ASSERT(key->len == SESSION_BYTES && len >= SESSION_TEXT);
    TRY(secret_new(len, ret));
    ret->data[0] = AES_256;
    memcpy(ret->data + 1, key->data, SESSION_BYTES);
    for (size_t i = 0; i < SESSION_BYTES; i++)
        sum += key->data[i];
    ret->data[1 + SESSION_BYTES] = (uint8_t)(sum >> 8);
    ret->data[2 + SESSION_BYTES] = (uint8_t)sum;
    memset(ret->data + SESSION_TEXT, (int)(len - SESSION_TEXT), len - SESSION_TEXT);
    return ST_OK;
}

static enum status session_rsa(EVP_PKEY *to, const struct secret *key, struct buf *out)
{
    CLEANUP(secret_done) struct secret text = {0};
    uint8_t number[PGP_RSA_BITS_MAX / 8];
    size_t len = sizeof number;
    TRY(session_text(key, SESSION_TEXT, &text));
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new(to, NULL);
    ASSERT((size_t)EVP_PKEY_get_size(to) <= sizeof number);
    bool ok = ctx != NULL && EVP_PKEY_encrypt_init(ctx) == 1 &&
              EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PADDING) == 1 &&
              EVP_PKEY_encrypt(ctx, number, &len, text.data, text.len) == 1;
    EVP_PKEY_CTX_free(ctx);
    if (!ok)
        return ST_CRYPTO;
    pgp_mpi_add(out, bytes_of(number, len));
    return buf_status(out);
}

/* A key pair for one message, and what both sides derive from it. */
struct agreement {
    uint8_t point[PGP_POINT_MAX]; /* ephemeral public key */
    size_t point_len;
    struct secret shared;
};

static void agreement_done(struct agreement *a)
{
    secret_done(&a->shared);
}

static bool derive(EVP_PKEY *own, EVP_PKEY *to, struct secret *ret_shared)
{
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new(own, NULL);
    size_t len = 0;
    bool ok = ctx != NULL && EVP_PKEY_derive_init(ctx) == 1 &&
              EVP_PKEY_derive_set_peer(ctx, to) == 1 && EVP_PKEY_derive(ctx, NULL, &len) == 1 &&
              len > 0 && secret_new(len, ret_shared) == ST_OK &&
              EVP_PKEY_derive(ctx, ret_shared->data, &len) == 1 && len == ret_shared->len;
    EVP_PKEY_CTX_free(ctx);
    return ok;
}

static enum status agree(const struct pgp_public *key, EVP_PKEY *to, struct agreement *ret)
{
    bool raw = key->point.len == PGP_RAW_KEY_BYTES;
    ASSERT(ret->shared.data == NULL);
    EVP_PKEY *own = raw ? EVP_PKEY_Q_keygen(NULL, NULL, "X25519")
                        : EVP_PKEY_Q_keygen(NULL, NULL, "EC", key->curve->group);
    bool ok = own != NULL &&
              EVP_PKEY_get_octet_string_param(own, OSSL_PKEY_PARAM_PUB_KEY, ret->point,
                                              sizeof ret->point, &ret->point_len) == 1 &&
              ret->point_len == key->point.len && derive(own, to, &ret->shared);
    EVP_PKEY_free(own);
    return ok ? ST_OK : ST_CRYPTO;
}

/* The key that wraps the session key for ECDH (RFC 6637 7 and 8). */
static enum status ecdh_kek(const struct pgp_public *key, struct bytes shared, uint8_t kek[KEK_MAX])
{
    static const uint8_t counter[4] = {0, 0, 0, 1};
    const uint8_t head[] = {(uint8_t)key->curve->oid.len};
    const uint8_t kdf[] = {PGP_ECDH, 3, 1, key->kdf_hash, key->kdf_cipher};
    const struct bytes parts[] = {
        bytes_of(counter, sizeof counter),
        shared,
        bytes_of(head, sizeof head),
        key->curve->oid,
        bytes_of(kdf, sizeof kdf),
        BYTES("Anonymous Sender    "),
        bytes_of(key->fingerprint, sizeof key->fingerprint),
    };
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    unsigned len = 0;
    bool ok = md != NULL && EVP_DigestInit_ex(md, pgp_digest(key->kdf_hash), NULL) == 1;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        ok = ok && EVP_DigestUpdate(md, parts[i].data, parts[i].len) == 1;
    ok = ok && EVP_DigestFinal_ex(md, kek, &len) == 1;
    EVP_MD_CTX_free(md);
    ASSERT(!ok || len >= aes_key_bytes(AES_256)); /* SHA-256 at least: any AES key fits */
    return ok ? ST_OK : ST_CRYPTO;
}

static enum status session_ecdh(const struct pgp_public *key, EVP_PKEY *to,
                                const struct secret *session, struct buf *out)
{
    CLEANUP(agreement_done) struct agreement a = {0};
    CLEANUP(secret_done) struct secret text = {0}, kek = {0};
    uint8_t point[1 + PGP_POINT_MAX] = {LEGACY_PREFIX};

    TRY(agree(key, to, &a));
    TRY(session_text(session, SESSION_PADDED, &text));
    TRY(secret_new(KEK_MAX, &kek));
    TRY(ecdh_kek(key, secret_bytes(&a.shared), kek.data));
    memcpy(point + 1, a.point, a.point_len);
    bool raw = a.point_len == PGP_RAW_KEY_BYTES;
    ASSERT(raw == (key->curve->group == NULL));
    pgp_mpi_add(out, raw ? bytes_of(point, 1 + a.point_len) : bytes_of(a.point, a.point_len));
    buf_add_u8(out, SESSION_PADDED + WRAP_MORE);
    return key_wrap(key->kdf_cipher, kek.data, secret_bytes(&text), out);
}

/* The key that wraps the session key for X25519 (RFC 9580 5.1.6). */
static enum status x25519_kek(const struct pgp_public *key, const struct agreement *a,
                              struct secret *ret_kek)
{
    CLEANUP(secret_done) struct secret input = {0};
    enum { RAW = PGP_RAW_KEY_BYTES };
    ASSERT(a->point_len == RAW && a->shared.len == RAW && key->point.len == RAW);
    TRY(secret_new(3 * RAW, &input));
    TRY(secret_new(aes_key_bytes(AES_128), ret_kek));
    memcpy(input.data, a->point, RAW);
    memcpy(input.data + RAW, key->point.data, RAW);
    memcpy(input.data + (size_t)2 * RAW, a->shared.data, RAW);
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, (char[]){"SHA256"}, 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, input.data, input.len),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, (char[]){"OpenPGP X25519"}, 14),
        OSSL_PARAM_construct_end(),
    };
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
    EVP_KDF_CTX *ctx = kdf != NULL ? EVP_KDF_CTX_new(kdf) : NULL;
    bool ok = ctx != NULL && EVP_KDF_derive(ctx, ret_kek->data, ret_kek->len, params) == 1;
    EVP_KDF_CTX_free(ctx);
    EVP_KDF_free(kdf);
    return ok ? ST_OK : ST_CRYPTO;
}

static enum status session_x25519(const struct pgp_public *key, EVP_PKEY *to,
                                  const struct secret *session, struct buf *out)
{
    CLEANUP(agreement_done) struct agreement a = {0};
    CLEANUP(secret_done) struct secret kek = {0};
    TRY(agree(key, to, &a));
    TRY(x25519_kek(key, &a, &kek));
    ASSERT(session->len == SESSION_BYTES);
    buf_add(out, bytes_of(a.point, a.point_len));
    buf_add_u8(out, 1 + SESSION_BYTES + WRAP_MORE);
    buf_add_u8(out, AES_256);
    return key_wrap(AES_128, kek.data, secret_bytes(session), out);
}

static enum status put_session_key(const struct pgp_public *key, const struct secret *session,
                                   struct buf *message)
{
    CLEANUP(buf_drop) struct buf body = {0};
    EVP_PKEY *to = pgp_public_import(key);
    if (to == NULL)
        return ST_CRYPTO;
    buf_add_u8(&body, SESSION_VERSION);
    buf_add(&body, bytes_of(pgp_public_id(key), PGP_KEY_ID_BYTES));
    buf_add_u8(&body, (uint8_t)key->algorithm);
    enum status st = key->algorithm == PGP_ECDH     ? session_ecdh(key, to, session, &body)
                     : key->algorithm == PGP_X25519 ? session_x25519(key, to, session, &body)
                                                    : session_rsa(to, session, &body);
    EVP_PKEY_free(to);
    ERR_clear_error(); /* the returned status tells the failure */
    TRY(st);
    TRY(buf_status(&body));
    pgp_packet_begin(message, PGP_TAG_SESSION_KEY, body.len);
    buf_add(message, buf_bytes(&body));
    return buf_status(message);
}

/* Append what the second packet encrypts. */
static enum status put_inner(struct bytes plain, struct buf *out)
{
    static const uint8_t literal_head[LITERAL_HEAD] = {'b', 0, 0, 0, 0, 0};
    static const uint8_t mdc_head[] = {0xD3, MDC_BYTES};
    uint8_t prefix[PREFIX], sum[EVP_MAX_MD_SIZE];
    ASSERT(out->len == 0);
    TRY(crypto_random(prefix, AES_BLOCK));
    memcpy(prefix + AES_BLOCK, prefix + AES_BLOCK - 2, 2);
    buf_add(out, bytes_of(prefix, sizeof prefix));
    pgp_packet_begin(out, PGP_TAG_LITERAL, sizeof literal_head + plain.len);
    buf_add(out, bytes_of(literal_head, sizeof literal_head));
    buf_add(out, plain);
    buf_add(out, bytes_of(mdc_head, sizeof mdc_head));
    TRY(buf_status(out));
    if (EVP_Digest(out->data, out->len, sum, NULL, EVP_sha1(), NULL) != 1)
        return ST_CRYPTO;
    buf_add(out, bytes_of(sum, MDC_BYTES));
    return buf_status(out);
}

static enum status put_encrypted(const struct secret *session, struct bytes plain,
                                 struct buf *message)
{
    static const uint8_t zero_vector[AES_BLOCK];
    CLEANUP(buf_done) struct buf inner = {0};
    int n = 0;
    TRY(put_inner(plain, &inner));
    pgp_packet_begin(message, PGP_TAG_ENCRYPTED, 1 + inner.len);
    buf_add_u8(message, DATA_VERSION);
    uint8_t *room = buf_extend(message, inner.len);
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    ASSERT(session->len == SESSION_BYTES);
    bool ok =
        room != NULL && ctx != NULL &&
        EVP_EncryptInit_ex(ctx, EVP_aes_256_cfb128(), NULL, session->data, zero_vector) == 1 &&
        EVP_EncryptUpdate(ctx, room, &n, inner.data, (int)inner.len) == 1 && (size_t)n == inner.len;
    EVP_CIPHER_CTX_free(ctx);
    return room == NULL ? ST_NOMEM : ok ? ST_OK : ST_CRYPTO;
}

enum status pgp_encrypt(const struct pgp_recipient *to, struct bytes plain, struct buf *message)
{
    CLEANUP(secret_done) struct secret session = {0};
    struct pgp_public key;
    if (plain.len > PGP_PLAIN_MAX)
        return ST_TOO_BIG;
    if (to->body_len > sizeof to->body)
        return ST_CORRUPT;
    enum status st = pgp_public_read(bytes_of(to->body, to->body_len), &key, NULL);
    if (st == ST_UNSUPPORTED || st == ST_INVALID || (st == ST_OK && !pgp_public_may_encrypt(&key)))
        return ST_CORRUPT;
    TRY(st);
    TRY(secret_random(SESSION_BYTES, &session));
    TRY(put_session_key(&key, &session, message));
    return put_encrypted(&session, plain, message);
}
