/* Keys that clients bring: the wrapping key of a mount, and transformations with a given key.
 *
 * The handler reads the state, the step outside opens the message or makes the wrapping key on the
 * pool, and `finish` stores the result. */
#include "api/transform/transform.h"
#include "api/transform/transform_token.h"
#include "base/mem.h"
#include "crypto/wrap_key.h"
#include "state/state_record.h"
#include "text/encode.h"

#include <assert.h>

static_assert((int)WRAP_KEY_BYTES == (int)TRANSFORM_KEY_BYTES, "a key that is brought fits");

#define WRAPPING_KEY "wrapping-key"

struct wrapping_key {
    struct bytes saved;
    const char *pem;
};
static const struct record_field wrapping_fields[] = {
    RECORD_FIELD(struct wrapping_key, saved, BLOCK, .min = 1, .max = WRAP_KEY_SAVED_MAX,
                 .secret = true, .help = "RSA in the DER form of PKCS #8"),
    RECORD_FIELD(struct wrapping_key, pem, TEXT, .max = WRAP_KEY_PEM_MAX, .help = "the public key"),
};
static const struct record wrapping_record = {
    RECORD(struct wrapping_key, wrapping_fields), .name = "transform/wrapping-key",
    .where = "Key `wrapping-key` of a mount of the transform engine", .newest = 1};
RECORD_LISTED(wrapping_record);

struct wrapping_out {
    const char *public_key;
};
static const struct field wrapping_out_fields[] = {
    FIELD(struct wrapping_out, public_key, STRING, .help = "RSA with 4096 bits, in PEM form."),
};
static const struct schema wrapping_schema = SCHEMA(struct wrapping_out, wrapping_out_fields);

static enum status load_wrapping(struct req *req, struct wrapping_key *ret_key)
{
    struct bytes key;
    TRY(req_key(req, WRAPPING_KEY, &key));
    return state_get_record(req->txn, key, &wrapping_record, ret_key);
}

static enum status reply_wrapping(struct req *req, const struct wrapping_key *key)
{
    const struct wrapping_out out = {key->pem};
    return req_reply(req, &out);
}

static enum status wrapping_read(struct req *req)
{
    struct wrapping_key key;
    enum status st = load_wrapping(req, &key);
    if (st == ST_NOT_FOUND) /* the first request makes the key */
        return req_need_feature(req, TRANSFORM_TOKEN_FEATURE);
    TRY(st);
    req_skip_outside(req);
    return reply_wrapping(req, &key);
}

static enum status wrapping_outside(struct req *req)
{
    CLEANUP(buf_done) struct buf saved = {0};
    CLEANUP(buf_done) struct buf pem = {0};
    struct wrapping_key *made = arena_zalloc(req->arena, sizeof *made);
    if (made == NULL)
        return ST_NOMEM;
    TRY(wrap_key_make(&saved, &pem));
    const uint8_t *copy = arena_dup(req->arena, buf_bytes(&saved));
    made->saved = bytes_of(copy, saved.len);
    made->pem = arena_str(req->arena, buf_bytes(&pem));
    req->prepared = made;
    return copy != NULL && made->pem != NULL ? ST_OK : ST_NOMEM;
}

/* Another request may have made the key meanwhile: then that one counts. */
static enum status wrapping_finish(struct req *req)
{
    const struct wrapping_key *made = req->prepared;
    struct wrapping_key stored;
    struct bytes key;
    ASSERT(made != NULL);
    enum status st = load_wrapping(req, &stored);
    if (st == ST_OK)
        return reply_wrapping(req, &stored);
    if (st != ST_NOT_FOUND)
        return st;
    TRY(req_key(req, WRAPPING_KEY, &key));
    TRY(state_put_record(req->txn, key, &wrapping_record, made));
    return reply_wrapping(req, made);
}

struct import_in {
    struct transform_transformation t;
    const char *ciphertext, *hash_function;
    bool allow_rotation;
};
#define IMPORT_FIELDS                                                                           \
    FIELD(struct import_in, ciphertext, STRING, .required = true, .hidden = true,               \
          .help =                                                                               \
              "Base64 of a random AES-256 key, encrypted by RSA-OAEP for wrapping_key, and of " \
              "the key that is brought, wrapped by AES-KWP with that key."),                    \
        FIELD(struct import_in, hash_function, STRING, .preset = "SHA256",                      \
              .help = "Of RSA-OAEP: SHA1, SHA224, SHA256, SHA384 or SHA512.")
