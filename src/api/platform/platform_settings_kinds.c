/* The kinds of settings, and what must hold for each. Attributes with an alias are taken and shown
 * under both names. */
#include "api/platform/platform_kinds.h"
#include "api/platform/platform_settings.h"
#include "text/duration.h"

enum { RATE_MIN = 30, TEXT_MAX = 64 * 1024 };

static bool is_set(const struct platform_object *object, const char *name)
{
    return platform_text(object->attrs, name)[0] != '\0';
}

static enum status need(struct req *req, const struct platform_object *object,
                        const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!is_set(object, names[i]))
            return platform_refuse(req, names[i], "is required while the settings are enabled");
    return ST_OK;
}

/* General */

static const char *check_duration(struct bytes text)
{
    int64_t ns;
    uint8_t last = text.len != 0 ? text.data[text.len - 1] : 0;
    bool unit = last == 'h' || last == 'm' || last == 's';
    return unit && text_duration_parse(text, &ns) == ST_OK ? NULL
                                                           : "a duration as 2h or 30m is expected";
}

#define FLAG_OFF(name_)                                            \
    {                                                              \
        .name = (name_), .value = PLATFORM_FLAG, .preset = "false" \
    }
#define FLAG_ON(name_)                                            \
    {                                                             \
        .name = (name_), .value = PLATFORM_FLAG, .preset = "true" \
    }
#define WORDS(name_)                                       \
    {                                                      \
        .name = (name_), .preset = "\"\"", .max = TEXT_MAX \
    }

static const struct platform_attr general_attrs[] = {
    FLAG_ON("limit-user-organization-creation"),
    FLAG_ON("api-rate-limiting-enabled"),
    {.name = "api-rate-limit",
     .value = PLATFORM_NUMBER,
     .preset = "30",
     .min = RATE_MIN,
     .max = 1000000,
     .help = "Requests per second of a client."},
    FLAG_OFF("send-passing-statuses-for-untriggered-speculative-plans"),
    FLAG_OFF("allow-speculative-plans-on-pull-requests-from-forks"),
    FLAG_ON("default-remote-state-access"),
    {.name = "plan-timeout",
     .alias = "terraform-build-worker-plan-timeout",
     .preset = "\"2h\"",
     .max = 32,
     .check = check_duration},
    {.name = "apply-timeout",
     .alias = "terraform-build-worker-apply-timeout",
     .preset = "\"24h\"",
     .max = 32,
     .check = check_duration},
    FLAG_OFF("require-two-factor-for-admins"),
    FLAG_ON("fair-run-queuing-enabled"),
    {.name = "limit-organizations-per-user", .value = PLATFORM_FLAG, .preset = "false"},
    {.name = "default-organizations-per-user-ceiling", .value = PLATFORM_NUMBER, .preset = "10"},
    {.name = "limit-workspaces-per-organization", .value = PLATFORM_FLAG, .preset = "false"},
    {.name = "default-workspaces-per-organization-ceiling",
     .value = PLATFORM_NUMBER,
     .preset = "10"},
};

/* Cost estimation */

#define KEY(ours, theirs)                                                    \
    {                                                                        \
        .name = (ours), .alias = (theirs), .preset = "\"\"", .max = TEXT_MAX \
    }

static const struct platform_attr cost_attrs[] = {
    FLAG_OFF("enabled"),
    KEY("cloud-a-access-key-id", "aws-access-key-id"),
    KEY("cloud-a-secret-key", "aws-secret-key"),
    KEY("cloud-b-credentials", "gcp-credentials"),
    KEY("cloud-c-client-id", "azure-client-id"),
    KEY("cloud-c-client-secret", "azure-client-secret"),
    KEY("cloud-c-subscription-id", "azure-subscription-id"),
    KEY("cloud-c-tenant-id", "azure-tenant-id"),
    FLAG_OFF("aws-enabled"),
    FLAG_OFF("aws-instance-profile-enabled"),
    FLAG_OFF("gcp-enabled"),
    FLAG_OFF("azure-enabled"),
};

static enum status settle_cost(struct req *req, const struct platform_object *before,
                               struct platform_object *after)
{
    (void)before;
    bool a = is_set(after, "cloud-a-access-key-id") && is_set(after, "cloud-a-secret-key");
    bool b = is_set(after, "cloud-b-credentials");
    bool c = is_set(after, "cloud-c-client-id") && is_set(after, "cloud-c-client-secret") &&
             is_set(after, "cloud-c-subscription-id") && is_set(after, "cloud-c-tenant-id");
    bool fine = a || b || c || platform_flag(after->attrs, "aws-instance-profile-enabled");
    return !platform_flag(after->attrs, "enabled") || fine
               ? ST_OK
               : platform_refuse(req, "enabled",
                                 "at least one complete set of credentials is "
                                 "required");
}

