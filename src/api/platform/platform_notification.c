/* Notification configurations of workspaces.
 *
 * A configuration that a request enables is stored only after its destination replied to a
 * verification:
 *
 *   handler   checks the request and stages nothing
 *   outside   calls the destination, once
 *   finish    checks again, as others may have changed something meanwhile, and stores
 *
 * A failed verification refuses the request and leaves the configuration as it was; its reply is
 * kept as the latest one. The active node alone runs these steps. */
#include "api/platform/platform.h"
#include "api/platform/platform_call.h"
#include "api/platform/platform_kinds.h"
#include "api/platform/platform_mail.h"
#include "api/platform/platform_message.h"
#include "api/platform/platform_outbox.h"
#include "api/platform/platform_rows.h"
#include "text/time.h"

#define TYPE "notification-configurations"

enum { CONFIGURATIONS_MAX = 20, USERS_MAX = 100 };

static const char *const destinations[] = {"generic", "email",           "chat-one", "chat-two",
                                           "slack",   "microsoft-teams", NULL};
static const char *const triggers[] = {"run:created",
                                       "run:planning",
                                       "run:needs_attention",
                                       "run:applying",
                                       "run:completed",
                                       "run:errored",
                                       "assessment:drifted",
                                       "assessment:check_failure",
                                       "assessment:failed",
                                       "workspace:auto_destroy_reminder",
                                       "workspace:auto_destroy_run_results",
                                       "team:change_request",
                                       "change_request:created",
                                       NULL};

static const struct platform_attr notification_attrs[] = {
    {.name = "name", .traits = PLATFORM_REQUIRED, .max = 200},
    {.name = "enabled", .value = PLATFORM_FLAG, .preset = "false"},
    {.name = "destination-type",
     .traits = PLATFORM_REQUIRED | PLATFORM_FIXED,
     .values = destinations},
    {.name = "url", .max = 2000, .check = platform_check_url, .traits = PLATFORM_NULL},
    {.name = "token",
     .max = 1000,
     .preset = "\"\"",
     .traits = PLATFORM_SECRET,
     .help = "Key of the signature; an empty text removes it."},
    {.name = "triggers", .value = PLATFORM_TEXTS, .max = 50, .preset = "[]", .values = triggers},
    {.name = "email-addresses",
     .value = PLATFORM_TEXTS,
     .max = USERS_MAX,
     .preset = "[]",
     .check = platform_check_email},
};
const struct platform_kind platform_notification_kind = {.type = TYPE,
                                                         .other_type = "notification-configuration",
                                                         .prefix = "nc-",
                                                         .noun = "notification configuration",
                                                         .attrs = notification_attrs,
                                                         .n = ARRAY_LEN(notification_attrs)};

/* Showing */

/* Upstream's Go client drops an entry whose members have the kinds that the interface names. */
static bool is_go_client(const struct req *req)
{
    return bytes_has_prefix(req->user_agent, BYTES("go-tfe"));
}

static void put_delivery(struct platform_view *view, const struct text_value *delivery)
{
    struct text_writer *w = view->w;
    bool go = is_go_client(view->req), successful = platform_flag(delivery, "successful");
    text_open_object(w);
    text_member_str(w, "url", platform_text(delivery, "url"));
    text_member_str(w, "body", platform_text(delivery, "body"));
    text_member_str(w, "code", platform_text(delivery, "code"));
    text_key(w, "headers");
    text_put_value(w, go ? NULL : text_get(delivery, "headers"));
    text_member_str(w, "sent-at", platform_text(delivery, "sent-at"));
    text_key(w, "successful");
    if (go)
        text_put_str(w, successful ? "true" : "false");
    else
        text_put_bool(w, successful);
    text_close(w);
}

static enum status show_notification_more(struct platform_view *view,
                                          const struct platform_object *object)
{
    const struct text_value *delivery = text_get(object->links, "delivery");
    text_key(view->w, "delivery-responses");
    text_open_list(view->w);
    if (delivery != NULL && delivery->kind == TEXT_OBJECT)
        put_delivery(view, delivery);
    text_close(view->w);
    text_member_time(view->w, "created-at", object->created_ms);
    text_member_time(view->w, "updated-at", object->updated_ms);
    return ST_OK;
}

