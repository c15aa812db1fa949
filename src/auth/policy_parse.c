/* The parser of policies: from the text to the rules. */
#include "auth/policy.h"
#include "base/mem.h"
#include "text/duration.h"
#include "text/hcl.h"
#include "text/schema.h"
#include "text/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum { RULES_MAX = 50000 };

struct parser {
    struct arena *arena;
    struct reason *why;
    struct policy_rule *rules;
    size_t n, room;
};

/* Report a fault at `at`. `owner` is the path whose rule has the fault; empty: the fault is in the
 * policy itself. */
__attribute__((format(printf, 4, 5))) static enum status parser_refuse(struct parser *p,
                                                                       const struct text_value *at,
                                                                       struct bytes owner,
                                                                       const char *format, ...)
{
    char text[160];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args); /* a text that is too long is cut */
    va_end(args);
    if (owner.len == 0)
        reason_set(p->why, "line %u: %s", at->line, text);
    else
        reason_set(p->why, "line %u: path \"%.*s\": %s", at->line, (int)MIN(owner.len, 64),
                   (const char *)owner.data, text);
    return ST_INVALID;
}

static enum status parser_make_room(struct parser *p)
{
    if (p->n < p->room)
        return ST_OK;
    if (p->n == RULES_MAX) {
        reason_set(p->why, "more than %d paths", RULES_MAX);
        return ST_TOO_BIG;
    }
    ASSERT(p->n == p->room && p->n < RULES_MAX);
    size_t room = MIN(MAX(2 * p->room, (size_t)8), (size_t)RULES_MAX);
    struct policy_rule *rules = arena_alloc(p->arena, room * sizeof *rules);
    if (rules == NULL)
        return ST_NOMEM;
    if (p->n != 0)
        memcpy(rules, p->rules, p->n * sizeof *rules);
    ASSERT(room > p->n);
    p->rules = rules;
    p->room = room;
    return ST_OK;
}

static struct bytes lowered(struct arena *arena, struct bytes text)
{
    uint8_t *copy = arena_alloc(arena, text.len + 1);
    if (copy == NULL)
        return (struct bytes){0};
    for (size_t i = 0; i < text.len; i++)
        copy[i] = (uint8_t)(text.data[i] | (text.data[i] >= 'A' && text.data[i] <= 'Z' ? 0x20 : 0));
    copy[text.len] = 0;
    return bytes_of(copy, text.len);
}

/* Patterns of paths */

/* Whether every "{{" is followed by "}}" before the next "{{". *ret_any: there is a template. */
static bool templates_pair(struct bytes text, bool *ret_any)
{
    bool open = false;
    *ret_any = false;
    for (size_t i = 0; i + 1 < text.len; i++) {
        uint8_t c = text.data[i];
        if ((c != '{' && c != '}') || text.data[i + 1] != c)
            continue;
        if (open == (c == '{'))
            return false;
        open = !open;
        *ret_any = true;
        i++;
    }
    return !open;
}

static enum status segments_read(struct parser *p, const struct text_value *v,
                                 struct policy_rule *rule)
{
    size_t segments = 0;
    for (size_t at = 0; at <= rule->stem.len; segments++) {
        struct bytes rest = bytes_from(rule->stem, at);
        const uint8_t *slash = rest.len != 0 ? memchr(rest.data, '/', rest.len) : NULL;
        size_t len = slash != NULL ? (size_t)(slash - rest.data) : rest.len;
        rule->n_plus += len == 1 && rest.data[0] == '+';
        at += len + 1;
    }
    ASSERT(rule->n_plus <= segments);
    if (segments > POLICY_SEGMENTS_MAX)
        return parser_refuse(p, v, v->name, "more than %d segments", POLICY_SEGMENTS_MAX);
    return ST_OK;
}

static enum status pattern_read(struct parser *p, const struct text_value *v,
                                struct policy_rule *rule)
{
    struct bytes text = v->name;
    if (text.len > 0 && text.data[0] == '/')
        text = bytes_from(text, 1);
    if (text.len > POLICY_PATTERN_MAX)
        return parser_refuse(p, v, text, "longer than %d bytes", POLICY_PATTERN_MAX);
    if (!text_printable(text))
        return parser_refuse(p, v, text, "holds unprintable characters");
    if (text.len != 0 && memmem(text.data, text.len, "+*", 2) != NULL)
        return parser_refuse(p, v, text, "\"+*\" is not a wildcard: use \"+\" or \"*\"");
    if (!templates_pair(text, &rule->templated))
        return parser_refuse(p, v, text, "template: every \"{{\" needs a \"}}\" after it");
    rule->star = text.len > 0 && text.data[text.len - 1] == '*';
    rule->stem = bytes_of(text.data, text.len - rule->star);
    return segments_read(p, v, rule);
}

