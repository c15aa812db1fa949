/* Splitting and combining key shares, compared with a slow model of the field. */
#include "barrier/shamir.h"
#include "state/fake_env.h"
#include "support.h"
#include "text/encode.h"

#include <string.h>

static const uint8_t secret[32] = "a key that 3 of 5 people can use";

/* Multiplication by logarithms: another way than the one under test. */
static uint8_t model_multiply(uint8_t a, uint8_t b)
{
    uint8_t power[255], log[256] = {0}, x = 1;
    for (unsigned i = 0; i < 255; i++) {
        power[i] = x;
        log[x] = (uint8_t)i;
        x ^= (uint8_t)((x << 1) ^ ((x & 0x80) != 0 ? 0x1B : 0)); /* times 3, a generator */
    }
    return a == 0 || b == 0 ? 0 : power[(log[a] + log[b]) % 255];
}

static void every_choice_of_enough_shares_gives_the_secret(void **state)
{
    (void)state;
    struct fake_env env;
    uint8_t shares[5][33], some[5 * 33], back[32];
    fake_env_init(&env, 1);
    shamir_split(&env.env, bytes_of(secret, 32), 5, 3, shares[0]);
    for (unsigned set = 0; set < 32; set++) {
        unsigned n = 0;
        for (unsigned i = 0; i < 5; i++)
            if ((set >> i & 1) != 0)
                memcpy(some + 33 * n++, shares[i], 33);
        if (n < 2)
            continue;
        assert_status(shamir_combine(some, n, 33, back), ST_OK);
        if (n >= 3)
            assert_memory_equal(back, secret, 32);
        else
            assert_memory_not_equal(back, secret, 32);
    }
}

static void the_largest_split_has_255_different_points(void **state)
{
    (void)state;
    struct fake_env env;
    static uint8_t shares[255 * 33];
    uint8_t back[32];
    bool seen[256] = {false};
    fake_env_init(&env, 2);
    shamir_split(&env.env, bytes_of(secret, 32), 255, 255, shares);
    for (unsigned i = 0; i < 255; i++) {
        assert_false(seen[shares[33 * i + 32]]);
        seen[shares[33 * i + 32]] = true;
    }
    assert_false(seen[0]);
    assert_status(shamir_combine(shares, 255, 33, back), ST_OK);
    assert_memory_equal(back, secret, 32);
    assert_status(shamir_combine(shares, 254, 33, back), ST_OK);
    assert_memory_not_equal(back, secret, 32);
}

/* Two shares are a straight line: y = s + m x, which the model solves by itself. */
static void the_field_is_that_of_aes(void **state)
{
    (void)state;
    struct fake_env env;
    fake_env_init(&env, 3);
    for (unsigned round = 0; round < 256; round++) {
        uint8_t one = (uint8_t)round, shares[2][2];
        shamir_split(&env.env, bytes_of(&one, 1), 2, 2, shares[0]);
        bool fits = false;
        for (unsigned slope = 0; slope < 256; slope++) {
            uint8_t at0 = model_multiply((uint8_t)slope, shares[0][1]) ^ one;
            uint8_t at1 = model_multiply((uint8_t)slope, shares[1][1]) ^ one;
            fits = fits || (at0 == shares[0][0] && at1 == shares[1][0]);
        }
        assert_true(fits);
    }
}

/* A known answer: upstream's field, and the form of its shares with the point behind the values. */
static void shares_in_the_form_of_upstream_are_combined(void **state)
{
    static const char *const texts[] = {"4cfd8d98df38cb81b218ec91443e630301",
                                        "b4f024dfae2b65236b8d7c9b1088a7b87f",
                                        "4316058aa4fb60d1fa86045c011f9592fe"};
    uint8_t shares[3][17], back[16];
    (void)state;
    for (unsigned i = 0; i < 3; i++)
        assert_status(text_hex_parse(bytes_str(texts[i]), shares[i]), ST_OK);
    assert_status(shamir_combine(shares[0], 3, sizeof shares[0], back), ST_OK);
    for (unsigned i = 0; i < sizeof back; i++)
        assert_int_equal(back[i], i);
}

static void a_point_twice_or_at_zero_is_refused(void **state)
{
    (void)state;
    uint8_t back[1], twice[] = {5, 1, 6, 1}, zero[] = {5, 1, 6, 0}, good[] = {5, 1, 6, 2};
    assert_status(shamir_combine(twice, 2, 2, back), ST_INVALID);
    assert_status(shamir_combine(zero, 2, 2, back), ST_INVALID);
    assert_status(shamir_combine(good, 2, 2, back), ST_OK);
}

/* Fewer shares than it takes say nothing: over many splits of one secret every value turns up. */
static void one_share_of_two_shows_nothing(void **state)
{
    (void)state;
    struct fake_env env;
    bool seen[256] = {false};
    fake_env_init(&env, 4);
    for (unsigned i = 0; i < 8000; i++) {
        uint8_t one = 7, shares[2][2];
        shamir_split(&env.env, bytes_of(&one, 1), 2, 2, shares[0]);
        seen[shares[0][0]] = true;
    }
    for (unsigned i = 0; i < 256; i++)
        assert_true(seen[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_choice_of_enough_shares_gives_the_secret),
        cmocka_unit_test(the_largest_split_has_255_different_points),
        cmocka_unit_test(the_field_is_that_of_aes),
        cmocka_unit_test(shares_in_the_form_of_upstream_are_combined),
        cmocka_unit_test(a_point_twice_or_at_zero_is_refused),
        cmocka_unit_test(one_share_of_two_shows_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
