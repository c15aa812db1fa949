/* The parser of the registry's rules: from the text to a list of rules. */
#include "auth/registry/registry_rules_internal.h"
#include "base/mem.h"
#include "text/hcl.h"

static const struct {
    const char *word;
    enum registry_resource resource;
} kinds[] = {
    {"acl", REGISTRY_ACL},     {"agent", REGISTRY_AGENT},       {"event", REGISTRY_EVENT},
    {"key", REGISTRY_KEY},     {"keyring", REGISTRY_KEYRING},   {"mesh", REGISTRY_MESH},
    {"node", REGISTRY_NODE},   {"operator", REGISTRY_OPERATOR}, {"peering", REGISTRY_PEERING},
    {"query", REGISTRY_QUERY}, {"service", REGISTRY_SERVICE},   {"session", REGISTRY_SESSION},
};

static const char *const kept[] = {"identity",  "identity_prefix",  "namespace", "namespace_prefix",
                                   "partition", "partition_prefix", "sentinel"};

struct parser {
    struct registry_rules *out;
    struct reason *why;
};

/* A block as the text has it: key_prefix "app/" { … } */
struct block {
    struct bytes kind, name;
    enum registry_resource resource;
    bool prefix;
};

static bool find_kind(struct bytes word, struct block *ret_block)
{
    struct bytes stem = word;
    bool prefix = word.len > 7 && memcmp(word.data + word.len - 7, "_prefix", 7) == 0;
    if (prefix)
        stem.len -= 7;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        if (!text_is(stem, kinds[i].word) || (prefix && !registry_has_names(kinds[i].resource)))
            continue;
        *ret_block = (struct block){.kind = word, .resource = kinds[i].resource, .prefix = prefix};
        return true;
    }
    return false;
}

static bool is_kept(struct bytes word)
{
    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        if (text_is(word, kept[i]))
            return true;
    return false;
}

static enum status note_unknown(struct parser *p, struct bytes block, struct bytes field)
{
    struct registry_rules *out = p->out;
    ASSERT(block.len != 0 || field.len == 0);
    if (out->unknown != NULL)
        return ST_OK;
    out->unknown = field.len == 0 ? arena_format(&out->arena, "%.*s", (int)MIN(block.len, 64),
                                                 (const char *)block.data)
                                  : arena_format(&out->arena, "%.*s.%.*s", (int)MIN(block.len, 64),
                                                 (const char *)block.data, (int)MIN(field.len, 64),
                                                 (const char *)field.data);
    return out->unknown != NULL ? ST_OK : ST_NOMEM;
}

static enum status keep_rule(struct parser *p, struct registry_rule rule)
{
    struct registry_rules *out = p->out;
    ASSERT(rule.level >= REGISTRY_READ && rule.level <= REGISTRY_DENY);
    if (out->n == out->room) {
        size_t room = MAX(2 * out->room, (size_t)8);
        struct registry_rule *rules = arena_alloc(&out->arena, room * sizeof *rules);
        if (rules == NULL)
            return ST_NOMEM;
        if (out->n != 0)
            memcpy(rules, out->rules, out->n * sizeof *rules);
        out->rules = rules;
        out->room = room;
    }
    out->rules[out->n++] = rule;
    return ST_OK;
}

/* The level that a word stands for; 0: none. */
static enum registry_level level_of(const struct text_value *word, bool list)
{
    static const char *const words[] = {
        [REGISTRY_READ] = "read",
        [REGISTRY_LIST] = "list",
        [REGISTRY_WRITE] = "write",
        [REGISTRY_DENY] = "deny",
    };
    if (word == NULL || word->kind != TEXT_STRING)
        return 0;
    for (size_t i = REGISTRY_READ; i < ARRAY_LEN(words); i++)
        if (text_is(word->text, words[i]) && (i != REGISTRY_LIST || list))
            return (enum registry_level)i;
    return 0;
}

static struct bytes shown(const struct text_value *word)
{
    return word != NULL && word->kind == TEXT_STRING ? word->text : (struct bytes){0};
}

static enum status refuse_level(struct parser *p, const struct block *block, const char *what,
                                const struct text_value *word)
{
    struct bytes text = shown(word);
    ASSERT(block->kind.len != 0);
    int len = (int)MIN(text.len, 64);
    if (!registry_has_names(block->resource))
        reason_set(p->why, "Invalid %.*s policy: \"%.*s\"", (int)block->kind.len,
                   (const char *)block->kind.data, len, (const char *)text.data);
    else
        reason_set(p->why, "Invalid %.*s%s policy: {Name:\"%.*s\" %s:\"%.*s\"}",
                   (int)block->kind.len, (const char *)block->kind.data,
                   strcmp(what, "Policy") == 0 ? "" : " intentions", (int)MIN(block->name.len, 64),
                   (const char *)block->name.data, what, len, (const char *)text.data);
    return ST_INVALID;
}

/* acl = "read" */
static enum status rule_of_level(struct parser *p, const struct block *block,
                                 const struct text_value *v)
{
    enum registry_level level = level_of(v, false);
    ASSERT(!registry_has_names(block->resource));
    if (v->kind == TEXT_STRING && v->text.len == 0)
        return ST_OK; /* as if absent */
    if (level == 0)
        return refuse_level(p, block, "Policy", v);
    return keep_rule(p, (struct registry_rule){.resource = block->resource, .level = level});
}

