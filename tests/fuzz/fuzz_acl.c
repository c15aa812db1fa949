/* Policies against a slow reference (acl_reference.h). Random policies are written as HCL or as
 * JSON, compiled and made into one ACL; the ACL and the reference have to decide alike about random
 * paths, capabilities, wrapping TTLs and parameters. What a policy may not say is refused.
 *
 * The first byte of an input says how many ACLs are made in turn. */
#include "acl_reference_params.h"
#include "dice.h"

#include "auth/acl.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { POLICIES = 4, QUESTIONS = 24, BODIES = 8 };

static const char *const words[] = {"a", "b", "ab", "abc", "a*b",  "+a",        "a+",
                                    "!", "é", "",   "kv",  "data", "abcdefghi", "abcdefghij"};
static const char *const names[] = {"a", "B", "Ab", "key", "*", "KEY2"};
static const char *const folded[] = {"A", "b", "aB", "KEY", "*", "other", "Key2", "é"};
static const char *const values[] = {
    "\"x\"",
    "\"x*\"",
    "\"*x\"",
    "\"*x*\"",
    "\"*\"",
    "\"**\"",
    "\"\"",
    "\"true\"",
    "\"T\"",
    "\"1\"",
    "\"0\"",
    "\"False\"",
    "true",
    "false",
    "5",
    "5.0",
    "50e-1",
    "0.05E+2",
    "-0",
    "0",
    "-5",
    "\"5\"",
    "\"5.00\"",
    "\"05\"",
    "\"5*\"",
    "500",
    "1",
    "[]",
    "[1, \"x\"]",
    "[\"x\"]",
    "[1, \"x\", 2]",
    "[1]",
    "[\"x*\"]",
    "[\"y\", \"x\"]",
    "[true]",
    "{}",
    "{\"b\": 1}",
    "{\"b\": 1, \"c\": \"x*\"}",
    "{\"c\": \"xy\", \"b\": 1.0}",
    "{\"b\": [1]}",
    "[[\"x\"], {\"b\": 2}]",
    "\"xx\"",
    "\"yx\"",
    "\"y, x ,z\"",
    "\"x,\"",
    "\",\"",
    "\"a b\"",
    "\"true, x\"",
    "\"TRUE\"",
    "\"t\"",
    "\"x*x\"",
    "\"*xyz\"",
    "\"-0.0\"",
    "123456789012345678901234567890",
    "\"12345678901234567890123456789e1\"",
    "1e0",
    "\"5e0\"",
    "null",
};
enum { N_IN_HCL = ARRAY_LEN(values) - 1 }; /* HCL knows no null */

/* What no policy may say. */
static const char *const faults[] = {
    "path \"a/+*\" { capabilities = [\"read\"] }",
    "path \"a\" { capabilities = [\"reads\"] }",
    "path \"a\" { capabilities = [1] }",
    "path \"a\" { capabilities = [\"read\"] capabilities = [\"list\"] }",
    "path \"a\" { policy = \"all\" }",
    "path \"a\" { allowed_parameters = { \"a\" = [] \"A\" = [] } }",
    "path \"a\" { allowed_parameters = [\"a\"] }",
    "path \"a\" { denied_parameters = \"a\" }",
    "path \"a\" { required_parameters = \"a\" }",
    "path \"a\" { required_parameters = [1] }",
    "path \"a\" { min_wrapping_ttl = 2 max_wrapping_ttl = \"1s\" }",
    "path \"a\" { min_wrapping_ttl = -1 }",
    "path \"a\" { max_wrapping_ttl = [1] }",
    "path \"a\" { pagination_limit = 1 }",
    "path \"a\" { Capabilities = [\"read\"] }",
    "path \"a/{{b\" { capabilities = [\"read\"] }",
    "path \"a/}}b{{\" { capabilities = [\"read\"] }",
    "path \"a\\u0001\" { capabilities = [\"read\"] }",
    "path = \"a\"",
    "paths \"a\" { capabilities = [\"read\"] }",
    "path \"a\" { capabilities = [\"read\"]",
    "path \"a\" \"b\" { capabilities = [\"read\"] }",
};

