/* Secret ids. A secret id is stored by its HMAC. */
#include "api/approle/approle.h"
#include "base/record.h"
#include "text/cidr.h"
#include "text/encode.h"
#include "text/random.h"

enum { TIDY_MAX = 1000 }; /* expired secret ids that one request deletes */

/* The stored form */

static const struct record_field text_fields[] = {RECORD_ITSELF("text", const char *, TEXT0)};
static const struct record text_record = {RECORD(const char *, text_fields),
                                          .name = "approle/text"};
struct pair {
    const char *key, *value;
};
static const struct record_field pair_fields[] = {RECORD_FIELD(struct pair, key, TEXT0),
                                                  RECORD_FIELD(struct pair, value, TEXT0)};
static const struct record pair_record = {RECORD(struct pair, pair_fields), .name = "approle/pair"};

static const struct record_field secret_fields[] = {
    RECORD_FIELD(struct approle_secret, accessor, TEXT0, .min = 1),
    RECORD_FIELD(struct approle_secret, uses, VARINT, .help = "uses left; 0: any number"),
    RECORD_FIELD(struct approle_secret, ttl_s, VARINT),
    RECORD_FIELD(struct approle_secret, created_ms, U64, .max = TEXT_CLOCK_END - 1),
    RECORD_FIELD(struct approle_secret, updated_ms, U64, .max = TEXT_CLOCK_END - 1),
    RECORD_FIELD(struct approle_secret, expire_ms, U64, .max = TEXT_EXPIRY_END - 1),
    RECORD_ITEMS("cidrs", struct approle_secret, cidrs.items, cidrs.n, LIST, &text_record,
                 .max = APPROLE_CIDRS_MAX),
    RECORD_ITEMS("token_cidrs", struct approle_secret, token_cidrs.items, token_cidrs.n, LIST,
                 &text_record, .max = APPROLE_CIDRS_MAX),
    RECORD_ITEMS("metadata", struct approle_secret, metadata.pairs, metadata.n, LIST, &pair_record,
                 .max = IDENTITY_META_MAX),
};
static const struct record secret_record = {
    RECORD(struct approle_secret, secret_fields), .name = "approle/secret", .newest = 1,
    .where = "The secret id of an approle role, below its mount: `secret/ROLE/HMAC`"};
RECORD_LISTED(secret_record);

enum status approle_mac(struct req *req, const char *role, const char *secret_id,
                        char ret_mac[APPROLE_MAC_LEN + 1])
{
    CLEANUP(buf_done) struct buf message = {0};
    uint8_t mac[BARRIER_MAC_BYTES];
    buf_add_str(&message, "approle");
    buf_add_str(&message, req->mount->uuid);
    buf_add_str(&message, role);
    buf_add_str(&message, secret_id);
    TRY(buf_status(&message));
    TRY(barrier_mac(req->cipher, buf_bytes(&message), mac));
    text_hex_put(bytes_of(mac, sizeof mac), ret_mac);
    return ST_OK;
}

static enum status secret_key(struct req *req, const char *folder, const char *role,
                              const char *last, struct bytes *ret_key)
{
    const char *path = approle_path(req, folder, role, last);
    return path != NULL ? req_key(req, path, ret_key) : ST_NOMEM;
}

enum status approle_secret_load(struct req *req, const char *role, const char *mac,
                                struct approle_secret *ret_secret)
{
    struct state_value stored;
    struct bytes key;
    TRY(secret_key(req, "secret", role, mac, &key));
    TRY(state_get(req->txn, key, &stored));
    *ret_secret = (struct approle_secret){.uses = 0};
    TRY(record_decode(&secret_record, stored.value, req->arena, ret_secret));
    ret_secret->cidrs.given = ret_secret->token_cidrs.given = ret_secret->metadata.given = true;
    return ST_OK;
}

