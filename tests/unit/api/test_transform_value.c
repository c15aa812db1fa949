/* Known answers of values that go through a template, under one key and one tweak. */
#include "support.h"

#include "api/transform/transform_value.h"
#include "base/buf.h"
#include "text/encode.h"
#include "text/utf8.h"

#include <stdlib.h>

#define KEY "EF2FBC57E2EEF6A5E599BA2CAEE9265625450F3B48C3EDF6CC72261FDA4CE280"
#define CARD "(\\d{4})[- ]?(\\d{4})[- ]?(\\d{4})[- ]?(\\d{4})"
#define SSN "(\\d{3})[-/](\\d{2})[-/](\\d{4})"
#define DIGITS "0123456789"
#define GREEK "αβγδεζηθικλμνξοπρστυφχψω"

static const uint8_t tweak[FPE_TWEAK_BYTES] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd};

struct row {
    const char *alphabet, *mask; /* alphabet NULL: masking */
    enum fpe_algorithm algorithm;
    const char *pattern, *format, *value, *encoded, *decode_format, *decoded;
};

static const struct row rows[] = {
    {DIGITS, NULL, FPE_FF3_1, SSN, NULL, "123/45-6789", "201/80-6320", NULL, "123/45-6789"},
    {DIGITS, NULL, FPE_FF3_1, SSN, "$1-$2-$3", "123/45-6789", "201-80-6320", NULL, "123-45-6789"},
    {DIGITS, NULL, FPE_FF3_1, SSN, "$1-$2-$3", "123/45-6789", "201-80-6320", "$1", "123"},
    {DIGITS, NULL, FPE_FF3_1, SSN, "$1-$2-$3", "123/45-6789", "201-80-6320", "$3", "6789"},
    {DIGITS, NULL, FPE_FF3_1, SSN, "$1-$2-$3", "123/45-6789", "201-80-6320", "${3}_${1}",
     "6789_123"},
    {DIGITS, NULL, FPE_FF3_1, SSN, "$1-$2-$3", "123/45-6789", "201-80-6320", "$3_$1", "123"},
    {DIGITS, NULL, FPE_FF3_1, SSN, "$1-$2-$3", "123/45-6789", "201-80-6320", "$$$2", "$45"},
    {DIGITS, NULL, FPE_FF3_1, CARD, NULL, "4111-1111 11111111", "7275-6473 06788519", NULL,
     "4111-1111 11111111"},
    {DIGITS, NULL, FPE_FF1, CARD, "$1-$2-$3-$4", "4111-1111-1111-1111", "2673-7412-2990-6160", "$4",
     "1111"},
    {DIGITS, NULL, FPE_FF3_1, "(\\d{6})-\\d{4}", NULL, "850709-9805", "457237-9805", NULL,
     "850709-9805"},
    {DIGITS, NULL, FPE_FF3_1, "(\\d{4})-(\\d{4})(?:-(\\d{2}))?", NULL, "1234-5678", "9656-7955",
     NULL, "1234-5678"},
    {GREEK, NULL, FPE_FF3_1, "([α-ω]{4})-([α-ω]{4})", NULL, "αβγδ-ωψχφ", "ωψελ-ωπξψ", NULL,
     "αβγδ-ωψχφ"},
    {NULL, "*", FPE_FF3_1, CARD, NULL, "4111-1111-1111-1111", "****-****-****-****", NULL, NULL},
    {NULL, "X", FPE_FF3_1, "(\\d{4})-(\\d{4})-(\\d{4})-\\d{4}", NULL, "4111-1111-1111-1234",
     "XXXX-XXXX-XXXX-1234", NULL, NULL},
    {NULL, "•", FPE_FF3_1, "(\\w+)@.*", NULL, "jon@x.org", "•••@x.org", NULL, NULL},
};

static int compare(const void *a, const void *b)
{
    uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
    return (one > other) - (one < other);
}

