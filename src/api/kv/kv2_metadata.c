/* Version 2: the settings of a secret, and what is known of its versions. */
#include "api/kv/kv2.h"
#include "text/duration.h"
#include "text/merge.h"
#include "text/utf8.h"

#include <stdio.h>

enum { CUSTOM_KEYS_MAX = 64, CUSTOM_KEY_MAX = 128, CUSTOM_VALUE_MAX = 512 };

struct metadata_in {
    int64_t max_versions, delete_version_after, metadata_cas;
    bool cas_required, metadata_cas_required;
    bool has_max_versions, has_cas_required, has_delete_after;
    bool has_metadata_cas, has_metadata_cas_required;
    const struct text_value *custom_metadata;
};
static const struct field metadata_fields[] = {
    FIELD(struct metadata_in, max_versions, INT,
          .has = offsetof(struct metadata_in, has_max_versions),
          .help =
              "How many versions are kept; 0: as many as the mount's config says. The larger of "
              "both counts."),
    FIELD(struct metadata_in, cas_required, BOOL,
          .has = offsetof(struct metadata_in, has_cas_required),
          .help = "Whether every write must carry options.cas."),
    FIELD(struct metadata_in, metadata_cas, INT, .exact = true,
          .has = offsetof(struct metadata_in, has_metadata_cas),
          .help = "The current_metadata_version that these settings follow, or nothing is written; "
                  "0: the settings were never written."),
    FIELD(struct metadata_in, metadata_cas_required, BOOL,
          .has = offsetof(struct metadata_in, has_metadata_cas_required),
          .help = "Whether every write of these settings must carry metadata_cas."),
    FIELD(struct metadata_in, delete_version_after, DURATION,
          .has = offsetof(struct metadata_in, has_delete_after),
          .help =
              "Age at which versions are deleted; 0: as the mount's config says. The shorter of "
              "both counts. Versions that exist are not changed."),
    FIELD(struct metadata_in, custom_metadata, VALUE,
          .help = "Up to 64 pairs of strings, names up to 128 bytes, values up to 512. The pairs "
                  "replace all present pairs. A PATCH merges them: null removes a pair."),
};
static const struct schema kv2_metadata_schema = SCHEMA(struct metadata_in, metadata_fields);

struct version_out {
    const char *number;
    int64_t created_time, deletion_time;
    bool destroyed;
};
static const struct field version_fields[] = {
    FIELD(struct version_out, created_time, TIME, .blank = true),
    FIELD(struct version_out, deletion_time, TIME, .blank = true),
    FIELD(struct version_out, destroyed, BOOL),
};
static const struct schema version_schema =
    SCHEMA_NAMED(struct version_out, number, version_fields);

struct metadata_out {
    bool cas_required, metadata_cas_required;
    int64_t created_time, updated_time;
    struct bytes delete_version_after;
    int64_t current_version, current_metadata_version, oldest_version, max_versions;
    struct field_map custom_metadata;
    struct field_list versions;
};
static const struct field metadata_out_fields[] = {
    FIELD(struct metadata_out, cas_required, BOOL, .help = "Whether writes need options.cas."),
    FIELD(struct metadata_out, created_time, TIME, .blank = true,
          .help = "When the secret was first written."),
    FIELD(struct metadata_out, current_metadata_version, INT,
          .help = "How often the settings were written, for metadata_cas."),
    FIELD(struct metadata_out, current_version, INT, .help = "The newest version; 0: none."),
    FIELD(struct metadata_out, custom_metadata, MAP, .null = true,
          .help = "Pairs of strings, or null."),
    FIELD(struct metadata_out, delete_version_after, BYTES, .help = "\"0s\": versions stay."),
    FIELD(struct metadata_out, max_versions, INT, .help = "0: as the mount's config says."),
    FIELD(struct metadata_out, metadata_cas_required, BOOL,
          .help = "Whether writes of the settings need metadata_cas."),
    FIELD(struct metadata_out, oldest_version, INT,
          .help = "The oldest version that is left, once one was dropped; else 0."),
    FIELD(struct metadata_out, updated_time, TIME, .blank = true,
          .help = "When the secret was last changed."),
    FIELD(struct metadata_out, versions, TABLE, .sub = &version_schema,
          .help = "For each version that is left, by number: created_time, deletion_time and "
                  "destroyed."),
};
static const struct schema kv2_metadata_reply = SCHEMA(struct metadata_out, metadata_out_fields);

