/* Policies: sys/policies/acl, and sys/policy, the path of older clients. */
#include "api/policies/policies.h"
#include "text/encode.h"
#include "text/time.h"

#include <stdlib.h>

struct policies_one {
    const char *name, *policy, *rules, *expiration;
    int64_t ttl, cas;
    bool cas_required, has_ttl, has_cas, has_cas_required;
};

static const struct field policy_fields[] = {
    FIELD(struct policies_one, name, STRING, .help = "Name of the policy; case does not matter."),
    FIELD(struct policies_one, policy, STRING,
          .help = "The text, HCL or JSON, plain or in base64."),
    FIELD(struct policies_one, rules, STRING, .help = "Old name of policy."),
    FIELD(struct policies_one, ttl, DURATION, .exact = true,
          .has = offsetof(struct policies_one, has_ttl),
          .help = "How long the policy lasts; none: until it is deleted."),
    FIELD(struct policies_one, expiration, STRING,
          .help = "When the policy ends, in place of ttl: RFC 3339, or seconds since 1970."),
    FIELD(struct policies_one, cas, INT, .exact = true,
          .has = offsetof(struct policies_one, has_cas),
          .help = "The version that the policy must have, or nothing is written; -1: the policy "
                  "must not exist."),
    FIELD(struct policies_one, cas_required, BOOL,
          .has = offsetof(struct policies_one, has_cas_required),
          .help = "Whether this write and every later one must carry cas."),
};
static const struct schema policies_schema = SCHEMA(struct policies_one, policy_fields);

struct shown {
    const char *name, *text, *modified, *expiration;
    int64_t version;
    bool cas_required;
};
#define SHOWN_FIELDS                                                                         \
    FIELD(struct shown, version, INT, .help = "How often the policy was written, for cas."), \
        FIELD(struct shown, cas_required, BOOL, .help = "Whether writes need cas."),         \
        FIELD(struct shown, modified, STRING, .omit = true,                                  \
              .help = "When the policy was written."),                                       \
        FIELD(struct shown, expiration, STRING, .omit = true, .help = "When the policy ends.")
static const struct field shown_fields[] = {
    FIELD(struct shown, name, STRING, .help = "Name of the policy."),
    FIELD_NAMED("policy", struct shown, text, STRING,
                .help = "The text of the policy, as written."),
    SHOWN_FIELDS,
};
static const struct schema policies_shown_schema = SCHEMA(struct shown, shown_fields);

static const struct field shown_old_fields[] = {
    FIELD(struct shown, name, STRING, .help = "Name of the policy."),
    FIELD_NAMED("rules", struct shown, text, STRING, .help = "The text of the policy, as written."),
    SHOWN_FIELDS,
};
static const struct schema policies_shown_old_schema = SCHEMA(struct shown, shown_old_fields);

struct shown_names {
    struct field_strings keys, policies;
};
static const struct field names_fields[] = {
    FIELD(struct shown_names, keys, STRINGS, .help = "Names of all policies."),
    FIELD(struct shown_names, policies, STRINGS, .help = "The same."),
};
static const struct schema policies_names_schema = SCHEMA(struct shown_names, names_fields);

static enum status name_of(struct req *req, struct bytes *ret_name)
{
    const char *name = req_param(req, "name");
    size_t len = strlen(name);
    enum status st = ST_INVALID;
    ASSERT(len > 0);
    if (name[0] != '/' && name[len - 1] != '/')
        st = policy_name(req->arena, bytes_of(name, len), &name);
    if (st == ST_INVALID)
        return req_fail(req, st,
                        "name: 1 to %d printable bytes without '/' at the ends are expected",
                        POLICY_NAME_MAX);
    TRY(st);
    *ret_name = bytes_str(name);
    ASSERT(ret_name->len > 0 && ret_name->len <= POLICY_NAME_MAX);
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

/* The names of stored and built-in policies, without the policy of wrapping tokens. */
static enum status all_names(struct req *req, struct names *names)
{
    struct state_iter *iter = arena_alloc(req->arena, sizeof *iter);
    struct bytes prefix;
    bool has_default = false;

