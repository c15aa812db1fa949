/* An auth method: users, each with a secret word. A user's role has the settings that all methods
 * share (auth/login.h). */
#include "router/req_login.h"
#include "sample/sample.h"

struct user {
    const char *word;
    struct login_role role;
};
static const struct field user_fields[] = {
    FIELD(struct user, word, STRING, .required = true, .hidden = true, .help = "The word."),
    LOGIN_ROLE_FIELDS(struct user, role),
};
static const struct schema user_schema = SCHEMA(struct user, user_fields);

static const struct field word_fields[] = {
    FIELD(struct user, word, STRING, .required = true, .hidden = true, .help = "The word."),
};
static const struct schema word_schema = SCHEMA(struct user, word_fields);

static enum status user_key(struct req *req, const struct mount *mount, const char *name,
                            struct bytes *ret_key)
{
    const char *path = arena_format(req->arena, "user/%s", name);
    return path != NULL ? mount_key(req->arena, req->ns, mount, path, ret_key) : ST_NOMEM;
}

static enum status user_load(struct req *req, const struct mount *mount, const char *name,
                             struct user *ret_user)
{
    const struct text_value *tree;
    struct schema_fault fault;
    struct state_value stored;
    struct bytes key;

    TRY(user_key(req, mount, name, &key));
    TRY(state_get(req->txn, key, &stored));
    if (text_json_parse(req->arena, stored.value, &tree, NULL) != ST_OK)
        return ST_CORRUPT;
    return schema_decode(&user_schema, tree, req->arena, ret_user, &fault);
}

static enum status sample_user_write(struct req *req)
{
    const struct user *in = req_body(req);
    struct bytes key;
    enum status st = login_role_check(&in->role, req_reason(req));
    if (st != ST_OK)
        return st;
    TRY(user_key(req, req->mount, req_param(req, "name"), &key));
    return req_put_object(req, key);
}

static enum status sample_user_delete(struct req *req)
{
    struct bytes key;
    TRY(user_key(req, req->mount, req_param(req, "name"), &key));
    return state_delete(req->txn, key);
}

static enum status sample_login(struct req *req)
{
    const struct user *in = req_body(req);
    const char **meta = arena_alloc(req->arena, 2 * sizeof *meta);
    struct user user;

    if (meta == NULL)
        return ST_NOMEM;
    meta[0] = "username";
    meta[1] = req_param(req, "name");
    enum status st = user_load(req, req->mount, meta[1], &user);
    if (st != ST_OK && st != ST_NOT_FOUND)
        return st;
    if (st != ST_OK || !bytes_eq_secret(bytes_str(user.word), bytes_str(in->word)))
        return req_fail(req, ST_INVALID, "invalid username or word");
    return req_login(req, &(struct login){.role = &user.role,
                                          .name = meta[1],
                                          .meta = {.pairs = meta, .n = 1, .given = true}});
}

enum status sample_login_renew(struct req *req, const struct mount *mount,
                               const struct auth_token *token, struct login_role *ret_role)
{
    struct user user;
    ASSERT(token->meta.n == 1);
    enum status st = user_load(req, mount, token->meta.pairs[1], &user);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID, "user does not exist");
    TRY(st);
    *ret_role = user.role;
    return ST_OK;
}

static const struct route login_routes[] = {
    {.method = METHOD_POST,
     .path = "login/:name",
     .handler = sample_login,
     .who = WHO_ANYONE,
     .place = PLACE_ACTIVE,
     .form = FORM_TOKEN,
     .body = &word_schema,
     .help = "Log in."},
    {.method = METHOD_POST,
     .path = "users/:name",
     .handler = sample_user_write,
     .body = &user_schema,
     .help = "Make or change a user."},
    {.method = METHOD_DELETE,
     .path = "users/:name",
     .handler = sample_user_delete,
     .help = "Delete a user."},
};

const struct route_api sample_login_api = {
    .type = "sample", .login = true, .routes = login_routes, .n = ARRAY_LEN(login_routes)};
