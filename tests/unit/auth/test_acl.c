/* Which rule of a policy decides: compared with a table, and with a matcher written directly from
 * the documented rules. */
#include "support.h"

#include "auth/acl.h"
#include "base/mem.h"
#include "text/json.h"

#include <stdio.h>
#include <stdlib.h>

enum { POLICIES_MAX = 8 };

static struct policy *compiled(const char *text)
{
    struct policy *policy = NULL;
    struct reason why = {{0}};
    if (policy_compile(bytes_str(text), &policy, &why) != ST_OK)
        fail_msg("%s\n%s", text, why.text);
    return policy;
}

/* Policies and what they make together. */
struct made {
    struct policy *policies[POLICIES_MAX];
    struct acl *acl;
};

static struct made make(const char *const *texts, size_t n)
{
    struct made m = {0};
    assert_true(n <= POLICIES_MAX);
    for (size_t i = 0; i < n; i++)
        m.policies[i] = compiled(texts[i]);
    assert_status(acl_new((const struct policy *const *)m.policies, n, &m.acl), ST_OK);
    return m;
}

static void unmake(struct made *m)
{
    acl_free(m->acl);
    for (size_t i = 0; i < POLICIES_MAX; i++)
        policy_free(m->policies[i]);
}

static enum status ask(const struct acl *acl, const char *path, unsigned caps)
{
    struct acl_question q = {.path = bytes_str(path), .caps = caps, .list = (caps & CAP_LIST) != 0};
    const struct policy_rule *rule;
    return acl_check(acl, &q, &rule);
}

/* Each pattern allows one capability of its own, so that who decided shows. */
static const unsigned marks[] = {CAP_CREATE, CAP_READ, CAP_UPDATE, CAP_DELETE, CAP_PATCH};

struct precedence {
    const char *patterns[5];
    const char *path;
    int winner; /* index, or -1: none */
    bool list;
};

static const struct precedence table[] = {
    {{"a/b", "a/*"}, "a/b", 0, false},
    {{"a/b", "a/*"}, "a/c", 1, false},
    {{"a/b*"}, "a/bc/d", 0, false},
    {{"a/b*"}, "a/b", 0, false},
    {{"a/*"}, "a", -1, false},
    {{"a/*"}, "a/", 0, false},
    {{"*"}, "anything/at/all", 0, false},
    {{"a*b"}, "a*b", 0, false},
    {{"a*b"}, "axb", -1, false},
    {{"a/*/b"}, "a/x/b", -1, false},
    {{"a/+/b"}, "a/x/b", 0, false},
    {{"a/+/b"}, "a/x/y/b", -1, false},
    {{"a/+/b"}, "a/b", -1, false},
    {{"a/+"}, "a/x", 0, false},
    {{"a/+"}, "a/x/y", -1, false},
    {{"+"}, "a", 0, false},
    {{"a+/b"}, "a+/b", 0, false},
    {{"a+/b"}, "ax/b", -1, false},
    {{"a/+/b*"}, "a/x/bcd/e", 0, false},
    {{"a/+/*"}, "a/x/b/c", 0, false},
    {{"a/+/*"}, "a/x", -1, false},
    /* the later first wildcard */
    {{"a/+/c", "a/b/*"}, "a/b/c", 1, false},
    {{"a/b/+", "a/+/c"}, "a/b/c", 0, false},
    {{"a/b*", "a/+"}, "a/bc", 0, false},
    {{"a/b*", "a/bc*", "a/*"}, "a/bcd", 1, false},
    {{"*", "a*"}, "abc", 1, false},
    /* not ending in '*' */
    {{"a/*", "a/+"}, "a/b", 1, false},
    {{"a/+/b*", "a/+/b"}, "a/x/b", 1, false},
    {{"a/+/*", "a/+/+"}, "a/x/y", 1, false},
    /* fewer "+" */
    {{"a/+/+", "a/+/c"}, "a/b/c", 1, false},
    {{"a/+/+/*", "a/+/c/*"}, "a/b/c/d", 1, false},
    {{"a/*", "a/+/b*"}, "a/x/b", 0, false},
    /* longer */
    {{"a/+/b*", "a/+/bc*"}, "a/x/bcd", 1, false},
    /* last in order of bytes */
    {{"a/+/+/d", "a/+/c/+"}, "a/b/c/d", 1, false},
    {{"a/+/b/+/d", "a/+/+/c/d"}, "a/x/b/c/d", 0, false},
    /* folders that are listed */
    {{"a/b"}, "a/b/", 0, true},
    {{"a/b/"}, "a/b/", 0, true},
    {{"a/b", "a/b/"}, "a/b/", 1, true},
    {{"a/b", "a/*"}, "a/b/", 0, true},
    {{"a/+"}, "a/b/", 0, true},
    {{"a/+/", "a/+"}, "a/b/", 0, true},
    {{"a/b*", "a/+"}, "a/b/", 0, true},
    {{"a/*"}, "a/", 0, true},
    {{"a*"}, "a/", 0, true},
    {{"a/+"}, "a/", 0, true},
    {{"a/b"}, "a/b/", -1, false},
    /* a slash in front is nothing */
    {{"/a/b"}, "a/b", 0, false},
    {{"/a/*"}, "a/b", 0, false},
};