/* SAML */

static const char *const methods[] = {"SHA1", "SHA256", NULL};
static const char *const providers[] = {"okta", "entra", "saml", "unknown", NULL};

static const struct platform_attr saml_attrs[] = {
    FLAG_OFF("enabled"),
    FLAG_OFF("debug"),
    FLAG_OFF("authn-requests-signed"),
    FLAG_OFF("want-assertions-signed"),
    FLAG_OFF("team-management-enabled"),
    WORDS("idp-cert"),
    {.name = "old-idp-cert", .traits = PLATFORM_SHOWN},
    WORDS("slo-endpoint-url"),
    WORDS("sso-endpoint-url"),
    {.name = "attr-username", .preset = "\"Username\"", .max = 256},
    {.name = "attr-groups", .preset = "\"MemberOf\"", .max = 256},
    {.name = "attr-site-admin", .preset = "\"SiteAdmin\"", .max = 256},
    {.name = "site-admin-role", .preset = "\"site-admins\"", .max = 256},
    {.name = "sso-api-token-session-timeout",
     .value = PLATFORM_NUMBER,
     .preset = "1209600",
     .min = 1,
     .help = "Seconds."},
    WORDS("certificate"),
    {.name = "private-key", .preset = "\"\"", .max = TEXT_MAX, .traits = PLATFORM_SECRET},
    {.name = "signature-signing-method", .preset = "\"SHA256\"", .values = methods},
    {.name = "signature-digest-method", .preset = "\"SHA256\"", .values = methods},
    {.name = "provider-type", .preset = "\"unknown\"", .values = providers},
};

/* A new certificate keeps the one before, until it is revoked. */
static enum status settle_saml(struct req *req, const struct platform_object *before,
                               struct platform_object *after)
{
    static const char *const needed[] = {"idp-cert",      "slo-endpoint-url", "sso-endpoint-url",
                                         "attr-username", "attr-groups",      "attr-site-admin"};
    const char *old = platform_text(before->attrs, "idp-cert");
    if (old[0] != '\0' && strcmp(old, platform_text(after->attrs, "idp-cert")) != 0)
        TRY(platform_set_text(req->arena, after->attrs, "old-idp-cert", old));
    if (!platform_flag(after->attrs, "enabled"))
        return ST_OK;
    TRY(need(req, after, needed, ARRAY_LEN(needed)));
    for (size_t i = 1; i <= 2; i++) {
        struct bytes url = bytes_str(platform_text(after->attrs, needed[i]));
        if (!bytes_has_prefix(url, BYTES("https://")) || platform_check_url(url) != NULL)
            return platform_refuse(req, needed[i], "must be a URL that begins with https://");
    }
    return ST_OK;
}

static enum status show_saml(struct platform_view *view, const struct platform_object *object)
{
    const char *base;
    (void)object; /* the URLs are those of this server */
    TRY(platform_base_url(view->req, &base));
    text_member_str(view->w, "acs-consumer-url",
                    arena_format(view->req->arena, "%s/users/saml/auth", base));
    text_member_str(view->w, "metadata-url",
                    arena_format(view->req->arena, "%s/users/saml/metadata", base));
    return ST_OK;
}

/* SMTP */

static const char *const auths[] = {"none", "plain", "login", NULL};

static const char *check_host(struct bytes text)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._:";
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] == '\0' || strchr(allowed, text.data[i]) == NULL)
            return "is not a host name";
    return NULL;
}

static const struct platform_attr smtp_attrs[] = {
    FLAG_OFF("enabled"),
    {.name = "host", .preset = "\"\"", .max = 250, .check = check_host},
    {.name = "port", .value = PLATFORM_NUMBER, .preset = "25", .min = 1, .max = 65535},
    {.name = "sender", .preset = "\"\"", .max = 200, .check = platform_check_email},
    {.name = "auth", .preset = "\"none\"", .values = auths},
    {.name = "username", .preset = "\"\"", .max = 200},
    {.name = "password", .preset = "\"\"", .max = 1000, .traits = PLATFORM_SECRET},
    {.name = "test-email-address",
     .max = 200,
     .check = platform_check_email,
     .traits = PLATFORM_UNSAVED,
     .help = "Gets a test message before the settings are stored."},
};

