#include "crypto/pgp/pgp_signature.h"
#include "crypto/pgp/pgp_packet.h"

#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/rsa.h>

enum {
    VERSION = 4,
    TRAILER = 0xFF,
    KEY_PREFIX = 0x99,
    USER_ID_PREFIX = 0xB4,
    CRITICAL = 0x80,
    DER_MAX = 160, /* an ECDSA signature of P-521 */
};

enum subpacket {
    SUB_CREATED = 2,
    SUB_LIFETIME = 3,
    SUB_KEY_LIFETIME = 9,
    SUB_FLAGS = 27,
};

/* Subpackets that may be critical: what they say does not matter here. The exportable (4) and
 * revocable (7) marks, trust (5), preferences (11, 21-24, 30, 34, 39), issuer (16, 33), revoker
 * (12), primary user id (25), policy (26), signer (28), reason (29), embedded signature (32). */
static bool is_harmless(uint8_t type)
{
    static const uint8_t types[] = {4,  5,  7,  11, 12, 16, 21, 22, 23, 24,
                                    25, 26, 28, 29, 30, 32, 33, 34, 39};
    return memchr(types, type, sizeof types) != NULL;
}

static void read_subpacket(struct reader sub, struct pgp_signature *s)
{
    uint8_t type = reader_u8(&sub);
    switch (type & ~CRITICAL) {
    case SUB_CREATED: s->created_s = pgp_u32(&sub); break;
    case SUB_LIFETIME: s->lifetime_s = pgp_u32(&sub); break;
    case SUB_KEY_LIFETIME:
        s->key_lifetime_s = pgp_u32(&sub);
        s->has_key_lifetime = true;
        break;
    case SUB_FLAGS: /* no byte at all: nothing is allowed */
        s->flags = reader_left(&sub) != 0 ? reader_u8(&sub) : 0;
        s->has_flags = true;
        break;
    default: s->critical |= (type & CRITICAL) != 0 && !is_harmless((uint8_t)(type & ~CRITICAL));
    }
    s->critical |= sub.failed; /* cut short: believe nothing */
}

static enum status read_subpackets(struct bytes hashed, struct pgp_signature *s)
{
    struct reader r = reader_of(hashed);
    while (!r.failed && reader_left(&r) != 0) {
        struct bytes sub = reader_take(&r, pgp_length_read(&r));
        if (r.failed || sub.len == 0)
            return ST_INVALID;
        read_subpacket(reader_of(sub), s);
    }
    return ST_OK;
}

enum status pgp_signature_read(struct bytes body, struct pgp_signature *ret_signature)
{
    struct reader r = reader_of(body);
    struct pgp_signature s = {.created_s = -1};
    if (reader_u8(&r) != VERSION)
        return body.len != 0 ? ST_UNSUPPORTED : ST_INVALID;
    s.type = reader_u8(&r);
    s.algorithm = reader_u8(&r);
    s.hash = reader_u8(&r);
    struct bytes hashed = reader_take(&r, pgp_u16(&r));
    s.hashed = bytes_of(body.data, (size_t)(r.at - body.data));
    (void)reader_take(&r, pgp_u16(&r)); /* unsigned subpackets */
    struct bytes left = reader_take(&r, sizeof s.left);
    s.value = bytes_of(r.at, reader_left(&r));
    if (r.failed)
        return ST_INVALID;
    memcpy(s.left, left.data, sizeof s.left);
    TRY(read_subpackets(hashed, &s));
    ASSERT(s.hashed.len >= 6 + hashed.len);
    *ret_signature = s;
    return ST_OK;
}

static bool hash_key(EVP_MD_CTX *md, const struct pgp_public *key)
{
    const uint8_t head[3] = {KEY_PREFIX, (uint8_t)(key->body.len >> 8), (uint8_t)key->body.len};
    ASSERT(key->body.len <= UINT16_MAX);
    return EVP_DigestUpdate(md, head, sizeof head) == 1 &&
           EVP_DigestUpdate(md, key->body.data, key->body.len) == 1;
}

static bool hash_user_id(EVP_MD_CTX *md, struct bytes id)
{
    const uint8_t head[5] = {USER_ID_PREFIX, (uint8_t)(id.len >> 24), (uint8_t)(id.len >> 16),
                             (uint8_t)(id.len >> 8), (uint8_t)id.len};
    return EVP_DigestUpdate(md, head, sizeof head) == 1 &&
           EVP_DigestUpdate(md, id.data, id.len) == 1;
}

/* The digest over what is signed, the signature's own fields and its trailer (RFC 9580 5.2.4). */
static bool digest(const struct pgp_signature *s, const struct pgp_signed *what, const EVP_MD *kind,
                   uint8_t ret_digest[EVP_MAX_MD_SIZE])
{
    size_t len = s->hashed.len;
    const uint8_t trailer[6] = {
        VERSION,     TRAILER, (uint8_t)(len >> 24), (uint8_t)(len >> 16), (uint8_t)(len >> 8),
        (uint8_t)len};
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    bool ok = md != NULL && EVP_DigestInit_ex(md, kind, NULL) == 1 && hash_key(md, what->primary);
    if (ok && what->subkey != NULL)
        ok = hash_key(md, what->subkey);
    if (ok && what->user_id != NULL)
        ok = hash_user_id(md, *what->user_id);
    ok = ok && EVP_DigestUpdate(md, s->hashed.data, len) == 1 &&
         EVP_DigestUpdate(md, trailer, sizeof trailer) == 1 &&
         EVP_DigestFinal_ex(md, ret_digest, NULL) == 1;
    EVP_MD_CTX_free(md);
    return ok;
}