static void the_rules_of_precedence_hold(void **ctx)
{
    (void)ctx;
    for (size_t i = 0; i < ARRAY_LEN(table); i++) {
        const struct precedence *row = &table[i];
        char text[1000] = "";
        for (size_t k = 0; k < 5 && row->patterns[k] != NULL; k++) {
            static const char *const words[] = {"create", "read", "update", "delete", "patch"};
            size_t at = strlen(text);
            (void)snprintf(text + at, sizeof text - at,
                           "path \"%s\" { capabilities = [\"%s\"%s] }\n", row->patterns[k],
                           words[k], row->list ? ", \"list\"" : "");
        }
        const char *one[] = {text};
        struct made m = make(one, 1);
        for (int k = 0; k < 5; k++) {
            unsigned caps = marks[k] | (row->list ? (unsigned)CAP_LIST : 0);
            enum status wanted = row->winner == k ? ST_OK : ST_DENIED;
            if (ask(m.acl, row->path, caps) != wanted)
                fail_msg("row %zu, \"%s\": pattern %d %s", i, row->path, k,
                         wanted == ST_OK ? "does not decide" : "decides");
        }
        unmake(&m);
    }
}

/* The reference */

struct pattern {
    char text[40];
    unsigned caps;
};

static size_t split(const char *text, char parts[16][40])
{
    size_t n = 0;
    for (;;) {
        size_t len = strcspn(text, "/");
        assert_true(n < 16 && len < 40);
        memcpy(parts[n], text, len);
        parts[n++][len] = '\0';
        if (text[len] == '\0')
            return n;
        text += len + 1;
    }
}

static bool has_plus(const char *pattern)
{
    char parts[16][40];
    size_t n = split(pattern, parts);
    for (size_t i = 0; i < n; i++)
        if (strcmp(parts[i], "+") == 0)
            return true;
    return false;
}

static bool ends_in_star(const char *pattern)
{
    size_t len = strlen(pattern);
    return len > 0 && pattern[len - 1] == '*';
}

static bool fits(const char *pattern, const char *path)
{
    char want[16][40], have[16][40];
    size_t n = split(pattern, want), m = split(path, have);
    bool star = ends_in_star(pattern);
    if (star ? m < n : m != n)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(want[i], "+") == 0)
            continue;
        if (star && i == n - 1) {
            if (strncmp(want[i], have[i], strlen(want[i]) - 1) != 0)
                return false;
        } else if (strcmp(want[i], have[i]) != 0) {
            return false;
        }
    }
    return true;
}

static size_t first_wildcard(const char *pattern)
{
    char parts[16][40];
    size_t n = split(pattern, parts), at = 0;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(parts[i], "+") == 0)
            return at;
        at += strlen(parts[i]) + 1;
    }
    return strlen(pattern) - ends_in_star(pattern);
}

