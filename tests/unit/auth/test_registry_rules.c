/* Rules of the registry's policies: their text, and what several of them allow together. */
#include "support.h"

#include "auth/registry/registry_rules.h"
#include "base/mem.h"

#include <stdio.h>

enum { POLICIES_MAX = 4 };

static struct registry_rules *rules[POLICIES_MAX];
static size_t n_rules;
static struct registry_acl *acl;

static int clean(void **ctx)
{
    (void)ctx;
    registry_acl_free(acl);
    acl = NULL;
    while (n_rules != 0)
        registry_rules_free(rules[--n_rules]);
    return 0;
}

static void add(const char *text)
{
    struct reason why = {{0}};
    assert_true(n_rules < POLICIES_MAX);
    if (registry_rules_compile(bytes_str(text), &rules[n_rules], &why) != ST_OK)
        fail_msg("%s\n%s", text, why.text);
    n_rules++;
}

static void combine(enum registry_level otherwise)
{
    registry_acl_free(acl);
    assert_status(
        registry_acl_new((const struct registry_rules *const *)rules, n_rules, otherwise, &acl),
        ST_OK);
}

static void only(const char *text)
{
    (void)clean(NULL);
    add(text);
    combine(REGISTRY_DENY);
}

/* "-": nothing; else the highest level. */
static const char *level_at(enum registry_resource resource, const char *name)
{
    static const char *const words[] = {"-", "read", "list", "write"};
    unsigned level = 0;
    for (enum registry_level asked = REGISTRY_READ; asked <= REGISTRY_WRITE; asked++)
        if (registry_acl_allows(acl, resource, bytes_str(name), asked)) {
            assert_int_equal(level, asked - 1); /* a level includes those below */
            level = asked;
        }
    return words[level];
}

static void hcl_and_json_say_the_same(void **ctx)
{
    (void)ctx;
    static const char *const texts[] = {
        "operator = \"read\"\nkey_prefix \"app/\" { policy = \"list\" }\n"
        "key \"app/x\" { policy = \"write\" }\nkey_prefix \"\" { policy = \"deny\" }",
        "{\"operator\":\"read\",\"key\":{\"app/x\":{\"policy\":\"write\"}},"
        "\"key_prefix\":{\"app/\":{\"policy\":\"list\"},\"\":{\"policy\":\"deny\"}}}",
        "{\"operator\":\"read\",\"key\":[{\"app/x\":[{\"policy\":\"write\"}]}],"
        "\"key_prefix\":[{\"app/\":{\"policy\":\"list\"}},{\"\":{\"policy\":\"deny\"}}]}",
    };
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        only(texts[i]);
        assert_string_equal(level_at(REGISTRY_OPERATOR, "any"), "read");
        assert_string_equal(level_at(REGISTRY_ACL, ""), "-");
        assert_string_equal(level_at(REGISTRY_KEY, "app/x"), "write");
        assert_string_equal(level_at(REGISTRY_KEY, "app/xy"), "list");
        assert_string_equal(level_at(REGISTRY_KEY, "app"), "-");
        assert_null(registry_rules_unknown(rules[0]));
    }
}

static void every_block_has_a_name_and_a_prefix_form(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *word;
        enum registry_resource resource;
    } named[] = {
        {"agent", REGISTRY_AGENT},     {"event", REGISTRY_EVENT}, {"key", REGISTRY_KEY},
        {"node", REGISTRY_NODE},       {"query", REGISTRY_QUERY}, {"service", REGISTRY_SERVICE},
        {"session", REGISTRY_SESSION},
    };
    static const struct {
        const char *word;
        enum registry_resource resource;
    } plain[] = {
        {"acl", REGISTRY_ACL},           {"keyring", REGISTRY_KEYRING}, {"mesh", REGISTRY_MESH},
        {"operator", REGISTRY_OPERATOR}, {"peering", REGISTRY_PEERING},
    };
    char text[200];
    for (size_t i = 0; i < ARRAY_LEN(named); i++) {
        (void)snprintf(text, sizeof text,
                       "%s \"a\" { policy = \"write\" }\n%s_prefix \"b\" { policy = \"read\" }",
                       named[i].word, named[i].word);
        only(text);
        assert_string_equal(level_at(named[i].resource, "a"), "write");
        assert_string_equal(level_at(named[i].resource, "ab"), "-");
        assert_string_equal(level_at(named[i].resource, "bc"), "read");
        for (size_t k = 0; k < ARRAY_LEN(named); k++)
            if (k != i)
                assert_string_equal(level_at(named[k].resource, "a"), "-");
    }
    for (size_t i = 0; i < ARRAY_LEN(plain); i++) {
        (void)snprintf(text, sizeof text, "%s = \"write\"", plain[i].word);
        only(text);
        assert_string_equal(level_at(plain[i].resource, ""), "write");
        for (size_t k = 0; k < ARRAY_LEN(plain); k++)
            if (k != i)
                assert_string_equal(level_at(plain[k].resource, ""), "-");
    }
}

