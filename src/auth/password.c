#include "auth/password.h"
#include "base/mem.h"
#include "text/hcl.h"
#include "text/utf8.h"

#include <stdlib.h>

struct reading {
    struct arena *arena;
    struct reason *why;
    struct password_policy *policy;
};

static int rune_order(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static size_t drop_repeats(uint32_t *runes, size_t n)
{
    size_t kept = 0;
    qsort(runes, n, sizeof *runes, rune_order);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || runes[kept - 1] != runes[i])
            runes[kept++] = runes[i];
    ASSERT(kept <= n);
    return kept;
}

static enum status refuse(struct reading *r, const char *text)
{
    reason_set(r->why, "%s", text);
    return ST_INVALID;
}

static enum status charset_read(struct reading *r, const struct text_value *v,
                                struct password_rule *rule)
{
    size_t n = 0;
    if (v == NULL || v->kind != TEXT_STRING || v->text.len == 0)
        return refuse(r, "rule \"charset\": charset: a string that is not empty is expected");
    if (v->text.len > 4 * (size_t)PASSWORD_CHARSET_MAX || !text_printable(v->text))
        return refuse(r, "rule \"charset\": charset: too long, or with unprintable characters");
    uint32_t *runes = arena_alloc(r->arena, v->text.len * sizeof *runes);
    if (runes == NULL)
        return ST_NOMEM;
    for (size_t at = 0; at < v->text.len;)
        TRY(text_utf8_next(v->text, &at, &runes[n++]));
    ASSERT(n <= v->text.len); /* every character has at least one byte */
    if (n > PASSWORD_CHARSET_MAX)
        return refuse(r, "rule \"charset\": charset: too long");
    rule->runes = runes;
    rule->n = drop_repeats(runes, n);
    return ST_OK;
}

/* Read the body of one `rule "charset"`. */
static enum status charset_rule_read(struct reading *r, const struct text_value *body)
{
    struct password_policy *policy = r->policy;
    struct password_rule rule = {0};
    if (body->kind != TEXT_OBJECT)
        return refuse(r, "rule \"charset\": an object is expected");
    if (policy->n_rules == PASSWORD_RULES_MAX)
        return refuse(r, "too many rules");
    TEXT_FOR (item, body) {
        bool min = text_is(item->name, "min-chars");
        if (!min && !text_is(item->name, "charset"))
            return refuse(r, "rule \"charset\": only charset and min-chars are known");
        if (min && (text_to_int(item, &rule.min_chars) != ST_OK || rule.min_chars < 0 ||
                    rule.min_chars > PASSWORD_LENGTH_MAX))
            return refuse(r, "rule \"charset\": min-chars: 0 or more is expected");
    }
    TRY(charset_read(r, text_get(body, "charset"), &rule));
    ASSERT(policy->n_rules < PASSWORD_RULES_MAX);
    policy->rules[policy->n_rules++] = rule;
    return ST_OK;
}

/* Read a `rule`: the rule holds its label, and the label holds the body of the rule. In JSON, rule
 * and label may each hold a list. */
static enum status labelled_read(struct reading *r, const struct text_value *rule)
{
    if (rule->kind != TEXT_OBJECT)
        return refuse(r, "rule: a name and a body are expected");
    TEXT_FOR (label, rule) {
        if (!text_is(label->name, "charset"))
            return refuse(r, "rule: only rules named \"charset\" are known");
        if (label->kind != TEXT_LIST) {
            TRY(charset_rule_read(r, label));
            continue;
        }
        TEXT_FOR (body, label)
            TRY(charset_rule_read(r, body));
    }
    return ST_OK;
}

static enum status items_read(struct reading *r, const struct text_value *root)
{
    TEXT_FOR (item, root) {
        if (text_is(item->name, "length")) {
            if (text_to_int(item, &r->policy->length) != ST_OK)
                return refuse(r, "length: a whole number is expected");
        } else if (!text_is(item->name, "rule")) {
            return refuse(r, "only length and rule are known");
        } else if (item->kind != TEXT_LIST) {
            TRY(labelled_read(r, item));
        } else {
            TEXT_FOR (rule, item)
                TRY(labelled_read(r, rule));
        }
    }
    return ST_OK;
}

