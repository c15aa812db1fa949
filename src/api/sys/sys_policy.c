/* Policies: sys/policies/acl and, as older clients know it, sys/policy. */
#include "api/sys/sys.h"
#include "text/encode.h"

#include <stdlib.h>

static const struct field policy_fields[] = {
    FIELD(struct sys_policy, name, STRING, .help = "Name of the policy; case does not matter."),
    FIELD(struct sys_policy, policy, STRING, .help = "The text, HCL or JSON, plain or in base64."),
    FIELD(struct sys_policy, rules, STRING, .help = "The same, as older clients name it."),
};
const struct schema sys_policy_schema = SCHEMA(struct sys_policy, policy_fields);

struct shown {
    const char *name, *text;
};
static const struct field shown_fields[] = {
    FIELD(struct shown, name, STRING, .help = "Name of the policy."),
    FIELD_NAMED("policy", struct shown, text, STRING, .help = "Its text, as written."),
};
const struct schema sys_policy_shown_schema = SCHEMA(struct shown, shown_fields);

static const struct field shown_old_fields[] = {
    FIELD(struct shown, name, STRING, .help = "Name of the policy."),
    FIELD_NAMED("rules", struct shown, text, STRING, .help = "Its text, as written."),
};
const struct schema sys_policy_shown_old_schema = SCHEMA(struct shown, shown_old_fields);

struct shown_names {
    struct field_strings keys, policies;
};
static const struct field names_fields[] = {
    FIELD(struct shown_names, keys, STRINGS, .help = "Names of all policies."),
    FIELD(struct shown_names, policies, STRINGS, .help = "The same."),
};
const struct schema sys_policy_names_schema = SCHEMA(struct shown_names, names_fields);

static enum status name_of(struct req *req, struct bytes *ret_name)
{
    const char *name = req_param(req, "name");
    size_t len = strlen(name);
    enum status st = ST_INVALID;
    if (name[0] != '/' && name[len - 1] != '/')
        st = policy_name(req->arena, bytes_of(name, len), &name);
    if (st == ST_INVALID)
        return req_fail(req, st, "a policy has a name of 1 to %d bytes that show", POLICY_NAME_MAX);
    TRY(st);
    *ret_name = bytes_str(name);
    return ST_OK;
}

struct names {
    struct arena *arena;
    const char **items;
    size_t n;
};

static enum status add_name(struct names *names, const char *name)
{
    if ((names->n & (names->n - 1)) == 0) { /* full at every power of two */
        const char **more = arena_alloc(names->arena, MAX(2 * names->n, (size_t)1) * sizeof *more);
        if (more == NULL)
            return ST_NOMEM;
        if (names->n != 0)
            memcpy(more, names->items, names->n * sizeof *more);
        names->items = more;
    }
    names->items[names->n++] = name;
    return name != NULL ? ST_OK : ST_NOMEM;
}

static int name_order(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Those that are stored and those that are there without; the wrapping policy is nobody's. */
static enum status all_names(struct req *req, struct names *names)
{
    struct state_iter *iter = arena_alloc(req->arena, sizeof *iter);
    struct bytes prefix;
    bool has_default = false;

    names->arena = req->arena;
    if (iter == NULL)
        return ST_NOMEM;
    TRY(policy_key(req->arena, req->ns, (struct bytes){0}, &prefix));
    TRY(state_scan(req->txn, prefix, (struct bytes){0}, iter));
    while (state_iter_next(iter)) {
        struct bytes name = bytes_from(iter->key, prefix.len);
        has_default = has_default || text_is(name, POLICY_DEFAULT);
        TRY(add_name(names, arena_str(req->arena, name)));
    }
    if (!has_default)
        TRY(add_name(names, POLICY_DEFAULT));
    TRY(add_name(names, AUTH_POLICY_ROOT));
    qsort(names->items, names->n, sizeof *names->items, name_order);
    return ST_OK;
}

enum status sys_policy_list(struct req *req)
{
    struct names names = {0};
    TRY(all_names(req, &names));
    return req_reply_keys(req, names.items, names.n);
}

enum status sys_policy_list_old(struct req *req)
{
    struct names names = {0};
    TRY(all_names(req, &names));
    struct field_strings all = {.items = names.items, .n = names.n, .given = true};
    struct shown_names out = {.keys = all, .policies = all};
    return req_reply(req, &out);
}

/* The route's reply says how the text is called. */
enum status sys_policy_read(struct req *req)
{
    struct bytes name, text;
    TRY(name_of(req, &name));
    TRY(policy_load(req->txn, req->ns, name, &text));
    struct shown out = {.name = (const char *)name.data, .text = (const char *)text.data};
    return req_reply(req, &out);
}

/* No policy is valid base64 by itself, an empty or a commented one aside. */
static enum status plain_text(struct req *req, const char *given, struct bytes *ret_text)
{
    struct bytes text = bytes_str(given);
    size_t len = 0;
    uint8_t *plain = arena_alloc(req->arena, TEXT_BASE64_BYTES(text.len));
    if (plain == NULL)
        return ST_NOMEM;
    bool coded = text_base64_parse(text, plain, &len) == ST_OK && len != 0;
    *ret_text = coded ? bytes_of(plain, len) : text;
    return ST_OK;
}

/* What may not be changed, and what may not even be absent. */
static enum status check_reserved(struct req *req, struct bytes name, bool deletion)
{
    if (text_is(name, AUTH_POLICY_ROOT) || text_is(name, POLICY_WRAPPING))
        return req_fail(req, ST_INVALID, "cannot %s \"%s\" policy", deletion ? "delete" : "update",
                        (const char *)name.data);
    if (deletion && text_is(name, POLICY_DEFAULT))
        return req_fail(req, ST_INVALID, "cannot delete \"%s\" policy", POLICY_DEFAULT);
    return ST_OK;
}

enum status sys_policy_write(struct req *req)
{
    const struct sys_policy *in = req_body(req);
    const char *given = in->policy != NULL ? in->policy : in->rules;
    struct bytes name, text;
    struct policy *policy;
    struct reason why = {{0}};

    TRY(name_of(req, &name));
    if (given == NULL || given[0] == '\0')
        return req_fail(req, ST_INVALID, "'policy' parameter not supplied or empty");
    TRY(check_reserved(req, name, false));
    TRY(plain_text(req, given, &text));
    enum status st = policy_compile(text, &policy, &why);
    if (st == ST_INVALID || st == ST_TOO_BIG)
        return req_fail(req, st, "failed to parse policy: %s", why.text);
    TRY(st);
    policy_free(policy);
    st = policy_save(req->txn, req->ns, name, text);
    if (st == ST_TOO_BIG)
        return req_fail(req, st, "the policy is too long to be stored");
    return st;
}

enum status sys_policy_delete(struct req *req)
{
    struct bytes name, key;
    TRY(name_of(req, &name));
    TRY(check_reserved(req, name, true));
    TRY(policy_key(req->arena, req->ns, name, &key));
    return state_delete(req->txn, key);
}