static size_t plusses(const char *pattern)
{
    char parts[16][40];
    size_t n = split(pattern, parts), found = 0;
    for (size_t i = 0; i < n; i++)
        found += strcmp(parts[i], "+") == 0;
    return found;
}

static bool better(const char *a, const char *b)
{
    if (first_wildcard(a) != first_wildcard(b))
        return first_wildcard(a) > first_wildcard(b);
    if (ends_in_star(a) != ends_in_star(b))
        return !ends_in_star(a);
    if (plusses(a) != plusses(b))
        return plusses(a) < plusses(b);
    if (strlen(a) != strlen(b))
        return strlen(a) > strlen(b);
    return strcmp(a, b) > 0;
}

static const char *reference_wild(const struct pattern *patterns, size_t n, const char *path)
{
    const char *best = NULL;
    for (size_t i = 0; i < n; i++) {
        const char *p = patterns[i].text;
        if ((has_plus(p) || ends_in_star(p)) && fits(p, path) && (best == NULL || better(p, best)))
            best = p;
    }
    return best;
}

static const char *reference_exact(const struct pattern *patterns, size_t n, const char *path)
{
    for (size_t i = 0; i < n; i++)
        if (!has_plus(patterns[i].text) && !ends_in_star(patterns[i].text) &&
            strcmp(patterns[i].text, path) == 0)
            return path;
    return NULL;
}

static unsigned reference(const struct pattern *patterns, size_t n, const char *path)
{
    char bare[200];
    size_t len = strlen(path);
    bool folder = path[len - 1] == '/';
    unsigned caps = 0;
    (void)snprintf(bare, sizeof bare, "%.*s", (int)(len - folder), path);
    const char *winner = reference_exact(patterns, n, path);
    if (winner == NULL && folder)
        winner = reference_exact(patterns, n, bare);
    if (winner == NULL)
        winner = reference_wild(patterns, n, path);
    if (winner == NULL && folder)
        winner = reference_wild(patterns, n, bare);
    for (size_t i = 0; i < n && winner != NULL; i++)
        if (strcmp(patterns[i].text, winner) == 0)
            caps |= patterns[i].caps;
    return (caps & CAP_DENY) != 0 ? 0 : caps;
}

static uint64_t seed = 0x9e3779b97f4a7c15;

static unsigned below(unsigned n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)((seed >> 20) % n);
}

/* Few words, so that much is shared. */
static void random_path(char *out, bool pattern)
{
    static const char *const words[] = {"a", "b", "ab", "abc", "a*b", "+a", "!"};
    unsigned n = 1 + below(4);
    out[0] = '\0';
    for (unsigned i = 0; i < n; i++) {
        if (i != 0)
            (void)strcat(out, "/");
        if (pattern && below(3) == 0)
            (void)strcat(out, "+");
        else if (pattern && i == n - 1 && below(5) == 0)
            break;
        else
            (void)strcat(out, words[below(ARRAY_LEN(words))]);
    }
    size_t len = strlen(out);
    if (pattern && below(2) == 0 && (len == 0 || out[len - 1] != '+'))
        (void)strcat(out, "*");
    else if (!pattern && below(3) == 0)
        (void)strcat(out, "/");
}

static void put_pattern(struct buf *text, const struct pattern *p)
{
    unsigned cap;
    buf_add_format(text, "path \"%s\" { capabilities = [", p->text);
    for (unsigned i = 0; i < CAP_KINDS; i++) {
        const char *word = cap_word(i, &cap);
        if ((p->caps & cap) != 0)
            buf_add_format(text, "\"%s\",", word);
    }
    buf_add_str(text, "] }\n");
}