static enum status show_notification_relations(struct platform_view *view,
                                               const struct platform_object *object)
{
    const struct text_value *users = text_get(object->links, "users");
    platform_put_one(view, "subscribable", "workspaces", object->parent);
    platform_put_many(view, "users");
    if (users != NULL && users->kind == TEXT_LIST)
        TEXT_FOR (v, users)
            platform_put_item(view, "users", (const char *)v->text.data);
    platform_put_many_end(view);
    return ST_OK;
}

static const struct platform_resource notification_shown = {.kind = &platform_notification_kind,
                                                            .path = TYPE "/",
                                                            .more = show_notification_more,
                                                            .relations =
                                                                show_notification_relations};

/* Checking */

/* A request on its way through its steps. */
struct checking {
    const char *id; /* of the configuration, which a verification names before it exists */
    struct platform_object object; /* as the request would leave it */
    struct platform_answer answer;
    bool verified;         /* the destination was called */
    const char *const *to; /* recipients of a mail */
    size_t n_to;
    struct platform_mailer mailer;
};

static enum status apply_users(struct req *req, const struct platform_input *input,
                               const struct platform_object *org, struct platform_object *object)
{
    const struct text_value *users = platform_input_related(input, "users");
    if (users == NULL)
        return ST_OK; /* an update without users keeps them */
    if (users->kind != TEXT_LIST || users->n > USERS_MAX)
        return req_fail(req, ST_REFUSED, "/data/relationships/users: a list is expected");
    TRY(platform_set_null(req->arena, object->links, "users"));
    TEXT_FOR (item, users) {
        struct platform_object member;
        const char *id = platform_item_id(item);
        enum status st =
            platform_object_named(req->txn, org->id, "organization-memberships", id, &member);
        if (st == ST_NOT_FOUND)
            return req_fail(req, ST_REFUSED,
                            "/data/relationships/users: \"%.60s\" is no user of the organization",
                            id);
        TRY(st);
        TRY(platform_list_add(req->arena, object->links, "users", id));
    }
    return ST_OK;
}

static bool is_email(const struct platform_object *object)
{
    return platform_form_of(platform_text(object->attrs, "destination-type")) == PLATFORM_EMAIL;
}

static enum status check_url(struct req *req, struct platform_object *object)
{
    if (is_email(object))
        return platform_set_null(req->arena, object->attrs, "url");
    return platform_text(object->attrs, "url")[0] != '\0'
               ? ST_OK
               : platform_refuse(req, "url", "is required");
}

/* The configuration that a request creates. */
static enum status new_notification(struct req *req, const char *id, struct platform_who *who,
                                    struct platform_object *ret_object)
{
    struct platform_place place;
    struct platform_input input;
    size_t n;
    TRY(platform_who(req, who));
    TRY(platform_ws_find(req, who, req_param(req, "ws"), PLATFORM_WS_ADMIN, &place));
    if (who->owner == PLATFORM_ORGANIZATION)
        return ST_NOT_FOUND;
    TRY(platform_input_read(req, &platform_notification_kind, false, &input));
    TRY(platform_object_new(req, TYPE, platform_notification_kind.prefix, ret_object));
    if (id != NULL)
        ret_object->id = id;
    TRY(platform_input_apply(req, &platform_notification_kind, &input, true, ret_object->attrs));
    TRY(check_url(req, ret_object));
    TRY(apply_users(req, &input, &place.org, ret_object));
    ret_object->parent = place.ws.id;
    TRY(platform_object_count(req->txn, place.ws.id, TYPE, &n));
    return n < CONFIGURATIONS_MAX
               ? ST_OK
               : req_fail(req, ST_REFUSED, "a workspace has at most %d notification configurations",
                          CONFIGURATIONS_MAX);
}

static enum status find_notification(struct req *req, struct platform_who *who,
                                     struct platform_place *ret_place,
                                     struct platform_object *ret_object)
{
    TRY(platform_who(req, who));
    TRY(platform_object_load(req->txn, TYPE, req_param(req, "id"), ret_object));
    TRY(platform_ws_find(req, who, ret_object->parent, PLATFORM_WS_ADMIN, ret_place));
    return who->owner != PLATFORM_ORGANIZATION ? ST_OK : ST_NOT_FOUND;
}

