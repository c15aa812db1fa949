/* A file is base64 between two lines. Its bytes:
 *
 *   "openssh-key-v1\0"
 *   string   cipher, "none" without a passphrase
 *   string   derivation of the cipher's key, "none"
 *   string   its options, ""
 *   u32      number of keys, 1
 *   string   public key
 *   string   u32 check, u32 check again, private key, string comment, bytes 1, 2, 3 … up to a
 *            multiple of 8
 */
#include "crypto/ssh_openssh.h"
#include "crypto/crypto.h"
#include "crypto/ssh_key.h"
#include "crypto/ssh_wire.h"
#include "text/encode.h"
#include "text/value.h"

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>

#define OPENSSH_BEGIN "-----BEGIN OPENSSH PRIVATE KEY-----"
#define OPENSSH_END "-----END OPENSSH PRIVATE KEY-----"
#define OPENSSH_MAGIC "openssh-key-v1\0"

enum { SEED_BYTES = 32, PADDED_TO = 8, LINE_CHARS = 70 };

bool ssh_openssh_is(struct bytes pem)
{
    while (pem.len != 0 && (pem.data[0] == ' ' || pem.data[0] == '\n' || pem.data[0] == '\r' ||
                            pem.data[0] == '\t'))
        pem = bytes_from(pem, 1);
    return bytes_has_prefix(pem, BYTES(OPENSSH_BEGIN));
}

static enum status malformed(struct reason *why, const char *what)
{
    reason_set(why, "the OpenSSH private key is malformed: %s", what);
    return ST_INVALID;
}

/* The bytes between the first and the last line. */
static enum status open_armour(struct bytes pem, struct buf *out, struct reason *why)
{
    CLEANUP(buf_done) struct buf text = {0};
    const uint8_t *from = memmem(pem.data, pem.len, OPENSSH_BEGIN, strlen(OPENSSH_BEGIN));
    ASSERT(from != NULL);
    from += strlen(OPENSSH_BEGIN);
    size_t left = pem.len - (size_t)(from - pem.data);
    ASSERT(from <= pem.data + pem.len);
    const uint8_t *end = memmem(from, left, OPENSSH_END, strlen(OPENSSH_END));
    size_t len;
    if (end == NULL)
        return malformed(why, "its last line is missing");
    struct bytes after = bytes_from(pem, (size_t)(end - pem.data) + strlen(OPENSSH_END));
    for (size_t i = 0; i < after.len; i++)
        if (strchr(" \t\r\n", after.data[i]) == NULL || after.data[i] == 0)
            return malformed(why, "there is text behind its last line");
    if (buf_reserve(&text, (size_t)(end - from) + 1) != ST_OK)
        return ST_NOMEM;
    for (; from < end; from++)
        if (strchr(" \t\r\n", *from) == NULL || *from == 0)
            buf_add_u8(&text, *from);
    uint8_t *at = buf_extend(out, TEXT_BASE64_BYTES(text.len));
    if (at == NULL)
        return ST_NOMEM;
    if (text.len == 0 || text_base64_parse(buf_bytes(&text), at, &len) != ST_OK)
        return malformed(why, "it is not base64");
    out->len = len;
    return ST_OK;
}

static BIGNUM *number(struct bytes raw)
{
    BIGNUM *n = BN_secure_new();
    if (n != NULL && BN_bin2bn(raw.data, (int)raw.len, n) == NULL) {
        BN_clear_free(n);
        return NULL;
    }
    return n;
}

static EVP_PKEY *from_params(const char *type, OSSL_PARAM_BLD *build)
{
    EVP_PKEY *key = NULL;
    ASSERT(build != NULL);
    OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(build);
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
    if (params == NULL || ctx == NULL || EVP_PKEY_fromdata_init(ctx) != 1 ||
        EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_KEYPAIR, params) != 1)
        key = NULL;
    EVP_PKEY_CTX_free(ctx);
    OSSL_PARAM_free(params);
    return key;
}

enum { N, E, D, IQMP, P, Q, DP, DQ, NUMBERS };

/* d modulo p - 1 and q - 1, which the file does not have. */
static bool add_exponents(BIGNUM *numbers[NUMBERS])
{
    BN_CTX *ctx = BN_CTX_secure_new();
    BIGNUM *less = BN_secure_new();
    numbers[DP] = BN_secure_new();
    numbers[DQ] = BN_secure_new();
    bool ok = ctx != NULL && less != NULL && numbers[DP] != NULL && numbers[DQ] != NULL;
    for (int i = 0; i < 2 && ok; i++)
        ok = BN_sub(less, numbers[P + i], BN_value_one()) == 1 && BN_is_zero(less) == 0 &&
             BN_mod(numbers[DP + i], numbers[D], less, ctx) == 1;
    BN_clear_free(less);
    BN_CTX_free(ctx);
    return ok;
}

