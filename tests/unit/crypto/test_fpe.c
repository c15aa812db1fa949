#include "support.h"

#include "crypto/crypto.h"
#include "crypto/fpe/fpe_internal.h"
#include "text/encode.h"

#include <stdio.h>
#include <stdlib.h>

enum { VECTORS = 156, LINE_MAX_BYTES = 16384 };

struct vector {
    char id[64], algorithm[8];
    uint8_t key[32], tweak[FPE_TWEAK_MAX];
    size_t key_bytes, tweak_bytes;
    unsigned radix;
    uint16_t plain[FPE_NUMERALS_MAX], cipher[FPE_NUMERALS_MAX];
    size_t n;
};

static size_t read_numerals(char *text, uint16_t ret[FPE_NUMERALS_MAX])
{
    size_t n = 0;
    char *save = NULL;
    for (char *one = strtok_r(text, ",", &save); one != NULL; one = strtok_r(NULL, ",", &save)) {
        assert_true(n < FPE_NUMERALS_MAX);
        ret[n++] = (uint16_t)strtoul(one, NULL, 10);
    }
    return n;
}

static size_t read_hex(const char *text, uint8_t *ret)
{
    if (strcmp(text, "-") == 0)
        return 0;
    assert_status(text_hex_parse(bytes_str(text), ret), ST_OK);
    return strlen(text) / 2;
}

static void read_vector(char *line, struct vector *v)
{
    char *parts[7], *save = NULL;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
        parts[i] = strtok_r(i == 0 ? line : NULL, " \n", &save);
        assert_non_null(parts[i]);
    }
    assert_true(strlen(parts[0]) < sizeof v->id && strlen(parts[2]) <= 2 * sizeof v->key);
    assert_true(strlen(parts[3]) <= 2 * sizeof v->tweak);
    (void)snprintf(v->id, sizeof v->id, "%s", parts[0]);
    (void)snprintf(v->algorithm, sizeof v->algorithm, "%s", parts[1]);
    v->key_bytes = read_hex(parts[2], v->key);
    v->tweak_bytes = read_hex(parts[3], v->tweak);
    v->radix = (unsigned)strtoul(parts[4], NULL, 10);
    v->n = read_numerals(parts[5], v->plain);
    assert_int_equal(read_numerals(parts[6], v->cipher), v->n);
}

/* FF3 of 2016 differs from FF3-1 only in how 8 bytes of tweak give the halves. */
static enum status run(struct fpe *fpe, const struct vector *v, uint16_t *numerals, bool decrypt)
{
    struct bytes tweak = bytes_of(v->tweak, v->tweak_bytes);
    const struct fpe_job job = {v->radix, numerals, (unsigned)v->n, decrypt};
    uint8_t halves[2][4];
    if (strcmp(v->algorithm, "FF3") == 0) {
        assert_int_equal(v->tweak_bytes, sizeof halves);
        memcpy(halves, v->tweak, sizeof halves);
        return fpe_ff3_run(fpe, halves, &job);
    }
    return (decrypt ? fpe_decrypt : fpe_encrypt)(fpe, v->radix, tweak, numerals, v->n);
}

static void check_vector(const struct vector *v)
{
    uint16_t numerals[FPE_NUMERALS_MAX];
    struct fpe *fpe;
    bool is_ff1 = strcmp(v->algorithm, "FF1") == 0;
    assert_status(fpe_new(is_ff1 ? FPE_FF1 : FPE_FF3_1, bytes_of(v->key, v->key_bytes), &fpe),
                  ST_OK);
    memcpy(numerals, v->plain, sizeof numerals);
    assert_status(run(fpe, v, numerals, false), ST_OK);
    if (memcmp(numerals, v->cipher, v->n * sizeof *numerals) != 0)
        fail_msg("%s: the encryption differs", v->id);
    assert_status(run(fpe, v, numerals, true), ST_OK);
    if (memcmp(numerals, v->plain, v->n * sizeof *numerals) != 0)
        fail_msg("%s: the decryption differs", v->id);
    fpe_free(fpe);
}

static void every_known_answer_comes_out_both_ways(void **ctx)
{
    (void)ctx;
    static char line[LINE_MAX_BYTES];
    static struct vector v;
    unsigned n = 0;
    FILE *file = fopen(UNIT_DIR "/crypto/data/fpe/vectors.txt", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL) {
        if (line[0] == '#')
            continue;
        assert_non_null(strchr(line, '\n'));
        read_vector(line, &v);
        check_vector(&v);
        n++;
    }
    (void)fclose(file);
    assert_int_equal(n, VECTORS);
}

static void the_limits_of_lengths_are_exact(void **ctx)
{
    (void)ctx;
    static const struct {
        unsigned radix, min, max;
    } rows[] = {
        {2, 20, 192},  {3, 13, 120},  {8, 7, 64},     {10, 6, 56},    {16, 5, 48},  {24, 5, 40},
        {26, 5, 40},   {32, 4, 38},   {33, 4, 38},    {36, 4, 36},    {52, 4, 32},  {62, 4, 32},
        {64, 4, 32},   {94, 4, 28},   {100, 3, 28},   {256, 3, 24},   {999, 3, 18}, {1000, 2, 18},
        {1024, 2, 18}, {4096, 2, 16}, {65535, 2, 12}, {65536, 2, 12},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct fpe_limits ff3 = fpe_limits(FPE_FF3_1, rows[i].radix);
        struct fpe_limits ff1 = fpe_limits(FPE_FF1, rows[i].radix);
        assert_int_equal(ff3.min, rows[i].min);
        assert_int_equal(ff3.max, rows[i].max);
        assert_int_equal(ff1.min, rows[i].min);
        assert_true(ff1.max >= 512 && ff1.max <= FPE_NUMERALS_MAX);
    }
}