/* The configuration as a request changes it. */
static enum status changed_notification(struct req *req, struct platform_who *who,
                                        struct platform_object *ret_object)
{
    struct platform_place place;
    struct platform_input input;
    TRY(find_notification(req, who, &place, ret_object));
    TRY(platform_input_read(req, &platform_notification_kind, true, &input));
    TRY(platform_input_apply(req, &platform_notification_kind, &input, false, ret_object->attrs));
    TRY(check_url(req, ret_object));
    TRY(apply_users(req, &input, &place.org, ret_object));
    ret_object->updated_ms = req->now_ms;
    return ST_OK;
}

/* Begin the steps; without a verification, skip them and store at once. */
static enum status begin_steps(struct req *req, const struct platform_object *object, bool verifies,
                               enum status (*store)(struct req *req))
{
    struct checking *checking = arena_zalloc(req->arena, sizeof *checking);
    if (checking == NULL)
        return ST_NOMEM;
    checking->id = object->id;
    checking->object = *object;
    req->prepared = checking;
    if (verifies)
        return ST_OK;
    req_skip_outside(req);
    return store(req);
}

static bool must_verify(const struct platform_object *object)
{
    return platform_flag(object->attrs, "enabled") && !is_email(object);
}

/* The call */

static enum status verify_outside(struct req *req)
{
    static const char *const headers[] = {"X-Infra-Notification-Signature",
                                          "X-TFE-Notification-Signature"};
    struct checking *checking = req->prepared;
    const struct text_value *attrs = checking->object.attrs;
    enum platform_form form = platform_form_of(platform_text(attrs, "destination-type"));
    CLEANUP(buf_done) struct buf body = {0};
    platform_message_verify(form, checking->id, platform_text(attrs, "name"), &body);
    TRY(buf_status(&body));
    const char *key = platform_text(attrs, "token");
    bool is_signed = form == PLATFORM_GENERIC && key[0] != '\0';
    const struct platform_call call = {.url = platform_text(attrs, "url"),
                                       .body = buf_bytes(&body),
                                       .key = key,
                                       .signature = headers,
                                       .n_signature = is_signed ? ARRAY_LEN(headers) : 0};
    checking->verified = true;
    return platform_call_send(req->arena, &call, &checking->answer);
}

static bool succeeded(const struct platform_answer *answer)
{
    return answer->status >= 200 && answer->status <= 299;
}

enum status platform_notification_keep(struct arena *arena, int64_t now_ms, const char *url,
                                       const struct platform_answer *answer,
                                       struct platform_object *config)
{
    struct text_value *delivery = text_value_new(arena, NULL, TEXT_OBJECT, (struct bytes){0});
    uint8_t time[TEXT_TIME_MAX];
    size_t len = text_time(now_ms, time);
    const char *sent = arena_str(arena, bytes_of(time, len));
    const char *code = answer->status != 0 ? arena_number(arena, (uint64_t)answer->status) : "";
    if (delivery == NULL || sent == NULL || code == NULL)
        return ST_NOMEM;
    TRY(platform_set_text(arena, delivery, "url", url));
    TRY(platform_set_text(arena, delivery, "body", answer->body));
    TRY(platform_set_text(arena, delivery, "code", code));
    TRY(platform_set(arena, delivery, "headers", answer->headers));
    TRY(platform_set_text(arena, delivery, "sent-at", sent));
    TRY(platform_set_flag(arena, delivery, "successful", succeeded(answer)));
    return platform_set(arena, config->links, "delivery", delivery);
}

/* Keep the reply of the destination, the latest alone. */
static enum status keep_delivery(struct req *req, const struct checking *checking,
                                 struct platform_object *object)
{
    if (!checking->verified)
        return ST_OK;
    return platform_notification_keep(req->arena, req->now_ms,
                                      platform_text(checking->object.attrs, "url"),
                                      &checking->answer, object);
}

static enum status refuse_unverified(struct req *req, const struct platform_answer *answer)
{
    if (answer->status == 0)
        return req_fail(req, ST_INVALID, "the verification request failed: %.180s", answer->body);
    return req_fail(req, ST_INVALID, "the verification request failed: the destination replied %d",
                    answer->status);
}