enum status approle_secret_save(struct req *req, const char *role, const char *mac,
                                const struct approle_secret *secret)
{
    CLEANUP(buf_done) struct buf record = {0};
    struct bytes key;
    TRY(record_encode(&secret_record, secret, &record));
    TRY(secret_key(req, "secret", role, mac, &key));
    TRY(state_put(req->txn, key, buf_bytes(&record)));
    TRY(secret_key(req, "accessor", role, secret->accessor, &key));
    return state_put(req->txn, key, bytes_str(mac));
}

enum status approle_secret_drop(struct req *req, const char *role, const char *mac,
                                const struct approle_secret *secret)
{
    struct bytes key;
    TRY(secret_key(req, "secret", role, mac, &key));
    TRY(state_delete(req->txn, key));
    TRY(secret_key(req, "accessor", role, secret->accessor, &key));
    return state_delete(req->txn, key);
}

/* Making secret ids */

struct secret_in {
    const char *secret_id;
    const struct text_value *metadata;
    struct field_strings cidr_list, token_bound_cidrs;
    int64_t num_uses, ttl;
    bool has_uses, has_ttl;
};
#define SECRET_FIELDS                                                                        \
    FIELD(struct secret_in, metadata, VALUE,                                                 \
          .help = "Metadata of the tokens: an object, or one as JSON text in a string."),    \
        FIELD(struct secret_in, cidr_list, STRINGS,                                          \
              .help = "Addresses that may use the secret id; a part of those of the role."), \
        FIELD(struct secret_in, token_bound_cidrs, STRINGS,                                  \
              .help = "Addresses that may use the tokens; a part of those of the role."),    \
        FIELD(struct secret_in, num_uses, INT, .has = offsetof(struct secret_in, has_uses),  \
              .help = "How many logins it allows, at most as many as the role allows."),     \
        FIELD(struct secret_in, ttl, DURATION, .has = offsetof(struct secret_in, has_ttl),   \
              .help = "How long it lives, at most as long as the role allows.")
static const struct field secret_in_fields[] = {SECRET_FIELDS};
static const struct schema secret_in_schema = SCHEMA(struct secret_in, secret_in_fields);
static const struct field custom_fields[] = {FIELD(struct secret_in, secret_id, STRING,
                                                   .preset = "", .hidden = true,
                                                   .help = "The secret id."),
                                             SECRET_FIELDS};
static const struct schema custom_schema = SCHEMA(struct secret_in, custom_fields);

struct secret_out {
    const char *secret_id, *accessor;
    int64_t ttl, uses;
};
static const struct field secret_out_fields[] = {
    FIELD(struct secret_out, secret_id, STRING),
    FIELD_NAMED("secret_id_accessor", struct secret_out, accessor, STRING),
    FIELD_NAMED("secret_id_ttl", struct secret_out, ttl, INT),
    FIELD_NAMED("secret_id_num_uses", struct secret_out, uses, INT),
};
static const struct schema secret_out_schema = SCHEMA(struct secret_out, secret_out_fields);