static void random_rules_decide_as_the_reference_does(void **ctx)
{
    (void)ctx;
    for (unsigned round = 0; round < 1500; round++) {
        struct pattern patterns[24];
        struct buf texts[3] = {{0}};
        const char *all[3];
        size_t n = 1 + below(ARRAY_LEN(patterns));
        for (size_t i = 0; i < n; i++) {
            random_path(patterns[i].text, true);
            patterns[i].caps = 1u << below(7);
            if (below(12) == 0)
                patterns[i].caps = CAP_DENY;
            put_pattern(&texts[below(3)], &patterns[i]);
        }
        for (size_t i = 0; i < 3; i++) {
            buf_add_u8(&texts[i], 0);
            all[i] = (const char *)texts[i].data;
        }
        struct made m = make(all, 3);
        for (unsigned i = 0; i < 40; i++) {
            char path[200];
            random_path(path, false);
            unsigned wanted = reference(patterns, n, path);
            if (acl_capabilities(m.acl, bytes_str(path)) != wanted)
                fail_msg("\"%s\" gives %x, wanted %x, with\n%s%s%s", path,
                         acl_capabilities(m.acl, bytes_str(path)), wanted, all[0], all[1], all[2]);
        }
        unmake(&m);
        for (size_t i = 0; i < 3; i++)
            buf_done(&texts[i]);
    }
}

static void policies_add_up_on_one_pattern_and_deny_beats_all(void **ctx)
{
    (void)ctx;
    const char *texts[] = {"path \"a/*\" { capabilities = [\"read\"] }",
                           "path \"a/*\" { capabilities = [\"list\", \"update\"] }",
                           "path \"a/b\" { capabilities = [\"sudo\"] }",
                           "path \"a/*\" { capabilities = [\"deny\", \"read\"] }"};
    struct made m = make(texts, 3);
    assert_int_equal(acl_capabilities(m.acl, BYTES("a/x")), CAP_READ | CAP_LIST | CAP_UPDATE);
    /* a broader pattern adds nothing to a narrower one */
    assert_int_equal(acl_capabilities(m.acl, BYTES("a/b")), CAP_SUDO);
    assert_status(ask(m.acl, "a/x", CAP_READ | CAP_SUDO), ST_DENIED);
    unmake(&m);
    m = make(texts, 4);
    assert_int_equal(acl_capabilities(m.acl, BYTES("a/x")), 0);
    assert_status(ask(m.acl, "a/x", CAP_READ), ST_DENIED);
    assert_int_equal(acl_capabilities(m.acl, BYTES("a/b")), CAP_SUDO);
    unmake(&m);
}

static void no_policy_allows_nothing_and_root_everything(void **ctx)
{
    (void)ctx;
    struct made m = make(NULL, 0);
    assert_status(ask(m.acl, "a", CAP_READ), ST_DENIED);
    assert_int_equal(acl_capabilities(m.acl, BYTES("a")), 0);
    assert_false(acl_reaches(m.acl, BYTES("a/")));
    assert_false(acl_is_root(m.acl));
    unmake(&m);
    const struct acl *root = acl_of_root();
    assert_status(ask(root, "sys/seal", CAP_UPDATE | CAP_SUDO), ST_OK);
    assert_int_equal(acl_capabilities(root, BYTES("a")), CAP_EVERYTHING);
    assert_true(acl_reaches(root, BYTES("a/")) && acl_is_root(root));
}

static void a_rule_with_a_template_is_left_out(void **ctx)
{
    (void)ctx;
    const char *texts[] = {"path \"id/{{identity.entity.id}}\" { capabilities = [\"read\"] }\n"
                           "path \"id/*\" { capabilities = [\"list\"] }"};
    struct made m = make(texts, 1);
    assert_int_equal(acl_capabilities(m.acl, BYTES("id/{{identity.entity.id}}")), CAP_LIST);
    assert_int_equal(acl_capabilities(m.acl, BYTES("id/")), CAP_LIST);
    unmake(&m);
}