/* A failed verification is kept at the configuration as it is stored, and refuses the request. */
static enum status keep_failure(struct req *req, const struct checking *checking)
{
    struct platform_object stored;
    enum status st = platform_object_load(req->txn, TYPE, checking->id, &stored);
    if (st == ST_OK) {
        TRY(keep_delivery(req, checking, &stored));
        TRY(platform_object_put(req->txn, "", &stored));
        req_keep(req);
    } else if (st != ST_NOT_FOUND) {
        return st;
    }
    return refuse_unverified(req, &checking->answer);
}

/* Creation and change */

static enum status keep_new_notification(struct req *req)
{
    const struct checking *checking = req->prepared;
    struct platform_who who;
    struct platform_object object;
    if (checking->verified && !succeeded(&checking->answer))
        return refuse_unverified(req, &checking->answer);
    TRY(new_notification(req, checking->id, &who, &object));
    TRY(keep_delivery(req, checking, &object));
    TRY(platform_object_add(req->txn, &object));
    return platform_reply_one(req, &who, &notification_shown, &object, 201);
}

static enum status notification_create(struct req *req)
{
    struct platform_who who;
    struct platform_object object;
    TRY(new_notification(req, NULL, &who, &object));
    return begin_steps(req, &object, must_verify(&object), keep_new_notification);
}

static enum status keep_changed_notification(struct req *req)
{
    const struct checking *checking = req->prepared;
    struct platform_who who;
    struct platform_object object;
    if (checking->verified && !succeeded(&checking->answer))
        return keep_failure(req, checking);
    TRY(changed_notification(req, &who, &object));
    TRY(keep_delivery(req, checking, &object));
    TRY(platform_object_put(req->txn, "", &object));
    return platform_reply_one(req, &who, &notification_shown, &object, 0);
}

static enum status notification_update(struct req *req)
{
    struct platform_who who;
    struct platform_object object;
    TRY(changed_notification(req, &who, &object));
    return begin_steps(req, &object, must_verify(&object), keep_changed_notification);
}

/* The notification_verify action */

enum status platform_notification_to(struct state_txn *txn, const struct platform_object *config,
                                     const char *const **ret_to, size_t *ret_n)
{
    const struct text_value *users = text_get(config->links, "users");
    const struct text_value *own = text_get(config->attrs, "email-addresses");
    size_t room = (users != NULL ? users->n : 0) + (own != NULL ? own->n : 0) + 1, n = 0;
    const char **to = arena_alloc(txn->arena, room * sizeof *to);
    if (to == NULL)
        return ST_NOMEM;
    if (users != NULL)
        TEXT_FOR (v, users) {
            struct platform_object user;
            enum status st = platform_user_load(txn, (const char *)v->text.data, &user);
            if (st != ST_OK && st != ST_NOT_FOUND)
                return st;
            if (st == ST_OK && platform_text(user.attrs, "email")[0] != '\0')
                to[n++] = platform_text(user.attrs, "email");
        }
    if (own != NULL)
        TEXT_FOR (v, own)
            to[n++] = (const char *)v->text.data;
    *ret_to = to;
    *ret_n = MIN(n, (size_t)USERS_MAX);
    return ST_OK;
}

static enum status notification_verify(struct req *req)
{
    struct platform_who who;
    struct platform_place place;
    struct platform_object object, smtp;
    struct checking *checking = arena_zalloc(req->arena, sizeof *checking);
    if (checking == NULL)
        return ST_NOMEM;
    TRY(find_notification(req, &who, &place, &object));
    checking->id = object.id;
    checking->object = object;
    req->prepared = checking;
    if (!is_email(&object))
        return ST_OK;
    TRY(platform_settings_load(req->txn, "smtp", &smtp));
    platform_mailer_of(&smtp, &checking->mailer);
    if (!checking->mailer.enabled)
        return req_fail(req, ST_INVALID, "the SMTP settings are disabled: no mail can be sent");
    TRY(platform_notification_to(req->txn, &checking->object, &checking->to, &checking->n_to));
    return checking->n_to != 0
               ? ST_OK
               : req_fail(req, ST_INVALID, "the configuration has no user with an e-mail address");
}