/* The metadata: an object of strings, or its JSON text. */
static enum status read_metadata(struct req *req, const struct text_value *value,
                                 struct field_map *ret_map)
{
    *ret_map = (struct field_map){.given = true};
    if (value == NULL || (value->kind == TEXT_STRING && value->text.len == 0))
        return ST_OK;
    if (value->kind == TEXT_STRING &&
        text_json_parse(req->arena, value->text, &value, NULL) != ST_OK)
        return req_fail(req, ST_INVALID, "metadata: JSON text of an object is expected");
    if (value->kind != TEXT_OBJECT || value->n > IDENTITY_META_MAX)
        return req_fail(req, ST_INVALID, "metadata: an object of at most %d strings is expected",
                        IDENTITY_META_MAX);
    const char **pairs = arena_alloc(req->arena, (2 * value->n + 1) * sizeof *pairs);
    if (pairs == NULL)
        return ST_NOMEM;
    TEXT_FOR (member, value) {
        if (member->kind != TEXT_STRING || member->name.len == 0 ||
            member->name.len > IDENTITY_META_KEY_MAX ||
            member->text.len > IDENTITY_META_VALUE_MAX ||
            memchr(member->text.data, 0, member->text.len) != NULL ||
            memchr(member->name.data, 0, member->name.len) != NULL)
            return req_fail(req, ST_INVALID,
                            "metadata: strings of at most %d bytes under names of at most %d bytes "
                            "are expected",
                            IDENTITY_META_VALUE_MAX, IDENTITY_META_KEY_MAX);
        pairs[2 * ret_map->n] = arena_str(req->arena, member->name);
        pairs[2 * ret_map->n + 1] = arena_str(req->arena, member->text);
        if (pairs[2 * ret_map->n] == NULL || pairs[2 * ret_map->n + 1] == NULL)
            return ST_NOMEM;
        ret_map->n++;
    }
    ret_map->pairs = pairs;
    return ST_OK;
}

/* Whether each block of `cidrs` lies in one of the blocks of the role, if the role has some. */
static enum status check_part(struct req *req, const char *field, const struct field_strings *cidrs,
                              const struct field_strings *role)
{
    TRY(approle_check_cidrs(req, field, cidrs));
    for (size_t i = 0; i < cidrs->n && role->n != 0; i++) {
        struct cidr inner, outer;
        bool found = false;
        if (cidr_parse(bytes_str(cidrs->items[i]), &inner) != ST_OK)
            return ST_CORRUPT; /* checked above */
        for (size_t k = 0; k < role->n && !found; k++)
            found = cidr_parse(bytes_str(role->items[k]), &outer) == ST_OK &&
                    outer.bits <= inner.bits && cidr_holds(&outer, &inner.ip);
        if (!found)
            return req_fail(req, ST_INVALID, "%s: \"%.80s\" is not part of those of the role",
                            field, cidrs->items[i]);
    }
    return ST_OK;
}

static enum status check_limits(struct req *req, const struct secret_in *in,
                                const struct approle_role *role)
{
    if (in->has_uses && in->num_uses < 0)
        return req_fail(req, ST_INVALID, "num_uses: cannot be negative");
    if (in->has_uses && role->secret_id_num_uses != 0 &&
        (in->num_uses == 0 || in->num_uses > role->secret_id_num_uses))
        return req_fail(req, ST_INVALID,
                        "num_uses cannot be higher than the role's "
                        "secret_id_num_uses");
    if (in->has_ttl && role->secret_id_ttl != 0 && (in->ttl == 0 || in->ttl > role->secret_id_ttl))
        return req_fail(req, ST_INVALID, "ttl cannot be longer than the role's secret_id_ttl");
    TRY(check_part(req, "cidr_list", &in->cidr_list, &role->secret_id_bound_cidrs));
    return check_part(req, "token_bound_cidrs", &in->token_bound_cidrs,
                      &role->role.token_bound_cidrs);
}