static const char *pick(struct dice *d, const char *const *from, unsigned n)
{
    return from[dice_below(d, n)];
}
#define PICK(d, table) pick(d, table, ARRAY_LEN(table))

/* Making rules */

static void add(char text[REF_TEXT], const char *more)
{
    size_t len = strlen(text);
    ASSERT(len + strlen(more) < REF_TEXT);
    (void)memcpy(text + len, more, strlen(more) + 1);
}

static void make_pattern(struct dice *d, struct ref_rule *rule)
{
    static const char *const alike[] = {"a", "b", "ab", "abc", "kv"};
    unsigned n = 1 + dice_below(d, 5);
    bool close = dice_once(d, 3); /* patterns that fit the same paths, for the last rules of all */
    for (unsigned i = 0; i < (close ? ARRAY_LEN(alike) : n); i++) {
        add(rule->pattern, i != 0 ? "/" : "");
        add(rule->pattern, dice_once(d, close ? 2 : 3) ? "+" : close ? alike[i] : PICK(d, words));
    }
    rule->templated = dice_once(d, 16);
    if (rule->templated)
        add(rule->pattern, dice_once(d, 2) ? "{{identity.entity.id}}" : "{{}}/b");
    size_t len = strlen(rule->pattern);
    if (dice_once(d, 2) && (len == 0 || rule->pattern[len - 1] != '+'))
        add(rule->pattern, "*");
    rule->slash = dice_once(d, 8) || rule->pattern[0] == '/'; /* one '/' in front is nothing */
}

static unsigned make_params(struct dice *d, bool hcl, struct ref_param params[REF_PARAMS])
{
    unsigned n = dice_once(d, 3) ? 1 + dice_below(d, REF_PARAMS) : 0, have = 0;
    for (unsigned i = 0; i < n; i++) {
        struct ref_param param = {.name = PICK(d, names), .n = dice_below(d, REF_VALUES + 1)};
        bool twice = false;
        for (unsigned k = 0; k < have; k++)
            twice |= params[k].name == param.name;
        for (unsigned k = 0; k < param.n; k++)
            param.values[k] = pick(d, values, hcl ? N_IN_HCL : ARRAY_LEN(values));
        if (!twice)
            params[have++] = param;
    }
    return have;
}

static void make_rule(struct dice *d, bool hcl, struct ref_rule *rule)
{
    unsigned cap;
    *rule = (struct ref_rule){0};
    make_pattern(d, rule);
    for (unsigned i = dice_below(d, 4); i > 0; i--) {
        (void)cap_word(dice_below(d, CAP_KINDS), &cap); /* only the bit */
        rule->caps |= cap != CAP_DENY || dice_once(d, 4) ? cap : 0;
    }
    rule->n_allowed = make_params(d, hcl, rule->allowed);
    rule->n_denied = make_params(d, hcl, rule->denied);
    for (unsigned i = dice_once(d, 6) ? 1 + dice_below(d, REF_PARAMS) : 0; i > 0; i--)
        rule->required[rule->n_required++] = pick(d, names, 4);
    if (dice_once(d, 6))
        rule->min_wrap_s = 1 + dice_below(d, 100);
    if (dice_once(d, 6))
        rule->max_wrap_s = rule->min_wrap_s + dice_below(d, 100);
}

/* Writing rules */

/* A value of the table; the members of an object have '=' in HCL. */
static void put_value(struct buf *out, const char *json, bool hcl)
{
    for (; *json != '\0'; json++)
        buf_add_u8(out, (uint8_t)(hcl && *json == ':' ? '=' : *json));
}