static enum status mail_outside(struct req *req)
{
    const struct checking *checking = req->prepared;
    struct reason why = {{0}};
    const char *name = platform_text(checking->object.attrs, "name");
    const char *subject = arena_concat(req->arena, "Verification of ", name);
    if (subject == NULL)
        return ST_NOMEM;
    const struct platform_mail mail = {
        .to = checking->to,
        .n_to = checking->n_to,
        .subject = subject,
        .text = "This message was sent to notification_verify a notification configuration.\r\n"
                "No action is needed.\r\n",
        .now_ms = req->now_ms,
    };
    enum status st = platform_mail_send(&checking->mailer, &mail, &why);
    return st == ST_OK || st == ST_NOMEM
               ? st
               : req_fail(req, ST_INVALID, "the verification request failed: %.180s", why.text);
}

static enum status verify_action_outside(struct req *req)
{
    const struct checking *checking = req->prepared;
    return is_email(&checking->object) ? mail_outside(req) : verify_outside(req);
}

static enum status verify_finish(struct req *req)
{
    const struct checking *checking = req->prepared;
    struct platform_who who;
    struct platform_place place;
    struct platform_object object;
    if (checking->verified && !succeeded(&checking->answer))
        return keep_failure(req, checking);
    TRY(find_notification(req, &who, &place, &object));
    TRY(keep_delivery(req, checking, &object));
    TRY(platform_object_put(req->txn, "", &object));
    return platform_reply_one(req, &who, &notification_shown, &object, 0);
}

/* Reading and deletion */

static enum status notifications_list(struct req *req)
{
    struct platform_who who;
    struct platform_place place;
    struct platform_objects all;
    TRY(platform_who(req, &who));
    TRY(platform_ws_find(req, &who, req_param(req, "ws"), PLATFORM_WS_ADMIN, &place));
    if (who.owner == PLATFORM_ORGANIZATION)
        return ST_NOT_FOUND;
    TRY(platform_object_children(req->txn, place.ws.id, TYPE, &all));
    platform_sort_by_time(&all);
    return platform_reply_list(req, &who, &notification_shown, &all, true);
}

static enum status notification_read(struct req *req)
{
    struct platform_who who;
    struct platform_place place;
    struct platform_object object;
    TRY(find_notification(req, &who, &place, &object));
    return platform_reply_one(req, &who, &notification_shown, &object, 0);
}

static enum status notification_delete(struct req *req)
{
    struct platform_who who;
    struct platform_place place;
    struct platform_object object;
    TRY(find_notification(req, &who, &place, &object));
    return platform_object_delete(req->txn, &object);
}

#define RIGHT "workspace: admin"

static const struct platform_row listed = {&platform_notification_kind, PLATFORM_LIST, RIGHT, false,
                                           false},
                                 shown = {&platform_notification_kind, PLATFORM_ONE, RIGHT, false,
                                          false},
                                 made = {&platform_notification_kind, PLATFORM_ONE, RIGHT, true,
                                         true},
                                 changed = {&platform_notification_kind, PLATFORM_ONE, RIGHT, true,
                                            false},
                                 dropped = {NULL, PLATFORM_NOTHING, RIGHT, false, false};

static const struct route notification_routes[] = {
    PLATFORM_GET("workspaces/:ws/" TYPE, notifications_list, listed,
                 "The notification configurations of a workspace."),
    PLATFORM_MAKE("workspaces/:ws/" TYPE, notification_create, made, .outside = verify_outside,
                  .finish = keep_new_notification,
                  .help = "Create a notification configuration; one that is enabled is verified "
                          "first."),
    PLATFORM_GET(TYPE "/:id", notification_read, shown, "A notification configuration."),
    PLATFORM_PATCH(TYPE "/:id", notification_update, changed, .outside = verify_outside,
                   .finish = keep_changed_notification,
                   .help = "Change a notification configuration; one that is enabled is verified "
                           "first."),
    PLATFORM_SEND(POST, TYPE "/:id/actions/verify", notification_verify, shown,
                  .outside = verify_action_outside, .finish = verify_finish,
                  .help = "Send a verification to the destination."),
    PLATFORM_ACT(DELETE, TYPE "/:id", notification_delete, dropped,
                 .help = "Delete a notification configuration."),
};

const struct route_table platform_notification_table = {notification_routes,
                                                        ARRAY_LEN(notification_routes)};
