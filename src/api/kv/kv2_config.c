/* Version 2: the settings of a mount, stored at "config". */
#include "api/kv/kv2.h"
#include "text/duration.h"

enum { CONFIG_FORMAT = 1 };

struct config_in {
    int64_t max_versions;
    bool cas_required, metadata_cas_required;
    bool has_max_versions, has_cas_required, has_metadata_cas_required;
    const char *delete_version_after;
};
static const struct field config_fields[] = {
    FIELD(
        struct config_in, max_versions, INT, .has = offsetof(struct config_in, has_max_versions),
        .help =
            "How many versions of a secret are kept, unless the secret asks for more; 0 means 10."),
    FIELD(struct config_in, cas_required, BOOL, .has = offsetof(struct config_in, has_cas_required),
          .help = "Whether every write must carry options.cas."),
    FIELD(struct config_in, metadata_cas_required, BOOL,
          .has = offsetof(struct config_in, has_metadata_cas_required),
          .help = "Whether every write of a secret's settings must carry metadata_cas."),
    FIELD(struct config_in, delete_version_after, STRING,
          .help = "Age at which versions are deleted, such as \"3h\"; \"0s\": none. Negative: no "
                  "secret of this mount is deleted by age, even if its own settings ask for that."),
};
static const struct schema kv2_config_schema = SCHEMA(struct config_in, config_fields);

struct config_out {
    bool cas_required, metadata_cas_required;
    const char *delete_version_after;
    int64_t max_versions;
};
static const struct field config_out_fields[] = {
    FIELD(struct config_out, cas_required, BOOL, .help = "Whether every write needs options.cas."),
    FIELD(struct config_out, delete_version_after, STRING, .help = "\"0s\": versions stay."),
    FIELD(struct config_out, max_versions, INT, .help = "0 means 10."),
    FIELD(struct config_out, metadata_cas_required, BOOL,
          .help = "Whether every write of a secret's settings needs metadata_cas."),
};
static const struct schema kv2_config_reply = SCHEMA(struct config_out, config_out_fields);

enum { CAS_REQUIRED = 1, NO_DELETION_BY_AGE = 2, METADATA_CAS_REQUIRED = 4, BITS = 7 };

/* u8 format, u8 bits (above), varint max_versions, varint delete_after_s */
static enum status decode(struct bytes stored, struct kv2_config *ret)
{
    struct reader r = reader_of(stored);
    uint8_t format = reader_u8(&r), bits = reader_u8(&r);
    uint64_t max_versions = reader_varint(&r), after_s = reader_varint(&r);
    if (reader_end(&r) != ST_OK || format != CONFIG_FORMAT || bits > BITS ||
        max_versions > KV2_VERSIONS_MAX || after_s > INT64_MAX / 1000000000)
        return ST_CORRUPT;
    *ret = (struct kv2_config){.max_versions = (int64_t)max_versions,
                               .delete_after_s =
                                   (bits & NO_DELETION_BY_AGE) != 0 ? -1 : (int64_t)after_s,
                               .cas_required = (bits & CAS_REQUIRED) != 0,
                               .metadata_cas_required = (bits & METADATA_CAS_REQUIRED) != 0};
    ASSERT(ret->delete_after_s >= -1);
    return ST_OK;
}

enum status kv2_config_load(struct req *req, struct kv2_config *ret_config)
{
    struct state_value stored;
    struct bytes key;
    TRY(req_key(req, "config", &key));
    enum status st = state_get(req->txn, key, &stored);
    if (st == ST_NOT_FOUND) {
        *ret_config = (struct kv2_config){0};
        return ST_OK;
    }
    TRY(st);
    return decode(stored.value, ret_config);
}

static enum status save(struct req *req, const struct kv2_config *config)
{
    CLEANUP(buf_done) struct buf out = {0};
    struct bytes key;
    ASSERT(config->max_versions >= 0 && config->max_versions <= KV2_VERSIONS_MAX);
    ASSERT(config->delete_after_s >= -1 && config->delete_after_s <= INT64_MAX / 1000000000);
    TRY(req_key(req, "config", &key));
    buf_add_u8(&out, CONFIG_FORMAT);
    buf_add_u8(&out, (uint8_t)((config->cas_required ? CAS_REQUIRED : 0) |
                               (config->delete_after_s < 0 ? NO_DELETION_BY_AGE : 0) |
                               (config->metadata_cas_required ? METADATA_CAS_REQUIRED : 0)));
    buf_add_varint(&out, (uint64_t)config->max_versions);
    buf_add_varint(&out, (uint64_t)MAX(config->delete_after_s, INT64_C(0)));
    TRY(buf_status(&out));
    return state_put(req->txn, key, buf_bytes(&out));
}

static enum status kv2_config_read(struct req *req)
{
    CLEANUP(buf_done) struct buf after = {0};
    struct kv2_config config;
    TRY(kv2_config_load(req, &config));
    ASSERT(config.delete_after_s <= INT64_MAX / 1000000000);
    if (config.delete_after_s < 0)
        buf_add_str(&after, "-1s");
    else
        text_duration_put(&after, config.delete_after_s * 1000000000);
    buf_add_u8(&after, 0);
    TRY(buf_status(&after));
    return req_reply(req, &(struct config_out){
                              .cas_required = config.cas_required,
                              .metadata_cas_required = config.metadata_cas_required,
                              .delete_version_after = (const char *)after.data,
                              .max_versions = config.max_versions,
                          });
}

enum status kv2_check_max_versions(struct req *req, int64_t max_versions)
{
    if (max_versions >= 0 && max_versions <= KV2_VERSIONS_MAX)
        return ST_OK;
    return req_fail(req, ST_INVALID, "max_versions: a number from 0 to %d is expected",
                    KV2_VERSIONS_MAX);
}

static enum status read_after(struct req *req, const char *text, int64_t *ret_s)
{
    int64_t ns;
    bool negative = text[0] == '-';
    if (text_duration_parse(bytes_str(text + negative), &ns) != ST_OK)
        return req_fail(req, ST_INVALID,
                        "delete_version_after: a duration such as 90 or \"1h30m\" is expected");
    ASSERT(ns >= 0);
    *ret_s = negative && ns != 0 ? -1 : ns / 1000000000;
    return ST_OK;
}

static enum status kv2_config_write(struct req *req)
{
    const struct config_in *in = req_body(req);
    struct kv2_config config;
    TRY(kv2_config_load(req, &config));
    if (in->has_max_versions) {
        TRY(kv2_check_max_versions(req, in->max_versions));
        config.max_versions = in->max_versions;
    }
    if (in->has_cas_required)
        config.cas_required = in->cas_required;
    if (in->has_metadata_cas_required)
        config.metadata_cas_required = in->metadata_cas_required;
    if (in->delete_version_after != NULL)
        TRY(read_after(req, in->delete_version_after, &config.delete_after_s));
    if (!in->has_max_versions && !in->has_cas_required && !in->has_metadata_cas_required &&
        in->delete_version_after == NULL)
        return ST_OK;
    return save(req, &config);
}

static const struct route config_routes[] = {
    {.method = METHOD_GET,
     .path = "config",
     .handler = kv2_config_read,
     .reply = &kv2_config_reply,
     .help = "The settings of the mount."},
    {.method = METHOD_POST,
     .path = "config",
     .handler = kv2_config_write,
     .body = &kv2_config_schema,
     .help =
         "Change settings of the mount. Fields that the request does not give keep their values."},
};

const struct route_table kv2_config_table = {config_routes, ARRAY_LEN(config_routes)};