static void make_shape(const struct row *row, struct transform_shape *shape)
{
    static uint32_t symbols[64];
    static uint64_t by_rune[64];
    struct reason why = {0};
    uint8_t key[TRANSFORM_KEY_BYTES];
    static struct transform_symbols alphabet;
    unsigned radix = 0;
    *shape = (struct transform_shape){.alphabet = &alphabet};
    shape->algorithm = row->algorithm;
    shape->transformation.masking_character = row->mask;
    assert_status(regex_new(bytes_str(row->pattern), &shape->regex, &why), ST_OK);
    if (row->alphabet == NULL)
        return;
    struct bytes text = bytes_str(row->alphabet);
    for (size_t at = 0; at < text.len; radix++) {
        assert_status(text_utf8_next(text, &at, &symbols[radix]), ST_OK);
        by_rune[radix] = (uint64_t)symbols[radix] << 32 | radix;
    }
    qsort(by_rune, radix, sizeof *by_rune, compare);
    alphabet = (struct transform_symbols){.symbols = symbols, .by_rune = by_rune, .radix = radix};
    assert_status(text_hex_parse(bytes_str(KEY), key), ST_OK);
    assert_status(fpe_new(row->algorithm, bytes_of(key, sizeof key), &shape->fpe), ST_OK);
}

static void expect_coded(const struct transform_shape *shape, const char *value, bool decode,
                         const char *format, const char *wanted)
{
    struct transform_made made = {0};
    struct reason why = {0};
    enum status st = transform_value(shape, bytes_str(value), bytes_of(tweak, sizeof tweak), decode,
                                     format, &made, &why);
    if (st != ST_OK || !bytes_eq(buf_bytes(&made.text), bytes_str(wanted)))
        fail_msg("%s gives %.*s (%s), not %s", value, (int)made.text.len,
                 (const char *)made.text.data, why.text, wanted);
    transform_made_done(&made);
}

static void every_known_answer_comes_out_both_ways(void **ctx)
{
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct transform_shape shape;
        make_shape(&rows[i], &shape);
        expect_coded(&shape, rows[i].value, false, rows[i].format, rows[i].encoded);
        if (rows[i].decoded != NULL)
            expect_coded(&shape, rows[i].encoded, true, rows[i].decode_format, rows[i].decoded);
        regex_free(shape.regex);
        fpe_free(shape.fpe);
    }
}

/* A group that repeats may have matched before a group with a lower number. */
static void groups_are_joined_by_number_and_written_back_by_place(void **ctx)
{
    (void)ctx;
    static const struct row row = {.mask = "#", .pattern = "(?:(a+)|(b+)|-)*"};
    struct transform_shape shape;
    make_shape(&row, &shape);
    expect_coded(&shape, "bb-aaa", false, NULL, "##-###");
    expect_coded(&shape, "bb-aaa", false, "$1/$2", "###/##");
    regex_free(shape.regex);
}

static void a_value_that_cannot_be_encoded_is_refused(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *value, *why;
    } bad[] = {
        {"", "value: the field is required"},
        {"12345",
         "value: the groups have 5 characters, 6 to 56 are expected for an alphabet of 10"},
        {"123456789012345678901234567890123456789012345678901234567",
         "value: the groups have 57 characters, 6 to 56"},
        {"12345x", "value: the character at byte 6 is not in the alphabet"},
        {"12345\xc3\xa9", "value: the character at byte 6 is not in the alphabet"},
        {"12345\xff", "value: not valid UTF-8"},
        {"12345\xed\xa0\x80", "value: not valid UTF-8"}, /* a surrogate */
        {"12345\n", "value: it does not match the pattern"},
    };
    static const struct row row = {.alphabet = DIGITS, .pattern = "(.+)"};
    struct transform_shape shape;
    make_shape(&row, &shape);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct transform_made made = {0};
        struct reason why = {0};
        assert_status(transform_value(&shape, bytes_str(bad[i].value),
                                      bytes_of(tweak, sizeof tweak), i % 2 != 0, NULL, &made, &why),
                      ST_INVALID);
        if (strstr(why.text, bad[i].why) == NULL)
            fail_msg("%s: %s", bad[i].value, why.text);
        transform_made_done(&made);
    }
    regex_free(shape.regex);
    fpe_free(shape.fpe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_known_answer_comes_out_both_ways),
        cmocka_unit_test(groups_are_joined_by_number_and_written_back_by_place),
        cmocka_unit_test(a_value_that_cannot_be_encoded_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