static enum status versions_of(const struct kv2_record *r, struct arena *arena,
                               struct field_list *ret)
{
    ASSERT(r->n <= KV2_VERSIONS_MAX);
    struct version_out *out = arena_alloc(arena, r->n * sizeof *out);
    if (out == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < r->n; i++) {
        const struct kv2_version *v = &r->versions[i];
        unsigned long long number = r->newest - r->n + 1 + i;
        out[i] = (struct version_out){.number = arena_format(arena, "%llu", number),
                                      .created_time = v->created_ms,
                                      .deletion_time = v->deleted_ms,
                                      .destroyed = v->place == KV2_DESTROYED};
        if (out[i].number == NULL)
            return ST_NOMEM;
    }
    *ret = (struct field_list){out, r->n};
    return ST_OK;
}

/* An arena of its own keeps the memory of a long listing bounded. */
static enum status put_metadata(const struct kv2_record *r, struct text_writer *w)
{
    CLEANUP(buf_done) struct buf after = {0};
    CLEANUP(arena_done) struct arena arena = {0};
    ASSERT(r->n <= r->newest);
    ASSERT(r->delete_after_s >= 0 && r->delete_after_s <= TEXT_DURATION_MAX_S);
    text_duration_put(&after, r->delete_after_s * 1000000000);
    TRY(buf_status(&after));
    uint64_t oldest = r->newest - r->n + 1;
    struct metadata_out out = {
        .cas_required = r->cas_required,
        .created_time = r->created_ms,
        .current_metadata_version = (int64_t)r->metadata_version,
        .current_version = (int64_t)r->newest,
        .custom_metadata = r->custom,
        .delete_version_after = buf_bytes(&after),
        .max_versions = (int64_t)r->max_versions,
        .metadata_cas_required = r->metadata_cas_required,
        .oldest_version = oldest > 1 ? (int64_t)oldest : 0,
        .updated_time = r->updated_ms,
    };
    TRY(versions_of(r, &arena, &out.versions));
    schema_encode(&kv2_metadata_reply, &out, w);
    return ST_OK;
}

static enum status kv2_metadata_read(struct req *req)
{
    struct kv2_secret secret;
    TRY(kv2_load(req, &secret));
    struct text_writer w = req_reply_begin(req);
    TRY(put_metadata(&secret.record, &w));
    return req_reply_end(req);
}

/* A folder has no metadata. */
static enum status put_details(struct req *req, struct bytes key, struct text_writer *w)
{
    struct kv2_secret secret;
    ASSERT(key.len > 0);
    if (key.data[key.len - 1] == '/') {
        text_open_object(w);
        text_close(w);
        return ST_OK;
    }
    TRY(kv2_load_key(req, key, &secret));
    return put_metadata(&secret.record, w);
}

static enum status kv2_metadata_list(struct req *req)
{
    struct bytes prefix;
    TRY(kv_key(req, &prefix));
    return req_reply_details(req, prefix, put_details);
}

static enum status fail_custom(struct req *req, const char *what)
{
    return req_fail(req, ST_INVALID, "custom_metadata validation failed: %s", what);
}

static enum status read_pair(struct req *req, const struct text_value *v, const char **ret_pair)
{
    if (v->kind != TEXT_STRING && v->kind != TEXT_NUMBER && v->kind != TEXT_BOOL)
        return fail_custom(req, "values are strings");
    struct bytes text = v->kind == TEXT_BOOL ? bytes_str(v->truth ? "1" : "0") : v->text;
    if (v->name.len == 0 || v->name.len > CUSTOM_KEY_MAX)
        return fail_custom(req, "a key has 1 to 128 bytes");
    if (text.len == 0 || text.len > CUSTOM_VALUE_MAX)
        return fail_custom(req, "a value has 1 to 512 bytes");
    if (!text_printable(v->name) || !text_printable(text))
        return fail_custom(req, "keys and values hold only characters that show");
    ret_pair[0] = arena_str(req->arena, v->name);
    ret_pair[1] = arena_str(req->arena, text);
    return ret_pair[0] != NULL && ret_pair[1] != NULL ? ST_OK : ST_NOMEM;
}

