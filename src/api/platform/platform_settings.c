/* Reading and changing the settings of administrators. Others find nothing here.
 *
 * A change of SMTP settings that are enabled and name a test address is sent a message first:
 * validate (handler), send (outside), validate again and store (finish). A failure stores nothing.
 */
#include "api/platform/platform_settings.h"
#include "api/platform/platform.h"
#include "api/platform/platform_kinds.h"
#include "api/platform/platform_mail.h"
#include "api/platform/platform_rows.h"
#include "out/out.h"
#include "out/out_settings.h"
#include "text/encode.h"

#define ADMIN "admin/"

enum { SMS_CONNECT_MS = 5000, SMS_TOTAL_MS = 10000 };

enum status platform_setting_load(struct state_txn *txn, const struct platform_setting *setting,
                                  struct platform_object *ret_object)
{
    const struct platform_kind *kind = setting->resource.kind;
    enum status st = platform_object_load(txn, "settings", setting->id, ret_object);
    if (st == ST_NOT_FOUND)
        *ret_object = (struct platform_object){
            .id = setting->id,
            .type = "settings",
            .parent = PLATFORM_ROOT,
            .name = "",
            .attrs = text_value_new(txn->arena, NULL, TEXT_OBJECT, (struct bytes){0}),
            .links = text_value_new(txn->arena, NULL, TEXT_OBJECT, (struct bytes){0})};
    else if (st != ST_OK)
        return st;
    if (ret_object->attrs == NULL || ret_object->links == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < kind->n; i++) { /* attributes that were never set */
        const struct platform_attr *attr = &kind->attrs[i];
        const struct text_value *preset;
        if (text_get(ret_object->attrs, attr->name) != NULL || attr->preset == NULL)
            continue;
        TRY(text_json_parse(txn->arena, bytes_str(attr->preset), &preset, NULL));
        TRY(platform_set(txn->arena, ret_object->attrs, attr->name, preset));
    }
    return ST_OK;
}

enum status platform_settings_load(struct state_txn *txn, const char *id,
                                   struct platform_object *ret_settings)
{
    for (size_t i = 0; i < platform_setting_n; i++)
        if (strcmp(platform_setting_list[i].id, id) == 0)
            return platform_setting_load(txn, &platform_setting_list[i], ret_settings);
    return ST_INTERNAL;
}

enum status platform_setting_put(struct req *req, const struct platform_setting *setting,
                                 struct platform_object *object)
{
    struct platform_object stored;
    enum status st = platform_object_load(req->txn, "settings", setting->id, &stored);
    object->updated_ms = req->now_ms;
    if (st == ST_NOT_FOUND) {
        object->created_ms = req->now_ms;
        return platform_object_add(req->txn, object);
    }
    TRY(st);
    return platform_object_put(req->txn, "", object);
}

/* The settings of a path, "admin/smtp-settings" and what follows. */
static const struct platform_setting *setting_of(const struct req *req)
{
    struct bytes path = bytes_from(req->path, sizeof ADMIN - 1);
    const uint8_t *slash = path.len != 0 ? memchr(path.data, '/', path.len) : NULL;
    const struct platform_setting *setting = platform_setting_at(
        slash != NULL ? bytes_of(path.data, (size_t)(slash - path.data)) : path);
    ASSERT(setting != NULL); /* the rows name settings alone */
    return setting;
}

static enum status reply_setting(struct req *req, const struct platform_who *who,
                                 const struct platform_setting *setting,
                                 const struct platform_object *object)
{
    struct platform_object shown = *object;
    if (setting->shown_id != NULL)
        shown.id = setting->shown_id;
    return platform_reply_one(req, who, &setting->resource, &shown, 0);
}

static enum status setting_read(struct req *req)
{
    const struct platform_setting *setting = setting_of(req);
    struct platform_who who;
    struct platform_object object;
    TRY(platform_who_admin(req, &who));
    TRY(platform_setting_load(req->txn, setting, &object));
    return reply_setting(req, &who, setting, &object);
}

/* The settings as the request changes them, checked. */
static enum status changed_setting(struct req *req, const struct platform_setting *setting,
                                   struct platform_object *ret_object)
{
    struct platform_object before;
    struct platform_input input;
    TRY(platform_setting_load(req->txn, setting, &before));
    TRY(platform_setting_load(req->txn, setting, ret_object));
    TRY(platform_input_read(req, setting->resource.kind, true, &input));
    TRY(platform_input_apply(req, setting->resource.kind, &input, false, ret_object->attrs));
    return setting->settle != NULL ? setting->settle(req, &before, ret_object) : ST_OK;
}

