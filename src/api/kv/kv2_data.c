/* Version 2: read, write and patch the data of a secret; the names inside it. */
#include "api/kv/kv2.h"
#include "text/merge.h"

struct read_in {
    int64_t version, depth;
};
static const struct field read_fields[] = {
    FIELD(struct read_in, version, INT, .help = "Number of the version; 0 or none: the newest."),
};
static const struct schema kv2_read_schema = SCHEMA(struct read_in, read_fields);

static const struct field subkeys_fields[] = {
    FIELD(struct read_in, version, INT, .help = "Number of the version; 0 or none: the newest."),
    FIELD(struct read_in, depth, INT, .help = "How many levels are shown; 0 or none: all."),
};
static const struct schema kv2_subkeys_schema = SCHEMA(struct read_in, subkeys_fields);

struct write_in {
    const struct text_value *data, *options;
};
static const struct field write_fields[] = {
    FIELD(struct write_in, data, VALUE,
          .help = "The secret: an object. A PATCH merges it into the "
                  "newest version (RFC 7396)."),
    FIELD(struct write_in, options, VALUE,
          .help = "An object. Its member cas is the number of the newest version, 0 for no "
                  "version. With another number nothing is written."),
};
static const struct schema kv2_write_schema = SCHEMA(struct write_in, write_fields);

static const struct field version_fields[] = {
    FIELD_NAMED("created_time", struct kv2_version_out, created_ms, TIME, .blank = true,
                .help = "When the version was written."),
    FIELD(struct kv2_version_out, custom_metadata, MAP, .null = true,
          .help = "Of the secret, or null."),
    FIELD_NAMED("deletion_time", struct kv2_version_out, deleted_ms, TIME, .blank = true,
                .help = "When the version was or will be deleted; empty: never."),
    FIELD(struct kv2_version_out, destroyed, BOOL, .help = "Whether its data is gone for good."),
    FIELD(struct kv2_version_out, version, INT, .help = "Number of the version, from 1."),
};
static const struct schema kv2_version_reply = SCHEMA(struct kv2_version_out, version_fields);

struct read_out {
    struct bytes data;
    const struct text_value *subkeys;
    const void *metadata;
};
static const struct field read_out_fields[] = {
    FIELD(struct read_out, data, JSON,
          .help = "The secret; null with status 404 when the version "
                  "was deleted or destroyed."),
    FIELD(struct read_out, metadata, OBJECT, .sub = &kv2_version_reply, .help = "Of the version."),
};
static const struct schema kv2_read_reply = SCHEMA(struct read_out, read_out_fields);

static const struct field subkeys_out_fields[] = {
    FIELD(struct read_out, metadata, OBJECT, .sub = &kv2_version_reply, .help = "Of the version."),
    FIELD(struct read_out, subkeys, TREE,
          .help =
              "The names of the secret with null for every value; null with status 404 when the "
              "version was deleted or destroyed."),
};
static const struct schema kv2_subkeys_reply = SCHEMA(struct read_out, subkeys_out_fields);

/* The version that the request asks for; 0: the newest. ST_NOT_FOUND: the version does not exist.
 */
static enum status find(struct req *req, int64_t number, struct kv2_secret *secret,
                        struct kv2_version **ret_version)
{
    if (number < 0)
        return req_fail(req, ST_INVALID, "version: a number of 0 or more is expected");
    TRY(kv2_load(req, secret));
    ASSERT(secret->record.n <= secret->record.newest);
    struct kv2_version *v =
        kv2_record_version(&secret->record, number > 0 ? (uint64_t)number : secret->record.newest);
    if (v == NULL)
        return ST_NOT_FOUND;
    *ret_version = v;
    return ST_OK;
}

static enum status kv2_data_read(struct req *req)
{
    const struct read_in *in = req_body(req);
    struct kv2_secret secret;
    struct kv2_version *version;
    struct bytes data = BYTES("null");

