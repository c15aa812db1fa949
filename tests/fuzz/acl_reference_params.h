/* The part of the slow reference that compares the parameters of a request with those of rules.
 * Values are compared as trees of the JSON reader, which fuzz_json tests. */
#ifndef HOLDFAST_FUZZ_ACL_REFERENCE_PARAMS_H
#define HOLDFAST_FUZZ_ACL_REFERENCE_PARAMS_H

#include "acl_reference.h"

#include "text/json.h"

#include <errno.h>
#include <regex.h>
#include <stdlib.h>
#include <strings.h>

/* Values */

static inline const struct text_value *ref_value(struct arena *arena, const char *json)
{
    const struct text_value *v;
    ASSERT(text_json_parse(arena, bytes_str(json), &v, NULL) == ST_OK);
    return v;
}

/* The text of a scalar; NULL: a list, an object or null. */
static inline const char *ref_scalar(const struct text_value *v)
{
    if (v->kind == TEXT_BOOL)
        return v->truth ? "true" : "false";
    return v->kind == TEXT_STRING || v->kind == TEXT_NUMBER ? (const char *)v->text.data : NULL;
}

static inline bool ref_number(const char *text, double *ret)
{
    static regex_t number;
    static bool made;
    if (!made)
        ASSERT(regcomp(&number, "^-?[0-9]+(\\.[0-9]+)?([eE][-+]?[0-9]+)?$",
                       REG_EXTENDED | REG_NOSUB) == 0);
    made = true;
    *ret = strtod(text, NULL);
    return regexec(&number, text, 0, NULL, 0) == 0;
}

/* -1: not a boolean, as handlers read booleans. */
static inline int ref_truth(const struct text_value *v)
{
    static const char *const words[2][6] = {{"0", "f", "F", "false", "FALSE", "False"},
                                            {"1", "t", "T", "true", "TRUE", "True"}};
    if (v->kind == TEXT_BOOL)
        return v->truth;
    if (v->kind == TEXT_NUMBER) {
        const char *text = (const char *)v->text.data;
        errno = 0;
        long long n = strtoll(text, NULL, 10);
        return strpbrk(text, ".eE") != NULL || errno == ERANGE ? -1 : n != 0;
    }
    if (v->kind != TEXT_STRING)
        return -1;
    if (v->text.len == 0)
        return 0;
    for (int truth = 0; truth < 2; truth++)
        for (size_t i = 0; i < 6; i++)
            if (text_is(v->text, words[truth][i]))
                return truth;
    return -1;
}

/* A '*' at either end of a pattern of two or more characters stands for any text. */
static inline bool ref_glob(const char *pattern, const char *text)
{
    size_t len = strlen(pattern), n = strlen(text);
    if (len < 2)
        return strcmp(pattern, text) == 0;
    bool front = pattern[0] == '*', back = pattern[len - 1] == '*';
    size_t core = len - front - back;
    for (size_t at = 0; at + core <= n; at++)
        if (memcmp(text + at, pattern + front, core) == 0 && (front || at == 0) &&
            (back || at + core == n))
            return true;
    return false;
}

static inline bool ref_same(const struct text_value *want, const struct text_value *have)
{
    const char *text = ref_scalar(have);
    double x, y;
    if (want->kind == TEXT_NULL || have->kind == TEXT_NULL)
        return want->kind == have->kind;
    if (want->kind == TEXT_BOOL)
        return ref_truth(have) == want->truth;
    if (want->kind == TEXT_NUMBER || (want->kind == TEXT_STRING && have->kind == TEXT_NUMBER))
        if (have->kind != TEXT_BOOL && text != NULL &&
            ref_number((const char *)want->text.data, &x) && ref_number(text, &y) && x == y)
            return true;
    if (want->kind == TEXT_STRING)
        return text != NULL && ref_glob((const char *)want->text.data, text);
    if (want->kind == TEXT_NUMBER || want->kind != have->kind || want->n != have->n)
        return false;
    const struct text_value *item = have->first;
    TEXT_FOR (w, want) {
        if (want->kind == TEXT_OBJECT)
            item = text_get(have, (const char *)w->name.data);
        if (item == NULL || !ref_same(w, item))
            return false;
        item = item->next;
    }
    return true;
}