static enum status secret_id_make(struct req *req, const char *secret_id)
{
    const struct secret_in *in = req_body(req);
    struct approle_secret secret, other;
    struct approle_role role;
    const char *name;
    char accessor[TEXT_UUID_LEN + 1], mac[APPROLE_MAC_LEN + 1];
    TRY(approle_name(req, &name));
    enum status st = approle_load(req, req->mount, name, &role);
    if (st == ST_NOT_FOUND)
        return req_fail(req, st, "role \"%.100s\" does not exist", name);
    TRY(st);
    if (!role.bind_secret_id)
        return req_fail(req, ST_INVALID, "bind_secret_id is not set on the role");
    TRY(check_limits(req, in, &role));
    text_uuid(req->env, accessor);
    int64_t ttl_s = in->has_ttl ? in->ttl : role.secret_id_ttl;
    secret = (struct approle_secret){
        .accessor = arena_str(req->arena, bytes_str(accessor)),
        .cidrs = in->cidr_list,
        .token_cidrs = in->token_bound_cidrs,
        .uses = in->has_uses ? in->num_uses : role.secret_id_num_uses,
        .ttl_s = ttl_s,
        .created_ms = MAX(req->now_ms, INT64_C(0)),
        .updated_ms = MAX(req->now_ms, INT64_C(0)),
        .expire_ms = ttl_s != 0 ? MAX(req->now_ms, INT64_C(0)) + 1000 * ttl_s : 0,
    };
    if (secret.accessor == NULL)
        return ST_NOMEM;
    TRY(read_metadata(req, in->metadata, &secret.metadata));
    TRY(approle_mac(req, name, secret_id, mac));
    st = approle_secret_load(req, name, mac, &other);
    if (st == ST_OK)
        return req_fail(req, ST_INVALID, "SecretID is already registered");
    if (st != ST_NOT_FOUND)
        return st;
    TRY(approle_secret_save(req, name, mac, &secret));
    req->reply.accessor = secret.accessor;
    const struct secret_out out = {secret_id, secret.accessor, secret.ttl_s, secret.uses};
    return req_reply(req, &out);
}

static enum status secret_make(struct req *req)
{
    char uuid[TEXT_UUID_LEN + 1];
    text_uuid(req->env, uuid);
    return secret_id_make(req, uuid);
}

static enum status secret_custom(struct req *req)
{
    const struct secret_in *in = req_body(req);
    size_t len = strlen(in->secret_id);
    if (len == 0)
        return req_fail(req, ST_INVALID, "missing secret_id");
    if (len > APPROLE_SECRET_MAX)
        return req_fail(req, ST_INVALID, "secret_id: longer than %d bytes", APPROLE_SECRET_MAX);
    return secret_id_make(req, in->secret_id);
}

static enum status secret_list(struct req *req)
{
    struct bytes prefix;
    const char *name;
    TRY(approle_name(req, &name));
    TRY(secret_key(req, "accessor", name, "", &prefix));
    return req_reply_listing(req, prefix);
}

/* Looking up and ending secret ids */

struct named_in {
    const char *secret_id, *accessor;
};
static const struct field by_secret_fields[] = {
    FIELD(struct named_in, secret_id, STRING, .preset = "", .hidden = true,
          .help = "The secret id."),
};
static const struct schema by_secret_schema = SCHEMA(struct named_in, by_secret_fields);
static const struct field by_accessor_fields[] = {
    FIELD_NAMED("secret_id_accessor", struct named_in, accessor, STRING, .preset = "",
                .help = "The accessor of the secret id."),
};
static const struct schema by_accessor_schema = SCHEMA(struct named_in, by_accessor_fields);

struct lookup_out {
    const char *accessor;
    struct field_strings cidrs, token_cidrs;
    struct field_map metadata;
    int64_t created_ms, expire_ms, updated_ms, uses, ttl;
};
static const struct field lookup_fields[] = {
    FIELD_NAMED("cidr_list", struct lookup_out, cidrs, STRINGS),
    FIELD_NAMED("creation_time", struct lookup_out, created_ms, TIME),
    FIELD_NAMED("expiration_time", struct lookup_out, expire_ms, TIME),
    FIELD_NAMED("last_updated_time", struct lookup_out, updated_ms, TIME),
    FIELD(struct lookup_out, metadata, MAP),
    FIELD_NAMED("secret_id_accessor", struct lookup_out, accessor, STRING),
    FIELD_NAMED("secret_id_num_uses", struct lookup_out, uses, INT),
    FIELD_NAMED("secret_id_ttl", struct lookup_out, ttl, INT),
    FIELD_NAMED("token_bound_cidrs", struct lookup_out, token_cidrs, STRINGS),
};
static const struct schema lookup_schema = SCHEMA(struct lookup_out, lookup_fields);