/* Fields of a rule */

static enum status cap_read(struct parser *p, struct bytes path, const struct text_value *v,
                            struct policy_rule *rule)
{
    unsigned cap;
    if (v->kind != TEXT_STRING)
        return parser_refuse(p, v, path, "capabilities: a string is expected, not %s",
                             text_kind_name(v->kind));
    for (unsigned i = 0; i < CAP_KINDS; i++)
        if (text_is(v->text, cap_word(i, &cap))) {
            rule->caps |= cap;
            return ST_OK;
        }
    return parser_refuse(p, v, path, "invalid capability \"%.*s\"", (int)MIN(v->text.len, 40),
                         (const char *)v->text.data);
}

static enum status caps_read(struct parser *p, struct bytes path, const struct text_value *v,
                             struct policy_rule *rule)
{
    if (v->kind == TEXT_STRING)
        return cap_read(p, path, v, rule);
    if (v->kind != TEXT_LIST)
        return parser_refuse(p, v, path, "capabilities: a list is expected, not %s",
                             text_kind_name(v->kind));
    TEXT_FOR (item, v)
        TRY(cap_read(p, path, item, rule));
    return ST_OK;
}

/* Read the field `policy`, the older form of `capabilities`. */
static enum status word_read(struct parser *p, struct bytes path, const struct text_value *v,
                             struct policy_rule *rule)
{
    static const unsigned reads = CAP_READ | CAP_LIST,
                          writes = CAP_CREATE | CAP_READ | CAP_UPDATE | CAP_DELETE | CAP_LIST;
    static const struct {
        const char *word;
        unsigned caps;
    } words[] = {
        {"deny", CAP_DENY}, {"read", reads}, {"write", writes}, {"sudo", writes | CAP_SUDO}};
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (v->kind == TEXT_STRING && text_is(v->text, words[i].word)) {
            rule->caps |= words[i].caps;
            return ST_OK;
        }
    return parser_refuse(p, v, path, "invalid policy: read, write, sudo or deny is expected");
}

static int param_order(const void *a, const void *b)
{
    const struct policy_param *x = a, *y = b;
    return bytes_cmp(x->name, y->name);
}

static enum status values_read(struct parser *p, const struct text_value *v,
                               struct policy_param *param)
{
    bool one = v->kind != TEXT_LIST;
    const struct text_value **values = arena_alloc(p->arena, (one ? 1 : v->n + 1) * sizeof *values);
    ASSERT(param->n_values == 0);
    if (values == NULL)
        return ST_NOMEM;
    if (one) {
        values[param->n_values++] = v;
    } else {
        TEXT_FOR (item, v)
            values[param->n_values++] = item;
    }
    ASSERT(param->n_values == (one ? 1 : v->n));
    param->values = values;
    return ST_OK;
}

static enum status params_read(struct parser *p, struct bytes path, const struct text_value *v,
                               struct policy_params *ret_params)
{
    size_t n = 0;
    if (v->kind != TEXT_OBJECT)
        return parser_refuse(p, v, path,
                             "%.*s: parameters with lists of values are expected, not %s",
                             (int)v->name.len, (const char *)v->name.data, text_kind_name(v->kind));
    struct policy_param *params = arena_zalloc(p->arena, (v->n + 1) * sizeof *params);
    if (params == NULL)
        return ST_NOMEM;
    TEXT_FOR (item, v) {
        params[n].name = lowered(p->arena, item->name);
        if (params[n].name.data == NULL)
            return ST_NOMEM;
        TRY(values_read(p, item, &params[n++]));
    }
    ASSERT(n == v->n);
    qsort(params, n, sizeof *params, param_order);
    for (size_t i = 1; i < n; i++)
        if (bytes_eq(params[i - 1].name, params[i].name))
            return parser_refuse(p, v, path, "%.*s: \"%.*s\" is repeated", (int)v->name.len,
                                 (const char *)v->name.data, (int)MIN(params[i].name.len, 40),
                                 (const char *)params[i].name.data);
    *ret_params = (struct policy_params){params, n};
    return ST_OK;
}

