/* Rights of tokens on paths: sys/capabilities and its kin. */
#include "api/sys/sys.h"
#include "router/path.h"

#include <stdlib.h>

struct sys_capabilities {
    struct field_strings paths, path;
    const char *token, *accessor;
};

static const struct field capabilities_fields[] = {
    FIELD(struct sys_capabilities, paths, STRINGS, .help = "Paths, without \"/v1/\"."),
    FIELD(struct sys_capabilities, path, STRINGS, .help = "The same, as older clients name it."),
    FIELD(struct sys_capabilities, token, STRING, .hidden = true, .help = "Of sys/capabilities."),
    FIELD(struct sys_capabilities, accessor, STRING, .help = "Of sys/capabilities-accessor."),
};
static const struct schema sys_capabilities_schema =
    SCHEMA(struct sys_capabilities, capabilities_fields);

/* Only for its kinds: written by hand. */
struct resultant {
    bool root;
    const struct text_value *exact_paths, *glob_paths;
};
#define RULES_SHAPE                                                       \
    "{*:{capabilities:[str] min_wrapping_ttl?:int max_wrapping_ttl?:int " \
    "allowed_parameters?:{*:[any]} denied_parameters?:{*:[any]} required_parameters?:[str]}}"
static const struct field resultant_fields[] = {
    FIELD(struct resultant, root, BOOL, .help = "Everything is allowed."),
    FIELD(struct resultant, exact_paths, VALUE, .shape = RULES_SHAPE,
          .help = "Paths, each with its capabilities and what the rule says of parameters and "
                  "wrapping."),
    FIELD(struct resultant, glob_paths, VALUE, .shape = RULES_SHAPE,
          .help = "The same of patterns, without the '*' at their end."),
};
static const struct schema sys_resultant_schema = SCHEMA(struct resultant, resultant_fields);

/* The words, in order. */
static void put_words(struct text_writer *w, const struct acl *acl, const char *path)
{
    unsigned caps = acl_capabilities(acl, bytes_str(path + (path[0] == '/'))), cap;
    text_open_list(w);
    if (acl_is_root(acl)) {
        text_put_str(w, "root");
    } else if (caps == 0) {
        text_put_str(w, "deny");
    } else {
        for (unsigned i = 0; i < CAP_KINDS; i++) {
            const char *word = cap_word(i, &cap);
            if ((caps & cap) != 0)
                text_put_str(w, word);
        }
    }
    text_close(w);
}

struct asked {
    const char *path;
    size_t at;
};

static int asked_order(const void *a, const void *b)
{
    const struct asked *x = a, *y = b;
    int order = strcmp(x->path, y->path);
    return order != 0 ? order : (x->at > y->at) - (x->at < y->at);
}

/* Find paths that were named before. Paths are long, and those of a hostile request differ at their
 * ends only: each is compared to a few others, not to all. */
