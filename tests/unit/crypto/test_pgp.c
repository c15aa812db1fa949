/* Keys below data/pgp are made by gpg 2.2.40 in January 2024, but x25519.asc, by go-crypto 1.1.6.
 */
#include "base/mem.h"
#include "crypto/crypto.h"
#include "crypto/pgp/pgp.h"
#include "support.h"
#include "text/encode.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <stdio.h>
#include <stdlib.h>

#define NOW INT64_C(1730000000000) /* 27 October 2024 */
#define BEFORE_JUNE INT64_C(1714000000000)
#define BEFORE_MADE INT64_C(1700000000000)

enum { FILE_MAX = 8192 };

static int setup(void **ctx)
{
    (void)ctx;
    assert_status(crypto_init(NULL), ST_OK);
    return 0;
}

/* A file of data/pgp, in memory of its own. */
static struct bytes key_file(const char *name)
{
    static uint8_t data[FILE_MAX];
    char path[512];
    (void)snprintf(path, sizeof path, "%s/crypto/data/pgp/%s.asc", UNIT_DIR, name);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    memset(data, 0, sizeof data);
    size_t n = fread(data, 1, sizeof data - 1, file);
    assert_in_range(n, 1, sizeof data - 1);
    (void)fclose(file);
    return bytes_of(data, n);
}

/* The packets of an armour. */
static struct bytes key_binary(const char *name)
{
    static uint8_t data[FILE_MAX];
    static char dense[FILE_MAX];
    size_t len = 0, n = 0;
    const char *at = strstr((const char *)key_file(name).data, "\n\n");
    assert_non_null(at);
    for (at += 2; *at != '\0' && !(*at == '\n' && (at[1] == '=' || at[1] == '-')); at++)
        if (*at != '\n')
            dense[len++] = *at;
    assert_status(text_base64_parse(bytes_of(dense, len), data, &n), ST_OK);
    return bytes_of(data, n);
}

static enum status parse_at(const char *name, int64_t now_ms, struct pgp_recipient *to,
                            struct reason *reason)
{
    reason->text[0] = '\0';
    return pgp_key_parse(key_file(name), now_ms, to, reason);
}

static void assert_refused(struct bytes text, int64_t now_ms, const char *why)
{
    struct pgp_recipient to;
    struct reason reason = {{0}};
    assert_status(pgp_key_parse(text, now_ms, &to, &reason), ST_INVALID);
    if (strstr(reason.text, why) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", reason.text, why);
}

static void keys_of_every_algorithm_are_taken(void **ctx)
{
    static const struct {
        const char *name, *fingerprint;
        uint8_t algorithm;
    } keys[] = {
        {"rsa", "fd23a913123af6d86e92ad1ca679670029606b9c", 1},
        {"curve25519", "9f23f9fb168e0c617ea9d8d70f39ecd4ba55d0d5", 18},
        {"nistp256", "41b164d72fed1f26a0e829964f5a36e10c4d1021", 18},
        {"nistp384", "2278e733dc60510e2c0230f7553a76ee2f006179", 18},
        {"nistp521", "14cff8c4e1ca61df448918bb02a4700a989f63e8", 18},
        {"primary_encrypts", "933941dcb1c8693e5e858a0600324caf9a9f0c53", 1},
        {"x25519", "86a4c22bf3ad744132f62a7bec0578a068744956", 25},
    };
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        struct pgp_recipient to;
        struct reason reason;
        char hex[2 * PGP_FINGERPRINT_BYTES + 1];
        if (parse_at(keys[i].name, NOW, &to, &reason) != ST_OK)
            fail_msg("%s: %s", keys[i].name, reason.text);
        text_hex_put(bytes_of(to.fingerprint, sizeof to.fingerprint), hex);
        assert_string_equal(hex, keys[i].fingerprint);
        assert_int_equal(to.body[5], keys[i].algorithm);
    }
}