static enum status required_read(struct parser *p, struct bytes path, const struct text_value *v,
                                 struct policy_rule *rule)
{
    if (v->kind != TEXT_LIST)
        return parser_refuse(p, v, path, "required_parameters: a list is expected, not %s",
                             text_kind_name(v->kind));
    ASSERT(rule->n_required == 0); /* fields_read has refused a second list */
    struct bytes *names = arena_alloc(p->arena, (v->n + 1) * sizeof *names);
    if (names == NULL)
        return ST_NOMEM;
    TEXT_FOR (item, v) {
        if (item->kind != TEXT_STRING)
            return parser_refuse(p, item, path, "required_parameters: a string is expected, not %s",
                                 text_kind_name(item->kind));
        names[rule->n_required] = lowered(p->arena, item->text);
        if (names[rule->n_required++].data == NULL)
            return ST_NOMEM;
    }
    ASSERT(rule->n_required == v->n);
    rule->required = names;
    return ST_OK;
}

/* Round to the stricter whole second: the least time up, the longest time down. A longest time
 * below a second is refused, because 0 means no limit. */
static enum status wrap_ttl_read(struct parser *p, struct bytes path, const struct text_value *v,
                                 bool least, int64_t *ret_s)
{
    int64_t ns;
    bool text = v->kind == TEXT_STRING || v->kind == TEXT_NUMBER;
    if (!text || text_duration_parse(v->text, &ns) != ST_OK)
        return parser_refuse(p, v, path, "%.*s: a duration such as 60 or \"5m\" is expected",
                             (int)v->name.len, (const char *)v->name.data);
    ASSERT(ns >= 0);
    *ret_s = ns / 1000000000 + (least && ns % 1000000000 != 0);
    if (*ret_s == 0 && ns != 0)
        return parser_refuse(p, v, path, "max_wrapping_ttl: less than a second");
    return ST_OK;
}

/* Note whether a value has a template. */
static void note_templates(struct policy_rule *rule)
{
    for (size_t i = 0; i < rule->allowed.n; i++)
        for (size_t k = 0; k < rule->allowed.items[i].n_values; k++) {
            const struct text_value *value = rule->allowed.items[i].values[k];
            bool any = false;
            ASSERT(value->kind <= TEXT_OBJECT);
            if (value->kind == TEXT_STRING && templates_pair(value->text, &any))
                rule->templated = rule->templated || any;
        }
}

static enum status allowed_read(struct parser *p, struct bytes path, const struct text_value *v,
                                struct policy_rule *rule)
{
    TRY(params_read(p, path, v, &rule->allowed));
    note_templates(rule);
    return ST_OK;
}

static enum status field_read(struct parser *p, struct bytes path, const struct text_value *v,
                              struct policy_rule *rule)
{
    static const char *const beyond[] = {"mfa_methods", "control_group", "pagination_limit",
                                         "expiration", "list_scan_response_keys_filter_path"};
    if (text_is(v->name, "capabilities"))
        return caps_read(p, path, v, rule);
    if (text_is(v->name, "policy"))
        return word_read(p, path, v, rule);
    if (text_is(v->name, "allowed_parameters"))
        return allowed_read(p, path, v, rule);
    if (text_is(v->name, "denied_parameters"))
        return params_read(p, path, v, &rule->denied);
    if (text_is(v->name, "required_parameters"))
        return required_read(p, path, v, rule);
    if (text_is(v->name, "min_wrapping_ttl"))
        return wrap_ttl_read(p, path, v, true, &rule->min_wrap_s);
    if (text_is(v->name, "max_wrapping_ttl"))
        return wrap_ttl_read(p, path, v, false, &rule->max_wrap_s);
    if (text_is(v->name, "comment"))
        return ST_OK;
    /* Refuse the fields that would narrow the rule: a rule without them would allow more. */
    for (size_t i = 0; i < ARRAY_LEN(beyond); i++)
        if (text_is(v->name, beyond[i]))
            return parser_refuse(p, v, path, "%s is not available", beyond[i]);
    return parser_refuse(p, v, path, "invalid key \"%.*s\"", (int)MIN(v->name.len, 40),
                         (const char *)v->name.data);
}

