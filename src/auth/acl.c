/* Rules as a tree of segments.
 *
 *   node ── edges ── "kv" ─▶ node ── edges ── "data" ─▶ node …
 *                              │  └── globs ── "ap"        kv/ap*
 *                              └───── plus ─▶ node         kv/+/…
 *
 * Edges and globs are sorted. Each glob knows the longest other glob that is a prefix of its own
 * stem. So one binary search and a few steps find the longest glob that fits a segment. */
#include "auth/acl.h"
#include "base/mem.h"

#include <stdlib.h>

struct acl_edge {
    uint64_t head; /* first eight bytes of the segment; sorts as the segment, unless equal */
    struct bytes segment;
    struct acl_node *node;
};

struct acl_glob {
    struct bytes stem; /* last segment of the pattern, without a '*' at its end */
    const struct policy_rule *rule;
    size_t shorter; /* 1 + index of the longest other glob that is a prefix of `stem`; 0: none */
};

struct acl_node {
    struct acl_node *parent;
    struct acl_node *plus;
    const struct policy_rule *rule; /* rule whose pattern ends at this node, without '*' */
    struct acl_edge *edges;
    struct acl_glob *globs;
    size_t n_edges, n_globs;
};

struct acl {
    struct arena arena;
    const struct policy **policies; /* policies that the ACL was made from */
    size_t n_policies;
    const struct policy_rule **rules; /* rules in order of rule_order, each pattern once */
    size_t n;
    struct acl_node *top;
    bool root;
};

static const struct acl root_acl = {.root = true};

const struct acl *acl_of_root(void)
{
    return &root_acl;
}

bool acl_is_root(const struct acl *acl)
{
    return acl->root;
}

size_t acl_bytes(const struct acl *acl)
{
    return sizeof *acl + acl->arena.bytes;
}

const struct policy_rule *const *acl_rules(const struct acl *acl, size_t *ret_n)
{
    *ret_n = acl->n;
    return acl->rules;
}

static size_t segment_end(struct bytes path, size_t at)
{
    const uint8_t *slash = at < path.len ? memchr(path.data + at, '/', path.len - at) : NULL;
    return slash != NULL ? (size_t)(slash - path.data) : path.len;
}

static struct bytes part(struct bytes path, size_t from, size_t to)
{
    ASSERT(from <= to && to <= path.len);
    return from == to ? (struct bytes){0} : bytes_of(path.data + from, to - from);
}

/* The first eight bytes of a segment as a number: few segments need a full comparison. */
static uint64_t head_of(struct bytes segment)
{
    uint64_t head = 0;
    if (segment.len >= sizeof head)
        return be64_get(segment.data);
    for (size_t i = 0; i < segment.len; i++)
        head |= (uint64_t)segment.data[i] << (56 - 8 * i);
    return head;
}

/* Building an ACL */

/* Compare segment by segment: '/' sorts before every other byte, so patterns with the same first
 * segments are neighbours. */
static int stem_order(struct bytes a, struct bytes b)
{
    size_t n = MIN(a.len, b.len), i = 0;
    while (i < n && a.data[i] == b.data[i])
        i++;
    if (i == n)
        return (a.len > b.len) - (a.len < b.len);
    int x = a.data[i] == '/' ? 0 : a.data[i], y = b.data[i] == '/' ? 0 : b.data[i];
    return x - y;
}

static int rule_order(const void *a, const void *b)
{
    const struct policy_rule *const *x = a, *const *y = b;
    int order = stem_order((*x)->stem, (*y)->stem);
    return order != 0 ? order : (*x)->star - (*y)->star;
}

/* Make one rule of rules i..j-1, whose patterns are equal. */
static enum status rules_merge(struct acl *acl, const struct policy_rule **rules, size_t i,
                               size_t j, const struct policy_rule **ret_rule)
{
    ASSERT(i < j);
    *ret_rule = rules[i];
    for (size_t k = i; k < j; k++)
        if (rules[k]->caps == CAP_DENY) {
            *ret_rule = rules[k];
            return ST_OK;
        }
    if (j - i == 1)
        return ST_OK;
    struct policy_rule *merged = arena_alloc(&acl->arena, sizeof *merged);
    const struct policy_rule **parts = arena_alloc(&acl->arena, (j - i) * sizeof *parts);
    if (merged == NULL || parts == NULL)
        return ST_NOMEM;
    *merged = *rules[i];
    memcpy(parts, rules + i, (j - i) * sizeof *parts);
    merged->merged = parts;
    merged->n_merged = j - i;
    for (size_t k = i + 1; k < j; k++) {
        merged->caps |= rules[k]->caps;
        TRY(acl_param_merge(&acl->arena, merged, rules[k]));
    }
    ASSERT((merged->caps & CAP_DENY) == 0);
    *ret_rule = merged;
    return ST_OK;
}