static void equal_rules_become_one(void **ctx)
{
    (void)ctx;
    add("key_prefix \"a\" { policy = \"read\" }\nacl = \"read\"\nkey \"w\" { policy = \"list\" }");
    add("key_prefix \"a\" { policy = \"write\" }\nacl = \"write\"\nkey \"w\" { policy = \"write\" "
        "}");
    add("key_prefix \"a\" { policy = \"list\" }\nkey \"w\" { policy = \"list\" }");
    combine(REGISTRY_DENY);
    assert_string_equal(level_at(REGISTRY_KEY, "ab"), "write");
    assert_string_equal(level_at(REGISTRY_ACL, ""), "write");
    assert_string_equal(level_at(REGISTRY_KEY, "w"), "write");
    add("key_prefix \"a\" { policy = \"deny\" }\nacl = \"deny\"");
    combine(REGISTRY_DENY);
    assert_string_equal(level_at(REGISTRY_KEY, "ab"), "-");
    assert_string_equal(level_at(REGISTRY_ACL, ""), "-");
    assert_string_equal(level_at(REGISTRY_KEY, "w"), "write");
}

static void the_longest_prefix_decides_and_hands_over_to_none(void **ctx)
{
    (void)ctx;
    only("key_prefix \"\" { policy = \"write\" }\nkey_prefix \"a\" { policy = \"read\" }\n"
         "key_prefix \"ab/c\" { policy = \"deny\" }\nkey_prefix \"ab\" { policy = \"list\" }\n"
         "key \"ab/cd\" { policy = \"read\" }\nkey_prefix \"aa\" { policy = \"deny\" }");
    assert_string_equal(level_at(REGISTRY_KEY, ""), "write");
    assert_string_equal(level_at(REGISTRY_KEY, "b"), "write");
    assert_string_equal(level_at(REGISTRY_KEY, "a"), "read");
    assert_string_equal(level_at(REGISTRY_KEY, "ac"), "read");
    assert_string_equal(level_at(REGISTRY_KEY, "aab"), "-");
    assert_string_equal(level_at(REGISTRY_KEY, "ab/b"), "list");
    assert_string_equal(level_at(REGISTRY_KEY, "ab/c"), "-");
    assert_string_equal(level_at(REGISTRY_KEY, "ab/cd"), "read");
    assert_string_equal(level_at(REGISTRY_KEY, "ab/cde"), "-");
    assert_string_equal(level_at(REGISTRY_KEY, "ab/d"), "list");
}

static void without_a_rule_the_default_decides(void **ctx)
{
    (void)ctx;
    combine(REGISTRY_WRITE);
    assert_string_equal(level_at(REGISTRY_NODE, "n"), "write");
    assert_string_equal(level_at(REGISTRY_OPERATOR, ""), "write");
    assert_string_equal(level_at(REGISTRY_ACL, ""), "-"); /* only a rule gives rights on ACLs */
    add("node_prefix \"\" { policy = \"read\" }");
    combine(REGISTRY_WRITE);
    assert_string_equal(level_at(REGISTRY_NODE, "n"), "read");
    assert_string_equal(level_at(REGISTRY_KEY, "n"), "write");
    combine(REGISTRY_DENY);
    assert_string_equal(level_at(REGISTRY_KEY, "n"), "-");
    assert_true(registry_acl_bytes(acl) > 0);
}

static void intentions_follow_the_policy_of_a_service(void **ctx)
{
    (void)ctx;
    only("service \"w\" { policy = \"write\" }\nservice \"r\" { policy = \"read\" }\n"
         "service \"d\" { policy = \"deny\" }\n"
         "service_prefix \"x\" { policy = \"read\" intentions = \"write\" }\n"
         "service \"n\" { policy = \"write\" intentions = \"deny\" }");
    assert_string_equal(level_at(REGISTRY_INTENTION, "w"), "read");
    assert_string_equal(level_at(REGISTRY_INTENTION, "r"), "read");
    assert_string_equal(level_at(REGISTRY_INTENTION, "d"), "-");
    assert_string_equal(level_at(REGISTRY_INTENTION, "xy"), "write");
    assert_string_equal(level_at(REGISTRY_SERVICE, "xy"), "read");
    assert_string_equal(level_at(REGISTRY_INTENTION, "n"), "-");
    assert_string_equal(level_at(REGISTRY_SERVICE, "n"), "write");
}

static void what_has_no_meaning_is_named(void **ctx)
{
    (void)ctx;
    only("identity \"x\" { policy = \"read\" }\nnamespace \"y\" { acl = \"read\" }\n"
         "sentinel { code = \"main = rule { true }\" }\nkey \"k\" { policy = \"read\" sentinel {} "
         "}");
    assert_null(registry_rules_unknown(rules[0]));
    only("key_prefx \"a\" { policy = \"read\" }\nacl = \"read\"");
    assert_string_equal(registry_rules_unknown(rules[0]), "key_prefx");
    assert_string_equal(level_at(REGISTRY_ACL, ""), "read");
    only("acl_prefix \"a\" { policy = \"read\" }");
    assert_string_equal(registry_rules_unknown(rules[0]), "acl_prefix");
    only("key \"a\" { policy = \"read\" intentions = \"read\" }");
    assert_string_equal(registry_rules_unknown(rules[0]), "key.intentions");
    only("");
    assert_null(registry_rules_unknown(rules[0]));
}

