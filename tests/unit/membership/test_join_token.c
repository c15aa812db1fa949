#include "cluster/membership/certificate/authority.h"
#include "cluster/membership/join/join_token.h"

#include "base/mem.h"
#include "text/time.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define assert_status(expression, expected) \
    assert_string_equal(status_name(expression), status_name(expected))

static struct join_token sample(void)
{
    struct join_token token;
    for (unsigned i = 0; i < JOIN_HASH_BYTES; i++) {
        token.ca_sha256[i] = (uint8_t)(i * 7);
        token.secret[i] = (uint8_t)(255 - i);
    }
    return token;
}

static void a_token_is_read_as_it_was_written(void **ctx)
{
    struct join_token token = sample(), read;
    char text[JOIN_TOKEN_TEXT], padded[JOIN_TOKEN_TEXT + 8] = " \n";
    (void)ctx;
    join_token_put(&token, text);
    assert_int_equal(strlen(text) + 1, JOIN_TOKEN_TEXT);
    assert_status(join_token_parse(bytes_str(text), &read), ST_OK);
    assert_memory_equal(&read, &token, sizeof token);
    (void)strcat(strcat(padded, text), "\r\n");
    assert_status(join_token_parse(bytes_str(padded), &read), ST_OK);
    assert_memory_equal(&read, &token, sizeof token);
}

static void a_mistyped_token_is_refused(void **ctx)
{
    struct join_token token = sample(), read;
    char text[JOIN_TOKEN_TEXT];
    (void)ctx;
    join_token_put(&token, text);
    for (size_t i = 0; text[i] != '\0'; i++) {
        char kept = text[i];
        for (const char *c = "A9_ \x01"; *c != '\0'; c++) {
            text[i] = *c;
            if (*c != kept)
                assert_status(join_token_parse(bytes_str(text), &read), ST_INVALID);
        }
        text[i] = kept;
        assert_status(join_token_parse(bytes_of(text, i), &read), ST_INVALID);
    }
    assert_status(join_token_parse((struct bytes){0}, &read), ST_INVALID);
    assert_status(join_token_parse(BYTES("  \n"), &read), ST_INVALID);
    assert_status(join_token_parse(bytes_of(text, sizeof text), &read), ST_INVALID);
}

static void records_are_read_as_they_were_written(void **ctx)
{
    CLEANUP(buf_done) struct buf out = {0}, rotate = {0};
    struct join_record record = {
        .expires_ms = 123456789, .node = "a", .used = true, .used_by = "b", .key_mac = {1, 2, 3}};
    struct join_record read;
    int64_t since_s = 0;
    (void)ctx;
    assert_status(join_record_encode(&record, &out), ST_OK);
    assert_status(join_record_decode(buf_bytes(&out), &read), ST_OK);
    assert_int_equal(read.expires_ms, record.expires_ms);
    assert_string_equal(read.node, "a");
    assert_string_equal(read.used_by, "b");
    assert_true(read.used);
    assert_memory_equal(read.key_mac, record.key_mac, sizeof read.key_mac);
    assert_status(authority_rotate_encode(77, &rotate), ST_OK);
    assert_status(authority_rotate_decode(buf_bytes(&rotate), &since_s), ST_OK);
    assert_int_equal(since_s, 77);
}

static void cut_or_longer_records_are_corrupt(void **ctx)
{
    CLEANUP(buf_done) struct buf out = {0};
    struct join_record record = {.expires_ms = 1, .node = "node", .used_by = "other"}, read;
    (void)ctx;
    assert_status(join_record_encode(&record, &out), ST_OK);
    for (size_t len = 0; len < out.len; len++)
        assert_status(join_record_decode(bytes_of(out.data, len), &read), ST_CORRUPT);
    buf_add_u8(&out, 0);
    assert_status(join_record_decode(buf_bytes(&out), &read), ST_CORRUPT);
    out.len--;
    out.data[0]++;
    assert_status(join_record_decode(buf_bytes(&out), &read), ST_CORRUPT);
}

static void records_that_make_no_sense_are_corrupt(void **ctx)
{
    CLEANUP(buf_done) struct buf out = {0}, rotate = {0};
    struct join_record record = {.expires_ms = 1, .node = "node", .used = true}, read;
    char *end = record.used_by + sizeof record.used_by - 1;
    int64_t since_s = 0;
    (void)ctx;
    memset(record.used_by, 'x', sizeof record.used_by - 1);
    *end = '\0'; /* the longest */
    assert_status(join_record_encode(&record, &out), ST_OK);
    assert_status(join_record_decode(buf_bytes(&out), &read), ST_OK);
    assert_string_equal(read.used_by, record.used_by);
    uint8_t *node = memmem(out.data, out.len, "node", 4);
    assert_non_null(node);
    node[2] = 0;
    assert_status(join_record_decode(buf_bytes(&out), &read), ST_CORRUPT);
    node[2] = 'd';
    node[4] = 2; /* neither used nor not */
    assert_status(join_record_decode(buf_bytes(&out), &read), ST_CORRUPT);
    node[4] = 1;
    out.data[8] = 0x80; /* ended before time began */
    assert_status(join_record_decode(buf_bytes(&out), &read), ST_CORRUPT);
    le64_put(out.data + 1, TEXT_EXPIRY_END - 1);
    assert_status(join_record_decode(buf_bytes(&out), &read), ST_OK);
    le64_put(out.data + 1, TEXT_EXPIRY_END);
    assert_status(join_record_decode(buf_bytes(&out), &read), ST_CORRUPT);
    assert_status(authority_rotate_encode(77, &rotate), ST_OK);
    for (size_t len = 0; len < rotate.len; len++)
        assert_status(authority_rotate_decode(bytes_of(rotate.data, len), &since_s), ST_CORRUPT);
    rotate.data[rotate.len - 1] = 0x80;
    assert_status(authority_rotate_decode(buf_bytes(&rotate), &since_s), ST_CORRUPT);
    le64_put(rotate.data + 1, TEXT_CLOCK_END / 1000);
    assert_status(authority_rotate_decode(buf_bytes(&rotate), &since_s), ST_CORRUPT);
    assert_int_equal(since_s, 0);
}

static void the_authority_is_read_as_it_was_written(void **ctx)
{
    CLEANUP(cert_pair_done) struct cert_pair pair = {0}, read = {0}, none = {0};
    CLEANUP(buf_done) struct buf out = {0};
    (void)ctx;
    buf_add_str(&pair.cert, "certificate");
    buf_add_str(&pair.key, "key");
    assert_status(authority_encode(&pair, &out), ST_OK);
    assert_status(authority_decode(buf_bytes(&out), &read), ST_OK);
    assert_true(bytes_eq(buf_bytes(&read.cert), BYTES("certificate")));
    assert_true(bytes_eq(buf_bytes(&read.key), BYTES("key")));
    for (size_t len = 0; len < out.len; len++)
        assert_status(authority_decode(bytes_of(out.data, len), &none), ST_CORRUPT);
    out.data[0]++;
    assert_status(authority_decode(buf_bytes(&out), &none), ST_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_is_read_as_it_was_written),
        cmocka_unit_test(a_mistyped_token_is_refused),
        cmocka_unit_test(records_are_read_as_they_were_written),
        cmocka_unit_test(cut_or_longer_records_are_corrupt),
        cmocka_unit_test(records_that_make_no_sense_are_corrupt),
        cmocka_unit_test(the_authority_is_read_as_it_was_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
