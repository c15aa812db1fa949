/* Logins. The handler reads the hash, the step outside compares the password on the pool, and
 * `finish` makes the token, unless the hash has changed meanwhile. An unknown name costs as much as
 * a known one. */
#include "api/userpass/userpass.h"
#include "crypto/phash.h"
#include "router/req_login.h"
#include "router/req_object.h"

#include <stdatomic.h>

/* Comparisons that wait or run. Each takes 19 MiB while it runs, and one thread of the pool. */
enum { LOGINS_MAX = 64 };
static atomic_int comparing;

struct login_in {
    const char *password;
};
static const struct field login_fields[] = {
    FIELD(struct login_in, password, STRING, .preset = "", .hidden = true, .help = "The password."),
};
static const struct schema login_schema = SCHEMA(struct login_in, login_fields);

struct work {
    const char *name, *path;
    const char *hash;   /* of the user; of nothing for an unknown name */
    const char *better; /* a hash of our own to store in place of `hash`; NULL: none */
};

static enum status refuse(struct req *req)
{
    return req_fail(req, ST_INVALID, "invalid username or password");
}

static enum status login_begin(struct req *req)
{
    const struct login_in *in = req_body(req);
    struct work *work = arena_zalloc(req->arena, sizeof *work);
    struct userpass_user user;
    if (work == NULL)
        return ST_NOMEM;
    if (in->password[0] == '\0')
        return req_fail(req, ST_INVALID, "missing password");
    TRY(userpass_place(req, req_param(req, "username"), &work->name, &work->path));
    work->hash = phash_of_nothing;
    if (strlen(work->name) <= IDENTITY_NAME_MAX && strlen(in->password) <= PHASH_PASSWORD_MAX) {
        enum status st = req_object_load(req, req->mount, work->path, &userpass_user_schema, &user);
        if (st != ST_NOT_FOUND)
            TRY(st);
        if (st == ST_OK && user.password_hash[0] != '\0')
            work->hash = user.password_hash;
    }
    req->prepared = work;
    return ST_OK;
}

/* Hash a password anew whose hash was made elsewhere. */
static enum status improve(struct req *req, struct bytes password, struct work *work)
{
    char *text = arena_alloc(req->arena, PHASH_TEXT_MAX);
    if (text == NULL)
        return ST_NOMEM;
    TRY(phash_make(password, text));
    work->better = text;
    return ST_OK;
}

static enum status userpass_login_compare(struct req *req, struct work *work)
{
    const struct login_in *in = req_body(req);
    struct bytes password = bytes_str(in->password);
    bool same = false;
    password.len = MIN(password.len, (size_t)PHASH_PASSWORD_MAX);
    enum status st = phash_check(work->hash, password, &same);
    if (st == ST_INVALID)
        return req_fail(req, st, "the stored password of this user cannot be checked: set another");
    TRY(st);
    if (!same || work->hash == phash_of_nothing)
        return refuse(req);
    return phash_is_ours(work->hash) ? ST_OK : improve(req, password, work);
}

static enum status login_compare(struct req *req)
{
    enum status st;
    if (atomic_fetch_add(&comparing, 1) >= LOGINS_MAX)
        st = req_fail(req, ST_BUSY, "more than %d logins with passwords are waiting", LOGINS_MAX);
    else
        st = userpass_login_compare(req, req->prepared);
    atomic_fetch_sub(&comparing, 1);
    return st;
}

static enum status userpass_login_finish(struct req *req)
{
    const struct work *work = req->prepared;
    const char **meta = arena_alloc(req->arena, 2 * sizeof *meta);
    struct userpass_user user;
    if (meta == NULL)
        return ST_NOMEM;
    enum status st = req_object_load(req, req->mount, work->path, &userpass_user_schema, &user);
    if (st == ST_NOT_FOUND || (st == ST_OK && strcmp(user.password_hash, work->hash) != 0))
        return refuse(req);
    TRY(st);
    if (work->better != NULL) {
        user.password_hash = work->better;
        TRY(req_object_save(req, work->path, &userpass_user_schema, &user));
    }
    meta[0] = "username";
    meta[1] = work->name;
    return req_login(req, &(struct login){.role = &user.role,
                                          .name = work->name,
                                          .alias = work->name,
                                          .meta = {.pairs = meta, .n = 1, .given = true}});
}

enum status userpass_renew(struct req *req, const struct mount *mount,
                           const struct auth_token *token, struct login_role *ret_role)
{
    const char *name = "", *path;
    struct userpass_user user;
    for (size_t i = 0; i < token->meta.n; i++)
        if (strcmp(token->meta.pairs[2 * i], "username") == 0)
            name = token->meta.pairs[2 * i + 1];
    TRY(userpass_place(req, name, &name, &path));
    enum status st = req_object_load(req, mount, path, &userpass_user_schema, &user);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID, "the user of this token does not exist");
    TRY(st);
    *ret_role = user.role;
    return ST_OK;
}

static const struct route login_routes[] = {
    {.method = METHOD_POST,
     .path = "login/:username@",
     .handler = login_begin,
     .outside = login_compare,
     .finish = userpass_login_finish,
     .who = WHO_ANYONE,
     .place = PLACE_ACTIVE,
     .form = FORM_TOKEN,
     .body = &login_schema,
     .help = "Log in with a password."},
};
const struct route_table userpass_login_table = {login_routes, ARRAY_LEN(login_routes)};
