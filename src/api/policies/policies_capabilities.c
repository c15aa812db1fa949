/* Capabilities of tokens on paths, and all rules of a token. */
#include "api/policies/policies.h"
#include "router/request/path.h"

#include <stdlib.h>

struct policies_capabilities {
    struct field_strings paths, path;
    const char *token, *accessor;
};

static const struct field capabilities_fields[] = {
    FIELD(struct policies_capabilities, paths, STRINGS, .help = "Paths, without \"/v1/\"."),
    FIELD(struct policies_capabilities, path, STRINGS, .help = "Old name of paths."),
    FIELD(struct policies_capabilities, token, STRING, .hidden = true,
          .help = "The token, for sys/capabilities."),
    FIELD(struct policies_capabilities, accessor, STRING,
          .help = "The accessor of the token, for sys/capabilities-accessor."),
};
static const struct schema policies_capabilities_schema =
    SCHEMA(struct policies_capabilities, capabilities_fields);

struct words_out {
    const char *path;
    struct field_strings words;
};
static const struct field words_fields[] = {FIELD_ITSELF(struct words_out, words, STRINGS)};
static const struct schema words_schema = SCHEMA_NAMED(struct words_out, path, words_fields);
struct capabilities_out {
    struct field_list paths;
};
static const struct field capabilities_out_fields[] = {
    FIELD_NAMED("", struct capabilities_out, paths, OTHERS, .sub = &words_schema),
};
static const struct schema policies_capabilities_reply =
    SCHEMA(struct capabilities_out, capabilities_out_fields);

/* The words of capabilities, in order. */
static enum status cap_words(struct req *req, unsigned caps, struct field_strings *ret_words)
{
    const char **words = arena_alloc(req->arena, CAP_KINDS * sizeof *words);
    size_t n = 0;
    unsigned cap;
    if (words == NULL)
        return ST_NOMEM;
    for (unsigned i = 0; i < CAP_KINDS; i++) {
        const char *word = cap_word(i, &cap);
        if ((caps & cap) != 0)
            words[n++] = word;
    }
    ASSERT(n > 0 && n <= CAP_KINDS);
    *ret_words = (struct field_strings){.items = words, .n = n, .given = true};
    return ST_OK;
}

/* The capabilities of a token at a path. */
static enum status path_words(struct req *req, const struct acl *acl, const char *path,
                              struct words_out *ret)
{
    static const char *const root[] = {"root"}, *const deny[] = {"deny"};
    unsigned caps = acl_capabilities(acl, bytes_str(path + (path[0] == '/')));
    *ret = (struct words_out){.path = path, .words = {acl_is_root(acl) ? root : deny, 1, true}};
    if (acl_is_root(acl) || caps == 0)
        return ST_OK;
    return cap_words(req, caps, &ret->words);
}

enum { PATHS_MAX = 1000 };

struct asked {
    const char *path;
    size_t at; /* place in the request */
};

static int asked_order(const void *a, const void *b)
{
    const struct asked *x = a, *y = b;
    int order = strcmp(x->path, y->path);
    return order != 0 ? order : (x->at > y->at) - (x->at < y->at);
}

/* Mark each path that an earlier item of the list already names. Paths are long, and a hostile
 * request names paths that differ only at their ends. Sorting compares each path with few others,
 * not with all. */
static enum status find_repeated(struct req *req, const struct field_strings *paths,
                                 const bool **ret_again)
{
    struct asked *sorted = arena_alloc(req->arena, paths->n * sizeof *sorted);
    bool *again = arena_zalloc(req->arena, paths->n * sizeof *again);
    ASSERT(paths->n > 0 && paths->n <= PATHS_MAX);
    if (sorted == NULL || again == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < paths->n; i++)
        sorted[i] = (struct asked){paths->items[i], i};
    qsort(sorted, paths->n, sizeof *sorted, asked_order);
    for (size_t i = 1; i < paths->n; i++)
        again[sorted[i].at] = strcmp(sorted[i - 1].path, sorted[i].path) == 0;
    *ret_again = again;
    return ST_OK;
}

/* Reply with the capabilities of each path. If the request names one path, the reply also has
 * "capabilities", for older clients. */
