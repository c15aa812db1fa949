/* Password policies: the form of generated passwords.
 *
 *   length = 20
 *   rule "charset" {
 *     charset   = "abcdefghijklmnopqrstuvwxyz"
 *     min-chars = 1
 *   }
 *
 * A password has `length` characters from the charsets of its rules, and at least `min-chars` from
 * each. Generation draws min-chars characters from each charset, then the rest from the union of
 * all charsets, then shuffles. Every choice is uniform, and generation always ends. */
#ifndef HOLDFAST_AUTH_PASSWORD_H
#define HOLDFAST_AUTH_PASSWORD_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/env.h"

enum {
    PASSWORD_LENGTH_MIN = 4,
    PASSWORD_LENGTH_MAX = 100,
    PASSWORD_TEXT_MAX = 64 * 1024, /* longest text of a password policy */
    PASSWORD_RULES_MAX = 32,
    PASSWORD_CHARSET_MAX = 1024, /* most characters of a set */
};

struct password_rule {
    const uint32_t *runes; /* characters of the set, without repeats */
    size_t n;
    int64_t min_chars;
};

struct password_policy {
    int64_t length; /* length of the password in characters */
    struct password_rule rules[PASSWORD_RULES_MAX];
    size_t n_rules;
    const uint32_t *runes; /* characters of all rules together, without repeats */
    size_t n;
};

/* Parse HCL or JSON. The policy points into the arena. ST_INVALID with a reason; ST_NOMEM. */
NODISCARD enum status password_policy_parse(struct arena *arena, struct bytes text,
                                            struct password_policy *ret_policy, struct reason *why);
/* Append a new password in UTF-8. ST_NOMEM. */
NODISCARD enum status password_make(const struct password_policy *policy, struct env *env,
                                    struct buf *out);

#endif
