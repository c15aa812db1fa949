/* The decision by the rules of several policies.
 *
 * The rules of a resource are two sorted lists: of names and of prefixes. Each prefix knows the
 * longest other prefix that it begins with, so that a binary search and a few steps find the
 * longest one that a name begins with. */
#include "auth/registry/registry_rules_internal.h"
#include "base/mem.h"

#include <stdlib.h>

struct entry {
    struct bytes name;
    enum registry_level level;
    size_t shorter; /* of a prefix: 1 + index of the longest other prefix of `name`; 0: none */
};

struct entries {
    struct entry *items;
    size_t n;
};

struct registry_acl {
    struct arena arena;
    struct entries of[REGISTRY_RESOURCES][2]; /* [1]: prefixes */
    enum registry_level otherwise;
};

static int rule_order(const void *a, const void *b)
{
    const struct registry_rule *x = *(const struct registry_rule *const *)a,
                               *y = *(const struct registry_rule *const *)b;
    if (x->resource != y->resource)
        return (x->resource > y->resource) - (x->resource < y->resource);
    return x->prefix != y->prefix ? x->prefix - y->prefix : bytes_cmp(x->name, y->name);
}

/* Append a rule that comes behind all others of its list; of equal rules the greater level counts.
 */
static void entries_append(struct entries *to, const struct registry_rule *rule)
{
    struct entry *last = to->n != 0 ? &to->items[to->n - 1] : NULL;
    if (last != NULL && bytes_eq(last->name, rule->name)) {
        last->level = MAX(last->level, rule->level);
        return;
    }
    size_t shorter = to->n;
    while (rule->prefix && shorter != 0 &&
           !bytes_has_prefix(rule->name, to->items[shorter - 1].name)) {
        ASSERT(to->items[shorter - 1].shorter < shorter);
        shorter = to->items[shorter - 1].shorter;
    }
    ASSERT(last == NULL || bytes_cmp(last->name, rule->name) < 0);
    to->items[to->n++] =
        (struct entry){.name = rule->name, .level = rule->level, .shorter = shorter};
}

static enum status entries_gather(struct registry_acl *acl,
                                  const struct registry_rules *const *rules, size_t n)
{
    size_t room = 1, have = 0;
    for (size_t i = 0; i < n; i++)
        room += rules[i]->n;
    const struct registry_rule **sorted = mem_alloc(room * sizeof *sorted);
    struct entry *items = arena_alloc(&acl->arena, room * sizeof *items);
    if (sorted == NULL || items == NULL) {
        mem_free(sorted);
        return ST_NOMEM;
    }
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < rules[i]->n; k++)
            sorted[have++] = &rules[i]->rules[k];
    ASSERT(have < room);
    qsort(sorted, have, sizeof *sorted, rule_order);
    for (size_t i = 0; i < have; i++) {
        struct entries *to = &acl->of[sorted[i]->resource][sorted[i]->prefix];
        if (to->items == NULL)
            to->items = items + i; /* a list never needs more room than it has rules */
        entries_append(to, sorted[i]);
    }
    mem_free(sorted);
    return ST_OK;
}

enum status registry_acl_new(const struct registry_rules *const *rules, size_t n,
                             enum registry_level otherwise, struct registry_acl **ret_acl)
{
    ASSERT(otherwise == REGISTRY_WRITE || otherwise == REGISTRY_DENY);
    *ret_acl = NULL;
    struct registry_acl *acl = mem_zalloc(sizeof *acl);
    if (acl == NULL)
        return ST_NOMEM;
    acl->otherwise = otherwise;
    enum status st = entries_gather(acl, rules, n);
    if (st != ST_OK) {
        registry_acl_free(acl);
        return st;
    }
    *ret_acl = acl;
    return ST_OK;
}

void registry_acl_free(struct registry_acl *acl)
{
    if (acl == NULL)
        return;
    arena_done(&acl->arena);
    mem_free(acl);
}

size_t registry_acl_bytes(const struct registry_acl *acl)
{
    return sizeof *acl + acl->arena.bytes;
}

/* The number of entries that are not greater than the name. */
static size_t count_up_to(const struct entries *in, struct bytes name)
{
    size_t low = 0, high = in->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (bytes_cmp(in->items[mid].name, name) <= 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static enum registry_level decide(const struct registry_acl *acl, enum registry_resource resource,
                                  struct bytes name)
{
    const struct entries *names = &acl->of[resource][0], *prefixes = &acl->of[resource][1];
    size_t at = count_up_to(names, name);
    ASSERT(at <= names->n);
    if (at != 0 && bytes_eq(names->items[at - 1].name, name))
        return names->items[at - 1].level;
    at = count_up_to(prefixes, name);
    while (at != 0 && !bytes_has_prefix(name, prefixes->items[at - 1].name)) {
        ASSERT(prefixes->items[at - 1].shorter < at);
        at = prefixes->items[at - 1].shorter;
    }
    if (at != 0)
        return prefixes->items[at - 1].level;
    return resource == REGISTRY_ACL ? REGISTRY_DENY : acl->otherwise;
}

bool registry_acl_allows(const struct registry_acl *acl, enum registry_resource resource,
                         struct bytes name, enum registry_level level)
{
    ASSERT(resource < REGISTRY_RESOURCES);
    ASSERT(level >= REGISTRY_READ && level <= REGISTRY_WRITE);
    if (!registry_has_names(resource))
        name = (struct bytes){0};
    enum registry_level decided = decide(acl, resource, name);
    return decided != REGISTRY_DENY && decided >= level;
}