static enum status reply(struct req *req, const struct acl *acl)
{
    const struct policies_capabilities *in = req_body(req);
    const struct field_strings *paths = in->paths.n != 0 ? &in->paths : &in->path;
    const bool *again;
    if (paths->n == 0 || paths->n > PATHS_MAX)
        return req_fail(req, ST_INVALID, "paths: 1 to %d paths are expected", PATHS_MAX);
    for (size_t i = 0; i < paths->n; i++)
        if (strlen(paths->items[i]) > PATH_BYTES_MAX)
            return req_fail(req, ST_INVALID, "paths: one is longer than %d bytes", PATH_BYTES_MAX);
    TRY(find_repeated(req, paths, &again));
    struct words_out *out = arena_alloc(req->arena, (paths->n + 1) * sizeof *out);
    size_t n = 0;
    if (out == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < paths->n; i++)
        if (!again[i])
            TRY(path_words(req, acl, paths->items[i], &out[n++]));
    if (paths->n == 1 && strcmp(paths->items[0], "capabilities") != 0)
        out[n++] = (struct words_out){"capabilities", out[0].words};
    ASSERT(n > 0 && n <= paths->n + 1);
    return req_reply(req, &(struct capabilities_out){{out, n}});
}

static enum status policies_capabilities_self(struct req *req)
{
    return reply(req, req->acl);
}

static enum status policies_capabilities(struct req *req)
{
    const struct policies_capabilities *in = req_body(req);
    struct auth_token token;
    const struct acl *acl;
    if (in->token == NULL || in->token[0] == '\0')
        return req_fail(req, ST_INVALID, "token: is required");
    const struct auth_scope scope = req_scope(req);
    enum status st = auth_token_load(&scope, bytes_str(in->token), &token);
    if (st == ST_DENIED)
        return req_fail(req, ST_INVALID, "1 error occurred:\n\t* invalid token\n\n");
    TRY(st);
    TRY(req_acl(req, &token, &acl));
    return reply(req, acl);
}

static enum status policies_capabilities_accessor(struct req *req)
{
    const struct policies_capabilities *in = req_body(req);
    struct auth_token token;
    const struct acl *acl;
    if (in->accessor == NULL || in->accessor[0] == '\0')
        return req_fail(req, ST_INVALID, "accessor: is required");
    const struct auth_scope scope = req_scope(req);
    enum status st = auth_token_find(&scope, in->accessor, &token);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID, "1 error occurred:\n\t* invalid accessor\n\n");
    TRY(st);
    TRY(req_acl(req, &token, &acl));
    return reply(req, acl);
}

/* One value of a parameter, and the name of a required parameter, as policies hold them. */
struct any_value {
    const struct text_value *value;
};
static const struct field value_fields[] = {FIELD_ITSELF(struct any_value, value, VALUE)};
static const struct schema value_schema = SCHEMA(struct any_value, value_fields);
struct any_name {
    struct bytes name;
};
static const struct field name_fields[] = {FIELD_ITSELF(struct any_name, name, BYTES)};
static const struct schema name_schema = SCHEMA(struct any_name, name_fields);

struct param_out {
    const char *name;
    struct field_list values;
};
static const struct field param_fields[] = {
    FIELD_ITSELF(struct param_out, values, LIST, .sub = &value_schema),
};
static const struct schema param_schema = SCHEMA_NAMED(struct param_out, name, param_fields);

/* A rule, without the parts that it does not mention. */
struct rule_out {
    const char *path;
    struct field_strings capabilities;
    int64_t min_wrapping_ttl, max_wrapping_ttl;
    struct field_list allowed_parameters, denied_parameters, required_parameters;
};
static const struct field rule_fields[] = {
    FIELD(struct rule_out, capabilities, STRINGS),
    FIELD(struct rule_out, min_wrapping_ttl, INT, .omit = true),
    FIELD(struct rule_out, max_wrapping_ttl, INT, .omit = true),
    FIELD(struct rule_out, allowed_parameters, TABLE, .omit = true, .sub = &param_schema),
    FIELD(struct rule_out, denied_parameters, TABLE, .omit = true, .sub = &param_schema),
    FIELD(struct rule_out, required_parameters, LIST, .omit = true, .sub = &name_schema),
};
static const struct schema rule_schema = SCHEMA_NAMED(struct rule_out, path, rule_fields);