static void a_folder_is_reached_by_what_may_match_below_it(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *pattern, *folder;
        bool reaches;
    } rows[] = {
        {"kv/data/a", "kv/", true},    {"kv", "kv/", true},         {"kv/*", "kv/", true},
        {"k*", "kv/", true},           {"kvx/*", "kv/", false},     {"+/data/x", "kv/", true},
        {"team/+/x", "team/a/", true}, {"team/*", "team/a/", true}, {"te", "team/", false},
        {"team/b", "team/a/", false},  {"*", "team/a/", true},      {"team", "team/a/", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[200];
        const char *one[] = {text};
        (void)snprintf(text, sizeof text, "path \"%s\" { capabilities = [\"read\"] }",
                       rows[i].pattern);
        struct made m = make(one, 1);
        if (acl_reaches(m.acl, bytes_str(rows[i].folder)) != rows[i].reaches)
            fail_msg("%s %s", rows[i].pattern, rows[i].folder);
        unmake(&m);
        (void)snprintf(text, sizeof text, "path \"%s\" { capabilities = [\"deny\"] }",
                       rows[i].pattern);
        m = make(one, 1);
        assert_false(acl_reaches(m.acl, bytes_str(rows[i].folder)));
        unmake(&m);
    }
}

/* Parameters */

static enum status with_data(const char *rule, const char *more, const char *data)
{
    struct arena arena = {0};
    const struct text_value *v;
    char first[600], second[600];
    const char *texts[] = {first, second};
    (void)snprintf(first, sizeof first, "path \"a\" { capabilities = [\"update\"]\n%s }", rule);
    (void)snprintf(second, sizeof second, "path \"a\" { capabilities = [\"read\"]\n%s }",
                   more != NULL ? more : "");
    assert_status(text_json_parse(&arena, bytes_str(data), &v, NULL), ST_OK);
    struct made m = make(texts, more != NULL ? 2 : 1);
    const struct acl_question q = {.path = BYTES("a"), .caps = CAP_UPDATE};
    const struct policy_rule *found;
    enum status st = acl_check(m.acl, &q, &found);
    if (st == ST_OK && !acl_param_allow(found, v))
        st = ST_DENIED;
    unmake(&m);
    arena_done(&arena);
    return st;
}