    names->arena = req->arena;
    ASSERT(names->n == 0);
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
    ASSERT(names->n >= 2);
    qsort(names->items, names->n, sizeof *names->items, name_order);
    return ST_OK;
}

static enum status policies_list(struct req *req)
{
    struct names names = {0};
    TRY(all_names(req, &names));
    return req_reply_keys(req, names.items, names.n);
}

static enum status policies_list_old(struct req *req)
{
    struct names names = {0};
    TRY(all_names(req, &names));
    struct field_strings all = {.items = names.items, .n = names.n, .given = true};
    struct shown_names out = {.keys = all, .policies = all};
    return req_reply(req, &out);
}

/* The policy, if it exists and has not expired. Else ST_NOT_FOUND and an empty *ret_record, which
 * holds only expire_ms if the policy has expired. */
static enum status load(struct req *req, struct bytes name, struct policy_record *ret_record)
{
    *ret_record = (struct policy_record){0};
    TRY(policy_load(req->txn, req->ns, name, ret_record));
    if (!policy_has_expired(ret_record, req->now_ms))
        return ST_OK;
    *ret_record = (struct policy_record){.expire_ms = ret_record->expire_ms};
    return ST_NOT_FOUND;
}

static const char *shown_time(struct req *req, int64_t ms)
{
    uint8_t text[TEXT_TIME_MAX];
    return ms == 0 ? "" : arena_str(req->arena, bytes_of(text, text_time(ms, text)));
}

/* Show a policy. The schema of the route names the member with the text. */
static enum status policies_read(struct req *req)
{
    struct policy_record record;
    struct bytes name;
    TRY(name_of(req, &name));
    TRY(load(req, name, &record));
    struct shown out = {
        .name = (const char *)name.data,
        .text = (const char *)record.text.data,
        .version = record.version,
        .cas_required = record.cas_required,
        .modified = shown_time(req, record.modified_ms),
        .expiration = shown_time(req, record.expire_ms),
    };
    return out.modified != NULL && out.expiration != NULL ? req_reply(req, &out) : ST_NOMEM;
}

enum status policies_given_text(struct req *req, const char *given, struct bytes *ret_text)
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

/* Refuse to change a reserved policy, or to delete a required one. */
static enum status check_reserved(struct req *req, struct bytes name, bool deletion)
{
    if (text_is(name, AUTH_POLICY_ROOT) || text_is(name, POLICY_WRAPPING))
        return req_fail(req, ST_INVALID, "cannot %s \"%s\" policy", deletion ? "delete" : "update",
                        (const char *)name.data);
    if (deletion && text_is(name, POLICY_DEFAULT))
        return req_fail(req, ST_INVALID, "cannot delete \"%s\" policy", POLICY_DEFAULT);
    return ST_OK;
}

/* `has`: whether the policy exists. */
static enum status check_cas(struct req *req, const struct policies_one *in, bool has,
                             const struct policy_record *before)
{
    ASSERT(has || before->version == 0);
    if (!in->has_cas && (before->cas_required || in->cas_required))
        return req_fail(req, ST_INVALID, "check-and-set parameter required for this call");
    if (in->has_cas && in->cas == -1 && has)
        return req_fail(req, ST_INVALID, "check-and-set parameter set to -1 on existing entry");
    if (in->has_cas && in->cas != -1 && in->cas != before->version)
        return req_fail(req, ST_INVALID,
                        "check-and-set parameter did not match the current version");
    return ST_OK;
}

static bool has_end(const struct policies_one *in)
{
    return in->has_ttl || (in->expiration != NULL && in->expiration[0] != '\0');
}

/* When the policy ends, by the ttl or the expiration of the request. */
static enum status read_end(struct req *req, const struct policies_one *in, struct bytes name,
                            int64_t *ret_ms)
{
    const char *text = in->expiration != NULL && in->expiration[0] != '\0' ? in->expiration : NULL;
    int64_t seconds, ms = 0;
    if (text != NULL && in->has_ttl)
        return req_fail(req, ST_INVALID, "cannot supply both 'expiration' and 'ttl' for policies");
    ASSERT(has_end(in));
    if (text_is(name, POLICY_DEFAULT))
        return req_fail(req, ST_INVALID, "the policy \"%s\" does not end", POLICY_DEFAULT);
    if (in->has_ttl)
        ms = in->ttl > (TEXT_TIME_END - req->now_ms) / 1000 ? TEXT_TIME_END
                                                            : req->now_ms + in->ttl * 1000;
    else if (text_int_parse(bytes_str(text), &seconds) == ST_OK)
        ms = seconds < 0 || seconds > TEXT_TIME_END / 1000 ? TEXT_TIME_END : seconds * 1000;
    else if (text_time_parse(bytes_str(text), &ms) != ST_OK)
        ms = TEXT_TIME_END;
    if (ms >= TEXT_TIME_END)
        return req_fail(req, ST_INVALID,
                        "%s: a time before the year 10000 is expected, such as "
                        "\"2030-01-31T12:00:00Z\"",
                        in->has_ttl ? "ttl" : "expiration");
    if (ms <= req->now_ms)
        return req_fail(req, ST_INVALID,
                        "refusing to update policy as expiration time has already elapsed");
    *ret_ms = ms;
    return ST_OK;
}

static enum status check_text(struct req *req, struct bytes text)
{
    struct policy *policy;
    struct reason why = {{0}};
    enum status st = policy_compile(text, &policy, &why);
    if (st == ST_INVALID || st == ST_TOO_BIG)
        return req_fail(req, st, "failed to parse policy: %s", why.text);
    TRY(st);
    policy_free(policy);
    return ST_OK;
}

static const char *given_text(const struct policies_one *in)
{
    return in->policy != NULL ? in->policy : in->rules;
}

/* Put the fields that the request gives into `record`. */
static enum status change_record(struct req *req, const struct policies_one *in, struct bytes name,
                                 struct policy_record *record)
{
    const char *given = given_text(in);
    if (given != NULL)
        TRY(policies_given_text(req, given, &record->text));
    if (has_end(in))
        TRY(read_end(req, in, name, &record->expire_ms));
    if (in->has_cas_required)
        record->cas_required = in->cas_required;
    return given != NULL ? check_text(req, record->text) : ST_OK;
}

/* Store `record` as the version after `before`. */
static enum status save_record(struct req *req, struct bytes name,
                               const struct policy_record *before, struct policy_record *record)
{
    ASSERT(record->text.len > 0);
    ASSERT(record->expire_ms == 0 || record->expire_ms > req->now_ms);
    record->modified_ms = req->now_ms;
    record->version = before->version + 1;
    enum status st = policy_save(req->txn, req->ns, name, record, before->expire_ms);
    if (st == ST_TOO_BIG)
        return req_fail(req, st, "the policy is too long to be stored");
    return st;
}

static enum status policies_write(struct req *req)
{
    const struct policies_one *in = req_body(req);
    const char *given = given_text(in);
    struct policy_record before, record = {0};
    struct bytes name;