static EVP_PKEY *take_rsa(struct reader *r)
{
    static const char *const names[NUMBERS] = {
        [N] = OSSL_PKEY_PARAM_RSA_N,          [E] = OSSL_PKEY_PARAM_RSA_E,
        [D] = OSSL_PKEY_PARAM_RSA_D,          [IQMP] = OSSL_PKEY_PARAM_RSA_COEFFICIENT1,
        [P] = OSSL_PKEY_PARAM_RSA_FACTOR1,    [Q] = OSSL_PKEY_PARAM_RSA_FACTOR2,
        [DP] = OSSL_PKEY_PARAM_RSA_EXPONENT1, [DQ] = OSSL_PKEY_PARAM_RSA_EXPONENT2,
    };
    BIGNUM *numbers[NUMBERS] = {NULL};
    OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
    EVP_PKEY *key = NULL;
    bool ok = build != NULL;
    for (int i = N; i <= Q; i++) {
        numbers[i] = number(ssh_take_mpint(r));
        ok = ok && numbers[i] != NULL && BN_num_bits(numbers[i]) <= SSH_RSA_BITS_MAX;
    }
    ok = ok && !r->failed && add_exponents(numbers);
    for (int i = N; i < NUMBERS && ok; i++)
        ok = OSSL_PARAM_BLD_push_BN(build, names[i], numbers[i]) == 1;
    if (ok)
        key = from_params("RSA", build);
    OSSL_PARAM_BLD_free(build);
    for (int i = N; i < NUMBERS; i++)
        BN_clear_free(numbers[i]);
    return key;
}

static EVP_PKEY *take_ecdsa(struct reader *r)
{
    struct bytes curve = ssh_take_string(r), point = ssh_take_string(r);
    const char *group = text_is(curve, "nistp256")   ? "prime256v1"
                        : text_is(curve, "nistp384") ? "secp384r1"
                        : text_is(curve, "nistp521") ? "secp521r1"
                                                     : NULL;
    BIGNUM *d = number(ssh_take_mpint(r));
    OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
    EVP_PKEY *key = NULL;
    if (group != NULL && !r->failed && d != NULL && build != NULL &&
        OSSL_PARAM_BLD_push_utf8_string(build, OSSL_PKEY_PARAM_GROUP_NAME, group, 0) == 1 &&
        OSSL_PARAM_BLD_push_octet_string(build, OSSL_PKEY_PARAM_PUB_KEY, point.data, point.len) ==
            1 &&
        OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_PRIV_KEY, d) == 1)
        key = from_params("EC", build);
    OSSL_PARAM_BLD_free(build);
    BN_clear_free(d);
    return key;
}

/* The private part is the seed and the public key again. */
static EVP_PKEY *take_ed25519(struct reader *r)
{
    uint8_t made[SEED_BYTES];
    size_t len = sizeof made;
    struct bytes half = ssh_take_string(r), both = ssh_take_string(r);
    if (r->failed || half.len != SEED_BYTES || both.len != 2 * SEED_BYTES ||
        !bytes_eq(half, bytes_from(both, SEED_BYTES)))
        return NULL;
    EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL, both.data, SEED_BYTES);
    if (key == NULL || EVP_PKEY_get_raw_public_key(key, made, &len) != 1 ||
        !bytes_eq(bytes_of(made, len), half)) {
        EVP_PKEY_free(key);
        return NULL;
    }
    return key;
}

/* The key of the private part, whose public half is `public_blob`. */
static enum status take_private(struct bytes private, struct bytes public_blob, void **ret_key,
                                struct reason *why)
{
    struct reader r = reader_of(private);
    if (ssh_take_u32(&r) != ssh_take_u32(&r))
        return malformed(why, "its private part does not begin with two equal numbers");
    struct bytes name = ssh_take_string(&r);
    EVP_PKEY *key = text_is(name, "ssh-rsa")                       ? take_rsa(&r)
                    : text_is(name, "ssh-ed25519")                 ? take_ed25519(&r)
                    : bytes_has_prefix(name, BYTES("ecdsa-sha2-")) ? take_ecdsa(&r)
                                                                   : NULL;
    ERR_clear_error();
    if (key == NULL)
        return malformed(why, "its key is of an unknown type, or its numbers do not fit together");
    (void)ssh_take_string(&r); /* the comment; a failure shows in `r` */
    uint8_t pad = 1;
    while (!r.failed && reader_left(&r) != 0)
        if (reader_u8(&r) != pad++)
            r.failed = true;
    struct reader front = reader_of(public_blob);
    if (r.failed || !bytes_eq(ssh_take_string(&front), name)) {
        EVP_PKEY_free(key);
        return malformed(why, "its end, or its public part");
    }
    *ret_key = key;
    return ST_OK;
}

