/* Settings of a mount: read from a request, and set. */
#include "api/mounts/mounts_settings.h"
#include "api/mounts/mounts_show.h"
#include "text/duration.h"

/* Settings of a mount: members of `config` of a new mount, and of the body of a tune. */
#define SETTING_FIELDS                                                                             \
    FIELD(struct mounts_tune, default_lease_ttl, STRING, .exact = true,                            \
          .help = "Time to live where a request gives none; \"system\" or 0: the default of the "  \
                  "system; empty: not given."),                                                    \
        FIELD(struct mounts_tune, max_lease_ttl, STRING, .exact = true,                            \
              .help = "Longest time to live; \"system\" or 0: the maximum of the system; empty: "  \
                      "not given."),                                                               \
        FIELD(struct mounts_tune, force_no_cache, BOOL,                                            \
              .has = offsetof(struct mounts_tune, has_force_no_cache),                             \
              .help = "Accepted and shown; nothing is cached."),                                   \
        FIELD(struct mounts_tune, listing_visibility, STRING,                                      \
              .help = "\"unauth\": listed to clients without a token; \"hidden\" or empty: not."), \
        FIELD(struct mounts_tune, token_type, STRING,                                              \
              .help = "Auth methods other than token: default-service, default-batch, service or " \
                      "batch."),                                                                   \
        FIELD(struct mounts_tune, audit_non_hmac_request_keys, STRINGS,                            \
              .help = "Names of request data that audit devices record in the clear."),            \
        FIELD(struct mounts_tune, audit_non_hmac_response_keys, STRINGS,                           \
              .help = "Names of response data that audit devices record in the clear."),           \
        FIELD(struct mounts_tune, passthrough_request_headers, STRINGS,                            \
              .help = "Accepted and shown."),                                                      \
        FIELD(struct mounts_tune, allowed_response_headers, STRINGS,                               \
              .help = "Accepted and shown.")
static const struct field config_fields[] = {SETTING_FIELDS};
const struct schema mounts_config_schema = SCHEMA(struct mounts_tune, config_fields);

static const struct field tune_fields[] = {
    FIELD(struct mounts_tune, path, STRING, .help = "Path of the mount."),
    FIELD(struct mounts_tune, description, STRING, .help = "For people."),
    SETTING_FIELDS,
    FIELD(struct mounts_tune, options, MAP,
          .help = "kv: version, which may be raised from \"1\" to \"2\". Other options are kept "
                  "and shown; an empty value removes an option."),
};
const struct schema mounts_tune_schema = SCHEMA(struct mounts_tune, tune_fields);

enum { OPTIONS_MAX = 256 };

/* Read a time to live; 0, from "0" and "system": the system's. Clients in Go send "" for a setting
 * that is not given. */
static enum status read_ttl(struct req *req, const char *name, const char *text, int64_t *ret_s)
{
    int64_t s = 0;
    if (text == NULL || text[0] == '\0')
        return ST_OK;
    if (strcmp(text, "system") != 0 && text_seconds_parse(bytes_str(text), &s) != ST_OK)
        return req_fail(req, ST_INVALID,
                        "%s: a duration in whole seconds such as 90 or \"1h30m\" is expected",
                        name);
    ASSERT(s >= 0);
    *ret_s = s;
    return ST_OK;
}

static enum status check_ttls(struct req *req, const struct mount *mount)
{
    int64_t most = mount->max_lease_ttl_s != 0 ? mount->max_lease_ttl_s : SYS_TTL_S;
    if (mount->default_lease_ttl_s > most)
        return req_fail(req, ST_INVALID,
                        "default_lease_ttl of %lld s is greater than max_lease_ttl of %lld s",
                        (long long)mount->default_lease_ttl_s, (long long)most);
    return ST_OK;
}

