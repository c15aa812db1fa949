/* What policies allow, worked out slowly from the documented rules (auth/acl.h, auth/policy.h):
 * every rule is compared with every path, and every merged rule is asked anew. Nothing is compiled.
 * acl_reference_params.h compares parameters. */
#ifndef HOLDFAST_FUZZ_ACL_REFERENCE_H
#define HOLDFAST_FUZZ_ACL_REFERENCE_H

#include "auth/policy.h"

#include <stdio.h>

enum { REF_TEXT = 160, REF_SEGMENTS = 24, REF_PARAMS = 3, REF_VALUES = 3, REF_RULES = 24 };

struct ref_param {
    const char *name;
    const char *values[REF_VALUES]; /* as JSON */
    unsigned n;
};

struct ref_rule {
    char pattern[REF_TEXT]; /* without a '/' in front */
    bool slash;             /* a '/' stands in front of the text */
    bool templated;
    unsigned caps, policy;
    struct ref_param allowed[REF_PARAMS], denied[REF_PARAMS];
    unsigned n_allowed, n_denied;
    const char *required[REF_PARAMS];
    unsigned n_required;
    int64_t min_wrap_s, max_wrap_s;
};

struct ref_rules {
    struct ref_rule items[REF_RULES];
    unsigned n;
};

/* Paths */

struct ref_split {
    char part[REF_SEGMENTS][REF_TEXT];
    size_t n;
};

static inline void ref_split(const char *text, struct ref_split *ret)
{
    ASSERT(strlen(text) < REF_TEXT);
    for (ret->n = 0;; text++) {
        size_t len = strcspn(text, "/");
        ASSERT(ret->n < REF_SEGMENTS);
        memcpy(ret->part[ret->n], text, len);
        ret->part[ret->n++][len] = '\0';
        text += len;
        if (*text == '\0')
            return;
    }
}

static inline bool ref_star(const char *pattern)
{
    return pattern[0] != '\0' && pattern[strlen(pattern) - 1] == '*';
}

static inline unsigned ref_plusses(const char *pattern)
{
    struct ref_split s;
    unsigned found = 0;
    ref_split(pattern, &s);
    for (size_t i = 0; i < s.n; i++)
        found += strcmp(s.part[i], "+") == 0;
    return found;
}

static inline bool ref_is_wild(const char *pattern)
{
    return ref_star(pattern) || ref_plusses(pattern) != 0;
}

/* Where the first wildcard stands. */
static inline size_t ref_first_wild(const char *pattern)
{
    struct ref_split s;
    size_t at = 0;
    ref_split(pattern, &s);
    for (size_t i = 0; i < s.n; i++) {
        if (strcmp(s.part[i], "+") == 0)
            return at;
        at += strlen(s.part[i]) + 1;
    }
    return strlen(pattern) - ref_star(pattern);
}

static inline bool ref_fits(const char *pattern, const char *path)
{
    struct ref_split want, have;
    bool star = ref_star(pattern);
    ref_split(pattern, &want);
    ref_split(path, &have);
    if (star ? have.n < want.n : have.n != want.n)
        return false;
    for (size_t i = 0; i < want.n; i++) {
        size_t len = strlen(want.part[i]);
        if (star && i == want.n - 1)
            return strncmp(want.part[i], have.part[i], len - 1) == 0;
        if (strcmp(want.part[i], "+") != 0 && strcmp(want.part[i], have.part[i]) != 0)
            return false;
    }
    return true;
}

/* Whether `a` decides rather than `b`; both fit and have wildcards. */
static inline bool ref_beats(const char *a, const char *b)
{
    if (ref_first_wild(a) != ref_first_wild(b))
        return ref_first_wild(a) > ref_first_wild(b);
    if (ref_star(a) != ref_star(b))
        return !ref_star(a);
    if (ref_plusses(a) != ref_plusses(b))
        return ref_plusses(a) < ref_plusses(b);
    if (strlen(a) != strlen(b))
        return strlen(a) > strlen(b);
    return strcmp(a, b) > 0;
}

