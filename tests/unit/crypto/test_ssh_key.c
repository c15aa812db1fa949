#include "support.h"

#include "crypto/crypto.h"
#include "crypto/ssh_cert.h"
#include "crypto/ssh_wire.h"

#include <stdio.h>

static struct arena arena;

static int set_up(void **ctx)
{
    (void)ctx;
    assert_status(crypto_init(NULL), ST_OK);
    return 0;
}

static int tear_down(void **ctx)
{
    (void)ctx;
    arena_done(&arena);
    return 0;
}

static const enum ssh_kind made_kinds[] = {SSH_RSA, SSH_ECDSA_256, SSH_ECDSA_384, SSH_ECDSA_521,
                                           SSH_ED25519};

static void make(enum ssh_kind kind, struct ssh_private *key, struct buf *blob)
{
    assert_status(ssh_private_make(kind, SSH_RSA_CA_BITS_MIN, key), ST_OK);
    assert_status(ssh_private_public(key, blob), ST_OK);
}

static void a_made_key_is_saved_exported_and_read(void **ctx)
{
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(made_kinds); i++) {
        CLEANUP(ssh_private_done) struct ssh_private key = {0};
        CLEANUP(ssh_private_done) struct ssh_private loaded = {0};
        CLEANUP(ssh_private_done) struct ssh_private parsed = {0};
        CLEANUP(buf_done) struct buf blob = {0};
        CLEANUP(buf_done) struct buf saved = {0};
        CLEANUP(buf_done) struct buf pem = {0};
        CLEANUP(buf_done) struct buf again = {0};
        struct ssh_public public_key;
        struct reason why = {""};
        make(made_kinds[i], &key, &blob);
        assert_status(ssh_public_read(buf_bytes(&blob), &public_key, &why), ST_OK);
        assert_int_equal(public_key.kind, made_kinds[i]);
        assert_int_equal(public_key.bits, key.bits);
        assert_status(ssh_private_save(&key, &saved), ST_OK);
        assert_status(ssh_private_load(buf_bytes(&saved), &loaded), ST_OK);
        assert_status(ssh_private_export(&loaded, &pem), ST_OK);
        assert_status(ssh_private_parse(buf_bytes(&pem), &parsed, &why), ST_OK);
        assert_status(ssh_private_public(&parsed, &again), ST_OK);
        assert_true(bytes_eq(buf_bytes(&blob), buf_bytes(&again)));
    }
}

static void a_saved_key_with_another_byte_behind_it_is_refused(void **ctx)
{
    CLEANUP(ssh_private_done) struct ssh_private key = {0};
    CLEANUP(ssh_private_done) struct ssh_private loaded = {0};
    CLEANUP(buf_done) struct buf blob = {0};
    CLEANUP(buf_done) struct buf saved = {0};
    (void)ctx;
    make(SSH_ED25519, &key, &blob);
    assert_status(ssh_private_save(&key, &saved), ST_OK);
    buf_add_u8(&saved, 0);
    assert_status(ssh_private_load(buf_bytes(&saved), &loaded), ST_CORRUPT);
    assert_status(ssh_private_load(BYTES(""), &loaded), ST_CORRUPT);
}

static void a_blob_that_is_cut_off_anywhere_is_refused(void **ctx)
{
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(made_kinds); i++) {
        CLEANUP(ssh_private_done) struct ssh_private key = {0};
        CLEANUP(buf_done) struct buf blob = {0};
        struct ssh_public public_key;
        struct reason why;
        make(made_kinds[i], &key, &blob);
        for (size_t len = 0; len < blob.len; len++)
            assert_status(ssh_public_read(bytes_of(blob.data, len), &public_key, &why), ST_INVALID);
        buf_add_u8(&blob, 0);
        assert_status(ssh_public_read(buf_bytes(&blob), &public_key, &why), ST_INVALID);
    }
}

static void a_number_that_is_not_in_its_shortest_form_is_refused(void **ctx)
{
    static const struct {
        const char *bytes;
        size_t len;
        bool good;
    } cases[] = {
        {"\0\0\0\1\1", 5, true},  {"\0\0\0\2\0\x80", 6, true}, {"\0\0\0\0", 4, false},
        {"\0\0\0\1\0", 5, false}, {"\0\0\0\1\x80", 5, false},  {"\0\0\0\2\0\1", 6, false},
        {"\0\0\0\2\1", 5, false},
    };
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct reader r = reader_of(bytes_of(cases[i].bytes, cases[i].len));
        (void)ssh_take_mpint(&r);
        assert_int_equal(reader_end(&r) == ST_OK, cases[i].good);
    }
}

/* A certificate of any key that any authority signs has the fields in the order of
 * PROTOCOL.certkeys, options included. */