/* Fill the templates of the values that a rule allows. */
static enum status fill_allowed(struct acl *acl, const struct identity *identity,
                                struct policy_params *params)
{
    struct policy_param *items = arena_alloc(&acl->arena, (params->n + 1) * sizeof *items);
    ASSERT(identity != NULL && (params->n == 0 || params->items != NULL));
    if (items == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < params->n; i++) {
        const struct policy_param *from = &params->items[i];
        const struct text_value **values =
            arena_alloc(&acl->arena, (from->n_values + 1) * sizeof(struct text_value *));
        if (values == NULL)
            return ST_NOMEM;
        items[i] = *from;
        items[i].values = values;
        for (size_t k = 0; k < from->n_values; k++) {
            values[k] = from->values[k];
            if (values[k]->kind != TEXT_STRING)
                continue;
            struct text_value *filled = arena_alloc(&acl->arena, sizeof *filled);
            if (filled == NULL)
                return ST_NOMEM;
            *filled = *values[k];
            TRY(identity_fill(identity, &acl->arena, filled->text, &filled->text));
            values[k] = filled;
        }
    }
    params->items = items;
    return ST_OK;
}

/* A rule with its templates filled. ST_NOT_FOUND: a value is missing, or is none for a path. */
static enum status rule_fill(struct acl *acl, const struct identity *identity,
                             const struct policy_rule *rule, const struct policy_rule **ret_rule)
{
    if (identity == NULL)
        return ST_NOT_FOUND;
    struct policy_rule *filled = arena_alloc(&acl->arena, sizeof *filled);
    if (filled == NULL)
        return ST_NOMEM;
    ASSERT(rule->templated && rule->source == NULL);
    *filled = *rule;
    filled->source = rule;
    TRY(identity_fill(identity, &acl->arena, rule->stem, &filled->stem));
    TRY(fill_allowed(acl, identity, &filled->allowed));
    *ret_rule = filled;
    return ST_OK;
}

static enum status rules_gather(struct acl *acl, const struct policy *const *policies, size_t n,
                                const struct identity *identity)
{
    size_t room = 1, have = 0, kept = 0;
    for (size_t i = 0; i < n; i++)
        room += policies[i]->n;
    const struct policy_rule **rules = arena_alloc(&acl->arena, room * sizeof *rules);
    acl->policies = arena_alloc(&acl->arena, (n + 1) * sizeof *acl->policies);
    if (rules == NULL || acl->policies == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < n; i++)
        acl->policies[i] = policies[i];
    acl->n_policies = n;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < policies[i]->n; k++) {
            rules[have] = &policies[i]->rules[k];
            enum status st = rules[have]->templated
                                 ? rule_fill(acl, identity, rules[have], &rules[have])
                                 : ST_OK;
            if (st != ST_NOT_FOUND)
                TRY(st);
            have += st == ST_OK;
        }
    ASSERT(have < room);
    qsort(rules, have, sizeof *rules, rule_order);
    for (size_t i = 0, j; i < have; i = j) {
        j = i + 1;
        while (j < have && rule_order(&rules[i], &rules[j]) == 0)
            j++;
        TRY(rules_merge(acl, rules, i, j, &rules[kept]));
        kept++;
    }
    ASSERT(kept <= have);
    acl->rules = rules;
    acl->n = kept;
    return ST_OK;
}

/* An array of the arena with room for one more item. The array doubles at every power of two. */
static void *grown(struct arena *arena, void *items, size_t n, size_t size)
{
    if ((n & (n - 1)) != 0)
        return items;
    void *more = arena_alloc(arena, MAX(2 * n, (size_t)1) * size);
    if (more != NULL && n != 0)
        memcpy(more, items, n * size);
    return more;
}