/* The second way: powers by multiplication, for every radix. */
static void the_limits_agree_with_powers_of_the_radix(void **ctx)
{
    (void)ctx;
    for (unsigned radix = FPE_RADIX_MIN; radix <= FPE_RADIX_MAX; radix++) {
        struct fpe_limits limits = fpe_limits(FPE_FF3_1, radix);
        fpe_wide power = 1, most = (fpe_wide)1 << 96;
        unsigned n = 0;
        for (; power < 1000000; n++)
            power *= radix;
        assert_int_equal(limits.min, n);
        for (n = 0, power = 1; power * radix <= most; n++)
            power *= radix;
        assert_int_equal(limits.max, 2 * n);
    }
}

static uint16_t draw(unsigned radix)
{
    uint32_t v;
    assert_status(crypto_random(&v, sizeof v), ST_OK);
    return (uint16_t)(v % radix);
}

/* One length of one radix: decryption gives the value again, another tweak another value. */
static void check_length(struct fpe *fpe, unsigned radix, unsigned n)
{
    uint16_t value[FPE_NUMERALS_MAX], coded[FPE_NUMERALS_MAX], other[FPE_NUMERALS_MAX];
    const uint8_t tweaks[2][FPE_TWEAK_BYTES] = {{1, 2, 3, 4, 5, 6, 7}, {1, 2, 3, 5, 5, 6, 7}};
    struct bytes tweak = bytes_of(tweaks[0], FPE_TWEAK_BYTES);
    for (unsigned i = 0; i < n; i++)
        coded[i] = other[i] = value[i] = draw(radix);
    assert_status(fpe_encrypt(fpe, radix, tweak, coded, n), ST_OK);
    for (unsigned i = 0; i < n; i++)
        assert_true(coded[i] < radix);
    assert_status(fpe_encrypt(fpe, radix, bytes_of(tweaks[1], FPE_TWEAK_BYTES), other, n), ST_OK);
    assert_status(fpe_decrypt(fpe, radix, tweak, coded, n), ST_OK);
    assert_memory_equal(coded, value, n * sizeof *value);
    assert_status(fpe_decrypt(fpe, radix, tweak, other, n), ST_OK);
    if (n > 2 * fpe_limits(FPE_FF3_1, radix).min) /* in short values another tweak may agree */
        assert_memory_not_equal(other, value, n * sizeof *value);
}

static void every_length_of_many_radices_comes_back(void **ctx)
{
    (void)ctx;
    static const unsigned radices[] = {2, 3, 10, 26, 36, 62, 255, 256, 257, 1000, 65535, 65536};
    static const uint8_t key[32] = {7, 1, 9};
    for (int algorithm = FPE_FF3_1; algorithm <= FPE_FF1; algorithm++) {
        struct fpe *fpe;
        assert_status(fpe_new((enum fpe_algorithm)algorithm, bytes_of(key, sizeof key), &fpe),
                      ST_OK);
        for (size_t i = 0; i < ARRAY_LEN(radices); i++) {
            struct fpe_limits limits = fpe_limits((enum fpe_algorithm)algorithm, radices[i]);
            for (unsigned n = limits.min; n <= limits.max;
                 n += n < 64 || n + 4 > limits.max ? 1 : 61)
                check_length(fpe, radices[i], n);
        }
        fpe_free(fpe);
    }
}

/* Reduction by the inverse against the division of the compiler, at the edges and at random. */
static void reduction_agrees_with_division(void **ctx)
{
    (void)ctx;
    for (unsigned radix = 2; radix < 400; radix += radix < 20 ? 1 : 37)
        for (unsigned n = 1; n <= fpe_limits(FPE_FF3_1, radix).max / 2; n++) {
            const struct fpe_modulus modulus = fpe_modulus_of(radix, n);
            fpe_wide numbers[8] = {0,
                                   1,
                                   modulus.m - 1,
                                   modulus.m,
                                   ~(fpe_wide)0,
                                   ~(fpe_wide)0 / modulus.m * modulus.m,
                                   ~(fpe_wide)0 / modulus.m * modulus.m - 1};
            assert_status(crypto_random(&numbers[7], sizeof numbers[7]), ST_OK);
            for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
                assert_true(fpe_reduce(&modulus, numbers[i]) == numbers[i] % modulus.m);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_known_answer_comes_out_both_ways),
        cmocka_unit_test(the_limits_of_lengths_are_exact),
        cmocka_unit_test(the_limits_agree_with_powers_of_the_radix),
        cmocka_unit_test(every_length_of_many_radices_comes_back),
        cmocka_unit_test(reduction_agrees_with_division),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
