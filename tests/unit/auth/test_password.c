#include "support.h"

#include "auth/password.h"
#include "router/clock_env.h"

#include <stdio.h>

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

/* The one character of its rule may stand anywhere, also at the end and at the beginning. */
static void no_place_belongs_to_a_rule(void **ctx)
{
    struct clock_env env;
    unsigned at[4] = {0};
    (void)ctx;
    clock_env_init(&env);
    assert_status(parse("length = 4\nrule \"charset\" { charset = \"a\" min-chars = 3 }\n"
                        "rule \"charset\" { charset = \"b\" min-chars = 1 }"),
                  ST_OK);
    for (int i = 0; i < 1000; i++) {
        CLEANUP(buf_done) struct buf out = {0};
        assert_status(password_make(&policy, &env.env, &out), ST_OK);
        const uint8_t *b = memchr(out.data, 'b', out.len);
        assert_non_null(b);
        at[b - out.data]++;
    }
    for (size_t i = 0; i < ARRAY_LEN(at); i++)
        assert_true(at[i] > 150);
    timer_heap_done(&env.timers);
}

/* All ones, again and again, before anything else. */
struct high_env {
    struct env env;
    unsigned draws, high;
};

static void high_random(struct env *env, void *buf, size_t n)
{
    struct high_env *h = CONTAINER_OF(env, struct high_env, env);
    memset(buf, h->draws++ < h->high ? 0xff : 0, n);
}

/* 2^32 is no multiple of 3: what is left over would favour the first of three characters. */
static void what_would_favour_a_character_is_drawn_again(void **ctx)
{
    (void)ctx;
    static const struct env_ops ops = {.random = high_random};
    unsigned draws[2];
    assert_status(parse("length = 4\n" LETTERS), ST_OK);
    for (unsigned high = 0; high < 2; high++) {
        CLEANUP(buf_done) struct buf out = {0};
        struct high_env h = {.env = {.ops = &ops}, .high = 5 * high};
        assert_status(password_make(&policy, &h.env, &out), ST_OK);
        assert_memory_equal(out.data, "aaaa", 4);
        draws[high] = h.draws;
    }
    assert_int_equal(draws[1], draws[0] + 5);
}

static void limits_are_what_they_are_said_to_be(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf text = {0};
    for (unsigned over = 0; over < 2; over++) {
        enum status wanted = over ? ST_INVALID : ST_OK;
        char sums[200];
        (void)snprintf(sums, sizeof sums,
                       "length = 8\nrule \"charset\" { charset = \"a\" min-chars = 3 }\n"
                       "rule \"charset\" { charset = \"b\" min-chars = %u }",
                       5 + over);
        assert_status(parse(sums), wanted);

        buf_clear(&text);
        buf_add_str(&text, "length = 4\n");
        for (unsigned i = 0; i < PASSWORD_RULES_MAX + over; i++)
            buf_add_str(&text, LETTERS);
        buf_add_u8(&text, 0);
        assert_status(parse((const char *)text.data), wanted);

        buf_clear(&text);
        buf_add_str(&text, "length = 100\nrule \"charset\" { charset = \"");
        for (unsigned i = 0; i < PASSWORD_CHARSET_MAX + over; i++)
            buf_add_u8(&text, 'a');
        buf_add(&text, bytes_of("\" }", 4));
        assert_status(parse((const char *)text.data), wanted);
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_teardown(f, wipe)
    const struct CMUnitTest tests[] = {
        TEST(a_policy_is_a_length_and_sets),
        TEST(what_is_no_policy_is_refused_with_a_reason),
        TEST(every_character_of_every_set_is_used),
        TEST(no_place_belongs_to_a_rule),
        TEST(what_would_favour_a_character_is_drawn_again),
        TEST(limits_are_what_they_are_said_to_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