static void put_params(struct buf *out, const char *key, const struct ref_param *params, unsigned n,
                       bool hcl)
{
    if (n == 0)
        return;
    buf_add_format(out, "%s\"%s\" %s {", hcl ? "\n" : ",", key, hcl ? "=" : ":");
    for (unsigned i = 0; i < n; i++) {
        buf_add_format(out, "%s\"%s\" %s [", i != 0 ? ", " : "", params[i].name, hcl ? "=" : ":");
        for (unsigned k = 0; k < params[i].n; k++) {
            buf_add_str(out, k != 0 ? ", " : "");
            put_value(out, params[i].values[k], hcl);
        }
        buf_add_str(out, "]");
    }
    buf_add_str(out, "}");
}

static void put_fields(struct buf *out, const struct ref_rule *rule, bool hcl)
{
    unsigned cap;
    const char *is = hcl ? "=" : ":", *next = hcl ? "\n" : ",", *comma = "";
    buf_add_format(out, "\"capabilities\" %s [", is);
    for (unsigned i = 0; i < CAP_KINDS; i++) {
        const char *word = cap_word(i, &cap);
        if ((rule->caps & cap) == 0)
            continue;
        buf_add_format(out, "%s\"%s\"", comma, word);
        comma = ", ";
    }
    buf_add_str(out, "]");
    put_params(out, "allowed_parameters", rule->allowed, rule->n_allowed, hcl);
    put_params(out, "denied_parameters", rule->denied, rule->n_denied, hcl);
    if (rule->n_required != 0)
        buf_add_format(out, "%s\"required_parameters\" %s [", next, is);
    for (unsigned i = 0; i < rule->n_required; i++)
        buf_add_format(out, "%s\"%s\"", i != 0 ? ", " : "", rule->required[i]);
    buf_add_str(out, rule->n_required != 0 ? "]" : "");
    if (rule->min_wrap_s != 0)
        buf_add_format(out, "%s\"min_wrapping_ttl\" %s %d", next, is, (int)rule->min_wrap_s);
    if (rule->max_wrap_s != 0) /* the limit is rounded down, never above the text */
        buf_add_format(out, "%s\"max_wrapping_ttl\" %s \"%ds500ms\"", next, is,
                       (int)rule->max_wrap_s);
}

static void put_policy(struct buf *out, const struct ref_rules *rules, unsigned policy, bool hcl)
{
    const char *comma = "{";
    buf_add_str(out, hcl ? "# rules\n" : "{\"path\": [");
    for (unsigned i = 0; i < rules->n; i++) {
        const struct ref_rule *rule = &rules->items[i];
        if (rule->policy != policy)
            continue;
        buf_add_format(out, "%s\"%s%s\"%s {", hcl ? "path " : comma, rule->slash ? "/" : "",
                       rule->pattern, hcl ? "" : ":");
        put_fields(out, rule, hcl);
        buf_add_str(out, hcl ? "}\n" : "}}");
        comma = ", {";
    }
    buf_add_str(out, hcl ? "" : "]}");
}

static struct policy *compile(struct dice *d, struct bytes text, const char *name)
{
    struct policy *policy = NULL, *none = NULL;
    CLEANUP(buf_done) struct buf wrong = {0};
    struct reason why = {{0}};
    enum status st = policy_compile(text, &policy, &why);
    if (st != ST_OK)
        (void)fprintf(stderr, "%.*s\n%s\n", (int)text.len, (const char *)text.data, why.text);
    ASSERT(st == ST_OK);
    policy->name = name;
    if (text.data[0] == '#' && dice_once(d, 4)) {
        buf_add(&wrong, text);
        buf_add_str(&wrong, PICK(d, faults));
        ASSERT(policy_compile(buf_bytes(&wrong), &none, &why) == ST_INVALID);
        ASSERT(why.text[0] != '\0');
    }
    return policy;
}

/* Asking */

