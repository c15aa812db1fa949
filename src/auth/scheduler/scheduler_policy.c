#include "auth/scheduler/scheduler_policy.h"

#include "state/ns_key.h"
#include "state/state_record.h"
#include "text/hcl.h"

static const struct record_field policy_fields[] = {
    RECORD_FIELD(struct scheduler_policy, description, TEXT0),
    RECORD_FIELD(struct scheduler_policy, rules, TEXT0),
};
static const struct record policy_record = {RECORD(struct scheduler_policy, policy_fields),
                                            .name = "scheduler/policy",
                                            .key = "s/ns/*/sched-policy/", .newest = 1};
RECORD_LISTED(policy_record);

/* Capabilities by name. A name of `other` is known, and no route asks for it yet. */
static const struct {
    const char *name;
    unsigned caps;
} names[] = {
    {"deny", SCHEDULER_DENY},
    {"read-job", SCHEDULER_READ_JOB},
    {"list-jobs", SCHEDULER_LIST_JOBS},
    {"submit-job", SCHEDULER_SUBMIT_JOB},
    {"job-submit", SCHEDULER_SUBMIT_JOB},
    {"alloc-lifecycle", SCHEDULER_ALLOC_LIFECYCLE},
    {"alloc-exec", SCHEDULER_ALLOC_EXEC},
    {"alloc-node-exec", SCHEDULER_ALLOC_NODE_EXEC},
    {"pause-allocation", SCHEDULER_PAUSE_ALLOC},
    {"parse-job", SCHEDULER_OTHER_CAP},
    {"plan-job", SCHEDULER_OTHER_CAP},
    {"register-job", SCHEDULER_OTHER_CAP},
    {"deregister-job", SCHEDULER_OTHER_CAP},
    {"gc-allocation", SCHEDULER_OTHER_CAP},
    {"scale-job", SCHEDULER_OTHER_CAP},
    {"dispatch-job", SCHEDULER_OTHER_CAP},
    {"read-logs", SCHEDULER_OTHER_CAP},
    {"read-fs", SCHEDULER_OTHER_CAP},
    {"read-job-scaling", SCHEDULER_OTHER_CAP},
    {"list-scaling-policies", SCHEDULER_OTHER_CAP},
    {"read-scaling-policy", SCHEDULER_OTHER_CAP},
};

static const struct {
    const char *name;
    unsigned in_namespace, on_nodes;
} levels[] = {
    {"deny", SCHEDULER_DENY, SCHEDULER_DENY},
    {"read", SCHEDULER_READ_JOB | SCHEDULER_LIST_JOBS, SCHEDULER_NODE_READ},
    {"write",
     SCHEDULER_READ_JOB | SCHEDULER_LIST_JOBS | SCHEDULER_SUBMIT_JOB | SCHEDULER_ALLOC_LIFECYCLE |
         SCHEDULER_ALLOC_EXEC,
     SCHEDULER_NODE_READ | SCHEDULER_NODE_WRITE},
    {"scale", SCHEDULER_READ_JOB | SCHEDULER_OTHER_CAP, 0},
};

