/* Users. A password is hashed on the pool, before the transaction. */
#include "api/userpass/userpass.h"
#include "crypto/phash.h"
#include "router/req_object.h"

/* Settings of the role; auth/login.c reads them. */
#define USER_ROLE(type) LOGIN_ROLE_FIELDS(type, role)
static const struct field stored_fields[] = {
    FIELD(struct userpass_user, password_hash, STRING, .preset = "", .hidden = true),
    USER_ROLE(struct userpass_user),
};
const struct schema userpass_user_schema = SCHEMA(struct userpass_user, stored_fields);

#define PASSWORD                                                                \
    FIELD(struct userpass_user, password, STRING, .preset = "", .hidden = true, \
          .help = "The password; a new user needs one.")
#define PASSWORD_HASH                                                                \
    FIELD(struct userpass_user, password_hash, STRING, .preset = "", .hidden = true, \
          .help = "In place of a password: its hash as text, Argon2id or bcrypt.")
static const struct field user_fields[] = {PASSWORD, PASSWORD_HASH,
                                           USER_ROLE(struct userpass_user)};
static const struct schema user_in_schema = SCHEMA(struct userpass_user, user_fields);
static const struct field password_fields[] = {PASSWORD, PASSWORD_HASH};
static const struct schema password_schema = SCHEMA(struct userpass_user, password_fields);

static const struct field shown_fields[] = {USER_ROLE(struct userpass_user)};
static const struct schema shown_schema = SCHEMA(struct userpass_user, shown_fields);

static const char *const old_names[][2] = {{"policies", "token_policies"},
                                           {"ttl", "token_ttl"},
                                           {"max_ttl", "token_max_ttl"},
                                           {"bound_cidrs", "token_bound_cidrs"}};

enum status userpass_place(struct req *req, const char *name, const char **ret_name,
                           const char **ret_path)
{
    char *lower = arena_str(req->arena, bytes_str(name));
    for (char *c = lower; c != NULL && *c != '\0'; c++)
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c | 0x20);
    *ret_name = lower;
    *ret_path = lower != NULL ? arena_concat(req->arena, "user/", lower) : NULL;
    return *ret_path != NULL ? ST_OK : ST_NOMEM;
}

/* The path of the record of the user in the path of the request. */
static enum status path_of(struct req *req, const char **ret_path)
{
    const char *name;
    TRY(userpass_place(req, req_param(req, "username"), &name, ret_path));
    if (strlen(name) > IDENTITY_NAME_MAX)
        return req_fail(req, ST_INVALID, "username: longer than %d bytes", IDENTITY_NAME_MAX);
    return ST_OK;
}

static enum status user_exists(struct req *req)
{
    const char *path;
    TRY(path_of(req, &path));
    return req_object_exists(req, path);
}

/* Hash the password, if there is one. The result is the text of the hash. */
static enum status hash_password(struct req *req)
{
    const struct userpass_user *in = req_body(req);
    struct bytes password = bytes_str(in->password);
    if (password.len == 0)
        return ST_OK;
    if (in->password_hash[0] != '\0')
        return req_fail(req, ST_INVALID, "password: give password or password_hash, not both");
    if (password.len > PHASH_PASSWORD_MAX)
        return req_fail(req, ST_INVALID, "password: longer than %d bytes", PHASH_PASSWORD_MAX);
    char *text = arena_alloc(req->arena, PHASH_TEXT_MAX);
    if (text == NULL)
        return ST_NOMEM;
    TRY(phash_make(password, text));
    req->prepared = text;
    return ST_OK;
}

/* The hash that the request sets; NULL: it sets none. */
static enum status new_hash(struct req *req, const char **ret_hash)
{
    const struct userpass_user *in = req_body(req);
    *ret_hash = req->prepared;
    if (in->password_hash[0] == '\0')
        return ST_OK;
    if (!phash_is_known(in->password_hash))
        return req_fail(req, ST_INVALID,
                        "password_hash: cannot be checked: Argon2id text (at most 256 MiB, 16 "
                        "passes, 16 lanes) or bcrypt text (at most cost 14) is expected");
    *ret_hash = in->password_hash;
    return ST_OK;
}

static enum status check_role(struct req *req, const struct login_role *role)
{
    enum { CIDRS_MAX = 64 };
    if (role->token_bound_cidrs.n > CIDRS_MAX)
        return req_fail(req, ST_INVALID, "token_bound_cidrs: %d at most", CIDRS_MAX);
    return login_role_check(role, req_reason(req));
}