static void every_form_of_a_key_is_taken(void **ctx)
{
    struct pgp_recipient armoured, other;
    struct reason reason;
    char text[2 * FILE_MAX], crlf[FILE_MAX] = " \r\n";
    size_t n = 3;
    (void)ctx;
    assert_status(parse_at("curve25519", NOW, &armoured, &reason), ST_OK);
    struct bytes binary = key_binary("curve25519");
    assert_status(pgp_key_parse(binary, NOW, &other, &reason), ST_OK);
    assert_memory_equal(other.body, armoured.body, armoured.body_len);
    for (enum text_base64 form = TEXT_BASE64; form <= TEXT_BASE64_URL; form++) {
        (void)text_base64_put(binary, form, text);
        assert_status(pgp_key_parse(bytes_str(text), NOW, &other, &reason), ST_OK);
    }
    (void)text_base64_put(key_file("curve25519"), TEXT_BASE64, text);
    assert_status(pgp_key_parse(bytes_str(text), NOW, &other, &reason), ST_OK);
    assert_memory_equal(other.fingerprint, armoured.fingerprint, sizeof other.fingerprint);
    for (const uint8_t *at = key_file("curve25519").data; *at != '\0'; at++) {
        if (*at == '\n')
            crlf[n++] = '\r';
        crlf[n++] = (char)*at;
    }
    assert_status(pgp_key_parse(bytes_of(crlf, n), NOW, &other, &reason), ST_OK);
}

static void the_newest_subkey_is_chosen(void **ctx)
{
    struct pgp_recipient to;
    struct reason reason;
    (void)ctx;
    assert_status(parse_at("two_subkeys", NOW, &to, &reason), ST_OK);
    assert_int_equal(to.body[6], 8); /* the identifier of P-256; Curve25519's has ten bytes */
}

static void unfit_keys_are_refused_by_name(void **ctx)
{
    static const struct {
        const char *name, *why;
        int64_t now_ms;
    } keys[] = {
        {"signing_only", "the key is for signatures only", NOW},
        {"expired", "the key expired on 2024-06-01T12:00:00Z", NOW},
        {"subkey_expired", "the key's subkey for encryption expired on 2024-06-01T12:00:00Z", NOW},
        {"revoked", "the key was revoked", NOW},
        {"subkey_revoked", "the key's subkey for encryption was revoked", NOW},
        {"curve25519", "the key begins in the future, on 2024-01-15T12:00:00Z", BEFORE_MADE},
        {"rsa1024", "the key has 1024 bits of RSA", NOW},
        {"dsa", "the key is of algorithm 17 (DSA)", NOW},
        {"elgamal", "the key is of algorithm 16 (Elgamal)", NOW},
        {"brainpool", "the key is on a curve that is not supported", NOW},
        {"sha1", "with a valid signature of SHA-2", NOW},
        {"private", "the key is a private key", NOW},
        {"two_keys", "is not the only one in the input", NOW},
        {"message", "the key is not a public key", NOW},
    };
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        assert_refused(key_file(keys[i].name), keys[i].now_ms, keys[i].why);
}

static void the_newest_word_about_the_end_counts(void **ctx)
{
    struct pgp_recipient to;
    struct reason reason;
    (void)ctx;
    assert_status(parse_at("expired", BEFORE_JUNE, &to, &reason), ST_OK);
    assert_status(parse_at("subkey_expired", BEFORE_JUNE, &to, &reason), ST_OK);
    assert_status(parse_at("extended", NOW, &to, &reason), ST_OK);
}

static void what_is_no_key_is_refused(void **ctx)
{
    static const char begin[] = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n";
    uint8_t *long_text = malloc(PGP_TEXT_MAX + 1);
    uint8_t binary[FILE_MAX], doubled[2 * FILE_MAX];
    char text[2 * FILE_MAX];
    (void)ctx;
    assert_non_null(long_text);
    memset(long_text, 'A', PGP_TEXT_MAX + 1);
    assert_refused(bytes_of(long_text, PGP_TEXT_MAX + 1), NOW, "the key is too long");
    memset(long_text, 0xC6, PGP_BINARY_MAX + 1);
    assert_refused(bytes_of(long_text, PGP_BINARY_MAX + 1), NOW, "the key is too long: 256 KiB");
    free(long_text);
    assert_refused(BYTES(""), NOW, "the key is empty");
    assert_refused(BYTES(" \n"), NOW, "the key is empty");
    assert_refused(BYTES("not a key!"), NOW, "neither base64 nor ASCII armour");
    assert_refused(BYTES("c2hhcmU="), NOW, "is not a public key");
    assert_refused(bytes_str(begin), NOW, "no END line");
    (void)snprintf(text, sizeof text, "%s\n\n?\n-----END PGP PUBLIC KEY BLOCK-----\n", begin);
    assert_refused(bytes_str(text), NOW, "something else than base64");
    (void)snprintf(text, sizeof text, "%.*s", (int)key_file("rsa").len, key_file("rsa").data);
    char *crc = strstr(text, "\n=");
    assert_non_null(crc);
    crc[2] = crc[2] == 'A' ? 'B' : 'A';
    assert_refused(bytes_str(text), NOW, "its armour's checksum is wrong");
    (void)snprintf(text, sizeof text, "%.*smore\n", (int)key_file("rsa").len, key_file("rsa").data);
    assert_refused(bytes_str(text), NOW, "must come alone");

    struct bytes key = key_binary("curve25519");
    memcpy(doubled, key.data, key.len);
    memcpy(doubled + key.len, key.data, key.len);
    assert_refused(bytes_of(doubled, 2 * key.len), NOW, "is not the only one");
    memcpy(binary, key.data, key.len);
    for (uint8_t version = 3; version <= 6; version++) {
        binary[2] = version;
        if (version != 4)
            assert_refused(bytes_of(binary, key.len), NOW, "version 4 is supported");
    }
}