static enum status add_intentions(struct parser *p, const struct block *block,
                                  enum registry_level policy, const struct text_value *word)
{
    enum registry_level level = policy == REGISTRY_DENY ? REGISTRY_DENY : REGISTRY_READ;
    ASSERT(block->resource == REGISTRY_SERVICE);
    if (word != NULL && (word->kind != TEXT_STRING || word->text.len != 0)) {
        level = level_of(word, false);
        if (level == 0)
            return refuse_level(p, block, "Intentions", word);
    }
    return keep_rule(p, (struct registry_rule){.resource = REGISTRY_INTENTION,
                                               .name = block->name,
                                               .level = level,
                                               .prefix = block->prefix});
}

/* { policy = "write" } */
static enum status rule_of_fields(struct parser *p, const struct block *block,
                                  const struct text_value *fields)
{
    bool service = block->resource == REGISTRY_SERVICE;
    ASSERT(registry_has_names(block->resource));
    ASSERT(fields->kind == TEXT_OBJECT);
    const struct text_value *policy = text_get(fields, "policy");
    enum registry_level level = level_of(policy, block->resource == REGISTRY_KEY);
    if (level == 0)
        return refuse_level(p, block, "Policy", policy);
    TEXT_FOR (field, fields)
        if (!text_is(field->name, "policy") && !text_is(field->name, "sentinel") &&
            !(service && text_is(field->name, "intentions")))
            TRY(note_unknown(p, block->kind, field->name));
    TRY(keep_rule(p, (struct registry_rule){.resource = block->resource,
                                            .name = block->name,
                                            .level = level,
                                            .prefix = block->prefix}));
    return service ? add_intentions(p, block, level, text_get(fields, "intentions")) : ST_OK;
}

/* "app/" { … }: all names of one kind. JSON may have a list of objects at either level. */
static enum status rules_of_names(struct parser *p, struct block *block,
                                  const struct text_value *names)
{
    ASSERT(names->kind == TEXT_OBJECT);
    TEXT_FOR (named, names) {
        bool list = named->kind == TEXT_LIST;
        block->name = named->name;
        if (block->name.len > REGISTRY_RULES_NAME_MAX) {
            reason_set(p->why, "line %u: a name is longer than %d bytes", named->line,
                       REGISTRY_RULES_NAME_MAX);
            return ST_INVALID;
        }
        for (const struct text_value *each = list ? named->first : named; each != NULL;
             each = list ? each->next : NULL) {
            if (each->kind != TEXT_OBJECT) {
                reason_set(p->why, "line %u: %.*s needs a name and a block with a policy",
                           each->line, (int)block->kind.len, (const char *)block->kind.data);
                return ST_INVALID;
            }
            TRY(rule_of_fields(p, block, each));
        }
    }
    return ST_OK;
}

static enum status rules_of_kind(struct parser *p, const struct text_value *v)
{
    struct block block;
    bool list = v->kind == TEXT_LIST;
    if (!find_kind(v->name, &block))
        return is_kept(v->name) ? ST_OK : note_unknown(p, v->name, (struct bytes){0});
    if (!registry_has_names(block.resource))
        return rule_of_level(p, &block, v);
    for (const struct text_value *each = list ? v->first : v; each != NULL;
         each = list ? each->next : NULL) {
        if (each->kind != TEXT_OBJECT) {
            reason_set(p->why, "line %u: %.*s needs a name and a block with a policy", each->line,
                       (int)block.kind.len, (const char *)block.kind.data);
            return ST_INVALID;
        }
        TRY(rules_of_names(p, &block, each));
    }
    return ST_OK;
}

static enum status rules_of_text(struct parser *p, struct bytes text)
{
    struct reason why = {{0}};
    const struct text_value *root;
    enum status st = text_hcl_parse(&p->out->arena, text, &root, &why);
    if (st == ST_INVALID || st == ST_TOO_BIG)
        reason_set(p->why, "Failed to parse ACL rules: %s", why.text);
    TRY(st);
    TEXT_FOR (v, root)
        TRY(rules_of_kind(p, v));
    return ST_OK;
}

enum status registry_rules_compile(struct bytes text, struct registry_rules **ret_rules,
                                   struct reason *why)
{
    *ret_rules = NULL;
    if (text.len > REGISTRY_RULES_TEXT_MAX) {
        reason_set(why, "rules are longer than %d bytes", REGISTRY_RULES_TEXT_MAX);
        return ST_TOO_BIG;
    }
    struct registry_rules *rules = mem_zalloc(sizeof *rules);
    if (rules == NULL)
        return ST_NOMEM;
    struct parser p = {.out = rules, .why = why};
    enum status st = rules_of_text(&p, text);
    if (st != ST_OK) {
        registry_rules_free(rules);
        return st;
    }
    *ret_rules = rules;
    return ST_OK;
}

void registry_rules_free(struct registry_rules *rules)
{
    if (rules == NULL)
        return;
    arena_done(&rules->arena);
    mem_free(rules);
}

size_t registry_rules_bytes(const struct registry_rules *rules)
{
    return sizeof *rules + rules->arena.bytes;
}

const char *registry_rules_unknown(const struct registry_rules *rules)
{
    return rules->unknown;
}
