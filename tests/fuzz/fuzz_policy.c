/* Reading a policy never fails badly. Its rules, made into one, say for each pattern, taken as a
 * path, no more than all capabilities there are, and nothing where no rule fits; what is asked for
 * and allowed is among the capabilities. */
#include "auth/acl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ask(const struct acl *acl, struct bytes path)
{
    unsigned caps = acl_capabilities(acl, path), cap;
    ASSERT((caps & ~(unsigned)CAP_EVERYTHING) == 0);
    for (unsigned i = 0; i < CAP_KINDS; i++) {
        (void)cap_word(i, &cap); /* only the bit */
        struct acl_question q = {.path = path, .caps = cap, .list = true, .wrap_s = 1};
        const struct policy_rule *rule;
        if (cap != CAP_DENY && acl_check(acl, &q, &rule) == ST_OK)
            ASSERT((caps & cap) != 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct policy *policy;
    struct acl *acl;
    struct reason why = {0};
    size_t n;

    enum status st = policy_compile(bytes_of(data, size), &policy, &why);
    if (st != ST_OK) {
        ASSERT(st == ST_INVALID || st == ST_TOO_BIG);
        ASSERT(why.text[0] != '\0');
        return 0;
    }
    const struct policy *both[] = {policy, policy};
    ASSERT(acl_new(both, 2, &acl) == ST_OK);
    const struct policy_rule *const *rules = acl_rules(acl, &n);
    for (size_t i = 0; i < n && i < 200; i++) {
        const struct policy_rule *rule = rules[i];
        ask(acl, rule->stem);
        if (rule->n_plus == 0 && !rule->star) /* nothing is before the path itself */
            ASSERT(acl_capabilities(acl, rule->stem) == (rule->caps & ~(unsigned)CAP_DENY));
        if (rule->stem.len != 0 && rule->stem.data[rule->stem.len - 1] == '/')
            (void)acl_reaches(acl, rule->stem); /* either */
    }
    ask(acl, BYTES("a/b/c/"));
    acl_free(acl);
    policy_free(policy);
    return 0;
}