    TRY(find(req, in->version, &secret, &version));
    if (kv2_version_lives(version, req->now_ms))
        TRY(kv2_data(req, &secret, version, &data));
    else
        req->reply.http = 404;
    const struct kv2_version_out metadata = kv2_version_out(&secret, version);
    ASSERT(in->version == 0 || metadata.version == in->version);
    return req_reply(req, &(struct read_out){.data = data, .metadata = &metadata});
}

/* Writing */

static enum status fail_cas(struct req *req)
{
    return req_fail(req, ST_INVALID, "error parsing check-and-set parameter");
}

static enum status check_cas(struct req *req, const struct write_in *in,
                             const struct kv2_config *config, const struct kv2_record *record)
{
    const struct text_value *cas = NULL;
    int64_t number;
    if (in->options != NULL && in->options->kind != TEXT_NULL) {
        if (in->options->kind != TEXT_OBJECT)
            return req_fail(req, ST_INVALID, "options: an object is expected, not %s",
                            text_kind_name(in->options->kind));
        cas = text_get(in->options, "cas");
    }
    if (cas == NULL || cas->kind == TEXT_NULL) {
        if (config->cas_required || record->cas_required)
            return req_fail(req, ST_INVALID, "check-and-set parameter required for this call");
        return ST_OK;
    }
    if (cas->kind != TEXT_NUMBER && cas->kind != TEXT_STRING)
        return fail_cas(req);
    if (text_int_parse(cas->text, &number) != ST_OK || number < 0)
        return fail_cas(req);
    ASSERT(record->newest <= INT64_MAX);
    if ((uint64_t)number != record->newest)
        return req_fail(req, ST_INVALID,
                        "check-and-set parameter did not match the current version");
    return ST_OK;
}

static enum status check_data(struct req *req, const struct write_in *in)
{
    if (in->data == NULL || in->data->kind == TEXT_NULL)
        return req_fail(req, ST_INVALID, "no data provided");
    if (in->data->kind != TEXT_OBJECT)
        return req_fail(req, ST_INVALID,
                        "Field validation failed: data: an object is expected, not %s",
                        text_kind_name(in->data->kind));
    return ST_OK;
}

static enum status reply_version(struct req *req, const struct kv2_secret *secret,
                                 const struct kv2_version *version)
{
    const struct kv2_version_out out = kv2_version_out(secret, version);
    return req_reply(req, &out);
}

static enum status write_version(struct req *req, const struct kv2_config *config,
                                 struct kv2_secret *secret, const struct text_value *object)
{
    CLEANUP(buf_done) struct buf data = {0};
    const struct kv2_record *r = &secret->record;
    struct text_writer w = {.out = &data, .plain = true};
    ASSERT(object->kind == TEXT_OBJECT);
    text_put_value(&w, object);
    TRY(buf_status(&data));
    TRY(kv2_add_version(req, config, secret, buf_bytes(&data)));
    ASSERT(r->n > 0 && r->newest > 0);
    return reply_version(req, secret, kv2_record_version(r, r->newest));
}

static enum status kv2_data_write(struct req *req)
{
    const struct write_in *in = req_body(req);
    struct kv2_config config;
    struct kv2_secret secret;

    TRY(check_data(req, in));
    TRY(kv2_config_load(req, &config));
    enum status st = kv2_load(req, &secret);
    if (st != ST_NOT_FOUND)
        TRY(st);
    TRY(check_cas(req, in, &config, &secret.record));
    return write_version(req, &config, &secret, in->data);
}

static enum status parse(struct req *req, struct bytes data, const struct text_value **ret_object)
{
    enum status st = text_json_parse(req->arena, data, ret_object, NULL);
    if (st == ST_OK && (*ret_object)->kind != TEXT_OBJECT)
        return ST_CORRUPT;
    return st == ST_OK || st == ST_NOMEM ? st : ST_CORRUPT;
}

static enum status kv2_data_patch(struct req *req)
{
    const struct write_in *in = req_body(req);
    const struct text_value *old, *merged;
    struct kv2_config config;
    struct kv2_secret secret;
    struct bytes data;