static enum status find_repeated(struct req *req, const struct field_strings *paths,
                                 const bool **ret_again)
{
    struct asked *sorted = arena_alloc(req->arena, paths->n * sizeof *sorted);
    bool *again = arena_zalloc(req->arena, paths->n * sizeof *again);
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

enum { PATHS_MAX = 1000 };

/* Each path with its list; where there is only one, older clients look for "capabilities". */
static enum status reply(struct req *req, const struct acl *acl)
{
    const struct sys_capabilities *in = req_body(req);
    const struct field_strings *paths = in->paths.n != 0 ? &in->paths : &in->path;
    const bool *again;
    if (paths->n == 0 || paths->n > PATHS_MAX)
        return req_fail(req, ST_INVALID, "paths: 1 to %d paths are expected", PATHS_MAX);
    for (size_t i = 0; i < paths->n; i++)
        if (strlen(paths->items[i]) > PATH_BYTES_MAX)
            return req_fail(req, ST_INVALID, "paths: one is longer than %d bytes", PATH_BYTES_MAX);
    TRY(find_repeated(req, paths, &again));
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    for (size_t i = 0; i < paths->n; i++) {
        if (again[i])
            continue;
        text_key(&w, paths->items[i]);
        put_words(&w, acl, paths->items[i]);
    }
    if (paths->n == 1 && strcmp(paths->items[0], "capabilities") != 0) {
        text_key(&w, "capabilities");
        put_words(&w, acl, paths->items[0]);
    }
    text_close(&w);
    return req_reply_end(req);
}

static enum status sys_capabilities_self(struct req *req)
{
    return reply(req, req->acl);
}

static enum status sys_capabilities(struct req *req)
{
    const struct sys_capabilities *in = req_body(req);
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

static enum status sys_capabilities_accessor(struct req *req)
{
    const struct sys_capabilities *in = req_body(req);
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

static void put_params(struct text_writer *w, const char *name, const struct policy_params *params)
{
    if (params->n == 0)
        return;
    text_key(w, name);
    text_open_object(w);
    for (size_t i = 0; i < params->n; i++) {
        text_key_bytes(w, params->items[i].name);
        text_open_list(w);
        for (size_t v = 0; v < params->items[i].n_values; v++)
            text_put_value(w, params->items[i].values[v]);
        text_close(w);
    }
    text_close(w);
}

/* Write one rule, without the parts that it does not mention. */
static void put_rule(struct text_writer *w, const struct policy_rule *rule)
{
    unsigned caps = rule->caps != 0 ? rule->caps : (unsigned)CAP_DENY, cap;
    text_open_object(w);
    text_key(w, "capabilities");
    text_open_list(w);
    for (unsigned k = 0; k < CAP_KINDS; k++) {
        const char *word = cap_word(k, &cap);
        if ((caps & cap) != 0)
            text_put_str(w, word);
    }
    text_close(w);
    if (rule->min_wrap_s != 0)
        text_member_int(w, "min_wrapping_ttl", rule->min_wrap_s);
    if (rule->max_wrap_s != 0)
        text_member_int(w, "max_wrapping_ttl", rule->max_wrap_s);
    put_params(w, "allowed_parameters", &rule->allowed);
    put_params(w, "denied_parameters", &rule->denied);
    if (rule->n_required != 0) {
        text_key(w, "required_parameters");
        text_open_list(w);
        for (size_t i = 0; i < rule->n_required; i++)
            text_put_bytes(w, rule->required[i]);
        text_close(w);
    }
    text_close(w);
}

/* The merged rules: those that stand for one path, and the others without the '*' at their end. */
static void put_rules(struct text_writer *w, const struct acl *acl, bool exact)
{
    size_t n;
    const struct policy_rule *const *rules = acl_rules(acl, &n);
    text_key(w, exact ? "exact_paths" : "glob_paths");
    text_open_object(w);
    for (size_t i = 0; i < n; i++) {
        const struct policy_rule *rule = rules[i];
        if (exact != (!rule->star && rule->n_plus == 0))
            continue;
        if (!exact && rule->star && i != 0 && rules[i - 1]->n_plus != 0 &&
            bytes_eq(rules[i - 1]->stem, rule->stem))
            continue; /* "a/+" and "a/+*" have one name here */
        text_key_bytes(w, rule->stem);
        put_rule(w, rule);
    }
    text_close(w);
}

static enum status sys_resultant_acl(struct req *req)
{
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    text_member_bool(&w, "root", acl_is_root(req->acl));
    put_rules(&w, req->acl, true);
    put_rules(&w, req->acl, false);
    text_close(&w);
    return req_reply_end(req);
}

/* Rows that differ in whose token it is. */
#define CAPABILITIES(pattern, function, whose)                                    \
    {                                                                             \
        .method = METHOD_POST, .path = pattern, .handler = function,              \
        .flags = ROUTE_READS | ROUTE_TOP_LEVEL, .body = &sys_capabilities_schema, \
        .shape = "{*:[str]}", .help = "What " whose " may do at some paths."      \
    }

static const struct route capabilities_routes[] = {
    CAPABILITIES("capabilities", sys_capabilities, "a token"),
    CAPABILITIES("capabilities-accessor", sys_capabilities_accessor, "the token with an accessor"),
    CAPABILITIES("capabilities-self", sys_capabilities_self, "the token of the request"),
    {.method = METHOD_GET,
     .path = "internal/ui/resultant-acl",
     .handler = sys_resultant_acl,
     .reply = &sys_resultant_schema,
     .help = "All rules of the policies of the token, merged."},
};

const struct route_table sys_capabilities_table = {capabilities_routes,
                                                   ARRAY_LEN(capabilities_routes)};
