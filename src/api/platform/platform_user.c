/* Users, and the account of the sender. Users have no passwords: site administrators make users and
 * their first tokens. */
#include "api/platform/platform.h"
#include "api/platform/platform_kinds.h"
#include "api/platform/platform_rows.h"

enum { USERNAME_MAX = 60, EMAIL_MAX = 200 };

static const char *check_username(struct bytes text)
{
    return platform_check_name(text);
}

static const struct platform_attr user_attrs[] = {
    {.name = "username", .traits = PLATFORM_REQUIRED, .max = USERNAME_MAX, .check = check_username},
    {.name = "email", .preset = "\"\"", .max = EMAIL_MAX, .check = platform_check_email},
    {.name = "is-site-admin",
     .value = PLATFORM_FLAG,
     .preset = "false",
     .help = "May change all settings, and act in every organization."},
    {.name = "is-service-account",
     .value = PLATFORM_FLAG,
     .traits = PLATFORM_SHOWN,
     .preset = "false"},
    {.name = "is-suspended", .value = PLATFORM_FLAG, .traits = PLATFORM_SHOWN, .preset = "false"},
    {.name = "unconfirmed-email", .traits = PLATFORM_SHOWN},
    {.name = "avatar-url", .traits = PLATFORM_SHOWN, .preset = "\"\""},
};
const struct platform_kind platform_user_kind = {.type = "users",
                                                 .prefix = "user-",
                                                 .noun = "user",
                                                 .attrs = user_attrs,
                                                 .n = ARRAY_LEN(user_attrs)};

static enum status show_user_more(struct platform_view *view, const struct platform_object *object)
{
    struct text_writer *w = view->w;
    bool self = strcmp(view->who->id, object->id) == 0;
    bool admin = platform_flag(object->attrs, "is-site-admin");
    text_key(w, "two-factor");
    text_open_object(w);
    text_member_bool(w, "enabled", false);
    text_member_bool(w, "verified", false);
    text_close(w);
    text_member_bool(w, "is-admin", admin);
    text_key(w, "permissions");
    text_open_object(w);
    text_member_bool(w, "can-create-organizations", admin);
    text_member_bool(w, "can-change-email", self);
    text_member_bool(w, "can-change-username", self);
    text_member_bool(w, "can-manage-user-tokens", self);
    text_close(w);
    return ST_OK;
}

const struct platform_resource platform_user = {
    .kind = &platform_user_kind, .path = "users/", .more = show_user_more};

/* Teams and organizations act by a user that exists in replies alone. */
static enum status account_of(struct req *req, struct platform_who *who,
                              struct platform_object *ret_user)
{
    *ret_user = who->user;
    if (who->owner == PLATFORM_USER)
        return ST_OK;
    TRY(platform_object_new(req, "users", "user-", ret_user));
    ret_user->id = who->id;
    TRY(platform_set_text(req->arena, ret_user->attrs, "username", who->id));
    return platform_set_flag(req->arena, ret_user->attrs, "is-service-account", true);
}

static enum status account_read(struct req *req)
{
    struct platform_who who;
    struct platform_object user;
    TRY(platform_who(req, &who));
    TRY(account_of(req, &who, &user));
    return platform_reply_one(req, &who, &platform_user, &user, 0);
}

enum status platform_user_check(struct req *req, const struct platform_object *user)
{
    struct platform_objects users;
    const char *email = platform_text(user->attrs, "email");
    if (email[0] == '\0')
        return ST_OK;
    TRY(platform_object_children(req->txn, PLATFORM_ROOT, "users", &users));
    for (size_t i = 0; i < users.n; i++)
        if (strcmp(users.items[i].id, user->id) != 0 &&
            strcasecmp(platform_text(users.items[i].attrs, "email"), email) == 0)
            return platform_refuse(req, "email", "has already been taken");
    return ST_OK;
}

/* Users change their own name and address, and nothing that site administrators decide. */
static enum status account_update(struct req *req)
{
    struct platform_who who;
    struct platform_input input;
    TRY(platform_who(req, &who));
    if (who.owner != PLATFORM_USER || strcmp(who.id, PLATFORM_ROOT_USER) == 0)
        return ST_NOT_FOUND;
    struct platform_object user = who.user;
    bool admin = platform_flag(user.attrs, "is-site-admin");
    TRY(platform_input_read(req, &platform_user_kind, true, &input));
    TRY(platform_input_apply(req, &platform_user_kind, &input, false, user.attrs));
    TRY(platform_set_flag(req->arena, user.attrs, "is-site-admin", admin));
    TRY(platform_user_check(req, &user));
    user.name = platform_text(user.attrs, "username");
    user.updated_ms = req->now_ms;
    if (strcmp(user.name, "root") == 0)
        return platform_refuse(req, "username", "has already been taken");
    enum status st = platform_object_put(req->txn, who.user.name, &user);
    if (st == ST_EXISTS)
        return platform_refuse(req, "username", "has already been taken");
    TRY(st);
    return platform_reply_one(req, &who, &platform_user, &user, 0);
}

/* A user sees those with whom an organization is shared; site administrators see all. */
static enum status may_see(struct req *req, struct platform_who *who,
                           const struct platform_object *user)
{
    struct platform_objects orgs;
    if (who->site_admin || strcmp(who->id, user->id) == 0)
        return ST_OK;
    TRY(platform_object_children(req->txn, PLATFORM_ROOT, "organizations", &orgs));
    for (size_t i = 0; i < orgs.n; i++) {
        struct platform_object member;
        unsigned rights;
        TRY(platform_org_rights(req, who, &orgs.items[i], &rights));
        if ((rights & PLATFORM_ORG_SEE) == 0)
            continue;
        enum status st = platform_object_named(req->txn, orgs.items[i].id,
                                               "organization-memberships", user->id, &member);
        if (st != ST_NOT_FOUND)
            return st;
    }
    return ST_NOT_FOUND;
}

static enum status user_read(struct req *req)
{
    struct platform_who who;
    struct platform_object user;
    TRY(platform_who(req, &who));
    TRY(platform_user_load(req->txn, req_param(req, "id"), &user));
    TRY(may_see(req, &who, &user));
    return platform_reply_one(req, &who, &platform_user, &user, 0);
}

static enum status ping(struct req *req)
{
    (void)req; /* clients look at the headers of the reply */
    return ST_OK;
}

static const struct platform_row account_shown = {&platform_user_kind, PLATFORM_ONE, NULL, false,
                                                  false};
static const struct platform_row account_changed = {&platform_user_kind, PLATFORM_ONE,
                                                    "own account", true, false};
static const struct platform_row user_shown = {&platform_user_kind, PLATFORM_ONE,
                                               "a shared organization", false, false};

static const struct route account_routes[] = {
    {.method = METHOD_GET,
     .path = "ping",
     .handler = ping,
     .who = WHO_ANYONE,
     .help = "Whether the API is served."},
    PLATFORM_GET("account/details", account_read, account_shown, "The owner of the token."),
    PLATFORM_PATCH("account/update", account_update, account_changed,
                   .help = "Change name and address of the token's owner."),
    PLATFORM_GET("users/:id", user_read, user_shown, "A user."),
};

const struct route_table platform_account_table = {account_routes, ARRAY_LEN(account_routes)};
