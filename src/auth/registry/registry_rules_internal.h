/* The compiled form of rules. Inside src/auth. */
#ifndef HOLDFAST_AUTH_REGISTRY_RULES_INTERNAL_H
#define HOLDFAST_AUTH_REGISTRY_RULES_INTERNAL_H

#include "auth/registry/registry_rules.h"

struct registry_rule {
    struct bytes name; /* empty for a resource without names */
    enum registry_resource resource;
    enum registry_level level;
    bool prefix; /* about all names that begin with `name` */
};

struct registry_rules {
    struct arena arena;
    struct registry_rule *rules; /* in the order of the text */
    size_t n, room;
    const char *unknown;
};

static inline bool registry_has_names(enum registry_resource resource)
{
    return resource >= REGISTRY_AGENT;
}

#endif