/* Most paths are made to fit a pattern. */
static void make_path(struct dice *d, const struct ref_rules *rules, char path[REF_TEXT])
{
    path[0] = '\0';
    if (rules->n != 0 && !dice_once(d, 3)) {
        struct ref_split s;
        ref_split(rules->items[dice_below(d, rules->n)].pattern, &s);
        for (size_t i = 0; i < s.n; i++) {
            size_t len = strlen(s.part[i]);
            bool star = i == s.n - 1 && len != 0 && s.part[i][len - 1] == '*';
            s.part[i][len - star] = '\0';
            add(path, i != 0 ? "/" : "");
            add(path, strcmp(s.part[i], "+") == 0 ? PICK(d, words) : s.part[i]);
            if (star && dice_once(d, 2))
                add(path, PICK(d, words));
            if (star && dice_once(d, 2))
                add(path, "/b");
        }
    } else {
        for (unsigned i = 0, n = 1 + dice_below(d, 4); i < n; i++) {
            add(path, i != 0 ? "/" : "");
            add(path, dice_once(d, 12) ? "+" : PICK(d, words));
        }
    }
    if (dice_once(d, 4))
        add(path, "/");
}

/* A value for a parameter: near what a rule names for it, as the table has them. */
static const char *make_value(struct dice *d, const struct ref_rules *rules, const char *pattern,
                              const char *name)
{
    unsigned i = dice_below(d, ARRAY_LEN(values));
    REF_FOR(rule, rules, pattern)
    {
        const struct ref_param *params = dice_once(d, 2) ? rule->allowed : rule->denied;
        for (unsigned k = 0; k < REF_PARAMS; k++)
            if (params[k].n != 0 && strcasecmp(params[k].name, name) == 0)
                for (i = 0; values[i] != params[k].values[0];)
                    i++;
    }
    i += dice_below(d, 7);
    return values[i < 3 ? 0 : MIN(i - 3, ARRAY_LEN(values) - 1)];
}

static const struct text_value *make_data(struct dice *d, const struct ref_rules *rules,
                                          const char *pattern, struct arena *arena)
{
    struct buf out = {0};
    buf_add_str(&out, "{");
    unsigned first = dice_below(d, ARRAY_LEN(folded));
    for (unsigned i = 0, n = dice_below(d, 4); i < n; i++) {
        const char *name = folded[(first + i) % ARRAY_LEN(folded)];
        buf_add_format(&out, "%s\"%s\": %s", i != 0 ? ", " : "", name,
                       make_value(d, rules, pattern, name));
    }
    buf_add_str(&out, "}");
    buf_add_u8(&out, 0);
    const struct text_value *data = ref_value(arena, (const char *)out.data);
    buf_done(&out);
    return data;
}

/* The policies that have the rule that decided, each as often as it has the pattern; of rules with
 * deny, one. */
static void check_names(const struct acl *acl, const struct policy_rule *rule,
                        const struct ref_rules *rules, const char *pattern, struct arena *arena)
{
    const char *const *found;
    unsigned have[POLICIES] = {0}, want[POLICIES] = {0};
    size_t n;
    ASSERT(acl_rule_policies(acl, rule, arena, &found, &n) == ST_OK);
    for (size_t i = 0; i < n; i++)
        have[found[i][0] - '0']++;
    REF_FOR(ref, rules, pattern)
    want[ref->policy] += rule->caps != CAP_DENY || (ref->caps & CAP_DENY) != 0;
    for (unsigned i = 0; i < POLICIES; i++)
        ASSERT(rule->caps == CAP_DENY ? have[i] <= want[i] : have[i] == want[i]);
    ASSERT(n >= 1 && (rule->caps != CAP_DENY || n == 1));
}

/* What a person needs to see why the two disagree. */
static void tell(const struct ref_rules *rules, const char *path, const struct text_value *data)
{
    struct buf out = {0};
    struct text_writer w = {.out = &out, .plain = true};
    for (unsigned i = 0; i < POLICIES; i++) {
        buf_add_format(&out, "# policy %u\n", i);
        put_policy(&out, rules, i, true);
    }
    text_put_value(&w, data);
    (void)fprintf(stderr, "%.*s\nat \"%s\"\n", (int)out.len, (const char *)out.data, path);
    buf_done(&out);
}