struct resultant {
    bool root;
    struct field_list exact_paths, glob_paths;
};
static const struct field resultant_fields[] = {
    FIELD(struct resultant, root, BOOL, .help = "Everything is allowed."),
    FIELD(
        struct resultant, exact_paths, TABLE, .sub = &rule_schema,
        .help =
            "Paths, each with its capabilities and the rule's limits of parameters and wrapping."),
    FIELD(struct resultant, glob_paths, TABLE, .sub = &rule_schema,
          .help = "Patterns, without the '*' at the end, each like a path."),
};
static const struct schema policies_resultant_schema = SCHEMA(struct resultant, resultant_fields);

static enum status params_of(struct req *req, const struct policy_params *params,
                             struct field_list *ret)
{
    struct param_out *out = arena_alloc(req->arena, params->n * sizeof *out);
    if (out == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < params->n; i++) {
        const struct policy_param *p = &params->items[i];
        out[i] = (struct param_out){arena_str(req->arena, p->name), {p->values, p->n_values}};
        if (out[i].name == NULL)
            return ST_NOMEM;
    }
    *ret = (struct field_list){out, params->n};
    return ST_OK;
}

static enum status rule_of(struct req *req, const struct policy_rule *rule, struct rule_out *ret)
{
    static_assert(sizeof(struct any_value) == sizeof *rule->allowed.items->values, "as policies");
    static_assert(sizeof(struct any_name) == sizeof *rule->required, "as policies");
    *ret = (struct rule_out){.path = arena_str(req->arena, rule->stem),
                             .min_wrapping_ttl = rule->min_wrap_s,
                             .max_wrapping_ttl = rule->max_wrap_s,
                             .required_parameters = {rule->required, rule->n_required}};
    ASSERT(rule->min_wrap_s >= 0 && rule->max_wrap_s >= 0);
    if (ret->path == NULL)
        return ST_NOMEM;
    TRY(cap_words(req, rule->caps != 0 ? rule->caps : (unsigned)CAP_DENY, &ret->capabilities));
    TRY(params_of(req, &rule->allowed, &ret->allowed_parameters));
    return params_of(req, &rule->denied, &ret->denied_parameters);
}

/* The merged rules of the token. `exact`: only rules that match one path each. Else: only rules
 * with wildcards, without the '*' at the end. */
static enum status rules_of(struct req *req, bool exact, struct field_list *ret)
{
    size_t n, n_out = 0;
    const struct policy_rule *const *rules = acl_rules(req->acl, &n);
    struct rule_out *out = arena_alloc(req->arena, n * sizeof *out);
    if (out == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < n; i++) {
        const struct policy_rule *rule = rules[i];
        if (exact != (!rule->star && rule->n_plus == 0))
            continue;
        if (!exact && rule->star && i != 0 && rules[i - 1]->n_plus != 0 &&
            bytes_eq(rules[i - 1]->stem, rule->stem))
            continue; /* "a/+" and "a/+*" have one name here */
        TRY(rule_of(req, rule, &out[n_out++]));
    }
    ASSERT(n_out <= n);
    *ret = (struct field_list){out, n_out};
    return ST_OK;
}

static enum status policies_resultant_acl(struct req *req)
{
    struct resultant out = {.root = acl_is_root(req->acl)};
    TRY(rules_of(req, true, &out.exact_paths));
    TRY(rules_of(req, false, &out.glob_paths));
    return req_reply(req, &out);
}

/* Rows for three kinds of requests: the body names a token, the body names an accessor, or the
 * token of the request itself is meant. */
#define CAPABILITIES(pattern, function, whose)                                                \
    {                                                                                         \
        .method = METHOD_POST, .path = pattern, .handler = function, .form = FORM_TOP_LEVEL,  \
        .flags = ROUTE_READS, .body = &policies_capabilities_schema,                          \
        .reply = &policies_capabilities_reply, .help = "What " whose " may do at some paths." \
    }

static const struct route capabilities_routes[] = {
    CAPABILITIES("capabilities", policies_capabilities, "a token"),
    CAPABILITIES("capabilities-accessor", policies_capabilities_accessor,
                 "the token with an accessor"),
    CAPABILITIES("capabilities-self", policies_capabilities_self, "the token of the request"),
    {.method = METHOD_GET,
     .path = "internal/ui/resultant-acl",
     .handler = policies_resultant_acl,
     .reply = &policies_resultant_schema,
     .help = "All rules of the policies of the token, merged."},
};

const struct route_table policies_capabilities_table = {capabilities_routes,
                                                        ARRAY_LEN(capabilities_routes)};