static void what_is_wrong_is_told(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *text, *why;
    } wrong[] = {
        {"acl = \"all\"", "Invalid acl policy: \"all\""},
        {"operator = \"list\"", "Invalid operator policy: \"list\""},
        {"mesh = 1", "Invalid mesh policy: \"\""},
        {"key_prefix \"a\" { policy = \"all\" }",
         "Invalid key_prefix policy: {Name:\"a\" Policy:\"all\"}"},
        {"node \"a\" { policy = \"list\" }", "Invalid node policy: {Name:\"a\" Policy:\"list\"}"},
        {"event \"a\" {}", "Invalid event policy: {Name:\"a\" Policy:\"\"}"},
        {"service \"a\" { policy = \"read\" intentions = \"list\" }",
         "Invalid service intentions policy: {Name:\"a\" Intentions:\"list\"}"},
        {"key { policy = \"read\" }", "line 1: key needs a name and a block with a policy"},
        {"\nkey = \"read\"", "line 2: key needs a name and a block with a policy"},
        {"{\"key\":[{\"a\":[1]}]}", "line 1: key needs a name and a block with a policy"},
        {"key \"a\" {", "Failed to parse ACL rules: line 1: "},
        {"acl = \"read\"\nacl = \"write\"", "Failed to parse ACL rules: line 2: "},
    };
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        struct reason why = {{0}};
        struct registry_rules *none;
        assert_status(registry_rules_compile(bytes_str(wrong[i].text), &none, &why), ST_INVALID);
        assert_null(none);
        size_t n = strlen(wrong[i].why);
        if (strncmp(why.text, wrong[i].why, n) != 0 ||
            (wrong[i].why[n - 1] != ' ' && why.text[n] != '\0'))
            fail_msg("%s: %s", wrong[i].text, why.text);
    }
}

static void long_texts_are_refused(void **ctx)
{
    (void)ctx;
    struct reason why = {{0}};
    struct registry_rules *none;
    uint8_t *text = mem_alloc(REGISTRY_RULES_TEXT_MAX + 1);
    assert_non_null(text);
    memset(text, '\n', REGISTRY_RULES_TEXT_MAX + 1);
    assert_status(registry_rules_compile(bytes_of(text, REGISTRY_RULES_TEXT_MAX + 1), &none, &why),
                  ST_TOO_BIG);
    memset(text, 'a', REGISTRY_RULES_TEXT_MAX);
    memcpy(text, "key \"", 5);
    static const char end[] = "\" { policy = \"read\" }";
    memcpy(text + 5 + REGISTRY_RULES_NAME_MAX, end, sizeof end - 1);
    size_t len = 5 + REGISTRY_RULES_NAME_MAX + sizeof end - 1;
    assert_status(registry_rules_compile(bytes_of(text, len), &rules[0], &why), ST_OK);
    n_rules = 1;
    memcpy(text + 6 + REGISTRY_RULES_NAME_MAX, end, sizeof end - 1);
    text[5 + REGISTRY_RULES_NAME_MAX] = 'a';
    assert_status(registry_rules_compile(bytes_of(text, len + 1), &none, &why), ST_INVALID);
    assert_string_equal(why.text, "line 1: a name is longer than 8192 bytes");
    mem_free(text);
}

static void failed_allocations_are_reported(void **ctx)
{
    (void)ctx;
    struct reason why = {{0}};
    for (uint64_t n = 1;; n++) {
        mem_fail_nth(n);
        enum status st = registry_rules_compile(BYTES("key \"a\" { policy = \"read\" }\nodd = 1"),
                                                &rules[0], &why);
        n_rules = st == ST_OK;
        if (st == ST_OK)
            st = registry_acl_new((const struct registry_rules *const *)rules, 1, REGISTRY_DENY,
                                  &acl);
        if (!mem_fail_nth(0)) {
            assert_status(st, ST_OK);
            return;
        }
        assert_status(st, ST_NOMEM);
        (void)clean(NULL);
    }
}

#define TEST(f) cmocka_unit_test_teardown(f, clean)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(hcl_and_json_say_the_same),
        TEST(every_block_has_a_name_and_a_prefix_form),
        TEST(equal_rules_become_one),
        TEST(the_longest_prefix_decides_and_hands_over_to_none),
        TEST(without_a_rule_the_default_decides),
        TEST(intentions_follow_the_policy_of_a_service),
        TEST(what_has_no_meaning_is_named),
        TEST(what_is_wrong_is_told),
        TEST(long_texts_are_refused),
        TEST(failed_allocations_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