/* Everything that a key's own signatures cover, cut anywhere, is refused or ignored, but never
 * believed. */
static void a_key_cut_anywhere_is_refused(void **ctx)
{
    static const char *const names[] = {"rsa", "curve25519", "nistp256", "x25519"};
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        struct bytes key = key_binary(names[i]);
        for (size_t len = 0; len < key.len; len++) {
            uint8_t *copy = malloc(len + 1); /* a reader that goes too far leaves the block */
            struct pgp_recipient to;
            struct reason reason = {{0}};
            assert_non_null(copy);
            memcpy(copy, key.data, len);
            assert_status(pgp_key_parse(bytes_of(copy, len), NOW, &to, &reason), ST_INVALID);
            assert_int_not_equal(reason.text[0], '\0');
            free(copy);
        }
    }
}

static void a_key_changed_in_any_byte_encrypts_to_the_same_or_is_refused(void **ctx)
{
    static const char *const names[] = {"rsa", "curve25519", "nistp256", "two_subkeys"};
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        uint8_t key[FILE_MAX];
        struct bytes whole = key_binary(names[i]);
        struct pgp_recipient to, first;
        struct reason reason;
        memcpy(key, whole.data, whole.len);
        assert_status(pgp_key_parse(bytes_of(key, whole.len), NOW, &first, &reason), ST_OK);
        for (size_t at = 0; at < whole.len; at++)
            for (unsigned flip = 1; flip <= 0x80; flip <<= 1) {
                key[at] ^= (uint8_t)flip;
                reason.text[0] = '\0';
                enum status st = pgp_key_parse(bytes_of(key, whole.len), NOW, &to, &reason);
                key[at] ^= (uint8_t)flip;
                if (st != ST_OK) {
                    assert_status(st, ST_INVALID);
                    assert_int_not_equal(reason.text[0], '\0');
                    continue;
                }
                assert_memory_equal(to.fingerprint, first.fingerprint, sizeof to.fingerprint);
                /* of two subkeys, the older one remains */
                if (strcmp(names[i], "two_subkeys") != 0)
                    assert_memory_equal(to.body, first.body, first.body_len);
            }
    }
}

static void signatures_count_for_their_own_key_only(void **ctx)
{
    uint8_t mixed[FILE_MAX];
    (void)ctx;
    /* the primary key and user id of one key, the subkey and its binding of another */
    struct bytes key = key_binary("signing_only");
    size_t own = key.len;
    memcpy(mixed, key.data, own);
    struct bytes other = key_binary("curve25519");
    size_t at = 0;
    while ((other.data[at] >> 2 & 0x0F) != 14) /* packets of the old format, short lengths */
        at += 2u + other.data[at + 1];
    memcpy(mixed + own, other.data + at, other.len - at);
    assert_refused(bytes_of(mixed, own + other.len - at), NOW, "for signatures only");
    /* the primary key of one, the user id and its signature of another */
    size_t primary = 2u + key_binary("signing_only").data[1];
    other = key_binary("curve25519");
    size_t other_primary = 2u + other.data[1];
    memcpy(mixed + primary, other.data + other_primary, other.len - other_primary);
    assert_refused(bytes_of(mixed, primary + other.len - other_primary), NOW,
                   "does not vouch for itself");
}