static enum status read_custom(struct req *req, const struct text_value *custom,
                               struct field_map *ret)
{
    size_t n = 0;
    if (custom->kind != TEXT_OBJECT)
        return fail_custom(req, "an object is expected");
    if (custom->n > CUSTOM_KEYS_MAX)
        return fail_custom(req, "there can be 64 keys");
    const char **pairs = arena_alloc(req->arena, (2 * custom->n + 1) * sizeof *pairs);
    if (pairs == NULL)
        return ST_NOMEM;
    TEXT_FOR (v, custom)
        TRY(read_pair(req, v, pairs + 2 * n++));
    ASSERT(n == custom->n);
    *ret = (struct field_map){.pairs = pairs, .n = n, .given = true};
    return ST_OK;
}

/* Do not overwrite settings that another request has written meanwhile. */
static enum status check_metadata_cas(struct req *req, const struct metadata_in *in,
                                      const struct kv2_config *config, const struct kv2_record *r)
{
    ASSERT(r->metadata_version <= INT64_MAX);
    if (!in->has_metadata_cas && (config->metadata_cas_required || r->metadata_cas_required))
        return req_fail(req, ST_INVALID, "metadata check-and-set parameter required for this call");
    bool is_new = r->newest == 0 && r->metadata_version == 0;
    if (in->has_metadata_cas && in->metadata_cas != 0 && is_new)
        return req_fail(req, ST_INVALID, "metadata_cas must be 0 when creating new metadata");
    if (in->has_metadata_cas &&
        (in->metadata_cas < 0 || (uint64_t)in->metadata_cas != r->metadata_version))
        return req_fail(req, ST_INVALID,
                        "metadata check-and-set parameter does not match the current version");
    return ST_OK;
}

static void warn_mandated(struct req *req, const char *field)
{
    req_warn(req,
             "\"%s\" set to false, but is mandated by backend config. This value will be ignored.",
             field);
}

static enum status apply(struct req *req, const struct metadata_in *in, struct kv2_record *r)
{
    struct kv2_config config;
    ASSERT(in->delete_version_after >= 0);
    if (in->has_max_versions) {
        TRY(kv2_check_max_versions(req, in->max_versions));
        r->max_versions = (uint64_t)in->max_versions;
    }
    if (in->has_delete_after)
        r->delete_after_s = in->delete_version_after;
    TRY(kv2_config_load(req, &config));
    TRY(check_metadata_cas(req, in, &config, r));
    r->metadata_version++;
    if (in->has_cas_required)
        r->cas_required = in->cas_required;
    if (in->has_metadata_cas_required)
        r->metadata_cas_required = in->metadata_cas_required;
    if (in->has_cas_required && config.cas_required && !in->cas_required)
        warn_mandated(req, "cas_required");
    if (in->has_metadata_cas_required && config.metadata_cas_required && !in->metadata_cas_required)
        warn_mandated(req, "metadata_cas_required");
    return ST_OK;
}

static bool has_setting(const struct metadata_in *in)
{
    return in->has_max_versions || in->has_cas_required || in->has_delete_after ||
           in->has_metadata_cas_required;
}

static enum status kv2_metadata_write(struct req *req)
{
    const struct metadata_in *in = req_body(req);
    const struct text_value *custom = in->custom_metadata;
    struct kv2_secret secret;

    bool has_custom = custom != NULL && custom->kind != TEXT_NULL;
    enum status st = kv2_load(req, &secret);
    if (st != ST_NOT_FOUND)
        TRY(st);
    if (!has_custom && !has_setting(in))
        return ST_OK;
    TRY(apply(req, in, &secret.record));
    if (has_custom)
        TRY(read_custom(req, custom, &secret.record.custom));
    return kv2_store(req, &secret);
}

static enum status custom_tree(struct req *req, const struct field_map *custom,
                               const struct text_value **ret_tree)
{
    struct text_value *tree = text_value_new(req->arena, NULL, TEXT_OBJECT, (struct bytes){0});
    if (tree == NULL)
        return ST_NOMEM;
    for (size_t i = 0; i < custom->n; i++) {
        struct text_value *v =
            text_value_new(req->arena, tree, TEXT_STRING, bytes_str(custom->pairs[2 * i]));
        if (v == NULL)
            return ST_NOMEM;
        v->text = bytes_str(custom->pairs[2 * i + 1]);
    }
    ASSERT(tree->n == custom->n);
    *ret_tree = tree;
    return ST_OK;
}