static inline const char *ref_exact(const struct ref_rules *rules, const char *path)
{
    for (unsigned i = 0; i < rules->n; i++)
        if (!rules->items[i].templated && !ref_is_wild(rules->items[i].pattern) &&
            strcmp(rules->items[i].pattern, path) == 0)
            return rules->items[i].pattern;
    return NULL;
}

static inline const char *ref_wild(const struct ref_rules *rules, const char *path)
{
    const char *best = NULL;
    for (unsigned i = 0; i < rules->n; i++) {
        const char *pattern = rules->items[i].pattern;
        if (!rules->items[i].templated && ref_is_wild(pattern) && ref_fits(pattern, path) &&
            (best == NULL || ref_beats(pattern, best)))
            best = pattern;
    }
    return best;
}

/* The pattern that decides about a path; NULL: none. */
static inline const char *ref_decide(const struct ref_rules *rules, const char *path, bool list)
{
    char bare[REF_TEXT];
    size_t len = strlen(path);
    list = list && len != 0 && path[len - 1] == '/';
    (void)memcpy(bare, path, len + 1);
    bare[len - list] = '\0';
    const char *found = ref_exact(rules, path);
    if (found == NULL && list)
        found = ref_exact(rules, bare);
    if (found == NULL)
        found = ref_wild(rules, path);
    if (found == NULL && list)
        found = ref_wild(rules, bare);
    return found;
}

/* Rules of equal patterns */

static inline bool ref_has(const struct ref_rule *rule, const char *pattern)
{
    return !rule->templated && strcmp(rule->pattern, pattern) == 0;
}

#define REF_FOR(rule, rules, pattern)                                                              \
    for (const struct ref_rule *rule = (rules)->items; rule < (rules)->items + (rules)->n; rule++) \
        if (ref_has(rule, pattern))

static inline unsigned ref_caps(const struct ref_rules *rules, const char *pattern)
{
    unsigned caps = 0;
    if (pattern == NULL)
        return 0;
    REF_FOR(rule, rules, pattern)
    caps |= rule->caps;
    return (caps & CAP_DENY) != 0 ? 0 : caps;
}

static inline bool ref_wrap_fits(const struct ref_rules *rules, const char *pattern, int64_t wrap_s)
{
    int64_t min = 0, max = 0;
    REF_FOR(rule, rules, pattern)
    {
        if (rule->min_wrap_s != 0 && (min == 0 || rule->min_wrap_s < min))
            min = rule->min_wrap_s;
        if (rule->max_wrap_s != 0 && (max == 0 || rule->max_wrap_s < max))
            max = rule->max_wrap_s;
    }
    if ((min != 0 || max != 0) && wrap_s == 0)
        return false;
    return wrap_s >= min && (max == 0 || wrap_s <= max);
}

/* Whether a rule with capabilities fits a path at or below a folder: the folder itself, or a path
 * made of the folder and of what the pattern says behind it. */
static inline bool ref_reaches(const struct ref_rules *rules, const char *folder)
{
    if (ref_caps(rules, ref_decide(rules, folder, true)) != 0)
        return true;
    for (unsigned i = 0; i < rules->n; i++) {
        struct ref_split want, have;
        char path[2 * REF_TEXT];
        const char *pattern = rules->items[i].pattern;
        if (rules->items[i].templated || ref_caps(rules, pattern) == 0)
            continue;
        ref_split(pattern, &want);
        ref_split(folder, &have); /* its last segment is empty */
        int len = snprintf(path, sizeof path, "%s", folder);
        for (size_t k = have.n - 1; k < want.n; k++)
            len += snprintf(path + len, sizeof path - (size_t)len, "%s%s",
                            k == have.n - 1 ? "" : "/", want.part[k]);
        if (want.n >= have.n && len < REF_TEXT && ref_fits(pattern, path))
            return true;
        if (ref_star(pattern) && ref_fits(pattern, folder))
            return true;
    }
    return false;
}

#endif
