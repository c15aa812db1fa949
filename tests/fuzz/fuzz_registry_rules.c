/* Reading rules of the registry never fails badly. What rules say about the name of each of them is
 * what the plainest search finds: the rule of that name, else the longest prefix. */
#include "auth/registry/registry_rules_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static enum registry_level plainly(const struct registry_rules *rules,
                                   enum registry_resource resource, struct bytes name)
{
    enum registry_level level = REGISTRY_DENY;
    size_t best = 0; /* exact names count more than any prefix */
    for (size_t i = 0; i < rules->n; i++) {
        const struct registry_rule *rule = &rules->rules[i];
        bool fits = rule->prefix ? bytes_has_prefix(name, rule->name) : bytes_eq(name, rule->name);
        size_t weight = rule->prefix ? rule->name.len + 1 : SIZE_MAX;
        if (rule->resource != resource || !fits || weight < best)
            continue;
        level = weight == best ? MAX(level, rule->level) : rule->level;
        best = weight;
    }
    return level;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct registry_rules *rules;
    struct registry_acl *acl;
    struct reason why = {0};
    enum status st = registry_rules_compile(bytes_of(data, size), &rules, &why);
    if (st != ST_OK) {
        ASSERT(st == ST_INVALID || st == ST_TOO_BIG);
        ASSERT(why.text[0] != '\0');
        return 0;
    }
    const struct registry_rules *one[] = {rules};
    ASSERT(registry_acl_new(one, 1, REGISTRY_DENY, &acl) == ST_OK);
    for (size_t i = 0; i < rules->n && i < 200; i++)
        for (size_t k = 0; k < rules->n && k < 20; k++) {
            enum registry_resource resource = rules->rules[k].resource;
            struct bytes name =
                registry_has_names(resource) ? rules->rules[i].name : (struct bytes){0};
            enum registry_level level = plainly(rules, resource, name);
            for (enum registry_level asked = REGISTRY_READ; asked <= REGISTRY_WRITE; asked++)
                ASSERT(registry_acl_allows(acl, resource, name, asked) ==
                       (level != REGISTRY_DENY && level >= asked));
        }
    registry_acl_free(acl);
    registry_rules_free(rules);
    return 0;
}