static enum status store_setting(struct req *req)
{
    const struct platform_setting *setting = setting_of(req);
    struct platform_who who;
    struct platform_object object;
    TRY(platform_who_admin(req, &who));
    TRY(changed_setting(req, setting, &object));
    TRY(platform_setting_put(req, setting, &object));
    return reply_setting(req, &who, setting, &object);
}

/* SMTP */

static const char *test_address(const struct req *req)
{
    return platform_text(text_get(text_get(req->data, "data"), "attributes"), "test-email-address");
}

static enum status smtp_update(struct req *req)
{
    struct platform_who who;
    struct platform_object object;
    TRY(platform_who_admin(req, &who));
    TRY(changed_setting(req, setting_of(req), &object));
    if (!platform_flag(object.attrs, "enabled") || test_address(req)[0] == '\0') {
        req_skip_outside(req);
        return store_setting(req);
    }
    struct platform_mailer *mailer = arena_zalloc(req->arena, sizeof *mailer);
    if (mailer == NULL)
        return ST_NOMEM;
    platform_mailer_of(&object, mailer);
    req->prepared = mailer;
    return ST_OK;
}

static enum status smtp_outside(struct req *req)
{
    const struct platform_mailer *mailer = req->prepared;
    const char *to = test_address(req);
    struct reason why = {{0}};
    const struct platform_mail mail = {
        .to = &to,
        .n_to = 1,
        .subject = "Test message",
        .text = "This message was sent to test the SMTP settings.\r\n",
        .now_ms = req->now_ms,
    };
    enum status st = platform_mail_send(mailer, &mail, &why);
    if (st == ST_OK)
        return ST_OK;
    bool known = st == ST_UNAUTHENTICATED || st == ST_TIMEOUT;
    return req_fail(req, known ? st : ST_BAD_GATEWAY, "%s", why.text);
}

/* SAML */

static enum status saml_revoke(struct req *req)
{
    const struct platform_setting *setting = setting_of(req);
    struct platform_who who;
    struct platform_object object;
    TRY(platform_who_admin(req, &who));
    TRY(platform_setting_load(req->txn, setting, &object));
    TRY(platform_set_null(req->arena, object.attrs, "old-idp-cert"));
    TRY(platform_setting_put(req, setting, &object));
    return reply_setting(req, &who, setting, &object);
}

/* SMS */

struct sms {
    const char *url, *body, *authorization;
};

/* "Basic …" for a name and a secret; NULL: no memory. */
static const char *basic(struct arena *arena, const char *name, const char *secret)
{
    const char *pair = arena_format(arena, "%s:%s", name, secret);
    if (pair == NULL)
        return NULL;
    char *text = arena_alloc(arena, TEXT_BASE64_LEN(strlen(pair)) + 1);
    if (text == NULL)
        return NULL;
    (void)text_base64_put(bytes_str(pair), TEXT_BASE64, text);
    return arena_concat(arena, "Basic ", text);
}

/* The message; numbers have digits alone behind a plus sign (sms_check, platform_settings_kinds.c).
 */
static enum status make_sms(struct req *req, const struct platform_object *settings,
                            const char *number)
{
    struct sms *sms = arena_zalloc(req->arena, sizeof *sms);
    const char *sid = platform_text(settings->attrs, "account-sid");
    const char *from = platform_text(settings->attrs, "from-number");
    if (sms == NULL)
        return ST_NOMEM;
    sms->url = arena_format(req->arena, "%s/2010-04-01/Accounts/%s/Messages.json",
                            platform_config()->sms_base_url, sid);
    sms->body = arena_format(req->arena, "To=%s%s&From=%s%s&Body=Test+message",
                             number[0] == '+' ? "%2B" : "", number + (number[0] == '+'),
                             from[0] == '+' ? "%2B" : "", from + (from[0] == '+'));
    sms->authorization = basic(req->arena, sid, platform_text(settings->attrs, "auth-token"));
    req->prepared = sms;
    return sms->url != NULL && sms->body != NULL && sms->authorization != NULL ? ST_OK : ST_NOMEM;
}

