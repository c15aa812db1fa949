/* Policies of a new token: never more than the asking token may give. */
#include "api/token/token.h"
#include "auth/policy.h"

#include <stdlib.h>

enum { POLICIES_MAX = 256 };

static bool has(const struct field_strings *list, const char *name)
{
    for (size_t i = 0; i < list->n; i++)
        if (strcmp(list->items[i], name) == 0)
            return true;
    return false;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* As policies are stored; "" for what is blank. */
static enum status clean_name(struct req *req, const char *text, const char **ret_name)
{
    *ret_name = "";
    if (text[strspn(text, " \t")] == '\0')
        return ST_OK;
    enum status st = policy_name(req->arena, bytes_str(text), ret_name);
    if (st == ST_INVALID)
        return req_fail(req, st, "policies: a name is too long or not printable");
    return st;
}

/* Ordered, each once, none empty; with "default" if wished. The root policy stands alone. */
static enum status normal(struct req *req, const struct field_strings *list, bool add_default,
                          struct field_strings *ret)
{
    const char **items = arena_alloc(req->arena, (list->n + 1) * sizeof *items);
    size_t n = 0, kept = 0;
    if (items == NULL)
        return ST_NOMEM;
    if (list->n > POLICIES_MAX)
        return req_fail(req, ST_INVALID, "policies: more than %d", POLICIES_MAX);
    for (size_t i = 0; i < list->n; i++) {
        TRY(clean_name(req, list->items[i], &items[n]));
        if (strcmp(items[n], AUTH_POLICY_ROOT) == 0) {
            items[0] = AUTH_POLICY_ROOT;
            *ret = (struct field_strings){.items = items, .n = 1, .given = true};
            return ST_OK;
        }
        n += items[n][0] != '\0';
    }
    if (add_default)
        items[n++] = POLICY_DEFAULT;
    if (n != 0)
        qsort(items, n, sizeof *items, by_text);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || strcmp(items[kept - 1], items[i]) != 0)
            items[kept++] = items[i];
    *ret = (struct field_strings){.items = items, .n = kept, .given = true};
    return ST_OK;
}

/* '*' stands for anything, others for themselves. */
static bool glob(const char *pattern, const char *text)
{
    const char *star = NULL, *mark = NULL;
    while (*text != '\0') {
        if (*pattern == '*') {
            star = pattern++;
            mark = text;
        } else if (*pattern == *text) {
            pattern++;
            text++;
        } else if (star != NULL) {
            pattern = star + 1;
            text = ++mark;
        } else {
            return false;
        }
    }
    while (*pattern == '*')
        pattern++;
    return *pattern == '\0';
}

static bool has_glob(const struct field_strings *globs, const char *name)
{
    for (size_t i = 0; i < globs->n; i++)
        if (glob(globs->items[i], name))
            return true;
    return false;
}

static bool role_says(const struct token_role *role)
{
    return role->allowed_policies.n + role->disallowed_policies.n + role->allowed_policies_glob.n +
               role->disallowed_policies_glob.n !=
           0;
}

/* Policies of a token made under a role that names policies. The role's lists bound them, not the
 * policies of the asking token. */
static enum status by_role(struct req *req, const struct token_create *in,
                           const struct token_role *role, const struct token_asker *asker,
                           struct field_strings *ret)
{
    bool closed = role->allowed_policies.n + role->allowed_policies_glob.n != 0;
    bool add_default = !in->no_default_policy && !role->token_no_default_policy &&
                       !has(&role->disallowed_policies, POLICY_DEFAULT) &&
                       !has_glob(&role->disallowed_policies_glob, POLICY_DEFAULT);
    struct field_strings allowed;

    TRY(normal(req, &role->allowed_policies, add_default, &allowed));
    if (in->policies.n != 0)
        TRY(normal(req, &in->policies, add_default, ret));
    else if (closed)
        *ret = allowed;
    else
        TRY(normal(req, &asker->parent->policies, add_default, ret));
    for (size_t i = 0; i < ret->n; i++) {
        const char *name = ret->items[i];
        if (closed && !has(&allowed, name) && !has_glob(&role->allowed_policies_glob, name))
            return req_fail(req, ST_INVALID,
                            "token policies must be subset of the role's allowed policies or match "
                            "its glob policies: \"%.80s\" does not",
                            name);
        if (has(&role->disallowed_policies, name) ||
            has_glob(&role->disallowed_policies_glob, name))
            return req_fail(req, ST_INVALID, "token policy \"%.80s\" is disallowed by this role",
                            name);
    }
    return ST_OK;
}

/* Without one: what the parent has, or part of it; anything for those with sudo. */
static enum status by_parent(struct req *req, const struct token_create *in,
                             const struct token_asker *asker, bool add_default,
                             struct field_strings *ret)
{
    const struct field_strings *parents = &asker->parent->policies;
    if (in->policies.n == 0)
        return normal(req, parents, false, ret);
    if (!asker->sudo)
        add_default = add_default && has(parents, POLICY_DEFAULT);
    TRY(normal(req, &in->policies, add_default, ret));
    for (size_t i = 0; i < ret->n && !asker->sudo; i++)
        if (!has(parents, ret->items[i]))
            return req_fail(req, ST_INVALID, "child policies must be subset of parent");
    return ST_OK;
}

static bool is_root(const struct field_strings *policies)
{
    return policies->n == 1 && strcmp(policies->items[0], AUTH_POLICY_ROOT) == 0;
}

/* A request without the default policy gets none, wherever the policy would come from. */
static void leave_default_out(struct field_strings *policies, const char **room)
{
    size_t n = 0;
    for (size_t i = 0; i < policies->n; i++)
        if (strcmp(policies->items[i], POLICY_DEFAULT) != 0)
            room[n++] = policies->items[i];
    *policies = (struct field_strings){.items = room, .n = n, .given = true};
}

/* Policies may be written later than the tokens that have them; a slip of the pen is told. */
static enum status warn_missing(struct req *req, const struct field_strings *policies)
{
    for (size_t i = 0; i < policies->n; i++) {
        struct bytes name = bytes_str(policies->items[i]), key;
        if (policy_builtin(name) != NULL || text_is(name, AUTH_POLICY_ROOT))
            continue;
        TRY(policy_key(req->arena, req->ns, name, &key));
        enum status st = state_exists(req->txn, key);
        if (st == ST_NOT_FOUND)
            req_warn(req, "Policy \"%.200s\" does not exist", policies->items[i]);
        else
            TRY(st);
    }
    return ST_OK;
}

enum status token_policies(struct req *req, const struct token_create *in,
                           const struct token_role *role, const struct token_asker *asker,
                           struct field_strings *ret)
{
    struct field_strings policies;
    bool add_default = !in->no_default_policy && !(role != NULL && role->token_no_default_policy);

    if (role != NULL && role_says(role))
        TRY(by_role(req, in, role, asker, &policies));
    else
        TRY(by_parent(req, in, asker, add_default, &policies));
    if (in->no_default_policy) {
        const char **room = arena_alloc(req->arena, (policies.n + 1) * sizeof *room);
        if (room == NULL)
            return ST_NOMEM;
        leave_default_out(&policies, room);
    }
    if (is_root(&policies) && !is_root(&asker->parent->policies))
        return req_fail(req, ST_INVALID,
                        "root tokens may not be created without parent token being root");
    if (has(&policies, POLICY_WRAPPING))
        return req_fail(req, ST_INVALID, "cannot assign policy \"%s\"", POLICY_WRAPPING);
    TRY(warn_missing(req, &policies));
    *ret = policies;
    return ST_OK;
}
