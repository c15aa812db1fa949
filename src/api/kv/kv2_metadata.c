#include "api/kv/kv2.h"
#include "text/duration.h"
#include "text/merge.h"
#include "text/utf8.h"

#include <stdio.h>

enum { CUSTOM_KEYS_MAX = 64, CUSTOM_KEY_MAX = 128, CUSTOM_VALUE_MAX = 512 };

struct metadata_in {
    int64_t max_versions, delete_version_after;
    bool cas_required, has_max_versions, has_cas_required, has_delete_after;
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
    FIELD(struct metadata_in, delete_version_after, DURATION,
          .has = offsetof(struct metadata_in, has_delete_after),
          .help =
              "Age at which versions are deleted; 0: as the mount's config says. The shorter of "
              "both counts. Versions that exist are not changed."),
    FIELD(struct metadata_in, custom_metadata, VALUE,
          .help = "Up to 64 pairs of strings, names of 128 bytes and values of 512; they replace "
                  "those that were there. A PATCH merges them instead, null removes one."),
};
const struct schema kv2_metadata_schema = SCHEMA(struct metadata_in, metadata_fields);

struct metadata_out {
    bool cas_required;
    const char *created_time, *updated_time, *delete_version_after;
    int64_t current_version, oldest_version, max_versions;
    const struct text_value *custom_metadata, *versions;
};
static const struct field metadata_out_fields[] = {
    FIELD(struct metadata_out, cas_required, BOOL, .help = "Whether writes need options.cas."),
    FIELD(struct metadata_out, created_time, STRING, .help = "When the secret was first written."),
    FIELD(struct metadata_out, current_version, INT, .help = "The newest version; 0: none."),
    FIELD(struct metadata_out, custom_metadata, VALUE, .shape = "map~",
          .help = "Pairs of strings, or null."),
    FIELD(struct metadata_out, delete_version_after, STRING, .help = "\"0s\": versions stay."),
    FIELD(struct metadata_out, max_versions, INT, .help = "0: as the mount's config says."),
    FIELD(struct metadata_out, oldest_version, INT,
          .help = "The oldest version that is left, once one was dropped; else 0."),
    FIELD(struct metadata_out, updated_time, STRING, .help = "When it was last changed."),
    FIELD(struct metadata_out, versions, VALUE,
          .shape = "{*:{created_time:str deletion_time:str destroyed:bool}}",
          .help = "For each version that is left, by number: created_time, deletion_time and "
                  "destroyed."),
};
const struct schema kv2_metadata_reply = SCHEMA(struct metadata_out, metadata_out_fields);

static void put_versions(struct text_writer *w, const struct kv2_record *r)
{
    text_key(w, "versions");
    text_open_object(w);
    for (size_t i = 0; i < r->n; i++) {
        char number[24];
        (void)snprintf(number, sizeof number, "%llu",
                       (unsigned long long)(r->newest - r->n + 1 + i));
        text_key(w, number);
        text_open_object(w);
        kv2_put_time(w, "created_time", r->versions[i].created_ms);
        kv2_put_time(w, "deletion_time", r->versions[i].deleted_ms);
        text_member_bool(w, "destroyed", r->versions[i].place == KV2_DESTROYED);
        text_close(w);
    }
    text_close(w);
}

enum status kv2_metadata_read(struct req *req)
{
    CLEANUP(buf_done) struct buf after = {0};
    struct kv2_secret secret;
    const struct kv2_record *r = &secret.record;

    TRY(kv2_load(req, &secret));
    text_duration_put(&after, r->delete_after_s * 1000000000);
    TRY(buf_status(&after));
    uint64_t oldest = r->newest - r->n + 1;
    struct text_writer w = req_reply_begin(req);
    text_open_object(&w);
    text_member_bool(&w, "cas_required", r->cas_required);
    kv2_put_time(&w, "created_time", r->created_ms);
    text_member_int(&w, "current_version", (int64_t)r->newest);
    kv2_put_custom(&w, &r->custom);
    text_key(&w, "delete_version_after");
    text_put_bytes(&w, buf_bytes(&after));
    text_member_int(&w, "max_versions", (int64_t)r->max_versions);
    text_member_int(&w, "oldest_version", oldest > 1 ? (int64_t)oldest : 0);
    kv2_put_time(&w, "updated_time", r->updated_ms);
    put_versions(&w, r);
    text_close(&w);
    return req_reply_end(req);
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
    *ret = (struct field_map){.pairs = pairs, .n = n, .given = true};
    return ST_OK;
}

static enum status apply(struct req *req, const struct metadata_in *in, struct kv2_record *r)
{
    struct kv2_config config;
    if (in->has_max_versions) {
        TRY(kv2_check_max_versions(req, in->max_versions));
        r->max_versions = (uint64_t)in->max_versions;
    }
    if (in->has_delete_after)
        r->delete_after_s = in->delete_version_after;
    if (!in->has_cas_required)
        return ST_OK;
    r->cas_required = in->cas_required;
    TRY(kv2_config_load(req, &config));
    if (config.cas_required && !in->cas_required)
        req_warn(req,
                 "\"cas_required\" set to false, but is mandated by backend config. This value "
                 "will be ignored.");
    return ST_OK;
}

enum status kv2_metadata_write(struct req *req)
{
    const struct metadata_in *in = req_body(req);
    const struct text_value *custom = in->custom_metadata;
    struct kv2_secret secret;

    bool has_custom = custom != NULL && custom->kind != TEXT_NULL;
    enum status st = kv2_load(req, &secret);
    if (st != ST_NOT_FOUND)
        TRY(st);
    if (!has_custom && !in->has_max_versions && !in->has_cas_required && !in->has_delete_after)
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
    *ret_tree = tree;
    return ST_OK;
}

static bool is_null(const struct req *req, const char *name)
{
    const struct text_value *v = text_get(req->data, name);
    return v != NULL && v->kind == TEXT_NULL;
}

enum status kv2_metadata_patch(struct req *req)
{
    const struct metadata_in *in = req_body(req);
    const struct text_value *old, *merged;
    struct kv2_secret secret;
    struct kv2_record *r = &secret.record;

    TRY(kv2_load(req, &secret));
    TRY(apply(req, in, r));
    if (is_null(req, "max_versions"))
        r->max_versions = 0;
    if (is_null(req, "delete_version_after"))
        r->delete_after_s = 0;
    if (is_null(req, "cas_required"))
        r->cas_required = false;
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

enum status kv2_metadata_delete(struct req *req)
{
    struct kv2_secret secret;
    enum status st = kv2_load(req, &secret);
    if (st == ST_NOT_FOUND)
        return ST_OK;
    TRY(st);
    return kv2_remove(req, &secret);
}
