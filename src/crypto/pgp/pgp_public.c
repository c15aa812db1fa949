#include "crypto/pgp/pgp_public.h"
#include "crypto/pgp/pgp_packet.h"

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/param_build.h>

enum {
    VERSION = 4,
    FINGERPRINT_PREFIX = 0x99,
    LEGACY_PREFIX = 0x40,   /* before a raw key where a point is expected */
    UNCOMPRESSED = 0x04,    /* before a point (SEC 1) */
    EXPONENT_BYTES_MAX = 8, /* OpenSSL takes no longer one with a large modulus */
    SHA224 = 11,
};

#define OID(literal)                                    \
    {                                                   \
        (const uint8_t *)(literal), sizeof(literal) - 1 \
    }
static const struct pgp_curve curves[] = {
    {OID("\x2A\x86\x48\xCE\x3D\x03\x01\x07"), "P-256", 32, {PGP_ECDH, PGP_ECDSA}},
    {OID("\x2B\x81\x04\x00\x22"), "P-384", 48, {PGP_ECDH, PGP_ECDSA}},
    {OID("\x2B\x81\x04\x00\x23"), "P-521", 66, {PGP_ECDH, PGP_ECDSA}},
    {OID("\x2B\x06\x01\x04\x01\x97\x55\x01\x05\x01"), NULL, PGP_RAW_KEY_BYTES, {PGP_ECDH, 0}},
    {OID("\x2B\x06\x01\x04\x01\xDA\x47\x0F\x01"), NULL, PGP_RAW_KEY_BYTES, {PGP_EDDSA, 0}},
};

static const struct {
    uint8_t algorithm;
    const char *name;
} known_unsupported[] = {
    {16, "Elgamal"}, {17, "DSA"}, {20, "Elgamal"}, {26, "X448"}, {28, "Ed448"},
};

static enum status invalid(struct reason *reason, const char *what)
{
    reason_set(reason, "the key is malformed: %s", what);
    return ST_INVALID;
}

const EVP_MD *pgp_digest(uint8_t hash)
{
    switch (hash) {
    case PGP_HASH_SHA1: return EVP_sha1();
    case PGP_HASH_SHA256: return EVP_sha256();
    case PGP_HASH_SHA384: return EVP_sha384();
    case PGP_HASH_SHA512: return EVP_sha512();
    case SHA224: return EVP_sha224();
    default: return NULL;
    }
}

static enum status read_rsa(struct reader *r, struct pgp_public *key, struct reason *reason)
{
    key->modulus = pgp_mpi(r);
    key->exponent = pgp_mpi(r);
    struct bytes n = key->modulus, e = key->exponent;
    if (r->failed || n.len == 0 || e.len == 0 || e.len > EXPONENT_BYTES_MAX)
        return invalid(reason, "its RSA numbers have no proper length");
    size_t bits = n.len * 8;
    for (unsigned first = n.data[0]; (first & 0x80) == 0; first <<= 1)
        bits--;
    if (bits < PGP_RSA_BITS_MIN || bits > PGP_RSA_BITS_MAX) {
        reason_set(reason, "the key has %zu bits of RSA: %d to %d are supported", bits,
                   PGP_RSA_BITS_MIN, PGP_RSA_BITS_MAX);
        return ST_UNSUPPORTED;
    }
    bool odd = (n.data[n.len - 1] & 1) != 0 && (e.data[e.len - 1] & 1) != 0;
    if (!odd || (e.len == 1 && e.data[0] == 1)) /* with 1, encryption would change nothing */
        return invalid(reason, "its RSA numbers are no key");
    return ST_OK;
}

static const struct pgp_curve *find_curve(struct bytes oid, enum pgp_algorithm algorithm)
{
    for (size_t i = 0; i < ARRAY_LEN(curves); i++)
        if (bytes_eq(curves[i].oid, oid) &&
            (curves[i].algorithms[0] == algorithm || curves[i].algorithms[1] == algorithm))
            return &curves[i];
    return NULL;
}