struct found {
    const char *role;
    char mac[APPROLE_MAC_LEN + 1];
    struct approle_secret secret;
};

static enum status find_by_secret(struct req *req, struct found *ret)
{
    const struct named_in *in = req_body(req);
    if (in->secret_id[0] == '\0')
        return req_fail(req, ST_INVALID, "missing secret_id");
    if (strlen(in->secret_id) > APPROLE_SECRET_MAX)
        return ST_NOT_FOUND;
    TRY(approle_mac(req, ret->role, in->secret_id, ret->mac));
    return approle_secret_load(req, ret->role, ret->mac, &ret->secret);
}

static enum status find_by_accessor(struct req *req, struct found *ret)
{
    const struct named_in *in = req_body(req);
    struct state_value stored;
    struct bytes key;
    if (in->accessor[0] == '\0')
        return req_fail(req, ST_INVALID, "missing secret_id_accessor");
    if (strlen(in->accessor) != TEXT_UUID_LEN)
        return ST_NOT_FOUND;
    TRY(secret_key(req, "accessor", ret->role, in->accessor, &key));
    TRY(state_get(req->txn, key, &stored));
    if (stored.value.len != APPROLE_MAC_LEN)
        return ST_CORRUPT;
    memcpy(ret->mac, stored.value.data, APPROLE_MAC_LEN);
    ret->mac[APPROLE_MAC_LEN] = '\0';
    return approle_secret_load(req, ret->role, ret->mac, &ret->secret);
}

static enum status secret_id_find(struct req *req, struct found *ret,
                                  enum status (*by)(struct req *req, struct found *ret))
{
    struct approle_role role;
    TRY(approle_name(req, &ret->role));
    enum status st = approle_load(req, req->mount, ret->role, &role);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID, "role \"%.100s\" does not exist", ret->role);
    TRY(st);
    TRY(by(req, ret));
    bool ended = ret->secret.expire_ms != 0 && req->now_ms >= ret->secret.expire_ms;
    return ended ? ST_NOT_FOUND : ST_OK;
}

static enum status reply_found(struct req *req, const struct approle_secret *secret)
{
    const struct lookup_out out = {
        .accessor = secret->accessor,
        .cidrs = secret->cidrs,
        .token_cidrs = secret->token_cidrs,
        .metadata = secret->metadata,
        .created_ms = secret->created_ms,
        .expire_ms = secret->expire_ms != 0 ? secret->expire_ms : TEXT_TIME_FIRST,
        .updated_ms = secret->updated_ms,
        .uses = secret->uses,
        .ttl = secret->ttl_s,
    };
    return req_reply(req, &out);
}

static enum status secret_lookup(struct req *req)
{
    struct found found;
    enum status st = secret_id_find(req, &found, find_by_secret);
    if (st == ST_NOT_FOUND)
        return ST_OK; /* 204 */
    TRY(st);
    return reply_found(req, &found.secret);
}

static enum status unknown_accessor(struct req *req)
{
    return req_fail(req, ST_NOT_FOUND, "failed to find accessor entry for secret_id_accessor");
}

static enum status accessor_lookup(struct req *req)
{
    struct found found;
    enum status st = secret_id_find(req, &found, find_by_accessor);
    if (st == ST_NOT_FOUND)
        return unknown_accessor(req);
    TRY(st);
    return reply_found(req, &found.secret);
}

static enum status secret_destroy(struct req *req)
{
    struct found found;
    enum status st = secret_id_find(req, &found, find_by_secret);
    if (st == ST_NOT_FOUND)
        return ST_OK;
    TRY(st);
    return approle_secret_drop(req, found.role, found.mac, &found.secret);
}

static enum status accessor_destroy(struct req *req)
{
    struct found found;
    enum status st = secret_id_find(req, &found, find_by_accessor);
    if (st == ST_NOT_FOUND)
        return unknown_accessor(req);
    TRY(st);
    return approle_secret_drop(req, found.role, found.mac, &found.secret);
}

