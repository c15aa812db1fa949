/* Version 2: delete, undelete and destroy versions. A deleted version can be restored, a destroyed
 * version cannot. Versions that do not exist are skipped. */
#include "api/kv/kv2.h"

struct versions_in {
    struct field_strings versions;
};
static const struct field versions_fields[] = {
    FIELD(struct versions_in, versions, STRINGS, .help = "Numbers of versions."),
};
static const struct schema kv2_versions_schema = SCHEMA(struct versions_in, versions_fields);

static enum status delete_version(struct req *req, struct kv2_secret *secret,
                                  struct kv2_version *version)
{
    (void)secret;
    if (kv2_version_lives(version, req->now_ms)) {
        version->deleted_ms = MAX(req->now_ms, version->created_ms);
        version->ended = true;
    }
    return ST_OK;
}

/* Where versions are deleted by their age, the age counts from now. */
static enum status undelete_version(struct req *req, struct kv2_secret *secret,
                                    struct kv2_version *version)
{
    struct kv2_config config;
    if (version->place == KV2_DESTROYED)
        return ST_OK;
    TRY(kv2_config_load(req, &config));
    int64_t from_ms = MAX(req->now_ms, version->created_ms);
    version->deleted_ms = kv2_deletion_time(&config, &secret->record, from_ms);
    version->ended = false;
    ASSERT(version->deleted_ms == 0 || version->deleted_ms >= from_ms);
    return ST_OK;
}

static enum status destroy_version(struct req *req, struct kv2_secret *secret,
                                   struct kv2_version *version)
{
    return kv2_destroy_version(req, secret, version);
}

/* Change every version that the request lists, in one transaction. */
static enum status each(struct req *req,
                        enum status (*change)(struct req *req, struct kv2_secret *secret,
                                              struct kv2_version *version))
{
    const struct versions_in *in = req_body(req);
    struct kv2_secret secret;
    int64_t number;

    if (in->versions.n == 0)
        return req_fail(req, ST_INVALID, "No version number provided");
    for (size_t i = 0; i < in->versions.n; i++)
        if (text_int_parse(bytes_str(in->versions.items[i]), &number) != ST_OK || number < 0)
            return req_fail(req, ST_INVALID,
                            "Field validation failed: versions: whole numbers are expected");
    enum status st = kv2_load(req, &secret);
    if (st == ST_NOT_FOUND)
        return ST_OK;
    TRY(st);
    for (size_t i = 0; i < in->versions.n; i++) {
        TRY(text_int_parse(bytes_str(in->versions.items[i]), &number));
        ASSERT(number >= 0);
        struct kv2_version *version = kv2_record_version(&secret.record, (uint64_t)number);
        if (version != NULL)
            TRY(change(req, &secret, version));
    }
    return kv2_store_marks(req, &secret);
}

static enum status kv2_delete(struct req *req)
{
    return each(req, delete_version);
}

static enum status kv2_undelete(struct req *req)
{
    return each(req, undelete_version);
}

static enum status kv2_destroy(struct req *req)
{
    return each(req, destroy_version);
}

static enum status kv2_data_delete(struct req *req)
{
    struct kv2_secret secret;
    enum status st = kv2_load(req, &secret);
    if (st == ST_NOT_FOUND)
        return ST_OK;
    TRY(st);
    struct kv2_version *newest = kv2_record_version(&secret.record, secret.record.newest);
    if (newest == NULL || !kv2_version_lives(newest, req->now_ms))
        return ST_OK;
    TRY(delete_version(req, &secret, newest));
    ASSERT(newest->ended && newest->deleted_ms >= newest->created_ms);
    return kv2_store_marks(req, &secret);
}

static const struct route versions_routes[] = {
    {.method = METHOD_DELETE,
     .path = "data/+path",
     .handler = kv2_data_delete,
     .help = "Delete the newest version of a secret; undelete restores the version."},
    {.method = METHOD_POST,
     .path = "delete/+path",
     .handler = kv2_delete,
     .body = &kv2_versions_schema,
     .help = "Delete versions of a secret; undelete restores them."},
    {.method = METHOD_POST,
     .path = "undelete/+path",
     .handler = kv2_undelete,
     .body = &kv2_versions_schema,
     .help = "Take back the deletion of versions that were not destroyed. Where versions are "
             "deleted by their age, their time starts anew."},
    {.method = METHOD_POST,
     .path = "destroy/+path",
     .handler = kv2_destroy,
     .body = &kv2_versions_schema,
     .help = "Remove the data of versions for good."},
};

const struct route_table kv2_versions_table = {versions_routes, ARRAY_LEN(versions_routes)};