static enum status sms_check(struct req *req)
{
    struct platform_who who;
    struct platform_object object;
    TRY(platform_who_admin(req, &who));
    TRY(platform_setting_load(req->txn, setting_of(req), &object));
    const char *number =
        platform_text(text_get(text_get(req->data, "data"), "attributes"), "test-number");
    bool digits =
        strlen(number) <= 32 && number[0] != '\0' &&
        strspn(number + (number[0] == '+'), "0123456789") == strlen(number + (number[0] == '+'));
    if (!digits)
        return req_fail(req, ST_INVALID, "/data/attributes/test-number: a number is required");
    if (!platform_flag(object.attrs, "enabled"))
        return req_fail(req, ST_INVALID, "the SMS settings are disabled");
    if (platform_config()->sms_base_url[0] == '\0')
        return req_fail(req, ST_INVALID, "the configuration of this server names no SMS provider");
    return make_sms(req, &object, number);
}

static enum status sms_outside(struct req *req)
{
    const struct sms *sms = req->prepared;
    CLEANUP(out_reply_done) struct out_reply reply = {0};
    struct reason why = {{0}};
    const struct out_header headers[] = {
        {"Authorization", bytes_str(sms->authorization)},
        {"Content-Type", BYTES("application/x-www-form-urlencoded")},
    };
    const struct out_request request = {.method = "POST",
                                        .url = sms->url,
                                        .headers = headers,
                                        .n_headers = ARRAY_LEN(headers),
                                        .body = bytes_str(sms->body),
                                        .connect_ms = SMS_CONNECT_MS,
                                        .total_ms = SMS_TOTAL_MS,
                                        .reply_bytes_max = 64 * 1024,
                                        .cuts = true,
                                        .tls = {.ca_file = out_settings_ca_file()},
                                        .rules = out_settings_rules()};
    enum status st = out_request(&request, &reply, NULL, &why);
    if (st == ST_NOMEM)
        return st;
    if (st != ST_OK)
        return req_fail(req, ST_INVALID, "the SMS was not sent: %.200s", why.text);
    if (reply.status < 200 || reply.status > 299)
        return req_fail(req, ST_INVALID, "the SMS was not sent: the provider replied %d",
                        reply.status);
    req->reply.http = 200;
    return req_reply_raw(req, "application/vnd.api+json", (struct bytes){0});
}

static const struct platform_row acts = {NULL, PLATFORM_NOTHING, "site administrator", false,
                                         false};

#define SETTING(i, path_, what_)                                                        \
    PLATFORM_GET("admin/" path_, setting_read, platform_setting_list[i].shown,          \
                 "The settings of " what_ "."),                                         \
        PLATFORM_PATCH("admin/" path_, store_setting, platform_setting_list[i].changed, \
                       .help = "Change the settings of " what_ ".")

static const struct route settings_routes[] = {
    SETTING(0, "general-settings", "the whole site"),
    SETTING(1, "cost-estimation-settings", "cost estimation"),
    SETTING(2, "saml-settings", "SAML"),
    PLATFORM_SEND(POST, "admin/saml-settings/actions/revoke-old-certificate", saml_revoke,
                  platform_setting_list[2].shown,
                  .help = "Forget the certificate before the present one."),
    PLATFORM_GET("admin/smtp-settings", setting_read, platform_setting_list[3].shown,
                 "The settings of e-mail."),
    PLATFORM_PATCH("admin/smtp-settings", smtp_update, platform_setting_list[3].changed,
                   .outside = smtp_outside, .finish = store_setting,
                   .help = "Change the settings of e-mail, after a test message if an address for "
                           "it is given."),
    SETTING(4, "sms-settings", "SMS"),
    SETTING(5, "twilio-settings", "SMS, by the name of the upstream product"),
    PLATFORM_ACT(POST, "admin/sms-settings/verify", sms_check, acts, .outside = sms_outside,
                 .help = "Send a test SMS."),
    PLATFORM_ACT(PATCH, "admin/sms-settings/verify", sms_check, acts, .outside = sms_outside,
                 .help = "Send a test SMS."),
    PLATFORM_ACT(POST, "admin/twilio-settings/verify", sms_check, acts, .outside = sms_outside,
                 .help = "Send a test SMS."),
    PLATFORM_ACT(PATCH, "admin/twilio-settings/verify", sms_check, acts, .outside = sms_outside,
                 .help = "Send a test SMS."),
    SETTING(6, "customization-settings", "texts that users see"),
};

const struct route_table platform_settings_table = {settings_routes, ARRAY_LEN(settings_routes)};
