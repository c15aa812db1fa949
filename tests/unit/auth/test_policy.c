/* Parsing the text of policies, and the errors for wrong texts. */
#include "support.h"

#include "auth/policy.h"
#include "base/mem.h"

#include <stdio.h>

static struct policy *policy;
static struct reason why;

static int clean(void **ctx)
{
    (void)ctx;
    policy_free(policy);
    policy = NULL;
    why = (struct reason){{0}};
    return 0;
}

static void compile(const char *text)
{
    (void)clean(NULL);
    if (policy_compile(bytes_str(text), &policy, &why) != ST_OK)
        fail_msg("%s\n%s", text, why.text);
}

static void hcl_and_json_say_the_same(void **ctx)
{
    (void)ctx;
    static const char *const texts[] = {
        "name = \"x\"\npath \"/a/+/b*\" {\n  comment = \"c\"\n  capabilities = [\"read\", "
        "\"list\"]\n  allowed_parameters = { \"B\" = [\"x\", 1], \"a\" = [] }\n"
        "  denied_parameters { \"c\" = [true] }\n  required_parameters = [\"D\"]\n"
        "  min_wrapping_ttl = \"1m\"\n  max_wrapping_ttl = 90\n}",
        "{\"name\":\"x\",\"path\":{\"a/+/b*\":{\"capabilities\":[\"list\",\"read\"],"
        "\"allowed_parameters\":{\"a\":[],\"b\":[\"x\",1]},\"denied_parameters\":{\"c\":[true]},"
        "\"required_parameters\":[\"d\"],\"min_wrapping_ttl\":60,\"max_wrapping_ttl\":\"90s\"}}}",
        "{\"path\":[{\"a/+/b*\":[{\"capabilities\":[\"list\",\"read\"],"
        "\"allowed_parameters\":{\"a\":[],\"b\":[\"x\",1]},\"denied_parameters\":{\"c\":true},"
        "\"required_parameters\":[\"d\"],\"min_wrapping_ttl\":60,\"max_wrapping_ttl\":90}]}]}",
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        compile(texts[i]);
        assert_int_equal(policy->n, 1);
        const struct policy_rule *rule = &policy->rules[0];
        assert_bytes(rule->stem, BYTES("a/+/b"));
        assert_true(rule->star && !rule->templated);
        assert_int_equal(rule->n_plus, 1);
        assert_int_equal(rule->caps, CAP_READ | CAP_LIST);
        assert_int_equal(rule->allowed.n, 2);
        assert_bytes(rule->allowed.items[0].name, BYTES("a"));
        assert_int_equal(rule->allowed.items[0].n_values, 0);
        assert_bytes(rule->allowed.items[1].name, BYTES("b"));
        assert_int_equal(rule->allowed.items[1].n_values, 2);
        assert_int_equal(rule->denied.n, 1);
        assert_int_equal(rule->denied.items[0].n_values, 1);
        assert_int_equal(rule->n_required, 1);
        assert_bytes(rule->required[0], BYTES("d"));
        assert_int_equal(rule->min_wrap_s, 60);
        assert_int_equal(rule->max_wrap_s, 90);
    }
}

static void a_path_may_come_several_times(void **ctx)
{
    (void)ctx;
    compile("path \"a\" { capabilities = [\"read\"] }\npath \"a\" { capabilities = [\"list\"] }\n"
            "path \"b\" {}\n");
    assert_int_equal(policy->n, 3);
    assert_int_equal(policy->rules[2].caps, 0);
    compile("# nothing but a comment\n");
    assert_int_equal(policy->n, 0);
}

static void the_older_words_are_known(void **ctx)
{
    (void)ctx;
    const unsigned writes = CAP_CREATE | CAP_READ | CAP_UPDATE | CAP_DELETE | CAP_LIST;
    compile("path \"a\" { policy = \"read\" }\npath \"b\" { policy = \"write\" }\n"
            "path \"c\" { policy = \"sudo\" }\npath \"d\" { policy = \"deny\" }\n");
    assert_int_equal(policy->rules[0].caps, CAP_READ | CAP_LIST);
    assert_int_equal(policy->rules[1].caps, writes);
    assert_int_equal(policy->rules[2].caps, writes | CAP_SUDO);
    assert_int_equal(policy->rules[3].caps, CAP_DENY);
}