static void parameters_are_allowed_denied_and_required(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *rule, *data;
        bool fine;
    } rows[] = {
        {"allowed_parameters = { \"a\" = [] }", "{\"a\":1}", true},
        {"allowed_parameters = { \"a\" = [] }", "{\"A\":1}", true},
        {"allowed_parameters = { \"A\" = [] }", "{\"a\":1}", true},
        {"allowed_parameters = { \"a\" = [] }", "{\"b\":1}", false},
        {"allowed_parameters = { \"a\" = [] }", "{\"a\":1,\"b\":1}", false},
        {"allowed_parameters = { \"a\" = [] }", "{}", true},
        {"allowed_parameters = { \"*\" = [] }", "{\"b\":1}", true},
        {"allowed_parameters = { \"a\" = [\"x\"], \"*\" = [] }", "{\"b\":1}", true},
        {"allowed_parameters = { \"a\" = [\"x\"], \"*\" = [] }", "{\"a\":\"y\"}", false},
        {"allowed_parameters = { \"a\" = [\"x\", \"y*\"] }", "{\"a\":\"yes\"}", true},
        {"allowed_parameters = { \"a\" = [\"*ok\"] }", "{\"a\":\"is ok\"}", true},
        {"allowed_parameters = { \"a\" = [\"*ok\"] }", "{\"a\":\"ok?\"}", false},
        {"allowed_parameters = { \"a\" = [\"*ok*\"] }", "{\"a\":\"ok?\"}", true},
        {"allowed_parameters = { \"a\" = [\"*ok*\"] }", "{\"a\":\"is ok?\"}", true},
        {"allowed_parameters = { \"a\" = [\"*ok*\"] }", "{\"a\":\"o k\"}", false},
        {"allowed_parameters = { \"a\" = [\"*\"] }", "{\"a\":\"x\"}", false},
        {"allowed_parameters = { \"a\" = [5] }", "{\"a\":5}", true},
        {"allowed_parameters = { \"a\" = [5] }", "{\"a\":\"5\"}", true},
        {"allowed_parameters = { \"a\" = [5] }", "{\"a\":5.0}", true},
        {"allowed_parameters = { \"a\" = [500] }", "{\"a\":0.5e3}", true},
        {"allowed_parameters = { \"a\" = [5] }", "{\"a\":50}", false},
        {"allowed_parameters = { \"a\" = [5] }", "{\"a\":-5}", false},
        {"allowed_parameters = { \"a\" = [true] }", "{\"a\":true}", true},
        {"allowed_parameters = { \"a\" = [true] }", "{\"a\":false}", false},
        {"allowed_parameters = { \"a\" = [true] }", "{\"a\":\"1\"}", true},
        {"allowed_parameters = { \"a\" = [[1, \"x\"]] }", "{\"a\":[1,\"x\"]}", true},
        {"allowed_parameters = { \"a\" = [[1, \"x\"]] }", "{\"a\":[\"x\",1]}", false},
        {"allowed_parameters = { \"a\" = [[1, \"x\"]] }", "{\"a\":[1,\"x\",2]}", false},
        {"allowed_parameters = { \"a\" = [[1, \"x\"]] }", "{\"a\":[1]}", false},
        {"allowed_parameters = { \"a\" = [{ \"b\" = 1 }] }", "{\"a\":{\"b\":1}}", true},
        {"allowed_parameters = { \"a\" = [{ \"b\" = 1 }] }", "{\"a\":{\"b\":1,\"c\":2}}", false},
        {"allowed_parameters = { \"a\" = [{ \"b\" = 1 }] }", "{\"a\":{}}", false},
        {"allowed_parameters = { \"a\" = \"x\" }", "{\"a\":\"x\"}", true},
        {"denied_parameters = { \"a\" = [] }", "{\"a\":1}", false},
        {"denied_parameters = { \"a\" = [] }", "{\"A\":1}", false},
        {"denied_parameters = { \"a\" = [] }", "{\"b\":1}", true},
        {"denied_parameters = { \"a\" = [\"x*\"] }", "{\"a\":\"xyz\"}", false},
        {"denied_parameters = { \"a\" = [\"x*\"] }", "{\"a\":\"y\"}", true},
        {"denied_parameters = { \"a\" = [\"5\"] }", "{\"a\":5}", false},
        {"denied_parameters = { \"a\" = [0] }", "{\"a\":-0.00e7}", false},
        {"denied_parameters = { \"*\" = [] }", "{\"b\":1}", false},
        {"denied_parameters = { \"*\" = [] }", "{}", true},
        {"denied_parameters = { \"a\" = [] }\nallowed_parameters = { \"*\" = [] }", "{\"a\":1}",
         false},
        {"required_parameters = [\"a\"]", "{\"b\":1}", false},
        {"required_parameters = [\"a\"]", "{}", false},
        {"required_parameters = [\"A\"]", "{\"a\":0}", true},
        {"required_parameters = [\"a\"]", "{\"a\":null}", false},
        {"max_wrapping_ttl = \"1h\"", "{}", false},
        {"min_wrapping_ttl = 1", "{}", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if ((with_data(rows[i].rule, NULL, rows[i].data) == ST_OK) != rows[i].fine)
            fail_msg("%s | %s", rows[i].rule, rows[i].data);
}

static void rules_of_two_policies_about_parameters_are_merged(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *rule, *more, *data;
        bool fine;
    } rows[] = {
        {"allowed_parameters = { \"a\" = [\"x\"] }", "allowed_parameters = { \"a\" = [\"y\"] }",
         "{\"a\":\"y\"}", true},
        {"allowed_parameters = { \"a\" = [\"x\"] }", "allowed_parameters = { \"a\" = [] }",
         "{\"a\":\"z\"}", true},
        {"allowed_parameters = { \"a\" = [\"x\"] }", "allowed_parameters = { \"b\" = [] }",
         "{\"a\":\"x\",\"b\":1}", true},
        {"allowed_parameters = { \"a\" = [\"x\"] }", "", "{\"b\":1}", false},
        {"denied_parameters = { \"a\" = [\"x\"] }", "denied_parameters = { \"a\" = [] }",
         "{\"a\":\"y\"}", false},
        {"required_parameters = [\"a\"]", "required_parameters = [\"b\"]", "{\"a\":1}", false},
        {"required_parameters = [\"a\"]", "required_parameters = [\"b\"]", "{\"b\":1}", false},
        {"required_parameters = [\"a\"]", "required_parameters = [\"b\"]", "{\"a\":1,\"b\":1}",
         true},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if ((with_data(rows[i].rule, rows[i].more, rows[i].data) == ST_OK) != rows[i].fine)
            fail_msg("%s | %s | %s", rows[i].rule, rows[i].more, rows[i].data);
}

static void denied_is_what_handlers_take_for_a_denied_value(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *rule, *data;
        bool fine;
    } rows[] = {
        {"denied_parameters = { \"a\" = [\"x\"] }", "{\"a\":[\"x\"]}", false},
        {"denied_parameters = { \"a\" = [\"x\"] }", "{\"a\":[\"y\",\"x\"]}", false},
        {"denied_parameters = { \"a\" = [\"x\"] }", "{\"a\":[\"y\"]}", true},
        {"denied_parameters = { \"a\" = [\"x\"] }", "{\"a\":\"y, x ,z\"}", false},
        {"denied_parameters = { \"a\" = [\"x\"] }", "{\"a\":\"y,xx,\"}", true},
        {"denied_parameters = { \"a\" = [\"true\"] }", "{\"a\":1}", false},
        {"denied_parameters = { \"a\" = [\"true\"] }", "{\"a\":\"T\"}", false},
        {"denied_parameters = { \"a\" = [\"true\"] }", "{\"a\":true}", false},
        {"denied_parameters = { \"a\" = [\"true\"] }", "{\"a\":false}", true},
        {"denied_parameters = { \"a\" = [\"1\"] }", "{\"a\":5}", true},
        {"denied_parameters = { \"a\" = [true] }", "{\"a\":[2]}", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if ((with_data(rows[i].rule, NULL, rows[i].data) == ST_OK) != rows[i].fine)
            fail_msg("%s | %s", rows[i].rule, rows[i].data);
}

static void another_spelling_is_judged_as_what_it_stands_for(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *rules, *path, *rule_path;
        bool fine;
    } rows[] = {
        {"path \"a/*\" { capabilities = [\"read\"] } path \"a/b\" { capabilities = [\"deny\"] }",
         "a/b/", "a/b", false},
        {"path \"a/b\" { capabilities = [\"read\"] }", "a/b/", "a/b", true},
        {"path \"a/b/*\" { capabilities = [\"read\"] }", "a/b/", "a/b", false},
        {"path \"a/b/\" { capabilities = [\"read\"] }", "a/b/", "a/b", true},
        {"path \"a/*\" { capabilities = [\"read\"] }", "a/b/", "a/b", true},
        {"path \"a/B\" { capabilities = [\"read\"] }", "a/B", "a/b", true},
        {"path \"a/B*\" { capabilities = [\"read\"] }", "a/B", "a/b", false},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct made m = make(&rows[i].rules, 1);
        struct acl_question q = {.path = bytes_str(rows[i].path),
                                 .rule_path = bytes_str(rows[i].rule_path),
                                 .caps = CAP_READ};
        const struct policy_rule *rule;
        if ((acl_check(m.acl, &q, &rule) == ST_OK) != rows[i].fine)
            fail_msg("%s | %s", rows[i].rules, rows[i].path);
        unmake(&m);
    }
}

static void wrapping_is_bound_by_the_least_limits_of_both_sides(void **ctx)
{
    (void)ctx;
    const char *texts[] = {
        "path \"a\" { capabilities = [\"read\"]\nmin_wrapping_ttl = 60\nmax_wrapping_ttl = 300 }",
        "path \"a\" { capabilities = [\"read\"]\nmin_wrapping_ttl = \"30s\"\n"
        "max_wrapping_ttl = \"10m\" }"};
    const char *const turned[] = {texts[1], texts[0]};
    static const struct {
        int64_t wrap_s;
        bool one, both;
    } rows[] = {{0, false, false}, {29, false, false}, {30, false, true},
                {60, true, true},  {300, true, true},  {301, false, false}};
    struct made one = make(texts, 1), both = make(texts, 2), other = make(turned, 2);
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        struct acl_question q = {.path = BYTES("a"), .caps = CAP_READ, .wrap_s = rows[i].wrap_s};
        const struct policy_rule *rule;
        assert_int_equal(acl_check(one.acl, &q, &rule) == ST_OK, rows[i].one);
        assert_int_equal(acl_check(both.acl, &q, &rule) == ST_OK, rows[i].both);
        assert_int_equal(acl_check(other.acl, &q, &rule) == ST_OK, rows[i].both);
    }
    unmake(&other);
    unmake(&one);
    unmake(&both);
}