/* Parameters */

static inline bool ref_is_name(const char *name, struct bytes member)
{
    size_t len = strlen(name);
    return len == member.len && strncasecmp(name, (const char *)member.data, len) == 0;
}

static inline bool ref_names(struct arena *arena, const struct ref_param *param,
                             const struct text_value *v)
{
    for (unsigned i = 0; i < param->n; i++)
        if (ref_same(ref_value(arena, param->values[i]), v))
            return true;
    return param->n == 0;
}

/* As ref_names; a denied word for a boolean denies its other spellings too. */
static inline bool ref_denies_one(struct arena *arena, const struct ref_param *param,
                                  const struct text_value *v)
{
    for (unsigned i = 0; i < param->n; i++) {
        const struct text_value *want = ref_value(arena, param->values[i]);
        if (want->kind == TEXT_STRING && want->text.len >= 4 && ref_truth(want) >= 0 &&
            ref_truth(want) == ref_truth(v))
            return true;
    }
    return ref_names(arena, param, v);
}

/* A value, the items of a list and the parts of "a, b". */
static inline bool ref_denies(struct arena *arena, const struct ref_param *param,
                              const struct text_value *v)
{
    if (ref_denies_one(arena, param, v))
        return true;
    if (v->kind == TEXT_LIST)
        TEXT_FOR (item, v)
            if (ref_denies_one(arena, param, item))
                return true;
    if (v->kind != TEXT_STRING)
        return false;
    char *rest = arena_str(arena, v->text), *part;
    while (*rest != '\0' && (part = strsep(&rest, ",")) != NULL) {
        part += strspn(part, " ");
        size_t len = strlen(part);
        while (len != 0 && part[len - 1] == ' ')
            len--;
        part[len] = '\0';
        struct text_value text = {.kind = TEXT_STRING, .text = bytes_str(part)};
        if (ref_denies_one(arena, param, &text))
            return true;
        if (rest == NULL)
            break;
    }
    return false;
}

static inline bool ref_required(const struct ref_rule *rule, const struct text_value *data)
{
    for (unsigned i = 0; i < rule->n_required; i++) {
        bool given = false;
        TEXT_FOR (v, data)
            given |= v->kind != TEXT_NULL && ref_is_name(rule->required[i], v->name);
        if (!given)
            return false;
    }
    return true;
}

static inline bool ref_denied(struct arena *arena, const struct ref_rule *rule,
                              const struct text_value *data)
{
    for (unsigned i = 0; i < rule->n_denied; i++) {
        if (strcmp(rule->denied[i].name, "*") == 0 && data->n != 0)
            return true;
        TEXT_FOR (v, data)
            if (ref_is_name(rule->denied[i].name, v->name) &&
                ref_denies(arena, &rule->denied[i], v))
                return true;
    }
    return false;
}

/* Whether the rules with one pattern allow a member together. */
static inline bool ref_allowed(struct arena *arena, const struct ref_rules *rules,
                               const char *pattern, const struct text_value *v)
{
    bool any = false, named = false, restricted = false;
    REF_FOR(rule, rules, pattern)
    for (unsigned i = 0; i < rule->n_allowed; i++) {
        const struct ref_param *param = &rule->allowed[i];
        restricted = true;
        any |= strcmp(param->name, "*") == 0;
        if (!ref_is_name(param->name, v->name))
            continue;
        named = true;
        if (ref_names(arena, param, v))
            return true;
    }
    return !restricted || (any && !named);
}

static inline bool ref_allows(struct arena *arena, const struct ref_rules *rules,
                              const char *pattern, const struct text_value *data)
{
    REF_FOR(rule, rules, pattern)
    if (!ref_required(rule, data) || ref_denied(arena, rule, data))
        return false;
    TEXT_FOR (v, data)
        if (!ref_allowed(arena, rules, pattern, v))
            return false;
    return true;
}

#endif
