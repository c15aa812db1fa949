/* Reading a password policy never fails badly, and what it lets be made is as it says. */
#include "auth/password.h"
#include "text/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void count_up(struct env *env, void *out, size_t n)
{
    static uint8_t next;
    (void)env; /* the same bytes for the same input */
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)out)[i] = next += 37;
}

static void check(const struct password_policy *policy, struct bytes password)
{
    int64_t n = 0, found[PASSWORD_RULES_MAX] = {0};
    uint32_t rune;
    for (size_t at = 0; at < password.len; n++) {
        ASSERT(text_utf8_next(password, &at, &rune) == ST_OK);
        for (size_t i = 0; i < policy->n_rules; i++)
            for (size_t k = 0; k < policy->rules[i].n; k++)
                found[i] += policy->rules[i].runes[k] == rune;
    }
    ASSERT(n == policy->length);
    for (size_t i = 0; i < policy->n_rules; i++)
        ASSERT(found[i] >= policy->rules[i].min_chars);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct env_ops ops = {.random = count_up};
    struct env env = {.ops = &ops};
    struct arena arena = {0};
    struct password_policy policy;
    struct reason why = {{0}};
    CLEANUP(buf_done) struct buf password = {0};

    enum status st = password_policy_parse(&arena, bytes_of(data, size), &policy, &why);
    ASSERT(st == ST_OK || (st == ST_INVALID && why.text[0] != '\0'));
    if (st == ST_OK) {
        ASSERT(password_make(&policy, &env, &password) == ST_OK);
        check(&policy, buf_bytes(&password));
    }
    arena_done(&arena);
    return 0;
}