static void a_certificate_has_its_fields_in_their_order(void **ctx)
{
    static const char *const users[] = {"a", "bc"};
    static const char *const options[] = {"force-command", "x", "verify-required", ""};
    CLEANUP(ssh_private_done) struct ssh_private key = {0};
    CLEANUP(buf_done) struct buf blob = {0};
    struct ssh_public public_key;
    struct reason why;
    (void)ctx;
    make(SSH_ECDSA_256, &key, &blob);
    assert_status(ssh_public_read(buf_bytes(&blob), &public_key, &why), ST_OK);
    for (size_t i = 0; i < ARRAY_LEN(made_kinds); i++) {
        CLEANUP(ssh_private_done) struct ssh_private ca = {0};
        CLEANUP(buf_done) struct buf ca_blob = {0};
        CLEANUP(buf_done) struct buf body = {0};
        CLEANUP(buf_done) struct buf line = {0};
        const struct ssh_cert cert = {.key = &public_key,
                                      .serial = 7,
                                      .type = SSH_CERT_USER,
                                      .key_id = "id",
                                      .principals = users,
                                      .n_principals = 2,
                                      .valid_after_s = 5,
                                      .valid_before_s = 9,
                                      .critical = {options, 2}};
        make(made_kinds[i], &ca, &ca_blob);
        assert_status(ssh_cert_body(&cert, buf_bytes(&ca_blob), &body), ST_OK);
        assert_status(ssh_cert_sign(buf_bytes(&body), &ca, SSH_SHA2_256, &line), ST_OK);
        struct reader r = reader_of(buf_bytes(&body));
        struct bytes name = ssh_take_string(&r);
        assert_true(bytes_eq(name, BYTES("ecdsa-sha2-nistp256-cert-v01@openssh.com")));
        assert_true(bytes_has_prefix(buf_bytes(&line), name));
        assert_int_equal(ssh_take_string(&r).len, SSH_NONCE_BYTES);
        assert_true(bytes_eq(reader_take(&r, public_key.fields.len), public_key.fields));
        assert_int_equal(be64_get(reader_take(&r, 8).data), 7);
        assert_int_equal(ssh_take_u32(&r), SSH_CERT_USER);
        assert_true(bytes_eq(ssh_take_string(&r), BYTES("id")));
        assert_true(bytes_eq(ssh_take_string(&r), BYTES("\0\0\0\1a\0\0\0\2bc")));
        assert_int_equal(be64_get(reader_take(&r, 8).data), 5);
        assert_int_equal(be64_get(reader_take(&r, 8).data), 9);
        assert_true(bytes_eq(ssh_take_string(&r), BYTES("\0\0\0\015force-command\0\0\0\5\0\0\0\1x"
                                                        "\0\0\0\017verify-required\0\0\0\0")));
        assert_int_equal(ssh_take_string(&r).len, 0);
        assert_int_equal(ssh_take_string(&r).len, 0);
        assert_true(bytes_eq(ssh_take_string(&r), buf_bytes(&ca_blob)));
        assert_status(reader_end(&r), ST_OK);
    }
}

static void a_line_takes_one_key_and_nothing_else(void **ctx)
{
    CLEANUP(ssh_private_done) struct ssh_private key = {0};
    CLEANUP(buf_done) struct buf blob = {0};
    CLEANUP(buf_done) struct buf line = {0};
    static const struct {
        const char *form; /* "%s": the key */
        bool good;
    } cases[] = {
        {"%s", true},          {"%s\n", true},  {"%s comment with blanks\r\n", true},
        {"  %s\t c ", true},   {"x %s", false}, {"%s\n%s", false},
        {"%s c\x01", false},   {"%sA", false},  {"%s=", false},
        {"ssh-rsa %s", false},
    };
    char text[1024];
    struct ssh_public public_key;
    struct reason why;
    (void)ctx;
    make(SSH_ED25519, &key, &blob);
    assert_status(ssh_public_line(buf_bytes(&blob), &line), ST_OK);
    buf_add_u8(&line, 0);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *at = strstr(cases[i].form, "%s");
        size_t front = (size_t)(at - cases[i].form);
        (void)snprintf(text, sizeof text, "%.*s%s%s", (int)front, cases[i].form,
                       (const char *)line.data,
                       strcmp(at + 2, "\n%s") == 0 ? "\nssh-ed25519 AAAA" : at + 2);
        enum status st = ssh_public_parse(&arena, bytes_str(text), &public_key, &why);
        assert_status(st, cases[i].good ? ST_OK : ST_INVALID);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_made_key_is_saved_exported_and_read),
        cmocka_unit_test(a_saved_key_with_another_byte_behind_it_is_refused),
        cmocka_unit_test(a_blob_that_is_cut_off_anywhere_is_refused),
        cmocka_unit_test(a_number_that_is_not_in_its_shortest_form_is_refused),
        cmocka_unit_test(a_certificate_has_its_fields_in_their_order),
        cmocka_unit_test(a_line_takes_one_key_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