static enum status settle_smtp(struct req *req, const struct platform_object *before,
                               struct platform_object *after)
{
    static const char *const needed[] = {"host", "sender"}, *const names[] = {"username",
                                                                              "password"};
    (void)before;
    if (!platform_flag(after->attrs, "enabled"))
        return ST_OK;
    TRY(need(req, after, needed, ARRAY_LEN(needed)));
    return strcmp(platform_text(after->attrs, "auth"), "none") == 0
               ? ST_OK
               : need(req, after, names, ARRAY_LEN(names));
}

/* SMS */

static const char *check_sid(struct bytes text)
{
    return platform_check_name(text);
}

static const char *check_number(struct bytes text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((text.data[i] < '0' || text.data[i] > '9') && !(i == 0 && text.data[i] == '+'))
            return "a number as +15550100 is expected";
    return NULL;
}

static const struct platform_attr sms_attrs[] = {
    FLAG_OFF("enabled"),
    {.name = "account-sid", .preset = "\"\"", .max = 100, .check = check_sid},
    {.name = "auth-token", .preset = "\"\"", .max = 1000, .traits = PLATFORM_SECRET},
    {.name = "from-number", .preset = "\"\"", .max = 32, .check = check_number},
};

static enum status settle_sms(struct req *req, const struct platform_object *before,
                              struct platform_object *after)
{
    static const char *const needed[] = {"account-sid", "auth-token", "from-number"};
    (void)before;
    return platform_flag(after->attrs, "enabled") ? need(req, after, needed, ARRAY_LEN(needed))
                                                  : ST_OK;
}

/* Customization: texts may have HTML, and are shown as they were given. */

static const struct platform_attr customization_attrs[] = {
    {.name = "support-email-address",
     .preset = "\"support@example.com\"",
     .max = 200,
     .check = platform_check_email},
    WORDS("login-help"),
    WORDS("footer"),
    WORDS("error"),
    WORDS("new-user"),
};

#define KIND(variable, type_, other, table)                              \
    static const struct platform_kind variable = {.type = (type_),       \
                                                  .other_type = (other), \
                                                  .noun = "settings",    \
                                                  .attrs = (table),      \
                                                  .n = ARRAY_LEN(table)}
KIND(general_kind, "general-settings", NULL, general_attrs);
KIND(cost_kind, "cost-estimation-settings", NULL, cost_attrs);
KIND(saml_kind, "saml-settings", NULL, saml_attrs);
KIND(smtp_kind, "smtp-settings", NULL, smtp_attrs);
KIND(sms_kind, "sms-settings", "twilio-settings", sms_attrs);
KIND(twilio_kind, "twilio-settings", "sms-settings", sms_attrs);
KIND(customization_kind, "customization-settings", NULL, customization_attrs);

#define ROWS(kind_)                                                        \
    .shown = {&(kind_), PLATFORM_ONE, "site administrator", false, false}, \
    .changed = {&(kind_), PLATFORM_ONE, "site administrator", true, false}

const struct platform_setting platform_setting_list[] = {
    {.path = "general-settings",
     .id = "general",
     .resource = {.kind = &general_kind},
     ROWS(general_kind)},
    {.path = "cost-estimation-settings",
     .id = "cost-estimation",
     .resource = {.kind = &cost_kind},
     ROWS(cost_kind),
     .settle = settle_cost},
    {.path = "saml-settings",
     .id = "saml",
     .resource = {.kind = &saml_kind, .more = show_saml},
     ROWS(saml_kind),
     .settle = settle_saml},
    {.path = "smtp-settings",
     .id = "smtp",
     .resource = {.kind = &smtp_kind},
     ROWS(smtp_kind),
     .settle = settle_smtp},
    {.path = "sms-settings",
     .id = "sms",
     .resource = {.kind = &sms_kind},
     ROWS(sms_kind),
     .settle = settle_sms},
    {.path = "twilio-settings",
     .id = "sms",
     .shown_id = "twilio",
     .resource = {.kind = &twilio_kind},
     ROWS(twilio_kind),
     .settle = settle_sms},
    {.path = "customization-settings",
     .id = "customization",
     .resource = {.kind = &customization_kind},
     ROWS(customization_kind)},
};
const size_t platform_setting_n = ARRAY_LEN(platform_setting_list);

const struct platform_setting *platform_setting_at(struct bytes path)
{
    for (size_t i = 0; i < platform_setting_n; i++)
        if (text_is(path, platform_setting_list[i].path))
            return &platform_setting_list[i];
    return NULL;
}