bool scheduler_policy_is_name(const char *name)
{
    size_t len = strnlen(name, SCHEDULER_POLICY_NAME_MAX + 1);
    for (size_t i = 0; i < len; i++) {
        uint8_t c = (uint8_t)name[i];
        bool letter = (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
        if (!letter && (c < '0' || c > '9') && c != '-' && c != '_')
            return false;
    }
    return len >= 1 && len <= SCHEDULER_POLICY_NAME_MAX;
}

/* How well a glob fits: how many characters its '*' take, or -1. */
static int glob_fit(struct bytes glob, struct bytes text)
{
    size_t g = 0, t = 0, star = SIZE_MAX, mark = 0, literal = 0;
    for (size_t i = 0; i < glob.len; i++)
        literal += glob.data[i] != '*';
    while (t < text.len) {
        if (g < glob.len && glob.data[g] == '*') {
            star = g++;
            mark = t;
        } else if (g < glob.len && glob.data[g] == text.data[t]) {
            g++, t++;
        } else if (star != SIZE_MAX) {
            g = star + 1;
            t = ++mark;
        } else {
            return -1;
        }
    }
    while (g < glob.len && glob.data[g] == '*')
        g++;
    return g == glob.len ? (int)(text.len - literal) : -1;
}

static enum status caps_of_list(const struct text_value *list, unsigned *caps, struct reason *why)
{
    if (list->kind != TEXT_LIST) {
        reason_set(why, "line %u: capabilities: a list is expected", list->line);
        return ST_INVALID;
    }
    TEXT_FOR (item, list) {
        size_t i = 0;
        while (i < ARRAY_LEN(names) && !text_is(item->text, names[i].name))
            i++;
        if (item->kind != TEXT_STRING || i == ARRAY_LEN(names)) {
            reason_set(why, "line %u: invalid capability \"%.*s\"", item->line,
                       (int)MIN(item->text.len, (size_t)64), (const char *)item->text.data);
            return ST_INVALID;
        }
        *caps |= names[i].caps;
    }
    return ST_OK;
}

/* The capabilities of one block. */
static enum status caps_of_block(const struct text_value *block, bool node, unsigned *ret_caps,
                                 struct reason *why)
{
    *ret_caps = 0;
    TEXT_FOR (m, block) {
        size_t i = 0;
        if (!node && text_is(m->name, "capabilities")) {
            TRY(caps_of_list(m, ret_caps, why));
            continue;
        }
        while (i < ARRAY_LEN(levels) && !text_is(m->text, levels[i].name))
            i++;
        unsigned caps = i == ARRAY_LEN(levels) ? 0
                        : node                 ? levels[i].on_nodes
                                               : levels[i].in_namespace;
        if (!text_is(m->name, "policy") || m->kind != TEXT_STRING || caps == 0) {
            reason_set(why, "line %u: Invalid or duplicate policy keys: %.*s", m->line,
                       (int)MIN(m->name.len, (size_t)64), (const char *)m->name.data);
            return ST_INVALID;
        }
        *ret_caps |= caps;
    }
    return ST_OK;
}

/* Add the capabilities of `rules` in a namespace. */
static enum status caps_of_rules(struct arena *arena, struct bytes rules, struct bytes ns,
                                 unsigned *caps, struct reason *why)
{
    const struct text_value *root;
    unsigned best = 0;
    int best_fit = INT32_MAX;
    TRY(text_hcl_parse(arena, rules, &root, why));
    TEXT_FOR (top, root) {
        bool node = text_is(top->name, "node");
        unsigned own;
        if (top->kind != TEXT_OBJECT || (!node && !text_is(top->name, "namespace"))) {
            reason_set(why, "line %u: Invalid or duplicate policy keys: %.*s", top->line,
                       (int)MIN(top->name.len, (size_t)64), (const char *)top->name.data);
            return ST_INVALID;
        }
        if (node) {
            TRY(caps_of_block(top, true, &own, why));
            *caps |= own;
            continue;
        }
        TEXT_FOR (rule, top) {
            if (rule->kind != TEXT_OBJECT) {
                reason_set(why, "line %u: namespace: a name in quotes and a block are expected",
                           rule->line);
                return ST_INVALID;
            }
            TRY(caps_of_block(rule, false, &own, why));
            int fit = glob_fit(rule->name, ns);
            if (fit >= 0 && fit < best_fit) {
                best = own;
                best_fit = fit;
            }
        }
    }
    *caps |= best;
    return ST_OK;
}

enum status scheduler_rules_check(struct arena *arena, struct bytes rules, struct reason *why)
{
    unsigned caps = 0;
    if (rules.len == 0 || rules.len > SCHEDULER_RULES_MAX) {
        reason_set(why, "rules: 1 to %d bytes are expected", SCHEDULER_RULES_MAX);
        return ST_INVALID;
    }
    return caps_of_rules(arena, rules, BYTES("default"), &caps, why);
}

enum status scheduler_policy_key(struct arena *arena, const char *name, struct bytes *ret_key)
{
    return state_ns_key(arena, STATE_NS_ROOT, "sched-policy", bytes_str(name), NULL, ret_key);
}

enum status scheduler_policy_load(struct state_txn *txn, const char *name,
                                  struct scheduler_policy *ret_policy)
{
    struct state_value value;
    struct bytes key;
    TRY(scheduler_policy_key(txn->arena, name, &key));
    TRY(state_get(txn, key, &value));
    TRY(record_decode(&policy_record, value.value, txn->arena, ret_policy));
    ret_policy->name = name;
    ret_policy->created = value.created;
    ret_policy->modified = value.modified;
    return ST_OK;
}

enum status scheduler_policy_put(struct state_txn *txn, const struct scheduler_policy *policy)
{
    struct bytes key;
    ASSERT(scheduler_policy_is_name(policy->name));
    TRY(scheduler_policy_key(txn->arena, policy->name, &key));
    return state_put_record(txn, key, &policy_record, policy);
}

enum status scheduler_policy_caps(struct state_txn *txn, const struct field_strings *policies,
                                  struct bytes ns, unsigned *ret_caps)
{
    unsigned caps = 0;
    for (size_t i = 0; i < policies->n; i++) {
        struct scheduler_policy policy;
        struct reason why;
        enum status st = scheduler_policy_load(txn, policies->items[i], &policy);
        if (st == ST_NOT_FOUND)
            continue;
        TRY(st);
        st = caps_of_rules(txn->arena, bytes_str(policy.rules), ns, &caps, &why);
        TRY(st == ST_INVALID ? ST_CORRUPT : st);
    }
    *ret_caps = (caps & SCHEDULER_DENY) != 0 ? 0 : caps;
    return ST_OK;
}