static enum status fields_read(struct parser *p, const struct text_value *path,
                               const struct text_value *object, struct policy_rule *rule)
{
    if (object->kind != TEXT_OBJECT)
        return parser_refuse(p, object, path->name, "an object is expected, not %s",
                             text_kind_name(object->kind));
    TEXT_FOR (field, object) {
        for (const struct text_value *before = object->first; before != field;
             before = before->next)
            /* check here: the HCL reader lets blocks repeat */
            if (bytes_eq(before->name, field->name))
                return parser_refuse(p, field, path->name, "\"%.*s\" is repeated",
                                     (int)MIN(field->name.len, 40), (const char *)field->name.data);
        TRY(field_read(p, path->name, field, rule));
    }
    return ST_OK;
}

/* Read one rule: `path` has the pattern as its name, `object` the fields. */
static enum status rule_read(struct parser *p, const struct text_value *path,
                             const struct text_value *object)
{
    struct policy_rule rule = {0};
    TRY(parser_make_room(p));
    TRY(pattern_read(p, path, &rule));
    TRY(fields_read(p, path, object, &rule));
    if (rule.max_wrap_s != 0 && rule.max_wrap_s < rule.min_wrap_s)
        return parser_refuse(p, path, path->name, "max_wrapping_ttl is less than min_wrapping_ttl");
    if ((rule.caps & CAP_DENY) != 0)
        rule.caps = CAP_DENY;
    ASSERT(p->n < p->room);
    p->rules[p->n++] = rule;
    return ST_OK;
}

/* Read one `path` block: patterns, each with an object or, in JSON, a list of objects. */
static enum status paths_read(struct parser *p, const struct text_value *paths)
{
    if (paths->kind != TEXT_OBJECT)
        return parser_refuse(p, paths, (struct bytes){0},
                             "path: a pattern with its rule is expected");
    TEXT_FOR (path, paths) {
        if (path->kind != TEXT_LIST) {
            TRY(rule_read(p, path, path));
            continue;
        }
        TEXT_FOR (object, path)
            TRY(rule_read(p, path, object));
    }
    return ST_OK;
}

static enum status rules_read(struct parser *p, const struct text_value *root)
{
    TEXT_FOR (item, root) {
        if (text_is(item->name, "name"))
            continue;
        if (!text_is(item->name, "path"))
            return parser_refuse(p, item, (struct bytes){0}, "invalid key \"%.*s\"",
                                 (int)MIN(item->name.len, 40), (const char *)item->name.data);
        if (item->kind != TEXT_LIST) {
            TRY(paths_read(p, item));
            continue;
        }
        TEXT_FOR (paths, item)
            TRY(paths_read(p, paths));
    }
    return ST_OK;
}

static enum status source_read(struct parser *p, struct bytes text)
{
    const struct text_value *root;
    if (text.len > POLICY_TEXT_MAX) {
        reason_set(p->why, "longer than %d bytes", POLICY_TEXT_MAX);
        return ST_TOO_BIG;
    }
    if (!text_utf8_valid(text) || (text.len != 0 && memchr(text.data, 0, text.len) != NULL)) {
        reason_set(p->why, "not UTF-8 text");
        return ST_INVALID;
    }
    TRY(text_hcl_parse(p->arena, text, &root, p->why));
    if (root->kind != TEXT_OBJECT)
        return parser_refuse(p, root, (struct bytes){0}, "an object is expected");
    return rules_read(p, root);
}

enum status policy_compile(struct bytes text, struct policy **ret_policy, struct reason *why)
{
    struct policy *policy = mem_zalloc(sizeof *policy);
    if (policy == NULL)
        return ST_NOMEM;
    struct parser p = {.arena = &policy->arena, .why = why};
    enum status st = source_read(&p, text);
    if (st != ST_OK) {
        policy_free(policy);
        return st;
    }
    ASSERT(p.n <= RULES_MAX);
    policy->rules = p.rules;
    policy->n = p.n;
    *ret_policy = policy;
    return ST_OK;
}

void policy_free(struct policy *policy)
{
    if (policy == NULL)
        return;
    arena_done(&policy->arena);
    mem_free(policy);
}