static void too_many_parts_are_refused(void **ctx)
{
    static uint8_t key[PGP_BINARY_MAX];
    struct bytes whole = key_binary("curve25519");
    static const struct {
        uint8_t packet[3];
        const char *why;
    } more[] = {
        {{0xCD, 1, 'x'}, "too many user ids"},
        {{0xCE, 1, 4}, "is malformed"},
        {{0xCA, 1, 'P'}, "too many packets"},
        {{0xC2, 1, 3}, "too many packets"},
        {{0xC2, 1, 4}, "is malformed: a signature"},
        {{0xFF, 0xF0, 0}, "a packet is malformed"},
        {{0xD2, 1, 1}, "is not a public key: it holds other packets"},
    };
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(more); i++) {
        size_t n = whole.len;
        memcpy(key, whole.data, n);
        for (int k = 0; k < 3000; k++, n += 3)
            memcpy(key + n, more[i].packet, 3);
        assert_refused(bytes_of(key, n), NOW, more[i].why);
    }
}

static void a_failed_allocation_is_told(void **ctx)
{
    struct pgp_recipient to;
    struct reason reason;
    (void)ctx;
    for (uint64_t n = 1;; n++) {
        (void)mem_fail_nth(n);
        enum status st = parse_at("rsa", NOW, &to, &reason);
        if (!mem_fail_nth(0)) {
            assert_status(st, ST_OK);
            assert_true(n > 2);
            return;
        }
        assert_status(st, ST_NOMEM);
    }
}

static void lengths_of_messages_are_bounded(void **ctx)
{
    static uint8_t plain[PGP_PLAIN_MAX + 1];
    struct pgp_recipient to;
    struct reason reason;
    CLEANUP(buf_done) struct buf message = {0};
    (void)ctx;
    assert_status(parse_at("rsa", NOW, &to, &reason), ST_OK);
    assert_status(pgp_encrypt(&to, bytes_of(plain, sizeof plain), &message), ST_TOO_BIG);
    assert_int_equal(message.len, 0);
    assert_status(pgp_encrypt(&to, bytes_of(plain, PGP_PLAIN_MAX), &message), ST_OK);
    to.body_len--;
    assert_status(pgp_encrypt(&to, BYTES("x"), &message), ST_CORRUPT);
    to.body_len = sizeof to.body + 1;
    assert_status(pgp_encrypt(&to, BYTES("x"), &message), ST_CORRUPT);
}

static void two_messages_share_nothing(void **ctx)
{
    struct pgp_recipient to;
    struct reason reason;
    CLEANUP(buf_done) struct buf a = {0}, b = {0};
    (void)ctx;
    assert_status(parse_at("x25519", NOW, &to, &reason), ST_OK);
    assert_status(pgp_encrypt(&to, BYTES("a share"), &a), ST_OK);
    assert_status(pgp_encrypt(&to, BYTES("a share"), &b), ST_OK);
    assert_int_equal(a.len, b.len);
    assert_memory_not_equal(a.data + 12, b.data + 12, 32);
    assert_memory_not_equal(a.data + a.len - 32, b.data + b.len - 32, 32);
}

/* The private key of x25519.asc's subkey. */
static const char x25519_secret[] =
    "9975773f9e5421558a33f6d4217a7c5bceba44f9436bf843ecba19a564a2a2b0";

static void shared_secret(const uint8_t *ephemeral, uint8_t ret_public[32], uint8_t ret_shared[32])
{
    uint8_t raw[32];
    size_t len = 32;
    assert_status(text_hex_parse(bytes_str(x25519_secret), raw), ST_OK);
    EVP_PKEY *own = EVP_PKEY_new_raw_private_key(EVP_PKEY_X25519, NULL, raw, sizeof raw);
    EVP_PKEY *peer = EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, NULL, ephemeral, 32);
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new(own, NULL);
    assert_int_equal(EVP_PKEY_get_raw_public_key(own, ret_public, &len), 1);
    assert_int_equal(EVP_PKEY_derive_init(ctx), 1);
    assert_int_equal(EVP_PKEY_derive_set_peer(ctx, peer), 1);
    assert_int_equal(EVP_PKEY_derive(ctx, ret_shared, &len), 1);
    EVP_PKEY_CTX_free(ctx);
    EVP_PKEY_free(own);
    EVP_PKEY_free(peer);
}