/* Whether a segment comes behind the newest edge, as find_edge needs the edges. */
static bool is_next_edge(const struct acl_node *node, struct bytes segment)
{
    return node->n_edges == 0 || bytes_cmp(node->edges[node->n_edges - 1].segment, segment) < 0;
}

/* Whether a stem comes behind the newest glob, as find_glob needs the globs. */
static bool is_next_glob(const struct acl_node *node, struct bytes stem)
{
    return node->n_globs == 0 || bytes_cmp(node->globs[node->n_globs - 1].stem, stem) < 0;
}

/* Go down one segment; add the edge if it is missing. Rules are added in order, so only the last
 * edge of the node can be the edge of `segment`. */
static enum status descend(struct acl *acl, struct acl_node **node, struct bytes segment)
{
    struct acl_node *at = *node, **to = NULL;
    if (text_is(segment, "+")) {
        to = &at->plus;
    } else if (at->n_edges != 0 && bytes_eq(at->edges[at->n_edges - 1].segment, segment)) {
        to = &at->edges[at->n_edges - 1].node;
    } else {
        ASSERT(is_next_edge(at, segment));
        at->edges = grown(&acl->arena, at->edges, at->n_edges, sizeof *at->edges);
        if (at->edges == NULL)
            return ST_NOMEM;
        at->edges[at->n_edges] = (struct acl_edge){.head = head_of(segment), .segment = segment};
        to = &at->edges[at->n_edges++].node;
    }
    if (*to == NULL) {
        *to = arena_zalloc(&acl->arena, sizeof **to);
        if (*to == NULL)
            return ST_NOMEM;
        (*to)->parent = at;
    }
    *node = *to;
    return ST_OK;
}

static enum status add_glob(struct acl *acl, struct acl_node *node, struct bytes stem,
                            const struct policy_rule *rule)
{
    size_t shorter = node->n_globs;
    ASSERT(rule->star && is_next_glob(node, stem));
    node->globs = grown(&acl->arena, node->globs, node->n_globs, sizeof *node->globs);
    if (node->globs == NULL)
        return ST_NOMEM;
    while (shorter != 0 && !bytes_has_prefix(stem, node->globs[shorter - 1].stem))
        shorter = node->globs[shorter - 1].shorter;
    node->globs[node->n_globs++] =
        (struct acl_glob){.stem = stem, .rule = rule, .shorter = shorter};
    return ST_OK;
}

static enum status rule_plant(struct acl *acl, const struct policy_rule *rule)
{
    struct acl_node *node = acl->top;
    for (size_t at = 0;;) {
        size_t end = segment_end(rule->stem, at);
        struct bytes segment = part(rule->stem, at, end);
        if (end == rule->stem.len && rule->star)
            return add_glob(acl, node, segment, rule);
        TRY(descend(acl, &node, segment));
        if (end == rule->stem.len) {
            ASSERT(node->rule == NULL);
            node->rule = rule;
            return ST_OK;
        }
        at = end + 1;
    }
}

static enum status tree_build(struct acl *acl, const struct policy *const *policies, size_t n,
                              const struct identity *identity)
{
    TRY(rules_gather(acl, policies, n, identity));
    acl->top = arena_zalloc(&acl->arena, sizeof *acl->top);
    if (acl->top == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < acl->n; i++)
        TRY(rule_plant(acl, acl->rules[i]));
    return ST_OK;
}

enum status acl_new(const struct policy *const *policies, size_t n, struct acl **ret_acl)
{
    return acl_new_for(policies, n, NULL, ret_acl);
}

enum status acl_new_for(const struct policy *const *policies, size_t n,
                        const struct identity *identity, struct acl **ret_acl)
{
    struct acl *acl = mem_zalloc(sizeof *acl);
    if (acl == NULL)
        return ST_NOMEM;
    enum status st = tree_build(acl, policies, n, identity);
    if (st != ST_OK) {
        acl_free(acl);
        return st;
    }
    *ret_acl = acl;
    return ST_OK;
}

void acl_free(struct acl *acl)
{
    if (acl == NULL || acl->root)
        return;
    arena_done(&acl->arena);
    mem_free(acl);
}

/* Finding a rule */