static void failed_allocations_are_reported(void **ctx)
{
    (void)ctx;
    const char *texts[] = {"path \"a/*\" { capabilities = [\"read\"]\n"
                           "allowed_parameters = { \"a\" = [1] } }",
                           "path \"a/*\" { capabilities = [\"read\"]\n"
                           "allowed_parameters = { \"a\" = [2] } }"};
    struct policy *policies[2] = {compiled(texts[0]), compiled(texts[1])};
    struct acl *acl;
    for (uint64_t n = 1;; n++) {
        mem_fail_nth(n);
        enum status st = acl_new((const struct policy *const *)policies, 2, &acl);
        if (!mem_fail_nth(0)) {
            assert_status(st, ST_OK);
            acl_free(acl);
            break;
        }
        assert_status(st, ST_NOMEM);
    }
    policy_free(policies[0]);
    policy_free(policies[1]);
}

/* The rule that decided, also of a denial, and the policies that have the rule. */
static void a_decision_names_its_rule_and_policies(void **ctx)
{
    (void)ctx;
    static const struct {
        const char *path;
        enum status st;
        const char *stem, *names; /* NULL: no rule fits */
    } rows[] = {
        {"a/x", ST_OK, "a/", "p q"},
        {"b", ST_DENIED, "b", "q"},
        {"c", ST_DENIED, NULL, ""},
    };
    static const char *const texts[] = {
        "", /* a policy without rules granted nothing */
        "path \"a/*\" { capabilities = [\"read\"] }",
        "path \"a/*\" { capabilities = [\"list\"] } path \"b\" { capabilities = [\"deny\"] }"};
    struct made m = make(texts, 3);
    struct arena arena = {0};
    m.policies[0]->name = "none";
    m.policies[1]->name = "p";
    m.policies[2]->name = "q";
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        const struct acl_question q = {.path = bytes_str(rows[i].path), .caps = CAP_READ};
        const struct policy_rule *rule;
        const char *const *names = NULL;
        char all[64] = "";
        size_t n = 0;
        assert_status(acl_check(m.acl, &q, &rule), rows[i].st);
        assert_int_equal(rule == NULL, rows[i].stem == NULL);
        if (rule != NULL) {
            assert_true(text_is(rule->stem, rows[i].stem));
            assert_status(acl_rule_policies(m.acl, rule, &arena, &names, &n), ST_OK);
        }
        for (size_t k = 0; k < n; k++) {
            strcat(all, k == 0 ? "" : " ");
            strcat(all, names[k]);
        }
        assert_string_equal(all, rows[i].names);
    }
    arena_done(&arena);
    unmake(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rules_of_precedence_hold),
        cmocka_unit_test(random_rules_decide_as_the_reference_does),
        cmocka_unit_test(policies_add_up_on_one_pattern_and_deny_beats_all),
        cmocka_unit_test(no_policy_allows_nothing_and_root_everything),
        cmocka_unit_test(a_rule_with_a_template_is_left_out),
        cmocka_unit_test(a_folder_is_reached_by_what_may_match_below_it),
        cmocka_unit_test(parameters_are_allowed_denied_and_required),
        cmocka_unit_test(rules_of_two_policies_about_parameters_are_merged),
        cmocka_unit_test(denied_is_what_handlers_take_for_a_denied_value),
        cmocka_unit_test(another_spelling_is_judged_as_what_it_stands_for),
        cmocka_unit_test(wrapping_is_bound_by_the_least_limits_of_both_sides),
        cmocka_unit_test(a_decision_names_its_rule_and_policies),
        cmocka_unit_test(failed_allocations_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