    TRY(name_of(req, &name));
    if (given == NULL || given[0] == '\0')
        return req_fail(req, ST_INVALID, "'policy' parameter not supplied or empty");
    TRY(check_reserved(req, name, false));
    TRY(change_record(req, in, name, &record));
    enum status st = load(req, name, &before);
    if (st != ST_NOT_FOUND)
        TRY(st);
    TRY(check_cas(req, in, st == ST_OK, &before));
    return save_record(req, name, &before, &record);
}

/* A patch without cas follows the version that its transaction reads. As with upstream, such a
 * patch is accepted where the policy has cas_required. */
static enum status policies_patch(struct req *req)
{
    const struct policies_one *in = req_body(req);
    const char *given = given_text(in);
    struct policy_record before, record;
    struct bytes name;

    TRY(name_of(req, &name));
    if (given != NULL && given[0] == '\0')
        return req_fail(req, ST_INVALID, "'policy' parameter not supplied or empty");
    TRY(check_reserved(req, name, false));
    enum status st = load(req, name, &before);
    if (st == ST_NOT_FOUND)
        return req_fail(req, st, "policy not found");
    TRY(st);
    ASSERT(!policy_has_expired(&before, req->now_ms));
    record = before;
    TRY(change_record(req, in, name, &record));
    if (in->has_cas)
        TRY(check_cas(req, in, true, &before));
    return save_record(req, name, &before, &record);
}

static enum status policies_delete(struct req *req)
{
    struct bytes name;
    TRY(name_of(req, &name));
    TRY(check_reserved(req, name, true));
    return policy_delete(req->txn, req->ns, name);
}

/* Use the policy's name in small letters as the path: rules know policies by that name. */
static enum status find_rule_path(struct req *req)
{
    const char *given = req_param(req, "name"), *name;
    ASSERT(given != NULL && strlen(given) <= req->path.len);
    enum status st = policy_name(req->arena, bytes_str(given), &name);
    if (st != ST_OK)
        return st == ST_NOMEM ? st : ST_OK; /* the handler refuses it */
    if (strcmp(name, given) == 0)
        return ST_OK;
    const char *text = arena_format(req->arena, "%.*s%s", (int)(req->path.len - strlen(given)),
                                    (const char *)req->path.data, name);
    if (text == NULL)
        return ST_NOMEM;
    req->rule_path = path_trimmed(bytes_str(text));
    return ST_OK;
}

/* Rows at sys/policies/acl and at sys/policy. */
#define WRITE(pattern)                                                                       \
    {                                                                                        \
        .method = METHOD_POST, .path = (pattern), .handler = policies_write,                 \
        .rule_path = find_rule_path, .body = &policies_schema,                               \
        .help = "Create or replace a policy. The change applies at once to existing tokens." \
    }
#define DELETE(pattern)                                                                \
    {                                                                                  \
        .method = METHOD_DELETE, .path = (pattern), .handler = policies_delete,        \
        .rule_path = find_rule_path, .help = "Delete a policy; no policy is no error." \
    }
#define LIST_OLD(how)                                                                          \
    {                                                                                          \
        .method = how, .path = "policy", .handler = policies_list_old, .form = FORM_TOP_LEVEL, \
        .reply = &policies_names_schema, .help = "The names of the policies."                  \
    }

static const struct route policy_routes[] = {
    {.method = METHOD_LIST,
     .path = "policies/acl",
     .handler = policies_list,
     .help = "The names of the policies."},
    {.method = METHOD_GET,
     .path = "policies/acl/+name",
     .handler = policies_read,
     .rule_path = find_rule_path,
     .reply = &policies_shown_schema,
     .help = "The text of a policy."},
    WRITE("policies/acl/+name"),
    {.method = METHOD_PATCH,
     .path = "policies/acl/+name",
     .handler = policies_patch,
     .rule_path = find_rule_path,
     .body = &policies_schema,
     .help = "Change a policy that exists. Fields that are absent or null keep their values."},
    DELETE("policies/acl/+name"),
    LIST_OLD(METHOD_LIST),
    LIST_OLD(METHOD_GET),
    {.method = METHOD_GET,
     .path = "policy/+name",
     .handler = policies_read,
     .form = FORM_TOP_LEVEL,
     .rule_path = find_rule_path,
     .reply = &policies_shown_old_schema,
     .help = "The text of a policy."},
    WRITE("policy/+name"),
    DELETE("policy/+name"),
};

const struct route_table policies_acl_table = {policy_routes, ARRAY_LEN(policy_routes)};