/* The two numbers of an ECDSA signature in DER. Returns the length; 0: malformed. */
static size_t ecdsa_der(struct bytes r_number, struct bytes s_number, uint8_t out[DER_MAX])
{
    uint8_t *at = out;
    int len = 0;
    ECDSA_SIG *sig = ECDSA_SIG_new();
    BIGNUM *r = BN_bin2bn(r_number.data, (int)r_number.len, NULL);
    BIGNUM *s = BN_bin2bn(s_number.data, (int)s_number.len, NULL);
    if (sig != NULL && r != NULL && s != NULL && ECDSA_SIG_set0(sig, r, s) == 1) {
        r = s = NULL; /* `sig` owns the numbers now */
        if (i2d_ECDSA_SIG(sig, NULL) <= DER_MAX)
            len = i2d_ECDSA_SIG(sig, &at);
    }
    BN_free(r);
    BN_free(s);
    ECDSA_SIG_free(sig);
    return len > 0 ? (size_t)len : 0;
}

/* The signature in OpenSSL's form, into `out`. Returns the length; 0: malformed. */
static size_t signature_value(const struct pgp_signature *s, EVP_PKEY *by,
                              uint8_t out[PGP_RSA_BITS_MAX / 8])
{
    struct reader r = reader_of(s->value);
    if (s->algorithm == PGP_ED25519) {
        if (s->value.len != 2 * PGP_RAW_KEY_BYTES)
            return 0;
        memcpy(out, s->value.data, s->value.len);
        return s->value.len;
    }
    struct bytes first = pgp_mpi(&r);
    if (s->algorithm == PGP_RSA || s->algorithm == PGP_RSA_SIGN) {
        size_t size = (size_t)EVP_PKEY_get_size(by);
        ASSERT(size <= PGP_RSA_BITS_MAX / 8);
        return reader_end(&r) == ST_OK && pgp_mpi_pad(first, out, size) ? size : 0;
    }
    struct bytes second = pgp_mpi(&r);
    if (reader_end(&r) != ST_OK || first.len > PGP_POINT_MAX / 2 || second.len > PGP_POINT_MAX / 2)
        return 0;
    if (s->algorithm == PGP_ECDSA)
        return ecdsa_der(first, second, out);
    ASSERT(s->algorithm == PGP_EDDSA);
    bool fits = pgp_mpi_pad(first, out, PGP_RAW_KEY_BYTES) &&
                pgp_mpi_pad(second, out + PGP_RAW_KEY_BYTES, PGP_RAW_KEY_BYTES);
    return fits ? (size_t)2 * PGP_RAW_KEY_BYTES : 0;
}

/* Check a signature over a digest. Ed25519 signs the digest as a message. */
static bool verify(EVP_PKEY *by, const EVP_MD *kind, struct bytes value, const uint8_t *hash)
{
    size_t len = (size_t)EVP_MD_get_size(kind);
    bool ok = false;
    if (EVP_PKEY_is_a(by, "ED25519") == 1) {
        EVP_MD_CTX *md = EVP_MD_CTX_new();
        ok = md != NULL && EVP_DigestVerifyInit(md, NULL, NULL, NULL, by) == 1 &&
             EVP_DigestVerify(md, value.data, value.len, hash, len) == 1;
        EVP_MD_CTX_free(md);
    } else {
        EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new(by, NULL);
        bool rsa = EVP_PKEY_is_a(by, "RSA") == 1;
        ok = ctx != NULL && EVP_PKEY_verify_init(ctx) == 1 &&
             (!rsa || EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PADDING) == 1) &&
             EVP_PKEY_CTX_set_signature_md(ctx, kind) == 1 &&
             EVP_PKEY_verify(ctx, value.data, value.len, hash, len) == 1;
        EVP_PKEY_CTX_free(ctx);
    }
    ERR_clear_error(); /* the result tells the failure */
    return ok;
}

static bool is_of(const struct pgp_signature *s, const struct pgp_public *key)
{
    bool rsa = key->algorithm == PGP_RSA || key->algorithm == PGP_RSA_SIGN;
    return rsa ? s->algorithm == PGP_RSA || s->algorithm == PGP_RSA_SIGN
               : s->algorithm == key->algorithm;
}

bool pgp_signature_holds(const struct pgp_signature *s, const struct pgp_signed *what, EVP_PKEY *by,
                         unsigned *spent)
{
    uint8_t hash[EVP_MAX_MD_SIZE], value[PGP_RSA_BITS_MAX / 8];
    const EVP_MD *kind = pgp_digest(s->hash);
    if (kind == NULL || !is_of(s, what->primary) || !digest(s, what, kind, hash))
        return false;
    if (memcmp(hash, s->left, sizeof s->left) != 0) /* most likely another key made the signature */
        return false;
    size_t len = signature_value(s, by, value);
    ASSERT(len <= sizeof value);
    if (len == 0)
        return false;
    ++*spent;
    return verify(by, kind, bytes_of(value, len), hash);
}
