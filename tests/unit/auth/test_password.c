#include "support.h"

#include "auth/password.h"
#include "router/clock_env.h"

#define LETTERS "rule \"charset\" { charset = \"abc\" }\n"

static struct arena arena;
static struct password_policy policy;
static struct reason why;

static int wipe(void **ctx)
{
    (void)ctx;
    arena_done(&arena);
    return 0;
}

static enum status parse(const char *text)
{
    return password_policy_parse(&arena, bytes_str(text), &policy, &why);
}

static void a_policy_is_a_length_and_sets(void **ctx)
{
    (void)ctx;
    assert_status(
        parse("length = 10\n" LETTERS "rule \"charset\" { charset = \"ccdä\" min-chars = 2 }"),
        ST_OK);
    assert_int_equal(policy.length, 10);
    assert_int_equal(policy.n_rules, 2);
    assert_int_equal(policy.rules[0].min_chars, 0);
    assert_int_equal(policy.rules[1].n, 3); /* c, d, ä */
    assert_int_equal(policy.rules[1].min_chars, 2);
    assert_int_equal(policy.n, 5);
    assert_status(parse("{\"length\":4,\"rule\":[{\"charset\":[{\"charset\":\"a\"}]}]}"), ST_OK);
}

static void what_is_no_policy_is_refused_with_a_reason(void **ctx)
{
    (void)ctx;
    static const char *const texts[] = {
        "",
        "length = 10",
        LETTERS,
        "length = 3\n" LETTERS,
        "length = 101\n" LETTERS,
        "length = \"x\"\n" LETTERS,
        "length = 10\nrule \"words\" {}",
        "length = 10\nrule \"charset\" {}",
        "length = 10\nrule \"charset\" { charset = \"\" }",
        "length = 10\nrule \"charset\" { charset = \"a\\n\" }",
        "length = 10\nrule \"charset\" { charset = \"a\" min-chars = -1 }",
        "length = 10\nrule \"charset\" { charset = \"a\" min-chars = 11 }",
        "length = 10\nrule \"charset\" { charset = \"a\" minchars = 1 }",
        "length = 10\nother = 1\n" LETTERS,
        "length = 10\nrule = 5",
        "[1]",
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        why.text[0] = '\0';
        if (parse(texts[i]) != ST_INVALID || why.text[0] == '\0')
            fail_msg("%s is taken", texts[i]);
    }
}

static void every_character_of_every_set_is_used(void **ctx)
{
    struct clock_env env;
    unsigned seen[256] = {0}, first[256] = {0};
    (void)ctx;
    clock_env_init(&env);
    assert_status(parse("length = 8\nrule \"charset\" { charset = \"xyz\" min-chars = 2 }\n"
                        "rule \"charset\" { charset = \"12\" min-chars = 5 }"),
                  ST_OK);
    for (int i = 0; i < 1000; i++) {
        CLEANUP(buf_done) struct buf out = {0};
        unsigned letters = 0;
        assert_status(password_make(&policy, &env.env, &out), ST_OK);
        assert_int_equal(out.len, 8);
        first[out.data[0]]++;
        for (size_t k = 0; k < out.len; k++) {
            seen[out.data[k]]++;
            letters += out.data[k] >= 'x';
        }
        assert_true(letters == 2 || letters == 3);
    }
    for (const char *c = "xyz12"; *c != '\0'; c++) {
        assert_true(seen[(unsigned char)*c] > 300);
        assert_true(first[(unsigned char)*c] > 20); /* in any place */
    }
    timer_heap_done(&env.timers);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_teardown(f, wipe)
    const struct CMUnitTest tests[] = {
        TEST(a_policy_is_a_length_and_sets),
        TEST(what_is_no_policy_is_refused_with_a_reason),
        TEST(every_character_of_every_set_is_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