static void ask(struct dice *d, const struct acl *acl, const struct ref_rules *rules)
{
    CLEANUP(arena_done) struct arena arena = {0};
    char path[REF_TEXT], canonical[REF_TEXT] = "";
    static const int64_t ttls[] = {0, 0, 1, 50, 101, 200};
    unsigned cap, caps;
    (void)cap_word(dice_below(d, CAP_KINDS), &caps);
    (void)cap_word(dice_below(d, CAP_KINDS), &cap);
    caps |= dice_once(d, 3) ? cap : 0;
    caps &= ~(unsigned)CAP_DENY;
    make_path(d, rules, path);
    if (dice_once(d, 6))
        make_path(d, rules, canonical);
    const struct acl_question q = {.path = bytes_str(path),
                                   .rule_path = bytes_str(canonical),
                                   .caps = caps != 0 ? caps : CAP_READ,
                                   .list = dice_once(d, 2),
                                   .wrap_s = ttls[dice_below(d, ARRAY_LEN(ttls))]};
    const struct policy_rule *rule;
    enum status st = acl_check(acl, &q, &rule);

    const char *pattern = ref_decide(rules, canonical[0] != '\0' ? canonical : path, q.list);
    if (pattern == NULL && canonical[0] != '\0')
        pattern = ref_exact(rules, path);
    bool allowed = pattern != NULL && (ref_caps(rules, pattern) & q.caps) == q.caps &&
                   ref_wrap_fits(rules, pattern, q.wrap_s);
    if ((rule != NULL) != (pattern != NULL) || (st == ST_OK) != allowed)
        tell(rules, path, NULL);
    ASSERT((rule != NULL) == (pattern != NULL));
    ASSERT((st == ST_OK) == allowed && (allowed || st == ST_DENIED));
    if (pattern != NULL)
        check_names(acl, rule, rules, pattern, &arena);
    for (unsigned i = 0; allowed && i < BODIES; i++) {
        const struct text_value *data = make_data(d, rules, pattern, &arena);
        bool fits = acl_param_allow(rule, data), should = ref_allows(&arena, rules, pattern, data);
        if (fits != should)
            tell(rules, path, data);
        ASSERT(fits == should);
    }
    ASSERT(acl_capabilities(acl, q.path) == ref_caps(rules, ref_decide(rules, path, true)));
    if (path[0] != '\0' && path[strlen(path) - 1] == '/')
        ASSERT(acl_reaches(acl, q.path) == ref_reaches(rules, path));
}

static void one_acl(struct dice *d)
{
    static const char *const titles[POLICIES] = {"0", "1", "2", "3"};
    static struct ref_rules rules;
    struct policy *policies[POLICIES];
    struct acl *acl;
    bool hcl[POLICIES];
    for (unsigned i = 0; i < POLICIES; i++)
        hcl[i] = dice_once(d, 2);
    rules.n = dice_below(d, REF_RULES + 1);
    for (unsigned i = 0; i < rules.n; i++) {
        unsigned policy = dice_below(d, POLICIES);
        make_rule(d, hcl[policy], &rules.items[i]);
        if (i != 0 && dice_once(d, 3)) /* patterns that several rules have */
            (void)memcpy(rules.items[i].pattern, rules.items[dice_below(d, i)].pattern, REF_TEXT);
        rules.items[i].templated = strstr(rules.items[i].pattern, "{{") != NULL;
        rules.items[i].slash |= rules.items[i].pattern[0] == '/';
        rules.items[i].policy = policy;
    }
    for (unsigned i = 0; i < POLICIES; i++) {
        CLEANUP(buf_done) struct buf text = {0};
        put_policy(&text, &rules, i, hcl[i]);
        policies[i] = compile(d, buf_bytes(&text), titles[i]);
    }
    ASSERT(acl_new((const struct policy *const *)policies, POLICIES, &acl) == ST_OK);
    for (unsigned i = 0; i < QUESTIONS; i++)
        ask(d, acl, &rules);
    acl_free(acl);
    for (unsigned i = 0; i < POLICIES; i++)
        policy_free(policies[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dice d = dice_of(data, size);
    for (unsigned n = 1 + dice_below(&d, 64); n > 0; n--)
        one_acl(&d);
    return 0;
}