static enum status read_words(struct req *req, const struct mounts_tune *in, struct mount *mount)
{
    static const char *const visibility[] = {"", "hidden", "unauth"};
    static const char *const token_type[] = {"",      "default", "default-batch", "default-service",
                                             "batch", "service"};
    bool known = in->listing_visibility == NULL, kind = in->token_type == NULL;
    for (size_t i = 0; i < ARRAY_LEN(visibility) && !known; i++)
        known = strcmp(in->listing_visibility, visibility[i]) == 0;
    for (size_t i = 0; i < ARRAY_LEN(token_type) && !kind; i++)
        kind = strcmp(in->token_type, token_type[i]) == 0;
    if (!known)
        return req_fail(req, ST_INVALID,
                        "listing_visibility: \"unauth\", \"hidden\" or \"\" is "
                        "expected");
    if (!kind)
        return req_fail(req, ST_INVALID,
                        "token_type: \"default-service\", \"default-batch\", "
                        "\"service\" or \"batch\" is expected");
    if (in->listing_visibility != NULL)
        mount->listing_visibility = in->listing_visibility;
    if (in->token_type != NULL)
        mount->token_type = in->token_type;
    return ST_OK;
}

static void take_strings(struct field_strings *to, const struct field_strings *from)
{
    if (from->given)
        *to = *from;
}

enum status mounts_apply(struct req *req, const struct mounts_tune *in, struct mount *mount)
{
    TRY(read_ttl(req, "default_lease_ttl", in->default_lease_ttl, &mount->default_lease_ttl_s));
    TRY(read_ttl(req, "max_lease_ttl", in->max_lease_ttl, &mount->max_lease_ttl_s));
    TRY(check_ttls(req, mount));
    TRY(read_words(req, in, mount));
    if (in->has_force_no_cache)
        mount->force_no_cache = in->force_no_cache;
    take_strings(&mount->audit_non_hmac_request_keys, &in->audit_non_hmac_request_keys);
    take_strings(&mount->audit_non_hmac_response_keys, &in->audit_non_hmac_response_keys);
    take_strings(&mount->passthrough_request_headers, &in->passthrough_request_headers);
    take_strings(&mount->allowed_response_headers, &in->allowed_response_headers);
    return ST_OK;
}

enum status mounts_read_config(struct req *req, const struct text_value *config, bool auth,
                               struct mount *mount)
{
    struct mounts_tune settings;
    struct schema_fault fault = {0};
    if (config == NULL || config->kind == TEXT_NULL)
        return ST_OK;
    if (config->kind != TEXT_OBJECT)
        return req_fail(req, ST_INVALID, "config: an object is expected, not %s",
                        text_kind_name(config->kind));
    enum status st = schema_decode(&mounts_config_schema, config, req->arena, &settings, &fault);
    if (st == ST_INVALID)
        return req_fail(req, st, "config: %s: %s", fault.field, fault.why.text);
    TRY(st);
    ASSERT(!settings.options.given); /* the schema of `config` has no options */
    if (!auth && settings.token_type != NULL)
        req_warn(req, "config: token_type was ignored: only auth methods have one");
    if (!auth)
        settings.token_type = NULL;
    return mounts_apply(req, &settings, mount);
}

/* A copy with room for `more` options. */
enum status mounts_copy_options(struct req *req, const struct field_map *from, size_t more,
                                const char ***ret_pairs)
{
    if (from->n + more > OPTIONS_MAX)
        return req_fail(req, ST_INVALID, "options: more than %d", OPTIONS_MAX);
    const char **pairs = arena_alloc(req->arena, 2 * (from->n + more + 1) * sizeof *pairs);
    if (pairs == NULL)
        return ST_NOMEM;
    if (from->n != 0)
        memcpy(pairs, from->pairs, 2 * from->n * sizeof *pairs);
    *ret_pairs = pairs;
    return ST_OK;
}

/* Set an option among `*n`; an empty value removes it. */
void mounts_put_option(const char **pairs, size_t *n, const char *name, const char *value)
{
    size_t i = 0;
    while (i < *n && strcmp(pairs[2 * i], name) != 0)
        i++;
    ASSERT(i < OPTIONS_MAX); /* mounts_copy_options left room for a pair */
    if (value[0] != '\0') {
        pairs[2 * i] = name;
        pairs[2 * i + 1] = value;
        *n = MAX(*n, i + 1);
    } else if (i < *n) {
        --*n;
        memmove(pairs + 2 * i, pairs + 2 * (i + 1), 2 * (*n - i) * sizeof *pairs);
    }
}