#define BROUGHT_FIELDS                                                              \
    FIELD_NAMED("allowed_roles", struct import_in, t.allowed_roles, STRINGS,        \
                .help = "Names of roles; '*' stands for any characters."),          \
        FIELD_NAMED("deletion_allowed", struct import_in, t.deletion_allowed, BOOL, \
                    .has = offsetof(struct import_in, t.has_deletion_allowed),      \
                    .help = "Whether it may be deleted; it may, unless this is false.")

static const struct field version_fields[] = {IMPORT_FIELDS};
static const struct schema version_schema = SCHEMA(struct import_in, version_fields);
static const struct field fpe_fields[] = {
    IMPORT_FIELDS,
    BROUGHT_FIELDS,
    FIELD_NAMED("template", struct import_in, t.template, STRING, .help = "Name of the template."),
    FIELD_NAMED("tweak_source", struct import_in, t.tweak_source, STRING,
                .help = "supplied, generated or internal."),
    FIELD_NAMED("fpe_algorithm", struct import_in, t.fpe_algorithm, STRING,
                .help = "ff3-1 or ff1. Without it, the configuration decides."),
};
static const struct schema fpe_schema = SCHEMA(struct import_in, fpe_fields);
static const struct field token_fields[] = {
    IMPORT_FIELDS,
    BROUGHT_FIELDS,
    FIELD(struct import_in, allow_rotation, BOOL,
          .help = "Whether the server may add versions of its own. The first one ends imports."),
    FIELD_NAMED("convergent", struct import_in, t.convergent, BOOL,
                .has = offsetof(struct import_in, t.has_convergent),
                .help = "Must be false: keys that are brought make no convergent tokens."),
    FIELD_NAMED("mapping_mode", struct import_in, t.mapping_mode, STRING,
                .help = "default or exportable."),
    FIELD_NAMED("max_ttl", struct import_in, t.max_ttl, DURATION, .exact = true,
                .has = offsetof(struct import_in, t.has_max_ttl),
                .help = "How long a token is valid at most; 0: without an end."),
    FIELD_NAMED("stores", struct import_in, t.stores, STRINGS,
                .help = "Where tokens are kept: builtin/internal, or names of stores."),
};
static const struct schema token_schema = SCHEMA(struct import_in, token_fields);

/* A message to open outside. */
struct work {
    struct bytes saved, message;
    uint8_t key[WRAP_KEY_BYTES];
};

static enum status plan_open(struct req *req)
{
    const struct import_in *in = req_body(req);
    struct work *work = arena_zalloc(req->arena, sizeof *work);
    struct wrapping_key wrapping;
    size_t len = strlen(in->ciphertext);
    if (!wrap_key_knows(in->hash_function))
        return req_fail(req, ST_INVALID,
                        "hash_function: SHA1, SHA224, SHA256, SHA384 or SHA512 is expected");
    uint8_t *message = arena_alloc(req->arena, TEXT_BASE64_BYTES(len));
    if (work == NULL || message == NULL)
        return ST_NOMEM;
    if (text_base64_parse(bytes_str(in->ciphertext), message, &len) != ST_OK ||
        len != WRAP_KEY_MESSAGE)
        return req_fail(req, ST_INVALID, "ciphertext: base64 of %d bytes is expected",
                        WRAP_KEY_MESSAGE);
    enum status st = load_wrapping(req, &wrapping);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID,
                        "ciphertext: the mount has no wrapping key yet: read wrapping_key first");
    TRY(st);
    work->saved = wrapping.saved;
    work->message = bytes_of(message, len);
    req->prepared = work;
    return ST_OK;
}

static enum status open_outside(struct req *req)
{
    const struct import_in *in = req_body(req);
    struct work *work = req->prepared;
    ASSERT(work != NULL);
    enum status st = wrap_key_open(work->saved, in->hash_function, work->message, work->key);
    if (st == ST_INVALID)
        return req_fail(req, st,
                        "ciphertext: it was not made with wrapping_key and hash_function for a key "
                        "of 32 bytes");
    return st;
}

