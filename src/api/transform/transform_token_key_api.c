/* The keys of transformations by tokenization: read, list, rotate, configure, trim. */
#include "api/transform/transform.h"
#include "api/transform/transform_token.h"
#include "base/mem.h"

enum { ROTATE_MIN_S = 3600, TRIM_MAX = 1000 };

struct key_out {
    const char *name;
    int64_t latest_version, min_available_version, min_decryption_version, auto_rotate_period;
    bool imported_key;
};
static const struct field key_fields[] = {
    FIELD(struct key_out, auto_rotate_period, DURATION,
          .help = "Seconds between two rotations by the server; 0: it does not rotate."),
    FIELD(struct key_out, imported_key, BOOL, .omit = true,
          .help = "True: clients bring the versions of the key."),
    FIELD(struct key_out, latest_version, INT, .help = "The version that new tokens use."),
    FIELD(struct key_out, min_available_version, INT,
          .help = "Older versions were trimmed; 0: none was."),
    FIELD(struct key_out, min_decryption_version, INT,
          .help = "Tokens with older versions are not decoded."),
    FIELD(struct key_out, name, STRING, .help = "Name of the transformation."),
};
static const struct schema key_schema = SCHEMA(struct key_out, key_fields);

struct config_in {
    int64_t min_decryption_version, auto_rotate_period;
    bool has_min, has_period;
};
static const struct field config_fields[] = {
    FIELD(struct config_in, auto_rotate_period, DURATION, .exact = true,
          .has = offsetof(struct config_in, has_period),
          .help = "Time between two rotations by the server: 1h or more; 0: it does not rotate."),
    FIELD(struct config_in, min_decryption_version, INT, .exact = true,
          .has = offsetof(struct config_in, has_min),
          .help = "Tokens with older versions are not decoded: from 1 or the oldest version there "
                  "is to the latest."),
};
static const struct schema key_config_schema = SCHEMA(struct config_in, config_fields);

struct trim_in {
    int64_t min_available_version;
};
static const struct field trim_fields[] = {
    FIELD(struct trim_in, min_available_version, INT, .required = true, .exact = true,
          .help = "Older versions are deleted for good; min_decryption_version at most."),
};
static const struct schema trim_schema = SCHEMA(struct trim_in, trim_fields);

/* The keys of the transformation in the path, for a change. */
static enum status load_ring(struct req *req, const char **ret_name, struct transform_ring *ring)
{
    const char *name = req_param(req, "name");
    enum status st = transform_ring_load(req, name, ring);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID, "no transformation \"%.140s\" by tokenization exists",
                        name);
    *ret_name = name;
    return st;
}

static void ring_wipe(struct transform_ring *ring)
{
    mem_wipe(ring, sizeof *ring);
}

static enum status key_read(struct req *req)
{
    CLEANUP(ring_wipe) struct transform_ring ring = {.latest = 0};
    const char *name = req_param(req, "name");
    TRY(transform_ring_load(req, name, &ring));
    const struct key_out out = {.name = name,
                                .latest_version = ring.latest,
                                .min_available_version = ring.min_available,
                                .min_decryption_version = ring.min_decryption,
                                .auto_rotate_period = ring.auto_rotate_s,
                                .imported_key = ring.imported};
    return req_reply(req, &out);
}

static enum status key_list(struct req *req)
{
    struct bytes prefix;
    TRY(req_key(req, "tokens/", &prefix));
    return req_reply_listing(req, prefix);
}

static enum status key_rotate(struct req *req)
{
    CLEANUP(ring_wipe) struct transform_ring ring = {.latest = 0};
    const char *name = NULL;
    TRY(load_ring(req, &name, &ring));
    return transform_ring_rotate(req, name, &ring);
}

static enum status key_config(struct req *req)
{
    CLEANUP(ring_wipe) struct transform_ring ring = {.latest = 0};
    const struct config_in *in = req_body(req);
    const char *name = NULL;
    TRY(load_ring(req, &name, &ring));
    if (in->has_min) {
        int64_t least = MAX(ring.min_available, UINT32_C(1));
        if (in->min_decryption_version < least || in->min_decryption_version > ring.latest)
            return req_fail(req, ST_INVALID,
                            "min_decryption_version: %lld to %u is expected, which are the oldest "
                            "and the latest version",
                            (long long)least, ring.latest);
        ring.min_decryption = (uint32_t)in->min_decryption_version;
    }
    if (in->has_period) {
        if (in->auto_rotate_period != 0 && in->auto_rotate_period < ROTATE_MIN_S)
            return req_fail(req, ST_INVALID,
                            "auto_rotate_period: 1h or more is expected, or 0 for no rotation");
        if (in->auto_rotate_period != 0 && ring.imported && !ring.allow_rotation)
            return req_fail(req, ST_INVALID,
                            "auto_rotate_period: allow_rotation is false for this key, which a "
                            "client brought");
        TRY(transform_ring_schedule(req, name, &ring, in->auto_rotate_period));
    }
    return transform_ring_save(req, name, &ring);
}

static enum status key_trim(struct req *req)
{
    CLEANUP(ring_wipe) struct transform_ring ring = {.latest = 0};
    const struct trim_in *in = req_body(req);
    int64_t least = in->min_available_version;
    const char *name = NULL;
    TRY(load_ring(req, &name, &ring));
    if (least < 1 || least < ring.min_available)
        return req_fail(req, ST_INVALID, "min_available_version: %u at least is expected",
                        MAX(ring.min_available, UINT32_C(1)));
    if (least > ring.min_decryption)
        return req_fail(req, ST_INVALID,
                        "min_available_version: %u at most is expected, which is "
                        "min_decryption_version: raise that first",
                        ring.min_decryption);
    if (least - ring.min_available > TRIM_MAX)
        return req_fail(req, ST_INVALID, "min_available_version: %d versions at most in a request",
                        TRIM_MAX);
    return transform_ring_trim(req, name, &ring, (uint32_t)least);
}

static const struct route key_routes[] = {
    {.method = METHOD_LIST,
     .path = "tokenization/keys",
     .handler = key_list,
     .feature = TRANSFORM_TOKEN_FEATURE,
     .help = "The names of all transformations by tokenization."},
    {.method = METHOD_GET,
     .path = "tokenization/keys/+name",
     .handler = key_read,
     .feature = TRANSFORM_TOKEN_FEATURE,
     .reply = &key_schema,
     .help = "Read the versions of the key of a transformation. No key is shown."},
    {.method = METHOD_POST,
     .path = "tokenization/keys/*name/rotate",
     .handler = key_rotate,
     .feature = TRANSFORM_TOKEN_FEATURE,
     .help =
         "Add a version of the key. New tokens use it; tokens with older versions still decode."},
    {.method = METHOD_POST,
     .path = "tokenization/keys/*name/config",
     .handler = key_config,
     .feature = TRANSFORM_TOKEN_FEATURE,
     .body = &key_config_schema,
     .help = "Set which versions decode, and how often the server adds a version."},
    {.method = METHOD_POST,
     .path = "tokenization/keys/*name/trim",
     .handler = key_trim,
     .feature = TRANSFORM_TOKEN_FEATURE,
     .body = &trim_schema,
     .help = "Delete old versions of the key. Their tokens can never be decoded again."},
};
const struct route_table transform_token_key_table = {key_routes, ARRAY_LEN(key_routes)};