static enum status user_write(struct req *req)
{
    struct req_object object = {.schema = &userpass_user_schema,
                                .old = {old_names, ARRAY_LEN(old_names)}};
    struct userpass_user user, before = {.password_hash = ""};
    const char *hash;
    bool stored;
    TRY(path_of(req, &object.path));
    TRY(new_hash(req, &hash));
    TRY(req_object_change(req, &object, &user, &stored));
    if (stored)
        TRY(req_object_load(req, req->mount, object.path, &userpass_user_schema, &before));
    if (!stored && hash == NULL)
        return req_fail(req, ST_INVALID, "missing password");
    user.password_hash = hash != NULL ? hash : before.password_hash;
    TRY(check_role(req, &user.role));
    return req_object_save(req, object.path, &userpass_user_schema, &user);
}

/* Change one thing of a user that exists. */
static enum status load(struct req *req, const char **ret_path, struct userpass_user *ret_user)
{
    TRY(path_of(req, ret_path));
    enum status st = req_object_load(req, req->mount, *ret_path, &userpass_user_schema, ret_user);
    return st == ST_NOT_FOUND ? req_fail(req, ST_INVALID, "username does not exist") : st;
}

static enum status password_write(struct req *req)
{
    struct userpass_user user;
    const char *path, *hash;
    TRY(load(req, &path, &user));
    TRY(new_hash(req, &hash));
    if (hash == NULL)
        return req_fail(req, ST_INVALID, "missing password");
    user.password_hash = hash;
    return req_object_save(req, path, &userpass_user_schema, &user);
}

struct policies_in {
    struct field_strings token_policies, policies;
};
static const struct field policies_fields[] = {
    FIELD(struct policies_in, token_policies, STRINGS, .help = "Policies of a token."),
    FIELD(struct policies_in, policies, STRINGS, .help = "Old name of token_policies."),
};
static const struct schema policies_schema = SCHEMA(struct policies_in, policies_fields);

static enum status user_policies_write(struct req *req)
{
    const struct policies_in *in = req_body(req);
    struct userpass_user user;
    const char *path;
    TRY(load(req, &path, &user));
    if (!in->token_policies.given && !in->policies.given)
        return req_fail(req, ST_INVALID, "missing token_policies");
    user.role.token_policies = in->token_policies.given ? in->token_policies : in->policies;
    TRY(check_role(req, &user.role));
    return req_object_save(req, path, &userpass_user_schema, &user);
}

static enum status user_read(struct req *req)
{
    struct userpass_user user;
    const char *path;
    TRY(path_of(req, &path));
    TRY(req_object_load(req, req->mount, path, &userpass_user_schema, &user));
    user.role.token_policies.given = user.role.token_bound_cidrs.given = true;
    if (user.role.token_type[0] == '\0')
        user.role.token_type = "default";
    return req_reply(req, &user);
}

static enum status user_delete(struct req *req)
{
    struct bytes key;
    const char *path;
    TRY(path_of(req, &path));
    TRY(req_key(req, path, &key));
    return state_delete(req->txn, key);
}

static enum status user_list(struct req *req)
{
    struct bytes prefix;
    TRY(req_key(req, "user/", &prefix));
    return req_reply_listing(req, prefix);
}

static const struct route user_routes[] = {
    {.method = METHOD_LIST,
     .path = "users",
     .handler = user_list,
     .help = "The names of all users."},
    {.method = METHOD_GET,
     .path = "users/:username@",
     .handler = user_read,
     .reply = &shown_schema,
     .help = "Read a user. The password is never shown."},
    {.method = METHOD_POST,
     .path = "users/:username@",
     .handler = user_write,
     .exists = user_exists,
     .prepare = hash_password,
     .body = &user_in_schema,
     .input = INPUT_FREE,
     .help = "Create or change a user. Fields that the request does not give keep their values."},
    {.method = METHOD_DELETE,
     .path = "users/:username@",
     .handler = user_delete,
     .help = "Delete a user. Its tokens can no longer be renewed."},
    {.method = METHOD_POST,
     .path = "users/:username@/password",
     .handler = password_write,
     .prepare = hash_password,
     .body = &password_schema,
     .help = "Set the password of a user."},
    {.method = METHOD_POST,
     .path = "users/:username@/policies",
     .handler = user_policies_write,
     .body = &policies_schema,
     .help = "Set the policies of a user."},
};
const struct route_table userpass_user_table = {user_routes, ARRAY_LEN(user_routes)};
