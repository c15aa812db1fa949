/* Version 2: the settings of a mount, stored at "config". */
#include "api/kv/kv2.h"
#include "state/state_record.h"
#include "text/duration.h"

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
    FIELD(struct config_in, delete_version_after, STRING, .exact = true,
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

struct config_bytes {
    struct kv2_config c;
    bool never; /* no deletion by age: c.delete_after_s is negative */
};
static const struct record_field config_record_fields[] = {
    RECORD_BITS_BYTE,
    RECORD_NAMED("cas_required", struct config_bytes, c.cas_required, FLAG, .mask = 1),
    RECORD_FIELD(struct config_bytes, never, FLAG, .mask = 2, .help = "no deletion by age"),
    RECORD_NAMED("metadata_cas_required", struct config_bytes, c.metadata_cas_required, FLAG,
                 .mask = 4),
    RECORD_NAMED("max_versions", struct config_bytes, c.max_versions, VARINT,
                 .max = KV2_VERSIONS_MAX, .help = "0: not set"),
    RECORD_NAMED("delete_after_s", struct config_bytes, c.delete_after_s, VARINT,
                 .max = INT64_MAX / 1000000000, .help = "0: not set"),
};
static const struct record config_record = {
    RECORD(struct config_bytes, config_record_fields), .name = "kv/config",
    .where = "Setting `config` of a mount of version 2", .newest = 1};
RECORD_LISTED(config_record);

enum status kv2_config_load(struct req *req, struct kv2_config *ret_config)
{
    struct config_bytes bytes = {.never = false};
    struct bytes key;
    TRY(req_key(req, "config", &key));
    enum status st = state_get_record(req->txn, key, &config_record, &bytes);
    if (st != ST_NOT_FOUND)
        TRY(st);
    if (bytes.never)
        bytes.c.delete_after_s = -1;
    ASSERT(bytes.c.delete_after_s >= -1);
    *ret_config = bytes.c;
    return ST_OK;
}

static enum status save(struct req *req, const struct kv2_config *config)
{
    struct config_bytes bytes = {*config, config->delete_after_s < 0};
    struct bytes key;
    ASSERT(config->max_versions >= 0 && config->max_versions <= KV2_VERSIONS_MAX);
    ASSERT(config->delete_after_s >= -1);
    bytes.c.delete_after_s = MAX(config->delete_after_s, INT64_C(0));
    TRY(req_key(req, "config", &key));
    return state_put_record(req->txn, key, &config_record, &bytes);
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
    int64_t ns, s = 0;
    bool negative = text[0] == '-';
    enum status st = negative ? text_duration_parse(bytes_str(text + 1), &ns)
                              : text_seconds_parse(bytes_str(text), &s);
    if (st != ST_OK || text[negative] == '\0')
        return req_fail(req, ST_INVALID,
                        "delete_version_after: a duration in whole seconds such as 90 or "
                        "\"1h30m\" is expected");
    ASSERT(s >= 0);
    *ret_s = negative && ns != 0 ? -1 : s;
    return ST_OK;
}

static enum status kv2_config_write(struct req *req)
{
    const struct config_in *in = req_body(req);
    struct kv2_config config;
    bool has_after = in->delete_version_after != NULL && in->delete_version_after[0] != '\0';
    TRY(kv2_config_load(req, &config));
    if (in->has_max_versions) {
        TRY(kv2_check_max_versions(req, in->max_versions));
        config.max_versions = in->max_versions;
    }
    if (in->has_cas_required)
        config.cas_required = in->cas_required;
    if (in->has_metadata_cas_required)
        config.metadata_cas_required = in->metadata_cas_required;
    if (has_after)
        TRY(read_after(req, in->delete_version_after, &config.delete_after_s));
    if (!in->has_max_versions && !in->has_cas_required && !in->has_metadata_cas_required &&
        !has_after)
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