static bool is_null(const struct req *req, const char *name)
{
    ASSERT(req->data->kind == TEXT_OBJECT);
    const struct text_value *v = text_get(req->data, name);
    return v != NULL && v->kind == TEXT_NULL;
}

/* Whether a PATCH sets a setting back to its default by null. */
static bool takes_back(const struct req *req)
{
    return is_null(req, "max_versions") || is_null(req, "delete_version_after") ||
           is_null(req, "cas_required") || is_null(req, "metadata_cas_required") ||
           is_null(req, "custom_metadata");
}

static enum status kv2_metadata_patch(struct req *req)
{
    const struct metadata_in *in = req_body(req);
    const struct text_value *old, *merged;
    struct kv2_secret secret;
    struct kv2_record *r = &secret.record;

    TRY(kv2_load(req, &secret));
    if (!has_setting(in) && in->custom_metadata == NULL && !takes_back(req))
        return ST_OK;
    TRY(apply(req, in, r));
    if (is_null(req, "max_versions"))
        r->max_versions = 0;
    if (is_null(req, "delete_version_after"))
        r->delete_after_s = 0;
    if (is_null(req, "cas_required"))
        r->cas_required = false;
    if (is_null(req, "metadata_cas_required"))
        r->metadata_cas_required = false;
    if (is_null(req, "custom_metadata")) {
        r->custom = (struct field_map){0};
    } else if (in->custom_metadata != NULL) {
        if (in->custom_metadata->kind != TEXT_OBJECT)
            return fail_custom(req, "an object is expected");
        TRY(custom_tree(req, &r->custom, &old));
        TRY(text_merge_patch(req->arena, old, in->custom_metadata, &merged));
        TRY(read_custom(req, merged, &r->custom));
    }
    return kv2_store(req, &secret);
}

static enum status kv2_metadata_delete(struct req *req)
{
    struct kv2_secret secret;
    enum status st = kv2_load(req, &secret);
    if (st == ST_NOT_FOUND)
        return ST_OK;
    TRY(st);
    return kv2_remove(req, &secret);
}

static const struct route metadata_routes[] = {
    {.method = METHOD_LIST,
     .path = "metadata/*path",
     .handler = kv_list,
     .flags = ROUTE_SCANS,
     .help = "List the names in a folder; folders end with '/'. Query: `after`, the name to start "
             "after, and `limit`. SCAN lists everything below the folder."},
    {.method = METHOD_LIST,
     .path = "detailed-metadata/*path",
     .handler = kv2_metadata_list,
     .flags = ROUTE_SCANS,
     .reply = &kv2_metadata_reply,
     /* A folder has an empty object in place of metadata. */
     .shape = "{keys:[str] key_info:{*:({@}|{})}}",
     .help = "List as metadata/ does, with the metadata of each secret. Long listings come in "
             "parts: the query gives `after` and `limit`."},
    {.method = METHOD_GET,
     .path = "metadata/+path",
     .handler = kv2_metadata_read,
     .reply = &kv2_metadata_reply,
     .help = "Read the settings of a secret and the metadata of its versions."},
    {.method = METHOD_POST,
     .path = "metadata/+path",
     .handler = kv2_metadata_write,
     .exists = kv_exists,
     .body = &kv2_metadata_schema,
     .help = "Change settings of a secret, or create a secret that has no version yet. Settings "
             "that the request does not name keep their values."},
    {.method = METHOD_PATCH,
     .path = "metadata/+path",
     .handler = kv2_metadata_patch,
     .body = &kv2_metadata_schema,
     .help = "Change settings of a secret that exists; null sets a setting back to its default."},
    {.method = METHOD_DELETE,
     .path = "metadata/+path",
     .handler = kv2_metadata_delete,
     .help = "Remove a secret with all versions and metadata for good."},
};

const struct route_table kv2_metadata_table = {metadata_routes, ARRAY_LEN(metadata_routes)};