/* Delete secret ids that have expired. `rest` is ROLE/MAC. */
static enum status tidy_one(struct req *req, struct bytes rest, size_t *n)
{
    struct approle_secret secret;
    const uint8_t *slash = memrchr(rest.data, '/', rest.len);
    if (slash == NULL)
        return ST_CORRUPT;
    size_t len = (size_t)(slash - rest.data);
    const char *role = arena_str(req->arena, bytes_of(rest.data, len));
    const char *mac = arena_str(req->arena, bytes_from(rest, len + 1));
    if (role == NULL || mac == NULL)
        return ST_NOMEM;
    TRY(approle_secret_load(req, role, mac, &secret));
    if (secret.expire_ms == 0 || req->now_ms < secret.expire_ms)
        return ST_OK;
    (*n)++;
    return approle_secret_drop(req, role, mac, &secret);
}

static enum status secret_tidy(struct req *req)
{
    struct state_walk walk;
    struct bytes prefix;
    size_t n = 0, looked = 0;
    TRY(req_key(req, "secret/", &prefix));
    state_walk(req->txn, prefix, &walk);
    while (n < TIDY_MAX && looked++ < 10 * TIDY_MAX && state_walk_next(&walk))
        TRY(tidy_one(req, bytes_from(walk.key, prefix.len), &n));
    req->reply.http = 202;
    req_warn(req, "%zu expired secret ids were deleted. They could not be used before either.", n);
    return ST_OK;
}

#define NAMED(last, schema, function, what)                                        \
    {                                                                              \
        .method = METHOD_POST, .path = "role/:role@/" last, .handler = (function), \
        .body = (schema), .help = (what)                                           \
    }
#define DESTROYS(last, schema, function, what)                                       \
    NAMED(last, schema, function, what),                                             \
    {                                                                                \
        .method = METHOD_DELETE, .path = "role/:role@/" last, .handler = (function), \
        .body = (schema), .help = (what)                                             \
    }

static const struct route secret_routes[] = {
    {.method = METHOD_POST,
     .path = "role/:role@/secret-id",
     .handler = secret_make,
     .body = &secret_in_schema,
     .reply = &secret_out_schema,
     .help = "Make a secret id of a role."},
    {.method = METHOD_LIST,
     .path = "role/:role@/secret-id",
     .handler = secret_list,
     .help = "The accessors of the secret ids of a role."},
    {.method = METHOD_POST,
     .path = "role/:role@/custom-secret-id",
     .handler = secret_custom,
     .body = &custom_schema,
     .reply = &secret_out_schema,
     .help = "Take a secret id that the client chose."},
    {.method = METHOD_POST,
     .path = "role/:role@/secret-id/lookup",
     .handler = secret_lookup,
     .flags = ROUTE_READS,
     .body = &by_secret_schema,
     .reply = &lookup_schema,
     .statuses = "200 204",
     .help = "What is known of a secret id. An unknown one: 204."},
    {.method = METHOD_POST,
     .path = "role/:role@/secret-id-accessor/lookup",
     .handler = accessor_lookup,
     .flags = ROUTE_READS,
     .body = &by_accessor_schema,
     .reply = &lookup_schema,
     .help = "What is known of the secret id of an accessor."},
    DESTROYS("secret-id/destroy", &by_secret_schema, secret_destroy, "End a secret id."),
    DESTROYS("secret-id-accessor/destroy", &by_accessor_schema, accessor_destroy,
             "End the secret id of an accessor."),
    {.method = METHOD_POST,
     .path = "tidy/secret-id",
     .handler = secret_tidy,
     .statuses = "202",
     .help = "Delete secret ids that have expired."},
};
const struct route_table approle_secret_table = {secret_routes, ARRAY_LEN(secret_routes)};
