/* The policies of a new token: never more than the token that asks may give. */
#include "api/token/token.h"
#include "auth/policy.h"
#include "auth/policy_list.h"

/* A list as tokens keep it. ST_INVALID with the request's error. */
static enum status clean_list(struct req *req, const struct field_strings *list, bool add_default,
                              struct field_strings *ret)
{
    return policy_list_clean(req->arena, list, add_default, ret, req_reason(req));
}

/* Whether `pattern` matches `text`. '*' matches any characters; every other character matches only
 * itself. */
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

/* Policies of a new token under a role that names policies. The lists of the role limit these
 * policies; the policies of the requesting token do not. */
static enum status by_role(struct req *req, const struct token_create *in,
                           const struct token_role *role, const struct token_asker *asker,
                           struct field_strings *ret)
{
    bool closed = role->allowed_policies.n + role->allowed_policies_glob.n != 0;
    bool add_default = !in->no_default_policy && !role->token_no_default_policy &&
                       !policy_list_has(&role->disallowed_policies, POLICY_DEFAULT) &&
                       !has_glob(&role->disallowed_policies_glob, POLICY_DEFAULT);
    struct field_strings allowed;

    ASSERT(role_says(role));
    TRY(clean_list(req, &role->allowed_policies, add_default, &allowed));
    if (in->policies.n != 0)
        TRY(clean_list(req, &in->policies, add_default, ret));
    else if (closed)
        *ret = allowed;
    else
        TRY(clean_list(req, &asker->parent->policies, add_default, ret));
    for (size_t i = 0; i < ret->n; i++) {
        const char *name = ret->items[i];
        if (closed && !policy_list_has(&allowed, name) &&
            !has_glob(&role->allowed_policies_glob, name))
            return req_fail(req, ST_INVALID,
                            "token policies must be subset of the role's allowed policies or match "
                            "its glob policies: \"%.80s\" does not",
                            name);
        if (policy_list_has(&role->disallowed_policies, name) ||
            has_glob(&role->disallowed_policies_glob, name))
            return req_fail(req, ST_INVALID, "token policy \"%.80s\" is disallowed by this role",
                            name);
    }
    return ST_OK;
}

/* Policies of a new token without a role that names policies: all or some policies of the parent.
 * With sudo, the request may name any policy. */
static enum status by_parent(struct req *req, const struct token_create *in,
                             const struct token_asker *asker, bool add_default,
                             struct field_strings *ret)
{
    const struct field_strings *parents = &asker->parent->policies;
    if (in->policies.n == 0)
        return clean_list(req, parents, false, ret);
    if (!asker->sudo)
        add_default = add_default && policy_list_has(parents, POLICY_DEFAULT);
    TRY(clean_list(req, &in->policies, add_default, ret));
    for (size_t i = 0; i < ret->n && !asker->sudo; i++)
        if (!policy_list_has(parents, ret->items[i]))
            return req_fail(req, ST_INVALID, "child policies must be subset of parent");
    return ST_OK;
}

/* Remove the default policy: the request does not want it, wherever it would come from. */
static void leave_default_out(struct field_strings *policies, const char **room)
{
    size_t n = 0;
    for (size_t i = 0; i < policies->n; i++)
        if (strcmp(policies->items[i], POLICY_DEFAULT) != 0)
            room[n++] = policies->items[i];
    ASSERT(n <= policies->n);
    *policies = (struct field_strings){.items = room, .n = n, .given = true};
}

/* Warn of policies that do not exist, because a name may be misspelled. The token is still made: a
 * policy may be written later than the tokens that name it. */
static enum status warn_missing(struct req *req, const struct field_strings *policies)
{
    for (size_t i = 0; i < policies->n; i++) {
        enum status st = policy_list_exists(req->txn, req->ns, policies->items[i]);
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
    if (policy_list_is_root(&policies) && !policy_list_is_root(&asker->parent->policies))
        return req_fail(req, ST_INVALID,
                        "root tokens may not be created without parent token being root");
    if (policy_list_has(&policies, POLICY_WRAPPING))
        return req_fail(req, ST_INVALID, "cannot assign policy \"%s\"", POLICY_WRAPPING);
    ASSERT(!in->no_default_policy || !policy_list_has(&policies, POLICY_DEFAULT));
    TRY(warn_missing(req, &policies));
    *ret = policies;
    return ST_OK;
}