static struct acl_node *find_edge(const struct acl_node *node, struct bytes segment)
{
    size_t low = 0, high = node->n_edges;
    uint64_t head = head_of(segment);
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        const struct acl_edge *edge = &node->edges[mid];
        int order =
            edge->head != head ? (edge->head < head ? -1 : 1) : bytes_cmp(edge->segment, segment);
        if (order == 0)
            return edge->node;
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

/* The glob with the longest stem that is a prefix of the segment. The binary search finds the last
 * stem that is not greater than the segment. The wanted stem is that stem or one of its prefixes.
 */
static const struct acl_glob *find_glob(const struct acl_node *node, struct bytes segment)
{
    size_t low = 0, high = node->n_globs;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (bytes_cmp(node->globs[mid].stem, segment) <= 0)
            low = mid + 1;
        else
            high = mid;
    }
    while (low != 0 && !bytes_has_prefix(segment, node->globs[low - 1].stem)) {
        /* `shorter` must lead to a smaller index, or the search would not end */
        ASSERT(node->globs[low - 1].shorter < low);
        low = node->globs[low - 1].shorter;
    }
    return low != 0 ? &node->globs[low - 1] : NULL;
}

static const struct policy_rule *find_exact(const struct acl *acl, struct bytes path)
{
    const struct acl_node *node = acl->top;
    for (size_t at = 0;;) {
        size_t end = segment_end(path, at);
        node = find_edge(node, part(path, at, end));
        if (node == NULL || end == path.len)
            return node != NULL ? node->rule : NULL;
        at = end + 1;
    }
}

/* Whether `a` decides rather than `b`. Both fit, and their first wildcards stand at one place. */
static bool beats(const struct policy_rule *a, const struct policy_rule *b)
{
    if (a->star != b->star)
        return !a->star;
    if (a->n_plus != b->n_plus)
        return a->n_plus < b->n_plus;
    if (a->stem.len != b->stem.len)
        return a->stem.len > b->stem.len;
    return bytes_cmp(a->stem, b->stem) > 0;
}

static void rule_consider(const struct policy_rule *rule, const struct policy_rule **best)
{
    if (rule != NULL && (*best == NULL || beats(rule, *best)))
        *best = rule;
}

/* Consider every matching rule at or below `node`. The segment of `path` that led to `node` ends at
 * `end`. The recursion is at most as deep as patterns are, POLICY_SEGMENTS_MAX. */
static void plus_search(const struct acl_node *node, struct bytes path, size_t end,
                        const struct policy_rule **best)
{
    if (node == NULL)
        return;
    ASSERT(end <= path.len);
    if (end == path.len) {
        rule_consider(node->rule, best);
        return;
    }
    size_t at = end + 1;
    end = segment_end(path, at);
    struct bytes segment = part(path, at, end);
    const struct acl_glob *glob = find_glob(node, segment);
    if (glob != NULL)
        rule_consider(glob->rule, best);
    plus_search(find_edge(node, segment), path, end, best);
    plus_search(node->plus, path, end, best);
}

/* The best rule whose first wildcard stands in the segment that begins at `at`. The earlier
 * segments of the path led to `node`. */
static const struct policy_rule *best_here(const struct acl_node *node, struct bytes path,
                                           size_t at)
{
    size_t end = segment_end(path, at);
    const struct acl_glob *glob = find_glob(node, part(path, at, end));
    const struct policy_rule *best = glob != NULL ? glob->rule : NULL;
    if (glob == NULL || glob->stem.len == 0) /* a '*' behind a stem stands later than any "+" */
        plus_search(node->plus, path, end, &best);
    return best;
}

/* Go down the tree as long as a pattern has the segments of the path without a wildcard. Then climb
 * back: the rule with the latest first wildcard wins. */
static const struct policy_rule *find_wild(const struct acl *acl, struct bytes path)
{
    const struct acl_node *node = acl->top;
    size_t at = 0;
    for (;;) {
        size_t end = segment_end(path, at);
        const struct acl_node *next = find_edge(node, part(path, at, end));
        if (next == NULL || end == path.len)
            break;
        node = next;
        at = end + 1;
    }
    for (;;) {
        const struct policy_rule *rule = best_here(node, path, at);
        if (rule != NULL || node->parent == NULL)
            return rule;
        node = node->parent;
        ASSERT(at > 0);
        for (at--; at > 0 && path.data[at - 1] != '/'; at--)
            continue;
    }
}