static enum status read_kdf(struct reader *r, struct pgp_public *key, struct reason *reason)
{
    uint8_t len = reader_u8(r), reserved = reader_u8(r);
    key->kdf_hash = reader_u8(r);
    key->kdf_cipher = reader_u8(r);
    if (r->failed || len != 3 || reserved != 1)
        return invalid(reason, "its key derivation is not described");
    bool hash = key->kdf_hash >= PGP_HASH_SHA256 && key->kdf_hash <= PGP_HASH_SHA512;
    bool cipher = key->kdf_cipher >= 7 && key->kdf_cipher <= 9; /* AES of 128, 192, 256 bits */
    if (hash && cipher)
        return ST_OK;
    reason_set(reason, "the key derives keys by hash %u and cipher %u: SHA-2 and AES are supported",
               key->kdf_hash, key->kdf_cipher);
    return ST_UNSUPPORTED;
}

static enum status read_curve(struct reader *r, struct pgp_public *key, struct reason *reason)
{
    struct bytes oid = reader_take(r, reader_u8(r));
    key->curve = r->failed ? NULL : find_curve(oid, key->algorithm);
    if (key->curve == NULL) {
        reason_set(reason, "the key is on a curve that is not supported: Curve25519 and the NIST "
                           "curves P-256, P-384 and P-521 are");
        return ST_UNSUPPORTED;
    }
    struct bytes point = pgp_mpi(r);
    size_t wanted = 1 + key->curve->coordinate * (key->curve->group != NULL ? 2 : 1);
    uint8_t prefix = key->curve->group != NULL ? UNCOMPRESSED : LEGACY_PREFIX;
    if (point.len != wanted || point.data[0] != prefix)
        return invalid(reason, "its point does not fit its curve");
    key->point = key->curve->group != NULL ? point : bytes_from(point, 1);
    return key->algorithm == PGP_ECDH ? read_kdf(r, key, reason) : ST_OK;
}

static enum status refuse_algorithm(uint8_t algorithm, struct reason *reason)
{
    const char *name = "unknown";
    for (size_t i = 0; i < ARRAY_LEN(known_unsupported); i++)
        if (known_unsupported[i].algorithm == algorithm)
            name = known_unsupported[i].name;
    reason_set(reason,
               "the key is of algorithm %u (%s): RSA, Curve25519 and the NIST curves are "
               "supported",
               algorithm, name);
    return ST_UNSUPPORTED;
}

static enum status read_numbers(struct reader *r, struct pgp_public *key, struct reason *reason)
{
    switch (key->algorithm) {
    case PGP_RSA:
    case PGP_RSA_ENCRYPT:
    case PGP_RSA_SIGN: return read_rsa(r, key, reason);
    case PGP_ECDH:
    case PGP_ECDSA:
    case PGP_EDDSA: return read_curve(r, key, reason);
    case PGP_X25519:
    case PGP_ED25519:
        key->point = reader_take(r, PGP_RAW_KEY_BYTES);
        return r->failed ? invalid(reason, "its point is cut off") : ST_OK;
    default: return refuse_algorithm((uint8_t)key->algorithm, reason);
    }
}

static enum status set_fingerprint(struct pgp_public *key)
{
    const uint8_t head[3] = {FINGERPRINT_PREFIX, (uint8_t)(key->body.len >> 8),
                             (uint8_t)key->body.len};
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    unsigned len = 0;
    ASSERT(key->body.len <= PGP_KEY_BODY_MAX);
    bool ok = md != NULL && EVP_DigestInit_ex(md, EVP_sha1(), NULL) == 1 &&
              EVP_DigestUpdate(md, head, sizeof head) == 1 &&
              EVP_DigestUpdate(md, key->body.data, key->body.len) == 1 &&
              EVP_DigestFinal_ex(md, key->fingerprint, &len) == 1;
    EVP_MD_CTX_free(md);
    return ok && len == PGP_FINGERPRINT_BYTES ? ST_OK : ST_CRYPTO;
}