    TRY(check_data(req, in));
    TRY(kv2_load(req, &secret));
    TRY(kv2_config_load(req, &config));
    TRY(check_cas(req, in, &config, &secret.record));
    struct kv2_version *newest = kv2_record_version(&secret.record, secret.record.newest);
    if (newest == NULL)
        return ST_NOT_FOUND;
    if (!kv2_version_lives(newest, req->now_ms)) {
        req->reply.http = 404;
        return reply_version(req, &secret, newest);
    }
    TRY(kv2_data(req, &secret, newest, &data));
    TRY(parse(req, data, &old));
    TRY(text_merge_patch(req->arena, old, in->data, &merged));
    return write_version(req, &config, &secret, merged);
}

/* Structure without values */

/* Copy the names of `from` to `to`. A value is replaced by null if it is not an object, is an empty
 * object, or lies below `depth`; a `depth` of 0 sets no limit. The recursion is at most as deep as
 * a JSON text may be. */
static enum status add_names(struct arena *arena, struct text_value *to,
                             const struct text_value *from, int64_t depth)
{
    ASSERT(depth >= 0);
    ASSERT(to->kind == TEXT_OBJECT && from->kind == TEXT_OBJECT);
    TEXT_FOR (v, from) {
        bool inner = v->kind == TEXT_OBJECT && v->n > 0 && depth != 1;
        struct text_value *copy =
            text_value_new(arena, to, inner ? TEXT_OBJECT : TEXT_NULL, v->name);
        if (copy == NULL)
            return ST_NOMEM;
        if (inner)
            TRY(add_names(arena, copy, v, depth == 0 ? 0 : depth - 1));
    }
    return ST_OK;
}

static enum status names_of(struct req *req, struct bytes data, int64_t depth,
                            const struct text_value **ret_names)
{
    const struct text_value *object;
    TRY(parse(req, data, &object));
    struct text_value *names = text_value_new(req->arena, NULL, TEXT_OBJECT, (struct bytes){0});
    if (names == NULL)
        return ST_NOMEM;
    TRY(add_names(req->arena, names, object, depth));
    ASSERT(names->n == object->n);
    *ret_names = names;
    return ST_OK;
}

static enum status kv2_subkeys_read(struct req *req)
{
    const struct read_in *in = req_body(req);
    const struct text_value *names = NULL;
    struct kv2_secret secret;
    struct kv2_version *version;
    struct bytes data;

    if (in->depth < 0)
        return req_fail(req, ST_INVALID, "depth: a number of 0 or more is expected");
    TRY(find(req, in->version, &secret, &version));
    if (kv2_version_lives(version, req->now_ms)) {
        TRY(kv2_data(req, &secret, version, &data));
        TRY(names_of(req, data, in->depth, &names));
    } else {
        req->reply.http = 404;
    }
    const struct kv2_version_out metadata = kv2_version_out(&secret, version);
    return req_reply(req, &(struct read_out){.subkeys = names, .metadata = &metadata});
}

static const struct route data_routes[] = {
    {.method = METHOD_GET,
     .path = "data/+path",
     .handler = kv2_data_read,
     .body = &kv2_read_schema,
     .reply = &kv2_read_reply,
     .help = "Read a version of a secret. For a deleted or destroyed version the reply is 404, "
             "with its metadata."},
    {.method = METHOD_POST,
     .path = "data/+path",
     .handler = kv2_data_write,
     .exists = kv_exists,
     .body = &kv2_write_schema,
     .reply = &kv2_version_reply,
     .help =
         "Write a new version of a secret. The oldest versions above max_versions are dropped."},
    {.method = METHOD_PATCH,
     .path = "data/+path",
     .handler = kv2_data_patch,
     .body = &kv2_write_schema,
     .reply = &kv2_version_reply,
     .help = "Apply a JSON merge patch to the newest version, and write the result as a new "
             "version. The newest version must not be deleted."},
    {.method = METHOD_GET,
     .path = "subkeys/+path",
     .handler = kv2_subkeys_read,
     .body = &kv2_subkeys_schema,
     .reply = &kv2_subkeys_reply,
     .help = "Read the names within a secret, without their values."},
};

const struct route_table kv2_data_table = {data_routes, ARRAY_LEN(data_routes)};