enum status ssh_openssh_parse(struct bytes pem, void **ret_key, struct reason *why)
{
    CLEANUP(buf_done) struct buf raw = {0};
    TRY(open_armour(pem, &raw, why));
    struct bytes magic = BYTES(OPENSSH_MAGIC);
    if (!bytes_has_prefix(buf_bytes(&raw), magic))
        return malformed(why, "it does not begin with \"openssh-key-v1\"");
    struct reader r = reader_of(bytes_from(buf_bytes(&raw), magic.len));
    struct bytes cipher = ssh_take_string(&r), derivation = ssh_take_string(&r);
    struct bytes options = ssh_take_string(&r);
    uint32_t n = ssh_take_u32(&r);
    struct bytes public_blob = ssh_take_string(&r), private = ssh_take_string(&r);
    if (r.failed || reader_end(&r) != ST_OK)
        return malformed(why, "it is cut off, or something follows it");
    if (!text_is(cipher, "none") || !text_is(derivation, "none") || options.len != 0) {
        reason_set(why, "the key has a passphrase: give the key without one");
        return ST_INVALID;
    }
    if (n != 1)
        return malformed(why, "it has several keys");
    return take_private(private, public_blob, ret_key, why);
}

static enum status put_armour(struct bytes raw, struct buf *out)
{
    CLEANUP(buf_done) struct buf text = {0};
    uint8_t *at = buf_extend(&text, TEXT_BASE64_LEN(raw.len) + 1);
    if (at == NULL)
        return ST_NOMEM;
    size_t len = text_base64_put(raw, TEXT_BASE64, (char *)at);
    ASSERT(len <= text.len);
    buf_add_str(out, OPENSSH_BEGIN "\n");
    for (size_t i = 0; i < len; i += LINE_CHARS) {
        buf_add(out, bytes_of(text.data + i, MIN(len - i, (size_t)LINE_CHARS)));
        buf_add_u8(out, '\n');
    }
    buf_add_str(out, OPENSSH_END "\n");
    return buf_status(out);
}

enum status ssh_openssh_put(void *key, struct buf *out)
{
    CLEANUP(buf_done) struct buf raw = {0};
    CLEANUP(buf_done) struct buf private = {0};
    CLEANUP(buf_done) struct buf public_blob = {0};
    uint8_t both[2 * SEED_BYTES], check[4];
    size_t seed_len = SEED_BYTES, public_len = SEED_BYTES;
    if (EVP_PKEY_get_raw_private_key(key, both, &seed_len) != 1 ||
        EVP_PKEY_get_raw_public_key(key, both + SEED_BYTES, &public_len) != 1)
        return ST_CRYPTO;
    ASSERT(seed_len == SEED_BYTES && public_len == SEED_BYTES);
    TRY(crypto_random(check, sizeof check));
    ssh_put_string(&public_blob, BYTES("ssh-ed25519"));
    ssh_put_string(&public_blob, bytes_of(both + SEED_BYTES, SEED_BYTES));
    buf_add(&private, bytes_of(check, sizeof check));
    buf_add(&private, bytes_of(check, sizeof check));
    buf_add(&private, buf_bytes(&public_blob));
    ssh_put_string(&private, bytes_of(both, sizeof both));
    explicit_bzero(both, sizeof both);
    ssh_put_string(&private, BYTES(""));
    for (uint8_t pad = 1; private.len % PADDED_TO != 0; pad++)
        buf_add_u8(&private, pad);
    buf_add(&raw, BYTES(OPENSSH_MAGIC));
    ssh_put_string(&raw, BYTES("none"));
    ssh_put_string(&raw, BYTES("none"));
    ssh_put_string(&raw, BYTES(""));
    ssh_put_u32(&raw, 1);
    ssh_put_string(&raw, buf_bytes(&public_blob));
    ssh_put_string(&raw, buf_bytes(&private));
    TRY(buf_status(&public_blob));
    TRY(buf_status(&private));
    TRY(buf_status(&raw));
    return put_armour(buf_bytes(&raw), out);
}