/* RFC 9580 5.1.6, read by other code than wrote it. `session`: body of the first packet. */
static void x25519_session_key(const uint8_t *session, uint8_t ret_key[32])
{
    uint8_t input[96], kek[16];
    int n = 0;
    memcpy(input, session + 10, 32);
    shared_secret(session + 10, input + 32, input + 64);
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, (char[]){"SHA256"}, 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, input, sizeof input),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, (char[]){"OpenPGP X25519"}, 14),
        OSSL_PARAM_construct_end(),
    };
    EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
    EVP_KDF_CTX *derive = EVP_KDF_CTX_new(kdf);
    assert_int_equal(EVP_KDF_derive(derive, kek, sizeof kek, params), 1);
    EVP_KDF_CTX_free(derive);
    EVP_KDF_free(kdf);
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    EVP_CIPHER_CTX_set_flags(ctx, EVP_CIPHER_CTX_FLAG_WRAP_ALLOW);
    assert_int_equal(session[42], 41);
    assert_int_equal(session[43], 9); /* AES-256 */
    assert_int_equal(EVP_DecryptInit_ex(ctx, EVP_aes_128_wrap(), NULL, kek, NULL), 1);
    assert_int_equal(EVP_DecryptUpdate(ctx, ret_key, &n, session + 44, 40), 1);
    assert_int_equal(n, 32);
    EVP_CIPHER_CTX_free(ctx);
}

static void a_message_for_x25519_can_be_read(void **ctx)
{
    struct pgp_recipient to;
    struct reason reason;
    CLEANUP(buf_done) struct buf message = {0};
    uint8_t key[32], plain[256], sum[20];
    static const uint8_t zero[16];
    int n = 0;
    (void)ctx;
    assert_status(parse_at("x25519", NOW, &to, &reason), ST_OK);
    assert_status(pgp_encrypt(&to, BYTES("a share"), &message), ST_OK);
    assert_int_equal(message.data[0], 0xC1);
    const uint8_t *data = message.data + 2 + message.data[1];
    x25519_session_key(message.data + 2, key);
    assert_int_equal(data[0], 0xD2);
    assert_ptr_equal(data + 2 + data[1], message.data + message.len);
    assert_int_equal(data[2], 1);
    EVP_CIPHER_CTX *cipher = EVP_CIPHER_CTX_new();
    assert_int_equal(EVP_DecryptInit_ex(cipher, EVP_aes_256_cfb128(), NULL, key, zero), 1);
    assert_int_equal(EVP_DecryptUpdate(cipher, plain, &n, data + 3, data[1] - 1), 1);
    EVP_CIPHER_CTX_free(cipher);
    size_t len = (size_t)n;
    assert_memory_equal(plain + 14, plain + 16, 2);
    assert_bytes(bytes_of(plain + 18, len - 18 - 22), BYTES("\xCB\x0D"
                                                            "b\0\0\0\0\0"
                                                            "a share"));
    assert_int_equal(EVP_Digest(plain, len - 20, sum, NULL, EVP_sha1(), NULL), 1);
    assert_bytes(bytes_of(sum, 20), bytes_of(plain + len - 20, 20));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_of_every_algorithm_are_taken),
        cmocka_unit_test(every_form_of_a_key_is_taken),
        cmocka_unit_test(the_newest_subkey_is_chosen),
        cmocka_unit_test(unfit_keys_are_refused_by_name),
        cmocka_unit_test(the_newest_word_about_the_end_counts),
        cmocka_unit_test(what_is_no_key_is_refused),
        cmocka_unit_test(a_key_cut_anywhere_is_refused),
        cmocka_unit_test(a_key_changed_in_any_byte_encrypts_to_the_same_or_is_refused),
        cmocka_unit_test(signatures_count_for_their_own_key_only),
        cmocka_unit_test(too_many_parts_are_refused),
        cmocka_unit_test(a_failed_allocation_is_told),
        cmocka_unit_test(lengths_of_messages_are_bounded),
        cmocka_unit_test(two_messages_share_nothing),
        cmocka_unit_test(a_message_for_x25519_can_be_read),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