/* A transformation that exists keeps its key. */
static enum status check_new(struct req *req)
{
    const char *name;
    TRY(transform_own_name(req, &name));
    enum status st = transform_exists(req, TRANSFORM_TRANSFORMATION);
    if (st == ST_OK)
        return req_fail(req, ST_INVALID, "name: the transformation \"%s\" exists", name);
    return st == ST_NOT_FOUND ? ST_OK : st;
}

static enum status new_check(struct req *req)
{
    TRY(check_new(req));
    return plan_open(req);
}

static enum status fpe_finish(struct req *req)
{
    const struct import_in *in = req_body(req);
    const struct work *work = req->prepared;
    TRY(check_new(req));
    return transform_write(req, TRANSFORM_FPE, &in->t, work->key);
}

static enum status token_check(struct req *req)
{
    const struct import_in *in = req_body(req);
    if (in->t.convergent)
        return req_fail(req, ST_INVALID,
                        "convergent: keys that are brought make no convergent tokens");
    return new_check(req);
}

static enum status token_finish(struct req *req)
{
    const struct import_in *in = req_body(req);
    const struct work *work = req->prepared;
    struct transform_ring ring;
    TRY(check_new(req));
    TRY(transform_write(req, TRANSFORM_TOKENIZATION, &in->t, work->key));
    if (!in->allow_rotation)
        return ST_OK;
    const char *name = req_param(req, "name");
    enum status st = transform_ring_load(req, name, &ring);
    ring.allow_rotation = true;
    if (st == ST_OK)
        st = transform_ring_save(req, name, &ring);
    mem_wipe(&ring, sizeof ring);
    return st;
}

/* The keys of the transformation, which take further versions from clients. */
static enum status load_imported(struct req *req, struct transform_ring *ring)
{
    const char *name = req_param(req, "name");
    enum status st = transform_ring_load(req, name, ring);
    if (st == ST_NOT_FOUND)
        return req_fail(req, ST_INVALID, "no transformation \"%.140s\" by tokenization exists",
                        name);
    TRY(st);
    if (ring->imported)
        return ST_OK;
    return req_fail(req, ST_INVALID,
                    "the key was made by the server, or the server has rotated it since");
}

static enum status version_check(struct req *req)
{
    struct transform_ring ring;
    enum status st = load_imported(req, &ring);
    mem_wipe(&ring, sizeof ring);
    return st == ST_OK ? plan_open(req) : st;
}

static enum status version_finish(struct req *req)
{
    const struct work *work = req->prepared;
    struct transform_ring ring;
    enum status st = load_imported(req, &ring);
    if (st == ST_OK)
        st = transform_ring_add(req, req_param(req, "name"), &ring, work->key);
    mem_wipe(&ring, sizeof ring);
    return st;
}

static const struct route import_routes[] = {
    {.method = METHOD_GET,
     .path = "wrapping_key",
     .handler = wrapping_read,
     .outside = wrapping_outside,
     .finish = wrapping_finish,
     .place = PLACE_ACTIVE,
     .reply = &wrapping_schema,
     .help = "The public key for keys that clients bring. The first request makes the key."},
    {.method = METHOD_POST,
     .path = "transformations/fpe/*name/import",
     .handler = new_check,
     .outside = open_outside,
     .finish = fpe_finish,
     .feature = TRANSFORM_TOKEN_FEATURE,
     .body = &fpe_schema,
     .help = "Create a transformation by format-preserving encryption with a key that is brought."},
    {.method = METHOD_POST,
     .path = "transformations/tokenization/*name/import",
     .handler = token_check,
     .outside = open_outside,
     .finish = token_finish,
     .feature = TRANSFORM_TOKEN_FEATURE,
     .body = &token_schema,
     .help = "Create a transformation by tokenization with a key that is brought."},
    {.method = METHOD_POST,
     .path = "transformations/tokenization/*name/import_version",
     .handler = version_check,
     .outside = open_outside,
     .finish = version_finish,
     .feature = TRANSFORM_TOKEN_FEATURE,
     .body = &version_schema,
     .help = "Add a version to a key that was brought."},
};
const struct route_table transform_import_table = {import_routes, ARRAY_LEN(import_routes)};