static void deny_stands_alone(void **ctx)
{
    (void)ctx;
    compile("path \"a\" { capabilities = [\"read\", \"deny\", \"sudo\"] }");
    assert_int_equal(policy->rules[0].caps, CAP_DENY);
}

static void a_short_limit_does_not_become_none(void **ctx)
{
    (void)ctx;
    compile("path \"a\" { min_wrapping_ttl = 5\nmax_wrapping_ttl = 5 }"); /* one and no other */
    compile("path \"a\" { min_wrapping_ttl = \"10ms\"\nmax_wrapping_ttl = \"1900ms\" }");
    assert_int_equal(policy->rules[0].min_wrap_s, 1);
    assert_int_equal(policy->rules[0].max_wrap_s, 1);
}

static void templates_are_told_from_braces(void **ctx)
{
    (void)ctx;
    compile("path \"a/{{identity.entity.id}}/*\" {}\npath \"a/{b}\" {}\n");
    assert_true(policy->rules[0].templated && !policy->rules[1].templated);
}

static void what_is_wrong_is_told_with_its_line(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *text, *part;
    } rows[] = {
        {"path \"a\" {\n  capabilities = [\"reed\"]\n}", "line 2: path \"a\": invalid capability"},
        {"path \"a\" {\n\n  capability = [\"read\"]\n}", "line 3: path \"a\": invalid key"},
        {"paths \"a\" { }", "line 1: invalid key \"paths\""},
        {"path \"a\" {\n  capabilities = [1]\n}", "line 2"},
        {"path \"a\" {\n  capabilities = 1\n}", "a list is expected"},
        {"path \"a\" {\n  policy = \"all\"\n}", "invalid policy"},
        {"path \"a/+*\" { }", "\"+*\""},
        {"path \"a/{{b\" { }", "template"},
        {"path \"a/}}{{b\" { }", "template"},
        {"path \"a/{{{{b}}}}\" { }", "template"},
        {"path \"a\\u0007\" { }", "unprintable"},
        {"path = 1", "line 1"},
        {"path \"a\" \"b\" { }", "invalid key \"b\""},
        {"path \"a\" { capabilities = [\"read\"", "line 1"},
        {"path \"a\" {\n min_wrapping_ttl = 10\n max_wrapping_ttl = 5\n}", "max_wrapping_ttl"},
        {"path \"a\" {\n min_wrapping_ttl = \"soon\"\n}", "line 2"},
        {"path \"a\" {\n max_wrapping_ttl = \"10ms\"\n}", "less than a second"},
        {"path \"a\" {\n min_wrapping_ttl = -1\n}", "line 2"},
        {"path \"a\" {\n allowed_parameters = []\n}", "line 2"},
        {"path \"a\" {\n denied_parameters = { \"a\" = [], \"A\" = [] }\n}", "repeated"},
        {"path \"a\" {\n denied_parameters { }\n denied_parameters { }\n}", "line 3"},
        {"path \"a\" {\n required_parameters = \"x\"\n}", "line 2"},
        {"path \"a\" {\n required_parameters = [1]\n}", "line 2"},
        {"path \"a\" {\n mfa_methods = [\"x\"]\n}", "not available"},
        {"path \"a\" {\n control_group = { }\n}", "not available"},
        {"{\"path\":{\"a\":{\"capabilities\":[\"read\"]},\"a\":{}}}", "repeated"},
        {"{\"path\":{\"a\":[1]}}", "an object is expected"},
        {"{\"path\":\"a\"}", "path"},
        {"{\"path\":", "line 1"},
        {"\xff", "UTF-8"},
        {"# \xff", "UTF-8"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        why = (struct reason){{0}};
        assert_status(policy_compile(bytes_str(rows[i].text), &policy, &why), ST_INVALID);
        if (strstr(why.text, rows[i].part) == NULL)
            fail_msg("%s\n\"%s\" is not in \"%s\"", rows[i].text, rows[i].part, why.text);
    }
    assert_status(policy_compile(bytes_of("path \"a\" {}\0", 12), &policy, &why), ST_INVALID);
    assert_status(policy_compile(bytes_of("# \0 x", 5), &policy, &why), ST_INVALID);
}