static enum status check_sums(struct reading *r)
{
    struct password_policy *policy = r->policy;
    int64_t sum = 0;
    size_t n = 0;
    if (policy->length < PASSWORD_LENGTH_MIN || policy->length > PASSWORD_LENGTH_MAX) {
        reason_set(r->why, "length: %d to %d is expected", PASSWORD_LENGTH_MIN,
                   PASSWORD_LENGTH_MAX);
        return ST_INVALID;
    }
    if (policy->n_rules == 0)
        return refuse(r, "at least one rule \"charset\" is needed");
    for (size_t i = 0; i < policy->n_rules; i++) {
        sum += policy->rules[i].min_chars;
        n += policy->rules[i].n;
    }
    if (sum > policy->length)
        return refuse(r, "the rules ask for more characters than length has");
    ASSERT(n <= (size_t)PASSWORD_RULES_MAX * PASSWORD_CHARSET_MAX);
    uint32_t *runes = arena_alloc(r->arena, n * sizeof *runes);
    if (runes == NULL)
        return ST_NOMEM;
    n = 0;
    for (size_t i = 0; i < policy->n_rules; i++) {
        memcpy(runes + n, policy->rules[i].runes, policy->rules[i].n * sizeof *runes);
        n += policy->rules[i].n;
    }
    policy->runes = runes;
    policy->n = drop_repeats(runes, n);
    return ST_OK;
}

enum status password_policy_parse(struct arena *arena, struct bytes text,
                                  struct password_policy *ret_policy, struct reason *why)
{
    struct password_policy policy = {0};
    struct reading r = {.arena = arena, .why = why, .policy = &policy};
    const struct text_value *root;

    if (text.len > PASSWORD_TEXT_MAX || !text_utf8_valid(text) ||
        (text.len != 0 && memchr(text.data, 0, text.len) != NULL))
        return refuse(&r, "too long, or not UTF-8 text");
    enum status st = text_hcl_parse(arena, text, &root, why);
    if (st != ST_OK)
        return st == ST_TOO_BIG ? ST_INVALID : st;
    if (root->kind != TEXT_OBJECT)
        return refuse(&r, "an object is expected");
    TRY(items_read(&r, root));
    TRY(check_sums(&r));
    ASSERT(policy.n_rules > 0 && policy.n > 0);
    *ret_policy = policy;
    return ST_OK;
}

/* Choose a number below n, each with the same probability. */
static size_t choose(struct env *env, size_t n)
{
    ASSERT(n > 0 && n < UINT32_MAX);
    uint32_t drawn, fair = UINT32_MAX - UINT32_MAX % (uint32_t)n;
    do
        env_random(env, &drawn, sizeof drawn);
    while (drawn >= fair);
    return drawn % n;
}

enum status password_make(const struct password_policy *policy, struct env *env, struct buf *out)
{
    uint32_t runes[PASSWORD_LENGTH_MAX];
    size_t n = 0, length = (size_t)policy->length;

    ASSERT(policy->length >= PASSWORD_LENGTH_MIN && policy->length <= PASSWORD_LENGTH_MAX);
    for (size_t i = 0; i < policy->n_rules; i++)
        for (int64_t k = 0; k < policy->rules[i].min_chars; k++) {
            ASSERT(n < length);
            runes[n++] = policy->rules[i].runes[choose(env, policy->rules[i].n)];
        }
    while (n < length)
        runes[n++] = policy->runes[choose(env, policy->n)];
    ASSERT(n == length);
    for (size_t i = n; i > 1; i--) { /* shuffle as Fisher and Yates do */
        size_t j = choose(env, i);
        uint32_t kept = runes[i - 1];
        runes[i - 1] = runes[j];
        runes[j] = kept;
    }
    for (size_t i = 0; i < n; i++) {
        uint8_t text[4];
        buf_add(out, bytes_of(text, text_utf8_put(runes[i], text)));
    }
    mem_wipe(runes, sizeof runes);
    return buf_status(out);
}
