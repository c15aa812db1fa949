/* sys/policies/password: rules for generated passwords (auth/password.h). */
#include "api/policies/policies.h"
#include "auth/password.h"
#include "router/setting.h"
#include "text/encode.h"

struct policies_password {
    const char *policy;
};

static const struct field fields[] = {
    FIELD(struct policies_password, policy, STRING, .required = true,
          .help = "The text, HCL or JSON, plain or in base64."),
};
static const struct schema policies_password_schema = SCHEMA(struct policies_password, fields);

struct made {
    const char *password;
};
static const struct field made_fields[] = {
    FIELD(struct made, password, STRING, .hidden = true, .help = "A new password."),
};
static const struct schema policies_password_made_schema = SCHEMA(struct made, made_fields);

static const char *setting_of(struct req *req)
{
    ASSERT(route_is_name(bytes_str(req_param(req, "name"))));
    return arena_format(req->arena, "password/%s", req_param(req, "name"));
}

static enum status load(struct req *req, struct policies_password *ret_stored)
{
    const char *setting = setting_of(req);
    if (setting == NULL)
        return ST_NOMEM;
    return setting_load(req->txn, req->ns, setting, &policies_password_schema, ret_stored);
}

static enum status policies_password_list(struct req *req)
{
    struct bytes prefix;
    TRY(setting_key(req->arena, req->ns, "password/", &prefix));
    return req_reply_listing(req, prefix);
}

static enum status policies_password_read(struct req *req)
{
    struct policies_password stored;
    TRY(load(req, &stored));
    return req_reply(req, &stored);
}

static enum status policies_password_generate(struct req *req)
{
    CLEANUP(buf_done) struct buf password = {0};
    struct policies_password stored;
    struct password_policy policy;
    struct reason why = {{0}};

    TRY(load(req, &stored));
    enum status st = password_policy_parse(req->arena, bytes_str(stored.policy), &policy, &why);
    TRY(st == ST_INVALID ? ST_CORRUPT : st); /* the policy was parsed before it was stored */
    TRY(password_make(&policy, req->env, &password));
    ASSERT(password.len > 0);
    struct made out = {.password = arena_str(req->arena, buf_bytes(&password))};
    return out.password != NULL ? req_reply(req, &out) : ST_NOMEM;
}

/* The text of a password policy, given plain or in base64. */
static enum status read_password_text(struct req *req, const char *given, const char **ret_text)
{
    struct bytes text;
    TRY(policies_given_text(req, given, &text));
    bool plain = memchr(text.data, 0, text.len) != NULL; /* no text: base64 by chance */
    *ret_text = plain ? given : arena_str(req->arena, text);
    return *ret_text != NULL ? ST_OK : ST_NOMEM;
}

static enum status policies_password_write(struct req *req)
{
    const struct policies_password *in = req_body(req);
    const char *setting = setting_of(req);
    struct policies_password out;
    struct password_policy policy;
    struct reason why = {{0}};

    ASSERT(req_in_txn(req));
    if (setting == NULL)
        return ST_NOMEM;
    if (in->policy[0] == '\0')
        return req_fail(req, ST_INVALID, "missing policy");
    TRY(read_password_text(req, in->policy, &out.policy));
    enum status st = password_policy_parse(req->arena, bytes_str(out.policy), &policy, &why);
    if (st == ST_INVALID)
        return req_fail(req, st, "failed to parse password policy: %s", why.text);
    TRY(st);
    return setting_save(req->txn, req->ns, setting, &policies_password_schema, &out);
}

static enum status policies_password_delete(struct req *req)
{
    const char *setting = setting_of(req);
    return setting != NULL ? setting_delete(req->txn, req->ns, setting) : ST_NOMEM;
}

static const struct route password_routes[] = {
    {.method = METHOD_LIST,
     .path = "policies/password",
     .handler = policies_password_list,
     .help = "The names of the password policies."},
    {.method = METHOD_GET,
     .path = "policies/password/:name",
     .handler = policies_password_read,
     .reply = &policies_password_schema,
     .help = "The text of a password policy."},
    {.method = METHOD_GET,
     .path = "policies/password/:name/generate",
     .handler = policies_password_generate,
     .reply = &policies_password_made_schema,
     .help = "A new password as the policy says. The server does not keep the password."},
    {.method = METHOD_POST,
     .path = "policies/password/:name",
     .handler = policies_password_write,
     .body = &policies_password_schema,
     .help = "Create or replace a password policy: the length of passwords, and for each set of "
             "characters how many of them a password has at least."},
    {.method = METHOD_DELETE,
     .path = "policies/password/:name",
     .handler = policies_password_delete,
     .help = "Delete a password policy; an unknown policy is no error."},
};

const struct route_table policies_password_table = {password_routes, ARRAY_LEN(password_routes)};