static void long_and_deep_texts_are_refused(void **ctx)
{
    (void)ctx;
    CLEANUP(buf_done) struct buf text = {0};
    while (text.len <= POLICY_TEXT_MAX)
        buf_add_str(&text, "path \"a\" { capabilities = [\"read\"] }\n");
    assert_status(policy_compile(buf_bytes(&text), &policy, &why), ST_TOO_BIG);
    assert_non_null(strstr(why.text, "longer than"));

    buf_clear(&text);
    buf_add_str(&text, "path \"a\" { allowed_parameters = { \"a\" = ");
    for (int i = 0; i < 10000; i++)
        buf_add_u8(&text, '[');
    assert_status(policy_compile(buf_bytes(&text), &policy, &why), ST_INVALID);
    assert_non_null(strstr(why.text, "deeper"));

    buf_clear(&text);
    buf_add_str(&text, "path \"a");
    for (int i = 0; i < POLICY_SEGMENTS_MAX; i++)
        buf_add_str(&text, "/+");
    buf_add_str(&text, "\" { }");
    assert_status(policy_compile(buf_bytes(&text), &policy, &why), ST_INVALID);
    assert_non_null(strstr(why.text, "segments"));

    for (size_t over = 0; over < 2; over++) {
        buf_clear(&text);
        buf_add_str(&text, "path \"");
        for (size_t i = 0; i < POLICY_PATTERN_MAX + over; i++)
            buf_add_u8(&text, 'a');
        buf_add_str(&text, "\" { }");
        assert_status(policy_compile(buf_bytes(&text), &policy, &why), over ? ST_INVALID : ST_OK);
    }
}

static void failed_allocations_are_reported(void **ctx)
{
    (void)ctx;
    for (uint64_t n = 1;; n++) {
        mem_fail_nth(n);
        enum status st = policy_compile(
            BYTES("path \"a\" { capabilities = [\"read\"]\nallowed_parameters = { \"a\" = [1] }\n"
                  "required_parameters = [\"b\"] }"),
            &policy, &why);
        if (!mem_fail_nth(0)) {
            assert_status(st, ST_OK);
            return;
        }
        assert_status(st, ST_NOMEM);
    }
}

static void names_are_trimmed_and_lowered(void **ctx)
{
    (void)ctx;
    CLEANUP(arena_done) struct arena arena = {0};
    const char *name;
    char big[POLICY_NAME_MAX + 2];
    memset(big, 'a', sizeof big);
    assert_status(policy_name(&arena, BYTES("  My-Team/App "), &name), ST_OK);
    assert_string_equal(name, "my-team/app");
    assert_status(policy_name(&arena, BYTES(" "), &name), ST_INVALID);
    assert_status(policy_name(&arena, BYTES("a\nb"), &name), ST_INVALID);
    assert_status(policy_name(&arena, bytes_of(big, sizeof big - 1), &name), ST_INVALID);
    assert_status(policy_name(&arena, bytes_of(big, sizeof big - 2), &name), ST_OK);
}

static void the_built_in_policies_compile(void **ctx)
{
    (void)ctx;
    compile(policy_builtin(BYTES(POLICY_DEFAULT)));
    assert_int_equal(policy->n, 17);
    compile(policy_builtin(BYTES(POLICY_WRAPPING)));
    assert_int_equal(policy->n, 2);
    assert_string_equal(policy_builtin(BYTES("root")), "");
    assert_null(policy_builtin(BYTES("other")));
}

#define TEST(f) cmocka_unit_test_teardown(f, clean)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(hcl_and_json_say_the_same),           TEST(a_path_may_come_several_times),
        TEST(the_older_words_are_known),           TEST(deny_stands_alone),
        TEST(a_short_limit_does_not_become_none),  TEST(templates_are_told_from_braces),
        TEST(what_is_wrong_is_told_with_its_line), TEST(long_and_deep_texts_are_refused),
        TEST(failed_allocations_are_reported),     TEST(names_are_trimmed_and_lowered),
        TEST(the_built_in_policies_compile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