static const struct policy_rule *rule_find(const struct acl *acl, struct bytes path, bool list)
{
    struct bytes bare = path;
    ASSERT(!acl->root);
    list = list && path.len > 0 && path.data[path.len - 1] == '/';
    bare.len -= list;
    const struct policy_rule *rule = find_exact(acl, path);
    if (rule == NULL && list)
        rule = find_exact(acl, bare);
    if (rule == NULL)
        rule = find_wild(acl, path);
    if (rule == NULL && list)
        rule = find_wild(acl, bare);
    return rule;
}

static const struct policy_rule *rule_decide(const struct acl *acl,
                                             const struct acl_question *question)
{
    if (question->rule_path.len == 0)
        return rule_find(acl, question->path, question->list);
    const struct policy_rule *rule = rule_find(acl, question->rule_path, question->list);
    return rule != NULL ? rule : find_exact(acl, question->path);
}

/* Whether a rule's limits allow the TTL. With either limit the reply must be wrapped. */
static bool wrap_allowed(const struct policy_rule *rule, int64_t wrap_s)
{
    if (rule->max_wrap_s != 0 && (wrap_s == 0 || wrap_s > rule->max_wrap_s))
        return false;
    return rule->min_wrap_s == 0 || wrap_s >= rule->min_wrap_s;
}

enum status acl_check(const struct acl *acl, const struct acl_question *question,
                      const struct policy_rule **ret_rule)
{
    ASSERT(question->caps != 0 && (question->caps & CAP_DENY) == 0);
    ASSERT(question->wrap_s >= 0);
    *ret_rule = NULL;
    if (acl->root)
        return ST_OK;
    const struct policy_rule *rule = *ret_rule = rule_decide(acl, question);
    if (rule == NULL || (rule->caps & question->caps) != question->caps ||
        !wrap_allowed(rule, question->wrap_s))
        return ST_DENIED;
    ASSERT(rule->caps != CAP_DENY);
    return ST_OK;
}

/* The policy that has this rule of one policy. */
static const char *rule_policy_name(const struct acl *acl, const struct policy_rule *rule)
{
    if (rule->source != NULL)
        rule = rule->source;
    for (size_t i = 0; i < acl->n_policies; i++) {
        const struct policy *policy = acl->policies[i];
        if (policy->n != 0 && rule >= policy->rules && rule < policy->rules + policy->n)
            return policy->name;
    }
    return NULL;
}

enum status acl_rule_policies(const struct acl *acl, const struct policy_rule *rule,
                              struct arena *arena, const char *const **ret_names, size_t *ret_n)
{
    const struct policy_rule *const *parts = rule->merged != NULL ? rule->merged : &rule;
    size_t n = rule->merged != NULL ? rule->n_merged : 1, have = 0;
    const char **names = arena_alloc(arena, n * sizeof *names);
    ASSERT(!acl->root);
    if (names == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < n; i++) {
        names[have] = rule_policy_name(acl, parts[i]);
        have += names[have] != NULL;
    }
    *ret_names = names;
    *ret_n = have;
    return ST_OK;
}

unsigned acl_capabilities(const struct acl *acl, struct bytes path)
{
    if (acl->root)
        return CAP_EVERYTHING;
    const struct policy_rule *rule = rule_find(acl, path, true);
    return rule != NULL ? rule->caps & ~(unsigned)CAP_DENY : 0;
}

/* Whether the rule fits a path at or below the folder. `folder` lacks its last '/'. */
static bool rule_reaches(const struct policy_rule *rule, struct bytes folder)
{
    for (size_t at = 0, from = 0;;) {
        size_t end = segment_end(folder, at), to = segment_end(rule->stem, from);
        struct bytes have = part(folder, at, end), want = part(rule->stem, from, to);
        if (to == rule->stem.len)
            return rule->star && bytes_has_prefix(have, want);
        if (!text_is(want, "+") && !bytes_eq(have, want))
            return false;
        if (end == folder.len)
            return true;
        at = end + 1;
        from = to + 1;
    }
}

bool acl_reaches(const struct acl *acl, struct bytes folder)
{
    ASSERT(folder.len > 0 && folder.data[folder.len - 1] == '/');
    if (acl_capabilities(acl, folder) != 0)
        return true;
    folder.len--;
    for (size_t i = 0; i < acl->n; i++)
        if ((acl->rules[i]->caps & ~(unsigned)CAP_DENY) != 0 && rule_reaches(acl->rules[i], folder))
            return true;
    return false;
}