enum status pgp_public_read(struct bytes body, struct pgp_public *ret_key, struct reason *reason)
{
    struct reader r = reader_of(body);
    struct pgp_public key = {.body = body};
    uint8_t version = reader_u8(&r);
    if (version != VERSION && body.len != 0) {
        reason_set(reason, "the key is of version %u: version 4 is supported", version);
        return ST_UNSUPPORTED;
    }
    key.created_s = pgp_u32(&r);
    key.algorithm = (enum pgp_algorithm)reader_u8(&r);
    if (r.failed)
        return invalid(reason, "a packet is cut off");
    TRY(read_numbers(&r, &key, reason));
    if (reader_end(&r) != ST_OK || body.len > PGP_KEY_BODY_MAX)
        return invalid(reason, "a packet is longer or shorter than its numbers");
    TRY(set_fingerprint(&key));
    *ret_key = key;
    return ST_OK;
}

bool pgp_public_may_encrypt(const struct pgp_public *key)
{
    return key->algorithm == PGP_RSA || key->algorithm == PGP_RSA_ENCRYPT ||
           key->algorithm == PGP_ECDH || key->algorithm == PGP_X25519;
}

bool pgp_public_may_sign(const struct pgp_public *key)
{
    return key->algorithm == PGP_RSA || key->algorithm == PGP_RSA_SIGN ||
           key->algorithm == PGP_ECDSA || key->algorithm == PGP_EDDSA ||
           key->algorithm == PGP_ED25519;
}

const uint8_t *pgp_public_id(const struct pgp_public *key)
{
    return key->fingerprint + PGP_FINGERPRINT_BYTES - PGP_KEY_ID_BYTES;
}

/* Add the numbers of the key. OpenSSL refers to `n` and `e` until the parameters are made. */
static bool push_numbers(OSSL_PARAM_BLD *build, const struct pgp_public *key, const BIGNUM *n,
                         const BIGNUM *e)
{
    if (key->curve == NULL)
        return OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_N, n) == 1 &&
               OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_E, e) == 1;
    return OSSL_PARAM_BLD_push_utf8_string(build, OSSL_PKEY_PARAM_GROUP_NAME, key->curve->group,
                                           0) == 1 &&
           OSSL_PARAM_BLD_push_octet_string(build, OSSL_PKEY_PARAM_PUB_KEY, key->point.data,
                                            key->point.len) == 1;
}

static EVP_PKEY *import_numbers(const struct pgp_public *key)
{
    EVP_PKEY *made = NULL;
    OSSL_PARAM *params = NULL;
    OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, key->curve == NULL ? "RSA" : "EC", NULL);
    BIGNUM *n = BN_bin2bn(key->modulus.data, (int)key->modulus.len, NULL);
    BIGNUM *e = BN_bin2bn(key->exponent.data, (int)key->exponent.len, NULL);
    if (build != NULL && n != NULL && e != NULL && push_numbers(build, key, n, e))
        params = OSSL_PARAM_BLD_to_param(build);
    if (ctx == NULL || params == NULL || EVP_PKEY_fromdata_init(ctx) != 1 ||
        EVP_PKEY_fromdata(ctx, &made, EVP_PKEY_PUBLIC_KEY, params) != 1)
        made = NULL;
    OSSL_PARAM_free(params);
    OSSL_PARAM_BLD_free(build);
    EVP_PKEY_CTX_free(ctx);
    BN_free(n);
    BN_free(e);
    return made;
}

EVP_PKEY *pgp_public_import(const struct pgp_public *key)
{
    bool raw = key->point.len == PGP_RAW_KEY_BYTES;
    bool signs = key->algorithm == PGP_EDDSA || key->algorithm == PGP_ED25519;
    ASSERT(raw || key->curve == NULL || key->curve->group != NULL);
    EVP_PKEY *made = raw ? EVP_PKEY_new_raw_public_key(signs ? EVP_PKEY_ED25519 : EVP_PKEY_X25519,
                                                       NULL, key->point.data, key->point.len)
                         : import_numbers(key);
    ERR_clear_error(); /* the result tells the failure */
    return made;
}
